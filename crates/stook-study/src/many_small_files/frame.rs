//! What all studies say, of this one.

use stook::report::units;

use super::conclusions::CLAIMS;
use super::on::OnMeasured;
use super::published::{DOCUMENT, READS, TEXT};
use super::{Findings, PLAIN, loose_files};
use crate::environment::nothing_of_a_device;
use crate::frame::{Beside, Contradiction, Frame, NONE, Step, judged};

pub(super) fn frame(findings: &Findings) -> Frame {
    Frame {
        verdict: findings.verdict.clone(),
        tables: vec![
            Beside::new(READS, ["Here"], |row| [here(findings, row)]),
            Beside::new(TEXT, ["Here"], |row| [sample(findings, row)]),
        ],
        procedure: procedure(findings),
        conclusions: match findings.is_memory {
            true => nothing_of_a_device(judged(&CLAIMS, &findings.found)),
            false => judged(&CLAIMS, &findings.found),
        },
        ..Frame::of(DOCUMENT, &CONTRADICTIONS, &findings.environment)
    }
}

/// The first row of a file system of the table, by the name that the kernel or `--on` has for it.
fn row_of(kind: &str) -> Option<usize> {
    match kind {
        "ext4" => Some(0),
        "vfat" => Some(2),
        // A driver of FUSE for a device is that of NTFS, nearly always.
        "ntfs" | "ntfs3" | "fuseblk" => Some(4),
        _ => None,
    }
}

/// Our figure stands in the rows of the file systems that were measured: those of `--on`, and
/// without any of them that below `--work`.
fn here(findings: &Findings, row: usize) -> String {
    let seconds = match findings.file_systems.iter().any(|on| on.measured.is_some()) {
        true => on_file_system(findings, row),
        false => below_work(findings, row),
    };
    seconds.map_or_else(|| NONE.to_owned(), |seconds| format!("{seconds:.3} s"))
}

fn on_file_system(findings: &Findings, row: usize) -> Option<f64> {
    let mut measured =
        findings.file_systems.iter().filter_map(|on| Some((row_of(on.name)?, on.measured.as_ref()?)));
    measured.find_map(|(first, measured)| match row.checked_sub(first)? {
        0 => Some(measured.one_file.seconds),
        1 => Some(measured.loose_files.seconds),
        _ => None,
    })
}

fn below_work(findings: &Findings, row: usize) -> Option<f64> {
    let kind = findings.environment.file_system.split(' ').next().unwrap_or_default();
    let rows = &findings.rows;
    let row = match row.checked_sub(row_of(kind)?)? {
        0 => rows.iter().find(|row| row.reader == Some(PLAIN)),
        1 => loose_files(rows),
        _ => None,
    };
    row.map(|row| row.seconds)
}

fn sample(findings: &Findings, row: usize) -> String {
    let returned = &findings.returned;
    match row {
        2 => units::count(returned.records),
        3 => units::bytes_decimal(returned.bytes / returned.records.max(1)),
        4 => cluster(findings, &["vfat"]),
        5 => cluster(findings, &["ntfs", "ntfs3"]),
        6 => fat_against_others(findings).unwrap_or_else(|| NONE.to_owned()),
        7 => measured(findings, &["vfat"])
            .and_then(|on| on.loose_files.read_amplification)
            .map_or_else(|| NONE.to_owned(), |times| format!("{times:.2} times")),
        _ => NONE.to_owned(),
    }
}

fn measured<'a>(findings: &'a Findings, names: &[&str]) -> Option<&'a OnMeasured> {
    let mut all = findings.file_systems.iter().filter(|on| names.contains(&on.name));
    all.find_map(|on| on.measured.as_ref())
}

fn cluster(findings: &Findings, names: &[&str]) -> String {
    let on = measured(findings, names);
    on.map_or_else(|| NONE.to_owned(), |on| units::bytes_binary(on.cluster_bytes))
}

