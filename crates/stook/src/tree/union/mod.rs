//! [`Union`]: several trees under one root.
//!
//! Every name is looked for in one tree after another, from the last to the first. What is found
//! first counts; directories of earlier trees are merged with a directory until one of them has
//! something else of that name, which hides the rest. So a directory of the union is the list of
//! those that it is made of, and nothing is read before it is asked for.
//!
//! A listing goes through these lists one after another, and passes over what an earlier one of
//! them has: that takes a look-up for each entry and tree above, and no memory but a page. It could
//! not be a merge of sorted lists, because most trees list in an order of their own.

mod case;
mod cursor;
mod deletions;
mod known;
mod names;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::case::CaseRule;
use self::deletions::Deletions;
use self::known::{Known, Merged, Part, What};
use self::names::{FoldedNames, NamesCache};
use super::any::{Tree, foreign_cursor, not_a_directory, not_a_file, unknown};
use super::facts::Fact;
use super::gather::{Deliver, GatherOptions, Gathered};
use super::holes::Holes;
use super::node::{InodeState, Kind, Node, NodeId};
use super::page::{Cursor, Entry, Page};
use super::parts;
use super::xattrs::Xattrs;
use crate::engine::{EngineFactory, File};
use crate::error::{Error, Result};
use crate::source::{Inodes, Source};

/// One of the trees of a [`Union`], and what it deletes from those before it.
#[derive(Debug, Clone)]
pub struct Layer {
    tree: Arc<dyn Tree>,
    deleted: Vec<Vec<u8>>,
}

impl Layer {
    /// A tree that deletes nothing.
    pub fn new(tree: Arc<dyn Tree>) -> Self {
        Self { tree, deleted: Vec::new() }
    }

    /// With a path, relative to the root, at which nothing of the trees before this one is seen,
    /// nor below it. What this tree has there, and those after it, is. A directory that is deleted
    /// and is in this tree is one that is not merged with those before; the empty path deletes all.
    #[must_use]
    pub fn deleting(mut self, path: impl Into<Vec<u8>>) -> Self {
        self.deleted.push(path.into());
        self
    }
}

/// Several trees under one root, of which the later counts.
///
/// - What the last tree that has a path has there is seen: its kind, its bytes, its attributes. A
///   file in a later tree hides a directory of an earlier one with everything below. Only whole
///   names are compared.
/// - Directories of the same path are one, with the attributes of the last.
/// - What a tree [deletes](Layer::deleting) is not seen of those before it.
/// - Where [case is ignored](CaseRule::Ignored), names of one tree that differ only in case are one
///   name too. The first of them in the order of bytes counts (`README` before `readme`), as if it
///   were in a later tree; directories among them are merged. Listings have the name that counts,
///   and any of them finds it: [`lookup_named`](Self::lookup_named) says which it is. For this the
///   names of the directories that were looked into last are held in memory, 64 MiB of them, and
///   at least those of the directory at hand. They are read again when the directory has another
///   modification time: a tree that changes without is not for such a union.
///
/// Beside what [`Tree`] says:
/// - names of a file that are hidden still count as names of it;
/// - a directory is made of those that it was made of when it was met. Where one comes, goes or is
///   replaced, the name has another id when it is met again;
/// - each node that was met takes about 120 bytes, and its name;
/// - errors of a tree name the path in that tree;
/// - a listing during which an entry moves from one tree to another may miss it, or have it twice.
///
/// ```
/// use std::sync::Arc;
///
/// use stook::tree::{CaseRule, Layer, Tree, Union};
/// use stook::walk::DirectoryTree;
///
/// let directory = tempfile::tempdir()?;
/// for (path, text) in [("game/map.txt", "plain"), ("game/help.txt", "?"), ("mod/Map.txt", "better")] {
///     let path = directory.path().join(path);
///     std::fs::create_dir_all(path.parent().ok_or("it has one")?)?;
///     std::fs::write(path, text)?;
/// }
/// let game = Layer::new(Arc::new(DirectoryTree::open(directory.path().join("game"))?));
/// let changes = Layer::new(Arc::new(DirectoryTree::open(directory.path().join("mod"))?));
/// let union = Union::new("game", [game, changes.deleting("help.txt")], CaseRule::Ignored)?;
///
/// let (name, map) = union.lookup_named(union.root(), b"MAP.TXT")?.ok_or("it is there")?;
/// assert_eq!((name.as_slice(), union.node(map)?.len), (&b"Map.txt"[..], 6));
/// assert_eq!(union.find(b"help.txt")?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Union {
    path: PathBuf,
    trees: Vec<Arc<dyn Tree>>,
    case: CaseRule,
    deletions: Deletions,
    known: Mutex<Known>,
    /// Where case is ignored.
    names: Mutex<NamesCache>,
}

