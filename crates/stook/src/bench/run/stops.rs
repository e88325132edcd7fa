//! [`Stops`]: for how long the whole program stood still and wanted no processor: stopped by a
//! signal or a debugger, or frozen with its control group.
//!
//! The system counts such time neither as use of a processor nor as waiting for one, and no other
//! program has to run meanwhile. The watching thread notices it: a look comes long after its
//! moment, and its thread has not waited for a processor for as long.

use rustix::time::{ClockId, clock_getres};

use super::threads::Spent;

/// A look that is late by less is no stop. Timers are late by tens of microseconds, and a
/// hypervisor takes a processor for a few milliseconds at a time.
const LATE_MIN_NS: u64 = 5_000_000;

/// The stops so far.
#[derive(Debug)]
pub(super) struct Stops {
    late_min_ns: u64,
    /// What the watching thread had waited for a processor when this was last looked at, where the
    /// system reports it.
    waited_ns: Option<u64>,
    stopped_ns: u64,
}

impl Stops {
    /// Begins to count, in the watching thread.
    pub(super) fn now() -> Self {
        let resolution = clock_getres(ClockId::Monotonic);
        // Without precise timers every look is late by up to two of their steps.
        let step_ns = u64::try_from(resolution.tv_nsec).unwrap_or(0);
        Self { late_min_ns: LATE_MIN_NS + 2 * step_ns, waited_ns: waited_ns(), stopped_ns: 0 }
    }

    /// A look of the watching thread came so long after its moment.
    pub(super) fn note(&mut self, late_ns: u64) {
        if late_ns >= self.late_min_ns {
            self.count(late_ns, waited_ns());
        }
    }

    /// The same, with what the thread has waited for a processor by now. Where that is not known,
    /// neither is what made the look late.
    fn count(&mut self, late_ns: u64, waited_ns: Option<u64>) {
        let waited_before = std::mem::replace(&mut self.waited_ns, waited_ns);
        let Some((before_ns, now_ns)) = waited_before.zip(waited_ns) else { return };
        let stopped_ns = late_ns.saturating_sub(now_ns.saturating_sub(before_ns));
        if stopped_ns >= self.late_min_ns {
            self.stopped_ns += stopped_ns;
        }
    }

    /// How long the program has stood still since the beginning.
    pub(super) fn stopped_ns(&self) -> u64 {
        self.stopped_ns
    }
}

/// Of the calling thread.
fn waited_ns() -> Option<u64> {
    Some(Spent::of_this_thread()?.waiting_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn began(waited_ns: Option<u64>) -> Stops {
        Stops { late_min_ns: LATE_MIN_NS, waited_ns, stopped_ns: 0 }
    }

    /// Before: a run that was stopped for half of its time (`cpulimit`, `docker pause`) was valid,
    /// at half the rate: a stopped thread sleeps, and does not wait for a processor.
    #[test]
    fn a_late_look_is_a_stop_as_far_as_its_thread_did_not_wait_for_a_processor() {
        let mut stops = began(Some(1_000_000));
        // 40 ms late; the thread waited 100 µs since the look before.
        stops.count(40_000_000, Some(1_100_000));
        assert_eq!(stops.stopped_ns(), 39_900_000);
        // The next wait is counted from there: on a busy machine nothing of this is a stop.
        stops.count(30_000_000, Some(31_000_000));
        assert_eq!(stops.stopped_ns(), 39_900_000);
        stops.count(25_000_000, Some(36_000_000));
        assert_eq!(stops.stopped_ns(), 59_900_000);
    }

    #[test]
    fn honest_timers_and_what_is_not_known_are_no_stops() {
        let mut stops = began(Some(0));
        (0..1000).for_each(|_| stops.note(LATE_MIN_NS - 1));
        // Mostly waiting, and a late timer.
        stops.count(20_000_000, Some(15_000_001));
        assert_eq!(stops.stopped_ns(), 0);
        for (before, now) in [(None, Some(5)), (Some(5), None), (None, None)] {
            let mut unknown = began(before);
            unknown.count(40_000_000, now);
            assert_eq!((unknown.stopped_ns(), unknown.waited_ns), (0, now));
        }
        let here = Stops::now();
        assert!(here.late_min_ns >= LATE_MIN_NS && here.stopped_ns() == 0, "{here:?}");
    }
}
