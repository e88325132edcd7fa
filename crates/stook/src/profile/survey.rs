//! [`Survey`]: what a profile was made of, for people and for advice: every figure with its
//! interval, and whether anything refutes it.
//!
//! [`Measured`](super::Measured) is what readers and writers take their defaults from. This is the
//! evidence for it, and what predictions are made with.

use serde::{Deserialize, Serialize};

use crate::report::least_squares::Estimate;

/// Whether a figure may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// Every check was made, and passed.
    Valid,
    /// None failed, and some could not be made.
    Unverified,
    /// A check failed.
    Invalid,
}

/// A figure, and where the true one lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The best guess.
    pub value: f64,
    /// The lower end of its interval; `None` where nothing bounds it.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// The share of such intervals that hold the true value.
    pub confidence: Option<f64>,
    /// Whether it may be believed.
    pub state: Validity,
}

impl Figure {
    /// An estimate of which this is known.
    pub fn of(estimate: Estimate, state: Validity) -> Self {
        let finite = |end: f64| end.is_finite().then_some(end);
        let interval = estimate.interval;
        Self {
            value: estimate.value,
            low: finite(interval.low),
            high: finite(interval.high),
            confidence: finite(interval.confidence),
            state,
        }
    }
}

/// When and on what something was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Taken {
    /// When it began, in UTC.
    pub time: String,
    /// The version that measured.
    pub stook: String,
    /// Name, release and architecture of the kernel.
    pub kernel: String,
    /// The directory in which it was measured.
    pub path: String,
    /// The type of the file system.
    pub file_system: Option<String>,
    /// The block device, and those below it.
    pub device: Option<String>,
    /// The model of the lowest device.
    pub model: Option<String>,
    /// Why no counters prove that a device was measured.
    pub doubt: Option<String>,
    /// How long measuring took.
    pub seconds: f64,
}

/// Latency against the length of a read that has the device for itself: seconds = fixed + bytes ÷
/// bandwidth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockLine {
    /// What every read costs, however short.
    pub fixed_s: Figure,
    /// What its bytes are carried with.
    pub bandwidth_bytes_per_s: Figure,
    /// The greatest difference of a cell from the line, as a share.
    pub residual_max: f64,
    /// The cells that it was fitted to.
    pub cells: Vec<BlockPoint>,
}

/// One cell of the line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BlockPoint {
    /// Bytes of each read.
    pub block_bytes: u64,
    /// Mean latency.
    pub latency_mean_s: f64,
    /// Whether it may be believed.
    pub state: Validity,
}

/// Short reads a second against how many are in flight, and which depth to choose for what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DepthCurve {
    /// Most throughput for its latency.
    pub latency: u64,
    /// The least depth that certainly gives 95% of the most.
    pub balanced: Option<u64>,
    /// The depth that gives most and keeps 99% of reads to `p99_target_s`.
    pub service_level: Option<u64>,
    /// What the third answer keeps to.
    pub p99_target_s: f64,
    /// The most short reads a second, at any depth.
    pub rate_max_per_s: Figure,
    /// Every depth.
    pub cells: Vec<DepthPoint>,
}

/// One depth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DepthPoint {
    /// Reads in flight.
    pub depth: u64,
    /// Reads a second.
    pub rate_per_s: Figure,
    /// Mean latency.
    pub latency_mean_s: f64,
    /// The latency that 99% do not exceed.
    pub latency_p99_s: Option<f64>,
}

/// Long reads against their length, at one depth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LongReads {
    /// Reads in flight.
    pub depth: u64,
    /// Every length, with the bandwidth that it gave.
    pub cells: Vec<LongPoint>,
}

/// One length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LongPoint {
    /// Bytes of each read.
    pub block_bytes: u64,
    /// Bytes a second.
    pub bandwidth_bytes_per_s: Figure,
}

/// Reads and writes at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    /// What is missing (or too much) of what the rates of reads and of writes alone predict, as a
    /// share.
    pub interference: f64,
    /// Every share of reads that was measured.
    pub cells: Vec<MixPoint>,
}

/// One mix.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MixPoint {
    /// Reads ÷ requests.
    pub read_share: f64,
    /// Requests a second.
    pub rate_per_s: Figure,
}

/// Small files that were read cold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SmallFiles {
    /// How many there were.
    pub files: u64,
    /// Bytes of each.
    pub file_bytes: u64,
    /// What one costs one reader beside one short read: looking up, opening, closing.
    pub open_s: Option<Figure>,
    /// What listing costs for each entry of a directory.
    pub list_s: Figure,
    /// Files a second by the number of readers.
    pub readers: Vec<ReadersPoint>,
}

/// One number of readers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReadersPoint {
    /// How many read at once.
    pub readers: u64,
    /// Files a second.
    pub files_per_s: Figure,
}

/// The evidence for what a profile says. What could not be measured is `None`, and `notes` say why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Survey {
    /// When and on what.
    pub taken: Taken,
    /// Latency against length.
    pub block: Option<BlockLine>,
    /// Rate against depth.
    pub depth: Option<DepthCurve>,
    /// Bandwidth against length.
    pub long_reads: Option<LongReads>,
    /// Reads and writes at once.
    pub mix: Option<Mix>,
    /// Opening, listing and reading small files.
    pub small_files: Option<SmallFiles>,
    /// What could not be measured, and why.
    pub notes: Vec<String>,
}
