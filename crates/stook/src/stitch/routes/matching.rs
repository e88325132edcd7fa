//! Which files of a tree are named by routes.

use std::ops::ControlFlow;

use super::Routes;
use crate::error::Error;
use crate::tree::descent::{Descending, Met};
use crate::tree::{Failure, Kind, Node, NodeId};

/// A file that routes name.
#[derive(Debug)]
pub(super) struct Match {
    pub(super) key: Vec<u8>,
    pub(super) id: NodeId,
    /// What it was when it was listed.
    pub(super) node: Node,
    /// The directories that are for it, the one that counts least first.
    pub(super) layers: Box<[u32]>,
}

/// Goes through a tree, and looks for each path in all routes at once. What is kept of a directory
/// is where the names that lead to it, from each of them on, have led to in the routes.
pub(super) struct Matching<'a> {
    routes: &'a Routes,
    go_on: &'a mut dyn FnMut(u64) -> bool,
    pub(super) seen: u64,
    pub(super) matches: Vec<Match>,
    pub(super) failures: Vec<Failure<Error>>,
}

impl<'a> Matching<'a> {
    pub(super) fn new(routes: &'a Routes, go_on: &'a mut dyn FnMut(u64) -> bool) -> Self {
        Self { routes, go_on, seen: 0, matches: Vec::new(), failures: Vec::new() }
    }

    /// Where a name leads to.
    fn led_to(&self, name: &[u8], within: &[u32]) -> Vec<u32> {
        let folded = self.routes.case.folded(name);
        let child = |number: u32| self.routes.node(number)?.children.get(&*folded).copied();
        (0..self.routes.roots).chain(within.iter().copied()).filter_map(child).collect()
    }
}

impl Descending for Matching<'_> {
    type Kept = Vec<u32>;

    fn met(&mut self, met: Met, within: &Vec<u32>) -> ControlFlow<(), Option<Vec<u32>>> {
        self.seen = self.seen.saturating_add(1);
        if self.seen.is_multiple_of(1024) && !(self.go_on)(self.seen) {
            return ControlFlow::Break(());
        }
        if !matches!(met.node.kind, Kind::Directory | Kind::File) {
            return ControlFlow::Continue(None);
        }
        let mut led_to = self.led_to(met.name(), within);
        if met.node.kind == Kind::Directory {
            return ControlFlow::Continue(Some(led_to));
        }
        led_to.retain(|number| self.routes.node(*number).is_some_and(|node| node.has_files));
        if !led_to.is_empty() {
            led_to.sort_by_key(|number| self.routes.node(*number).map(|node| (node.tree, node.depth)));
            self.matches.push(Match { key: met.key, id: met.id, node: met.node, layers: led_to.into() });
        }
        ControlFlow::Continue(None)
    }

    fn failed(&mut self, key: &[u8], error: Error) {
        self.failures.push(Failure { key: key.to_vec(), error });
    }
}
