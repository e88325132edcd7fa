//! `stook pack DIR… PACK`: trees of files into a pack.

use std::io::{self, BufRead, BufReader, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use serde::Serialize;
use stook::archive::Archive;
use stook::error::RemoteErrorKind;
use stook::ops::contents::is_object;
use stook::ops::pack::{Answer, Error, Hooks, PackReport, PackSources, Stage, THREADS_MAX, parse_grouping};
use stook::pack::tree::{Delete, Grouping, Held, MoveSummary, PackSummary};
use stook::pack::{DamageLog, Key};
use stook::report::json::TextOrBytes;
use stook::report::units;

use crate::contents;
use crate::context::Context;
use crate::exit::{INTERRUPTED, UsageError, chain, check_places, code_for};
use crate::failures::{self, Failed};
use crate::interrupt::{Interrupted, Interruptible, interrupted};
use crate::keys::{self, Asked, refuse_empty};
use crate::output::printable;
use crate::packs;
use crate::progress::{Progress, Unit};
use crate::select::SelectArgs;

/// Bytes of stdin that are read at once.
const STDIN_LEN: usize = 256 << 10;

/// Packs trees of files; run again, adds only what is new or changed
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "stook pack [OPTIONS] <DIR>... <PACK>",
    after_help = "\
Examples:
  stook pack photos photos.stook                 everything under photos, keys relative to it
  stook pack train test data.stook               several trees, keys begin with train/ and test/
  stook pack logs logs.stook --exclude '*.tmp'   without temporary files
  stook pack data data.stook --group-by top      one group for each directory at the top
  stook pack a.tar b.zip all.stook               the members of archives, as if they had been unpacked
  stook pack https://host/a.zip all.stook        of an archive on a server (s3://… as well)
  tar c . | stook pack - all.stook               a tar from stdin
  stook pack photos photos.stook                 again: adds what is new or changed since, and
                                                 finishes what was interrupted
  stook pack photos photos.stook --delete        also deletes the records of files missing in photos
  stook pack photos photos.stook --delete --max-delete 500
                                                 even if that is more than half of them
  stook pack photos photos.stook --checksum      compares the bytes of every file, not its times
  stook pack logs logs.stook --move              then removes the packed files from logs

Keeps paths (any bytes), modes, modification times to the nanosecond, symbolic and hard links, empty
directories, extended attributes (access control lists among them) and, as root, owners. Links are
never followed. Pipes, sockets and devices are named and left out."
)]
pub struct Args {
    /// Directories (or files) to pack; or archives, by path or address, whose members become
    /// records, `-` for a tar from stdin. Then the pack, created if it does not exist
    // One argument, so that options may stand between them.
    #[arg(value_name = "PATH", required = true, num_args = 1..)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    select: SelectArgs,
    /// Put everything into this group
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Spread over groups: `none`, `top` (by first directory) or `hash:N`
    #[arg(long, value_name = "HOW", default_value = "none", conflicts_with = "group")]
    group_by: String,
    /// Seal segments when they are this long; for a new pack
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_segment_size)]
    segment_size: u64,
    /// Threads that walk and read; 128 where nothing else was measured of the device
    #[arg(long, value_name = "N", value_parser = packs::number::<u64>(1..=THREADS_MAX as u64))]
    threads: Option<u64>,
    /// Delete records of files that are no longer in the tree; with --group or --group-by, in that
    /// group only
    #[arg(long)]
    delete: bool,
    /// With --delete, delete up to this many records, even if that is more than half of the tree
    /// or they were moved into the pack
    #[arg(long, value_name = "N", requires = "delete", conflicts_with = "force",
        value_parser = packs::number::<u64>(0..=u64::MAX))]
    max_delete: Option<u64>,
    /// With --delete, delete the records of all missing files, even if no others are left; and
    /// replace files that were moved into the pack from elsewhere, even if those are the only
    /// copies
    #[arg(long)]
    force: bool,
    /// Remove packed files after the pack was read back and compared; directories when they are
    /// empty
    #[arg(long = "move", conflicts_with = "delete")]
    move_: bool,
    /// Compare the bytes of every file, even if its times are unchanged; packs again what is
    /// damaged in the pack
    #[arg(long)]
    checksum: bool,
    /// Leave out extended attributes, access control lists among them
    #[arg(long)]
    no_xattrs: bool,
    /// Pack archives and packs as files, not their members
    #[arg(long)]
    as_file: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Name all that failed, not the first ten
    #[arg(long)]
    verbose: bool,
}

