//! Throughput against queue depth: the depth from which on more in flight only waits.
//!
//! X(N) ≤ min(N ÷ W₁, Xmax), so the two bounds meet at N* = Xmax·W₁ (asymptotic bounds; E.
//! Lazowska, J. Zahorjan, G. Graham, K. Sevcik, *Quantitative System Performance*, §5.2). Which
//! depth to use depends on what is wanted, so there are three answers. The Universal Scalability
//! Law is fitted for one question only: whether throughput falls again at great depths, and from
//! where on.

use serde::Serialize;

use super::{ModelError, distinct, positive};
use crate::report::least_squares::{Estimate, FitError, LinearFit, Point};

/// Depths that are needed: the bend cannot be seen with fewer.
const DEPTHS_MIN: usize = 3;
/// Which share of Xmax a balanced depth has to reach for certain.
const BALANCED_SHARE: f64 = 0.95;

/// A cell of a sweep over depths, with everything else the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DepthCell {
    /// Requests in flight: depth × jobs.
    pub depth: u64,
    /// X: requests per second, with the interval of their mean over the windows of the run.
    pub rate_per_s: Estimate,
    /// W: mean latency.
    pub latency_mean_s: f64,
    /// The latency that 99% do not exceed.
    pub latency_p99_s: f64,
    /// Whether it is used: no gate failed.
    pub counts: bool,
}

/// A depth to use, and its figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DepthAnswer {
    /// Requests in flight.
    pub depth: u64,
    /// Requests per second there.
    pub rate_per_s: f64,
    /// Mean latency there.
    pub latency_mean_s: f64,
    /// The latency that 99% do not exceed there.
    pub latency_p99_s: f64,
}

/// The three answers. Each is one of the measured depths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DepthAnswers {
    /// Most throughput for its latency: greatest X ÷ W (L. Kleinrock's *power*).
    pub latency: DepthAnswer,
    /// The least depth whose X is certainly at least 95% of Xmax, by the lower end of its interval.
    /// Absent if no interval is narrow enough.
    pub balanced: Option<DepthAnswer>,
    /// The greatest X whose 99th percentile keeps to the target. Absent without a target, or when
    /// no depth keeps to it.
    pub service_level: Option<DepthAnswer>,
}

/// One cell and the bound it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DepthResidual {
    /// Requests in flight.
    pub depth: u64,
    /// X that was measured.
    pub measured_per_s: f64,
    /// min(N ÷ W₁, Xmax).
    pub bound_per_s: f64,
    /// measured ÷ bound − 1: how much the queueing between the two bounds costs.
    pub residual: f64,
}

/// The Universal Scalability Law: X(N) = λN ÷ (1 + σ(N−1) + κN(N−1)) (N. Gunther, *Guerrilla
/// Capacity Planning*, §4.4), by relative least squares of N ÷ X, in which it is linear.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Scalability {
    /// λ: throughput of one request alone.
    pub lambda_per_s: f64,
    /// σ: share of the work that only one can do at a time.
    pub sigma: f64,
    /// κ: cost of every pair of requests; greater than 0 means that X falls in the end.
    pub kappa: f64,
    /// The greatest |measured ÷ fitted − 1|. Devices with a hard limit do not follow this law well.
    pub residual_max: f64,
}

/// That throughput falls at great depths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Retrograde {
    /// The measured depth with the greatest X.
    pub peak_depth: u64,
    /// The depth with the greatest X by the law: √((1 − σ) ÷ κ).
    pub peak_depth_fitted: f64,
    /// The deepest cell.
    pub deepest_depth: u64,
    /// How much of Xmax is lost at the deepest cell.
    pub loss_share: f64,
    /// The law.
    pub law: Scalability,
}

/// The fits of a sweep over depths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DepthModel {
    /// W₁: mean latency at depth 1.
    pub latency_alone_s: Estimate,
    /// Xmax: the greatest X that was measured.
    pub rate_max_per_s: Estimate,
    /// N* = Xmax·W₁. A lower bound when not `saturated`.
    pub depth_star: Estimate,
    /// Whether a lesser depth than the deepest already reached 95% of Xmax. If not, X was still
    /// growing: sweep deeper.
    pub saturated: bool,
    /// Which depth to use.
    pub answers: DepthAnswers,
    /// Present when X falls again at great depths.
    pub retrograde: Option<Retrograde>,
    /// Every cell that was used, in the order of depth.
    pub residuals: Vec<DepthResidual>,
    /// Cells left out because a gate failed.
    pub cells_invalid: usize,
}

impl DepthModel {
    /// Fits the bounds to the cells of a sweep that count.
    ///
    /// # Errors
    /// Returns [`ModelError`] for fewer than three depths, or without a valid cell at depth 1.
    pub fn fit(cells: &[DepthCell], p99_target_s: Option<f64>) -> Result<Self, ModelError> {
        let mut counted: Vec<&DepthCell> = cells.iter().filter(|cell| cell.counts).collect();
        counted.sort_by_key(|cell| cell.depth);
        let cells_invalid = cells.len() - counted.len();
        check(&counted, cells_invalid)?;
        let no_reference = ModelError::NoReference { what: "at depth 1" };
        let alone = *counted.iter().find(|cell| cell.depth == 1).ok_or_else(|| no_reference.clone())?;
        let peak = *greatest(&counted, |cell| cell.rate_per_s.value).ok_or(no_reference)?;
        let latency_alone_s = latency_with_interval(alone);
        let residuals =
            counted.iter().map(|cell| residual(cell, alone.latency_mean_s, peak.rate_per_s.value));
        let enough = BALANCED_SHARE * peak.rate_per_s.value;
        let deepest = counted.last().map_or(0, |cell| cell.depth);
        Ok(Self {
            latency_alone_s,
            rate_max_per_s: peak.rate_per_s,
            depth_star: peak.rate_per_s.times(latency_alone_s),
            saturated: counted.iter().any(|cell| cell.depth < deepest && cell.rate_per_s.value >= enough),
            answers: answers(&counted, peak, p99_target_s),
            retrograde: retrograde(&counted, peak)?,
            residuals: residuals.collect(),
            cells_invalid,
        })
    }
}

