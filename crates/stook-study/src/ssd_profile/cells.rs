//! [`Profile`]: the cells that the study looks at, whether they were measured here or published.

use serde::Serialize;
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

/// The sweeps, one parameter at a time; the same cell may be in several lists.
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

impl Profile {
    /// The lists, from a result of `bench`.
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

    /// The cell that all lists have in common: blocks of 16 KiB, read one at a time at random
    /// places.
    pub fn base(result: &BenchResult) -> Option<&CellResult> {
        result.cells.iter().find(|CellResult { workload, .. }| {
            let base = (workload.pattern, workload.block_size, workload.read_share, workload.depth);
            base == (Pattern::Random, BASE_BLOCK_BYTES, 100, 1)
        })
    }
}