fn parse_segment_size(text: &str) -> Result<u64, String> {
    units::parse_size(text).map_err(|error| chain(&error))
}

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    pack: TextOrBytes<'a>,
    dry_run: bool,
    complete: bool,
    files: u64,
    directories: u64,
    symlinks: u64,
    hard_links: u64,
    replaced: u64,
    unchanged: u64,
    deleted: u64,
    gone: Vec<TextOrBytes<'a>>,
    refused: Option<&'a str>,
    held: Vec<Holding<'a>>,
    uncertain: u64,
    moved: Option<Moved>,
    bytes: u64,
    seconds: f64,
    interrupted: bool,
    without_xattrs: u64,
    lost_xattrs: Vec<Lost<'a>>,
    special: Vec<Special<'a>>,
    failures: Vec<Failed<'a>>,
}

/// What was removed from the trees.
#[derive(Serialize)]
struct Moved {
    files: u64,
    symlinks: u64,
    directories: u64,
    bytes: u64,
}

/// A record that stays for what another name of its file needs.
#[derive(Serialize)]
struct Holding<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    #[serde(flatten)]
    link: TextOrBytes<'a>,
}

/// What was added without some of its extended attributes.
#[derive(Serialize)]
struct Lost<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    xattrs: &'a str,
}

#[derive(Serialize)]
struct Special<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    kind: String,
}

impl<'a> Report<'a> {
    fn new(args: &'a Args, report: &'a PackReport, seconds: f64) -> Self {
        let summary = &report.summary;
        let special = summary.special.iter();
        Self {
            pack: TextOrBytes::new("pack", args.pack().as_os_str().as_encoded_bytes()),
            dry_run: args.dry_run,
            complete: report.complete,
            files: summary.files,
            directories: summary.directories,
            symlinks: summary.symlinks,
            hard_links: summary.hard_links,
            replaced: summary.replaced,
            unchanged: summary.unchanged,
            deleted: summary.deleted,
            gone: summary.gone.iter().map(|key| TextOrBytes::key(key)).collect(),
            refused: summary.refused.as_deref(),
            held: summary.held.iter().map(Holding::new).collect(),
            uncertain: summary.uncertain,
            moved: report.moved.as_ref().map(Moved::new),
            bytes: summary.bytes,
            seconds,
            interrupted: summary.interrupted,
            without_xattrs: summary.lost_xattrs.len() as u64,
            lost_xattrs: summary.lost_xattrs.iter().map(Lost::new).collect(),
            special: special
                .map(|(key, kind)| Special { key: TextOrBytes::key(key), kind: kind.to_string() })
                .collect(),
            failures: Failed::all(&summary.failures),
        }
    }
}

impl Moved {
    fn new(moved: &MoveSummary) -> Self {
        let MoveSummary { files, symlinks, directories, bytes, .. } = *moved;
        Self { files, symlinks, directories, bytes }
    }
}

impl<'a> Lost<'a> {
    fn new((key, xattrs): &'a (Vec<u8>, String)) -> Self {
        Self { key: TextOrBytes::key(key), xattrs }
    }
}

impl<'a> Holding<'a> {
    fn new(held: &'a Held) -> Self {
        Self { key: TextOrBytes::key(&held.key), link: TextOrBytes::new("link", &held.link) }
    }
}

/// Packs.
///
/// # Errors
/// Returns an error if the pack cannot be written, a root cannot be opened, or arguments are
/// invalid.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    check_places(&args.paths, "pack", "the pack to put it in")?;
    let packing = args.packing(context)?;
    let mut screen = Screen { context, shown: None };
    let packed = packing.run(&mut screen);
    drop(screen);
    let report = packed.map_err(into_error)?;
    for key in &report.left_out {
        context.note(format_args!("Left out: {} is a pipe, a device or the like.", printable(key)));
    }
    print(&args, &report, started.elapsed(), context)?;
    let summary = &report.summary;
    if summary.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    keys::note_unmatched(&packing.patterns, context);
    let mut failures = (summary.failures.len() + summary.lost_xattrs.len()) as u64;
    failures += u64::from(summary.refused.is_some());
    if let Some(nothing) = report.nothing {
        let sources: Vec<String> = args.sources().iter().map(|path| shown(path)).collect();
        let sources = sources.join(" and ");
        let asked = Asked::default().with_patterns(&args.select);
        failures += asked.report_nothing_to(
            "pack",
            nothing.is_error,
            &packing.patterns,
            Path::new(&sources),
            context,
        );
    }
    Ok(code_for(failures))
}

