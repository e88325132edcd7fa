//! Latency against block size: a fixed cost and a bandwidth.
//!
//! W(b) = t₀ + b ÷ B (the "half-performance length" model of R. W. Hockney, *The Science of
//! Computer Benchmarking*, §1.3: the block at which half of B is reached is n½ = t₀·B).

use serde::Serialize;

use super::{CONFIDENCE, ModelError, distinct, positive};
use crate::report::least_squares::{Estimate, LinearFit, Point, student_t};
use crate::report::stats::Interval;

/// Block sizes that are needed: two make any line fit.
const BLOCKS_MIN: usize = 3;

/// A cell that was measured at depth 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockCell {
    /// Bytes per request.
    pub block_bytes: u64,
    /// Mean latency.
    pub latency_mean_s: f64,
    /// Whether it is used: no gate failed.
    pub counts: bool,
}

/// How far one cell is from the line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BlockResidual {
    /// Bytes per request.
    pub block_bytes: u64,
    /// Mean latency that was measured.
    pub measured_s: f64,
    /// The value of the line.
    pub predicted_s: f64,
    /// measured ÷ predicted − 1.
    pub residual: f64,
}

/// The fitted line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockModel {
    /// t₀: the fixed cost of a request, however small.
    pub fixed_cost_s: Estimate,
    /// B: what each further byte is carried with, at depth 1.
    pub bandwidth_bytes_per_s: Estimate,
    /// t₀·B: the block with which half of B is reached.
    pub half_bandwidth_block_bytes: Estimate,
    /// Every cell that was used.
    pub residuals: Vec<BlockResidual>,
    /// The greatest |residual|.
    pub residual_max: f64,
    /// Cells left out because a gate failed.
    pub cells_invalid: usize,
}

impl BlockModel {
    /// Fits the line to the cells that count so that relative differences are least.
    ///
    /// # Errors
    /// Returns [`ModelError`] for fewer than three block sizes, or a line without a fixed cost or a
    /// bandwidth.
    pub fn fit(cells: &[BlockCell]) -> Result<Self, ModelError> {
        let counted: Vec<&BlockCell> = cells.iter().filter(|cell| cell.counts).collect();
        let cells_invalid = cells.len() - counted.len();
        let blocks = distinct(counted.iter().map(|cell| cell.block_bytes));
        if blocks < BLOCKS_MIN {
            return Err(ModelError::TooFew {
                what: "block sizes",
                counted: blocks,
                invalid: cells_invalid,
                needed: BLOCKS_MIN,
            });
        }
        for cell in &counted {
            positive("the mean latency", cell.latency_mean_s)?;
        }
        let points: Vec<Point<2>> = counted
            .iter()
            .map(|cell| Point {
                x: [1.0, cell.block_bytes as f64],
                y: cell.latency_mean_s,
                weight: 1.0 / cell.latency_mean_s,
            })
            .collect();
        let fit = LinearFit::of(&points)?;
        let [fixed_cost_s, per_byte_s] = fit.estimates(CONFIDENCE);
        if per_byte_s.value <= 0.0 {
            return Err(contradicted(
                "latency does not grow with the block, so no bandwidth follows from it",
            ));
        }
        if fixed_cost_s.value <= 0.0 {
            return Err(contradicted(
                "latency grows faster than the block, so no fixed cost follows from it",
            ));
        }
        let predicted = |block: u64| fixed_cost_s.value + block as f64 * per_byte_s.value;
        let residuals: Vec<BlockResidual> =
            counted.iter().map(|cell| residual(cell, predicted(cell.block_bytes))).collect();
        let residual_max = residuals.iter().map(|cell| cell.residual.abs()).fold(0.0, f64::max);
        Ok(Self {
            fixed_cost_s,
            bandwidth_bytes_per_s: per_byte_s.inverse(),
            half_bandwidth_block_bytes: half_bandwidth_block(&fit),
            residuals,
            residual_max,
            cells_invalid,
        })
    }

    /// W(b): the mean latency of a request of `block_bytes` at depth 1.
    pub fn latency_s(&self, block_bytes: f64) -> f64 {
        self.fixed_cost_s.value + block_bytes / self.bandwidth_bytes_per_s.value
    }

    /// The block with which the share `efficiency` of B is reached at depth 1: η ÷ (1 − η) · t₀·B.
    /// Nothing unless the share lies between 0 and 1.
    pub fn block_for_efficiency_bytes(&self, efficiency: f64) -> Option<f64> {
        let is_share = 0.0 < efficiency && efficiency < 1.0;
        is_share.then(|| efficiency / (1.0 - efficiency) * self.half_bandwidth_block_bytes.value)
    }

    /// The bandwidth to expect at a depth: min(N·b ÷ W(b), Bmax, b·IOPSmax), where the two limits
    /// are those that the device reached at any depth.
    pub fn bandwidth_at_bytes_per_s(
        &self,
        block_bytes: f64,
        depth: f64,
        bandwidth_max_bytes_per_s: f64,
        rate_max_per_s: f64,
    ) -> f64 {
        let latency_bound = depth * block_bytes / self.latency_s(block_bytes);
        latency_bound.min(bandwidth_max_bytes_per_s).min(block_bytes * rate_max_per_s)
    }
}

fn contradicted(reason: &str) -> ModelError {
    ModelError::Contradicted { reason: reason.to_owned() }
}

fn residual(cell: &BlockCell, predicted_s: f64) -> BlockResidual {
    let (block_bytes, measured_s) = (cell.block_bytes, cell.latency_mean_s);
    BlockResidual { block_bytes, measured_s, predicted_s, residual: measured_s / predicted_s - 1.0 }
}

/// Fixed cost ÷ cost per byte, both greater than 0. The interval is that of the logarithm by the
/// delta method, so it never reaches below 0.
fn half_bandwidth_block(fit: &LinearFit<2>) -> Estimate {
    let [fixed, per_byte] = fit.coefficients;
    let [[fixed_variance, covariance], [_, per_byte_variance]] = fit.covariance;
    let variance = fixed_variance / fixed.powi(2) + per_byte_variance / per_byte.powi(2)
        - 2.0 * covariance / (fixed * per_byte);
    let factor = (student_t(CONFIDENCE, fit.freedom) * variance.max(0.0).sqrt()).exp();
    let value = fixed / per_byte;
    let interval = Interval { low: value / factor, high: value * factor, confidence: CONFIDENCE };
    Estimate { value, interval }
}
