//! Predictions, from a few files that were read cold and from the lengths of all of them. Pure:
//! plain numbers in and out.
//!
//! What one reader needs is added up by classes of length: of each class the mean of the files that
//! were read, times how many there are. So neither a fixed cost and a bandwidth nor any other law
//! has to hold over all lengths; a line is fitted only for classes of which no file was read, and
//! to say what opening one costs. Intervals come from drawing whole clusters again: files that lie
//! beside one another are alike.

use serde::Serialize;

use crate::report::least_squares::{LinearFit, Point};
use crate::report::stats::{Interval, median, median_interval, quantile};

/// Classes of length: 0, 1, 2 and 3, 4 to 7, …
pub const CLASSES: usize = 65;
/// From this class on (64 KiB) the time of a file is taken to grow with its length.
const LONG_CLASS: usize = 17;
/// Files of this length and more are read for much longer than they are opened.
const LONG_BYTES: f64 = 1e6;
/// Fewer files of a class say little about its mean.
const CLASS_FILES_MIN: usize = 3;
/// How often clusters are drawn again.
const DRAWS: u32 = 200;
/// Confidence of all intervals.
pub const CONFIDENCE: f64 = 0.95;
/// A file below the threshold is read at less than this share of the speed of the device.
pub const EFFICIENCY: f64 = 0.9;

/// How many files there are of each class of length, and their bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct LengthClasses {
    files: [f64; CLASSES],
    bytes: [f64; CLASSES],
}

impl Default for LengthClasses {
    fn default() -> Self {
        Self { files: [0.0; CLASSES], bytes: [0.0; CLASSES] }
    }
}

impl LengthClasses {
    /// Adds a file that counts as this many: one of several names of a file is a part of one.
    pub fn add(&mut self, len: u64, share: f64) {
        let class = class_of(len);
        if let (Some(files), Some(bytes)) = (self.files.get_mut(class), self.bytes.get_mut(class)) {
            *files += share;
            *bytes += len as f64 * share;
        }
    }

    /// Files in all.
    pub fn files(&self) -> f64 {
        self.files.iter().sum()
    }

    /// Bytes in all.
    pub fn bytes(&self) -> f64 {
        self.bytes.iter().sum()
    }

    /// How many files are shorter than that, taking the lengths of a class as evenly spread.
    pub fn files_below(&self, len: u64) -> f64 {
        let class = class_of(len);
        let whole: f64 = self.files.iter().take(class).sum();
        let first = if class <= 1 { class as f64 } else { (1_u64 << (class - 1)) as f64 };
        let inside = ((len as f64 - first) / first.max(1.0)).clamp(0.0, 1.0);
        whole + inside * self.files.get(class).copied().unwrap_or(0.0)
    }

    /// Classes that are not empty: the least length that is above all of theirs, files, bytes.
    pub fn rows(&self) -> impl Iterator<Item = (u64, f64, f64)> + '_ {
        self.files.iter().zip(&self.bytes).enumerate().filter(|(_, (files, _))| **files > 0.0).map(
            |(class, (files, bytes))| (1_u64.checked_shl(class as u32).unwrap_or(u64::MAX), *files, *bytes),
        )
    }
}

fn class_of(len: u64) -> usize {
    (u64::BITS - len.leading_zeros()) as usize
}

/// What reading one file took one reader.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FileCost {
    /// Which cluster it belongs to.
    pub cluster: usize,
    /// Its length.
    pub len: u64,
    /// Bytes that were read of it: a long file is not read to its end.
    pub read_bytes: u64,
    /// Opening, reading and closing it, and its part of listing its directory.
    pub seconds: f64,
}

/// A value, and where the true one lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Predicted {
    /// The best guess.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Predicted {
    /// A value that is taken as known.
    pub fn exactly(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// The median of measurements of one thing.
    pub fn of_rounds(values: &[f64]) -> Option<Self> {
        let value = median(values).ok()?;
        let Interval { low, high, .. } = median_interval(values, CONFIDENCE).ok()?;
        Some(Self { value, low, high })
    }

    /// This one ÷ another, both greater than 0; the ends are those of the worst case.
    pub fn over(self, other: Self) -> Self {
        let Self { value, low, high } = self;
        Self { value: value / other.value, low: low / other.high, high: high / other.low }
    }

    /// Every part changed by a growing function.
    pub fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Self { value: of(self.value), low: of(self.low), high: of(self.high) }
    }
}

/// What a file costs: seconds = `file_s` + bytes × `byte_s`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FileLine {
    /// Of any file, however short: names, inode, opening, waiting for its first bytes, closing.
    pub file_s: f64,
    /// Of each byte.
    pub byte_s: f64,
}

