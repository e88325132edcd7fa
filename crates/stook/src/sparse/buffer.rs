//! [`SparseBuffer`]: one sparse file in memory, for many threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use super::clock::Clock;
use super::counters::{ReadTally, coarse_now_ns, is_timed};
use super::evict::{self, Queue};
use super::held::{Held, Input};
use super::lock::{BiasedLock, Writing};
use super::pins::Pins;
use super::reader::Reader;
use super::store::Pool;
use super::thread::thread_number;
use super::{Counters, Extent, OnDifference, SegmentInfo, SparseError, SparseOptions, Work, Written};
use crate::extent::ByteRange;
use crate::plan::PlanOptions;

/// What buffers that share a budget share.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) clock: Clock,
    /// Bytes held by all of them.
    pub(super) held: AtomicU64,
    pub(super) budget_bytes: u64,
}

impl Meter {
    pub(super) fn new(options: &SparseOptions) -> Arc<Self> {
        let clock = Clock::new(options.first_touch, options.exact);
        Arc::new(Self { clock, held: AtomicU64::new(0), budget_bytes: options.budget_bytes })
    }
}

/// The guarded state.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) held: Held,
    /// All but the reads since it was made.
    pub(super) counters: Counters,
    pub(super) modified_ns: Option<i64>,
    /// Whether every operation notes the time.
    pub(super) is_exact: bool,
    /// What of it the meter knows of; nothing once the buffer was removed from its store.
    metered: Option<u64>,
}

/// One sparse file in memory: bytes at any positions, with gaps.
///
/// All calls take `&self` and may be made from any thread. Readers run side by side; a write
/// becomes visible atomically. Within a call that lends slices ([`with_pieces`](Self::with_pieces))
/// or while a [`Reader`] lives, the same thread must not call the buffer again.
#[derive(Debug)]
pub struct SparseBuffer {
    pub(super) lock: BiasedLock<Inner, ReadTally>,
    pub(super) meter: Arc<Meter>,
    /// The store that it is in.
    pub(super) pool: Option<Weak<Pool>>,
    options: SparseOptions,
    pub(super) pins: Mutex<Pins>,
    /// What to evict next.
    pub(super) queue: Mutex<Queue>,
}

impl Default for SparseBuffer {
    fn default() -> Self {
        Self::assemble(SparseOptions::default(), Meter::new(&SparseOptions::default()), None)
    }
}

impl SparseBuffer {
    /// An empty file with the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty file.
    ///
    /// # Errors
    /// Returns an error if an option has an invalid value.
    pub fn with_options(options: SparseOptions) -> Result<Self, SparseError> {
        options.check()?;
        Ok(Self::assemble(options, Meter::new(&options), None))
    }

    /// A file whose options have been checked.
    pub(super) fn assemble(options: SparseOptions, meter: Arc<Meter>, pool: Option<Weak<Pool>>) -> Self {
        let held = Held::new(&options);
        let (counters, is_exact) = (Counters::default(), options.exact);
        let inner = Inner { held, counters, modified_ns: None, is_exact, metered: Some(0) };
        let (pins, queue) = (Mutex::default(), Mutex::default());
        Self { lock: BiasedLock::new(inner), meter, pool, options, pins, queue }
    }

    /// The options that it was made with.
    pub fn options(&self) -> &SparseOptions {
        &self.options
    }

    /// Writes `bytes` at `position`: all of them, or nothing.
    ///
    /// # Errors
    /// Returns [`SparseError::Differs`] if the policy is [`OnDifference::Error`] and a held byte
    /// differs, and [`SparseError::TooFar`] if they would end past the last position.
    pub fn write(&self, position: u64, bytes: &[u8], policy: OnDifference) -> Result<Written, SparseError> {
        self.put(position, Input::Copied(bytes), policy)
    }

    /// The same without a copy: parts that are at least as long as [`SparseOptions::adopt_min`]
    /// stay where they are.
    ///
    /// The memory of `bytes` is kept until its last part is erased or evicted, or until most of it
    /// was and the rest has been copied.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Self::write).
    pub fn adopt(&self, position: u64, bytes: Bytes, policy: OnDifference) -> Result<Written, SparseError> {
        self.put(position, Input::Shared(&bytes), policy)
    }

