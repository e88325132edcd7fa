//! `stook unpack PACK DIR`: the tree of files that is in a pack.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use stook::ops::contents::Opened;
use stook::ops::export::Export;
use stook::ops::unpack::{
    Durability, Error, Failure, Nothing, Packed, PathFilter, Summary, THREADS, THREADS_MAX, Unpack, Unpacked,
};
use stook::pack::Pack;
use stook::report::json::TextOrBytes;
use stook::report::units;
use stook::tree::{Kept, Overwrite, UnsetXattrs, WhyKept};

use crate::context::Context;
use crate::exit::{INTERRUPTED, UsageError, code_for};
use crate::failures::{self, Failed};
use crate::fetch::FetchArgs;
use crate::interrupt::Interrupted;
use crate::keys::{self, Asked};
use crate::output::{OutputError, is_stdout, printable};
use crate::progress::Unit;
use crate::select::SelectArgs;
use crate::{contents, packs};

/// Writes the files of a pack into a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook unpack photos.stook photos                   the whole tree
  stook unpack photos.stook out --include '*.jpg'    only these
  stook unpack photos.stook out --prefix 2024/       only paths that begin with this
  stook unpack photos.stook photos --overwrite different
                                                     replace existing files that differ
  stook unpack photos.stook --tar photos.tar         a tar, byte for byte the same each time
  stook unpack train.tar train                       an archive, as safely as a pack
  stook unpack s3://bucket/train.tar train           the same of an object

Files appear when they are complete and verified; at the end everything is synced, unless --durability is `none`.
Existing files are compared; those with different content are kept and named (exit code 1), unless --overwrite says
which are replaced. Existing directories keep mode and time unless that is `always`. Holes that a file had become
holes; zeros that were written are written. Files that a killed run left half-made (`.stook-*.part`) are removed. Only
root restores owners; where they are not restored, set-user-id and set-group-id bits that would apply to another owner
are dropped, and so are extended attributes that grant rights (capabilities). All others are set, access control lists
among them; where the file system does not take them, that is an error (exit code 1). Nothing is ever written outside
DIR: absolute paths, `..` and links that lead out are refused.")]
pub struct Args {
    /// The pack, or a tar or zip archive, which may be at an address: https://…, s3://bucket/key
    #[arg(value_name = "PACK")]
    pack: PathBuf,
    /// Where to; created if it does not exist
    #[arg(value_name = "DIR", required_unless_present = "tar")]
    target: Option<PathBuf>,
    /// Write a tar instead of files, the same bytes for the same pack; `-` is stdout (not with
    /// --json, whose report goes there)
    #[arg(long, value_name = "FILE", conflicts_with_all =
        ["target", "overwrite", "no_owner", "threads", "durability"])]
    tar: Option<PathBuf>,
    #[command(flatten)]
    select: SelectArgs,
    /// Take only paths that begin with this
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
    /// Take only this group; may be given more than once
    #[arg(long, value_name = "NAME")]
    group: Vec<String>,
    /// Which existing files are replaced
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Which::Never)]
    overwrite: Which,
    /// When files are on the medium
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = When::Batch)]
    durability: When,
    /// Write what fits, even if there is too little space for all of it; with --tar, replace FILE
    /// even if the new tar is incomplete
    #[arg(long)]
    force: bool,
    /// Name all failures and every existing file with different content, not the first ten of each
    #[arg(long)]
    verbose: bool,
    /// Do not restore owners (only root does)
    #[arg(long)]
    no_owner: bool,
    /// Leave out extended attributes, access control lists among them
    #[arg(long)]
    no_xattrs: bool,
    /// Threads that write small files
    #[arg(long, value_name = "N", default_value_t = THREADS,
        value_parser = packs::number::<usize>(1..=THREADS_MAX as u64))]
    threads: usize,
    #[command(flatten)]
    view: packs::View,
    #[command(flatten)]
    fetch: FetchArgs,
}

/// Which files that are there are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Which {
    /// None: they stay
    Never,
    /// Those with an earlier modification time
    Older,
    /// Those with other content
    Different,
    /// All, and directories get mode and time
    Always,
}

/// When files are on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum When {
    /// Each before it gets its name
    File,
    /// Many at once, before any of them gets its name
    Batch,
    /// When the system writes them back
    None,
}

impl From<When> for Durability {
    fn from(when: When) -> Self {
        match when {
            When::File => Self::File,
            When::Batch => Self::Batch,
            When::None => Self::None,
        }
    }
}

impl From<Which> for Overwrite {
    fn from(which: Which) -> Self {
        match which {
            Which::Never => Self::Never,
            Which::Older => Self::Older,
            Which::Different => Self::Different,
            Which::Always => Self::Always,
        }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    files: u64,
    directories: u64,
    symlinks: u64,
    hard_links: u64,
    bytes: u64,
    seconds: f64,
    interrupted: bool,
    complete: bool,
    unchanged: u64,
    kept: Vec<KeptPath<'a>>,
    unset_xattrs: u64,
    unset_xattrs_first: Option<Unset<'a>>,
    foreign_xattrs: u64,
    failures: Vec<Failed<'a>>,
}

/// What stayed as it was, and why.
#[derive(Serialize)]
struct KeptPath<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    why: &'static str,
}

