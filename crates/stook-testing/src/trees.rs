//! Trees made of a [`TreeModel`]: in memory, as files on disk, and several in one.
#![expect(clippy::unwrap_used, reason = "a tree that cannot be made ends the test on the spot")]

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{XattrFlags, lsetxattr};
use stook::error::{Error, Result};
use stook::source::{FileSource, MemorySource, Source};
use stook::tree::{
    CaseRule, Cursor, Holes, Kind, Layer, Node, NodeId, NodeTable, NodeTableBuilder, Page, Tree, Union,
    Xattrs,
};

use crate::model::tree::{HOLE_LEN, TreeEntry, TreeModel};
use crate::model::union::LayerModel;

/// A tree in memory: names and nodes in a table, the bytes of each node beside it.
#[derive(Debug)]
pub struct MemoryTree {
    table: NodeTable,
    /// By number of node: the bytes of a file, the target of a link.
    bytes: Vec<Bytes>,
    /// By number of node.
    xattrs: Vec<Xattrs>,
    /// By number of node.
    holes: Vec<Holes>,
}

impl MemoryTree {
    /// The tree of a model. Entries are added from the last to the first, so that directories come
    /// after their contents.
    ///
    /// # Panics
    /// Panics if the table refuses an entry.
    pub fn new(model: &TreeModel) -> Self {
        let mut builder = NodeTableBuilder::new("memory");
        // Of the root.
        let mut all_bytes = vec![Bytes::new()];
        let (mut all_xattrs, mut all_holes) = (vec![Xattrs::default()], vec![Holes::default()]);
        let entries: Vec<_> = model.iter().collect();
        for (path, entry) in entries.iter().rev() {
            let (kind, bytes) = match entry {
                TreeEntry::Directory => (Kind::Directory, Bytes::new()),
                TreeEntry::File(bytes) => (Kind::File, Bytes::copy_from_slice(bytes)),
                TreeEntry::Symlink(target) => (Kind::Symlink, Bytes::copy_from_slice(target)),
                TreeEntry::Link(_) => continue,
            };
            let node = Node { len: bytes.len() as u64, ..Node::new(kind) };
            let id = builder.add(path, node).unwrap();
            assert_eq!(id.get(), all_bytes.len() as u64);
            all_bytes.push(bytes);
            all_xattrs.push(model.xattrs(path));
            all_holes.push(model.holes(path));
        }
        for (path, entry) in entries {
            if let TreeEntry::Link(to) = entry {
                let file = builder.find(to).unwrap();
                builder.link(path, file).unwrap();
            }
        }
        let (table, refused) = builder.finish();
        assert!(refused.is_empty(), "{refused:?}");
        Self { table, bytes: all_bytes, xattrs: all_xattrs, holes: all_holes }
    }

    fn bytes(&self, id: NodeId) -> Bytes {
        self.bytes.get(id.get() as usize).cloned().unwrap_or_default()
    }
}

impl Tree for MemoryTree {
    fn path(&self) -> &Path {
        self.table.path()
    }

    fn root(&self) -> NodeId {
        self.table.root()
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        self.table.lookup(parent, name)
    }

    fn list(&self, directory: NodeId, from: &Cursor, page: &mut Page) -> Result<Option<Cursor>> {
        self.table.list(directory, from, page)
    }

    fn node(&self, id: NodeId) -> Result<Node> {
        self.table.node(id)
    }

    fn path_of(&self, id: NodeId) -> PathBuf {
        self.table.path_of(id)
    }

    fn link_target(&self, id: NodeId) -> Result<Vec<u8>> {
        match self.node(id)?.kind {
            Kind::Symlink => Ok(self.bytes(id).to_vec()),
            _ => {
                let no_link = io::ErrorKind::InvalidInput.into();
                Err(Error::io("read link", self.path_of(id), no_link))
            }
        }
    }

    fn xattrs(&self, id: NodeId) -> Result<Xattrs> {
        self.node(id)?;
        Ok(self.xattrs.get(id.get() as usize).cloned().unwrap_or_default())
    }

