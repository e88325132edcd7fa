//! What the commands share when they are given an archive instead of a pack: opening, remarks, members as records.
//!
//! Only remarks are printed here; results are the commands'.

use std::path::Path;

use stook::archive::{Archive, Member, MemberKind, OpenOptions, Origin};
use stook::pack::format::attributes::{Attributes, FileKind, KIND, MODE, MTIME_NS, NAMES, Name, Value};
use stook::pack::format::attributes::{GROUP_ID, USER_ID};
use stook::pack::{Key, RecordHead};

use crate::context::Context;
use crate::exit::UsageError;
use crate::interrupt::{Interrupted, interrupted};
use crate::progress::Unit;

/// Opens what is no directory as an archive, and remarks on its index; `None` for what can only be a pack.
///
/// # Errors
/// When it is no archive, or damaged.
pub fn open(path: &Path, context: &Context) -> anyhow::Result<Option<Archive>> {
    // What is not there is told by whoever looks for a pack.
    if !std::fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
        return Ok(None);
    }
    let len = std::fs::metadata(path).map_or(0, |found| found.len());
    let bar = context.progress("indexing", Unit::Bytes, Some(len));
    let opened = Archive::open_with(path, OpenOptions::default(), &mut |bytes| {
        bar.add(bytes.saturating_sub(bar.done()));
        !interrupted()
    });
    drop(bar);
    let archive = match opened {
        Err(stook::archive::Error::Interrupted) => return Err(Interrupted.into()),
        opened => opened?,
    };
    remark(&archive, context);
    Ok(Some(archive))
}

fn remark(archive: &Archive, context: &Context) {
    let index = archive.index_path();
    if let Origin::Made { useless, not_kept } = archive.origin() {
        if let Some(why) = useless {
            context.remark(format_args!("{} was not used, and made anew: {why}.", index.display()));
        }
        if let Some(why) = not_kept {
            context.remark(format_args!("The index could not be kept as {}: {why}.", index.display()));
        }
    }
    if !archive.index().summary().has_end {
        context.remark(format_args!(
            "{} does not end as a {} does; something may have been cut off.",
            archive.path().display(),
            archive.format()
        ));
    }
}

/// A remark for whoever reads single members of what has no random access.
pub fn remark_if_sequential(archive: &Archive, context: &Context) {
    if archive.is_sequential() {
        context.remark(format_args!(
            "{} is compressed as a whole, so it is read from its front; `stook pack` makes a pack of it.",
            archive.path().display()
        ));
    }
}

/// Refuses options that only packs have.
///
/// # Errors
/// When one was given.
pub fn without(archive: &Archive, option: &str, is_given: bool) -> Result<(), UsageError> {
    match is_given {
        true => Err(UsageError::new(format!(
            "{option} is for packs, and {} is a {}",
            archive.path().display(),
            archive.format()
        ))),
        false => Ok(()),
    }
}

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
    all
}

/// A member as if it were a record: later members have higher sequence numbers.
///
/// # Errors
/// Never for members of an open archive, whose keys are short enough.
pub fn head(member: &Member<'_>) -> Result<RecordHead, stook::pack::Error> {
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
