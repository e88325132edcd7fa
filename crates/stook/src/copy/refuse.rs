//! What is refused before anything is made: copies that would never end, or eat what they read, or
//! have no room.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::Metadata;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::error::{Error, Result};
use super::events::{CopyEvents, Progress};
use super::histories;
use super::listing::{Found, Listed, Listing};
use super::options::CopyOptions;
use super::run::Destination;
use super::source::CopySource;
use crate::hash::HashKind;
use crate::storage::free_at;
use crate::tree::history::add_kinds_in;
use crate::tree::{Kind, NodeId, Overwrite, outbox, room};

/// Which file or directory.
pub(super) type Inode = (u64, u64);

pub(super) fn inode_of(path: &Path) -> Option<Inode> {
    path.metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// The directories that a path is in, itself among them, as far as they are there.
fn chain_of(path: &Path) -> Result<Vec<Inode>> {
    let io = |error| crate::Error::io("resolve", path, error);
    let absolute = std::path::absolute(path).map_err(io)?;
    // Of `new/..` nothing is known before `new` is there.
    let there = absolute.ancestors().find_map(|part| part.canonicalize().ok());
    let Some(there) = there else { return Ok(Vec::new()) };
    Ok(there.ancestors().filter_map(inode_of).collect())
}

/// A path without links, as far as it is there.
fn resolved(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    let (there, real) = absolute.ancestors().find_map(|part| Some((part, part.canonicalize().ok()?)))?;
    let rest = absolute.strip_prefix(there).ok()?;
    // Of `new/..` nothing is known before `new` is there.
    let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
    Some(if is_plain { real.join(rest) } else { real })
}

/// Whether the selection leaves out a path in a directory, or a directory above it.
fn excludes(options: &CopyOptions, outer: &Path, inner: &Path) -> bool {
    let (Some(outer), Some(inner)) = (resolved(outer), resolved(inner)) else { return false };
    let Ok(path) = inner.strip_prefix(outer) else { return false };
    let above = path.ancestors().filter(|above| !above.as_os_str().is_empty());
    above.map(|above| above.as_os_str().as_bytes()).any(|above| options.selection.excludes(above, true))
}

/// Refuses sources and destinations that are one in the other, or have the same names.
pub(super) fn check_places(
    sources: &[CopySource],
    destinations: &[Destination],
    options: &CopyOptions,
    is_contents: bool,
) -> Result<()> {
    if sources.is_empty() || destinations.is_empty() {
        return Err(Error::Invalid("at least one source and one destination are needed".into()));
    }
    if !is_contents {
        check_names(sources)?;
    }
    let mut chains: Vec<(&Path, Vec<Inode>, bool)> = Vec::new();
    for Destination { path, .. } in destinations {
        if path.exists() && !path.is_dir() {
            return Err(Error::NotADirectory { path: path.clone() });
        }
        let chain = chain_of(path)?;
        for source in sources {
            check_source(source, path, &chain, options)?;
        }
        if options.mirror {
            check_mirror(sources, path, options, is_contents)?;
        }
        let is_there = path.is_dir();
        for (other, known, was_there) in &chains {
            let is_in = |inner: &[Inode], outer: &[Inode], is_there: bool| {
                is_there && outer.first().is_some_and(|outer| inner.contains(outer))
            };
            let (one, two) = (std::path::absolute(path), std::path::absolute(other));
            let is_below = |one: &Path, two: &Path| one.starts_with(two) || two.starts_with(one);
            let is_named = matches!((&one, &two), (Ok(one), Ok(two)) if is_below(one, two));
            let is_same = is_named || is_in(&chain, known, *was_there) || is_in(known, &chain, is_there);
            if is_same {
                return Err(Error::SameDestination { first: other.to_path_buf(), second: path.clone() });
            }
        }
        chains.push((path, chain, is_there));
    }
    Ok(())
}

fn check_names(sources: &[CopySource]) -> Result<()> {
    let mut names = HashSet::new();
    for source in sources {
        let Some(name) = &source.name else {
            let what = "the root directory has no name that it could have in the destination: copy it alone";
            return Err(Error::Invalid(what.into()));
        };
        if !names.insert(name) {
            return Err(Error::SameName { name: name.clone() });
        }
    }
    Ok(())
}

/// Refuses a mirror where what is copied, or linked to, lies in a directory in which everything
/// else is deleted.
fn check_mirror(
    sources: &[CopySource],
    destination: &Path,
    options: &CopyOptions,
    is_contents: bool,
) -> Result<()> {
    for source in sources {
        let name = source.name.as_deref().filter(|_| !is_contents).map(super::finish::shown);
        let mirrored = name.map_or_else(|| destination.to_path_buf(), |name| destination.join(name));
        let Some(outer) = inode_of(&mirrored).filter(|_| mirrored.is_dir()) else { continue };
        let paths = sources.iter().flat_map(CopySource::places);
        for inner in paths.chain(options.link_dest.as_deref()) {
            if chain_of(inner)?.contains(&outer) && !excludes(options, &mirrored, inner) {
                return Err(Error::WouldDelete { inner: inner.to_path_buf(), destination: mirrored });
            }
        }
    }
    Ok(())
}

fn check_source(
    source: &CopySource,
    destination: &Path,
    chain: &[Inode],
    options: &CopyOptions,
) -> Result<()> {
    let Some(path) = &source.path else { return Ok(()) };
    let Some(own) = inode_of(path) else { return Ok(()) };
    if path.is_dir() {
        // What is left out of a source is not copied into itself.
        let is_elsewhere = || {
            let there = chain.first().is_some_and(|(device, _)| *device != own.0);
            source.is_on_one_file_system() && there
        };
        if chain.contains(&own) && !is_elsewhere() && !excludes(options, path, destination) {
            let (destination, source_path) = (destination.to_path_buf(), path.clone());
            return Err(Error::Inside { destination, source_path });
        }
        return Ok(());
    }
    let name = source.name.as_deref().map(super::finish::shown).unwrap_or_default();
    let place: PathBuf = destination.join(name);
    let found = place.symlink_metadata().ok().map(|found| (found.dev(), found.ino()));
    if found == Some(own) {
        return Err(Error::SameFile { source_path: path.clone(), destination: place });
    }
    Ok(())
}

/// Bytes of files that are replaced and wait, beside those that they replace, at least: a batch.
const WAITING_BYTES: u64 = 256 << 20;

/// The room that a destination needs.
#[derive(Debug, Default, Clone, Copy)]
struct Needed {
    /// What files take that are new, and what others take more than what they replace.
    growth_bytes: u64,
    /// What files take that replace others, and the longest of them: while they are written, both
    /// are there.
    replacing_bytes: u64,
    longest_bytes: u64,
}

impl Needed {
    fn add(&mut self, bytes: u64) {
        self.growth_bytes = self.growth_bytes.saturating_add(bytes);
    }

    fn add_replacing(&mut self, bytes: u64, replaced_bytes: u64) {
        self.add(bytes.saturating_sub(replaced_bytes));
        self.replacing_bytes = self.replacing_bytes.saturating_add(bytes);
        self.longest_bytes = self.longest_bytes.max(bytes);
    }

    fn bytes(self) -> u64 {
        // Two long files are copied at once.
        let waiting = WAITING_BYTES.max(self.longest_bytes.saturating_mul(2));
        self.growth_bytes.saturating_add(self.replacing_bytes.min(waiting))
    }
}

/// What is to be copied.
#[derive(Debug, Default)]
pub(super) struct Total {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// The room that each destination needs.
    needed: Vec<Needed>,
    is_stopped: bool,
    /// Whether something is to be copied, or could not be listed.
    has_any: bool,
    /// The functions of the histories that a new list of ASC MHL continues, or refers to.
    pub(super) of_histories: BTreeSet<HashKind>,
}

impl Total {
    /// Whether there is nothing to be copied, and nothing in the way.
    pub(super) fn is_nothing(&self) -> bool {
        !self.has_any
    }

    /// How far counting has come.
    fn so_far(&self) -> Progress {
        Progress { files: self.files, bytes: self.bytes, ..Progress::default() }
    }
}

/// Counts what is to be copied.
struct Counting<'a> {
    sources: &'a [CopySource],
    destinations: &'a [Destination],
    total: Total,
    /// Files with several names count once.
    known: HashSet<(usize, NodeId)>,
    is_exact: bool,
    options: &'a CopyOptions,
    events: &'a mut dyn CopyEvents,
    entries: u64,
}

