//! [`Followed`]: a pack that grows, as a tree that shows its newest state.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::record_tree::RecordTree;
use crate::engine::EngineFactory;
use crate::error::Error;
use crate::pack::error::{Error as PackError, Result};
use crate::pack::state::open::{OpenOptions, Pack};
use crate::source::Source;
use crate::storage::AtPath;
use crate::tree::{
    Cursor, Deliver, Fact, GatherOptions, Gathered, Holes, Kind, Node, NodeId, Page, Tree, Xattrs,
    foreign_cursor,
};

/// The tree of a pack that others write to.
///
/// It shows one state until [`refresh`](Self::refresh) finds a newer one. What is the same in both
/// keeps its id: a file whose record was not put again and is where it was, and a directory. A
/// record that was put again, or moved by a compaction, is another node under the same name, so
/// that no id has the bytes of two states: who has the old one open reads its old bytes, and who
/// asks for it by its id gets an error.
pub struct Followed {
    path: PathBuf,
    options: OpenOptions,
    state: RwLock<Arc<Shown>>,
    /// The next id that is free. Held while a newer state is looked for.
    next: Mutex<u64>,
}

/// A state of the pack.
#[derive(Debug)]
struct Shown {
    tree: RecordTree,
    ids: Ids,
}

/// The ids that nodes of one state are shown under.
#[derive(Debug, Default)]
struct Ids {
    /// By number in the tree; [`NONE`] where a node was met under no name.
    shown: Vec<u64>,
    own: HashMap<u64, NodeId>,
}

const NONE: u64 = u64::MAX;

/// The root is met first.
const ROOT: NodeId = NodeId::new(0);

/// What a newer state shows otherwise.
#[derive(Debug, Default)]
pub struct Changes {
    /// Names of directories that stand for another node than before, for none any more, or for one
    /// where none was.
    pub entries: Vec<(NodeId, Vec<u8>)>,
    /// Nodes of which more than their entries may have changed: directories that have other
    /// entries, and what has other attributes.
    pub nodes: Vec<NodeId>,
}

impl Ids {
    fn add(&mut self, own: NodeId, shown: u64) {
        let number = usize::try_from(own.get()).unwrap_or(usize::MAX);
        if self.shown.len() <= number {
            self.shown.resize(number.saturating_add(1), NONE);
        }
        if let Some(slot) = self.shown.get_mut(number) {
            *slot = shown;
        }
        self.own.insert(shown, own);
    }

    fn shown(&self, own: NodeId) -> Option<NodeId> {
        let number = usize::try_from(own.get()).ok()?;
        self.shown.get(number).copied().filter(|shown| *shown != NONE).map(NodeId::new)
    }
}

impl Followed {
    /// The tree of a pack, as it is now. `options` are those that newer states are opened with.
    ///
    /// # Errors
    /// As [`RecordTree::new`].
    pub fn new(pack: Arc<Pack>, options: OpenOptions) -> Result<Self> {
        let tree = RecordTree::marked(pack)?;
        let mut comparing = Comparing::new(None, &tree, ROOT.get());
        comparing.run();
        let Comparing { ids, next, .. } = comparing;
        let path = tree.path().to_path_buf();
        let state = RwLock::new(Arc::new(Shown { tree, ids }));
        Ok(Self { path, options, state, next: Mutex::new(next) })
    }

    /// Records that are in the pack and under no name, in the state that is shown.
    pub fn hidden(&self) -> super::Hidden {
        self.state().tree.hidden().clone()
    }

    /// Where the listing of a directory continues after a name, in whatever state.
    pub fn after(&self, name: &[u8]) -> Cursor {
        Cursor::Token(name.into())
    }

