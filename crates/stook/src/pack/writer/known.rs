//! Which keys a writer may have put already: a filter, so that a new key is not looked for
//! everywhere.
//!
//! Without it every put would look into the index of every span written so far, and writing would
//! get slower as a pack grows. It is a chain of blocked Bloom filters, each four times as large as
//! the one before (Putze, Sanders and Singler 2007 for the blocks; Almeida and others 2007 for the
//! chain): a question touches one cache line in each of them. It never says no to a key it was
//! given.

use std::hash::{BuildHasher, RandomState};

/// Bits of a block: one cache line.
const BLOCK_BITS: usize = 512;
type Block = [u64; BLOCK_BITS / 64];

/// Bits spent on a key. With [`PROBES`] about one new key in a hundred is looked for in vain.
const BITS_PER_KEY: usize = 12;
const PROBES: u32 = 6;

/// Keys that the first filter is made for: 96 KiB.
const FIRST_KEYS: usize = 64 << 10;
const GROWTH: usize = 4;

/// A filter over the keys of a writer.
#[derive(Debug, Default)]
pub(super) struct KnownKeys {
    hasher: RandomState,
    filters: Vec<Filter>,
}

#[derive(Debug)]
struct Filter {
    blocks: Vec<Block>,
    keys: usize,
    keys_max: usize,
}

impl KnownKeys {
    pub(super) fn insert(&mut self, form: &[u8]) {
        let hash = self.hasher.hash_one(form);
        if self.filters.last().is_none_or(|filter| filter.keys == filter.keys_max) {
            let keys_max = self.filters.last().map_or(FIRST_KEYS, |filter| filter.keys_max * GROWTH);
            self.filters.push(Filter::new(keys_max));
        }
        if let Some(filter) = self.filters.last_mut() {
            filter.insert(hash);
        }
    }

    /// Whether this key may have been put; false is certain.
    pub(super) fn may_contain(&self, form: &[u8]) -> bool {
        let hash = self.hasher.hash_one(form);
        self.filters.iter().rev().any(|filter| filter.may_contain(hash))
    }
}

impl Filter {
    fn new(keys_max: usize) -> Self {
        let blocks = vec![Block::default(); (keys_max * BITS_PER_KEY).div_ceil(BLOCK_BITS)];
        Self { blocks, keys: 0, keys_max }
    }

    fn insert(&mut self, hash: u64) {
        let at = self.block(hash);
        if let Some(block) = self.blocks.get_mut(at) {
            for (word, bit) in probes(hash) {
                block[word] |= bit;
            }
        }
        self.keys += 1;
    }

    fn may_contain(&self, hash: u64) -> bool {
        let block = self.blocks.get(self.block(hash));
        block.is_some_and(|block| probes(hash).all(|(word, bit)| block[word] & bit != 0))
    }

    /// The upper bits choose the block, spread over all of them by a multiplication.
    fn block(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.blocks.len() as u128) >> 64) as usize
    }
}

/// Words and bits of a block for a hash: nine bits of it for each.
fn probes(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    // Mixed again, because the upper bits have chosen the block.
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..PROBES).map(move |probe| {
        let bit = (mixed >> (9 * probe)) as usize % BLOCK_BITS;
        (bit / 64, 1 << (bit % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_never_denied_and_few_others_are_claimed() {
        let mut known = KnownKeys::default();
        assert!(!known.may_contain(b"anything"));
        let keys = (FIRST_KEYS * 3) as u64;
        for key in 0..keys {
            known.insert(&key.to_be_bytes());
        }
        assert_eq!(known.filters.len(), 2, "a second filter was begun");
        assert!((0..keys).all(|key| known.may_contain(&key.to_be_bytes())));
        let claimed = (keys..2 * keys).filter(|key| known.may_contain(&key.to_be_bytes())).count();
        assert!(claimed * 20 < keys as usize, "{claimed} of {keys} are claimed");
    }
}
