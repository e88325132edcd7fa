//! `stook copy SRC… DST`: trees into one directory or several, each file read once.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use stook::copy::{
    Action, CopyEvents, CopyOptions, CopyReport, DestinationReport, HashKind, Item, Progress, Resume,
    Unfinished, Why,
};
use stook::ops::contents::is_object;
use stook::ops::copy::{CopyGiven, Error, Given, OpenGiven};
use stook::report::json::TextOrBytes;
use stook::report::units;
use stook::source::AccessRule;

use super::unpack::{When, Which};
use crate::context::Context;
use crate::exit::{INTERRUPTED, UsageError, code_for};
use crate::failures::{self, Failed};
use crate::fetch::{FetchArgs, parse_size};
use crate::interrupt::{Interruptible, interrupted, wait_for};
use crate::output::printable;
use crate::progress::Unit;
use crate::select::SelectArgs;
use crate::{keys, packs, progress};

/// Copies files and trees to one directory or several, in one read
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What goes where; trailing slashes change nothing:
  stook copy card disk                 one directory: what is in `card` goes into `disk`
  stook copy card notes disk           several: disk/card and disk/notes
  stook copy take.mov disk             a file: disk/take.mov
  stook copy photos.stook disk         what is in a pack (or an archive: x.tar//, s3://bucket/x.tar//)

Examples:
  stook copy card disk --to spare      two disks, and the card is read once
  stook copy card disk --dry-run       what would be done, and why
  stook copy photos backup --overwrite different --mirror
                                       make the copy what the original is
  stook copy https://host/x.bin disk   an object, as disk/x.bin

A name always has the whole file: files get theirs when their bytes are on the medium. Run again after an interruption,
what is there with the same length and time is skipped, and a large file that was cut off is continued. Existing files that differ are kept and named (exit code 1),
unless --overwrite says which are replaced; directories get mode and time of their source. One bad file, and one full or
failing destination, stop only themselves. Only root sets owners.")]
pub struct Args {
    /// What to copy, then the directory to copy it to
    #[arg(value_name = "PATH", required = true, num_args = 2..)]
    paths: Vec<PathBuf>,
    /// One more directory to copy to; may be given more than once
    #[arg(long, value_name = "DIR")]
    to: Vec<PathBuf>,
    #[command(flatten)]
    select: SelectArgs,
    /// Copy only the paths that are listed in this file, one a line, relative to SRC; `-` is stdin
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,
    /// Paths of --files-from end in a zero byte instead of a line
    #[arg(long, requires = "files_from")]
    null: bool,
    /// Which existing files are replaced
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Which::Never)]
    overwrite: Which,
    /// Compare bytes, where length and time are the same
    #[arg(long)]
    checksum: bool,
    /// Keep what is replaced or deleted under its name with this at the end
    #[arg(long, value_name = "SUFFIX", num_args = 0..=1, require_equals = true, default_missing_value = "~")]
    backup: Option<std::ffi::OsString>,
    /// Delete what only the destination has, once everything is copied
    #[arg(long)]
    mirror: bool,
    /// Make hard links to the files of an earlier copy that are unchanged
    #[arg(long, value_name = "DIR")]
    link_dest: Option<PathBuf>,
    /// Show what would be done, and why
    #[arg(long)]
    dry_run: bool,
    /// When files are on the medium
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = When::Batch)]
    durability: When,
    /// Leave out what is mounted in a directory
    #[arg(long)]
    one_file_system: bool,
    /// Make pipes, and as root devices; otherwise they are listed
    #[arg(long)]
    specials: bool,
    /// Compute these of each file that is read: xxh3, xxh128, blake3, sha256
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_hash)]
    hash: Vec<HashKind>,
    /// Length of one read or write of a large file
    #[arg(long, value_name = "SIZE", value_parser = parse_block)]
    block_size: Option<u64>,
    /// Reads and writes of a large file in flight
    #[arg(long, value_name = "N", value_parser = packs::number::<usize>(1..=256))]
    depth: Option<usize>,
    /// Small files copied at once
    #[arg(long, value_name = "N", value_parser = packs::number::<usize>(1..=256))]
    jobs: Option<usize>,
    /// Whether bytes pass by the page cache: auto, always, never
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Direct::Auto)]
    direct: Direct,
    /// Bytes a second that are read, at most
    #[arg(long, value_name = "SIZE", value_parser = parse_limit)]
    bwlimit: Option<u64>,
    /// Do not set owners (only root does)
    #[arg(long)]
    no_owner: bool,
    /// Leave out extended attributes, access control lists among them
    #[arg(long)]
    no_xattrs: bool,
    /// Copy the files that packs are made of, not what is in them
    #[arg(long)]
    as_file: bool,
    /// Write what fits, even if there is too little space for all of it
    #[arg(long)]
    force: bool,
    /// Name all failures and every existing file with different content, not the first ten of each
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    view: packs::View,
    #[command(flatten)]
    fetch: FetchArgs,
}

