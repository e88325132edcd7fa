//! The simulator's source of chance: small, seeded, the same on every machine.

/// The splitmix64 generator.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator for one crash state, identified by its three numbers.
    pub(crate) fn new(seed: u64, point: u64, variant: u64) -> Self {
        let mut rng = Self(seed);
        rng.0 = rng.next() ^ point;
        rng.0 = rng.next() ^ variant;
        rng
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to and including `max`.
    pub(crate) fn up_to(&mut self, max: u64) -> u64 {
        if max == u64::MAX { self.next() } else { self.next() % (max + 1) }
    }

    /// True in half of the cases.
    pub(crate) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}
