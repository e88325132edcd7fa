//! Members of archives as if they were records.

use crate::archive::{Member, MemberKind};
use crate::pack::format::attributes::{
    Attributes, FileKind, GROUP_ID, KIND, MODE, MTIME_NS, NAMES, Name, USER_ID, Value, XATTRS,
};
use crate::pack::{self, Key, RecordHead};

/// The kind that a member has as a record; `None` for what packs do not hold.
pub fn kind(member: &Member<'_>) -> Option<FileKind> {
    Some(match member.kind {
        MemberKind::File => FileKind::File,
        MemberKind::Directory => FileKind::Directory,
        MemberKind::Symlink => FileKind::Symlink,
        MemberKind::HardLink => FileKind::HardLink,
        MemberKind::Other => return None,
    })
}

/// The attributes that packing the unpacked member would give.
pub fn attributes(member: &Member<'_>, with_owner: bool) -> Attributes {
    let mut all = Attributes::new();
    let mut set = |id, value: Option<Value>| {
        if let Some(value) = value {
            all.set(Name::Id(id), value);
        }
    };
    set(KIND, kind(member).map(|kind| Value::U8(kind.code())));
    set(MODE, member.mode.map(Value::U32));
    set(MTIME_NS, member.mtime_ns.map(Value::I64));
    let owner = member.owner.filter(|_| with_owner);
    set(USER_ID, owner.map(|(user, _)| Value::U32(user)));
    set(GROUP_ID, owner.map(|(_, group)| Value::U32(group)));
    set(NAMES, (member.names > 1).then_some(Value::U32(member.names)));
    // Those of a hard link are those of its file.
    let has_own = !member.xattrs.is_empty() && member.kind != MemberKind::HardLink;
    set(XATTRS, has_own.then(|| Value::Bytes(member.xattrs.to_vec())));
    all
}

/// A member as if it were a record: later members have higher sequence numbers.
///
/// # Errors
/// Never for members of an open archive, whose keys are short enough.
pub fn head(member: &Member<'_>) -> Result<RecordHead, pack::Error> {
    Ok(RecordHead {
        key: Key::bytes(member.key)?,
        attributes: attributes(member, true),
        body_len: Some(member.len),
        sequence: member.header_at,
        time_ns: member.mtime_ns.unwrap_or(0),
        segment: 0,
        offset: member.header_at,
    })
}
