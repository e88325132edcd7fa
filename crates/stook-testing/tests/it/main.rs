//! The doubles of this crate stand in for the real things, so they pass the same suites; and what
//! fuzzing found stays mended.

mod disk_cache;
mod fuzz_seeds;
mod soak;
mod storage;
