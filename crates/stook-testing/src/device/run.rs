//! Driving a device, and the results of a load generator.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Device;
use super::service::{Chance, Moment, Service};

/// When requests come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrival {
    /// A new one as soon as one is finished, with this many in flight.
    Closed(usize),
    /// This many per second, at equal distances.
    Constant(f64),
    /// This many per second, at independent moments (a Poisson process).
    Poisson(f64),
}

/// The load on a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// When requests come.
    pub arrival: Arrival,
    /// Bytes of each.
    pub block_bytes: f64,
    /// Which share of them are reads, by chance.
    pub read_share: f64,
    /// How long requests are made and seen.
    pub time_s: f64,
    /// How long a window is.
    pub window_s: f64,
    /// Where chance begins.
    pub seed: u64,
}

impl Workload {
    /// Reads in a closed loop.
    pub const fn reads(depth: usize, block_bytes: f64, time_s: f64) -> Self {
        Self { arrival: Arrival::Closed(depth), block_bytes, read_share: 1.0, time_s, window_s: 1.0, seed: 1 }
    }

    /// Writes in a closed loop.
    pub const fn writes(depth: usize, block_bytes: f64, time_s: f64) -> Self {
        Self { read_share: 0.0, ..Self::reads(depth, block_bytes, time_s) }
    }
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finished {
    /// When it was to be made, which is when latency begins.
    pub arrival_s: f64,
    /// When it was finished.
    pub end_s: f64,
    /// Whether it read.
    pub is_read: bool,
}

impl Finished {
    /// From arrival to end.
    pub fn latency_s(&self) -> f64 {
        self.end_s - self.arrival_s
    }
}

/// An equal part of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Window {
    /// Reads that ended in it.
    pub reads: u64,
    /// Writes that ended in it.
    pub writes: u64,
}

/// The results of a run on a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The workload.
    pub workload: Workload,
    /// Every request that ended within the time of the workload, in the order of arrival.
    pub finished: Vec<Finished>,
    /// In-flight counts at moments that have nothing to do with requests.
    pub in_flight: Vec<u64>,
    /// The whole windows of the run.
    pub windows: Vec<Window>,
}

impl Device {
    /// Drives the device from idle.
    pub fn run(&self, workload: Workload) -> Run {
        let (mut service, mut chance) = (Service::new(*self), Chance(workload.seed));
        let mut arrivals = Arrivals::new(workload.arrival);
        let mut all = Vec::new();
        while let Some(arrival_s) = arrivals.next(&mut chance).filter(|at_s| *at_s < workload.time_s) {
            let is_read = chance.share() < workload.read_share;
            let end_s = service.serve(arrival_s, is_read, workload.block_bytes, &mut chance);
            arrivals.ended(end_s);
            all.push(Finished { arrival_s, end_s, is_read });
        }
        let in_flight = sampled(&all, workload.time_s);
        let finished: Vec<Finished> =
            all.into_iter().filter(|request| request.end_s <= workload.time_s).collect();
        let windows = windows(&finished, workload);
        Run { workload, finished, in_flight, windows }
    }
}

impl Run {
    /// Requests per second.
    pub fn rate_per_s(&self) -> f64 {
        self.finished.len() as f64 / self.workload.time_s
    }

    /// The arithmetic mean of all latencies.
    pub fn latency_mean_s(&self) -> f64 {
        self.finished.iter().map(Finished::latency_s).sum::<f64>() / self.finished.len() as f64
    }

    /// The least latency that a share of all requests do not exceed; 0 when there is no request.
    pub fn latency_quantile_s(&self, share: f64) -> f64 {
        let mut sorted: Vec<f64> = self.finished.iter().map(Finished::latency_s).collect();
        sorted.sort_by(f64::total_cmp);
        let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize - 1;
        sorted.get(rank).or(sorted.last()).copied().unwrap_or(0.0)
    }

    /// Mean of the in-flight counts that were sampled.
    pub fn in_flight_mean(&self) -> f64 {
        self.in_flight.iter().sum::<u64>() as f64 / self.in_flight.len() as f64
    }

    /// Bytes that were read, and bytes that were written.
    pub fn bytes(&self) -> (f64, f64) {
        let reads = self.finished.iter().filter(|request| request.is_read).count();
        let block_bytes = self.workload.block_bytes;
        (reads as f64 * block_bytes, (self.finished.len() - reads) as f64 * block_bytes)
    }

    /// Reads ÷ requests.
    pub fn read_share(&self) -> f64 {
        self.bytes().0 / (self.workload.block_bytes * self.finished.len() as f64)
    }

    /// Requests per second in every window.
    pub fn window_rates_per_s(&self) -> Vec<f64> {
        let window_s = self.workload.window_s;
        self.windows.iter().map(|window| (window.reads + window.writes) as f64 / window_s).collect()
    }

    /// Bytes per second in every window.
    pub fn window_rates_bytes_per_s(&self) -> Vec<f64> {
        self.window_rates_per_s().iter().map(|rate| rate * self.workload.block_bytes).collect()
    }
}

/// The moments at which requests are made.
enum Arrivals {
    /// The moments at which places become free.
    Closed(BinaryHeap<Reverse<Moment>>),
    /// Mean distance, when the next one is, and whether the distance is by chance.
    Open { every_s: f64, next_s: f64, is_poisson: bool },
}

impl Arrivals {
    fn new(arrival: Arrival) -> Self {
        let open = |rate: f64, is_poisson| Self::Open { every_s: 1.0 / rate, next_s: 0.0, is_poisson };
        match arrival {
            Arrival::Closed(depth) => Self::Closed((0..depth).map(|_| Reverse(Moment(0.0))).collect()),
            Arrival::Constant(rate) => open(rate, false),
            Arrival::Poisson(rate) => open(rate, true),
        }
    }

    fn next(&mut self, chance: &mut Chance) -> Option<f64> {
        match self {
            Self::Closed(free) => free.pop().map(|Reverse(moment)| moment.0),
            Self::Open { every_s, next_s, is_poisson } => {
                let at_s = *next_s;
                *next_s += *every_s * if *is_poisson { chance.exponential() } else { 1.0 };
                Some(at_s)
            }
        }
    }

    fn ended(&mut self, end_s: f64) {
        if let Self::Closed(free) = self {
            free.push(Reverse(Moment(end_s)));
        }
    }
}

/// In-flight counts at 9973 moments: a prime, so that the rhythm of requests is not that of the
/// samples.
fn sampled(all: &[Finished], time_s: f64) -> Vec<u64> {
    const SAMPLES: u32 = 9973;
    let mut ends: Vec<f64> = all.iter().map(|request| request.end_s).collect();
    ends.sort_by(f64::total_cmp);
    (0..SAMPLES)
        .map(|sample| {
            let at_s = time_s * (f64::from(sample) + 0.5) / f64::from(SAMPLES);
            let begun = all.partition_point(|request| request.arrival_s <= at_s);
            let ended = ends.partition_point(|end_s| *end_s <= at_s);
            (begun - ended) as u64
        })
        .collect()
}

fn windows(finished: &[Finished], workload: Workload) -> Vec<Window> {
    // Half a nanosecond more, so that rounding does not take the last window away.
    let whole = (workload.time_s + 5e-10) / workload.window_s;
    let mut windows = vec![Window::default(); whole as usize];
    for request in finished {
        // What ended after the last whole window is in none.
        if let Some(window) = windows.get_mut((request.end_s / workload.window_s) as usize) {
            *if request.is_read { &mut window.reads } else { &mut window.writes } += 1;
        }
    }
    windows
}
