//! [`Throttle`]: no more than this many bytes a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest sleep at once, so that an interruption is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// A limit that all threads share.
#[derive(Debug)]
pub(super) struct Throttle {
    bytes_per_s: Option<u64>,
    /// When all that was taken so far may have passed.
    due: Mutex<Option<Instant>>,
}

impl Throttle {
    pub(super) fn new(bytes_per_s: Option<u64>) -> Self {
        Self { bytes_per_s, due: Mutex::new(None) }
    }

    /// Waits until this many more bytes may pass, or no more is wanted; returns how long that took.
    pub(super) fn take(&self, bytes: u64, is_stopped: impl Fn() -> bool) -> Duration {
        let Some(rate) = self.bytes_per_s else { return Duration::ZERO };
        let started = Instant::now();
        let lasts = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        let until = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let from = due.unwrap_or_else(Instant::now).max(Instant::now());
            // A rate of a byte a century ends in the future all the same.
            let until = from.checked_add(lasts).unwrap_or(from);
            *due = Some(until);
            from
        };
        while !is_stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(SLEEP_MAX));
        }
        started.elapsed()
    }
}
