//! The highest rate at which latencies keep an objective, like "99% within 2 ms".
//!
//! Requests arrive in an open loop: each is timed from the moment at which it was due, however late
//! it began, so that waiting is part of the latency (no coordinated omission). What never began is
//! longer than any latency. The rate is found by bisection ([`search()`]), again in every round,
//! and the interval says by how much rounds differ. Every rate that was tried has the checks of its
//! run, and the lowest one that missed the objective says what the limit was ([`Limit`]).

mod run;
mod search;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::environment::Environment;
use super::error::{Error, Result};
use super::gates::{Gate, GateName, Outcome, State};
use super::result::about;
use super::workload::Workload;
use crate::report::histogram::LatencyHistogram;
use crate::report::least_squares::{Estimate, student_t};
use crate::report::stats::Interval;
use crate::report::units::{duration_ns, parse_seconds};

pub use search::{Bracket, RESOLUTION, Start, search};

/// A figure of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Statistic {
    /// The arithmetic mean.
    #[serde(rename = "mean")]
    Mean,
    /// Half of the requests take no longer.
    #[serde(rename = "p50")]
    P50,
    /// 90% take no longer.
    #[serde(rename = "p90")]
    P90,
    /// 99% take no longer.
    #[serde(rename = "p99")]
    P99,
    /// 99.9% take no longer.
    #[serde(rename = "p99.9")]
    P999,
}

impl Statistic {
    const ALL: [(&'static str, Self); 5] = [
        ("mean", Self::Mean),
        ("p50", Self::P50),
        ("p90", Self::P90),
        ("p99", Self::P99),
        ("p99.9", Self::P999),
    ];

    /// Its name: `p99`.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, statistic)| *statistic == self).map_or("", |(name, _)| name)
    }

    /// The share of requests that take no longer; `None` for the mean.
    fn share(self) -> Option<f64> {
        match self {
            Self::Mean => None,
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
        }
    }

    /// The figure of latencies beside which so many requests never began. `None` where these make
    /// it longer than anything.
    fn of(self, latencies: &LatencyHistogram, unserved: u64) -> Option<u64> {
        let served = latencies.count();
        match self.share() {
            None => latencies.mean_ns().filter(|_| unserved == 0).map(|mean| mean.round() as u64),
            Some(share) => {
                let of_served = share * (served + unserved) as f64 / served.max(1) as f64;
                (served > 0 && of_served <= 1.0).then(|| latencies.quantile_ns(of_served)).flatten()
            }
        }
    }

    /// Requests of which it can be told: of fewer the greatest ten would be no ten.
    fn requests_min(self) -> f64 {
        self.share().map_or(100.0, |share| 10.0 / (1.0 - share))
    }
}

/// What latencies are to keep.
///
/// ```
/// use stook::bench::slo::{Objective, Statistic};
///
/// let objective: Objective = "p99=2ms".parse()?;
/// assert_eq!((objective.statistic, objective.latency_ns), (Statistic::P99, 2_000_000));
/// # Ok::<(), stook::bench::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objective {
    /// The figure.
    pub statistic: Statistic,
    /// The most that it may be.
    pub latency_ns: u64,
}

impl FromStr for Objective {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let expected = |what: &str| {
            let names = Statistic::ALL.map(|(name, _)| name).join(", ");
            Error::workload(format!("{text:?}: {what}; expected one of {names} with a time, like p99=2ms"))
        };
        let (name, time) = text.split_once('=').ok_or_else(|| expected("no objective"))?;
        let found = Statistic::ALL.iter().find(|(known, _)| *known == name);
        let (_, statistic) = found.ok_or_else(|| expected(&format!("{name:?} is no figure of latencies")))?;
        let micro = time.strip_suffix("us").or_else(|| time.strip_suffix("µs"));
        let seconds = match micro {
            Some(number) => number.parse::<f64>().ok().map(|number| number / 1e6),
            None => parse_seconds(time).ok(),
        };
        // No more than a hundred years, and more than nothing.
        let latency_ns =
            seconds.map(|seconds| (seconds * 1e9).round()).filter(|ns| (1.0..3.2e18).contains(ns));
        let latency_ns = latency_ns.ok_or_else(|| expected(&format!("{time:?} is no time above 0")))?;
        Ok(Self { statistic: *statistic, latency_ns: latency_ns as u64 })
    }
}

/// `p99 ≤ 2.00 ms`.
impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ≤ {}", self.statistic.name(), duration_ns(self.latency_ns))
    }
}

/// What kept the rate from being higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// A limit of the control group on the device.
    ControlGroup,
    /// The tool itself used up a processor, or all.
    Tool,
    /// Threads waited for a processor.
    Processors,
    /// Timers that fire late.
    Timers,
    /// As many requests as allowed were in flight, and more were due.
    Saturation,
    /// The device kept up with the rate, and latencies were longer.
    Latency,
}

