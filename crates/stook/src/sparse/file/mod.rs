//! [`SparseFile`]: a source that is read through a cache, which fetches only what is missing.

mod ahead;
mod disk;
mod error;
mod fetch;
mod flights;
mod kept;
mod source;
mod statistics;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use self::ahead::{Ahead, Missing};
use self::fetch::Fetcher;
use self::flights::{Flight, Flights};
use self::kept::Kept;
use self::statistics::FileCounters;
use super::lease::Lease;
use super::{DiskCache, OnDifference, SparseBuffer, SparseError, SparseStore};
use crate::engine::{Backend, EngineFactory};
use crate::error::Error;
use crate::extent::ByteRange;
use crate::plan::{Plan, PlanOptions};
use crate::profile::Profile;
use crate::source::{Identity, SessionOptions, Source};

pub use ahead::AheadOptions;
pub use error::SparseFileError;
pub use statistics::SparseStatistics;

/// How a [`SparseFile`] fetches.
#[derive(Debug, Clone)]
pub struct SparseFileOptions {
    /// How it reads ahead.
    pub ahead: AheadOptions,
    /// Requests under way at most, and how long one may be.
    pub session: SessionOptions,
    /// Makes engines for local sources.
    pub engines: Arc<dyn EngineFactory>,
    /// The cache for fetched bytes, if any. The name of the [origin](Source::origin) of the source
    /// is written there too.
    pub disk: Option<Arc<DiskCache>>,
}

impl SparseFileOptions {
    /// The same as by default, with as many requests at once and as long ones as what is known of
    /// where the source lies says.
    pub fn of(source: &dyn Source) -> Self {
        Self { session: SessionOptions::of(&Profile::of(source)), ..Self::default() }
    }
}

impl Default for SparseFileOptions {
    /// Eight requests of up to 8 MiB at once, nothing on disk.
    fn default() -> Self {
        let (ahead, session) = (AheadOptions::default(), SessionOptions::default());
        Self { ahead, session, engines: Arc::new(Backend::default()), disk: None }
    }
}

/// A source that is read through a cache in memory, and on disk where that is wanted, from any
/// number of threads.
///
/// A read returns held bytes and fetches missing ones, in few large requests, ahead of the reader
/// if its pattern allows a guess. Bytes in flight for one thread are not requested again by
/// another. All bytes are of one state of the source: once it has changed, every read fails with an
/// error that names both states, and the held bytes are discarded.
///
/// ```
/// use std::sync::Arc;
/// use stook::source::MemorySource;
/// use stook::sparse::SparseFile;
///
/// let source = Arc::new(MemorySource::new("numbers", (0..=255).collect::<Vec<u8>>()));
/// let file = SparseFile::new(source);
/// let mut four = [0; 4];
/// assert_eq!(file.read_at(100, &mut four)?, 4);
/// assert_eq!(four, [100, 101, 102, 103]);
/// assert_eq!(file.read_at(254, &mut four)?, 2, "here it ends");
/// assert_eq!(file.statistics().requests, 1, "the second read found everything");
/// # Ok::<(), stook::sparse::SparseFileError>(())
/// ```
#[derive(Debug)]
pub struct SparseFile {
    fetcher: Fetcher,
    kept: Arc<Kept>,
    /// The longest range of one flight.
    max_request_bytes: u64,
    state: Mutex<FileState>,
    landed: Condvar,
}

/// Decides what to fetch.
type Planner<'a> = dyn FnMut(&mut FileState, &Missing<'_>) -> Vec<ByteRange> + 'a;

/// The mutable state of a file: read-ahead and requests in flight.
#[derive(Debug)]
struct FileState {
    ahead: Ahead,
    flights: Flights,
}

impl SparseFile {
    /// A source with a cache of its own, which keeps everything.
    pub fn new(source: Arc<dyn Source>) -> Self {
        let options = SparseFileOptions::of(source.as_ref());
        Self::with_options(source, Arc::new(SparseBuffer::new()), options)
    }

