//! What is there: how much has to be read, and what nothing says should be there.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::run::{Prepared, Run, Sink};
use super::subject::Subject;
use super::walks::{key_of, lookup};
use crate::error::Error;
use crate::tree::descent::{Descending, Met, descend};
use crate::tree::{Kind, NodeId};

/// What has to be read of a tree.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) files: u64,
    /// Bytes of them.
    pub(super) bytes: u64,
    /// What was reported because it could not be listed or looked up: it counts no more.
    pub(super) reported: HashSet<Vec<u8>>,
}

/// Goes through all of a tree.
pub(super) fn count(run: &Run<'_>, prepared: &Prepared<'_>, sink: &Sink) -> Counted {
    let branch = &prepared.subject.branch;
    let mut counting = Counting { run, prepared, sink, counted: Counted::default() };
    if prepared.kind != Kind::Directory {
        counting.count_file();
        return counting.counted;
    }
    if prepared.subject.only_listed {
        counting.count_listed();
        return counting.counted;
    }
    let other = prepared.subject.against.as_ref().map(|other| other.id);
    let _ = descend(&*branch.tree, (branch.id, Vec::new(), other), &mut counting);
    counting.counted
}

struct Counting<'c, 'a> {
    run: &'c Run<'a>,
    prepared: &'c Prepared<'a>,
    sink: &'c Sink,
    counted: Counted,
}

impl Counting<'_, '_> {
    /// A file has to be read, and what it is compared with.
    fn expect(&mut self, len: u64) {
        self.counted.files += 1;
        self.counted.bytes = self.counted.bytes.saturating_add(len);
        let sides = if self.prepared.subject.against.is_some() { 2 } else { 1 };
        self.run.expect(len.saturating_mul(sides));
    }

    fn is_listed(&self, key: &[u8]) -> bool {
        self.prepared.subject.listed.as_ref().is_some_and(|listed| listed.contains(key))
    }

    /// Where the tree is a single file.
    fn count_file(&mut self) {
        let Subject { branch, against, .. } = self.prepared.subject;
        if against.is_none() && !self.run.options.makes_lists() && !self.is_listed(&branch.name) {
            return self.sink.extra(branch.name.clone(), self.prepared.kind);
        }
        // What it meets is met again when it is read.
        if let Ok(node) = branch.tree.node(branch.id) {
            self.expect(node.len);
        }
    }

    /// Where nothing else is asked about: as long as lists say.
    fn count_listed(&mut self) {
        let listed = self.prepared.subject.listed.clone();
        for entry in listed.iter().flat_map(|listed| listed.iter()) {
            self.expect(entry.listed_len().unwrap_or(0));
        }
    }

    fn report(&mut self, key: Vec<u8>, kind: Kind, error: Error) {
        if self.counted.reported.insert(key.clone()) {
            self.sink.unreadable(key, kind, error);
        }
    }
}

impl Descending for Counting<'_, '_> {
    /// The same directory of the other tree, if there is one.
    type Kept = Option<NodeId>;

    fn met(&mut self, met: Met, within: &Option<NodeId>) -> ControlFlow<(), Option<Option<NodeId>>> {
        if self.run.is_stopped() {
            return ControlFlow::Break(());
        }
        let subject = self.prepared.subject;
        let is_directory = met.node.kind == Kind::Directory;
        let name = met.name().to_vec();
        let Met { node, key, .. } = met;
        let other = match (&subject.against, within) {
            (Some(other), Some(parent)) => match lookup(&*other.tree, *parent, &name) {
                Ok(found) => found,
                Err(error) => {
                    self.report(key, node.kind, error);
                    return ControlFlow::Continue(is_directory.then_some(None));
                }
            },
            _ => None,
        };
        let is_listed = node.kind == Kind::File && self.is_listed(&key);
        let is_left_out = match other {
            Some(_) => subject.left_out.contains(&key),
            None => !is_listed && subject.leaves_out(&key, is_directory),
        };
        if is_left_out {
            return ControlFlow::Continue(None);
        }
        let is_expected = match (&subject.against, node.kind) {
            (Some(_), _) => other.is_some() || is_listed,
            (None, Kind::File) => is_listed || self.run.options.makes_lists(),
            // Lists have files only.
            (None, _) => true,
        };
        match (is_expected, node.kind) {
            (true, Kind::File) => self.expect(node.len),
            (true, _) => {}
            (false, kind) => self.sink.extra(key, kind),
        }
        ControlFlow::Continue(is_directory.then_some(other))
    }

    fn failed(&mut self, key: &[u8], error: Error) {
        let about = key_of(&self.prepared.subject.branch, &error).unwrap_or_else(|| key.to_vec());
        // What is listed is looked up by its path, and reported then.
        if about == key || !self.is_listed(&about) {
            self.report(about, Kind::Other, error);
        }
    }
}
