//! The plan of the study: the published cells in order and at random places, the four lines of a
//! well-known tool, and block against depth.

use stook::bench::{Pattern, Preset, Workload};

use super::cells::SMALL_BLOCK_BYTES;

/// Blocks of the map.
pub(super) const MAP_BLOCKS: [u64; 4] = [4 << 10, 16 << 10, 128 << 10, 1 << 20];
/// Depths of the map.
pub(super) const MAP_DEPTHS: [u32; 4] = [1, 4, 32, 256];
/// The study keeps to this much memory in flight.
pub(super) const IN_FLIGHT_MAX: u64 = 64 << 20;

/// Everything that is measured, each cell once, with the rest from `base`.
pub(super) fn cells(base: &Workload, time_s: f64) -> Vec<Workload> {
    let time_s = Some(time_s);
    // Of both lists those that only read come first.
    let mut published = [sequential(base, time_s), Preset::Ssd.cells(base, time_s)].concat();
    published.sort_by_key(Workload::writes);
    let lists = [Preset::Quick.cells(base, time_s), map(base, time_s), published];
    let mut cells: Vec<Workload> = Vec::new();
    // The published cells come last, because some of them write: pending work of writes slows
    // reads.
    for cell in lists.into_iter().flatten() {
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
    cells
}

/// The published cells as they were published: in order, and its small writes at random places.
pub(super) fn as_published(base: &Workload, time_s: Option<f64>) -> Vec<Workload> {
    let small = |cell: &Workload| cell.block_size == SMALL_BLOCK_BYTES && cell.writes();
    let mut cells = sequential(base, time_s);
    cells.extend(Preset::Ssd.cells(base, time_s).into_iter().filter(small));
    cells
}

/// Writes as drives are rated: of 1 MiB in order, eight at once.
pub(super) fn rated_writes(base: &Workload, time_s: f64) -> Workload {
    Workload {
        pattern: Pattern::Sequential,
        read_share: 0,
        block_size: 1 << 20,
        depth: 8,
        time_s: Some(time_s),
        ..base.clone()
    }
}

/// The published cells as they were published: in order (`read`, `rw`). Its small writes were at
/// random places, and are among the others.
pub(super) fn sequential(base: &Workload, time_s: Option<f64>) -> Vec<Workload> {
    let cells = Preset::Ssd.cells(base, time_s).into_iter();
    let cells = cells.filter(|cell| cell.block_size != SMALL_BLOCK_BYTES || !cell.writes());
    cells.map(|cell| Workload { pattern: Pattern::Sequential, ..cell }).collect()
}

fn map(base: &Workload, time_s: Option<f64>) -> Vec<Workload> {
    let fields = MAP_BLOCKS.into_iter().flat_map(|block| MAP_DEPTHS.map(|depth| (block, depth)));
    let fields = fields.filter(|&(block, depth)| in_flight(block, depth) <= IN_FLIGHT_MAX);
    let cell = |(block_size, depth)| Workload {
        pattern: Pattern::Random,
        read_share: 100,
        jobs: 1,
        block_size,
        depth,
        time_s,
        ..base.clone()
    };
    fields.map(cell).collect()
}

/// Bytes that are in flight at once.
pub(super) fn in_flight(block_bytes: u64, depth: u32) -> u64 {
    block_bytes * u64::from(depth)
}

/// Whether two cells have the same parameters, except for their duration.
pub(super) fn same(a: &Workload, b: &Workload) -> bool {
    let asked = |cell: &Workload| (cell.pattern, cell.block_size, cell.read_share, cell.depth, cell.jobs);
    asked(a) == asked(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_measured_once_and_reads_come_before_writes() {
        let base = Workload { ramp_s: 0.5, ..Workload::default() };
        let found = cells(&base, 4.0);
        assert_eq!(found.len(), 38);
        assert_eq!(sequential(&base, Some(4.0)).len(), 13);
        for (index, cell) in found.iter().enumerate() {
            cell.check().unwrap();
            assert!(found.iter().skip(index + 1).all(|other| !same(cell, other)), "{cell:?}");
            assert!((cell.time_s, cell.ramp_s) == (Some(4.0), 0.5), "{cell:?}");
        }
        for preset in [Preset::Quick, Preset::Ssd] {
            let wanted = preset.cells(&base, None);
            assert!(wanted.iter().all(|cell| found.iter().any(|other| same(cell, other))));
        }
        let first_write = found.iter().position(Workload::writes).unwrap();
        assert!(found.iter().skip(first_write).all(Workload::writes));
        assert!(found.iter().all(|cell| in_flight(cell.block_size, cell.depth) <= IN_FLIGHT_MAX));
    }
}