    /// A source whose bytes are held in a store, under its budget.
    ///
    /// Bytes held under this name are reused only if they are of this source in this state, and
    /// both are [proven](Source::is_proven), by the rule of the cache on disk. Otherwise the name
    /// belongs to this source from now on; a file that is still open under it keeps its own bytes,
    /// under the same budget. Proven bytes stay in the store for the next file; all others are
    /// dropped with the last file over them.
    ///
    /// # Errors
    /// Returns [`SparseError::NotOfASource`] if bytes are held under this name that no such file
    /// put there.
    pub fn in_store(
        source: Arc<dyn Source>,
        store: &SparseStore,
        name: &str,
        options: SparseFileOptions,
    ) -> Result<Self, SparseError> {
        let lease = store.lease(name, source.as_ref())?;
        Ok(Self::over(source, Arc::clone(lease.buffer()), Some(lease), options))
    }

    /// A source whose bytes are held in `buffer`, which must hold nothing that is not of it.
    pub fn with_options(
        source: Arc<dyn Source>,
        buffer: Arc<SparseBuffer>,
        options: SparseFileOptions,
    ) -> Self {
        Self::over(source, buffer, None, options)
    }

    fn over(
        source: Arc<dyn Source>,
        buffer: Arc<SparseBuffer>,
        lease: Option<Arc<Lease>>,
        options: SparseFileOptions,
    ) -> Self {
        let ahead = Ahead::new(options.ahead, source.len());
        let max_request_bytes = options.session.max_request_bytes.max(1) as u64;
        let disk = options.disk.map(|cache| disk::entry_of(&cache, source.as_ref()));
        let counted = FileCounters::new(source.whole_read());
        Self {
            fetcher: Fetcher::new(source, options.engines, options.session),
            kept: Arc::new(Kept::new(buffer, lease, disk, counted)),
            max_request_bytes,
            state: Mutex::new(FileState { ahead, flights: Flights::default() }),
            landed: Condvar::new(),
        }
    }

    /// The source that is read.
    pub fn source(&self) -> &Arc<dyn Source> {
        self.fetcher.source()
    }

    /// The length of the source, bytes.
    pub fn len(&self) -> u64 {
        self.source().len()
    }

    /// Whether the source has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The identity of the source when it was opened.
    pub fn identity(&self) -> Identity {
        self.source().identity()
    }

    /// The bytes held in memory.
    pub fn buffer(&self) -> &Arc<SparseBuffer> {
        &self.kept.buffer
    }

    /// Returns what was requested and what that cost, since it was made.
    pub fn statistics(&self) -> SparseStatistics {
        let disk = self.kept.disk.as_ref().map(|disk| disk.cache().statistics()).unwrap_or_default();
        let counted = self.kept.counted.snapshot(self.kept.buffer.counters().evicted_bytes, disk);
        SparseStatistics { disk_remark: self.disk_remark(), ..counted }
    }

    /// Reads bytes at `position` into `out`; fewer than it has room for only where the source ends.
    ///
    /// # Errors
    /// Returns an error if fetching fails or the source has changed.
    pub fn read_at(&self, position: u64, out: &mut [u8]) -> Result<usize, SparseFileError> {
        let left = self.len().saturating_sub(position);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        let out = out.get_mut(..len).unwrap_or_default();
        let Some(range) = ByteRange::at(position, len as u64).filter(|range| !range.is_empty()) else {
            return Ok(0);
        };
        self.through(range, &mut |buffer| buffer.read(position, out))?;
        Ok(len)
    }

    /// Returns the result of [`read_at`](Self::read_at) if the bytes are in memory and no wait is
    /// needed. Otherwise `out` is unchanged and nothing is counted: for callers that must not
    /// block.
    pub fn read_at_once(&self, position: u64, out: &mut [u8]) -> Option<usize> {
        let left = self.len().saturating_sub(position);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        let out = out.get_mut(..len)?;
        let Some(range) = ByteRange::at(position, len as u64).filter(|range| !range.is_empty()) else {
            return Some(0);
        };
        self.at_once(range, &mut |buffer| buffer.read(position, out)).map(|()| len)
    }

    /// The bytes of a range, without a copy where they came by one request.
    ///
    /// # Errors
    /// Returns an error if fetching fails or the source has changed; [`Error::OutOfBounds`] past
    /// its end.
    pub fn read(&self, range: ByteRange) -> Result<Bytes, SparseFileError> {
        crate::source::check_bounds(self.source().as_ref(), range)?;
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        self.through(range, &mut |buffer| buffer.read_bytes(range))
    }

