//! [`Routes`]: folders that change members of every archive in a tree that their paths name, and
//! [`routed()`]: that tree, with the changed archives as virtual files.

mod files;
mod matching;
mod nested;
mod routed;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

pub use self::routed::{Routed, RoutedFile, UnusedRoute, routed};
use super::bodies::Bodies;
use super::error::{Error, Result};
use super::file::{Parts, no_part};
use super::members::Members;
use super::part::WholeBody;
use crate::error;
use crate::names::escaped;
use crate::source::Source;
use crate::tree::{CaseRule, Cursor, Kind, Node, NodeId, Page, Tree};

/// Nodes of folders between two questions whether to go on.
const NODES_PER_LOOK: usize = 1024;

/// A folder of changes.
#[derive(Debug, Clone)]
pub struct RouteFolder {
    /// The tree that it is in.
    pub tree: Arc<dyn Tree>,
    /// Which directory of that tree.
    pub id: NodeId,
    /// Whether its files are files on disk: they have to have the time then that they were listed
    /// with.
    pub is_on_disk: bool,
}

/// Folders whose paths name archives, and members in them: `Game/Sound.afs/00012_theme.adx` in a
/// folder is for member 12 of each file of a tree whose path ends in `Game/Sound.afs`.
///
/// - Paths are compared by whole names, as [`CaseRule`] says; those of a tree begin at its root.
/// - What is below the path of an archive changes that archive as a tree of a
///   [`Patch`](super::Patch) does: it replaces, adds, and deletes (`NAME.del`).
/// - A later folder counts more. In one folder, the path with more names does: `Game/Sound.afs`
///   before `Sound.afs`.
/// - A directory that has the path of a member which is itself an archive changes that, to any
///   depth; also where the member comes from an earlier folder. A later folder with a file in its
///   place, or with a `.del`, ends what was changed until then.
/// - A file that is no archive stays as it is.
///
/// Folders are listed once. No link in them is followed, and none is a member: an archive that it
/// would change is an error. What is neither a file nor a directory nor a link is
/// [unused](Routed::unused).
///
/// What is changed consists of bytes of the tree and of the folders, and never of what comes out:
/// no file is a part of itself.
pub struct Routes {
    case: CaseRule,
    trees: Vec<(Arc<dyn Tree>, bool)>,
    /// Each after the directory that it is in; the roots of the folders first.
    nodes: Vec<RouteNode>,
    roots: u32,
    /// All files of all folders.
    files: Arc<Bodies>,
}