/// Whether bytes pass by the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Direct {
    /// Those of large files that are not cached
    Auto,
    /// All that can
    Always,
    /// None
    Never,
}

fn parse_hash(text: &str) -> Result<HashKind, String> {
    let found = HashKind::ALL.into_iter().find(|kind| kind.name() == text);
    found.ok_or_else(|| format!("expected {}", HashKind::ALL.map(HashKind::name).join(", ")))
}

fn parse_block(text: &str) -> Result<u64, String> {
    let is_block = |bytes: &u64| (4096..=16 << 20).contains(bytes) && bytes.is_multiple_of(4096);
    let what = "expected a multiple of 4 KiB, from 4 KiB to 16 MiB";
    parse_size(text).and_then(|bytes| Some(bytes).filter(is_block).ok_or_else(|| what.into()))
}

fn parse_limit(text: &str) -> Result<u64, String> {
    let what = "expected at least one byte a second";
    parse_size(text).and_then(|bytes| Some(bytes).filter(|bytes| *bytes > 0).ok_or_else(|| what.into()))
}

/// Copies.
///
/// # Errors
/// Returns an error if something is refused before it is begun, or cannot be opened, or arguments
/// are invalid.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let options = args.options()?;
    let asked = options.clone();
    let Some((destination, sources)) = args.paths.split_last() else {
        return Err(UsageError::new("at least one source and one destination are needed").into());
    };
    if args.fetch.is_given() && !sources.iter().any(is_object) {
        let first = sources.first().map(PathBuf::as_path).unwrap_or(destination);
        args.fetch.refuse(first)?;
    }
    let sources = sources.iter().map(|source| args.open(source, context)).collect::<Result<Vec<_>, _>>()?;
    let destinations = [std::slice::from_ref(destination), args.to.as_slice()].concat();
    let mut events = Events {
        bar: context.progress("copying", Unit::Bytes, None),
        items: Vec::new(),
        keeps: args.dry_run,
    };
    let started = Instant::now();
    let report = CopyGiven { sources, destinations, options }.run(&mut events).map_err(error_of)?;
    let Events { bar, items, .. } = events;
    drop(bar);
    print(&report, &items, &args, started.elapsed().as_secs_f64(), context)?;
    if report.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    keys::note_unmatched(&asked.selection, context);
    if report.found_nothing(&asked) {
        context.failure(anyhow::anyhow!("nothing matches what was asked for").as_ref());
        return Ok(code_for(1));
    }
    Ok(code_for(report.undone()))
}

/// Of the library's errors those that the command line has its own for.
fn error_of(error: Error) -> anyhow::Error {
    match error {
        Error::Copy(error @ (stook::copy::Error::Invalid(_) | stook::copy::Error::SameName { .. })) => {
            UsageError::new(error.to_string()).into()
        }
        error => error.into(),
    }
}

/// Shows progress, and keeps what a dry run says.
struct Events {
    bar: progress::Progress,
    items: Vec<Item>,
    keeps: bool,
}

