//! Tests that need root: they make block devices, mount file systems and switch to another user.
//! `make test-system` runs them, and a plain `cargo test` does not (`test = false` in the
//! manifest), so that no test has to skip itself.
#![expect(clippy::unwrap_used, reason = "a helper that cannot set up a test should fail on the spot")]

mod advise;
mod below;
mod bench;
mod bulk_copy;
mod cache;
mod copies;
mod copy;
mod copy_files;
mod copy_folding;
mod copy_mirror;
mod copy_unreadable;
mod devices;
mod faults;
mod full;
mod gates;
mod measured;
mod mount;
mod owners;
mod page;
mod program;
mod raw_devices;
mod study;
#[path = "../it/trees.rs"]
mod trees;
mod unreadable;
mod verify;
