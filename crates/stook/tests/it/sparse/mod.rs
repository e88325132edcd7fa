//! Sparse files in memory.

mod eviction;
mod faults;
mod model;
mod serial;
mod store;
mod threads;
mod work;

use stook::extent::ByteRange;

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end).unwrap()
}
