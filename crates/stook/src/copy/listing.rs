//! What is copied, in pages: no listing is held in memory as a whole.

use std::collections::BTreeSet;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::finish::shown;
use super::options::CopyOptions;
use super::source::{CopySource, Misplaced};
use crate::error::Error;
pub(super) use crate::tree::descent::joined;
use crate::tree::descent::{Descending, Met, descend};
use crate::tree::{Kind, Node, NodeId};

/// An entry that was found.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Which source it is of.
    pub(super) source: usize,
    pub(super) id: NodeId,
    /// The directory that it was listed in; `None` for a source itself.
    pub(super) parent: Option<NodeId>,
    pub(super) node: Node,
    /// Its path, relative to the destination.
    pub(super) key: Vec<u8>,
    /// A directory that was not selected itself: it is made only if something in it is copied.
    pub(super) is_implied: bool,
}

/// What is reported of a listing, one after another. A directory comes before what is in it.
pub(super) trait Listed {
    /// Takes an entry; `Break` ends the listing.
    fn found(&mut self, found: Found) -> ControlFlow<()>;

    /// Takes what could not be listed: the key of the directory that it is in, or its own.
    fn failed(&mut self, key: &[u8], error: Error);

    /// Closes what is kept open for speed.
    fn release_descriptors(&mut self) {}
}

/// Lists sources.
pub(super) struct Listing<'a> {
    pub(super) sources: &'a [CopySource],
    pub(super) options: &'a CopyOptions,
    /// Whether what is in the only source goes into the destination itself.
    pub(super) is_contents: bool,
    /// The destinations, by device and inode: a mount may lead to them from a source.
    pub(super) destinations: Vec<(u64, u64)>,
}

impl Listing<'_> {
    /// Lists all of them.
    pub(super) fn run(&self, listed: &mut dyn Listed) -> ControlFlow<()> {
        for (number, source) in self.sources.iter().enumerate() {
            let key = match self.is_contents {
                true => Vec::new(),
                false => source.name.clone().unwrap_or_default(),
            };
            let node = match source.tree.node(source.id) {
                Ok(node) => node,
                Err(error) => {
                    listed.failed(&key, error);
                    continue;
                }
            };
            let is_directory = node.kind == Kind::Directory;
            // A file is selected, and listed, by its name.
            if !is_directory && self.takes(&key, false) != Some(true) {
                continue;
            }
            let (id, parent, is_implied) = (source.id, None, false);
            listed.found(Found { source: number, id, parent, node, key: key.clone(), is_implied })?;
            for Misplaced { path, why } in source.misplaced.iter() {
                if path.is_empty() || self.takes(path, false) == Some(true) {
                    let what = why.clone();
                    let error = Error::Entry { path: source.tree.path().join(shown(path)), what };
                    listed.failed(&joined(&key, path), error);
                }
            }
            if is_directory {
                self.below(number, key, listed)?;
            }
        }
        self.check_only(listed);
        ControlFlow::Continue(())
    }

    /// Lists a directory with all that is in it.
    fn below(&self, number: usize, key: Vec<u8>, listed: &mut dyn Listed) -> ControlFlow<()> {
        let Some(source) = self.sources.get(number) else { return ControlFlow::Continue(()) };
        let skipped = if key.is_empty() { 0 } else { key.len() + 1 };
        let mut below = Below { listing: self, source, number, skipped, listed };
        descend(&*source.tree, (source.id, key, source.id), &mut below)
    }

    /// Whether a path is taken; `None` if neither it is nor anything in it can be.
    fn takes(&self, path: &[u8], is_directory: bool) -> Option<bool> {
        let CopyOptions { selection, only, .. } = self.options;
        if selection.excludes(path, is_directory) {
            return None;
        }
        let is_listed = only.as_ref().is_none_or(|only| is_below(only, path));
        let is_taken = is_listed && selection.includes(path, is_directory);
        let leads_on = is_directory && (is_listed || only.as_ref().is_some_and(|only| leads_to(only, path)));
        (is_taken || leads_on).then_some(is_taken)
    }

    /// Returns an error for a directory that is a destination, to which a mount leads: what is
    /// copied into it would be listed, and copied, without an end.
    fn check_end(&self, source: &CopySource, id: NodeId) -> Result<(), Error> {
        let is_destination = source.inode(id)?.is_some_and(|inode| self.destinations.contains(&inode));
        if !is_destination || source.leaves_out(id)? {
            return Ok(());
        }
        let why = io::Error::other("it is the destination, mounted there: the copy would never end");
        Err(Error::io("copy", source.tree.path_of(id), why))
    }

    /// Why a path that was named is in no source, and what may have been meant.
    fn why_not_found(&self, path: &[u8]) -> String {
        let names = self.sources.iter().filter_map(|source| {
            let name = source.path.as_deref()?.file_name()?.as_bytes();
            path.strip_prefix(name)?.starts_with(b"/").then_some(source.path.as_deref()?)
        });
        let hint = match names.into_iter().next() {
            _ if path.ends_with(b"\r") => "; the lines of the list end in CR LF".to_owned(),
            Some(source) => format!("; paths are relative to {}", source.display()),
            None => String::new(),
        };
        format!("no source has it{hint}")
    }

    /// Of paths that were named, those that no source has are failures.
    fn check_only(&self, listed: &mut dyn Listed) {
        let is_directory = |source: &&CopySource| !matches!(source.is_directory(), Ok(false));
        let (sources, files): (Vec<_>, Vec<_>) = self.sources.iter().partition(is_directory);
        let is_file = |path: &[u8]| files.iter().any(|file| file.name.as_deref() == Some(path));
        for path in self.options.only.iter().flatten().filter(|path| !is_file(path)) {
            let mut found = sources.iter().map(|source| source.find(path));
            match found.find(|found| !matches!(found, Ok(None))) {
                Some(Ok(_)) => {}
                Some(Err(error)) => listed.failed(path, error),
                None => {
                    let path_in = |source: &CopySource| source.tree.path().join(shown(path));
                    let place = match sources.as_slice() {
                        [only] if files.is_empty() => path_in(only),
                        _ => PathBuf::from(shown(path)),
                    };
                    let why = io::Error::new(io::ErrorKind::NotFound, self.why_not_found(path));
                    listed.failed(path, Error::io("find", place, why));
                }
            }
        }
    }
}

