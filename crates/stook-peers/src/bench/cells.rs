//! What is measured with both tools: block sizes, depths and mixes, one of them changed at a time.

use stook::bench::{Pattern, Workload};

/// The cell for which a bound on processor time was promised.
pub(crate) const CPU_CELL: &str = "randread 4K depth 32";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Pattern, read share, block size, depth: those of `--preset ssd`, and more. Reads come first,
/// because writes leave work to the device.
const CELLS: [(Pattern, u8, u64, u32); 27] = [
    (Pattern::Random, 100, 4 * KIB, 1),
    (Pattern::Random, 100, 4 * KIB, 4),
    (Pattern::Random, 100, 4 * KIB, 32),
    (Pattern::Random, 100, 4 * KIB, 256),
    (Pattern::Random, 100, 16 * KIB, 1),
    (Pattern::Random, 100, 16 * KIB, 4),
    (Pattern::Random, 100, 16 * KIB, 32),
    (Pattern::Random, 100, 16 * KIB, 256),
    (Pattern::Random, 100, 16 * KIB, 1024),
    (Pattern::Random, 100, 32 * KIB, 1),
    (Pattern::Random, 100, 64 * KIB, 8),
    (Pattern::Random, 100, 128 * KIB, 1),
    (Pattern::Random, 100, 512 * KIB, 1),
    (Pattern::Random, 100, MIB, 1),
    (Pattern::Random, 100, MIB, 8),
    (Pattern::Sequential, 100, 128 * KIB, 4),
    (Pattern::Sequential, 100, MIB, 8),
    (Pattern::Random, 70, 4 * KIB, 32),
    (Pattern::Random, 70, 16 * KIB, 1),
    (Pattern::Random, 50, 16 * KIB, 1),
    (Pattern::Random, 30, 16 * KIB, 1),
    (Pattern::Random, 30, 16 * KIB, 8),
    (Pattern::Random, 0, 16 * KIB, 1),
    (Pattern::Random, 0, 4 * KIB, 1),
    (Pattern::Random, 0, 4 * KIB, 32),
    (Pattern::Random, 0, 128 * KIB, 4),
    (Pattern::Sequential, 0, MIB, 4),
];

/// The cells, each measured for `time_s` after `ramp_s`.
pub(crate) fn cells(time_s: f64, ramp_s: f64) -> Vec<Workload> {
    CELLS
        .iter()
        .map(|&(pattern, read_share, block_size, depth)| Workload {
            pattern,
            read_share,
            block_size,
            depth,
            ramp_s,
            time_s: Some(time_s),
            ..Workload::default()
        })
        .collect()
}

/// What a cell is called: `randrw 70% 4K depth 32`.
pub(crate) fn name(cell: &Workload) -> String {
    let share = match cell.read_share {
        0 | 100 => String::new(),
        share => format!(" {share}%"),
    };
    let block = match cell.block_size {
        size if size.is_multiple_of(MIB) => format!("{}M", size / MIB),
        size => format!("{}K", size / KIB),
    };
    format!("{}{share} {block} depth {}", cell.rw(), cell.depth)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use stook::bench::Preset;

    use super::*;

    #[test]
    fn the_cells_span_what_was_promised() {
        let cells = cells(5.0, 1.0);
        assert!(cells.len() >= 15);
        cells.iter().for_each(|cell| cell.check().unwrap());
        let range = |of: fn(&Workload) -> u64| {
            let values: BTreeSet<u64> = cells.iter().map(of).collect();
            (values.first().copied(), values.last().copied())
        };
        assert_eq!(range(|cell| cell.block_size), (Some(4 * KIB), Some(MIB)));
        assert_eq!(range(|cell| u64::from(cell.depth)), (Some(1), Some(1024)));
        assert_eq!(range(|cell| u64::from(cell.read_share)), (Some(0), Some(100)));
        let preset = Preset::Ssd.cells(&Workload { ramp_s: 1.0, ..Workload::default() }, Some(5.0));
        assert!(preset.iter().all(|cell| cells.contains(cell)), "each cell of the preset is compared");
    }

    #[test]
    fn names_tell_cells_apart() {
        let names: BTreeSet<String> = cells(5.0, 1.0).iter().map(name).collect();
        assert_eq!(names.len(), CELLS.len());
        for expected in [CPU_CELL, "randrw 70% 4K depth 32", "write 1M depth 4"] {
            assert!(names.contains(expected), "{expected}");
        }
    }
}
