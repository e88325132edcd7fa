//! What all studies say, of this one.

use stook::report::units;

use super::archives::{ARCHIVE_BYTES, Order, Shape};
use super::conclusions::{CLAIMS, break_even, size_rule};
use super::published::{DISK, DOCUMENT, JOBS, NVME, SATA, TEXT};
use super::{Findings, Job};
use crate::environment::{DeviceKind, memory_first, nothing_of_a_device};
use crate::frame::{Beside, Contradiction, Elsewhere, Frame, NONE, Step, judged};
use crate::text::duration_s;

pub(super) fn frame(findings: &Findings) -> Frame {
    Frame {
        verdict: verdict(findings),
        tables: tables(findings),
        procedure: procedure(findings),
        conclusions: match findings.is_memory {
            true => nothing_of_a_device(judged(&CLAIMS, findings)),
            false => judged(&CLAIMS, findings),
        },
        elsewhere: ELSEWHERE.into(),
        ..Frame::of(DOCUMENT, &CONTRADICTIONS, &findings.environment)
    }
}

fn verdict(findings: &Findings) -> String {
    let small = Shape::Files { file_bytes: 128 << 10 };
    let share = |order| {
        let share = findings.against_whole(small, order);
        share.map_or_else(|| NONE.to_owned(), units::percent)
    };
    format!(
        "{}An archive of 512 files of 128 KiB is read at {} of the rate of one file when they are read one after the other, \
         and at {} through a stitched file with 16 reads at once. {} {}",
        memory_first(findings.is_memory),
        share(Order::InTurn),
        share(Order::AtOnce),
        break_even(findings),
        size_rule(findings)
    )
}

/// Over figures of a device that does not say of which kind it is.
const UNKNOWN_DEVICE: &str = "This device, kind unknown: the job";

fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| NONE.to_owned(), units::rate)
}

fn tables(findings: &Findings) -> Vec<Beside> {
    // The blocks that the rows of its tables stand for; one of them has a row more.
    let four = [ARCHIVE_BYTES, 4 << 20, 1 << 20, 128 << 10];
    let five = [ARCHIVE_BYTES, 4 << 20, 1 << 20, 512 << 10, 128 << 10];
    let job =
        |block_bytes: Option<u64>| findings.jobs.iter().find(|job| Some(job.block_bytes) == block_bytes);
    let believed = |job: &&Job| !job.state.is_invalid();
    let jobs = |row: usize| {
        let job = job(four.get(row).copied());
        [rate(job.filter(believed).map(|job| job.bytes_per_s)), rate(job.and_then(|job| job.fio_bytes_per_s))]
    };
    let real = |block_bytes: Option<u64>| {
        let shape = block_bytes.map(|file_bytes| Shape::Files { file_bytes });
        [Order::InTurn, Order::AtOnce].map(|order| {
            let row = findings.rows.iter().find(|row| Some(row.shape) == shape && row.order == order);
            rate(row.map(|row| row.bytes_per_s))
        })
    };
    // Ours are of one kind of device, or stand beside all of them with a head that says it of none.
    let is_unknown = findings.kind() == DeviceKind::Unknown && !findings.is_memory;
    let class = |row: Option<u64>, kind: DeviceKind| {
        let [turn, once] = real(row);
        if findings.kind() == kind || is_unknown {
            let ratio = row.and_then(|block_bytes| match block_bytes {
                ARCHIVE_BYTES => Some(1.0),
                other => findings.job_against_first(other),
            });
            let ours = job(row).filter(believed).map(|job| job.bytes_per_s);
            let ratio = ratio.map_or_else(|| NONE.to_owned(), |ratio| format!("{ratio:.2}x"));
            [rate(ours), ratio, turn, once]
        } else {
            [NONE; 4].map(str::to_owned)
        }
    };
    let job_column = if is_unknown { UNKNOWN_DEVICE } else { "Here, the job" };
    let columns = [job_column, "Against the first", "Real files, in turn", "Stitched, 16 at once"];
    // Of the one class that is simulated, too.
    let disk_columns =
        [columns[0], columns[1], columns[2], columns[3], "Simulated, no measurement", "Against the first"];
    let disk = |row: usize| {
        let [job, ratio, turn, once] = class(four.get(row).copied(), DeviceKind::HardDisk);
        let jobs = &findings.simulated;
        let simulated = jobs.iter().find(|job| Some(job.block_bytes) == four.get(row).copied());
        let against = simulated.zip(jobs.first()).map(|(job, first)| job.bytes_per_s / first.bytes_per_s);
        let against = against.map_or_else(|| NONE.to_owned(), |ratio| format!("{ratio:.2}x"));
        [job, ratio, turn, once, rate(simulated.map(|job| job.bytes_per_s)), against]
    };
    vec![
        Beside::new(JOBS, ["Here", "Here, fio"], jobs),
        Beside::new(DISK, disk_columns, disk),
        Beside::new(SATA, columns, |row| class(five.get(row).copied(), DeviceKind::SataSsd)),
        Beside::new(NVME, columns, |row| class(four.get(row).copied(), DeviceKind::NvmeSsd)),
        Beside::new(TEXT, ["Here"], |row| {
            // Sizes between the two were not read.
            let limit = findings.rule.and_then(|rule| {
                let [slow, fast] = [rule.slow_bytes?, rule.fast_bytes].map(units::bytes_binary);
                Some(format!("more than {slow}, at most {fast}"))
            });
            [match row {
                0..=3 => ["32", "16", "17", "64 MiB"][row].to_owned(),
                5 => limit.unwrap_or_else(|| NONE.to_owned()),
                _ => NONE.to_owned(),
            }]
        }),
    ]
}

