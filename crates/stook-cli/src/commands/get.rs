//! `stook get`: records of a pack, to stdout or into files.
//!
//! Short records are read many at a time, long ones in verified pieces. No byte is written whose checksum did
//! not match, and no file appears under its name before it is whole.

pub(super) mod files;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use stook::pack::{Error, FileKind, Key, KeyEntry, Pack, Record, RecordHead, RecordReader};
use stook::report::json::{Document, TextOrBytes};
use stook::report::units::{bytes_decimal, count_of};

use crate::context::Context;
use crate::exit::UsageError;
use crate::keys::{self, KeyList};
use crate::output::Output;
use crate::progress::{Progress, Unit};
use crate::{archives, exit, interrupt, packs};
pub(super) use files::Target;

const EXAMPLES: &str = "\
One key goes to stdout, or into the file (or directory) that --output names.
Several keys need --output with a directory, where each record becomes the
file that its key names, or --concat. Keys that would lead out of the
directory are refused. A further name of a file (a hard link) gives the file's
content; directories become directories; links become files that hold their
target, and `stook unpack` makes links of them again.

Keys are given as `stook ls` shows them: \\xNN for a byte, \\\\ for a backslash,
bytes: for the empty key. With --null the keys of the list are as they are.

Examples:
  stook get photos.stook 2024/cat.jpg > cat.jpg
  stook get photos.stook//2024/cat.jpg --output cat.jpg
  stook get train.tar 000017.jpg > cat.jpg
  stook get photos.stook id:1 id:2 id:3 --output out
  stook ls photos.stook '*.txt' -0 |
    stook get photos.stook --from-file - -0 --concat

Exit code 1 when a key is not there or its record is damaged; the others are
still got.";

/// Keys looked up in one batch.
const BATCH_KEYS: usize = 4096;

/// Bytes of records read in one batch, and the longest record among them.
const BATCH_LEN: u64 = 64 << 20;
const SHORT_LEN: u64 = 4 << 20;

/// What `stook get` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The pack, or a tar or zip archive, or PACK//KEY
    pack: OsString,
    /// Keys of records
    #[arg(value_name = "KEY")]
    keys: Vec<OsString>,
    /// A file for one record, a directory for several
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Keys from a file, one a line; `-` is stdin
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
    /// Keys in that file end in a NUL byte, not in a newline
    #[arg(long, short = '0', requires = "from_file")]
    null: bool,
    /// Write the bodies one after another, in the order in which they were asked for
    #[arg(long)]
    pub(super) concat: bool,
    /// Only records of this group; may be given more than once
    #[arg(long = "group", value_name = "NAME")]
    pub(super) groups: Vec<String>,
    #[command(flatten)]
    view: packs::View,
}

#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    #[serde(flatten)]
    pub(super) key: packs::JsonKey<'a>,
    pub(super) status: &'static str,
    pub(super) body_bytes: Option<u64>,
    #[serde(flatten)]
    pub(super) path: Option<TextOrBytes<'a>>,
    pub(super) error: Option<String>,
}

/// Runs it.
///
/// # Errors
/// When the pack cannot be read, or a file or stdout cannot be written.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let (path, key) = packs::split_address_with_key(&args.pack)?;
    let typed: Vec<OsString> = key.into_iter().chain(args.keys.iter().cloned()).collect();
    if typed.is_empty() && args.from_file.is_none() {
        return Err(UsageError::new("which record? Give its KEY, or --from-file with a list of keys").into());
    }
    let many = typed.len() > 1 || args.from_file.is_some();
    let mut keys = KeyList::new(&typed, args.from_file.as_deref(), args.null)?;
    let target = target(&args, many, context)?;
    if let Some(archive) = archives::open(&path, context)? {
        args.view.refuse_for_archive()?;
        return super::archive::get::run(&args, &archive, keys, target, context);
    }
    let pack = args.view.open(&path, context)?;
    packs::check_groups(&pack, &path, &args.groups)?;
    let output = context.output();
    let mut getter =
        Getter { pack: &pack, name: path, args: &args, context, target, output, totals: Totals::default() };
    let bar = context.progress("getting", Unit::Bytes, None);
    while let Some(batch) = keys.next(BATCH_KEYS)? {
        getter.batch(&batch, &bar)?;
    }
    drop(bar);
    getter.totals.report_if_none(context);
    packs::print_last_line(&mut getter.output, context)?;
    finish(getter.target, getter.output, &getter.totals, context)
}

