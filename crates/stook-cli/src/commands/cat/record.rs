//! `stook cat PACK//KEY`: one record of a pack, or ranges of it, to stdout. No byte is written
//! whose checksum did not match, and of a record only the chunks are read that a range touches.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use stook::extent::ByteRange;
use stook::ops::contents::{Opened, is_object};
use stook::pack::FileKind;
use stook::source::Source as _;

use super::{Args, member, within, write};
use crate::commands::get::files;
use crate::context::Context;
use crate::exit::UsageError;
use crate::progress::Unit;
use crate::{contents, interrupt, packs};

/// What is read as one: where a chunk is damaged, no more than this is missing before it.
const BLOCK_LEN: u64 = 1 << 20;

/// Runs it.
///
/// # Errors
/// Returns an error if there is no such record, it is a directory or damaged, a range begins past
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
    let pack = match &opened {
        Opened::Pack(contents) => contents.pack(),
        Opened::Archive(archive) => return member::run(archive, key, args, context),
    };
    let key = packs::parse_key(key)?;
    let missing = || anyhow!("{} names no record of this pack", args.source.display());
    let record = pack.open_source(&key)?.ok_or_else(missing)?;
    if record.head().attributes.file_kind() == Some(FileKind::Directory) {
        return Err(files::is_directory(path, &key));
    }
    let ranges = within(&args.ranges, &args.source, record.len())?;
    let total: u64 = ranges.iter().map(ByteRange::len).sum();
    let bar = context.progress("reading", Unit::Bytes, Some(total));
    let mut output = context.output();
    write(&ranges, BLOCK_LEN, &mut output, &bar, |batch| {
        interrupt::check()?;
        let read = record.read_many(&batch)?;
        Ok(read.into_iter().map(|bytes| bytes.map_err(anyhow::Error::from)).collect())
    })?;
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}
