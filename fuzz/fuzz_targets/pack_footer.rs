//! Fuzzes footers.
#![no_main]

stook_fuzz::fuzz_target!(|data: &[u8]| stook_testing::fuzz::pack::pack_footer(data));