/// Where bodies go, or why that is not to be.
fn target(args: &Args, many: bool, context: &Context) -> anyhow::Result<Target> {
    let usage = |text: &str| Err(UsageError::new(text).into());
    match &args.output {
        None if context.json() => {
            usage("with --json stdout tells what became of the keys: give --output PATH")
        }
        None if many && !args.concat => {
            usage("several records need --output DIRECTORY, or --concat to get them one after another")
        }
        None => Ok(Target::Stdout),
        Some(path) if args.concat => Ok(Target::concatenated(path)?),
        Some(path) if many || files::names_directory(path) => Ok(Target::directory(path)?),
        Some(path) => Ok(Target::File(path.clone())),
    }
}

/// Gets batch after batch.
struct Getter<'a> {
    pack: &'a Pack,
    name: PathBuf,
    args: &'a Args,
    context: &'a Context,
    target: Target,
    output: Output,
    totals: Totals,
}

/// What was got, and how often that failed.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) got: u64,
    pub(super) bytes: u64,
    pub(super) failures: u64,
}

impl Totals {
    /// A list may have no keys in it.
    pub(super) fn report_if_none(&mut self, context: &Context) {
        if self.got == 0 && self.failures == 0 {
            self.failures += keys::report_no_keys(context);
        }
    }
}

