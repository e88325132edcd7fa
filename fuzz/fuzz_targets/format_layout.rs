//! Fuzzes layouts.
#![no_main]

stook_fuzz::fuzz_target!(|data: &[u8]| stook_testing::fuzz::format::format_layout(data));
