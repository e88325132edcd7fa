//! The result of a measurement, in the structure of the JSON.

use serde::{Deserialize, Serialize};

use super::environment::Environment;
use super::gates::{self, Gate, State};
use super::long_run::LongRun;
use super::run::{Measured, Record, TICK_NS, Tick};
use super::workload::Workload;
use crate::device::DeviceUse;
use crate::report::histogram::LatencyHistogram;
use crate::report::units::bytes_binary;

/// How many windows the steady state is judged by.
const WINDOWS: usize = 5;
/// Buckets of a compact histogram between one power of two and the next.
const BUCKETS_LOG2: u32 = 5;

/// Everything that `bench` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchResult {
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
    /// Whether it was interrupted; the result has everything measured until then.
    pub interrupted: bool,
    /// The cells in the requested order.
    pub cells: Vec<CellResult>,
}

/// One cell: all its runs, and the figures of those that are not invalid, taken together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// Its usual short name.
    pub rw: String,
    /// The requested parameters.
    #[serde(flatten)]
    pub workload: Workload,
    /// Reads and writes.
    pub total: Figures,
    /// Reads, if there are any.
    pub read: Option<Figures>,
    /// Writes, if there are any.
    pub write: Option<Figures>,
    /// Syncs, if there are any; they are no part of the total.
    pub sync: Option<Figures>,
    /// Of blocks of several sizes the reads and writes of each, in the order of the split; empty
    /// where all are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<SizeFigures>,
    /// Whether it is valid: the [`verdict`](CellResult::verdict) on its runs.
    pub state: State,
    /// Why it may not, or why that is not known; and why runs are not valid. One for each check.
    pub reasons: Vec<String>,
    /// Its sustained rate, if that was requested and it writes. It is not part of the figures.
    pub long_run: Option<LongRun>,
    /// Every run, in order.
    pub runs: Vec<RunResult>,
}

/// The figures of blocks of one size among several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeFigures {
    /// Bytes of each.
    pub block_size: u64,
    /// Reads and writes.
    #[serde(flatten)]
    pub total: Figures,
}

/// How many, how fast, how long.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Requests completed.
    pub count: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bandwidth_bytes_per_s: f64,
    /// Exact.
    pub latency_min_ns: Option<u64>,
    /// Exact.
    pub latency_mean_ns: Option<f64>,
    /// Half of the requests took no longer; like all that follow, at most 0.1% too high.
    pub latency_p50_ns: Option<u64>,
    /// 90% took no longer.
    pub latency_p90_ns: Option<u64>,
    /// 99% took no longer.
    pub latency_p99_ns: Option<u64>,
    /// 99.9% took no longer.
    pub latency_p999_ns: Option<u64>,
    /// Exact.
    pub latency_max_ns: Option<u64>,
    /// All of them, coarsely.
    pub histogram: CompactHistogram,
}

/// A histogram in which every power of two has 32 buckets. Both lists are equally long; empty
/// buckets are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CompactHistogram {
    /// The longest latency that falls into each bucket, ascending.
    pub upper_ns: Vec<u64>,
    /// How many did.
    pub count: Vec<u64>,
}

/// One run of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Its round, from 0: each round runs every cell once.
    pub round: u32,
    /// The backend.
    pub engine: String,
    /// Whether the page cache was passed by.
    pub direct: bool,
    /// From the end of the ramp until nothing was in flight any more; rates are per this time.
    pub seconds: f64,
    /// From the end of the ramp until no more requests were begun.
    pub steady_s: f64,
    /// Reads and writes.
    pub total: Figures,
    /// Reads, if there are any.
    pub read: Option<Figures>,
    /// Writes, if there are any.
    pub write: Option<Figures>,
    /// Syncs, if there are any; they are no part of the total.
    pub sync: Option<Figures>,
    /// The completions in each second. The last entry has the rest, including the drain.
    pub series: Vec<Second>,
    /// What completed in each fifth of the steady time.
    pub windows: Vec<Window>,
    /// Requests in flight.
    pub in_flight: InFlightResult,
    /// Processor time.
    pub cpu: CpuResult,
    /// The operations of the device meanwhile, for all programs; `null` if not known.
    pub device: Option<DeviceUse>,
    /// How the schedule was kept; `null` for a closed loop.
    pub open_loop: Option<OpenLoopResult>,
    /// Bytes that were read and compared with the written contents.
    pub verified_bytes: u64,
    /// How long it took after all this until all writes were durable; `null` if nothing is written.
    /// It is no part of the time that rates are per.
    pub durable_after_s: Option<f64>,
    /// Every check of the validity of the figures.
    pub gates: Vec<Gate>,
    /// The result of the gates.
    pub state: State,
    /// Why those that failed did; where none did, why those that could not be made could not.
    pub reasons: Vec<String>,
}

