//! [`Session`]: a pack that stays open, and a writer to it if it is to be changed, for any number
//! of threads. Readers see everything that was written through it.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

use super::directory::open_pack;
use super::pack::{Making, check_segment_len, open_writer};
use super::shared::{Error, PendingChange, Result, Writer};
use crate::pack::{
    self, Damages, Durability, Key, KeyRange, MapRule, OnDamage, OpenOptions, Pack, PackWriter, WriterOptions,
};
use crate::storage::Storage;

/// How a pack is opened.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its path.
    pub path: PathBuf,
    /// Whether it is made; `None` to read only.
    pub making: Option<Making>,
    /// How it is read.
    pub reading: OpenOptions,
    /// When puts are durable.
    pub durability: Durability,
    /// Segments of a new pack are sealed at this length.
    pub segment_len: u64,
    /// The storage of the writer; [`Session::open`] sets it.
    pub written: Option<Arc<dyn Storage>>,
}

impl Settings {
    /// Those of a pack at this path, to be read.
    pub fn new(path: PathBuf, reading: OpenOptions) -> Self {
        let WriterOptions { durability, segment_len, .. } = WriterOptions::default();
        Self { path, making: None, reading, durability, segment_len, written: None }
    }

    /// Opens the pack for reading.
    ///
    /// # Errors
    /// Those of [`open_pack`].
    pub fn open_reader(&self) -> pack::Result<Pack> {
        let options = self.reading.clone();
        match &self.written {
            // The directory of the writer, even if its path was renamed.
            Some(storage) => Pack::open(storage.clone(), options),
            None => open_pack(&self.path, options),
        }
    }

    /// Whether sealed segments are mapped.
    pub fn is_mapped(&self) -> bool {
        self.reading.map == MapRule::Sealed
    }

    /// Whether it is a state of the past.
    pub fn is_past(&self) -> bool {
        self.reading.at_ns.is_some() || self.reading.generation.is_some()
    }

    fn open_writer(&mut self, making: Making) -> Result<PackWriter> {
        if self.is_past() {
            return Err(Error::Past);
        }
        let (durability, segment_len) = (self.durability, self.segment_len);
        let writing = WriterOptions { durability, segment_len, ..WriterOptions::default() };
        // Before anything is created.
        check_segment_len(&writing).map_err(Error::SegmentLen)?;
        let opened = open_writer(&self.path, writing, making)?;
        self.written = Some(opened.storage);
        Ok(opened.writer)
    }
}

/// How a caller waits for what blocks: an interpreter lets go of its own lock meanwhile. All locks
/// of a session that a fork must not find held are taken outside.
pub trait Wait {
    /// Runs work that may block.
    fn wait<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T;
}

/// An open pack.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    state: RwLock<Option<State>>,
}

#[derive(Debug, Clone)]
struct State {
    reader: Arc<Pack>,
    writer: Option<Arc<Writer>>,
}

/// What opening a pack found.
#[derive(Debug)]
pub struct Findings {
    /// Damage: records may be missing.
    pub damages: Damages,
    /// What a writer before left, as sentences.
    pub notes: Vec<String>,
}

impl Session {
    /// Opens a pack, or makes it.
    ///
    /// # Errors
    /// Those of [`open_pack`] and [`open_writer`]; [`Error::Past`] and [`Error::SegmentLen`].
    pub fn open(mut settings: Settings) -> Result<(Self, Findings)> {
        let (mut damages, mut notes) = (Vec::new(), Vec::new());
        let writer = match settings.making {
            None => None,
            Some(making) => {
                let writer = settings.open_writer(making)?;
                damages.extend_from_slice(&writer.recovery().damages);
                notes = writer.recovery().notes();
                Some(Arc::new(Writer::new(writer, settings.durability)))
            }
        };
        let reader = Arc::new(settings.open_reader()?);
        damages.extend(reader.damages());
        let state = RwLock::new(Some(State { reader, writer }));
        let damages = damages.into_iter().collect();
        Ok((Self { settings, state }, Findings { damages, notes }))
    }

