//! The conclusions of the published measurement of archives, and which of them hold here.

use stook::report::units;

use super::archives::{ARCHIVE_BYTES, Order, Shape};
use super::published::{DISK, NVME, SATA};
use super::{Findings, JOBS};
use crate::frame::{Claim, Judgement, Printed, no_figures, not_measured};
use crate::verdict::Verdict;

/// What is no slower than this share is not slower.
const AS_FAST: f64 = 0.95;
/// What is slower than this share of it is worth a merged copy.
const SLOW: f64 = 0.90;

const NO_DISK: &str = "No disk is known to rotate here.";

pub(super) const CLAIMS: [Claim<Findings>; 9] = [
    Claim {
        section: "Introduction, Old Hard Drive",
        published: "On hard disks, loads out of many files are slower, because of seeks.",
        check: "Every shape is slower than 95% of the single file, on a disk that rotates.",
        there: || {
            let ratios = ratios(&DISK);
            (Verdict::of(ratios.iter().all(|ratio| *ratio < AS_FAST)), of_single(&ratios))
        },
        here: |found| match found.environment.rotates {
            Some(true) => {
                let ratios = job_ratios(found);
                if ratios.is_empty() {
                    return not_measured("No job is valid.");
                }
                (Verdict::of(ratios.iter().all(|ratio| *ratio < AS_FAST)), of_single(&ratios))
            }
            _ => not_measured(NO_DISK),
        },
    },
    Claim {
        section: "Introduction",
        published: "On SSDs it has no impact, or improves it slightly.",
        check: "No job is slower than 95% of the first.",
        there: || {
            let ratios = [ratios(&SATA), ratios(&NVME)].concat();
            (Verdict::of(ratios.iter().all(|ratio| *ratio >= AS_FAST)), of_single(&ratios))
        },
        here: |found| match found.environment.rotates {
            Some(true) => not_measured("The device says that it rotates."),
            _ => {
                let ratios = job_ratios(found);
                if ratios.is_empty() {
                    return not_measured("No job is valid.");
                }
                (Verdict::of(ratios.iter().all(|ratio| *ratio >= AS_FAST)), of_single(&ratios))
            }
        },
    },
    Claim {
        section: "Solid State Storage (NVME)",
        published: "On NVMe it is faster than the single file.",
        check: "Every job is faster than the first.",
        there: || {
            let ratios = ratios(&NVME);
            (Verdict::of(ratios.iter().all(|ratio| *ratio > 1.0)), of_single(&ratios))
        },
        here: |found| {
            let ratios = job_ratios(found);
            match ratios.is_empty() {
                true => not_measured("No job is valid."),
                false => (Verdict::of(ratios.iter().all(|ratio| *ratio > 1.0)), of_single(&ratios)),
            }
        },
    },
    Claim {
        section: "Introduction",
        published: "How much slower depends on the size of the pieces.",
        check: "Smaller pieces are slower than the larger ones before them, on a disk that rotates.",
        there: || {
            let ratios = ratios(&DISK);
            (Verdict::of(ratios.windows(2).all(|pair| pair[1] < pair[0])), of_single(&ratios))
        },
        here: |_| not_measured(NO_DISK),
    },
    Claim {
        section: "Importance of These Tests",
        published: "Small archives of many files below 1M are worth a merged copy.",
        check: "Real files of 512 and 128 KiB, one after the other, are read at less than 90% of the rate of one file.",
        there: no_figures,
        here: |found| {
            let ratio = |file_bytes| found.against_whole(Shape::Files { file_bytes }, Order::InTurn);
            let ratios: Vec<f64> = [512 << 10, 128 << 10].into_iter().filter_map(ratio).collect();
            if ratios.len() < 2 {
                return not_measured("Not all of it was read.");
            }
            let figures = format!("{} {}", of_single(&ratios), break_even(found));
            (Verdict::of(ratios.iter().all(|ratio| *ratio < SLOW)), figures)
        },
    },
    Claim {
        section: "Importance of These Tests",
        published: "Archives are seldom emulated by more than 10%, so that this case is a rare one.",
        check: "An archive with 10% from other files is read at 95% of the rate of one file, or more.",
        there: no_figures,
        here: |found| partly(found, Shape::Partly { members: 64, external: 6 }),
    },
    Claim {
        section: "Introduction",
        published: "Its example of 17 files is slower than one file on a hard disk, and on an SSD it is not.",
        check: "17 files, one after the other, are read at 95% of the rate of one file, or more.",
        there: no_figures,
        here: |found| match found.environment.rotates {
            Some(true) => not_measured("The device says that it rotates."),
            _ => partly(found, Shape::Partly { members: 32, external: 16 }),
        },
    },
    Claim {
        section: "Test Setup",
        published: "A file of 32G has a reasonable level of fragmentation.",
        check: "How many pieces the file lies in.",
        there: no_figures,
        here: |_| not_measured("Random places of a file are read whether it lies in pieces or not."),
    },
    Claim {
        section: "Solid State Storage (NVME)",
        published: "PCIe 3 was the bottleneck.",
        check: "The rate against the link.",
        there: no_figures,
        here: |found| match found.environment.link.is_empty() {
            true => not_measured("The system does not say how the device is linked."),
            false => not_measured("The link here is another one; it stands under “On what”."),
        },
    },
];

