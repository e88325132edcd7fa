//! Fuzzes archives that are patched.
#![no_main]

stook_fuzz::fuzz_target!(|data: &[u8]| stook_testing::fuzz::format::stitch_patch(data));
