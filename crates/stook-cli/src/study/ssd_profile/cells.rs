//! [`Profile`]: the cells that the study looks at, whether they were measured here or published.

use serde::Serialize;
use stook::bench::model::CONFIDENCE;
use stook::bench::{BenchResult, CellResult, Figures, RunResult, Workload};
use stook::report::bootstrap::mean_interval;
use stook::report::least_squares::Estimate;
use stook::report::stats::Interval;

/// The block size that is kept while depth and mix change.
pub(super) const BASE_BLOCK_BYTES: u64 = 16 << 10;
/// The block size of the extra cell that only writes.
pub(super) const SMALL_BLOCK_BYTES: u64 = 4 << 10;
/// With fewer windows their spread says nothing.
const WINDOWS_MIN: usize = 5;
/// The same intervals for the same figures, every time.
const SEED: u64 = 1;

/// Reads or writes of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Part {
    /// Requests per second.
    pub rate_per_s: f64,
    /// Bytes per second.
    pub bandwidth_bytes_per_s: f64,
    /// Mean latency.
    pub latency_mean_s: f64,
}

/// One cell: random requests of one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Bytes of each request.
    pub block_bytes: u64,
    /// How many of a hundred requests are reads.
    pub read_share: u8,
    /// Requests in flight that were asked for.
    pub depth: u64,
    /// Requests per second, with the interval of their mean.
    pub rate_per_s: Estimate,
    /// Bytes per second.
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
    /// Whether it passed its checks.
    pub valid: bool,
    /// Why it did not.
    pub reasons: Vec<String>,
}

/// What was varied, one thing at a time; the same cell may be in several lists.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// Reads one at a time, of growing blocks.
    pub blocks: Vec<Cell>,
    /// From reads only to writes only.
    pub mixes: Vec<Cell>,
    /// Reads at growing depth.
    pub depths: Vec<Cell>,
    /// Small writes, one at a time.
    pub small_writes: Option<Cell>,
}

impl Part {
    pub(super) fn of(figures: &Figures) -> Self {
        Self {
            rate_per_s: figures.iops,
            bandwidth_bytes_per_s: figures.bandwidth_bytes_per_s,
            latency_mean_s: figures.latency_mean_ns.unwrap_or(f64::NAN) / 1e9,
        }
    }
}

impl Cell {
    /// What a cell of `bench` comes to.
    pub(crate) fn of(cell: &CellResult) -> Self {
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
            valid: cell.valid,
            reasons: cell.reasons.clone(),
        }
    }

    /// X·W: how many requests were in flight, if the latencies leave nothing out.
    pub(super) fn in_flight(&self) -> f64 {
        self.little_ratio * self.depth as f64
    }
}

impl Profile {
    /// The lists, out of what `bench` found.
    pub fn of(result: &BenchResult) -> Self {
        let list = |belongs: fn(&Workload) -> bool| -> Vec<Cell> {
            result.cells.iter().filter(|cell| belongs(&cell.workload)).map(Cell::of).collect()
        };
        let mut blocks = list(|cell| cell.read_share == 100 && cell.depth == 1);
        let mut mixes = list(|cell| cell.block_size == BASE_BLOCK_BYTES && cell.depth == 1);
        let mut depths = list(|cell| cell.block_size == BASE_BLOCK_BYTES && cell.read_share == 100);
        blocks.sort_by_key(|cell| cell.block_bytes);
        mixes.sort_by_key(|cell| std::cmp::Reverse(cell.read_share));
        depths.sort_by_key(|cell| cell.depth);
        let small_writes = list(|cell| cell.block_size == SMALL_BLOCK_BYTES && cell.read_share == 0);
        Self { blocks, mixes, depths, small_writes: small_writes.into_iter().next() }
    }

    /// The cell that all lists have in common: blocks of 16 KiB, read one at a time.
    pub fn base(result: &BenchResult) -> Option<&CellResult> {
        result.cells.iter().find(|CellResult { workload, .. }| {
            (workload.block_size, workload.read_share, workload.depth) == (BASE_BLOCK_BYTES, 100, 1)
        })
    }
}

/// Requests per second with the interval of their mean; one without ends where too little was measured to tell.
fn rate(cell: &CellResult) -> Estimate {
    let value = cell.total.iops;
    let unknown = Interval { low: 0.0, high: f64::INFINITY, confidence: CONFIDENCE };
    let runs: Vec<Vec<f64>> =
        cell.runs.iter().filter(|run| run.valid || !cell.valid).map(window_rates).collect();
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

/// Requests per second in whole seconds; in shorter windows where there are too few of these.
fn window_rates(run: &RunResult) -> Vec<f64> {
    let whole = run.series.iter().take(run.steady_s as usize);
    let seconds: Vec<f64> = whole.map(|second| (second.reads + second.writes) as f64).collect();
    if seconds.len() >= WINDOWS_MIN {
        seconds
    } else {
        run.windows.iter().map(|window| window.iops).collect()
    }
}
