//! [`Pack`]: a pack opened for reading, at one generation.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::engine::{Access, Backend, EngineFactory};
use crate::extent::ByteRange;
use crate::pack::damages::DamageLog;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::footer::Tally;
use crate::pack::format::index::Place;
use crate::pack::format::manifest::{PackState, SegmentState};
use crate::pack::key::Key;
use crate::pack::read::gets::Gets;
use crate::pack::read::mapped::{MapRule, map_segments};
use crate::pack::read::reader::Reader;
use crate::pack::read::record::{Record, RecordHead, parse_head};
use crate::pack::read::stream::RecordReader;
use crate::pack::scan::{Entries, KeyRange, Ordinals};
use crate::pack::state::recover::TornTail;
use crate::pack::state::segment::Segment;
use crate::pack::state::snapshot::{Found, Snapshot, WantedState};
use crate::source::AccessRule;
use crate::storage::{LocalStorage, LocalStorageOptions, Storage};

/// Read of a record when only its head is wanted, in bytes.
pub(crate) const HEAD_READ_LEN: u64 = 512;

/// The same where key and attributes turn out to be longer.
pub(crate) const LONG_HEAD_READ_LEN: u64 = 256 * 1024;

/// How to open a pack.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Makes the engines that read.
    pub engines: Arc<dyn EngineFactory>,
    /// Direct, cached, or decided by the contents of the page cache.
    pub access: AccessRule,
    /// This generation, as it was published, rather than the newest: without what was appended
    /// since. There is the newest, the one
    /// before, and any that some process has open.
    pub generation: Option<u64>,
    /// Where the manifest of `generation` is gone: what the oldest later one has of it, which is
    /// the records and deletions below this number. Nothing is missing as long as no segment was
    /// compacted; whether that is so, it does not say, and [`Ordinals`] of both do.
    pub sequence_end: Option<u64>,
    /// The state at this time (ns since 1970), within the history that compaction kept: see
    /// [`Pack::history_from_ns`].
    pub at_ns: Option<i64>,
    /// Whether sealed segments are mapped into memory.
    pub map: MapRule,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            engines: Arc::new(Backend::Auto),
            access: AccessRule::default(),
            map: MapRule::default(),
            generation: None,
            sequence_end: None,
            at_ns: None,
        }
    }
}

/// A pack opened for reading. Any number of threads may use it at once.
#[derive(Debug)]
pub struct Pack {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) snapshot: Snapshot,
    pub(crate) access: AccessRule,
    /// Whether its segments fit into memory, once a get has asked.
    pub(crate) fits: OnceLock<bool>,
    /// All files by number, once they were asked for.
    pub(crate) numbered: OnceLock<Arc<Ordinals>>,
    /// For each segment its bytes, if they are mapped; empty when none are to be.
    pub(crate) maps: Vec<Option<Bytes>>,
    /// Notes on how it was opened despite losses.
    pub(crate) notes: Vec<String>,
}

/// A key and where its record is, without anything read of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEntry {
    /// The key.
    pub key: Key,
    /// The size of the record in its segment in bytes; `None` if the index does not have it.
    pub stored_bytes: Option<u64>,
    pub(crate) found: Found,
}

/// Facts about a segment that are known without reading its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its id.
    pub id: u64,
    /// Its group.
    pub group: String,
    /// Whether it still grows.
    pub state: SegmentState,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// Bytes of frames.
    pub frame_bytes: u64,
    /// Its records, dead ones included.
    pub tally: Tally,
    /// Dead records.
    pub dead_records: u64,
    /// Bytes of their frames.
    pub dead_bytes: u64,
    /// Bytes of anonymous memory its index takes now.
    pub index_memory_bytes: u64,
}

impl KeyEntry {
    /// Sorts entries as their records are on the medium.
    pub fn position(&self) -> (usize, u64) {
        (self.found.segment, self.found.place.offset)
    }
}