impl CopyEvents for Events {
    fn go_on(&mut self, progress: &Progress) -> bool {
        self.bar.go_on(progress.bytes, progress.total_bytes)
    }

    fn item(&mut self, item: &Item) {
        if self.keeps && item.action != Action::Skip {
            self.items.push(item.clone());
        }
    }
}

impl Args {
    fn options(&self) -> anyhow::Result<CopyOptions> {
        Ok(CopyOptions {
            overwrite: self.overwrite.into(),
            checksum: self.checksum,
            durability: self.durability.into(),
            backup: self.backup.clone(),
            mirror: self.mirror,
            dry_run: self.dry_run,
            selection: self.select.selection()?,
            only: self.files_from.as_deref().map(|path| self.listed(path)).transpose()?,
            link_dest: self.link_dest.clone(),
            with_owner: !self.no_owner,
            xattrs: !self.no_xattrs,
            specials: self.specials,
            hashes: self.hash.clone(),
            block_bytes: self.block_size,
            depth: self.depth,
            jobs: self.jobs,
            access: match self.direct {
                Direct::Auto => AccessRule::Auto,
                Direct::Always => AccessRule::Direct,
                Direct::Never => AccessRule::Cached,
            },
            bytes_per_s: self.bwlimit,
            force: self.force,
            resume: Some(Resume::default()),
        })
    }

    /// The paths of a list.
    fn listed(&self, path: &Path) -> anyhow::Result<BTreeSet<Vec<u8>>> {
        let mut text = Vec::new();
        let failed = |error| stook::Error::io("read", path, error);
        match path == Path::new("-") {
            true => Interruptible::stdin()?.read_to_end(&mut text).map_err(failed)?,
            false => {
                Interruptible::open(path).and_then(|mut file| file.read_to_end(&mut text)).map_err(failed)?
            }
        };
        let end = if self.null { 0 } else { b'\n' };
        let lines = text.split(|byte| *byte == end).filter(|line| !line.is_empty());
        let trimmed = |line: &[u8]| -> Vec<u8> {
            let line = line.strip_prefix(b"./").unwrap_or(line);
            line.strip_suffix(b"/").unwrap_or(line).to_vec()
        };
        Ok(lines.map(trimmed).collect())
    }

    /// Opens what a source is.
    fn open(&self, source: &Path, context: &Context) -> anyhow::Result<Given> {
        let mut open = OpenGiven {
            as_file: self.as_file,
            one_file_system: self.one_file_system,
            ..OpenGiven::default()
        };
        open.contents.pack.at_ns = self.view.at_ns();
        if !is_object(source) {
            let bar = context.progress("indexing", Unit::Bytes, None);
            let given = open.open(source, &mut |bytes| bar.go_on(bytes, None));
            drop(bar);
            return watched(given.map_err(error_of)?, context);
        }
        let (source, fetch) = (source.to_path_buf(), self.fetch.clone());
        let given = wait_for(move || -> anyhow::Result<Given> {
            fetch.set(&mut open.contents)?;
            open.open(&source, &mut |_| !interrupted()).map_err(error_of)
        })??;
        watched(given, context)
    }
}

/// Damage of a pack is noted from now on.
fn watched(given: Given, context: &Context) -> anyhow::Result<Given> {
    if let Some(pack) = given.opened().and_then(|opened| opened.pack()) {
        context.watch(pack.damage_log());
    }
    Ok(given)
}

/// The report as JSON.
#[derive(Serialize)]
struct Report<'a> {
    entries: u64,
    read_files: u64,
    read_bytes: u64,
    seconds: f64,
    interrupted: bool,
    dry_run: bool,
    destinations: Vec<Copied<'a>>,
    items: Vec<JsonItem<'a>>,
    not_copied: Vec<TextOrBytes<'a>>,
    failures: Vec<Failed<'a>>,
}

