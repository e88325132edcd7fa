//! What a pack already holds of a tree, so that a second run adds only what is new or changed.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use super::records::recorded;
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::FileKind;
use crate::pack::state::open::{KeyEntry, Pack};
use crate::tree::{Node, Xattrs};
use crate::walk::Status;

/// Heads that are read as one batch.
const BATCH_LEN: usize = 4096;

/// What a pack holds of a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// Nothing, or another one.
    Other,
    /// One that looks the same: whether the bytes are has to be seen.
    Alike,
    /// The same inode as it was: nothing in it can have changed without its times telling.
    Same,
}

/// What is known of a record, without its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    kind: FileKind,
    len: u64,
    mode: u32,
    mtime_ns: i64,
    owner: Option<(u32, u32)>,
}

/// What is kept of a record.
#[derive(Debug)]
struct ExistingRecord {
    /// From 0 on.
    number: usize,
    known: Known,
    /// Change time and number of the inode that it was packed from, if it says.
    inode: Option<(i64, u64)>,
    /// A hash of its extended attributes, 0 where it has none.
    xattrs: u64,
}

/// The longest target of a link that is looked at, in bytes; longer ones count as changed.
const TARGET_LEN_MAX: u64 = 65_535;

/// The file records of a pack by key.
#[derive(Debug, Default)]
pub(super) struct Existing {
    known: HashMap<Box<[u8]>, ExistingRecord>,
    /// What links lead to.
    targets: HashMap<Box<[u8]>, Box<[u8]>>,
    /// What hard links lead to.
    firsts: HashSet<Box<[u8]>>,
    /// Keys of records that do not say that they are of files, as of those that were put by hand.
    others: HashSet<Box<[u8]>>,
    /// Numbers of the inodes that files were packed from, as far as records say.
    inodes: HashSet<u64>,
    /// Makes hashes that cannot be foreseen.
    hasher: RandomState,
}

impl Existing {
    /// Reads the heads of all records, and the targets of links. What is damaged is noted and
    /// counts as not there, so that it is packed again.
    pub(super) fn read(pack: &Pack) -> Result<Self> {
        let mut all = Self::default();
        let mut batch = Vec::with_capacity(BATCH_LEN);
        let mut keys = pack.keys(&[])?;
        loop {
            let mut is_last = true;
            for entry in keys.by_ref().take(BATCH_LEN) {
                is_last = false;
                batch.extend(match entry {
                    // Where the index itself cannot be read, what is there is unknown.
                    Err(Error::Damaged(damage)) if damage.key.is_none() => {
                        return Err(Error::Damaged(damage));
                    }
                    entry => pack.snapshot.log.unless_damaged(entry)?,
                });
            }
            if is_last {
                return Ok(all);
            }
            // In the order of the medium, so that neighbours come with one read.
            batch.sort_by_key(|entry| entry.position());
            all.read_batch(pack, &batch)?;
            batch.clear();
        }
    }

    fn read_batch(&mut self, pack: &Pack, batch: &[KeyEntry]) -> Result<()> {
        let mut links = Vec::new();
        for head in pack.heads(batch)? {
            let Some(head) = pack.snapshot.log.unless_damaged(head)? else { continue };
            let known = Known::of(&head.attributes, head.body_len);
            let Some(key) = head.key.as_bytes() else { continue };
            let Some(known) = known else {
                self.others.insert(key.into());
                continue;
            };
            let number = self.known.len();
            let inode = head.attributes.inode();
            let xattrs = self.hash_of(head.attributes.xattr_bytes());
            self.inodes.extend(inode.map(|(_, inode)| inode));
            self.known.insert(key.into(), ExistingRecord { number, known, inode, xattrs });
            if known.is_link() && known.len <= TARGET_LEN_MAX {
                links.push(head.key);
            }
        }
        for (key, record) in links.iter().zip(pack.get_many(&links)?) {
            if let (Some(key), Some(Some(record))) =
                (key.as_bytes(), pack.snapshot.log.unless_damaged(record)?)
            {
                if record.head.attributes.file_kind() == Some(FileKind::HardLink) {
                    self.firsts.insert(record.body.as_ref().into());
                }
                self.targets.insert(key.into(), record.body.as_ref().into());
            }
        }
        Ok(())
    }

    fn hash_of(&self, xattrs: &[u8]) -> u64 {
        if xattrs.is_empty() { 0 } else { self.hasher.hash_one(xattrs).max(1) }
    }

    /// Whether what is there has these extended attributes.
    pub(super) fn has_xattrs(&self, key: &[u8], xattrs: &Xattrs) -> bool {
        let wanted = if xattrs.is_empty() { 0 } else { self.hash_of(&xattrs.encode()) };
        self.known.get(key).is_some_and(|entry| entry.xattrs == wanted)
    }

