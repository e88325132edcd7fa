//! The models of `bench`, fitted to what a command has swept: cells that differ in one thing only.

use serde::Serialize;
use stook::bench::model::block::BlockModel;
use stook::bench::model::depth::DepthModel;
use stook::bench::model::mix::MixModel;
use stook::bench::model::{self, Swept};
use stook::bench::{BenchResult, Workload};
use stook::report::least_squares::Estimate;
use stook::report::units::{bytes_binary, count, duration_ns, rate, significant};

use super::table;
use crate::output::{Output, OutputError};

/// What the cells of a command say together.
#[derive(Debug, Serialize)]
pub(super) struct Models {
    /// Latency against block size.
    blocks: Vec<Named<BlockModel>>,
    /// Throughput against depth.
    depths: Vec<Named<DepthModel>>,
    /// Reads and writes at once.
    mixes: Vec<Named<MixModel>>,
}

/// A model and the cells it was fitted to.
#[derive(Debug, Serialize)]
struct Named<T: Serialize> {
    /// What they have in common, for people.
    of: String,
    #[serde(flatten)]
    swept: Swept<T>,
}

impl Models {
    /// Fits all models that can be fitted.
    pub(super) fn of(result: &BenchResult) -> Self {
        let model::Models { blocks, depths, mixes } = model::Models::of(result);
        Self {
            blocks: named(result, blocks, said_of_blocks),
            depths: named(result, depths, said_of_depths),
            mixes: named(result, mixes, said_of_mixes),
        }
    }

    /// One line for each.
    pub(super) fn text(&self, output: &mut Output) -> Result<(), OutputError> {
        if !(self.blocks.is_empty() && self.depths.is_empty() && self.mixes.is_empty()) {
            output.line("")?;
        }
        let lines = self.blocks.iter().map(|found| found.line("Latency against block size", about_blocks));
        let lines =
            lines.chain(self.depths.iter().map(|found| found.line("Throughput against depth", about_depths)));
        let lines =
            lines.chain(self.mixes.iter().map(|found| found.line("Reads and writes at once", about_mixes)));
        for line in lines {
            output.line(line)?;
        }
        Ok(())
    }
}

impl<T: Serialize> Named<T> {
    fn line(&self, what: &str, about: impl Fn(&T) -> String) -> String {
        let fitted = &self.swept.fitted;
        let found = match fitted.model() {
            Some(model) => about(model),
            None => format!("no model, {}", fitted.refused().unwrap_or_default()),
        };
        format!("{what} ({}): {found}", self.of)
    }
}

fn named<T: Serialize>(
    result: &BenchResult,
    swept: Vec<Swept<T>>,
    said: fn(&Workload) -> String,
) -> Vec<Named<T>> {
    let of = |swept: &Swept<T>| {
        let first = swept.cells.first().and_then(|&at| result.cells.get(at));
        first.map_or_else(String::new, |cell| said(&cell.workload))
    };
    swept.into_iter().map(|swept| Named { of: of(&swept), swept }).collect()
}

fn said_of_blocks(workload: &Workload) -> String {
    format!("{}, depth {}", table::name(workload), table::depth(workload))
}

fn said_of_depths(workload: &Workload) -> String {
    format!("{}, {}", table::name(workload), workload.block_name())
}

fn said_of_mixes(workload: &Workload) -> String {
    format!("{}, depth {}", workload.block_name(), table::depth(workload))
}

fn about_blocks(model: &BlockModel) -> String {
    let Estimate { value: fixed_s, interval } = model.fixed_cost_s;
    let time = |seconds: f64| duration_ns((seconds.max(0.0) * 1e9) as u64);
    format!(
        "{} ({} to {}) for any block, and its bytes at {}; half of that speed with blocks of {}; the farthest cell is {:.1}% off",
        time(fixed_s),
        time(interval.low),
        time(interval.high),
        rate(model.bandwidth_bytes_per_s.value),
        bytes_binary(model.half_bandwidth_block_bytes.value.max(0.0) as u64),
        model.residual_max * 100.0,
    )
}

fn about_depths(model: &DepthModel) -> String {
    let Estimate { value, interval } = model.rate_max_per_s;
    let per_s = |rate: f64| count(rate.max(0.0).round() as u64);
    let more = if model.saturated { "" } else { ", and deeper would give more" };
    let balanced =
        model.answers.balanced.map_or("none of these".to_owned(), |answer| answer.depth.to_string());
    let fewer = model.retrograde.as_ref().map_or_else(String::new, |retrograde| {
        format!("; {:.0}% is lost again at depth {}", retrograde.loss_share * 100.0, retrograde.deepest_depth)
    });
    format!(
        "at most {}/s ({} to {}){more}, which takes {} in flight; depth for the shortest wait {}, balanced {balanced}{fewer}",
        per_s(value),
        per_s(interval.low),
        per_s(interval.high),
        significant(model.depth_star.value),
        model.answers.latency.depth,
    )
}

fn about_mixes(model: &MixModel) -> String {
    let mixed = model.predictions.iter().map(|prediction| {
        let sure = if prediction.residual_is_certain { "" } else { ", within the noise" };
        format!("{:.0}% reads {:+.1}%{sure}", prediction.read_share * 100.0, prediction.residual * 100.0)
    });
    let mixed: Vec<String> = mixed.collect();
    format!("against what reads alone and writes alone predict: {}", mixed.join("; "))
}
