//! What all studies say, of this one.

use stook::report::units::{bytes_binary, rate, significant};

use super::cells::{Cell, Part, Profile};
use super::published::{self, BLOCKS, DEPTHS, MIXES, TEXT};
use super::unstated::{OtherWay, engine_of};
use super::{Findings, page};
use crate::frame::{Beside, Contradiction, Frame, NONE, Plot, Step};
use crate::text::duration_s;

pub(super) fn frame(findings: &Findings) -> Frame {
    Frame {
        verdict: findings.verdict.clone(),
        tables: tables(findings),
        plots: PLOTS.into(),
        procedure: procedure(findings),
        conclusions: findings.conclusions.clone(),
        facts: page::facts(&findings.result),
        ..Frame::of(published::DOCUMENT, &CONTRADICTIONS, &findings.environment)
    }
}

/// Our columns: in order, as published, and then at random places.
const HERE: [&str; 6] =
    ["Here, in order: IOPS", "MB/s", "Latency (µs)", "Here, at random: IOPS", "MB/s", "Latency (µs)"];

fn tables(findings: &Findings) -> Vec<Beside> {
    let both = [&findings.sequential, &findings.profile];
    let list = |pick: fn(&Profile) -> &Vec<Cell>, row: usize| {
        let cells = both.map(|profile| pick(profile).get(row));
        let parts = cells.map(|cell| cell.filter(|cell| cell.counts()).map(super::cells::whole));
        six(parts)
    };
    vec![
        Beside::new(BLOCKS, HERE, |row| list(|profile| &profile.blocks, row)),
        Beside::new(MIXES, MIX_HERE, |row| mix(&findings.sequential, row)),
        Beside::new(DEPTHS, HERE, |row| list(|profile| &profile.depths, row)),
        Beside::new(TEXT, ["Here"], |row| [of_text(findings, row)]),
    ]
}

fn figures(part: Option<Part>) -> [String; 3] {
    part.map_or_else(
        || [NONE; 3].map(str::to_owned),
        |part| {
            [
                significant(part.rate_per_s),
                significant(part.bandwidth_bytes_per_s / 1e6),
                significant(part.latency_mean_s * 1e6),
            ]
        },
    )
}

fn six(parts: [Option<Part>; 2]) -> [String; 6] {
    let [[a, b, c], [d, e, f]] = parts.map(figures);
    [a, b, c, d, e, f]
}

const MIX_HERE: [&str; 8] = [
    "Here, in order: read IOPS",
    "MB/s",
    "Latency (µs)",
    "Write IOPS",
    "MB/s",
    "Latency (µs)",
    "Normalised read",
    "Normalised write",
];

fn mix(profile: &Profile, row: usize) -> [String; 8] {
    let cell = profile.mixes.get(row).filter(|cell| cell.counts());
    let parts = [cell.and_then(|cell| cell.read), cell.and_then(|cell| cell.write)];
    let share = f64::from(cell.map_or(0, |cell| cell.read_share)) / 100.0;
    let [[a, b, c], [d, e, f]] = parts.map(figures);
    let normalised = |part: Option<Part>, share: f64| {
        part.map_or_else(|| NONE.to_owned(), |part| significant(part.rate_per_s / share))
    };
    let [reads, writes] = parts;
    [a, b, c, d, e, f, normalised(reads, share), normalised(writes, 1.0 - share)]
}

/// What is known here of the figures in its text, in the order of their rows.
fn of_text(findings: &Findings, row: usize) -> String {
    let cell = findings.sequential.small_writes.as_ref().filter(|cell| cell.counts());
    let [best, _] = findings.best_bytes_per_s;
    let falls = || {
        let falls = findings.long_runs.iter().filter(|run| run.doubt.is_none());
        falls.filter_map(|run| Some(run.run.burst?.burst_s)).min_by(f64::total_cmp)
    };
    let wear = &findings.wear;
    let written = || wear.endurance_tb_per_tb().zip(wear.capacity_bytes);
    let known = match row {
        0 => cell.map(|cell| significant(cell.rate_per_s.value)),
        1 => cell.map(|cell| duration_s(cell.latency_mean_s)),
        2 => findings.rated.read_bytes_per_s.map(rate),
        3 => best.map(rate),
        4 => falls().map(duration_s),
        5 => {
            written().map(|(each, bytes)| format!("{:.0} TB, as it wore so far", each * bytes as f64 / 1e12))
        }
        11 => best.map(|best| format!("{:.0} GB at the best rate", best * 60.0 / 1e9)),
        _ => None,
    };
    known.unwrap_or_else(|| NONE.to_owned())
}

const PLOTS: [Plot; 6] = [
    Plot {
        section: "Latency, Block Size",
        shows: "Latency against block size",
        here: "“Mean latency of a read against the size of its block”",
    },
    Plot {
        section: "Latency, Read/Write ratio",
        shows: "Latency against the ratio of reads to writes",
        here: "“Mean latency of reads and of writes against the mix”",
    },
    Plot {
        section: "Latency, I/O queue",
        shows: "Latency against queue depth",
        here: "“Mean latency against depth”",
    },
    Plot {
        section: "Bandwidth, Block Size",
        shows: "IOPS and MB/s against block size",
        here: "“Reads per second” and “Bandwidth” against the size of the block",
    },
    Plot {
        section: "Bandwidth, Read/Write ratio",
        shows: "Throughput against the ratio, normalised",
        here: "“Reads and writes per second against the mix”, and “Reads and writes per second, each ÷ its share”",
    },
    Plot {
        section: "Bandwidth, I/O queue",
        shows: "Throughput against queue depth",
        here: "“Reads per second” and “Bandwidth” against depth",
    },
];