impl Getter<'_> {
    fn batch(&mut self, keys: &[Key], bar: &Progress) -> anyhow::Result<()> {
        let entries = self.pack.locate(keys)?;
        let wanted = |entry: &KeyEntry| keys::is_in(&self.args.groups, self.pack.group_of_entry(entry));
        let lens: Vec<Option<u64>> = entries
            .iter()
            .map(|entry| match entry {
                Ok(entry) => {
                    entry.as_ref().filter(|entry| wanted(entry)).map(|e| e.stored_bytes.unwrap_or(u64::MAX))
                }
                // Asking for it by itself tells what hides it.
                Err(_) => Some(u64::MAX),
            })
            .collect();
        let mut at = 0;
        while at < keys.len() {
            interrupt::check()?;
            let run = short_run(lens.get(at..).unwrap_or_default());
            let part = keys.get(at..at + run.max(1)).unwrap_or_default();
            match part {
                [key] if lens.get(at) == Some(&None) => self.missing(key)?,
                [key] => self.long(key)?,
                _ => self.short(part)?,
            }
            bar.add(self.totals.bytes.saturating_sub(bar.done()));
            at += part.len().max(1);
        }
        Ok(())
    }

    fn missing(&mut self, key: &Key) -> anyhow::Result<()> {
        // A record that was hit where no index stands behind it yet is met only when the pack is opened.
        let hit = self.pack.damages().into_iter().find(|damage| damage.key.as_ref() == Some(key));
        if let Some(damage) = hit {
            return self.failed(key, Error::Damaged(damage));
        }
        self.totals.failures += 1;
        let in_group = match self.args.groups.as_slice() {
            [] => String::new(),
            groups => format!(" in {}", groups.join(", ")),
        };
        let lost = match self.pack.damages().is_empty() {
            true => "",
            false => "; the pack is damaged, and it may have been lost: `stook check` tells more",
        };
        let text = format!("{} has no record {key}{in_group}{lost}", self.name.display());
        self.context.failure(anyhow::anyhow!("{text}").as_ref());
        self.line(key, "missing", None, None, Some(text))
    }

    fn failed(&mut self, key: &Key, error: Error) -> anyhow::Result<()> {
        // A link that leads nowhere is of no use, and no reason to do without the others.
        let (Error::Damaged(_) | Error::Invalid(_)) = error else { return Err(error.into()) };
        self.totals.failures += 1;
        self.context.failure(&error);
        self.line(key, "damaged", None, None, Some(exit::chain(&error)))
    }

    fn refused(&mut self, key: &Key, why: &anyhow::Error) -> anyhow::Result<()> {
        self.totals.failures += 1;
        self.context.failure(why.as_ref());
        self.line(key, "refused", None, None, Some(why.to_string()))
    }

    /// Many short records in one batch of reads.
    fn short(&mut self, keys: &[Key]) -> anyhow::Result<()> {
        for (key, record) in keys.iter().zip(self.pack.get_many(keys)?) {
            match record {
                Ok(Some(record)) if record.head.is_hard_link() => self.long(key)?,
                Ok(Some(record)) => self.write(key, Body::Whole { record, given: false })?,
                Ok(None) => self.missing(key)?,
                Err(error) => self.failed(key, error)?,
            }
        }
        Ok(())
    }

    /// One record in pieces.
    fn long(&mut self, key: &Key) -> anyhow::Result<()> {
        match self.pack.open_file(key) {
            Ok(Some(reader)) => self.write(key, Body::Pieces(Box::new(reader))),
            Ok(None) => self.missing(key),
            Err(error) => self.failed(key, error),
        }
    }

    /// Writes one body to its place, and tells of it.
    fn write(&mut self, key: &Key, mut body: Body<'_>) -> anyhow::Result<()> {
        if !self.args.concat
            && self.target.is_one()
            && body.head().attributes.file_kind() == Some(FileKind::Directory)
        {
            return self.refused(key, &files::is_directory(&self.name, key));
        }
        let mut place = match self.target.place(key, body.head().attributes.file_kind(), &mut self.output) {
            Ok(place) => place,
            Err(refused) if refused.is::<files::Refused>() => {
                return self.refused(key, &refused);
            }
            Err(error) => return Err(error),
        };
        let mut len = 0;
        let damage = loop {
            interrupt::check()?;
            match body.next() {
                Ok(Some(part)) => {
                    place.write(part)?;
                    len += part.len() as u64;
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        if let Some(error) = damage {
            drop(place);
            return self.failed(key, error);
        }
        let path = place.finish()?;
        self.totals.got += 1;
        self.totals.bytes += len;
        self.line(key, "ok", Some(len), path.as_deref(), None)
    }

    fn line(
        &mut self,
        key: &Key,
        status: &'static str,
        body_bytes: Option<u64>,
        path: Option<&std::path::Path>,
        error: Option<String>,
    ) -> anyhow::Result<()> {
        if self.context.json() {
            let path = path.map(|path| packs::json_path("path", path));
            let line = Line { key: packs::JsonKey(key), status, body_bytes, path, error };
            self.output.json_line(&Document::new("get", line))?;
        }
        Ok(())
    }
}

/// Makes everything durable, and prints the totals.
pub(super) fn finish(
    target: Target,
    output: Output,
    totals: &Totals,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let to_stdout = matches!(target, Target::Stdout);
    target.finish()?;
    output.finish()?;
    if !to_stdout && !context.json() {
        let records = count_of(totals.got, "record", "records");
        context.note(format_args!("got {records}, {}", bytes_decimal(totals.bytes)));
    }
    Ok(exit::code_for(totals.failures))
}

/// A body, at once or in pieces. All it gives has been verified.
enum Body<'p> {
    Whole { record: Record, given: bool },
    Pieces(Box<RecordReader<'p>>),
}

impl Body<'_> {
    fn head(&self) -> &RecordHead {
        match self {
            Self::Whole { record, .. } => &record.head,
            Self::Pieces(reader) => reader.head(),
        }
    }

    fn next(&mut self) -> Result<Option<&[u8]>, Error> {
        match self {
            Self::Whole { record, given } => Ok((!std::mem::replace(given, true)).then_some(&record.body)),
            Self::Pieces(reader) => reader.next_chunk(),
        }
    }
}

/// How many of the first records are short and fit into a batch together.
fn short_run(lens: &[Option<u64>]) -> usize {
    let mut left = BATCH_LEN;
    let mut fits = |len: &Option<u64>| {
        let len = len.filter(|&len| len <= SHORT_LEN && len <= left);
        left -= len.unwrap_or(0);
        len.is_some()
    };
    lens.iter().take_while(|len| fits(len)).count()
}
