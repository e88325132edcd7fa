//! Whether two series of measurements differ, or only seem to.
//!
//! Both are figures of equally long windows: rates, or latencies if the rate was given
//! ([`Measure`]). The difference of their means comes with an interval from resampled blocks
//! ([`bootstrap`]), and one is called faster only when that interval excludes zero and there are
//! enough runs to know how runs differ. [`compare_cells`] takes the windows from two measured
//! cells. Nothing here measures.

use serde::Serialize;

use super::gates::State;
use super::model::{counted_runs, second_rates, whole_seconds};
use super::result::{CellResult, RunResult, Second};
use crate::report::bootstrap;
use crate::report::least_squares::Estimate;
use crate::report::stats::{Interval, StatsError, mean};

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
    fn of(cells: [&CellResult; 2]) -> Self {
        let is_open = cells.iter().any(|cell| cell.workload.rate_per_s.is_some());
        if is_open { Self::LatencyMeanNs } else { Self::Iops }
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
    /// same thing.
    CannotTell,
}

/// How to compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareOptions {
    /// Run *i* of one was measured right before or after run *i* of the other. Then a drift that
    /// both share does not count as a difference.
    pub interleaved: bool,
    /// How often the interval is to hold the true difference.
    pub confidence: f64,
    /// The seed of the resampling: the same seed gives the same interval.
    pub seed: u64,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self { interleaved: false, confidence: 0.95, seed: 1 }
    }
}

/// Why two series cannot be compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A series is too short.
    #[error("{windows} windows are too few to compare; at least {needed} are needed on each side")]
    TooFew {
        /// Windows that the shorter side has.
        windows: usize,
        /// Windows that are needed.
        needed: usize,
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
    /// Whether runs were compared in pairs.
    pub interleaved: bool,
}

/// Compares two measured cells by their whole seconds: by the requests in each, or by their latency
/// if a rate was given. The caller must ensure that both have the same parameters. Unverified cells
/// are compared like valid ones: code that shows one must say what is unverified ([`sides`]).
///
/// # Errors
/// Returns [`CompareError`] for an invalid cell, or one that was measured for too short a time.
pub fn compare_cells(
    first: &CellResult,
    second: &CellResult,
    options: CompareOptions,
) -> Result<Comparison, CompareError> {
    if let Some(who) = sides([first.state, second.state], State::Invalid) {
        return Err(CompareError::NotValid { who });
    }
    let measure = Measure::of([first, second]);
    // Of every run that counts.
    let windows = |cell| counted_runs(cell).map(|run| measure.windows(run)).collect::<Vec<_>>();
    let [first, second] = [first, second].map(windows);
    let first: Vec<&[f64]> = first.iter().map(Vec::as_slice).collect();
    let second: Vec<&[f64]> = second.iter().map(Vec::as_slice).collect();
    compare(&first, &second, measure, options)
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
/// whose mean is 0, or different numbers of runs to be paired.
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
    let CompareOptions { interleaved, confidence, seed } = options;
    let ratio = bootstrap::ratio_interval(first, second, interleaved, confidence, seed)?;
    let Interval { low, high, confidence } = ratio.interval;
    let difference = Estimate {
        value: ratio.value - 1.0,
        interval: Interval { low: low - 1.0, high: high - 1.0, confidence },
    };
    let runs = [first.len(), second.len()];
    let (is_more, is_less) = (low > 1.0, high < 1.0);
    let (is_faster, is_slower) = match measure {
        Measure::Iops => (is_more, is_less),
        Measure::LatencyMeanNs => (is_less, is_more),
    };
    let verdict = match (is_faster, is_slower) {
        _ if runs.into_iter().any(|runs| runs < RUNS_MIN) => Verdict::CannotTell,
        (true, _) => Verdict::Faster,
        (_, true) => Verdict::Slower,
        _ => Verdict::NoDifference,
    };
    let (first_mean, second_mean) = (mean(&first.concat())?, mean(&second.concat())?);
    Ok(Comparison { measure, first_mean, second_mean, difference, verdict, windows, runs, interleaved })
}
