//! Intervals for means of series whose neighbours resemble each other, by resampling blocks.
//!
//! One second of a device is much like the next, so seconds drawn one by one would look more
//! certain than they are. Blocks of consecutive windows keep the resemblance (H. Künsch, *The
//! Jackknife and the Bootstrap for General Stationary Observations*, 1989); they are drawn from a
//! circle so that every window counts equally (D. Politis and J. Romano, *A Circular
//! Block-Resampling Procedure*, 1992). Chance comes from a seed: the same series give the same
//! interval on every machine.

use super::least_squares::{Estimate, student_t};
use super::stats::{Interval, StatsError, mean, quantile};

/// How many times a mean is resampled.
const DRAWS: usize = 2000;
/// From how many runs on a whole run is a block: with fewer, too few blocks would be left.
const RUNS_AS_BLOCKS: usize = 5;

/// The splitmix64 generator (G. Steele, D. Lea, C. Flood, *Fast Splittable Pseudorandom Number
/// Generators*, 2014).
#[derive(Debug, Clone)]
struct Chance(u64);

impl Chance {
    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((u128::from(z) * end as u128) >> 64) as usize
    }
}

/// Windows in runs, as blocks to draw from.
#[derive(Debug, Clone)]
struct Blocks {
    /// Of every block: its windows and their sum.
    blocks: Vec<(f64, f64)>,
    /// How many make up a series as long as the one measured.
    per_series: usize,
}

impl Blocks {
    fn of(runs: &[&[f64]]) -> Self {
        let windows: usize = runs.iter().map(|run| run.len()).sum();
        let whole = runs.len() >= RUNS_AS_BLOCKS;
        // The cube root of the length: the order that makes the error of such an interval least
        // (P. Hall, J. Horowitz and B.-Y. Jing, *On Blocking Rules for the Bootstrap*, 1995).
        let len = (windows as f64).cbrt().ceil() as usize;
        let blocks: Vec<(f64, f64)> = runs
            .iter()
            .filter(|run| !run.is_empty())
            .flat_map(|run| {
                let (starts, len) = if whole { (1, run.len()) } else { (run.len(), len.min(run.len())) };
                (0..starts)
                    .map(move |start| (len as f64, run.iter().cycle().skip(start).take(len).sum::<f64>()))
            })
            .collect();
        let per_series = if whole { runs.len() } else { windows.div_ceil(len.max(1)) };
        Self { blocks, per_series: per_series.max(1) }
    }

    /// The mean of the blocks at `places`.
    fn mean_at(&self, places: &[usize]) -> f64 {
        let drawn = places.iter().filter_map(|&place| self.blocks.get(place));
        let (len, sum) = drawn.fold((0.0, 0.0), |(len, sum), block| (len + block.0, sum + block.1));
        sum / len
    }

    fn draw(&self, chance: &mut Chance) -> Vec<usize> {
        (0..self.per_series).map(|_| chance.below(self.blocks.len())).collect()
    }
}

/// The mean of all windows of `runs`, with an interval.
///
/// # Errors
/// Returns [`StatsError`] if there is no window or one is not finite.
pub fn mean_interval(runs: &[&[f64]], confidence: f64, seed: u64) -> Result<Estimate, StatsError> {
    let value = mean(&runs.concat())?;
    let (blocks, mut chance) = (Blocks::of(runs), Chance(seed));
    let draws: Vec<f64> = (0..DRAWS).map(|_| blocks.mean_at(&blocks.draw(&mut chance))).collect();
    Ok(Estimate { value, interval: spread_of(value, &draws, confidence, blocks.per_series)? })
}

/// The mean of `right` ÷ the mean of `left`, with an interval.
///
/// # Errors
/// Returns [`StatsError`] if there is no window, one is not finite or `left` has a mean of 0 or
/// less.
pub fn ratio_interval(
    left: &[&[f64]],
    right: &[&[f64]],
    confidence: f64,
    seed: u64,
) -> Result<Estimate, StatsError> {
    let (below, above) = (mean(&left.concat())?, mean(&right.concat())?);
    if below <= 0.0 {
        return Err(StatsError::NotPositive { index: 0, value: below });
    }
    let (left, right, mut chance) = (Blocks::of(left), Blocks::of(right), Chance(seed));
    let draws: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let places = left.draw(&mut chance);
            let others = right.draw(&mut chance);
            right.mean_at(&others) / left.mean_at(&places)
        })
        .collect();
    let value = above / below;
    let blocks = left.per_series.min(right.per_series);
    Ok(Estimate { value, interval: spread_of(value, &draws, confidence, blocks)? })
}