/// What completed in one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Second {
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes moved by both.
    pub bytes: u64,
    /// Sum of their latencies.
    pub latency_sum_ns: u64,
}

/// What completed in one window.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Window {
    /// How long it was.
    pub seconds: f64,
    /// Requests completed.
    pub count: u64,
    /// Requests a second.
    pub iops: f64,
}

/// Requests in flight, over all jobs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct InFlightResult {
    /// Depth times jobs.
    pub requested: u64,
    /// How often a thread of its own looked, at random moments.
    pub samples: u64,
    /// The mean of the samples.
    pub mean: Option<f64>,
    /// The most that it saw.
    pub most: u64,
}

/// Processor time since the ramp.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CpuResult {
    /// Of the whole process, without the thread that watches.
    pub process_s: f64,
    /// The same for each request.
    pub per_request_ns: Option<f64>,
    /// The greatest share of its time that one job's thread was running.
    pub busiest_thread_share: f64,
    /// The greatest share of its time that a thread was ready and waited for a processor; `null`
    /// where it is not known.
    pub waiting_share_max: Option<f64>,
}

/// How the schedule of an open loop was kept.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct OpenLoopResult {
    /// Requested rate, in requests per second.
    pub rate_requested_per_s: f64,
    /// Requests a second that completed.
    pub rate_reached_per_s: f64,
    /// Requests that were due in the measured time.
    pub due: u64,
    /// Requests that began late because as many as allowed were in flight. Their latency counts
    /// from when they were due.
    pub overruns: u64,
    /// Requests that were due and never began.
    pub unserved: u64,
    /// How long after they were due requests began, on average; this is part of their latency.
    pub late_mean_ns: Option<f64>,
}

impl Figures {
    fn of(histogram: &LatencyHistogram, bytes: u64, seconds: f64) -> Self {
        let per_s = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
        Self {
            count: histogram.count(),
            bytes,
            iops: per_s(histogram.count()),
            bandwidth_bytes_per_s: per_s(bytes),
            latency_min_ns: histogram.min_ns(),
            latency_mean_ns: histogram.mean_ns(),
            latency_p50_ns: histogram.quantile_ns(0.5),
            latency_p90_ns: histogram.quantile_ns(0.9),
            latency_p99_ns: histogram.quantile_ns(0.99),
            latency_p999_ns: histogram.quantile_ns(0.999),
            latency_max_ns: histogram.max_ns(),
            histogram: CompactHistogram::of(histogram),
        }
    }
}

impl CompactHistogram {
    fn of(histogram: &LatencyHistogram) -> Self {
        let mut compact = Self::default();
        for bucket in histogram.buckets() {
            let upper_ns = upper_edge(bucket.from_ns);
            match (compact.upper_ns.last(), compact.count.last_mut()) {
                (Some(&last), Some(count)) if last == upper_ns => *count += bucket.count,
                _ => {
                    compact.upper_ns.push(upper_ns);
                    compact.count.push(bucket.count);
                }
            }
        }
        compact
    }
}

/// The longest latency in the bucket of `latency_ns`. Below 64 ns each has a bucket of its own.
fn upper_edge(latency_ns: u64) -> u64 {
    let width_log2 = (latency_ns | 1).ilog2().saturating_sub(BUCKETS_LOG2);
    latency_ns | ((1 << width_log2) - 1)
}