impl Listed for Counting<'_> {
    fn found(&mut self, found: Found) -> ControlFlow<()> {
        self.entries += 1;
        self.total.has_any |= !found.is_implied && !found.key.is_empty();
        if self.options.makes_mhl() {
            let of_histories = &mut self.total.of_histories;
            histories::add_kinds_of(&found, self.sources, self.destinations, of_histories);
        }
        if self.entries.is_multiple_of(1024) && !self.events.go_on(&self.total.so_far()) {
            self.total.is_stopped = true;
            return ControlFlow::Break(());
        }
        let is_known = found.node.links > 1 && !self.known.insert((found.source, found.id));
        if found.node.kind != Kind::File || is_known {
            return ControlFlow::Continue(());
        }
        self.total.files += 1;
        self.total.bytes = self.total.bytes.saturating_add(found.node.len);
        let kept = match self.sources.get(found.source).filter(|_| self.is_exact) {
            // Holes need no room.
            Some(source) => source.tree.holes(found.id).map(|holes| holes.kept_bytes(found.node.len)),
            None => Ok(found.node.len),
        };
        // What cannot be asked is reported when it is copied.
        let kept = kept.unwrap_or(found.node.len);
        let bytes = room::of_file(kept);
        for (destination, needed) in self.destinations.iter().zip(&mut self.total.needed) {
            // What is there is looked at only where all does not fit.
            if !self.is_exact {
                needed.add(bytes);
                continue;
            }
            let place = destination.path.join(super::finish::shown(&found.key));
            // What an earlier run left of it has room already.
            let bytes = bytes.saturating_sub(outbox::kept_room(&place));
            match place.symlink_metadata() {
                Ok(there) if stays(&there, &found, self.options.overwrite) => {}
                Ok(there) if self.options.backup.is_none() => {
                    needed.add_replacing(bytes, there.blocks().saturating_mul(BLOCK_LEN));
                }
                // What cannot be asked is as if nothing was there.
                Ok(_) | Err(_) => needed.add(bytes),
            }
        }
        ControlFlow::Continue(())
    }

    // What cannot be listed is reported when it is copied.
    fn failed(&mut self, _: &[u8], _: crate::Error) {
        self.total.has_any = true;
    }
}

