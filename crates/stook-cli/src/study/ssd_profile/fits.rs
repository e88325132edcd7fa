//! The models of `bench`, fitted to the cells of a profile that passed their checks.

use serde::Serialize;
use serde::ser::{SerializeStruct as _, Serializer};
use stook::bench::model::ModelError;
use stook::bench::model::block::{BlockCell, BlockModel};
use stook::bench::model::depth::{DepthCell, DepthModel};
use stook::bench::model::mix::{MixCell, MixModel};

use super::cells::{Cell, Profile};

/// A model, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted<T>(pub Result<T, ModelError>);

/// What the device does, in few numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fits {
    /// Latency against block size.
    pub block: Fitted<BlockModel>,
    /// Throughput against depth.
    pub depth: Fitted<DepthModel>,
    /// Reads and writes at once.
    pub mix: Fitted<MixModel>,
}

impl<T> Fitted<T> {
    /// The model, where there is one.
    pub fn model(&self) -> Option<&T> {
        self.0.as_ref().ok()
    }

    /// Why there is none.
    pub fn refused(&self) -> Option<String> {
        self.0.as_ref().err().map(ToString::to_string)
    }
}

impl<T: Serialize> Serialize for Fitted<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Fitted", 2)?;
        fields.serialize_field("model", &self.model())?;
        fields.serialize_field("refused", &self.refused())?;
        fields.end()
    }
}

impl Fits {
    /// Fits everything. `p99_target_s` is what the depth for a service level has to keep to.
    pub fn of(profile: &Profile, p99_target_s: Option<f64>) -> Self {
        let blocks: Vec<BlockCell> = profile.blocks.iter().map(block_cell).collect();
        let depths: Vec<DepthCell> = profile.depths.iter().map(depth_cell).collect();
        let mixes: Vec<MixCell> = profile.mixes.iter().map(mix_cell).collect();
        Self {
            block: Fitted(BlockModel::fit(&blocks)),
            depth: Fitted(DepthModel::fit(&depths, p99_target_s)),
            mix: Fitted(MixModel::fit(&mixes)),
        }
    }
}

pub(crate) fn block_cell(cell: &Cell) -> BlockCell {
    let Cell { block_bytes, latency_mean_s, valid, .. } = *cell;
    BlockCell { block_bytes, latency_mean_s, valid }
}

pub(crate) fn depth_cell(cell: &Cell) -> DepthCell {
    let Cell { depth, rate_per_s, latency_mean_s, valid, .. } = *cell;
    // The published table has no percentiles; its means stand in where no target asks for them.
    let latency_p99_s = cell.latency_p99_s.unwrap_or(latency_mean_s);
    DepthCell { depth, rate_per_s, latency_mean_s, latency_p99_s, valid }
}

pub(crate) fn mix_cell(cell: &Cell) -> MixCell {
    let reads = cell.read.map_or(0.0, |read| read.rate_per_s);
    let writes = cell.write.map_or(0.0, |write| write.rate_per_s);
    // Of the requests that were finished, which chance moves a little away from what was asked for.
    let read_share = if reads + writes > 0.0 { reads / (reads + writes) } else { 0.0 };
    MixCell {
        block_bytes: cell.block_bytes,
        depth: cell.depth,
        read_share,
        rate_per_s: cell.rate_per_s,
        valid: cell.valid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::ssd_profile::published;

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
