//! Sparse files: in memory, and read through a cache.
#![expect(clippy::unwrap_used, reason = "a helper that cannot set up a test should fail on the spot")]

mod disk;
mod eviction;
mod extents;
mod faults;
mod file;
mod model;
mod serial;
mod store;
mod threads;
mod work;

use stook::extent::ByteRange;

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end).unwrap()
}