fn procedure(findings: &Findings) -> Vec<Step> {
    let fio = findings.fio.clone().unwrap_or_else(|| "fio, which is not installed".to_owned());
    vec![
        Step::other(
            "Random reads past the page cache: 64M at depth 1, 4M at 16, 1M at 64, 128K at 512; each until 32G are read",
            "The same, each for `--time` in each round; fio for as long, once, into ordinary pages, which may cost it more than half of its speed",
            "at the rates of its hard disk 32G take 5 to 19 minutes a job",
        ),
        Step::other(
            "512K, which stands in one table and in no job",
            "At depth 128",
            "its depth is taken to be the number of files, as in the others",
        ),
        Step::other(
            "One file of 32G",
            format!("One file of {}", units::bytes_binary(findings.file_bytes)),
            "--size 32G makes it as long",
        ),
        Step::other(
            "fio, libaio",
            format!("`stook bench` with its checks, and {fio} with io_uring"),
            "a figure that no check could be made of is no finding",
        ),
        Step::other(
            "No file is opened: the jobs stand for files",
            format!(
                "Also {} of real files of each shape, 64 MiB each, read whole",
                units::count_of(findings.archives, "archive", "archives")
            ),
            "a program that reads an archive opens its files",
        ),
        Step::other(
            "All reads of an archive are in flight at once",
            "Real files are read one after the other, with opening counted and not; and through a stitched file of the \
             library, one read after the other, and 16 at once with opening counted and not",
            "a program that reads a file in one go asks for one thing after another",
        ),
        Step::other(
            "Archives are emulated by 100%",
            "And by 10% and 50%, and its example of 17 files",
            "its text says that less than 10% is usual of large archives, and half is its example",
        ),
        Step::other(
            "A merged copy is recommended",
            "Archives of 16 to 512 files are merged: what that costs, what a read gains, and from which size of files on",
            "it is not measured there",
        ),
        Step::other(
            "The rule is for archives below 32M",
            "What a merged copy gains is judged on archives of 64 MiB",
            "every job of the document is an archive of 64MB",
        ),
        Step::other(
            "Three devices and two file systems: hard disk and SATA on ntfs3, NVMe on btrfs",
            device(findings),
            "the others are not here: their tables have a dash, or a device of unknown kind, marked so",
        ),
        Step::other(
            "A hard disk",
            simulated(findings),
            "disks that rotate are seldom at hand; what is simulated is no measurement, and decides nothing",
        ),
        Step::other(
            "Caches are not spoken of: the jobs pass them by",
            findings.cold.clone(),
            "real files are read through the page cache",
        ),
        Step::rounds(format!("{}; medians", units::count_of(u64::from(findings.rounds), "round", "rounds"))),
    ]
}

fn device(findings: &Findings) -> String {
    let known = |text: &str| if text.is_empty() { NONE.to_owned() } else { text.to_owned() };
    let environment = &findings.environment;
    // Without the options that it is mounted with.
    let file_system = environment.file_system.split(' ').next().unwrap_or_default();
    format!("{}; {}", known(&environment.device), known(file_system))
}