impl Limit {
    /// In plain words.
    pub fn text(self) -> &'static str {
        match self {
            Self::ControlGroup => "the control group allows no more on the device",
            Self::Tool => "the tool itself: it used up a processor",
            Self::Processors => "processors: threads of the run waited for one",
            Self::Timers => "the timers of this machine, which fire late",
            Self::Saturation => "the device completes no more with so many in flight",
            Self::Latency => "latency: the device keeps up with more requests, and each takes longer",
        }
    }

    /// What the checks of a run that missed its objective say.
    fn of(gates: &[Gate], due: u64, held_back: u64) -> Self {
        let outcome = |name| gates.iter().find(|gate| gate.name == name).map(|gate| gate.outcome);
        let is_doubtful =
            |name| matches!(outcome(name), Some(Outcome::Failed)) || is_measured_and_unverified(gates, name);
        let failed = |name| outcome(name) == Some(Outcome::Failed);
        match () {
            () if is_doubtful(GateName::Throttle) => Self::ControlGroup,
            () if failed(GateName::ThreadCpu) => Self::Tool,
            () if is_doubtful(GateName::ProcessorWait) => Self::Processors,
            () if is_doubtful(GateName::Punctual) => Self::Timers,
            () if failed(GateName::RateReached) || held_back * HELD_BACK_MIN > due => Self::Saturation,
            () => Self::Latency,
        }
    }
}

/// One of so many requests that waited for a place shows that places were the limit.
const HELD_BACK_MIN: u64 = 10;

/// A check without a figure says nothing about a limit.
fn is_measured_and_unverified(gates: &[Gate], name: GateName) -> bool {
    let mut named = gates.iter().filter(|gate| gate.name == name);
    named.any(|gate| gate.outcome == Outcome::Unverified && gate.measured.is_some())
}

/// One rate that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its round, from 0.
    pub round: u32,
    /// Requests a second that were due.
    pub rate_per_s: f64,
    /// Requests a second that completed.
    pub rate_reached_per_s: f64,
    /// The figure of the objective, from when requests were due; `null` where so many never began
    /// that it is longer than anything.
    pub latency_ns: Option<u64>,
    /// Requests that were due in the measured time, and those of them that never began.
    pub due: u64,
    /// Requests that were due and never began.
    pub unserved: u64,
    /// Whether the objective was kept.
    pub is_kept: bool,
    /// Where it was not: what the limit was.
    pub limit: Option<Limit>,
    /// Every check of the run.
    pub gates: Vec<Gate>,
    /// The result of the checks; of a rate that missed the objective without those that too high a
    /// rate makes fail.
    pub state: State,
    /// Why it is not valid.
    pub reasons: Vec<String>,
}

/// What was found for a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SloCell {
    /// Its usual short name.
    pub rw: String,
    /// The requested parameters. Its `rate_per_s` is `null`: the rate is what was looked for.
    #[serde(flatten)]
    pub workload: Workload,
    /// Requests a second in a closed loop at the same depth, where the search began.
    pub closed_iops: f64,
    /// The highest rate at which the objective was kept, with the interval of the mean of all
    /// rounds; `null` where a round found none.
    pub highest_rate_per_s: Option<Estimate>,
    /// How many rounds that is from. With one it is not known how rounds differ, and the interval
    /// is that of the rates that were tried.
    pub rounds: u32,
    /// The figure of the objective at the highest rate of all that kept it.
    pub latency_ns: Option<u64>,
    /// What kept the rate from being higher, the most frequent first.
    pub limits: Vec<Limit>,
    /// Whether that may be believed: the worst of the trials that decided it.
    pub state: State,
    /// Why it may not.
    pub reasons: Vec<String>,
    /// Every rate that was tried, in the order in which it was.
    pub trials: Vec<Trial>,
}

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SloResult {
    /// The file that was measured on; the directory, where it was made for this and has no name.
    pub path: String,
    /// The length of the file.
    pub file_bytes: u64,
    /// Whether it was made for this, and full of data.
    pub own_file: bool,
    /// Where it was measured.
    pub environment: Environment,
    /// When it began, in UTC.
    pub time: String,
    /// Whether it was interrupted; a cell that was not finished is left out.
    pub interrupted: bool,
    /// What latencies were to keep.
    pub objective: Objective,
    /// The cells in the requested order.
    pub cells: Vec<SloCell>,
}

impl SloResult {
    /// The environment of the measurement, and doubts about it: a line each, for people.
    pub fn about(&self) -> Vec<String> {
        let first = self.cells.first().map(|cell| cell.workload.seed);
        let seed = first.filter(|seed| self.cells.iter().all(|cell| cell.workload.seed == *seed));
        about(&self.path, self.own_file, self.file_bytes, &self.environment, seed)
    }
}

/// How often an interval is to hold the highest rate.
const CONFIDENCE: f64 = 0.95;