    fn state(&self) -> Arc<Shown> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows the newest state, and says what of it is new; `None` where nothing is. What changed is
    /// found by the records and their names: the heads of all records are read again.
    ///
    /// # Errors
    /// Errors of reading, and the state before stays; [`PackError::Invalid`] where the pack was
    /// deleted, or another is there by now. One that was moved is followed where it is.
    pub fn refresh(&self) -> Result<Option<Changes>> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.state();
        let known = before.tree.pack();
        let at_path = known.storage().at_path()?;
        if at_path == AtPath::Another {
            return Err(self.replaced());
        }
        let opened = match known.is_current() {
            Ok(true) => return Ok(None),
            Ok(false) => Pack::open(known.storage().clone(), self.options.clone()),
            Err(error) => Err(error),
        };
        let pack = match opened {
            // Its directory cannot be listed, or has nothing in it: that is not what is wrong.
            Err(_) if at_path == AtPath::Nothing => return Err(self.deleted()),
            opened => opened?,
        };
        if pack.nonce() != known.nonce() {
            return Err(self.replaced());
        }
        let tree = RecordTree::marked(Arc::new(pack))?;
        let mut comparing = Comparing::new(Some(&before), &tree, *next);
        comparing.run();
        let Comparing { ids, next: free, changes, .. } = comparing;
        *next = free;
        let newer = Arc::new(Shown { tree, ids });
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = newer;
        Ok(Some(changes))
    }

    fn replaced(&self) -> PackError {
        let path = self.path.display();
        PackError::Invalid(format!(
            "the pack at {path} was replaced: another is there by now, which has to be mounted anew"
        ))
    }

    fn deleted(&self) -> PackError {
        let path = self.path.display();
        PackError::Invalid(format!(
            "the pack at {path} was deleted: what is there later has to be mounted anew"
        ))
    }

    /// The state that is shown, with its own id for one.
    fn at(&self, id: NodeId) -> crate::Result<(Arc<Shown>, NodeId)> {
        let state = self.state();
        let own = state.ids.own.get(&id.get()).copied();
        own.map(|own| (state, own)).ok_or_else(|| gone(&self.path))
    }
}

/// For what an id does not stand for any more.
fn gone(path: &Path) -> Error {
    let what = "it was replaced or deleted since; look it up again";
    Error::io("read", path, io::Error::new(io::ErrorKind::StaleNetworkFileHandle, what))
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("state", &self.state().tree).finish_non_exhaustive()
    }
}

/// Goes through two states at once, and gives the nodes of the newer their ids.
struct Comparing<'a> {
    before: Option<&'a Shown>,
    tree: &'a RecordTree,
    next: u64,
    ids: Ids,
    changes: Changes,
    /// Directories that were met: in the state before, if it is the same there, and in this one.
    waiting: Vec<(Option<NodeId>, NodeId)>,
}

/// An entry of a listing.
struct Entry {
    name: Vec<u8>,
    id: NodeId,
    node: Node,
}

impl<'a> Comparing<'a> {
    fn new(before: Option<&'a Shown>, tree: &'a RecordTree, next: u64) -> Self {
        let (ids, changes, waiting) = (Ids::default(), Changes::default(), Vec::new());
        Self { before, tree, next, ids, changes, waiting }
    }

    fn run(&mut self) {
        let root = self.tree.root();
        let old = self.before.map(|before| before.tree.root());
        let shown = self.old_shown(old).unwrap_or_else(|| self.free());
        self.ids.add(root, shown);
        let was = self.before.zip(old).and_then(|(before, old)| before.tree.node(old).ok());
        if self.before.is_some() && (was != self.tree.node(root).ok() || !self.is_same(old, root)) {
            self.changes.nodes.push(NodeId::new(shown));
        }
        self.waiting.push((old, root));
        while let Some((old, directory)) = self.waiting.pop() {
            self.compare(old, directory);
        }
    }

