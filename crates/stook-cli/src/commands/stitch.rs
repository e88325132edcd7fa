//! `stook stitch`: archives of trees that are not written, or written out.

mod routes;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Subcommand;
use serde::Serialize;
use stook::ops::copy::{Given, OpenGiven};
use stook::ops::stitch::{Error, PatchGiven, Sharded, ShardsGiven, StitchGiven, Stitched};
use stook::report::json::TextOrBytes;
use stook::report::units;
use stook::source::Source as _;
use stook::stitch::{Afs, Changed, Error as StitchError, Layout, Raw, Safetensors, Tar, Wds, Zip};
use stook::tree::CaseRule;

use crate::context::Context;
use crate::exit::{UsageError, code_for};
use crate::failures::{self, Failed};
use crate::fetch::{FetchArgs, parse_size};
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
  stook stitch tar project -o project.toml && stook cat project.toml//project.tar --range 0..512
  stook stitch zip photos.stook --list
  stook stitch safetensors model-0000* --write model.safetensors
  stook stitch patch game.zip --with changes --write new.zip
  stook stitch routes game --with mod --write changed

Nothing is written but what --write or -o says, and the index of a tar or zip that is a TREE beside
it. Nothing is read before its bytes are asked for: where everything is in an archive follows from
names and lengths. A file that is not what it was when it was listed is an error."
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
    /// Tars for WebDataset, in which the files of a sample stand together
    Wds(WdsArgs),
    /// Files one after another, as `cat` writes them
    Raw(Plain),
    /// An AFS, as consoles of the year 2000 read it: files without directories
    Afs(AfsArgs),
    /// Shards of safetensors as one file with all tensors
    Safetensors(Shards),
    /// A tar, zip or AFS that is there, with members replaced, added and deleted
    Patch(PatchArgs),
    /// A tree with the same done to every archive that the paths of folders name
    Routes(routes::Args),
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
  stook stitch wds dataset --shard-size 1GB --write shards
  stook stitch wds dataset --shard-size 1GB --prefix train- -o train.toml
  stook ls train.toml//train-000000.tar
  stook stitch wds dataset | tar tvf -

A sample is what has the same path up to the first dot in its name: `a/1.jpg` and `a/1.cls`. -o writes one layout of all
shards. Files are shards of one set by their names: a directory with others of such names is refused.",
    mut_arg("write", |arg| arg.value_name("DIR").help("Write them into this directory, which is made or empty"))
)]
struct WdsArgs {
    #[command(flatten)]
    what: What,
    /// How long a shard is at most, unless it has one sample; all are in one, if it is not given
    #[arg(long, value_name = "SIZE", value_parser = parse_shard_size)]
    shard_size: Option<u64>,
    /// What the names of shards begin with, before the number
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = parse_prefix)]
    prefix: String,
    /// Leave out times and owners: the same files give the same bytes anywhere
    #[arg(long)]
    deterministic: bool,
}

/// A length of shards.
fn parse_shard_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("a shard has at least one byte".to_owned()),
        bytes if i64::try_from(bytes).is_err() => Err("no file is so long".to_owned()),
        bytes => Ok(bytes),
    }
}