/// An entry of one of the directories that are merged.
#[derive(Debug, Clone, Copy)]
struct Listed<'a> {
    /// Which of them.
    at: usize,
    name: &'a [u8],
    id: NodeId,
    kind: Option<Kind>,
}

/// What has a name in a directory of the union.
#[derive(Debug)]
struct Found<'a> {
    /// The name that counts.
    name: Cow<'a, [u8]>,
    kind: Kind,
    /// What counts and, where that is a directory, those it is merged with.
    parts: Vec<Part>,
    deleted: Option<u32>,
}

impl Found<'_> {
    fn into_what(self) -> Option<What> {
        match self.kind {
            Kind::Directory => {
                let parts = self.parts.into_boxed_slice();
                Some(What::Directory(Arc::new(Merged { parts, deleted: self.deleted })))
            }
            kind => self.parts.first().map(|part| What::Other(kind, *part)),
        }
    }
}

/// A directory while names are looked for in it.
#[derive(Debug)]
struct View<'a> {
    directory: &'a Merged,
    /// Where case is ignored, its names in each of its parts, once they were needed.
    names: Vec<Option<Arc<FoldedNames>>>,
}

impl<'a> View<'a> {
    fn new(directory: &'a Merged) -> Self {
        Self { directory, names: vec![None; directory.parts.len()] }
    }
}

impl Union {
    /// The union of these trees, the one that counts least first. `path` is what it is called in
    /// messages.
    ///
    /// # Errors
    /// [`Error::Entry`] for a path to be deleted that nothing can have.
    pub fn new(
        path: impl Into<PathBuf>,
        layers: impl IntoIterator<Item = Layer>,
        case: CaseRule,
    ) -> Result<Self> {
        let (path, mut trees, mut deletions) = (path.into(), Vec::new(), Deletions::new());
        for (layer, number) in layers.into_iter().zip(0_u32..) {
            for deleted in &layer.deleted {
                let refused = |what: &str| {
                    let path = path.join(OsStr::from_bytes(deleted));
                    Error::Entry { path, what: what.into() }
                };
                let names = parts::split(deleted).map_err(refused)?;
                deletions.add(names.map(|name| case.folded(name).into_owned().into_boxed_slice()), number);
            }
            trees.push(layer.tree);
        }
        let numbered = trees.iter().zip(0_u32..);
        let seen = numbered.filter(|(_, layer)| *layer >= deletions.lowest_seen_at_root());
        let mut roots: Vec<Part> = seen.map(|(tree, layer)| Part { layer, id: tree.root() }).collect();
        roots.reverse();
        let root = Merged { parts: roots.into(), deleted: deletions.root() };
        let (known, names) = (Mutex::new(Known::new(root)), Mutex::default());
        Ok(Self { path, trees, case, deletions, known, names })
    }

    /// As [`lookup`](Tree::lookup), with the name that counts, under which it is listed: another
    /// than the one that was asked for only where case is ignored.
    ///
    /// # Errors
    /// As there.
    pub fn lookup_named(&self, parent: NodeId, name: &[u8]) -> Result<Option<(Vec<u8>, NodeId)>> {
        let merged = self.directory("look into", parent)?;
        if parts::check_name(name).is_err() {
            return Ok(None);
        }
        let found = self.resolve(&mut View::new(&merged), name, None)?;
        Ok(found.and_then(|found| {
            let name = found.name.to_vec();
            self.meet(parent, found).map(|id| (name, id))
        }))
    }

    /// Which of the trees a node is of, as they were given; of a directory, the last that it is
    /// merged of. `None` for an id that the union never gave, and for the root of a union of
    /// nothing.
    pub fn layer_of(&self, id: NodeId) -> Option<usize> {
        let part = lock(&self.known).what(id)?.part()?;
        usize::try_from(part.layer).ok()
    }

    fn what(&self, id: NodeId) -> Result<What> {
        lock(&self.known).what(id).ok_or_else(|| unknown(&self.path, id))
    }

