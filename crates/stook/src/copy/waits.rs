//! [`Waits`]: how long the source and each destination were waited for, and so what held a copy up.
//!
//! The threads that read do all the waiting: for bytes, or for a destination that takes no more.
//! Both are measured where they read, and so can be held against each other. Where many threads do
//! the same, each counts for its part.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One that was waited for this many times as long as any other held the copy up.
const CLEARLY: f64 = 1.5;

/// What was waited for less than this share of the time held nothing up.
const SHARE_MIN: f64 = 0.1;

/// How long each was waited for, by one thread on average.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Waits {
    /// The sources.
    pub sources: Duration,
    /// Each destination.
    pub destinations: Vec<Duration>,
    /// The limit of bytes a second.
    pub limit: Duration,
}

/// What a copy waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeldUpBy {
    /// The sources.
    Sources,
    /// The destination at this position.
    Destination(usize),
    /// The limit of bytes a second.
    Limit,
}

impl Waits {
    /// What was waited for much longer than anything else, in a copy that took this long; `None`
    /// where nothing was, or it was not measured.
    pub fn held_up_by(&self, elapsed: Duration) -> Option<HeldUpBy> {
        let destinations = self.destinations.iter().enumerate();
        let destinations = destinations.map(|(index, waited)| (HeldUpBy::Destination(index), *waited));
        let others = [(HeldUpBy::Sources, self.sources), (HeldUpBy::Limit, self.limit)];
        let mut all: Vec<(HeldUpBy, f64)> =
            destinations.chain(others).map(|(who, waited)| (who, waited.as_secs_f64())).collect();
        all.sort_by(|one, other| other.1.total_cmp(&one.1));
        let (who, longest) = *all.first()?;
        let next = all.get(1).map_or(0.0, |(_, waited)| *waited);
        let is_clear = longest > CLEARLY * next && longest > SHARE_MIN * elapsed.as_secs_f64();
        is_clear.then_some(who)
    }
}

/// Counts waits while a copy is made.
#[derive(Debug)]
pub(super) struct WaitClock {
    sources_ns: AtomicU64,
    destinations_ns: Vec<AtomicU64>,
    limit_ns: AtomicU64,
}

/// Who is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) enum For {
    Sources,
    Destination(usize),
    /// Any of the destinations: they share what is waited for.
    Destinations,
    Limit,
}

impl WaitClock {
    pub(super) fn new(destinations: usize) -> Self {
        let destinations_ns = (0..destinations).map(|_| AtomicU64::new(0)).collect();
        Self { sources_ns: AtomicU64::new(0), destinations_ns, limit_ns: AtomicU64::new(0) }
    }

    /// Does something that waits, in one of this many threads that do the same.
    pub(super) fn timed<T>(&self, who: For, threads: usize, wait: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let waited = wait();
        self.add(who, threads, started.elapsed());
        waited
    }

    /// Counts a wait.
    pub(super) fn add(&self, who: For, threads: usize, waited: Duration) {
        let ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX) / threads.max(1) as u64;
        let count = |of: &AtomicU64| {
            of.fetch_add(ns, Ordering::Relaxed);
        };
        match who {
            For::Sources => count(&self.sources_ns),
            For::Destination(index) => self.destinations_ns.get(index).into_iter().for_each(count),
            For::Destinations => self.destinations_ns.iter().for_each(count),
            For::Limit => count(&self.limit_ns),
        }
    }

    pub(super) fn waits(&self) -> Waits {
        let of = |ns: &AtomicU64| Duration::from_nanos(ns.load(Ordering::Relaxed));
        Waits {
            sources: of(&self.sources_ns),
            destinations: self.destinations_ns.iter().map(of).collect(),
            limit: of(&self.limit_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_up_by(sources_s: u64, destinations_s: &[u64], limit_s: u64) -> Option<HeldUpBy> {
        let destinations = destinations_s.iter().copied().map(Duration::from_secs).collect();
        let (sources, limit) = (Duration::from_secs(sources_s), Duration::from_secs(limit_s));
        Waits { sources, destinations, limit }.held_up_by(Duration::from_secs(100))
    }

    #[test]
    fn what_was_waited_for_much_longer_than_all_else_held_it_up() {
        assert_eq!(held_up_by(80, &[20, 30], 0), Some(HeldUpBy::Sources));
        assert_eq!(held_up_by(20, &[10, 70], 0), Some(HeldUpBy::Destination(1)));
        assert_eq!(held_up_by(5, &[10], 90), Some(HeldUpBy::Limit));
        assert_eq!(held_up_by(40, &[35], 0), None, "about the same");
        assert_eq!(held_up_by(9, &[1], 0), None, "hardly at all");
        assert_eq!(held_up_by(0, &[], 0), None);
    }

    #[test]
    fn each_of_many_threads_counts_for_its_part() {
        let clock = WaitClock::new(2);
        clock.add(For::Sources, 4, Duration::from_secs(8));
        clock.add(For::Destination(1), 1, Duration::from_secs(3));
        clock.add(For::Destinations, 1, Duration::from_secs(1));
        // A position that is none changes nothing.
        clock.add(For::Destination(7), 1, Duration::from_secs(1));
        clock.add(For::Limit, 0, Duration::from_secs(5));
        let expected = Waits {
            sources: Duration::from_secs(2),
            destinations: vec![Duration::from_secs(1), Duration::from_secs(4)],
            limit: Duration::from_secs(5),
        };
        assert_eq!(clock.waits(), expected);
        assert_eq!(clock.timed(For::Sources, 1, || 7), 7);
    }
}