impl FileLine {
    /// Fits a line that falls nowhere to what files took, so that relative differences of the means
    /// of classes are least. Where their lengths differ too little for that, a byte takes what the
    /// device takes for it (`device_byte_s`, 0 where that is not known), and of long files all that
    /// they take. `None` without a file.
    pub fn fit(costs: &[FileCost], device_byte_s: f64) -> Option<Self> {
        let means = class_means(costs);
        let (files, bytes, seconds) = totals(costs);
        if files == 0.0 || seconds <= 0.0 {
            return None;
        }
        let points: Vec<Point<2>> = means
            .iter()
            .flatten()
            .filter(|mean| mean.seconds > 0.0)
            .map(|mean| Point {
                x: [1.0, mean.bytes],
                y: mean.seconds,
                // A mean of many is better known; of very many not much better.
                weight: mean.files.min(100.0).sqrt() / mean.seconds,
            })
            .collect();
        let of_bytes = Self { file_s: 0.0, byte_s: seconds / bytes.max(1.0) };
        let byte_s = device_byte_s.min(of_bytes.byte_s);
        let of_files = match bytes / files {
            long if long >= LONG_BYTES => of_bytes,
            mean => Self { file_s: seconds / files - mean * byte_s, byte_s },
        };
        Some(match LinearFit::of(&points) {
            Ok(fit) => match fit.coefficients {
                [file_s, byte_s] if file_s >= 0.0 && byte_s >= 0.0 => Self { file_s, byte_s },
                [file_s, _] if file_s < 0.0 => of_bytes,
                _ => of_files,
            },
            // All of one length, or of two: the shortest say what a file costs, the longest a byte.
            Err(_) => Self::through(&means).unwrap_or(of_files),
        })
    }

    /// The line through the means of the shortest and the longest class.
    fn through(means: &[Option<ClassMean>]) -> Option<Self> {
        let (first, last) = (means.iter().flatten().next()?, means.iter().flatten().last()?);
        let byte_s = (last.seconds - first.seconds) / (last.bytes - first.bytes);
        let file_s = first.seconds - byte_s * first.bytes;
        let line = Self { file_s, byte_s };
        (byte_s.is_finite() && byte_s >= 0.0 && file_s >= 0.0).then_some(line)
    }

    /// What a file of this length costs.
    pub fn seconds(&self, bytes: f64) -> f64 {
        self.file_s + bytes * self.byte_s
    }
}

/// The files of a class that were read.
#[derive(Debug, Clone, Copy, Default)]
struct ClassMean {
    files: f64,
    bytes: f64,
    seconds: f64,
}

/// Means by class, of what was read. A file that was not read to its end is as long as what was.
fn class_means(costs: &[FileCost]) -> Vec<Option<ClassMean>> {
    let mut sums = vec![ClassMean::default(); CLASSES];
    for cost in costs {
        if let Some(sum) = sums.get_mut(class_of(cost.read_bytes)) {
            sum.files += 1.0;
            sum.bytes += cost.read_bytes as f64;
            sum.seconds += cost.seconds;
        }
    }
    let mean = |sum: ClassMean| ClassMean {
        files: sum.files,
        bytes: sum.bytes / sum.files,
        seconds: sum.seconds / sum.files,
    };
    sums.into_iter().map(|sum| (sum.files > 0.0).then(|| mean(sum))).collect()
}

fn totals(costs: &[FileCost]) -> (f64, f64, f64) {
    costs.iter().fold((0.0, 0.0, 0.0), |(files, bytes, seconds), cost| {
        (files + 1.0, bytes + cost.read_bytes as f64, seconds + cost.seconds)
    })
}

/// How long one reader needs for all files. `None` where none was read.
pub fn alone(classes: &LengthClasses, costs: &[FileCost]) -> Option<Predicted> {
    let value = total(classes, costs)?;
    let mut clusters: Vec<Vec<FileCost>> = Vec::new();
    for cost in costs {
        if cost.cluster >= clusters.len() {
            clusters.resize(cost.cluster + 1, Vec::new());
        }
        if let Some(cluster) = clusters.get_mut(cost.cluster) {
            cluster.push(*cost);
        }
    }
    clusters.retain(|cluster| !cluster.is_empty());
    let mut random = Draw(1);
    let drawn: Vec<f64> = (0..DRAWS)
        .filter_map(|_| {
            let picked = (0..clusters.len()).filter_map(|_| clusters.get(random.below(clusters.len())));
            total(classes, &picked.flatten().copied().collect::<Vec<_>>())
        })
        .collect();
    Some(around(value, &drawn))
}

