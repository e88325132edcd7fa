//! Whether a measured cell may be believed: the checks that a figure has to pass.
//!
//! Every check compares one ratio with the range it is allowed to be in, and says in plain words
//! what that means. A check that applies and has nothing to go by is unverified, which is not the
//! same as passed: see [`State`]. Nothing here measures; the numbers are handed in as
//! [`CellFacts`].

mod burst;
mod checks;
mod looks;
mod outside;
mod state;
mod steady;

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

pub use burst::{BurstFall, find_fall};
pub use looks::{Looks, Sampled};
pub use outside::{QuotaStop, Throttled};
pub use state::{State, reasons, state};
pub(super) use steady::SPREAD_MAX;
pub use steady::{Steadiness, steadiness};

/// Which check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GateName {
    /// Throughput × mean latency ÷ requested depth.
    LittleRequested,
    /// Throughput × mean latency ÷ the mean in-flight count that was sampled.
    LittleSampled,
    /// Requests done in the measured time of an open loop ÷ those that were due in it.
    RateReached,
    /// How late the tool itself began requests of an open loop ÷ their mean latency.
    Punctual,
    /// Bytes read according to the device ÷ requested bytes.
    DeviceBytesRead,
    /// Bytes that the device says were written to it ÷ bytes that were to be written.
    DeviceBytesWritten,
    /// Bandwidth ÷ capacity of the link.
    LinkLimit,
    /// Processor time of the busiest thread ÷ time, or of all threads ÷ that of all processors,
    /// whichever is more.
    ThreadCpu,
    /// The longest wait of a thread for a processor ÷ time, or ÷ the time in which requests were in
    /// flight, or the time in which the program was stopped ÷ time, whichever is more.
    ProcessorWait,
    /// Measured time and requests ÷ the required ones.
    Length,
    /// Greatest less least of five window means, ÷ their mean.
    SteadySpread,
    /// The change of the fitted line over the five windows ÷ their mean.
    SteadySlope,
    /// Sustained ÷ burst rate of writing.
    WriteBurst,
    /// Rate ÷ limit of the control group on the device.
    Throttle,
    /// Time until all writes were durable ÷ time of the writes.
    Durable,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The ratio lies in the allowed range.
    Passed,
    /// It does not.
    Failed,
    /// There is something to check, but the data for it is missing, or the run is too short.
    Unverified,
    /// There is nothing to check.
    NotApplicable,
}

/// One check of one cell. All figures are ratios and have no unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// Which check.
    pub name: GateName,
    /// The ratio that was measured.
    pub measured: Option<f64>,
    /// The least that is allowed.
    pub allowed_min: Option<f64>,
    /// The greatest that is allowed.
    pub allowed_max: Option<f64>,
    /// How it ended.
    pub outcome: Outcome,
    /// What that means, in plain words.
    pub reason: String,
}

impl Gate {
    /// Whether it failed.
    pub fn is_failed(&self) -> bool {
        self.outcome == Outcome::Failed
    }
}

/// How requests come about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// A new one as soon as one is finished.
    Closed {
        /// How many are to be in flight: depth × jobs.
        in_flight: f64,
    },
    /// One request at its scheduled time, whatever is still in flight.
    Open {
        /// Requests that were due in the measured time: a random schedule has more or fewer of them
        /// than the rate says.
        due: u64,
        /// Reads and writes that ended in it, before anything was waited for at its end.
        done: u64,
        /// Requests that began late, or never, because as many as allowed were in flight.
        held_back: u64,
        /// Those of them that never began.
        unserved: u64,
        /// Whether they came at random moments.
        is_random: bool,
        /// The mean delay of requests after they were due, as far as the tool was free to begin
        /// them: without delays by a full depth or by submitting others.
        late_mean_s: f64,
        /// Mean latency of reads and writes as it is reported: from when they were due.
        latency_mean_s: f64,
        /// Their median: a few slow requests do not raise it.
        latency_median_s: f64,
    },
}

/// Equally long ranges of a run, in order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Series<'a> {
    /// How long each is. The last is left out unless it is whole.
    pub window_s: f64,
    /// Bytes per second in each.
    pub rates_bytes_per_s: &'a [f64],
}

