//! Writing packs: create, append, sync, checkpoint, seal, publish.
//!
//! There is one writer at a time. It never changes a byte that was acknowledged; it appends to the
//! active segment of each group and publishes generations that say how far the segments count.

mod active;
mod batch;
mod body;
mod bounds;
mod compact;
mod discard;
pub(crate) mod host;
#[cfg(unix)]
pub mod input;
mod known;
mod leftovers;
mod links;
mod publish;
pub(crate) mod records;
mod refusals;
mod shared;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use active::{Active, Parts, Session};
pub use batch::Batch;
pub use body::RecordWriter;
use bounds::check_segment_len;
pub use bounds::{SEGMENT_LEN_MIN, check_group};
pub use compact::{CompactOptions, CompactPlan, CompactStep, Compacted, TooLarge};
pub(super) use compact::{Copied, CopyWindow, Feed};
use known::KnownKeys;
use leftovers::{Committed, Named};
pub use links::LinkTarget;
use links::Links;
use refusals::{refuse_hidden, refuse_lost, refuse_what_is_there};
pub use shared::SharedWriter;

use super::damages::DamageLog;
use super::error::{Damage, Error, Result};
use super::format::attributes::Attributes;
use super::format::deletes::{DELETES_LEN_MAX, Death, Deaths};
use super::format::frame::{HEADER_LEN, checksums_len};
use super::format::index::Place;
use super::format::manifest::{MANIFEST_LEN_MAX, Manifest, PackState, SegmentEntry, SegmentState, VectorRef};
use super::format::mark::{Edition, writer_of};
use super::format::segment::SegmentHeader;
use super::key::Key;
use crate::engine::{Backend, EngineFactory};
use crate::pack::read::reader::Reader;
use crate::pack::state::names::{self, PackFile, next_free, take_number};
use crate::pack::state::recover::TornTail;
use crate::pack::state::segment::{Segment, Whose};
use crate::pack::state::snapshot::{Snapshot, WantedState, newest, why_no_pack};
use crate::pack::writer::host::{Host, SystemHost, clock_is_behind};
use crate::storage::{Entry, Lock, Storage};

/// When a record that was put is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When [`PackWriter::sync`], [`PackWriter::publish`] or [`PackWriter::finish`] returned.
    #[default]
    Explicit,
    /// At the latest this long after it was put, as long as records are put.
    Interval(Duration),
    /// When `put` returned.
    Every,
}

/// How to write a pack.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// When records are safe.
    pub durability: Durability,
    /// Segments are sealed when they are this long, in bytes; for new packs.
    pub segment_len: u64,
    /// Chunk size of bodies as a power of two, 12 to 24; for new packs.
    pub chunk_log2: u8,
    /// A checkpoint is made after every this many bytes of a segment, so that no more than that is
    /// scanned after a crash. The first of a new segment comes after 16 MiB: unnamed segments are
    /// lost.
    pub checkpoint_len: u64,
    /// The longest manifest and the longest list of the dead records of a segment that are written,
    /// in bytes: as long as readers take. What would need more is refused until the pack was
    /// compacted.
    pub list_len_max: u64,
    /// Makes engines for reading existing records.
    pub engines: Arc<dyn EngineFactory>,
    /// Clock, randomness, name of this process.
    pub host: Arc<dyn Host>,
}

impl WriterOptions {
    /// For packing much at once: a checkpoint for each 256 MiB. Every one waits for the device, and
    /// with one for each 64 MiB building from a tree of files took up to half as long again.
    #[must_use]
    pub fn bulk() -> Self {
        Self { checkpoint_len: 256 << 20, ..Self::default() }
    }
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            segment_len: 4 << 30,
            chunk_log2: 16,
            checkpoint_len: 64 << 20,
            list_len_max: DELETES_LEN_MAX.min(MANIFEST_LEN_MAX),
            engines: Arc::new(Backend::Auto),
            host: Arc::new(SystemHost),
        }
    }
}

