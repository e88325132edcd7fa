//! A progress bar on stderr: how much, how fast, how long still.
//!
//! It appears only on a terminal and only after a second, so that quick commands and scripts never
//! see it. It may be shared between threads.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::bar::shortened;
use crate::interrupt::interrupted;

/// Work shorter than this shows no bar.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// Redraws per second, at most.
const DRAWS_PER_S: u8 = 10;

/// The narrowest terminal on which a bar is shown beside the figures.
const BAR_FROM: u16 = 80;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Files, records, requests: as named by `what`.
    Items,
    /// Time that is known to pass.
    Milliseconds,
}

/// How far some work has come.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    may_draw: bool,
    drawn: AtomicBool,
}

impl Progress {
    /// Work called `what`, of `total` units if that is known. Draws nothing, ever, unless
    /// `may_draw`.
    pub fn new(what: impl Into<Cow<'static, str>>, unit: Unit, total: Option<u64>, may_draw: bool) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden())
            .with_style(style(unit, total.is_some(), columns()))
            .with_message(short(what.into(), columns()));
        Self { bar, started: Instant::now(), may_draw, drawn: AtomicBool::new(false) }
    }

    /// What is done from now on.
    pub fn say(&self, what: &str) {
        self.bar.set_message(short(what.to_owned().into(), columns()));
    }

    /// Prints something else above the bar.
    pub fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// That many units more are done.
    pub fn add(&self, units: u64) {
        self.bar.inc(units);
        self.draw_when_due();
    }

    /// The total is known now, or has become another.
    pub fn set_total(&self, unit: Unit, total: u64) {
        self.bar.set_style(style(unit, true, columns()));
        self.bar.set_length(total);
    }

    /// Shows that this many bytes, of this total if it is known, are done; returns whether to
    /// continue. A lower number leaves the bar where it is.
    pub fn go_on(&self, done: u64, total: Option<u64>) -> bool {
        if let Some(total) = total.filter(|total| self.bar.length() != Some(*total)) {
            self.set_total(Unit::Bytes, total);
        }
        self.add(done.saturating_sub(self.done()));
        !interrupted()
    }

    /// Units done so far.
    pub fn done(&self) -> u64 {
        self.bar.position()
    }

    fn draw_when_due(&self) {
        let due =
            self.may_draw && !self.drawn.load(Ordering::Relaxed) && self.started.elapsed() >= SHOWN_AFTER;
        if due && !self.drawn.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(DRAWS_PER_S));
        }
    }
}

impl Drop for Progress {
    /// The bar leaves the terminal as it was: what remains on screen are results and errors.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Lines of text that are drawn in place of those before, where one bar does not say enough. As
/// with [`Progress`], they appear only on a terminal, only after a second, and leave it as it was.
#[derive(Debug)]
pub struct Lines {
    bar: ProgressBar,
    started: Instant,
    may_draw: bool,
    is_drawn: bool,
}

impl Lines {
    /// Draws nothing, ever, unless `may_draw`.
    pub fn new(may_draw: bool) -> Self {
        let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_style(style);
        Self { bar, started: Instant::now(), may_draw, is_drawn: false }
    }

    /// Whether anything will be drawn at all.
    pub fn may_draw(&self) -> bool {
        self.may_draw
    }

    /// Draws the lines that are made for a terminal of this many columns, where it is time to.
    pub fn show(&mut self, lines: impl FnOnce(usize) -> Vec<String>) {
        if !self.may_draw || self.started.elapsed() < SHOWN_AFTER {
            return;
        }
        if !std::mem::replace(&mut self.is_drawn, true) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(DRAWS_PER_S));
        }
        self.bar.set_message(lines(usize::from(columns())).join("\n"));
    }

    /// Prints something else above the lines.
    pub fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// What is done, in no more than a third of the line.
