//! How the time of a question grows with what is held.

use serde::Serialize;
use stook::report::least_squares::{LinearFit, Point};

use super::work::{NEED_COUNTS, SIZES, TOTAL_BYTES, Work};
use super::{Row, row};

/// How far the exponent of a linear growth may be from 1.
pub(super) const LINEAR_WITHIN: f64 = 0.15;

/// How far a time may be from the straight line, as a share of what the line says.
pub(super) const FROM_LINE_MOST: f64 = 0.25;

/// Whose times they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Stook, from Rust.
    Stook,
    /// Stook, from Python.
    StookPython,
    /// svfsc, from Python.
    SvfscPython,
}

impl By {
    /// Everybody.
    pub(super) const ALL: [Self; 3] = [Self::Stook, Self::StookPython, Self::SvfscPython];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Stook => "Stook",
            Self::StookPython => "Stook, Python",
            Self::SvfscPython => "svfsc, Python",
        }
    }

    /// The time of a row.
    pub(super) fn seconds(self, row: &Row) -> Option<f64> {
        match self {
            Self::Stook => Some(row.seconds),
            Self::StookPython => row.python_s,
            Self::SvfscPython => row.svfsc_python_s,
        }
    }
}

/// What is held in more and more blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// 1 MiB in blocks of 512 bytes to 1.
    Sizes,
    /// An eighth to all of 238,310 blocks of 4 bytes.
    Counts,
}

impl Over {
    pub(super) const ALL: [Self; 2] = [Self::Sizes, Self::Counts];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Sizes => "1 MiB in blocks of 512 to 1 byte",
            Self::Counts => "an eighth to all of 238,310 blocks",
        }
    }

    /// Numbers of blocks, and the work.
    fn points(self) -> Vec<(u64, Work)> {
        match self {
            Self::Sizes => {
                SIZES.map(|block_bytes| (TOTAL_BYTES / block_bytes, Work::NeedOf { block_bytes })).into()
            }
            Self::Counts => NEED_COUNTS.map(|blocks| (blocks, Work::NeedAll { blocks })).into(),
        }
    }
}

/// How the time of one question over all blocks grows with their number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Growth {
    /// What is held.
    pub over: Over,
    /// Whose times.
    pub by: By,
    /// The slope of a straight line through the times: seconds for each block more.
    pub slope_s: f64,
    /// How much of their variance is on that line: 1 for all of it.
    pub r_squared: f64,
    /// The power of the number of blocks with which they grow, by a straight line in double
    /// logarithms.
    pub exponent: f64,
    /// How far the time furthest from it is from a straight line that lies near all of them, as a
    /// share of what that line says.
    pub residual_max: f64,
    /// From one number of blocks to the next, where times grow by the greatest factor for each
    /// factor of the number.
    pub steepest: Step,
}

/// From one number of blocks to the next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Step {
    /// The smaller number.
    pub from_blocks: u64,
    /// The larger one.
    pub to_blocks: u64,
    /// The time of the larger ÷ that of the smaller.
    pub times: f64,
}

impl Step {
    /// The steepest of all steps between points that ascend.
    fn steepest(points: &[(f64, f64)]) -> Option<Self> {
        let steps = points.iter().zip(points.iter().skip(1));
        let power = |(one, next): &(&(f64, f64), &(f64, f64))| (next.1 / one.1).ln() / (next.0 / one.0).ln();
        let ((from, from_s), (to, to_s)) = steps.max_by(|a, b| power(a).total_cmp(&power(b)))?;
        Some(Self { from_blocks: *from as u64, to_blocks: *to as u64, times: to_s / from_s })
    }
}

impl Growth {
    /// Of all that was measured.
    pub(super) fn of(rows: &[Row]) -> Vec<Self> {
        let pairs = Over::ALL.into_iter().flat_map(|over| By::ALL.map(|by| (over, by)));
        let growth = |(over, by): (Over, By)| {
            let point = |(blocks, work): (u64, Work)| Some((blocks as f64, by.seconds(row(rows, work)?)?));
            let mut points: Vec<(f64, f64)> = over.points().into_iter().filter_map(point).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
            let ((slope_s, r_squared), (exponent, _)) = (line(&points)?, line(&logs)?);
            let (residual_max, steepest) = (residual_max(&points)?, Step::steepest(&points)?);
            Some(Self { over, by, slope_s, r_squared, exponent, residual_max, steepest })
        };
        pairs.filter_map(growth).collect()
    }

