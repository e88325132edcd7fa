//! Fuzzes a whole pack with changed files: opened, read in every way, written to.
#![no_main]

stook_fuzz::fuzz_target!(|data: &[u8]| stook_testing::fuzz::pack::pack_whole(data));
