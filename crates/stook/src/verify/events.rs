//! [`VerifyEvents`]: what a caller hears while trees are verified, always in its own thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::report::{Extra, Mismatch, SubjectReport, Unreadable};
use crate::hash::Digest;
use crate::tree::Kind;

/// How often progress is reported, at least.
const EVERY: Duration = Duration::from_millis(100);

/// Findings that wait to be reported; a thread that has more waits.
pub(super) const WAITING_MAX: usize = 4096;

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Phase {
    /// What is there is listed: totals are not known yet.
    #[default]
    Counting,
    /// Files are read.
    Verifying,
}

/// How far it has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Files that were read, or that nothing has to be read of; while they are counted, those that
    /// were found.
    pub files: u64,
    /// Bytes that were read, of all trees.
    pub bytes: u64,
    /// Files in all, once they were counted.
    pub total_files: Option<u64>,
    /// Bytes in all.
    pub total_bytes: Option<u64>,
    /// Paths so far that are not as they should be.
    pub wrong: u64,
    /// The file that was read last.
    pub current: Vec<u8>,
}

/// What was found of a path.
#[derive(Debug)]
pub enum Outcome {
    /// It is as it should be.
    Matches,
    /// It is there, and is not as it should be.
    Mismatches(Mismatch),
    /// It is not there, and should be.
    Missing,
    /// It is there, and should not be.
    Extra,
    /// It is not known what is there.
    Unreadable(Unreadable),
    /// No list has it, and digests were asked for.
    New,
}

impl Outcome {
    /// It in one word: `matches`, `mismatches`, `missing`, `extra`, `unreadable` or `new`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Matches => "matches",
            Self::Mismatches(_) => "mismatches",
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Unreadable(_) => "unreadable",
            Self::New => "new",
        }
    }
}

/// A path of a tree, and what was found of it. There is one of each path, but none of a directory
/// that both trees have.
#[derive(Debug)]
pub struct Finding {
    /// Which tree, by its position.
    pub subject: usize,
    /// The path in it.
    pub key: Vec<u8>,
    /// What it is; what it should be, where it is not there.
    pub kind: Kind,
    /// Bytes of it, where it is a file that was read.
    pub len: u64,
    /// What was found.
    pub outcome: Outcome,
    /// What was computed of its bytes, if all of them were read.
    pub digests: Arc<[Digest]>,
    /// The [proof](crate::format::proof) of its parts, if it was asked for, and the file has one.
    pub proof: Option<Arc<[u8]>>,
}

/// Hears what is found. All is called by the thread that runs it.
pub trait VerifyEvents {
    /// How far it is, several times a second. Returning `false` ends it.
    fn go_on(&mut self, _progress: &Progress) -> bool {
        true
    }

    /// What was found of a path.
    fn found(&mut self, _finding: &Finding) {}
}

impl VerifyEvents for () {}

/// Reports until all who find something have ended, and adds it up. `snapshot` is how far it is;
/// `stop` is called once if the caller wants no more.
pub(super) fn report(
    incoming: &Receiver<Finding>,
    events: &mut dyn VerifyEvents,
    reports: &mut [SubjectReport],
    snapshot: &dyn Fn() -> Progress,
    stop: &dyn Fn(),
) {
    let (mut last, mut is_stopped) = (None::<Instant>, false);
    loop {
        let received = incoming.recv_timeout(EVERY);
        let is_over = matches!(received, Err(RecvTimeoutError::Disconnected));
        if let Ok(finding) = received {
            events.found(&finding);
            if let Some(report) = reports.get_mut(finding.subject) {
                add(report, finding);
            }
        }
        if is_over || last.is_none_or(|last| last.elapsed() >= EVERY) {
            last = Some(Instant::now());
            let wrong = reports.iter().map(SubjectReport::wrong).sum();
            if !events.go_on(&Progress { wrong, ..snapshot() }) && !is_stopped {
                is_stopped = true;
                stop();
            }
        }
        if is_over {
            return;
        }
    }
}

/// Counts a path.
fn add(report: &mut SubjectReport, finding: Finding) {
    let Finding { key, kind, len, outcome, .. } = finding;
    match outcome {
        Outcome::Matches => {
            report.matching += 1;
            report.matching_bytes += len;
        }
        Outcome::New => report.new += 1,
        Outcome::Mismatches(mismatch) => report.mismatching.push(mismatch),
        Outcome::Missing => report.missing.push(key),
        Outcome::Extra => report.extra.push(Extra { key, kind }),
        Outcome::Unreadable(unreadable) => report.unreadable.push(unreadable),
    }
}
