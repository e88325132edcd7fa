//! [`Served`]: what is served, and [`Opened`]: the same as one request sees it.

use std::io;
use std::sync::Arc;

use stook::copy::{self, CopySource};
use stook::tree::{Kind, NodeId, Tree};

use crate::error::{Error, Result};

/// What is served.
#[derive(Debug)]
pub(crate) struct Served(pub(crate) CopySource);

/// What is served, for one request. A tree on disk is opened for each: it remembers all that was
/// met in it, which would grow for as long as the server runs.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) tree: Arc<dyn Tree>,
    /// The directory that is the root of all paths, or the only file.
    pub(crate) root: NodeId,
    /// Whether its files are files on disk, which may change.
    pub(crate) is_on_disk: bool,
    /// The name of the only file, which is the one entry of the root then.
    pub(crate) only: Option<Vec<u8>>,
    /// Whether it is known that something is missing in it.
    pub(crate) is_incomplete: bool,
    /// What it is called.
    pub(crate) name: Vec<u8>,
}

impl Served {
    /// The same, with an error of the core: what else may be wrong with what was opened once is one
    /// as well.
    pub(crate) fn reopen(&self) -> stook::Result<Opened> {
        self.open().map_err(|error| match error {
            Error::Core(error) | Error::Copy(copy::Error::Core(error)) => error,
            error => stook::Error::io("open", self.0.in_tree().0.path(), io::Error::other(error)),
        })
    }

    pub(crate) fn open(&self) -> Result<Opened> {
        let reopened = self.0.reopened()?;
        let source = reopened.as_ref().unwrap_or(&self.0);
        let (tree, root, is_on_disk) = source.in_tree();
        let name = source.name().unwrap_or(b"files").to_vec();
        let only = (tree.kind(root)? != Kind::Directory).then(|| name.clone());
        let is_incomplete = source.is_incomplete();
        Ok(Opened { tree, root, is_on_disk, only, is_incomplete, name })
    }
}
