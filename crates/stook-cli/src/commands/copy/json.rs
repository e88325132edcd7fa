//! A copy as JSON: the document, and the lines of `--events`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use stook::copy::{
    Beginning, CopyFailure, CopyReport, DestinationReport, HeldUpBy, Item, Phase, Progress, ReadAgain, Side,
    Unfinished, WhyNotMirrored,
};
use stook::device::Attachment;
use stook::report::json::TextOrBytes;

use super::Args;
use crate::failures::Failed;
use crate::lies_on::LiesOn;

/// The report.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    entries: u64,
    read_files: u64,
    read_bytes: u64,
    seconds: f64,
    interrupted: bool,
    dry_run: bool,
    sources: Vec<LiesOn<'a>>,
    source_link_share: Option<f64>,
    destinations: Vec<Copied<'a>>,
    held_up_by: Option<HeldUp>,
    waits: Waited,
    items: Vec<Named<'a>>,
    not_copied: Vec<TextOrBytes<'a>>,
    failures: Vec<Failed<'a>>,
}

/// The document of a copy.
pub(super) fn document<'a>(report: &'a CopyReport, items: &'a [Item], args: &Args) -> Report<'a> {
    let uses = report.link_uses();
    let share = |side: Side| uses.iter().find(|one| one.side == side).map(|one| one.share);
    let destinations = report.destinations.iter().enumerate();
    Report {
        entries: report.entries,
        read_files: report.read_files,
        read_bytes: report.read_bytes,
        seconds: report.elapsed.as_secs_f64(),
        interrupted: report.interrupted,
        dry_run: args.dry_run,
        sources: report.sources.iter().map(LiesOn::new).collect(),
        source_link_share: share(Side::Sources),
        destinations: destinations.map(|(at, one)| Copied::new(one, share(Side::Destination(at)))).collect(),
        held_up_by: report.held_up_by().and_then(HeldUp::new),
        waits: Waited::new(report),
        items: items.iter().map(Named::new).collect(),
        not_copied: report.not_copied.iter().map(|left| TextOrBytes::key(&left.key)).collect(),
        failures: Failed::all(&report.failures),
    }
}

/// What became of a destination.
#[derive(Serialize)]
struct Copied<'a> {
    path: String,
    made: Vec<TextOrBytes<'a>>,
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
    leftovers: Vec<TextOrBytes<'a>>,
    kept: Vec<TextOrBytes<'a>>,
    deleted: Vec<TextOrBytes<'a>>,
    not_mirrored: Option<&'static str>,
    lists: Vec<TextOrBytes<'a>>,
    proofs: Option<JsonProofs<'a>>,
    unlisted: u64,
    unset_xattrs: u64,
    direct_bytes: u64,
    cached_bytes: u64,
    read_back: Option<JsonReadBack>,
    resumed_bytes: u64,
    unfinished: Vec<JsonUnfinished<'a>>,
    stopped: Option<&'a str>,
    failures: Vec<Failed<'a>>,
    lies_on: LiesOn<'a>,
    link_share: Option<f64>,
}

impl<'a> Copied<'a> {
    fn new(one: &'a DestinationReport, link_share: Option<f64>) -> Self {
        Self {
            path: one.path.display().to_string(),
            made: one.made.iter().map(|made| path_of(made)).collect(),
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
            leftovers: one.leftovers.iter().map(|left| TextOrBytes::key(&left.key)).collect(),
            kept: one.kept.iter().map(|kept| TextOrBytes::key(&kept.key)).collect(),
            deleted: one.deleted.iter().map(|key| TextOrBytes::key(key)).collect(),
            not_mirrored: one.not_mirrored.map(WhyNotMirrored::text),
            lists: one.lists.iter().map(|key| TextOrBytes::key(key)).collect(),
            proofs: one.proofs.as_ref().map(JsonProofs::new),
            unlisted: one.unlisted,
            unset_xattrs: one.unset_xattrs.entries,
            direct_bytes: one.passage.direct_bytes,
            cached_bytes: one.passage.cached_bytes,
            read_back: one.read_again.map(JsonReadBack::new),
            resumed_bytes: one.resumed_bytes,
            unfinished: one.unfinished.iter().map(JsonUnfinished::new).collect(),
            stopped: one.stopped.as_deref(),
            failures: Failed::all(&one.failures),
            lies_on: LiesOn::new(&one.attachment),
            link_share,
        }
    }
}

fn path_of(path: &Path) -> TextOrBytes<'_> {
    TextOrBytes::new("path", path.as_os_str().as_encoded_bytes())
}

/// The proofs that were written.
#[derive(Serialize)]
struct JsonProofs<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    files: u64,
}

impl<'a> JsonProofs<'a> {
    fn new((key, files): &'a (Vec<u8>, u64)) -> Self {
        Self { key: TextOrBytes::key(key), files: *files }
    }
}

