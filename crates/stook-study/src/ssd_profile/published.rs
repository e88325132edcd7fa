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

use super::cells::{BASE_BLOCK_BYTES, Cell, Part, Product, Profile, SMALL_BLOCK_BYTES};
use crate::frame::{Document, Printed};

/// The document.
pub const DOCUMENT: Document = Document {
    title: "Project 3",
    of: "a report on an SSD",
    on: "It measured a Sabrent Rocket 4.0 Plus (1 TB) on Windows, each cell for 60 seconds.",
    tables: &[BLOCKS, MIXES, DEPTHS, TEXT],
};

/// Reads one at a time, of growing blocks.
pub const BLOCKS: Printed = Printed {
    section: "Raw Data",
    caption: "Varying Block Size",
    columns: &["Block Size (KB)", "IOPS", "MBps", "Latency (us)"],
    rows: &[
        &["4", "54000", "221", "17.76"],
        &["16", "48800", "799", "19.78"],
        &["32", "40800", "1336", "23.75"],
        &["128", "22300", "2917", "44.1"],
        &["512", "7549", "3958", "131.29"],
    ],
};

/// From reads only to writes only.
pub const MIXES: Printed = Printed {
    section: "Raw Data",
    caption: "Varying Read/Write Percentage",
    columns: &[
        "Read %",
        "Read IOPS",
        "Read MBps",
        "Read Latency (us)",
        "Write IOPS",
        "Write MBps",
        "Write Latency (us)",
        "Normalized Read",
        "Normalized Write",
    ],
    rows: &[
        &["100%", "47800", "783", "20.17", "NA", "NA", "NA", "47800", "NA"],
        &["70%", "28500", "467", "21.55", "12100", "199", "28.46", "40714.28571", "40333.33333"],
        &["50%", "20600", "337", "20.29", "20500", "336", "26.39", "41200", "41000"],
        &["30%", "11900", "195", "20.95", "27600", "452", "25.92", "39666.66667", "39428.57143"],
        &["0%", "NA", "NA", "NA", "37000", "607", "25.79", "NA", "37000"],
    ],
};

/// Reads at growing depth.
pub const DEPTHS: Printed = Printed {
    section: "Raw Data",
    caption: "Varying Queue Depth",
    columns: &["Queue Depth", "IOPS", "MBps", "Latency (us)"],
    rows: &[
        &["1", "46500", "762", "20.7"],
        &["4", "101000", "1657", "29.28"],
        &["32", "108000", "1769", "155.56"],
        &["256", "106000", "1735", "1200.89"],
        &["1024", "94300", "1545", "5363.49"],
    ],
};

/// The figures in its text, without those that its tables have.
pub const TEXT: Printed = Printed {
    section: "Extra Analysis",
    caption: "Figures in the text",
    columns: &["What", "Figure"],
    rows: &[
        &["Random writes of 4 KB, per second", "37.6k"],
        &["Random writes of 4 KB, latency", "25.63us"],
        &["Sequential reads, advertised", "7100MBps"],
        &["Sequential reads, reached", "6000MBps"],
        &["How long such speed lasts", "a minute or so"],
        &["What the drive may write, of up to 8TB", "1400TB"],
        &["What a D7-P5600 of 6.4TB may write (TBW)", "8800"],
        &["Its life, for the same capacity", "almost 8x"],
        &["Its sequential reads, against those of the drive", "half"],
        &["The same a second time (writes may be meant)", "a fourth"],
        &["Age of the drive", "3 year old"],
        &["Size of a program read in under a minute", "multiple hundred GB"],
    ],
};

/// Requests per second, decimal MB/s, mean latency in µs.
type Row = [f64; 3];

/// Random writes of 4 KiB, without a printed bandwidth: `null` in JSON.
const SMALL_WRITES: Row = [37_600.0, f64::NAN, 25.63];

