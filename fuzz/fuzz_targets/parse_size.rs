//! Fuzzes the reader of sizes such as `128K`.
#![no_main]

stook_fuzz::fuzz_target!(|data: &[u8]| stook_testing::fuzz::parse_size(data));
