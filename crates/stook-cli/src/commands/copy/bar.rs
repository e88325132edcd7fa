//! What a terminal shows while it is copied: how much, how fast, how long still, which file, and
//! how far each destination is.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use stook::copy::{DestinationProgress, Phase, Progress};
use stook::report::units;

use crate::context::Context;
use crate::output::printable;
use crate::progress::Lines;

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

/// The lines, and what they are made from.
pub(super) struct Bar {
    lines: Lines,
    names: Vec<String>,
    rate: Recent,
    slow_rate: Recent,
    rates: Vec<Recent>,
}

impl Bar {
    pub(super) fn new(destinations: &[PathBuf], context: &Context) -> Self {
        Self {
            lines: context.lines(),
            names: destinations.iter().map(|path| printable(path.as_os_str().as_encoded_bytes())).collect(),
            rate: Recent::over(RATE_OVER),
            slow_rate: Recent::over(LEFT_OVER),
            rates: destinations.iter().map(|_| Recent::over(RATE_OVER)).collect(),
        }
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        if !self.lines.may_draw() {
            return;
        }
        let now = Instant::now();
        if progress.phase != Phase::Counting {
            self.rate.note(now, progress.bytes);
            self.slow_rate.note(now, progress.bytes);
            for (rate, one) in self.rates.iter_mut().zip(&progress.destinations) {
                rate.note(now, one.bytes);
            }
        }
        let rates: Vec<Option<f64>> = self.rates.iter().map(Recent::bytes_per_s).collect();
        let shown = Shown {
            progress,
            names: &self.names,
            rate: self.rate.bytes_per_s(),
            left: left(progress, self.slow_rate.bytes_per_s()),
            rates: &rates,
        };
        self.lines.show(|columns| shown.lines(columns));
    }

    /// Prints something else above it.
    pub(super) fn above(&self, print: impl FnOnce()) {
        self.lines.above(print);
    }
}

/// How long it still takes at a rate.
fn left(progress: &Progress, bytes_per_s: Option<f64>) -> Option<Duration> {
    let bytes = progress.total_bytes?.saturating_sub(progress.bytes);
    let rate = bytes_per_s.filter(|rate| *rate > 0.0)?;
    Duration::try_from_secs_f64(bytes as f64 / rate).ok()
}

/// A time that is estimated: in whole seconds.
fn in_seconds(time: Duration) -> String {
    match time.as_secs_f64().ceil() as u64 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => units::duration(Duration::from_secs(seconds)),
    }
}

/// How far something was at the last moments.
struct Recent {
    window: Duration,
    seen: VecDeque<(Instant, u64)>,
}

impl Recent {
    fn over(window: Duration) -> Self {
        Self { window, seen: VecDeque::new() }
    }

    fn note(&mut self, now: Instant, bytes: u64) {
        self.seen.push_back((now, bytes));
        // One that is older stays, so that the window is full.
        while self.seen.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= self.window) {
            self.seen.pop_front();
        }
    }

    fn bytes_per_s(&self) -> Option<f64> {
        let ((first, before), (last, after)) = (self.seen.front()?, self.seen.back()?);
        let lasted = last.duration_since(*first);
        // What could not be finished is taken back.
        let bytes = after.saturating_sub(*before);
        (lasted >= RATE_FROM).then(|| bytes as f64 / lasted.as_secs_f64())
    }
}

/// What is shown at a moment.
struct Shown<'a> {
    progress: &'a Progress,
    names: &'a [String],
    rate: Option<f64>,
    left: Option<Duration>,
    rates: &'a [Option<f64>],
}

impl Shown<'_> {
    /// Lines of which none is longer than a terminal of this many columns is wide.
    fn lines(&self, columns: usize) -> Vec<String> {
        let progress = self.progress;
        let mut lines = match progress.phase {
            Phase::Counting => {
                let files = units::count_of(progress.files, "file", "files");
                vec![format!("counting: {files}, {}", units::bytes_decimal(progress.bytes))]
            }
            _ => vec![self.how_far(columns), self.which_file(columns)],
        };
        if progress.destinations.len() > 1 {
            let most = columns / 2;
            let names = self.names.iter().map(|name| shortened(name, most));
            let names: Vec<String> = names.collect();
            let widest = names.iter().map(|name| width(name)).max().unwrap_or(0);
            let rates = self.rates.iter().copied().chain(std::iter::repeat(None));
            for ((name, one), rate) in names.iter().zip(&progress.destinations).zip(rates) {
                let gap = " ".repeat(widest - width(name));
                lines.push(format!("{name}{gap}  {}", state_of(one, rate)));
            }
        }
        lines.iter().filter(|line| !line.is_empty()).map(|line| cut(line, columns)).collect()
    }

    /// `copying [====>    ] 127 GB of 252 GB  295 MB/s  7 min 05 s left`
    fn how_far(&self, columns: usize) -> String {
        let Progress { phase, bytes, total_bytes, .. } = self.progress;
        let what = if *phase == Phase::Finishing { "finishing" } else { "copying" };
        let rate = self.rate.map(units::rate);
        let left = self.left.filter(|_| *phase == Phase::Copying);
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
        let Progress { files, total_files, current, phase, .. } = self.progress;
        let count = match total_files {
            Some(total) => {
                format!("{} of {}", units::count(*files), units::count_of(*total, "file", "files"))
            }
            None => units::count_of(*files, "file", "files"),
        };
        let room = columns.saturating_sub(width(&count) + 2);
        if *phase != Phase::Copying || current.is_empty() || room < NAME_MIN {
            return count;
        }
        format!("{count}  {}", shortened(&printable(current), room))
    }
}

