//! [`Known`]: the nodes of a union that were met, and their ids.

use std::collections::HashMap;
use std::sync::Arc;

use crate::tree::node::{Kind, NodeId};

/// A node of one of the trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Part {
    pub(super) layer: u32,
    pub(super) id: NodeId,
}

/// A directory of the union: those that it is made of, and what is deleted below it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Merged {
    /// The one that counts first. Only the root of a union of nothing has none.
    pub(super) parts: Box<[Part]>,
    /// The number of its path among the deletions.
    pub(super) deleted: Option<u32>,
}

/// What a node of the union is.
#[derive(Debug, Clone)]
pub(super) enum What {
    Directory(Arc<Merged>),
    Other(Kind, Part),
}

impl What {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Directory(_) => Kind::Directory,
            Self::Other(kind, _) => *kind,
        }
    }

    /// The node of a tree that says what it is.
    pub(super) fn part(&self) -> Option<Part> {
        match self {
            Self::Directory(merged) => merged.parts.first().copied(),
            Self::Other(_, part) => Some(*part),
        }
    }
}

/// A node, and one of its names.
#[derive(Debug)]
struct Met {
    what: What,
    /// The number of the directory it is in; always lower than its own, but for the root.
    parent: u64,
    name: Box<[u8]>,
}

/// What was met; by id.
#[derive(Debug)]
pub(super) struct Known {
    nodes: Vec<Met>,
    directories: HashMap<Arc<Merged>, u64>,
    /// What is no directory.
    others: HashMap<Part, u64>,
}

impl Known {
    pub(super) fn new(root: Merged) -> Self {
        let root = Arc::new(root);
        let met = Met { what: What::Directory(Arc::clone(&root)), parent: 0, name: Box::default() };
        Self { nodes: vec![met], directories: HashMap::from([(root, 0)]), others: HashMap::new() }
    }

    fn met(&self, id: NodeId) -> Option<&Met> {
        usize::try_from(id.get()).ok().and_then(|number| self.nodes.get(number))
    }

    pub(super) fn what(&self, id: NodeId) -> Option<What> {
        self.met(id).map(|met| met.what.clone())
    }

    /// What kind a node of a tree is, where it was met and is no directory.
    pub(super) fn kind_of(&self, part: Part) -> Option<Kind> {
        let number = *self.others.get(&part)?;
        self.met(NodeId::new(number)).map(|met| met.what.kind())
    }

    /// The id of what was met under a name just now.
    pub(super) fn meet(&mut self, parent: NodeId, name: &[u8], what: What) -> NodeId {
        let next = self.nodes.len() as u64;
        let number = match &what {
            What::Directory(merged) => *self.directories.entry(Arc::clone(merged)).or_insert(next),
            What::Other(_, part) => *self.others.entry(*part).or_insert(next),
        };
        match self.nodes.get_mut(number as usize) {
            // Of several names, the one it was met under last is there; but no directory gets into
            // itself, whatever was renamed meanwhile.
            Some(met) if parent.get() < number => {
                if met.parent != parent.get() || *met.name != *name {
                    met.parent = parent.get();
                    met.name = name.into();
                }
            }
            Some(_) => {}
            None => self.nodes.push(Met { what, parent: parent.get(), name: name.into() }),
        }
        NodeId::new(number)
    }

    /// The path of a node below the root.
    pub(super) fn key_of(&self, id: NodeId) -> Option<Vec<u8>> {
        let mut names: Vec<&[u8]> = Vec::new();
        let (mut number, mut met) = (id.get(), self.met(id)?);
        while number != 0 {
            names.push(&met.name);
            number = met.parent;
            met = self.met(NodeId::new(number))?;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(layer: u32, number: u64) -> What {
        let parts = [Part { layer, id: NodeId::new(number) }].into();
        What::Directory(Arc::new(Merged { parts, deleted: None }))
    }

    #[test]
    fn the_same_parts_have_the_same_id_and_the_name_they_were_met_under_last() {
        let mut known = Known::new(Merged { parts: Box::default(), deleted: None });
        let root = NodeId::new(0);
        let a = known.meet(root, b"a", directory(0, 1));
        let b = known.meet(a, b"b", directory(1, 1));
        let file = Part { layer: 0, id: NodeId::new(1) };
        let other = known.meet(b, b"file", What::Other(Kind::File, file));
        assert_eq!(known.meet(root, b"link", What::Other(Kind::File, file)), other);
        assert_eq!(known.key_of(other).unwrap(), b"link");
        assert_eq!(known.kind_of(file), Some(Kind::File));
        assert_eq!(known.kind_of(Part { layer: 1, ..file }), None);
        // `a/b` became `b/a`: no path goes round.
        assert_eq!(known.meet(b, b"a", directory(0, 1)), a);
        assert_eq!(known.meet(root, b"b", directory(1, 1)), b);
        assert_eq!((known.key_of(a).unwrap(), known.key_of(b).unwrap()), (b"a".to_vec(), b"b".to_vec()));
        assert_eq!(known.key_of(NodeId::new(9)), None);
    }
}