impl Pack {
    /// Opens the pack in a directory.
    ///
    /// # Errors
    /// Returns the errors of [`open`](Self::open).
    pub fn open_path(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self> {
        let storage_options =
            LocalStorageOptions { engine: options.engines.clone(), ..LocalStorageOptions::default() };
        Self::open(Arc::new(LocalStorage::open(path, storage_options)?), options)
    }

    /// Opens the pack in a storage, at its newest generation. Nothing is changed.
    ///
    /// Damage that leaves something readable does not keep a pack from opening, and neither does a
    /// segment that a newer version wrote: see [`damages`](Self::damages).
    ///
    /// # Errors
    /// Returns [`Error::NotAPack`], [`Error::Unsupported`] if the manifest is of a newer version,
    /// [`Error::Damaged`] if it is damaged, [`Error::NoSuchState`], or an error of the storage.
    pub fn open(storage: Arc<dyn Storage>, options: OpenOptions) -> Result<Self> {
        let reader = Arc::new(Reader::new(options.engines, storage.path("")));
        let OpenOptions { generation, sequence_end, at_ns, .. } = options;
        let view = WantedState { generation, sequence_end, at_ns };
        let snapshot = Snapshot::load(storage.as_ref(), &reader, view)?;
        let maps = map_segments(&snapshot, options.map)?;
        let (access, fits) = (options.access, OnceLock::new());
        Ok(Self {
            storage,
            reader,
            snapshot,
            access,
            fits,
            numbered: OnceLock::new(),
            maps,
            notes: Vec::new(),
        })
    }

    /// The directory that it is in, even if its path leads elsewhere by now.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Damage found so far: when it was opened, and since then, where it was worked around without
    /// an error.
    pub fn damages(&self) -> Vec<Damage> {
        self.snapshot.log.all()
    }

    /// The log of that, which grows as long as the pack is read.
    pub fn damage_log(&self) -> DamageLog {
        self.snapshot.log.clone()
    }

    /// Unfinished ends that are ignored, and that the next writer cuts.
    pub fn torn_tails(&self) -> &[TornTail] {
        &self.snapshot.torn
    }

    /// Whether building it was completed.
    pub fn is_complete(&self) -> bool {
        self.snapshot.manifest.state == PackState::Complete
    }

    /// The generation it is open at.
    pub fn generation(&self) -> u64 {
        self.snapshot.manifest.generation
    }

    /// The manifest of its generation is gone, and it is what this later generation has of it.
    pub(crate) fn read_from(&self) -> Option<u64> {
        self.snapshot.read_from
    }

    /// The earliest time, ns, whose state can still be opened; `None` when every one can.
    pub fn history_from_ns(&self) -> Option<i64> {
        self.snapshot.manifest.history_from_ns
    }

    /// Whether files were removed from their tree once they were in the pack: it may hold the only
    /// copy.
    pub fn is_moved_into(&self) -> bool {
        self.snapshot.manifest.moved
    }

    /// The paths of the trees that they were removed from. A pack that does not say is of its
    /// [roots](Self::roots).
    pub fn moved_from(&self) -> &[Vec<u8>] {
        let manifest = &self.snapshot.manifest;
        if manifest.moved_from.is_empty() { &manifest.roots } else { &manifest.moved_from }
    }

    /// The nonce that distinguishes this pack from any other.
    pub fn nonce(&self) -> String {
        crate::pack::state::names::hex_text(&self.snapshot.manifest.pack_nonce)
    }

    /// The names of its groups.
    pub fn groups(&self) -> &[String] {
        &self.snapshot.manifest.groups
    }

    /// The roots that it was packed from.
    pub fn roots(&self) -> &[Vec<u8>] {
        &self.snapshot.manifest.roots
    }

    /// Of an incomplete pack, what the runs packed that have not come to their end: its
    /// [roots](Self::roots), or what was packed into it later. None of a complete pack.
    pub fn unfinished(&self) -> &[Vec<u8>] {
        let manifest = &self.snapshot.manifest;
        match manifest.state {
            PackState::Complete => &[],
            PackState::Incomplete if manifest.unfinished.is_empty() => &manifest.roots,
            PackState::Incomplete => &manifest.unfinished,
        }
    }

    /// Live records.
    pub fn len(&self) -> u64 {
        let live = |segment: &Segment| segment.tally.records.saturating_sub(segment.dead_records());
        self.snapshot.segments.iter().map(live).sum()
    }

    /// Whether it has no live record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its segments, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let info = |segment: &Segment| SegmentInfo {
            id: segment.entry.id,
            group: self.group_of(segment).to_owned(),
            state: segment.entry.state,
            file_bytes: segment.source.len(),
            frame_bytes: segment.frames().len(),
            tally: segment.tally,
            dead_records: segment.entry.dead_records,
            dead_bytes: segment.entry.dead_bytes,
            index_memory_bytes: segment.runs.iter().map(|run| run.memory_bytes() as u64).sum(),
        };
        self.snapshot.segments.iter().map(info).collect()
    }

    pub(crate) fn group_of(&self, segment: &Segment) -> &str {
        self.groups().get(segment.entry.group as usize).map_or("", String::as_str)
    }

    /// The record with this key.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if its bytes, or the page of the index, are damaged; or an error
    /// of reading.
    pub fn get(&self, key: &Key) -> Result<Option<Record>> {
        let mut records = self.get_many(std::slice::from_ref(key))?;
        records.pop().unwrap_or(Ok(None))
    }

    /// The records with these keys by reading them, in their order, as one batch at queue depth.
    pub(crate) fn read_many_records(&self, keys: &[Key]) -> Result<Vec<Result<Option<Record>>>> {
        self.read_pages_for(keys)?;
        Gets::new(self, keys, None)?.run()
    }

    /// The records with these keys, in their order, read as one batch at queue depth.
    ///
    /// # Errors
    /// The outer result is an error if the index cannot be read; the inner ones are those of each
    /// record.
    pub fn get_many(&self, keys: &[Key]) -> Result<Vec<Result<Option<Record>>>> {
        if self.maps.is_empty() { self.read_many_records(keys) } else { self.get_many_mapped(keys) }
    }

    /// Where the live record of a key is.
    pub(crate) fn find(&self, key: &Key) -> Result<Option<Found>> {
        self.snapshot.find(key.sort_form(), &self.reader).map_err(|error| error.of(key))
    }

    /// Whether the damage is in an old version of a record, which is not needed. `false` if that is
    /// not known.
    pub(crate) fn is_of_older_version(&self, damage: &Damage) -> bool {
        let Some(key) = &damage.key else { return false };
        match self.find(key) {
            Ok(Some(Found { segment, place })) => {
                let segment = self.snapshot.segments.get(segment);
                let is_there = segment.is_some_and(|segment| segment.source.path() == damage.file);
                let end = place.len.map_or(u64::MAX, |len| place.offset.saturating_add(len));
                !(is_there && (place.offset..end).contains(&damage.offset))
            }
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// Whether a live record has this key. Reads at most the index.
    ///
    /// # Errors
    /// Returns an error if reading the index fails.
    pub fn contains(&self, key: &Key) -> Result<bool> {
        Ok(self.find(key)?.is_some())
    }

    /// Reads, as one batch, the index pages that will be looked at for these keys.
    pub(crate) fn read_pages_for(&self, keys: &[Key]) -> Result<()> {
        if keys.len() < 2 {
            return Ok(());
        }
        for segment in &self.snapshot.segments {
            for run in segment.runs.iter().filter(|run| !run.is_held()) {
                let mut wanted: Vec<usize> = keys.iter().map(|key| run.page_of(key.sort_form())).collect();
                wanted.sort_unstable();
                wanted.dedup();
                let missing = wanted.iter().filter_map(|&page| Some((page, run.missing(page)?)));
                let missing: Vec<_> = missing.collect();
                let reads = missing.iter().map(|&(_, (source, range))| (source, range, Access::Cached));
                for ((page, _), bytes) in missing.iter().zip(self.reader.read_many(reads)?) {
                    match run.supply(*page, bytes) {
                        // It is rebuilt on the first look-up in it.
                        Ok(()) | Err(Error::Damaged(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }

    pub(crate) fn misplaced(&self, key: &Key, record: &Record) -> Error {
        let file =
            self.storage.path(&crate::pack::state::names::PackFile::Segment(record.head.segment).to_string());
        let what = format!("the index names this place for {key}, here is {}", record.head.key);
        Error::Damaged(Damage { file, offset: record.head.offset, key: Some(key.clone()), what, cause: None })
    }

    /// The record at a place where its key, if it is known, was found, read in pieces and put
    /// together.
    pub(crate) fn read_stream(&self, key: Option<&Key>, found: Found) -> Result<Option<Record>> {
        self.open_found(key, found)?.map(RecordReader::into_record).transpose()
    }

    /// The record with this key, its body to be read from its beginning in verified pieces: for
    /// bodies of any length. [`open_source`](Self::open_source) reads any range of it.
    ///
    /// # Errors
    /// Returns the errors of [`get`](Self::get).
    pub fn open_record(&self, key: &Key) -> Result<Option<RecordReader<'_>>> {
        match self.find(key)? {
            Some(found) => self.open_found(Some(key), found),
            None => Ok(None),
        }
    }

    /// The same for a key that was [located](Self::locate): the index is not asked again.
    ///
    /// # Errors
    /// Returns the errors of [`get`](Self::get).
    pub fn open_located(&self, entry: &KeyEntry) -> Result<RecordReader<'_>> {
        self.open_found(Some(&entry.key), entry.found)?.ok_or_else(|| {
            Error::Invalid(format!("the place of {} is of another state of the pack", entry.key))
        })
    }

    fn open_found(&self, key: Option<&Key>, found: Found) -> Result<Option<RecordReader<'_>>> {
        let Some(segment) = self.snapshot.segments.get(found.segment) else { return Ok(None) };
        let record = segment.open_record(found.place, &self.reader, self.access);
        let record = record.and_then(|frames| RecordReader::new(&self.reader, segment, frames));
        record.map(Some).map_err(|error| error.of_some(key))
    }

    /// All live keys in order, from the first that begins with `prefix` (a sort form: see
    /// [`Key::sort_form`]) to the last that does.
    ///
    /// # Errors
    /// Returns an error if reading the first pages of the indexes fails.
    pub fn keys(&self, prefix: &[u8]) -> Result<Keys<'_>> {
        self.keys_in(KeyRange::prefix(prefix))
    }

    /// All live keys of a range in order.
    ///
    /// # Errors
    /// Returns the errors of [`keys`](Self::keys).
    pub fn keys_in(&self, range: KeyRange) -> Result<Keys<'_>> {
        Ok(Keys::new(Entries::of(self, range)?))
    }

    /// Keys, attributes and lengths of records, read as one batch at queue depth.
    ///
    /// # Errors
    /// The outer result is an error if reading is impossible at all; the inner ones are those of
    /// each.
    pub fn heads(&self, entries: &[KeyEntry]) -> Result<Vec<Result<RecordHead>>> {
        let mut wanted = Vec::with_capacity(entries.len());
        for entry in entries {
            let Some(segment) = self.snapshot.segments.get(entry.found.segment) else { continue };
            let place = entry.found.place;
            let len = place.len.unwrap_or(HEAD_READ_LEN).min(HEAD_READ_LEN);
            wanted.push((segment, entry, ByteRange::at(place.offset, len).unwrap_or_default()));
        }
        let reads =
            wanted.iter().map(|&(segment, _, range)| (segment.source.as_ref(), range, Access::Cached));
        let bytes = self.reader.read_many(reads)?;
        let heads = wanted.iter().zip(bytes).map(|(&(segment, entry, range), bytes)| {
            self.head(segment, entry.found.place, range, bytes).map_err(|error| error.of(&entry.key))
        });
        Ok(heads.collect())
    }

    /// Bytes that a record takes, where the index does not say by its head; none of one whose head
    /// is damaged, which is reported when it is read.
    ///
    /// # Errors
    /// Returns an error if reading is impossible at all.
    pub fn bytes_of(&self, entry: &KeyEntry) -> Result<u64> {
        if let Some(len) = entry.stored_bytes {
            return Ok(len);
        }
        let head = self.heads(std::slice::from_ref(entry))?.pop();
        Ok(head.and_then(Result::ok).and_then(|head| head.body_len).unwrap_or(0))
    }

    /// The head of a record, given what became of reading its first bytes.
    fn head(
        &self,
        segment: &Segment,
        place: Place,
        range: ByteRange,
        read: Result<Bytes>,
    ) -> Result<RecordHead> {
        let source = segment.source.as_ref();
        let bytes = match read {
            // What is missing may be of the body, or of the next record.
            Err(unread @ Error::Damaged(_)) => {
                let (bytes, _) = self.reader.read_around(source, range)?;
                let (header, head) = parse_head(segment, place, &bytes).map_err(|_| unread)?;
                return self.with_length(segment, place, &header, head);
            }
            read => read?,
        };
        match parse_head(segment, place, &bytes) {
            Ok((header, head)) => self.with_length(segment, place, &header, head),
            // Key and attributes may be longer than what was read.
            Err(_) if bytes.len() as u64 >= HEAD_READ_LEN => {
                let len = place.len_min().min(LONG_HEAD_READ_LEN);
                let range = ByteRange::at(place.offset, len).unwrap_or_default();
                let (bytes, holes) = self.reader.read_around(source, range)?;
                let head = parse_head(segment, place, &bytes);
                let (header, head) = head.map_err(|error| holes.explain(source, range, error))?;
                self.with_length(segment, place, &header, head)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether a group is among the requested ones; all are if none was requested.
pub fn is_in_groups(groups: &[String], group: &str) -> bool {
    groups.is_empty() || groups.iter().any(|wanted| wanted == group)
}

/// Live keys in order; made by [`Pack::keys`]. A record that may have been deleted is an error in
/// its place, and the keys after it follow; any other error ends the iteration.
#[derive(Debug)]
pub struct Keys<'p> {
    entries: Entries<'p>,
    ended: bool,
}

impl<'p> Keys<'p> {
    pub(in crate::pack) fn new(entries: Entries<'p>) -> Self {
        Self { entries, ended: false }
    }
}

impl Iterator for Keys<'_> {
    type Item = Result<KeyEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.entries.next();
        // A record that is refused costs no other key.
        self.ended = match &next {
            Ok(found) => found.is_none(),
            Err(error) => error.damage().is_none_or(|damage| damage.key.is_none()),
        };
        let entry = |(key, found): (Key, Found)| KeyEntry { key, stored_bytes: found.place.len, found };
        next.map(|next| next.map(entry)).transpose()
    }
}
