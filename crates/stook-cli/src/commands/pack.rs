//! `stook pack DIR… PACK`: trees of files into a pack.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use serde::Serialize;
use stook::pack::tree::{Delete, Grouping, Held, MoveSummary, PackSummary, PackTree};
use stook::pack::{AccessRule, Error, Key, OpenOptions, Pack, PackWriter, SEGMENT_LEN_MIN, WriterOptions};
use stook::report::json::TextOrBytes;
use stook::report::units;
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook::walk::{Decision, Kind};

use crate::context::Context;
use crate::exit::{INTERRUPTED, UsageError, chain, code_for};
use crate::failures::{self, Failed};
use crate::interrupt::interrupted;
use crate::keys::{self, Asked, refuse_empty};
use crate::output::printable;
use crate::packs;
use crate::progress::Unit;
use crate::select::{SelectArgs, Selection};

/// Free space below which the tree is counted before anything is written, in bytes.
const COUNT_FIRST_BELOW: u64 = 32 << 30;

/// Packs trees of files; run again, adds only what is new or changed
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook pack photos photos.stook                 everything under photos, keys relative to it
  stook pack train test data.stook               several trees, keys begin with train/ and test/
  stook pack logs logs.stook --exclude '*.tmp'   without temporary files
  stook pack data data.stook --group-by top      one group for each directory at the top
  stook pack a.tar b.zip all.stook               the members of archives, as if they had been unpacked
  tar c . | stook pack - all.stook               a tar from stdin
  stook pack photos photos.stook                 again: adds what is new or changed since, and
                                                 finishes what was interrupted
  stook pack photos photos.stook --delete        and deletes the records of what is gone from photos
  stook pack photos photos.stook --delete --max-delete 500
                                                 also if that is more than half of them
  stook pack photos photos.stook --checksum      and looks at the bytes of every file, not at its times
  stook pack logs logs.stook --move              and removes from logs what the pack then holds

Keeps paths (any bytes), modes, modification times to the nanosecond, symbolic and hard links, empty
directories and, as root, owners. Links are never followed. Pipes, sockets and devices are named and left out.")]
pub struct Args {
    /// Directories (or files) to pack; or archives, whose members become records, `-` for a tar from stdin
    #[arg(required = true, value_name = "DIR")]
    pub(super) sources: Vec<PathBuf>,
    /// The pack: made if it is not there
    #[arg(required = true, value_name = "PACK")]
    pub(super) pack: PathBuf,
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
    pub(super) segment_size: u64,
    /// Threads that walk and read
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = packs::number::<u64>(1..=1024))]
    threads: u64,
    /// Delete records of files that are no longer in the tree; with --group or --group-by, in that group only
    #[arg(long)]
    delete: bool,
    /// With --delete, delete up to so many records, be they more than half of the tree or moved into the pack
    #[arg(long, value_name = "N", requires = "delete", conflicts_with = "force",
        value_parser = packs::number::<u64>(0..=u64::MAX))]
    max_delete: Option<u64>,
    /// With --delete, delete all records of what is gone, be they all that there are
    #[arg(long, requires = "delete")]
    force: bool,
    /// Remove what was packed, when the pack was read back and holds the same; directories when they are empty
    #[arg(long = "move", conflicts_with = "delete")]
    move_: bool,
    /// Compare the bytes of every file, whatever its times say; packs again what is damaged in the pack
    #[arg(long)]
    pub(super) checksum: bool,
    /// Pack archives, and packs, as the files that they are, not what is in them
    #[arg(long)]
    as_file: bool,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Name all that failed, not the first ten
    #[arg(long)]
    verbose: bool,
}

fn parse_segment_size(text: &str) -> Result<u64, String> {
    let size = units::parse_size(text).map_err(|error| chain(&error))?;
    match size < SEGMENT_LEN_MIN {
        true => Err(format!("a segment is at least {SEGMENT_LEN_MIN} bytes (1 MiB) long")),
        false => Ok(size),
    }
}

#[derive(Serialize)]
struct Report<'a> {
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

#[derive(Serialize)]
struct Special<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    kind: String,
}

impl<'a> Holding<'a> {
    fn new(held: &'a Held) -> Self {
        Self { key: TextOrBytes::key(&held.key), link: TextOrBytes::new("link", &held.link) }
    }
}

