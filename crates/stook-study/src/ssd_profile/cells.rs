//! [`Profile`]: the cells that the study looks at, whether they were measured here or published.

use serde::Serialize;
use stook::bench::gates::GateName;
use stook::bench::{BenchResult, CellResult, Pattern, Workload};

pub use stook::bench::model::{Cell, Part};

/// The block size that is kept while depth and mix change.
pub(super) const BASE_BLOCK_BYTES: u64 = 16 << 10;
/// The block size of the extra cell that only writes.
pub(super) const SMALL_BLOCK_BYTES: u64 = 4 << 10;

/// Reads and writes of a cell together.
pub(super) fn whole(cell: &Cell) -> Part {
    Part {
        rate_per_s: cell.rate_per_s.value,
        bandwidth_bytes_per_s: cell.bandwidth_bytes_per_s,
        latency_mean_s: cell.latency_mean_s,
    }
}

/// Throughput × mean latency at a depth, for Little's law.
///
/// Whether it is the depth is a check of every cell: one that fails it counts for nothing else, and
/// yet is what decides about the law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Product {
    /// The requested number of requests in flight.
    pub depth: u64,
    /// Throughput × mean latency ÷ that.
    pub ratio: f64,
    /// Whether no count of what was in flight contradicts the latencies.
    pub is_seen: bool,
}

impl Product {
    /// Of a cell without a failed check.
    pub(super) fn of(cell: &Cell) -> Option<Self> {
        cell.counts().then_some(Self { depth: cell.depth, ratio: cell.little_ratio, is_seen: true })
    }

    /// Also of a cell that failed no other checks than those of the law. `None` where another one
    /// failed: its latencies may be those of a cache.
    fn of_result(cell: &CellResult) -> Option<Self> {
        let runs = cell.runs.iter().filter(|_| cell.state.is_invalid());
        let failed = || runs.clone().flat_map(|run| &run.gates).filter(|gate| gate.is_failed());
        let is_law = |name| matches!(name, GateName::LittleRequested | GateName::LittleSampled);
        let Cell { depth, little_ratio: ratio, .. } = Cell::of(cell);
        let is_seen = failed().all(|gate| gate.name != GateName::LittleSampled);
        failed().all(|gate| is_law(gate.name)).then_some(Self { depth, ratio, is_seen })
    }
}

/// The sweeps, one parameter at a time; the same cell may be in several lists.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// Reads one at a time, of growing blocks.
    pub blocks: Vec<Cell>,
    /// From reads only to writes only.
    pub mixes: Vec<Cell>,
    /// Reads at growing depth.
    pub depths: Vec<Cell>,
    /// Of the cells of `depths` that decide about Little's law.
    #[serde(skip)]
    pub products: Vec<Product>,
    /// Small writes, one at a time.
    pub small_writes: Option<Cell>,
}

impl Profile {
    /// The lists, from a result of `bench`.
    pub fn of(result: &BenchResult) -> Self {
        let list = |belongs: fn(&Workload) -> bool| -> Vec<Cell> {
            result.cells.iter().filter(|cell| belongs(&cell.workload)).map(Cell::of).collect()
        };
        let mut blocks = list(|cell| cell.read_share == 100 && cell.depth == 1);
        let mut mixes = list(|cell| cell.block_size == BASE_BLOCK_BYTES && cell.depth == 1);
        let mut depths = list(is_of_depths);
        blocks.sort_by_key(|cell| cell.block_bytes);
        mixes.sort_by_key(|cell| std::cmp::Reverse(cell.read_share));
        depths.sort_by_key(|cell| cell.depth);
        let small_writes = list(|cell| cell.block_size == SMALL_BLOCK_BYTES && cell.read_share == 0);
        let is_depth = |cell: &&CellResult| is_of_depths(&cell.workload);
        let products = result.cells.iter().filter(is_depth).filter_map(Product::of_result);
        let mut products: Vec<Product> = products.collect();
        products.sort_by_key(|product| product.depth);
        Self { blocks, mixes, depths, products, small_writes: small_writes.into_iter().next() }
    }

    /// The cell that all lists have in common: blocks of 16 KiB, read one at a time at random
    /// places.
    pub fn base(result: &BenchResult) -> Option<&CellResult> {
        result.cells.iter().find(|CellResult { workload, .. }| {
            let base = (workload.pattern, workload.block_size, workload.read_share, workload.depth);
            base == (Pattern::Random, BASE_BLOCK_BYTES, 100, 1)
        })
    }
}

/// Whether a cell is one of those at growing depth.
fn is_of_depths(cell: &Workload) -> bool {
    cell.block_size == BASE_BLOCK_BYTES && cell.read_share == 100
}
