//! What every fuzz target shares: the bound on memory.
//!
//! A decoder that trusts a length asks the allocator for it. libFuzzer's own limits do not see that
//! on a stable toolchain: `-malloc_limit_mb` needs a sanitizer, and `-rss_limit_mb` counts only
//! pages that were touched. So the allocator itself refuses to exceed a limit, the process aborts,
//! and libFuzzer keeps the input that made it so.
//!
//! Nothing here knows what is fuzzed: that is `stook_testing::fuzz`, which `cargo test` replays the
//! seeds through as well.

use std::alloc::System;

use cap::Cap;

pub use libfuzzer_sys::fuzz_target;

/// What all live Rust allocations of a target may take together, in bytes. libFuzzer's own memory
/// (the corpus) is C++ and not counted.
pub const MEMORY_LIMIT_BYTES: usize = 128 << 20;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, MEMORY_LIMIT_BYTES);
