//! Time that passes, and time that processors spend.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since this run began, the same for all of its threads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    #[inline]
    pub(super) fn now_ns(self) -> u64 {
        // 584 years fit.
        self.0.elapsed().as_nanos() as u64
    }

    /// A moment of this clock as one of the system.
    pub(super) fn instant(self, ns: u64) -> Instant {
        self.0 + Duration::from_nanos(ns)
    }
}

/// Processor time of the calling thread.
pub(super) fn thread_cpu_ns() -> u64 {
    cpu_ns(ClockId::ThreadCPUTime)
}

/// Processor time of all threads of this process, those that the kernel runs for it included.
pub(super) fn process_cpu_ns() -> u64 {
    cpu_ns(ClockId::ProcessCPUTime)
}

fn cpu_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
