//! `stook cat ARCHIVE//MEMBER`: one member of an archive, or ranges of it, to stdout.

use std::ffi::OsStr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use stook::archive::{Archive, Member, MemberKind};
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::ops::contents::{Contents as _, Found, GetOptions, Piece};
use stook::pack::{Key, Stop};
use stook::source::{Source, read_batch, zeroes};

use super::{Args, batches};
use crate::commands::get::files;
use crate::context::Context;
use crate::output::Output;
use crate::progress::{Progress, Unit};
use crate::{interrupt, packs};

/// Runs it. Ranges of a member whose bytes lie in the archive as they are, are read alone; of all
/// others, it is read from its beginning.
///
/// # Errors
/// When there is no such member, it is a directory or damaged, a range begins past its end, or
/// stdout cannot be written.
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
    if member.kind == MemberKind::Directory {
        return Err(files::is_directory(path, &key));
    }
    let ranges = within(args, archive, &member)?;
    let total: u64 = ranges.iter().map(ByteRange::len).sum();
    let bar = context.progress("reading", Unit::Bytes, Some(total));
    let mut output = context.output();
    let source = if args.ranges.is_empty() { None } else { archive.source(&member)? };
    match source {
        Some(source) => parts(Arc::new(source), &ranges, &mut output, &bar)?,
        // Ranges that ascend take one pass together.
        None => {
            for ascending in ranges.chunk_by(|one, next| one.end() <= next.start()) {
                pass((archive, &key), ascending, args.ranges.is_empty(), &mut output, &bar)?;
            }
        }
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// What is wanted, all of it within the member: checked before a byte is written.
fn within(args: &Args, archive: &Archive, member: &Member<'_>) -> anyhow::Result<Vec<ByteRange>> {
    if args.ranges.is_empty() {
        return Ok(vec![ByteRange::to(member.len)]);
    }
    let name = format!("{}//{}", archive.path().display(), Key::bytes(member.key)?);
    let ranges = args.ranges.iter().map(|span| span.within(&name, member.len));
    let mut ranges = ranges.collect::<anyhow::Result<Vec<ByteRange>>>()?;
    ranges.retain(|range| !range.is_empty());
    Ok(ranges)
}

/// Writes ranges of what can be read anywhere.
fn parts(
    source: Arc<dyn Source>,
    ranges: &[ByteRange],
    output: &mut Output,
    bar: &Progress,
) -> anyhow::Result<()> {
    for batch in batches(ranges) {
        let source = Arc::clone(&source);
        let read = move || read_batch(&Backend::Auto, &*source, &batch, Access::Cached);
        for bytes in interrupt::wait_for(read)?? {
            output.bytes(&bytes)?;
            bar.add(bytes.len() as u64);
        }
        output.flush()?;
    }
    Ok(())
}

/// Writes ranges that ascend and do not overlap, in one pass through the member: to its end, where
/// all of it is wanted, for only there stands what all of it should have been.
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
    // Of what is compressed as a whole, its checksum is read.
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
