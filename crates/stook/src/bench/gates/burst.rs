//! A burst of writes into the cache of a drive, told apart from what it sustains.

use serde::Serialize;

use super::{Allowed, CellFacts, Gate, GateName, Outcome, Series, Words, judge, not_applicable};
use crate::report::units::{bytes_decimal, rate};

/// Sustained ÷ burst rate, from which on the two count as the same.
const SUSTAINED: Allowed = Allowed::at_least(0.80);
/// With fewer windows a plateau cannot be told from a bad moment.
const WINDOWS_MIN: usize = 10;
/// How many windows each of the two plateaus has to last.
const PLATEAU_MIN: usize = 3;
/// The share of the variance that the fall has to explain.
const EXPLAINED_MIN: f64 = 0.5;
/// How many times its standard error the fall has to be. The place is the best of many, which a single
/// comparison at 2 would not allow for.
const ERRORS_MIN: f64 = 4.0;

/// Where writing fell from one rate to a lower one and stayed there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BurstFall {
    /// The mean rate before.
    pub burst_bytes_per_s: f64,
    /// How much was written before: about the size of the cache, and what was drained from it meanwhile.
    pub burst_bytes: f64,
    /// How long that took.
    pub burst_s: f64,
    /// The mean rate after.
    pub sustained_bytes_per_s: f64,
}

/// Finds the fall from a burst to a lower plateau, if there is one.
///
/// The place is the one that leaves the least sum of squares around two means (a single change point by
/// least squares; D. Hinkley, *Inference About the Change-Point in a Sequence of Random Variables*,
/// 1970). It counts when the lower mean is less than 80% of the higher one, explains at least half of
/// the variance and is four standard errors away. A series of fewer than ten windows has none.
pub fn find_fall(series: Series<'_>) -> Option<BurstFall> {
    let rates = series.rates_bytes_per_s;
    if rates.len() < WINDOWS_MIN || !rates.iter().all(|rate| rate.is_finite()) {
        return None;
    }
    let all = Moments::of(rates);
    let split =
        |at: usize| rates.split_at_checked(at).map(|(head, tail)| (Moments::of(head), Moments::of(tail)));
    let (burst, sustained) =
        (PLATEAU_MIN..=rates.len() - PLATEAU_MIN).filter_map(split).min_by(|left, right| {
            (left.0.squares + left.1.squares).total_cmp(&(right.0.squares + right.1.squares))
        })?;
    let left_over = burst.squares + sustained.squares;
    let variance = left_over / (all.count - 2.0);
    let error = (variance * (1.0 / burst.count + 1.0 / sustained.count)).sqrt();
    let is_fall = sustained.mean < SUSTAINED.min? * burst.mean
        && left_over <= (1.0 - EXPLAINED_MIN) * all.squares
        && burst.mean - sustained.mean > ERRORS_MIN * error;
    let burst_s = burst.count * series.window_s;
    is_fall.then_some(BurstFall {
        burst_bytes_per_s: burst.mean,
        burst_bytes: burst.mean * burst_s,
        burst_s,
        sustained_bytes_per_s: sustained.mean,
    })
}

/// Count, mean, and sum of squares around the mean.
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { count, mean, squares }
    }
}

/// The gate: one figure for writes is only true when it is what the device sustains.
pub(super) fn gate(cell: &CellFacts<'_>) -> Gate {
    let name = GateName::WriteBurst;
    if cell.written_bytes == 0 {
        return not_applicable(name, "nothing was written");
    }
    if let Some(fall) = find_fall(cell.series) {
        let ratio = fall.sustained_bytes_per_s / fall.burst_bytes_per_s;
        let reason = format!("{}; one figure would mix the two", describe(&fall));
        return judge(
            name,
            ratio,
            SUSTAINED,
            Words { below: reason.clone(), within: reason, above: String::new() },
        );
    }
    if let Some(fall) = cell.long_run.and_then(find_fall) {
        let ratio = fall.sustained_bytes_per_s / cell.bandwidth_bytes_per_s();
        let text = describe(&fall);
        let below = format!("this run was too short to leave the cache of the drive: in a longer one {text}");
        let within = format!("this is the sustained rate: in a longer run {text}");
        return judge(name, ratio, SUSTAINED, Words { below, within, above: String::new() });
    }
    let longest = cell.long_run.unwrap_or(cell.series);
    if longest.rates_bytes_per_s.len() < WINDOWS_MIN {
        return not_applicable(name, "the run is too short to tell a burst from the sustained rate");
    }
    let moved = longest.rates_bytes_per_s.iter().sum::<f64>() * longest.window_s;
    let moved = bytes_decimal(moved.max(0.0) as u64);
    Gate {
        name,
        measured: None,
        allowed_min: SUSTAINED.min,
        allowed_max: SUSTAINED.max,
        outcome: Outcome::Passed,
        reason: format!("writing did not fall to a lower rate within {moved}; a larger cache would not show"),
    }
}

fn describe(fall: &BurstFall) -> String {
    format!(
        "writing fell from {} to {} after {} ({:.1} s), as when a cache is full",
        rate(fall.burst_bytes_per_s),
        rate(fall.sustained_bytes_per_s),
        bytes_decimal(fall.burst_bytes.max(0.0) as u64),
        fall.burst_s,
    )
}
