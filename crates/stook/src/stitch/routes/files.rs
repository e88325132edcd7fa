//! [`RoutedFiles`]: the files of a tree that routes change, as a tree of their own, which lies over
//! it.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;

use super::Routes;
use super::matching::Match;
use super::nested;
use crate::engine::File;
use crate::error::{Error, Result};
use crate::source::{Identity, Source};
use crate::stitch::bodies::Bodies;
use crate::stitch::error::Error as StitchError;
use crate::stitch::file::{Parts, no_part};
use crate::stitch::layout::Laid;
use crate::stitch::merged::{MergedOpener, MergedUse};
use crate::stitch::part::WholeBody;
use crate::stitch::patch::Patch;
use crate::tree::{
    Cursor, Holes, Kind, Node, NodeId, NodeTable, NodeTableBuilder, Page, Tree, Xattrs, not_a_directory,
    not_a_file, unknown,
};

/// Members of archives that stay laid out when they are not in use, in all: about 200 bytes each.
const KEPT_MEMBERS: usize = 1 << 18;

/// The changed files, each laid out when it is asked for.
#[derive(Debug)]
pub(super) struct RoutedFiles {
    tree: Arc<dyn Tree>,
    routes: Arc<Routes>,
    /// Names, and what is a file; the rest is asked of the tree.
    table: NodeTable,
    /// The node of the table that each file is, in order.
    numbers: Vec<NodeId>,
    pub(super) matches: Vec<Match>,
    looked: Vec<Mutex<Looked>>,
    /// These files as they are in the tree: however many they are, few are open.
    originals: Arc<Bodies>,
    kept: Mutex<Kept>,
    /// Where copies of changed files are, if there are any.
    merged: OnceLock<MergedOpener>,
}

/// What was laid out last, and how many members that has.
#[derive(Debug, Default)]
struct Kept {
    laid: VecDeque<Arc<Laid>>,
    members: usize,
}

/// What was found of a file.
#[derive(Debug, Default)]
struct Looked {
    is_archive: Option<bool>,
    laid: Weak<Laid>,
    used: Arc<MergedUse>,
}

impl RoutedFiles {
    pub(super) fn new(tree: Arc<dyn Tree>, routes: Arc<Routes>, matches: Vec<Match>) -> Result<Self> {
        let mut builder = NodeTableBuilder::new(tree.path());
        let numbers =
            matches.iter().map(|one| builder.add(&one.key, Node::file(0))).collect::<Result<Vec<_>>>()?;
        let (table, refusals) = builder.finish();
        if let Some((_, error)) = refusals.into_iter().next() {
            return Err(error);
        }
        let looked = matches.iter().map(|_| Mutex::default()).collect();
        let listed =
            ListedFiles { tree: tree.clone(), files: matches.iter().map(|one| (one.id, one.node)).collect() };
        let originals = Arc::new(Bodies::new(Arc::new(listed)));
        let (kept, merged) = (Mutex::default(), OnceLock::new());
        Ok(Self { tree, routes, table, numbers, matches, looked, originals, kept, merged })
    }

    /// Has changed files read from their copies from now on.
    pub(super) fn use_merged(&self, opener: MergedOpener) {
        self.merged.get_or_init(|| opener);
    }

    pub(super) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Whether a file is an archive. It is looked at once.
    pub(super) fn is_archive(&self, number: usize) -> Result<bool> {
        let (one, mut looked) = self.looked(number)?;
        match looked.is_archive {
            Some(is_archive) => Ok(is_archive),
            None => self.recognise(&mut looked, one, &self.source(number, one)),
        }
    }

    fn recognise(&self, looked: &mut Looked, one: &Match, source: &dyn Source) -> Result<bool> {
        let is_archive = Patch::is_archive(source).map_err(|error| self.error_of(one, error))?;
        looked.is_archive = Some(is_archive);
        Ok(is_archive)
    }

    /// What has become of a file; `None` if it is no archive, and stays as it is.
    pub(super) fn laid(&self, number: usize) -> Result<Option<Arc<Laid>>> {
        let (one, mut looked) = self.looked(number)?;
        if looked.is_archive == Some(false) {
            return Ok(None);
        }
        if let Some(laid) = looked.laid.upgrade() {
            return Ok(Some(laid));
        }
        let archive = self.source(number, one);
        if looked.is_archive.is_none() && !self.recognise(&mut looked, one, &archive)? {
            return Ok(None);
        }
        let path = self.tree.path_of(one.id);
        let laid = nested::lay_out(&self.routes, (path, Arc::new(archive)), &one.layers, 1);
        let laid = Arc::new(laid.map_err(|error| self.error_of(one, error))?);
        looked.laid = Arc::downgrade(&laid);
        drop(looked);
        self.keep(&laid);
        Ok(Some(laid))
    }

