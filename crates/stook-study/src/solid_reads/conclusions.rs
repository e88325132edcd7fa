//! The conclusions of the published measurement of archives, and which of them hold here.

use stook::report::units;

use super::archives::{ARCHIVE_BYTES, Order, Shape};
use super::merged::SLOW;
use super::published::{DISK, NVME, SATA};
use super::{Findings, JOBS, simulated};
use crate::environment::DeviceKind;
use crate::frame::{Claim, Judgement, Printed, no_figures, not_measured};
use crate::text::duration_s;
use crate::verdict::Verdict;

/// What is no slower than this share is not slower.
const AS_FAST: f64 = 0.95;
/// A rate of this share of what the link carries is bound by it.
const BOUND: f64 = 0.85;
/// What PCI Express 3 carries with four lanes, MB/s: 8 GT/s each, 128 of 130 bits of them data.
const PCIE3_MB_PER_S: f64 = 4.0 * 8e3 / 8.0 * 128.0 / 130.0;
/// The size of files that the document names, and how near to it ours has to be: a factor of 2.
const NAMED_BYTES: f64 = 1_048_576.0;

pub(super) const CLAIMS: [Claim<Findings>; 12] = [
    Claim {
        section: "Introduction, Old Hard Drive",
        published: "On hard disks, loads out of many files are slower, because of seeks.",
        check: "Every shape is slower than 95% of the single file, on a disk that rotates.",
        there: || {
            let ratios = ratios(&DISK);
            (Verdict::of(ratios.iter().all(|ratio| *ratio < AS_FAST)), of_single(&ratios))
        },
        here: |found| match found.is_hard_disk() {
            true => of_jobs(found, |ratios| ratios.iter().all(|ratio| *ratio < AS_FAST)),
            false => no_disk(found, |ratios| ratios.iter().all(|ratio| *ratio < AS_FAST)),
        },
    },
    Claim {
        section: "Introduction",
        published: "On SSDs it has no impact, or improves it slightly.",
        check: "No job is slower than 95% of the first, on a device that says that it does not rotate.",
        there: || {
            let ratios = [ratios(&SATA), ratios(&NVME)].concat();
            (Verdict::of(ratios.iter().all(|ratio| *ratio >= AS_FAST)), of_single(&ratios))
        },
        here: |found| match found.kind().is_ssd() {
            true => of_jobs(found, |ratios| ratios.iter().all(|ratio| *ratio >= AS_FAST)),
            false => not_measured(NO_SSD),
        },
    },
    Claim {
        section: "Solid State Storage (NVME)",
        published: "On NVMe it is faster than the single file.",
        check: "Every job is faster than the first, on a device that is linked by NVMe.",
        there: || {
            let ratios = ratios(&NVME);
            (Verdict::of(ratios.iter().all(|ratio| *ratio > 1.0)), of_single(&ratios))
        },
        here: |found| match found.kind() == DeviceKind::NvmeSsd {
            true => of_jobs(found, |ratios| ratios.iter().all(|ratio| *ratio > 1.0)),
            false => not_measured("The device is not known to be NVMe."),
        },
    },
    Claim {
        section: "Introduction",
        published: "How much slower depends on the size of the pieces.",
        check: "Smaller pieces are slower than the larger ones before them, on a disk that rotates.",
        there: || {
            let ratios = ratios(&DISK);
            (Verdict::of(falling(&ratios)), of_single(&ratios))
        },
        here: |found| match found.is_hard_disk() {
            true if job_ratios(found).len() < 2 => not_measured("Fewer than two jobs are valid."),
            true => of_jobs(found, falling),
            false => no_disk(found, falling),
        },
    },
    Claim {
        section: "Importance of These Tests",
        published: "Small archives of many files below 1M are worth a merged copy.",
        check: "An archive of 64 MiB out of real files of 512 or 128 KiB, one after the other, is read at less than 90% of \
                the rate of one file.",
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
        published: "Files below 1M are small in this sense.",
        check: "One after the other, files of every measured size below 1 MiB are read at less than 90% of the rate of one file, \
                and of 1 MiB and more at 90% or more; a limit within a factor of 2 counts as 1 MiB.",
        there: no_figures,
        here: |found| {
            let Some(rule) = found.rule else { return not_measured(size_rule(found)) };
            let near = NAMED_BYTES / 2.0..=NAMED_BYTES * 2.0;
            // The limit lies above the largest slow size, and at most at the smallest fast one.
            let least = rule.slow_bytes.unwrap_or(0) as f64;
            let most = rule.fast_bytes as f64;
            if near.contains(&least) && near.contains(&most) {
                (Verdict::Holds, size_rule(found))
            } else if least >= *near.end() || most <= *near.start() {
                (Verdict::DoesNotHold, size_rule(found))
            } else {
                not_measured(format!("{} Sizes between were not read.", size_rule(found)))
            }
        },
    },
    Claim {
        section: "Importance of These Tests",
        published: "Archives below 32M are small in this sense.",
        check: "Whether a copy pays after more reads where the archive is larger.",
        there: no_figures,
        here: |_| not_measured("Archives of one size are read."),
    },
    Claim {
        section: "Importance of These Tests",
        published: "A merged copy takes away what is lost on hard disks.",
        check: "A merged copy of 512 files of 128 KiB is read at 95% of the rate of one file, or more, on a disk that rotates.",
        there: no_figures,
        here: |found| {
            if !found.is_hard_disk() {
                return not_measured(NO_DISK);
            }
            let whole = found.rows.iter().find(|row| (row.shape, row.order) == (Shape::WHOLE, Order::InTurn));
            let Some((merged, whole)) = found.smallest().zip(whole) else {
                return not_measured("Not all of it was read.");
            };
            let ratio = whole.seconds / merged.read_s;
            (Verdict::of(ratio >= AS_FAST), format!("{ratio:.2} of it."))
        },
    },
    Claim {
        section: "Importance of These Tests",
        published: "Archives are rarely emulated by 100%; usually less than 10% of the files of large ones are.",
        check: "How much of the archives in use comes from other files.",
        there: no_figures,
        here: |_| not_measured("How archives are used is not seen here."),
    },
    Claim {
        section: "Introduction",
        published: "Its example of 17 files is slower than one file on a hard disk, and on an SSD it is not.",
        check: "17 files, one after the other, are read at less than 95% of the rate of one file on a disk that rotates, \
                and at 95% or more on a device that says that it does not.",
        there: no_figures,
        here: |found| {
            let example = Shape::Partly { members: 32, external: 16 };
            match found.against_whole(example, Order::InTurn) {
                None => not_measured("It was not read."),
                Some(_) if found.kind() == DeviceKind::Unknown => not_measured(DeviceKind::UNKNOWN),
                Some(ratio) => {
                    (Verdict::of((ratio < AS_FAST) == found.is_hard_disk()), format!("{ratio:.2} of it."))
                }
            }
        },
    },
    Claim {
        section: "Test Setup",
        published: "A test file of 32G emulates a reasonable level of fragmentation.",
        check: "How far apart the pieces of real archives lie, against random places of 32G.",
        there: no_figures,
        here: |_| not_measured("How archives in use lie on a device is not seen here."),
    },
    Claim {
        section: "Solid State Storage (NVME)",
        published: "PCIe 3 was the bottleneck.",
        check: "The highest rate is at least 85% of what the link carries; PCIe 3 with four lanes, whose number it does \
                not state, carries 3,938 MB/s.",
        there: || {
            let most = (0..NVME.rows.len()).filter_map(|row| NVME.number(row, 1)).fold(0.0, f64::max);
            bound(most / PCIE3_MB_PER_S)
        },
        here: |found| {
            let valid = found.jobs.iter().filter(|job| !job.state.is_invalid());
            let most = valid.map(|job| job.bytes_per_s).max_by(f64::total_cmp);
            match (found.link_limit_bytes_per_s, most) {
                (None, _) => not_measured("The system does not say how the device is linked."),
                (_, None) => not_measured("No job is valid."),
                (Some(limit), Some(most)) => bound(most / limit),
            }
        },
    },
];