impl std::fmt::Debug for Routes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Routes")
            .field("case", &self.case)
            .field("nodes", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

/// What is in a folder, or the folder itself.
#[derive(Debug)]
struct RouteNode {
    /// Its folder, and what it is there.
    tree: u32,
    id: NodeId,
    node: Node,
    parent: u32,
    name: Box<[u8]>,
    /// How many names lead to it.
    depth: u32,
    /// By folded name.
    children: BTreeMap<Box<[u8]>, u32>,
    /// Whether anything but directories is in it, and the newest time of that.
    has_files: bool,
    newest_ns: i64,
    /// The number of a file among all files.
    number: u32,
}

impl Routes {
    /// Lists folders, the one that counts least first. `go_on` is asked now and then, with what was
    /// listed so far.
    ///
    /// # Errors
    /// What cannot be listed; [`Error::Change`] where case is ignored, and names of one directory
    /// differ in nothing else; [`Error::Interrupted`].
    pub fn of(
        folders: impl IntoIterator<Item = RouteFolder>,
        case: CaseRule,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Self> {
        let (mut trees, mut nodes) = (Vec::new(), Vec::new());
        for (folder, tree) in folders.into_iter().zip(0_u32..) {
            let node = folder.tree.node(folder.id)?;
            nodes.push(RouteNode::new((tree, folder.id, node), (0, Box::default()), 0));
            trees.push((folder.tree, folder.is_on_disk));
        }
        let (files, roots) = (Arc::new(Bodies::new(Arc::new(()))), nodes.len() as u32);
        let mut routes = Self { case, trees, nodes, roots, files };
        let mut at = 0;
        while at < routes.nodes.len() {
            if at.is_multiple_of(NODES_PER_LOOK) && !go_on(at as u64) {
                return Err(Error::Interrupted);
            }
            routes.list(at)?;
            at += 1;
        }
        routes.sum_up();
        routes.files = Arc::new(Bodies::new(Arc::new(routes.put_together()?)));
        Ok(routes)
    }

    fn node(&self, number: u32) -> Option<&RouteNode> {
        self.nodes.get(number as usize)
    }

    fn tree(&self, number: u32) -> Option<&Arc<dyn Tree>> {
        self.trees.get(number as usize).map(|(tree, _)| tree)
    }

    /// Where a node is, for messages.
    fn path_of(&self, node: &RouteNode) -> PathBuf {
        self.tree(node.tree).map(|tree| tree.path_of(node.id)).unwrap_or_default()
    }

    /// The path of a node in its folder.
    fn key_of(&self, node: &RouteNode) -> Vec<u8> {
        let (mut names, mut at) = (Vec::new(), node);
        while at.depth > 0 {
            names.push(&*at.name);
            let Some(parent) = self.node(at.parent) else { break };
            at = parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// Adds what is in a directory.
    fn list(&mut self, at: usize) -> Result<()> {
        let Some(directory) = self.nodes.get(at).filter(|node| node.node.kind == Kind::Directory) else {
            return Ok(());
        };
        let (tree_number, id, depth) = (directory.tree, directory.id, directory.depth.saturating_add(1));
        let Some(tree) = self.tree(tree_number).cloned() else { return Ok(()) };
        let mut children = BTreeMap::<Box<[u8]>, u32>::new();
        let (mut page, mut from) = (Page::new(), Some(Cursor::Start));
        while let Some(cursor) = from {
            from = tree.list(id, &cursor, &mut page)?;
            if let Some(error) = page.take_failures().into_iter().next() {
                return Err(error.into());
            }
            for entry in page.iter() {
                let node = entry.node.map_or_else(|| tree.node(entry.id), Ok)?;
                let number = u32::try_from(self.nodes.len()).ok().filter(|number| *number < u32::MAX / 4);
                let number = number.ok_or(Error::TooLong { pieces: self.nodes.len() })?;
                let folded = self.case.folded(entry.name).into_owned().into_boxed_slice();
                if let Some(other) = children.insert(folded, number).and_then(|other| self.node(other)) {
                    let key = tree.path_of(entry.id).as_os_str().as_bytes().to_vec();
                    let why =
                        format!("it differs from {} only in case, which is ignored", escaped(&other.name));
                    return Err(Error::Change { key, why });
                }
                let placed = (at as u32, entry.name.into());
                self.nodes.push(RouteNode::new((tree_number, entry.id, node), placed, depth));
            }
        }
        if let Some(directory) = self.nodes.get_mut(at) {
            directory.children = children;
        }
        Ok(())
    }

    /// What directories have of what is below them.
    fn sum_up(&mut self) {
        for at in (self.roots as usize..self.nodes.len()).rev() {
            let Some(node) = self.nodes.get(at) else { continue };
            let is_file = node.node.kind != Kind::Directory;
            let has_files = is_file || node.has_files;
            let newest_ns = if is_file { node.node.mtime_ns.unwrap_or(0) } else { node.newest_ns };
            let parent = node.parent as usize;
            if let Some(parent) = self.nodes.get_mut(parent) {
                parent.has_files |= has_files;
                parent.newest_ns = parent.newest_ns.max(newest_ns);
            }
        }
    }

    /// Numbers all files of all folders: however many are used, few are open.
    fn put_together(&mut self) -> Result<Files> {
        let mut members = Members::of_listed(self.trees.clone());
        for node in self.nodes.iter_mut().filter(|node| node.node.kind == Kind::File) {
            node.number = members.count()?;
            members.add_listed(node.name.to_vec(), (node.tree, node.id, &node.node), 0);
        }
        Ok(Files(members))
    }

    /// The bytes of a file of a folder.
    fn source(&self, node: &RouteNode) -> Arc<dyn Source> {
        Arc::new(WholeBody::new(self.files.clone(), node.number, self.path_of(node), node.node.len))
    }
}

impl RouteNode {
    fn new((tree, id, node): (u32, NodeId, Node), (parent, name): (u32, Box<[u8]>), depth: u32) -> Self {
        let (children, has_files, newest_ns, number) = (BTreeMap::new(), false, 0, 0);
        Self { tree, id, node, parent, name, depth, children, has_files, newest_ns, number }
    }
}

/// The files of all folders, by their numbers.
#[derive(Debug)]
struct Files(Members);

impl Parts for Files {
    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        self.0.open(number)
    }

    fn make(&self, number: u32, _bodies: &Bodies) -> error::Result<Bytes> {
        Err(no_part(number))
    }
}
