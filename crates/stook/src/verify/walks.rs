//! What should be there, one path after another: of the other tree, of lists, and, where lists are
//! to be made, what no list has. All but the bytes of files is compared at once.

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::Ordering;

use super::batches::{Batcher, Job};
use super::expected::Expected;
use super::report::Difference;
use super::run::{Prepared, Run, Sink};
use super::subject::Branch;
use crate::error::{Error, Result};
use crate::tree::descent::{Descending, Met, descend};
use crate::tree::{Kind, Node, NodeId, Tree, find_below};

/// What has a name in a directory; nothing has one in what is no directory.
pub(super) fn lookup(tree: &dyn Tree, parent: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
    match tree.lookup(parent, name) {
        Err(error) if error.io_kind() == Some(io::ErrorKind::NotADirectory) => Ok(None),
        found => found,
    }
}

/// The path of what an error is about, where that lies in a tree.
pub(super) fn key_of(branch: &Branch, error: &Error) -> Option<Vec<u8>> {
    let Error::Io { path, .. } = error else { return None };
    let key = path.strip_prefix(branch.path()).ok()?.as_os_str().as_bytes();
    (!key.is_empty()).then(|| key.to_vec())
}

/// Goes through all that should be there.
pub(super) struct Walks<'w, 'a> {
    pub(super) run: &'w Run<'a>,
    pub(super) prepared: &'w Prepared<'a>,
    pub(super) sink: &'w Sink,
    /// What was reported already.
    pub(super) reported: &'w HashSet<Vec<u8>>,
    pub(super) batcher: Batcher,
    /// Of what lists have, by number: what the other tree has, too.
    pub(super) seen: Vec<bool>,
    /// The directory that something was looked for in last: paths of lists come in their order.
    pub(super) parent: Option<(Vec<u8>, NodeId)>,
}

impl Walks<'_, '_> {
    /// All of it.
    pub(super) fn run(mut self) {
        let subject = self.prepared.subject;
        if let Some(other) = &subject.against {
            self.below_other(other);
        }
        if let Some(listed) = &subject.listed {
            self.listed(listed);
        }
        if self.run.options.makes_lists() && subject.against.is_none() {
            self.unlisted();
        }
        self.batcher.flush();
    }

    /// What the other tree has.
    fn below_other(&mut self, other: &Branch) {
        let branch = &self.prepared.subject.branch;
        if self.prepared.kind == Kind::Directory {
            let _ = descend(&*other.tree, (other.id, Vec::new(), Some(branch.id)), &mut BelowOther(self));
            return;
        }
        let nodes = branch.tree.node(branch.id).and_then(|own| Ok((own, other.tree.node(other.id)?)));
        match nodes {
            Ok((own, theirs)) => {
                let entry = self.entry(&branch.name);
                let (key, other) = (branch.name.clone(), Some((other.id, theirs.len)));
                self.batcher.put(Job { key, id: branch.id, len: own.len, entry, other });
            }
            Err(error) => self.sink.unreadable(branch.name.clone(), Kind::File, error),
        }
    }

    /// The number of what lists say of a path, which is not met again then.
    fn entry(&mut self, key: &[u8]) -> Option<usize> {
        let number = self.prepared.subject.listed.as_ref()?.find(key)?.number();
        if let Some(seen) = self.seen.get_mut(number) {
            *seen = true;
        }
        Some(number)
    }

