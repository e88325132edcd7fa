//! Statistics of the requests for an object.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::report::histogram::LatencyHistogram;

/// Statistics of the requests for an object in this process so far.
#[derive(Debug, Clone)]
pub struct RemoteStatistics {
    /// Requests that were sent, those among them that were tried again and those for the identity.
    pub requests: u64,
    /// How many of them were tries after the first.
    pub retries: u64,
    /// Bytes of bodies that arrived, those among them that were not used.
    pub bytes: u64,
    /// How long requests that brought all they were to bring took, from before they were sent to
    /// their last byte.
    pub latency: LatencyHistogram,
}

/// Counts while requests run.
#[derive(Debug)]
pub(super) struct Counters {
    requests: AtomicU64,
    retries: AtomicU64,
    bytes: AtomicU64,
    latency: Mutex<LatencyHistogram>,
}

impl Counters {
    pub(super) fn new() -> Self {
        Self {
            requests: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            latency: Mutex::new(LatencyHistogram::new()),
        }
    }

    pub(super) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self, len: usize) {
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
    }

    pub(super) fn latency(&self, time: Duration) {
        let mut histogram = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn snapshot(&self) -> RemoteStatistics {
        RemoteStatistics {
            requests: self.requests.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            latency: self.latency.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
