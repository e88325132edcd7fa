//! Fuzzes sparse files in memory.
#![no_main]

stook_fuzz::fuzz_target!(|data: &[u8]| stook_testing::fuzz::sparse::sparse_model(data));