    fn put(&self, position: u64, input: Input<'_>, policy: OnDifference) -> Result<Written, SparseError> {
        let len = input.bytes().len() as u64;
        let range = ByteRange::at(position, len).ok_or(SparseError::TooFar { position, len })?;
        let mut inner = self.lock.write();
        let now = self.meter.clock.now(thread_number());
        let small = match input {
            Input::Copied(bytes) => inner.held.write_small(range, bytes, now),
            Input::Shared(_) => None,
        };
        let written = match small {
            Some(()) => Written { added: len, kept: 0, replaced: 0 },
            None => {
                let written = inner.held.write(range, input, policy, now);
                written.inspect_err(|_| self.meter.clock.take_back(now))?
            }
        };
        let is_exact = inner.is_exact;
        let counters = &mut inner.counters;
        if is_timed(counters.writes, len) || is_exact {
            counters.last_write_ns = Some(coarse_now_ns());
        }
        counters.writes += 1;
        counters.written_bytes += len;
        self.let_go(inner);
        Ok(written)
    }

    /// Ends a change: updates the meter, and evicts if too much is held.
    #[inline]
    pub(super) fn let_go(&self, mut inner: Writing<'_, Inner, ReadTally>) {
        let over = self.note_len(&mut inner) > self.meter.budget_bytes;
        drop(inner);
        if over {
            self.make_fit();
        }
    }

    /// Reports to the meter how much is held; how much all files hold.
    pub(super) fn note_len(&self, inner: &mut Inner) -> u64 {
        let len = inner.held.len();
        if self.pool.is_none() {
            return len;
        }
        let Some(before) = inner.metered.replace(len) else {
            inner.metered = None;
            return 0;
        };
        // Wraps below and above alike: the difference may be negative.
        let change = len.wrapping_sub(before);
        self.meter.held.fetch_add(change, Relaxed).wrapping_add(change)
    }

    #[cold]
    fn make_fit(&self) {
        match &self.pool {
            None => {
                self.evict_to(self.meter.budget_bytes);
            }
            Some(pool) => {
                if let Some(pool) = pool.upgrade() {
                    pool.evict_to(self.meter.budget_bytes);
                }
            }
        }
    }

    /// No longer counts for the budget of its store.
    pub(super) fn leave_store(&self) {
        let mut inner = self.lock.write();
        if let Some(before) = inner.metered.take() {
            self.meter.held.fetch_sub(before, Relaxed);
        }
    }

    /// Copies the bytes at `position` into `out`.
    ///
    /// # Errors
    /// Returns [`SparseError::NotHeld`] with the first gap if not all are held; `out` is unchanged
    /// then.
    pub fn read(&self, position: u64, out: &mut [u8]) -> Result<(), SparseError> {
        match self.lock.read_biased() {
            Some(inner) => Reader::new(inner, &self.meter.clock).read_inline(position, out),
            None => self.reader().read(position, out),
        }
    }

    /// The bytes of a range: without a copy where all of them were adopted together.
    ///
    /// # Errors
    /// Returns [`SparseError::NotHeld`] with the first gap if not all are held.
    pub fn read_bytes(&self, range: ByteRange) -> Result<Bytes, SparseError> {
        self.reader().read_bytes(range)
    }

    /// Passes the bytes of a range to a callback, in pieces, in order, without a copy. Writers wait
    /// meanwhile.
    ///
    /// # Errors
    /// Returns [`SparseError::NotHeld`] with the first gap if not all are held; no bytes were
    /// returned then.
    pub fn with_pieces(&self, range: ByteRange, each: impl FnMut(&[u8])) -> Result<(), SparseError> {
        self.reader().with_pieces(range, each)
    }

