//! Makes the table of a [`RecordTree`](super::RecordTree): heads are read in the order of the
//! medium, and nodes get their numbers in it.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bytes::Bytes;

use super::{Hidden, names};
use crate::names::escaped;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::key::{KEY_LEN_MAX, Key};
use crate::pack::list::hard_links::HOPS_MAX;
use crate::pack::read::record::{Record, RecordHead};
use crate::pack::scan::KeyRange;
use crate::pack::state::open::{KeyEntry, Pack};
use crate::pack::state::snapshot::Found;
use crate::source::Source as _;
use crate::tree::{Kind, Node, NodeId, NodeTable, NodeTableBuilder, Outline};

/// Heads that are read as one batch.
const BATCH_LEN: usize = 4096;

/// Hard links that are read as one batch.
const LINKS_LEN: usize = 1024;

/// All that is known of the names.
pub(super) struct Built {
    pub(super) table: NodeTable,
    /// The keys of nodes whose first name does not say it: by the number of the node.
    pub(super) keys: HashMap<u64, Key>,
    /// Numbers of nodes of which no more is known than a name.
    pub(super) lost: HashSet<u64>,
    /// What may hide names of which nothing is known.
    pub(super) hiding: Vec<Damage>,
    pub(super) hidden: Hidden,
    /// Whether any record has extended attributes, or may have.
    pub(super) has_xattrs: bool,
    pub(super) marks: Marks,
}

/// What distinguishes records of one pack from one another, also from those that another copy of it
/// got: by the number of the node.
#[derive(Debug, Default)]
pub(super) struct Marks(Option<Vec<u64>>);

impl Marks {
    fn set(&mut self, id: NodeId, mark: u64) {
        let (Some(marks), Ok(at)) = (&mut self.0, usize::try_from(id.get())) else { return };
        if marks.len() <= at {
            marks.resize(at + 1, 0);
        }
        if let Some(slot) = marks.get_mut(at) {
            *slot = mark;
        }
    }

    pub(super) fn get(&self, id: NodeId) -> Option<u64> {
        let at = usize::try_from(id.get()).ok()?;
        self.0.as_ref()?.get(at).copied().filter(|mark| *mark != 0)
    }
}

/// When a record was put and where it lies. A backup that was restored, and written on, may have
/// another with the same number at the same place; it was put at another time.
fn mark_of(head: &RecordHead) -> u64 {
    let mut hasher = DefaultHasher::new();
    (head.segment, head.offset, head.sequence, head.time_ns, head.body_len).hash(&mut hasher);
    // 0 is none.
    hasher.finish() | 1
}

/// A hard link on its way into the table.
#[derive(Debug)]
pub(super) struct PendingLink {
    pub(super) key: Key,
    pub(super) segment: u64,
    pub(super) offset: u64,
}

/// What the head of a record says.
pub(super) enum Said {
    Node {
        node: Node,
        has_xattrs: bool,
        has_hard_links: bool,
    },
    Link(PendingLink),
    /// No more than that it is there. Damage is in the log of the pack; else a newer version wrote
    /// it.
    Lost,
}

/// What the head that stands where a key is says, or what became of reading it.
pub(super) fn said_by(pack: &Pack, key: &Key, read: Result<(RecordHead, Found)>) -> Result<Said> {
    match read.and_then(|(head, found)| said(pack, key, head, found)) {
        Err(error @ Error::Damaged(_)) => match error.of(key) {
            Error::Damaged(damage) => {
                pack.snapshot.log.note([damage]);
                Ok(Said::Lost)
            }
            error => Err(error),
        },
        Err(Error::Unsupported { .. }) => Ok(Said::Lost),
        said => said,
    }
}

