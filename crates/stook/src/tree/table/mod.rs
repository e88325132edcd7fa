//! [`NodeTable`]: the names and nodes of a tree that is known as a whole, in a few arrays.
//!
//! Nothing here reads or writes. The entries of a directory are neighbours in one array, sorted by
//! name, so that listing walks a slice and a look-up is a binary search, without a map for each
//! directory. A node takes 48 bytes with its name's place, and each of its hard links 16; the bytes
//! of the names come on top.

mod builder;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

pub use self::builder::NodeTableBuilder;
use super::any::{foreign_cursor, not_a_directory, unknown};
use super::node::{Kind, Node, NodeId};
use super::page::{Cursor, Page};
use crate::error::Result;

/// In place of a number: there is none.
const NONE: u32 = u32::MAX;

/// A node.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// 0 where it is not known; `bits` says so.
    mtime_ns: i64,
    /// Of a file or link: its length. Of a directory: its [`Children`]. Of a device: which.
    value: u64,
    /// Mode, kind, and what of the rest is known.
    bits: u32,
    /// Which of the owners, or [`NONE`].
    owner: u32,
    links: u32,
    /// The first of its names among the entries; [`NONE`] for the root, and for what has lost its
    /// names to others. While the table is built: its place.
    entry: u32,
}

/// A name of a node in a directory.
#[derive(Debug, Clone, Copy)]
struct Named {
    name: NamePlace,
    node: u32,
    /// The directory it is in.
    parent: u32,
}

const _: () = assert!(size_of::<Slot>() + size_of::<Named>() <= 48);

/// Where a name lies among the bytes of all names: 48 bits of offset, 16 of length.
#[derive(Debug, Clone, Copy)]
struct NamePlace(u64);

impl NamePlace {
    const LEN_BITS: u32 = 16;

    /// Of a name that was checked, so that its length fits.
    fn new(start: usize, len: usize) -> Self {
        Self(((start as u64) << Self::LEN_BITS) | len as u64)
    }

    fn of(self, names: &[u8]) -> &[u8] {
        let (start, len) = (self.0 >> Self::LEN_BITS, self.0 & ((1 << Self::LEN_BITS) - 1));
        names.get(start as usize..(start + len) as usize).unwrap_or_default()
    }
}

/// The entries of a directory among all entries.
#[derive(Debug, Clone, Copy)]
struct Children {
    start: u32,
    len: u32,
}

impl Children {
    fn to_value(self) -> u64 {
        (u64::from(self.start) << 32) | u64::from(self.len)
    }

    fn from_value(value: u64) -> Self {
        Self { start: (value >> 32) as u32, len: value as u32 }
    }
}

const KIND_SHIFT: u32 = 12;
const HAS_MODE: u32 = 1 << 16;
const HAS_MTIME: u32 = 1 << 17;

/// The kinds, by their number in [`Slot::bits`].
const KINDS: [Kind; 8] = [
    Kind::Directory,
    Kind::File,
    Kind::Symlink,
    Kind::Fifo,
    Kind::Socket,
    Kind::BlockDevice,
    Kind::CharDevice,
    Kind::Other,
];

impl Slot {
    fn new(node: &Node, owner: u32) -> Self {
        let kind = KINDS.iter().zip(0_u32..).find(|(kind, _)| **kind == node.kind);
        let mut bits = kind.map_or(0, |(_, number)| number) << KIND_SHIFT;
        if let Some(mode) = node.mode {
            bits |= HAS_MODE | (mode & 0o7777);
        }
        if node.mtime_ns.is_some() {
            bits |= HAS_MTIME;
        }
        let value = match node.kind {
            Kind::File | Kind::Symlink => node.len,
            Kind::BlockDevice | Kind::CharDevice => node.device,
            _ => 0,
        };
        let mtime_ns = node.mtime_ns.unwrap_or_default();
        Self { mtime_ns, value, bits, owner, links: node.links.max(1), entry: NONE }
    }

    fn kind(&self) -> Kind {
        let number = (self.bits >> KIND_SHIFT) & 0xf;
        KINDS.get(number as usize).copied().unwrap_or(Kind::Other)
    }

    fn is_directory(&self) -> bool {
        self.kind() == Kind::Directory
    }

