//! The conclusions of the published study of many small files, and which of them hold here.

use super::published::pairs;
use crate::frame::{Claim, Judgement, no_figures, not_measured};
use crate::verdict::Verdict;

/// The figures that the conclusions are judged by, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// Files.
    pub files: u64,
    /// Loose files, one reader.
    pub files_s: f64,
    /// Loose files, the best number of readers.
    pub files_parallel_s: f64,
    /// Readers of that.
    pub readers: usize,
    /// The plain file with the published buffer.
    pub plain_s: f64,
    /// Processor time of that.
    pub plain_cpu_s: f64,
    /// The same a second time, without emptying caches.
    pub plain_again_s: f64,
    /// The pack, streaming.
    pub pack_s: f64,
    /// Speed of the plain file against large reads of the device in order.
    pub plain_of_limit: f64,
}

/// A difference smaller than this share decides nothing.
const NOTICEABLE: f64 = 1.2;

/// What is above this share of the speed of the device is not believed.
const IMPOSSIBLE: f64 = 1.1;

const ONE_SYSTEM: &str = "One file system was measured, the one below --work.";

pub(super) const CLAIMS: [Claim<Found>; 14] = [
    Claim {
        section: "Introduction, Testing",
        published: "The same data is read more slowly from many files than from one.",
        check: "Reading the files takes at least 1.2 times as long as reading one file.",
        there: ratios,
        here: |found| {
            let ratio = found.files_s / found.plain_s;
            let extra_ms = (found.files_s - found.plain_s) / found.files.max(1) as f64 * 1e3;
            let figures = format!("{ratio:.2} times: {extra_ms:.3} ms more for each file.");
            (Verdict::of(ratio > NOTICEABLE), figures)
        },
    },
    Claim {
        section: "Solution",
        published: "Most of the time goes into locating and opening the files, not into reading them.",
        check: "More than half of the time is gone when the same bytes come from one file.",
        there: || {
            let shares = pairs().into_iter().map(|pair| 1.0 - pair.one_file_s / pair.files_s);
            let shares: Vec<f64> = shares.collect();
            let (least, most) = ends(&shares);
            let figures = format!(
                "{:.0}% to {:.0}% of the time by its table, of a disk; its profile of an SSD is not printed.",
                least * 100.0,
                most * 100.0
            );
            (Verdict::of(least > 0.5), figures)
        },
        here: |found| {
            let overhead = 1.0 - found.plain_s / found.files_s;
            (Verdict::of(overhead > 0.5), format!("{:.0}% of the time.", overhead.max(0.0) * 100.0))
        },
    },
    Claim {
        section: "Solution",
        published: "Loading one file gets very close to what the device needs for reading in order.",
        check: "The plain file is read at 80% of the speed of large reads in order past the page cache, or more.",
        there: no_figures,
        here: |found| {
            let figures = format!("At {:.0}% of it, with reads of 64 KiB.", found.plain_of_limit * 100.0);
            // What is faster than the device did not come from it.
            if found.plain_of_limit > IMPOSSIBLE {
                return not_measured(format!(
                    "{figures} That is more than the device gave: from a cache, or too short."
                ));
            }
            (Verdict::of(found.plain_of_limit >= 0.8), figures)
        },
    },
    Claim {
        section: "Solution",
        published: "A used flag lets a program skip historical records without parsing them.",
        check: "A file half of whose records are history: skipped, against parsed.",
        there: no_figures,
        here: |_| not_measured("The plain file has no used flag yet."),
    },
    Claim {
        section: "Testing",
        published: "One file takes nearly the same time on all file systems and operating systems.",
        check: "The slowest takes at most 1.2 times as long as the quickest.",
        there: || {
            let seconds: Vec<f64> = pairs().into_iter().map(|pair| pair.one_file_s).collect();
            let (least, most) = ends(&seconds);
            let figures = format!("{least:.3} to {most:.3} s: {:.2} times.", most / least);
            (Verdict::of(most / least <= NOTICEABLE), figures)
        },
        here: |_| not_measured(ONE_SYSTEM),
    },
    Claim {
        section: "Testing",
        published: "It is limited mostly by the disk, and less by processor and memory.",
        check: "Reading the plain file takes less processor time than half of its time.",
        there: no_figures,
        here: |found| {
            let share = found.plain_cpu_s / found.plain_s;
            (Verdict::of(share < 0.5), format!("Processors worked for {:.0}% of the time.", share * 100.0))
        },
    },
    Claim {
        section: "Testing",
        published: "On Ubuntu ext4 and NTFS take about the same time for many files.",
        check: "The slower takes at most 1.2 times as long.",
        there: || {
            let (ext4, ntfs) = (files_s("ext4, Ubuntu 12"), files_s("ntfs, Ubuntu 12"));
            let ratio = ext4.max(ntfs) / ext4.min(ntfs);
            (Verdict::of(ratio <= NOTICEABLE), format!("{ext4:.3} and {ntfs:.3} s: {ratio:.2} times."))
        },
        here: |_| not_measured(ONE_SYSTEM),
    },
    Claim {
        section: "Testing",
        published: "FAT32 takes approximately 3 times as long as both.",
        check: "2.5 to 3.5 times as long as each.",
        there: || {
            let of = |label| files_s("fat32, Ubuntu 12") / files_s(label);
            let (ext4, ntfs) = (of("ext4, Ubuntu 12"), of("ntfs, Ubuntu 12"));
            let holds = [ext4, ntfs].iter().all(|times| (2.5..=3.5).contains(times));
            (Verdict::of(holds), format!("{ext4:.2} times ext4, {ntfs:.2} times NTFS."))
        },
        here: |_| not_measured(ONE_SYSTEM),
    },
    Claim {
        section: "Testing",
        published: "That is because 64 KB are read for each file of 20 KB.",
        check: "Bytes read at the device ÷ bytes of the files, with sectors of 64 KB.",
        there: no_figures,
        here: |_| not_measured(ONE_SYSTEM),
    },
    Claim {
        section: "Testing",
        published: "Ubuntu reads ahead and hides much of that; Windows 7 hardly does, on NTFS.",
        check: "The same with read-ahead of the kernel and without; and on Windows.",
        there: || {
            let (ubuntu, windows) = (files_s("ntfs, Ubuntu 12"), files_s("ntfs, Windows 7"));
            let ratio = windows / ubuntu;
            (Verdict::of(ratio > NOTICEABLE), format!("NTFS takes {ratio:.2} times as long on Windows."))
        },
        here: |_| not_measured("The read-ahead of the kernel was left as it was, and this is not Windows."),
    },
    Claim {
        section: "Testing",
        published: "In real life it is worse, because small files do not lie beside each other.",
        check: "A tree that was written in turn with others, deleted in part and written again.",
        there: no_figures,
        here: |_| not_measured("The sample was written in one go. --dir measures a tree that has grown."),
    },
    Claim {
        section: "Summary",
        published: "Avoid storing data in a large number of files.",
        check: "Even the best number of readers of the files takes 1.2 times as long as a pack, or more.",
        there: ratios,
        here: |found| {
            let ratio = found.files_parallel_s / found.pack_s;
            let figures = format!(
                "{} readers at once, which the document did not try, took {ratio:.2} times as long as the pack with all \
                 checksums verified.",
                found.readers
            );
            (Verdict::of(ratio > NOTICEABLE), figures)
        },
    },
    Claim {
        section: "Summary",
        published: "If it must be many files: Linux, and a file system of its own with sectors of 4K.",
        check: "Many files, on file systems of Linux and on others.",
        there: || {
            let times = files_s("ntfs, Windows 7") / files_s("ext4, Ubuntu 12");
            let figures = format!(
                "NTFS on Windows takes {times:.2} times as long as ext4; NTFS on Ubuntu less than ext4."
            );
            (Verdict::of(times > NOTICEABLE), figures)
        },
        here: |_| not_measured(ONE_SYSTEM),
    },
    Claim {
        section: "Summary",
        published: "Once read, or written by another program, the files may be expected in the file cache.",
        check: "The plain file takes at least 1.2 times as long cold as right after that.",
        there: no_figures,
        here: |found| {
            let figures = format!(
                "{:.3} s cold and {:.3} s right after that; the same program read it both times.",
                found.plain_s, found.plain_again_s
            );
            (Verdict::of(found.plain_s / found.plain_again_s > NOTICEABLE), figures)
        },
    },
];

