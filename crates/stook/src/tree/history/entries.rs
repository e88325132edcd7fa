//! What a list has, in its order, and the hashes of directories that follow from it.

use std::cmp::Ordering;

use super::{Listed, is_ignored};
use crate::format::mhl::{FolderDigests, FolderHash};
use crate::hash::HashKind;

/// What a list will have, in its order.
pub(super) struct Entries {
    pub(super) root: Option<FolderDigests>,
    pub(super) all: Vec<Entry>,
}

pub(super) enum Entry {
    File(Listed),
    Folder(Vec<u8>, FolderDigests),
}

/// Files and, if these are all that there is, directories, each after what is in it.
pub(super) fn entries_of(
    mut records: Vec<Listed>,
    directories: Option<&[Vec<u8>]>,
    kinds: &[HashKind],
) -> Entries {
    records.sort_by(|one, other| in_tree(&one.key, &other.key));
    let Some(directories) = directories else {
        return Entries { root: None, all: records.into_iter().map(Entry::File).collect() };
    };
    let mut directories: Vec<&[u8]> =
        directories.iter().map(Vec::as_slice).filter(|key| !key.is_empty() && !is_ignored(key)).collect();
    directories.sort_by(|one, other| in_tree(one, other));
    let mut tree = Tree { open: vec![(Vec::new(), FolderHash::new(kinds))], all: Vec::new(), kinds };
    let mut directories = directories.into_iter().peekable();
    for record in records {
        while let Some(key) = directories.next_if(|key| in_tree(key, &record.key).is_lt()) {
            tree.enter(key);
        }
        let (folder, name) = split(&record.key);
        tree.enter(folder);
        if let Some((_, hash)) = tree.open.last_mut() {
            hash.file(name, &record.digests);
        }
        tree.all.push(Entry::File(record));
    }
    directories.for_each(|key| tree.enter(key));
    tree.finish()
}

/// Directories on the way to where entries are added, and those that are done.
struct Tree<'a> {
    open: Vec<(Vec<u8>, FolderHash)>,
    all: Vec<Entry>,
    kinds: &'a [HashKind],
}

impl Tree<'_> {
    /// Goes on in this directory, which may be new: all that it does not lie in are done.
    fn enter(&mut self, key: &[u8]) {
        while self.open.last().is_some_and(|(open, _)| !is_within(open, key)) {
            self.close();
        }
        while let Some((open, _)) = self.open.last().filter(|(open, _)| open.len() < key.len()) {
            let from = if open.is_empty() { 0 } else { open.len() + 1 };
            let rest = key.get(from..).unwrap_or_default();
            let end = rest.iter().position(|byte| *byte == b'/').map_or(key.len(), |at| from + at);
            self.open.push((key.get(..end).unwrap_or(key).to_vec(), FolderHash::new(self.kinds)));
        }
    }

    fn close(&mut self) -> Option<FolderDigests> {
        let (key, hash) = self.open.pop()?;
        let digests = hash.finish();
        if let Some((_, above)) = self.open.last_mut() {
            above.folder(split(&key).1, &digests);
            self.all.push(Entry::Folder(key, digests));
            return None;
        }
        Some(digests)
    }

    fn finish(mut self) -> Entries {
        let mut root = None;
        while !self.open.is_empty() {
            root = self.close();
        }
        Entries { root, all: self.all }
    }
}

/// Whether a key is a directory, or in it.
fn is_within(directory: &[u8], key: &[u8]) -> bool {
    let rest = key.strip_prefix(directory);
    directory.is_empty() || rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
}

/// The directory and the name of a key.
fn split(key: &[u8]) -> (&[u8], &[u8]) {
    match key.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (key.get(..at).unwrap_or_default(), key.get(at + 1..).unwrap_or_default()),
        None => (b"", key),
    }
}

/// The order in which all that is in a directory comes at once.
fn in_tree(one: &[u8], other: &[u8]) -> Ordering {
    let bytes =
        |key: &[u8]| -> Vec<u8> { key.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect() };
    bytes(one).cmp(&bytes(other))
}
