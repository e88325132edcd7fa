//! [`Bodies`]: the sources of the bodies of a virtual file, of which few are open at a time.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::file::Parts;
use crate::error::{Error, Result, chain};
use crate::source::{Identity, Source};
use crate::tree::descriptors::{is_short_of_descriptors, with_descriptors};
use crate::tree::target::share_of_descriptors;

/// Bodies of all virtual files that stay open, at most: each takes two descriptors if it is read
/// directly.
const OPEN_MAX: usize = 512;
/// One of so many descriptors of a process is for each of them.
const DESCRIPTORS_PER_BODY: u64 = 8;
/// Threads that open bodies wait for one another only in one of so many shards.
const SHARDS: usize = 16;

/// All bodies that are open in this process, the one that was opened first in front: however many
/// virtual files there are, they share the descriptors.
static OPEN: Mutex<VecDeque<(Weak<Opened>, u32)>> = Mutex::new(VecDeque::new());

/// The bodies of a virtual file that were opened: those that still are, and what each was when it
/// was opened first.
#[derive(Debug)]
pub struct Bodies {
    parts: Arc<dyn Parts>,
    opened: Arc<Opened>,
}

#[derive(Debug, Default)]
struct Opened {
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    open: HashMap<u32, Arc<dyn Source>>,
    seen: HashMap<u32, Identity>,
    /// What was found of those that were not what they had been when they were closed. It is the
    /// error of those who read these, not of the file that made room for another body.
    refused: HashMap<u32, Error>,
}

impl Bodies {
    pub(super) fn new(parts: Arc<dyn Parts>) -> Self {
        Self { parts, opened: Arc::default() }
    }

    pub(super) fn parts(&self) -> &dyn Parts {
        &*self.parts
    }

    pub(super) fn shared_parts(&self) -> Arc<dyn Parts> {
        self.parts.clone()
    }

    /// The source of a body, which is as it was when it was opened first.
    ///
    /// # Errors
    /// The errors of opening it; [`Error::SourceChanged`].
    pub fn get(&self, number: u32) -> Result<Arc<dyn Source>> {
        if let Some(open) = self.opened.shard(number).open.get(&number) {
            return Ok(open.clone());
        }
        // Others may open it meanwhile, too; one of both stays.
        let source = with_descriptors(|| self.open(number), is_short_of_descriptors, close_all)?;
        // Without the lock: it may open a file, and so close another body of this shard.
        let identity = source.identity();
        let mut shard = self.opened.shard(number);
        shard.seen.entry(number).or_insert(identity);
        let is_new = shard.open.insert(number, source.clone()).is_none();
        drop(shard);
        if is_new {
            self.opened.make_room_for(number);
        }
        Ok(source)
    }

    /// What a body was when it was opened first; `None` as long as it never was.
    pub(super) fn seen(&self, number: u32) -> Option<Identity> {
        self.opened.shard(number).seen.get(&number).cloned()
    }

    /// Opens a body, and keeps nothing of it.
    fn open(&self, number: u32) -> Result<Arc<dyn Source>> {
        let source = self.parts.open(number)?;
        // Without the lock, as above.
        let identity = source.identity();
        let shard = self.opened.shard(number);
        shard.check(number)?;
        match shard.seen.get(&number) {
            Some(before) if !before.same_content(&identity) => {
                Err(Error::changed(source.path(), before.clone(), identity))
            }
            _ => Ok(source),
        }
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
        self.opened.leave();
        for shard in &self.opened.shards {
            let closed = std::mem::take(&mut locked(shard).open);
            drop(closed);
        }
    }

    /// Returns an error if a body is not what it was when it was opened. One that never was has
    /// given no bytes.
    pub(super) fn check(&self, number: u32) -> Result<()> {
        let (open, is_seen) = {
            let shard = self.opened.shard(number);
            shard.check(number)?;
            (shard.open.get(&number).cloned(), shard.seen.contains_key(&number))
        };
        match open {
            Some(open) => open.check_unchanged(),
            None if is_seen => self.open(number).map(drop),
            None => Ok(()),
        }
    }

    /// The same of all that are open, and of those that were checked when they were closed.
    pub(super) fn check_open(&self) -> Result<()> {
        for shard in &self.opened.shards {
            let open: Vec<Arc<dyn Source>> = {
                let shard = locked(shard);
                shard.refused.values().next().map_or(Ok(()), |error| Err(again(error)))?;
                shard.open.values().cloned().collect()
            };
            open.iter().try_for_each(|source| source.check_unchanged())?;
        }
        Ok(())
    }
}

impl Opened {
    fn shard(&self, number: u32) -> MutexGuard<'_, Shard> {
        locked(self.shards.get(number as usize % SHARDS).unwrap_or(&self.shards[0]))
    }

    /// Takes a body up among those that are open, and closes what was opened first if those are too
    /// many.
    fn make_room_for(self: &Arc<Self>, number: u32) {
        let open_max = share_of_descriptors(DESCRIPTORS_PER_BODY, OPEN_MAX);
        let mut closed = Vec::new();
        {
            let mut open = locked(&OPEN);
            open.push_back((Arc::downgrade(self), number));
            while open.len() > open_max {
                closed.extend(open.pop_front());
            }
        }
        close(closed);
    }

    fn close_one(&self, number: u32) {
        let Some(source) = self.shard(number).open.remove(&number) else { return };
        // Nobody asks it again whether it is what it was when its bytes were read.
        if let Err(error) = source.check_unchanged() {
            self.shard(number).refused.insert(number, error);
        }
    }

    /// Takes its bodies out of those that are open.
    fn leave(&self) {
        locked(&OPEN).retain(|(owner, _)| !std::ptr::eq(owner.as_ptr(), self));
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Shard {
    fn check(&self, number: u32) -> Result<()> {
        self.refused.get(&number).map_or(Ok(()), |error| Err(again(error)))
    }
}

/// Closes all bodies of all virtual files.
fn close_all() {
    let all = std::mem::take(&mut *locked(&OPEN));
    close(all);
}

fn close(bodies: impl IntoIterator<Item = (Weak<Opened>, u32)>) {
    for (owner, number) in bodies {
        if let Some(owner) = owner.upgrade() {
            owner.close_one(number);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same error once more.
fn again(error: &Error) -> Error {
    match error {
        Error::SourceChanged { path, before, after } => {
            Error::changed(path, (**before).clone(), (**after).clone())
        }
        error => {
            let kind = error.io_kind().unwrap_or(io::ErrorKind::Other);
            Error::io("check", "a part of a virtual file", io::Error::new(kind, chain(error)))
        }
    }
}

/// Returns an error for a body that was laid out without bytes, and has some.
pub(super) fn is_empty(body: &dyn Source) -> Result<()> {
    match body.len() {
        0 => Ok(()),
        _ => Err(Error::changed(body.path(), Identity::default(), body.identity())),
    }
}