/// The highest rate, from what each round found; `None` where one found no rate.
fn highest(brackets: &[Bracket]) -> Option<Estimate> {
    let ends: Option<Vec<(f64, f64)>> = brackets.iter().map(|bracket| bracket.ends()).collect();
    let ends = ends.filter(|ends| !ends.is_empty())?;
    let rates: Vec<f64> = ends.iter().map(|(low, high)| (low * high).sqrt()).collect();
    let count = rates.len() as f64;
    let value = rates.iter().sum::<f64>() / count;
    if let [(low, high)] = ends.as_slice() {
        let interval = Interval { low: *low, high: *high, confidence: CONFIDENCE };
        return Some(Estimate { value, interval });
    }
    let variance = rates.iter().map(|rate| (rate - value).powi(2)).sum::<f64>() / (count - 1.0);
    // Rates between two that were tried are not told apart.
    let step = ends.iter().map(|(low, high)| (high - low) / 2.0).sum::<f64>() / count;
    let half = student_t(CONFIDENCE, rates.len() - 1) * (variance / count).sqrt() + step;
    let interval = Interval { low: (value - half).max(0.0), high: value + half, confidence: CONFIDENCE };
    Some(Estimate { value, interval })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_and_printed() {
        let read = |text: &str| text.parse::<Objective>().unwrap();
        assert_eq!(read("p99=2ms"), Objective { statistic: Statistic::P99, latency_ns: 2_000_000 });
        assert_eq!(read("p99.9=150us").latency_ns, 150_000);
        assert_eq!(read("mean=1.5s").to_string(), "mean ≤ 1.50 s");
        assert_eq!(read("p50=80µs").to_string(), "p50 ≤ 80.0 µs");
        for (text, part) in [
            ("", "no objective"),
            ("0", "no objective"),
            ("p98=2ms", "\"p98\" is no figure of latencies; expected one of mean, p50"),
            ("p99=", "\"\" is no time above 0"),
            ("p99=0", "is no time above 0"),
            ("p99=-1ms", "is no time above 0"),
            ("p99=soon", "like p99=2ms"),
            ("p99=NaNus", "is no time above 0"),
            ("p99=1e30us", "is no time above 0"),
        ] {
            let error = text.parse::<Objective>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn requests_that_never_began_are_longer_than_any() {
        let mut latencies = LatencyHistogram::new();
        (1..=990).for_each(|ns| latencies.record(ns * 1000));
        let of = |statistic: Statistic, unserved| statistic.of(&latencies, unserved);
        assert!(of(Statistic::P99, 0).unwrap() < 985_000);
        // Ten of a thousand are more than the longest: 99% still ended.
        assert_eq!(of(Statistic::P99, 10), Some(990_000));
        assert_eq!((of(Statistic::P99, 11), of(Statistic::P999, 10)), (None, None));
        assert!(of(Statistic::P50, 900).is_some());
        assert_eq!((of(Statistic::Mean, 0), of(Statistic::Mean, 1)), (Some(495_500), None));
        assert_eq!(Statistic::P50.of(&LatencyHistogram::new(), 3), None);
    }

    #[test]
    fn the_interval_is_that_of_rounds_and_of_the_step_between_rates() {
        let bracket = |low: f64, high: f64| Bracket { kept_per_s: Some(low), missed_per_s: Some(high) };
        let alone = highest(&[bracket(99.0, 101.0)]).unwrap();
        assert_eq!((alone.interval.low, alone.interval.high), (99.0, 101.0));
        let same = highest(&[bracket(99.0, 101.0); 3]).unwrap();
        assert!((same.interval.high - same.value - 1.0).abs() < 1e-9, "{same:?}");
        // Standard deviation 10, of three: 4.303 × 10 ÷ √3.
        let rounds = [90.0, 100.0, 110.0].map(|rate| bracket(rate, rate));
        let apart = highest(&rounds).unwrap();
        assert!(
            (apart.value - 100.0).abs() < 1e-9 && (apart.interval.high - 124.84).abs() < 0.01,
            "{apart:?}"
        );
        let none = Bracket { kept_per_s: None, missed_per_s: Some(1.0) };
        assert_eq!((highest(&[none, bracket(1.0, 2.0)]), highest(&[])), (None, None));
    }

    #[test]
    fn the_limit_is_what_the_checks_say() {
        let gate = |name, outcome, measured| Gate {
            name,
            measured,
            allowed_min: None,
            allowed_max: None,
            outcome,
            reason: String::new(),
        };
        let of = |name, outcome, measured| Limit::of(&[gate(name, outcome, measured)], 1000, 0);
        assert_eq!(of(GateName::Throttle, Outcome::Unverified, Some(0.99)), Limit::ControlGroup);
        assert_eq!(of(GateName::ThreadCpu, Outcome::Failed, Some(0.99)), Limit::Tool);
        assert_eq!(of(GateName::ProcessorWait, Outcome::Failed, Some(0.5)), Limit::Processors);
        assert_eq!(of(GateName::ProcessorWait, Outcome::Unverified, None), Limit::Latency);
        assert_eq!(of(GateName::Punctual, Outcome::Unverified, Some(0.5)), Limit::Timers);
        assert_eq!(of(GateName::RateReached, Outcome::Failed, Some(0.5)), Limit::Saturation);
        assert_eq!(
            (Limit::of(&[], 1000, 500), Limit::of(&[], 1000, 50)),
            (Limit::Saturation, Limit::Latency)
        );
    }
}
