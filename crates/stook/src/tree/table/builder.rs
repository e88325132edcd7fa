//! [`NodeTableBuilder`]: from paths in any order to a [`NodeTable`].
//!
//! While it is built, every path that was met is a *place*: a name in the place of its parent. One
//! map finds places by parent and name, whatever directory they are in; it is gone when the table
//! is made.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::BuildHasher as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::{Children, NONE, NamePlace, Named, NodeTable, Slot};
use crate::error::{Error, Result};
use crate::tree::any::{not_a_directory, unknown};
use crate::tree::node::{Kind, Node, NodeId};
use crate::tree::parts;

/// The place of the root.
const ROOT: u32 = 0;

/// A path that was met.
#[derive(Debug, Clone, Copy)]
struct Place {
    name: NamePlace,
    /// The place that it is in; of the root, [`NONE`].
    parent: u32,
    /// What was added here last; [`NONE`] where only something below it was.
    node: u32,
    /// The directory that was added here last.
    directory: u32,
    /// Another place whose parent and name have the same hash.
    same_hash: u32,
    /// Whether there are places in it.
    is_parent: bool,
}

impl Place {
    fn new(name: NamePlace, parent: u32, same_hash: u32) -> Self {
        Self { name, parent, node: NONE, directory: NONE, same_hash, is_parent: false }
    }
}

/// Collects what a [`NodeTable`] is made of.
///
/// Entries come in any order, a directory before or after what is in it. The rules:
/// - where several have one path, the last that was added counts (the later wins); a directory that
///   replaces a directory keeps what is in it;
/// - parents that are missing are made as directories of which nothing is known;
/// - what is no directory and yet the parent of others is refused, that entry alone: its path is a
///   directory then;
/// - a path that is absolute, or has an empty part, `.`, `..`, a zero byte or a name of more than
///   65,535 bytes is refused, and nothing of it is made.
#[derive(Debug)]
pub struct NodeTableBuilder {
    path: PathBuf,
    slots: Vec<Slot>,
    places: Vec<Place>,
    names: Vec<u8>,
    owners: Vec<(u32, u32)>,
    owner_numbers: HashMap<(u32, u32), u32>,
    /// One of the places with this hash of parent and name.
    by_hash: HashMap<u64, u32>,
    hashes: RandomState,
    /// The parents of the path that was met last, and their place: the next mostly has the same.
    last_parents: (Vec<u8>, u32),
}

