//! Whether two series of measurements differ, or only seem to.
//!
//! Both are figures of equally long windows: rates, or latencies if the rate was given
//! ([`Measure`]). The difference of their means comes with an interval from resampled runs
//! ([`bootstrap`]), and one is called faster only when that interval excludes zero, there are
//! enough runs to know how runs differ, and a drift over the runs cannot be what makes them differ
//! (`drift.rs`). [`compare_cells`] takes the windows from measured cells. Nothing here measures.

mod drift;
mod setting;

use serde::Serialize;

use super::gates::State;
use super::model::{counted_runs, second_rates, whole_seconds};
use super::result::{CellResult, RunResult, Second};
use crate::report::bootstrap;
use crate::report::least_squares::Estimate;
use crate::report::stats::{Interval, StatsError, mean};

pub use setting::{SettingDifference, is_same, setting_differences};

/// Windows that each side needs: an interval from fewer would hold almost anything.
const WINDOWS_MIN: usize = 8;

/// The least number of runs on each side: the variation between runs cannot be estimated from
/// fewer, and seconds of one run are more alike than those of two.
pub const RUNS_MIN: usize = 5;

/// The compared measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Requests completed a second; more are faster.
    Iops,
    /// Mean latency; less is faster. All cells that keep up with the given rate complete equally
    /// many requests.
    LatencyMeanNs,
}

impl Measure {
    /// What distinguishes these cells.
    fn of<'a>(mut cells: impl Iterator<Item = &'a CellResult>) -> Self {
        let is_open = cells.any(|cell| cell.workload.rate_per_s.is_some());
        if is_open { Self::LatencyMeanNs } else { Self::Iops }
    }

    /// What a difference means.
    fn verdict(self, difference: Estimate) -> Verdict {
        let Interval { low, high, .. } = difference.interval;
        let (is_more, is_less) = (low > 0.0, high < 0.0);
        let (is_faster, is_slower) = match self {
            Self::Iops => (is_more, is_less),
            Self::LatencyMeanNs => (is_less, is_more),
        };
        match (is_faster, is_slower) {
            (true, _) => Verdict::Faster,
            (_, true) => Verdict::Slower,
            _ => Verdict::NoDifference,
        }
    }

    /// A figure for each whole second of a run.
    fn windows(self, run: &RunResult) -> Vec<f64> {
        match self {
            Self::Iops => second_rates(run),
            Self::LatencyMeanNs => latency_windows(whole_seconds(run)),
        }
    }
}

/// A figure for each of these seconds, whose mean is the mean latency of all requests in ns: the
/// total latency of the requests of the second, divided by the mean number of requests per second.
/// So a second with few requests has little weight. `None` if there was no request.
pub fn latency_windows(seconds: &[Second]) -> Vec<f64> {
    let requests: u64 = seconds.iter().map(|second| second.reads + second.writes).sum();
    if requests == 0 {
        return Vec::new();
    }
    let requests_per_s = requests as f64 / seconds.len() as f64;
    seconds.iter().map(|second| second.latency_sum_ns as f64 / requests_per_s).collect()
}

/// Which of two is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The second is faster than the first.
    Faster,
    /// The second is slower than the first.
    Slower,
    /// They cannot be distinguished.
    NoDifference,
    /// There are fewer than [`RUNS_MIN`] runs of one: a difference may be that of two runs of the
    /// same thing. Or they may differ by a drift over time alone ([`Comparison::may_be_drift`]).
    CannotTell,
}

/// When the runs were measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// All of the first, and then all of the second, or the other way round. What changes with time
    /// meets one side more than the other.
    #[default]
    Apart,
    /// In turn: the first run of the first, the first of the second, the second of the first, and
    /// so on. What changes with time meets both.
    Alternating,
}

/// How to compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareOptions {
    /// When the runs were measured.
    pub order: Order,
    /// How often the interval is to hold the true difference.
    pub confidence: f64,
    /// The seed of the resampling: the same seed gives the same interval.
    pub seed: u64,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self { order: Order::Apart, confidence: 0.95, seed: 1 }
    }
}

/// Why two series cannot be compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A series is too short.
    #[error(
        "the shorter side has {windows} whole seconds of measurement, and each needs {needed}: measure for longer \
         (--time), or in more rounds (--repeats)"
    )]
    TooFew {
        /// Windows that the shorter side has.
        windows: usize,
        /// Windows that are needed.
        needed: usize,
    },
    /// One bypassed the page cache, and the other did not.
    #[error("one was measured past the page cache and the other through it: that is not the same workload")]
    Direct,
    /// Runs that were measured in turn come in pairs.
    #[error("{first} results of the first and {second} of the second were not measured in turn")]
    Unpaired {
        /// Runs of the first.
        first: usize,
        /// Runs of the second.
        second: usize,
    },
    /// A cell is not valid, and nothing is compared with it.
    #[error("{who} not valid")]
    NotValid {
        /// Which: `the first is`, `the second is`, `both are`.
        who: &'static str,
    },
    /// A figure cannot be used.
    #[error(transparent)]
    Stats(#[from] StatsError),
}

