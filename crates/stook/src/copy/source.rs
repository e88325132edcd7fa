//! [`CopySource`]: something that is copied, whatever it is made of.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{Error, Result};
use super::refuse::inode_of;
use super::report::Failure;
use crate::source::{Inodes, Source};
use crate::tree::{
    Cursor, Kind, Node, NodeId, Page, Tree, find_below, foreign_cursor, not_a_directory, not_a_file, unknown,
};
use crate::walk::DirectoryTree;

/// A file, or a directory with all that is in it.
#[derive(Debug, Clone)]
pub struct CopySource {
    pub(crate) tree: Arc<dyn Tree>,
    pub(crate) id: NodeId,
    /// What it is called in a destination, where it goes there by its name.
    pub(crate) name: Option<Vec<u8>>,
    /// Where it is, if it is on disk: no destination may lie in it.
    pub(crate) path: Option<PathBuf>,
    /// The same as the caller gave it, of a file.
    pub(crate) given: Option<PathBuf>,
    /// The tree, if it is on disk.
    on_disk: Option<Arc<DirectoryTree>>,
    /// Whether it is known not to be all that it should be.
    pub(crate) is_incomplete: bool,
    /// The pack or the archive that it is in, and what belongs to that, if that is on disk.
    read_from: Vec<PathBuf>,
    /// What it has, and the tree has no place for.
    pub(crate) misplaced: Arc<[Misplaced]>,
    /// Which names are of what has no path.
    pub(super) no_paths: Option<Arc<dyn NoPaths>>,
}

/// Something that an archive or a pack has, and that no tree of files can have.
#[derive(Debug, Clone)]
pub(crate) struct Misplaced {
    /// Its path there, as far as it is known.
    pub(crate) path: Vec<u8>,
    /// Why not.
    pub(crate) why: String,
}

/// Knows of the names of a tree which are made up.
pub(crate) trait NoPaths: std::fmt::Debug + Send + Sync {
    /// Why a node cannot be copied: its name only shows what it is called in a pack.
    fn refusal(&self, id: NodeId) -> Option<String>;
}

/// The names of a tree that lies over another, whose names are made up.
#[derive(Debug)]
struct NoPathsBelow {
    tree: Arc<dyn Tree>,
    own: Arc<dyn Tree>,
    of_own: Arc<dyn NoPaths>,
}

impl NoPaths for NoPathsBelow {
    fn refusal(&self, id: NodeId) -> Option<String> {
        let path = self.tree.path_of(id);
        let key = path.strip_prefix(self.tree.path()).ok()?.as_os_str().as_bytes();
        // What is not found there cannot be read either, and that is an error.
        let id = self.own.find(key).ok()??;
        self.of_own.refusal(id)
    }
}

impl CopySource {
    /// A directory on disk. A link is followed, because the caller named it.
    ///
    /// # Errors
    /// I/O errors; that it is no directory.
    pub fn directory(path: impl AsRef<Path>) -> Result<Self> {
        Self::of_directory(path.as_ref(), false)
    }

    /// The same without what is mounted in it: directories to which other file systems are mounted
    /// stay empty.
    ///
    /// # Errors
    /// As [`directory`](Self::directory).
    pub fn directory_on_one_file_system(path: impl AsRef<Path>) -> Result<Self> {
        Self::of_directory(path.as_ref(), true)
    }

    fn of_directory(path: &Path, stays: bool) -> Result<Self> {
        let tree = DirectoryTree::open(path)?;
        let tree = if stays { tree.on_one_file_system()? } else { tree };
        let (id, name) = (tree.root(), last_part(path)?);
        let (path, tree) = (Some(path.to_path_buf()), Arc::new(tree));
        Ok(Self { path, on_disk: Some(tree.clone()), ..Self::of(tree, id, name) })
    }

