//! [`Throttle`]: no more than this many bytes a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::options::{BLOCK_MAX, BLOCK_MIN};

/// The longest sleep at once, so that an interruption is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// So many parts of what a second allows are read one by one: with longer ones the device, and the
/// line to it, would be used to the full for a moment, and then not at all.
const PARTS_PER_S: u64 = 16;

/// How many bytes are read at once, at most, where no more than so many may be in a second.
pub(super) fn quantum(bytes_per_s: u64) -> u64 {
    let part = bytes_per_s / PARTS_PER_S / BLOCK_MIN * BLOCK_MIN;
    part.clamp(BLOCK_MIN, BLOCK_MAX)
}

/// A limit that all threads share.
#[derive(Debug)]
pub(super) struct Throttle {
    bytes_per_s: Option<u64>,
    began: Instant,
    /// When all that was taken so far may have passed, since it began.
    due: Mutex<Duration>,
}

impl Throttle {
    pub(super) fn new(bytes_per_s: Option<u64>) -> Self {
        Self { bytes_per_s, began: Instant::now(), due: Mutex::default() }
    }

    /// Waits until this many more bytes may pass, or no more is wanted; returns how long that took.
    pub(super) fn take(&self, bytes: u64, is_stopped: impl Fn() -> bool) -> Duration {
        let Some(rate) = self.bytes_per_s else { return Duration::ZERO };
        let started = Instant::now();
        let from = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let (from, until) = slot(*due, self.began.elapsed(), bytes, rate);
            *due = until;
            from
        };
        while !is_stopped() {
            let left = from.saturating_sub(self.began.elapsed());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(SLEEP_MAX));
        }
        started.elapsed()
    }
}

/// When the next bytes may pass, and when they have, at this rate: after those before them, which
/// end at `due`, and not in the past. Time in which nothing passed is not made up for.
fn slot(due: Duration, now: Duration, bytes: u64, bytes_per_s: u64) -> (Duration, Duration) {
    let from = due.max(now);
    // A rate of a byte a century ends in the future all the same.
    let lasts = Duration::try_from_secs_f64(bytes as f64 / bytes_per_s.max(1) as f64);
    (from, from.saturating_add(lasts.unwrap_or(Duration::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn bytes_pass_one_after_another_and_lost_time_is_not_made_up_for() {
        let mut due = Duration::ZERO;
        let mut froms = Vec::new();
        // All are taken at once, by as many threads.
        for bytes in [500, 250, 250, 1_000] {
            let (from, until) = slot(due, Duration::ZERO, bytes, 1_000);
            froms.push(from);
            due = until;
        }
        assert_eq!(froms, [Duration::ZERO, SECOND / 2, SECOND * 3 / 4, SECOND]);
        assert_eq!(due, SECOND * 2);
        // Much later: no more than the rate from then on.
        assert_eq!(slot(due, SECOND * 60, 1_000, 1_000), (SECOND * 60, SECOND * 61));
        let (from, until) = slot(due, SECOND * 60, u64::MAX, 1);
        assert!(from == SECOND * 60 && until > SECOND * 1_000_000_000);
        assert_eq!(slot(until, SECOND * 60, u64::MAX, 0).0, until);
    }

    #[test]
    fn what_is_read_at_once_is_a_small_part_of_what_a_second_allows() {
        for (rate, bytes) in
            [(1, 4096), (65_536, 4096), (1_000_000, 61_440), (50 << 20, 3_276_800), (u64::MAX, BLOCK_MAX)]
        {
            assert_eq!(quantum(rate), bytes, "{rate}");
        }
        for rate in (65_536..2_000_000).step_by(77_777) {
            let part = quantum(rate);
            assert!(part.is_multiple_of(BLOCK_MIN) && part * PARTS_PER_S <= rate, "{rate}: {part}");
        }
    }
}
