//! Statistics of few measurements: medians, quantiles, spreads, and ratios of interleaved pairs
//! with an interval.
//!
//! Nothing here assumes a distribution, and nothing here is random: intervals for a median come
//! from order statistics (for samples X(1) ≤ … ≤ X(n), the chance that the true median lies between
//! X(k) and X(n+1−k) is 1 − 2·P(B ≤ k−1) with B binomial(n, ½); W. J. Conover, *Practical
//! Nonparametric Statistics*, §3.2). With five samples the widest such interval, minimum to
//! maximum, holds in 93.75% of cases, and that is reported instead of the requested 95%.

use serde::Serialize;

/// Why a statistic cannot be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StatsError {
    /// There are no samples.
    #[error("there are no samples to summarise")]
    Empty,
    /// A sample is infinite or not a number.
    #[error("sample {index} is {value}, which is not a finite number")]
    NotFinite {
        /// Its index.
        index: usize,
        /// The sample.
        value: f64,
    },
    /// Two series that are to be paired are not equally long.
    #[error("{left} samples cannot be paired with {right}")]
    Unpaired {
        /// Samples of the first series.
        left: usize,
        /// Samples of the second.
        right: usize,
    },
    /// A ratio would divide by zero or by a negative measurement.
    #[error("sample {index} is {value}; a ratio needs measurements greater than 0")]
    NotPositive {
        /// Its index.
        index: usize,
        /// The sample.
        value: f64,
    },
    /// A quantile or confidence outside of 0 to 1.
    #[error("{value} is not a share between 0 and 1")]
    NotAShare {
        /// The given value.
        value: f64,
    },
}

/// A summary of a few samples, in the unit of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// How many samples.
    pub count: usize,
    /// The least.
    pub min: f64,
    /// The quantile at 0.5.
    pub median: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The greatest.
    pub max: f64,
    /// `(max − min) ÷ |median|`, without unit; 0 when all are equal, absent when the median is 0.
    pub spread: Option<f64>,
}

impl Summary {
    /// Summarises `samples`.
    ///
    /// # Errors
    /// Returns [`StatsError::Empty`] or [`StatsError::NotFinite`].
    pub fn of(samples: &[f64]) -> Result<Self, StatsError> {
        let sorted = sorted(samples)?;
        let (min, max) = (at(&sorted, 0), at(&sorted, sorted.len() - 1));
        let median = quantile_of_sorted(&sorted, 0.5);
        let spread = match (max - min, median.abs()) {
            (0.0, _) => Some(0.0),
            (_, 0.0) => None,
            (width, median) => Some(width / median),
        };
        Ok(Self { count: samples.len(), min, median, mean: mean_of_sorted(&sorted), max, spread })
    }
}

/// The median: the middle sample, or the mean of the middle two.
///
/// # Errors
/// Returns [`StatsError::Empty`] or [`StatsError::NotFinite`].
pub fn median(samples: &[f64]) -> Result<f64, StatsError> {
    quantile(samples, 0.5)
}

/// The arithmetic mean.
///
/// # Errors
/// Returns [`StatsError::Empty`] or [`StatsError::NotFinite`].
pub fn mean(samples: &[f64]) -> Result<f64, StatsError> {
    sorted(samples).map(|sorted| mean_of_sorted(&sorted))
}

/// The quantile at `share` (0 is the minimum, 1 the maximum), interpolated linearly between the
/// samples on both sides (type 7 of Hyndman and Fan, *Sample Quantiles in Statistical Packages*,
/// 1996).
///
/// # Errors
/// Returns [`StatsError::Empty`], [`StatsError::NotFinite`] or [`StatsError::NotAShare`].
pub fn quantile(samples: &[f64], share: f64) -> Result<f64, StatsError> {
    check_share(share)?;
    sorted(samples).map(|sorted| quantile_of_sorted(&sorted, share))
}

/// An interval that holds an unknown true value with a known confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The share of experiments in which such an interval contains the true value. At least the
    /// requested confidence, or less if there are too few samples.
    pub confidence: f64,
}