/// The begin of names of files.
fn parse_prefix(text: &str) -> Result<String, String> {
    match text.contains(['/', '\0']) {
        true => Err("it is the begin of a name, and has no slash".to_owned()),
        false => Ok(text.to_owned()),
    }
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
  stook stitch safetensors model/*.safetensors --write model.safetensors
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
    /// Write a layout, a short file that stands for it: bytes of files stay where they are. In
    /// x.toml a tar is x.tar
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
        Kind::Wds(args) => return put_shards(args, context),
        Kind::Routes(args) => return routes::run(args, context),
        Kind::Raw(Plain { what }) => (what, Box::new(Raw)),
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

/// Where it goes, and whether that is stdout.
fn target_of<'o>(out: &'o Out, context: &Context) -> Result<(Option<&'o Path>, bool), UsageError> {
    let target = out.write.as_deref().or(out.layout.as_deref());
    let to_stdout = target.map_or(!out.list, |_| out.write.as_deref().is_some_and(is_stdout));
    if to_stdout && context.json() {
        return Err(UsageError::new(
            "with --json the report goes to stdout: give --write FILE, -o LAYOUT or --list",
        ));
    }
    if to_stdout && std::io::stdout().is_terminal() {
        let what = "its bytes would go to the terminal: give --write FILE, -o LAYOUT, --list, or a pipe";
        return Err(UsageError::new(what));
    }
    if out.layout.as_deref().is_some_and(is_stdout) {
        return Err(UsageError::new("a layout is a file: paths in it are relative to where it lies"));
    }
    if out.force && target.is_none() {
        return Err(UsageError::new("--force is for what is written: give --write FILE or -o LAYOUT"));
    }
    Ok((target, to_stdout))
}

/// Lays it out, and writes or lists it.
fn put_out(
    out: &Out,
    context: &Context,
    lay_out: impl FnOnce(Option<PathBuf>, &mut dyn FnMut(u64) -> bool) -> anyhow::Result<Stitched>,
) -> anyhow::Result<ExitCode> {
    let (target, to_stdout) = target_of(out, context)?;
    let bar = context.progress("listing", Unit::Items, None);
    let own = target.filter(|_| !to_stdout).map(Path::to_path_buf);
    let stitched = lay_out(own, &mut |members| bar.go_on(members, None))?;
    drop(bar);
    report_missing(&stitched, out.verbose, context);
    match target {
        _ if to_stdout => to_output(&stitched, context)?,
        Some(path) => write(&stitched, path, out, context)?,
        None => list(&stitched, None, context)?,
    }
    Ok(code_for(stitched.undone()))
}

fn open(path: &Path, out: &Out, context: &Context) -> anyhow::Result<Given> {
    open_at(path, &out.view, &out.fetch, context)
}

fn open_at(path: &Path, view: &packs::View, fetch: &FetchArgs, context: &Context) -> anyhow::Result<Given> {
    let mut open = OpenGiven::default();
    open.contents.pack.at_ns = view.at_ns();
    given::open(path, &open, fetch, |error| error_of(error.into()), context)
}

/// Lays shards out, and writes or lists them.
fn put_shards(args: WdsArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let WdsArgs { what: What { trees, out }, shard_size, prefix, deterministic } = args;
    let wds = Wds { shard_bytes: shard_size, prefix, deterministic };
    let (target, to_stdout) = target_of(&out, context)?;
    let trees = trees.iter().map(|path| open(path, &out, context)).collect::<Result<_, _>>()?;
    let bar = context.progress("listing", Unit::Items, None);
    let target = target.filter(|_| !to_stdout);
    let given = ShardsGiven { trees, wds, target: target.map(Path::to_path_buf) };
    let sharded = given.lay_out(&mut |members| bar.go_on(members, None)).map_err(error_of)?;
    drop(bar);
    sharded.shards().iter().for_each(|shard| report_missing(shard, out.verbose, context));
    match (target, sharded.shards()) {
        (None, [only]) if to_stdout => to_output(only, context)?,
        (None, several) if to_stdout => {
            let what = format!("{} shards are no one file: give --write DIR or -o LAYOUT", several.len());
            return Err(UsageError::new(what).into());
        }
        (Some(path), _) => write_shards(&sharded, path, &out, context)?,
        (None, shards) => {
            for shard in shards {
                list(shard, Some(shard.laid.file.path().as_os_str().as_encoded_bytes()), context)?;
            }
        }
    }
    Ok(code_for(sharded.undone()))
}

fn write_shards(sharded: &Sharded, path: &Path, out: &Out, context: &Context) -> anyhow::Result<()> {
    let (len, started) = (sharded.len(), Instant::now());
    let bar = context.progress("writing", Unit::Bytes, Some(len));
    let mut go_on = |at| bar.go_on(at, Some(len));
    let written = match out.layout {
        Some(_) => sharded.save_layout(path, out.force, &mut go_on),
        None => sharded.write(path, out.force, &mut go_on).map(|()| true),
    };
    drop(bar);
    if !written.map_err(error_of)? {
        failures::report_kept_file(path, context);
        return Ok(());
    }
    let members = sharded.shards().iter().map(|shard| shard.laid.members.all().len() as u64).sum();
    let shards = sharded.shards().len() as u64;
    let mut output = context.output();
    let shown = path.as_os_str().as_encoded_bytes();
    if context.json() {
        let failures = sharded.shards().iter().flat_map(|shard| Failed::all(shard.laid.members.failures()));
        let document = Written {
            path: TextOrBytes::new("path", shown),
            is_layout: out.layout.is_some(),
            shards: Some(shards),
            members,
            changed: None,
            bytes: len,
            seconds: started.elapsed().as_secs_f64(),
            failures: failures.collect(),
        };
        packs::print_json(&mut output, "stitch", document, context)?;
    } else if !context.quiet() {
        output.line(format_args!(
            "Wrote {}: {}, {}, {} in {}, {}",
            printable(shown),
            units::count_of(shards, "shard", "shards"),
            units::count_of(members, "member", "members"),
            units::bytes_decimal(len),
            units::duration(started.elapsed()),
            units::rate_of(len, started.elapsed()),
        ))?;
    }
    Ok(output.finish()?)
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
    let mut go_on = |at| bar.go_on(at, Some(len));
    let written = match out.layout {
        Some(_) => stitched.save_layout(path, out.force, &mut go_on),
        None => stitched.write(path, out.force, &mut go_on),
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
            is_layout: out.layout.is_some(),
            shards: None,
            members,
            changed: stitched.laid.members.changed().map(JsonChanged::new),
            bytes: len,
            seconds,
            failures,
        };
        packs::print_json(&mut output, "stitch", document, context)?;
    } else if out.layout.is_some() && !context.quiet() {
        let path = printable(path.as_os_str().as_encoded_bytes());
        let members = members_of(stitched);
        let len = units::bytes_decimal(len);
        output.line(format_args!("Wrote {path}: it stands for {members}, {len}. `stook ls {path}`"))?;
    } else if !context.quiet() {
        output.line(format_args!(
            "Wrote {}: {}, {} in {}, {}",
            printable(path.as_os_str().as_encoded_bytes()),
            members_of(stitched),
            units::bytes_decimal(len),
            units::duration(started.elapsed()),
            units::rate_of(len, started.elapsed()),
        ))?;
    }
    Ok(output.finish()?)
}

/// How many members there are, and how many were changed.
fn members_of(stitched: &Stitched) -> String {
    let members = &stitched.laid.members;
    let count = units::count_of(members.all().len() as u64, "member", "members");
    match members.changed() {
        None => count,
        Some(Changed { replaced, added, deleted }) => format!(
            "{count} ({} replaced, {} added, {} deleted)",
            units::count(replaced),
            units::count(added),
            units::count(deleted)
        ),
    }
}

/// What was written, in JSON.
#[derive(Debug, Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    path: TextOrBytes<'a>,
    #[serde(rename = "layout")]
    is_layout: bool,
    /// Of what is no file, but several.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<u64>,
    members: u64,
    /// Of `patch` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<JsonChanged>,
    bytes: u64,
    seconds: f64,
    failures: Vec<Failed<'a>>,
}

/// How many members of an archive were changed, in JSON.
#[derive(Debug, Serialize)]
struct JsonChanged {
    replaced: u64,
    added: u64,
    deleted: u64,
}

impl JsonChanged {
    fn new(of: Changed) -> Self {
        let Changed { replaced, added, deleted } = of;
        Self { replaced, added, deleted }
    }
}

/// A member, in JSON.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    /// Of `wds` alone.
    #[serde(flatten)]
    shard: Option<TextOrBytes<'a>>,
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    offset: u64,
    size: u64,
}

/// Lists members: those of a shard with its name.
fn list(stitched: &Stitched, shard: Option<&[u8]>, context: &Context) -> anyhow::Result<()> {
    let mut output = context.output();
    let laid = &stitched.laid;
    let members =
        laid.members.all().iter().enumerate().filter_map(|(at, one)| Some((one, laid.range_of(at)?)));
    if context.json() {
        let shard = shard.map(|shard| TextOrBytes::new("shard", shard));
        for (member, range) in members {
            let (offset, size) = (range.start(), range.len());
            let listed = Listed { shard, key: TextOrBytes::key(&member.key), offset, size };
            packs::print_json_line(&mut output, "stitch_member", listed, context)?;
        }
        return Ok(output.finish()?);
    }
    let columns = [("offset", Align::Right), ("bytes", Align::Right), ("path", Align::Left)];
    let mut table = Table::new(columns);
    for (member, range) in members {
        table.row([units::count(range.start()), units::count(range.len()), printable(&member.key)]);
    }
    if let Some(shard) = shard {
        output.line(format_args!("{}:", printable(shard)))?;
    }
    output.table(&table)?;
    Ok(output.finish()?)
}

/// Of the library's errors those that the command line has its own for.
pub(super) fn error_of(error: Error) -> anyhow::Error {
    match error {
        Error::Stitch(StitchError::Interrupted) => Interrupted.into(),
        Error::Stitch(StitchError::Core(error)) | Error::Core(error) => error.into(),
        Error::Stitch(
            error @ (StitchError::Member { .. } | StitchError::Change { .. } | StitchError::Nothing(_)),
        ) => UsageError::new(error.to_string()).into(),
        error => error.into(),
    }
}
