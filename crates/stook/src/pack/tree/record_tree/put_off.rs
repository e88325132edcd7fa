//! Heads of records that are read when they are asked for: with those of their neighbours on the
//! medium, in blocks.
//!
//! Names are known without them, and that a path with others below it is a directory. A hard link
//! is not: whose file it is, and how many names that has, is known when all heads were read. So
//! who asks for a block with a link in it, or with a file that has some, waits for all of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::build::{PendingLink, Said, file_of, firsts_of, said_by};
use super::{KnownNodes, RecordTree};
use crate::pack::error::{Error, Result};
use crate::pack::key::Key;
use crate::tree::{Kind, NodeId, Outline};

/// Nodes whose heads are read together.
const BLOCK_LEN: usize = 512;
/// How long the thread that reads all of them stands back for one that needs some.
const STAND_BACK: Duration = Duration::from_millis(1);

/// What was put off.
#[derive(Debug)]
pub(super) struct PutOff {
    outline: Outline,
    /// Of each block, whether all is known of its nodes.
    known: Vec<AtomicBool>,
    is_complete: AtomicBool,
    /// Threads that wait for a block.
    waiting: AtomicUsize,
    state: Mutex<HeadsRead>,
}

#[derive(Debug, Default)]
struct HeadsRead {
    /// Of each block that was read, whether something in it has several names.
    read: HashMap<usize, bool>,
    links: Vec<(NodeId, PendingLink)>,
    owners: HashMap<(u32, u32), u32>,
}

impl PutOff {
    pub(super) fn new(outline: Outline, nodes: usize) -> Self {
        let known = (0..nodes.div_ceil(BLOCK_LEN)).map(|_| AtomicBool::new(false)).collect();
        Self {
            outline,
            known,
            is_complete: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HeadsRead> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_known(&self, block: usize) -> bool {
        self.known.get(block).is_none_or(|known| known.load(Ordering::Acquire))
    }

    fn set_known(&self, block: usize) {
        if let Some(known) = self.known.get(block) {
            known.store(true, Ordering::Release);
        }
    }

    fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }
}

/// The block of a node.
fn block_of(id: NodeId) -> usize {
    usize::try_from(id.get()).unwrap_or(usize::MAX) / BLOCK_LEN
}

impl RecordTree {
    /// Whether heads are still to be read.
    pub(super) fn put_off(&self) -> Option<&PutOff> {
        self.put_off.as_ref().filter(|put_off| !put_off.is_complete())
    }

    pub(super) fn known_outline(&self) -> Option<Outline> {
        self.put_off.as_ref().map(|put_off| put_off.outline)
    }

    /// Reads what was put off of these nodes. What was asked of the names before is asked again
    /// then.
    pub(super) fn read_heads_of(&self, ids: impl Iterator<Item = NodeId>) -> crate::Result<()> {
        let Some(put_off) = self.put_off() else { return Ok(()) };
        let mut blocks: Vec<usize> = ids.map(block_of).filter(|&block| !put_off.is_known(block)).collect();
        if blocks.is_empty() {
            return Ok(());
        }
        blocks.sort_unstable();
        blocks.dedup();
        put_off.waiting.fetch_add(1, Ordering::AcqRel);
        let mut state = put_off.lock();
        put_off.waiting.fetch_sub(1, Ordering::AcqRel);
        let read = self.read_blocks(put_off, &mut state, &blocks);
        read.map_err(|error| self.error(NodeId::new(0), error))
    }

    fn read_blocks(&self, put_off: &PutOff, state: &mut HeadsRead, blocks: &[usize]) -> Result<()> {
        let mut is_shared = false;
        for &block in blocks {
            is_shared |= self.read_block(state, block)?;
        }
        if is_shared {
            return self.read_rest(put_off, state);
        }
        blocks.iter().for_each(|&block| put_off.set_known(block));
        Ok(())
    }

    /// Reads all that was put off, block after block, unless `go_on` ends it.
    pub(super) fn read_all_heads(&self, go_on: &dyn Fn() -> bool) -> Result<()> {
        let Some(put_off) = self.put_off() else { return Ok(()) };
        for block in 0..put_off.known.len() {
            while put_off.waiting.load(Ordering::Acquire) > 0 && go_on() {
                std::thread::sleep(STAND_BACK);
            }
            if !go_on() {
                return Ok(());
            }
            if !put_off.is_known(block) {
                let mut state = put_off.lock();
                if !self.read_block(&mut state, block)? {
                    put_off.set_known(block);
                }
            }
        }
        self.read_rest(put_off, &mut put_off.lock())
    }