/// What opening a pack for writing found and mended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Unfinished ends that were cut off.
    pub torn: Vec<TornTail>,
    /// Damage, which was left as it is.
    pub damages: Vec<Damage>,
    /// Files that were set aside: no generation names them, but one that is not there did or was
    /// about to.
    pub set_aside: Vec<SetAside>,
    /// A note if the clock is earlier than the last record.
    pub clock: Option<String>,
    /// The writer before, as it had named itself, that had been killed and whose end had to be
    /// waited for.
    pub waited_for: Option<String>,
}

/// A file that a newer generation named or was about to, while only an older one is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// Its name.
    pub name: String,
    /// The name that it has now. Readers and writers leave it alone.
    pub kept_as: String,
}

impl Recovery {
    /// Notes on opening the pack, one sentence each, without damage.
    pub fn notes(&self) -> Vec<String> {
        let waited = self
            .waited_for
            .iter()
            .map(|holder| format!("waited for the end of a writer that was killed: {holder}"));
        let torn = self.torn.iter().map(|torn| {
            format!(
                "cut an unfinished end of {} bytes from segment {:016x}: a writer died there, and what is before it is whole",
                torn.len, torn.segment
            )
        });
        let set_aside = self.set_aside.iter().map(|file| {
            format!(
                "{} is not listed in any manifest; a newer generation that is now missing probably used it \
                 (an older manifest was restored from a backup, or a writer was killed as it published); it was \
                 kept as {}",
                file.name, file.kept_as
            )
        });
        waited.chain(torn).chain(set_aside).chain(self.clock.clone()).collect()
    }
}

/// A sealed segment, as far as a writer needs it.
#[derive(Debug)]
struct Sealed {
    entry: SegmentEntry,
    segment: Option<Segment>,
}

#[derive(Debug, Default)]
struct Dead {
    deaths: Deaths,
    records: u64,
    bytes: u64,
    vector: Option<VectorRef>,
    dirty: bool,
    /// The most bytes that its list takes, once that was counted.
    len_max: Option<u64>,
}

/// The one writer of a pack.
#[derive(Debug)]
pub struct PackWriter {
    storage: Arc<dyn Storage>,
    options: WriterOptions,
    reader: Reader,
    /// The generation published last.
    manifest: Manifest,
    /// That generation as sync marks name it.
    edition: Edition,
    /// The earlier generations that still exist, with the files that they name.
    older: BTreeMap<u64, Named>,
    /// Higher than any generation that a file was ever seen to be of.
    generation_next: u64,
    /// Which of [`Manifest::groups`] a name is.
    groups: HashMap<String, u32>,
    active: BTreeMap<u32, Active>,
    sealed: BTreeMap<u64, Sealed>,
    dead: BTreeMap<u64, Dead>,
    /// Keys that this writer put.
    known: KnownKeys,
    /// What it knows about hard links.
    links: Links,
    /// Segments from this one on hold nothing but what this writer put.
    own_segments: u64,
    recovery: Recovery,
    log: DamageLog,
    synced_at: Instant,
    /// Something the last manifest does not say.
    unpublished: bool,
    /// Before anything of it changes, the pack is to say that it is incomplete, and that runs of
    /// these paths are unfinished.
    incomplete_on_change: Option<Vec<Vec<u8>>>,
    /// A failure after which nothing more may be written.
    stopped: bool,
    /// Whether there may be a generation that this writer does not know to be published.
    in_doubt: bool,
    /// Whether a generation is on its way.
    is_publishing: bool,
    /// The acknowledged lengths of segments that were sealed since the last generation.
    promised_lens: BTreeMap<u64, u64>,
    /// Files that the newest generation does not name, and that are to go when no older one does.
    garbage: BTreeSet<PackFile>,
    /// The process that opened it.
    process: u32,
    lock: Box<dyn Lock>,
}

/// Where the live version of a key is: segment id and place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct At {
    segment: u64,
    place: Place,
}

