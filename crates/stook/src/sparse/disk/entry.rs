//! [`DiskEntry`]: the cached bytes of one source.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::format::{IndexHeader, RANGE_LEN_MAX, RECORD_LEN, Record};
use super::live::{Found, Live};
use super::{DiskCache, data_name, draft_name, index_name};
use crate::extent::ByteRange;
use crate::source::{Identity, Origin};
use crate::sparse::owner::Owner;
use crate::storage::cache::{self, FileId, name_of, read_up_to};

/// Written between two looks at the budget, and read by one call.
const PART: usize = 1 << 20;
/// How exactly the last use of an entry is noted.
const STAMP_EVERY: Duration = Duration::from_secs(5);
/// Writes that are left out after one was refused: 1, 2, 4, up to 2 to the power of this.
const BACK_OFF_MAX: u32 = 10;

/// The bytes of one state of one source on disk, for any number of threads.
///
/// No call fails: data that cannot be read from disk is not held, and data that cannot be written
/// is not kept. The [statistics](DiskCache::statistics) of the cache show it.
#[derive(Debug)]
pub struct DiskEntry {
    cache: Arc<DiskCache>,
    /// What its files are called.
    name: String,
    index_name: String,
    /// What people call the source.
    shown: Arc<str>,
    owner: Owner,
    state: Mutex<EntryState>,
}

/// What changes of an entry.
#[derive(Debug, Default)]
struct EntryState {
    live: Option<Live>,
    /// When the last use was noted.
    stamped: Option<Instant>,
    /// Writes that were refused one after the other.
    refused: u32,
    /// How many are not tried now.
    left_out: u32,
}

/// Where bytes may be written.
struct Room {
    data: Arc<std::fs::File>,
    gaps: Vec<ByteRange>,
    id: FileId,
    header_len: u64,
    header_sum: u32,
}

impl DiskCache {
    /// Opens the entry for this origin in this state. Data of another state is discarded.
    ///
    /// The name of the origin is written to the disk: it must not hold secrets. Nothing is kept for
    /// sources whose states cannot be distinguished, because they have neither a strong ETag nor a
    /// time.
    pub fn entry(self: &Arc<Self>, origin: &Origin, identity: &Identity) -> DiskEntry {
        let owner = Owner::new(origin, identity, &self.salt);
        let name = name_of(&owner.key);
        let entry = DiskEntry {
            cache: Arc::clone(self),
            index_name: index_name(&name),
            name,
            shown: origin.name().into(),
            owner,
            state: Mutex::default(),
        };
        if entry.is_kept() {
            let refreshed = entry.refresh(&mut entry.state(), true);
            entry.note_failure("open an entry", refreshed);
        }
        entry
    }
}

impl DiskEntry {
    /// The cache that it is in.
    pub fn cache(&self) -> &Arc<DiskCache> {
        &self.cache
    }

    /// The parts of a range that are not held, as far as is known without looking.
    pub fn gaps(&self, range: ByteRange) -> Vec<ByteRange> {
        self.state().live.as_ref().map_or_else(|| vec![range], |live| live.gaps(range))
    }

    /// The held bytes of a range, verified: positions and bytes, ascending, in whole records, which
    /// may reach beyond the range and overlap.
    pub fn read(&self, range: ByteRange) -> Vec<(u64, Bytes)> {
        let Some((data, id, records)) = self.records(range) else { return Vec::new() };
        let (mut held, mut failed) = (Vec::with_capacity(records.len()), Vec::new());
        for run in records.chunk_by(|before, after| before.range.end() == after.range.start()) {
            for few in run.chunks(PART / RANGE_LEN_MAX as usize) {
                let read = read_run(&data, few, &mut held, &mut failed);
                self.note_failure("read", read);
            }
        }
        let bytes: u64 = held.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        self.cache.counted.read_bytes.fetch_add(bytes, Relaxed);
        if !failed.is_empty() {
            self.distrust(&failed, id);
        }
        held
    }

    /// Keeps bytes of the source, where they are not kept already. They must have been read while
    /// its identity was a [proof](crate::source::Source::is_proven).
    pub fn write(&self, start: u64, bytes: &[u8]) {
        let range =
            ByteRange::at(start, bytes.len() as u64).filter(|range| range.end() <= self.owner.identity.len);
        if range.is_none() || !self.is_kept() || self.is_left_out() {
            return;
        }
        let mut at = start;
        for part in bytes.chunks(PART) {
            if let Err(error) = self.write_part(at, part) {
                self.cache.failed("write", &error);
                let mut state = self.state();
                state.left_out = 1 << state.refused;
                state.refused = (state.refused + 1).min(BACK_OFF_MAX);
                return;
            }
            at += part.len() as u64;
        }
        self.state().refused = 0;
    }

