//! [`Pace`]: when the watching thread looks at what is in flight, and how it waits for that moment.

use std::thread;
use std::time::Duration;

use super::super::random::Random;
use super::super::workload::Workload;
use super::clock::Clock;

/// The mean distance of two looks.
const CLOSED_MEAN_NS: u64 = 1_000_000;
/// In open loops looks cost processor time, so there are fewer.
const OPEN_MEAN_NS: u64 = 2_000_000;
/// How long before the moment of a look its thread is awake, in open loops.
const OPEN_AWAKE_NS: u64 = 150_000;

/// How often to look, and how long before its moment a look stops sleeping.
///
/// In a virtual machine a timer may fire 50 µs late, regardless of its slack, and everything due
/// until then wakes together. In an open loop this includes the job whose request is due: a look
/// whose moment is in the gap would wake with it and see that request in flight, although it had
/// not begun at that moment, and the mean of all looks would be too high. So a look is awake before
/// its moment, and waits for it without a timer. In a closed loop no request waits for a timer.
///
/// A thread of real time gives way to no ordinary one, also not to threads of the kernel that work
/// for the requests (those of a loop device), so it is never awake just to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    mean_ns: u64,
    awake_ns: u64,
}

impl Pace {
    /// The one for a cell, where the watching thread is one of real time or is not.
    pub(super) fn of(workload: &Workload, is_real_time: bool) -> Self {
        match workload.rate_per_s {
            None => Self { mean_ns: CLOSED_MEAN_NS, awake_ns: 0 },
            Some(_) if is_real_time => Self { mean_ns: OPEN_MEAN_NS, awake_ns: 0 },
            Some(_) => Self { mean_ns: OPEN_MEAN_NS, awake_ns: OPEN_AWAKE_NS },
        }
    }

    /// The time to the next look: not in step with anything that repeats.
    pub(super) fn pause_ns(self, random: &mut Random) -> u64 {
        self.mean_ns / 2 + random.below(self.mean_ns)
    }

    /// How much of a pause is slept.
    fn asleep_ns(self, pause_ns: u64) -> u64 {
        pause_ns.saturating_sub(self.awake_ns)
    }

    /// Comes back when the pause is over, and says how long after its end.
    pub(super) fn wait(self, clock: Clock, pause_ns: u64) -> u64 {
        let until_ns = clock.now_ns().saturating_add(pause_ns);
        thread::sleep(Duration::from_nanos(self.asleep_ns(pause_ns)));
        loop {
            match clock.now_ns().checked_sub(until_ns) {
                Some(late_ns) => return late_ns,
                // A ready job runs first, if there is one processor for both.
                None => thread::yield_now(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Pace {
        Pace::of(&Workload { rate_per_s: Some(500.0), ..Workload::default() }, false)
    }

    /// Before: `--rate 500` on tmpfs was refused, "throughput × mean latency is 0.383 of the 0.0463
    /// requests sampled in flight".
    #[test]
    fn an_open_loop_is_awake_before_each_look_and_a_closed_loop_sleeps_until_it() {
        assert_eq!(open().asleep_ns(2_000_000), 1_850_000);
        assert_eq!(open().asleep_ns(150_001), 1);
        assert_eq!((open().asleep_ns(150_000), open().asleep_ns(10)), (0, 0), "too short to sleep");
        assert_eq!(Pace::of(&Workload::default(), false).asleep_ns(1_234_567), 1_234_567);
    }

    /// Before: under `chrt -f 50` an open loop over a loop device was refused ten of eleven times,
    /// "the latencies leave out part of the time": while the watching thread waited for its moment,
    /// no thread of the kernel could work for a request.
    #[test]
    fn a_watching_thread_of_real_time_is_not_awake_just_to_wait() {
        let of_real_time = Pace::of(&Workload { rate_per_s: Some(500.0), ..Workload::default() }, true);
        assert_eq!(of_real_time.asleep_ns(2_000_000), 2_000_000);
        assert_eq!(of_real_time.mean_ns, open().mean_ns);
    }

    #[test]
    fn looks_are_half_to_one_and_a_half_times_their_mean_distance_apart() {
        for (pace, mean_ns) in [(Pace::of(&Workload::default(), false), 1_000_000), (open(), 2_000_000)] {
            let mut random = Random::new(1, 2);
            let pauses: Vec<u64> = (0..10_000).map(|_| pace.pause_ns(&mut random)).collect();
            assert!(pauses.iter().all(|pause_ns| (mean_ns / 2..mean_ns * 3 / 2).contains(pause_ns)));
            let mean = pauses.iter().sum::<u64>() as f64 / pauses.len() as f64;
            assert!((mean / mean_ns as f64 - 1.0).abs() < 0.02, "{mean}");
            // Each of them is longer than what is spent awake, so that the thread does sleep.
            assert!(pauses.iter().all(|&pause_ns| pace.asleep_ns(pause_ns) > 0));
        }
    }

    #[test]
    fn nobody_looks_before_the_moment() {
        let clock = Clock::start();
        for pause_ns in [0, 1, 100_000, 400_000] {
            let until_ns = clock.now_ns() + pause_ns;
            let late_ns = open().wait(clock, pause_ns);
            assert!(clock.now_ns() >= until_ns + late_ns, "{pause_ns}");
        }
    }
}
