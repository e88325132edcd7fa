//! Sources that are read through a cache.

mod ahead;
mod faults;
mod flights;
mod model;
mod stores;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use stook::Result;
use stook::extent::ByteRange;
use stook::source::{Identity, Leaf, MemorySource, Source};
use stook_testing::conformance::pattern;

/// Counts what is asked of a source in memory.
#[derive(Debug)]
pub(crate) struct CountedSource {
    inner: MemorySource,
    /// Each requested range.
    asked: Mutex<Vec<ByteRange>>,
    /// The version of the bytes that it reports.
    version: AtomicU64,
}

impl CountedSource {
    pub(crate) fn new(bytes: impl Into<Bytes>) -> Arc<Self> {
        let inner = MemorySource::new("counted", bytes);
        Arc::new(Self { inner, asked: Mutex::default(), version: AtomicU64::new(0) })
    }

    pub(crate) fn of_len(len: usize) -> (Arc<Self>, Bytes) {
        let bytes = Bytes::from(pattern(len, 7));
        (Self::new(bytes.clone()), bytes)
    }

    pub(crate) fn asked(&self) -> Vec<ByteRange> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn change(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }
}

impl Source for CountedSource {
    stook_testing::forward_source!(inner: path len identity);

    fn current_identity(&self) -> Result<Identity> {
        let mtime_ns = self.version.load(Ordering::SeqCst) as i64;
        Ok(Identity { mtime_ns, ..self.inner.identity() })
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        self.asked.lock().unwrap().push(range);
        self.inner.resolve(range, leaves)
    }
}

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end).unwrap()
}

fn part(bytes: &Bytes, range: ByteRange) -> &[u8] {
    &bytes[range.start() as usize..range.end() as usize]
}
