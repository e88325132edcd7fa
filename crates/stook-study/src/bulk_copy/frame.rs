//! What all studies say, of this one.

use stook::report::units;

use super::conclusions::CLAIMS;
use super::published::{CHECKS, DETAILS, DISKS, DOCUMENT, LOCAL, MEMORY, OPTIONS, SYSTEMS};
use super::ways::{PUBLISHED_BLOCK_BYTES, Way};
use super::{Findings, Row};
use crate::frame::{Beside, Contradiction, Elsewhere, Frame, NONE, Step, judged};

pub(super) fn frame(findings: &Findings) -> Frame {
    Frame {
        verdict: verdict(findings),
        tables: tables(findings),
        procedure: procedure(findings),
        conclusions: judged(&CLAIMS, findings),
        elsewhere: ELSEWHERE.into(),
        ..Frame::of(DOCUMENT, &CONTRADICTIONS, &findings.environment)
    }
}

fn verdict(findings: &Findings) -> String {
    let rate = |way| findings.rate(way).map_or_else(|| NONE.to_owned(), units::rate);
    format!(
        "Two threads with blocks of 128 KiB and a queue of 10 copy a large file at {}, stook copy at {}, cp at {}: cold, \
         and down to the medium.",
        rate(Way::PUBLISHED),
        rate(Way::Stook),
        rate(Way::Cp)
    )
}

/// MB, and MiB apart from them.
fn both(rate: Option<f64>) -> String {
    rate.map_or_else(
        || NONE.to_owned(),
        |rate| format!("{:.1} MB/s, {:.1} MiB/s", rate / 1e6, rate / f64::from(1 << 20)),
    )
}

fn tables(findings: &Findings) -> Vec<Beside> {
    let own = findings.rate(Way::PUBLISHED);
    let (disks, local) = if findings.is_within_disks { (None, own) } else { (own, None) };
    let share = |rating: Option<f64>| match (disks, rating) {
        (Some(rate), Some(rating)) => units::percent(rate / rating),
        _ => NONE.to_owned(),
    };
    let rating = |row: usize| {
        if row == 3 { findings.rated_read_bytes_per_s } else { findings.rated_write_bytes_per_s }
    };
    let cached = |row: usize| findings.cached.get(row).and_then(|cached| cached.seconds);
    let rate_of = |seconds: Option<f64>| Some(findings.file_bytes as f64 / seconds?);
    vec![
        Beside::new(DISKS, ["Here", "Of the rating"], |row| [both(disks), share(rating(row))]),
        Beside::new(LOCAL, ["Here", "From memory"], |_| {
            [both(local), both(local.and_then(|_| rate_of(cached(0))))]
        }),
        Beside::new(MEMORY, ["Here, cp"], |row| [both(rate_of(cached(row)))]),
        Beside::new(CHECKS, ["Here", "Of the limit"], |row| {
            let way = if row == 1 { Way::Cp } else { Way::PUBLISHED };
            let found = findings.rows.iter().find(|one| one.way == way).filter(|_| row < 2);
            let share = found.and_then(|found| found.of_limit);
            [
                both(found.and_then(|found| found.bytes_per_s)),
                share.map_or_else(|| NONE.to_owned(), units::percent),
            ]
        }),
        Beside::new(DETAILS, ["Here"], |_| [NONE.to_owned()]),
        Beside::new(OPTIONS, ["Here", "Against its default"], |row| option(findings, row)),
        Beside::new(SYSTEMS, ["Here, cp against it"], |row| {
            let ratio = own.zip(findings.rate(Way::Cp)).filter(|_| row == 1);
            [ratio.map_or_else(|| NONE.to_owned(), |(own, cp)| units::factor(cp / own))]
        }),
    ]
}