impl PackWriter {
    /// Makes a new pack in an empty place.
    ///
    /// # Errors
    /// Returns [`Error::Exists`] if there is a pack, [`Error::NotAPack`] if there is something
    /// else, an error of the storage, or one for invalid options.
    pub fn create(storage: Arc<dyn Storage>, options: WriterOptions) -> Result<Self> {
        options.check()?;
        // First without the lock, whose note would be left in a foreign directory.
        Self::check_create(storage.as_ref())?;
        let lock = take_lock(storage.as_ref(), options.host.as_ref())?;
        refuse_what_is_there(storage.as_ref())?;
        let mut nonces = [[0; 16]; 2];
        nonces.iter_mut().try_for_each(|nonce| options.host.random(nonce))?;
        let manifest = Manifest {
            generation: 0,
            pack_nonce: nonces[0],
            writer_nonce: nonces[1],
            published_ns: options.host.now_ns(),
            state: PackState::Incomplete,
            chunk_log2: options.chunk_log2,
            sequence_next: 1,
            time_last_ns: i64::MIN,
            segment_next: 1,
            segment_len: options.segment_len,
            groups: Vec::new(),
            segments: Vec::new(),
            roots: Vec::new(),
            unfinished: Vec::new(),
            history_from_ns: None,
            moved: false,
            moved_from: Vec::new(),
        };
        let mut writer = Self::with(storage, options, manifest, lock);
        writer.publish()?;
        Ok(writer)
    }

    /// Opens a pack to continue writing. Torn tails are cut off; [`recovery`](Self::recovery)
    /// reports this.
    ///
    /// # Errors
    /// Returns [`Error::NotAPack`], [`Error::Core`] with `Locked` naming the other writer,
    /// [`Error::Unsupported`] if a newer version wrote any of it, or an error of the storage.
    pub fn open(storage: Arc<dyn Storage>, options: WriterOptions) -> Result<Self> {
        let files = storage.list()?;
        if newest(&files).is_none() {
            return Err(Error::NotAPack { path: storage.path(""), why: why_no_pack(&files).into() });
        }
        let lock = take_lock(storage.as_ref(), options.host.as_ref())?;
        // A writer that was killed may have published what no power failure would survive; what is
        // built on it must not be the first to last.
        storage.sync_directory()?;
        let reader = Reader::new(options.engines.clone(), storage.path(""));
        let snapshot = Snapshot::load(storage.as_ref(), &reader, WantedState::default())?;
        let mut manifest = snapshot.manifest;
        let edition = manifest.edition();
        let mut nonce = [0; 16];
        options.host.random(&mut nonce)?;
        manifest.writer_nonce = nonce;
        let mut writer = Self::with(storage, options, manifest, lock);
        writer.edition = edition;
        let waited_for = writer.lock.waited_for().map(str::to_owned);
        let (torn, damages) = (snapshot.torn, snapshot.log.all());
        writer.recovery = Recovery { torn, damages, waited_for, ..Recovery::default() };
        writer.recovery.clock = clock_is_behind(writer.options.host.now_ns(), writer.manifest.time_last_ns);
        writer.log = snapshot.log;
        writer.unpublished = !writer.recovery.torn.is_empty();
        // Segments that could not be opened stay named, so that nothing of theirs is forgotten.
        // What is refused because of them is refused before anything is cut off or written.
        for entry in &writer.manifest.segments {
            if !snapshot.segments.iter().any(|segment| segment.entry.id == entry.id) {
                refuse_hidden(writer.storage.as_ref(), entry, &snapshot.files, &snapshot.lost)?;
                writer.sealed.insert(entry.id, Sealed { entry: *entry, segment: None });
            }
        }
        for segment in snapshot.segments {
            writer.adopt(segment)?;
        }
        let committed = Committed {
            segment_next: writer.manifest.segment_next,
            sequence_next: snapshot.sequence_committed,
        };
        writer.step_over_names(&snapshot.files);
        writer.find_leftovers(&snapshot.files, committed)?;
        Ok(writer)
    }

    /// The name of a file is not reused, even if no manifest ever named it: if a sync of the
    /// directory failed, it is not known whether the file is gone for good.
    fn step_over_names(&mut self, files: &[Entry]) {
        let names = || files.iter().filter_map(|file| PackFile::parse(&file.name));
        let ids = names().filter_map(|name| match name {
            PackFile::Segment(id) | PackFile::OrphanSegment(id) => Some(id),
            _ => None,
        });
        let generations = names().filter_map(|name| match name {
            PackFile::Manifest(generation)
            | PackFile::Deletes(_, generation)
            | PackFile::OrphanDeletes(_, generation) => Some(generation),
            _ => None,
        });
        self.manifest.segment_next = next_free(self.manifest.segment_next, ids);
        self.generation_next = next_free(self.generation_next, generations);
    }

