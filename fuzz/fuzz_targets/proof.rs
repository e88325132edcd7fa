//! Fuzzes proofs of parts of files.
#![no_main]

stook_fuzz::fuzz_target!(|data: &[u8]| stook_testing::fuzz::proof::proof(data));
