//! The writer behind a `Pack`: used by any number of threads, and what it put is seen by its
//! readers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, RwLock};

use bytes::Bytes;
use stook::pack::{self, Attributes, Durability, FileKind, Key, KeyValue, Pack, PackWriter, SharedWriter};

use crate::errors::{Raise, closed, invalid};
use crate::locks::{locked, read, written};

/// So many bytes that were put are kept in memory for gets before the pack is opened anew.
const RECENT_BYTES_MAX: usize = 32 << 20;
/// What an entry takes beside key and value, about.
const ENTRY_BYTES: usize = 100;

/// Why nothing was written.
pub(crate) enum WriteError {
    /// What the library met.
    Pack(pack::Error),
    /// The pack was closed.
    Closed,
    /// It is asked from within a call that has the writer for itself.
    Within,
}

/// A result of writing.
pub(crate) type Result<T> = std::result::Result<T, WriteError>;

impl From<pack::Error> for WriteError {
    fn from(error: pack::Error) -> Self {
        Self::Pack(error)
    }
}

impl Raise for WriteError {
    fn raise(&self) -> pyo3::PyErr {
        match self {
            Self::Pack(error) => error.raise(),
            Self::Closed => closed("pack"),
            Self::Within => invalid(
                "this pack is being changed by the call whose callback this is; wait until it has ended",
            ),
        }
    }
}

thread_local! {
    /// A number that no other thread has.
    static THREAD: u64 = {
        static LAST: AtomicU64 = AtomicU64::new(0);
        LAST.fetch_add(1, Ordering::Relaxed) + 1
    };
}

/// A writer for many threads.
pub(crate) struct Writer {
    inner: Inner,
    recent: Mutex<Recent>,
    /// The next id, once it was asked for.
    next_id: Mutex<NextId>,
    process: u32,
    /// The thread that has the writer for itself; 0 for none.
    alone: AtomicU64,
    closed: AtomicBool,
}

/// Every put durable when it returns, and then shared by all that wait; or one after another.
enum Inner {
    Plain(Mutex<Option<Box<PackWriter>>>),
    Shared(RwLock<Option<SharedWriter>>),
}

/// What was put or deleted since readers were opened last.
#[derive(Default)]
pub(crate) struct Recent {
    values: HashMap<Key, Option<Bytes>>,
    bytes: usize,
    /// Whether readers do not know all, also where it is not among the values.
    stale: bool,
}

/// The id above all others.
#[derive(Default)]
enum NextId {
    /// Nobody asked yet.
    #[default]
    Unknown,
    /// `None` where the highest that there is has been taken.
    Known(Option<u64>),
}

/// The change of a key that readers, who see the state they were opened with, do not know yet.
pub(crate) enum PendingChange {
    /// The value that was put; `None` after a deletion.
    Known(Option<Bytes>),
    /// Nothing since readers were opened.
    Unknown,
    /// Readers have to be opened anew first.
    Stale,
}

impl Writer {
    pub(crate) fn new(writer: PackWriter, durability: Durability) -> Self {
        let inner = match durability {
            Durability::Every => Inner::Shared(RwLock::new(Some(SharedWriter::new(writer)))),
            _ => Inner::Plain(Mutex::new(Some(Box::new(writer)))),
        };
        Self {
            inner,
            recent: Mutex::default(),
            next_id: Mutex::default(),
            process: std::process::id(),
            alone: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Puts a record and gives its sequence number.
    pub(crate) fn put(&self, group: &str, key: &Key, attributes: &Attributes, body: &[u8]) -> Result<u64> {
        let sequence = self.put_record(group, key, attributes, body)?;
        self.note_ids(std::iter::once(key));
        Ok(sequence)
    }

    /// Ids that are appended are above all that were put.
    pub(crate) fn note_ids<'k>(&self, keys: impl Iterator<Item = &'k Key>) {
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

    /// Before any lock: one that a thread of the parent held when this process was forked is never
    /// let go here.
    pub(crate) fn enter(&self) -> Result<()> {
        if !self.is_ours() {
            return Err(pack::Error::Forked { owner: self.process }.into());
        }
        match self.alone.load(Ordering::Relaxed) == THREAD.with(|thread| *thread) {
            true => Err(WriteError::Within),
            false => Ok(()),
        }
    }

    /// Why there is no writer any more.
    fn gone(&self) -> WriteError {
        match self.closed.load(Ordering::Relaxed) {
            true => WriteError::Closed,
            false => pack::Error::Stopped.into(),
        }
    }

    fn put_record(&self, group: &str, key: &Key, attributes: &Attributes, body: &[u8]) -> Result<u64> {
        self.write_one(
            |writer| writer.put(group, key, attributes, body),
            |writer| writer.put(group, key, attributes, body),
            |recent| match attributes.file_kind() {
                // Its value is that of another record, which readers find.
                Some(FileKind::HardLink) => recent.stale = true,
                _ => recent.note(key, Some(body)),
            },
        )
    }

    /// Writes one change. What readers do not know of it yet is noted; where threads share the
    /// writer, readers look for themselves.
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
                // Under the lock of the writer, so that notes are in the order of sequence numbers.
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

    /// Puts a record under the next id and gives it.
    pub(crate) fn append(
        &self,
        group: &str,
        attributes: &Attributes,
        body: &[u8],
        open: impl FnOnce() -> pack::Result<Pack>,
    ) -> Result<u64> {
        self.enter()?;
        // Held until the record is there: no two threads take the same id.
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
            Inner::Shared(_) => self.alone(|writer| writer.contains(key)),
        }
    }

    /// Deletes a record; whether there was one.
    pub(crate) fn delete(&self, key: &Key) -> Result<bool> {
        self.write_one(
            |writer| writer.delete(key),
            |writer| writer.delete(key),
            |recent| recent.note(key, None),
        )
    }

    /// Deletes a record and gives its value, with nothing in between. `open` gives readers the new
    /// state, `get` asks them.
    pub(crate) fn pop(
        &self,
        key: &Key,
        open: impl FnOnce() -> pack::Result<()>,
        get: impl FnOnce() -> pack::Result<Option<Bytes>>,
    ) -> Result<Option<Bytes>> {
        self.alone(|writer| {
            let value = match self.pending_change(key) {
                PendingChange::Known(value) => value,
                PendingChange::Unknown => get()?,
                PendingChange::Stale => {
                    self.renew(writer, open)?;
                    get()?
                }
            };
            if value.is_some() {
                writer.delete(key)?;
                self.recent().note(key, None);
            }
            Ok(value)
        })
    }

    /// Does something with the writer alone. Readers are opened anew before they are asked again.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut PackWriter) -> pack::Result<T>) -> Result<T> {
        self.alone(|writer| {
            let changed = change(writer);
            self.recent().stale = true;
            changed
        })
    }