/// `127 GB  295 MB/s`, `80.0 GB  stopped: full`
fn state_of(one: &DestinationProgress, rate: Option<f64>) -> String {
    let bytes = units::bytes_decimal(one.bytes);
    match (one.is_stopped, one.why_stopped) {
        (true, Some(why)) => format!("{bytes}  stopped: {}", why.name()),
        (true, None) => format!("{bytes}  stopped"),
        (false, _) => match rate {
            Some(rate) => format!("{bytes}  {}", units::rate(rate)),
            None => bytes,
        },
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
fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

fn columns_of(character: char) -> usize {
    match character {
        '\0'..='\u{10ff}' | '\u{2010}'..='\u{203e}' => 1,
        _ => 2,
    }
}

/// The beginning of a text that fits.
fn cut(text: &str, columns: usize) -> String {
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
fn shortened(text: &str, columns: usize) -> String {
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
    use stook::copy::WhyStopped;

    use super::*;

    fn progress(destinations: usize) -> Progress {
        let one =
            DestinationProgress { files: 148, bytes: 127_000_000_000, ..DestinationProgress::default() };
        Progress {
            phase: Phase::Copying,
            files: 148,
            bytes: 127_000_000_000,
            total_files: Some(258),
            total_bytes: Some(252_000_000_000),
            current: b"DCIM/100CANON/MVI_0001.MOV".to_vec(),
            destinations: vec![one; destinations],
        }
    }

    fn shown(progress: &Progress, columns: usize) -> Vec<String> {
        let names: Vec<String> = ["/mnt/a", "/media/spare"].map(str::to_owned).to_vec();
        let rates = [Some(295e6), None];
        let left = Some(Duration::from_secs(425));
        Shown { progress, names: &names, rate: Some(295.2e6), left, rates: &rates }.lines(columns)
    }

    #[test]
    fn one_destination_takes_two_lines_that_say_everything() {
        let lines = shown(&progress(1), 80);
        let bar = "copying [=============>            ] 127 GB of 252 GB  295 MB/s  7 min 05 s left";
        assert_eq!(lines, [bar, "148 of 258 files  DCIM/100CANON/MVI_0001.MOV"]);
        let lines = shown(&progress(1), 60);
        assert_eq!(lines[0], "copying 50%  295 MB/s  7 min 05 s left");
    }

    #[test]
    fn each_of_several_destinations_has_a_line_with_its_state() {
        let mut progress = progress(2);
        progress.destinations[1] = DestinationProgress {
            bytes: 80_000_000_000,
            is_stopped: true,
            why_stopped: Some(WhyStopped::Full),
            ..DestinationProgress::default()
        };
        let lines = shown(&progress, 80);
        assert_eq!(lines[2..], ["/mnt/a        127 GB  295 MB/s", "/media/spare  80.0 GB  stopped: full"]);
    }

    #[test]
    fn counting_and_finishing_say_so() {
        let counting = Progress { files: 12_345, bytes: 1_000_000, ..Progress::default() };
        assert_eq!(shown(&counting, 80), ["counting: 12,345 files, 1.00 MB"]);
        let finishing = Progress { phase: Phase::Finishing, bytes: 252_000_000_000, ..progress(1) };
        let lines = shown(&finishing, 80);
        assert!(lines[0].starts_with("finishing [=====") && !lines[0].contains("left"), "{lines:?}");
        assert_eq!(lines[1], "148 of 258 files");
        let empty = Progress { total_bytes: Some(0), bytes: 0, ..progress(1) };
        assert!(shown(&empty, 80)[0].starts_with("copying 0 B"), "nothing is divided by nothing");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_whatever_files_are_called() {
        let wide = "写真/".repeat(60);
        let names: [&[u8]; 4] = [&[b'x'; 300], wide.as_bytes(), b"a\x1b[2J\nb\xff/".as_slice(), b"short"];
        for name in names {
            for columns in [1, 10, 20, 40, 79, 80, 200] {
                let lines = shown(&Progress { current: name.to_vec(), ..progress(2) }, columns);
                for line in &lines {
                    assert!(width(line) <= columns, "{columns}: {line}");
                    assert!(!line.contains(char::is_control), "{line:?}");
                }
            }
        }
        let lines = shown(&Progress { current: [b'x'; 300].to_vec(), ..progress(1) }, 80);
        assert_eq!(width(&lines[1]), 80);
    }

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
        let progress = Progress { total_bytes: Some(1000), bytes: 400, ..Progress::default() };
        assert_eq!(left(&progress, Some(100.0)), Some(Duration::from_secs(6)));
        assert_eq!((left(&progress, Some(0.0)), left(&progress, None)), (None, None));
        assert_eq!(
            [0.0, 2.1, 59.0, 59.1, 425.0].map(|s| in_seconds(Duration::from_secs_f64(s))),
            ["0 s", "3 s", "59 s", "1 min 00 s", "7 min 05 s"]
        );
        let more = Progress { bytes: 2000, ..progress };
        assert_eq!(left(&more, Some(100.0)), Some(Duration::ZERO));
    }
}
