//! [`Bodies`]: the sources of the bodies of a virtual file, of which few are open at a time.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::file::Parts;
use crate::error::{Error, Result};
use crate::source::{Identity, Source};
use crate::tree::target::share_of_descriptors;

/// Bodies that stay open, at most: each takes two descriptors if it is read directly.
const OPEN_MAX: usize = 512;
/// One of so many descriptors of a process is for each of them.
const DESCRIPTORS_PER_BODY: u64 = 8;
/// Threads that open bodies wait for one another only in one of so many shards.
const SHARDS: usize = 16;

/// The bodies of a virtual file that were opened: those that still are, and what each was when it
/// was opened first.
#[derive(Debug)]
pub struct Bodies {
    parts: Arc<dyn Parts>,
    shards: [Mutex<Shard>; SHARDS],
    open_max: usize,
    /// Whether a body is checked when it is closed to make room. Of one that is always checked
    /// after it was read, a change would be the error of another one that is opened.
    checks_closed: bool,
}

#[derive(Debug, Default)]
struct Shard {
    open: HashMap<u32, Arc<dyn Source>>,
    /// Those that are open, the one that was opened first in front.
    order: VecDeque<u32>,
    seen: HashMap<u32, Identity>,
}

impl Bodies {
    pub(super) fn new(parts: Arc<dyn Parts>, checks_closed: bool) -> Self {
        let open_max = share_of_descriptors(DESCRIPTORS_PER_BODY, OPEN_MAX).div_ceil(SHARDS).max(1);
        Self { parts, shards: std::array::from_fn(|_| Mutex::default()), open_max, checks_closed }
    }

    pub(super) fn parts(&self) -> &dyn Parts {
        &*self.parts
    }

    pub(super) fn shared_parts(&self) -> Arc<dyn Parts> {
        self.parts.clone()
    }

    fn shard(&self, number: u32) -> MutexGuard<'_, Shard> {
        let shard = self.shards.get(number as usize % SHARDS).unwrap_or(&self.shards[0]);
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The source of a body, which is as it was when it was opened first.
    ///
    /// # Errors
    /// The errors of opening it; [`Error::SourceChanged`].
    pub fn get(&self, number: u32) -> Result<Arc<dyn Source>> {
        if let Some(open) = self.shard(number).open.get(&number) {
            return Ok(open.clone());
        }
        // Others may open it meanwhile, too; one of both stays.
        let opened = self.parts.open(number)?;
        let mut shard = self.shard(number);
        let identity = opened.identity();
        match shard.seen.get(&number) {
            Some(before) if !before.same_content(&identity) => {
                return Err(Error::changed(opened.path(), before.clone(), identity));
            }
            Some(_) => {}
            None => _ = shard.seen.insert(number, identity),
        }
        if shard.open.insert(number, opened.clone()).is_none() {
            shard.order.push_back(number);
        }
        let mut closed = Vec::new();
        while shard.order.len() > self.open_max {
            let Some(first) = shard.order.pop_front() else { break };
            closed.extend(shard.open.remove(&first));
        }
        drop(shard);
        if self.checks_closed {
            // Nobody asks it again whether it is what it was when its bytes were read.
            closed.iter().try_for_each(|source| source.check_unchanged())?;
        }
        Ok(opened)
    }

    /// Opens a body that was laid out without bytes, and keeps nothing of it.
    ///
    /// # Errors
    /// The errors of opening it; [`Error::SourceChanged`] where it has bytes.
    pub(super) fn check_empty(&self, number: u32) -> Result<()> {
        is_empty(&*self.parts.open(number)?)
    }

    /// Closes all that are open, once they were checked.
    pub(super) fn close(&self) {
        for shard in &self.shards {
            let closed = {
                let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                shard.order.clear();
                std::mem::take(&mut shard.open)
            };
            drop(closed);
        }
    }

    /// Returns an error if a body is not what it was when it was opened. One that never was has
    /// given no bytes.
    pub(super) fn check(&self, number: u32) -> Result<()> {
        let (open, is_seen) = {
            let shard = self.shard(number);
            (shard.open.get(&number).cloned(), shard.seen.contains_key(&number))
        };
        match open {
            Some(open) => open.check_unchanged(),
            None if is_seen => self.get(number).map(drop),
            None => Ok(()),
        }
    }

    /// The same of all that are open.
    pub(super) fn check_open(&self) -> Result<()> {
        for shard in &self.shards {
            let open: Vec<Arc<dyn Source>> = {
                let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                shard.open.values().cloned().collect()
            };
            open.iter().try_for_each(|source| source.check_unchanged())?;
        }
        Ok(())
    }
}

/// Returns an error for a body that was laid out without bytes, and has some.
pub(super) fn is_empty(body: &dyn Source) -> Result<()> {
    match body.len() {
        0 => Ok(()),
        _ => Err(Error::changed(body.path(), Identity::default(), body.identity())),
    }
}