    /// Whether that is a straight line.
    pub(super) fn is_linear(&self) -> bool {
        (self.exponent - 1.0).abs() <= LINEAR_WITHIN && self.residual_max <= FROM_LINE_MOST
    }
}

/// How far the point furthest from it is from the line whose relative differences are least.
fn residual_max(points: &[(f64, f64)]) -> Option<f64> {
    let weighted = |&(x, y): &(f64, f64)| Point { x: [1.0, x], y, weight: 1.0 / y };
    let all: Vec<Point<2>> = points.iter().map(weighted).collect();
    let [fixed, each] = LinearFit::of(&all).ok()?.coefficients;
    let away = points.iter().map(|(x, y)| (y / (fixed + each * x) - 1.0).abs());
    Some(away.fold(0.0, f64::max))
}

/// Slope and share of the variance of the straight line through points, by least squares; `None` of
/// fewer than three, and where they lie above one another.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |product: &dyn Fn(f64, f64) -> f64| {
        points.iter().map(|(x, y)| product(x - x_mean, y - y_mean)).sum::<f64>()
    };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    let r_squared = if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 };
    (points.len() > 2 && xx > 0.0).then(|| (xy / xx, r_squared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_powers_are_found() {
        let points = |power: f64| [1.0_f64, 2.0, 4.0, 8.0].map(|x| (x, 3.0 * x.powf(power)));
        for power in [0.5, 1.0, 2.0] {
            let logs = points(power).map(|(x, y)| (x.ln(), y.ln()));
            assert!((line(&logs).unwrap().0 - power).abs() < 1e-9);
        }
        let (slope, r_squared) = line(&points(1.0)).unwrap();
        assert!((slope - 3.0).abs() < 1e-9 && (r_squared - 1.0).abs() < 1e-9);
        assert!(line(&points(2.0)).unwrap().1 < 0.99);
        assert_eq!(line(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(line(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    }

    /// Before: the power over nine octaves hid that the last took 4.6 times as long for twice the
    /// blocks.
    #[test]
    fn a_jump_is_no_straight_line_and_is_named() {
        let times = |work: Work| match work {
            Work::NeedOf { block_bytes: 1 } => 15.173e-3,
            Work::NeedOf { block_bytes } => 3.319e-3 * 2.0 / block_bytes as f64,
            _ => 1.0,
        };
        let found = Growth::of(&Row::all_taking(times, |_| None));
        let growth = found.iter().find(|growth| growth.over == Over::Sizes).unwrap();
        assert!((growth.exponent - 1.0).abs() <= LINEAR_WITHIN && growth.residual_max > FROM_LINE_MOST);
        assert!(!growth.is_linear(), "{growth:?}");
        let Step { from_blocks, to_blocks, times } = growth.steepest;
        assert_eq!((from_blocks, to_blocks), (TOTAL_BYTES / 2, TOTAL_BYTES));
        assert!((times - 15.173 / 3.319).abs() < 1e-9, "{times}");
    }

    #[test]
    fn growth_is_that_of_whose_times_are_known() {
        let times = |power: f64| {
            move |work: Work| match work {
                Work::NeedOf { block_bytes } => 1e-9 * ((TOTAL_BYTES / block_bytes) as f64).powf(power),
                _ => 1.0,
            }
        };
        let rows = Row::all_taking(times(1.0), |work| Some(times(2.0)(work)));
        let found = Growth::of(&rows);
        let one = |by| found.iter().find(|growth| growth.over == Over::Sizes && growth.by == by);
        let native = one(By::Stook).unwrap();
        assert!(native.is_linear() && (native.slope_s - 1e-9).abs() < 1e-15, "{native:?}");
        assert!(!one(By::StookPython).unwrap().is_linear());
        assert!(one(By::SvfscPython).is_none());
    }
}
