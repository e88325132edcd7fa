//! [`Writer`]: a pack that any number of threads write to, with readers that see what it wrote.
//!
//! A reader shows the state that it was opened with. What was put since is kept in memory, up to a
//! bound, so that a loop of puts and gets costs neither syncs nor openings; beyond it, and after
//! what cannot be kept, [`PendingChange::Stale`] says that readers are to be opened again.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

use crate::pack::{self, Attributes, Durability, FileKind, Key, KeyValue, Pack, PackWriter, SharedWriter};

/// Bytes of recent puts that are kept in memory for gets. Beyond that the pack is opened again.
const RECENT_BYTES_MAX: usize = 32 << 20;
/// Approximate memory of an entry beside key and value.
const ENTRY_BYTES: usize = 100;

/// A result of writing.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pack, or what is below it.
    #[error(transparent)]
    Pack(#[from] pack::Error),
    /// It was closed.
    #[error("this pack is closed")]
    Closed,
    /// It is open for reading.
    #[error("this pack is open to be read")]
    ReadOnly,
    /// A state of the past was to be written to.
    #[error("a state of the past can only be read")]
    Past,
    /// No segment can have this length.
    #[error(transparent)]
    SegmentLen(pack::Error),
    /// The call comes from a callback of a call that holds the writer exclusively.
    #[error("this pack is being changed by the call whose callback this is; wait until it has ended")]
    Reentrant,
}

thread_local! {
    /// A unique number of this thread.
    static THREAD: u64 = {
        static LAST: AtomicU64 = AtomicU64::new(0);
        LAST.fetch_add(1, Ordering::Relaxed) + 1
    };
}

/// A writer for many threads.
pub struct Writer {
    inner: Inner,
    recent: Mutex<Recent>,
    /// The next id, once it is known.
    next_id: Mutex<NextId>,
    process: u32,
    /// The thread that holds the writer exclusively; 0 for none.
    exclusive: AtomicU64,
    closed: AtomicBool,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let closed = self.closed.load(Ordering::Relaxed);
        f.debug_struct("Writer")
            .field("process", &self.process)
            .field("closed", &closed)
            .finish_non_exhaustive()
    }
}

/// `Shared` where every put is durable when it returns: threads that wait share a sync.
enum Inner {
    Plain(Mutex<Option<Box<PackWriter>>>),
    Shared(RwLock<Option<SharedWriter>>),
}

/// Puts and deletions since readers were last opened.
#[derive(Default)]
struct Recent {
    values: HashMap<Key, Option<Bytes>>,
    bytes: usize,
    /// Whether there are changes that are not in `values`, so that readers must be opened again.
    stale: bool,
}

/// The id above all others.
#[derive(Default)]
enum NextId {
    /// Not looked up yet.
    #[default]
    Unknown,
    /// `None` where the highest possible id is taken.
    Known(Option<u64>),
}

/// A change of a batch.
#[derive(Debug)]
pub enum Change<B> {
    /// Puts a record.
    Put {
        /// Its key.
        key: Key,
        /// Its attributes.
        attributes: Attributes,
        /// Its body.
        body: B,
    },
    /// Deletes the record with this key, if there is one.
    Delete(Key),
}

impl<B> Change<B> {
    /// The key, if it is deleted.
    fn deleted(&self) -> Option<&Key> {
        match self {
            Self::Put { .. } => None,
            Self::Delete(key) => Some(key),
        }
    }

    /// The key, if it is put.
    fn put(&self) -> Option<&Key> {
        match self {
            Self::Put { key, .. } => Some(key),
            Self::Delete(_) => None,
        }
    }
}

/// A change of a key that readers do not see: they show the state that they were opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingChange {
    /// The value that was put; `None` after a deletion.
    Known(Option<Bytes>),
    /// No change since readers were opened.
    Unknown,
    /// Readers must be opened again first.
    Stale,
}