    /// A file on disk; where it is a link, what that leads to, under the name that was given.
    ///
    /// # Errors
    /// I/O errors; that it is no regular file.
    pub fn file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let io = |error| crate::Error::io("open", path, error);
        let resolved = path.canonicalize().map_err(io)?;
        let (Some(parent), Some(name)) = (resolved.parent(), resolved.file_name()) else {
            return Err(io(io::ErrorKind::IsADirectory.into()).into());
        };
        let tree = DirectoryTree::open(parent)?;
        let found = tree.lookup(tree.root(), name.as_bytes())?;
        let id = found.ok_or_else(|| io(io::ErrorKind::NotFound.into()))?;
        let kind = tree.node(id)?.kind;
        if kind != Kind::File {
            return Err(not_a_file(kind, path.to_path_buf()).into());
        }
        let tree = Arc::new(tree);
        let (on_disk, given) = (Some(tree.clone()), Some(path.to_path_buf()));
        Ok(Self { path: Some(resolved), given, on_disk, ..Self::of(tree, id, last_part(path)?) })
    }

    /// All of a tree, with the name that it has where there are several sources.
    pub fn tree(tree: Arc<dyn Tree>, name: impl Into<Vec<u8>>) -> Self {
        let (id, name) = (tree.root(), Some(name.into()).filter(|name| !name.is_empty()));
        Self::of(tree, id, name)
    }

    /// A file or directory of a tree, with the name that it has where there are several sources.
    pub fn tree_at(tree: Arc<dyn Tree>, id: NodeId, name: impl Into<Vec<u8>>) -> Self {
        Self { id, ..Self::tree(tree, name) }
    }

    /// The tree that it is of, which node of it, and whether its files are files on disk.
    pub fn in_tree(&self) -> (Arc<dyn Tree>, NodeId, bool) {
        (self.tree.clone(), self.id, self.path.is_some())
    }

    /// What it is called where there are several sources.
    pub fn name(&self) -> Option<&[u8]> {
        self.name.as_deref()
    }

    /// The same, opened anew, if it is on disk: what was met in the tree so far is forgotten, and a
    /// file that was replaced is the new one. `None` for all else.
    ///
    /// # Errors
    /// As [`directory`](Self::directory) and [`file`](Self::file).
    pub fn reopened(&self) -> Result<Option<Self>> {
        let (Some(tree), Some(path)) = (&self.on_disk, &self.path) else { return Ok(None) };
        match &self.given {
            Some(given) => Self::file(given).map(Some),
            None => Self::of_directory(path, tree.is_on_one_file_system()).map(Some),
        }
    }

    /// Bytes, such as an object, as a file of this name.
    ///
    /// # Errors
    /// That nothing can be called so.
    pub fn object(source: Arc<dyn Source>, name: impl Into<Vec<u8>>) -> Result<Self> {
        let file = SingleFile::new(source, name)?;
        let name = Some(file.name.clone());
        Ok(Self::of(Arc::new(file), FILE, name))
    }

    fn of(tree: Arc<dyn Tree>, id: NodeId, name: Option<Vec<u8>>) -> Self {
        let (path, given, on_disk, is_incomplete, no_paths) = (None, None, None, false, None);
        let (read_from, misplaced) = (Vec::new(), Arc::default());
        Self { tree, id, name, path, given, on_disk, is_incomplete, read_from, misplaced, no_paths }
    }

    /// The same, in a pack or an archive at these paths: no copy deletes or replaces it.
    pub(crate) fn in_these(self, read_from: Vec<PathBuf>) -> Self {
        Self { read_from, ..self }
    }

    /// What it is, or is in, on disk.
    pub(super) fn places(&self) -> impl Iterator<Item = &Path> {
        self.path.iter().chain(&self.read_from).map(PathBuf::as_path)
    }

    /// Notes the files that it is in, where these are not it itself.
    pub(super) fn note_files(&self, files: &mut Inodes) {
        files.extend(self.read_from.iter().filter_map(|path| inode_of(path)));
        self.tree.note_files(files);
    }

    /// The same, of which it is known what the tree has no place for: that is a failure each, if it
    /// is selected.
    pub(crate) fn without(self, misplaced: Vec<Misplaced>) -> Self {
        Self { misplaced: misplaced.into(), ..self }
    }

    /// The same, with names that are made up, and are not copied.
    pub(crate) fn with_no_paths(self, no_paths: Arc<dyn NoPaths>) -> Self {
        Self { no_paths: Some(no_paths), ..self }
    }

    /// The same with another tree in the place of all of its own: one that has what that has, and
    /// lies over it.
    pub(crate) fn with_tree(self, tree: Arc<dyn Tree>) -> Self {
        let (own, id) = (self.tree, tree.root());
        let no_paths = self
            .no_paths
            .map(|of_own| -> Arc<dyn NoPaths> { Arc::new(NoPathsBelow { tree: tree.clone(), own, of_own }) });
        Self { tree, id, no_paths, on_disk: None, ..self }
    }

    /// The same, of which it is known that something is missing: an archive that was cut off, a
    /// pack that is not finished. That is a failure, and a mirror of it deletes nothing.
    #[must_use]
    pub fn incomplete(self) -> Self {
        Self { is_incomplete: true, ..self }
    }

    /// Whether it is known that something is missing in it.
    pub fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// What the archive or the pack that it is has, and no tree of files can have.
    pub fn misplaced(&self) -> Vec<Failure> {
        let failure = |one: &Misplaced| {
            let error = crate::Error::io("read", self.tree.path(), io::Error::other(one.why.clone()));
            Failure { key: one.path.clone(), error }
        };
        self.misplaced.iter().map(failure).collect()
    }

    /// Why an entry of a directory is not copied, if its name is made up. Only the root has such.
    pub(super) fn refusal_in(&self, directory: NodeId, id: NodeId) -> Option<String> {
        let no_paths = self.no_paths.as_ref().filter(|_| directory == self.tree.root())?;
        no_paths.refusal(id)
    }

    /// Whether it lies on disk as it is.
    pub(super) fn is_on_disk(&self) -> bool {
        self.on_disk.is_some()
    }

    /// Whether what is mounted in it is left out.
    pub(super) fn is_on_one_file_system(&self) -> bool {
        self.on_disk.as_ref().is_some_and(|tree| tree.is_on_one_file_system())
    }

    /// Whether a directory of it is left out, because another file system is mounted there.
    pub(super) fn leaves_out(&self, id: NodeId) -> crate::Result<bool> {
        self.on_disk.as_ref().map_or(Ok(false), |tree| tree.leaves_out(id))
    }

    /// Device and inode of something in it, if it is on disk.
    pub(super) fn inode(&self, id: NodeId) -> crate::Result<Option<(u64, u64)>> {
        self.on_disk.as_ref().map(|tree| tree.inode(id)).transpose()
    }

    /// What has a path in it; `None` where nothing has, or nothing could have it.
    pub(super) fn find(&self, path: &[u8]) -> crate::Result<Option<NodeId>> {
        find_below(&*self.tree, self.id, path)
    }

    /// What has the name of an entry by now, in the directory that it was listed in; of the source
    /// itself, what has its path.
    pub(super) fn find_again(&self, parent: Option<NodeId>, key: &[u8]) -> crate::Result<Option<NodeId>> {
        let last = |key: &[u8]| key.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        match (parent, &self.path) {
            (Some(parent), _) => self.tree.lookup(parent, &last(key)),
            (None, Some(path)) if self.id != self.tree.root() => {
                self.tree.lookup(self.tree.root(), &last(path.as_os_str().as_bytes()))
            }
            (None, _) => Ok(Some(self.id)),
        }
    }

    /// Whether it is a directory.
    pub(super) fn is_directory(&self) -> Result<bool> {
        Ok(self.tree.node(self.id)?.kind == Kind::Directory)
    }
}

