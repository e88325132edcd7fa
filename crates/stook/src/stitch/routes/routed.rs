//! [`routed`]: a tree with what routes make of its archives.

use std::path::PathBuf;
use std::sync::Arc;

use super::Routes;
use super::files::RoutedFiles;
use super::matching::Matching;
use crate::error;
use crate::stitch::error::{Error, Result};
use crate::stitch::layout::Laid;
use crate::stitch::members::order;
use crate::stitch::merged::MergedOpener;
use crate::tree::descent::descend;
use crate::tree::{CaseRule, Failure, Kind, Layer, Tree, Union};

/// A tree in which the archives that routes name are virtual files: see [`Routes`].
///
/// ```
/// use std::fs;
/// use std::sync::Arc;
///
/// use stook::stitch::{RouteFolder, Routes, routed};
/// use stook::tree::{CaseRule, Tree as _};
/// use stook::walk::DirectoryTree;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let (game, routes) = (directory.path().join("game"), directory.path().join("mod"));
/// fs::create_dir_all(game.join("data"))?;
/// fs::write(game.join("data/texts.tar"), [0; 1024])?; // a tar without members
/// fs::create_dir_all(routes.join("texts.tar"))?;
/// fs::write(routes.join("texts.tar/hello"), "hello")?;
///
/// let tree = Arc::new(DirectoryTree::open(&routes)?);
/// let folder = RouteFolder { id: tree.root(), tree, is_on_disk: true };
/// let routes = Routes::of([folder], CaseRule::Exact, &mut |_| true)?;
/// let routed = routed(Arc::new(DirectoryTree::open(&game)?), routes, &mut |_| true)?;
/// let tree = routed.tree();
/// let texts = tree.find(b"data/texts.tar")?.ok_or("it is there")?;
/// assert!(tree.node(texts)?.len > 1024, "a member more");
/// assert!(routed.unused().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Routed {
    tree: Arc<Union>,
    files: Arc<RoutedFiles>,
    failures: Vec<Failure<error::Error>>,
}

/// A file of the tree that routes name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutedFile {
    /// Its path in the tree.
    pub key: Vec<u8>,
    /// The directories that are for it, the one that counts least first.
    pub routes: Vec<PathBuf>,
}

/// Something in a folder that changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedRoute {
    /// The number of its folder, as they were given.
    pub folder: usize,
    /// Its path there.
    pub key: Vec<u8>,
    /// What it is. What is neither a file nor a link is never used.
    pub kind: Kind,
}

/// Finds the files of a tree that routes name: lists all of it, and reads nothing. `go_on` is asked
/// now and then, with the entries so far.
///
/// Each archive is laid out when it is asked for, that is where somebody wants to know how long it
/// is, or reads it: one that is damaged, or cannot be changed so, is an error of that file, and of
/// no other. What is not an archive is as it is in the tree.
///
/// # Errors
/// [`Error::Interrupted`]. What cannot be listed is one of the [`failures`](Routed::failures).
pub fn routed(tree: Arc<dyn Tree>, routes: Routes, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Routed> {
    let mut matching = Matching::new(&routes, go_on);
    if descend(&*tree, (tree.root(), Vec::new(), Vec::new()), &mut matching).is_break() {
        return Err(Error::Interrupted);
    }
    let Matching { mut matches, failures, .. } = matching;
    matches.sort_by(|one, other| order(&one.key, &other.key));
    let files = Arc::new(RoutedFiles::new(tree.clone(), Arc::new(routes), matches)?);
    let layers = [Layer::new(tree.clone()), Layer::new(files.clone())];
    let tree = Arc::new(Union::new(tree.path(), layers, CaseRule::Exact)?);
    Ok(Routed { tree, files, failures })
}

impl Routed {
    /// The tree. A file in it that was changed:
    /// - has the mode, the owner and the extended attributes of the archive, and the newest time of
    ///   the archive and of all that is in the directories for it;
    /// - is a file of its own, whatever other names the archive has;
    /// - is an error when it is read, if the archive or a file of a folder is not what it was.
    ///
    /// Archives that appear in the tree later are as they are.
    pub fn tree(&self) -> Arc<Union> {
        self.tree.clone()
    }

    /// Has changed files read from their merged copies, as a [`MergedOpener`] does it, when they
    /// are opened in the [tree](Self::tree) from now on. It counts once.
    pub fn use_merged(&self, opener: MergedOpener) {
        self.files.use_merged(opener);
    }

    /// The files that routes name, in the order of their paths.
    pub fn files(&self) -> impl Iterator<Item = RoutedFile> + '_ {
        let routes = self.files.routes();
        self.files.matches.iter().map(|one| {
            let directories = one.layers.iter().filter_map(|layer| routes.node(*layer));
            let paths = directories.map(|directory| routes.path_of(directory));
            RoutedFile { key: one.key.clone(), routes: paths.collect() }
        })
    }

    /// What became of the file with this position among the [`files`](Self::files); `None` if it is
    /// no archive.
    ///
    /// # Errors
    /// What reading the archive meets, and what cannot be changed in it.
    pub fn laid(&self, position: usize) -> error::Result<Option<Arc<Laid>>> {
        self.files.laid(position)
    }

    /// What could not be listed of the tree.
    pub fn failures(&self) -> &[Failure<error::Error>] {
        &self.failures
    }

    /// Takes these away.
    pub fn take_failures(&mut self) -> Vec<Failure<error::Error>> {
        std::mem::take(&mut self.failures)
    }

    /// What is in the folders for nothing: no file of the tree has the path of a directory that it
    /// is in, or those that have are no archives. Whatever is for an archive that could not be read
    /// counts as used. All files are opened, and looked at, that were not yet.
    pub fn unused(&self) -> Vec<UnusedRoute> {
        let routes = self.files.routes();
        let mut is_used = vec![false; routes.nodes.len()];
        for (number, one) in self.files.matches.iter().enumerate() {
            if self.files.is_archive(number).unwrap_or(true) {
                for layer in &one.layers {
                    if let Some(slot) = is_used.get_mut(*layer as usize) {
                        *slot = true;
                    }
                }
            }
        }
        let mut unused = Vec::new();
        for (at, node) in routes.nodes.iter().enumerate().skip(routes.roots as usize) {
            let is_in_used = is_used.get(node.parent as usize).copied().unwrap_or(false);
            if let Some(slot) = is_used.get_mut(at) {
                *slot |= is_in_used;
            }
            let is_never = !matches!(node.node.kind, Kind::File | Kind::Symlink | Kind::Directory);
            let is_end = node.node.kind != Kind::Directory || node.children.is_empty();
            if is_end && (is_never || !is_used.get(at).copied().unwrap_or(false)) {
                let folder = node.tree as usize;
                unused.push(UnusedRoute { folder, key: routes.key_of(node), kind: node.node.kind });
            }
        }
        unused
    }
}
