//! Fuzzes keys as they are typed and as indexes hold them.
#![no_main]

stook_fuzz::fuzz_target!(|data: &[u8]| stook_testing::fuzz::pack::pack_key(data));