impl Args {
    fn sources(&self) -> &[PathBuf] {
        self.paths.split_last().map_or(&[], |(_, sources)| sources)
    }

    fn pack(&self) -> &Path {
        self.paths.last().map_or(Path::new(""), PathBuf::as_path)
    }

    fn packing<'a>(&self, context: &'a Context) -> Result<PackSources<'a>, UsageError> {
        Ok(PackSources {
            patterns: self.select.selection()?,
            grouping: self.grouping()?,
            delete: Delete::asked(self.delete, self.max_delete, self.force),
            move_originals: self.move_,
            replace_moved: self.force,
            checksum: self.checksum,
            xattrs: !self.no_xattrs,
            as_file: self.as_file,
            dry_run: self.dry_run,
            threads: self.threads.map(|threads| threads as usize),
            segment_len: self.segment_size,
            stream: Some(Box::new(|| stdin(context))),
            ..PackSources::new(self.sources().to_vec(), self.pack().to_path_buf())
        })
    }

    fn grouping(&self) -> Result<Grouping, UsageError> {
        match (&self.group, parse_grouping(&self.group_by)) {
            (Some(group), _) => Ok(Grouping::Named(group.clone())),
            (None, Some(grouping)) => Ok(grouping),
            (None, None) => {
                let given = &self.group_by;
                Err(UsageError::new(format!("--group-by {given}: expected `none`, `top` or `hash:N`")))
            }
        }
    }
}

/// A source in messages, without what is secret in an address.
fn shown(source: &Path) -> String {
    match source.to_str().filter(|_| is_object(source)) {
        Some(address) => stook::source::shown(address),
        None => source.display().to_string(),
    }
}

/// What comes through stdin.
fn stdin(context: &Context) -> Result<Box<dyn BufRead + Send>, stook::Error> {
    if io::stdin().is_terminal() {
        context.note("reading a tar from this terminal; Ctrl-D ends it");
    }
    Ok(Box::new(BufReader::with_capacity(STDIN_LEN, Interruptible::stdin()?)))
}

/// What ended the packing, in words of the command line.
fn into_error(error: Error) -> anyhow::Error {
    let usage = match &error {
        Error::NotImported { .. } => format!("{error} with --as-file"),
        Error::IsPack(_) => format!("{error}; with --as-file its files are packed"),
        Error::SegmentLen(_) => format!("--segment-size: {error}"),
        Error::TreesOnly => "--delete and --move are for trees of files, not for archives".into(),
        Error::OneGroup => "--group-by is for directories; archives go into one --group".into(),
        Error::EmptyGroup => {
            let instead = "`--max-delete N` or `--force` deletes records of it";
            return refuse_empty("--group", "the default group", instead).into();
        }
        _ if error.is_usage() => error.to_string(),
        _ => {
            return match error {
                Error::Pack(error) => error.into(),
                Error::Archive(stook::archive::Error::Core(stook::Error::Remote(remote)))
                    if remote.kind == RemoteErrorKind::NoRanges =>
                {
                    anyhow!("{remote}: fetch it first, and pack the file")
                }
                Error::Archive(error) => error.into(),
                Error::Interrupted => Interrupted.into(),
                other => other.into(),
            };
        }
    };
    UsageError::new(usage).into()
}

/// Shows progress and notes of packing on stderr.
struct Screen<'c> {
    context: &'c Context,
    shown: Option<(Stage, Progress)>,
}

impl Screen<'_> {
    /// The bar of a stage, if it has one.
    fn bar(&mut self, stage: Stage) -> Option<&Progress> {
        if self.shown.as_ref().is_none_or(|(shown, _)| *shown != stage) {
            let (what, len) = match stage {
                Stage::Counting => return None,
                Stage::Indexing { len } => ("indexing", Some(len)),
                Stage::Packing => ("packing", None),
                Stage::Removing => ("verifying and removing", None),
            };
            self.shown = Some((stage, self.context.progress(what, Unit::Bytes, len)));
        }
        self.shown.as_ref().map(|(_, bar)| bar)
    }
}

impl Hooks for Screen<'_> {
    fn progress(&mut self, stage: Stage, _entries: u64, bytes: u64) -> Answer {
        if let Some(bar) = self.bar(stage) {
            // What was begun and could not be finished is taken back; a bar only goes forward.
            bar.add(bytes.saturating_sub(bar.done()));
        }
        if interrupted() { Answer::Stop } else { Answer::GoOn }
    }

    fn finished(&mut self, _stage: Stage) -> Answer {
        self.shown = None;
        Answer::GoOn
    }

    fn note(&mut self, note: &str) {
        self.context.note(note);
    }

    fn watch(&mut self, log: DamageLog) {
        self.context.watch(log);
    }

    fn archive_opened(&mut self, archive: &Archive) {
        contents::note_index(archive, self.context);
    }
}

