//! The doubles of this crate replace the real implementations, so they pass the same suites; and
//! faults found by fuzzing stay fixed.

mod disk_cache;
mod fuzz_seeds;
mod soak;
mod storage;