/// What the rows of [`OPTIONS`] name; of 1M to 8M the first.
const NAMED: [(u64, usize); 7] = [
    (PUBLISHED_BLOCK_BYTES, 10),
    (PUBLISHED_BLOCK_BYTES, 1),
    (PUBLISHED_BLOCK_BYTES, 1000),
    (PUBLISHED_BLOCK_BYTES, 10),
    (1 << 20, 10),
    (1 << 10, 10),
    (1 << 30, 10),
];

fn option(findings: &Findings, row: usize) -> [String; 2] {
    let way = NAMED.get(row).map(|&(block_bytes, queue)| Way::Threads { block_bytes, queue });
    let rate = way.and_then(|way| findings.rate(way));
    let share = rate.zip(findings.rate(Way::PUBLISHED)).map(|(rate, own)| units::percent(rate / own));
    [both(rate), share.unwrap_or_else(|| NONE.to_owned())]
}

fn procedure(findings: &Findings) -> Vec<Step> {
    let places = format!("{} to {}", findings.from.display(), findings.to.display());
    vec![
        Step::same(
            "A thread that reads and one that writes, with a queue between, blocks of 128K and a queue of 10",
            "The same, written anew from this description; stook copy and cp beside it, which is ours",
        ),
        Step::same(
            "Blocks of 1K to 1G, queues of 1, 10 and 1000",
            "The same; a block that needs more than a quarter of the free memory is left out",
        ),
        Step::other(
            "Few very large files, up to a full card",
            format!("One file of {}", units::bytes_binary(findings.file_bytes)),
            "--size makes it larger; caches are emptied instead of being outgrown",
        ),
        Step::other(
            "From drive to drive, and within a drive",
            format!("From {places}"),
            "--from and --to name others",
        ),
        Step::other(
            "18 and 147 GiB of files with 64 GiB of memory",
            "0.3 and 2.3 of the memory of a control group, in which cp runs",
            "a file need not be larger than the memory of the machine",
        ),
        Step::other(
            "Whether a copy is on the medium when the time ends is not stated",
            "It is: each way ends with a sync of the file",
            "what is still in memory is not copied",
        ),
        Step::other(
            "Caches are as the last run left them",
            findings.cold.clone(),
            "the document itself shows what comes of that",
        ),
        Step::other("Windows, Robocopy, WSL", "Linux, cp", "not measured: none of them is here"),
        Step::rounds(format!("{} rounds, every way in turn; medians", findings.rounds)),
    ]
}

const CONTRADICTIONS: [Contradiction; 5] = [
    Contradiction {
        section: "Local tests, Additional details",
        says: "the Samsung EVO 870 copies within itself at 235.847 MB/s",
        but: "further below at 266.553, which is the rate of another pair of drives to the digit, and at 471.692 and 482.924",
    },
    Contradiction {
        section: "Benchmarking is hard, Additional details",
        says: "471.7 MB/s is twice 235.847, reading and writing together",
        but: "471.692 MB/s is then named as a rate that was observed, and called nonsensical",
    },
    Contradiction {
        section: "Benchmarking is hard",
        says: "SATA-II is 600 MB/s",
        but: "SATA II carries 300 MB/s; 600 is SATA III (6 Gbit/s)",
    },
    Contradiction {
        section: "External disk-to-disk tests",
        says: "the EVO 870 as a source gives 195.027 MB/s to the disk that takes 266.553 from another",
        but: "as a destination it takes 295.218: what held the first copy up is not said",
    },
    Contradiction {
        section: "Block size",
        says: "128K is close to optimal",
        but: "1M to 8M are then called as good, and no rates of other blocks are printed",
    },
];

const ELSEWHERE: [Elsewhere; 1] = [Elsewhere {
    what: "Copies beside cp, rsync and the program of the document were measured by us on another machine. Those figures \
           are ours, and not published.",
    written_in: "docs/BENCHMARKS.md",
}];

/// How a row is marked: what is above 100% of the limit came from memory.
pub(super) fn mark(row: &Row) -> &'static str {
    if row.of_limit.is_some_and(|share| share > 1.0) { "cached" } else { "" }
}