    fn read_rest(&self, put_off: &PutOff, state: &mut HeadsRead) -> Result<()> {
        if put_off.is_complete() {
            return Ok(());
        }
        for block in 0..put_off.known.len() {
            self.read_block(state, block)?;
        }
        self.give_links(state)?;
        (0..put_off.known.len()).for_each(|block| put_off.set_known(block));
        put_off.is_complete.store(true, Ordering::Release);
        Ok(())
    }

    /// Reads the heads of a block, unless they were read. Says whether anything in it has several
    /// names.
    fn read_block(&self, state: &mut HeadsRead, block: usize) -> Result<bool> {
        if let Some(&is_shared) = state.read.get(&block) {
            return Ok(is_shared);
        }
        let wanted: Vec<(NodeId, Key)> = {
            let known = self.known();
            let ids = (block * BLOCK_LEN..(block + 1) * BLOCK_LEN).map(|id| NodeId::new(id as u64));
            ids.filter(|&id| known.is_put_off(id)).filter_map(|id| Some((id, known.key(id)?))).collect()
        };
        let keys: Vec<Key> = wanted.iter().map(|(_, key)| key.clone()).collect();
        let (mut ids, mut entries, mut said) = (Vec::new(), Vec::new(), Vec::new());
        for ((id, key), located) in wanted.into_iter().zip(self.pack.locate(&keys)?) {
            match located {
                Ok(Some(entry)) => {
                    ids.push(id);
                    entries.push(entry);
                }
                // It was in the index when the names were read.
                Ok(None) => said.push((id, Said::Lost)),
                Err(error) => {
                    said.push((id, said_by(&self.pack, &key, Err(error))?));
                }
            }
        }
        for ((id, entry), head) in ids.into_iter().zip(&entries).zip(self.pack.heads(&entries)?) {
            said.push((id, said_by(&self.pack, &entry.key, head.map(|head| (head, entry.found)))?));
        }
        let mut known = self.known_mut();
        let mut is_shared = false;
        for (id, said) in said {
            match said {
                Said::Node { node, has_xattrs, has_hard_links } => {
                    known.has_xattrs |= has_xattrs;
                    is_shared |= has_hard_links;
                    known.table.set(id, &node, &mut state.owners);
                }
                Said::Link(link) => {
                    is_shared = true;
                    state.links.push((id, link));
                }
                Said::Lost => {
                    known.has_xattrs = true;
                    known.lost.insert(id.get());
                }
            }
        }
        state.read.insert(block, is_shared);
        Ok(is_shared)
    }

    /// Gives files their hard links: all that can fail comes before the first of them is given, so
    /// that it can be tried again.
    fn give_links(&self, state: &mut HeadsRead) -> Result<()> {
        let keys: Vec<Key> = state.links.iter().map(|(_, link)| link.key.clone()).collect();
        let firsts = firsts_of(&self.pack, &keys)?;
        let mut given = Vec::with_capacity(state.links.len());
        for (id, link) in &state.links {
            let found = file_of(&firsts, &link.key, |key, path| self.known().file_at(key, path));
            if found.is_none() {
                self.note_lost_link(link)?;
            }
            given.push((*id, found));
        }
        state.links.clear();
        let mut known = self.known_mut();
        for (id, found) in given {
            match found {
                Some((file, first)) => {
                    known.table.share(id, file);
                    known.keys.insert(file.get(), first);
                }
                None => {
                    known.has_xattrs = true;
                    known.lost.insert(id.get());
                }
            }
        }
        known.table.count_names();
        Ok(())
    }

    /// Says in the log why a link leads to no file of the tree.
    fn note_lost_link(&self, link: &PendingLink) -> Result<()> {
        match self.pack.open_source(&link.key) {
            Ok(_) | Err(Error::Unsupported { .. }) => Ok(()),
            Err(Error::Damaged(damage)) => {
                self.pack.snapshot.log.note([damage]);
                Ok(())
            }
            Err(error @ (Error::Invalid(_) | Error::Limit { .. })) => {
                let damage = self.pack.lost_link(link.segment, link.offset, link.key.clone(), &error);
                self.pack.snapshot.log.note([damage]);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

impl KnownNodes {
    /// Whether no more is known of a node than its name.
    fn is_put_off(&self, id: NodeId) -> bool {
        let is_bare = self.table.node(id).is_ok_and(|node| node.kind == Kind::Other);
        is_bare && !self.lost.contains(&id.get())
    }

    /// The file that a path leads to, if it is the record with that key.
    fn file_at(&self, key: &Key, path: &[u8]) -> Option<NodeId> {
        let mut id = self.table.root();
        for name in path.split(|byte| *byte == b'/') {
            id = self.table.lookup(id, name).ok()??;
        }
        let is_it = self.keys.get(&id.get()).is_none_or(|own| own == key);
        let kind = self.table.node(id).ok()?.kind;
        (is_it && !matches!(kind, Kind::Directory | Kind::Symlink)).then_some(id)
    }
}