fn procedure(findings: &Findings) -> Vec<Step> {
    let result = &findings.result;
    let base = result.cells.first().map(|cell| &cell.workload);
    let time = base.and_then(|workload| workload.time_s).map_or_else(|| NONE.to_owned(), duration_s);
    let rounds = base.and(result.cells.first()).map_or(0, |cell| cell.runs.len());
    let steps = [
        Step::same(
            "Blocks of 4 to 512 KB; depths of 1 to 1024; 100% to 0% reads; the rest 16 KB, depth 1, reads",
            "The same",
        ),
        Step::same(
            "In order: `--rw=read`, `--rw=rw`, one job",
            "The same, and everything at random places beside it, which is ours",
        ),
        Step::same("Random writes of 4 KB", "The same, at depth 1, which the document does not state"),
        Step::other(
            "fio for Windows, a file on E:",
            "`stook bench` on Linux, below this directory",
            "what runs here is Linux; the jobs for fio are at the end of this page",
        ),
        Step::other(
            "A file of 1G",
            format!("A file of {}, full of data that cannot be compressed", bytes_binary(result.file_bytes)),
            "what is in the file is not stated; its length can be set",
        ),
        Step::other(
            "60 seconds for each cell; how many runs is not stated",
            format!("{time} for each cell in each round, {rounds} in all"),
            "38 cells of a minute take 38 minutes, and the others up to 14: `--runs 1 --time 1m` does it",
        ),
        Step::other(
            "No check",
            "Every cell goes through the checks of `stook bench`",
            "a figure that no check could be made of is no finding",
        ),
    ];
    steps.into_iter().chain(not_stated(findings)).collect()
}

/// What the document does not state, or only supposes.
fn not_stated(findings: &Findings) -> [Step; 5] {
    [
        Step::other(
            "Whether past the page cache (`--direct`) is not stated",
            "Past it, and beside it the published cells through it, cold, each byte once",
            "what comes out of memory says nothing about the device; fio goes through it unless told otherwise, and reads \
             a short file out of it from the second time on",
        ),
        Step::other(
            "The engine is not stated",
            format!(
                "{}; and beside it the published cells by {}",
                engine(findings),
                OtherWay::Threads.label()
            ),
            "fio on Windows has others",
        ),
        Step::other(
            "Only one way of measuring is shown",
            "What the page cache and the engine change is measured once, each cell for half of the time",
            "conclusions are judged by the cells past the page cache; those that come out otherwise are named",
        ),
        Step::other(
            "How long the speed lasts is said, and not measured",
            match findings.long_runs.is_empty() {
                true => "Not measured unless asked for: `--long-run 5m`".to_owned(),
                false => {
                    "Reads of 1 MiB in order, eight at once, and then writes, without a pause".to_owned()
                }
            },
            "it takes minutes, and writes as much as a drive takes in them",
        ),
        Step::other(
            "A disk that rotates is supposed",
            "One is simulated, with times that are assumed",
            "disks that rotate are seldom at hand; what is simulated is no measurement, and decides nothing",
        ),
    ]
}

fn engine(findings: &Findings) -> String {
    match engine_of(&findings.result.cells).as_deref() {
        Some("uring") => "io_uring".to_owned(),
        Some(other) => other.to_owned(),
        None => NONE.to_owned(),
    }
}

const CONTRADICTIONS: [Contradiction; 7] = [
    Contradiction {
        section: "Latency, Block Size",
        says: "most of the latency comes from reading the data",
        but: "by its table a read of 4 KB takes 17.76 µs and one of 16 KB, four times the data, 19.78 µs",
    },
    Contradiction {
        section: "Latency, I/O queue",
        says: "the rate is relatively constant, and latency therefore linear in depth",
        but: "by its table the rate more than doubles from depth 1 to 4, and its own section on bandwidth says that it jumps",
    },
    Contradiction {
        section: "Latency, I/O queue",
        says: "the graph proves Little's law",
        but: "by its table rate × latency ÷ depth falls from 0.96 at depth 1 to 0.49 at 1024",
    },
    Contradiction {
        section: "Bandwidth, Read/Write ratio",
        says: "the ratio of reads to writes does not impact performance, and total IOPS go down slightly",
        but: "by its table they go down from 47800 with reads only to 40600 with 70% reads and 37000 with none, by 23%",
    },
    Contradiction {
        section: "Extra Analysis",
        says: "6000 MBps are reached in practice",
        but: "no cell of its tables reaches more than 3958",
    },
    Contradiction {
        section: "Raw Data",
        says: "16 KB, depth 1, reads only: 48800 IOPS (by block size)",
        but: "the same cell has 47800 in the table of mixes and 46500 in that of depths",
    },
    Contradiction {
        section: "Extra Analysis",
        says: "the drive for servers is advertised with half of the sequential read bandwidth",
        but: "in the same sentence it is a fourth; writes may be meant",
    },
];
