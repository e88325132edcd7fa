//! [`Drift`]: how much of a difference a change over time may be.
//!
//! Rounds of one result resemble their neighbours: a drive warms up, a cloud has busier hours. Then
//! what differs between two results measured one after the other may be the time alone, and rounds
//! drawn one by one show less variation than there is. So a line over time is fitted together with
//! the difference, and the resemblance of neighbours reduces the number of rounds that count.

use super::Order;
use crate::report::least_squares::{Estimate, LinearFit, Point, student_t};
use crate::report::stats::Interval;

/// Neighbours that resemble each other more than this make any number of rounds one.
const RESEMBLANCE_MAX: f64 = 0.95;

/// The difference of two series of runs beside a drift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Drift {
    /// second ÷ first − 1, apart from a steady change over time.
    pub(super) difference: Estimate,
    /// By how much an interval has to be wider than one from runs that are independent.
    widening: f64,
}

impl Drift {
    /// From the mean of each run, in order. `None` if there are too few runs.
    pub(super) fn of(means: &[Vec<f64>; 2], scale: f64, order: Order, confidence: f64) -> Option<Self> {
        let [first, second] = means;
        let place = |side: usize, at: usize| match order {
            Order::Apart => (at + side * first.len()) as f64,
            Order::Alternating => (2 * at + side) as f64,
        };
        let side = |side: usize, means: &[f64]| -> Vec<Point<3>> {
            let point = |(at, mean): (usize, &f64)| Point {
                x: [1.0, side as f64, place(side, at)],
                y: mean / scale,
                weight: 1.0,
            };
            means.iter().enumerate().map(point).collect()
        };
        let points: Vec<Point<3>> = [side(0, first), side(1, second)].concat();
        let [_, difference, _] = LinearFit::of(&points).ok()?.estimates(confidence);
        let widening = match order {
            Order::Apart => widening(means, confidence),
            // A neighbour is of the other side, and resemblance makes the difference surer.
            Order::Alternating => 1.0,
        };
        Some(Self { difference, widening })
    }

    /// The interval of runs that were taken to be independent, so that it holds the difference also
    /// where they resemble their neighbours, and where they drift.
    pub(super) fn widened(self, plain: Estimate) -> Estimate {
        let wider = |Estimate { value, interval: Interval { low, high, .. } }: Estimate| {
            (value - (value - low) * self.widening, value + (high - value) * self.widening)
        };
        let ((low, high), (other_low, other_high)) = (wider(plain), wider(self.difference));
        let confidence = plain.interval.confidence;
        let interval = Interval { low: low.min(other_low), high: high.max(other_high), confidence };
        Estimate { value: plain.value, interval }
    }
}

/// What resemblance adds to an interval. Of N runs that keep ρ of their neighbour's deviation
/// N·(1−ρ)÷(1+ρ) count (G. Bayley and J. Hammersley, *The "Effective" Number of Independent
/// Observations in an Autocorrelated Time Series*, 1946).
fn widening(means: &[Vec<f64>; 2], confidence: f64) -> f64 {
    let count = means.iter().map(Vec::len).sum::<usize>();
    let resemblance = resemblance(means);
    let share = (1.0 - resemblance) / (1.0 + resemblance);
    let freedom = |count: f64| (count as usize).saturating_sub(2).max(1);
    let quantiles =
        student_t(confidence, freedom(count as f64 * share)) / student_t(confidence, freedom(count as f64));
    quantiles / share.sqrt()
}

/// How much of its neighbour's deviation from the mean of its side a run keeps.
fn resemblance(means: &[Vec<f64>; 2]) -> f64 {
    let deviations: Vec<f64> = means
        .iter()
        .flat_map(|side| {
            let mean = side.iter().sum::<f64>() / side.len().max(1) as f64;
            side.iter().map(move |value| value - mean)
        })
        .collect();
    let all: f64 = deviations.iter().map(|deviation| deviation * deviation).sum();
    let neighbours: f64 =
        deviations.iter().zip(deviations.iter().skip(1)).map(|(one, next)| one * next).sum();
    let count = deviations.len() as f64;
    if all <= 0.0 || count <= 3.0 {
        return 0.0;
    }
    // What is found in few runs is too little by about (1 + 3ρ) ÷ N (M. Kendall, *Note on Bias in
    // the Estimation of Autocorrelation*, 1954).
    ((count * neighbours / all + 1.0) / (count - 3.0)).clamp(0.0, RESEMBLANCE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_resemble_their_neighbours_count_less() {
        let alternating = [vec![1.0, 2.0, 1.0, 2.0, 1.0], vec![2.0, 1.0, 2.0, 1.0, 2.0]];
        assert_eq!((resemblance(&alternating), widening(&alternating, 0.95)), (0.0, 1.0));
        let rising = [vec![1.0, 2.0, 3.0, 4.0, 5.0], vec![1.0, 2.0, 3.0, 4.0, 5.0]];
        assert!(resemblance(&rising) > 0.3, "{}", resemblance(&rising));
        assert!(widening(&rising, 0.95) > 1.5);
        let equal = [vec![1.0; 5], vec![2.0; 5]];
        assert_eq!(widening(&equal, 0.95), 1.0);
    }

    #[test]
    fn a_line_over_time_is_no_difference_in_either_order() {
        let apart = [vec![100.0, 101.0, 102.0, 103.0, 104.0], vec![105.0, 106.0, 107.0, 108.0, 109.0]];
        let turns = [vec![100.0, 102.0, 104.0, 106.0, 108.0], vec![101.0, 103.0, 105.0, 107.0, 109.0]];
        for (means, order) in [(apart, Order::Apart), (turns, Order::Alternating)] {
            let found = Drift::of(&means, 102.0, order, 0.95).unwrap().difference;
            assert!(found.value.abs() < 1e-9, "{order:?}: {found:?}");
        }
    }
}
