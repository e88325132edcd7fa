//! Fuzzes archives that are read in place.
#![no_main]

stook_fuzz::fuzz_target!(|data: &[u8]| stook_testing::fuzz::archive::archive_zip(data));