/// The percentile interval of `draws`, widened for the few blocks that they were drawn from.
///
/// Resampled means of m blocks spread by √((m−1)/m) too little, and an unknown spread calls for
/// Student's quantile instead of the normal one (T. Hesterberg, *What Teachers Should Know About
/// the Bootstrap*, 2015, §4.2).
fn spread_of(value: f64, draws: &[f64], confidence: f64, blocks: usize) -> Result<Interval, StatsError> {
    if blocks < 2 {
        // One block says nothing about how blocks differ.
        return Ok(Interval { low: f64::NEG_INFINITY, high: f64::INFINITY, confidence });
    }
    let tail = (1.0 - confidence) / 2.0;
    let (low, high) = (quantile(draws, tail)?, quantile(draws, 1.0 - tail)?);
    let m = blocks as f64;
    let widen = (m / (m - 1.0)).sqrt() * student_t(confidence, blocks - 1) / student_t(confidence, 10_001);
    Ok(Interval {
        low: value - (value - low).max(0.0) * widen,
        high: value + (high - value).max(0.0) * widen,
        confidence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A series in which each window keeps `kept` of its neighbour's deviation.
    fn series(len: usize, mean: f64, kept: f64, chance: &mut Chance) -> Vec<f64> {
        let mut deviation = 0.0;
        let uniform = |chance: &mut Chance| chance.below(1 << 20) as f64 / f64::from(1 << 19) - 1.0;
        (0..len)
            .map(|_| {
                deviation = kept * deviation + uniform(chance);
                mean + deviation
            })
            .collect()
    }

    #[test]
    fn intervals_hold_the_true_mean_about_as_often_as_they_say() {
        // Resemblance that outlasts a block is partly missed: a half kept from each to the next
        // costs 5%.
        for (kept, least) in [(0.0, 930), (0.5, 880)] {
            let mut chance = Chance(7);
            let held = (0..1000).filter(|&seed| {
                let run = series(60, 100.0, kept, &mut chance);
                mean_interval(&[&run], 0.95, seed).unwrap().interval.contains(100.0)
            });
            let held = held.count();
            assert!((least..=980).contains(&held), "{held} of 1000 at resemblance {kept}");
        }
    }

    #[test]
    fn runs_that_differ_widen_the_interval() {
        let runs: Vec<Vec<f64>> = [100.0, 110.0, 90.0, 105.0, 95.0].map(|rate| vec![rate; 20]).to_vec();
        let runs: Vec<&[f64]> = runs.iter().map(Vec::as_slice).collect();
        let interval = mean_interval(&runs, 0.95, 1).unwrap().interval;
        // Student's interval of the five means: 2.776 · 7.906 ÷ √5 = 9.8.
        assert!((7.0..13.0).contains(&(interval.high - 100.0)), "{interval:?}");
        assert!((7.0..13.0).contains(&(100.0 - interval.low)), "{interval:?}");
    }

    #[test]
    fn what_has_no_interval_is_refused_or_unbounded() {
        assert_eq!(mean_interval(&[], 0.95, 0), Err(StatsError::Empty));
        assert_eq!(mean_interval(&[&[]], 0.95, 0), Err(StatsError::Empty));
        assert!(matches!(mean_interval(&[&[1.0, f64::NAN]], 0.95, 0), Err(StatsError::NotFinite { .. })));
        assert_eq!(mean_interval(&[&[5.0]], 0.95, 0).unwrap().interval.high, f64::INFINITY);
        let idle = ratio_interval(&[&[0.0, 0.0]], &[&[1.0, 1.0]], 0.95, 0);
        assert!(matches!(idle, Err(StatsError::NotPositive { .. })));
    }

    proptest! {
        #[test]
        fn intervals_scale_with_their_unit_and_repeat(
            run in prop::collection::vec(1.0_f64..1000.0, 8..40), power in -20_i32..20, seed in any::<u64>(),
        ) {
            let scaled: Vec<f64> = run.iter().map(|rate| rate * 2_f64.powi(power)).collect();
            let one = mean_interval(&[&run], 0.95, seed).unwrap();
            let other = mean_interval(&[&scaled], 0.95, seed).unwrap();
            prop_assert_eq!(one.interval.low * 2_f64.powi(power), other.interval.low);
            prop_assert!(one.interval.contains(one.value));
            prop_assert_eq!(one, mean_interval(&[&run], 0.95, seed).unwrap());
        }
    }
}