impl NodeTableBuilder {
    /// A table with nothing but a root, which is a directory of which nothing is known. `path` is
    /// what the tree is called in messages.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let root = Slot { entry: ROOT, ..Slot::new(&Node::new(Kind::Directory), NONE) };
        let place = Place { node: 0, directory: 0, ..Place::new(NamePlace::new(0, 0), NONE, NONE) };
        Self {
            path: path.into(),
            slots: vec![root],
            places: vec![place],
            names: Vec::new(),
            owners: Vec::new(),
            owner_numbers: HashMap::new(),
            by_hash: HashMap::new(),
            hashes: RandomState::new(),
            last_parents: (Vec::new(), ROOT),
        }
    }

    /// The directory that all else is below.
    pub const fn root(&self) -> NodeId {
        NodeId::new(0)
    }

    /// Adds a node under its path: names with `/` between them, relative to the root. The empty
    /// path says more of the root, which stays node 0; any other gets the next number.
    ///
    /// # Errors
    /// [`Error::Entry`] when nothing can have this path, the root would be no directory, or there
    /// are more than 2,147,483,647 nodes or places. Nothing was added then.
    pub fn add(&mut self, path: &[u8], node: Node) -> Result<NodeId> {
        let place = self.place_of_path(path).map_err(|what| refused(&self.path, path, what))?;
        self.put(place, &node).map_err(|what| refused(&self.path, path, what))
    }

    /// Adds a node under a name in a directory that was added before, or in the root.
    ///
    /// # Errors
    /// As [`add`](Self::add); `NotADirectory` when the parent is none, `NotFound` when it was not
    /// added.
    pub fn add_in(&mut self, parent: NodeId, name: &[u8], node: Node) -> Result<NodeId> {
        let slot = self.slot(parent)?;
        let parent = slot.entry;
        if !slot.is_directory() {
            return Err(not_a_directory("add to", join(&self.path, &self.key_of(parent))));
        }
        let place = parts::check_name(name).and_then(|()| self.enter(parent, name));
        place
            .and_then(|place| self.put(place, &node))
            .map_err(|what| refused(&join(&self.path, &self.key_of(parent)), name, what))
    }

    /// Gives a node another name: a hard link. As with [`add`](Self::add), the later wins.
    ///
    /// # Errors
    /// [`Error::Entry`] when nothing can have this path, or the node is a directory; `NotFound`
    /// when it was not added.
    pub fn link(&mut self, path: &[u8], node: NodeId) -> Result<()> {
        if self.slot(node)?.is_directory() {
            return Err(refused(&self.path, path, "it is another name of a directory"));
        }
        let place = self.place_of_path(path).map_err(|what| refused(&self.path, path, what))?;
        if place == ROOT {
            return Err(refused(&self.path, path, NO_ROOT));
        }
        if let Some(place) = self.places.get_mut(place as usize) {
            // The slot is there, so its number fits.
            place.node = node.get() as u32;
        }
        Ok(())
    }

    /// What was added last under a path.
    pub fn find(&self, path: &[u8]) -> Option<NodeId> {
        let mut at = ROOT;
        for name in parts::split(path).ok()? {
            at = self.find_place(at, name)?;
        }
        let node = self.places.get(at as usize)?.node;
        (node != NONE).then(|| NodeId::new(u64::from(node)))
    }

    /// What a node is that was added.
    pub(crate) fn kind(&self, id: NodeId) -> Option<Kind> {
        self.slot(id).ok().map(Slot::kind)
    }

    /// Nodes that were added and have others below them, but for the root.
    pub(crate) fn parents(&self) -> Vec<NodeId> {
        let parents = self.places.iter().skip(1).filter(|place| place.is_parent && place.node != NONE);
        parents.map(|place| NodeId::new(u64::from(place.node))).collect()
    }

    /// The path under which a node was added.
    pub(crate) fn path_in(&self, id: NodeId) -> Option<Vec<u8>> {
        self.slot(id).ok().map(|slot| self.key_of(slot.entry))
    }

    /// Says what a node is that was added.
    pub(crate) fn set(&mut self, id: NodeId, node: &Node) {
        let owner = self.owner_number(node.owner);
        let slot = usize::try_from(id.get()).ok().and_then(|number| self.slots.get_mut(number));
        let Some(slot) = slot else { return };
        *slot = Slot { entry: slot.entry, ..Slot::new(node, owner) };
        if let Some(place) = self.places.get_mut(slot.entry as usize).filter(|_| slot.is_directory()) {
            place.directory = id.get() as u32;
        }
    }

    /// The table, and the entries that are not in it because they are parents of others and no
    /// directories.
    pub fn finish(mut self) -> (NodeTable, Vec<(NodeId, Error)>) {
        let mut refusals = Vec::new();
        let nodes: Vec<u32> =
            (0..self.places.len()).map(|at| self.settle(at as u32, &mut refusals)).collect();
        let number_of = |place: u32| nodes.get(place as usize).copied().unwrap_or(NONE);
        let places = self.places.iter().zip(&nodes).skip(1).filter(|(_, node)| **node != NONE);
        let named =
            places.map(|(place, &node)| Named { name: place.name, node, parent: number_of(place.parent) });
        let mut entries: Vec<Named> = named.collect();
        let names = &self.names;
        entries.sort_unstable_by(|a, b| {
            a.parent.cmp(&b.parent).then_with(|| a.name.of(names).cmp(b.name.of(names)))
        });
        self.connect(&entries);
        let Self { path, mut slots, mut names, mut owners, .. } = self;
        slots.shrink_to_fit();
        entries.shrink_to_fit();
        names.shrink_to_fit();
        owners.shrink_to_fit();
        (NodeTable { path, slots, entries, names, owners }, refusals)
    }

    /// Which node a place is; [`NONE`] where there is none after all.
    fn settle(&mut self, at: u32, refusals: &mut Vec<(NodeId, Error)>) -> u32 {
        let Some(&Place { node, directory, is_parent, .. }) = self.places.get(at as usize) else {
            return NONE;
        };
        let is_directory = self.slots.get(node as usize).is_some_and(Slot::is_directory);
        if !is_parent || is_directory {
            return node;
        }
        if node != NONE {
            let what = "others are below it, and it is no directory";
            let error = refused(&self.path, &self.key_of(at), what);
            refusals.push((NodeId::new(u64::from(node)), error));
        }
        if directory != NONE {
            return directory;
        }
        let made = self.slots.len() as u32;
        self.slots.push(Slot::new(&Node::new(Kind::Directory), NONE));
        made
    }

    /// Gives every node its first name, directories their entries, and files how many names they
    /// have at least.
    fn connect(&mut self, entries: &[Named]) {
        let mut names = vec![0_u32; self.slots.len()];
        self.slots.iter_mut().for_each(|slot| slot.entry = NONE);
        for (at, entry) in (0_u32..).zip(entries) {
            if let Some(slot) = self.slots.get_mut(entry.node as usize)
                && let Some(count) = names.get_mut(entry.node as usize)
            {
                *count += 1;
                slot.links = slot.links.max(*count);
                slot.entry = slot.entry.min(at);
            }
            if let Some(parent) = self.slots.get_mut(entry.parent as usize) {
                let children = Children::from_value(parent.value);
                let start = if children.len == 0 { at } else { children.start };
                parent.value = Children { start, len: children.len + 1 }.to_value();
            }
        }
    }

    /// The place of a path, made if it is not there, and all above it.
    fn place_of_path(&mut self, path: &[u8]) -> Result<u32, &'static str> {
        let names = parts::split(path)?;
        let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
            return if path.is_empty() { Ok(ROOT) } else { self.enter(ROOT, path) };
        };
        let (parents, last) = path.split_at(slash);
        let last = last.strip_prefix(b"/").unwrap_or(last);
        if self.last_parents.0 != parents {
            let (mut at, mut below) = (ROOT, names.peekable());
            while let Some(name) = below.next()
                && below.peek().is_some()
            {
                at = self.enter(at, name)?;
            }
            self.last_parents.0.clear();
            self.last_parents.0.extend_from_slice(parents);
            self.last_parents.1 = at;
        }
        self.enter(self.last_parents.1, last)
    }

    /// The place of a name in a place, made if it is not there. The name was checked.
    fn enter(&mut self, parent: u32, name: &[u8]) -> Result<u32, &'static str> {
        if let Some(place) = self.find_place(parent, name) {
            return Ok(place);
        }
        let place = number_of_next(self.places.len())?;
        let hash = self.hashes.hash_one((parent, name));
        let same_hash = self.by_hash.insert(hash, place).unwrap_or(NONE);
        let name_place = NamePlace::new(self.names.len(), name.len());
        self.names.extend_from_slice(name);
        self.places.push(Place::new(name_place, parent, same_hash));
        if let Some(parent) = self.places.get_mut(parent as usize) {
            parent.is_parent = true;
        }
        Ok(place)
    }

    fn find_place(&self, parent: u32, name: &[u8]) -> Option<u32> {
        let mut at = *self.by_hash.get(&self.hashes.hash_one((parent, name)))?;
        loop {
            // There is no place NONE: that is the end.
            let place = self.places.get(at as usize)?;
            if place.parent == parent && place.name.of(&self.names) == name {
                return Some(at);
            }
            at = place.same_hash;
        }
    }

    fn put(&mut self, at: u32, node: &Node) -> Result<NodeId, &'static str> {
        if at == ROOT && node.kind != Kind::Directory {
            return Err(NO_ROOT);
        }
        let number = if at == ROOT { 0 } else { number_of_next(self.slots.len())? };
        let slot = Slot { entry: at, ..Slot::new(node, self.owner_number(node.owner)) };
        match self.slots.get_mut(number as usize) {
            Some(root) => *root = slot,
            None => self.slots.push(slot),
        }
        if let Some(place) = self.places.get_mut(at as usize) {
            place.node = number;
            if node.kind == Kind::Directory {
                place.directory = number;
            }
        }
        Ok(NodeId::new(u64::from(number)))
    }

    fn owner_number(&mut self, owner: Option<(u32, u32)>) -> u32 {
        let Some(owner) = owner else { return NONE };
        *self.owner_numbers.entry(owner).or_insert_with(|| {
            self.owners.push(owner);
            // There are no more owners than nodes.
            (self.owners.len() - 1) as u32
        })
    }

    fn slot(&self, id: NodeId) -> Result<&Slot> {
        let slot = usize::try_from(id.get()).ok().and_then(|number| self.slots.get(number));
        slot.ok_or_else(|| unknown(&self.path, id))
    }

    /// The path of a place below the root.
    fn key_of(&self, mut at: u32) -> Vec<u8> {
        let mut names = Vec::new();
        while at != ROOT
            && let Some(place) = self.places.get(at as usize)
        {
            names.push(place.name.of(&self.names));
            at = place.parent;
        }
        names.reverse();
        names.join(&b'/')
    }
}

const NO_ROOT: &str = "the root of a tree is a directory";

/// The number of the next place or node. Directories that are made at the end need numbers too, and
/// there are fewer of these than places.
fn number_of_next(len: usize) -> Result<u32, &'static str> {
    match u32::try_from(len) {
        Ok(number) if number < NONE / 2 => Ok(number),
        _ => Err("the tree has too many entries for one table"),
    }
}

/// For an entry that cannot be in the tree.
fn refused(tree: &Path, key: &[u8], what: &str) -> Error {
    Error::Entry { path: join(tree, key), what: what.into() }
}

/// For messages: a key that is an absolute path is shown below the tree too.
fn join(tree: &Path, key: &[u8]) -> PathBuf {
    let mut path = tree.as_os_str().to_os_string();
    if !key.is_empty() {
        path.push("/");
        path.push(OsStr::from_bytes(key));
    }
    path.into()
}