/// Packs.
///
/// # Errors
/// What writing the pack meets, a root that cannot be opened, arguments that make no sense.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let selection = args.select.selection()?;
    // Before anything is made.
    check(&args)?;
    if !args.as_file && super::archive::import::is_wanted(&args.sources)? {
        return import(&args, &selection, context);
    }
    let (started, taken) = (Instant::now(), AtomicBool::new(false));
    let mut tree = tree_of(&args, &selection, &taken)?;
    let is_new = !args.pack.exists();
    let opened = if args.dry_run { dry(&args, &tree, context)? } else { open(&args, &tree, context)? };
    tree.own = args.pack.exists().then(|| args.pack.clone());
    let progress = context.progress("packing", Unit::Bytes, None);
    let mut told = 0;
    let mut on_progress = |_entries: u64, bytes: u64| {
        // What was begun and could not be finished is taken back; a bar only goes forward.
        let more = bytes.saturating_sub(told);
        progress.add(more);
        told += more;
        !interrupted()
    };
    let (mut writer, before) = opened;
    let packed = tree.run(writer.as_mut(), before.as_ref(), &mut on_progress);
    drop(progress);
    let was_complete = before.as_ref().is_some_and(Pack::is_complete);
    let is_whole = |summary: &PackSummary| {
        // Where deleting was refused nothing was packed: the pack is what it was.
        let is_packed = summary.refused.is_none() || was_complete;
        is_packed && !summary.interrupted && summary.failures.is_empty()
    };
    let complete = packed.as_ref().is_ok_and(is_whole);
    // What was packed is kept even if the rest could not be: the next run goes on from there.
    if let (Some(writer), Ok(_)) = (writer.take(), &packed) {
        finish(writer, before.as_ref(), complete, args.move_)?;
    }
    let mut summary = packed.with_context(|| {
        format!(
            "packing into {} stopped; what is in it is safe, and running again goes on",
            args.pack.display()
        )
    })?;
    let moved = match args.move_ && !args.dry_run && !summary.interrupted {
        true => Some(remove(&args, &tree, &mut summary, context)?),
        false => None,
    };
    print(&args, &summary, moved.as_ref(), complete, started.elapsed().as_secs_f64(), context)?;
    if summary.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    keys::note_unmatched(&selection, context);
    let taken = taken.load(Ordering::Relaxed);
    let failures = summary.failures.len() as u64 + u64::from(summary.refused.is_some());
    let nothing = if failures == 0 && !taken { report_nothing(&args, &selection, context) } else { 0 };
    if is_new && nothing > 0 {
        args.take_back(context)?;
    }
    Ok(code_for(failures + nothing))
}

/// What is to be packed, checked before anything is made; `taken` says whether the patterns took anything.
fn tree_of<'a>(args: &Args, selection: &'a Selection, taken: &'a AtomicBool) -> anyhow::Result<PackTree<'a>> {
    for source in &args.sources {
        source.symlink_metadata().with_context(|| format!("cannot read {}", source.display()))?;
    }
    let tree = PackTree {
        roots: args.sources.clone(),
        grouping: grouping(args)?,
        with_owner: rustix::process::geteuid().is_root(),
        threads: args.threads as usize,
        select: Box::new(|key, kind| {
            let decided = select(selection, key, kind);
            let is_root = key.is_empty() && kind == Kind::Directory;
            taken.fetch_or(decided == Decision::Take && !is_root, Ordering::Relaxed);
            decided
        }),
        own: args.pack.exists().then(|| args.pack.clone()),
        delete: delete(args),
        checksum: args.checksum,
    };
    tree.check()?;
    if !args.as_file {
        let slip = |error: Error| UsageError::new(format!("{error}; with --as-file its files are packed"));
        tree.check_no_packs().map_err(slip)?;
    }
    Ok(tree)
}

/// What can be told without looking at anything.
fn check(args: &Args) -> Result<(), UsageError> {
    writer_options(args).check().map_err(|error| UsageError::new(format!("--segment-size: {error}")))?;
    let is_bounded = args.max_delete.is_some() || args.force;
    if args.delete && args.group.as_deref() == Some("") && !is_bounded {
        let instead = "`--max-delete N` or `--force` deletes records of it";
        return Err(refuse_empty("--group", "the default group", instead));
    }
    Ok(())
}

/// Reports that patterns took nothing of the trees.
fn report_nothing(args: &Args, selection: &Selection, context: &Context) -> u64 {
    // A file that is named itself is taken without being asked for.
    match args.sources.iter().all(|source| source.is_dir()) {
        true => args.report_nothing(selection, context),
        false => 0,
    }
}

impl Args {
    /// Removes the pack that was made for paths of which there was none.
    pub(super) fn take_back(&self, context: &Context) -> anyhow::Result<()> {
        if self.dry_run {
            return Ok(());
        }
        let storage = Arc::new(LocalStorage::open(&self.pack, LocalStorageOptions::default())?);
        if packs::writer_in(storage, WriterOptions::default(), context)?.discard()? {
            stook::tree::remove_if_empty(&self.pack)
                .with_context(|| format!("cannot remove {}, which has no file", self.pack.display()))?;
        }
        Ok(())
    }