    /// The bytes of many ranges, in their order, fetched together.
    ///
    /// # Errors
    /// Returns the errors of [`read`](Self::read).
    pub fn read_many(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>, SparseFileError> {
        let _pins: Vec<_> = ranges.iter().map(|&range| self.kept.buffer.pin(range)).collect();
        self.prefetch(ranges)?;
        ranges.iter().map(|&range| self.read(range)).collect()
    }

    /// Bytes of these ranges that are not held in memory.
    ///
    /// # Errors
    /// [`SparseError::Plan`] for too many ranges.
    pub fn missing(&self, ranges: &[ByteRange]) -> Result<u64, SparseError> {
        let (max_len, end) = (u64::MAX, u64::MAX);
        let exactly = PlanOptions { min_len: 0, max_gap: 0, max_len, alignment: 1, end };
        Ok(self.kept.buffer.need_many(ranges, &exactly)?.iter().map(ByteRange::len).sum())
    }

    /// Fetches what is missing of these ranges, all of it together, and nothing ahead: for callers
    /// that know. Neighbours are fetched by one request where no more than
    /// [`AheadOptions::max_gap`] lies between them.
    ///
    /// # Errors
    /// Returns the errors of [`read`](Self::read); [`SparseError::Plan`] for too many ranges.
    pub fn prefetch(&self, ranges: &[ByteRange]) -> Result<(), SparseFileError> {
        for &range in ranges {
            crate::source::check_bounds(self.source().as_ref(), range)?;
        }
        let max_gap = self.state().ahead.max_gap();
        let options = PlanOptions { max_gap, max_len: u64::MAX, end: self.len(), ..PlanOptions::default() };
        let plan = Plan::new(ranges, &options).map_err(SparseError::from)?;
        plan.reads().iter().try_for_each(|&range| self.load(range))?;
        let mut state = self.state();
        if let Some(changed) = self.kept.changed() {
            return Err(changed.clone());
        }
        let (mut missing, mut others) = (Vec::new(), Vec::new());
        for &range in plan.reads() {
            let gaps = self.kept.buffer.gaps(range);
            others.extend(gaps.iter().flat_map(|&gap| state.flights.within(gap)));
            missing.append(&mut state.flights.missing_of(gaps));
        }
        state.ahead.note_known(&missing);
        let begun = self.begin(&mut state, &missing);
        drop(state);
        self.fetch(&begun)?;
        others.iter().try_for_each(|flight| self.wait_for(self.state(), flight).1)
    }

    /// Waits until a flight has ended; how it did.
    fn wait_for<'s>(
        &self,
        mut state: MutexGuard<'s, FileState>,
        flight: &Flight,
    ) -> (MutexGuard<'s, FileState>, Result<(), SparseFileError>) {
        loop {
            if let Some(outcome) = flight.outcome.get() {
                return (state, outcome.clone());
            }
            state = self.landed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the result of `read` if `range` is held.
    fn at_once<T>(
        &self,
        range: ByteRange,
        read: &mut dyn FnMut(&SparseBuffer) -> Result<T, SparseError>,
    ) -> Option<T> {
        if self.kept.changed().is_some() {
            return None;
        }
        let found = read(&self.kept.buffer).ok()?;
        self.kept.counted.read(true, range.len());
        // A pattern is learned from most reads as well as from all: no read waits for the lock.
        if let Ok(mut state) = self.state.try_lock() {
            state.ahead.note_hit(range);
        }
        Some(found)
    }

    /// Returns the result of `read` once `range` is held.
    fn through<T>(
        &self,
        range: ByteRange,
        read: &mut dyn FnMut(&SparseBuffer) -> Result<T, SparseError>,
    ) -> Result<T, SparseFileError> {
        if let Some(found) = self.at_once(range, read) {
            return Ok(found);
        }
        self.kept.counted.read(false, range.len());
        let _pinned = self.kept.buffer.pin(range);
        let mut is_planned = false;
        self.fill(range, &mut |state, missing| {
            if std::mem::replace(&mut is_planned, true) {
                return missing(range);
            }
            state.ahead.plan(range, missing)
        })?;
        if !is_planned {
            // The disk had all of it.
            self.state().ahead.note_hit(range);
        }
        // Pinned, it can only be missing where the source has changed and all was dropped.
        read(&self.kept.buffer).map_err(|error| self.kept.changed().cloned().unwrap_or_else(|| error.into()))
    }

    /// Fetches until all of `range` is held. Waits for parts that other threads are fetching.
    /// `plan` decides what to fetch, and is called again after each wait.
    fn fill(&self, range: ByteRange, plan: &mut Planner<'_>) -> Result<(), SparseFileError> {
        self.load(range)?;
        let mut state = self.state();
        loop {
            if let Some(changed) = self.kept.changed() {
                return Err(changed.clone());
            }
            let gaps = self.kept.buffer.gaps(range);
            let Some(gap) = gaps.first() else { return Ok(()) };
            let planned = {
                let flights = std::mem::take(&mut state.flights);
                let planned = plan(&mut state, &|part| flights.missing_of(self.missing_parts(part, range)));
                state.flights = flights;
                planned
            };
            if !planned.is_empty() {
                let begun = self.begin(&mut state, &planned);
                drop(state);
                let fetched = self.fetch(&begun);
                // What was only read ahead may fail without harm, unless it says that the source
                // has changed.
                if let Err(error) = fetched
                    && (error.is_changed_source() || !self.kept.buffer.has(range))
                {
                    return Err(error);
                }
                state = self.state();
                continue;
            }
            let Some(flight) = state.flights.of(gap.start()).map(Arc::clone) else { continue };
            let (again, outcome) = self.wait_for(state, &flight);
            outcome?;
            state = again;
        }
    }

    /// Notes that ranges are fetched from now on.
    fn begin(&self, state: &mut FileState, planned: &[ByteRange]) -> Vec<Arc<Flight>> {
        let mut begun = Vec::with_capacity(planned.len());
        for range in planned {
            let mut start = range.start();
            while let Some(part) = ByteRange::new(start, range.end()).filter(|left| !left.is_empty()) {
                let part = ByteRange::at(start, part.len().min(self.max_request_bytes)).unwrap_or(part);
                begun.push(state.flights.begin(part));
                start = part.end();
            }
        }
        begun
    }

    /// Fetches flights that were begun, and ends them all, even on errors.
    fn fetch(&self, flights: &[Arc<Flight>]) -> Result<(), SparseFileError> {
        if flights.is_empty() {
            return Ok(());
        }
        let landing = Landing { file: self, flights };
        let ranges: Vec<ByteRange> = flights.iter().map(|flight| flight.range).collect();
        let mut refused = None;
        let is_proven = self.kept.expect(|| self.source().is_proven());
        let fetched = self.fetcher.fetch(&ranges, &mut |number, bytes, took| {
            let Some(flight) = flights.get(number) else { return Ok(()) };
            self.kept.counted.request(bytes.len() as u64, took);
            let written = self.kept.buffer.adopt(flight.range.start(), bytes.clone(), OnDifference::Error);
            let outcome = written.map(drop).map_err(SparseFileError::from);
            refused = refused.take().or_else(|| outcome.as_ref().err().cloned());
            let is_held = outcome.is_ok();
            self.end(flight, outcome);
            self.kept.keep(flight.range, &bytes, is_held, is_proven);
            Ok(())
        });
        let fetched = fetched.map_err(SparseFileError::from);
        if let Err(error) = &fetched {
            landing.fail(error);
        }
        fetched.and(refused.map_or(Ok(()), Err))
    }

    fn end(&self, flight: &Arc<Flight>, outcome: Result<(), SparseFileError>) {
        self.state().flights.end(flight, outcome);
        self.landed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, FileState> {
        // The guarded state is changed only by calls that leave it consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends flights, so that no reader waits for what will not come.
struct Landing<'a> {
    file: &'a SparseFile,
    flights: &'a [Arc<Flight>],
}

impl Landing<'_> {
    /// Fails all flights that have not ended.
    fn fail(&self, error: &SparseFileError) {
        let mut state = self.file.state();
        if error.is_changed_source() {
            self.file.kept.note_changed(error);
        }
        for flight in self.flights {
            state.flights.end(flight, Err(error.clone()));
        }
        self.file.landed.notify_all();
    }
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if self.flights.iter().any(|flight| flight.outcome.get().is_none()) {
            let gave_up = std::io::Error::other("the thread that fetched it gave up");
            self.fail(&Error::io("read", self.file.source().path(), gave_up).into());
        }
    }
}