fn check(counted: &[&DepthCell], invalid: usize) -> Result<(), ModelError> {
    let depths = distinct(counted.iter().map(|cell| cell.depth));
    if depths < DEPTHS_MIN {
        return Err(ModelError::TooFew { what: "depths", counted: depths, invalid, needed: DEPTHS_MIN });
    }
    for cell in counted {
        positive("the depth", cell.depth as f64)?;
        positive("the rate", cell.rate_per_s.value)?;
        positive("the mean latency", cell.latency_mean_s)?;
        positive("the 99th percentile of latency", cell.latency_p99_s)?;
    }
    Ok(())
}

/// W₁, as certain as the rate at depth 1: alone, a request is all that there is, so W₁ = 1 ÷ X₁.
fn latency_with_interval(alone: &DepthCell) -> Estimate {
    let mut estimate = alone.rate_per_s.inverse();
    let scale = alone.latency_mean_s / estimate.value;
    estimate.value = alone.latency_mean_s;
    estimate.interval.low *= scale;
    estimate.interval.high *= scale;
    estimate
}

/// The cell in which `figure` is greatest; of equal ones the one with the least depth.
fn greatest<'a, 'b>(
    cells: &'b [&'a DepthCell],
    figure: impl Fn(&DepthCell) -> f64,
) -> Option<&'b &'a DepthCell> {
    cells.iter().rev().max_by(|left, right| figure(left).total_cmp(&figure(right)))
}

fn residual(cell: &DepthCell, latency_alone_s: f64, rate_max_per_s: f64) -> DepthResidual {
    let bound_per_s = (cell.depth as f64 / latency_alone_s).min(rate_max_per_s);
    let measured_per_s = cell.rate_per_s.value;
    DepthResidual {
        depth: cell.depth,
        measured_per_s,
        bound_per_s,
        residual: measured_per_s / bound_per_s - 1.0,
    }
}

fn answers(counted: &[&DepthCell], peak: &DepthCell, p99_target_s: Option<f64>) -> DepthAnswers {
    let power = greatest(counted, |cell| cell.rate_per_s.value / cell.latency_mean_s);
    let enough = BALANCED_SHARE * peak.rate_per_s.value;
    let balanced = counted.iter().find(|cell| cell.rate_per_s.interval.low >= enough);
    let within: Vec<&DepthCell> = counted
        .iter()
        .copied()
        .filter(|cell| p99_target_s.is_some_and(|target_s| cell.latency_p99_s <= target_s))
        .collect();
    DepthAnswers {
        latency: answer(power.copied().unwrap_or(peak)),
        balanced: balanced.map(|cell| answer(cell)),
        service_level: greatest(&within, |cell| cell.rate_per_s.value).map(|cell| answer(cell)),
    }
}

fn answer(cell: &DepthCell) -> DepthAnswer {
    DepthAnswer {
        depth: cell.depth,
        rate_per_s: cell.rate_per_s.value,
        latency_mean_s: cell.latency_mean_s,
        latency_p99_s: cell.latency_p99_s,
    }
}

/// Throughput falls when the interval of the deepest cell lies below that of the peak and the law,
/// fitted to all cells, has a peak.
fn retrograde(counted: &[&DepthCell], peak: &DepthCell) -> Result<Option<Retrograde>, ModelError> {
    let Some(deepest) = counted.last().filter(|cell| cell.depth > peak.depth) else { return Ok(None) };
    if deepest.rate_per_s.interval.high >= peak.rate_per_s.interval.low {
        return Ok(None);
    }
    let law = match scalability(counted) {
        // Three depths are enough for the bounds, and too few for a law of three coefficients.
        Err(FitError::TooFewPoints { .. }) => return Ok(None),
        law => law?,
    };
    let has_peak = law.kappa > 0.0 && law.sigma < 1.0;
    Ok(has_peak.then(|| Retrograde {
        peak_depth: peak.depth,
        peak_depth_fitted: ((1.0 - law.sigma) / law.kappa).sqrt(),
        deepest_depth: deepest.depth,
        loss_share: 1.0 - deepest.rate_per_s.value / peak.rate_per_s.value,
        law,
    }))
}

fn scalability(counted: &[&DepthCell]) -> Result<Scalability, FitError> {
    let terms = |depth: u64| {
        let n = depth as f64;
        [1.0, n - 1.0, n * (n - 1.0)]
    };
    let points: Vec<Point<3>> = counted
        .iter()
        .map(|cell| {
            let y = cell.depth as f64 / cell.rate_per_s.value;
            Point { x: terms(cell.depth), y, weight: 1.0 / y }
        })
        .collect();
    let [alone, serial, pairs] = LinearFit::of(&points)?.coefficients;
    let fitted = |depth: u64| {
        let [one, rest, all] = terms(depth);
        depth as f64 / (alone * one + serial * rest + pairs * all)
    };
    let residuals = counted.iter().map(|cell| (cell.rate_per_s.value / fitted(cell.depth) - 1.0).abs());
    Ok(Scalability {
        lambda_per_s: 1.0 / alone,
        sigma: serial / alone,
        kappa: pairs / alone,
        residual_max: residuals.fold(0.0, f64::max),
    })
}