    /// Compares what has the same path in both trees: what is kept of it, if both are directories.
    fn compare(&mut self, met: Met, id: NodeId) -> Option<Option<NodeId>> {
        let Some(other) = &self.prepared.subject.against else { return None };
        let Met { id: other_id, node: theirs, key } = met;
        let tree = &self.prepared.subject.branch.tree;
        let own = match tree.node(id) {
            Ok(node) => node,
            Err(error) => {
                self.sink.unreadable(key, theirs.kind, error);
                return (theirs.kind == Kind::Directory).then_some(None);
            }
        };
        if own.kind != theirs.kind {
            let difference = Difference::Kind { expected: theirs.kind, found: own.kind };
            self.sink.differs(key, own.kind, difference);
            if own.kind == Kind::File {
                self.run.skip(own.len.saturating_mul(2));
            }
            return (theirs.kind == Kind::Directory).then_some(None);
        }
        match own.kind {
            Kind::Directory => {
                self.prepared.directories.fetch_add(1, Ordering::Relaxed);
                return Some(Some(id));
            }
            Kind::File => {
                let entry = self.entry(&key);
                self.batcher.put(Job { key, id, len: own.len, entry, other: Some((other_id, theirs.len)) });
            }
            Kind::Symlink => {
                let targets = tree.link_target(id);
                match targets.and_then(|found| Ok((found, other.tree.link_target(other_id)?))) {
                    Ok((found, expected)) if found == expected => self.sink.matches(key, Kind::Symlink),
                    Ok((found, expected)) => {
                        self.sink.differs(key, Kind::Symlink, Difference::Target { expected, found });
                    }
                    Err(error) => self.sink.unreadable(key, Kind::Symlink, error),
                }
            }
            kind if own.device == theirs.device => self.sink.matches(key, kind),
            kind => {
                let difference = Difference::Device { expected: theirs.device, found: own.device };
                self.sink.differs(key, kind, difference);
            }
        }
        None
    }

    /// The file or directory with a path, and what it is.
    fn find(&mut self, key: &[u8]) -> Result<Option<(NodeId, Node)>> {
        let branch = &self.prepared.subject.branch;
        let tree = &*branch.tree;
        let end = key.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let (directory, name) = key.split_at_checked(end).unwrap_or((b"", key));
        let name = name.strip_prefix(b"/").unwrap_or(name);
        let known = self.parent.as_ref().filter(|(known, _)| known == directory).map(|(_, id)| *id);
        let parent = match (self.prepared.kind, known) {
            (Kind::Directory, Some(id)) => Some(id),
            (Kind::Directory, None) => find_below(tree, branch.id, directory)?,
            _ => return branch.find(key)?.map(|id| Ok((id, tree.node(id)?))).transpose(),
        };
        let Some(parent) = parent else { return Ok(None) };
        self.parent = Some((directory.to_vec(), parent));
        lookup(tree, parent, name)?.map(|id| Ok((id, tree.node(id)?))).transpose()
    }

    /// What lists have, in the order of paths.
    fn listed(&mut self, listed: &Expected) {
        let branch = &self.prepared.subject.branch;
        let is_file = self.prepared.kind != Kind::Directory;
        for entry in listed.iter() {
            if self.run.is_stopped() {
                return;
            }
            let (key, number) = (entry.path(), entry.number());
            let is_seen = self.seen.get(number).copied().unwrap_or(false);
            // Of a single file no more is asked than of itself.
            if is_seen || self.reported.contains(key) || is_file && key != branch.name {
                continue;
            }
            let key = key.to_vec();
            match self.find(&key) {
                Ok(None) => self.sink.missing(key, Kind::File),
                Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) => {
                    self.sink.missing(key, Kind::File);
                }
                Err(error) => self.sink.unreadable(key, Kind::File, error),
                Ok(Some((_, node))) if node.kind != Kind::File => {
                    let difference = Difference::Kind { expected: Kind::File, found: node.kind };
                    self.sink.differs(key, node.kind, difference);
                }
                Ok(Some((id, node))) => match entry.differs_in_len(node.len) {
                    Some(difference) => {
                        self.sink.differs(key, Kind::File, difference);
                        self.run.skip(node.len);
                    }
                    None => {
                        self.batcher.put(Job { key, id, len: node.len, entry: Some(number), other: None });
                    }
                },
            }
        }
    }

    /// Files that no list has.
    fn unlisted(&mut self) {
        let branch = &self.prepared.subject.branch;
        if self.prepared.kind == Kind::Directory {
            let _ = descend(&*branch.tree, (branch.id, Vec::new(), ()), &mut Unlisted(self));
            return;
        }
        let is_listed = self.prepared.subject.listed.as_ref();
        if is_listed.is_some_and(|listed| listed.contains(&branch.name)) {
            return;
        }
        match branch.tree.node(branch.id) {
            Ok(node) => {
                let (key, id, len) = (branch.name.clone(), branch.id, node.len);
                self.batcher.put(Job { key, id, len, entry: None, other: None });
            }
            Err(error) => self.sink.unreadable(branch.name.clone(), Kind::File, error),
        }
    }
}

