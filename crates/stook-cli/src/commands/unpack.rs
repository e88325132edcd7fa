//! `stook unpack PACK DIR`: the tree of files that is in a pack.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use stook::pack::tree::{UnpackSummary, UnpackTree};
use stook::report::json::TextOrBytes;
use stook::report::units;

use crate::context::Context;
use crate::exit::{INTERRUPTED, UsageError, code_for};
use crate::failures::{self, Failed};
use crate::interrupt::interrupted;
use crate::output::printable;
use crate::progress::Unit;
use crate::select::Selection;
use crate::{archives, packs};

/// Writes the files of a pack into a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook unpack photos.stook photos                   the whole tree
  stook unpack photos.stook out --include '*.jpg'    only these
  stook unpack photos.stook out --prefix 2024/       only what begins so
  stook unpack photos.stook photos --overwrite       replace files that are there
  stook unpack photos.stook --tar photos.tar         a tar, byte for byte the same each time
  stook unpack train.tar train                       an archive, as safely as a pack

Files appear when they are whole and verified; at the end everything is synced. Files that are there are kept and
named, and directories keep their modes and times, unless --overwrite is given. Long zeroes become holes. Only root
restores owners; where they are not restored, set-user-id and set-group-id bits that would mean somebody else are
dropped. Nothing is ever written outside DIR: absolute paths, `..` and links that lead out are refused.")]
pub struct Args {
    /// The pack, or a tar or zip archive
    #[arg(value_name = "PACK")]
    pack: PathBuf,
    /// Where to; made if it is not there
    #[arg(value_name = "DIR", required_unless_present = "tar")]
    target: Option<PathBuf>,
    /// Write a tar instead of files, the same bytes for the same pack; `-` is stdout
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "overwrite", "no_owner", "threads"])]
    tar: Option<PathBuf>,
    /// Take only paths that match; a pattern without a slash matches names anywhere
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Leave out paths that match
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Take only paths that begin so
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    prefix: String,
    /// Take only this group; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub(super) group: Vec<String>,
    /// Replace files that are there
    #[arg(long)]
    pub(super) overwrite: bool,
    /// Do not restore owners (only root does)
    #[arg(long)]
    pub(super) no_owner: bool,
    /// Threads that write small files
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: u64,
    #[command(flatten)]
    view: packs::View,
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
    kept: Vec<TextOrBytes<'a>>,
    failures: Vec<Failed<'a>>,
}

/// Unpacks.
///
/// # Errors
/// A pack that cannot be opened, a target that cannot be made, arguments that make no sense.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let selection = Selection::new(&args.include, &args.exclude)?;
    let target = args.target.as_deref().unwrap_or(Path::new("."));
    let excluded_above = |key: &[u8]| {
        let parents = key.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        parents.filter_map(|(at, _)| key.get(..at)).any(|parent| selection.excludes(parent))
    };
    let select =
        |key: &[u8]| key.starts_with(args.prefix.as_bytes()) && selection.takes(key) && !excluded_above(key);
    if let Some(archive) = archives::open(&args.pack, context)? {
        args.view.refuse_for_archive()?;
        if args.tar.is_some() {
            return Err(UsageError::new("--tar is for packs").into());
        }
        return super::archive::unpack::run(&args, &archive, target, select, context);
    }
    let pack = args.view.open(&args.pack, context)?;
    packs::check_groups(&pack, &args.pack, &args.group)?;
    if let Some(tar) = &args.tar {
        return super::archive::export::run(&args, &pack, tar, &select, context);
    }
    if !pack.is_complete() {
        context.remark(format_args!("{} is incomplete: this is what is in it so far.", args.pack.display()));
    }
    let tree = UnpackTree {
        target: target.to_path_buf(),
        overwrite: args.overwrite,
        with_owner: !args.no_owner && rustix::process::geteuid().is_root(),
        groups: args.group.clone(),
        threads: args.threads as usize,
        select: Box::new(select),
    };
    let total = pack.segments().iter().map(|segment| segment.tally.body_bytes).sum();
    let progress = context.progress("unpacking", Unit::Bytes, Some(total));
    let started = Instant::now();
    let mut told = 0;
    let summary = tree.run(&pack, &mut |_, bytes| {
        // What was begun and could not be finished is taken back; a bar only goes forward.
        let more = bytes.saturating_sub(told);
        progress.add(more);
        told += more;
        !interrupted()
    })?;
    drop(progress);
    print(&summary, started.elapsed().as_secs_f64(), context)?;
    if summary.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(code_for(summary.failures.len() as u64))
}

pub(super) fn print(summary: &UnpackSummary, seconds: f64, context: &Context) -> anyhow::Result<()> {
    failures::tell(context, &summary.failures);
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
            kept: summary.kept.iter().map(|key| TextOrBytes::key(key)).collect(),
            failures: Failed::all(&summary.failures),
        };
        packs::print_json(&mut output, "unpack", report, context)?;
        return Ok(output.finish()?);
    }
    for key in &summary.kept {
        context.remark(format_args!("Kept: {} is there already.", printable(key)));
    }
    if !context.quiet() {
        output.line(format_args!(
            "Unpacked {} files, {} directories, {} links: {}{}{}",
            units::count(summary.files),
            units::count(summary.directories),
            units::count(summary.symlinks + summary.hard_links),
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

fn ending(summary: &UnpackSummary) -> String {
    let mut text = String::new();
    if !summary.kept.is_empty() {
        text.push_str(&format!("; {} kept", units::count(summary.kept.len() as u64)));
    }
    if summary.interrupted {
        text.push_str("; interrupted, what is there is whole");
    }
    if !summary.failures.is_empty() {
        text.push_str(&format!("; {} failed", units::count(summary.failures.len() as u64)));
    }
    text
}
