//! [`Subject`]: a tree that is verified, and what says what it should have.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::Result;
use super::expected::Expected;
use crate::names::Selection;
use crate::tree::descent::joined;
use crate::tree::outbox::is_temporary;
use crate::tree::{Kind, NodeId, Tree, find_below, not_a_file};
use crate::walk::DirectoryTree;

/// A file of a tree, or a directory of it with all that is in it.
#[derive(Debug, Clone)]
pub struct Branch {
    /// The tree.
    pub tree: Arc<dyn Tree>,
    /// Which file or directory of it.
    pub id: NodeId,
    /// Of a file: what it is called, which is its path in lists.
    pub name: Vec<u8>,
    /// Whether its files are files on disk, each by itself.
    pub is_on_disk: bool,
    /// The file or directory that its bytes are in, if that is on disk: it shows the device.
    pub lies_in: Option<PathBuf>,
    /// Where it is, as the caller gave it, if its tree would say it otherwise.
    pub given: Option<PathBuf>,
}

impl Branch {
    /// A directory on disk. A link is followed, because the caller named it.
    ///
    /// # Errors
    /// I/O errors; that it is no directory.
    pub fn directory(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Ok(Self::of_directory(DirectoryTree::open(path)?, path))
    }

    /// The same without file systems of a kind that are mounted below it: those are empty.
    pub(crate) fn directory_without_mounts_of(path: &Path, kind: &'static str) -> crate::Result<Self> {
        Ok(Self::of_directory(DirectoryTree::open(path)?.without_mounts_of(kind), path))
    }

    fn of_directory(tree: DirectoryTree, path: &Path) -> Self {
        let (id, lies_in) = (tree.root(), Some(path.to_path_buf()));
        Self { tree: Arc::new(tree), id, name: Vec::new(), is_on_disk: true, lies_in, given: None }
    }

    /// A file on disk; where it is a link, what that leads to, under the name that was given.
    ///
    /// # Errors
    /// I/O errors; that it is no regular file.
    pub fn file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |error| crate::Error::io("open", path, error);
        let resolved = path.canonicalize().map_err(failed)?;
        let (Some(parent), Some(last)) = (resolved.parent(), resolved.file_name()) else {
            return Err(failed(io::ErrorKind::IsADirectory.into()).into());
        };
        let tree = DirectoryTree::open(parent)?;
        let found = tree.lookup(tree.root(), last.as_bytes())?;
        let id = found.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let kind = tree.node(id)?.kind;
        if kind != Kind::File {
            return Err(not_a_file(kind, path.to_path_buf()).into());
        }
        let name = path.file_name().unwrap_or(last).as_bytes().to_vec();
        let (lies_in, given) = (Some(resolved), Some(path.to_path_buf()));
        Ok(Self { tree: Arc::new(tree), id, name, is_on_disk: true, lies_in, given })
    }

    /// All of a tree that is no directory on disk.
    pub fn tree(tree: Arc<dyn Tree>) -> Self {
        let id = tree.root();
        Self { tree, id, name: Vec::new(), is_on_disk: false, lies_in: None, given: None }
    }

    /// Where it is, for messages.
    pub fn path(&self) -> PathBuf {
        self.given.clone().unwrap_or_else(|| self.tree.path_of(self.id))
    }

    /// What it is.
    pub(super) fn kind(&self) -> crate::Result<Kind> {
        self.tree.node(self.id).map(|node| node.kind)
    }

    /// What has a path in it; `None` where nothing has, or nothing could have it. A file has its
    /// name.
    pub(crate) fn find(&self, key: &[u8]) -> crate::Result<Option<NodeId>> {
        match self.kind()? {
            Kind::Directory => find_below(&*self.tree, self.id, key),
            _ => Ok((key == self.name).then_some(self.id)),
        }
    }
}

/// A tree that is verified.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The tree.
    pub branch: Branch,
    /// What lists say of its files.
    pub listed: Option<Arc<Expected>>,
    /// The tree that it should be like.
    pub against: Option<Branch>,
    /// Paths that are neither extra nor missing nor compared, with all that is in them: the lists
    /// of either tree. Those that lists have are held against these, all the same.
    pub left_out: BTreeSet<Vec<u8>>,
    /// What its exclusions match is no extra either.
    pub ignored: Selection,
    /// Where the tree lies in the one whose paths `ignored` is about; empty if that is itself.
    pub ignored_below: Vec<u8>,
    /// Nothing is looked for but what lists have: nothing is an extra.
    pub only_listed: bool,
}

impl Subject {
    /// A tree of which nothing is known yet.
    pub fn new(branch: Branch) -> Self {
        let (left_out, ignored, ignored_below) = <(BTreeSet<_>, Selection, _)>::default();
        Self { branch, listed: None, against: None, left_out, ignored, ignored_below, only_listed: false }
    }

    /// Whether a path that only one side has is no extra.
    pub(super) fn leaves_out(&self, key: &[u8], is_directory: bool) -> bool {
        let is_ignored = || self.ignored.excludes(&joined(&self.ignored_below, key), is_directory);
        // What a run that was killed left is removed by the next one.
        let is_leftover = || key.rsplit(|byte| *byte == b'/').next().is_some_and(is_temporary);
        self.left_out.contains(key) || is_leftover() || is_ignored()
    }

    /// The same, with what lists say of its files.
    #[must_use]
    pub fn listed(self, expected: impl Into<Arc<Expected>>) -> Self {
        Self { listed: Some(expected.into()), ..self }
    }

    /// The same, compared with another tree.
    #[must_use]
    pub fn against(self, other: Branch) -> Self {
        Self { against: Some(other), ..self }
    }
}