impl Interval {
    /// Whether `value` lies in it, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The narrowest order-statistic interval for the median that holds with at least `confidence`; the
/// widest there is (minimum to maximum) where the samples are too few for that.
///
/// # Errors
/// Returns [`StatsError::Empty`], [`StatsError::NotFinite`] or [`StatsError::NotAShare`].
pub fn median_interval(samples: &[f64], confidence: f64) -> Result<Interval, StatsError> {
    check_share(confidence)?;
    let sorted = sorted(samples)?;
    let last = sorted.len() - 1;
    let mut best = Interval { low: at(&sorted, 0), high: at(&sorted, last), confidence: 0.0 };
    // `outside` is P(B ≤ skip) for B binomial(n, ½): the chance to miss on one side. Its terms are
    // followed as logarithms because 2^-n underflows for n beyond a thousand.
    let (n, mut outside) = (sorted.len() as f64, 0.0);
    let mut ln_term = -n * std::f64::consts::LN_2;
    for skip in 0..=last / 2 {
        outside += ln_term.exp();
        let reached = 1.0 - 2.0 * outside;
        if skip > 0 && reached < confidence {
            break;
        }
        // One sample alone says nothing about where the median is: its confidence is 0, not less.
        best =
            Interval { low: at(&sorted, skip), high: at(&sorted, last - skip), confidence: reached.max(0.0) };
        ln_term += ((n - skip as f64) / (skip as f64 + 1.0)).ln();
    }
    Ok(best)
}

/// How one series of measurements compares with another that was taken in turn with it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairedRatio {
    /// The median of the pairs' ratios.
    pub ratio: f64,
    /// Where the true median ratio lies.
    pub interval: Interval,
    /// The ratio of every pair, in the order in which they were measured.
    pub ratios: Vec<f64>,
}

impl PairedRatio {
    /// Divides every sample of `left` by the sample of `right` that was measured next to it (A B A
    /// B …).
    ///
    /// Pairing takes out what drifts over minutes (temperature, other tenants), which dividing two
    /// medians leaves in.
    ///
    /// # Errors
    /// Returns [`StatsError::Unpaired`], [`StatsError::NotPositive`], and the errors of
    /// [`median_interval`].
    pub fn of(left: &[f64], right: &[f64], confidence: f64) -> Result<Self, StatsError> {
        if left.len() != right.len() {
            return Err(StatsError::Unpaired { left: left.len(), right: right.len() });
        }
        check_positive(left)?;
        check_positive(right)?;
        let ratios: Vec<f64> = left.iter().zip(right).map(|(left, right)| left / right).collect();
        Ok(Self { ratio: median(&ratios)?, interval: median_interval(&ratios, confidence)?, ratios })
    }

    /// Whether the interval lies wholly above or below 1: the two series differ.
    pub fn is_decided(&self) -> bool {
        !self.interval.contains(1.0)
    }
}

fn check_positive(samples: &[f64]) -> Result<(), StatsError> {
    match samples.iter().enumerate().find(|(_, value)| value.is_finite() && **value <= 0.0) {
        Some((index, &value)) => Err(StatsError::NotPositive { index, value }),
        None => sorted(samples).map(drop),
    }
}

fn check_share(value: f64) -> Result<(), StatsError> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(StatsError::NotAShare { value }) }
}