    fn free(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn old_shown(&self, old: Option<NodeId>) -> Option<u64> {
        self.before?.ids.shown(old?).map(NodeId::get)
    }

    /// Compares the entries of a directory. In a new one nothing is known yet.
    fn compare(&mut self, old: Option<NodeId>, directory: NodeId) {
        let old = self.before.zip(old).map(|(before, old)| listed(&before.tree, old)).unwrap_or_default();
        let Some(within) = self.ids.shown(directory) else { return };
        let new = listed(self.tree, directory);
        let same_records = self.same_records(&old, &new);
        let mut old = old.into_iter().peekable();
        let mut has_changed = false;
        for entry in new {
            while let Some(lost) = old.next_if(|old| old.name < entry.name) {
                self.changes.entries.push((within, lost.name));
                has_changed = true;
            }
            let same = old.next_if(|old| old.name == entry.name);
            has_changed |= self.take(within, entry, same, &same_records);
        }
        for lost in old {
            self.changes.entries.push((within, lost.name));
            has_changed = true;
        }
        if has_changed && self.before.is_some() {
            self.changes.nodes.push(within);
        }
    }

    /// Takes an entry with the one that had its name before, and says whether they differ.
    fn take(
        &mut self,
        within: NodeId,
        entry: Entry,
        same: Option<Entry>,
        same_records: &HashSet<NodeId>,
    ) -> bool {
        let is_met = self.ids.shown(entry.id).is_some();
        let is_directory = entry.node.kind == Kind::Directory;
        let is_same = same_records.contains(&entry.id);
        let kept = same.as_ref().filter(|old| is_same || is_directory && old.node.kind == entry.node.kind);
        let shown = match (self.ids.shown(entry.id), kept.and_then(|old| self.old_shown(Some(old.id)))) {
            (Some(shown), _) => shown.get(),
            (None, Some(shown)) if !self.ids.own.contains_key(&shown) => shown,
            (None, _) => self.free(),
        };
        if !is_met {
            self.ids.add(entry.id, shown);
        }
        let was = self.old_shown(same.as_ref().map(|old| old.id));
        let is_other = was != Some(shown);
        // A directory that was put again may have another access control list.
        let is_put = is_directory && !self.is_same(same.as_ref().map(|old| old.id), entry.id);
        if !is_other && (is_put || same.as_ref().is_some_and(|old| old.node != entry.node)) {
            self.changes.nodes.push(NodeId::new(shown));
        }
        if is_other && self.before.is_some() {
            self.changes.entries.push((within, entry.name));
        }
        if is_directory && !is_met {
            self.waiting.push((same.filter(|_| !is_other).map(|old| old.id), entry.id));
        }
        is_other
    }

    /// Whether a node has the record that another had in the state before, or neither has one.
    fn is_same(&self, old: Option<NodeId>, id: NodeId) -> bool {
        let old = self.before.zip(old).map(|(before, old)| before.tree.mark(old));
        old.is_some_and(|old| old == self.tree.mark(id))
    }

    /// Of the entries of a directory those that stand for the record that they stood for: it has
    /// the same key, was put at the same time, and lies where it lay. So a state that was restored
    /// from a copy of the pack, and perhaps written on, has no record of the one before it but
    /// those that are the same.
    fn same_records(&self, old: &[Entry], new: &[Entry]) -> HashSet<NodeId> {
        let Some(before) = self.before else { return HashSet::new() };
        let mut same = HashSet::new();
        for entry in new.iter().filter(|entry| entry.node.kind != Kind::Directory) {
            let Ok(at) = old.binary_search_by(|old| old.name.cmp(&entry.name)) else { continue };
            let Some(was) = old.get(at).filter(|was| was.node.kind == entry.node.kind) else { continue };
            let is_marked = self.tree.mark(entry.id).is_some() && self.is_same(Some(was.id), entry.id);
            if is_marked && before.tree.key(was.id) == self.tree.key(entry.id) {
                same.insert(entry.id);
            }
        }
        same
    }
}

/// All entries of a directory that can be read, in the order of their names.
fn listed(tree: &RecordTree, directory: NodeId) -> Vec<Entry> {
    let (mut all, mut page, mut cursor) = (Vec::new(), Page::new(), Some(Cursor::Start));
    while let Some(from) = cursor {
        // Who asks for it gets the error.
        let Ok(next) = tree.list(directory, &from, &mut page) else { break };
        for entry in page.iter() {
            if let Ok(node) = entry.node.map_or_else(|| tree.node(entry.id), Ok) {
                all.push(Entry { name: entry.name.to_vec(), id: entry.id, node });
            }
        }
        cursor = next;
    }
    all
}

impl Tree for Followed {
    fn path(&self) -> &Path {
        &self.path
    }

    fn root(&self) -> NodeId {
        ROOT
    }