    fn holes(&self, id: NodeId) -> Result<Holes> {
        self.open(id)?;
        Ok(self.holes.get(id.get() as usize).cloned().unwrap_or_default())
    }

    fn open(&self, id: NodeId) -> Result<Arc<dyn Source>> {
        let path = self.path_of(id);
        match self.node(id)?.kind {
            Kind::File => Ok(Arc::new(MemorySource::new(path, self.bytes(id)))),
            kind => Err(Error::NotARegularFile { path, found: kind.noun() }),
        }
    }
}

/// Whether files that are made in a directory have the holes that a model says.
///
/// # Panics
/// Panics if none can be made.
pub fn has_holes(directory: &Path) -> bool {
    let (path, model) = (directory.join("probe"), TreeModel::new().file("probe", vec![0; 1 << 20]));
    make_files(&model, directory);
    let holes = FileSource::open(&path).unwrap().holes().unwrap();
    fs::remove_file(path).unwrap();
    holes == model.holes(b"probe")
}

/// Blocks of zeros are not written: they are holes, if the file system supports them.
pub(crate) fn write_with_holes(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = fs::File::create(path)?;
    for (block, start) in bytes.chunks(HOLE_LEN).zip((0_u64..).step_by(HOLE_LEN)) {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, start)?;
        }
    }
    file.set_len(bytes.len() as u64)
}

/// Makes the files of a model below a directory that is there and empty. Long zeros become holes.
///
/// # Panics
/// Panics if one cannot be made.
pub fn make_files(model: &TreeModel, below: &Path) {
    let path_of = |path: &[u8]| below.join(OsStr::from_bytes(path));
    for (path, entry) in model.iter() {
        match entry {
            TreeEntry::Directory => fs::create_dir(path_of(path)),
            TreeEntry::File(bytes) => write_with_holes(&path_of(path), bytes),
            TreeEntry::Symlink(target) => symlink(OsStr::from_bytes(target), path_of(path)),
            TreeEntry::Link(_) => Ok(()),
        }
        .unwrap();
    }
    for (path, entry) in model.iter() {
        if let TreeEntry::Link(to) = entry {
            fs::hard_link(path_of(to), path_of(path)).unwrap();
        }
    }
    for (path, _) in model.iter() {
        for xattr in model.xattrs(path).as_slice() {
            let value = xattr.value.as_deref().unwrap_or_default();
            lsetxattr(path_of(path), &*xattr.name, value, XattrFlags::empty()).unwrap();
        }
    }
}

/// The union of the layers of a model, whose trees `make` makes.
///
/// # Panics
/// Panics if a path to be deleted is invalid.
pub fn union_tree(
    layers: &[LayerModel],
    case: CaseRule,
    make: &mut dyn FnMut(&TreeModel) -> Arc<dyn Tree>,
) -> Union {
    let layers = layers.iter().map(|model| {
        let layer = Layer::new(make(&model.tree));
        model.deleted.iter().fold(layer, |layer, path| layer.deleting(path.as_slice()))
    });
    Union::new("union", layers.collect::<Vec<_>>(), case).unwrap()
}

/// What rsync would do to make one directory what another is, a line for each: it looks at bytes,
/// kinds, modes, times, owners, hard links, access control lists and extended attributes, and for
/// what is extra. What XFS shows as attributes of its own are its access control lists once more.
///
/// # Panics
/// Panics if rsync cannot be run, or fails.
pub fn rsync_would(from: &Path, to: &Path) -> Vec<String> {
    let mut rsync = Command::new("rsync");
    rsync.args(["-nacHAXi", "--delete", "--filter=-x system.*", "--filter=-x trusted.SGI_ACL_*", "--"]);
    rsync.args([from.join(""), to.join("")]);
    let ended = rsync.output().unwrap();
    assert!(ended.status.success(), "{rsync:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8_lossy(&ended.stdout).lines().map(str::to_owned).collect()
}
