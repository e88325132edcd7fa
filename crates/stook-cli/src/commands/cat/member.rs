//! `stook cat ARCHIVE//MEMBER`: one member of an archive, or ranges of it, to stdout.

use std::ffi::OsStr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use stook::archive::{Archive, MemberKind};
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::ops::contents::{ValueError, read_ranges};
use stook::pack::Stop;
use stook::source::read_batch;

use super::{Args, BLOCK_LEN, within, write};
use crate::commands::get::files;
use crate::context::Context;
use crate::progress::Unit;
use crate::{interrupt, packs};

/// Runs it. Ranges of a member whose bytes lie in the archive as they are, are read alone; of all
/// others, it is read from its beginning.
///
/// # Errors
/// Returns an error if there is no such member, it is a directory or damaged, a range begins past
/// its end, or stdout cannot be written.
pub(super) fn run(
    archive: &Archive,
    key: &OsStr,
    args: &Args,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let key = packs::parse_key(key)?;
    let path = archive.path();
    let found = key.as_bytes().and_then(|key| archive.find(key));
    let member = found.ok_or_else(|| anyhow!("{} has no member {key}", path.display()))?;
    if member.kind() == MemberKind::Directory {
        return Err(files::is_directory(path, &key));
    }
    let wants_all = args.ranges.is_empty();
    let ranges = within(&args.ranges, format!("{}//{key}", path.display()), member.node.len)?;
    let total: u64 = ranges.iter().map(ByteRange::len).sum();
    let bar = context.progress("reading", Unit::Bytes, Some(total));
    let mut output = context.output();
    let source = if wants_all { None } else { archive.source(&member)?.map(Arc::new) };
    match source {
        Some(source) => write(&ranges, BLOCK_LEN, &mut output, &bar, |batch| {
            let source = Arc::clone(&source);
            let read = move || read_batch(&Backend::Auto, &*source, &batch, Access::Cached);
            Ok(interrupt::wait_for(read)??.into_iter().map(Ok).collect())
        })?,
        None => read_ranges(
            archive,
            &key,
            &ranges,
            wants_all,
            Stop(interrupt::interrupted),
            &mut |piece| -> anyhow::Result<()> {
                interrupt::check()?;
                output.bytes(piece)?;
                bar.add(piece.len() as u64);
                Ok(())
            },
        )
        .map_err(by_itself)?,
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// An error of the member is shown as what it is: which member it is of, was typed.
fn by_itself(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<ValueError>() {
        Ok(ValueError::Entry { failure, .. }) => (*failure).into(),
        Ok(ValueError::Contents(error)) => error.into(),
        Ok(error) => error.into(),
        Err(error) => error,
    }
}