    fn alone<T>(&self, change: impl FnOnce(&mut PackWriter) -> pack::Result<T>) -> Result<T> {
        self.enter()?;
        match &self.inner {
            Inner::Plain(writer) => {
                let mut writer = locked(writer);
                self.as_the_one(|| change(writer.as_mut().ok_or_else(|| self.gone())?).map_err(Into::into))
            }
            Inner::Shared(shared) => {
                let mut slot = written(shared);
                let mut writer = slot.take().ok_or_else(|| self.gone())?.finish()?;
                let result = self.as_the_one(|| change(&mut writer).map_err(Into::into));
                *slot = Some(SharedWriter::new(writer));
                result
            }
        }
    }

    /// Notes which thread has the writer, so that a callback that wants it, too, is reported
    /// instead of waiting for itself.
    fn as_the_one<T>(&self, change: impl FnOnce() -> Result<T>) -> Result<T> {
        self.alone.store(THREAD.with(|thread| *thread), Ordering::Relaxed);
        let result = change();
        self.alone.store(0, Ordering::Relaxed);
        result
    }

    /// Lets go of the pack: all that was put is safe when this returns.
    pub(crate) fn close(&self) -> Result<()> {
        self.enter()?;
        self.closed.store(true, Ordering::Relaxed);
        let writer = match &self.inner {
            Inner::Plain(writer) => locked(writer).take().map(|writer| *writer),
            Inner::Shared(shared) => written(shared).take().map(SharedWriter::finish).transpose()?,
        };
        Ok(writer.map_or(Ok(()), |writer| writer.finish(false))?)
    }

    /// Whether this is the process that opened it.
    pub(crate) fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// The change of a key that readers do not know yet.
    pub(crate) fn pending_change(&self, key: &Key) -> PendingChange {
        let recent = self.recent();
        if recent.stale {
            return PendingChange::Stale;
        }
        recent.values.get(key).map_or(PendingChange::Unknown, |value| PendingChange::Known(value.clone()))
    }

    /// Whether anything was done since readers were opened.
    pub(crate) fn has_news(&self) -> bool {
        let recent = self.recent();
        recent.stale || !recent.values.is_empty()
    }

    /// Puts all on the medium, then has `open` give readers the new state. Nothing is put
    /// meanwhile.
    pub(crate) fn reopen(&self, open: impl FnOnce() -> pack::Result<()>) -> Result<()> {
        self.alone(|writer| self.renew(writer, open))
    }

    fn renew(&self, writer: &mut PackWriter, open: impl FnOnce() -> pack::Result<()>) -> pack::Result<()> {
        writer.sync()?;
        open()?;
        // Not before readers have what is forgotten here.
        *self.recent() = Recent::default();
        Ok(())
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        locked(&self.recent)
    }
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
            // Readers will look for themselves.
            *self = Self { stale: true, ..Self::default() };
        }
        if !self.stale {
            self.values.insert(key.clone(), body.map(Bytes::copy_from_slice));
        }
    }
}