impl<'a> KeptPath<'a> {
    fn new(kept: &'a Kept) -> Self {
        Self { key: TextOrBytes::key(&kept.key), why: kept.why.name() }
    }
}

/// The first that lacks extended attributes, and why.
#[derive(Serialize)]
struct Unset<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    error: &'a str,
}

/// Unpacks.
///
/// # Errors
/// Returns an error if the pack cannot be opened, the target cannot be made, or arguments are
/// invalid.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let filter = args.filter()?;
    if context.json() && args.tar.as_deref().is_some_and(is_stdout) {
        return Err(UsageError::new("with --json the report goes to stdout: give --tar FILE").into());
    }
    let opened = contents::open(&args.pack, args.view.at_ns(), &args.fetch, context)?;
    if let (Some(_), Opened::Archive(archive)) = (&args.tar, &opened) {
        return Err(UsageError::new(Error::only_packs("--tar", archive).to_string()).into());
    }
    contents::check(&opened, &[], &args.group)?;
    contents::report_incomplete(&opened, context);
    let (filter, unpacked) = match (opened.pack(), &args.tar) {
        (Some(pack), Some(tar)) => into_tar(&args, pack, tar, filter, context)?,
        _ => into_directory(&args, (&opened).into(), filter, context)?,
    };
    if unpacked.summary.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    keys::note_unmatched(&filter.patterns, context);
    // Without what may be a secret in an address.
    let path = opened.contents().path();
    Ok(match unpacked.nothing {
        None => code_for(unpacked.undone),
        Some(nothing) => {
            let is_error = nothing == Nothing::Missing;
            let asked = args.asked();
            code_for(asked.report_nothing_to("unpack", is_error, &filter.patterns, path, context))
        }
    })
}

/// What was taken, and what became of it.
type Done = (PathFilter<'static>, Unpacked);

fn into_directory(
    args: &Args,
    packed: Packed<'_>,
    filter: PathFilter<'static>,
    context: &Context,
) -> anyhow::Result<Done> {
    let unpack = Unpack {
        target: args.target.clone().unwrap_or_else(|| PathBuf::from(".")),
        filter,
        overwrite: args.overwrite.into(),
        with_owner: !args.no_owner,
        xattrs: !args.no_xattrs,
        threads: args.threads,
        durability: args.durability.into(),
        force: args.force,
    };
    let bar = context.progress("unpacking", Unit::Bytes, None);
    let started = Instant::now();
    let unpacked = unpack.run(packed, &mut |progress| bar.go_on(progress.bytes, Some(progress.total_bytes)));
    let unpacked = unpacked.map_err(error_of)?;
    drop(bar);
    print(&unpacked, args, started.elapsed().as_secs_f64(), context)?;
    Ok((unpack.filter, unpacked))
}

fn into_tar(
    args: &Args,
    pack: &Pack,
    tar: &Path,
    filter: PathFilter<'static>,
    context: &Context,
) -> anyhow::Result<Done> {
    let export = Export { filter, xattrs: !args.no_xattrs, force: args.force };
    let bar = context.progress("writing", Unit::Bytes, None);
    let mut progress = |_, bytes| bar.go_on(bytes, None);
    let started = Instant::now();
    let unpacked = if is_stdout(tar) {
        let mut output = context.output();
        let unpacked = export.run(pack, &mut output, &mut progress).map_err(error_of)?;
        output.finish()?;
        drop(bar);
        failures::print(context, &unpacked.summary.failures, args.verbose);
        report_unset(&unpacked.summary.unset_xattrs, context);
        unpacked
    } else {
        let unpacked = export.run_to_file(pack, tar, &mut progress).map_err(error_of)?;
        drop(bar);
        print(&unpacked, args, started.elapsed().as_secs_f64(), context)?;
        unpacked
    };
    Ok((export.filter, unpacked))
}

/// Of the library's errors those that the command line has its own for.
fn error_of(error: Error) -> anyhow::Error {
    match error {
        Error::Interrupted => Interrupted.into(),
        // The library is given no other writer than stdout.
        Error::Write(error) => OutputError::from(error).into(),
        Error::Core(error) => error.into(),
        error => error.into(),
    }
}

impl Args {
    /// What is unpacked.
    fn filter(&self) -> Result<PathFilter<'static>, UsageError> {
        let patterns = self.select.selection()?;
        let prefix = keys::path_prefix(self.prefix.as_deref())?;
        Ok(PathFilter { groups: self.group.clone(), prefix, patterns, ..PathFilter::default() })
    }

    /// The same as it was given.
    fn asked(&self) -> Asked {
        let asked = Asked::default().with_patterns(&self.select);
        asked.with("--prefix", &self.prefix).with("--group", &self.group)
    }
}