/// The best guess with the interval of what was drawn.
fn around(value: f64, drawn: &[f64]) -> Predicted {
    let end = |share| quantile(drawn, share).unwrap_or(value);
    let outside = (1.0 - CONFIDENCE) / 2.0;
    Predicted { value, low: end(outside).min(value), high: end(1.0 - outside).max(value) }
}

fn total(classes: &LengthClasses, costs: &[FileCost]) -> Option<f64> {
    /// What was read of a class.
    #[derive(Clone, Copy, Default)]
    struct Read {
        files: usize,
        bytes: f64,
        seconds: f64,
    }
    let line = FileLine::fit(costs, 0.0)?;
    let mut read = vec![Read::default(); CLASSES];
    for cost in costs {
        if let Some(read) = read.get_mut(class_of(cost.len)) {
            read.files += 1;
            read.bytes += cost.read_bytes as f64;
            read.seconds += cost.seconds;
        }
    }
    let parts = classes.files.iter().zip(&classes.bytes).zip(&read).enumerate();
    Some(
        parts
            .map(|(class, ((files, bytes), read))| match read {
                _ if *files == 0.0 => 0.0,
                read if class >= LONG_CLASS && read.bytes > 0.0 => bytes * read.seconds / read.bytes,
                read if class < LONG_CLASS && read.files >= CLASS_FILES_MIN => {
                    files * read.seconds / read.files as f64
                }
                _ => files * line.file_s + bytes * line.byte_s,
            })
            .sum(),
    )
}

/// Files that several readers read at once.
#[derive(Debug, Clone, PartialEq)]
pub struct TogetherCost {
    /// How many readers.
    pub readers: usize,
    /// The lengths of the files, or of what was read of them.
    pub read_bytes: Vec<u64>,
    /// From the first opening to the last byte.
    pub seconds: f64,
}

/// How long several readers need for all files, by what the files that they were seen reading would
/// take one reader; no less than the device needs for the bytes.
pub fn together(
    alone: Predicted,
    costs: &[FileCost],
    seen: &[TogetherCost],
    least_s: f64,
) -> Option<Predicted> {
    let line = FileLine::fit(costs, 0.0)?;
    let means = class_means(costs);
    let of_file = |len: u64| {
        let mean = means.get(class_of(len)).copied().flatten();
        let known = mean.filter(|mean| mean.files >= CLASS_FILES_MIN as f64 && mean.bytes > 0.0);
        known.map_or_else(
            || line.seconds(len as f64),
            |mean| match class_of(len) >= LONG_CLASS {
                true => mean.seconds * len as f64 / mean.bytes,
                false => mean.seconds,
            },
        )
    };
    let shares: Vec<f64> = seen
        .iter()
        .filter(|seen| !seen.read_bytes.is_empty())
        .map(|seen| seen.seconds / seen.read_bytes.iter().map(|len| of_file(*len)).sum::<f64>())
        .collect();
    let share = Predicted::of_rounds(&shares)?;
    let Predicted { value, low, high } = alone;
    let scaled = Predicted { value: value * share.value, low: low * share.low, high: high * share.high };
    Some(scaled.map(|seconds| seconds.max(least_s)))
}

/// How long loading a pack takes, by loads of a smaller one of such files: what opening takes, and
/// the rest as often as the larger one is longer.
pub fn loading(open_s: &[f64], load_s: &[f64], times_longer: f64) -> Option<Predicted> {
    let open_s = median(open_s).ok()?;
    let loads: Vec<f64> = load_s.iter().map(|load_s| (load_s - open_s).max(load_s * 0.1)).collect();
    Some(Predicted::of_rounds(&loads)?.map(|seconds| open_s + seconds * times_longer))
}

/// The length below which a file is read at less than [`EFFICIENCY`] of the speed of the device, so
/// that packing pays: η ÷ (1 − η) · t · B.
pub fn threshold_bytes(file_s: f64, bandwidth_bytes_per_s: f64) -> f64 {
    EFFICIENCY / (1.0 - EFFICIENCY) * file_s * bandwidth_bytes_per_s
}

