//! What was requested of a file, and what that cost.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::source::WholeRead;
use crate::sparse::DiskStatistics;

/// What was requested of a [`SparseFile`](super::SparseFile), and what it fetched.
#[derive(Debug, Clone)]
pub struct SparseStatistics {
    /// Reads.
    pub reads: u64,
    /// Reads for which everything was there.
    pub hits: u64,
    /// Reads that had to wait: for the disk, or for a request, their own or another's.
    pub misses: u64,
    /// Bytes of all reads, bytes that were read twice counted twice.
    pub asked_bytes: u64,
    /// Requests to the source, as the planner made them. Retries of the source are counted there.
    /// For a source that was [read as a whole](crate::source::Source::whole_read) when it was
    /// opened, these are the requests for that, and reads make no more.
    pub requests: u64,
    /// Bytes of all requests.
    pub fetched_bytes: u64,
    /// Bytes that were read from disk and verified, instead of being fetched again.
    pub from_disk_bytes: u64,
    /// Problems of the [cache on disk](super::SparseFileOptions::disk), for this file and all
    /// others in it: refused operations, damaged ranges. They never make a read fail.
    pub disk_failures: u64,
    /// The first refused operation.
    pub disk_failure: Option<Arc<str>>,
    /// Why the cache on disk keeps less than is fetched, if it does: nothing proves that the source
    /// will be the same the next time, or the budget is too small.
    pub disk_remark: Option<Arc<str>>,
    /// Bytes that were evicted from memory.
    pub evicted_bytes: u64,
    /// From asking to the answer, nanoseconds.
    pub latency_ns: Histogram<u64>,
}

impl SparseStatistics {
    /// Bytes fetched for each requested byte; `None` while nothing was requested.
    pub fn amplification(&self) -> Option<f64> {
        (self.asked_bytes > 0).then(|| self.fetched_bytes as f64 / self.asked_bytes as f64)
    }
}

/// [`SparseStatistics`] while they are counted.
#[derive(Debug)]
pub(super) struct FileCounters {
    hits: AtomicU64,
    misses: AtomicU64,
    asked_bytes: AtomicU64,
    requests: AtomicU64,
    fetched_bytes: AtomicU64,
    /// Whether the source was read as a whole when it was opened: reads then need no requests.
    is_whole: bool,
    from_disk_bytes: AtomicU64,
    unproven_bytes: AtomicU64,
    latency_ns: Mutex<Histogram<u64>>,
}

/// Two significant digits up to an hour, in some 20 KB.
fn histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_max(3_600_000_000_000, 2)
        .unwrap_or_else(|error| unreachable!("limits that are written down are valid: {error}"));
    histogram.auto(true);
    histogram
}

impl FileCounters {
    pub(super) fn new(whole: Option<WholeRead>) -> Self {
        let counted = Self {
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            asked_bytes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            fetched_bytes: AtomicU64::new(0),
            is_whole: whole.is_some(),
            from_disk_bytes: AtomicU64::new(0),
            unproven_bytes: AtomicU64::new(0),
            latency_ns: Mutex::new(histogram()),
        };
        if let Some(WholeRead { requests, bytes, time }) = whole {
            counted.fetched(requests, bytes, time);
        }
        counted
    }

    pub(super) fn read(&self, is_hit: bool, bytes: u64) {
        if is_hit { &self.hits } else { &self.misses }.fetch_add(1, Relaxed);
        self.asked_bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts a request to the source.
    pub(super) fn request(&self, bytes: u64, took: Duration) {
        if !self.is_whole {
            self.fetched(1, bytes, took);
        }
    }

    fn fetched(&self, requests: u64, bytes: u64, took: Duration) {
        self.requests.fetch_add(requests, Relaxed);
        self.fetched_bytes.fetch_add(bytes, Relaxed);
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.latency_ns.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(took_ns);
    }

    pub(super) fn read_from_disk(&self, bytes: u64) {
        self.from_disk_bytes.fetch_add(bytes, Relaxed);
    }

    /// Bytes that a cache on disk was not given, because nothing proves whose they are.
    pub(super) fn unproven(&self, bytes: u64) {
        self.unproven_bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn unproven_bytes(&self) -> u64 {
        self.unproven_bytes.load(Relaxed)
    }

    /// The note on the cache directory is not part of this.
    pub(super) fn snapshot(&self, evicted_bytes: u64, disk: DiskStatistics) -> SparseStatistics {
        let (hits, misses) = (self.hits.load(Relaxed), self.misses.load(Relaxed));
        SparseStatistics {
            reads: hits + misses,
            hits,
            misses,
            asked_bytes: self.asked_bytes.load(Relaxed),
            requests: self.requests.load(Relaxed),
            fetched_bytes: self.fetched_bytes.load(Relaxed),
            from_disk_bytes: self.from_disk_bytes.load(Relaxed),
            disk_failures: disk.failures + disk.damaged_ranges,
            disk_failure: disk.first_failure,
            disk_remark: None,
            evicted_bytes,
            latency_ns: self.latency_ns.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