fn print(unpacked: &Unpacked, args: &Args, seconds: f64, context: &Context) -> anyhow::Result<()> {
    let Unpacked { summary, is_complete, .. } = unpacked;
    failures::print(context, &summary.failures, args.verbose);
    match &args.tar {
        None => report_kept(summary, args.verbose, context),
        Some(tar) if !summary.kept.is_empty() => failures::report_kept_file(tar, context),
        Some(_) => {}
    }
    report_unset(&summary.unset_xattrs, context);
    let mut output = context.output();
    if context.json() {
        let report = Report {
            files: summary.files,
            directories: summary.directories,
            symlinks: summary.symlinks,
            hard_links: summary.hard_links,
            bytes: summary.bytes,
            seconds,
            interrupted: summary.interrupted,
            complete: *is_complete,
            unchanged: summary.unchanged,
            kept: summary.kept.iter().map(KeptPath::new).collect(),
            unset_xattrs: summary.unset_xattrs.entries,
            unset_xattrs_first: summary
                .unset_xattrs
                .first
                .as_ref()
                .map(|(key, error)| Unset { key: TextOrBytes::key(key), error }),
            foreign_xattrs: summary.unset_xattrs.foreign,
            failures: Failed::all(&summary.failures),
        };
        packs::print_json(&mut output, "unpack", report, context)?;
        return Ok(output.finish()?);
    }
    if !context.quiet() {
        output.line(format_args!(
            "Unpacked {}, {}, {}: {}{}{}",
            units::count_of(summary.files, "file", "files"),
            units::count_of(summary.directories, "directory", "directories"),
            units::count_of(summary.symlinks + summary.hard_links, "link", "links"),
            units::bytes_decimal(summary.bytes),
            match summary.bytes > 1_000_000 {
                true =>
                    format!(" in {seconds:.2} s, {}", units::rate(summary.bytes as f64 / seconds.max(1e-9))),
                false => String::new(),
            },
            ending(summary),
        ))?;
    }
    Ok(output.finish()?)
}

/// What lacks extended attributes: one cause is mostly that of all, and is reported once.
pub(crate) fn report_unset(unset: &UnsetXattrs, context: &Context) {
    if unset.foreign > 0 {
        let of = units::count_of(unset.foreign, "file or directory", "files and directories");
        context.note(format_args!("Extended attributes of {of} are of another system, and were left out."));
    }
    let Some((key, why)) = &unset.first else { return };
    let of = units::count_of(unset.entries, "file or directory", "files and directories");
    let first = printable(key);
    let text = format!("extended attributes of {of} were not set, the first of {first}: {why}");
    context.failure(anyhow::anyhow!("{text}").as_ref());
    context.note("`--no-xattrs` leaves them out.");
}

/// What stays though it is not what was to be unpacked: an error, like all that is not done.
fn report_kept(summary: &Summary, verbose: bool, context: &Context) {
    let (reported, more) = failures::few(&summary.kept, verbose);
    for kept in reported {
        let why = match kept.why {
            WhyKept::TooOpen => ": more users may enter it than was recorded",
            _ => " is there with other content, and was kept",
        };
        let text = format!("{}{why}", printable(&kept.key));
        context.failure(anyhow::anyhow!("{text}").as_ref());
    }
    if let Some(more) = more {
        context.failure(anyhow::anyhow!("{more} more were kept; `--verbose` names them all").as_ref());
    }
    if summary.kept_for(WhyKept::OtherContent).next().is_some() {
        context.note("`--overwrite different` replaces what is there with other content.");
    }
    if summary.kept_for(WhyKept::TooOpen).next().is_some() {
        context.note(
            "`--overwrite always` sets the modes of directories that are there, and replaces all files.",
        );
    }
}

fn ending(summary: &Summary) -> String {
    let mut text = String::new();
    if summary.unchanged > 0 {
        text.push_str(&format!("; {} unchanged", units::count(summary.unchanged)));
    }
    let count = |why| summary.kept_for(why).count() as u64;
    let other = count(WhyKept::OtherContent);
    if other > 0 {
        text.push_str(&format!("; {} kept with other content", units::count(other)));
    }
    let too_open = count(WhyKept::TooOpen);
    if too_open > 0 {
        let kept = units::count_of(too_open, "directory", "directories");
        text.push_str(&format!("; {kept} that more may enter than was recorded"));
    }
    if count(WhyKept::Incomplete) > 0 {
        text.push_str("; the file that was there is kept");
    }
    if summary.interrupted {
        text.push_str("; interrupted, every file written is complete");
    }
    // Damage that names no record is reported, but it is not known to make a file missing.
    let is_of_pack = |failure: &&Failure| failure.key.is_empty() && failure.error.damage().is_some();
    let failed = summary.failures.len() - summary.failures.iter().filter(is_of_pack).count();
    if failed > 0 {
        text.push_str(&format!("; {} failed", units::count(failed as u64)));
    }
    if failed < summary.failures.len() {
        text.push_str("; the pack is damaged");
    }
    text
}
