//! `stook get`: records of a pack, or members of an archive, to stdout or into files.
//!
//! No file appears under its name before it is whole.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use stook::ops::get::{Became, Error, Get, Got, Refused, To};
use stook::pack::{Key, Stop};
use stook::report::json::{Document, TextOrBytes};
use stook::report::units::{bytes_decimal, count_of};

use crate::context::Context;
use crate::exit::UsageError;
use crate::fetch::FetchArgs;
use crate::keys::{self, KeyList};
use crate::output::{Output, OutputError, is_stdout};
use crate::progress::Unit;
use crate::{contents, exit, failures, interrupt, packs};

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
    /// A file for one record, a directory for several; `-` is stdout
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
    // JSON is refused where bodies go to stdout: nothing is written to both of these.
    let (mut bodies, mut lines) = (context.output(), context.output());
    let path_out = args.output.as_deref().filter(|path| !is_stdout(path));
    check(&args, path_out, many, context)?;
    let opened = contents::open(&path, args.view.at_ns(), &args.fetch, context)?;
    contents::check(&opened, &[], &args.groups)?;
    contents::note_incomplete(&opened, context);
    contents::note_if_sequential(&opened, context);
    let has_path = path_out.is_some();
    let to = match path_out {
        // What is joined is one file, whatever its name may be.
        Some(path) if args.concat => To::File(path.to_path_buf()),
        Some(path) => To::path(path, many),
        None => To::Writer(&mut bodies),
    };
    let Args { groups, concat: joined, force, .. } = args;
    let get = Get { groups, joined, force, stop: Stop(interrupt::interrupted) };
    let pack = opened.contents().path();
    let mut getter = get.begin(opened.contents(), to).map_err(by_itself)?;
    let bar = context.progress("getting", Unit::Bytes, None);
    let mut each = |key: &Key, became: &Became<'_>, got: &Got| {
        report(key, became, pack, &mut lines, context)?;
        bar.add(got.bytes.saturating_sub(bar.done()));
        Ok::<_, anyhow::Error>(())
    };
    while let Some(batch) = keys.next(getter.keys_at_once())? {
        getter.batch(&batch, &mut each).map_err(unwrapped)?;
    }
    let mut got = getter.finish(&mut each).map_err(unwrapped)?;
    drop(bar);
    if got.missing > 0 {
        let pack = pack.display();
        let instead =
            format!("`stook ls {pack} PATTERN -0 | stook get {pack} --from-file - -0 --output DIR`");
        keys::note_patterns(&typed, instead, context);
    }
    if got.entries == 0 && got.failures == 0 {
        got.failures += keys::report_no_keys(context);
    }
    packs::print_last_line(&mut lines, context)?;
    bodies.finish()?;
    lines.finish()?;
    if let Some(path) = &got.kept {
        failures::report_kept_file(path, context);
    } else if has_path && !context.json() {
        let records = count_of(got.entries, "record", "records");
        context.note(format_args!("got {records}, {}", bytes_decimal(got.bytes)));
    }
    Ok(exit::code_for(got.failures))
}

/// Whether bodies can go where they are to go.
fn check(args: &Args, path: Option<&Path>, many: bool, context: &Context) -> Result<(), UsageError> {
    match path {
        None if context.json() => {
            Err(UsageError::new("with --json the report goes to stdout: give --output PATH"))
        }
        None if many && !args.concat => Err(several()),
        Some(path) if many && !args.concat && path.exists() && !path.is_dir() => Err(several()),
        _ => Ok(()),
    }
}

fn several() -> UsageError {
    UsageError::new("several records need --output DIRECTORY, or --concat to get them one after another")
}

/// Reports what became of a key: failures at once, the others where lines of JSON are wanted.
fn report(
    key: &Key,
    became: &Became<'_>,
    pack: &Path,
    lines: &mut Output,
    context: &Context,
) -> anyhow::Result<()> {
    let failed = |why: anyhow::Error| {
        context.failure(why.as_ref());
        why.to_string()
    };
    let error = match became {
        Became::Got { .. } => None,
        Became::Failed(failure) => {
            context.failure(failure.error());
            Some(exit::chain(failure.error()))
        }
        Became::DirectoryMeant(key) => Some(failed(contents::is_directory(pack, key))),
        Became::Refused(Refused::Directory(key)) => Some(failed(contents::is_directory(pack, key))),
        Became::Refused(refused) => {
            context.failure(*refused);
            Some(exit::chain(*refused))
        }
    };
    if !context.json() {
        return Ok(());
    }
    let (body_bytes, path) = match became {
        Became::Got { len, path } => (Some(*len), path.map(|path| packs::json_path("path", path))),
        _ => (None, None),
    };
    let line = Line { key: packs::JsonKey(key), status: became.status(), body_bytes, path, error };
    Ok(lines.json_line(&Document::new("get", line))?)
}

/// The error that one of getting is.
fn by_itself(error: Error) -> anyhow::Error {
    match error {
        Error::Contents(error) => error.into(),
        Error::Core(error) => error.into(),
        Error::Write(error) => OutputError::from(error).into(),
        error => error.into(),
    }
}

/// The same, where it may also be one of reporting.
fn unwrapped(error: anyhow::Error) -> anyhow::Error {
    error.downcast().map_or_else(|other| other, by_itself)
}
