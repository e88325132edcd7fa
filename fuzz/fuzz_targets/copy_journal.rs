//! Fuzzes the journal beside a large file that was cut off.
#![no_main]

stook_fuzz::fuzz_target!(|data: &[u8]| stook_testing::fuzz::copy::copy_journal(data));
