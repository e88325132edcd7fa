//! What a terminal shows while it is copied: how far all of it is, and each destination.

use std::path::PathBuf;
use std::time::Instant;

use stook::copy::{DestinationProgress, Phase, Progress};
use stook::report::units;

use crate::bar::{FilesDone, Pace, Recent, counting, cut, shortened, width};
use crate::context::Context;
use crate::output::printable;
use crate::progress::Lines;

/// The lines, and what they are made from.
pub(super) struct Bar {
    lines: Lines,
    names: Vec<String>,
    pace: Pace,
    /// What was being done when it was shown last.
    phase: Phase,
    rates: Vec<Recent>,
}

impl Bar {
    pub(super) fn new(destinations: &[PathBuf], context: &Context) -> Self {
        Self {
            lines: context.lines(),
            names: destinations.iter().map(|path| printable(path.as_os_str().as_encoded_bytes())).collect(),
            pace: Pace::new(),
            phase: Phase::Counting,
            rates: destinations.iter().map(|_| Recent::new()).collect(),
        }
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        if !self.lines.may_draw() {
            return;
        }
        let now = Instant::now();
        // What is read back is counted anew.
        if self.phase != Phase::ReadingBack && progress.phase == Phase::ReadingBack {
            self.pace = Pace::new();
        }
        self.phase = progress.phase;
        if progress.phase != Phase::Counting {
            self.pace.note(now, progress.bytes);
            for (rate, one) in self.rates.iter_mut().zip(&progress.destinations) {
                rate.note(now, one.bytes);
            }
        }
        let rates: Vec<Option<f64>> = self.rates.iter().map(Recent::bytes_per_s).collect();
        let shown = Shown { progress, names: &self.names, pace: &self.pace, rates: &rates };
        self.lines.show(|columns| shown.lines(columns));
    }

    /// Prints something else above it.
    pub(super) fn above(&self, print: impl FnOnce()) {
        self.lines.above(print);
    }
}

/// What is shown at a moment.
struct Shown<'a> {
    progress: &'a Progress,
    names: &'a [String],
    pace: &'a Pace,
    rates: &'a [Option<f64>],
}

impl Shown<'_> {
    /// Lines of which none is longer than a terminal of this many columns is wide.
    fn lines(&self, columns: usize) -> Vec<String> {
        let progress = self.progress;
        let mut lines = match progress.phase {
            Phase::Counting => vec![counting(progress.files, progress.bytes)],
            phase => self.pace.lines(&done(progress, phase), columns),
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
}

fn done(progress: &Progress, phase: Phase) -> FilesDone<'_> {
    FilesDone {
        what: match phase {
            Phase::Finishing => "finishing",
            Phase::ReadingBack => "reading back",
            _ => "copying",
        },
        is_reading: matches!(phase, Phase::Copying | Phase::ReadingBack),
        files: progress.files,
        bytes: progress.bytes,
        total_files: progress.total_files,
        total_bytes: progress.total_bytes,
        current: &progress.current,
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        let mut pace = Pace::new();
        let start = Instant::now();
        // As fast as to need 425 s for the rest.
        pace.note(start, 127_000_000_000 - 5 * 294_600_000);
        pace.note(start + Duration::from_secs(5), 127_000_000_000);
        Shown { progress, names: &names, pace: &pace, rates: &rates }.lines(columns)
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
}
