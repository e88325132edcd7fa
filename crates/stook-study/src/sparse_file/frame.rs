//! What all studies say, of this one.

use stook::report::units;

use super::conclusions::CLAIMS;
use super::growth::By;
use super::published::{DOCUMENT, MEMORY, NEED, PLOTS, PYTHON, READS, THREADS};
use super::work::{NEED_BLOCK_BYTES, NEED_BLOCKS, NEED_STRIDE_BYTES, TOTAL_BYTES, Work};
use super::{Findings, conclusions, row};
use crate::frame::{Beside, Contradiction, Elsewhere, Frame, NONE, Step, judged};
use crate::text::rounds;

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
        By::ALL.map(|by| {
            let seconds = row(&findings.rows, work).and_then(|row| by.seconds(row));
            seconds.map_or_else(none, |seconds| units::rate(TOTAL_BYTES as f64 / seconds))
        })
    };
    let need = |row: usize| match row {
        0 => format!("{}; and 1 MiB", units::bytes_decimal(NEED_BLOCKS * NEED_BLOCK_BYTES)),
        1 => format!("{NEED_STRIDE_BYTES} bytes; and 800 between them"),
        _ => format!("{}; and 2,048 to 1,048,576", units::count(NEED_BLOCKS)),
    };
    let held = |row: usize| findings.memory.get(row);
    let memory = |row: usize| {
        let Some(held) = held(row) else { return [none(), none(), none()] };
        let times = held.memory_bytes as f64 / held.data_bytes as f64;
        let bytes = |memory_bytes| format!("{} bytes", units::count(memory_bytes));
        let theirs = held.svfsc_memory_bytes.map_or_else(none, bytes);
        [bytes(held.memory_bytes), units::factor(times), theirs]
    };
    let python = |row_number: usize| {
        let work = |block_bytes| match row_number {
            0 => Work::ReadApart { block_bytes },
            _ => Work::WriteApart { block_bytes },
        };
        [1, 512].map(|block_bytes| {
            let ratio = row(&findings.rows, work(block_bytes)).and_then(conclusions::of_native);
            ratio.map_or_else(none, units::factor)
        })
    };
    vec![
        Beside::new(READS, ["Here", "From Python", "svfsc, Python"], read),
        Beside::new(NEED, ["Here"], |row| [need(row)]),
        Beside::new(MEMORY, ["Here", "Against the data", "As svfsc counts, here"], memory),
        Beside::new(THREADS, ["Here"], |row| {
            [if row == 0 { "8 bytes".to_owned() } else { units::count(TOTAL_BYTES / 8) }]
        }),
        Beside::new(PYTHON, ["Here, one byte", "Here, 512 bytes"], python),
    ]
}

fn procedure(findings: &Findings) -> Vec<Step> {
    vec![
        Step::other(
            "One megabyte is read from blocks of 1 to 512 bytes that do not touch, 1,000,000 of 1 byte, and from one block",
            "1 MiB, 1,048,576 blocks of 1 byte, with a gap of 1 byte; and in small blocks from one that has no gap, which is \
             ours",
            "its 2,048 blocks of 512 bytes are 1 MiB; how long its gaps are is not stated",
        ),
        Step::same(
            "One megabyte is written in blocks that touch, which stay one, and in blocks that do not, of which there are as \
             many as writes",
            "The same, 1 MiB; how many ranges there are in the end is checked",
        ),
        Step::other(
            "Blocks like those of a low-level index of RP66V1, about 1Mb in 238,310 blocks, 800 bytes apart",
            format!(
                "1 MiB in blocks of each published size and larger ones, 800 bytes between them; and 238,310 blocks of \
                 {NEED_BLOCK_BYTES} bytes, 800 from one to the next, and 1/8, 1/4 and 1/2 of them"
            ),
            "how long each block is is not stated, and 1Mb ÷ 238,310 is 4; nor what grows in its plot, and from where to where \
             800 bytes are",
        ),
        Step::other(
            "Several threads write and overwrite one megabyte, 8 bytes at a time",
            "Each of 1 to 8 threads writes all of it; and each a part of it, which is ours",
            "how many threads there are is not stated",
        ),
        Step::other(
            "With mutexes from C++ (`SVF_THREAD_SAFE`), and without them from Python, where locks of Python are taken",
            "Stook with its own lock, as always; what that costs is under “What locks cost”, which is ours. svfsc as its \
             package for Python is built",
            "Stook has no form without a lock, and the C++ of svfsc is reached only through Python here",
        ),
        Step::other(
            "Memory, as svfsc counts it",
            "As Stook counts it; and as svfsc does, where it is installed",
            "both count what they allocate, not what the process takes",
        ),
        match findings.stook_python.version {
            Some(_) => Step::same("From C++ and from Python", "From Rust and from Python; svfsc from Python"),
            None => Step::other(
                "From C++ and from Python",
                format!("From Rust. {}", findings.stook_python.why_not()),
                "the package has to be installed for the interpreter that --python names",
            ),
        },
        Step::rounds(format!("The median of {}", rounds(findings.rounds))),
    ]
}

const CONTRADICTIONS: [Contradiction; 4] = [
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
    Contradiction {
        section: "C++ Performance, Read",
        says: "blocks of 512 bytes are read at 2,174 MB/s",
        but: "the whole megabyte in one block, which is one call in place of 2,048, at 1,480: why that is slower is not said",
    },
    Contradiction {
        section: "Python Performance, Read and Write",
        says: "the performance from Python is x5 and x3 of that from C++",
        but: "that would be faster: since large blocks are nearly equal, their times must be meant",
    },
];

const ELSEWHERE: [Elsewhere; 1] = [Elsewhere {
    what: "svfsc in C++, compiled from its source with its lock, and more calls of both packages from Python were measured \
           by us with svfsc 0.4.1 on other machines. Those figures are ours, and not published.",
    written_in: "docs/BENCHMARKS.md",
}];

#[cfg(test)]
mod tests {
    use super::super::Row;
    use super::super::python::Installed;
    use super::*;

    /// The figures of Python stand where they were measured, and dashes where they were not.
    #[test]
    fn python_stands_beside_what_was_published() {
        let cells = |found: &Findings, caption: &str| {
            let tables = tables(found);
            tables.into_iter().find(|table| table.printed.caption.contains(caption)).unwrap().here
        };
        let found = Findings::of_rows(Row::all_taking(|_| 0.5, |_| None));
        assert_eq!(cells(&found, "Python against"), [[NONE, NONE], [NONE, NONE]]);
        assert_eq!(cells(&found, "Reading one")[0], ["2.10 MB/s", NONE, NONE]);
        let steps = procedure(&found);
        assert!(steps.iter().any(|step| step.here == "From Rust. It is not installed."), "{steps:?}");
        let version = Installed { version: Some("1".to_owned()), left_out: None };
        let rows = Row::all_taking(|_| 0.5, |_| Some(1.0));
        let found = Findings { stook_python: version, ..Findings::of_rows(rows) };
        assert_eq!(cells(&found, "Python against"), [["2.00×", "2.00×"], ["2.00×", "2.00×"]]);
        assert_eq!(cells(&found, "Reading one")[0], ["2.10 MB/s", "1.05 MB/s", NONE]);
    }
}
