//! Whether a run was steady: the figure of one that is not depends on when it began and ended.

use serde::Serialize;

use super::{
    Allowed, CellFacts, Gate, GateName, Load, Series, Words, judge, not_applicable, or_unverified, unverified,
};
use crate::report::least_squares::{LinearFit, Point};
use crate::report::units::count_of;

/// Into how many windows a run is cut.
const WINDOWS: usize = 5;
/// How far means of windows, and of rounds, may lie apart, as a share of their mean.
pub(in crate::bench) const SPREAD_MAX: f64 = 0.20;
const SLOPE_MAX: f64 = 0.10;
/// What chance adds to a spread and to a slope, in standard errors of one window: each is exceeded
/// by less than one of a thousand honest runs (the studentized range of five; four errors of the
/// rise of a line through five).
const SPREAD_ERRORS: f64 = 5.5;
const SLOPE_ERRORS: f64 = 5.0;
/// Chance that allows more than this would hide any drift.
const SPREAD_TELLS: f64 = 0.5;
/// Less time than this may hold one good or bad moment only.
const TIME_MIN_S: f64 = 1.0;
/// Of fewer requests not even the 99th percentile is known.
const REQUESTS_MIN: f64 = 100.0;
/// Relative to the required length; a run that ends by its size, or a moment early, is as good.
const LENGTH: Allowed = Allowed::at_least(0.95);

/// How the five window means of a run lie.
///
/// The criterion of the Solid State Storage Performance Test Specification of SNIA: over five
/// rounds no mean leaves the average by more than a range of 20%, and the fitted line stays within
/// 10%.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Steadiness {
    /// The mean rate in each fifth of the time.
    pub means_bytes_per_s: [f64; WINDOWS],
    /// (greatest − least) ÷ mean.
    pub spread: f64,
    /// |change of the line through the means from the first to the last| ÷ mean.
    pub slope: f64,
}

/// Cuts a series into five windows and measures how they differ.
///
/// Nothing if there are fewer than five values, or one is not finite, or all are 0. A value that
/// crosses from one window into the next counts in both by its shares.
pub fn steadiness(series: Series<'_>) -> Option<Steadiness> {
    let rates = series.rates_bytes_per_s;
    if rates.len() < WINDOWS || !rates.iter().all(|rate| rate.is_finite()) {
        return None;
    }
    let len = rates.len() as f64 / WINDOWS as f64;
    let means: [f64; WINDOWS] = std::array::from_fn(|index| {
        let from = index as f64 * len;
        mean_of_span(rates, from, from + len)
    });
    let mean = means.iter().sum::<f64>() / WINDOWS as f64;
    if mean <= 0.0 {
        return None;
    }
    let (least, greatest) = means
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(least, greatest), &mean| (least.min(mean), greatest.max(mean)));
    let points = std::array::from_fn::<_, WINDOWS, _>(|index| Point {
        x: [1.0, index as f64],
        y: means[index] / mean,
        weight: 1.0,
    });
    let [_, slope] = LinearFit::of(&points).ok()?.coefficients;
    let rise = (slope * (WINDOWS - 1) as f64).abs();
    Some(Steadiness { means_bytes_per_s: means, spread: (greatest - least) / mean, slope: rise })
}

/// The mean of the values from one place to another, each counted by the share of it that lies
/// between.
fn mean_of_span(values: &[f64], from: f64, to: f64) -> f64 {
    let covered = |index: usize| (to.min(index as f64 + 1.0) - from.max(index as f64)).max(0.0);
    values.iter().enumerate().map(|(index, value)| value * covered(index)).sum::<f64>() / (to - from)
}

/// How far window means differ by chance alone, as a share of their mean: requests that come at
/// random moments are more in one window than in another, on any device.
fn chance(load: Load) -> f64 {
    match load {
        Load::Open { due, is_random: true, .. } => (WINDOWS as f64 / due as f64).sqrt(),
        _ => 0.0,
    }
}

/// The gates for spread and slope.
pub(super) fn gates(cell: &CellFacts<'_>) -> [Gate; 2] {
    let chance = chance(cell.load);
    let spread_max = SPREAD_MAX.hypot(SPREAD_ERRORS * chance);
    let slope_max = SLOPE_MAX.hypot(SLOPE_ERRORS * chance);
    if let Load::Open { due, .. } = cell.load
        && spread_max > SPREAD_TELLS
    {
        let due = count_of(due, "arrival", "arrivals");
        let reason = format!("an open loop with {due}: their chance hides any drift");
        return [GateName::SteadySpread, GateName::SteadySlope]
            .map(|name| not_applicable(name, reason.as_str()));
    }
    let Some(Steadiness { spread, slope, .. }) = steadiness(cell.series) else {
        let reason = "the run is too short, or moved too little, to be cut into five windows";
        return [GateName::SteadySpread, GateName::SteadySlope].map(|name| unverified(name, reason));
    };
    let (spread_percent, slope_percent) = (spread * 100.0, slope * 100.0);
    let spread_text = match spread > spread_max {
        true => format!("the means of five windows differ by {spread_percent:.1}% of their mean"),
        false => format!("the means of five windows lie within {spread_percent:.1}% of their mean"),
    };
    let slope_text = format!("the line through five windows changes by {slope_percent:.1}% of their mean");
    [
        judge(GateName::SteadySpread, spread, Allowed::at_most(spread_max), unless_above(spread_text)),
        judge(GateName::SteadySlope, slope, Allowed::at_most(slope_max), unless_above(slope_text)),
    ]
}

fn unless_above(text: String) -> Words {
    let above = format!("{text}: the storage was not in a steady state; run longer, or with a longer ramp");
    Words { below: text.clone(), within: text, above }
}

/// Measured ÷ required length.
fn long_enough(cell: &CellFacts<'_>) -> f64 {
    (cell.steady_s / TIME_MIN_S).min(cell.requests as f64 / REQUESTS_MIN)
}

/// Whether something was measured, and too little.
pub(super) fn is_short(cell: &CellFacts<'_>) -> bool {
    cell.requests > 0 && LENGTH.min.is_some_and(|min| long_enough(cell) < min)
}

/// The gate for how much was measured: of little, everything else proves little.
pub(super) fn length(cell: &CellFacts<'_>) -> Gate {
    let share = long_enough(cell);
    let found = format!("{:.1} s and {}", cell.steady_s, count_of(cell.requests, "request", "requests"));
    let below = format!(
        "too short to be believed: {found}; at least {TIME_MIN_S} s and {REQUESTS_MIN} requests are needed (--time)"
    );
    let words = Words { below, within: format!("{found} were measured"), above: String::new() };
    or_unverified(judge(GateName::Length, share, LENGTH, words))
}
