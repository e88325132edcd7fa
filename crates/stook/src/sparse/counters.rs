//! Counters of a sparse file, and when it was last used.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Counters of a sparse file since it was made; kept when it is serialised.
///
/// Times are nanoseconds since 1970, from a clock that moves a few hundred times a second.
/// Operations on less than 1 KiB note it every 16th time only (of each thread, for reads), because
/// asking would cost as much as a small read: a time may be that of an operation up to 15 before.
/// With [`SparseOptions::exact`](super::SparseOptions::exact) all note it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Reads that succeeded.
    pub reads: u64,
    /// Bytes that they gave.
    pub read_bytes: u64,
    /// Writes that succeeded.
    pub writes: u64,
    /// Bytes that they were given, whether they were held already or not.
    pub written_bytes: u64,
    /// Segments that were erased, wholly or in part.
    pub erased_segments: u64,
    /// Bytes that were erased.
    pub erased_bytes: u64,
    /// Segments that were evicted, wholly or in part.
    pub evicted_segments: u64,
    /// Bytes that were evicted.
    pub evicted_bytes: u64,
    /// Time of the last read that succeeded.
    pub last_read_ns: Option<i64>,
    /// Time of the last write that succeeded.
    pub last_write_ns: Option<i64>,
}

impl Counters {
    /// The sum of both; of times the later.
    pub fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads.saturating_add(other.reads),
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            writes: self.writes.saturating_add(other.writes),
            written_bytes: self.written_bytes.saturating_add(other.written_bytes),
            erased_segments: self.erased_segments.saturating_add(other.erased_segments),
            erased_bytes: self.erased_bytes.saturating_add(other.erased_bytes),
            evicted_segments: self.evicted_segments.saturating_add(other.evicted_segments),
            evicted_bytes: self.evicted_bytes.saturating_add(other.evicted_bytes),
            last_read_ns: self.last_read_ns.max(other.last_read_ns),
            last_write_ns: self.last_write_ns.max(other.last_write_ns),
        }
    }
}

/// The counters of the readers of a few threads.
#[derive(Debug)]
pub(super) struct ReadTally {
    reads: AtomicU64,
    bytes: AtomicU64,
    /// `i64::MIN` for never.
    last_ns: AtomicI64,
    /// The leaf of the index that was read last: where the next read looks first.
    pub(super) leaf: AtomicU32,
    /// How many segments of that leaf began at or before where it was read.
    pub(super) at: AtomicU32,
}

impl Default for ReadTally {
    fn default() -> Self {
        Self {
            reads: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            last_ns: AtomicI64::new(i64::MIN),
            leaf: AtomicU32::new(0),
            at: AtomicU32::new(0),
        }
    }
}

impl ReadTally {
    /// Counts a read of this many bytes; `own` where no other thread counts here, `timed` where
    /// every read notes the time.
    #[inline]
    pub(super) fn count(&self, bytes: u64, own: bool, timed: bool) {
        let before = self.reads.load(Relaxed);
        if own {
            self.reads.store(before.wrapping_add(1), Relaxed);
            self.bytes.store(self.bytes.load(Relaxed).wrapping_add(bytes), Relaxed);
        } else {
            self.reads.fetch_add(1, Relaxed);
            self.bytes.fetch_add(bytes, Relaxed);
        }
        if is_timed(before, bytes) || timed {
            self.last_ns.store(coarse_now_ns(), Relaxed);
        }
    }

    /// Begins again with nothing. No reader may count meanwhile.
    pub(super) fn reset(&self) {
        self.reads.store(0, Relaxed);
        self.bytes.store(0, Relaxed);
        self.last_ns.store(i64::MIN, Relaxed);
    }

    pub(super) fn counters(&self) -> Counters {
        let last_ns = self.last_ns.load(Relaxed);
        Counters {
            reads: self.reads.load(Relaxed),
            read_bytes: self.bytes.load(Relaxed),
            last_read_ns: (last_ns != i64::MIN).then_some(last_ns),
            ..Counters::default()
        }
    }
}

/// Whether an operation on `bytes` bytes, with `before` ones before it, notes the time.
#[inline]
pub(super) fn is_timed(before: u64, bytes: u64) -> bool {
    bytes >= 1024 || before.is_multiple_of(16)
}

/// The time as the kernel last noted it: read from memory, without asking the hardware.
#[cfg(target_os = "linux")]
#[inline]
pub(super) fn coarse_now_ns() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// The time.
#[cfg(not(target_os = "linux"))]
pub(super) fn coarse_now_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