impl Series<'_> {
    /// The mean of all intervals; 0 if there is none.
    pub fn mean_bytes_per_s(&self) -> f64 {
        let rates = self.rates_bytes_per_s;
        rates.iter().sum::<f64>() / rates.len().max(1) as f64
    }
}

/// The facts about a cell. `Err` holds the reason why something is not known, in plain words.
#[derive(Debug, Clone)]
pub struct CellFacts<'a> {
    /// How requests came about.
    pub load: Load,
    /// How many jobs asked, each on a thread of its own.
    pub jobs: u32,
    /// How long was measured, until nothing was in flight any more.
    pub time_s: f64,
    /// How much of that requests were begun in.
    pub steady_s: f64,
    /// Requests finished in that time.
    pub requests: u64,
    /// Their mean latency, from when they began.
    pub latency_mean_s: f64,
    /// How much of all their latencies, added up, had passed when measuring began: what began in
    /// the ramp.
    pub earlier_s: f64,
    /// The in-flight counts that were sampled in that time, at moments of their own.
    pub in_flight: Result<Sampled, String>,
    /// Bytes of the reads that were finished.
    pub read_bytes: u64,
    /// Bytes of the writes that were finished.
    pub written_bytes: u64,
    /// Bytes that the device's own counters say were read from it.
    pub device_read_bytes: Result<u64, String>,
    /// Bytes that the device's own counters say were written to it.
    pub device_written_bytes: Result<u64, String>,
    /// What the whole disks below moved, where the counters of the device are not those of whole
    /// disks: it lies on a partition, or is a loop device.
    pub disks: Option<Disks>,
    /// The capacity of the link to the device.
    pub link_limit_bytes_per_s: Result<f64, String>,
    /// Processor time of the busiest thread ÷ time.
    pub thread_cpu_share_max: Result<f64, String>,
    /// Processor time of all threads of the run ÷ that of all processors that they may use.
    pub processors_share: f64,
    /// The longest wait of a thread for a processor ÷ time, as far as other programs used one, or a
    /// quota kept it from the thread.
    pub processor_wait_share_max: Result<f64, String>,
    /// How much of that may have been something else: other threads of the run, the kernel, or
    /// invisible causes.
    pub processor_wait_unsure: f64,
    /// The control group that stopped the program because it had used up its processor quota;
    /// `None` if none did.
    pub quota_stop: Option<QuotaStop>,
    /// The time in which the whole program stood still and wanted no processor ÷ time.
    pub stopped_share: f64,
    /// The process that traced a thread of the run, and may have stopped that one alone; `None` if
    /// none was seen.
    pub tracer: Option<NonZeroU32>,
    /// The limits of control groups on the device, and their use; empty if there are none.
    pub throttled: Vec<Throttled>,
    /// How long it took, after the last write, until everything was durable; `None` if that was not
    /// waited for.
    pub durable_after_s: Option<f64>,
    /// The measured time, cut into windows.
    pub series: Series<'a>,
    /// A longer run of the same writes, if there was one: it shows a cache that is larger than what
    /// the cell wrote.
    pub long_run: Option<Series<'a>>,
}

/// Disks below a partition or a loop device, which other programs use as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disks {
    /// Their names.
    pub name: String,
    /// Bytes read and written, for everybody; what is written to several copies, once.
    pub moved_bytes: u64,
}

impl CellFacts<'_> {
    fn bandwidth_bytes_per_s(&self) -> f64 {
        (self.read_bytes as f64 + self.written_bytes as f64) / self.time_s
    }

    /// Throughput × mean latency: how many requests were in flight if the latencies are whole
    /// (J. D. C. Little, *A Proof for the Queuing Formula: L = λW*, 1961).
    fn in_flight_by_little(&self) -> f64 {
        self.latency_sum_s() / self.time_s
    }

    /// The same over exactly the time of the looks, without the time before.
    fn in_flight_meanwhile(&self) -> f64 {
        (self.latency_sum_s() - self.earlier_s) / self.time_s
    }

    fn latency_sum_s(&self) -> f64 {
        self.requests as f64 * self.latency_mean_s
    }

    /// For how long a job waited for a request at most: all of the time, or its share of all
    /// latencies, from when requests were due. At greater depths these hold the same time several
    /// times.
    fn waited_for_requests_s(&self) -> f64 {
        let sum_s = match self.load {
            Load::Closed { .. } => self.latency_sum_s(),
            Load::Open { latency_mean_s, .. } => self.requests as f64 * latency_mean_s,
        };
        (sum_s / f64::from(self.jobs.max(1))).min(self.time_s)
    }
}

