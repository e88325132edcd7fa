//! `stook unpack PACK DIR`: the tree of files that is in a pack.

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use stook::archive::{Archive, MemberKind};
use stook::pack::tree::{UnpackSummary, UnpackTree};
use stook::pack::{FileKind, Pack, RecordHead};
use stook::report::json::TextOrBytes;
use stook::report::units;
use stook::tree::Overwrite;

use crate::context::Context;
use crate::exit::{INTERRUPTED, UsageError, code_for};
use crate::failures::{self, Failed};
use crate::interrupt::{self, interrupted};
use crate::keys::{self, Asked};
use crate::output::printable;
use crate::progress::Unit;
use crate::select::{SelectArgs, Selection};
use crate::{archives, packs};

/// Heads read in one batch.
const BATCH: usize = 4096;

/// Writes the files of a pack into a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook unpack photos.stook photos                   the whole tree
  stook unpack photos.stook out --include '*.jpg'    only these
  stook unpack photos.stook out --prefix 2024/       only what begins so
  stook unpack photos.stook photos --overwrite different
                                                     replace files that are there and differ
  stook unpack photos.stook --tar photos.tar         a tar, byte for byte the same each time
  stook unpack train.tar train                       an archive, as safely as a pack

Files appear when they are whole and verified; at the end everything is synced. Files that are there are compared;
those with other content are kept and named (exit code 1), unless --overwrite says which are replaced. Directories that
are there keep mode and time unless that is `always`. Long zeroes become holes. Only root
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
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "overwrite", "no_owner", "threads", "force"])]
    tar: Option<PathBuf>,
    #[command(flatten)]
    select: SelectArgs,
    /// Take only paths that begin so
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
    /// Take only this group; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub(super) group: Vec<String>,
    /// Which files that are there are replaced
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Which::Never)]
    pub(super) overwrite: Which,
    /// Write what fits, even where there is less room than all of it needs
    #[arg(long)]
    pub(super) force: bool,
    /// Name all that failed and every file that is there with other content, not the first ten of each
    #[arg(long)]
    pub(super) verbose: bool,
    /// Do not restore owners (only root does)
    #[arg(long)]
    pub(super) no_owner: bool,
    /// Threads that write small files
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = packs::number::<u64>(1..=256))]
    threads: u64,
    #[command(flatten)]
    view: packs::View,
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
    kept: Vec<TextOrBytes<'a>>,
    failures: Vec<Failed<'a>>,
}

/// Unpacks.
///
/// # Errors
/// A pack that cannot be opened, a target that cannot be made, arguments that make no sense.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let selection = args.select.selection()?;
    let prefix = keys::bytes_prefix(args.prefix.as_deref())?;
    let wanted = Wanted { selection: &selection, prefix, taken: Cell::new(false) };
    let target = args.target.as_deref().unwrap_or(Path::new("."));
    let is_new = args.tar.is_none() && !target.exists();
    let code = match archives::open(&args.pack, context)? {
        Some(archive) => from_archive(&args, &archive, target, &wanted, context)?,
        None => from_pack(&args, target, &wanted, context)?,
    };
    if code == ExitCode::from(INTERRUPTED) {
        return Ok(code);
    }
    keys::note_unmatched(&selection, context);
    if wanted.taken.get() || code != ExitCode::SUCCESS {
        return Ok(code);
    }
    let nothing = args.asked().report_nothing_to("unpack", &selection, &args.pack, context);
    if is_new && nothing > 0 {
        stook::tree::remove_if_empty(target).map_err(|error| stook::Error::io("remove", target, error))?;
    }
    Ok(code_for(nothing))
}

/// Which paths are unpacked, and whether any was.
struct Wanted<'a> {
    selection: &'a Selection,
    /// `None` where only numbers are meant, which are no paths.
    prefix: Option<Vec<u8>>,
    taken: Cell<bool>,
}

impl Wanted<'_> {
    /// Whether a path is wanted. `is_directory` is called only where a pattern makes that decide.
    fn takes(&self, path: &[u8], is_directory: impl FnOnce() -> bool) -> bool {
        // The root is unpacked whatever is asked for, and is nothing that somebody asks for.
        if path.is_empty() {
            return true;
        }
        let takes = self.prefix.as_ref().is_some_and(|prefix| path.starts_with(prefix))
            && self.selection.takes_below(path, is_directory);
        self.taken.set(self.taken.get() || takes);
        takes
    }
}

fn from_archive(
    args: &Args,
    archive: &Archive,
    target: &Path,
    wanted: &Wanted<'_>,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    args.view.refuse_for_archive()?;
    if args.tar.is_some() {
        return Err(UsageError::new("--tar is for packs").into());
    }
    let is_directory =
        |path: &[u8]| archive.find(path).is_some_and(|found| found.kind == MemberKind::Directory);
    let select = |path: &[u8]| wanted.takes(path, || is_directory(path));
    super::archive::unpack::run(args, archive, target, &select, context)
}

