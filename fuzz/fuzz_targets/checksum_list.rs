//! Fuzzes lists of checksums for programs.
#![no_main]

stook_fuzz::fuzz_target!(|data: &[u8]| stook_testing::fuzz::lists::checksum_list(data));