/// What became of a destination.
#[derive(Serialize)]
struct Copied<'a> {
    path: String,
    files: u64,
    bytes: u64,
    cloned: u64,
    copied_by_server: u64,
    directories: u64,
    symlinks: u64,
    hard_links: u64,
    linked: u64,
    specials: u64,
    unchanged: u64,
    corrected: u64,
    backups: u64,
    kept: Vec<TextOrBytes<'a>>,
    deleted: Vec<TextOrBytes<'a>>,
    unset_xattrs: u64,
    direct_bytes: u64,
    cached_bytes: u64,
    resumed_bytes: u64,
    unfinished: Vec<JsonUnfinished<'a>>,
    stopped: Option<&'a str>,
    failures: Vec<Failed<'a>>,
}

impl<'a> Copied<'a> {
    fn new(one: &'a DestinationReport) -> Self {
        Self {
            path: one.path.display().to_string(),
            files: one.files,
            bytes: one.bytes,
            cloned: one.cloned,
            copied_by_server: one.copied_by_server,
            directories: one.directories,
            symlinks: one.symlinks,
            hard_links: one.hard_links,
            linked: one.linked,
            specials: one.specials,
            unchanged: one.unchanged,
            corrected: one.corrected,
            backups: one.backups,
            kept: one.kept.iter().map(|kept| TextOrBytes::key(&kept.key)).collect(),
            deleted: one.deleted.iter().map(|key| TextOrBytes::key(key)).collect(),
            unset_xattrs: one.unset_xattrs.entries,
            direct_bytes: one.passage.direct_bytes,
            cached_bytes: one.passage.cached_bytes,
            resumed_bytes: one.resumed_bytes,
            unfinished: one.unfinished.iter().map(JsonUnfinished::new).collect(),
            stopped: one.stopped.as_deref(),
            failures: Failed::all(&one.failures),
        }
    }
}

/// A file that the next run continues.
#[derive(Serialize)]
struct JsonUnfinished<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    bytes: u64,
}

impl<'a> JsonUnfinished<'a> {
    fn new(one: &'a Unfinished) -> Self {
        Self { key: TextOrBytes::key(&one.key), bytes: one.bytes }
    }
}

/// What a dry run would do.
#[derive(Serialize)]
struct JsonItem<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    destination: usize,
    action: &'static str,
    why: &'static str,
}

fn action_name(action: Action) -> &'static str {
    match action {
        Action::HardLink => "hard_link",
        Action::LinkEarlier => "link",
        Action::Correct => "correct",
        Action::Skip => "skip",
        Action::Keep => "keep",
        Action::Delete => "delete",
        _ => "copy",
    }
}

fn why_name(why: Why) -> &'static str {
    match why {
        Why::New => "new",
        Why::OtherKind => "kind",
        Why::Len => "length",
        Why::Time => "time",
        Why::Older => "older",
        Why::Asked => "asked",
        Why::Metadata => "metadata",
        Why::Same => "same",
        Why::Extra => "extra",
        _ => "content",
    }
}

fn print(
    report: &CopyReport,
    items: &[Item],
    args: &Args,
    seconds: f64,
    context: &Context,
) -> anyhow::Result<()> {
    failures::print(context, &report.failures, args.verbose);
    for one in &report.destinations {
        print_destination(one, args.verbose, context);
    }
    let (reported, more) = failures::few(&report.not_copied, args.verbose);
    for left in reported {
        context.note(format_args!("{} is {}, and was not copied.", printable(&left.key), left.kind.noun()));
    }
    if let Some(more) = more {
        context.note(format_args!("{more} more special files were not copied; `--verbose` names them all."));
    }
    let mut output = context.output();
    if context.json() {
        let items = items.iter().map(|one| JsonItem {
            key: TextOrBytes::key(&one.key),
            destination: one.destination,
            action: action_name(one.action),
            why: why_name(one.why),
        });
        let document = Report {
            entries: report.entries,
            read_files: report.read_files,
            read_bytes: report.read_bytes,
            seconds,
            interrupted: report.interrupted,
            dry_run: args.dry_run,
            destinations: report.destinations.iter().map(Copied::new).collect(),
            items: items.collect(),
            not_copied: report.not_copied.iter().map(|left| TextOrBytes::key(&left.key)).collect(),
            failures: Failed::all(&report.failures),
        };
        packs::print_json(&mut output, "copy", document, context)?;
        return Ok(output.finish()?);
    }
    let has_several = report.destinations.len() > 1;
    for item in items {
        let place = match report.destinations.get(item.destination).filter(|_| has_several) {
            Some(one) => one.path.join(std::ffi::OsStr::from_bytes(&item.key)).into_os_string(),
            None => std::ffi::OsStr::from_bytes(&item.key).to_os_string(),
        };
        let (action, why) = (action_name(item.action), why_name(item.why));
        output.line(format_args!("{action:<9} {why:<8} {}", printable(place.as_bytes())))?;
    }
    if !args.dry_run {
        for one in &report.destinations {
            for key in &one.deleted {
                output.line(format_args!("deleted {}", printable(key)))?;
            }
        }
    }
    if !context.quiet() && !args.dry_run {
        for one in &report.destinations {
            output.line(summary(one, has_several, seconds, report.interrupted))?;
        }
    }
    Ok(output.finish()?)
}