    fn with(
        storage: Arc<dyn Storage>,
        options: WriterOptions,
        manifest: Manifest,
        lock: Box<dyn Lock>,
    ) -> Self {
        let groups = manifest.groups.iter().cloned().zip(0..).collect();
        Self {
            reader: Reader::new(options.engines.clone(), storage.path("")),
            storage,
            options,
            older: BTreeMap::new(),
            // A manifest that is read says a number far from the last there is.
            generation_next: manifest.generation + 1,
            own_segments: manifest.segment_next,
            edition: manifest.edition(),
            manifest,
            groups,
            active: BTreeMap::new(),
            sealed: BTreeMap::new(),
            dead: BTreeMap::new(),
            known: KnownKeys::default(),
            links: Links::default(),
            recovery: Recovery::default(),
            log: DamageLog::default(),
            synced_at: Instant::now(),
            unpublished: false,
            incomplete_on_change: None,
            stopped: false,
            in_doubt: false,
            is_publishing: false,
            promised_lens: BTreeMap::new(),
            garbage: BTreeSet::new(),
            process: std::process::id(),
            lock,
        }
    }

    fn adopt(&mut self, mut segment: Segment) -> Result<()> {
        let entry = segment.entry;
        refuse_lost(&segment)?;
        let dead = Dead {
            deaths: std::mem::take(&mut segment.deaths),
            records: entry.dead_records,
            bytes: entry.dead_bytes,
            vector: entry.vector,
            dirty: segment.replayed || segment.vector_hurt,
            len_max: None,
        };
        self.unpublished |= dead.dirty;
        self.dead.insert(entry.id, dead);
        let may_grow = !segment.damaged && !self.active.contains_key(&entry.group);
        match entry.state {
            SegmentState::Active if may_grow => {
                self.links.begin_segment(entry.id, segment.frames_end);
                let session = self.session();
                let active = Active::reopen(self.storage.as_ref(), segment, &self.reader, session)?;
                self.active.insert(entry.group, active);
            }
            SegmentState::Active => self.leave_as_it_is(segment)?,
            SegmentState::Sealed => {
                self.sealed.insert(entry.id, Sealed { entry, segment: Some(segment) });
            }
        }
        Ok(())
    }

    /// A damaged segment is not appended to: where its frames end is not certain. The records found
    /// in it are committed, so that later puts are newer than all of it.
    fn leave_as_it_is(&mut self, segment: Segment) -> Result<()> {
        let mut entry = segment.entry;
        if segment.frames_end > entry.committed_len && segment.whose != Whose::Foreign {
            let mut appender = self.storage.open_append(&PackFile::Segment(entry.id).to_string())?;
            appender.rewrite(segment.durable_len)?;
            appender.sync()?;
            (entry.committed_len, entry.frames_end) = (segment.frames_end, segment.frames_end);
            (entry.tally, entry.last_frame) = (segment.tally, segment.last_frame);
            self.unpublished = true;
        }
        self.sealed.insert(entry.id, Sealed { entry, segment: Some(segment) });
        Ok(())
    }

    /// Whether a failure ended writing: see [`Error::Stopped`].
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// What its clock says.
    pub(crate) fn clock_ns(&self) -> i64 {
        self.options.host.now_ns()
    }

    /// The directory that it writes to, even if its path leads elsewhere by now.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// What opening the pack found.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// The log of the damage that it has found, and will find.
    pub fn damage_log(&self) -> DamageLog {
        self.log.clone()
    }

    /// Whether the pack is complete according to the generation on the medium.
    pub fn is_complete(&self) -> bool {
        self.manifest.state == PackState::Complete
    }

