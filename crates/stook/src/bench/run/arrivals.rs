//! [`Arrivals`]: the moments at which requests of an open loop are due.

use super::super::random::Random;
use super::super::workload::{Arrival, Workload};
use super::offsets::stream;

/// The schedule of one job. It does not wait for requests: that makes the loop open.
#[derive(Debug)]
pub(super) struct Arrivals {
    kind: Arrival,
    random: Random,
    interval_ns: f64,
    next_ns: f64,
}

impl Arrivals {
    /// For the `job`th of the jobs that share the rate of the cell; `None` for a closed loop.
    pub(super) fn new(workload: &Workload, turn: u64, job: u32, begin_ns: u64) -> Option<Self> {
        let interval_ns = 1e9 * f64::from(workload.jobs) / workload.rate_per_s?;
        let mut random = Random::new(workload.seed, stream(turn, 2 * u64::from(job) + 1));
        // Jobs of a constant rate take turns.
        let first_ns = match workload.arrival {
            Arrival::Constant => interval_ns * f64::from(job) / f64::from(workload.jobs),
            Arrival::Poisson => -random.unit().ln() * interval_ns,
        };
        Some(Self { kind: workload.arrival, random, interval_ns, next_ns: begin_ns as f64 + first_ns })
    }

    /// When the next one is due.
    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// Advances to the next one.
    pub(super) fn advance(&mut self) {
        self.next_ns += match self.kind {
            Arrival::Constant => self.interval_ns,
            Arrival::Poisson => -self.random.unit().ln() * self.interval_ns,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(arrival: Arrival, jobs: u32, job: u32, count: usize) -> Vec<u64> {
        let workload = Workload { rate_per_s: Some(1000.0), arrival, jobs, ..Workload::default() };
        let mut arrivals = Arrivals::new(&workload, 0, job, 5_000_000).unwrap();
        let take = |_| {
            let next = arrivals.next_ns();
            arrivals.advance();
            next
        };
        (0..count).map(take).collect()
    }

    #[test]
    fn a_constant_rate_is_shared_by_the_jobs_in_turn() {
        assert_eq!(moments(Arrival::Constant, 1, 0, 3), [5_000_000, 6_000_000, 7_000_000]);
        assert_eq!(moments(Arrival::Constant, 2, 0, 2), [5_000_000, 7_000_000]);
        assert_eq!(moments(Arrival::Constant, 2, 1, 2), [6_000_000, 8_000_000]);
    }

    #[test]
    fn random_arrivals_keep_the_rate_and_spread_like_an_exponential() {
        let moments = moments(Arrival::Poisson, 1, 0, 100_001);
        let gaps: Vec<f64> = moments.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "{variance}");
    }

    #[test]
    fn a_closed_loop_has_no_schedule() {
        assert!(Arrivals::new(&Workload::default(), 0, 0, 0).is_none());
    }
}