impl Writer {
    /// Lets many threads use a writer that was opened with this durability.
    pub fn new(writer: PackWriter, durability: Durability) -> Self {
        let inner = match durability {
            Durability::Every => Inner::Shared(RwLock::new(Some(SharedWriter::new(writer)))),
            _ => Inner::Plain(Mutex::new(Some(Box::new(writer)))),
        };
        Self {
            inner,
            recent: Mutex::default(),
            next_id: Mutex::default(),
            process: std::process::id(),
            exclusive: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Puts a record and returns its sequence number.
    ///
    /// # Errors
    /// Those of [`PackWriter::put`]; [`Error::Closed`], [`Error::Reentrant`], and
    /// [`pack::Error::Forked`] in a child of the process that opened it.
    pub fn put(&self, group: &str, key: &Key, attributes: &Attributes, body: &[u8]) -> Result<u64> {
        let sequence = self.put_record(group, key, attributes, body)?;
        self.note_ids(std::iter::once(key));
        Ok(sequence)
    }

    /// Keeps appended ids above all ids that were put.
    fn note_ids<'k>(&self, keys: impl Iterator<Item = &'k Key>) {
        let ids = keys.filter_map(|key| match key.value() {
            KeyValue::Id(id) => Some(id),
            KeyValue::Bytes(_) => None,
        });
        let Some(highest) = ids.max() else { return };
        let mut next = locked(&self.next_id);
        if let NextId::Known(known) = *next
            && known.is_none_or(|known| known <= highest)
        {
            *next = NextId::Known(highest.checked_add(1));
        }
    }

    /// Refuses calls of forked children and of callbacks. To be called before any lock is taken: a
    /// lock that a thread of the parent held at the fork is never released in the child.
    ///
    /// # Errors
    /// [`pack::Error::Forked`], [`Error::Reentrant`].
    pub fn enter(&self) -> Result<()> {
        if !self.is_ours() {
            return Err(pack::Error::Forked { owner: self.process }.into());
        }
        match self.exclusive.load(Ordering::Relaxed) == THREAD.with(|thread| *thread) {
            true => Err(Error::Reentrant),
            false => Ok(()),
        }
    }

    /// Why there is no writer.
    fn gone(&self) -> Error {
        match self.closed.load(Ordering::Relaxed) {
            true => Error::Closed,
            false => pack::Error::Stopped.into(),
        }
    }

    fn put_record(&self, group: &str, key: &Key, attributes: &Attributes, body: &[u8]) -> Result<u64> {
        self.write_one(
            |writer| writer.put(group, key, attributes, body),
            |writer| writer.put(group, key, attributes, body),
            |recent| match attributes.file_kind() {
                // Its value is that of another record: readers look it up.
                Some(FileKind::HardLink) => recent.stale = true,
                _ => recent.note(key, Some(body)),
            },
        )
    }

    /// Writes one change and notes it for readers; with a shared writer, readers are opened again.
    fn write_one<T>(
        &self,
        plain: impl FnOnce(&mut PackWriter) -> pack::Result<T>,
        shared: impl FnOnce(&SharedWriter) -> pack::Result<T>,
        note: impl FnOnce(&mut Recent),
    ) -> Result<T> {
        self.enter()?;
        match &self.inner {
            Inner::Plain(writer) => {
                let mut writer = locked(writer);
                let written = plain(writer.as_mut().ok_or_else(|| self.gone())?)?;
                // Under the lock of the writer: notes must be in the order of sequence numbers.
                note(&mut self.recent());
                Ok(written)
            }
            Inner::Shared(writer) => {
                let writer = read(writer);
                let written = shared(writer.as_ref().ok_or_else(|| self.gone())?)?;
                self.recent().stale = true;
                Ok(written)
            }
        }
    }

    /// Puts a record under the next id and returns the id.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    /// [`pack::Error::Invalid`] where the highest id is taken; those of `open`.
    pub fn append(
        &self,
        group: &str,
        attributes: &Attributes,
        body: &[u8],
        open: impl FnOnce() -> pack::Result<Pack>,
    ) -> Result<u64> {
        self.enter()?;
        // Held until the record is written, so that no two threads take the same id.
        let mut next = locked(&self.next_id);
        let known = match *next {
            NextId::Known(known) => known,
            NextId::Unknown => {
                self.with(|writer| writer.sync())?;
                open()?.last_id()?.map_or(Some(0), |id| id.checked_add(1))
            }
        };
        let mut id = known.ok_or_else(no_more_ids)?;
        while self.contains(&Key::id(id))? {
            id = id.checked_add(1).ok_or_else(no_more_ids)?;
        }
        self.put_record(group, &Key::id(id), attributes, body)?;
        *next = NextId::Known(id.checked_add(1));
        Ok(id)
    }

    fn contains(&self, key: &Key) -> Result<bool> {
        match &self.inner {
            Inner::Plain(writer) => Ok(locked(writer).as_ref().ok_or_else(|| self.gone())?.contains(key)?),
            Inner::Shared(_) => self.exclusively(|writer| writer.contains(key)),
        }
    }

    /// Deletes a record; returns whether there was one.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&self, key: &Key) -> Result<bool> {
        self.write_one(
            |writer| writer.delete(key),
            |writer| writer.delete(key),
            |recent| recent.note(key, None),
        )
    }