fn simulated(findings: &Findings) -> String {
    let disk = &findings.simulated_disk;
    format!(
        "Beside it a simulated one: {:.0} turns a minute, {} to a third of it and {} at least, {}, a queue of {}; its \
         times are assumed, and its rate is that at which 64 MiB come as printed",
        disk.turns_per_minute,
        duration_s(disk.seek_mean_s),
        duration_s(disk.seek_least_s),
        units::rate(disk.bytes_per_s),
        disk.queue
    )
}

const CONTRADICTIONS: [Contradiction; 7] = [
    Contradiction {
        section: "Introduction, Solid State Storage (SATA)",
        says: "on SSDs there is no impact, or a slight improvement",
        but: "by its table of the SATA SSD 512 files of 128K come to 0.90",
    },
    Contradiction {
        section: "Test Setup",
        says: "the jobs are 16, 64 and 512 files",
        but: "each reads random places of one file, which is open, with as many reads at once as there would be files",
    },
    Contradiction {
        section: "Test Setup, Solid State Storage (SATA)",
        says: "four jobs are given",
        but: "128 files of 512KB stand in one table, and no job is given for them",
    },
    Contradiction {
        section: "Introduction, Test Setup",
        says: "one file of 64MB is read sequentially",
        but: "its job is `randread`: blocks of 64M at random places of one file",
    },
    Contradiction {
        section: "Importance of These Tests, Test Setup",
        says: "the page justifies a rule for archives below 32M with many files below 1M",
        but: "every job stands for an archive of 64MB, and two of them for files of 4MB and 1MB",
    },
    Contradiction {
        section: "Solid State Storage (NVME)",
        says: "64 files of 1MB come to 1.05x",
        but: "3618 ÷ 3466 is 1.04",
    },
    Contradiction {
        section: "Solid State Storage (NVME)",
        says: "the device is a SanDisk",
        but: "and a Samsung SSD 980 PRO, in the same line",
    },
];

const ELSEWHERE: [Elsewhere; 1] = [Elsewhere {
    what: "Stitched files of these shapes against one file with the same bytes were measured by us on another machine. \
           Those figures are ours, and not published.",
    written_in: "docs/BENCHMARKS.md",
}];

#[cfg(test)]
mod tests {
    use super::super::conclusions::tests::found;
    use super::*;
    use crate::environment::Environment;
    use crate::verdict::Verdict;

    /// Before: the figures of a virtual disk stood beside none of the published ones.
    #[test]
    fn a_device_of_unknown_kind_stands_beside_all_and_its_head_says_so() {
        let of = |device: &str, rotates| {
            let environment = Environment { device: device.to_owned(), rotates, ..Environment::default() };
            frame(&Findings { environment, ..found(0.5, false) }).tables
        };
        let jobs = |tables: &[Beside]| [1, 2, 3].map(|table| tables[table].here[0][0] != NONE);
        let unknown = of("vda1", None);
        assert_eq!(jobs(&unknown), [true; 3]);
        assert!(unknown[1..4].iter().all(|table| table.here_columns[0] == UNKNOWN_DEVICE));
        let nvme = of("nvme0n1", Some(false));
        assert_eq!(jobs(&nvme), [false, false, true]);
        assert!(nvme.iter().all(|table| table.here_columns[0] != UNKNOWN_DEVICE));
    }

    /// Before: the smallest fast size stood there as if it were the limit.
    #[test]
    fn the_limit_of_small_files_lies_between_two_sizes_that_were_read() {
        let cell = |found: &Findings| frame(found).tables[4].here[5][0].clone();
        let mut one = found(0.5, false);
        assert_eq!(cell(&one), "more than 512 KiB, at most 1.00 MiB");
        one.rule = None;
        assert_eq!(cell(&one), NONE);
    }

    /// Before: conclusions about devices were judged on what lies in memory.
    #[test]
    fn what_lies_in_memory_says_so_first_and_decides_nothing() {
        let environment = Environment::default();
        let said = frame(&Findings { is_memory: true, environment, ..found(0.5, false) });
        assert!(said.verdict.starts_with("The data lies in memory, and on no device. An archive"));
        assert!(said.conclusions.iter().all(|one| one.verdict == Verdict::NotMeasured));
        assert!(said.tables[1..4].iter().all(|table| table.here[0][0] == NONE));
    }
}