    /// How it was opened.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        read(&self.state).is_none()
    }

    fn state(&self) -> Result<State> {
        read(&self.state).clone().ok_or(Error::Closed)
    }

    /// The writer, if the pack is open for writing.
    ///
    /// # Errors
    /// Returns [`Error::Closed`].
    pub fn writer_if_any(&self) -> Result<Option<Arc<Writer>>> {
        Ok(self.state()?.writer)
    }

    /// The writer.
    ///
    /// # Errors
    /// Returns [`Error::Closed`], and [`Error::ReadOnly`] if the pack is open for reading.
    pub fn writer(&self) -> Result<Arc<Writer>> {
        self.writer_if_any()?.ok_or(Error::ReadOnly)
    }

    /// The current reader, which may not see the latest writes.
    ///
    /// # Errors
    /// Returns [`Error::Closed`].
    pub fn reader_as_is(&self) -> Result<Arc<Pack>> {
        Ok(self.state()?.reader)
    }

    /// A reader that sees everything that was written.
    ///
    /// # Errors
    /// Returns [`Error::Closed`], and errors of syncing and of opening the pack again.
    pub fn reader(&self, wait: &impl Wait) -> Result<Arc<Pack>> {
        if let Some(writer) = self.writer_if_any()?
            && writer.has_news()
        {
            wait.wait(|| writer.reopen(|| self.open_again()))?;
        }
        // Taken only now: another thread may have opened a newer one meanwhile.
        self.reader_as_is()
    }

    /// The current value of a key.
    ///
    /// # Errors
    /// As [`reader`](Self::reader), and those of [`Pack::get_file`].
    pub fn value(&self, key: &Key, wait: &impl Wait) -> Result<Option<Bytes>> {
        if let Some(value) = self.pending(key, wait)? {
            return Ok(value);
        }
        // Taken only now: a change that is no longer pending is visible to this reader.
        let reader = self.reader_as_is()?;
        Ok(wait.wait(|| reader.get_file(key))?.map(|record| record.body))
    }

    /// Whether there is a record with this key.
    ///
    /// # Errors
    /// As [`reader`](Self::reader), and those of [`Pack::contains`].
    pub fn contains(&self, key: &Key, wait: &impl Wait) -> Result<bool> {
        if let Some(value) = self.pending(key, wait)? {
            return Ok(value.is_some());
        }
        let reader = self.reader_as_is()?;
        Ok(wait.wait(|| reader.contains(key))?)
    }

    /// The change of a key that readers do not see yet, if there is one: the value that was put, or
    /// `None` for a deletion.
    fn pending(&self, key: &Key, wait: &impl Wait) -> Result<Option<Option<Bytes>>> {
        let Some(writer) = self.writer_if_any()? else { return Ok(None) };
        loop {
            match writer.pending_change(key) {
                PendingChange::Stale => wait.wait(|| writer.reopen(|| self.open_again()))?,
                PendingChange::Known(value) => return Ok(Some(value)),
                PendingChange::Unknown => return Ok(None),
            }
        }
    }

    /// Deletes a record and returns its value, atomically.
    ///
    /// # Errors
    /// Those of [`writer`](Self::writer) and [`Writer::pop`].
    pub fn pop(&self, key: &Key, wait: &impl Wait) -> Result<Option<Bytes>> {
        let writer = self.writer()?;
        wait.wait(|| writer.pop(key, || self.open_again(), || self.stored(key)))
    }

    /// Puts a record unless there is one with this key, atomically; returns the value of the one
    /// that is there.
    ///
    /// # Errors
    /// Those of [`writer`](Self::writer) and [`Writer::put_if_absent`].
    pub fn put_if_absent(
        &self,
        group: &str,
        key: &Key,
        body: &[u8],
        wait: &impl Wait,
    ) -> Result<Option<Bytes>> {
        let writer = self.writer()?;
        wait.wait(|| writer.put_if_absent(group, key, body, || self.open_again(), || self.stored(key)))
    }

    /// Deletes the first record in the order of the keys, and returns its key and value,
    /// atomically. What was written before is synced, and the reader opened again.
    ///
    /// # Errors
    /// Those of [`writer`](Self::writer) and [`Writer::pop_first`]; [`pack::Error::Damaged`] where
    /// damage of the pack may hide the first.
    pub fn pop_first(&self, wait: &impl Wait) -> Result<Option<(Key, Bytes)>> {
        let writer = self.writer()?;
        let first = || {
            let Some(reader) = self.reader_if_open() else { return Ok(None) };
            // Which is the first is not known where records are hidden.
            reader.check_whole(OnDamage::Stop)?;
            let Some(entry) = reader.keys_in(KeyRange::all())?.next().transpose()? else { return Ok(None) };
            Ok(reader.get_file(&entry.key)?.map(|record| (entry.key, record.body)))
        };
        wait.wait(|| writer.pop_first(|| self.open_again(), first))
    }

    /// The value that the reader has, without a wait: for what holds the writer.
    fn stored(&self, key: &Key) -> pack::Result<Option<Bytes>> {
        let Some(reader) = self.reader_if_open() else { return Ok(None) };
        Ok(reader.get_file(key)?.map(|record| record.body))
    }

    fn reader_if_open(&self) -> Option<Arc<Pack>> {
        read(&self.state).as_ref().map(|state| state.reader.clone())
    }

    /// Shows what others wrote; returns whether there was anything new.
    ///
    /// # Errors
    /// As [`reader`](Self::reader).
    pub fn refresh(&self, wait: &impl Wait) -> Result<bool> {
        let reader = self.reader(wait)?;
        if wait.wait(|| reader.is_current())? {
            return Ok(false);
        }
        match self.writer_if_any()? {
            Some(writer) => wait.wait(|| writer.reopen(|| self.open_again()))?,
            None => wait.wait(|| self.open_again())?,
        }
        Ok(true)
    }

    /// Opens the reader again.
    fn open_again(&self) -> pack::Result<()> {
        let reader = Arc::new(self.settings.open_reader()?);
        let mut state = written(&self.state);
        let age = |reader: &Pack| (reader.generation(), reader.last_sequence());
        // Another thread may have installed a newer one already.
        if let Some(state) = state.as_mut().filter(|state| age(&state.reader) <= age(&reader)) {
            state.reader = reader;
        }
        Ok(())
    }

    /// The state that is shown now, to be read: what is written later does not change it.
    ///
    /// # Errors
    /// As [`reader`](Self::reader).
    pub fn snapshot(&self, wait: &impl Wait) -> Result<Self> {
        let reader = self.reader(wait)?;
        let settings = Settings { making: None, ..self.settings.clone() };
        Ok(Self { settings, state: RwLock::new(Some(State { reader, writer: None })) })
    }

    /// Closes the pack: all puts are durable when this returns. Closing twice does nothing, and a
    /// forked child leaves the writer of its parent alone.
    ///
    /// # Errors
    /// Those of [`Writer::close`].
    pub fn close(&self, wait: &impl Wait) -> Result<()> {
        if let Ok(Some(writer)) = self.writer_if_any()
            && writer.is_ours()
        {
            // Refused from a callback of its own.
            writer.enter()?;
        }
        let state = written(&self.state).take();
        let writer = state.and_then(|state| state.writer).filter(|writer| writer.is_ours());
        writer.map_or(Ok(()), |writer| wait.wait(|| writer.close()))
    }

    /// Whether it has a writer that this process opened, and was not closed.
    pub fn is_left_open(&self) -> bool {
        self.writer_if_any().is_ok_and(|writer| writer.is_some_and(|writer| writer.is_ours()))
    }
}