fn print(args: &Args, report: &PackReport, took: Duration, context: &Context) -> anyhow::Result<()> {
    let (summary, seconds) = (&report.summary, took.as_secs_f64());
    failures::print(context, &summary.failures, args.verbose);
    report_lost(&summary.lost_xattrs, args.verbose, context);
    if let Some(why) = &summary.refused {
        let more = "`--max-delete N` or `--force` deletes them";
        context.failure(anyhow::anyhow!("{why}; {more}").as_ref());
    }
    let mut output = context.output();
    if context.json() {
        packs::print_json(&mut output, "pack", Report::new(args, report, seconds), context)?;
        return Ok(output.finish()?);
    }
    for key in &summary.own {
        context.note(format_args!("Left out: {} is the pack itself.", printable(key)));
    }
    for key in &summary.temporary {
        let why = "a file that another run of stook has not finished";
        context.note(format_args!("Left out: {} is {why}.", printable(key)));
    }
    for (key, kind) in &summary.special {
        context.note(format_args!("Left out: {} is a {kind}.", printable(key)));
    }
    note_kept(summary, context);
    for key in &summary.gone {
        output.line(Key::bytes(key)?)?;
    }
    if !context.quiet() {
        output.line(sentence(args, report, seconds))?;
    }
    Ok(output.finish()?)
}

/// Reports files that were packed without all of their extended attributes, as an error, since
/// nothing else reports it.
fn report_lost(lost: &[(Vec<u8>, String)], verbose: bool, context: &Context) {
    let (reported, more) = failures::few(lost, verbose);
    for (key, names) in reported {
        let text = format!(
            "{} was packed without extended attributes that cannot be read, or are too long: {names}",
            printable(key)
        );
        context.failure(anyhow::anyhow!("{text}").as_ref());
    }
    if let Some(more) = more {
        let text = format!("{more} more lack extended attributes; `--verbose` names them all");
        context.failure(anyhow::anyhow!("{text}").as_ref());
    }
}

/// Notes records of missing files that stay nevertheless.
fn note_kept(summary: &PackSummary, context: &Context) {
    for held in &summary.held {
        context.note(format_args!(
            "Kept: {} is gone, but holds the content of {}, which stays.",
            printable(&held.key),
            printable(&held.link)
        ));
    }
    if summary.uncertain > 0 {
        context.note(format_args!(
            "Kept: {} whose paths seem to be gone, because something beside them failed.",
            units::count_of(summary.uncertain, "record", "records")
        ));
    }
}

fn sentence(args: &Args, report: &PackReport, seconds: f64) -> String {
    let summary = &report.summary;
    let verb = if args.dry_run { "Would pack" } else { "Packed" };
    let mut text = format!(
        "{verb} {}, {}, {}: {}",
        units::count_of(summary.files, "file", "files"),
        units::count_of(summary.directories, "directory", "directories"),
        units::count_of(summary.symlinks + summary.hard_links, "link", "links"),
        units::bytes_decimal(summary.bytes),
    );
    // A speed of next to nothing says nothing.
    if !args.dry_run && summary.bytes > 1_000_000 {
        let speed = units::rate(summary.bytes as f64 / seconds.max(1e-9));
        text.push_str(&format!(" in {seconds:.2} s, {speed}"));
    }
    if summary.unchanged > 0 {
        text.push_str(&format!("; {} unchanged", units::count(summary.unchanged)));
    }
    if summary.replaced > 0 {
        text.push_str(&format!("; {} replaced", units::count(summary.replaced)));
    }
    if summary.deleted > 0 {
        text.push_str(&format!("; {} deleted", units::count(summary.deleted)));
    }
    if let Some(moved) = &report.moved {
        let files = units::count_of(moved.files, "file", "files");
        let links = units::count_of(moved.symlinks, "symbolic link", "symbolic links");
        let directories = units::count_of(moved.directories, "directory", "directories");
        text.push_str(&format!("; verified and removed {files}, {links}, {directories}"));
    }
    if summary.interrupted {
        text.push_str("; interrupted, run it again to continue");
    } else if !summary.failures.is_empty() {
        text.push_str(&format!("; {} failed", units::count(summary.failures.len() as u64)));
    }
    text
}
