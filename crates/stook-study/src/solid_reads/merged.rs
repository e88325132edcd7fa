//! Archives of many files that are made into one, and the size of files from which on that pays.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde::Serialize;
use stook::report::least_squares::{LinearFit, Point};
use stook::report::stats::median;

use super::archives::{ARCHIVE_BYTES, Archive, Files, READ_LEN};
use super::{Order, Row, Shape};
use crate::cold::{Cold, Next};
use crate::meter::Taken;
use crate::sample::remove;

/// Bytes of the files that archives are merged of, the smallest last.
pub(super) const FILE_BYTES: [u64; 4] = [4 << 20, 1 << 20, 512 << 10, 128 << 10];
/// The share of the rate of one file below which a merged copy is worth while.
pub(super) const SLOW: f64 = 0.90;
/// How often each copy is read.
const READS: usize = 3;

/// An archive of many files made into one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Merged {
    /// Bytes of each of its files.
    pub file_bytes: u64,
    /// How many there are.
    pub files: u64,
    /// Making it, down to the medium, seconds.
    pub made_s: f64,
    /// Reading it, cold and in order, seconds.
    pub read_s: f64,
    /// What one read of it gains over its files one after the other, seconds; below 0 where it
    /// loses.
    pub gain_s: f64,
    /// Reads after which it has paid; absent where it never does.
    pub break_even_reads: Option<f64>,
}

/// What making a copy took, and reading it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copied {
    file_bytes: u64,
    made_s: f64,
    read_s: f64,
}

impl Copied {
    /// Makes a copy of the archive of files of this length, compares it, reads it, and removes it.
    pub(super) fn measure(file_bytes: u64, files: &Files, cold: &Cold, copy: &Path) -> anyhow::Result<Self> {
        let archive = Archive::new(Shape::Files { file_bytes }, files, 0);
        cold.prepare(Next { paths: archive.paths(), memory_bytes: ARCHIVE_BYTES })?;
        let (taken, bytes) = Taken::by(|| {
            let bytes = archive.bytes()?;
            let context = || format!("cannot write {}", copy.display());
            fs::write(copy, &bytes).with_context(context)?;
            fs::File::open(copy).and_then(|file| file.sync_all()).with_context(context)?;
            Ok(bytes)
        })?;
        let found = fs::read(copy).with_context(|| format!("cannot read {}", copy.display()))?;
        ensure!(found == bytes, "{} has other bytes than its files", copy.display());
        let mut reads = Vec::new();
        for _ in 0..READS {
            let paths = [copy.to_owned()];
            cold.prepare(Next { paths: &paths, memory_bytes: ARCHIVE_BYTES })?;
            reads.push(read_s(copy).with_context(|| format!("cannot read {}", copy.display()))?);
        }
        remove(copy)?;
        Ok(Self { file_bytes, made_s: taken.seconds, read_s: median(&reads)? })
    }

    /// Beside what its files take; `None` where these were not read.
    pub(super) fn against(self, rows: &[Row]) -> Option<Merged> {
        let Self { file_bytes, made_s, read_s } = self;
        let shape = Shape::Files { file_bytes };
        let row = rows.iter().find(|row| (row.shape, row.order) == (shape, Order::InTurn))?;
        let gain_s = row.seconds - read_s;
        let break_even_reads = (gain_s > 0.0).then(|| made_s / gain_s);
        Some(Merged { file_bytes, files: shape.files(), made_s, read_s, gain_s, break_even_reads })
    }
}

fn read_s(path: &Path) -> std::io::Result<f64> {
    let mut buffer = vec![0; READ_LEN];
    let began = Instant::now();
    let mut file = fs::File::open(path)?;
    while file.read(&mut buffer)? > 0 {}
    Ok(began.elapsed().as_secs_f64())
}

/// From which size of files on a merged copy is worth while, of the sizes that were read one after
/// the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rule {
    /// The largest size of files that is read at less than 90% of the rate of one file; absent
    /// where none is.
    pub slow_bytes: Option<u64>,
    /// The smallest size of files that is not, and all larger ones are not either.
    pub fast_bytes: u64,
    /// What files cost, where a line fits.
    pub line: Option<Line>,
}

/// What a file costs and what its bytes cost: a line through the times of archives of the same
/// bytes in different numbers of files.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Line {
    /// What each further file costs, seconds.
    pub per_file_s: f64,
    /// How fast the bytes then come.
    pub bytes_per_s: f64,
}

/// A line from which a time lies farther than this share does not describe what was measured.
const RESIDUAL_MAX: f64 = 0.10;

impl Rule {
    /// `None` where too little was read.
    pub(super) fn of(rows: &[Row]) -> Option<Self> {
        let mut all: Vec<(u64, f64)> = rows.iter().filter_map(in_turn).collect();
        all.sort_by_key(|(file_bytes, _)| std::cmp::Reverse(*file_bytes));
        let ((whole, whole_s), others) = all.split_first()?;
        if *whole != ARCHIVE_BYTES || others.is_empty() {
            return None;
        }
        let is_slow = |seconds: f64| whole_s / seconds < SLOW;
        let slow_bytes = others.iter().find(|(_, seconds)| is_slow(*seconds)).map(|(bytes, _)| *bytes);
        let fast = others.iter().take_while(|(_, seconds)| !is_slow(*seconds)).last();
        let fast_bytes = fast.map_or(*whole, |(bytes, _)| *bytes);
        Some(Self { slow_bytes, fast_bytes, line: Line::of(&all) })
    }
}

