//! Random numbers for offsets, contents and arrivals: fast, seeded, and the same on every machine.
//!
//! Nothing here is fit for cryptography.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): one
/// addition and two multiplications a number, every seed as good as any other.
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// The numbers of this seed, on one of its many independent streams.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut seeded = Self { state: seed };
        let offset = seeded.next();
        Self { state: offset ^ mix(stream.wrapping_add(1).wrapping_mul(0xd134_2543_de82_ef95)) }
    }

    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`, by multiplication (Lemire 2019): no division, and a bias of at most
    /// `bound` ÷ 2^64, which no run is long enough to show. 0 when `bound` is 0.
    #[inline]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number above 0 and at most 1.
    pub(super) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Fills memory with numbers.
    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        let mut words = bytes.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next().to_le_bytes());
        }
        let rest = words.into_remainder();
        let last = self.next().to_le_bytes();
        for (to, from) in rest.iter_mut().zip(last) {
            *to = from;
        }
    }
}

/// A seed that no measurement had before, as far as chance goes: without `--seed` no command asks
/// for the blocks that an earlier one left in a cache. It is below 2^32, which is easily copied,
/// and exact in every reader of JSON.
pub fn fresh_seed() -> u64 {
    // Without a source of randomness the time is as good.
    let bits = getrandom::u64().unwrap_or_else(|_| {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        mix(since.as_nanos() as u64)
    });
    bits >> 32
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        let mut random = Random { state: 1_234_567 };
        let first = [random.next(), random.next(), random.next()];
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        let mut random = Random::new(7, 0);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        // Ten standard deviations of a count of 10,000.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 950), "{counts:?}");
        assert_eq!((random.below(0), random.below(1)), (0, 0));
    }

    #[test]
    fn streams_of_a_seed_differ_and_repeat() {
        let of = |seed, stream| Random::new(seed, stream).next();
        assert_eq!(of(1, 2), of(1, 2));
        assert!(of(1, 2) != of(1, 3) && of(1, 2) != of(2, 2));
        let unit = Random::new(3, 0).unit();
        assert!(unit > 0.0 && unit <= 1.0);
    }

    #[test]
    fn fresh_seeds_differ_and_are_short() {
        let seeds: std::collections::BTreeSet<u64> = (0..100).map(|_| fresh_seed()).collect();
        assert!(seeds.len() > 98 && seeds.iter().all(|&seed| seed < 1 << 32), "{seeds:?}");
    }

    #[test]
    fn memory_of_any_length_is_filled() {
        for len in [0, 1, 7, 8, 9, 4096] {
            let mut bytes = vec![0; len + 8];
            Random::new(1, 1).fill(&mut bytes[..len]);
            assert!(bytes[len..].iter().all(|&byte| byte == 0));
            assert!(len < 8 || bytes[..len].iter().any(|&byte| byte != 0), "{len}");
        }
    }
}
