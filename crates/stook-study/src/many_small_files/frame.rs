//! What all studies say, of this one.

use stook::report::units;

use super::conclusions::CLAIMS;
use super::published::{DOCUMENT, READS, TEXT};
use super::readers::Reader;
use super::{FILES, Findings, PLAIN};
use crate::frame::{Beside, Contradiction, Frame, NONE, Step, judged};

pub(super) fn frame(findings: &Findings) -> Frame {
    Frame {
        verdict: findings.verdict.clone(),
        tables: vec![
            Beside::new(READS, ["Here"], |row| [here(findings, row)]),
            Beside::new(TEXT, ["Here"], |row| [sample(findings, row)]),
        ],
        procedure: procedure(findings),
        conclusions: judged(&CLAIMS, &findings.found),
        ..Frame::of(DOCUMENT, &CONTRADICTIONS, &findings.environment)
    }
}

/// The file systems of the table, by the names that the kernel has for them.
fn row_of(kind: &str) -> Option<usize> {
    match kind {
        "ext4" => Some(0),
        "vfat" | "exfat" => Some(2),
        "ntfs" | "ntfs3" | "fuseblk" => Some(4),
        _ => None,
    }
}

/// Our figure stands in the rows of the file system that was measured.
fn here(findings: &Findings, row: usize) -> String {
    let kind = findings.environment.file_system.split(' ').next().unwrap_or_default();
    let readers: &[Reader] = match row_of(kind) {
        Some(first) if row == first => &[PLAIN],
        // Of a tree of anybody's there are no numbers.
        Some(first) if row == first + 1 => &[Reader::Numbered, FILES],
        _ => return NONE.to_owned(),
    };
    let row_of = |reader: &Reader| findings.rows.iter().find(|row| row.reader == Some(*reader));
    let found = readers.iter().find_map(row_of);
    found.map_or_else(|| NONE.to_owned(), |row| format!("{:.3} s", row.seconds))
}

fn sample(findings: &Findings, row: usize) -> String {
    let returned = &findings.returned;
    match row {
        2 => units::count(returned.records),
        3 => units::bytes_decimal(returned.bytes / returned.records.max(1)),
        _ => NONE.to_owned(),
    }
}

fn procedure(findings: &Findings) -> Vec<Step> {
    vec![
        Step::same(
            "One file is read in order with a buffer of 64 KiB",
            "The same; with 1 MiB, and as a pack, beside it, which is ours",
        ),
        Step::same(
            "The files are read one after the other by one thread",
            "The same; by more threads beside it, which is ours",
        ),
        Step::other(
            "50,000 files of 20,000 bytes",
            findings.method.data.clone(),
            "it can be set; without options it is the same",
        ),
        Step::same(
            "Two levels of directories: 5,000 with 10 files each",
            "The same, by the digits of their numbers; with --dir a tree of anybody's",
        ),
        Step::same(
            "The files are opened by their number",
            "The same; and the tree is walked, by one reader and by more, which is ours",
        ),
        Step::same(
            "A record is id, length (4 bytes each) and data, and so is every file",
            "The same; with --dir a record is the length of its path, its own length, path and data, and files are data alone",
        ),
        Step::other(
            "Every file has the bytes 0 to 255 over and over",
            "Bytes that cannot be compressed",
            "file systems and drives may compress",
        ),
        Step::other(
            "The system is started again before each set is read",
            findings.method.cold.clone(),
            "a program cannot start the system again; what is in memory can be given up",
        ),
        Step::other(
            "ext4, FAT32 (64K) and NTFS (4K) on Ubuntu 12 and Windows 7",
            format!("{} on Linux", findings.environment.file_system),
            "no Windows here; name a directory on another file system with --work",
        ),
        Step::other(
            "An external USB disk, three years old, with nothing else on it",
            findings.environment.device.clone(),
            "that disk is not here",
        ),
        Step::other("A program in Java", "This one, in Rust", "not yet measured from Java"),
        Step::rounds(format!("{} rounds, every way in turn", findings.method.runs)),
    ]
}

const CONTRADICTIONS: [Contradiction; 7] = [
    Contradiction {
        section: "Testing",
        says: "one file takes nearly identical time everywhere",
        but: "its table has 29.342 to 38.383 seconds",
    },
    Contradiction {
        section: "Testing",
        says: "many files on FAT32 take approximately 3 times as long as on ext4 and NTFS",
        but: "by its table 2.35 and 2.72 times",
    },
    Contradiction {
        section: "Solution, Test class source code",
        says: "a record has an id, a used flag, a time and a length",
        but: "the records of its program have an id and a length: what the flag gains was not measured",
    },
    Contradiction {
        section: "Testing, Test class source code",
        says: "start the system again before every set that is read",
        but: "its program reads both sets in one run",
    },
    Contradiction {
        section: "Test class source code",
        says: "the results of both ways are compared",
        but: "of the files it keeps the number as well as the id, so that they never are the same; it says so, and goes on",
    },
    Contradiction {
        section: "Test class source code",
        says: "the sets are made by the same program",
        but: "a file that is there is taken for whole, however long it is: what was interrupted is measured as it is",
    },
    Contradiction {
        section: "Testing, Test class source code",
        says: "the data lies on an external disk",
        but: "its program names a directory of C:",
    },
];
