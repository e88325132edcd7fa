//! What a terminal shows while trees are verified.

use std::time::Instant;

use stook::report::units;
use stook::verify::{Phase, Progress, VerifyEvents};

use crate::bar::{FilesDone, Pace, counting};
use crate::context::Context;
use crate::interrupt::interrupted;
use crate::progress::Lines;

/// Shows how far it is.
pub(super) struct Events {
    lines: Lines,
    pace: Pace,
}

impl Events {
    pub(super) fn new(context: &Context) -> Self {
        Self { lines: context.lines(), pace: Pace::new() }
    }

    fn show(&mut self, progress: &Progress) {
        if !self.lines.may_draw() {
            return;
        }
        let Self { lines, pace } = self;
        if progress.phase == Phase::Verifying {
            pace.note(Instant::now(), progress.bytes);
        }
        lines.show(|columns| shown(progress, pace, columns));
    }
}

impl VerifyEvents for Events {
    fn go_on(&mut self, progress: &Progress) -> bool {
        self.show(progress);
        !interrupted()
    }
}

fn shown(progress: &Progress, pace: &Pace, columns: usize) -> Vec<String> {
    let mut lines = match progress.phase {
        Phase::Counting => vec![counting(progress.files, progress.bytes)],
        _ => {
            let done = FilesDone {
                what: "verifying",
                is_reading: true,
                files: progress.files,
                bytes: progress.bytes,
                total_files: progress.total_files,
                total_bytes: progress.total_bytes,
                current: &progress.current,
            };
            pace.lines(&done, columns)
        }
    };
    if progress.wrong > 0 {
        lines.push(format!(
            "{} so far not as they should be",
            units::count_of(progress.wrong, "path", "paths")
        ));
    }
    lines.into_iter().map(|line| crate::bar::cut(&line, columns)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_how_far_it_is_and_how_much_is_wrong_and_fit() {
        let counted = Progress { files: 1234, bytes: 5_000_000, ..Progress::default() };
        assert_eq!(shown(&counted, &Pace::new(), 80), ["counting: 1,234 files, 5.00 MB"]);
        let progress = Progress {
            phase: Phase::Verifying,
            files: 3,
            bytes: 1_000_000,
            total_files: Some(9),
            total_bytes: Some(4_000_000),
            wrong: 2,
            current: b"DCIM/take\n1".to_vec(),
        };
        let lines = shown(&progress, &Pace::new(), 80);
        assert!(
            lines[0].starts_with("verifying [====") && lines[0].ends_with("1.00 MB of 4.00 MB"),
            "{lines:?}"
        );
        assert_eq!(lines[1..], ["3 of 9 files  DCIM/take\\x0a1", "2 paths so far not as they should be"]);
        for columns in [1, 10, 40, 79] {
            let lines = shown(&progress, &Pace::new(), columns);
            assert!(lines.iter().all(|line| line.chars().count() <= columns), "{lines:?}");
        }
    }
}
