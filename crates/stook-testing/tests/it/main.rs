//! The doubles of this crate stand in for the real things, so they pass the same suites.

mod storage;
