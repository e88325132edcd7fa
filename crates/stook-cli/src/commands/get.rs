//! `stook get`: records of a pack, or members of an archive, to stdout or into files.
//!
//! No file appears under its name before it is whole.

pub(super) mod files;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use stook::ops::contents::{Contents, Failure, Found, GetOptions, Getting, Piece, check_room};
use stook::pack::{FileKind, Key, Stop};
use stook::report::json::{Document, TextOrBytes};
use stook::report::units::{bytes_decimal, count_of};

use crate::context::Context;
use crate::exit::UsageError;
use crate::fetch::FetchArgs;
use crate::keys::{self, KeyList};
use crate::output::{Output, is_stdout};
use crate::progress::{Progress, Unit};
use crate::{contents, exit, failures, interrupt, packs};
use files::Target;

const EXAMPLES: &str = "\
One key goes to stdout, or into the file (or directory) that --output names.
Several keys need --output with a directory, where each record becomes the
file that its key names, or --concat. Keys that would lead out of the
directory are refused. A hard link gives the content of its file; directories
become directories; links become files that hold their target, and `stook
unpack` makes links of them again. A file that --concat is to write and that is
there is replaced only by all that was asked for, or with --force.

Keys are given as `stook ls` shows them: \\xNN for a byte, \\\\ for a backslash,
bytes: for the empty key. With --null the keys of the list are as they are.

Examples:
  stook get photos.stook 2024/cat.jpg > cat.jpg
  stook get photos.stook//2024/cat.jpg --output cat.jpg
  stook get train.tar 000017.jpg > cat.jpg
  stook get https://host/train.zip 000017.jpg > cat.jpg
  stook get photos.stook id:1 id:2 id:3 --output out
  stook ls photos.stook '*.txt' -0 |
    stook get photos.stook --from-file - -0 --concat

Exit code 1 when a key does not exist or its record is damaged; the others are
still read.";

/// What `stook get` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The pack, or a tar or zip archive, which may be at an address (https://…, s3://bucket/key),
    /// or PACK//KEY
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
    concat: bool,
    /// Write what fits, even if there is too little space for all of it; with --concat, replace the
    /// file even where some of the records could not be got
    #[arg(long, requires = "output")]
    force: bool,
    /// Only records of this group; may be given more than once
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    #[command(flatten)]
    view: packs::View,
    #[command(flatten)]
    fetch: FetchArgs,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    key: packs::JsonKey<'a>,
    status: &'static str,
    body_bytes: Option<u64>,
    #[serde(flatten)]
    path: Option<TextOrBytes<'a>>,
    error: Option<String>,
}

/// Runs it.
///
/// # Errors
/// Returns an error if the pack cannot be read, or a file or stdout cannot be written.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let (path, key) = packs::split_address_with_key(&args.pack)?;
    let typed: Vec<OsString> = key.into_iter().chain(args.keys.iter().cloned()).collect();
    if typed.is_empty() && args.from_file.is_none() {
        return Err(UsageError::new("which record? Give its KEY, or --from-file with a list of keys").into());
    }
    let many = typed.len() > 1 || args.from_file.is_some();
    let mut keys = KeyList::new(&typed, args.from_file.as_deref(), args.null)?;
    let target = target(&args, many, context)?;
    let opened = contents::open(&path, args.view.at_ns(), &args.fetch, context)?;
    contents::check(&opened, &[], &args.groups)?;
    contents::note_incomplete(&opened, context);
    contents::note_if_sequential(&opened, context);
    let options = GetOptions {
        groups: args.groups.clone(),
        // Files of their own do not mind.
        any_order: target.is_directory(),
        stop: Stop(interrupt::interrupted),
    };
    let wants_body = !args.concat && target.is_one();
    let (contents, output) = (opened.contents(), context.output());
    let force = args.force;
    let mut getter =
        Getter { contents, context, target, output, wants_body, force, totals: Totals::default() };
    let bar = context.progress("getting", Unit::Bytes, None);
    while let Some(batch) = keys.next(contents.keys_per_get(&options))? {
        getter.batch(&batch, &options, &bar)?;
    }
    drop(bar);
    if getter.totals.missing > 0 {
        let pack = contents.path().display();
        let instead =
            format!("`stook ls {pack} PATTERN -0 | stook get {pack} --from-file - -0 --output DIR`");
        keys::note_patterns(&typed, instead, context);
    }
    getter.finish()
}

/// Where bodies go, or why that is not to be.
fn target(args: &Args, many: bool, context: &Context) -> anyhow::Result<Target> {
    let usage = |text: &str| Err(UsageError::new(text).into());
    let path = args.output.as_deref().filter(|path| !is_stdout(path));
    match path {
        None if context.json() => usage("with --json the report goes to stdout: give --output PATH"),
        None if many && !args.concat => {
            usage("several records need --output DIRECTORY, or --concat to get them one after another")
        }
        None => Ok(Target::Stdout),
        Some(path) if args.concat => Ok(Target::concatenated(path)?),
        Some(path) if many || files::names_directory(path) => Ok(Target::directory(path)?),
        Some(path) => Ok(Target::File(path.to_path_buf())),
    }
}

