//! [`Cell`]: a measured cell, as the numbers that the models take.

use serde::Serialize;

use super::CONFIDENCE;
use super::block::BlockCell;
use super::depth::DepthCell;
use super::mix::MixCell;
use crate::bench::gates::State;
use crate::bench::result::{CellResult, Figures, RunResult, Second};
use crate::report::bootstrap::mean_interval;
use crate::report::least_squares::Estimate;
use crate::report::stats::Interval;

/// With fewer windows their spread says nothing.
const WINDOWS_MIN: usize = 5;
/// The same intervals for the same figures, every time.
const SEED: u64 = 1;

/// Reads or writes of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Part {
    /// Requests per second.
    pub rate_per_s: f64,
    /// Bytes per second; not a number where it is not known, which JSON has as `null`.
    pub bandwidth_bytes_per_s: f64,
    /// Mean latency.
    pub latency_mean_s: f64,
}

/// One cell of a result of any sweep. [`BlockCell`], [`DepthCell`] and [`MixCell`] are made from
/// it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Bytes of each request.
    pub block_bytes: u64,
    /// How many of a hundred requests are reads.
    pub read_share: u8,
    /// The requested number of requests in flight.
    pub depth: u64,
    /// Requests per second, with the interval of their mean.
    pub rate_per_s: Estimate,
    /// Bytes per second; not a number where it is not known, which JSON has as `null`.
    pub bandwidth_bytes_per_s: f64,
    /// Mean latency of all requests.
    pub latency_mean_s: f64,
    /// The latency that 99% do not exceed, where it is known.
    pub latency_p99_s: Option<f64>,
    /// Throughput × mean latency ÷ depth: 1 where the latencies leave nothing out.
    pub little_ratio: f64,
    /// Reads, if there are any.
    pub read: Option<Part>,
    /// Writes, if there are any.
    pub write: Option<Part>,
    /// Whether it may be believed.
    pub state: State,
    /// Why it may not, or why that is not known.
    pub reasons: Vec<String>,
}

impl Part {
    /// Converts figures of `bench`.
    pub fn of(figures: &Figures) -> Self {
        Self {
            rate_per_s: figures.iops,
            bandwidth_bytes_per_s: figures.bandwidth_bytes_per_s,
            latency_mean_s: figures.latency_mean_ns.unwrap_or(f64::NAN) / 1e9,
        }
    }
}

impl Cell {
    /// Converts a cell of `bench`. Its rate has the interval of the windows of all runs that count;
    /// unbounded if there are too few.
    pub fn of(cell: &CellResult) -> Self {
        let depth = cell.workload.requested_depth();
        let Part { rate_per_s, bandwidth_bytes_per_s, latency_mean_s } = Part::of(&cell.total);
        Self {
            block_bytes: cell.workload.block_size,
            read_share: cell.workload.read_share,
            depth,
            rate_per_s: rate(cell),
            bandwidth_bytes_per_s,
            latency_mean_s,
            latency_p99_s: cell.total.latency_p99_ns.map(|ns| ns as f64 / 1e9),
            little_ratio: rate_per_s * latency_mean_s / depth as f64,
            read: cell.read.as_ref().map(Part::of),
            write: cell.write.as_ref().map(Part::of),
            state: cell.state,
            reasons: cell.reasons.clone(),
        }
    }

    /// Whether it is used for conclusions: invalid cells are only shown. Unverified cells count,
    /// and are marked everywhere.
    pub fn counts(&self) -> bool {
        !self.state.is_invalid()
    }

    /// X·W: how many requests were in flight, if the latencies leave nothing out.
    pub fn in_flight(&self) -> f64 {
        self.little_ratio * self.depth as f64
    }
}

impl From<&Cell> for BlockCell {
    fn from(cell: &Cell) -> Self {
        let Cell { block_bytes, latency_mean_s, .. } = *cell;
        Self { block_bytes, latency_mean_s, counts: cell.counts() }
    }
}

impl From<&Cell> for DepthCell {
    /// If the percentile is not known, the mean replaces it.
    fn from(cell: &Cell) -> Self {
        let Cell { depth, rate_per_s, latency_mean_s, .. } = *cell;
        let latency_p99_s = cell.latency_p99_s.unwrap_or(latency_mean_s);
        Self { depth, rate_per_s, latency_mean_s, latency_p99_s, counts: cell.counts() }
    }
}

impl From<&Cell> for MixCell {
    fn from(cell: &Cell) -> Self {
        let reads = cell.read.map_or(0.0, |read| read.rate_per_s);
        let writes = cell.write.map_or(0.0, |write| write.rate_per_s);
        // The share among finished requests, which differs randomly from the requested one.
        let read_share = if reads + writes > 0.0 { reads / (reads + writes) } else { 0.0 };
        let Cell { block_bytes, depth, rate_per_s, .. } = *cell;
        Self { block_bytes, depth, read_share, rate_per_s, counts: cell.counts() }
    }
}

/// The runs that the figures of a cell are made of: those that are not invalid, and all where every
/// one is.
pub fn counted_runs(cell: &CellResult) -> impl Iterator<Item = &RunResult> {
    let none_counts = cell.runs.iter().all(|run| run.state.is_invalid());
    cell.runs.iter().filter(move |run| none_counts || !run.state.is_invalid())
}

/// Requests per second with the interval of their mean; unbounded if too little was measured.
fn rate(cell: &CellResult) -> Estimate {
    let value = cell.total.iops;
    let unknown = Interval { low: 0.0, high: f64::INFINITY, confidence: CONFIDENCE };
    let runs: Vec<Vec<f64>> = counted_runs(cell).map(window_rates).collect();
    let slices: Vec<&[f64]> = runs.iter().map(Vec::as_slice).collect();
    let windows: usize = runs.iter().map(Vec::len).sum();
    let interval = match mean_interval(&slices, CONFIDENCE, SEED) {
        // Windows leave out the drain: what is wanted is how far the rate may be off.
        Ok(mean) if windows >= WINDOWS_MIN && mean.value > 0.0 => {
            let scale = value / mean.value;
            let Interval { low, high, confidence } = mean.interval;
            Interval { low: low * scale, high: high * scale, confidence }
        }
        _ => unknown,
    };
    Estimate { value, interval }
}

/// The whole seconds of a run.
pub(in crate::bench) fn whole_seconds(run: &RunResult) -> &[Second] {
    let whole = run.series.len().min(run.steady_s as usize);
    run.series.get(..whole).unwrap_or_default()
}

/// Requests in each whole second of a run.
pub(in crate::bench) fn second_rates(run: &RunResult) -> Vec<f64> {
    whole_seconds(run).iter().map(|second| (second.reads + second.writes) as f64).collect()
}

/// Requests per second in whole seconds; in shorter windows where there are too few of these.
fn window_rates(run: &RunResult) -> Vec<f64> {
    let seconds = second_rates(run);
    if seconds.len() >= WINDOWS_MIN {
        seconds
    } else {
        run.windows.iter().map(|window| window.iops).collect()
    }
}