/// Looks up in the tree what the other one has.
struct BelowOther<'b, 'w, 'a>(&'b mut Walks<'w, 'a>);

impl Descending for BelowOther<'_, '_, '_> {
    /// The same directory of the tree, if there is one.
    type Kept = Option<NodeId>;

    fn met(&mut self, met: Met, within: &Option<NodeId>) -> ControlFlow<(), Option<Option<NodeId>>> {
        let walks = &mut *self.0;
        if walks.run.is_stopped() {
            return ControlFlow::Break(());
        }
        let subject = walks.prepared.subject;
        let is_directory = met.node.kind == Kind::Directory;
        if walks.reported.contains(&met.key) {
            return ControlFlow::Continue(is_directory.then_some(None));
        }
        let found = match within {
            Some(parent) => lookup(&*subject.branch.tree, *parent, met.name()),
            None => Ok(None),
        };
        match found {
            // Lists of two copies are lists of their own.
            Ok(Some(_)) if subject.left_out.contains(&met.key) => return ControlFlow::Continue(None),
            Ok(Some(id)) => return ControlFlow::Continue(walks.compare(met, id)),
            Ok(None) if subject.leaves_out(&met.key, is_directory) => return ControlFlow::Continue(None),
            Ok(None) => {
                // What its list says of it is that it is missing, too.
                walks.entry(&met.key);
                walks.sink.missing(met.key, met.node.kind);
            }
            Err(error) => walks.sink.unreadable(met.key, met.node.kind, error),
        }
        ControlFlow::Continue(is_directory.then_some(None))
    }

    fn failed(&mut self, key: &[u8], error: Error) {
        let walks = &mut *self.0;
        let other = walks.prepared.subject.against.as_ref();
        let about = other.and_then(|other| key_of(other, &error)).unwrap_or_else(|| key.to_vec());
        if about == key && !key.is_empty() && !walks.reported.contains(key) {
            // It was one that both have.
            walks.prepared.directories.fetch_sub(1, Ordering::Relaxed);
        }
        if !walks.reported.contains(&about) {
            walks.sink.unreadable(about, Kind::Other, error);
        }
    }
}

/// Takes files that no list has.
struct Unlisted<'b, 'w, 'a>(&'b mut Walks<'w, 'a>);

impl Descending for Unlisted<'_, '_, '_> {
    type Kept = ();

    fn met(&mut self, met: Met, (): &()) -> ControlFlow<(), Option<()>> {
        let walks = &mut *self.0;
        if walks.run.is_stopped() {
            return ControlFlow::Break(());
        }
        let subject = walks.prepared.subject;
        let Met { id, node, key } = met;
        let is_listed = subject.listed.as_ref().is_some_and(|listed| listed.contains(&key));
        if !is_listed && subject.leaves_out(&key, node.kind == Kind::Directory) {
            return ControlFlow::Continue(None);
        }
        if node.kind == Kind::File && !is_listed && !walks.reported.contains(&key) {
            walks.batcher.put(Job { key, id, len: node.len, entry: None, other: None });
        }
        ControlFlow::Continue((node.kind == Kind::Directory).then_some(()))
    }

    // What cannot be listed was reported when it was counted.
    fn failed(&mut self, _: &[u8], _: Error) {}
}
