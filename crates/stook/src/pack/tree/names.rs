//! Files with several names: which of them is packed with its bytes, and which as a link to that
//! one.
//!
//! In a fresh pack the name that is met first is the file. Later runs keep to what the pack says,
//! so that nothing is packed again only because names were met in another order.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use super::existing::{Existing, Holds, Rule};
use crate::walk::{Candidate, Decision, Kind, Status};

/// Device and inode.
type Inode = (u64, u64);

fn inode(status: &Status) -> Inode {
    (status.device, status.inode)
}

/// Whether two names that were met at different times can be of one file: the system gives the
/// inode of one that is gone to a new one. A change of anything but its bytes keeps it the same.
fn is_one_file(one: &Status, other: &Status) -> bool {
    let of = |status: &Status| (status.node.len, status.node.mtime_ns);
    inode(one) == inode(other) && of(one) == of(other)
}

/// Which inodes some thread of the walk reads under one of their names.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<HashSet<Inode>>);

impl Claims {
    /// Whether a file is to be read under this name.
    pub(super) fn wants(&self, candidate: Candidate<'_>, existing: &Existing, rule: Rule) -> bool {
        let Candidate { key, status } = candidate;
        match existing.holds_file(key, status, rule) {
            Holds::Same => return false,
            Holds::Alike => {}
            // What holds the content of other names is replaced last, when those have what they
            // need.
            Holds::Other if existing.is_first(key) => return false,
            Holds::Other
                if status.node.links > 1 && existing.has_name(key, &status.node, rule.with_owner) =>
            {
                return false;
            }
            // It becomes a link to the name that is there, however they sort.
            Holds::Other if existing.is_new_name(key, status) => return false,
            Holds::Other => {}
        }
        if status.node.links < 2 {
            return true;
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(inode(status))
    }
}

/// A hard link to a file.
#[derive(Debug)]
pub(super) struct HardLink {
    pub(super) key: Vec<u8>,
    pub(super) status: Status,
}

/// The names of files that have several.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Under which key an inode was packed in this run, and what it was then.
    packed: HashMap<Inode, (Vec<u8>, Status)>,
    /// Names that were met and not read, in an order that does not depend on the walk.
    waiting: BTreeMap<Inode, BTreeMap<Vec<u8>, Status>>,
}

/// The names of one file: the one that is a file in the pack, and the links to it.
#[derive(Debug)]
pub(super) struct Sorted {
    /// The name that is a file in the pack.
    pub(super) first: Vec<u8>,
    /// Whether it was so before this run.
    pub(super) unchanged: bool,
    /// The others.
    pub(super) further: Vec<HardLink>,
}

impl Names {
    /// Notes that the pack has the bytes of a file under this key: it was packed, or found to be
    /// the same.
    pub(super) fn packed(&mut self, key: &[u8], status: &Status) {
        if status.node.links > 1 {
            let known = self.packed.get(&inode(status));
            if known.is_none_or(|(_, known)| !is_one_file(known, status)) {
                self.packed.insert(inode(status), (key.to_vec(), *status));
            }
        } else if let Entry::Occupied(mut names) = self.waiting.entry(inode(status)) {
            // It waited for what its record held for other names.
            names.get_mut().remove(key);
            if names.get().is_empty() {
                names.remove();
            }
        }
    }

    /// Notes a name under which the file was not read.
    pub(super) fn wait(&mut self, key: Vec<u8>, status: Status) {
        self.waiting.entry(inode(&status)).or_default().insert(key, status);
    }

