//! `stook stitch`: archives of trees that are not written, or written out.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Subcommand;
use serde::Serialize;
use stook::ops::copy::{Given, OpenGiven};
use stook::ops::stitch::{Error, PatchGiven, StitchGiven, Stitched};
use stook::report::json::TextOrBytes;
use stook::report::units;
use stook::source::Source as _;
use stook::stitch::{Afs, Error as StitchError, Layout, Safetensors, Tar, Zip};
use stook::tree::CaseRule;

use crate::context::Context;
use crate::exit::{UsageError, code_for};
use crate::failures::{self, Failed};
use crate::fetch::FetchArgs;
use crate::given;
use crate::interrupt::Interrupted;
use crate::output::{Align, OutputError, Table, is_stdout, printable};
use crate::packs;
use crate::progress::Unit;

/// What `stook stitch` takes.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    after_help = "\
Examples:
  stook stitch tar project | tar tvf -
  stook stitch tar project --deterministic | sha256sum
  stook stitch tar project --write project.tar
  stook stitch zip project --write project.zip
  stook stitch zip photos.stook --list
  stook stitch safetensors model-0000* --write model.safetensors
  stook stitch patch game.zip --with changes --write new.zip

Nothing is written but what --write says, and nothing is read before its bytes are asked for: where everything is in an
archive follows from names and lengths. A file that is not what it was when it was listed is an error."
)]
pub struct Args {
    #[command(subcommand)]
    layout: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// A tar (pax), as GNU tar writes it
    Tar(Archive),
    /// A zip of stored members, with zip64 where it is needed
    Zip(Archive),
    /// An AFS, as consoles of the year 2000 read it: files without directories
    Afs(AfsArgs),
    /// Shards of safetensors as one file with all tensors
    Safetensors(Shards),
    /// A tar, zip or AFS that is there, with members replaced, added and deleted
    Patch(PatchArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook stitch tar project | tar tvf -
  stook stitch tar project --deterministic --write project.tar
  stook stitch zip cards clips --write both.zip
  stook stitch zip photos.stook --list")]
struct Archive {
    #[command(flatten)]
    what: What,
    /// Leave out times and owners: the same files give the same bytes anywhere
    #[arg(long)]
    deterministic: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook stitch afs Sound --write Sound.afs
  stook stitch afs Sound --list

Members stand in the order of their paths, which are their names, of 32 bytes at most.")]
struct AfsArgs {
    #[command(flatten)]
    what: What,
    /// Leave out names and times: members have numbers only
    #[arg(long)]
    without_names: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook stitch safetensors model --write model.safetensors
  stook stitch safetensors model-0000* --list

Every file of TREE has to be a shard, and no two may have one tensor.")]
struct Shards {
    #[command(flatten)]
    what: What,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook stitch patch game.zip --with changes --write new.zip
  stook stitch patch Sound.afs --with one-mod another-mod --list
  stook stitch patch project.tar --with fixes | tar xf -

A file of FOLDER replaces the member with its path; NAME.del deletes the member NAME, and what is below it; other files
are added. In an AFS, 00012_any-name is the member with the number 12. Everything else keeps the bytes of ARCHIVE.")]
struct PatchArgs {
    /// The tar, zip or AFS; it stays as it is
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
    /// Folders (also packs, archives with two slashes) with what changes; a later one counts more
    #[arg(long, required = true, num_args = 1.., value_name = "FOLDER")]
    with: Vec<PathBuf>,
    /// Take names that differ only in case for one, as Windows and macOS do
    #[arg(long)]
    ignore_case: bool,
    #[command(flatten)]
    out: Out,
}

#[derive(Debug, clap::Args)]
struct What {
    /// Directories, files, packs, archives with two slashes (`x.tar//`): what is in the only one,
    /// or each of several under its name
    #[arg(required = true, value_name = "TREE")]
    trees: Vec<PathBuf>,
    #[command(flatten)]
    out: Out,
}

/// Where it goes.
#[derive(Debug, clap::Args)]
struct Out {
    /// Write it into this file, which appears when it is whole
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// List its members: where the bytes of each begin, how many there are, its path
    #[arg(long, conflicts_with = "write")]
    list: bool,
    /// Write even where there is not enough room, or something is missing in it
    #[arg(long, requires = "write")]
    force: bool,
    /// Name everything that is not in it, not the first ten
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    view: packs::View,
    #[command(flatten)]
    fetch: FetchArgs,
}

/// Stitches.
///
/// # Errors
/// Returns an error if a tree cannot be opened or listed, something cannot be written, or arguments
/// are invalid.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let (what, layout): (What, Box<dyn Layout>) = match args.layout {
        Kind::Tar(Archive { what, deterministic }) => (what, Box::new(Tar { deterministic })),
        Kind::Zip(Archive { what, deterministic }) => (what, Box::new(Zip { deterministic })),
        Kind::Afs(AfsArgs { what, without_names }) => (what, Box::new(Afs { without_names })),
        Kind::Safetensors(Shards { what }) => (what, Box::new(Safetensors)),
        Kind::Patch(PatchArgs { archive, with, ignore_case, out }) => {
            let case = if ignore_case { CaseRule::Ignored } else { CaseRule::Exact };
            return put_out(&out, context, |target, go_on| {
                let archive = open(&archive, &out, context)?;
                let folders = with.iter().map(|path| open(path, &out, context)).collect::<Result<_, _>>()?;
                PatchGiven { archive, folders, case, target }.lay_out(go_on).map_err(error_of)
            });
        }
    };
    let What { trees, out } = what;
    put_out(&out, context, |target, go_on| {
        let trees = trees.iter().map(|path| open(path, &out, context)).collect::<Result<_, _>>()?;
        StitchGiven { trees, layout, target }.lay_out(go_on).map_err(error_of)
    })
}

/// Lays it out, and writes or lists it.
fn put_out(
    out: &Out,
    context: &Context,
    lay_out: impl FnOnce(Option<PathBuf>, &mut dyn FnMut(u64) -> bool) -> anyhow::Result<Stitched>,
) -> anyhow::Result<ExitCode> {
    let to_stdout = out.write.as_deref().map_or(!out.list, is_stdout);
    if to_stdout && context.json() {
        return Err(UsageError::new("with --json the report goes to stdout: give --write FILE").into());
    }
    if to_stdout && std::io::stdout().is_terminal() {
        let what = "its bytes would go to the terminal: give --write FILE, --list, or a pipe";
        return Err(UsageError::new(what).into());
    }
    let bar = context.progress("listing", Unit::Items, None);
    let target = out.write.clone().filter(|_| !to_stdout);
    let stitched = lay_out(target, &mut |members| bar.go_on(members, None))?;
    drop(bar);
    report_missing(&stitched, out.verbose, context);
    match &out.write {
        _ if to_stdout => to_output(&stitched, context)?,
        Some(path) => write(&stitched, path, out, context)?,
        None => list(&stitched, context)?,
    }
    Ok(code_for(stitched.undone()))
}

fn open(path: &Path, out: &Out, context: &Context) -> anyhow::Result<Given> {
    let mut open = OpenGiven::default();
    open.contents.pack.at_ns = out.view.at_ns();
    given::open(path, &open, &out.fetch, |error| error_of(error.into()), context)
}

/// What is not in it.
fn report_missing(stitched: &Stitched, verbose: bool, context: &Context) {
    let members = &stitched.laid.members;
    failures::print(context, &stitched.misplaced, verbose);
    failures::print(context, members.failures(), verbose);
    let (shown, more) = failures::few(members.left_out(), verbose);
    for (key, kind) in shown {
        context.note(format_args!("{} is {}, and is not in it.", printable(key), kind.noun()));
    }
    if let Some(more) = more {
        context.note(format_args!("… and {more} more are not in it; `--verbose` names them all."));
    }
}

fn to_output(stitched: &Stitched, context: &Context) -> anyhow::Result<()> {
    let len = stitched.laid.file.len();
    let (mut output, bar) = (context.output(), context.progress("writing", Unit::Bytes, Some(len)));
    let (mut at, mut failed) = (0, None);
    let read = stitched.laid.file.read_through(&mut |bytes| {
        if let Err(error) = output.bytes(bytes) {
            failed = Some(error);
            return Ok(false);
        }
        at += bytes.len() as u64;
        Ok(bar.go_on(at, Some(len)))
    });
    if let Some(error) = failed {
        return Err(OutputError::into(error));
    }
    read.map_err(|error| error_of(error.into()))?;
    output.finish()?;
    Ok(())
}

fn write(stitched: &Stitched, path: &Path, out: &Out, context: &Context) -> anyhow::Result<()> {
    let (len, started) = (stitched.laid.file.len(), Instant::now());
    let bar = context.progress("writing", Unit::Bytes, Some(len));
    let written = stitched.write(path, out.force, &mut |at| bar.go_on(at, Some(len)));
    drop(bar);
    if !written.map_err(error_of)? {
        failures::report_kept_file(path, context);
        return Ok(());
    }
    let (members, seconds) = (stitched.laid.members.all().len() as u64, started.elapsed().as_secs_f64());
    let mut output = context.output();
    if context.json() {
        let failures = Failed::all(stitched.laid.members.failures());
        let document = Written {
            path: TextOrBytes::new("path", path.as_os_str().as_encoded_bytes()),
            members,
            bytes: len,
            seconds,
            failures,
        };
        packs::print_json(&mut output, "stitch", document, context)?;
    } else if !context.quiet() {
        output.line(format_args!(
            "Wrote {}: {}, {} in {}, {}",
            printable(path.as_os_str().as_encoded_bytes()),
            units::count_of(members, "member", "members"),
            units::bytes_decimal(len),
            units::duration(started.elapsed()),
            units::rate_of(len, started.elapsed()),
        ))?;
    }
    Ok(output.finish()?)
}

/// What was written, in JSON.
#[derive(Debug, Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    path: TextOrBytes<'a>,
    members: u64,
    bytes: u64,
    seconds: f64,
    failures: Vec<Failed<'a>>,
}

/// A member, in JSON.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    offset: u64,
    size: u64,
}

fn list(stitched: &Stitched, context: &Context) -> anyhow::Result<()> {
    let mut output = context.output();
    let members = stitched.laid.members.all().iter().zip(stitched.laid.starts.iter());
    if context.json() {
        for (member, offset) in members {
            let listed = Listed { key: TextOrBytes::key(&member.key), offset: *offset, size: member.len };
            packs::print_json_line(&mut output, "stitch_member", listed, context)?;
        }
        return Ok(output.finish()?);
    }
    let columns = [("offset", Align::Right), ("bytes", Align::Right), ("path", Align::Left)];
    let mut table = Table::new(columns);
    for (member, offset) in members {
        table.row([units::count(*offset), units::count(member.len), printable(&member.key)]);
    }
    output.table(&table)?;
    Ok(output.finish()?)
}

/// Of the library's errors those that the command line has its own for.
fn error_of(error: Error) -> anyhow::Error {
    match error {
        Error::Stitch(StitchError::Interrupted) => Interrupted.into(),
        Error::Stitch(StitchError::Core(error)) | Error::Core(error) => error.into(),
        Error::Stitch(error @ (StitchError::Member { .. } | StitchError::Change { .. })) => {
            UsageError::new(error.to_string()).into()
        }
        error => error.into(),
    }
}
