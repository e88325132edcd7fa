//! Integration tests of the library, one module per part.
#![expect(clippy::unwrap_used, reason = "a helper that cannot set up a test should fail on the spot")]

mod afs;
mod archive;
mod bench;
mod bench_runs;
#[cfg(unix)]
mod copy;
mod engine;
#[cfg(unix)]
mod exports;
mod extent;
mod lists;
#[cfg(unix)]
mod ops;
#[cfg(unix)]
mod ops_change;
mod ops_out;
#[cfg(unix)]
mod outbox;
mod pack;
mod plan;
mod source;
#[cfg(unix)]
mod stitch;
mod storage;
mod storage_faults;
mod storage_model;
#[cfg(unix)]
mod tree;
#[cfg(unix)]
mod union;
#[cfg(target_os = "linux")]
mod unpacks;
#[cfg(unix)]
mod verify;
#[cfg(unix)]
mod walk;
#[cfg(target_os = "linux")]
mod xattrs;