/// The last part of a path; `.` and `..` are resolved to have one. The root of all has none.
fn last_part(path: &Path) -> Result<Option<Vec<u8>>> {
    if let Some(name) = path.file_name() {
        return Ok(Some(name.as_bytes().to_vec()));
    }
    let resolved = path.canonicalize().map_err(|error| crate::Error::io("resolve", path, error))?;
    Ok(resolved.file_name().map(|name| name.as_bytes().to_vec()))
}

/// A tree with one file, whose bytes a source has.
#[derive(Debug)]
pub struct SingleFile {
    source: Arc<dyn Source>,
    name: Vec<u8>,
}

const ROOT: NodeId = NodeId::new(0);
const FILE: NodeId = NodeId::new(1);

impl SingleFile {
    /// The bytes of a source as a file of this name.
    ///
    /// # Errors
    /// That nothing can be called so.
    pub fn new(source: Arc<dyn Source>, name: impl Into<Vec<u8>>) -> Result<Self> {
        let name = name.into();
        match crate::tree::parts::check_name(&name) {
            Ok(()) => Ok(Self { source, name }),
            Err(why) => {
                let shown = source.path().display();
                Err(Error::Invalid(format!("the file that {shown} becomes needs a name: {why}")))
            }
        }
    }

    fn file(&self) -> Node {
        let identity = self.source.identity();
        let mtime_ns = Some(identity.mtime_ns).filter(|ns| *ns != 0);
        Node { mtime_ns, ..Node::file(self.source.len()) }
    }
}

impl Tree for SingleFile {
    fn path(&self) -> &Path {
        self.source.path()
    }

    fn root(&self) -> NodeId {
        ROOT
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> crate::Result<Option<NodeId>> {
        match parent {
            ROOT => Ok((name == self.name).then_some(FILE)),
            FILE => Err(not_a_directory("look into", self.path_of(FILE))),
            id => Err(unknown(self.path(), id)),
        }
    }

    fn list(&self, directory: NodeId, from: &Cursor, page: &mut Page) -> crate::Result<Option<Cursor>> {
        page.clear();
        match (directory, from) {
            (ROOT, Cursor::Start) => page.push(&self.name, FILE, self.file()),
            (ROOT, _) => return Err(foreign_cursor(self.path_of(ROOT))),
            (FILE, _) => return Err(not_a_directory("list", self.path_of(FILE))),
            (id, _) => return Err(unknown(self.path(), id)),
        }
        Ok(None)
    }

    fn node(&self, id: NodeId) -> crate::Result<Node> {
        match id {
            ROOT => Ok(Node::new(Kind::Directory)),
            FILE => Ok(self.file()),
            id => Err(unknown(self.path(), id)),
        }
    }

    fn path_of(&self, _: NodeId) -> PathBuf {
        self.path().to_path_buf()
    }

    fn link_target(&self, id: NodeId) -> crate::Result<Vec<u8>> {
        self.node(id)?;
        Err(crate::Error::io("read link", self.path_of(id), io::ErrorKind::InvalidInput.into()))
    }

    fn reads_by_request(&self, _: NodeId) -> bool {
        self.source.reads_by_request()
    }

    fn open(&self, id: NodeId) -> crate::Result<Arc<dyn Source>> {
        match self.node(id)?.kind {
            Kind::File => Ok(self.source.clone()),
            kind => Err(not_a_file(kind, self.path_of(id))),
        }
    }
}