    fn known(&self, key: &[u8]) -> Option<&Known> {
        self.known.get(key).map(|entry| &entry.known)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// The number of a record: each has another, below [`len`](Self::len).
    pub(super) fn number(&self, key: &[u8]) -> Option<usize> {
        self.known.get(key).map(|entry| entry.number)
    }

    /// What kind of file a record is of.
    pub(super) fn kind(&self, key: &[u8]) -> Option<FileKind> {
        self.known(key).map(|known| known.kind)
    }

    /// Whether a record is of this kind and length.
    pub(super) fn is_of(&self, key: &[u8], kind: FileKind, len: u64) -> bool {
        self.known(key).is_some_and(|known| known.kind == kind && known.len == len)
    }

    /// All of them in no order: number, key and kind.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &[u8], FileKind)> {
        self.known.iter().map(|(key, entry)| (entry.number, &**key, entry.known.kind))
    }

    /// All hard links in no order: key, and the key that each leads to.
    pub(super) fn hard_links(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let all = self.targets.iter();
        let links = all.filter(|(key, _)| self.known(key).is_some_and(Known::is_hard_link));
        links.map(|(key, target)| (&**key, &**target))
    }

    /// Whether a hard link leads to this key, so that its record holds the content of another name.
    pub(super) fn is_first(&self, key: &[u8]) -> bool {
        self.firsts.contains(key)
    }

    /// What is there of a regular file with this status of its inode.
    pub(super) fn holds_file(&self, key: &[u8], status: &Status, rule: Rule) -> Holds {
        let wanted = Known::file(&status.node, rule.with_owner);
        match self.known.get(key).filter(|entry| entry.known == wanted) {
            None => Holds::Other,
            Some(entry) if !rule.checksum && entry.inode.is_some() && entry.inode == status.inode_state() => {
                Holds::Same
            }
            Some(_) => Holds::Alike,
        }
    }

    /// Whether this directory is there already.
    pub(super) fn has_directory(&self, key: &[u8], node: &Node, with_owner: bool) -> bool {
        let wanted = Known::entry(FileKind::Directory, 0, node, with_owner);
        self.known(key) == Some(&wanted)
    }

    /// Whether a name of a file is there already, as a file or as a link to another name of it.
    pub(super) fn has_name(&self, key: &[u8], node: &Node, with_owner: bool) -> bool {
        self.known(key).is_some_and(|known| known.is_name_of(node, with_owner))
    }

    /// Whether this is a name that the pack does not have of a file that it seems to have.
    pub(super) fn is_new_name(&self, key: &[u8], status: &Status) -> bool {
        let inode = status.inode_state().map(|(_, inode)| inode);
        status.node.links > 1 && !self.has(key) && inode.is_some_and(|inode| self.inodes.contains(&inode))
    }

    /// Whether a link with this target is there already.
    pub(super) fn has_link(
        &self,
        key: &[u8],
        kind: FileKind,
        node: &Node,
        target: &[u8],
        with_owner: bool,
    ) -> bool {
        let wanted = Known::entry(kind, target.len() as u64, node, with_owner);
        self.known(key) == Some(&wanted) && self.targets.get(key).is_some_and(|have| **have == *target)
    }

    /// Whether anything has this key.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.known.contains_key(key) || self.others.contains(key)
    }
}

/// What is looked at to tell whether something is in the pack as it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) with_owner: bool,
    /// The bytes of every file.
    pub(super) checksum: bool,
}

impl Known {
    /// What a record says of itself; `None` if it is no record of a file.
    pub(super) fn of(attributes: &crate::pack::Attributes, len: Option<u64>) -> Option<Self> {
        Some(Self {
            kind: attributes.file_kind()?,
            len: len?,
            mode: attributes.mode()?,
            mtime_ns: attributes.mtime_ns()?,
            owner: attributes.owner(),
        })
    }

    fn is_link(&self) -> bool {
        matches!(self.kind, FileKind::Symlink | FileKind::HardLink)
    }

    pub(super) fn is_hard_link(&self) -> bool {
        self.kind == FileKind::HardLink
    }

    /// Whether this is a name of this file: the file, or a link to another name of it.
    pub(super) fn is_name_of(&self, node: &Node, with_owner: bool) -> bool {
        let file = Self::file(node, with_owner);
        *self == file || Self { len: file.len, kind: file.kind, ..*self } == file && self.is_hard_link()
    }

    /// A regular file.
    pub(super) fn file(node: &Node, with_owner: bool) -> Self {
        Self::entry(FileKind::File, node.len, node, with_owner)
    }

    /// What a record says of a node, with a body of this length.
    pub(super) fn entry(kind: FileKind, len: u64, node: &Node, with_owner: bool) -> Self {
        let node = recorded(node, with_owner);
        Self {
            kind,
            len,
            // Whatever is on disk has both.
            mode: node.mode.unwrap_or_default(),
            mtime_ns: node.mtime_ns.unwrap_or_default(),
            owner: node.owner,
        }
    }
}