    fn is_fixed(&self) -> bool {
        false
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> crate::Result<Option<NodeId>> {
        let (state, own) = self.at(parent)?;
        Ok(state.tree.lookup(own, name)?.and_then(|found| state.ids.shown(found)))
    }

    /// A listing continues after the last name, whatever was put and deleted meanwhile.
    fn list(&self, directory: NodeId, from: &Cursor, page: &mut Page) -> crate::Result<Option<Cursor>> {
        page.clear();
        let (state, own) = self.at(directory)?;
        let mut from = match from {
            Cursor::Start => Cursor::Start,
            Cursor::Token(name) => state.tree.after(own, name)?,
            Cursor::At(_) => return Err(foreign_cursor(self.path_of(directory))),
        };
        let mut inner = Page::new();
        loop {
            let next = state.tree.list(own, &from, &mut inner)?;
            let mut last = None;
            for entry in inner.iter() {
                last = Some(entry.name);
                match (state.ids.shown(entry.id), entry.node) {
                    (Some(shown), Some(node)) => page.push(entry.name, shown, node),
                    (Some(shown), None) => page.push_name(entry.name, shown, entry.kind),
                    (None, _) => {}
                }
            }
            let last = last.map(|name| self.after(name));
            inner.take_failures().into_iter().for_each(|failure| page.push_failure(failure));
            match (next, last) {
                (None, _) => return Ok(None),
                (Some(_), Some(last)) => return Ok(Some(last)),
                // None of them can be read: the next page has the name to continue after.
                (Some(next), None) => from = next,
            }
        }
    }

    fn node(&self, id: NodeId) -> crate::Result<Node> {
        let (state, own) = self.at(id)?;
        state.tree.node(own)
    }

    fn kind(&self, id: NodeId) -> crate::Result<Kind> {
        let (state, own) = self.at(id)?;
        state.tree.kind(own)
    }

    fn path_of(&self, id: NodeId) -> PathBuf {
        self.at(id).map_or_else(|_| self.path.clone(), |(state, own)| state.tree.path_of(own))
    }

    fn link_target(&self, id: NodeId) -> crate::Result<Vec<u8>> {
        let (state, own) = self.at(id)?;
        state.tree.link_target(own)
    }

    fn xattrs(&self, id: NodeId) -> crate::Result<Xattrs> {
        let (state, own) = self.at(id)?;
        state.tree.xattrs(own)
    }

    fn fact(&self, id: NodeId, fact: Fact) -> crate::Result<Option<Vec<u8>>> {
        let (state, own) = self.at(id)?;
        state.tree.fact(own, fact)
    }

    fn has_facts(&self) -> bool {
        true
    }

    fn hiding(&self) -> Vec<Error> {
        self.state().tree.hiding()
    }

    fn open(&self, id: NodeId) -> crate::Result<Arc<dyn Source>> {
        let (state, own) = self.at(id)?;
        state.tree.open(own)
    }

    fn holes(&self, id: NodeId) -> crate::Result<Holes> {
        let (state, own) = self.at(id)?;
        state.tree.holes(own)
    }

    fn medium_order(&self, id: NodeId) -> u64 {
        self.at(id).map_or(u64::MAX, |(state, own)| state.tree.medium_order(own))
    }

    /// All of them as they are in one state.
    fn gather(
        &self,
        ids: &[NodeId],
        factory: &dyn EngineFactory,
        options: &GatherOptions,
        deliver: &mut Deliver<'_>,
    ) -> crate::Result<()> {
        let state = self.state();
        let (mut wanted, mut places) = (Vec::with_capacity(ids.len()), Vec::with_capacity(ids.len()));
        for (index, id) in ids.iter().enumerate() {
            match state.ids.own.get(&id.get()) {
                Some(own) => {
                    wanted.push(*own);
                    places.push((index, *id));
                }
                None => {
                    let result = Err(gone(&self.path));
                    if deliver(Gathered { index, id: *id, result }).is_break() {
                        return Ok(());
                    }
                }
            }
        }
        let deliver = &mut |gathered: Gathered| {
            let (index, id) = places.get(gathered.index).copied().unwrap_or((gathered.index, gathered.id));
            deliver(Gathered { index, id, result: gathered.result })
        };
        state.tree.gather(&wanted, factory, options, deliver)
    }
}