/// What was read again.
#[derive(Serialize)]
struct JsonReadBack {
    files: u64,
    bytes: u64,
    past_cache: Option<bool>,
    seconds: f64,
}

impl JsonReadBack {
    fn new(one: ReadAgain) -> Self {
        let ReadAgain { files, bytes, is_past_cache: past_cache, elapsed, .. } = one;
        Self { files, bytes, past_cache, seconds: elapsed.as_secs_f64() }
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

/// What held a copy up.
#[derive(Serialize)]
struct HeldUp {
    what: &'static str,
    destination: Option<usize>,
}

impl HeldUp {
    /// `None` for what this version does not know.
    fn new(by: HeldUpBy) -> Option<Self> {
        match by {
            HeldUpBy::Sources => Some(Self { what: "sources", destination: None }),
            HeldUpBy::Destination(index) => Some(Self { what: "destination", destination: Some(index) }),
            HeldUpBy::Limit => Some(Self { what: "limit", destination: None }),
            _ => None,
        }
    }
}

/// How long each was waited for.
#[derive(Serialize)]
struct Waited {
    sources_s: f64,
    destinations_s: Vec<f64>,
    limit_s: f64,
}

impl Waited {
    fn new(report: &CopyReport) -> Self {
        let waits = &report.waits;
        Self {
            sources_s: waits.sources.as_secs_f64(),
            destinations_s: waits.destinations.iter().map(|waited| waited.as_secs_f64()).collect(),
            limit_s: waits.limit.as_secs_f64(),
        }
    }
}

/// What was done with a path, or would be.
#[derive(Serialize)]
pub(super) struct Named<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    destination: usize,
    action: &'static str,
    why: &'static str,
    /// By the names of the functions, as they are printed.
    digests: BTreeMap<&'static str, String>,
}

impl<'a> Named<'a> {
    pub(super) fn new(item: &'a Item) -> Self {
        Self {
            key: TextOrBytes::key(&item.key),
            destination: item.destination,
            action: item.action.name(),
            why: item.why.name(),
            digests: item.digests.iter().map(|digest| (digest.kind.name(), digest.to_string())).collect(),
        }
    }
}

/// The line with which it begins.
#[derive(Serialize)]
pub(super) struct Start<'a> {
    total_files: Option<u64>,
    total_bytes: Option<u64>,
    sources: Vec<LiesOn<'a>>,
    destinations: Vec<Place<'a>>,
}

/// A destination that is about to be copied to.
#[derive(Serialize)]
struct Place<'a> {
    path: String,
    lies_on: LiesOn<'a>,
}

impl<'a> Start<'a> {
    pub(super) fn new(beginning: &'a Beginning, paths: &[PathBuf]) -> Self {
        let place = |(path, attachment): (&PathBuf, &'a Attachment)| Place {
            path: path.display().to_string(),
            lies_on: LiesOn::new(attachment),
        };
        Self {
            total_files: beginning.total_files,
            total_bytes: beginning.total_bytes,
            sources: beginning.sources.iter().map(LiesOn::new).collect(),
            destinations: paths.iter().zip(&beginning.destinations).map(place).collect(),
        }
    }
}

/// How far it has come.
#[derive(Serialize)]
pub(super) struct Far<'a> {
    phase: &'static str,
    files: u64,
    bytes: u64,
    total_files: Option<u64>,
    total_bytes: Option<u64>,
    #[serde(flatten)]
    current: TextOrBytes<'a>,
    destinations: Vec<FarOne>,
}

/// How far one destination has come.
#[derive(Serialize)]
struct FarOne {
    files: u64,
    bytes: u64,
    stopped: Option<&'static str>,
}

impl<'a> Far<'a> {
    pub(super) fn new(progress: &'a Progress) -> Self {
        let one = |one: &stook::copy::DestinationProgress| FarOne {
            files: one.files,
            bytes: one.bytes,
            stopped: one.why_stopped.map(|why| why.name()),
        };
        Self {
            phase: match progress.phase {
                Phase::Counting => "counting",
                Phase::Finishing => "finishing",
                Phase::ReadingBack => "reading_back",
                _ => "copying",
            },
            files: progress.files,
            bytes: progress.bytes,
            total_files: progress.total_files,
            total_bytes: progress.total_bytes,
            current: TextOrBytes::new("current", &progress.current),
            destinations: progress.destinations.iter().map(one).collect(),
        }
    }
}

/// What could not be copied.
#[derive(Serialize)]
pub(super) struct Failing<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    destination: Option<usize>,
    error: &'a str,
}

impl<'a> Failing<'a> {
    pub(super) fn new(failure: &'a CopyFailure) -> Self {
        let CopyFailure { destination, key, error } = failure;
        Self { key: TextOrBytes::key(key), destination: *destination, error }
    }
}
