//! [`RecordTree`]: the records of a pack as a [`Tree`].
//!
//! The names are read once, into a [`NodeTable`]; bodies, extended attributes and targets of links
//! are read when they are asked for. It never writes, and never touches a file system beside the
//! pack.

mod build;
mod gather;
mod names;
mod put_off;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::build::{Building, Built, Marks};
use self::gather::RecordSupply;
use self::names::shown_key;
use self::put_off::PutOff;
use crate::engine::EngineFactory;
use crate::extent::ByteRange;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::attributes::Attributes;
use crate::pack::key::{KEY_LEN_MAX, Key};
use crate::pack::read::record::RecordHead;
use crate::pack::read::source::RecordSource;
use crate::pack::state::open::{KeyEntry, Pack};
use crate::source::Source;
use crate::tree::parts::check_name;
use crate::tree::{
    Cursor, Deliver, Fact, GatherOptions, Holes, Kind, Node, NodeId, NodeTable, Outline, Page, Tree, Xattrs,
    gather_supplied, not_a_file, unknown,
};

/// The records of a pack at the generation it was opened at, as a tree.
///
/// Beside what [`Tree`] says:
/// - keys that are paths are the paths of nodes; hard links to a file share its node; directories
///   without a record are there, and nothing is known of them. A record that does not say what it
///   is, is a file;
/// - keys that are no paths stand in the root under what shows them: the number 7 is `id:7`, and
///   the bytes `a//b` are `bytes:a\x2f\x2fb`. [`Key::parse`] takes these names. Records that get no
///   name are [counted](Self::hidden);
/// - ids have the order of the records on the medium;
/// - a name of which no more is known, because the head of its record is damaged or it leads to no
///   file, is listed as a failure, and an error where it is looked up. What was met while the tree
///   was made is in the [log](Pack::damage_log) of the pack. Damage names the file of the pack, the
///   offset, and the key;
/// - what may hide any names (a segment that is lost) is a failure of the listing of the root, and
///   a name that is not there, but may have been in that, an error where it is looked up.
///
/// ```
/// use std::sync::Arc;
///
/// use stook::pack::tree::RecordTree;
/// use stook::pack::{Attributes, Key, OpenOptions, Pack, PackWriter, WriterOptions};
/// use stook::storage::{LocalStorage, LocalStorageOptions};
/// use stook::tree::Tree;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("photos.stook");
/// let storage = Arc::new(LocalStorage::create(&path, LocalStorageOptions::default())?);
/// let mut writer = PackWriter::create(storage, WriterOptions::default())?;
/// writer.put("", &Key::bytes("2024/cat.jpg")?, &Attributes::new(), b"a picture")?;
/// writer.put("", &Key::id(7), &Attributes::new(), b"no path")?;
/// writer.finish(true)?;
///
/// let tree = RecordTree::new(Arc::new(Pack::open_path(&path, OpenOptions::default())?))?;
/// let cat = tree.find(b"2024/cat.jpg")?.ok_or("it is there")?;
/// assert_eq!(tree.node(cat)?.len, 9);
/// assert_eq!(tree.open(cat)?.len(), 9);
/// assert!(tree.find(b"id:7")?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecordTree {
    pack: Arc<Pack>,
    path: PathBuf,
    known: RwLock<KnownNodes>,
    /// What may hide names of which nothing is known.
    hiding: Vec<Damage>,
    hidden: Hidden,
    /// Heads that were not read yet.
    put_off: Option<PutOff>,
    marks: Marks,
}

/// What is known of the names.
#[derive(Debug)]
struct KnownNodes {
    table: NodeTable,
    /// The keys of nodes whose first name does not say it, by number.
    keys: HashMap<u64, Key>,
    /// Numbers of nodes of which no more is known than a name.
    lost: HashSet<u64>,
    /// Whether any record has extended attributes, or may have.
    has_xattrs: bool,
}

impl KnownNodes {
    fn key(&self, id: NodeId) -> Option<Key> {
        if let Some(key) = self.keys.get(&id.get()) {
            return Some(key.clone());
        }
        let path = self.table.key_of(id)?;
        shown_key(&path).or_else(|| Key::bytes(&path).ok())
    }
}

