//! Which keys of a stream came before, in little memory.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

/// Keys, 16 bytes for each: two hashes that cannot be foreseen, which for different
/// keys are never the same.
#[derive(Default)]
pub(super) struct SeenKeys {
    hashes: HashSet<[u64; 2]>,
    hashers: [RandomState; 2],
}

impl SeenKeys {
    fn of(&self, key: &[u8]) -> [u64; 2] {
        self.hashers.each_ref().map(|hasher| hasher.hash_one(key))
    }

    pub(super) fn add(&mut self, key: &[u8]) {
        let hashes = self.of(key);
        self.hashes.insert(hashes);
    }

    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.hashes.contains(&self.of(key))
    }

    pub(super) fn clear(&mut self) {
        self.hashes.clear();
    }
}
