//! The keyed permutation of a shuffle. It is a promise: states are resumed by other releases and on
//! other machines, so what is here never changes.
//!
//! Numbers are those of SplitMix64: the state `s` grows by `0x9e3779b97f4a7c15` each time, and what
//! comes out is [`mixed`] of it. A number below `n` is the high half of the product of one of them
//! and `n`. A permutation of `n` things is that of Fisher and Yates from the end: for `i` from
//! `n - 1` down to 1 the things at `i` and at a number below `i + 1` change places. The first state
//! is [`key_of`] what is permuted.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the numbers of a permutation begin with: of the parts `a, b, c`, [`mixed`] of `c` xor
/// [`mixed`] of `b` xor [`mixed`] of `a`, with the constant added to each before it is mixed.
pub(super) fn key_of(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |key, part| mixed((key ^ part).wrapping_add(GOLDEN)))
}

/// The finalizer of SplitMix64.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Brings things into the order of a key.
pub(super) fn permute<T>(things: &mut [T], key: u64) {
    let mut state = key;
    for last in (1..things.len()).rev() {
        state = state.wrapping_add(GOLDEN);
        let other = (u128::from(mixed(state)) * (last as u128 + 1)) >> 64;
        things.swap(last, other as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permuted(len: u32, key: u64) -> Vec<u32> {
        let mut all: Vec<u32> = (0..len).collect();
        permute(&mut all, key);
        all
    }

    /// Another order here would read records of a resumed epoch twice, and others never.
    #[test]
    fn the_order_of_a_key_is_the_same_for_ever() {
        // The published first numbers of SplitMix64 with the seed 1234567.
        let mut state = 1_234_567_u64;
        let first: [u64; 3] = std::array::from_fn(|_| {
            state = state.wrapping_add(GOLDEN);
            mixed(state)
        });
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!(key_of(&[]), 0);
        assert_eq!(key_of(&[0]), 16_294_208_416_658_607_535);
        assert_eq!(permuted(12, key_of(&[1, 2, 3])), [10, 7, 2, 1, 11, 5, 6, 8, 4, 3, 9, 0]);
    }

    #[test]
    fn all_orders_are_about_as_frequent() {
        let mut counts = std::collections::HashMap::new();
        (0..24_000).for_each(|seed| *counts.entry(permuted(4, key_of(&[seed, 7]))).or_insert(0_u32) += 1);
        assert_eq!(counts.len(), 24);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn none_is_lost() {
        for len in [0, 1, 2, 3, 1000] {
            let mut all = permuted(len, 5);
            all.sort_unstable();
            assert_eq!(all, (0..len).collect::<Vec<_>>());
        }
    }
}
