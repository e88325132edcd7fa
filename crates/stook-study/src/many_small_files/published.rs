//! The measurements and conclusions of the published study of many small files, and which of them
//! are true here.
//!
//! It kept 50,000 segments of 20,000 bytes once in one file and once in 50,000 files two
//! directories deep, and restarted the machine before every read. It does not say how many runs its
//! figures are from.

use super::readers::Reader;
use super::{FILES, Findings, PLAIN};
use crate::verdict::Verdict;

/// A row of the published table.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Published {
    /// File system.
    pub file_system: &'static str,
    /// Operating system.
    pub system: &'static str,
    /// Reading one composite file, seconds.
    pub one_file_s: f64,
    /// Reading 50,000 files, seconds.
    pub files_s: f64,
    /// Files against one file; it follows from the two, and is not printed.
    pub ratio: f64,
    /// The extra cost of a file over a segment, milliseconds; not printed either.
    pub extra_ms_per_file: f64,
}

const fn row(
    file_system: &'static str,
    system: &'static str,
    [one_file_s, files_s, ratio, extra_ms_per_file]: [f64; 4],
) -> Published {
    Published { file_system, system, one_file_s, files_s, ratio, extra_ms_per_file }
}

/// The published table.
pub const PUBLISHED: [Published; 5] = [
    row("ext4", "Ubuntu 12", [35.547, 63.381, 1.78, 0.56]),
    row("fat32", "Ubuntu 12", [29.342, 148.746, 5.07, 2.39]),
    row("ntfs", "Ubuntu 12", [30.196, 54.629, 1.81, 0.49]),
    row("fat32", "Windows 7", [32.806, 166.069, 5.06, 2.67]),
    row("ntfs", "Windows 7", [38.383, 211.933, 5.52, 3.47]),
];

/// One composite file against many files, as published or as measured here.
pub(super) struct Comparison {
    /// Where, or which file.
    pub(super) label: String,
    one_file_s: f64,
    files_s: f64,
    pub(super) ratio: f64,
    extra_ms_per_file: f64,
    /// Digits after the point of the last figure.
    digits: usize,
}

impl From<Published> for Comparison {
    fn from(row: Published) -> Self {
        let Published { one_file_s, files_s, ratio, extra_ms_per_file, .. } = row;
        let label = format!("{}, {}", row.file_system, row.system);
        Self { label, one_file_s, files_s, ratio, extra_ms_per_file, digits: 2 }
    }
}

impl Comparison {
    /// A row of a table, with these units after seconds and milliseconds.
    pub(super) fn cells(&self, label: String, (s, ms): (&str, &str)) -> [String; 5] {
        [
            label,
            format!("{:.3}{s}", self.one_file_s),
            format!("{:.3}{s}", self.files_s),
            format!("{:.2}", self.ratio),
            format!("{:.*}{ms}", self.digits, self.extra_ms_per_file),
        ]
    }
}

/// The plain file and the pack against the files, as measured here.
pub(super) fn comparisons(findings: &Findings) -> Vec<Comparison> {
    let find = |reader| findings.rows.iter().find(|row| row.reader == Some(reader));
    let Some(files) = find(FILES) else { return Vec::new() };
    let files_of_all = findings.returned.records.max(1) as f64;
    let comparison = |(label, reader): (&str, Reader)| {
        let row = find(reader)?;
        Some(Comparison {
            label: label.to_owned(),
            one_file_s: row.seconds,
            files_s: files.seconds,
            ratio: row.speedup,
            extra_ms_per_file: (files.seconds - row.seconds) / files_of_all * 1e3,
            digits: 3,
        })
    };
    [("plain file", PLAIN), ("pack", Reader::PackStream)].into_iter().filter_map(comparison).collect()
}

/// A published conclusion, and the result here.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Conclusion {
    /// The conclusion.
    pub published: &'static str,
    /// Whether it holds here.
    pub verdict: Verdict,
    /// The figures that show it.
    pub here: String,
}

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
    /// The same a second time, without emptying caches.
    pub plain_again_s: f64,
    /// The pack, streaming.
    pub pack_s: f64,
}

/// A difference smaller than this share decides nothing.
const NOTICEABLE: f64 = 1.2;

/// Judges the published conclusions.
pub fn conclusions(found: &Found) -> Vec<Conclusion> {
    let ratio = found.files_s / found.plain_s;
    let extra_ms = (found.files_s - found.plain_s) / found.files.max(1) as f64 * 1e3;
    let overhead = 1.0 - found.plain_s / found.files_s;
    let again = found.plain_s / found.plain_again_s;
    vec![
        Conclusion {
            published: "The same bytes take longer from 50,000 files than from one composite file (by its table, 1.78 \
                        to 5.52 times).",
            verdict: Verdict::of(ratio > NOTICEABLE),
            here: format!(
                "{ratio:.2} times, with the published 64 KiB read buffer: {extra_ms:.3} ms more for each file."
            ),
        },
        Conclusion {
            published: "Most of the time goes into locating and opening files, not into reading them.",
            verdict: Verdict::of(overhead > 0.5),
            here: format!(
                "{:.0}% of the time of one reader is gone when the same bytes come from one file.",
                overhead.max(0.0) * 100.0
            ),
        },
        Conclusion {
            published: "Once the files have been read they may be expected in the file cache.",
            verdict: Verdict::of(again > NOTICEABLE),
            here: format!(
                "The plain file took {:.3} s cold and {:.3} s right after that.",
                found.plain_s, found.plain_again_s
            ),
        },
        Conclusion {
            published: "Avoid storing data in a large number of files.",
            verdict: Verdict::of(found.files_parallel_s > found.pack_s * NOTICEABLE),
            here: format!(
                "Even {} readers at once, which the study did not try, took {:.2} times as long as the pack with all \
                 checksums verified.",
                found.readers,
                found.files_parallel_s / found.pack_s
            ),
        },
        Conclusion {
            published: "If it must be many files: Linux and a native file system with sectors of 4K.",
            verdict: Verdict::NotMeasured,
            here: "Only one file system was measured here.".to_owned(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_ratios_follow_from_the_published_times() {
        for row in PUBLISHED {
            assert!((row.files_s / row.one_file_s - row.ratio).abs() < 0.01, "{row:?}");
            let extra_ms = (row.files_s - row.one_file_s) / 50_000.0 * 1e3;
            assert!((extra_ms - row.extra_ms_per_file).abs() < 0.01, "{row:?}");
        }
    }

    #[test]
    fn verdicts_follow_the_figures() {
        let found = Found {
            files: 1000,
            files_s: 8.0,
            files_parallel_s: 1.2,
            readers: 32,
            plain_s: 1.0,
            plain_again_s: 0.2,
            pack_s: 0.6,
        };
        let holding = |found: &Found| {
            conclusions(found).iter().filter(|conclusion| conclusion.verdict == Verdict::Holds).count()
        };
        assert_eq!(holding(&found), 4);
        assert!(conclusions(&found)[0].here.ends_with("7.000 ms more for each file."));
        let fast = Found { files_s: 1.0, files_parallel_s: 0.5, plain_again_s: 1.0, ..found };
        assert_eq!(holding(&fast), 0);
    }
}