fn fat_against_others(findings: &Findings) -> Option<String> {
    let fat = measured(findings, &["vfat"])?.loose_files.seconds;
    let others = [("ext4", &["ext4"][..]), ("NTFS", &["ntfs", "ntfs3"][..])];
    let times = others.iter().filter_map(|(label, names)| {
        Some(format!("{:.2} times {label}", fat / measured(findings, names)?.loose_files.seconds))
    });
    let times: Vec<String> = times.collect();
    (!times.is_empty()).then(|| times.join(", "))
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
            "The same, by the digits of their numbers; or a tree given with --dir",
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
            file_systems(findings),
            "there is no Windows here; --on measures more file systems, as root",
        ),
        Step::other(
            "An external USB disk, three years old, with nothing else on it",
            findings.environment.device.clone(),
            "that disk is not here",
        ),
        java(findings),
        Step::other(
            "A record has a used flag and a time as well, though the program knows neither",
            "A file of twice as many records, half of them history: all parsed, and history skipped",
            "without --dir; the plain file is that of the program",
        ),
        Step::rounds(format!(
            "{}, every way in turn, and {} of what has rounds of its own, every second round in the opposite order; no \
             verdict within the spread of rounds",
            units::count_of(findings.method.runs as u64, "round", "rounds"),
            findings.method.further_runs
        )),
    ]
}

fn file_systems(findings: &Findings) -> String {
    let own = format!("{}, on Linux", findings.environment.file_system);
    let each = findings.file_systems.iter().map(|on| match (&on.measured, &on.not_had) {
        (Some(measured), _) => format!(
            "{} ({}) with clusters of {}, on a loop device",
            on.name,
            measured.driver,
            units::bytes_binary(measured.cluster_bytes)
        ),
        (None, because) => {
            format!("{}: not to be had here, {}", on.name, because.as_deref().unwrap_or_default())
        }
    });
    std::iter::once(own).chain(each).collect::<Vec<String>>().join("; ")
}

fn java(findings: &Findings) -> Step {
    const PUBLISHED: &str =
        "A program in Java reads one file with a buffer of 64 KiB, and every file with one of its length";
    match &findings.method.java {
        Some(version) => Step::other(
            PUBLISHED,
            format!("The same in Java ({version}), a program of ours; this one, in Rust, has the other rows"),
            "starting Java is not part of the time; its program is not ours to copy",
        ),
        None => Step::other(PUBLISHED, "This program, in Rust", "Java was not measured; the page says why"),
    }
}

const CONTRADICTIONS: [Contradiction; 12] = [
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
        section: "Testing, Summary",
        says: "for many files use Linux and a file system of its own",
        but: "in its table NTFS on Ubuntu is quicker than ext4, for one file and for many",
    },
    Contradiction {
        section: "Solution, Test class source code",
        says: "a record has an id, a used flag, a time and a length",
        but: "the records of its program have an id and a length: what the flag gains was not measured",
    },
    Contradiction {
        section: "Testing, Test class source code",
        says: "start the system again before every set that is read",
        but: "its program reads both sets in one run, always the one file first",
    },
    Contradiction {
        section: "Test class source code",
        says: "do not make the sets and read them in one program, a comment says",
        but: "its `main` does: it makes both sets, and reads them from memory",
    },
    Contradiction {
        section: "Test class source code",
        says: "the results of both ways are compared",
        but: "of the files it keeps the number as well as the id, so that they never are the same; it says so, and goes on. Data is not compared at all",
    },
    Contradiction {
        section: "Test class source code",
        says: "the composite file is read to its end",
        but: "the end of the file counts as the end wherever it comes: one that was cut off within a record is read without a word",
    },
    Contradiction {
        section: "Test class source code",
        says: "the sets are made by the same program",
        but: "a file that is there is taken for whole, however long it is: what was interrupted is measured as it is",
    },
    Contradiction {
        section: "Test class source code",
        says: "the composite file is made first",
        but: "its directory is made with the first of the single files: where there is none yet, the program ends with an error",
    },
    Contradiction {
        section: "Test class source code",
        says: "the composite file is written record by record",
        but: "without a buffer, so that each of three parts of a record is a write of its own, or more",
    },
    Contradiction {
        section: "Testing, Test class source code",
        says: "the data lies on an external disk",
        but: "its program names a directory of C:",
    },
];
