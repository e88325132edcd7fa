//! `stook cat PACK//KEY`: one record of a pack, or ranges of it, to stdout. No byte is written
//! whose checksum did not match.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use stook::extent::ByteRange;
use stook::ops::contents::{Opened, is_object};
use stook::pack::{FileKind, Key, Pack, RecordReader};

use super::{Args, Span, member};
use crate::commands::get::files;
use crate::context::Context;
use crate::exit::UsageError;
use crate::output::Output;
use crate::progress::{Progress, Unit};
use crate::{contents, interrupt, packs};

/// Runs it.
///
/// # Errors
/// When there is no such record, it is a directory or damaged, a range begins past its end, or
/// stdout cannot be written.
pub(super) fn run(path: &Path, key: &OsStr, args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let is_fetched = is_object(path);
    if args.stats || !is_fetched && args.fetch.is_given() {
        let text =
            "--stats, --whole-file and --cache-dir are for what is fetched: a record is read from its pack";
        let text = if is_fetched { "--stats is for objects, and not for members of one" } else { text };
        return Err(UsageError::new(text).into());
    }
    let opened = contents::open(path, None, &args.fetch, context)?;
    let pack = match &opened {
        Opened::Pack(contents) => contents.pack(),
        Opened::Archive(archive) => return member::run(archive, key, args, context),
    };
    let record = Record { pack, path, key: &packs::parse_key(key)?, address: &args.source };
    let ranges = record.within(&args.ranges)?;
    let total: u64 = ranges.iter().map(ByteRange::len).sum();
    let bar = context.progress("reading", Unit::Bytes, (!args.ranges.is_empty()).then_some(total));
    let mut output = context.output();
    // A record is read from its beginning: ranges that ascend take one pass together.
    for ascending in ranges.chunk_by(|one, next| one.end() <= next.start()) {
        record.write(ascending, &mut output, &bar)?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

struct Record<'a> {
    pack: &'a Pack,
    path: &'a Path,
    key: &'a Key,
    address: &'a OsString,
}

impl<'a> Record<'a> {
    fn open(&self) -> anyhow::Result<RecordReader<'a>> {
        let missing = || anyhow!("{} names no record of this pack", self.address.display());
        let reader = self.pack.open_file(self.key)?.ok_or_else(missing)?;
        match reader.head().attributes.file_kind() {
            Some(FileKind::Directory) => Err(files::is_directory(self.path, self.key)),
            _ => Ok(reader),
        }
    }

    /// How long the body is; where that was not known when it was written, all of it is read to
    /// find out.
    fn len(&self) -> anyhow::Result<u64> {
        let mut reader = self.open()?;
        if let Some(len) = reader.head().body_len {
            return Ok(len);
        }
        let mut len = 0;
        while let Some(chunk) = reader.next_chunk()? {
            interrupt::check()?;
            len += chunk.len() as u64;
        }
        Ok(len)
    }

    /// What is wanted and not empty, all of it within the record: checked before a byte is written.
    fn within(&self, spans: &[Span]) -> anyhow::Result<Vec<ByteRange>> {
        if spans.is_empty() {
            return Ok(vec![ByteRange::to(u64::MAX)]);
        }
        let len = self.len()?;
        let ranges = spans.iter().map(|span| span.within(self.address, len));
        let mut ranges = ranges.collect::<anyhow::Result<Vec<ByteRange>>>()?;
        ranges.retain(|range| !range.is_empty());
        Ok(ranges)
    }

    /// Writes ranges that ascend and do not overlap, in one pass.
    fn write(&self, mut wanted: &[ByteRange], output: &mut Output, bar: &Progress) -> anyhow::Result<()> {
        let (mut reader, mut at) = (self.open()?, 0_u64);
        loop {
            while let [first, rest @ ..] = wanted
                && first.end() <= at
            {
                wanted = rest;
            }
            if wanted.is_empty() {
                return Ok(());
            }
            interrupt::check()?;
            let Some(chunk) = reader.next_chunk()? else { return Ok(()) };
            let piece = ByteRange::at(at, chunk.len() as u64).unwrap_or_default();
            for common in wanted.iter().map_while(|range| piece.intersection(range)) {
                let from = (common.start() - at) as usize;
                output.bytes(chunk.get(from..from + common.len() as usize).unwrap_or_default())?;
                bar.add(common.len());
            }
            at = piece.end();
        }
    }
}
