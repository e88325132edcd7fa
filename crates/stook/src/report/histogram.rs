//! Latencies counted in buckets of known width.

use hdrhistogram::Histogram;

/// The longest latency that is resolved, in nanoseconds: one hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Decimal digits that a bucket keeps.
const DIGITS: u8 = 3;

/// A histogram of latencies in nanoseconds.
///
/// Quantiles are the upper edge of the bucket they fall into: at most 0.1% above the recorded
/// latency (three significant digits, and to the nanosecond below 2 µs), never below it. Count,
/// minimum, maximum and mean are exact. A latency of more than one hour counts as one hour in the
/// quantiles, and [`over_range`](Self::over_range) counts them. A histogram always takes about 260
/// KiB; recording never allocates.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyHistogram {
    buckets: Histogram<u64>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    over_range: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// An empty histogram.
    pub fn new() -> Self {
        let buckets = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        #[expect(clippy::expect_used, reason = "the bounds are constants that the crate accepts")]
        let buckets = buckets.expect("1 ns to one hour with three digits is a valid histogram");
        Self { buckets, sum_ns: 0, min_ns: u64::MAX, max_ns: 0, over_range: 0 }
    }

    /// Counts one latency.
    pub fn record(&mut self, latency_ns: u64) {
        self.buckets.saturating_record(latency_ns.min(LONGEST_NS));
        self.sum_ns += u128::from(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        self.over_range += u64::from(latency_ns > LONGEST_NS);
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        // Both have the bounds that `new` gives, which is all that `add` can object to.
        let added = self.buckets.add(&other.buckets);
        debug_assert!(added.is_ok(), "histograms of equal bounds can be added");
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.over_range += other.over_range;
    }

    /// How many latencies were recorded.
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How many were longer than one hour.
    pub fn over_range(&self) -> u64 {
        self.over_range
    }

    /// The shortest, exactly.
    pub fn min_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min_ns)
    }

    /// The longest, exactly.
    pub fn max_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max_ns)
    }

    /// The arithmetic mean of the recorded values, not of bucket edges.
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// The least latency that at least `share` (0 to 1, clamped) of all do not exceed.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let edge_ns = self.buckets.value_at_quantile(share.clamp(0.0, 1.0));
        (!self.is_empty()).then(|| edge_ns.clamp(self.min_ns, self.max_ns))
    }

    /// The buckets that hold something, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = LatencyBucket> + '_ {
        self.buckets.iter_recorded().map(|step| {
            let latency_ns = step.value_iterated_to();
            LatencyBucket {
                from_ns: self.buckets.lowest_equivalent(latency_ns),
                to_ns: self.buckets.highest_equivalent(latency_ns),
                count: step.count_at_value(),
            }
        })
    }
}

/// Latencies that are not resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyBucket {
    /// The shortest that falls into it.
    pub from_ns: u64,
    /// The longest that falls into it.
    pub to_ns: u64,
    /// How many did.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn histogram_of(samples: &[u64]) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        samples.iter().for_each(|&latency_ns| histogram.record(latency_ns));
        histogram
    }

    #[test]
    fn an_empty_histogram_has_no_latencies() {
        let histogram = LatencyHistogram::new();
        assert_eq!((histogram.count(), histogram.mean_ns(), histogram.quantile_ns(0.5)), (0, None, None));
        assert_eq!((histogram.min_ns(), histogram.max_ns(), histogram.buckets().count()), (None, None, 0));
    }

    #[test]
    fn latencies_beyond_an_hour_are_counted_and_reported() {
        let histogram = histogram_of(&[0, u64::MAX, u64::MAX]);
        assert_eq!((histogram.count(), histogram.over_range()), (3, 2));
        assert_eq!((histogram.min_ns(), histogram.max_ns()), (Some(0), Some(u64::MAX)));
        let median_ns = histogram.quantile_ns(0.5).unwrap();
        assert!((LONGEST_NS..LONGEST_NS + LONGEST_NS / 1000).contains(&median_ns), "{median_ns}");
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_thousandth_above_the_exact_ones(
            samples in prop::collection::vec(0_u64..=LONGEST_NS, 1..200),
            share in 0.0_f64..=1.0,
        ) {
            let histogram = histogram_of(&samples);
            let mut sorted = samples.clone();
            sorted.sort_unstable();
            let rank = ((share * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
            let (exact, got) = (sorted[rank - 1], histogram.quantile_ns(share).unwrap());
            prop_assert!(exact <= got && got as f64 <= exact as f64 * 1.001 + 1.0, "{exact} {got}");
            let mean = samples.iter().map(|&ns| ns as f64).sum::<f64>() / samples.len() as f64;
            prop_assert!((histogram.mean_ns().unwrap() - mean).abs() <= mean * 1e-9);
        }

        #[test]
        fn merging_equals_recording_everything_in_one(
            left in prop::collection::vec(any::<u64>(), 0..50),
            right in prop::collection::vec(any::<u64>(), 0..50),
        ) {
            let mut merged = histogram_of(&left);
            merged.merge(&histogram_of(&right));
            let all = histogram_of(&[left, right].concat());
            prop_assert_eq!(&merged, &all);
            prop_assert_eq!(merged.buckets().map(|bucket| bucket.count).sum::<u64>(), all.count());
        }
    }
}
