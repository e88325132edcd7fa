//! How far a study has come, for callers that show it, and how long it takes.

use stook::bench::Observer;

use crate::Hooks;

/// What work is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Files, or kinds of work.
    Items,
    /// Time that is known to pass.
    Milliseconds,
}

/// Work of a known amount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portion {
    /// What is done, in few words.
    pub what: String,
    /// What it is counted in.
    pub unit: Unit,
    /// How much it is.
    pub total: u64,
}

impl Portion {
    pub(crate) fn new(what: impl Into<String>, unit: Unit, total: u64) -> Self {
        Self { what: what.into(), unit, total }
    }
}

/// Shows a [`Portion`] until it is dropped.
pub trait Shown: Sync {
    /// So many units more are done.
    fn add(&self, units: u64);

    /// What is done from now on, in few words.
    fn say(&self, _what: &str) {}
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unshown;

impl Shown for Unshown {
    fn add(&self, _units: u64) {}
}

/// What is called before each of the pieces of a portion: it counts them, and stops where the
/// caller wants to.
pub(crate) fn counting<'a>(
    hooks: &'a dyn Hooks,
    portion: &Portion,
    units: u64,
) -> impl Fn() -> anyhow::Result<()> + Sync + 'a {
    let shown = hooks.begin(portion);
    move || {
        shown.add(units);
        hooks.check()
    }
}

/// Test files are written at about this rate, which is all that a bar needs.
const LAID_OUT_BYTES_PER_MS: u64 = 500_000;

/// How long a test file of this length is written, about.
pub(crate) fn laid_out_ms(bytes: u64) -> u64 {
    bytes / LAID_OUT_BYTES_PER_MS
}

/// Milliseconds of a time.
pub(crate) fn ms_of(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1000.0) as u64
}

/// Shows measurements in a portion that is counted in milliseconds, their test files included, and
/// stops them where the caller wants to.
pub(crate) struct Watched<'a> {
    pub(crate) hooks: &'a dyn Hooks,
    pub(crate) shown: &'a dyn Shown,
}

impl Observer for Watched<'_> {
    fn is_interrupted(&self) -> bool {
        self.hooks.check().is_err()
    }

    fn laid_out(&self, bytes: u64) {
        self.shown.add(laid_out_ms(bytes));
    }

    fn ran(&self, ms: u64) {
        self.shown.add(ms);
    }
}

/// How long a study takes, about.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Expected {
    /// What its options ask for, and what does not depend on the device, seconds.
    pub time_s: f64,
    /// Bytes that it moves beside; small pieces count as so many more as they take longer.
    pub bytes: u64,
}

/// What a device moves in a second, as far as nothing is known of it.
const UNKNOWN_BYTES_PER_S: f64 = 500e6;

/// How fast bytes were moved by the studies that have ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pace {
    bytes: f64,
    seconds: f64,
}

impl Pace {
    /// A study took so long.
    pub(crate) fn learn(&mut self, expected: Expected, took_s: f64) {
        let moving_s = took_s - expected.time_s;
        // What hardly moves anything says nothing of the device.
        if moving_s >= 1.0 && moving_s >= expected.time_s / 10.0 && expected.bytes > 0 {
            self.bytes += expected.bytes as f64;
            self.seconds += moving_s;
        }
    }

    /// How long this takes.
    pub(crate) fn seconds(&self, expected: Expected) -> f64 {
        let rate = if self.seconds > 0.0 { self.bytes / self.seconds } else { UNKNOWN_BYTES_PER_S };
        expected.time_s + expected.bytes as f64 / rate
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counted {
        units: AtomicU64,
        begun: Mutex<Vec<Portion>>,
        is_ended: bool,
    }

    struct Adding<'a>(&'a Counted);

    impl Shown for Adding<'_> {
        fn add(&self, units: u64) {
            self.0.units.fetch_add(units, Ordering::Relaxed);
        }
    }

    impl Hooks for Counted {
        fn note(&self, _: &str) {}

        fn begin<'a>(&'a self, portion: &Portion) -> Box<dyn Shown + 'a> {
            self.begun.lock().unwrap().push(portion.clone());
            Box::new(Adding(self))
        }

        fn check(&self) -> anyhow::Result<()> {
            anyhow::ensure!(!self.is_ended, "ended");
            Ok(())
        }
    }

    #[test]
    fn pieces_are_counted_and_stop_where_the_caller_wants() {
        let task = Portion::new("writing", Unit::Bytes, 30);
        for (is_ended, pieces) in [(false, 3), (true, 1)] {
            let hooks = Counted { is_ended, ..Counted::default() };
            let each = counting(&hooks, &task, 10);
            assert_eq!((0..3).try_for_each(|_| each()).is_err(), is_ended);
            assert_eq!(hooks.units.load(Ordering::Relaxed), 10 * pieces);
            assert_eq!(hooks.begun.lock().unwrap().as_slice(), std::slice::from_ref(&task));
        }
    }

    #[test]
    fn a_measurement_and_its_test_file_are_one_amount_of_time() {
        let hooks = Counted::default();
        let watched = Watched { hooks: &hooks, shown: &Adding(&hooks) };
        watched.laid_out(1_000_000_000);
        watched.ran(500);
        assert_eq!(hooks.units.load(Ordering::Relaxed), 2500);
        assert!(!watched.is_interrupted());
        let ended = Counted { is_ended: true, ..Counted::default() };
        assert!(Watched { hooks: &ended, shown: &Unshown }.is_interrupted());
    }

    #[test]
    fn rates_are_those_of_the_studies_before() {
        let moves = Expected { time_s: 2.0, bytes: 1_000_000_000 };
        let mut pace = Pace::default();
        assert_eq!(pace.seconds(moves), 4.0);
        pace.learn(moves, 12.0);
        assert_eq!(pace.seconds(moves), 12.0);
        // Nothing moved, or nearly nothing beside the time that was asked for.
        pace.learn(Expected { time_s: 600.0, bytes: 1 }, 620.0);
        pace.learn(Expected { time_s: 0.0, bytes: 0 }, 5.0);
        pace.learn(moves, 2.1);
        assert_eq!(pace.seconds(moves), 12.0);
        pace.learn(moves, 32.0);
        assert_eq!(pace.seconds(moves), 22.0, "of all of them together");
    }
}