fn said(pack: &Pack, key: &Key, head: RecordHead, found: Found) -> Result<Said> {
    if head.key != *key {
        return Err(pack.misplaced(key, &Record { head, body: Bytes::new() }));
    }
    let len = match head.body_len {
        Some(len) => len,
        None => pack.record_source(key, found)?.len(),
    };
    if head.is_hard_link() {
        return Ok(match len <= KEY_LEN_MAX as u64 {
            true => Said::Link(PendingLink { key: head.key, segment: head.segment, offset: head.offset }),
            false => Said::Lost,
        });
    }
    Ok(Said::Node {
        node: head.attributes.node(len),
        has_xattrs: !head.attributes.xattr_bytes().is_empty(),
        has_hard_links: head.attributes.has_hard_links(),
    })
}

/// The keys that hard links lead to. What is damaged leads nowhere, which is reported for each.
pub(super) fn firsts_of(pack: &Pack, links: &[Key]) -> Result<HashMap<Key, Key>> {
    let mut firsts = HashMap::with_capacity(links.len());
    for keys in links.chunks(LINKS_LEN) {
        for (key, record) in keys.iter().zip(pack.get_many(keys)?) {
            if let Some(Some(record)) = pack.snapshot.log.unless_damaged(record)? {
                firsts.insert(key.clone(), Key::bytes(&record.body)?);
            }
        }
    }
    Ok(firsts)
}

/// The file that a link leads to over others, and its key, as [`Pack::open_source`] finds it.
pub(super) fn file_of(
    firsts: &HashMap<Key, Key>,
    link: &Key,
    file_at: impl Fn(&Key, &[u8]) -> Option<NodeId>,
) -> Option<(NodeId, Key)> {
    let mut at = firsts.get(link)?;
    for _ in 1..HOPS_MAX {
        let Some(next) = firsts.get(at) else {
            return Some((file_at(at, &names::path_of(at, false))?, at.clone()));
        };
        at = next;
    }
    None
}

/// A table on its way.
pub(super) struct Building<'p> {
    pack: &'p Pack,
    builder: NodeTableBuilder,
    keys: HashMap<u64, Key>,
    lost: HashSet<u64>,
    hiding: Vec<Damage>,
    hidden: Hidden,
    has_xattrs: bool,
    links: Vec<PendingLink>,
    marks: Marks,
}

impl<'p> Building<'p> {
    fn new(pack: &'p Pack) -> Self {
        // Without a slash at its end.
        let path = pack.storage.path("").components().as_path().to_path_buf();
        Self {
            pack,
            builder: NodeTableBuilder::new(path),
            keys: HashMap::new(),
            lost: HashSet::new(),
            hiding: Vec::new(),
            hidden: Hidden::default(),
            has_xattrs: false,
            links: Vec::new(),
            marks: Marks::default(),
        }
    }

    /// Reads the heads of all records, and marks them if that is wanted.
    pub(super) fn run(pack: &'p Pack, is_marked: bool) -> Result<Built> {
        let mut all = Self::new(pack);
        all.marks = Marks(is_marked.then(Vec::new));
        let mut entries = pack.keys_on_disk(&KeyRange::all(), &[]);
        let mut batch = Vec::with_capacity(BATCH_LEN);
        loop {
            let mut is_last = true;
            for entry in entries.by_ref().take(BATCH_LEN) {
                is_last = false;
                match entry {
                    Ok(entry) => batch.push(entry),
                    Err(error) => all.add_refused(error)?,
                }
            }
            if is_last {
                break;
            }
            all.add_batch(&batch)?;
            batch.clear();
        }
        all.add_links()?;
        Ok(all.finish())
    }

    /// A record that is not handed out, or damage that hides some.
    fn add_refused(&mut self, error: Error) -> Result<()> {
        let damage = match error {
            Error::Damaged(damage) => damage,
            error => return Err(error),
        };
        match &damage.key {
            Some(key) => self.add_lost(key),
            None => self.hiding.push(damage.clone()),
        }
        self.pack.snapshot.log.note([damage]);
        Ok(())
    }