/// The unit in which the system says how much room a file takes.
const BLOCK_LEN: u64 = 512;

/// Whether what is there keeps its name, and so needs no more room.
fn stays(there: &Metadata, found: &Found, overwrite: Overwrite) -> bool {
    let mtime_ns = i128::from(there.mtime()) * 1_000_000_000 + i128::from(there.mtime_nsec());
    let wanted_ns = found.node.mtime_ns.map(i128::from);
    let is_alike = there.is_file() && there.len() == found.node.len && wanted_ns == Some(mtime_ns);
    match overwrite {
        Overwrite::Never => true,
        Overwrite::Older => is_alike || wanted_ns.is_none_or(|wanted| mtime_ns >= wanted),
        Overwrite::Different => is_alike,
        Overwrite::Always => false,
    }
}

/// Counts all files, and refuses what does not fit; `None` where the caller stopped it.
pub(super) fn check_room(
    listing: &Listing<'_>,
    destinations: &[Destination],
    events: &mut dyn CopyEvents,
) -> Result<Option<Total>> {
    let mut count = |is_exact| {
        let needed = vec![Needed::default(); destinations.len()];
        let mut total = Total { needed, ..Total::default() };
        if listing.options.makes_mhl() {
            destinations.iter().for_each(|one| add_kinds_in(&one.path, &mut total.of_histories));
        }
        let known = HashSet::new();
        let (sources, options) = (listing.sources, listing.options);
        let mut counting =
            Counting { sources, destinations, total, known, is_exact, options, events, entries: 0 };
        let _ = listing.run(&mut counting);
        counting.total
    };
    let total = count(false);
    if total.is_stopped {
        return Ok(None);
    }
    if listing.options.force || too_little(destinations, &total)?.is_none() {
        return Ok(Some(total));
    }
    let exact = count(true);
    if exact.is_stopped {
        return Ok(None);
    }
    match too_little(destinations, &exact)? {
        None => Ok(Some(total)),
        Some(why) if listing.options.mirror => {
            Err(Error::Room(format!("{why}; a mirror deletes what is extra only afterwards")))
        }
        Some(why) => Err(Error::Room(why)),
    }
}

/// Which file system has too little room. Destinations on one share its room.
fn too_little(destinations: &[Destination], total: &Total) -> Result<Option<String>> {
    let mut systems: BTreeMap<u64, (&Path, u64)> = BTreeMap::new();
    for (destination, needed) in destinations.iter().zip(&total.needed) {
        let there = destination.path.ancestors().find_map(inode_of).or_else(|| inode_of(Path::new(".")));
        let device = there.map_or(0, |(device, _)| device);
        let sum = &mut systems.entry(device).or_insert((&destination.path, 0)).1;
        *sum = sum.saturating_add(needed.bytes());
    }
    for (path, needed) in systems.into_values() {
        if let Some(why) = room::too_little(path, needed, free_at(path)?) {
            return Ok(Some(why));
        }
    }
    Ok(None)
}
