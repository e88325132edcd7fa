//! How far a study has come: a bar on a terminal, and elsewhere a line every half a minute.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use stook_study::{Portion, Shown};

use crate::bar::in_seconds;
use crate::context::Context;
use crate::progress::{Progress, Unit};

/// Where there is no terminal, so much time passes between two lines.
const SAID_EVERY: Duration = Duration::from_secs(30);

/// The bar that is shown now, if any is: lines are printed above it.
#[derive(Debug, Default)]
pub(super) struct Active(Mutex<Weak<Progress>>);

impl Active {
    /// This one is shown until it is dropped.
    pub(super) fn is_now(&self, bar: &Arc<Progress>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(bar);
    }

    pub(super) fn above(&self, print: impl FnOnce()) {
        let bar = self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        match bar {
            Some(bar) => bar.above(print),
            None => print(),
        }
    }
}

/// A task of a study, as it goes on.
pub(super) struct Steps<'a> {
    context: &'a Context,
    bar: Arc<Progress>,
    total: u64,
    said: Mutex<Said>,
}

/// What lines are made of.
struct Said {
    what: String,
    began: Instant,
    last: Instant,
}

impl<'a> Steps<'a> {
    pub(super) fn new(task: &Portion, context: &'a Context) -> Self {
        let unit = match task.unit {
            stook_study::Unit::Bytes => Unit::Bytes,
            stook_study::Unit::Items => Unit::Items,
            stook_study::Unit::Milliseconds => Unit::Milliseconds,
        };
        let now = Instant::now();
        Self {
            context,
            bar: Arc::new(context.progress(task.what.clone(), unit, Some(task.total))),
            total: task.total,
            said: Mutex::new(Said { what: task.what.clone(), began: now, last: now }),
        }
    }

    pub(super) fn bar(&self) -> &Arc<Progress> {
        &self.bar
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown for Steps<'_> {
    fn add(&self, units: u64) {
        self.bar.add(units);
        if self.context.draws_progress() {
            return;
        }
        let mut said = self.said();
        if said.last.elapsed() >= SAID_EVERY {
            said.last = Instant::now();
            self.context.note(line(&said.what, self.bar.done(), self.total, said.began.elapsed()));
        }
    }

    fn say(&self, what: &str) {
        self.bar.say(what);
        self.said().what = what.to_owned();
    }
}

/// `round 1 of 3: 40%, about 12 s left`
fn line(what: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let share = if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) };
    let left = if share > 0.0 { elapsed.mul_f64((1.0 - share) / share) } else { Duration::ZERO };
    format!("{what}: {:.0}%, about {} left", share * 100.0, in_seconds(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is_and_how_long_still() {
        let of = |done, total| line("round 1 of 3", done, total, Duration::from_secs(10));
        assert_eq!(of(1, 4), "round 1 of 3: 25%, about 30 s left");
        assert_eq!(of(9, 4), "round 1 of 3: 100%, about 0 s left");
        assert_eq!(of(0, 0), "round 1 of 3: 100%, about 0 s left");
    }

    #[test]
    fn lines_are_printed_once_with_and_without_a_bar() {
        let (active, mut printed) = (Active::default(), 0);
        active.above(|| printed += 1);
        let bar = Arc::new(Progress::new("x", Unit::Items, None, false));
        active.is_now(&bar);
        active.above(|| printed += 1);
        drop(bar);
        active.above(|| printed += 1);
        assert_eq!(printed, 3);
    }
}
