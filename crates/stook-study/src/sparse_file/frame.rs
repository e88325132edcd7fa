//! What all studies say, of this one.

use stook::report::units;

use super::conclusions::CLAIMS;
use super::published::{DOCUMENT, MEMORY, NEED, PLOTS, PYTHON, READS, THREADS};
use super::work::{NEED_BLOCK_BYTES, NEED_BLOCKS, NEED_STRIDE_BYTES, TOTAL_BYTES, Work};
use super::{Findings, row};
use crate::frame::{Beside, Contradiction, Elsewhere, Frame, NONE, Step, judged};

pub(super) fn frame(findings: &Findings) -> Frame {
    Frame {
        verdict: verdict(findings),
        tables: tables(findings),
        plots: PLOTS.into(),
        procedure: procedure(findings),
        conclusions: judged(&CLAIMS, findings),
        elsewhere: ELSEWHERE.into(),
        ..Frame::of(DOCUMENT, &CONTRADICTIONS, &findings.environment)
    }
}

fn verdict(findings: &Findings) -> String {
    let rate = |work| row(&findings.rows, work).map(|row| TOTAL_BYTES as f64 / row.seconds);
    let reads = [1, 512]
        .map(|block_bytes| rate(Work::ReadApart { block_bytes }).map_or(NONE.to_owned(), units::rate));
    format!(
        "What is held of a file in blocks of one byte is read at {}, in blocks of 512 bytes at {}.",
        reads[0], reads[1]
    )
}

fn tables(findings: &Findings) -> Vec<Beside> {
    let none = || NONE.to_owned();
    let read = |row_number: usize| {
        let work = match row_number {
            0 => Work::ReadApart { block_bytes: 1 },
            1 => Work::ReadApart { block_bytes: 512 },
            _ => Work::Read { block_bytes: TOTAL_BYTES },
        };
        row(&findings.rows, work).map_or_else(none, |row| units::rate(TOTAL_BYTES as f64 / row.seconds))
    };
    let need = |row: usize| match row {
        0 => units::bytes_decimal(NEED_BLOCKS * NEED_BLOCK_BYTES),
        1 => format!("{NEED_STRIDE_BYTES} bytes"),
        _ => units::count(NEED_BLOCKS),
    };
    let held = |row: usize| findings.memory.get(row);
    let memory = |row: usize| {
        held(row).map_or_else(
            || [none(), none()],
            |held| {
                let times = held.memory_bytes as f64 / held.data_bytes as f64;
                [format!("{} bytes", units::count(held.memory_bytes)), units::factor(times)]
            },
        )
    };
    vec![
        Beside::new(READS, ["Here"], |row| [read(row)]),
        Beside::new(NEED, ["Here"], |row| [need(row)]),
        Beside::new(MEMORY, ["Here", "Against the data"], memory),
        Beside::new(THREADS, ["Here"], |row| {
            [if row == 0 { "8 bytes".to_owned() } else { units::count(TOTAL_BYTES / 8) }]
        }),
        Beside::new(PYTHON, ["Here"], |_| [none()]),
    ]
}

fn procedure(findings: &Findings) -> Vec<Step> {
    vec![
        Step::same(
            "One megabyte is read from blocks of 1 to 512 bytes that do not touch, and from one block",
            "The same, 1 MiB; and in small blocks from one that has no gap, which is ours",
        ),
        Step::same(
            "One megabyte is written in blocks that touch, and in blocks that do not",
            "The same, 1 MiB",
        ),
        Step::other(
            "Blocks like those of a low-level index of RP66V1, about 1Mb in 238,310 blocks, 800 bytes apart",
            format!(
                "The same number and distance, {NEED_BLOCK_BYTES} bytes each; and 1/8, 1/4, 1/2 and all of them, for linearity"
            ),
            "how long each block is is not stated",
        ),
        Step::same(
            "Several threads write and overwrite one megabyte, 8 bytes at a time",
            "The same: each of 1 to 8 threads writes all of it; and each a part of it, which is ours",
        ),
        Step::other(
            "Locked, and unlocked for one thread (`SVF_THREAD_SAFE`)",
            "Locked",
            "Stook has no build without locks",
        ),
        Step::other(
            "Memory, as svfsc counts it",
            "As Stook counts it",
            "both count what they allocate, not what the process takes",
        ),
        Step::other(
            "From C++ and from Python",
            "From Rust; svfsc from Python beside it where it is installed",
            "not yet measured from Python",
        ),
        Step::rounds(format!("The median of {} rounds", findings.rounds)),
    ]
}

const CONTRADICTIONS: [Contradiction; 2] = [
    Contradiction {
        section: "C++ Performance, Read and Write",
        says: "1,000,000 blocks of 1 byte, 2,048 of 512, and x33 of memory for 1M blocks",
        but: "2,048 × 512 is 1,048,576, and 34,603,192 bytes are 33.0 times that, but 34.6 times 1,000,000: both are called one megabyte",
    },
    Contradiction {
        section: "C++ Performance, Need",
        says: "about 1Mb in 238,310 blocks",
        but: "that is 4.2 to 4.4 bytes a block, which is not said",
    },
];

const ELSEWHERE: [Elsewhere; 1] = [Elsewhere {
    what: "From Python, the calls of the same work were measured by us with svfsc 0.4.1 and Stook in one process. Those \
           figures are ours, and not published.",
    written_in: "docs/BENCHMARKS.md",
}];