    fn tree(&self, part: Part) -> Result<&dyn Tree> {
        let tree = usize::try_from(part.layer).ok().and_then(|layer| self.trees.get(layer));
        tree.map(|tree| &**tree).ok_or_else(|| unknown(&self.path, part.id))
    }

    fn directory(&self, operation: &'static str, id: NodeId) -> Result<Arc<Merged>> {
        match self.what(id)? {
            What::Directory(merged) => Ok(merged),
            What::Other(..) => Err(not_a_directory(operation, self.path_of(id))),
        }
    }

    /// The node that has the bytes of a file.
    fn file(&self, id: NodeId) -> Result<Part> {
        match self.what(id)? {
            What::Other(Kind::File, part) => Ok(part),
            what => Err(not_a_file(what.kind(), self.path_of(id))),
        }
    }

    fn meet(&self, parent: NodeId, found: Found<'_>) -> Option<NodeId> {
        let name = found.name.to_vec();
        let what = found.into_what()?;
        Some(lock(&self.known).meet(parent, &name, what))
    }

    /// What has a name in a directory. Where it was listed, only if it is that entry that counts.
    fn resolve<'n>(
        &self,
        view: &mut View<'_>,
        name: &'n [u8],
        listed: Option<Listed<'_>>,
    ) -> Result<Option<Found<'n>>> {
        let (directory, folded) = (view.directory, self.case.folded(name));
        let deleted = self.deletions.child(directory.deleted, &folded);
        let lowest = self.deletions.lowest_seen(deleted);
        let mut found: Option<Found<'n>> = None;
        // Later layers come first.
        let seen = directory.parts.iter().take_while(|part| part.layer >= lowest);
        for (at, &part) in seen.enumerate() {
            let here = listed.filter(|listed| listed.at == at);
            for (called, id) in self.called(view, at, part, (name, &*folded), here)? {
                let here = here.filter(|listed| *listed.name == *called);
                let part = Part { id, ..part };
                let known = here.and_then(|listed| listed.kind);
                let Some(kind) = known.map_or_else(|| self.kind_of(part), |kind| Ok(Some(kind)))? else {
                    continue;
                };
                match &mut found {
                    None if listed.is_some() && here.is_none() => return Ok(None),
                    None => found = Some(Found { name: called, kind, parts: vec![part], deleted }),
                    Some(found) if kind == Kind::Directory => found.parts.push(part),
                    Some(_) => return Ok(found),
                }
                if kind != Kind::Directory {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    /// What one of the merged directories has of a name, which is given as it is and folded: the
    /// first counts first.
    fn called<'n>(
        &self,
        view: &mut View<'_>,
        at: usize,
        part: Part,
        (name, folded): (&'n [u8], &[u8]),
        listed: Option<Listed<'_>>,
    ) -> Result<Vec<(Cow<'n, [u8]>, NodeId)>> {
        let tree = self.tree(part)?;
        let look_up = |name: &[u8]| match listed {
            Some(listed) if *listed.name == *name => Ok(Some(listed.id)),
            _ => tree.lookup(part.id, name),
        };
        if self.case == CaseRule::Exact {
            return Ok(look_up(name)?.map(|id| (Cow::Borrowed(name), id)).into_iter().collect());
        }
        let names = self.names_of(view, at, part)?;
        // The name itself may have come since the names were read.
        let called: BTreeSet<&[u8]> = names.called(folded).chain([name]).collect();
        let mut all = Vec::new();
        for one in called {
            if let Some(id) = look_up(one)? {
                all.push((Cow::Owned(one.to_vec()), id));
            }
        }
        Ok(all)
    }

    /// The names of one of the merged directories, for as long as names are looked for in it.
    fn names_of(&self, view: &mut View<'_>, at: usize, part: Part) -> Result<Arc<FoldedNames>> {
        if let Some(Some(names)) = view.names.get(at) {
            return Ok(Arc::clone(names));
        }
        let tree = self.tree(part)?;
        let mtime_ns = tree.node(part.id)?.mtime_ns;
        let kept = lock(&self.names).get(part).filter(|names| names.are_those_of(mtime_ns));
        let names = match kept {
            Some(names) => names,
            None => {
                let names = Arc::new(FoldedNames::read(tree, part.id, mtime_ns)?);
                lock(&self.names).keep(part, Arc::clone(&names));
                names
            }
        };
        if let Some(place) = view.names.get_mut(at) {
            *place = Some(Arc::clone(&names));
        }
        Ok(names)
    }

    /// What kind a node of a tree is; `None` for what is gone.
    fn kind_of(&self, part: Part) -> Result<Option<Kind>> {
        if let Some(kind) = lock(&self.known).kind_of(part) {
            return Ok(Some(kind));
        }
        match self.tree(part)?.kind(part.id) {
            Ok(kind) => Ok(Some(kind)),
            Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts an entry of one of the merged directories on the page, if it is the one that counts.
    fn list_one(
        &self,
        directory: NodeId,
        view: &mut View<'_>,
        at: usize,
        entry: &Entry<'_>,
        page: &mut Page,
    ) {
        let listed = Listed { at, name: entry.name, id: entry.id, kind: entry.kind };
        let found = match self.resolve(view, entry.name, Some(listed)) {
            Ok(Some(found)) => found,
            Ok(None) => return,
            Err(error) => return page.push_failure(error),
        };
        let kind = found.kind;
        let Some(id) = self.meet(directory, found) else { return };
        match (entry.node, entry.inode) {
            (Some(node), Some(inode)) => page.push_inode(entry.name, id, node, inode),
            (Some(node), None) => page.push(entry.name, id, node),
            (None, _) => page.push_name(entry.name, id, Some(kind)),
        }
    }
}

impl Tree for Union {
    fn path(&self) -> &Path {
        &self.path
    }

    fn root(&self) -> NodeId {
        NodeId::new(0)
    }

    fn note_files(&self, files: &mut Inodes) {
        self.trees.iter().for_each(|tree| tree.note_files(files));
    }

    fn is_fixed(&self) -> bool {
        self.trees.iter().all(|tree| tree.is_fixed())
    }

    fn has_xattrs(&self) -> bool {
        self.trees.iter().any(|tree| tree.has_xattrs())
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        Ok(self.lookup_named(parent, name)?.map(|(_, id)| id))
    }

    /// The order is that of the last tree, then what the one before it has beside, and so on.
    fn list(&self, directory: NodeId, from: &Cursor, page: &mut Page) -> Result<Option<Cursor>> {
        page.clear();
        let merged = self.directory("list", directory)?;
        let place = cursor::decode(from).filter(|(at, _)| *at < merged.parts.len().max(1));
        let Some((at, inner)) = place else { return Err(foreign_cursor(self.path_of(directory))) };
        // Only the root of a union of nothing has no parts.
        let Some(&part) = merged.parts.get(at) else { return Ok(None) };
        let mut listed = Page::new();
        let next = self.tree(part)?.list(part.id, &inner, &mut listed)?;
        let mut view = View::new(&merged);
        for entry in listed.iter() {
            self.list_one(directory, &mut view, at, &entry, page);
        }
        listed.take_failures().into_iter().for_each(|failure| page.push_failure(failure));
        Ok(match next {
            Some(inner) => Some(cursor::encode(at, &inner)),
            None if at + 1 < merged.parts.len() => Some(cursor::encode(at + 1, &Cursor::Start)),
            None => None,
        })
    }

    fn node(&self, id: NodeId) -> Result<Node> {
        match self.what(id)?.part() {
            Some(part) => self.tree(part)?.node(part.id),
            None => Ok(Node::new(Kind::Directory)),
        }
    }

    fn inode_state(&self, id: NodeId) -> Result<Option<InodeState>> {
        match self.what(id)?.part() {
            Some(part) => self.tree(part)?.inode_state(part.id),
            None => Ok(None),
        }
    }

    fn kind(&self, id: NodeId) -> Result<Kind> {
        let what = self.what(id)?;
        // Only the root of a union of nothing is nothing's.
        what.part().map_or_else(|| Ok(what.kind()), |part| self.tree(part)?.kind(part.id))
    }

    fn path_of(&self, id: NodeId) -> PathBuf {
        match lock(&self.known).key_of(id) {
            Some(key) if !key.is_empty() => self.path.join(OsStr::from_bytes(&key)),
            _ => self.path.clone(),
        }
    }

    fn link_target(&self, id: NodeId) -> Result<Vec<u8>> {
        match self.what(id)? {
            What::Other(Kind::Symlink, part) => self.tree(part)?.link_target(part.id),
            _ => Err(Error::io("read link", self.path_of(id), io::ErrorKind::InvalidInput.into())),
        }
    }

    fn xattrs(&self, id: NodeId) -> Result<Xattrs> {
        match self.what(id)?.part() {
            Some(part) => self.tree(part)?.xattrs(part.id),
            None => Ok(Xattrs::default()),
        }
    }

    fn fact(&self, id: NodeId, fact: Fact) -> Result<Option<Vec<u8>>> {
        match self.what(id)?.part() {
            Some(part) => self.tree(part)?.fact(part.id, fact),
            None => Ok(None),
        }
    }

    fn hiding(&self) -> Vec<Error> {
        self.trees.iter().flat_map(|tree| tree.hiding()).collect()
    }

    fn has_facts(&self) -> bool {
        self.trees.iter().any(|tree| tree.has_facts())
    }

    fn holes(&self, id: NodeId) -> Result<Holes> {
        let part = self.file(id)?;
        self.tree(part)?.holes(part.id)
    }

    fn open(&self, id: NodeId) -> Result<Arc<dyn Source>> {
        let part = self.file(id)?;
        self.tree(part)?.open(part.id)
    }

    fn open_with_xattrs(&self, id: NodeId) -> Result<(Arc<dyn Source>, Xattrs)> {
        let part = self.file(id)?;
        self.tree(part)?.open_with_xattrs(part.id)
    }

    fn reads_by_request(&self, id: NodeId) -> bool {
        let part = lock(&self.known).what(id).and_then(|what| what.part());
        part.is_some_and(|part| self.tree(part).is_ok_and(|tree| tree.reads_by_request(part.id)))
    }

    fn whole_file(&self, id: NodeId) -> Result<Option<Arc<File>>> {
        match self.what(id)? {
            What::Other(Kind::File, part) => self.tree(part)?.whole_file(part.id),
            _ => Ok(None),
        }
    }

    /// That of its tree, after all of the trees before.
    fn medium_order(&self, id: NodeId) -> u64 {
        let part = lock(&self.known).what(id).and_then(|what| what.part());
        let Some((part, tree)) = part.and_then(|part| Some((part, self.tree(part).ok()?))) else {
            return u64::MAX;
        };
        let bits = self.trees.len().next_power_of_two().trailing_zeros();
        let order = tree.medium_order(part.id).min(u64::MAX >> bits);
        // Without bits there is one tree.
        u64::from(part.layer).checked_shl(u64::BITS - bits).unwrap_or_default() | order
    }

    /// One pass over each tree, in its own order.
    fn gather(
        &self,
        ids: &[NodeId],
        factory: &dyn EngineFactory,
        options: &GatherOptions,
        deliver: &mut Deliver<'_>,
    ) -> Result<()> {
        let mut of_layers = vec![Vec::new(); self.trees.len()];
        for (index, &id) in ids.iter().enumerate() {
            match self.file(id) {
                Ok(part) => {
                    let layer = usize::try_from(part.layer).ok().and_then(|layer| of_layers.get_mut(layer));
                    if let Some(layer) = layer {
                        layer.push((index, part.id));
                    }
                }
                Err(error) => {
                    if deliver(Gathered { index, id, result: Err(error) }).is_break() {
                        return Ok(());
                    }
                }
            }
        }
        for (tree, wanted) in self.trees.iter().zip(&of_layers).filter(|(_, wanted)| !wanted.is_empty()) {
            if gather_of(&**tree, (ids, wanted.as_slice()), factory, options, deliver)?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Reads the files of one tree, which are given by their position among the ids.
fn gather_of(
    tree: &dyn Tree,
    (ids, wanted): (&[NodeId], &[(usize, NodeId)]),
    factory: &dyn EngineFactory,
    options: &GatherOptions,
    deliver: &mut Deliver<'_>,
) -> Result<ControlFlow<()>> {
    let inner: Vec<NodeId> = wanted.iter().map(|(_, id)| *id).collect();
    let mut flow = ControlFlow::Continue(());
    let mut pass_on = |Gathered { index, result, .. }: Gathered| -> ControlFlow<()> {
        let index = wanted.get(index).map(|(index, _)| *index);
        if let Some((index, &id)) = index.and_then(|index| Some((index, ids.get(index)?))) {
            flow = deliver(Gathered { index, id, result });
        }
        flow
    };
    tree.gather(&inner, factory, options, &mut pass_on)?;
    Ok(flow)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
