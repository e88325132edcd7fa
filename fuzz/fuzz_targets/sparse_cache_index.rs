//! Fuzzes the index of an entry of a cache on disk.
#![no_main]

stook_fuzz::fuzz_target!(|data: &[u8]| stook_testing::fuzz::sparse::sparse_cache_index(data));