/// Gets batch after batch.
struct Getter<'a> {
    contents: &'a dyn Contents,
    context: &'a Context,
    target: Target,
    output: Output,
    /// Whether a directory, which has no body, is of no use.
    wants_body: bool,
    /// Whether what fits is written, and a file is replaced by an incomplete result.
    force: bool,
    totals: Totals,
}

/// What was got, and how often that failed.
#[derive(Debug, Default)]
struct Totals {
    got: u64,
    bytes: u64,
    failures: u64,
    /// Those of them that are not there.
    missing: u64,
}

impl Getter<'_> {
    fn batch(&mut self, keys: &[Key], options: &GetOptions, bar: &Progress) -> anyhow::Result<()> {
        let mut getting = self.contents.get(keys, options)?;
        if let Some(path) = self.target.path().filter(|_| !self.force) {
            check_room(&*getting, path)?;
        }
        while let Some((key, found)) = getting.next()? {
            match found {
                Found::Body(kind) => self.write(key, kind, &mut *getting)?,
                Found::Failed(failure) => self.failed(key, &failure)?,
            }
            bar.add(self.totals.bytes.saturating_sub(bar.done()));
        }
        Ok(())
    }

    fn failed(&mut self, key: &Key, failure: &Failure) -> anyhow::Result<()> {
        self.totals.failures += 1;
        if matches!(failure, Failure::Missing(_)) {
            self.totals.missing += 1;
            if let Some(why) = self.directory_meant(key)? {
                self.context.failure(why.as_ref());
                return self.line(key, failure.status(), None, None, Some(why.to_string()));
            }
        }
        self.context.failure(failure.error());
        self.line(key, failure.status(), None, None, Some(exit::chain(failure.error())))
    }

    /// Of a key that is not there and ends in a slash: why the directory that was meant cannot be
    /// got, if there is one.
    fn directory_meant(&self, key: &Key) -> anyhow::Result<Option<anyhow::Error>> {
        let Some(path) = key.as_bytes().and_then(|path| path.strip_suffix(b"/")) else { return Ok(None) };
        let directory = Key::bytes(path)?;
        let options = GetOptions { stop: Stop(interrupt::interrupted), ..GetOptions::default() };
        let mut getting = self.contents.get(std::slice::from_ref(&directory), &options)?;
        let is_there = matches!(getting.next()?, Some((_, Found::Body(Some(FileKind::Directory)))));
        Ok(is_there.then(|| files::is_directory(self.contents.path(), &directory)))
    }

    fn refused(&mut self, key: &Key, why: &anyhow::Error) -> anyhow::Result<()> {
        self.totals.failures += 1;
        self.context.failure(why.as_ref());
        self.line(key, "refused", None, None, Some(why.to_string()))
    }

    /// Writes one body to its place, and reports it.
    fn write(
        &mut self,
        key: &Key,
        kind: Option<FileKind>,
        getting: &mut dyn Getting<'_>,
    ) -> anyhow::Result<()> {
        if self.wants_body && kind == Some(FileKind::Directory) {
            return self.refused(key, &files::is_directory(self.contents.path(), key));
        }
        let mut place = match self.target.place(key, kind, &mut self.output) {
            Ok(place) => place,
            Err(refused) if refused.is::<files::Refused>() => return self.refused(key, &refused),
            Err(error) => return Err(error),
        };
        let mut len = 0;
        loop {
            interrupt::check()?;
            match getting.piece()? {
                Piece::Bytes(bytes) => {
                    place.write(bytes)?;
                    len += bytes.len() as u64;
                }
                Piece::Hole(hole) => {
                    let mut left = hole;
                    while left > 0 {
                        interrupt::check()?;
                        left = left.saturating_sub(place.write_hole(left)?);
                    }
                    len += hole;
                }
                Piece::End => break,
                Piece::Failed(failure) => {
                    place.give_up()?;
                    return self.failed(key, &failure);
                }
            }
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
        path: Option<&Path>,
        error: Option<String>,
    ) -> anyhow::Result<()> {
        if self.context.json() {
            let path = path.map(|path| packs::json_path("path", path));
            let line = Line { key: packs::JsonKey(key), status, body_bytes, path, error };
            self.output.json_line(&Document::new("get", line))?;
        }
        Ok(())
    }

    /// Makes everything durable, and prints the totals.
    fn finish(self) -> anyhow::Result<ExitCode> {
        let Self { context, target, mut output, force, mut totals, .. } = self;
        if totals.got == 0 && totals.failures == 0 {
            totals.failures += keys::report_no_keys(context);
        }
        packs::print_last_line(&mut output, context)?;
        let to_stdout = matches!(target, Target::Stdout);
        let kept = target.finish(force || totals.got > 0, force || totals.failures == 0)?;
        output.finish()?;
        if let Some(path) = &kept {
            failures::report_kept_file(path, context);
        } else if !to_stdout && !context.json() {
            let records = count_of(totals.got, "record", "records");
            context.note(format_args!("got {records}, {}", bytes_decimal(totals.bytes)));
        }
        Ok(exit::code_for(totals.failures))
    }
}