/// What is wrong in a destination.
fn print_destination(one: &DestinationReport, verbose: bool, context: &Context) {
    failures::print(context, &one.failures, verbose);
    if let Some(why) = &one.stopped {
        let path = one.path.display();
        context.failure(anyhow::anyhow!("nothing more was written to {path}: {why}").as_ref());
    }
    let (reported, more) = failures::few(&one.kept, verbose);
    for kept in reported {
        let place = one.path.join(std::ffi::OsStr::from_bytes(&kept.key));
        let text =
            format!("{} is there with other content, and was kept", printable(place.as_os_str().as_bytes()));
        context.failure(anyhow::anyhow!("{text}").as_ref());
    }
    if let Some(more) = more {
        context.failure(anyhow::anyhow!("{more} more were kept; `--verbose` names them all").as_ref());
    }
    if !one.kept.is_empty() {
        context.note("`--overwrite different` replaces what is there with other content.");
    }
    for left in &one.unfinished {
        let place = one.path.join(std::ffi::OsStr::from_bytes(&left.key));
        let (place, there) = (printable(place.as_os_str().as_bytes()), units::bytes_decimal(left.bytes));
        context.note(format_args!("{place} continues from {there} at the next run."));
    }
    super::unpack::report_unset(&one.unset_xattrs, context);
}

fn summary(one: &DestinationReport, has_several: bool, seconds: f64, interrupted: bool) -> String {
    let links = one.symlinks + one.hard_links + one.linked;
    let mut text = format!(
        "Copied {}, {}, {}: {}",
        units::count_of(one.files, "file", "files"),
        units::count_of(one.directories, "directory", "directories"),
        units::count_of(links, "link", "links"),
        units::bytes_decimal(one.bytes),
    );
    if one.bytes > 1_000_000 {
        let rate = units::rate(one.bytes as f64 / seconds.max(1e-9));
        text.push_str(&format!(" in {seconds:.2} s, {rate}"));
    }
    if has_several {
        text.push_str(&format!(" to {}", one.path.display()));
    }
    for (count, what) in [
        (one.unchanged, "unchanged"),
        (one.corrected, "with corrected mode, owner or time"),
        (one.kept.len() as u64, "kept with other content"),
        (one.backups, "kept under another name"),
        (one.deleted.len() as u64, "deleted"),
        (one.failures.len() as u64, "failed"),
    ] {
        if count > 0 {
            text.push_str(&format!("; {} {what}", units::count(count)));
        }
    }
    if one.resumed_bytes > 0 {
        text.push_str(&format!("; {} were there already", units::bytes_decimal(one.resumed_bytes)));
    }
    match one.made.as_slice() {
        [] => {}
        [only] => text.push_str(&format!("; made the directory {}", only.display())),
        [first, .., last] => {
            text.push_str(&format!("; made the directories {} to {}", first.display(), last.display()));
        }
    }
    if interrupted {
        text.push_str("; interrupted, every file written is complete");
    }
    text
}