    /// Takes out the files of which the pack has the bytes.
    pub(super) fn settle(&mut self, existing: &Existing, rule: Rule) -> Vec<Sorted> {
        let mut sorted = Vec::new();
        let packed = &self.packed;
        self.waiting.retain(|inode, names| {
            let is_there =
                |key: &[u8], status: &Status| existing.holds_file(key, status, rule) == Holds::Same;
            let before = || names.iter().find(|(key, status)| is_there(key, status));
            let there = |(key, status): &(Vec<u8>, Status)| {
                // Those of a file that had the inode before, or has it later, are read themselves.
                names.values().any(|name| is_one_file(name, status)).then(|| (key.clone(), *status))
            };
            let packed = packed.get(inode).and_then(there);
            let unchanged = packed.is_none();
            let first = packed.or_else(|| before().map(|(key, status)| (key.clone(), *status)));
            let Some((first, of_first)) = first else { return true };
            let all = std::mem::take(names).into_iter().filter(|(key, _)| *key != first);
            let (its, others) = all.partition(|(_, status)| is_one_file(status, &of_first));
            let its: BTreeMap<Vec<u8>, Status> = its;
            *names = others;
            let is_left = !names.is_empty();
            let names = its.into_iter().map(|(key, status)| HardLink { key, status });
            // What other names still lead to comes after them.
            let (last, mut further): (Vec<_>, Vec<_>) = names.partition(|name| existing.is_first(&name.key));
            further.extend(last);
            sorted.push(Sorted { first, unchanged, further });
            is_left
        });
        sorted
    }

    /// One name for each file of which the pack does not have the bytes: `first` those whose record
    /// holds nothing for other names, then the rest.
    pub(super) fn unread(&self, existing: &Existing, first: bool) -> Unread {
        let names = self.waiting.values().filter_map(|names| {
            let free = names.keys().find(|key| !existing.is_first(key));
            free.or_else(|| names.keys().next()).filter(|key| existing.is_first(key) != first)
        });
        Unread(names.cloned().collect())
    }

    /// Gives up all that is left.
    pub(super) fn into_unsettled(self) -> impl Iterator<Item = HardLink> {
        let names = self.waiting.into_values().flatten();
        names.map(|(key, status)| HardLink { key, status })
    }
}

/// Names under which files are to be read after all.
#[derive(Debug)]
pub(super) struct Unread(BTreeSet<Vec<u8>>);

impl Unread {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.0.contains(key)
    }

    /// How a walk gets to them without looking at much else.
    pub(super) fn select(&self, key: &[u8], kind: Kind) -> Decision {
        match kind {
            Kind::Directory => {
                let below = [key, b"/"].concat();
                let next = self.0.range(below.clone()..).next();
                if next.is_some_and(|key| key.starts_with(&below)) { Decision::Skip } else { Decision::Prune }
            }
            _ if self.contains(key) => Decision::Take,
            _ => Decision::Skip,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Node;

    /// That of a file of this length, and a time that goes with it.
    fn status(inode: u64, len: u64, links: u32) -> Status {
        let node = Node { links, mtime_ns: Some(len.cast_signed()), ..Node::file(len) };
        Status { node, device: 1, inode, ctime_ns: 1, stored_len: len }
    }

    fn keys(names: impl IntoIterator<Item = HardLink>) -> Vec<Vec<u8>> {
        names.into_iter().map(|name| name.key).collect()
    }

    #[test]
    fn what_gets_the_inode_of_a_file_that_is_gone_is_no_name_of_it() {
        let (existing, rule) = (Existing::default(), Rule { with_owner: false, checksum: false });
        let mut names = Names::default();
        names.packed(b"a", &status(7, 1, 2));
        for (key, len) in [(&b"b"[..], 1), (b"y", 5), (b"z", 5)] {
            names.wait(key.to_vec(), status(7, len, 2));
        }
        let sorted = names.settle(&existing, rule).pop().unwrap();
        assert_eq!((sorted.first.as_slice(), keys(sorted.further)), (&b"a"[..], vec![b"b".to_vec()]));
        // Of the others one is read.
        let unread = names.unread(&existing, true);
        assert!(unread.contains(b"y") && !unread.contains(b"z") && !unread.contains(b"b"));
        names.packed(b"y", &status(7, 5, 2));
        let sorted = names.settle(&existing, rule).pop().unwrap();
        assert_eq!((sorted.first.as_slice(), keys(sorted.further)), (&b"y"[..], vec![b"z".to_vec()]));
        assert_eq!(names.into_unsettled().count(), 0);
    }

    #[test]
    fn a_file_with_one_name_is_no_reason_to_forget_others_that_had_its_inode() {
        let mut names = Names::default();
        names.wait(b"saved".to_vec(), status(7, 1, 1));
        names.wait(b"new".to_vec(), status(7, 5, 1));
        names.packed(b"new", &status(7, 5, 1));
        assert_eq!(keys(names.into_unsettled()), [b"saved"]);
    }
}