/// The size of the files and the time of an archive that is read one file after the other.
fn in_turn(row: &Row) -> Option<(u64, f64)> {
    match (row.shape, row.order) {
        (Shape::Files { file_bytes }, Order::InTurn) => Some((file_bytes, row.seconds)),
        _ => None,
    }
}

impl Line {
    /// `None` where time does not grow with the number of files, or not along a line.
    fn of(all: &[(u64, f64)]) -> Option<Self> {
        let x = |file_bytes: u64| [ARCHIVE_BYTES as f64, (ARCHIVE_BYTES / file_bytes) as f64];
        let point = |&(file_bytes, seconds): &(u64, f64)| Point {
            x: x(file_bytes),
            y: seconds,
            weight: 1.0 / seconds,
        };
        let points: Vec<Point<2>> = all.iter().map(point).collect();
        let [per_byte, per_file] = LinearFit::of(&points).ok()?.estimates(0.95);
        if !(per_byte.value > 0.0 && per_file.value > 0.0) {
            return None;
        }
        let is_near = |point: &Point<2>| {
            let fitted: f64 = per_byte.value * point.x[0] + per_file.value * point.x[1];
            (fitted / point.y - 1.0).abs() <= RESIDUAL_MAX
        };
        let line = Self { per_file_s: per_file.value, bytes_per_s: 1.0 / per_byte.value };
        points.iter().all(is_near).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(file_bytes: u64, order: Order, seconds: f64) -> Row {
        let bytes_per_s = ARCHIVE_BYTES as f64 / seconds;
        Row { shape: Shape::Files { file_bytes }, order, seconds, bytes_per_s, runs: vec![seconds] }
    }

    /// Every file costs 100 µs, and the bytes come at 1 GB/s.
    fn rows() -> Vec<Row> {
        let seconds =
            |file_bytes: u64| ARCHIVE_BYTES as f64 / 1e9 + (ARCHIVE_BYTES / file_bytes) as f64 * 100e-6;
        [ARCHIVE_BYTES]
            .iter()
            .chain(&FILE_BYTES)
            .map(|bytes| row(*bytes, Order::InTurn, seconds(*bytes)))
            .collect()
    }

    #[test]
    fn the_size_is_the_largest_that_is_slow_and_the_line_says_why() {
        let mut rows = rows();
        // How they are read otherwise takes no part in it.
        rows.push(row(128 << 10, Order::AtOnce, 9.0));
        let rule = Rule::of(&rows).unwrap();
        let line = rule.line.unwrap();
        assert!((line.per_file_s / 100e-6 - 1.0).abs() < 1e-6, "{line:?}");
        assert!((line.bytes_per_s / 1e9 - 1.0).abs() < 1e-6, "{line:?}");
        assert_eq!((rule.slow_bytes, rule.fast_bytes), (Some(512 << 10), 1 << 20));
    }

    /// Before: a line that was off by a third said 3.19 MiB, though files of 4 MiB came at less
    /// than half of the rate of one.
    #[test]
    fn a_line_that_does_not_fit_is_none_and_the_rows_decide() {
        let times_s = [22.0e-3, 50.3e-3, 62.6e-3, 71.9e-3, 94.6e-3];
        let sizes = [ARCHIVE_BYTES].into_iter().chain(FILE_BYTES);
        let rows: Vec<Row> =
            sizes.zip(times_s).map(|(bytes, seconds)| row(bytes, Order::InTurn, seconds)).collect();
        let rule = Rule::of(&rows).unwrap();
        assert_eq!(rule, Rule { slow_bytes: Some(4 << 20), fast_bytes: ARCHIVE_BYTES, line: None });
    }

    #[test]
    fn there_is_no_size_where_many_files_are_no_slower() {
        let mut rows = rows();
        rows.iter_mut().for_each(|row| row.seconds = 0.1 / row.shape.files() as f64);
        assert_eq!(Rule::of(&rows), Some(Rule { slow_bytes: None, fast_bytes: 128 << 10, line: None }));
        assert_eq!(Rule::of(&rows[..1]), None);
    }

    #[test]
    fn a_copy_has_paid_when_its_gains_are_what_it_took() {
        let copied = Copied { file_bytes: 128 << 10, made_s: 0.3, read_s: 0.05 };
        let merged = copied.against(&[row(128 << 10, Order::InTurn, 0.2)]).unwrap();
        assert_eq!((merged.files, merged.break_even_reads.map(f64::round)), (512, Some(2.0)));
        let slower = copied.against(&[row(128 << 10, Order::InTurn, 0.04)]).unwrap();
        assert_eq!(slower.break_even_reads, None);
        assert_eq!(copied.against(&[row(128 << 10, Order::AtOnce, 0.2)]), None);
    }

    #[test]
    fn a_copy_is_compared_read_and_removed() {
        let place = tempfile::tempdir().unwrap();
        let files = Files { directory: place.path().to_owned() };
        for number in 0..16 {
            fs::write(files.path(4 << 20, 0, number), vec![number as u8; 4 << 20]).unwrap();
        }
        let cold = Cold::Files("tests leave caches alone".to_owned());
        let copy = place.path().join("merged");
        let copied = Copied::measure(4 << 20, &files, &cold, &copy).unwrap();
        assert!(copied.made_s > 0.0 && copied.read_s > 0.0 && !copy.exists());
    }
}