    fn add_batch(&mut self, batch: &[KeyEntry]) -> Result<()> {
        for (entry, head) in batch.iter().zip(self.pack.heads(batch)?) {
            let mark = head.as_ref().ok().map(mark_of);
            match said_by(self.pack, &entry.key, head.map(|head| (head, entry.found)))? {
                Said::Node { node, has_xattrs, .. } => {
                    self.has_xattrs |= has_xattrs;
                    if let Some((id, mark)) = self.place(&entry.key, node).zip(mark) {
                        self.marks.set(id, mark);
                    }
                }
                Said::Link(link) => self.links.push(link),
                Said::Lost => self.add_lost(&entry.key),
            }
        }
        Ok(())
    }

    /// Reads the names alone, and the heads of records with others below them.
    pub(super) fn names(pack: &'p Pack) -> Result<(Built, Outline)> {
        let mut all = Self::new(pack);
        let mut outline = Outline::default();
        for entry in pack.keys_on_disk(&KeyRange::all(), &[]) {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    all.add_refused(error)?;
                    continue;
                }
            };
            let bytes = entry.stored_bytes.unwrap_or(u64::MAX);
            outline.longest_max = outline.longest_max.max(bytes);
            outline.bytes_max = outline.bytes_max.saturating_add(bytes);
            // What it is called depends on its kind.
            match entry.key.as_bytes().is_some_and(<[u8]>::is_empty) {
                true => all.add_batch(&[entry])?,
                false => drop(all.place(&entry.key, Node::new(Kind::Other))),
            }
        }
        all.add_parents()?;
        Ok((all.finish(), outline))
    }

    /// Reads the heads of records with others below them: what is no directory is in their way.
    fn add_parents(&mut self) -> Result<()> {
        let parents = self.builder.parents();
        for ids in parents.chunks(BATCH_LEN) {
            let keys = ids.iter().map(|&id| match self.keys.get(&id.get()) {
                Some(key) => Ok(key.clone()),
                None => {
                    let path = self.builder.path_in(id).unwrap_or_default();
                    names::shown_key(&path).map_or_else(|| Key::bytes(path), Ok)
                }
            });
            let keys = keys.collect::<Result<Vec<Key>>>()?;
            let (mut found, mut entries) = (Vec::new(), Vec::new());
            for ((&id, key), located) in ids.iter().zip(&keys).zip(self.pack.locate(&keys)?) {
                match located {
                    Ok(Some(entry)) => {
                        found.push(id);
                        entries.push(entry);
                    }
                    Ok(None) => {}
                    Err(error) => drop(said_by(self.pack, key, Err(error))?),
                }
            }
            for ((id, entry), head) in found.into_iter().zip(&entries).zip(self.pack.heads(&entries)?) {
                let said = said_by(self.pack, &entry.key, head.map(|head| (head, entry.found)))?;
                match said {
                    Said::Node { node, has_xattrs, .. } => {
                        self.has_xattrs |= has_xattrs;
                        self.builder.set(id, &node);
                    }
                    Said::Link(_) => {}
                    Said::Lost => drop(self.lost.insert(id.get())),
                }
            }
        }
        Ok(())
    }

    /// Gives a node of which only the key is known its name. Of the root no more has to be known.
    fn add_lost(&mut self, key: &Key) {
        if key.as_bytes().is_some_and(<[u8]>::is_empty) {
            return;
        }
        if let Some(id) = self.place(key, Node::new(Kind::Other)) {
            self.lost.insert(id.get());
        }
    }

    /// Gives a node its name; `None`, and a note, where it gets none.
    fn place(&mut self, key: &Key, node: Node) -> Option<NodeId> {
        let path = names::path_of(key, node.kind == Kind::Directory);
        let shown = names::shown_key(&path);
        if !self.is_free(&path, key, shown.as_ref()) {
            return None;
        }
        match self.builder.add(&path, node) {
            Ok(id) => {
                if shown.is_some_and(|shown| shown != *key) {
                    self.keys.insert(id.get(), key.clone());
                }
                Some(id)
            }
            Err(error) => {
                self.hidden.note(&path, error.to_string());
                None
            }
        }
    }

    /// Whether a record may have a path that may also show another key. Where both are there, the
    /// path is that of the record whose key it is, and the other is hidden.
    fn is_free(&mut self, path: &[u8], key: &Key, shown: Option<&Key>) -> bool {
        let Some(shown) = shown.filter(|_| self.builder.find(path).is_some()) else { return true };
        let why = format!("the record {shown} has no name: {} is the key of another", escaped(path));
        self.hidden.note(shown.to_string().as_bytes(), why);
        shown != key
    }

    /// Gives files their hard links.
    fn add_links(&mut self) -> Result<()> {
        let links = std::mem::take(&mut self.links);
        let keys: Vec<Key> = links.iter().map(|link| link.key.clone()).collect();
        let firsts = firsts_of(self.pack, &keys)?;
        for link in links {
            match file_of(&firsts, &link.key, |key, path| self.file_at(key, path)) {
                Some((id, first)) => self.link(&link.key, id, first),
                None => self.add_lost_link(link)?,
            }
        }
        Ok(())
    }

    /// The file that has a path, if it is the record with that key.
    fn file_at(&self, key: &Key, path: &[u8]) -> Option<NodeId> {
        let id = self.builder.find(path)?;
        let is_it = self.keys.get(&id.get()).is_none_or(|own| own == key);
        let is_file = !matches!(self.builder.kind(id)?, Kind::Directory | Kind::Symlink);
        (is_it && is_file).then_some(id)
    }

    fn link(&mut self, key: &Key, id: NodeId, first: Key) {
        let path = names::path_of(key, false);
        let shown = names::shown_key(&path);
        if !self.is_free(&path, key, shown.as_ref()) {
            return;
        }
        match self.builder.link(&path, id) {
            Ok(()) => drop(self.keys.insert(id.get(), first)),
            Err(error) => self.hidden.note(&path, error.to_string()),
        }
    }

    /// A link that leads to no file of the tree.
    fn add_lost_link(&mut self, link: PendingLink) -> Result<()> {
        let PendingLink { key, segment, offset } = link;
        let damage = match self.pack.open_source(&key) {
            Err(Error::Damaged(damage)) => damage,
            Err(error @ (Error::Invalid(_) | Error::Limit { .. })) => {
                self.pack.lost_link(segment, offset, key.clone(), &error)
            }
            Err(Error::Unsupported { .. }) => {
                self.add_lost(&key);
                return Ok(());
            }
            Err(error) => return Err(error),
            Ok(_) => {
                let why = format!("the record {key} has no name, because its file has none");
                self.hidden.note(&names::path_of(&key, false), why);
                return Ok(());
            }
        };
        self.add_lost(&key);
        self.pack.snapshot.log.note([damage]);
        Ok(())
    }

    fn finish(self) -> Built {
        let Self { pack, builder, keys, lost, mut hiding, mut hidden, has_xattrs, marks, .. } = self;
        // Asked now that the indexes were read.
        for damage in pack.snapshot.hiding() {
            if !hiding.contains(damage) {
                hiding.push(damage.clone());
            }
        }
        let (table, refused) = builder.finish();
        for (id, error) in refused {
            // A damaged one is in the log, and a directory is what it was.
            if !lost.contains(&id.get()) {
                let key = match &error {
                    crate::Error::Entry { path, .. } => path.strip_prefix(table.path()).unwrap_or(path),
                    _ => std::path::Path::new(""),
                };
                hidden.note(key.as_os_str().as_encoded_bytes(), error.to_string());
            }
        }
        let has_xattrs = has_xattrs || !lost.is_empty();
        Built { table, keys, lost, hiding, hidden, has_xattrs, marks }
    }
}