/// Records to which no name of a tree leads: another record has the name that shows the key, or the
/// name would be longer than 65,535 bytes; or it is a file, and the keys of others lie below it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hidden {
    /// How many there are.
    pub records: u64,
    /// Which the first was, and why.
    pub first: Option<String>,
    /// The keys of the first of them, and why.
    known: Vec<(Vec<u8>, String)>,
}

/// Hidden records of which the keys are known.
const HIDDEN_MAX: usize = 10_000;

impl Hidden {
    fn note(&mut self, key: &[u8], why: String) {
        self.records += 1;
        if self.known.len() < HIDDEN_MAX {
            self.known.push((key.to_vec(), why.clone()));
        }
        self.first.get_or_insert(why);
    }

    /// The keys of the first ten thousand, and why they have no name.
    pub fn known(&self) -> impl Iterator<Item = (&[u8], &str)> {
        self.known.iter().map(|(key, why)| (key.as_slice(), why.as_str()))
    }
}

impl RecordTree {
    /// The tree of a pack. The heads of all records are read, in the order of the medium. Of each
    /// node 48 bytes and its name stay in memory, and the keys of files with several names; while
    /// it is made, also the keys of one segment at a time and those of all hard links.
    ///
    /// # Errors
    /// When reading is impossible at all. Damage costs what it hits.
    pub fn new(pack: Arc<Pack>) -> Result<Self> {
        let built = Building::run(&pack, false)?;
        Ok(Self::of(pack, built))
    }

    /// The same with 8 bytes more of each node, by which records are told apart from those that are
    /// in their place in another state of the pack.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(in crate::pack::tree) fn marked(pack: Arc<Pack>) -> Result<Self> {
        let built = Building::run(&pack, true)?;
        Ok(Self::of(pack, built))
    }

    /// What only the record of this node has, in whatever state of the pack; `None` where it has no
    /// record that could be read.
    pub(in crate::pack::tree) fn mark(&self, id: NodeId) -> Option<u64> {
        self.marks.get(id)
    }

    /// The same for trees of which not all may be asked, and that are wanted at once: only the
    /// names are read, which the index has, and the heads of records with others below them. All
    /// other heads are read when they are asked for, or by [`complete`](Tree::complete). What
    /// cannot be in the tree because of what its head says is a failure of its directory then, not
    /// [hidden](Self::hidden).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_names(pack: Arc<Pack>) -> Result<Self> {
        let (built, outline) = Building::names(&pack)?;
        let nodes = built.table.nodes();
        let outline = Outline { nodes: nodes as u64, most_entries: built.table.most_entries(), ..outline };
        Ok(Self { put_off: Some(PutOff::new(outline, nodes)), ..Self::of(pack, built) })
    }

    fn of(pack: Arc<Pack>, built: Built) -> Self {
        let Built { table, keys, lost, hiding, hidden, has_xattrs, marks } = built;
        let path = table.path().to_path_buf();
        let known = RwLock::new(KnownNodes { table, keys, lost, has_xattrs });
        Self { pack, path, known, hiding, hidden, put_off: None, marks }
    }

    fn known(&self) -> RwLockReadGuard<'_, KnownNodes> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, KnownNodes> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pack.
    pub fn pack(&self) -> &Arc<Pack> {
        &self.pack
    }

    /// Records that are in the pack and under no name.
    pub fn hidden(&self) -> &Hidden {
        &self.hidden
    }

    /// The key of the record of a node, if it has one: a directory may have none. `None` for an id
    /// that is none of this tree's.
    pub fn key(&self, id: NodeId) -> Option<Key> {
        self.known().key(id)
    }

    /// Where a listing continues after a name, whether that is there or not.
    pub(crate) fn after(&self, directory: NodeId, name: &[u8]) -> crate::Result<Cursor> {
        self.known().table.after(directory, name)
    }

    fn known_key(&self, id: NodeId) -> crate::Result<Key> {
        self.key(id).ok_or_else(|| unknown(self.path(), id))
    }

    fn is_lost(&self, id: NodeId) -> bool {
        self.known().lost.contains(&id.get())
    }

    /// Why no more is known of a node: the record is asked again, so that no error has to be kept.
    fn failure(&self, id: NodeId) -> crate::Error {
        let key = match self.known_key(id) {
            Ok(key) => key,
            Err(error) => return error,
        };
        match self.pack.open_source(&key) {
            Err(error) => self.error(id, error),
            Ok(_) => {
                let what = "it could not be read when the tree was made; open the pack again";
                crate::Error::io("read", self.path_of(id), io::Error::other(what))
            }
        }
    }

    /// What became of asking the pack for a node.
    fn error(&self, id: NodeId, error: Error) -> crate::Error {
        core_error(error, || self.path_of(id))
    }

    /// The record of a file or link.
    fn source(&self, id: NodeId) -> crate::Result<Arc<RecordSource>> {
        let opened = self.pack.open_source(&self.known_key(id)?).map_err(|error| self.error(id, error))?;
        opened.ok_or_else(|| crate::Error::io("open", self.path_of(id), io::ErrorKind::NotFound.into()))
    }

    /// That nothing has a name, unless damage may hide it.
    fn absent(&self, parent: NodeId, name: &[u8]) -> crate::Result<Option<NodeId>> {
        if check_name(name).is_err() {
            return Ok(None);
        }
        let mut path = self.known().table.key_of(parent).unwrap_or_default();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        let Ok(key) = Key::bytes(&path) else { return Ok(None) };
        self.pack.find(&key).map_err(|error| self.error(parent, error))?;
        Ok(None)
    }

    fn located(&self, key: &Key) -> Result<Option<KeyEntry>> {
        Ok(self.pack.locate(std::slice::from_ref(key))?.pop().transpose()?.flatten())
    }

    /// What the record of a node says, if it has one.
    fn attributes(&self, id: NodeId) -> crate::Result<Attributes> {
        let key = self.known_key(id)?;
        let head = || -> Result<Option<RecordHead>> {
            let Some(entry) = self.located(&key)? else { return Ok(None) };
            self.pack.heads(&[entry])?.pop().transpose()
        };
        let head = head().map_err(|error| self.error(id, error))?;
        Ok(head.map(|head| head.attributes).unwrap_or_default())
    }
}