    /// Reports that patterns took nothing: how many failures that makes.
    pub(super) fn report_nothing(&self, selection: &Selection, context: &Context) -> u64 {
        let sources: Vec<String> = self.sources.iter().map(|source| source.display().to_string()).collect();
        let sources = sources.join(" and ");
        let asked = Asked::default().with_patterns(&self.select);
        asked.report_nothing_to("pack", selection, Path::new(&sources), context)
    }
}

/// Ends the writing; `complete` where nothing is missing.
fn finish(mut writer: PackWriter, before: Option<&Pack>, complete: bool, moves: bool) -> anyhow::Result<()> {
    if complete {
        writer.set_complete(true);
    }
    if moves {
        writer.set_moved();
    }
    // What a build leaves is sealed; what later runs add stays open for the next.
    let building = before.is_none_or(|before| !before.is_complete());
    writer.finish(building && complete).context("cannot finish the pack")
}

/// Packs what is in archives.
fn import(args: &Args, selection: &Selection, context: &Context) -> anyhow::Result<ExitCode> {
    if args.delete || args.move_ {
        return Err(UsageError::new("--delete and --move are for trees of files, not for archives").into());
    }
    let group = match grouping(args)? {
        Grouping::Default => String::new(),
        Grouping::Named(group) => group,
        Grouping::Top | Grouping::Hash(_) => {
            return Err(UsageError::new("--group-by is for directories; archives go into one --group").into());
        }
    };
    super::archive::import::run(args, selection, &group, context)
}

/// Removes what the pack holds. What stays because of a failure, and an interruption, are added to what packing met.
fn remove(
    args: &Args,
    tree: &PackTree<'_>,
    summary: &mut PackSummary,
    context: &Context,
) -> anyhow::Result<MoveSummary> {
    // From the medium: what is in the page cache says nothing of what is there.
    let options = OpenOptions { access: AccessRule::Direct, ..OpenOptions::default() };
    let pack = packs::open_with(&args.pack, options, context)?;
    let progress = context.progress("verifying and removing", Unit::Bytes, None);
    let mut told = 0;
    let mut on_progress = |_entries: u64, bytes: u64| {
        let more = bytes.saturating_sub(told);
        progress.add(more);
        told += more;
        !interrupted()
    };
    let mut moved = tree.remove_packed(&pack, &summary.failures, &mut on_progress).with_context(|| {
        format!("removing what was packed stopped; all of it is in {}", args.pack.display())
    })?;
    summary.failures.append(&mut moved.failures);
    summary.interrupted = moved.interrupted;
    Ok(moved)
}

/// An exclusion prunes; an inclusion cannot, for what it wants may be below.
pub(super) fn select(selection: &Selection, key: &[u8], kind: Kind) -> Decision {
    let is_directory = kind == Kind::Directory;
    match (selection.excludes(key, is_directory), selection.includes(key, is_directory)) {
        (true, _) => Decision::Prune,
        (false, true) => Decision::Take,
        (false, false) => Decision::Skip,
    }
}

fn grouping(args: &Args) -> Result<Grouping, UsageError> {
    let wrong =
        || UsageError::new(format!("--group-by {} is none of `none`, `top`, `hash:N`", args.group_by));
    Ok(match args.group_by.as_str() {
        "none" => args.group.clone().map_or(Grouping::Default, Grouping::Named),
        "top" => Grouping::Top,
        other => {
            let groups = other.strip_prefix("hash:").and_then(|count| count.parse().ok());
            Grouping::Hash(groups.filter(|count| (1..=10_000).contains(count)).ok_or_else(wrong)?)
        }
    })
}

fn delete(args: &Args) -> Delete {
    match (args.delete, args.max_delete) {
        (false, _) => Delete::Nothing,
        (true, _) if args.force => Delete::Any,
        (true, Some(max)) => Delete::UpTo(max),
        (true, None) => Delete::UpToHalf,
    }
}

fn writer_options(args: &Args) -> WriterOptions {
    WriterOptions { segment_len: args.segment_size, ..WriterOptions::bulk() }
}

type Opened = (Option<PackWriter>, Option<Pack>);

/// What cannot be deleted is told before anything is packed.
fn check_roots(tree: &PackTree<'_>, before: &Pack) -> anyhow::Result<()> {
    match tree.delete {
        Delete::Nothing => Ok(()),
        _ => tree.check_roots(before).map_err(|error| UsageError::new(error.to_string()).into()),
    }
}

fn dry(args: &Args, tree: &PackTree<'_>, context: &Context) -> anyhow::Result<Opened> {
    match args.pack.exists() {
        true => {
            let before = packs::open(&args.pack, context)?;
            before.check_writable()?;
            check_roots(tree, &before)?;
            Ok((None, Some(before)))
        }
        false => Ok((None, None)),
    }
}