const NO_DISK: &str = "No disk is known to rotate here.";
const NO_SSD: &str = "The device is not known to be an SSD.";

fn bound(share: f64) -> Judgement {
    (Verdict::of(share >= BOUND), format!("{} of it.", units::percent(share)))
}

/// Smaller pieces come later.
fn falling(ratios: &[f64]) -> bool {
    ratios.windows(2).all(|pair| matches!(pair, [before, after] if after < before))
}

/// What a simulation says of the same check, where no disk rotates: no verdict.
fn no_disk(found: &Findings, check: fn(&[f64]) -> bool) -> Judgement {
    let ratios = simulated::ratios(&found.simulated);
    let would = if check(&ratios) { "would hold" } else { "would not hold" };
    not_measured(format!("{NO_DISK} On a simulated one it {would}. {}", of_single(&ratios)))
}

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

/// A check of the jobs against the first.
fn of_jobs(found: &Findings, check: fn(&[f64]) -> bool) -> Judgement {
    let ratios = job_ratios(found);
    match ratios.is_empty() {
        true => not_measured("No job is valid."),
        false => (Verdict::of(check(&ratios)), of_single(&ratios)),
    }
}

fn of_single(ratios: &[f64]) -> String {
    let ratios: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    format!("Against the single file: {}.", ratios.join(", "))
}

