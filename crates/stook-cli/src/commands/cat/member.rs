//! `stook cat ARCHIVE//MEMBER`: one member of an archive, or ranges of it, to stdout.

use std::ffi::OsStr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use stook::archive::{Archive, MemberKind};
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::ops::contents::{Contents as _, Found, GetOptions, Piece};
use stook::pack::{Key, Stop};
use stook::source::{read_batch, zeroes};

use super::{Args, BLOCK_LEN, within, write};
use crate::commands::get::files;
use crate::context::Context;
use crate::output::Output;
use crate::progress::{Progress, Unit};
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
    let mut ranges = within(&args.ranges, format!("{}//{key}", path.display()), member.node.len)?;
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
        None => {
            ranges.retain(|range| wants_all || !range.is_empty());
            // Ranges that ascend take one pass together.
            for ascending in ranges.chunk_by(|one, next| one.end() <= next.start()) {
                pass((archive, &key), ascending, wants_all, &mut output, &bar)?;
            }
        }
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes ranges that ascend and do not overlap, in one pass through the member: to its end, if all
/// of it is wanted, because its checksum is only there.
fn pass(
    (archive, key): (&Archive, &Key),
    mut wanted: &[ByteRange],
    wants_all: bool,
    output: &mut Output,
    bar: &Progress,
) -> anyhow::Result<()> {
    let (keys, options) =
        ([key.clone()], GetOptions { stop: Stop(interrupt::interrupted), ..GetOptions::default() });
    let mut getting = archive.get(&keys, &options)?;
    if let Some((_, Found::Failed(failure))) = getting.next()? {
        return Err(failure.into());
    }
    let mut at = 0_u64;
    loop {
        while let [first, rest @ ..] = wanted
            && first.end() <= at
        {
            wanted = rest;
        }
        if wanted.is_empty() && !wants_all {
            break;
        }
        interrupt::check()?;
        let (len, bytes) = match getting.piece()? {
            Piece::End => break,
            Piece::Failed(failure) => return Err(failure.into()),
            Piece::Bytes(bytes) => (bytes.len() as u64, Some(bytes)),
            Piece::Hole(len) => (len, None),
        };
        let piece = ByteRange::at(at, len).unwrap_or_default();
        for common in wanted.iter().map_while(|range| piece.intersection(range)) {
            match bytes {
                Some(bytes) => {
                    let from = (common.start() - at) as usize;
                    output.bytes(bytes.get(from..from + common.len() as usize).unwrap_or_default())?;
                }
                None => hole(common.len(), output)?,
            }
            bar.add(common.len());
        }
        at = piece.end();
    }
    // For an archive that is compressed as a whole, this reads its checksum.
    getting.next()?;
    Ok(())
}

fn hole(mut len: u64, output: &mut Output) -> anyhow::Result<()> {
    while len > 0 {
        interrupt::check()?;
        let some = zeroes(len);
        output.bytes(some)?;
        len -= some.len() as u64;
    }
    Ok(())
}
