//! Devices that serve requests in simulated time, with costs that are known exactly.
//!
//! A [`Device`] has a fixed cost and a bandwidth per request for reads and for writes, serves
//! several requests at a time, and may have a limit on requests and bytes per second for all of
//! them together, a write cache that drains more slowly than it fills, random costs, a cost for
//! switching between reads and writes, and stalls. [`Device::run`] drives it as a load generator
//! would, closed or open loop, and returns its results: latencies, windows, and in-flight counts
//! sampled at independent moments.
//!
//! None of that sleeps, reads a clock or does I/O: such a run is the same on every machine.
//! [`DeviceEngines`] does: it lets code that takes engines use the device in real time.

mod engine;
mod presets;
mod run;
mod service;

pub use engine::DeviceEngines;
pub use run::{Arrival, Finished, Run, Window, Workload};

/// The cost of one kind of request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// What every request takes, however small.
    pub fixed_s: f64,
    /// What its bytes are carried with.
    pub bandwidth_bytes_per_s: f64,
    /// Requests that can be begun per second, all together.
    pub rate_max_per_s: f64,
    /// Bytes that can be carried per second, all together.
    pub bandwidth_max_bytes_per_s: f64,
}

impl Costs {
    /// A fixed cost and a bandwidth, and no limit on all together.
    pub const fn new(fixed_s: f64, bandwidth_bytes_per_s: f64) -> Self {
        let (rate_max_per_s, bandwidth_max_bytes_per_s) = (f64::INFINITY, f64::INFINITY);
        Self { fixed_s, bandwidth_bytes_per_s, rate_max_per_s, bandwidth_max_bytes_per_s }
    }

    /// How long a request of `block_bytes` takes when it has the device for itself.
    pub fn alone_s(&self, block_bytes: f64) -> f64 {
        self.fixed_s + block_bytes / self.bandwidth_bytes_per_s
    }

    /// How long a request keeps the next one from being begun.
    pub fn spacing_s(&self, block_bytes: f64) -> f64 {
        (1.0 / self.rate_max_per_s).max(block_bytes / self.bandwidth_max_bytes_per_s)
    }
}

/// A cache that takes writes until it is full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WriteCache {
    /// How much it holds.
    pub size_bytes: f64,
    /// How fast it is emptied, from the first byte on.
    pub drain_bytes_per_s: f64,
}

/// Times at which nothing is begun.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stalls {
    /// From the beginning of one stall to that of the next; the first begins after one such time.
    pub every_s: f64,
    /// How long each lasts.
    pub for_s: f64,
}

/// A simulated device. All fields can be changed after one of the presets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device {
    /// What reads cost.
    pub read: Costs,
    /// What writes cost.
    pub write: Costs,
    /// How many requests are served at a time.
    pub parallel: usize,
    /// The cache for writes.
    pub cache: Option<WriteCache>,
    /// Times at which nothing is begun.
    pub stalls: Option<Stalls>,
    /// The extra cost of a request if the one begun before it was of the other kind; it delays the
    /// start of the next one.
    pub turn_s: f64,
    /// How much of the fixed cost of each request is random, from 0 (none of it) to 1
    /// (exponential). The mean is the fixed cost; bytes are always transferred at the same rate.
    pub chance: f64,
    /// How much longer each request takes for every other that is in flight, as a share: this makes
    /// throughput fall at great depths.
    pub crowding: f64,
}

impl Device {
    /// A device that does the same for reads and writes, without any of the extras.
    pub const fn new(costs: Costs, parallel: usize) -> Self {
        Self {
            read: costs,
            write: costs,
            parallel,
            cache: None,
            stalls: None,
            turn_s: 0.0,
            chance: 0.0,
            crowding: 0.0,
        }
    }
}
