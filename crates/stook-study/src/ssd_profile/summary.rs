//! The device in four lines, and block against depth: cells that the published study did not look
//! at.

use serde::Serialize;
use stook::bench::{BenchResult, CellResult, Pattern, Preset, Workload};
use stook::report::units::{bytes_binary, count};

use super::cells::Cell;
use super::plan::{self, IN_FLIGHT_MAX, MAP_BLOCKS, MAP_DEPTHS};

/// One of the lines that users of CrystalDiskMark and KDiskMark know a device by.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Its usual name: `SEQ1M Q8`.
    pub name: String,
    /// What was found; it says whether it may be believed.
    pub cell: Cell,
}

/// One field of the map of block and depth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Field {
    /// Bytes of each read.
    pub block_bytes: u64,
    /// Reads in flight.
    pub depth: u64,
    /// What was found.
    pub cell: Option<Cell>,
    /// Why nothing was measured.
    pub left_out: Option<String>,
}

/// The four lines.
pub(super) fn lines(result: &BenchResult) -> Vec<Line> {
    let wanted = Preset::Quick.cells(&Workload::default(), None);
    wanted
        .iter()
        .filter_map(|wanted| Some(Line { name: name(wanted), cell: Cell::of(find(result, wanted)?) }))
        .collect()
}

/// A size without digits that say nothing: `4 KiB`.
pub(super) fn size(bytes: u64) -> String {
    bytes_binary(bytes).replace(".00 ", " ").replace(".0 ", " ")
}

fn name(workload: &Workload) -> String {
    let (kind, size) = match workload.pattern {
        Pattern::Sequential => ("SEQ", workload.block_size),
        Pattern::Random => ("RND", workload.block_size),
    };
    let size = if size >= 1 << 20 { format!("{}M", size >> 20) } else { format!("{}K", size >> 10) };
    format!("{kind}{size} Q{}", workload.depth)
}

/// Every field of the map, row after row.
pub(super) fn map(result: &BenchResult) -> Vec<Field> {
    let fields = MAP_BLOCKS.into_iter().flat_map(|block| MAP_DEPTHS.map(|depth| (block, depth)));
    fields.map(|(block_bytes, depth)| field(result, block_bytes, depth)).collect()
}

fn field(result: &BenchResult, block_bytes: u64, depth: u32) -> Field {
    let wanted = Workload {
        pattern: Pattern::Random,
        read_share: 100,
        jobs: 1,
        block_size: block_bytes,
        depth,
        ..Workload::default()
    };
    let cell = find(result, &wanted).map(Cell::of);
    let in_flight = plan::in_flight(block_bytes, depth);
    let left_out = (cell.is_none() && in_flight > IN_FLIGHT_MAX).then(|| {
        format!(
            "{} reads of {} at once take {} of memory, and the study keeps to {}",
            count(u64::from(depth)),
            size(block_bytes),
            size(in_flight),
            size(IN_FLIGHT_MAX),
        )
    });
    Field { block_bytes, depth: u64::from(depth), cell, left_out }
}

fn find<'a>(result: &'a BenchResult, wanted: &Workload) -> Option<&'a CellResult> {
    result.cells.iter().find(|cell| plan::same(&cell.workload, wanted))
}

/// What was measured at random places, of what the published study varied.
pub(super) fn random_cells(result: &BenchResult) -> BenchResult {
    retained(result, &Preset::Ssd.cells(&Workload::default(), None))
}

/// What was measured in order, as it was published, and the small writes at random places.
pub(super) fn sequential_cells(result: &BenchResult) -> BenchResult {
    retained(result, &plan::as_published(&Workload::default(), None))
}

fn retained(result: &BenchResult, wanted: &[Workload]) -> BenchResult {
    let mut result = result.clone();
    result.cells.retain(|cell| wanted.iter().any(|wanted| plan::same(&cell.workload, wanted)));
    result
}
