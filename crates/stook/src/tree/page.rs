//! [`Page`]: a part of a listing, and [`Cursor`]: where the next one begins.

use std::sync::Arc;

use super::node::{InodeState, Kind, Node, NodeId};
use crate::error::Error;

/// Entries of a page, at most.
pub const PAGE_LEN: usize = 1024;

/// Where a listing continues. Only the tree that gave it knows what it means.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Cursor {
    /// At the first entry.
    #[default]
    Start,
    /// At a position that the tree has a number for.
    At(u64),
    /// At a position that the tree has bytes for: the continuation token of an object store.
    Token(Arc<[u8]>),
}

/// An entry of a directory, borrowed from a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its name in the directory: any bytes but NUL and `/`.
    pub name: &'a [u8],
    /// The node that is called so.
    pub id: NodeId,
    /// What it is, where the listing says; [`Tree::node`](super::Tree::node) always does.
    pub kind: Option<Kind>,
    /// What [`Tree::node`](super::Tree::node) would say, where the listing says all of it.
    pub node: Option<Node>,
    /// What [`Tree::inode_state`](super::Tree::inode_state) would say, where the listing has it.
    pub inode: Option<InodeState>,
}

#[derive(Debug, Clone, Copy)]
struct Listed {
    /// Where its name ends; it begins where the one before ends.
    name_end: usize,
    id: NodeId,
    kind: Option<Kind>,
    node: Option<Node>,
    inode: Option<InodeState>,
}

/// A part of the listing of a directory. Its memory is used again from page to page.
#[derive(Debug, Default)]
pub struct Page {
    names: Vec<u8>,
    entries: Vec<Listed>,
    failures: Vec<Error>,
}

impl Page {
    /// An empty page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets all entries and failures.
    pub fn clear(&mut self) {
        self.names.clear();
        self.entries.clear();
        self.failures.clear();
    }

    /// Adds an entry of which all is known.
    pub fn push(&mut self, name: &[u8], id: NodeId, node: Node) {
        self.push_listed(name, (id, Some(node.kind), Some(node), None));
    }

    /// Adds an entry of which all is known, also which state of which inode it is.
    pub fn push_inode(&mut self, name: &[u8], id: NodeId, node: Node, inode: InodeState) {
        self.push_listed(name, (id, Some(node.kind), Some(node), Some(inode)));
    }

    /// Adds an entry of which no more is known than its kind, or not even that.
    pub fn push_name(&mut self, name: &[u8], id: NodeId, kind: Option<Kind>) {
        self.push_listed(name, (id, kind, None, None));
    }

    fn push_listed(
        &mut self,
        name: &[u8],
        (id, kind, node, inode): (NodeId, Option<Kind>, Option<Node>, Option<InodeState>),
    ) {
        self.names.extend_from_slice(name);
        self.entries.push(Listed { name_end: self.names.len(), id, kind, node, inode });
    }

    /// Adds an entry that could not be read: the error names its path.
    pub fn push_failure(&mut self, error: Error) {
        self.failures.push(error);
    }

    /// Takes the entries off for which there is an error, which stands among the failures then.
    pub(crate) fn fail_where(&mut self, mut error_of: impl FnMut(NodeId) -> Option<Error>) {
        let (names, listed) = (std::mem::take(&mut self.names), std::mem::take(&mut self.entries));
        let mut start = 0;
        for Listed { name_end, id, kind, node, inode } in listed {
            match error_of(id) {
                Some(error) => self.push_failure(error),
                None => {
                    let name = names.get(start..name_end).unwrap_or_default();
                    self.push_listed(name, (id, kind, node, inode));
                }
            }
            start = name_end;
        }
    }

    /// The entries, in the order of the listing.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut start = 0;
        self.entries.iter().map(move |listed| {
            let name = self.names.get(start..listed.name_end).unwrap_or_default();
            start = listed.name_end;
            let Listed { id, kind, node, inode, .. } = *listed;
            Entry { name, id, kind, node, inode }
        })
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether it has [`PAGE_LEN`] entries and failures, and the next belongs on another.
    pub fn is_full(&self) -> bool {
        self.entries.len() + self.failures.len() >= PAGE_LEN
    }

    /// Entries of the directory that could not be read; each error names its path.
    pub fn failures(&self) -> &[Error] {
        &self.failures
    }

    /// Gives up the failures.
    pub fn take_failures(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_gives_back_what_was_put_on_it_and_is_empty_when_cleared() {
        let mut page = Page::new();
        page.push(b"a", NodeId::new(1), Node::file(7));
        page.push_name(b"", NodeId::new(2), None);
        page.push_name(b"bc\xff", NodeId::new(3), Some(Kind::Fifo));
        page.push_failure(Error::io("stat", "d/x", std::io::ErrorKind::PermissionDenied.into()));
        let names: Vec<&[u8]> = page.iter().map(|entry| entry.name).collect();
        assert_eq!(names, [&b"a"[..], b"", b"bc\xff"]);
        let first = page.iter().next().unwrap();
        assert_eq!((first.kind, first.node), (Some(Kind::File), Some(Node::file(7))));
        assert_eq!((page.len(), page.failures().len(), page.is_full()), (3, 1, false));
        let failed = |id: NodeId| Error::io("read", id.get().to_string(), std::io::ErrorKind::Other.into());
        page.fail_where(|id| (id == NodeId::new(1)).then(|| failed(id)));
        let names: Vec<&[u8]> = page.iter().map(|entry| entry.name).collect();
        assert_eq!((names, page.failures().len()), (vec![&b""[..], b"bc\xff"], 2));
        page.clear();
        assert!(page.is_empty() && page.failures().is_empty() && page.iter().next().is_none());
    }
}