/// The directories in a pack of which their kind decides whether they are wanted.
fn directories(pack: &Pack, args: &Args, selection: &Selection) -> anyhow::Result<HashSet<Vec<u8>>> {
    let (mut found, mut batch) = (HashSet::new(), Vec::new());
    if !selection.asks_for_kinds() {
        return Ok(found);
    }
    let mut entries = pack.keys(&keys::prefix(args.prefix.as_deref())?)?;
    loop {
        interrupt::check()?;
        let next = match entries.next().transpose() {
            // What is damaged is told when it is met on the way out.
            Err(error) if error.damage().is_some() => continue,
            next => next?,
        };
        let is_last = next.is_none();
        batch.extend(next.filter(|entry| {
            let path = entry.key.as_bytes();
            keys::is_in(&args.group, pack.group_of_entry(entry))
                && path.is_some_and(|path| selection.depends_on_kind(path))
        }));
        if batch.len() == BATCH || is_last {
            for (entry, head) in batch.iter().zip(pack.heads(&batch)?) {
                let is_directory =
                    |head: RecordHead| head.attributes.file_kind() == Some(FileKind::Directory);
                if head.is_ok_and(is_directory) {
                    found.extend(entry.key.as_bytes().map(<[u8]>::to_vec));
                }
            }
            batch.clear();
        }
        if is_last {
            return Ok(found);
        }
    }
}

fn from_pack(args: &Args, target: &Path, wanted: &Wanted<'_>, context: &Context) -> anyhow::Result<ExitCode> {
    let pack = args.view.open(&args.pack, context)?;
    packs::check_groups(&pack, &args.pack, &args.group)?;
    if !pack.is_complete() {
        let text = format!("{} is incomplete: this is what is in it so far", args.pack.display());
        context.failure(anyhow::anyhow!("{text}").as_ref());
    }
    let directories = directories(&pack, args, wanted.selection)?;
    let select = |path: &[u8]| wanted.takes(path, || directories.contains(path));
    if let Some(tar) = &args.tar {
        return super::archive::export::run(args, &pack, tar, &select, context);
    }
    let tree = UnpackTree {
        target: target.to_path_buf(),
        overwrite: args.overwrite.into(),
        with_owner: !args.no_owner && rustix::process::geteuid().is_root(),
        groups: args.group.clone(),
        threads: args.threads as usize,
        force: args.force,
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
    let (seconds, complete) = (started.elapsed().as_secs_f64(), pack.is_complete());
    print(&summary, args.verbose, seconds, complete, context)?;
    Ok(code(&summary, complete))
}

impl Args {
    /// What is unpacked, where that is not everything.
    fn asked(&self) -> Asked {
        let asked = Asked::default().with_patterns(&self.select);
        asked.with("--prefix", &self.prefix).with("--group", &self.group)
    }
}

/// 0 when the directory has what was to be unpacked, and that was all there was to be.
pub(super) fn code(summary: &UnpackSummary, complete: bool) -> ExitCode {
    match summary.interrupted {
        true => ExitCode::from(INTERRUPTED),
        false => code_for((summary.failures.len() + summary.kept.len() + usize::from(!complete)) as u64),
    }
}

pub(super) fn print(
    summary: &UnpackSummary,
    verbose: bool,
    seconds: f64,
    complete: bool,
    context: &Context,
) -> anyhow::Result<()> {
    failures::print(context, &summary.failures, verbose);
    report_kept(&summary.kept, verbose, context);
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
            complete,
            unchanged: summary.unchanged,
            kept: summary.kept.iter().map(|key| TextOrBytes::key(key)).collect(),
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

/// What stays though it is not what was to be unpacked: an error, like all that is not done.
fn report_kept(kept: &[Vec<u8>], verbose: bool, context: &Context) {
    let (told, more) = failures::few(kept, verbose);
    for key in told {
        let text = format!("{} is there with other content, and was kept", printable(key));
        context.failure(anyhow::anyhow!("{text}").as_ref());
    }
    if let Some(more) = more {
        context.failure(anyhow::anyhow!("{more} more were kept; `--verbose` names them all").as_ref());
    }
    if !kept.is_empty() {
        context.note("`--overwrite different` replaces what is there with other content.");
    }
}

fn ending(summary: &UnpackSummary) -> String {
    let mut text = String::new();
    if summary.unchanged > 0 {
        text.push_str(&format!("; {} unchanged", units::count(summary.unchanged)));
    }
    if !summary.kept.is_empty() {
        text.push_str(&format!("; {} kept with other content", units::count(summary.kept.len() as u64)));
    }
    if summary.interrupted {
        text.push_str("; interrupted, what is there is whole");
    }
    // Damage that names no record is told, but nobody knows that a file is missing for it.
    let failed = summary.failures.iter().filter(|failure| !failure.key.is_empty()).count();
    if failed > 0 {
        text.push_str(&format!("; {} failed", units::count(failed as u64)));
    }
    if failed < summary.failures.len() {
        text.push_str("; the pack is damaged");
    }
    text
}