/// Locks that ignore poisoning: what they guard is consistent even after a panic.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn written<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::SEGMENT_LEN_MIN;

    struct Here;

    impl Wait for Here {
        fn wait<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
            work()
        }
    }

    #[test]
    fn a_session_reads_what_it_wrote_and_a_snapshot_does_not() {
        let place = tempfile::tempdir().unwrap();
        let settings = Settings {
            making: Some(Making::IfMissing),
            ..Settings::new(place.path().join("p"), OpenOptions::default())
        };
        let (session, found) = Session::open(settings).unwrap();
        assert!(found.damages.is_empty() && found.notes.is_empty());
        let key = Key::bytes("a").unwrap();
        let before = session.snapshot(&Here).unwrap();
        session.writer().unwrap().put("", &key, &pack::Attributes::new(), b"1").unwrap();
        assert_eq!(session.value(&key, &Here).unwrap().unwrap(), &b"1"[..]);
        assert!(session.contains(&key, &Here).unwrap() && !before.contains(&key, &Here).unwrap());
        assert!(matches!(before.writer(), Err(Error::ReadOnly)));
        assert_eq!(session.reader(&Here).unwrap().len(), 1);
        assert_eq!(session.pop(&key, &Here).unwrap().unwrap(), &b"1"[..]);
        assert_eq!(session.value(&key, &Here).unwrap(), None);
        assert_eq!(session.put_if_absent("", &key, b"2", &Here).unwrap(), None);
        assert_eq!(session.put_if_absent("", &key, b"3", &Here).unwrap().unwrap(), &b"2"[..]);
        let later = Key::bytes("b").unwrap();
        session.writer().unwrap().put("", &later, &pack::Attributes::new(), b"4").unwrap();
        for (expected, value) in [(key, b"2"), (later, b"4")] {
            let (popped, body) = session.pop_first(&Here).unwrap().unwrap();
            assert_eq!((popped, &body[..]), (expected, &value[..]));
        }
        assert_eq!(session.pop_first(&Here).unwrap(), None);
        session.close(&Here).unwrap();
        session.close(&Here).unwrap();
        assert!(session.is_closed() && matches!(session.reader(&Here), Err(Error::Closed)));
    }

    #[test]
    fn a_state_of_the_past_is_never_written_to_nor_made() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("p");
        let past = OpenOptions { at_ns: Some(1), ..OpenOptions::default() };
        let settings = Settings { making: Some(Making::IfMissing), ..Settings::new(path.clone(), past) };
        assert!(matches!(Session::open(settings), Err(Error::Past)));
        let reading = OpenOptions::default();
        for segment_len in [0, SEGMENT_LEN_MIN - 1, u64::MAX] {
            let making = Some(Making::Always);
            let settings = Settings { making, segment_len, ..Settings::new(path.clone(), reading.clone()) };
            assert!(matches!(Session::open(settings), Err(Error::SegmentLen(_))), "{segment_len}");
        }
        assert!(!path.exists());
    }
}
