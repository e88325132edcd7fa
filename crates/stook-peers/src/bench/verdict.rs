//! Whether two tools agree: by how much they may differ, and by how much fio differs from itself.

use serde::Serialize;
use stook::report::stats::{PairedRatio, median};

use super::sample::Sample;

/// Requested confidence; with few rounds the interval has less, and states it.
const CONFIDENCE: f64 = 0.95;

/// A figure that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    /// Requests a second.
    Iops,
    /// Bytes a second.
    Bandwidth,
    /// Mean latency.
    Mean,
    /// 99th percentile of the latency.
    P99,
    /// Processor time for each request.
    Cpu,
}

impl Metric {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [Self::Iops, Self::Bandwidth, Self::Mean, Self::P99, Self::Cpu];

    /// By how much of fio's figure ours may differ; processor time is no matter of agreement.
    fn tolerance(self) -> Option<f64> {
        match self {
            Self::Iops | Self::Bandwidth | Self::Mean => Some(0.05),
            Self::P99 => Some(0.15),
            Self::Cpu => None,
        }
    }

    fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::Iops => sample.iops,
            Self::Bandwidth => sample.bandwidth_bytes_per_s,
            Self::Mean => sample.latency_mean_ns,
            Self::P99 => sample.latency_p99_ns,
            Self::Cpu => sample.cpu_per_request_ns,
        }
    }
}

/// How two tools compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// Within the tolerance.
    Agrees,
    /// Further apart, yet no further than fio was from itself in the same rounds.
    WithinNoise,
    /// Further apart than both.
    Differs,
}

/// One figure of one cell, ours against fio's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Agreement {
    /// Which figure.
    pub(crate) metric: Metric,
    /// Ours, the median of all rounds.
    pub(crate) ours: f64,
    /// fio's.
    pub(crate) fio: f64,
    /// Ours ÷ the mean of the two runs of fio of the same round.
    pub(crate) ratio: PairedRatio,
    /// The later run of fio ÷ the earlier one of the same round.
    pub(crate) fio_to_itself: PairedRatio,
    /// How far from 1 the interval of `fio_to_itself` reaches.
    pub(crate) noise: f64,
    /// `None` where nothing was promised.
    pub(crate) verdict: Option<Verdict>,
}

/// What fio measured before and after ours in one round.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Pair {
    /// First.
    pub(crate) earlier: Sample,
    /// Last.
    pub(crate) later: Sample,
}

impl Agreement {
    /// Compares one figure over all rounds.
    pub(crate) fn of(metric: Metric, ours: &[Sample], fio: &[Pair]) -> anyhow::Result<Self> {
        let own: Vec<f64> = ours.iter().map(|sample| metric.of(sample)).collect();
        let earlier: Vec<f64> = fio.iter().map(|pair| metric.of(&pair.earlier)).collect();
        let later: Vec<f64> = fio.iter().map(|pair| metric.of(&pair.later)).collect();
        let both: Vec<f64> =
            earlier.iter().zip(&later).map(|(earlier, later)| f64::midpoint(*earlier, *later)).collect();
        let ratio = PairedRatio::of(&own, &both, CONFIDENCE)?;
        let fio_to_itself = PairedRatio::of(&later, &earlier, CONFIDENCE)?;
        let noise = (fio_to_itself.interval.high - 1.0).max(1.0 - fio_to_itself.interval.low);
        let verdict = metric.tolerance().map(|tolerance| verdict(ratio.ratio, tolerance, noise));
        Ok(Self { metric, ours: median(&own)?, fio: median(&both)?, ratio, fio_to_itself, noise, verdict })
    }
}

fn verdict(ratio: f64, tolerance: f64, noise: f64) -> Verdict {
    match (ratio - 1.0).abs() {
        apart if apart <= tolerance => Verdict::Agrees,
        apart if apart <= noise => Verdict::WithinNoise,
        _ => Verdict::Differs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(value: f64) -> Sample {
        Sample {
            requests: 1,
            seconds: 1.0,
            iops: value,
            bandwidth_bytes_per_s: value,
            latency_mean_ns: value,
            latency_p50_ns: value,
            latency_p99_ns: value,
            latency_p999_ns: value,
            cpu_per_request_ns: value,
            state: None,
            reasons: Vec::new(),
        }
    }

    fn agreement(metric: Metric, ours: &[f64], fio: &[(f64, f64)]) -> Agreement {
        let ours: Vec<Sample> = ours.iter().copied().map(sample).collect();
        let pair = |&(earlier, later)| Pair { earlier: sample(earlier), later: sample(later) };
        Agreement::of(metric, &ours, &fio.iter().map(pair).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn what_is_promised_is_5_percent_and_15_for_the_tail() {
        let steady = [(100.0, 100.0); 5];
        for metric in Metric::ALL {
            let verdict = |ours: f64| agreement(metric, &[ours; 5], &steady).verdict;
            let expected = match metric {
                Metric::Cpu => [None; 4],
                Metric::P99 => {
                    [Verdict::Agrees, Verdict::Agrees, Verdict::Agrees, Verdict::Differs].map(Some)
                }
                _ => [Verdict::Agrees, Verdict::Differs, Verdict::Differs, Verdict::Differs].map(Some),
            };
            assert_eq!([104.9, 105.1, 114.9, 84.9].map(verdict), expected, "{metric:?}");
        }
    }

    #[test]
    fn noise_is_how_far_fio_lies_from_itself_and_excuses_no_more_than_that() {
        let noisy = [(100.0, 100.0), (100.0, 90.0), (100.0, 110.0), (100.0, 100.0), (100.0, 100.0)];
        let found = agreement(Metric::Iops, &[108.0, 95.0 * 1.08, 105.0 * 1.08, 108.0, 108.0], &noisy);
        assert!((found.noise - 0.10).abs() < 1e-9, "{found:?}");
        assert!((found.ratio.ratio - 1.08).abs() < 1e-9);
        assert_eq!(found.verdict, Some(Verdict::WithinNoise));
        assert_eq!(agreement(Metric::Iops, &[111.0; 5], &noisy).verdict, Some(Verdict::Differs));
    }

    #[test]
    fn ours_is_compared_with_the_fio_of_the_same_round() {
        // The device gets slower from round to round, by far more than the tools differ.
        let fio = [(400.0, 400.0), (200.0, 200.0), (100.0, 100.0)];
        let found = agreement(Metric::Mean, &[408.0, 204.0, 102.0], &fio);
        assert!((found.ratio.ratio - 1.02).abs() < 1e-9);
        assert_eq!((found.ours, found.fio, found.noise), (204.0, 200.0, 0.0));
        assert_eq!(found.verdict, Some(Verdict::Agrees));
    }
}