    fn node(&self, owners: &[(u32, u32)]) -> Node {
        let kind = self.kind();
        let (len, device) = match kind {
            Kind::File | Kind::Symlink => (self.value, 0),
            Kind::BlockDevice | Kind::CharDevice => (0, self.value),
            _ => (0, 0),
        };
        Node {
            kind,
            mode: (self.bits & HAS_MODE != 0).then_some(self.bits & 0o7777),
            mtime_ns: (self.bits & HAS_MTIME != 0).then_some(self.mtime_ns),
            owner: owners.get(self.owner as usize).copied(),
            len,
            links: if kind == Kind::Directory { 1 } else { self.links },
            device,
        }
    }
}

/// Names and nodes of a tree. [`NodeTableBuilder`] makes one; it never changes.
///
/// The root is node 0, and every node that was added has the next number, in the order of adding.
/// So what a tree knows of its nodes beside this stands in an array of its own, by [`NodeId::get`].
/// The directories that had to be made because they were not added come after all that were.
///
/// ```
/// use stook::tree::{Cursor, Kind, Node, NodeTableBuilder, Page};
///
/// let mut builder = NodeTableBuilder::new("photos");
/// let cat = builder.add(b"2024/cat.jpg", Node::file(7))?;
/// builder.link(b"best/cat.jpg", cat)?;
/// let (table, refused) = builder.finish();
/// assert!(refused.is_empty());
///
/// let year = table.lookup(table.root(), b"2024")?.ok_or("a missing parent is made")?;
/// assert_eq!(table.node(year)?.kind, Kind::Directory);
/// assert_eq!(table.lookup(year, b"cat.jpg")?, Some(cat));
/// assert_eq!(table.node(cat)?.links, 2);
///
/// let mut page = Page::new();
/// assert_eq!(table.list(table.root(), &Cursor::Start, &mut page)?, None);
/// let names: Vec<&[u8]> = page.iter().map(|entry| entry.name).collect();
/// assert_eq!(names, [&b"2024"[..], b"best"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NodeTable {
    path: PathBuf,
    slots: Vec<Slot>,
    /// Sorted by the number of the directory, then by name.
    entries: Vec<Named>,
    names: Vec<u8>,
    owners: Vec<(u32, u32)>,
}

impl NodeTable {
    /// What the tree is called in messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory that all else is below.
    pub const fn root(&self) -> NodeId {
        NodeId::new(0)
    }

    /// How many names there are; the root has none.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is nothing but the root.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many nodes there are or were.
    pub(crate) fn nodes(&self) -> usize {
        self.slots.len()
    }

    /// Entries of the directory that has the most.
    pub(crate) fn most_entries(&self) -> u64 {
        let directories = self.slots.iter().filter(|slot| slot.is_directory());
        directories.map(|slot| u64::from(Children::from_value(slot.value).len)).max().unwrap_or(0)
    }

    /// Gives all names, each with its directory.
    pub(crate) fn names(&self, each: &mut dyn FnMut(NodeId, &[u8])) {
        for entry in &self.entries {
            each(NodeId::new(u64::from(entry.parent)), entry.name.of(&self.names));
        }
    }

    /// Says what a node is that was none of a known kind. `owners` are the numbers of those that
    /// were met by that.
    pub(crate) fn set(&mut self, id: NodeId, node: &Node, owners: &mut HashMap<(u32, u32), u32>) {
        let all = &mut self.owners;
        let owner = node.owner.map_or(NONE, |owner| {
            *owners.entry(owner).or_insert_with(|| {
                all.push(owner);
                (all.len() - 1) as u32
            })
        });
        let slot = usize::try_from(id.get()).ok().and_then(|number| self.slots.get_mut(number));
        if let Some(slot) = slot {
            *slot = Slot { entry: slot.entry, ..Slot::new(node, owner) };
        }
    }

    /// Makes the name of one node another name of a file, and the node is gone.
    pub(crate) fn share(&mut self, id: NodeId, file: NodeId) {
        let number = |id: NodeId| usize::try_from(id.get()).unwrap_or(usize::MAX);
        let Some(from) = self.slots.get_mut(number(id)).filter(|_| id != file) else { return };
        let at = std::mem::replace(&mut from.entry, NONE);
        let (Some(entry), Some(to)) = (self.entries.get_mut(at as usize), self.slots.get_mut(number(file)))
        else {
            return;
        };
        entry.node = file.get() as u32;
        to.entry = to.entry.min(at);
    }