fn short(what: Cow<'static, str>, columns: u16) -> Cow<'static, str> {
    let most = usize::from(columns / 3);
    if crate::bar::width(&what) <= most { what } else { shortened(&what, most).into() }
}

/// How wide the terminal is; as wide as they usually are where it does not say.
fn columns() -> u16 {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    size.map(|size| size.ws_col).filter(|&columns| columns > 0).unwrap_or(80)
}

/// No colours: they would add nothing, and `NO_COLOR` is honoured by having none. A line is never
/// longer than the terminal is wide: one that is wrapped cannot be drawn over.
fn style(unit: Unit, has_total: bool, columns: u16) -> ProgressStyle {
    let template = match (unit, has_total) {
        (Unit::Bytes, true) if columns < BAR_FROM => "{wide_msg} {percent}% {decimal_bytes_per_sec} {eta}",
        (Unit::Bytes, false) if columns < BAR_FROM => "{wide_msg} {decimal_bytes} {decimal_bytes_per_sec}",
        (Unit::Items, true) if columns < BAR_FROM => "{wide_msg} {percent}% {eta} left",
        (Unit::Items, false) if columns < BAR_FROM => "{wide_msg} {human_pos}",
        (Unit::Milliseconds, true) if columns < BAR_FROM => "{wide_msg} {percent}% {eta} left",
        (Unit::Milliseconds, false) if columns < BAR_FROM => "{wide_msg} {elapsed}",
        (Unit::Bytes, true) => {
            "{msg} [{wide_bar}] {decimal_bytes} of {decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left"
        }
        (Unit::Bytes, false) => "{msg} {spinner} {decimal_bytes}  {decimal_bytes_per_sec}  {elapsed}",
        (Unit::Milliseconds, true) => "{msg} [{wide_bar}] {percent}%  {eta} left",
        (Unit::Milliseconds, false) => "{msg} {spinner} {elapsed}",
        (Unit::Items, true) => "{msg} [{wide_bar}] {human_pos} of {human_len}  {eta} left",
        (Unit::Items, false) => "{msg} {spinner} {human_pos}  {per_sec}  {elapsed}",
    };
    // A template that does not parse would be a defect that the tests below find; falling back to
    // the default bar is better than ending the work.
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use indicatif::InMemoryTerm;

    use super::*;

    fn shown(unit: Unit, total: Option<u64>, done: u64) -> String {
        shown_in(100, "reading", unit, total, done)
    }

    fn shown_in(columns: u16, what: &'static str, unit: Unit, total: Option<u64>, done: u64) -> String {
        let terminal = InMemoryTerm::new(3, columns);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let bar = ProgressBar::with_draw_target(total, target)
            .with_style(style(unit, total.is_some(), columns))
            .with_message(what);
        bar.set_position(done);
        bar.tick();
        terminal.contents()
    }

    #[test]
    fn a_bar_tells_what_how_much_and_of_how_much_with_units() {
        let bytes = shown(Unit::Bytes, Some(2_000_000), 1_000_000);
        assert!(bytes.starts_with("reading [====="), "{bytes}");
        assert!(bytes.contains("1.00 MB of 2.00 MB") && bytes.contains(" left"), "{bytes}");
        let unknown = shown(Unit::Bytes, None, 5000);
        assert!(unknown.contains("5.00 kB") && !unknown.contains("left"), "{unknown}");
        let items = shown(Unit::Items, Some(50_000), 12_345);
        assert!(items.contains("12,345 of 50,000"), "{items}");
        let time = shown(Unit::Milliseconds, Some(30_000), 15_000);
        assert!(time.contains("50%") && time.contains(" left"), "{time}");
        assert!(shown(Unit::Items, None, 1_000).contains("1,000"));
    }

    #[test]
    fn a_line_is_never_longer_than_the_terminal_is_wide() {
        for columns in [40, 60, 80, 100, 200] {
            for unit in [Unit::Bytes, Unit::Items, Unit::Milliseconds] {
                for total in [None, Some(999_999_999_999)] {
                    let text = shown_in(columns, "verifying and removing", unit, total, 555_555_555_555);
                    assert_eq!(text.lines().count(), 1, "{columns} columns: {text}");
                    assert!(text.chars().count() <= usize::from(columns), "{columns} columns: {text}");
                    assert!(total.is_none() || text.contains('%') || text.contains(" of "), "{text}");
                }
            }
        }
    }

    #[test]
    fn what_is_done_leaves_room_for_the_rest() {
        assert_eq!(short("reading".into(), 80), "reading");
        let long = short("round 1 of 3: Plain file, 64 KiB reads".into(), 60);
        assert!(long.chars().count() <= 20 && long.contains('…'), "{long}");
    }

    #[test]
    fn lines_are_drawn_in_place_of_those_before_and_leave_nothing() {
        let terminal = InMemoryTerm::new(5, 80);
        let mut lines = Lines::new(true);
        lines.bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        (lines.started, lines.is_drawn) = (lines.started - Duration::from_secs(5), true);
        lines.show(|_| vec!["one".to_owned(), "two".to_owned(), "three".to_owned()]);
        lines.bar.tick();
        assert_eq!(terminal.contents(), "one\ntwo\nthree");
        lines.show(|_| vec!["four".to_owned()]);
        lines.bar.tick();
        assert_eq!(terminal.contents(), "four");
        drop(lines);
        assert_eq!(terminal.contents(), "");
        for (may_draw, age_s) in [(true, 0), (false, 5)] {
            let mut lines = Lines::new(may_draw);
            lines.started -= Duration::from_secs(age_s);
            lines.show(|_| panic!("it is not made if it is not drawn"));
        }
    }

    #[test]
    fn quick_work_and_work_off_a_terminal_never_draw() {
        let quick = Progress::new("x", Unit::Items, None, true);
        quick.add(3);
        assert!(!quick.drawn.load(Ordering::Relaxed));
        assert_eq!(quick.done(), 3);
        let mut slow = Progress::new("x", Unit::Items, None, false);
        slow.started -= Duration::from_secs(5);
        slow.add(1);
        assert!(!slow.drawn.load(Ordering::Relaxed));
        let mut shown = Progress::new("x", Unit::Items, None, true);
        shown.started -= Duration::from_secs(5);
        shown.add(1);
        assert!(shown.drawn.load(Ordering::Relaxed));
    }
}
