//! Reads and writes at once: how much of the device each takes, and what they cost each other.
//!
//! A device has a bandwidth and a rate of requests for reads and for writes, and the shares of them
//! that are used sum to at most 1 (the I/O scheduler of Seastar; A. Kivity and P. Emelyanov, *A New
//! I/O Scheduler Algorithm for Mixed Workloads*, 2020). For requests of one size, a read takes the
//! same share of a second as it does when there is nothing else, 1 ÷ Xr, and a write 1 ÷ Xw,
//! whether bandwidth or rate is what bounds them. So with the share ρ of reads X = 1 ÷ (ρ ÷ Xr + (1
//! − ρ) ÷ Xw), the harmonic mean of the pure rates. What is measured differs from it by what reads
//! and writes do to each other: the interference.

use serde::Serialize;

use super::{ModelError, positive};
use crate::report::least_squares::Estimate;
use crate::report::stats::Interval;

/// A cell with a share of reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MixCell {
    /// Bytes per request.
    pub block_bytes: u64,
    /// Requests in flight: depth × jobs.
    pub depth: u64,
    /// Reads ÷ requests, as they were finished.
    pub read_share: f64,
    /// Requests per second, reads and writes together, with the interval of their mean.
    pub rate_per_s: Estimate,
    /// Whether it is used: no gate failed.
    pub counts: bool,
}

/// The prediction for one mixed cell, and the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MixPrediction {
    /// Bytes per request.
    pub block_bytes: u64,
    /// Requests in flight.
    pub depth: u64,
    /// Reads ÷ requests.
    pub read_share: f64,
    /// Requests per second that the pure rates predict.
    pub predicted_per_s: Estimate,
    /// Of these, reads.
    pub predicted_reads_per_s: f64,
    /// And writes.
    pub predicted_writes_per_s: f64,
    /// Requests per second that were measured.
    pub measured_per_s: Estimate,
    /// Sum of the shares that were used: measured reads ÷ Xr + measured writes ÷ Xw.
    pub share_used: f64,
    /// measured ÷ predicted − 1: less than 0 is what reads and writes cost each other.
    pub residual: f64,
    /// Whether the intervals of the predicted and the measured value are disjoint.
    pub residual_is_certain: bool,
}

/// Mixed cells with the predictions from the pure ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MixModel {
    /// Every mixed cell that has both pure cells of its block size and depth. Cells that do not
    /// count are left out.
    pub predictions: Vec<MixPrediction>,
    /// The residual furthest from 0.
    pub interference: f64,
    /// Mixed cells that were left out because there is no pure cell that counts to predict them
    /// from.
    pub cells_without_reference: usize,
    /// Cells left out because a gate failed.
    pub cells_invalid: usize,
}

impl MixModel {
    /// Predicts every mixed cell from the pure cells (read share 1 and 0) of its block size and
    /// depth.
    ///
    /// # Errors
    /// Returns [`ModelError`] if there is no mixed cell with both pure ones, or a share is invalid.
    pub fn fit(cells: &[MixCell]) -> Result<Self, ModelError> {
        let counted: Vec<&MixCell> = cells.iter().filter(|cell| cell.counts).collect();
        for cell in &counted {
            positive("the rate", cell.rate_per_s.value)?;
            if !(0.0..=1.0).contains(&cell.read_share) {
                let reason = format!("a read share of {} is not between 0 and 1", cell.read_share);
                return Err(ModelError::Contradicted { reason });
            }
        }
        let pure = |like: &MixCell, share: f64| {
            let same = |cell: &&&MixCell| {
                cell.block_bytes == like.block_bytes && cell.depth == like.depth && cell.read_share == share
            };
            counted.iter().find(same).map(|cell| cell.rate_per_s)
        };
        let mixed: Vec<&MixCell> =
            counted.iter().copied().filter(|cell| 0.0 < cell.read_share && cell.read_share < 1.0).collect();
        let predictions: Vec<MixPrediction> = mixed
            .iter()
            .filter_map(|cell| Some(prediction(cell, pure(cell, 1.0)?, pure(cell, 0.0)?)))
            .collect();
        let furthest = predictions.iter().max_by(|a, b| a.residual.abs().total_cmp(&b.residual.abs()));
        let interference = furthest.map(|prediction| prediction.residual).ok_or(ModelError::NoReference {
            what: "with reads and writes mixed that has both pure ones of its block size and depth",
        })?;
        Ok(Self {
            interference,
            cells_without_reference: mixed.len() - predictions.len(),
            cells_invalid: cells.len() - counted.len(),
            predictions,
        })
    }
}

/// The rate at which shares sum to 1.
fn harmonic(read_share: f64, reads_per_s: f64, writes_per_s: f64) -> f64 {
    1.0 / (read_share / reads_per_s + (1.0 - read_share) / writes_per_s)
}

fn prediction(cell: &MixCell, reads: Estimate, writes: Estimate) -> MixPrediction {
    let share = cell.read_share;
    let (low, high) = (
        // A lower end of 0 or less bounds nothing; the rate itself is then 0.
        harmonic(share, reads.interval.low.max(0.0), writes.interval.low.max(0.0)),
        harmonic(share, reads.interval.high, writes.interval.high),
    );
    let value = harmonic(share, reads.value, writes.value);
    let confidence = (reads.interval.confidence + writes.interval.confidence - 1.0).max(0.0);
    let measured = cell.rate_per_s;
    let part = measured.interval.high < low || high < measured.interval.low;
    MixPrediction {
        block_bytes: cell.block_bytes,
        depth: cell.depth,
        read_share: share,
        predicted_per_s: Estimate { value, interval: Interval { low, high, confidence } },
        predicted_reads_per_s: value * share,
        predicted_writes_per_s: value * (1.0 - share),
        measured_per_s: measured,
        share_used: measured.value * (share / reads.value + (1.0 - share) / writes.value),
        residual: measured.value / value - 1.0,
        residual_is_certain: part,
    }
}