/// The samples in ascending order: finite, and at least one.
fn sorted(samples: &[f64]) -> Result<Vec<f64>, StatsError> {
    if samples.is_empty() {
        return Err(StatsError::Empty);
    }
    if let Some((index, &value)) = samples.iter().enumerate().find(|(_, value)| !value.is_finite()) {
        return Err(StatsError::NotFinite { index, value });
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    Ok(sorted)
}

/// The sample at `index`, or the last one.
fn at(sorted: &[f64], index: usize) -> f64 {
    sorted.get(index).or(sorted.last()).copied().unwrap_or(f64::NAN)
}

fn quantile_of_sorted(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let (below, weight) = (position.floor(), position.fract());
    let (low, high) = (at(sorted, below as usize), at(sorted, below as usize + 1));
    // Halves first: the difference of two great samples of opposite sign would overflow.
    low * (1.0 - weight) + high * weight
}

fn mean_of_sorted(sorted: &[f64]) -> f64 {
    let n = sorted.len() as f64;
    // The mean of many equal samples must not leave their range by rounding.
    sorted.iter().map(|value| value / n).sum::<f64>().clamp(at(sorted, 0), at(sorted, sorted.len() - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_about_no_samples_or_bad_ones() {
        assert_eq!(median(&[]), Err(StatsError::Empty));
        assert_eq!(Summary::of(&[]), Err(StatsError::Empty));
        assert_eq!(median_interval(&[], 0.95), Err(StatsError::Empty));
        assert_eq!(PairedRatio::of(&[], &[], 0.95), Err(StatsError::Empty));
        assert!(matches!(mean(&[1.0, f64::NAN]), Err(StatsError::NotFinite { index: 1, .. })));
        assert!(matches!(quantile(&[1.0], 1.5), Err(StatsError::NotAShare { .. })));
        assert!(matches!(quantile(&[1.0], f64::NAN), Err(StatsError::NotAShare { .. })));
        let unpaired = PairedRatio::of(&[1.0], &[1.0, 2.0], 0.95);
        assert_eq!(unpaired, Err(StatsError::Unpaired { left: 1, right: 2 }));
        let zero = PairedRatio::of(&[1.0, 1.0], &[1.0, 0.0], 0.95);
        assert_eq!(zero, Err(StatsError::NotPositive { index: 1, value: 0.0 }));
    }

    #[test]
    fn quantiles_interpolate_between_neighbours() {
        let samples = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&samples), Ok(2.5));
        assert_eq!(quantile(&samples, 0.0), Ok(1.0));
        assert_eq!(quantile(&samples, 0.25), Ok(1.75));
        assert_eq!(quantile(&samples, 1.0), Ok(4.0));
        assert_eq!(median(&[7.0]), Ok(7.0));
        assert_eq!(median(&[-f64::MAX, f64::MAX]), Ok(0.0));
    }

    #[test]
    fn summary_holds_extremes_centre_and_spread() {
        let summary = Summary::of(&[10.0, 12.0, 8.0, 11.0]).unwrap();
        assert_eq!((summary.count, summary.min, summary.max), (4, 8.0, 12.0));
        assert_eq!((summary.median, summary.mean), (10.5, 10.25));
        assert_eq!(summary.spread, Some(4.0 / 10.5));
        assert_eq!(Summary::of(&[0.1; 7]).unwrap().spread, Some(0.0));
        assert_eq!(Summary::of(&[-1.0, 0.0, 1.0]).unwrap().spread, None);
    }

    #[test]
    fn intervals_of_a_median_match_the_published_binomial_table() {
        // n, index of the lower end (from 0), confidence: the usual sign-test table for 95%.
        for (n, skip, confidence) in
            [(6, 0, 0.96875), (9, 1, 0.9609375), (12, 2, 0.9614257812), (25, 7, 0.9567147493)]
        {
            let samples: Vec<f64> = (0..n).map(f64::from).collect();
            let interval = median_interval(&samples, 0.95).unwrap();
            assert_eq!((interval.low, interval.high), (f64::from(skip), f64::from(n - 1 - skip)), "n = {n}");
            assert!((interval.confidence - confidence).abs() < 1e-9, "{interval:?}");
        }
    }

    #[test]
    fn too_few_samples_give_the_widest_interval_and_its_true_confidence() {
        let interval = median_interval(&[3.0, 1.0, 2.0, 5.0, 4.0], 0.95).unwrap();
        assert_eq!(interval, Interval { low: 1.0, high: 5.0, confidence: 0.9375 });
        let alone = median_interval(&[3.0], 0.95).unwrap();
        assert_eq!(alone, Interval { low: 3.0, high: 3.0, confidence: 0.0 });
    }

    #[test]
    fn intervals_of_many_samples_neither_underflow_nor_widen() {
        let samples: Vec<f64> = (0..10_001).map(f64::from).collect();
        let interval = median_interval(&samples, 0.95).unwrap();
        // The normal approximation is 5000 ± 1.96 · √n ÷ 2; one sample more on each side adds
        // 0.23%.
        assert_eq!((interval.low, interval.high), (4901.0, 5099.0));
        assert!((0.95..0.9524).contains(&interval.confidence), "{interval:?}");
    }

    #[test]
    fn pairing_takes_a_common_drift_out() {
        let theirs = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
        let ours: Vec<f64> = theirs.iter().map(|value| value / 4.0).collect();
        let compared = PairedRatio::of(&theirs, &ours, 0.95).unwrap();
        assert_eq!((compared.ratio, compared.interval.low, compared.interval.high), (4.0, 4.0, 4.0));
        assert!(compared.is_decided());
        assert!(!PairedRatio::of(&theirs, &theirs, 0.95).unwrap().is_decided());
    }
}