fn open(args: &Args, tree: &PackTree<'_>, context: &Context) -> anyhow::Result<Opened> {
    let parent = match args.pack.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let there = args.pack.exists();
    if !there {
        check_space(parent, tree, None)?;
    }
    let options = writer_options(args);
    let storage = match there {
        true => LocalStorage::open(&args.pack, LocalStorageOptions::default())?,
        false => LocalStorage::create(&args.pack, LocalStorageOptions::default())?,
    };
    let storage = Arc::new(storage);
    if there {
        match packs::writer_in(storage.clone(), options.clone(), context) {
            Ok(mut writer) => {
                // Through the same opening of the directory: another may have taken its place.
                let before = packs::open_in(storage, context)?;
                check_roots(tree, &before)?;
                // Not earlier: what a run that was cut off left in the pack is known only now.
                check_space(parent, tree, Some(&before))?;
                writer.set_complete(false);
                writer.publish()?;
                return Ok((Some(writer), Some(before)));
            }
            // Making one tells whether it can be made there.
            Err(Error::NotAPack { .. }) => check_space(parent, tree, None)?,
            Err(error) => return Err(error.into()),
        }
    }
    let mut writer = PackWriter::create(storage, options)?;
    let roots = args.sources.iter().map(|root| root.clone().into_os_string().into_encoded_bytes());
    writer.set_roots(roots.collect());
    Ok((Some(writer), None))
}

/// Where space is scarce, counts the bytes of the tree first.
fn check_space(parent: &Path, tree: &PackTree<'_>, before: Option<&Pack>) -> anyhow::Result<()> {
    let free = stook::storage::free_bytes(parent)?;
    if free >= COUNT_FIRST_BELOW {
        return Ok(());
    }
    let counted = tree.run(None, before, &mut |_, _| !interrupted())?;
    crate::interrupt::check()?;
    // Heads, checksums and index take about 150 bytes a record.
    let needed = counted.bytes + 150 * counted.added();
    if needed > free {
        anyhow::bail!(
            "{} would be needed in {}, and {} are free: make room, or choose another place",
            units::bytes_decimal(needed),
            parent.display(),
            units::bytes_decimal(free)
        );
    }
    Ok(())
}

pub(super) fn print(
    args: &Args,
    summary: &PackSummary,
    moved: Option<&MoveSummary>,
    complete: bool,
    seconds: f64,
    context: &Context,
) -> anyhow::Result<()> {
    failures::print(context, &summary.failures, args.verbose);
    if let Some(why) = &summary.refused {
        let more = "`--max-delete N` or `--force` deletes them";
        context.failure(anyhow::anyhow!("{why}; {more}").as_ref());
    }
    let mut output = context.output();
    if context.json() {
        let special = summary.special.iter();
        let report = Report {
            pack: TextOrBytes::new("pack", args.pack.as_os_str().as_encoded_bytes()),
            dry_run: args.dry_run,
            complete: complete && !args.dry_run,
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
            moved: moved.map(|moved| Moved {
                files: moved.files,
                symlinks: moved.symlinks,
                directories: moved.directories,
                bytes: moved.bytes,
            }),
            bytes: summary.bytes,
            seconds,
            interrupted: summary.interrupted,
            without_xattrs: summary.without_xattrs,
            special: special
                .map(|(key, kind)| Special { key: TextOrBytes::key(key), kind: kind.to_string() })
                .collect(),
            failures: Failed::all(&summary.failures),
        };
        packs::print_json(&mut output, "pack", report, context)?;
        return Ok(output.finish()?);
    }
    for key in &summary.own {
        context.note(format_args!("Left out: {} is the pack itself.", printable(key)));
    }
    for (key, kind) in &summary.special {
        context.note(format_args!("Left out: {} is a {kind}.", printable(key)));
    }
    if summary.without_xattrs > 0 {
        context.note(format_args!(
            "Not kept: the extended attributes (access control lists among them) of {}.",
            units::count_of(summary.without_xattrs, "file or directory", "files and directories")
        ));
    }
    note_kept(summary, context);
    for key in &summary.gone {
        output.line(Key::bytes(key)?)?;
    }
    if !context.quiet() {
        output.line(sentence(args, summary, moved, seconds))?;
    }
    Ok(output.finish()?)
}

/// Records of what is gone that stay nevertheless.
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

fn sentence(args: &Args, summary: &PackSummary, moved: Option<&MoveSummary>, seconds: f64) -> String {
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
    if let Some(moved) = moved {
        let files = units::count_of(moved.files, "file", "files");
        let links = units::count_of(moved.symlinks, "symbolic link", "symbolic links");
        let directories = units::count_of(moved.directories, "directory", "directories");
        text.push_str(&format!("; verified and removed {files}, {links}, {directories}"));
    }
    if summary.interrupted {
        text.push_str("; interrupted, run it again to go on");
    } else if !summary.failures.is_empty() {
        text.push_str(&format!("; {} failed", units::count(summary.failures.len() as u64)));
    }
    text
}
