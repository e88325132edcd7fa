//! Fuzzes chains of ASC MHL.
#![no_main]

stook_fuzz::fuzz_target!(|data: &[u8]| stook_testing::fuzz::lists::mhl_chain(data));
