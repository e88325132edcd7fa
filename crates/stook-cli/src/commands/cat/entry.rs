//! `stook cat PACK//KEY` and `ARCHIVE//MEMBER`: one entry, or ranges of it, to stdout.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use stook::extent::ByteRange;
use stook::ops::contents::{BodyError, Error, ValueError, is_object};
use stook::pack::Stop;

use super::{Args, within, write};
use crate::context::Context;
use crate::exit::UsageError;
use crate::progress::Unit;
use crate::{contents, interrupt, packs};

/// Runs it. No byte of a record is written whose checksum did not match.
///
/// # Errors
/// Returns an error if there is no such entry, it is a directory or damaged, a range begins past
/// its end, or stdout cannot be written.
pub(super) fn run(path: &Path, key: &OsStr, args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let is_fetched = is_object(path);
    if args.stats || !is_fetched && args.fetch.is_given() {
        let text =
            "--stats, --whole-file and --cache-dir are for what is fetched: a record is read from its pack";
        let text = if is_fetched { "--stats is for objects, and not for members of one" } else { text };
        return Err(UsageError::new(text).into());
    }
    let opened = contents::open(path, None, &args.fetch, context)?;
    contents::note_incomplete(&opened, context);
    let (key, is_whole) = (packs::parse_key(key)?, args.ranges.is_empty());
    let body = opened.body(&key, is_whole).map_err(|error| no_body(path, error))?;
    let ranges = within(&args.ranges, format_args!("{}//{key}", path.display()), body.len())?;
    let total: u64 = ranges.iter().map(ByteRange::len).sum();
    let bar = context.progress("reading", Unit::Bytes, Some(total));
    let mut output = context.output();
    match body.reader() {
        Some(reader) => write(&ranges, reader.block_len(), &mut output, &bar, |batch| {
            let reader = reader.clone();
            let read = interrupt::wait_for(move || reader.read(&batch))?.map_err(of_contents)?;
            Ok(read.into_iter().map(|bytes| bytes.map_err(of_contents)).collect())
        })?,
        None => body
            .pour(&ranges, is_whole, Stop(interrupt::interrupted), &mut |piece| -> anyhow::Result<()> {
                interrupt::check()?;
                output.bytes(piece)?;
                bar.add(piece.len() as u64);
                Ok(())
            })
            .map_err(by_itself)?,
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Why there is no body, and what writes what is in a directory.
fn no_body(path: &Path, error: BodyError) -> anyhow::Error {
    match error {
        BodyError::Directory(key) => contents::is_directory(path, &key),
        BodyError::Contents(error) => of_contents(error),
        error => error.into(),
    }
}

/// The error of what was opened.
fn of_contents(error: Error) -> anyhow::Error {
    match error {
        Error::Pack(error) => error.into(),
        Error::Archive(error) => error.into(),
        error => error.into(),
    }
}

/// An error of the entry is shown as what it is: which entry it is of, was typed.
fn by_itself(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<ValueError>() {
        Ok(ValueError::Entry { failure, .. }) => (*failure).into(),
        Ok(ValueError::Contents(error)) => of_contents(error),
        Ok(error) => error.into(),
        Err(error) => error,
    }
}
