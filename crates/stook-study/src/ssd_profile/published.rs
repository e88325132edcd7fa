//! The printed figures of the published study of an SSD: fio on Windows, a minute per cell on a
//! file of 1 GiB, one job, in order (`--rw=read`, `--rw=rw`); it states neither the engine nor
//! whether the page cache was bypassed. Defaults were 16 KiB, depth 1, reads only. The small writes
//! were at random places; it gives no command for them, and so no depth: it is assumed to be 1 as
//! elsewhere.
//!
//! Sums over reads and writes, products and fits follow from these figures.

use serde::{Serialize, Serializer};
use stook::bench::gates::State;
use stook::report::least_squares::Estimate;

use super::cells::{BASE_BLOCK_BYTES, Cell, Part, Profile, SMALL_BLOCK_BYTES};

/// Requests per second, decimal MB/s, mean latency in µs.
type Row = [f64; 3];

/// Block size in KiB.
const BLOCKS: [(u64, Row); 5] = [
    (4, [54_000.0, 221.0, 17.76]),
    (16, [48_800.0, 799.0, 19.78]),
    (32, [40_800.0, 1336.0, 23.75]),
    (128, [22_300.0, 2917.0, 44.1]),
    (512, [7549.0, 3958.0, 131.29]),
];

/// Requests in flight.
const DEPTHS: [(u64, Row); 5] = [
    (1, [46_500.0, 762.0, 20.7]),
    (4, [101_000.0, 1657.0, 29.28]),
    (32, [108_000.0, 1769.0, 155.56]),
    (256, [106_000.0, 1735.0, 1200.89]),
    (1024, [94_300.0, 1545.0, 5363.49]),
];

/// Share of reads in per cent; reads, writes.
const MIXES: [(u8, Option<Row>, Option<Row>); 5] = [
    (100, Some([47_800.0, 783.0, 20.17]), None),
    (70, Some([28_500.0, 467.0, 21.55]), Some([12_100.0, 199.0, 28.46])),
    (50, Some([20_600.0, 337.0, 20.29]), Some([20_500.0, 336.0, 26.39])),
    (30, Some([11_900.0, 195.0, 20.95]), Some([27_600.0, 452.0, 25.92])),
    (0, None, Some([37_000.0, 607.0, 25.79])),
];

/// Random writes of 4 KiB, without a printed bandwidth: `null` in JSON.
const SMALL_WRITES: Row = [37_600.0, f64::NAN, 25.63];

/// The published tables as cells. They came without percentiles and without checks.
pub fn profile() -> Profile {
    let read = |block_bytes, depth, row| cell(block_bytes, depth, 100, Some(row), None);
    Profile {
        blocks: BLOCKS.map(|(kib, row)| read(kib << 10, 1, row)).into(),
        mixes: MIXES.map(|(share, read, write)| cell(BASE_BLOCK_BYTES, 1, share, read, write)).into(),
        depths: DEPTHS.map(|(depth, row)| read(BASE_BLOCK_BYTES, depth, row)).into(),
        small_writes: Some(cell(SMALL_BLOCK_BYTES, 1, 0, None, Some(SMALL_WRITES))),
    }
}

fn cell(block_bytes: u64, depth: u64, read_share: u8, read: Option<Row>, write: Option<Row>) -> Cell {
    let part = |[rate_per_s, megabytes_per_s, us]: Row| Part {
        rate_per_s,
        bandwidth_bytes_per_s: megabytes_per_s * 1e6,
        latency_mean_s: us / 1e6,
    };
    let (read, write) = (read.map(part), write.map(part));
    let sum = |figure: fn(&Part) -> f64| [read, write].iter().flatten().map(figure).sum::<f64>();
    let rate_per_s = sum(|part| part.rate_per_s);
    let latency_mean_s = sum(|part| part.rate_per_s * part.latency_mean_s) / rate_per_s;
    Cell {
        block_bytes,
        read_share,
        depth,
        rate_per_s: Estimate::exactly(rate_per_s),
        bandwidth_bytes_per_s: sum(|part| part.bandwidth_bytes_per_s),
        latency_mean_s,
        latency_p99_s: None,
        little_ratio: rate_per_s * latency_mean_s / depth as f64,
        read,
        write,
        state: State::Unverified,
        reasons: vec!["the study says nothing of checks".to_owned()],
    }
}

/// A cell as JSON has it: with the names of what was not printed, but computed or assumed.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    cell: &'a Cell,
    computed: &'static [&'static str],
    /// What the document does not say, and was taken to be as elsewhere in it.
    assumed: &'static [&'static str],
}

impl<'a> Printed<'a> {
    fn of(cell: &'a Cell) -> Self {
        Self::assuming(cell, &[])
    }