    /// Discards the kept bytes: the source has changed.
    pub fn discard(&self) {
        let Some(live) = self.state().live.take() else { return };
        let discarded = self.discard_file(live.id);
        self.note_failure("discard an entry", discarded);
    }

    fn state(&self) -> MutexGuard<'_, EntryState> {
        // The guarded state is consistent between any two calls.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_failure(&self, operation: &str, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            self.cache.failed(operation, &error);
        }
    }

    /// Whether another state of the source would have another identity.
    fn is_kept(&self) -> bool {
        self.owner.identity.can_be_proof()
    }

    /// Whether to skip this write, because the last one was refused.
    fn is_left_out(&self) -> bool {
        let mut state = self.state();
        let is_left_out = state.left_out > 0;
        state.left_out = state.left_out.saturating_sub(1);
        is_left_out
    }

    /// Picks up the changes of other processes to the entry.
    fn refresh(&self, state: &mut EntryState, is_first: bool) -> io::Result<()> {
        let directory = &self.cache.directory;
        if let Some(live) = &mut state.live {
            match directory.about(&self.index_name)? {
                Some(found) if found.id == live.id && found.len >= live.known_len() => {
                    let read = live.read_to(found.len, self.owner.identity.len);
                    self.count_damaged(live.take_damaged());
                    return read;
                }
                _ => state.live = None,
            }
        }
        match Live::open(directory, &self.name, &self.owner)? {
            Found::Live(mut live) => {
                self.count_damaged(live.take_damaged());
                state.live = Some(*live);
            }
            Found::Damaged(id) => self.discard_file(id)?,
            Found::OfAnother(id) if is_first => self.discard_file(id)?,
            // Later, another process may know better than this one what the source is now.
            Found::OfAnother(_) | Found::Nothing => {}
        }
        Ok(())
    }

    fn count_damaged(&self, ranges: u64) {
        self.cache.counted.damaged_ranges.fetch_add(ranges, Relaxed);
    }

    /// Removes an entry, unless another has taken its place.
    fn discard_file(&self, id: FileId) -> io::Result<()> {
        let directory = &self.cache.directory;
        let _locked = directory.lock()?;
        if directory.about(&self.index_name)?.is_some_and(|found| found.id == id) {
            self.cache.remove_entry(&self.name)?;
            self.cache.counted.discarded_entries.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// The records that hold any of a range, and the file with their bytes.
    fn records(&self, range: ByteRange) -> Option<(Arc<std::fs::File>, FileId, Vec<Record>)> {
        if !self.is_kept() {
            return None;
        }
        let mut state = self.state();
        let refreshed = self.refresh(&mut state, false);
        self.note_failure("look at an entry", refreshed);
        let live = state.live.as_ref()?;
        let records = live.records(range);
        let found = (!records.is_empty()).then(|| (Arc::clone(&live.data), live.id, records));
        if found.is_some() {
            self.stamp(&mut state);
        }
        found
    }

    /// Notes that it was used, for eviction.
    fn stamp(&self, state: &mut EntryState) {
        let Some(live) = &state.live else { return };
        if live.is_writable && state.stamped.is_none_or(|stamped| stamped.elapsed() >= STAMP_EVERY) {
            self.note_failure("note the last use", cache::stamp(&live.index));
            state.stamped = Some(Instant::now());
        }
    }

    /// Drops records that failed to verify.
    fn distrust(&self, failed: &[(Record, Failed)], id: FileId) {
        // Eviction makes holes before the index without them is visible, and holds this lock
        // meanwhile.
        let is_current = match self.cache.directory.lock_index(&self.index_name) {
            Ok(current) => current.is_some_and(|(_, found)| found.id == id),
            Err(_) => true,
        };
        let mut state = self.state();
        let Some(live) = state.live.as_mut().filter(|live| live.id == id) else { return };
        if !is_current {
            state.live = None;
            return;
        }
        failed.iter().for_each(|(record, _)| live.forget(record));
        let damaged = failed.iter().filter(|(_, why)| *why == Failed::Damaged).count();
        self.count_damaged(damaged as u64);
    }

    fn write_part(&self, start: u64, bytes: &[u8]) -> io::Result<()> {
        let range = ByteRange::at(start, bytes.len() as u64).unwrap_or_default();
        let is_new = self.room(range)?.is_some_and(|room| !room.gaps.is_empty());
        if !is_new {
            return Ok(());
        }
        if !self.cache.make_room(range.len())? {
            self.cache.counted.unkept_bytes.fetch_add(range.len(), Relaxed);
            return Ok(());
        }
        // Making room may have shortened this very entry.
        let Some(room) = self.room(range)? else { return Ok(()) };
        let mut records = Vec::new();
        for piece in room.gaps.iter().flat_map(|&gap| pieces(gap)) {
            let from = (piece.start() - start) as usize;
            let Some(bytes) = bytes.get(from..from + piece.len() as usize) else { continue };
            room.data.write_all_at(bytes, piece.start())?;
            let record = Record { range: piece, sum: crc32c::crc32c(bytes) };
            records.extend(record.encode(room.header_sum));
            self.cache.counted.written_bytes.fetch_add(piece.len(), Relaxed);
        }
        self.append(&records, &room)
    }

    /// Where a range may be written: an entry that is there, or is begun.
    fn room(&self, range: ByteRange) -> io::Result<Option<Room>> {
        let mut state = self.state();
        self.refresh(&mut state, false)?;
        if state.live.is_none() {
            self.begin()?;
            self.refresh(&mut state, false)?;
        }
        let Some(live) = &state.live else { return Ok(None) };
        if !live.is_writable {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(Some(Room {
            data: Arc::clone(&live.data),
            gaps: live.gaps(range),
            id: live.id,
            header_len: live.header_len,
            header_sum: live.header_sum,
        }))
    }

    /// Begins the entry, unless it was begun already.
    fn begin(&self) -> io::Result<()> {
        let directory = &self.cache.directory;
        let _locked = directory.lock()?;
        if directory.about(&self.index_name)?.is_some() {
            return Ok(());
        }
        let nonce = getrandom::u64().map_err(io::Error::other)?;
        let header = IndexHeader {
            nonce,
            identity: self.owner.identity.clone(),
            key: self.owner.key,
            name: Arc::clone(&self.shown),
        };
        let Some(header) = header.encode() else { return Ok(()) };
        let (data, draft) = (data_name(&self.name, nonce), draft_name(&self.name, nonce));
        let make = || {
            directory.create_file(&data)?;
            directory.create_file(&draft)?.write_all_at(&header, 0)?;
            directory.rename(&draft, &self.index_name)
        };
        make().inspect_err(|_| {
            // What cannot be removed now is when room is made.
            let _ = directory.remove(&draft);
            let _ = directory.remove(&data);
        })
    }

    /// Adds records to the index, whose bytes are written.
    fn append(&self, records: &[u8], room: &Room) -> io::Result<()> {
        let Some((locked, found)) = self.cache.directory.lock_index(&self.index_name)? else {
            return Ok(());
        };
        // If the entry was shortened or begun again, written data may have been evicted already.
        let Some(records_len) = found.len.checked_sub(room.header_len).filter(|_| found.id == room.id) else {
            return Ok(());
        };
        let whole = room.header_len + records_len / RECORD_LEN as u64 * RECORD_LEN as u64;
        if whole != found.len {
            // The writer of this record was killed.
            locked.file.set_len(whole)?;
        }
        locked.file.write_all_at(records, whole).inspect_err(|_| {
            // A rest that stays is cut off by the next one.
            let _ = locked.file.set_len(whole);
        })?;
        drop(locked);
        self.refresh(&mut self.state(), false)
    }
}

/// Why bytes were not as they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failed {
    Damaged,
    /// Evicted, or never written before the power failed.
    Hole,
}

/// Reads neighbouring records, and sorts them into those that are held and those that are not.
fn read_run(
    data: &std::fs::File,
    run: &[Record],
    held: &mut Vec<(u64, Bytes)>,
    failed: &mut Vec<(Record, Failed)>,
) -> io::Result<()> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
    let start = first.range.start();
    let read = read_up_to(data, start, (last.range.end() - start) as usize);
    let (bytes, outcome) = read.map_or_else(|error| (Bytes::new(), Err(error)), |read| (read.into(), Ok(())));
    for record in run {
        let from = ((record.range.start() - start) as usize).min(bytes.len());
        let to = ((record.range.end() - start) as usize).min(bytes.len());
        let found = bytes.slice(from..to);
        if found.len() as u64 == record.range.len() && crc32c::crc32c(&found) == record.sum {
            held.push((record.range.start(), found));
        } else {
            let is_hole = !found.is_empty() && found.iter().all(|&byte| byte == 0);
            failed.push((*record, if is_hole { Failed::Hole } else { Failed::Damaged }));
        }
    }
    outcome
}

/// A range cut where records end.
fn pieces(range: ByteRange) -> impl Iterator<Item = ByteRange> {
    let mut at = range.start();
    std::iter::from_fn(move || {
        let end = (at / RANGE_LEN_MAX).saturating_add(1).saturating_mul(RANGE_LEN_MAX).min(range.end());
        let piece = ByteRange::new(at, end).filter(|piece| !piece.is_empty())?;
        at = end;
        Some(piece)
    })
}