impl BenchResult {
    /// The seed that its cells have in common.
    pub fn seed(&self) -> Option<u64> {
        let seed = self.cells.first()?.workload.seed;
        self.cells.iter().all(|cell| cell.workload.seed == seed).then_some(seed)
    }

    /// The environment of the measurement, and doubts about it: a line each, for people.
    pub fn about(&self) -> Vec<String> {
        about(&self.path, self.own_file, self.file_bytes, &self.environment, self.seed())
    }
}

/// Where something was measured, with which seed, and what is in doubt: a line each, for people.
pub(super) fn about(
    path: &str,
    own_file: bool,
    file_bytes: u64,
    environment: &Environment,
    seed: Option<u64>,
) -> Vec<String> {
    let known = [
        environment.file_system.as_deref(),
        environment.device.as_deref(),
        environment.device_model.as_deref(),
    ];
    let known: Vec<&str> = known.into_iter().flatten().collect();
    let what = match (own_file, environment.is_raw_device) {
        (true, _) => "a test file of",
        (false, true) => "the device itself,",
        (false, false) => "an existing file of",
    };
    let place = format!("{path} on {}, {what} {}", known.join(", "), bytes_binary(file_bytes));
    let doubt = environment.device_doubt.as_ref().map(|doubt| format!("In doubt: {doubt}"));
    let throttle = environment.throttle.as_ref().map(|limits| format!("Limited: {limits}"));
    let seed = seed.map(|seed| format!("Seed {seed}: the same seed asks for the same blocks"));
    [Some(place), seed, doubt, throttle].into_iter().flatten().collect()
}

impl CellResult {
    /// The state of the runs of a cell, and why.
    ///
    /// It is invalid unless more than half of its runs are not, and these say the same; else
    /// unverified where one of them is. Of runs with the same reason but for its figures, the first
    /// is reported.
    pub fn verdict(runs: &[RunResult]) -> (State, Vec<String>) {
        let doubt = Self::doubt(runs);
        let any = |state| runs.iter().any(|run| run.state == state);
        let state = match &doubt {
            Some(_) => State::Invalid,
            None if any(State::Unverified) => State::Unverified,
            None => State::Valid,
        };
        let mut reasons = Vec::new();
        if state == State::Unverified {
            reasons.extend(reasons_of(runs, State::Unverified));
        }
        // Also why a minority of the runs was left out.
        reasons.extend(reasons_of(runs, State::Invalid));
        // If every run is invalid, their own reasons are enough; if there are no runs, there is
        // nothing to report.
        let is_reported =
            runs.iter().all(|run| run.state.is_invalid()) && (runs.is_empty() || !reasons.is_empty());
        if let Some(doubt) = doubt.filter(|_| !is_reported) {
            reasons.insert(0, doubt);
        }
        (state, reasons)
    }

    /// Why runs do not make a cell: most of them are invalid, or the others differ too much.
    fn doubt(runs: &[RunResult]) -> Option<String> {
        let counted: Vec<f64> =
            runs.iter().filter(|run| !run.state.is_invalid()).map(|run| run.total.iops).collect();
        let (of, invalid) = (runs.len(), runs.len() - counted.len());
        if counted.is_empty() {
            return Some("no round is valid".to_owned());
        }
        if counted.len() * 2 <= of {
            return Some(format!("{invalid} of {of} rounds are not valid: the others may be the odd ones"));
        }
        let (least, most) = counted
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(least, most), &rate| (least.min(rate), most.max(rate)));
        let spread = (most - least) / (counted.iter().sum::<f64>() / counted.len() as f64);
        // Also where there is no mean: nothing was done at all.
        let is_steady = spread <= gates::SPREAD_MAX;
        (!is_steady).then(|| {
            format!(
                "the rates of {} rounds differ by {:.1}% of their mean, and {:.0}% are allowed: what is measured changes \
                 from round to round",
                counted.len(),
                spread * 100.0,
                gates::SPREAD_MAX * 100.0
            )
        })
    }
}