    /// Looks at the file for several questions at once: writers wait while the reader lives.
    #[inline]
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(self.lock.read(), &self.meter.clock)
    }

    /// Whether every byte of `range` is held. An empty range is.
    pub fn has(&self, range: ByteRange) -> bool {
        self.reader().has(range)
    }

    /// The parts of `range` that are not held, ascending.
    pub fn gaps(&self, range: ByteRange) -> Vec<ByteRange> {
        self.lock.read().held.gaps(range).collect()
    }

    /// What to read elsewhere so that all of `range` is held.
    ///
    /// # Errors
    /// Returns an error if the options contradict themselves, or too many reads would be needed.
    pub fn need(&self, range: ByteRange, options: &PlanOptions) -> Result<Vec<ByteRange>, SparseError> {
        let mut reads = Vec::new();
        self.reader().need_into(range, options, &mut reads)?;
        Ok(reads)
    }

    /// The same for many ranges, in any order: as few reads as serve all of them.
    ///
    /// # Errors
    /// Returns the errors of [`need`](Self::need).
    pub fn need_many(
        &self,
        ranges: &[ByteRange],
        options: &PlanOptions,
    ) -> Result<Vec<ByteRange>, SparseError> {
        self.reader().need_many(ranges, options)
    }

    /// The held ranges, as few as possible.
    pub fn extents(&self) -> Vec<ByteRange> {
        self.reader().extents().map(|extent| extent.range).collect()
    }

    /// All bytes around `position` that are held without a gap. Takes time for every segment of it.
    pub fn extent_at(&self, position: u64) -> Option<Extent> {
        self.reader().extent_at(position)
    }

    /// The held ranges with their segments and latest touches, ascending.
    pub fn extents_touched(&self) -> Vec<Extent> {
        self.reader().extents().collect()
    }

    /// How many extents there are. Takes time for every segment.
    pub fn extent_count(&self) -> u64 {
        self.reader().extents().count() as u64
    }

    /// The last extent that begins at `position` or before. It may end before `position`, too.
    /// Takes time for every segment of it.
    pub fn extent_before(&self, position: u64) -> Option<Extent> {
        self.reader().extent_before(position)
    }

    /// The first extent that ends after `position`. Takes time for every segment of it.
    pub fn extent_after(&self, position: u64) -> Option<Extent> {
        self.reader().extent_after(position)
    }

    /// The held segments: each is touched and evicted as a unit.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.reader().segments(ByteRange::to(u64::MAX)).collect()
    }

    /// How many bytes are held.
    pub fn held_bytes(&self) -> u64 {
        self.lock.read().held.len()
    }

    /// Whether no byte is held.
    pub fn is_empty(&self) -> bool {
        self.held_bytes() == 0
    }

    /// The position after the last byte held, 0 for none.
    pub fn end(&self) -> u64 {
        self.reader().end()
    }

    /// The memory that the file takes, everything included: held, dead and adopted bytes, spare
    /// capacity, the index. Adopted bytes count with their length, even if the memory that they
    /// keep is larger.
    pub fn memory_bytes(&self) -> u64 {
        // Before the lock is taken: who evicts has the queue first and then waits for the lock.
        let waiting = lock(&self.queue).memory_bytes();
        let meter = if self.pool.is_none() { size_of::<Meter>() } else { 0 };
        let rest = size_of::<Self>() + self.lock.memory_bytes() + meter + lock(&self.pins).memory_bytes();
        let inner = self.lock.read();
        let held = inner.held.blocks.memory_bytes() + inner.held.index.memory_bytes();
        held + rest as u64 + waiting
    }

    /// Erases the held bytes of `range`; returns how many that were.
    pub fn erase(&self, range: ByteRange) -> u64 {
        let mut inner = self.lock.write();
        let erased = inner.held.erase(range);
        inner.counters.erased_segments += erased.segments;
        inner.counters.erased_bytes += erased.bytes;
        self.let_go(inner);
        erased.bytes
    }

    /// Takes everything away, pinned or not; how many bytes that were. Counters, options and the
    /// clock stay.
    pub fn clear(&self) -> u64 {
        let mut inner = self.lock.write();
        let (segments, bytes) = (inner.held.index.len(), inner.held.len());
        let old = std::mem::replace(&mut inner.held, Held::new(&self.options));
        inner.counters.erased_segments += segments;
        inner.counters.erased_bytes += bytes;
        self.let_go(inner);
        // Freeing the memory takes time; no caller needs to wait for it.
        drop(old);
        bytes
    }

    /// Evicts the least recently touched bytes until at most `budget_bytes` are held, or only
    /// pinned ones; returns how many bytes were evicted.
    ///
    /// Whole segments go, so up to 64 KiB more than needed.
    pub fn evict_to(&self, budget_bytes: u64) -> u64 {
        let mut queue = lock(&self.queue);
        evict::evict(&mut queue, budget_bytes, &evict::One(self))
    }

    /// Keeps a range from being evicted as long as the returned guard lives. It may be held or not,
    /// then or later.
    pub fn pin(&self, range: ByteRange) -> Pinned<'_> {
        self.add_pin(range);
        Pinned { buffer: self, range }
    }

    /// Keeps a range from being evicted until [`remove_pin`](Self::remove_pin) is called for it, as
    /// often as this.
    pub fn add_pin(&self, range: ByteRange) {
        lock(&self.pins).pin(range);
    }

    /// Undoes one [`add_pin`](Self::add_pin) of the same range. Bytes over the budget because of it
    /// are evicted.
    pub fn remove_pin(&self, range: ByteRange) {
        lock(&self.pins).unpin(range);
        let held = match &self.pool {
            None => self.held_bytes(),
            Some(_) => self.meter.held.load(Relaxed),
        };
        if held > self.meter.budget_bytes {
            self.make_fit();
        }
    }

    /// Evicts a segment that was last touched at `tick`, if it has not been touched since; returns
    /// its length in bytes.
    pub(super) fn evict_segment(&self, start: u64, tick: u64, whatever: bool) -> u64 {
        let pins = lock(&self.pins);
        let mut inner = self.lock.write();
        let Some(position) = ByteRange::at(start, 1) else { return 0 };
        let Some(found) = inner.held.segments(position).next() else { return 0 };
        if found.start != start || (found.last_touch() != tick && !whatever) {
            return 0;
        }
        let Some(range) = ByteRange::new(start, found.end()) else { return 0 };
        let (mut bytes, mut segments) = (0, 0);
        for free in pins.free_in(range) {
            let erased = inner.held.erase(free);
            bytes += erased.bytes;
            segments += erased.segments;
        }
        inner.counters.evicted_segments += segments;
        inner.counters.evicted_bytes += bytes;
        self.note_len(&mut inner);
        bytes
    }

    /// Calls `each` with start and last touch of every segment that is not wholly pinned.
    pub(super) fn evictable(&self, mut each: impl FnMut(u64, u64)) {
        let free = lock(&self.pins).free_in(ByteRange::to(u64::MAX));
        let inner = self.lock.read();
        let mut last = None;
        for range in free {
            for segment in inner.held.segments(range) {
                // A segment that reaches across a pin is visited on both sides of it.
                if last != Some(segment.start) {
                    each(segment.start, segment.last_touch());
                }
                last = Some(segment.start);
            }
        }
    }

    /// Marks the held bytes of `range` as most recently touched.
    pub fn touch(&self, range: ByteRange) {
        let inner = self.lock.read();
        let now = self.meter.clock.now(inner.thread());
        inner.held.segments(range).for_each(|segment| now.touch(segment.touch));
    }

    /// A number that is greater than those of all touches so far; with
    /// [`exact`](SparseOptions::exact) the number of the next. Less
    /// [`first_touch`](SparseOptions::first_touch) it is then the count of touches.
    pub fn next_touch(&self) -> u64 {
        self.meter.clock.next()
    }

    /// Counters of operations since it was made.
    pub fn counters(&self) -> Counters {
        self.counters_of(&self.lock.read())
    }

    pub(super) fn counters_of(&self, inner: &Inner) -> Counters {
        self.lock.all_beside().map(ReadTally::counters).fold(inner.counters, Counters::plus)
    }

    /// The modification time of the origin of the bytes, as set by
    /// [`set_modified_ns`](Self::set_modified_ns).
    pub fn modified_ns(&self) -> Option<i64> {
        self.lock.read().modified_ns
    }

    /// Stores the modification time of the origin of the bytes, for later comparison.
    pub fn set_modified_ns(&self, modified_ns: Option<i64>) {
        self.lock.write().modified_ns = modified_ns;
    }

    /// How much was moved within memory since it was made: for tests and tuning.
    pub fn work(&self) -> Work {
        self.lock.read().held.work
    }
}

impl Drop for SparseBuffer {
    fn drop(&mut self) {
        // Without the lock: there is no other user, and in a forked child it might never be
        // released.
        if let Some(before) = self.lock.get_mut().metered.take() {
            self.meter.held.fetch_sub(before, Relaxed);
        }
    }
}

/// Locks a mutex; a panic leaves none of these guarded values inconsistent.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a range from being evicted; see [`SparseBuffer::pin`].
#[derive(Debug)]
#[must_use = "the range is pinned as long as this lives"]
pub struct Pinned<'a> {
    buffer: &'a SparseBuffer,
    range: ByteRange,
}

impl Pinned<'_> {
    /// The pinned range.
    pub fn range(&self) -> ByteRange {
        self.range
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.buffer.remove_pin(self.range);
    }
}