impl Tree for RecordTree {
    fn path(&self) -> &Path {
        &self.path
    }

    fn root(&self) -> NodeId {
        self.known().table.root()
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> crate::Result<Option<NodeId>> {
        // Asked before: another thread may read the heads between the two.
        let is_put_off = self.put_off().is_some();
        let mut found = self.known().table.lookup(parent, name)?;
        if is_put_off {
            self.read_heads_of(found.into_iter())?;
            found = self.known().table.lookup(parent, name)?;
        }
        match found {
            Some(id) if self.is_lost(id) => Err(self.failure(id)),
            None if !self.pack.snapshot.log.is_empty() => self.absent(parent, name),
            found => Ok(found),
        }
    }

    fn list(&self, directory: NodeId, from: &Cursor, page: &mut Page) -> crate::Result<Option<Cursor>> {
        // Asked before: another thread may read the heads between the two.
        let is_put_off = self.put_off().is_some();
        let mut next = self.known().table.list(directory, from, page)?;
        if is_put_off {
            self.read_heads_of(page.iter().map(|entry| entry.id))?;
            next = self.known().table.list(directory, from, page)?;
        }
        let lost = {
            let known = self.known();
            let is_lost = |id: NodeId| known.lost.contains(&id.get());
            page.iter().map(|entry| entry.id).filter(|&id| is_lost(id)).collect::<HashSet<_>>()
        };
        if !lost.is_empty() {
            page.fail_where(|id| lost.contains(&id).then(|| self.failure(id)));
        }
        if directory == self.root() && *from == Cursor::Start {
            self.hiding().into_iter().for_each(|failure| page.push_failure(failure));
        }
        Ok(next)
    }

    fn node(&self, id: NodeId) -> crate::Result<Node> {
        self.read_heads_of(std::iter::once(id))?;
        let node = self.known().table.node(id)?;
        if self.is_lost(id) { Err(self.failure(id)) } else { Ok(node) }
    }

    fn hiding(&self) -> Vec<crate::Error> {
        self.hiding.iter().cloned().map(core_damage).collect()
    }

    fn outline(&self, name: &mut dyn FnMut(NodeId, &[u8])) -> Option<Outline> {
        let outline = self.known_outline()?;
        self.known().table.names(name);
        Some(outline)
    }

    fn complete(&self, go_on: &dyn Fn() -> bool) -> crate::Result<()> {
        self.read_all_heads(go_on).map_err(|error| self.error(self.root(), error))
    }

    fn path_of(&self, id: NodeId) -> PathBuf {
        self.known().table.path_of(id)
    }

    fn link_target(&self, id: NodeId) -> crate::Result<Vec<u8>> {
        let failed = |kind: io::ErrorKind| crate::Error::io("read link", self.path_of(id), kind.into());
        let node = self.node(id)?;
        if node.kind != Kind::Symlink {
            return Err(failed(io::ErrorKind::InvalidInput));
        }
        // No system has longer ones: what is so long was never a target.
        if node.len > KEY_LEN_MAX as u64 {
            return Err(failed(io::ErrorKind::InvalidData));
        }
        let source = self.source(id)?;
        let target = source.read(ByteRange::to(source.len())).map_err(|error| self.error(id, error))?;
        Ok(target.to_vec())
    }

    /// Where heads were put off, all are read for that.
    fn has_xattrs(&self) -> bool {
        self.read_all_heads(&|| true).is_err() || self.known().has_xattrs
    }

    fn xattrs(&self, id: NodeId) -> crate::Result<Xattrs> {
        self.node(id)?;
        Ok(self.attributes(id)?.xattrs())
    }

    /// Of a directory that has no record nothing is said. Checksums are of parts of bodies.
    fn fact(&self, id: NodeId, fact: Fact) -> crate::Result<Option<Vec<u8>>> {
        self.node(id)?;
        let key = self.known_key(id)?;
        let entry = self.located(&key).map_err(|error| self.error(id, error))?;
        Ok(entry.and_then(|entry| match fact {
            Fact::Key => Some(key.to_string().into_bytes()),
            Fact::Group => {
                let group = self.pack.group_of_entry(&entry);
                (!group.is_empty()).then(|| group.as_bytes().to_vec())
            }
            Fact::Checksum => None,
        }))
    }

    fn has_facts(&self) -> bool {
        true
    }

    fn holes(&self, id: NodeId) -> crate::Result<Holes> {
        match self.node(id)?.kind {
            Kind::File => Ok(self.attributes(id)?.holes()),
            kind => Err(not_a_file(kind, self.path_of(id))),
        }
    }

    fn open(&self, id: NodeId) -> crate::Result<Arc<dyn Source>> {
        match self.node(id)?.kind {
            Kind::File => Ok(self.source(id)?),
            kind => Err(not_a_file(kind, self.path_of(id))),
        }
    }

    /// Short records that are neighbours on the medium are read at once.
    fn gather(
        &self,
        ids: &[NodeId],
        factory: &dyn EngineFactory,
        options: &GatherOptions,
        deliver: &mut Deliver<'_>,
    ) -> crate::Result<()> {
        gather_supplied(RecordSupply::new(self, ids, options), ids, factory, options, deliver)
    }
}

/// An error of a pack, as trees have it.
fn core_error(error: Error, path: impl FnOnce() -> PathBuf) -> crate::Error {
    let kind = match error {
        Error::Core(error) => return error,
        Error::Damaged(damage) => return core_damage(damage),
        Error::Unsupported { .. } => io::ErrorKind::Unsupported,
        Error::Invalid(_) | Error::Limit { .. } => io::ErrorKind::InvalidData,
        _ => io::ErrorKind::Other,
    };
    crate::Error::io("read", path(), io::Error::new(kind, error))
}

fn core_damage(damage: Damage) -> crate::Error {
    let Damage { file, offset, key, what, .. } = damage;
    let what = match key {
        Some(key) => format!("record {key}: {what}"),
        None => what,
    };
    crate::Error::Damaged { path: file, offset, what }
}