/// Why the runs of that state have it: for each check the reason of the first of them.
fn reasons_of(runs: &[RunResult], state: State) -> Vec<String> {
    let gates = runs.iter().filter(|run| run.state == state).flat_map(|run| &run.gates);
    let mut reported: Vec<&Gate> = Vec::new();
    for gate in gates.filter(|gate| gate.outcome == state.outcome()) {
        if !reported.iter().any(|other| other.name == gate.name || other.reason == gate.reason) {
            reported.push(gate);
        }
    }
    reported.into_iter().map(|gate| gate.reason.clone()).collect()
}

/// The parts of a cell's figures.
struct Parts {
    total: Figures,
    read: Option<Figures>,
    write: Option<Figures>,
    sync: Option<Figures>,
    sizes: Vec<SizeFigures>,
}

impl Parts {
    fn of(record: &Record, seconds: f64) -> Self {
        let some = |histogram: &LatencyHistogram, bytes| {
            (!histogram.is_empty()).then(|| Figures::of(histogram, bytes, seconds))
        };
        let of_size = |(block_size, histogram): &(u64, LatencyHistogram)| SizeFigures {
            block_size: *block_size,
            total: Figures::of(histogram, histogram.count() * block_size, seconds),
        };
        let mut both = record.reads.clone();
        both.merge(&record.writes);
        Self {
            total: Figures::of(&both, record.read_bytes + record.write_bytes, seconds),
            read: some(&record.reads, record.read_bytes),
            write: some(&record.writes, record.write_bytes),
            sync: some(&record.syncs, 0),
            sizes: record.sizes.iter().map(of_size).collect(),
        }
    }
}

impl RunResult {
    pub(super) fn new(round: u32, workload: &Workload, measured: &Measured, gates: Vec<Gate>) -> Self {
        let Measured { record, seconds, steady_s, .. } = measured;
        let parts = Parts::of(record, *seconds);
        let requests = parts.total.count;
        let open_loop = workload.rate_per_s.map(|rate| OpenLoopResult {
            rate_requested_per_s: rate,
            rate_reached_per_s: parts.total.iops,
            due: measured.due,
            overruns: measured.overruns,
            unserved: measured.unserved,
            late_mean_ns: (requests > 0).then(|| record.waited_ns as f64 / requests as f64),
        });
        Self {
            round,
            engine: measured.engine.to_owned(),
            direct: measured.direct,
            seconds: *seconds,
            steady_s: *steady_s,
            total: parts.total,
            read: parts.read,
            write: parts.write,
            sync: parts.sync,
            series: series(&record.ticks),
            windows: windows(&record.ticks, *steady_s),
            in_flight: InFlightResult {
                requested: workload.requested_depth(),
                samples: measured.in_flight.count(),
                mean: measured.in_flight.mean(),
                most: measured.in_flight.most(),
            },
            cpu: CpuResult {
                process_s: measured.process_cpu_s,
                per_request_ns: (requests > 0).then(|| measured.process_cpu_s * 1e9 / requests as f64),
                busiest_thread_share: measured.busiest_thread,
                waiting_share_max: measured.waiting_thread,
            },
            device: measured.device.clone(),
            open_loop,
            verified_bytes: measured.verified_bytes,
            durable_after_s: measured.durable_after_s,
            state: gates::state(&gates),
            reasons: gates::reasons(&gates),
            gates,
        }
    }
}

fn series(ticks: &[Tick]) -> Vec<Second> {
    let per_second = (1_000_000_000 / TICK_NS) as usize;
    let second = |ticks: &[Tick]| {
        let Tick { reads, writes, bytes, latency_sum_ns } = Tick::sum(ticks);
        Second { reads, writes, bytes, latency_sum_ns }
    };
    ticks.chunks(per_second).map(second).collect()
}

