//! What a terminal shows of work on many files: how much, how fast, how long still, which file.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use stook::report::units;

use crate::output::printable;

/// Rates are those of the last seconds; the time that is left is estimated from more of them, so
/// that it does not jump.
const RATE_OVER: Duration = Duration::from_secs(5);
const LEFT_OVER: Duration = Duration::from_secs(30);

/// A shorter time says nothing of a rate.
const RATE_FROM: Duration = Duration::from_millis(500);

/// The narrowest terminal with a bar beside the figures.
const BAR_FROM: usize = 80;

/// Columns of a name that are worth showing.
const NAME_MIN: usize = 12;

/// How far work on files has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilesDone<'a> {
    /// What is done, in one word: `copying`.
    pub(crate) what: &'static str,
    /// Whether files are read: then a file is named, and how long it still takes.
    pub(crate) is_reading: bool,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) total_files: Option<u64>,
    pub(crate) total_bytes: Option<u64>,
    /// The file that was begun last.
    pub(crate) current: &'a [u8],
}

/// How fast it goes.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: Recent,
    slow_rate: Recent,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { rate: Recent::new(), slow_rate: Recent::over(LEFT_OVER) }
    }

    /// So many bytes are done now.
    pub(crate) fn note(&mut self, now: Instant, bytes: u64) {
        self.rate.note(now, bytes);
        self.slow_rate.note(now, bytes);
    }

    /// The two lines about it, for a terminal of this many columns.
    pub(crate) fn lines(&self, done: &FilesDone<'_>, columns: usize) -> Vec<String> {
        let left = left(done, self.slow_rate.bytes_per_s());
        vec![done.how_far(self.rate.bytes_per_s(), left, columns), done.which_file(columns)]
    }
}

/// `counting: 12,345 files, 1.00 MB`
pub(crate) fn counting(files: u64, bytes: u64) -> String {
    let files = units::count_of(files, "file", "files");
    format!("counting: {files}, {}", units::bytes_decimal(bytes))
}

/// How long it still takes at a rate.
fn left(done: &FilesDone<'_>, bytes_per_s: Option<f64>) -> Option<Duration> {
    let bytes = done.total_bytes?.saturating_sub(done.bytes);
    let rate = bytes_per_s.filter(|rate| *rate > 0.0)?;
    Duration::try_from_secs_f64(bytes as f64 / rate).ok()
}

/// A time that is estimated: in whole seconds.
pub(crate) fn in_seconds(time: Duration) -> String {
    match time.as_secs_f64().ceil() as u64 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => units::duration(Duration::from_secs(seconds)),
    }
}

/// How far something was at the last moments.
#[derive(Debug)]
pub(crate) struct Recent {
    window: Duration,
    seen: VecDeque<(Instant, u64)>,
}

impl Recent {
    /// Over the last seconds.
    pub(crate) fn new() -> Self {
        Self::over(RATE_OVER)
    }

    fn over(window: Duration) -> Self {
        Self { window, seen: VecDeque::new() }
    }

    pub(crate) fn note(&mut self, now: Instant, bytes: u64) {
        self.seen.push_back((now, bytes));
        // One that is older stays, so that the window is full.
        while self.seen.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= self.window) {
            self.seen.pop_front();
        }
    }

    pub(crate) fn bytes_per_s(&self) -> Option<f64> {
        let ((first, before), (last, after)) = (self.seen.front()?, self.seen.back()?);
        let lasted = last.duration_since(*first);
        // What could not be finished is taken back.
        let bytes = after.saturating_sub(*before);
        (lasted >= RATE_FROM).then(|| bytes as f64 / lasted.as_secs_f64())
    }
}

