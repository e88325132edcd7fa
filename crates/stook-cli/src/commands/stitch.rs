//! `stook stitch`: archives of trees that are not written, or written out.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Subcommand;
use serde::Serialize;
use stook::ops::copy::OpenGiven;
use stook::ops::stitch::{Error, StitchGiven, Stitched};
use stook::report::json::TextOrBytes;
use stook::report::units;
use stook::source::Source as _;
use stook::stitch::{Afs, Error as StitchError, Layout, Raw, Safetensors, Tar, Zip};

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
  stook stitch tar project -o project.toml && stook get project.toml project.tar --range 0..512
  stook stitch zip photos.stook --list
  stook stitch safetensors model-0000* --write model.safetensors

Nothing is written but what --write or -o says, and nothing is read before its bytes are asked for: where everything is in an
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
    /// Files one after another, as `cat` writes them
    Raw(Plain),
    /// An AFS, as consoles of the year 2000 read it: files without directories
    Afs(AfsArgs),
    /// Shards of safetensors as one file with all tensors
    Safetensors(Shards),
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
  stook stitch raw part1 part2 part3 --write whole
  stook stitch raw photos.toml// --write photos.tar

The order is that in which they are named, and of what is in a directory that of names. A layout is written out so.")]
struct Plain {
    #[command(flatten)]
    what: What,
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
struct What {
    /// Directories, files, packs, archives with two slashes (`x.tar//`): what is in the only one,
    /// or each of several under its name
    #[arg(required = true, value_name = "TREE")]
    trees: Vec<PathBuf>,
    /// Write it into this file, which appears when it is whole
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Write a layout, a short file that stands for it: bytes of files stay where they are
    #[arg(short = 'o', long, value_name = "FILE", conflicts_with = "write")]
    layout: Option<PathBuf>,
    /// List its members: where the bytes of each begin, how many there are, its path
    #[arg(long, conflicts_with_all = ["write", "layout"])]
    list: bool,
    /// Write even where there is not enough room, or something is missing in it
    #[arg(long)]
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
        Kind::Raw(Plain { what }) => (what, Box::new(Raw)),
        Kind::Afs(AfsArgs { what, without_names }) => (what, Box::new(Afs { without_names })),
        Kind::Safetensors(Shards { what }) => (what, Box::new(Safetensors)),
    };
    let target = what.write.as_deref().or(what.layout.as_deref());
    let to_stdout = target.map_or(!what.list, |_| what.write.as_deref().is_some_and(is_stdout));
    if to_stdout && context.json() {
        return Err(UsageError::new("with --json the report goes to stdout: give --write FILE").into());
    }
    if to_stdout && std::io::stdout().is_terminal() {
        let what = "its bytes would go to the terminal: give --write FILE, -o LAYOUT, --list, or a pipe";
        return Err(UsageError::new(what).into());
    }
    if what.layout.as_deref().is_some_and(is_stdout) {
        return Err(UsageError::new("a layout is a file: paths in it are relative to where it lies").into());
    }
    if what.force && target.is_none() {
        return Err(UsageError::new("--force is for what is written: give --write FILE or -o LAYOUT").into());
    }
    let stitched = lay_out(&what, layout, target.filter(|_| !to_stdout), context)?;
    report_missing(&stitched, what.verbose, context);
    match target {
        _ if to_stdout => to_output(&stitched, context)?,
        Some(path) => write(&stitched, path, &what, context)?,
        None => list(&stitched, context)?,
    }
    Ok(code_for(stitched.undone()))
}

fn lay_out(
    what: &What,
    layout: Box<dyn Layout>,
    target: Option<&Path>,
    context: &Context,
) -> anyhow::Result<Stitched> {
    let mut open = OpenGiven::default();
    open.contents.pack.at_ns = what.view.at_ns();
    let open =
        |path: &PathBuf| given::open(path, &open, &what.fetch, |error| error_of(error.into()), context);
    let trees = what.trees.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let target = target.map(Path::to_path_buf);
    let bar = context.progress("listing", Unit::Items, None);
    StitchGiven { trees, layout, target }.lay_out(&mut |members| bar.go_on(members, None)).map_err(error_of)
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

fn write(stitched: &Stitched, path: &Path, what: &What, context: &Context) -> anyhow::Result<()> {
    let (len, started) = (stitched.laid.file.len(), Instant::now());
    let bar = context.progress("writing", Unit::Bytes, Some(len));
    let mut go_on = |at| bar.go_on(at, Some(len));
    let written = match what.layout {
        Some(_) => stitched.save_layout(path, what.force, &mut go_on),
        None => stitched.write(path, what.force, &mut go_on),
    };
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
            is_layout: what.layout.is_some(),
            members,
            bytes: len,
            seconds,
            failures,
        };
        packs::print_json(&mut output, "stitch", document, context)?;
    } else if what.layout.is_some() && !context.quiet() {
        let path = printable(path.as_os_str().as_encoded_bytes());
        let members = units::count_of(members, "member", "members");
        let len = units::bytes_decimal(len);
        output.line(format_args!("Wrote {path}: it stands for {members}, {len}. `stook ls {path}`"))?;
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
    #[serde(rename = "layout")]
    is_layout: bool,
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
        Error::Stitch(error @ StitchError::Member { .. }) => UsageError::new(error.to_string()).into(),
        error => error.into(),
    }
}