/// Whole ticks only: runs shorter than half a second in total have no windows.
fn windows(ticks: &[Tick], steady_s: f64) -> Vec<Window> {
    let whole = ((steady_s * 1e9) as u64 / TICK_NS).min(ticks.len() as u64) as usize;
    let len = whole / WINDOWS;
    let seconds = (len as u64 * TICK_NS) as f64 / 1e9;
    let window = |ticks: &[Tick]| {
        let Tick { reads, writes, .. } = Tick::sum(ticks);
        Window { seconds, count: reads + writes, iops: (reads + writes) as f64 / seconds }
    };
    if len == 0 { Vec::new() } else { ticks.chunks_exact(len).take(WINDOWS).map(window).collect() }
}

/// A cell while its runs come in.
#[derive(Debug)]
pub(super) struct Gathering {
    pub(super) workload: Workload,
    pub(super) long_run: Option<LongRun>,
    runs: Vec<RunResult>,
    /// The counts of the runs that are not invalid, merged, with their total time.
    counted: Option<(Record, f64)>,
    all: Option<(Record, f64)>,
}

impl Gathering {
    pub(super) fn new(workload: Workload) -> Self {
        Self { workload, long_run: None, runs: Vec::new(), counted: None, all: None }
    }

    pub(super) fn add(&mut self, run: RunResult, measured: &Measured) {
        let pools = [Some(&mut self.all), (!run.state.is_invalid()).then_some(&mut self.counted)];
        for pool in pools.into_iter().flatten() {
            let (record, seconds) = pool.get_or_insert_with(|| (Record::new(0, 0.0, &[]), 0.0));
            record.merge(&measured.record);
            *seconds += measured.seconds;
        }
        self.runs.push(run);
    }

    /// The figures of the runs that are not invalid; of all, where every one is.
    pub(super) fn finish(self) -> CellResult {
        let (state, reasons) = CellResult::verdict(&self.runs);
        let (record, seconds) = self.counted.or(self.all).unwrap_or_else(|| (Record::new(0, 0.0, &[]), 0.0));
        let parts = Parts::of(&record, seconds);
        CellResult {
            rw: self.workload.rw().to_owned(),
            workload: self.workload,
            total: parts.total,
            read: parts.read,
            write: parts.write,
            sync: parts.sync,
            sizes: parts.sizes,
            state,
            reasons,
            long_run: self.long_run,
            runs: self.runs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_histograms_keep_every_count_within_a_thirtysecond() {
        let mut histogram = LatencyHistogram::new();
        let samples = (0..20_000_u64).map(|at| at * at);
        samples.clone().for_each(|sample| histogram.record(sample));
        let compact = CompactHistogram::of(&histogram);
        assert_eq!(compact.upper_ns.len(), compact.count.len());
        assert_eq!(compact.count.iter().sum::<u64>(), 20_000);
        assert!(compact.upper_ns.windows(2).all(|pair| pair[0] < pair[1]));
        for sample in samples {
            let upper = compact.upper_ns[compact.upper_ns.partition_point(|&upper| upper < sample)];
            assert!(upper as f64 <= sample as f64 * (1.0 + 1.0 / 32.0) + 1.0, "{sample} {upper}");
        }
    }

    #[test]
    fn windows_are_five_equal_ones_without_the_drain() {
        let ticks: Vec<Tick> = (0..53).map(|reads| Tick { reads, ..Tick::default() }).collect();
        let found = windows(&ticks, 5.25);
        assert_eq!(found.iter().map(|window| window.count).collect::<Vec<_>>(), [45, 145, 245, 345, 445]);
        assert!(found.iter().all(|window| window.seconds == 1.0 && window.iops == window.count as f64));
        assert!(windows(&ticks, 0.4).is_empty());
    }

    #[test]
    fn series_are_seconds_and_add_up() {
        let ticks = vec![Tick { reads: 1, writes: 2, bytes: 3 * 4096, latency_sum_ns: 10 }; 25];
        let found = series(&ticks);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], Second { reads: 10, writes: 20, bytes: 30 * 4096, latency_sum_ns: 100 });
        assert_eq!(found.iter().map(|second| second.reads).sum::<u64>(), 25);
    }
}
