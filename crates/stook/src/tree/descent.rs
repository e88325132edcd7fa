//! [`descend`]: everything below a directory of a tree, in pages: no listing is held in memory as a
//! whole.

use std::ops::ControlFlow;

use super::any::Tree;
use super::descriptors::{is_short_of_descriptors, with_descriptors};
use super::node::{Kind, Node, NodeId};
use super::page::{Cursor, Page};
use crate::error::Error;

/// An entry that was met.
#[derive(Debug, Clone)]
pub(crate) struct Met {
    pub(crate) id: NodeId,
    pub(crate) node: Node,
    /// Its path, which begins with that of the directory where the descent began.
    pub(crate) key: Vec<u8>,
}

impl Met {
    /// Its name in its directory.
    pub(crate) fn name(&self) -> &[u8] {
        self.key.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }
}

/// Takes what a descent meets. A directory comes before what is in it.
pub(crate) trait Descending {
    /// What is kept of a directory for the entries in it.
    type Kept;

    /// Takes an entry, with what was kept of its directory: what is kept of it, if it is a
    /// directory to go into. `Break` ends the descent.
    fn met(&mut self, met: Met, within: &Self::Kept) -> ControlFlow<(), Option<Self::Kept>>;

    /// Takes what could not be listed or asked: the path of the directory that it is in, or its
    /// own.
    fn failed(&mut self, key: &[u8], error: Error);

    /// Closes what is kept open for speed.
    fn release_descriptors(&mut self) {}
}

/// What is left to be listed of a directory.
struct Frame<K> {
    id: NodeId,
    key: Vec<u8>,
    from: Cursor,
    kept: std::rc::Rc<K>,
}

/// Goes through everything below a directory, whose path is `key`. What waits is bounded by the
/// depth of the tree and the length of a page.
pub(crate) fn descend<D: Descending>(
    tree: &dyn Tree,
    (id, key, kept): (NodeId, Vec<u8>, D::Kept),
    descending: &mut D,
) -> ControlFlow<()> {
    let mut page = Page::new();
    let mut waiting = vec![Frame { id, key, from: Cursor::Start, kept: kept.into() }];
    while let Some(Frame { id, key, from, kept }) = waiting.pop() {
        let list = || tree.list(id, &from, &mut page);
        let listed = with_descriptors(list, is_short_of_descriptors, || descending.release_descriptors());
        let next = match listed {
            Ok(next) => next,
            Err(error) => {
                descending.failed(&key, error);
                continue;
            }
        };
        for error in page.take_failures() {
            descending.failed(&key, error);
        }
        if let Some(from) = next {
            waiting.push(Frame { id, key: key.clone(), from, kept: kept.clone() });
        }
        for entry in page.iter() {
            let (id, key) = (entry.id, joined(&key, entry.name));
            let node = match entry.node.map_or_else(|| tree.node(id), Ok) {
                Ok(node) => node,
                Err(error) => {
                    descending.failed(&key, error);
                    continue;
                }
            };
            let path = if node.kind == Kind::Directory { key.clone() } else { Vec::new() };
            if let Some(kept) = descending.met(Met { id, node, key }, &kept)? {
                waiting.push(Frame { id, key: path, from: Cursor::Start, kept: kept.into() });
            }
        }
    }
    ControlFlow::Continue(())
}

/// The path of a name in a directory.
pub(crate) fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        [] => name.to_vec(),
        directory => [directory, b"/", name].concat(),
    }
}
