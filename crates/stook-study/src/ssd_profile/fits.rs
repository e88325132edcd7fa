//! The models of `bench`, fitted to the cells of a profile that count: those without a failed
//! check.

use serde::Serialize;
use stook::bench::model::block::{BlockCell, BlockModel};
use stook::bench::model::depth::{DepthCell, DepthModel};
use stook::bench::model::mix::{MixCell, MixModel};
use stook::report::least_squares::Estimate;
use stook::report::stats::Interval;

use super::cells::Profile;

pub use stook::bench::model::Fitted;

/// The behaviour of the device, in few numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fits {
    /// Latency against block size.
    pub block: Fitted<BlockModel>,
    /// Throughput against depth.
    pub depth: Fitted<DepthModel>,
    /// Reads and writes at once.
    pub mix: Fitted<MixModel>,
}

impl Fits {
    /// Fits everything. `p99_target_s` is the latency limit for the depth of a service level.
    pub fn of(profile: &Profile, p99_target_s: Option<f64>) -> Self {
        let blocks: Vec<BlockCell> = profile.blocks.iter().map(BlockCell::from).collect();
        let depths: Vec<DepthCell> = profile.depths.iter().map(DepthCell::from).collect();
        let mixes: Vec<MixCell> = profile.mixes.iter().map(MixCell::from).collect();
        Self {
            block: Fitted(BlockModel::fit(&blocks)),
            depth: Fitted(DepthModel::fit(&depths, p99_target_s)),
            mix: Fitted(MixModel::fit(&mixes)),
        }
    }
}

/// How many times its lower end the upper end of an interval may be for a value to be a figure.
const KNOWN_WITHIN: f64 = 2.0;

/// Whether a value is known well enough to be said.
pub(super) fn is_known(estimate: &Estimate) -> bool {
    let Interval { low, high, .. } = estimate.interval;
    low > 0.0 && high <= KNOWN_WITHIN * low
}

/// Where a value lies, its ends as `shown`.
pub(super) fn interval(estimate: &Estimate, shown: impl Fn(f64) -> String) -> String {
    let Interval { low, high, .. } = estimate.interval;
    match high.is_finite() {
        true => format!("{} to {}", shown(low.max(0.0)), shown(high)),
        false => format!("{} or more", shown(low.max(0.0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd_profile::published;

    #[test]
    fn the_published_tables_are_a_fixed_cost_a_bandwidth_and_a_mix_that_costs_little() {
        let fits = Fits::of(&published::profile(), None);
        let block = fits.block.model().unwrap();
        assert!((block.fixed_cost_s.value * 1e6 - 16.6).abs() < 0.1, "{block:?}");
        assert!((block.bandwidth_bytes_per_s.value / 1e9 - 4.64).abs() < 0.05, "{block:?}");
        assert!(block.residual_max < 0.02, "{block:?}");
        let mix = fits.mix.model().unwrap();
        assert!((-0.08..-0.07).contains(&mix.interference) && mix.predictions.len() == 3, "{mix:?}");
        let depth = fits.depth.model().unwrap();
        assert!(depth.saturated && depth.retrograde.is_some(), "{depth:?}");
    }
}
