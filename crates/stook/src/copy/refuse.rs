//! What is refused before anything is made: copies that would never end, or eat what they read, or
//! have no room.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::error::{Error, Result};
use super::events::{CopyEvents, Progress};
use super::listing::{Found, Listed, Listing};
use super::run::Destination;
use super::source::CopySource;
use crate::storage::free_at;
use crate::tree::{Kind, NodeId, outbox, room};

/// Which file or directory.
type Inode = (u64, u64);

fn inode_of(path: &Path) -> Option<Inode> {
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

/// Refuses sources and destinations that are one in the other, or have the same names.
pub(super) fn check_places(
    sources: &[CopySource],
    destinations: &[Destination],
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
            check_source(source, path, &chain)?;
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

fn check_source(source: &CopySource, destination: &Path, chain: &[Inode]) -> Result<()> {
    let Some(path) = &source.path else { return Ok(()) };
    let Some(own) = inode_of(path) else { return Ok(()) };
    if path.is_dir() {
        if chain.contains(&own) {
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

/// What is to be copied.
#[derive(Debug, Default)]
pub(super) struct Total {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// The room that each destination needs, those with the same file system together.
    needed: Vec<u64>,
    is_stopped: bool,
}

impl Total {
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
    events: &'a mut dyn CopyEvents,
    entries: u64,
}

impl Listed for Counting<'_> {
    fn found(&mut self, found: Found) -> ControlFlow<()> {
        self.entries += 1;
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
        for (destination, needed) in self.destinations.iter().zip(&mut self.total.needed) {
            // What is there already needs no room. It is looked for only where all does not fit.
            let place = destination.path.join(super::finish::shown(&found.key));
            if self.is_exact && place.exists() {
                continue;
            }
            // What an earlier run left of it has room already.
            let has = if self.is_exact { outbox::kept_room(&place) } else { 0 };
            *needed = needed.saturating_add(room::of_file(kept).saturating_sub(has));
        }
        ControlFlow::Continue(())
    }

    // What cannot be listed is reported when it is copied.
    fn failed(&mut self, _: &[u8], _: crate::Error) {}
}

/// Counts all files, and refuses what does not fit; `None` where the caller stopped it.
pub(super) fn check_room(
    listing: &Listing<'_>,
    destinations: &[Destination],
    events: &mut dyn CopyEvents,
) -> Result<Option<Total>> {
    let mut count = |is_exact| {
        let needed = vec![0; destinations.len()];
        let total = Total { needed, ..Total::default() };
        let known = HashSet::new();
        let sources = listing.sources;
        let mut counting = Counting { sources, destinations, total, known, is_exact, events, entries: 0 };
        let _ = listing.run(&mut counting);
        counting.total
    };
    let total = count(false);
    if total.is_stopped {
        return Ok(None);
    }
    if listing.options.force || listing.options.dry_run || too_little(destinations, &total)?.is_none() {
        return Ok(Some(total));
    }
    let exact = count(true);
    if exact.is_stopped {
        return Ok(None);
    }
    too_little(destinations, &exact)?.map_or(Ok(Some(total)), |why| Err(Error::Room(why)))
}

/// Which file system has too little room. Destinations on one share its room.
fn too_little(destinations: &[Destination], total: &Total) -> Result<Option<String>> {
    let mut systems: BTreeMap<u64, (&Path, u64)> = BTreeMap::new();
    for (destination, needed) in destinations.iter().zip(&total.needed) {
        let there = destination.path.ancestors().find_map(inode_of).or_else(|| inode_of(Path::new(".")));
        let device = there.map_or(0, |(device, _)| device);
        systems.entry(device).or_insert((&destination.path, 0)).1 += needed;
    }
    for (path, needed) in systems.into_values() {
        if let Some(why) = room::too_little(path, needed, free_at(path)?) {
            return Ok(Some(why));
        }
    }
    Ok(None)
}