/// After how many reads a merged copy has paid.
pub(super) fn break_even(found: &Findings) -> String {
    let Some(merged) = found.smallest() else { return "No copy was merged.".to_owned() };
    let made = duration_s(merged.made_s);
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

/// From which size of files on a merged copy is worth while here.
pub(super) fn size_rule(found: &Findings) -> String {
    let Some(rule) = found.rule else { return "Too little was read for a rule about sizes.".to_owned() };
    let fast = units::bytes_binary(rule.fast_bytes);
    let sizes = match rule.slow_bytes {
        None => {
            format!("Files of every size, down to {fast}, are read at 90% of the rate of one file or more.")
        }
        Some(slow) => format!(
            "Of the sizes that were read one file after the other, {} and less come at less than 90% of the rate of one file, \
             and {fast} and more do not.",
            units::bytes_binary(slow)
        ),
    };
    let line = match rule.line {
        Some(line) => format!(
            " Each file costs {} beside its bytes, which come at {}.",
            duration_s(line.per_file_s),
            units::rate(line.bytes_per_s)
        ),
        None => " No line fits the times, so what a file costs is not said.".to_owned(),
    };
    sizes + &line
}

#[cfg(test)]
pub(super) mod tests {
    use stook::bench::gates::State;

    use super::super::{Job, Merged, Row, Rule};
    use super::*;
    use crate::disk::SimulatedDisk;
    use crate::environment::Environment;
    use crate::frame::judged;

    /// Every job and shape at this share of the first, on an NVMe SSD or a disk.
    pub(in super::super) fn found(share: f64, rotates: bool) -> Findings {
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
            merged: vec![Merged {
                file_bytes: 128 << 10,
                files: 512,
                made_s: 0.1,
                read_s: 1.0,
                gain_s: 0.03,
                break_even_reads: Some(0.1 / 0.03),
            }],
            rule: Some(Rule { slow_bytes: Some(512 << 10), fast_bytes: 1 << 20, line: None }),
            simulated: simulated::jobs(&SimulatedDisk::ORDINARY),
            simulated_disk: SimulatedDisk::ORDINARY,
            link_limit_bytes_per_s: None,
            file_bytes: 1 << 30,
            archives: 1,
            rounds: 1,
            cold: String::new(),
            is_memory: false,
            environment: Environment {
                device: if rotates { "sda1, Blue" } else { "nvme0n1p2, Rocket" }.to_owned(),
                rotates: Some(rotates),
                ..Environment::default()
            },
        }
    }

    fn verdicts(found: &Findings) -> Vec<Verdict> {
        judged(&CLAIMS, found).iter().map(|one| one.verdict).collect()
    }

    #[test]
    fn verdicts_follow_the_rates_and_the_kind_of_device() {
        use Verdict::{DoesNotHold as No, Holds as Yes, NotMeasured as None};
        // Of merging: what it gains, the size of files, the size of archives, the copy.
        let merging = |gains, copy| [gains, Yes, None, copy];
        let all = |begin: [Verdict; 4], merging: [Verdict; 4], example| {
            [begin, merging, [None, example, None, None]].concat()
        };
        let of = |share, rotates| verdicts(&found(share, rotates));
        assert_eq!(of(1.1, false), all([None, Yes, Yes, None], merging(No, None), Yes));
        assert_eq!(of(0.5, false), all([None, No, No, None], merging(Yes, None), No));
        // All jobs are equally slow: smaller pieces are not slower than larger ones.
        assert_eq!(of(0.5, true), all([Yes, None, None, No], merging(Yes, Yes), Yes));
        assert_eq!(of(1.1, true), all([No, None, None, No], merging(No, Yes), No));
        let all = judged(&CLAIMS, &found(0.5, false));
        assert!(all[4].here.ends_with("takes 100 ms, and has paid after 4 reads."), "{}", all[4].here);
        assert!(all[5].here.contains("512 KiB and less come at less than 90%"), "{}", all[5].here);
    }

    /// Before: a virtual disk, and one on SATA, decided about SSDs and about NVMe.
    #[test]
    fn a_device_of_another_kind_decides_nothing_about_one() {
        let of = |device: &str, rotates| {
            let environment = Environment { device: device.to_owned(), rotates, ..Environment::default() };
            let seen = verdicts(&Findings { environment, ..found(1.1, false) });
            [0, 1, 2, 3, 7, 9].map(|number| seen[number])
        };
        use Verdict::{Holds, NotMeasured};
        assert_eq!(of("vda1", None), [NotMeasured; 6]);
        let sata = [NotMeasured, Holds, NotMeasured, NotMeasured, NotMeasured, Holds];
        assert_eq!(of("sda1, SanDisk", Some(false)), sata);
    }

    #[test]
    fn what_a_simulated_disk_says_is_named_so_and_is_no_verdict() {
        let all = judged(&CLAIMS, &found(1.0, false));
        for number in [0, 3] {
            let one = &all[number];
            assert_eq!(one.verdict, Verdict::NotMeasured);
            let said = "No disk is known to rotate here. On a simulated one it would hold. Against the single file: ";
            assert!(one.here.starts_with(said), "{}", one.here);
        }
    }

    #[test]
    fn a_size_of_files_far_from_the_named_one_and_a_copy_that_is_slow_are_seen() {
        let mut other = found(0.5, true);
        other.rule = other.rule.map(|rule| Rule { slow_bytes: None, fast_bytes: 128 << 10, ..rule });
        other.merged[0].read_s = 1.2;
        let seen = verdicts(&other);
        assert_eq!([seen[5], seen[7]], [Verdict::DoesNotHold; 2]);
        let of = |slow_bytes, fast_bytes| Some(Rule { slow_bytes, fast_bytes, line: None });
        for (rule, verdict) in [
            (of(Some(4 << 20), 64 << 20), Verdict::DoesNotHold),
            (of(Some(1 << 20), 4 << 20), Verdict::NotMeasured),
            (None, Verdict::NotMeasured),
        ] {
            other.rule = rule;
            assert_eq!(verdicts(&other)[5], verdict);
        }
        other.merged.clear();
        assert_eq!(verdicts(&other)[7], Verdict::NotMeasured);
    }

    #[test]
    fn a_link_bounds_what_comes_near_to_what_it_carries() {
        let judged_of = |link_limit_bytes_per_s| {
            let found = Findings { link_limit_bytes_per_s, ..found(0.5, false) };
            judged(&CLAIMS, &found)[11].clone()
        };
        let one = judged_of(Some(1.1e9));
        assert_eq!((one.verdict, one.here.as_str()), (Verdict::Holds, "90.9% of it."));
        assert_eq!(judged_of(Some(2e9)).verdict, Verdict::DoesNotHold);
        assert_eq!(
            (one.verdict_of_published, one.figures_of_published.as_str()),
            (Verdict::Holds, "92.0% of it.")
        );
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