/// Three columns from this one on, if they are printed.
fn figures(printed: &Printed, row: usize, first: usize) -> Option<Row> {
    let figure = |column| printed.number(row, first + column);
    Some([figure(0)?, figure(1)?, figure(2)?])
}

/// The published tables as cells. They came without percentiles and without checks.
pub fn profile() -> Profile {
    let rows = |printed: &'static Printed| {
        let first = move |row| Some((row, printed.number(row, 0)? as u64));
        (0..printed.rows.len()).filter_map(first)
    };
    let read = |block_bytes, depth, row| cell(block_bytes, depth, 100, row, None);
    let mix = |(row, share)| {
        let [read, write] = [1, 4].map(|first| figures(&MIXES, row, first));
        cell(BASE_BLOCK_BYTES, 1, share as u8, read, write)
    };
    let depth = |(row, depth)| read(BASE_BLOCK_BYTES, depth, figures(&DEPTHS, row, 1));
    let depths: Vec<Cell> = rows(&DEPTHS).map(depth).collect();
    Profile {
        blocks: rows(&BLOCKS).map(|(row, kib)| read(kib << 10, 1, figures(&BLOCKS, row, 1))).collect(),
        mixes: rows(&MIXES).map(mix).collect(),
        products: depths.iter().filter_map(Product::of).collect(),
        depths,
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
struct CellInJson<'a> {
    #[serde(flatten)]
    cell: &'a Cell,
    computed: &'static [&'static str],
    /// What the document does not say, and was taken to be as elsewhere in it.
    assumed: &'static [&'static str],
}

impl<'a> CellInJson<'a> {
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
        blocks: Vec<CellInJson<'a>>,
        mixes: Vec<CellInJson<'a>>,
        depths: Vec<CellInJson<'a>>,
        small_writes: Option<CellInJson<'a>>,
    }
    let tables = Tables {
        blocks: profile.blocks.iter().map(CellInJson::of).collect(),
        mixes: profile.mixes.iter().map(CellInJson::of).collect(),
        depths: profile.depths.iter().map(CellInJson::of).collect(),
        small_writes: profile.small_writes.as_ref().map(|cell| CellInJson::assuming(cell, &["depth"])),
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

    /// Before: 154 MB/s for the small writes, which is printed nowhere.
    #[test]
    fn the_cells_are_the_printed_figures() {
        let profile = profile();
        assert_eq!((profile.blocks.len(), profile.mixes.len(), profile.depths.len()), (5, 5, 5));
        let [rate_per_s, megabytes_per_s, us] = SMALL_WRITES;
        assert_eq!(format!("{}k {us}us", rate_per_s / 1e3), [TEXT.rows[0][1], TEXT.rows[1][1]].join(" "));
        let small = profile.small_writes.unwrap();
        assert!(megabytes_per_s.is_nan() && small.bandwidth_bytes_per_s.is_nan());
        assert!(small.write.unwrap().bandwidth_bytes_per_s.is_nan() && small.little_ratio > 0.9);
        let half = &profile.mixes[2];
        assert_eq!(
            (half.read_share, half.read.unwrap().rate_per_s, half.write.unwrap().rate_per_s),
            (50, 20_600.0, 20_500.0)
        );
        assert!(profile.mixes[4].read.is_none() && profile.mixes[0].write.is_none());
    }

    /// What it calls normalised follows from the rates and shares beside it.
    #[test]
    fn normalised_rates_are_rates_by_their_share() {
        for row in 0..MIXES.rows.len() {
            let share = MIXES.number(row, 0).unwrap() / 100.0;
            for (rate, share, normalised) in [(1, share, 7), (4, 1.0 - share, 8)] {
                let Some(rate) = MIXES.number(row, rate) else { continue };
                let printed = MIXES.number(row, normalised).unwrap();
                assert!((rate / share / printed - 1.0).abs() < 1e-6, "{row}: {printed}");
            }
        }
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