    fn assuming(cell: &'a Cell, assumed: &'static [&'static str]) -> Self {
        let computed: &[&str] = match (cell.read, cell.write) {
            (Some(_), Some(_)) => &["rate_per_s", "bandwidth_bytes_per_s", "latency_mean_s", "little_ratio"],
            _ => &["little_ratio"],
        };
        Self { cell, computed, assumed }
    }
}

/// The tables, each cell with what of it was computed.
pub(super) fn serialize<S: Serializer>(profile: &Profile, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Tables<'a> {
        blocks: Vec<Printed<'a>>,
        mixes: Vec<Printed<'a>>,
        depths: Vec<Printed<'a>>,
        small_writes: Option<Printed<'a>>,
    }
    let tables = Tables {
        blocks: profile.blocks.iter().map(Printed::of).collect(),
        mixes: profile.mixes.iter().map(Printed::of).collect(),
        depths: profile.depths.iter().map(Printed::of).collect(),
        small_writes: profile.small_writes.as_ref().map(|cell| Printed::assuming(cell, &["depth"])),
    };
    tables.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_are_rates_times_blocks() {
        let profile = profile();
        for cell in profile.blocks.iter().chain(&profile.mixes).chain(&profile.depths) {
            let ratio = cell.bandwidth_bytes_per_s / (cell.rate_per_s.value * cell.block_bytes as f64);
            assert!((ratio - 1.0).abs() < 0.005, "{cell:?}: {ratio}");
        }
    }

    /// The tables of the document, "Raw Data", and its sentence on small writes.
    const DOCUMENT: &str = "\
| Block Size (KB) | IOPS | MBps | Latency (us) |
| 4 | 54000 | 221 | 17.76 |
| 16 | 48800 | 799 | 19.78 |
| 32 | 40800 | 1336 | 23.75 |
| 128 | 22300 | 2917 | 44.1 |
| 512 | 7549 | 3958 | 131.29 |
| Read % | Read IOPS | Read MBps | Read Latency (us) | Write IOPS | Write MBps | Write Latency (us) |
| 100% | 47800 | 783 | 20.17 | NA | NA | NA |
| 70% | 28500 | 467 | 21.55 | 12100 | 199 | 28.46 |
| 50% | 20600 | 337 | 20.29 | 20500 | 336 | 26.39 |
| 30% | 11900 | 195 | 20.95 | 27600 | 452 | 25.92 |
| 0% | NA | NA | NA | 37000 | 607 | 25.79 |
| Queue Depth | IOPS | MBps | Latency (us) |
| 1 | 46500 | 762 | 20.7 |
| 4 | 101000 | 1657 | 29.28 |
| 32 | 108000 | 1769 | 155.56 |
| 256 | 106000 | 1735 | 1200.89 |
| 1024 | 94300 | 1545 | 5363.49 |
None of my other experiments included a random write-only 4KB test, so I performed one, \
seeing an IOPS of 37.6k and a latency of 25.63us.";

    /// Before: 154 MB/s for the small writes, which is printed nowhere.
    #[test]
    fn every_published_figure_stands_in_the_document() {
        let row = |row: Row| row.map(|figure| figure.to_string()).join(" | ");
        let part = |part: Option<Row>| part.map_or_else(|| "NA | NA | NA".to_owned(), row);
        let blocks = BLOCKS.map(|(kib, figures)| format!("| {kib} | {} |", row(figures)));
        let depths = DEPTHS.map(|(depth, figures)| format!("| {depth} | {} |", row(figures)));
        let mixes =
            MIXES.map(|(share, read, write)| format!("| {share}% | {} | {} |", part(read), part(write)));
        let printed: Vec<&str> = DOCUMENT.lines().collect();
        for line in [blocks, mixes, depths].as_flattened() {
            assert!(printed.contains(&line.as_str()), "{line}");
        }
        let [rate_per_s, megabytes_per_s, us] = SMALL_WRITES;
        assert!(DOCUMENT.ends_with(&format!("an IOPS of {}k and a latency of {us}us.", rate_per_s / 1e3)));
        let small = profile().small_writes.unwrap();
        assert!(megabytes_per_s.is_nan() && small.bandwidth_bytes_per_s.is_nan());
        assert!(small.write.unwrap().bandwidth_bytes_per_s.is_nan() && small.little_ratio > 0.9);
    }

    #[test]
    fn the_published_depth_table_leaves_half_of_the_latency_out() {
        let ratios: Vec<String> =
            profile().depths.iter().map(|cell| format!("{:.2}", cell.little_ratio)).collect();
        assert_eq!(ratios, ["0.96", "0.74", "0.53", "0.50", "0.49"]);
    }

    /// Before: sums over reads and writes were among the printed figures without a mark.
    #[test]
    fn what_is_computed_from_published_figures_is_named() {
        let tables = serialize(&profile(), serde_json::value::Serializer).unwrap();
        let computed = |cell: &serde_json::Value| cell["computed"].as_array().unwrap().len();
        let all = |name: &str| tables[name].as_array().unwrap().iter().map(computed).collect::<Vec<_>>();
        assert_eq!((all("blocks"), all("mixes")), (vec![1; 5], vec![1, 4, 4, 4, 1]));
        assert_eq!((all("depths"), computed(&tables["small_writes"])), (vec![1; 5], 1));
        // Before: a depth of 1 stood among the printed figures, which the document does not state.
        assert_eq!(tables["small_writes"]["assumed"], serde_json::json!(["depth"]));
        assert_eq!(tables["blocks"][0]["assumed"], serde_json::json!([]));
        let mix = &tables["mixes"][1];
        let names = mix["computed"].as_array().unwrap();
        assert!(names.iter().all(|name| mix[name.as_str().unwrap()] != serde_json::Value::Null), "{mix}");
    }
}