/// The rows behind the first, as ratios of the printed rates.
fn ratios(table: &Printed) -> Vec<f64> {
    let rate = |row| table.number(row, 1);
    let rows = 1..table.rows.len();
    rows.filter_map(|row| Some(rate(row)? / rate(0)?)).collect()
}

fn job_ratios(found: &Findings) -> Vec<f64> {
    let others = JOBS.into_iter().filter(|(block_bytes, _)| *block_bytes != ARCHIVE_BYTES);
    others.filter_map(|(block_bytes, _)| found.job_against_first(block_bytes)).collect()
}

fn of_single(ratios: &[f64]) -> String {
    let ratios: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    format!("Against the single file: {}.", ratios.join(", "))
}

fn partly(found: &Findings, shape: Shape) -> Judgement {
    match found.against_whole(shape, Order::InTurn) {
        Some(ratio) => (Verdict::of(ratio >= AS_FAST), format!("{ratio:.2} of it.")),
        None => not_measured("It was not read."),
    }
}

/// After how many reads a merged copy has paid.
pub(super) fn break_even(found: &Findings) -> String {
    let merged = &found.merged;
    let made = units::duration_ns((merged.made_s * 1e9) as u64);
    match merged.break_even_reads {
        Some(reads) => {
            let noun = if reads <= 1.0 { "read" } else { "reads" };
            let reads = reads.ceil();
            format!(
                "A merged copy of 512 files of 128 KiB takes {made}, and has paid after {reads:.0} {noun}."
            )
        }
        None => format!("A merged copy of 512 files of 128 KiB takes {made}, and gains nothing."),
    }
}

#[cfg(test)]
mod tests {
    use stook::bench::gates::State;

    use super::super::{Job, Merged, Row};
    use super::*;
    use crate::environment::Environment;
    use crate::frame::judged;

    /// Every job and shape at this share of the first.
    fn found(share: f64, rotates: bool) -> Findings {
        let rate = |is_first: bool| if is_first { 1e9 } else { share * 1e9 };
        let job = |(block_bytes, depth): (u64, u32)| Job {
            block_bytes,
            depth,
            bytes_per_s: rate(block_bytes == ARCHIVE_BYTES),
            state: State::Valid,
            reasons: Vec::new(),
            fio_bytes_per_s: None,
        };
        let row = |shape: Shape| Row {
            shape,
            order: Order::InTurn,
            seconds: 1.0,
            bytes_per_s: rate(shape == Shape::WHOLE),
            runs: vec![1.0],
        };
        Findings {
            jobs: JOBS.map(job).into(),
            fio: None,
            rows: Shape::ALL.map(row).into(),
            merged: Merged { made_s: 0.1, gain_s: 0.03, break_even_reads: Some(0.1 / 0.03) },
            file_bytes: 1 << 30,
            archives: 1,
            rounds: 1,
            cold: String::new(),
            environment: Environment { rotates: Some(rotates), ..Environment::default() },
        }
    }

    fn verdicts(found: &Findings) -> Vec<Verdict> {
        judged(&CLAIMS, found).iter().map(|one| one.verdict).collect()
    }

    #[test]
    fn verdicts_follow_the_rates_and_the_kind_of_device() {
        use Verdict::{DoesNotHold as No, Holds as Yes, NotMeasured as None};
        assert_eq!(verdicts(&found(1.1, false)), [None, Yes, Yes, None, No, Yes, Yes, None, None]);
        assert_eq!(verdicts(&found(0.5, false)), [None, No, No, None, Yes, No, No, None, None]);
        assert_eq!(verdicts(&found(0.5, true)), [Yes, None, No, None, Yes, No, None, None, None]);
        let all = judged(&CLAIMS, &found(0.5, false));
        assert!(all[4].here.ends_with("takes 100 ms, and has paid after 4 reads."), "{}", all[4].here);
    }

    #[test]
    fn its_own_table_of_the_sata_ssd_contradicts_one_conclusion() {
        let all = judged(&CLAIMS, &found(1.0, false));
        let not: Vec<&str> = all
            .iter()
            .filter(|one| one.verdict_of_published == Verdict::DoesNotHold)
            .map(|one| one.published)
            .collect();
        assert_eq!(not, ["On SSDs it has no impact, or improves it slightly."]);
    }

    #[test]
    fn jobs_that_are_not_valid_decide_nothing() {
        let mut none = found(0.5, false);
        none.jobs.iter_mut().for_each(|job| job.state = State::Invalid);
        let verdicts = verdicts(&none);
        assert_eq!((verdicts[1], verdicts[2]), (Verdict::NotMeasured, Verdict::NotMeasured));
    }
}
