//! A burst of writes into the cache of a drive, distinguished from its sustained rate.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Allowed, CellFacts, Gate, GateName, Outcome, Series, Words, judge, not_applicable, unverified};
use crate::report::units::{bytes_decimal, rate};

/// Sustained ÷ burst rate, from which on the two count as the same.
const SUSTAINED: Allowed = Allowed::at_least(0.80);
/// With fewer windows a plateau cannot be distinguished from a bad moment.
const WINDOWS_MIN: usize = 10;
/// How many windows each of the two plateaus has to last.
const PLATEAU_MIN: usize = 3;
/// The share of the variance that the fall has to explain.
const EXPLAINED_MIN: f64 = 0.5;
/// How many times its standard error the fall has to be. The place is the best of many, which a
/// single comparison at 2 would not allow for.
const ERRORS_MIN: f64 = 4.0;

/// Where writing fell from one rate to a lower one and stayed there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BurstFall {
    /// The mean rate before.
    pub burst_bytes_per_s: f64,
    /// How much was written before: about the size of the cache, plus the amount drained from it
    /// meanwhile.
    pub burst_bytes: f64,
    /// How long that took.
    pub burst_s: f64,
    /// The mean rate after.
    pub sustained_bytes_per_s: f64,
}

/// Finds the fall from a burst to a lower plateau, if there is one.
///
/// The place is the one that leaves the least sum of squares around two means (a single change
/// point by least squares; D. Hinkley, *Inference About the Change-Point in a Sequence of Random
/// Variables*, 1970). It counts when the lower mean is less than 80% of the higher one, explains at
/// least half of the variance and is four standard errors away. A series of fewer than ten windows
/// has none.
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

impl fmt::Display for BurstFall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "writing fell from {} to {} after {} ({:.1} s), as when a cache is full",
            rate(self.burst_bytes_per_s),
            rate(self.sustained_bytes_per_s),
            bytes_decimal(self.burst_bytes.max(0.0) as u64),
            self.burst_s,
        )
    }
}

/// The gate: one figure for writes is only correct if it is the sustained rate of the device.
pub(super) fn gate(cell: &CellFacts<'_>) -> Gate {
    let name = GateName::WriteBurst;
    if cell.written_bytes == 0 {
        return not_applicable(name, "nothing was written");
    }
    if let Some(fall) = find_fall(cell.series) {
        let ratio = fall.sustained_bytes_per_s / fall.burst_bytes_per_s;
        let reason = format!("{fall}; one figure would mix the two");
        return judge(
            name,
            ratio,
            SUSTAINED,
            Words { below: reason.clone(), within: reason, above: String::new() },
        );
    }
    match cell.long_run {
        Some(long_run) => beside(cell, long_run),
        None => alone(cell.series),
    }
}

/// Against a longer run of the same.
fn beside(cell: &CellFacts<'_>, long_run: Series<'_>) -> Gate {
    let name = GateName::WriteBurst;
    if long_run.rates_bytes_per_s.len() < WINDOWS_MIN {
        return unverified(name, "the long run is too short to tell a burst from the sustained rate");
    }
    let measured = cell.bandwidth_bytes_per_s();
    if let Some(fall) = find_fall(long_run) {
        let below = format!("this run was too short to leave the cache of the drive: in a longer one {fall}");
        let within = format!("this is the sustained rate: in a longer run {fall}");
        let words = Words { below, within, above: String::new() };
        return judge(name, fall.sustained_bytes_per_s / measured, SUSTAINED, words);
    }
    // It may have begun with a cache that was full already.
    let (mean, moved) = (long_run.mean_bytes_per_s(), moved(long_run));
    let below = format!(
        "a longer run went on at {} from its beginning, and this one reached {}, as when it met a cache that had been \
         emptied",
        rate(mean),
        rate(measured)
    );
    let within = format!("a longer run went on at {} for {moved}; a larger cache would not show", rate(mean));
    judge(name, mean / measured, SUSTAINED, Words { below, within, above: String::new() })
}

/// From the run alone.
fn alone(series: Series<'_>) -> Gate {
    let name = GateName::WriteBurst;
    if series.rates_bytes_per_s.len() < WINDOWS_MIN {
        let reason =
            "the run is too short to tell a burst from the sustained rate; a long run would (--long-run)";
        return unverified(name, reason);
    }
    Gate {
        name,
        measured: None,
        allowed_min: SUSTAINED.min,
        allowed_max: SUSTAINED.max,
        outcome: Outcome::Passed,
        reason: format!(
            "writing did not fall to a lower rate within {}; a larger cache would show in a long run only (--long-run)",
            moved(series)
        ),
    }
}

/// How much was moved in all windows, for people.
fn moved(series: Series<'_>) -> String {
    let windows = series.rates_bytes_per_s.len() as f64;
    bytes_decimal((series.mean_bytes_per_s() * windows * series.window_s).max(0.0) as u64)
}