fn files_s(label: &str) -> f64 {
    pairs().into_iter().find(|pair| pair.label == label).map_or(f64::NAN, |pair| pair.files_s)
}

fn ends(figures: &[f64]) -> (f64, f64) {
    let wider = |(least, most): (f64, f64), figure: &f64| (figure.min(least), figure.max(most));
    figures.iter().fold((f64::INFINITY, 0.0), wider)
}

/// Many files against one, in every pair of the table.
fn ratios() -> Judgement {
    let ratios: Vec<f64> = pairs().into_iter().map(|pair| pair.files_s / pair.one_file_s).collect();
    let (least, most) = ends(&ratios);
    (Verdict::of(least > NOTICEABLE), format!("{least:.2} to {most:.2} times."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::judged;

    const FOUND: Found = Found {
        files: 1000,
        files_s: 8.0,
        files_parallel_s: 1.2,
        readers: 32,
        plain_s: 1.0,
        plain_cpu_s: 0.2,
        plain_again_s: 0.2,
        pack_s: 0.6,
        plain_of_limit: 0.9,
    };

    #[test]
    fn verdicts_follow_the_figures() {
        let verdicts = |found: &Found, wanted| {
            judged(&CLAIMS, found).iter().filter(|conclusion| conclusion.verdict == wanted).count()
        };
        assert_eq!((verdicts(&FOUND, Verdict::Holds), verdicts(&FOUND, Verdict::NotMeasured)), (6, 8));
        let cached = Found { plain_of_limit: 2.0, ..FOUND };
        assert_eq!((verdicts(&cached, Verdict::Holds), verdicts(&cached, Verdict::NotMeasured)), (5, 9));
        assert!(judged(&CLAIMS, &FOUND)[0].here.ends_with("7.000 ms more for each file."));
        let fast = Found {
            files_s: 1.0,
            files_parallel_s: 0.5,
            plain_again_s: 1.0,
            plain_cpu_s: 0.9,
            plain_of_limit: 0.3,
            ..FOUND
        };
        assert_eq!((verdicts(&fast, Verdict::Holds), verdicts(&fast, Verdict::DoesNotHold)), (0, 6));
    }

    #[test]
    fn its_own_table_contradicts_three_of_its_conclusions() {
        let judged = judged(&CLAIMS, &FOUND);
        let not = judged.iter().filter(|one| one.verdict_of_published == Verdict::DoesNotHold);
        let not: Vec<&str> = not.map(|one| one.figures_of_published.as_str()).collect();
        assert_eq!(
            not,
            [
                "44% to 82% of the time by its table, of a disk; its profile of an SSD is not printed.",
                "29.342 to 38.383 s: 1.31 times.",
                "2.35 times ext4, 2.72 times NTFS.",
            ]
        );
    }
}