/// Runs every check on one cell, in the order of [`GateName`].
pub fn check(cell: &CellFacts<'_>) -> Vec<Gate> {
    let [spread, slope] = steady::gates(cell);
    // Of a run that is too short a law, or a counter, says no more than the run does.
    let if_long = |gate: Gate| match gate.is_failed() && steady::is_short(cell) {
        true => {
            Gate { reason: format!("the run is too short to tell: {}", gate.reason), ..or_unverified(gate) }
        }
        false => gate,
    };
    let processor_wait = outside::processor_wait(cell);
    // Who looks waits for a processor as well.
    let has_waited = outside::lacked_processor(cell);
    let if_on_time = |gate: Gate| match gate.is_failed() && has_waited {
        true => Gate {
            reason: format!("the sampling thread had to wait for a processor, too: {}", gate.reason),
            ..or_unverified(gate)
        },
        false => gate,
    };
    vec![
        if_long(checks::little_requested(cell)),
        if_on_time(if_long(checks::little_sampled(cell))),
        checks::rate_reached(cell),
        outside::punctual(cell),
        // The counters of a device lag a little.
        if_long(checks::device_bytes_read(cell)),
        if_long(checks::device_bytes_written(cell)),
        checks::link_limit(cell),
        checks::thread_cpu(cell),
        processor_wait,
        steady::length(cell),
        spread,
        slope,
        burst::gate(cell),
        outside::throttle(cell),
        outside::durable(cell),
    ]
}

/// A range of ratios; either end may be open.
#[derive(Debug, Clone, Copy)]
struct Allowed {
    min: Option<f64>,
    max: Option<f64>,
}

impl Allowed {
    const fn at_least(min: f64) -> Self {
        Self { min: Some(min), max: None }
    }

    const fn at_most(max: f64) -> Self {
        Self { min: None, max: Some(max) }
    }

    const fn between(min: f64, max: f64) -> Self {
        Self { min: Some(min), max: Some(max) }
    }
}

/// The texts for a ratio that is below, in, or above its range.
struct Words {
    below: String,
    within: String,
    above: String,
}

/// The gate for a ratio. NaN is neither in nor out of a range, so it fails.
fn judge(name: GateName, measured: f64, allowed: Allowed, words: Words) -> Gate {
    let (outcome, reason) = if !measured.is_finite() {
        (Outcome::Failed, "nothing was measured that this could be computed from".to_owned())
    } else if allowed.min.is_some_and(|min| measured < min) {
        (Outcome::Failed, words.below)
    } else if allowed.max.is_some_and(|max| measured > max) {
        (Outcome::Failed, words.above)
    } else {
        (Outcome::Passed, words.within)
    };
    let measured = measured.is_finite().then_some(measured);
    Gate { name, measured, allowed_min: allowed.min, allowed_max: allowed.max, outcome, reason }
}

/// The same gate, which proves nothing where it fails.
fn or_unverified(gate: Gate) -> Gate {
    let outcome = if gate.is_failed() { Outcome::Unverified } else { gate.outcome };
    Gate { outcome, ..gate }
}

/// The gate for a check that does not apply.
fn not_applicable(name: GateName, reason: impl Into<String>) -> Gate {
    unmeasured(name, Outcome::NotApplicable, reason.into())
}

/// The gate for a check that applies, but cannot be made.
fn unverified(name: GateName, reason: impl Into<String>) -> Gate {
    unmeasured(name, Outcome::Unverified, reason.into())
}

fn unmeasured(name: GateName, outcome: Outcome, reason: String) -> Gate {
    Gate { name, measured: None, allowed_min: None, allowed_max: None, outcome, reason }
}