    /// Counts the names of files with several, as [`NodeTableBuilder::finish`] does.
    pub(crate) fn count_names(&mut self) {
        let mut names = vec![0_u32; self.slots.len()];
        for entry in &self.entries {
            if let (Some(slot), Some(count)) =
                (self.slots.get_mut(entry.node as usize), names.get_mut(entry.node as usize))
            {
                *count += 1;
                slot.links = slot.links.max(*count);
            }
        }
    }

    /// As [`Tree::lookup`](super::Tree::lookup).
    ///
    /// # Errors
    /// As there.
    pub fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        let children = self.children("look into", parent)?;
        let found = children.binary_search_by(|entry| entry.name.of(&self.names).cmp(name));
        let entry = found.ok().and_then(|index| children.get(index));
        Ok(entry.map(|entry| NodeId::new(u64::from(entry.node))))
    }

    /// As [`Tree::list`](super::Tree::list); the order is that of the names, byte by byte.
    ///
    /// # Errors
    /// As there.
    pub fn list(&self, directory: NodeId, from: &Cursor, page: &mut Page) -> Result<Option<Cursor>> {
        page.clear();
        let children = self.children("list", directory)?;
        let start = match from {
            Cursor::Start => Some(0),
            Cursor::At(start) => usize::try_from(*start).ok().filter(|&start| start <= children.len()),
            Cursor::Token(_) => None,
        };
        let Some(rest) = start.and_then(|start| children.get(start..)) else {
            return Err(foreign_cursor(self.path_of(directory)));
        };
        for entry in rest {
            if page.is_full() {
                let next = start.unwrap_or_default() + page.len();
                return Ok(Some(Cursor::At(next as u64)));
            }
            let id = NodeId::new(u64::from(entry.node));
            page.push(entry.name.of(&self.names), id, self.node(id)?);
        }
        Ok(None)
    }

    /// Where a listing continues after a name, whether that is there or not.
    pub(crate) fn after(&self, directory: NodeId, name: &[u8]) -> Result<Cursor> {
        let children = self.children("list", directory)?;
        Ok(Cursor::At(children.partition_point(|entry| entry.name.of(&self.names) <= name) as u64))
    }

    /// What a node is.
    ///
    /// # Errors
    /// [`NotFound`](std::io::ErrorKind::NotFound) for an id that is none of this table's, and for
    /// what has lost its name to what was added later.
    pub fn node(&self, id: NodeId) -> Result<Node> {
        Ok(self.slot(id)?.node(&self.owners))
    }

    /// As [`Tree::path_of`](super::Tree::path_of): the first of its names in the order of the
    /// table.
    pub fn path_of(&self, id: NodeId) -> PathBuf {
        match self.key_of(id) {
            Some(key) if !key.is_empty() => self.path.join(OsStr::from_bytes(&key)),
            _ => self.path.clone(),
        }
    }

    /// The path of a node below the root, with `/` between the names; empty for the root, `None`
    /// for what is not in the table. Of several names it is that of [`path_of`](Self::path_of).
    pub fn key_of(&self, id: NodeId) -> Option<Vec<u8>> {
        let mut slot = self.slot(id).ok()?;
        let mut names = Vec::new();
        while let Some(entry) = self.entries.get(slot.entry as usize) {
            names.push(entry.name.of(&self.names));
            slot = self.slots.get(entry.parent as usize)?;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    fn slot(&self, id: NodeId) -> Result<&Slot> {
        let slot = usize::try_from(id.get()).ok().and_then(|number| self.slots.get(number));
        let is_there = |slot: &&Slot| id == self.root() || slot.entry != NONE;
        slot.filter(is_there).ok_or_else(|| unknown(&self.path, id))
    }

    fn children(&self, operation: &'static str, directory: NodeId) -> Result<&[Named]> {
        let slot = self.slot(directory)?;
        if !slot.is_directory() {
            return Err(not_a_directory(operation, self.path_of(directory)));
        }
        let Children { start, len } = Children::from_value(slot.value);
        let (start, len) = (start as usize, len as usize);
        Ok(self.entries.get(start..start + len).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