/// Numbers that are the same every time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % count.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(cluster: usize, len: u64, seconds: f64) -> FileCost {
        FileCost { cluster, len, read_bytes: len, seconds }
    }

    #[test]
    fn a_line_of_two_costs_is_recovered_and_never_falls() {
        let costs: Vec<FileCost> = (0..200)
            .map(|at| cost(at / 20, 500 + 977 * at as u64, 1e-4 + 2e-9 * (500 + 977 * at) as f64))
            .collect();
        let line = FileLine::fit(&costs, 0.0).unwrap();
        assert!(
            (line.file_s / 1e-4 - 1.0).abs() < 0.02 && (line.byte_s / 2e-9 - 1.0).abs() < 0.02,
            "{line:?}"
        );
        // Longer ones took less: no byte gives time back.
        let odd: Vec<FileCost> = (1..50).map(|at| cost(0, at * 10_000, 1.0 / at as f64)).collect();
        let line = FileLine::fit(&odd, 0.0).unwrap();
        assert!(line.file_s >= 0.0 && line.byte_s >= 0.0, "{line:?}");
        assert_eq!(FileLine::fit(&[], 0.0), None);
    }

    #[test]
    fn of_files_of_one_length_the_device_says_what_their_bytes_take() {
        let costs: Vec<FileCost> = (0..40).map(|at| cost(at / 10, 20_000, 1e-3)).collect();
        let line = FileLine::fit(&costs, 1e-9).unwrap();
        assert!((line.file_s - 0.98e-3).abs() < 1e-9 && line.byte_s == 1e-9, "{line:?}");
        // A device that takes longer than files of it did is none that they lie on.
        let line = FileLine::fit(&costs, 1.0).unwrap();
        assert!(line.file_s >= 0.0, "{line:?}");
        let long: Vec<FileCost> = (0..4).map(|at| cost(at, 300 << 20, 0.3)).collect();
        assert_eq!(FileLine::fit(&long, 1e-10).unwrap().file_s, 0.0);
    }

    #[test]
    fn what_was_read_stands_for_its_class_and_a_line_for_classes_that_were_not() {
        let mut classes = LengthClasses::default();
        (0..1000).for_each(|_| classes.add(1000, 1.0));
        classes.add(50_000, 1.0);
        let costs: Vec<FileCost> = (0..40).map(|at| cost(at / 10, 1000, 1e-3)).collect();
        let found = alone(&classes, &costs).unwrap();
        assert!((found.value - 1.001).abs() < 1e-6, "{found:?}");
        assert!(found.low <= found.value && found.value <= found.high);
        // A long file of which a part was read takes as much longer as it is longer.
        let mut classes = LengthClasses::default();
        classes.add(1 << 30, 1.0);
        let part = FileCost { cluster: 0, len: 1 << 30, read_bytes: 1 << 25, seconds: 0.1 };
        assert!((alone(&classes, &[part]).unwrap().value - 3.2).abs() < 1e-9);
    }

    #[test]
    fn clusters_that_differ_widen_the_interval() {
        let mut classes = LengthClasses::default();
        (0..1000).for_each(|_| classes.add(1000, 1.0));
        let of = |slow: f64| {
            let costs: Vec<FileCost> =
                (0..80).map(|at| cost(at / 10, 1000, if at / 10 % 2 == 0 { 1e-3 } else { slow })).collect();
            alone(&classes, &costs).unwrap()
        };
        let (alike, apart) = (of(1e-3), of(3e-3));
        assert!(alike.high - alike.low < 1e-9, "{alike:?}");
        assert!(apart.high - apart.low > 0.3, "{apart:?}");
    }

    #[test]
    fn names_of_one_file_count_as_one() {
        let mut classes = LengthClasses::default();
        (0..4).for_each(|_| classes.add(4096, 0.25));
        assert_eq!((classes.files(), classes.bytes()), (1.0, 4096.0));
        assert_eq!((classes.files_below(4096), classes.files_below(1 << 40)), (0.0, 1.0));
        assert_eq!(classes.rows().count(), 1);
    }

    #[test]
    fn several_readers_are_seen_against_one_and_no_device_is_outrun() {
        let costs: Vec<FileCost> = (0..40).map(|at| cost(at / 10, 1000, 1e-3)).collect();
        let all = Predicted::exactly(10.0);
        let seen = [TogetherCost { readers: 8, read_bytes: vec![1000; 400], seconds: 0.1 }];
        let found = together(all, &costs, &seen, 0.5).unwrap();
        assert!((found.value - 2.5).abs() < 1e-9, "{found:?}");
        assert_eq!(together(all, &costs, &seen, 4.0).unwrap().value, 4.0);
        assert_eq!(together(all, &costs, &[], 0.5), None);
    }

    #[test]
    fn opening_a_pack_is_paid_once() {
        let found = loading(&[0.01; 3], &[0.11; 3], 10.0).unwrap();
        assert!((found.value - 1.01).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn at_the_threshold_a_file_takes_a_tenth_of_its_time_to_open() {
        let bytes = threshold_bytes(1e-4, 1e9);
        let transfer_s = bytes / 1e9;
        assert!((transfer_s / (transfer_s + 1e-4) - EFFICIENCY).abs() < 1e-12);
    }
}
