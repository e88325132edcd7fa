//! Members of archives as if they were records.

use crate::archive::Member;
use crate::pack::format::attributes::{Attributes, FileKind};
use crate::pack::tree::NewRecord;
use crate::pack::{self, Key, RecordHead};
use crate::tree::{Holes, Node, Xattrs};

/// The kind that a node has as a record, under its first name or a further one; `None` for what
/// packs do not hold.
pub(super) fn kind_of(node: &Node, is_hard_link: bool) -> Option<FileKind> {
    match FileKind::of_kind(node.kind) {
        Some(FileKind::File) if is_hard_link => Some(FileKind::HardLink),
        kind => kind,
    }
}

/// The kind that a member has as a record; `None` for what packs do not hold.
pub fn kind(member: &Member<'_>) -> Option<FileKind> {
    kind_of(&member.node, member.is_hard_link)
}

/// The attributes that packing the unpacked member would give, but for those of the inode.
pub(super) fn attributes(
    (node, is_hard_link): (&Node, bool),
    (xattrs, holes): (&Xattrs, &Holes),
    with_owner: bool,
) -> Attributes {
    match kind_of(node, is_hard_link) {
        Some(kind) => NewRecord { kind, node, inode: None, xattrs, holes }.attributes(with_owner),
        None => {
            let owner = node.owner.filter(|_| with_owner);
            let mut all = Attributes::of_node(None, &Node { owner, ..*node });
            all.set_xattrs(xattrs);
            all
        }
    }
}

/// A member as if it were a record: later members have higher sequence numbers.
///
/// # Errors
/// Never for members of an open archive, whose keys are short enough.
pub fn head(member: &Member<'_>) -> Result<RecordHead, pack::Error> {
    let (xattrs, holes) = (Xattrs::decode(member.xattrs), Holes::default());
    Ok(RecordHead {
        key: Key::bytes(member.key)?,
        attributes: attributes((&member.node, member.is_hard_link), (&xattrs, &holes), true),
        body_len: Some(member.node.len),
        sequence: member.header_at,
        time_ns: member.node.mtime_ns.unwrap_or(0),
        segment: 0,
        offset: member.header_at,
    })
}
