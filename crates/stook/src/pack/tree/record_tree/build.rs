//! Makes the table of a [`RecordTree`](super::RecordTree): heads are read in the order of the
//! medium, and nodes get their numbers in it.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::{Hidden, names};
use crate::names::escaped;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::key::{KEY_LEN_MAX, Key};
use crate::pack::list::hard_links::HOPS_MAX;
use crate::pack::read::record::{Record, RecordHead};
use crate::pack::scan::KeyRange;
use crate::pack::state::open::{KeyEntry, Pack};
use crate::source::Source as _;
use crate::tree::{Kind, Node, NodeId, NodeTable, NodeTableBuilder};

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
}

/// A hard link on its way into the table.
struct PendingLink {
    key: Key,
    segment: u64,
    offset: u64,
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
}

impl<'p> Building<'p> {
    /// Reads the heads of all records.
    pub(super) fn run(pack: &'p Pack) -> Result<Built> {
        // Without a slash at its end.
        let path = pack.storage.path("").components().as_path().to_path_buf();
        let mut all = Self {
            pack,
            builder: NodeTableBuilder::new(path),
            keys: HashMap::new(),
            lost: HashSet::new(),
            hiding: pack.snapshot.lost.clone(),
            hidden: Hidden::default(),
            has_xattrs: false,
            links: Vec::new(),
        };
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
            let added = head.and_then(|head| self.add(entry, head));
            match added {
                Ok(()) => {}
                Err(error @ Error::Damaged(_)) => self.add_refused(error.of(&entry.key))?,
                // A newer version wrote this one.
                Err(Error::Unsupported { .. }) => self.add_lost(&entry.key),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn add(&mut self, entry: &KeyEntry, head: RecordHead) -> Result<()> {
        if head.key != entry.key {
            return Err(self.pack.misplaced(&entry.key, &Record { head, body: Bytes::new() }));
        }
        let len = match head.body_len {
            Some(len) => len,
            None => self.pack.record_source(&entry.key, entry.found)?.len(),
        };
        if head.is_hard_link() {
            match len <= KEY_LEN_MAX as u64 {
                true => {
                    self.links.push(PendingLink { key: head.key, segment: head.segment, offset: head.offset })
                }
                false => self.add_lost(&head.key),
            }
            return Ok(());
        }
        self.has_xattrs |= !head.attributes.xattr_bytes().is_empty();
        let node = head.attributes.node(len);
        self.place(&head.key, node);
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
        let mut firsts: HashMap<Key, Key> = HashMap::with_capacity(links.len());
        for links in links.chunks(LINKS_LEN) {
            let keys: Vec<Key> = links.iter().map(|link| link.key.clone()).collect();
            for (key, record) in keys.iter().zip(self.pack.get_many(&keys)?) {
                // What is damaged leads nowhere, which is reported for each.
                if let Some(Some(record)) = self.pack.snapshot.log.unless_damaged(record)? {
                    firsts.insert(key.clone(), Key::bytes(&record.body)?);
                }
            }
        }
        for link in links {
            match self.file_of(&firsts, &link.key) {
                Some((id, first)) => self.link(&link.key, id, first),
                None => self.add_lost_link(link)?,
            }
        }
        Ok(())
    }

    /// The file that a link leads to over others, and its key, as [`Pack::open_source`] finds it.
    fn file_of(&self, firsts: &HashMap<Key, Key>, link: &Key) -> Option<(NodeId, Key)> {
        let mut at = firsts.get(link)?;
        for _ in 1..HOPS_MAX {
            let Some(next) = firsts.get(at) else {
                let id = self.builder.find(&names::path_of(at, false))?;
                let is_it = self.keys.get(&id.get()).is_none_or(|key| key == at);
                let is_file = !matches!(self.builder.kind(id)?, Kind::Directory | Kind::Symlink);
                return (is_it && is_file).then(|| (id, at.clone()));
            };
            at = next;
        }
        None
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
        let Self { builder, keys, lost, hiding, mut hidden, has_xattrs, .. } = self;
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
        Built { table, keys, lost, hiding, hidden, has_xattrs }
    }
}