/// The second series beside the first.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// The compared measure, with its unit.
    pub measure: Measure,
    /// Mean of the first.
    pub first_mean: f64,
    /// Mean of the second.
    pub second_mean: f64,
    /// second ÷ first − 1, with its interval.
    pub difference: Estimate,
    /// What that means.
    pub verdict: Verdict,
    /// Windows of the first and of the second.
    pub windows: [usize; 2],
    /// Runs of the first and of the second. With fewer than [`RUNS_MIN`], the variation from run to
    /// run is not in the interval, and there is no verdict.
    pub runs: [usize; 2],
    /// Whether they were measured in turn: A B A B.
    pub interleaved: bool,
    /// Whether there is no verdict because a drift over the runs may be all that makes the two
    /// differ.
    pub may_be_drift: bool,
}

/// Compares two measured cells by their whole seconds: by the requests in each, or by their latency
/// if a rate was given. The caller must ensure that all have the same parameters. Unverified cells
/// are compared like valid ones: code that shows one must say what is unverified ([`sides`]).
///
/// Of one result a side each round is a run. Of several, measured in turn (A B A B), each result is
/// one: rounds of a result resemble each other more than those of two.
///
/// # Errors
/// Returns [`CompareError`] for an invalid cell, for cells that were measured for too short a time,
/// for different use of the page cache, or for results that do not come in pairs.
pub fn compare_cells(
    first: &[&CellResult],
    second: &[&CellResult],
    options: CompareOptions,
) -> Result<Comparison, CompareError> {
    if let Some(who) = sides([worst(first), worst(second)], State::Invalid) {
        return Err(CompareError::NotValid { who });
    }
    let all = || first.iter().chain(second).copied();
    let mut direct = all().flat_map(|cell| &cell.runs).map(|run| run.direct);
    let is_direct = direct.next();
    if direct.any(|other| Some(other) != is_direct) {
        return Err(CompareError::Direct);
    }
    let measure = Measure::of(all());
    // Of every run that counts.
    let of_cell = |cell: &CellResult| counted_runs(cell).map(|run| measure.windows(run)).collect::<Vec<_>>();
    let is_one_each = first.len() == 1 && second.len() == 1;
    let runs = |cells: &[&CellResult]| -> Vec<Vec<f64>> {
        let each = cells.iter().map(|cell| of_cell(cell));
        if is_one_each { each.flatten().collect() } else { each.map(|rounds| rounds.concat()).collect() }
    };
    let order = if is_one_each { Order::Apart } else { Order::Alternating };
    let [first, second] = [runs(first), runs(second)];
    let [first, second] = [&first, &second].map(|runs| runs.iter().map(Vec::as_slice).collect::<Vec<_>>());
    compare(&first, &second, measure, CompareOptions { order, ..options })
}

/// The state of a side: that of its worst cell.
pub fn worst(cells: &[&CellResult]) -> State {
    let any = |state| cells.iter().any(|cell| cell.state == state);
    match () {
        () if any(State::Invalid) => State::Invalid,
        () if any(State::Unverified) => State::Unverified,
        () => State::Valid,
    }
}

/// Which of two are in this state, for people: `the first is`, `the second is`, `both are`; `None`
/// if neither is.
pub fn sides(states: [State; 2], state: State) -> Option<&'static str> {
    match states.map(|found| found == state) {
        [true, true] => Some("both are"),
        [true, false] => Some("the first is"),
        [false, true] => Some("the second is"),
        [false, false] => None,
    }
}

/// Compares two things by their windows, each measured in one or more runs.
///
/// # Errors
/// Returns [`CompareError`] for too few windows, one that is not a finite number, a first series
/// whose mean is 0, or different numbers of runs that were measured in turn.
pub fn compare(
    first: &[&[f64]],
    second: &[&[f64]],
    measure: Measure,
    options: CompareOptions,
) -> Result<Comparison, CompareError> {
    let windows = [first, second].map(|runs| runs.iter().map(|run| run.len()).sum::<usize>());
    let fewest = windows.into_iter().min().unwrap_or(0);
    if fewest < WINDOWS_MIN {
        return Err(CompareError::TooFew { windows: fewest, needed: WINDOWS_MIN });
    }
    let CompareOptions { order, confidence, seed } = options;
    let interleaved = order == Order::Alternating;
    let runs = [first.len(), second.len()];
    if interleaved && first.len() != second.len() {
        return Err(CompareError::Unpaired { first: first.len(), second: second.len() });
    }
    let (first_mean, second_mean) = (mean(&first.concat())?, mean(&second.concat())?);
    let ratio = bootstrap::ratio_interval(first, second, confidence, seed)?;
    let plain = Estimate {
        value: ratio.value - 1.0,
        interval: Interval { low: ratio.interval.low - 1.0, high: ratio.interval.high - 1.0, confidence },
    };
    let means = [first, second].map(|runs| runs.iter().filter_map(|run| mean(run).ok()).collect::<Vec<_>>());
    let difference = match drift::Drift::of(&means, first_mean, order, confidence) {
        Some(drift) if interleaved => drift.difference,
        Some(drift) => drift.widened(plain),
        None => plain,
    };
    let is_enough = runs.into_iter().all(|runs| runs >= RUNS_MIN);
    let verdict = if is_enough { measure.verdict(difference) } else { Verdict::CannotTell };
    let may_be_drift =
        verdict == Verdict::NoDifference && !interleaved && measure.verdict(plain) != Verdict::NoDifference;
    let verdict = if may_be_drift { Verdict::CannotTell } else { verdict };
    Ok(Comparison {
        measure,
        first_mean,
        second_mean,
        difference,
        verdict,
        windows,
        runs,
        interleaved,
        may_be_drift,
    })
}