    /// Deletes a record and returns its value, atomically. `open` opens readers again, `get` asks
    /// them.
    ///
    /// # Errors
    /// As [`put`](Self::put); those of `open` and `get`.
    pub fn pop(
        &self,
        key: &Key,
        open: impl FnOnce() -> pack::Result<()>,
        get: impl FnOnce() -> pack::Result<Option<Bytes>>,
    ) -> Result<Option<Bytes>> {
        self.exclusively(|writer| {
            let value = self.value_now(writer, key, open, get)?;
            if value.is_some() {
                writer.delete(key)?;
                self.recent().note(key, None);
            }
            Ok(value)
        })
    }

    /// Puts a record unless there is one with this key, atomically; returns the value of the one
    /// that is there. `open` opens readers again, `get` asks them.
    ///
    /// # Errors
    /// As [`put`](Self::put); those of `open` and `get`.
    pub fn put_if_absent(
        &self,
        group: &str,
        key: &Key,
        body: &[u8],
        open: impl FnOnce() -> pack::Result<()>,
        get: impl FnOnce() -> pack::Result<Option<Bytes>>,
    ) -> Result<Option<Bytes>> {
        let present = self.exclusively(|writer| {
            let value = self.value_now(writer, key, open, get)?;
            if value.is_none() {
                writer.put(group, key, &Attributes::new(), body)?;
                self.recent().note(key, Some(body));
            }
            Ok(value)
        })?;
        if present.is_none() {
            self.note_ids(std::iter::once(key));
        }
        Ok(present)
    }

    /// Deletes the record that readers give as the first, and returns its key and value,
    /// atomically. `open` opens readers again, `first` asks them.
    ///
    /// # Errors
    /// As [`put`](Self::put); those of `open` and `first`.
    pub fn pop_first(
        &self,
        open: impl FnOnce() -> pack::Result<()>,
        first: impl FnOnce() -> pack::Result<Option<(Key, Bytes)>>,
    ) -> Result<Option<(Key, Bytes)>> {
        self.exclusively(|writer| {
            if self.has_news() {
                self.renew(writer, open)?;
            }
            let found = first()?;
            if let Some((key, _)) = &found {
                writer.delete(key)?;
                self.recent().note(key, None);
            }
            Ok(found)
        })
    }

    /// The value of a key, for a change that depends on it.
    fn value_now(
        &self,
        writer: &mut PackWriter,
        key: &Key,
        open: impl FnOnce() -> pack::Result<()>,
        get: impl FnOnce() -> pack::Result<Option<Bytes>>,
    ) -> pack::Result<Option<Bytes>> {
        match self.pending_change(key) {
            PendingChange::Known(value) => Ok(value),
            PendingChange::Unknown => get(),
            PendingChange::Stale => {
                self.renew(writer, open)?;
                get()
            }
        }
    }

    /// Makes changes that count together or not at all, and none of them where `go_on` returns
    /// `false`.
    ///
    /// # Errors
    /// As [`put`](Self::put), and those of [`PackWriter::batch`].
    pub fn commit<B: AsRef<[u8]>>(
        &self,
        group: &str,
        changes: &[Change<B>],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let is_written = self.with(|writer| write_batch(writer, group, changes, go_on))?;
        if is_written {
            self.note_ids(changes.iter().filter_map(Change::put));
        }
        Ok(())
    }

    /// Runs `change` with exclusive access. Readers are opened again before the next read.
    ///
    /// # Errors
    /// As [`put`](Self::put); those of `change`.
    pub fn with<T>(&self, change: impl FnOnce(&mut PackWriter) -> pack::Result<T>) -> Result<T> {
        self.exclusively(|writer| {
            let changed = change(writer);
            self.recent().stale = true;
            changed
        })
    }