    fn looked(&self, number: usize) -> Result<(&Match, MutexGuard<'_, Looked>)> {
        let found = self.matches.get(number).zip(self.looked.get(number));
        let (one, looked) = found.ok_or_else(|| unknown(self.tree.path(), NodeId::new(number as u64)))?;
        Ok((one, looked.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// A file as it is in the tree.
    fn source(&self, number: usize, one: &Match) -> WholeBody {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        WholeBody::new(self.originals.clone(), number, self.tree.path_of(one.id), one.node.len)
    }

    fn keep(&self, laid: &Arc<Laid>) {
        let members = |laid: &Laid| laid.members.all().len().saturating_add(1);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.members = kept.members.saturating_add(members(laid));
        kept.laid.push_back(laid.clone());
        while kept.members > KEPT_MEMBERS && kept.laid.len() > 1 {
            let Some(first) = kept.laid.pop_front() else { break };
            kept.members = kept.members.saturating_sub(members(&first));
        }
    }

    /// Names the archive for which something cannot be done.
    fn error_of(&self, one: &Match, error: StitchError) -> Error {
        match error {
            StitchError::Core(error) => error,
            other => {
                let what = io::Error::new(io::ErrorKind::InvalidInput, other.to_string());
                Error::io("apply routes to", self.tree.path_of(one.id), what)
            }
        }
    }

    /// The number of a file; `None` of a directory.
    fn number(&self, id: NodeId) -> Result<Option<usize>> {
        let is_directory = self.table.node(id)?.kind == Kind::Directory;
        // The table gives its numbers to files and to their directories as they come.
        Ok(if is_directory { None } else { self.numbers.binary_search(&id).ok() })
    }

    /// The node of the tree that a node of the table stands for.
    fn below(&self, id: NodeId) -> Result<NodeId> {
        if let Some(one) = self.number(id)?.and_then(|number| self.matches.get(number)) {
            return Ok(one.id);
        }
        let key = self.table.key_of(id).unwrap_or_default();
        let gone = || Error::io("look into", self.path_of(id), io::ErrorKind::NotFound.into());
        self.tree.find(&key)?.ok_or_else(gone)
    }

    fn file(&self, id: NodeId) -> Result<usize> {
        self.number(id)?.ok_or_else(|| not_a_file(Kind::Directory, self.path_of(id)))
    }
}

/// Files of a tree that are what they were when they were listed.
#[derive(Debug)]
struct ListedFiles {
    tree: Arc<dyn Tree>,
    files: Vec<(NodeId, Node)>,
}

impl Parts for ListedFiles {
    fn open(&self, number: u32) -> Result<Arc<dyn Source>> {
        let (id, node) = self.files.get(number as usize).ok_or_else(|| no_part(number))?;
        let source = self.tree.open(*id)?;
        let found = source.identity();
        if found.len == node.len {
            return Ok(source);
        }
        let listed = Identity { len: node.len, mtime_ns: node.mtime_ns.unwrap_or(0), ..Identity::default() };
        Err(Error::changed(source.path(), listed, found))
    }

    fn make(&self, number: u32, _bodies: &Bodies) -> Result<Bytes> {
        Err(no_part(number))
    }
}

impl Tree for RoutedFiles {
    fn path(&self) -> &Path {
        self.tree.path()
    }

    fn root(&self) -> NodeId {
        self.table.root()
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        if self.number(parent)?.is_some() {
            return Err(not_a_directory("look into", self.path_of(parent)));
        }
        self.table.lookup(parent, name)
    }

    fn list(&self, directory: NodeId, from: &Cursor, page: &mut Page) -> Result<Option<Cursor>> {
        let mut names = Page::new();
        let next = self.table.list(directory, from, &mut names)?;
        page.clear();
        names.iter().for_each(|entry| page.push_name(entry.name, entry.id, entry.kind));
        Ok(next)
    }

    fn node(&self, id: NodeId) -> Result<Node> {
        let node = self.tree.node(self.below(id)?)?;
        let Some(number) = self.number(id)? else { return Ok(node) };
        let Some(laid) = self.laid(number)? else { return Ok(node) };
        let layers = self.matches.get(number).map(|one| &*one.layers).unwrap_or_default();
        let newest_ns = layers.iter().filter_map(|layer| Some(self.routes.node(*layer)?.newest_ns)).max();
        let mtime_ns = node.mtime_ns.max(newest_ns.filter(|_| node.mtime_ns.is_some()));
        Ok(Node { len: laid.file.len(), links: 1, mtime_ns, ..node })
    }

    /// No archive is laid out for it: a damaged one is there, and is an error when it is asked for.
    fn kind(&self, id: NodeId) -> Result<Kind> {
        self.tree.node(self.below(id)?)?;
        self.table.node(id).map(|node| node.kind)
    }

    fn path_of(&self, id: NodeId) -> PathBuf {
        self.table.path_of(id)
    }

    fn hiding(&self) -> Vec<Error> {
        self.tree.hiding()
    }

    fn link_target(&self, id: NodeId) -> Result<Vec<u8>> {
        self.tree.link_target(self.below(id)?)
    }

    fn xattrs(&self, id: NodeId) -> Result<Xattrs> {
        self.tree.xattrs(self.below(id)?)
    }

    fn open(&self, id: NodeId) -> Result<Arc<dyn Source>> {
        let number = self.file(id)?;
        let Some(laid) = self.laid(number)? else { return self.tree.open(self.below(id)?) };
        let Some(merged) = self.merged.get() else { return Ok(Arc::new(laid.file.clone())) };
        let used = self.looked(number)?.1.used.clone();
        Ok(merged.open(&laid.file, &used))
    }

    fn holes(&self, id: NodeId) -> Result<Holes> {
        match self.laid(self.file(id)?)? {
            Some(_) => Ok(Holes::default()),
            None => self.tree.holes(self.below(id)?),
        }
    }

    /// Of a changed file none: its copy belongs to the cache.
    fn whole_file(&self, id: NodeId) -> Result<Option<Arc<File>>> {
        let Some(number) = self.number(id)? else { return Ok(None) };
        match self.laid(number)? {
            Some(_) => Ok(None),
            None => self.tree.whole_file(self.below(id)?),
        }
    }
}