/// Selects what is met below a source.
struct Below<'a, 'l> {
    listing: &'a Listing<'a>,
    source: &'a CopySource,
    number: usize,
    /// How much of each path is that of the source itself.
    skipped: usize,
    listed: &'l mut dyn Listed,
}

impl Descending for Below<'_, '_> {
    /// The directory itself.
    type Kept = NodeId;

    fn met(&mut self, met: Met, within: &NodeId) -> ControlFlow<(), Option<NodeId>> {
        let Met { id, node, key } = met;
        let is_directory = node.kind == Kind::Directory;
        let path = key.get(self.skipped..).unwrap_or_default();
        if let Some(what) = self.source.refusal_in(*within, id) {
            if self.listing.takes(path, is_directory) == Some(true) {
                self.listed.failed(&key, Error::Entry { path: self.source.tree.path_of(id), what });
            }
            return ControlFlow::Continue(None);
        }
        let Some(is_taken) = self.listing.takes(path, is_directory) else {
            return ControlFlow::Continue(None);
        };
        if is_directory && let Err(error) = self.listing.check_end(self.source, id) {
            self.listed.failed(&key, error);
            return ControlFlow::Continue(None);
        }
        let (parent, is_implied) = (Some(*within), !is_taken);
        self.listed.found(Found { source: self.number, id, parent, node, key, is_implied })?;
        ControlFlow::Continue(is_directory.then_some(id))
    }

    fn failed(&mut self, key: &[u8], error: Error) {
        self.listed.failed(key, error);
    }

    fn release_descriptors(&mut self) {
        self.listed.release_descriptors();
    }
}

/// Whether a path, or a directory above it, is among these.
fn is_below(only: &BTreeSet<Vec<u8>>, path: &[u8]) -> bool {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let mut above = slashes.chain([path.len()]).filter_map(|end| path.get(..end));
    above.any(|above| only.contains(above))
}

/// Whether one of these lies in a directory.
fn leads_to(only: &BTreeSet<Vec<u8>>, directory: &[u8]) -> bool {
    let mut begin = directory.to_vec();
    begin.push(b'/');
    only.range(begin.clone()..).next().is_some_and(|first| first.starts_with(&begin))
}
