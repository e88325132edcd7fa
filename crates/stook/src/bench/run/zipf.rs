//! [`Zipf`]: few blocks are asked for often, and most of them seldom.
//!
//! The block of rank `r` is as likely as `1 ÷ r^θ`. Ranks are drawn by rejection-inversion (W.
//! Hörmann, G. Derflinger: "Rejection-inversion to generate variates from monotone discrete
//! distributions", 1996): no table, and hardly more than one try a rank. Where the block of a rank
//! lies is another matter: a permutation scatters ranks over the file, the same for all jobs of a
//! run.

use super::super::random::Random;

/// The blocks of a file, the more likely the less their rank.
#[derive(Debug, Clone)]
pub(super) struct Zipf {
    count: u64,
    theta: f64,
    /// Integrals of the density: from a half below the first rank, less the first itself, and to a
    /// half beyond the last.
    first: f64,
    last: f64,
    /// Ranks no further than this below the point that was drawn need no other check.
    near: f64,
    scatter: Scatter,
}

impl Zipf {
    /// Of so many blocks, at least one; the seed says which of them are likely.
    pub(super) fn new(count: u64, theta: f64, seed: u64) -> Self {
        let mut zipf =
            Self { count, theta, first: 0.0, last: 0.0, near: 0.0, scatter: Scatter::new(count, seed) };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(count as f64 + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// The next block, from 0.
    #[inline]
    pub(super) fn next(&self, random: &mut Random) -> u64 {
        self.scatter.at(self.rank(random) - 1)
    }

    /// The next rank, from 1.
    fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let drawn = self.last + random.unit() * (self.first - self.last);
            let point = self.inverse(drawn);
            let rank = (point.round() as u64).clamp(1, self.count.max(1));
            let at = rank as f64;
            if at - point <= self.near || drawn >= self.integral(at + 0.5) - self.density(at) {
                return rank;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// The integral of the density from 1 to `x`: `(x^(1−θ) − 1) ÷ (1 − θ)`, and exact near θ = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.theta) * log;
        let factor = if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 };
        factor * log
    }

    fn inverse(&self, y: f64) -> f64 {
        // No further than where the density would end.
        let t = (y * (1.0 - self.theta)).max(-1.0);
        let factor = if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 };
        (factor * y).exp()
    }
}

/// A permutation of the numbers below a count.
#[derive(Debug, Clone)]
struct Scatter {
    count: u64,
    /// All bits that a number may have.
    mask: u64,
    shift: u32,
    factors: [u64; 2],
    addend: u64,
}

impl Scatter {
    fn new(count: u64, seed: u64) -> Self {
        let bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).max(1);
        let mut random = Random::new(seed, u64::MAX);
        Self {
            count,
            mask: u64::MAX >> (u64::BITS - bits),
            shift: bits.div_ceil(2),
            factors: [random.next() | 1, random.next() | 1],
            addend: random.next(),
        }
    }

    /// Where a number goes. Each step permutes all numbers of so many bits; those that leave the
    /// count are sent on until they are back, fewer than two times on average.
    fn at(&self, mut number: u64) -> u64 {
        if self.count <= 1 {
            return 0;
        }
        loop {
            for factor in self.factors {
                number = number.wrapping_add(self.addend).wrapping_mul(factor) & self.mask;
                number ^= number >> self.shift;
            }
            if number < self.count {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What the definition says of each rank, beside how often it was drawn.
    #[test]
    fn ranks_are_as_likely_as_is_defined() {
        for (count, theta) in [(1, 1.2), (2, 0.5), (10, 1.0), (1000, 0.8), (1000, 1.2), (100, 3.0)] {
            let zipf = Zipf::new(count, theta, 1);
            let whole: f64 = (1..=count).map(|rank| (rank as f64).powf(-theta)).sum();
            let mut random = Random::new(9, 0);
            let draws = 200_000;
            let mut counts = vec![0_u32; count as usize + 1];
            for _ in 0..draws {
                counts[zipf.rank(&mut random) as usize] += 1;
            }
            assert_eq!(counts[0], 0);
            for rank in 1..=count.min(20) {
                let wanted = f64::from(draws) * (rank as f64).powf(-theta) / whole;
                let found = f64::from(counts[rank as usize]);
                // Six standard deviations.
                assert!(
                    (found - wanted).abs() < 6.0 * wanted.sqrt() + 1.0,
                    "{count} {theta} {rank}: {found}, {wanted}"
                );
            }
        }
    }

    #[test]
    fn ranks_of_large_files_stay_within() {
        for theta in [0.1, 0.99, 1.0, 1.01, 5.0] {
            let zipf = Zipf::new(1 << 40, theta, 3);
            let mut random = Random::new(1, 1);
            assert!((0..10_000).all(|_| (1..=1 << 40).contains(&zipf.rank(&mut random))));
        }
    }

    #[test]
    fn every_number_goes_to_a_place_of_its_own() {
        for count in [1, 2, 3, 7, 64, 1000, 4097] {
            let scatter = Scatter::new(count, 5);
            let places: BTreeSet<u64> = (0..count).map(|number| scatter.at(number)).collect();
            assert_eq!(places, (0..count).collect());
        }
    }

    #[test]
    fn the_likely_blocks_are_those_of_the_seed() {
        let most = |seed| Zipf::new(1 << 20, 1.2, seed).scatter.at(0);
        assert_eq!(most(1), most(1));
        let others: BTreeSet<u64> = (0..50).map(most).collect();
        assert!(others.len() > 45, "{others:?}");
    }
}