    /// Says in the next generation that states before this time, ns, are not known.
    pub(super) fn begin_history(&mut self, from_ns: i64) {
        self.manifest.history_from_ns = self.manifest.history_from_ns.max(Some(from_ns));
        self.unpublished = true;
    }

    /// Puts a record into a group, replacing any older one with this key, and returns its sequence
    /// number.
    ///
    /// If the older one holds the content of hard links to a file, that is put under one of those
    /// first. The same holds for everything else that replaces or deletes a record.
    ///
    /// # Errors
    /// Returns an error of the storage, or one for a key, group or attributes that are too long.
    /// After a failed write the writer is [stopped](Error::Stopped).
    pub fn put(&mut self, group: &str, key: &Key, attributes: &Attributes, body: &[u8]) -> Result<u64> {
        let attributes = attributes.encode()?;
        let sums = chunk_sums(body, self.manifest.chunk_log2);
        self.put_encoded(group, key, &attributes, body, &sums)
    }

    /// The same with attributes and chunk checksums (see [`chunk_sums`]) that were made elsewhere,
    /// for callers that spread the work over threads.
    ///
    /// # Errors
    /// Returns the errors of [`put`](Self::put).
    pub fn put_encoded(
        &mut self,
        group: &str,
        key: &Key,
        attributes: &[u8],
        body: &[u8],
        sums: &[u8],
    ) -> Result<u64> {
        let sums_len = checksums_len(body.len() as u64, 1 << self.manifest.chunk_log2);
        if attributes.len() > usize::from(u16::MAX) || sums.len() as u64 != sums_len {
            return Err(Error::Invalid(format!(
                "{} bytes of attributes and {} bytes of checksums do not belong to a body of {} bytes",
                attributes.len(),
                sums.len(),
                body.len()
            )));
        }
        let frame_len = HEADER_LEN + key.sort_form().len() + attributes.len() + body.len() + sums.len();
        self.check_usable()?;
        let old = self.find(key)?;
        if let Some(old) = old {
            self.check_death(old, 0)?;
            self.free_content(key, old, group)?;
        }
        let group = self.ready(group, frame_len as u64)?;
        let sequence = self.next_sequence()?;
        let time_ns = self.next_time();
        let parts = Parts { key, attributes, sequence, time_ns };
        self.links.note(key, attributes, body);
        self.change(|writer| {
            let active = writer.active_of(group)?;
            active.append_record(parts, body, sums)?;
            writer.note_put(key, old, sequence, time_ns);
            writer.after_record(group)
        })?;
        Ok(sequence)
    }