impl FilesDone<'_> {
    /// `copying [====>    ] 127 GB of 252 GB  295 MB/s  7 min 05 s left`
    fn how_far(&self, rate: Option<f64>, left: Option<Duration>, columns: usize) -> String {
        let Self { what, bytes, total_bytes, .. } = self;
        let rate = rate.map(units::rate);
        let left = left.filter(|_| self.is_reading);
        let left = left.map(|left| format!("{} left", in_seconds(left)));
        let rest = |first: String| {
            let all = [Some(first), rate.clone(), left.clone()];
            all.into_iter().flatten().collect::<Vec<_>>().join("  ")
        };
        let share = total_bytes.filter(|total| *total > 0).map(|total| *bytes as f64 / total as f64);
        match (share.map(|share| share.min(1.0)), total_bytes) {
            (Some(share), _) if columns < BAR_FROM => {
                format!("{what} {}", rest(format!("{:.0}%", share * 100.0)))
            }
            (Some(share), Some(total)) => {
                let total = units::bytes_decimal(*total);
                let figures = rest(format!("{} of {total}", units::bytes_decimal(*bytes)));
                let room = columns.saturating_sub(width(what) + width(&figures) + 4);
                format!("{what} [{}] {figures}", filled(share, room))
            }
            _ => format!("{what} {}", rest(units::bytes_decimal(*bytes))),
        }
    }

    /// `148 of 258 files  DCIM/100…/MVI_0001.MOV`
    fn which_file(&self, columns: usize) -> String {
        let Self { files, total_files, current, .. } = self;
        let count = match total_files {
            Some(total) => {
                format!("{} of {}", units::count(*files), units::count_of(*total, "file", "files"))
            }
            None => units::count_of(*files, "file", "files"),
        };
        let room = columns.saturating_sub(width(&count) + 2);
        if !self.is_reading || current.is_empty() || room < NAME_MIN {
            return count;
        }
        format!("{count}  {}", shortened(&printable(current), room))
    }
}

/// A bar as `indicatif` draws them.
fn filled(share: f64, columns: usize) -> String {
    let full = (share * columns as f64) as usize;
    let head = if full < columns { ">" } else { "" };
    format!("{}{head}{}", "=".repeat(full.min(columns)), " ".repeat(columns.saturating_sub(full + 1)))
}

/// How many columns a text takes, at most: characters of East Asian scripts, and pictures, take
/// two.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

fn columns_of(character: char) -> usize {
    match character {
        '\0'..='\u{10ff}' | '\u{2010}'..='\u{203e}' => 1,
        _ => 2,
    }
}

/// The beginning of a text that fits.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    let mut left = columns;
    let fits = |character: &char| match left.checked_sub(columns_of(*character)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    text.chars().take_while(fits).collect()
}

/// A text that fits: if it is too long, without what is in its middle. Most of the end is kept:
/// names of files differ there.
pub(crate) fn shortened(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let begin = cut(text, columns.saturating_sub(1) / 3);
    let room = columns.saturating_sub(width(&begin) + 1);
    let reversed: String = text.chars().rev().collect();
    let end: String = cut(&reversed, room).chars().rev().collect();
    format!("{begin}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened_in_their_middle() {
        assert_eq!(shortened("DCIM/100CANON/MVI_0001.MOV", 16), "DCIM/…I_0001.MOV");
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(width(&shortened(&"写".repeat(30), 20)), 19, "half a character is none");
        assert_eq!((shortened("abc", 1), shortened("abc", 0)), ("…".to_owned(), "…".to_owned()));
    }

    #[test]
    fn a_rate_is_that_of_the_last_seconds() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut recent = Recent::over(Duration::from_secs(5));
        assert_eq!(recent.bytes_per_s(), None);
        recent.note(at(0), 0);
        assert_eq!(recent.bytes_per_s(), None, "one moment has no rate");
        for second in 1..=10 {
            recent.note(at(second), second * 100);
        }
        assert_eq!(recent.bytes_per_s(), Some(100.0));
        for second in 11..=20 {
            recent.note(at(second), 1000);
        }
        assert_eq!(recent.bytes_per_s(), Some(0.0), "it stands still");
        recent.note(at(21), 900);
        assert_eq!(recent.bytes_per_s(), Some(0.0), "a file was given up");
        let progress = FilesDone {
            what: "copying",
            is_reading: true,
            files: 1,
            bytes: 400,
            total_files: None,
            total_bytes: Some(1000),
            current: b"",
        };
        assert_eq!(left(&progress, Some(100.0)), Some(Duration::from_secs(6)));
        assert_eq!((left(&progress, Some(0.0)), left(&progress, None)), (None, None));
        assert_eq!(
            [0.0, 2.1, 59.0, 59.1, 425.0].map(|s| in_seconds(Duration::from_secs_f64(s))),
            ["0 s", "3 s", "59 s", "1 min 00 s", "7 min 05 s"]
        );
        let more = FilesDone { bytes: 2000, ..progress };
        assert_eq!(left(&more, Some(100.0)), Some(Duration::ZERO));
    }
}
