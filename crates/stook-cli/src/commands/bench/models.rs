//! The models of `bench`, fitted to what a command has swept: cells that differ in one thing only.

use std::collections::BTreeSet;

use serde::Serialize;
use stook::bench::model::block::BlockModel;
use stook::bench::model::depth::DepthModel;
use stook::bench::model::mix::MixModel;
use stook::bench::{BenchResult, CellResult, Workload};
use stook::report::least_squares::Estimate;
use stook::report::units::{bytes_binary, count, duration_ns, rate, significant};

use super::table;
use crate::output::{Output, OutputError};
use crate::study::ssd_profile::cells::Cell;
use crate::study::ssd_profile::fits::{Fitted, block_cell, depth_cell, mix_cell};

/// Fewer sizes or depths than this are no sweep.
const CELLS_MIN: usize = 3;

/// What the cells of a command say together.
#[derive(Debug, Serialize)]
pub(super) struct Models {
    /// Latency against block size.
    blocks: Vec<Swept<BlockModel>>,
    /// Throughput against depth.
    depths: Vec<Swept<DepthModel>>,
    /// Reads and writes at once.
    mixes: Vec<Swept<MixModel>>,
}

/// A model and the cells it was fitted to.
#[derive(Debug, Serialize)]
struct Swept<T: Serialize> {
    /// Their positions in the result.
    cells: Vec<usize>,
    /// What they have in common, for people.
    of: String,
    #[serde(flatten)]
    fitted: Fitted<T>,
}

impl Models {
    /// Fits whatever can be fitted.
    pub(super) fn of(result: &BenchResult) -> Self {
        let cell = |&at: &usize| result.cells.get(at).map(Cell::of);
        let blocks = sweeps(result, |cell| cell.block_size, |cell| Workload { block_size: 0, ..cell });
        let depths = sweeps(result, |cell| u64::from(cell.depth), |cell| Workload { depth: 0, ..cell });
        let mixes =
            sweeps(result, |cell| u64::from(cell.read_share), |cell| Workload { read_share: 0, ..cell });
        Self {
            blocks: swept(result, blocks, said_of_blocks, |cells| {
                let cells: Vec<_> = cells.iter().filter_map(cell).map(|cell| block_cell(&cell)).collect();
                Fitted(BlockModel::fit(&cells))
            }),
            depths: swept(result, depths, said_of_depths, |cells| {
                let cells: Vec<_> = cells.iter().filter_map(cell).map(|cell| depth_cell(&cell)).collect();
                Fitted(DepthModel::fit(&cells, None))
            }),
            mixes: swept(result, mixes, said_of_mixes, |cells| {
                let cells: Vec<_> = cells.iter().filter_map(cell).map(|cell| mix_cell(&cell)).collect();
                Fitted(MixModel::fit(&cells))
            }),
        }
    }

    /// One line for each.
    pub(super) fn text(&self, output: &mut Output) -> Result<(), OutputError> {
        if !(self.blocks.is_empty() && self.depths.is_empty() && self.mixes.is_empty()) {
            output.line("")?;
        }
        let lines = self.blocks.iter().map(|swept| swept.line("Latency against block size", about_blocks));
        let lines =
            lines.chain(self.depths.iter().map(|swept| swept.line("Throughput against depth", about_depths)));
        let lines =
            lines.chain(self.mixes.iter().map(|swept| swept.line("Reads and writes at once", about_mixes)));
        for line in lines {
            output.line(line)?;
        }
        Ok(())
    }
}

impl<T: Serialize> Swept<T> {
    fn line(&self, what: &str, about: impl Fn(&T) -> String) -> String {
        let found = match self.fitted.model() {
            Some(model) => about(model),
            None => format!("no model, {}", self.fitted.refused().unwrap_or_default()),
        };
        format!("{what} ({}): {found}", self.of)
    }
}

fn swept<T: Serialize>(
    result: &BenchResult,
    sweeps: Vec<Vec<usize>>,
    said: fn(&Workload) -> String,
    fit: impl Fn(&[usize]) -> Fitted<T>,
) -> Vec<Swept<T>> {
    let of = |cells: &[usize]| {
        cells
            .first()
            .and_then(|&at| result.cells.get(at))
            .map_or_else(String::new, |cell| said(&cell.workload))
    };
    sweeps.into_iter().map(|cells| Swept { of: of(&cells), fitted: fit(&cells), cells }).collect()
}

/// Groups of closed-loop cells that are the same but for one thing, of which there are enough different values.
fn sweeps(
    result: &BenchResult,
    value: impl Fn(&Workload) -> u64,
    rest: impl Fn(Workload) -> Workload,
) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Workload, BTreeSet<u64>, Vec<usize>)> = Vec::new();
    for (at, CellResult { workload, .. }) in result.cells.iter().enumerate() {
        if workload.rate_per_s.is_some() {
            continue;
        }
        let rest = rest(workload.clone());
        let known = groups.iter().position(|(known, ..)| *known == rest);
        let group = match known {
            Some(known) => groups.get_mut(known),
            None => {
                groups.push((rest, BTreeSet::new(), Vec::new()));
                groups.last_mut()
            }
        };
        if let Some((_, values, cells)) = group {
            values.insert(value(workload));
            cells.push(at);
        }
    }
    groups.into_iter().filter(|(_, values, _)| values.len() >= CELLS_MIN).map(|(.., cells)| cells).collect()
}

fn said_of_blocks(workload: &Workload) -> String {
    format!("{}, depth {}", table::name(workload), table::depth(workload))
}

fn said_of_depths(workload: &Workload) -> String {
    format!("{}, {}", table::name(workload), bytes_binary(workload.block_size))
}

fn said_of_mixes(workload: &Workload) -> String {
    format!("{}, depth {}", bytes_binary(workload.block_size), table::depth(workload))
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