    fn exclusively<T>(&self, change: impl FnOnce(&mut PackWriter) -> pack::Result<T>) -> Result<T> {
        self.enter()?;
        match &self.inner {
            Inner::Plain(writer) => {
                let mut writer = locked(writer);
                self.hold_exclusive(|| {
                    change(writer.as_mut().ok_or_else(|| self.gone())?).map_err(Into::into)
                })
            }
            Inner::Shared(shared) => {
                let mut slot = written(shared);
                let mut writer = slot.take().ok_or_else(|| self.gone())?.finish()?;
                let result = self.hold_exclusive(|| change(&mut writer).map_err(Into::into));
                *slot = Some(SharedWriter::new(writer));
                result
            }
        }
    }

    /// Notes which thread holds the writer, so that a callback that wants it is refused instead of
    /// deadlocking.
    fn hold_exclusive<T>(&self, change: impl FnOnce() -> Result<T>) -> Result<T> {
        self.exclusive.store(THREAD.with(|thread| *thread), Ordering::Relaxed);
        let result = change();
        self.exclusive.store(0, Ordering::Relaxed);
        result
    }

    /// Closes the pack: all puts are durable when this returns.
    ///
    /// # Errors
    /// Errors of the last sync; as [`enter`](Self::enter).
    pub fn close(&self) -> Result<()> {
        self.enter()?;
        self.closed.store(true, Ordering::Relaxed);
        let writer = match &self.inner {
            Inner::Plain(writer) => locked(writer).take().map(|writer| *writer),
            Inner::Shared(shared) => written(shared).take().map(SharedWriter::finish).transpose()?,
        };
        Ok(writer.map_or(Ok(()), |writer| writer.finish(false))?)
    }

    /// Whether this is the process that opened it.
    pub fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// The change of a key that readers do not see.
    pub fn pending_change(&self, key: &Key) -> PendingChange {
        let recent = self.recent();
        if recent.stale {
            return PendingChange::Stale;
        }
        recent.values.get(key).map_or(PendingChange::Unknown, |value| PendingChange::Known(value.clone()))
    }

    /// Whether anything changed since readers were opened.
    pub fn has_news(&self) -> bool {
        let recent = self.recent();
        recent.stale || !recent.values.is_empty()
    }

    /// Syncs, then opens readers again with `open`. No put comes in between.
    ///
    /// # Errors
    /// As [`put`](Self::put); those of `open`.
    pub fn reopen(&self, open: impl FnOnce() -> pack::Result<()>) -> Result<()> {
        self.exclusively(|writer| self.renew(writer, open))
    }

    fn renew(&self, writer: &mut PackWriter, open: impl FnOnce() -> pack::Result<()>) -> pack::Result<()> {
        writer.sync()?;
        open()?;
        // Only now: readers have all that is dropped here.
        *self.recent() = Recent::default();
        Ok(())
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        locked(&self.recent)
    }
}

/// Whether all of it was written.
fn write_batch<B: AsRef<[u8]>>(
    writer: &mut PackWriter,
    group: &str,
    changes: &[Change<B>],
    go_on: &mut dyn FnMut() -> bool,
) -> pack::Result<bool> {
    let mut batch = writer.batch(group)?;
    for run in changes.chunk_by(|one, next| one.deleted().is_some() && next.deleted().is_some()) {
        if let [Change::Put { key, attributes, body }] = run {
            if !go_on() {
                return Ok(false);
            }
            batch.put(key, attributes, body.as_ref())?;
            continue;
        }
        let keys = run.iter().filter_map(Change::deleted);
        if batch.delete_all(keys, &mut |_| go_on())?.is_none() {
            return Ok(false);
        }
    }
    batch.commit()?;
    Ok(true)
}

/// Locks that ignore poisoning: what they guard is consistent even after a panic.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn written<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

fn no_more_ids() -> pack::Error {
    pack::Error::Invalid(
        "the highest id that there is, 2**64 - 1, is taken: put the record under a key of your own".into(),
    )
}

impl Recent {
    fn note(&mut self, key: &Key, body: Option<&[u8]>) {
        let len = body.map_or(0, <[u8]>::len);
        self.bytes += key.sort_form().len() + len + ENTRY_BYTES;
        if self.bytes > RECENT_BYTES_MAX {
            // Too much: readers are opened again.
            *self = Self { stale: true, ..Self::default() };
        }
        if !self.stale {
            self.values.insert(key.clone(), body.map(Bytes::copy_from_slice));
        }
    }
}