    /// Begins a record whose body is given piece by piece: `len` bytes, or as many as come.
    ///
    /// # Errors
    /// Returns the errors of [`put`](Self::put).
    pub fn begin(
        &mut self,
        group: &str,
        key: &Key,
        attributes: &Attributes,
        len: Option<u64>,
    ) -> Result<RecordWriter<'_>> {
        let attributes = attributes.encode()?;
        let room = len.unwrap_or(0).saturating_add(attributes.len() as u64);
        self.check_usable()?;
        let old = self.find(key)?;
        if let Some(old) = old {
            self.check_death(old, 0)?;
            self.free_content(key, old, group)?;
        }
        let group = self.ready(group, room)?;
        let time_ns = self.next_time();
        RecordWriter::begin(self, (group, false), (key, old), time_ns, attributes, len)
    }

    /// Deletes the record with this key; whether there was one. It is gone for good when a put
    /// would be safe.
    ///
    /// # Errors
    /// Returns the errors of [`put`](Self::put), and of reading an index.
    pub fn delete(&mut self, key: &Key) -> Result<bool> {
        self.check_usable()?;
        let Some(old) = self.find(key)? else { return Ok(false) };
        self.check_death(old, 0)?;
        // Next to the record that it deletes: a group that is copied alone takes its deletions
        // along.
        let group = self.group_of(old.segment)?;
        let name = self.manifest.groups.get(group as usize).cloned().unwrap_or_default();
        self.free_content(key, old, &name)?;
        self.ready_group(group, (HEADER_LEN + key.sort_form().len()) as u64)?;
        let (sequence, time_ns) = (self.next_sequence()?, self.next_time());
        self.change(|writer| {
            let parts = Parts { key, attributes: &[], sequence, time_ns };
            writer.active_of(group)?.append_deletion(parts)?;
            writer.unpublished = true;
            writer.note_death(old, sequence, time_ns);
            writer.after_record(group)
        })?;
        Ok(true)
    }

    /// Begins a batch: puts into one group, and deletions of any keys, that count together or not
    /// at all.
    ///
    /// # Errors
    /// Returns the errors of [`put`](Self::put).
    pub fn batch(&mut self, group: &str) -> Result<Batch<'_>> {
        let group = self.ready(group, 0)?;
        Ok(Batch::begin(self, group))
    }

    /// Whether a live record has this key.
    ///
    /// # Errors
    /// Returns an error if reading an index fails.
    pub fn contains(&self, key: &Key) -> Result<bool> {
        Ok(self.find(key)?.is_some())
    }

    /// The chunk size of bodies as a power of two.
    pub fn chunk_log2(&self) -> u8 {
        self.manifest.chunk_log2
    }

    fn find(&self, key: &Key) -> Result<Option<At>> {
        if self.stopped {
            return Err(Error::Stopped);
        }
        let form = key.sort_form();
        let live = |segment: u64, places: Vec<Place>| {
            let deaths = self.dead.get(&segment).map(|dead| &dead.deaths);
            let place =
                places.into_iter().find(|place| !deaths.is_some_and(|all| all.contains_key(&place.offset)));
            place.map(|place| At { segment, place })
        };
        // A key that this writer never put can only be in what was there before it.
        let end = if self.known.may_contain(form) { u64::MAX } else { self.own_segments };
        for active in self.active.values().filter(|active| active.header.id < end) {
            if let Some(at) = live(active.header.id, active.versions(form, &self.reader)?) {
                return Ok(Some(at));
            }
        }
        for (id, sealed) in self.sealed.range(..end).rev() {
            let Some(segment) = &sealed.segment else { continue };
            if let Some(at) = live(*id, segment.versions(form, &self.reader)?) {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Checks that writing may continue, and that the group has an active segment with room.
    fn ready(&mut self, group: &str, frame_len: u64) -> Result<u32> {
        self.check_usable()?;
        check_segment_len(frame_len)?;
        if !self.groups.contains_key(group) {
            self.check_segment(group)?;
        }
        let group = self.group(group)?;
        self.ready_group(group, frame_len)?;
        Ok(group)
    }

    fn ready_group(&mut self, group: u32, frame_len: u64) -> Result<()> {
        let segment_len = self.manifest.segment_len;
        let active = self.active.get(&group);
        let full = active.is_some_and(|active| {
            active.tally().records > 0 && active.len().saturating_add(frame_len) > segment_len
        });
        if full || active.is_none() {
            self.check_segment("")?;
        }
        self.change(|writer| {
            writer.announce_change()?;
            if full {
                writer.seal_group(group)?;
            }
            if !writer.active.contains_key(&group) {
                writer.start_segment(group)?;
            }
            Ok(())
        })
    }

    fn group(&mut self, name: &str) -> Result<u32> {
        if let Some(&group) = self.groups.get(name) {
            return Ok(group);
        }
        check_group(name)?;
        let group = self.manifest.groups.len() as u32;
        self.manifest.groups.push(name.to_owned());
        self.groups.insert(name.to_owned(), group);
        Ok(group)
    }

    fn start_segment(&mut self, group: u32) -> Result<()> {
        let mut nonce = [0; 16];
        let mut marker = [0; 4];
        self.options.host.random(&mut nonce)?;
        self.options.host.random(&mut marker)?;
        let header = SegmentHeader {
            chunk_log2: self.manifest.chunk_log2,
            group: self.manifest.groups.get(group as usize).cloned().unwrap_or_default(),
            id: take_number("the id of a segment", &mut self.manifest.segment_next)?,
            pack_nonce: self.manifest.pack_nonce,
            nonce,
            marker: u32::from_le_bytes(marker).max(1),
            sequence_first: self.manifest.sequence_next,
            created_ns: self.options.host.now_ns(),
            by_key: false,
            made_after: self.manifest.generation,
        };
        self.dead.insert(header.id, Dead::default());
        self.links.begin_segment(header.id, 0);
        let active = Active::create(self.storage.as_ref(), header, group, self.session())?;
        self.active.insert(group, active);
        self.unpublished = true;
        Ok(())
    }

    /// The session in the marks of this writer from now on.
    fn session(&self) -> Session {
        Session { after: self.edition, writer: writer_of(&self.manifest.writer_nonce) }
    }

    fn group_of(&self, segment: u64) -> Result<u32> {
        let sealed = self.sealed.get(&segment).map(|sealed| sealed.entry.group);
        let active = || self.active.values().find(|active| active.header.id == segment);
        sealed
            .or_else(|| active().map(|active| active.group))
            .ok_or_else(|| Error::Invalid(format!("no segment {segment:016x} is open")))
    }

    fn active_of(&mut self, group: u32) -> Result<&mut Active> {
        self.active.get_mut(&group).ok_or_else(|| Error::Invalid("the group has no active segment".into()))
    }

    fn next_sequence(&mut self) -> Result<u64> {
        take_number("the sequence number of a record", &mut self.manifest.sequence_next)
    }

    /// The time for the next record. It never decreases, even if the clock does.
    fn next_time(&mut self) -> i64 {
        let time_ns = self.options.host.now_ns().max(self.manifest.time_last_ns);
        self.manifest.time_last_ns = time_ns;
        time_ns
    }

    /// A record was put, and the older version of its key dies.
    fn note_put(&mut self, key: &Key, old: Option<At>, sequence: u64, time_ns: i64) {
        self.unpublished = true;
        self.known.insert(key.sort_form());
        if let Some(old) = old {
            self.note_death(old, sequence, time_ns);
        }
    }

    fn note_death(&mut self, old: At, sequence: u64, time_ns: i64) {
        let dead = self.dead.entry(old.segment).or_default();
        dead.deaths.insert(old.place.offset, Death { sequence, time_ns });
        dead.note_growth();
        dead.records += 1;
        dead.bytes = dead.bytes.saturating_add(old.place.len_min());
        dead.dirty = true;
    }

    fn after_record(&mut self, group: u32) -> Result<()> {
        match self.options.durability {
            Durability::Explicit => {}
            Durability::Every => self.sync_all()?,
            Durability::Interval(interval) if self.synced_at.elapsed() >= interval => self.sync_all()?,
            Durability::Interval(_) => {}
        }
        let checkpoint_len = self.options.checkpoint_len;
        if self.active_of(group)?.checkpoint_due(checkpoint_len) {
            let storage = self.storage.clone();
            // From here on it is all one: what a checkpoint names counts with the generation that
            // follows it.
            self.is_publishing = true;
            self.active_of(group)?.checkpoint(storage.as_ref())?;
            self.publish_now()?;
        }
        Ok(())
    }

    fn check_usable(&self) -> Result<()> {
        self.check_process()?;
        if self.stopped { Err(Error::Stopped) } else { Ok(()) }
    }

    fn check_process(&self) -> Result<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        // The parent continues writing at the same place.
        Err(Error::Forked { owner: self.process })
    }

    /// Runs a change of the medium, if writing may continue; a failure stops the writer for good.
    fn guard<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.check_usable()?;
        self.change(change)
    }

    /// The same for a caller that has just checked: getting the process id takes a system call,
    /// which matters for a put of few bytes.
    fn change<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let changed = change(self);
        if changed.is_err() && !std::mem::replace(&mut self.stopped, true) {
            self.give_room_back();
        }
        changed
    }
}

fn take_lock(storage: &dyn Storage, host: &dyn Host) -> Result<Box<dyn Lock>> {
    Ok(storage.lock(names::LOCK, &host.describe())?)
}

/// The checksums of a body's chunks, as a record stores them after its body.
pub fn chunk_sums(body: &[u8], chunk_log2: u8) -> Vec<u8> {
    body.chunks(1 << chunk_log2).flat_map(|chunk| crc32c::crc32c(chunk).to_le_bytes()).collect()
}
