//! [`ReadBack`]: files that got their names are read again, from the medium, before a mirror
//! deletes anything.
//!
//! Who reads them is the caller's: this only says what was written, and takes what was found.

use std::fmt::Debug;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::destination::Receiver;
use super::report::Failure;
use super::run::Run;
use crate::hash::Digest;

/// Reads files of destinations again.
pub trait ReadBack: Debug + Send + Sync {
    /// A file has its name in a destination, and these are the digests of what was read of its
    /// source. One that is written again has those of the last call.
    fn note(&self, destination: usize, key: &[u8], len: u64, digests: &[Digest]);

    /// Reads what was noted of a destination. `go_on` is asked now and then, with the bytes that
    /// were read so far and those that are to be read; if it says `false`, that is the end.
    fn read(
        &self,
        destination: usize,
        path: &Path,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> (ReadAgain, Vec<Failure>);
}

/// What was read again of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadAgain {
    /// Files that have the bytes that were read of their sources.
    pub files: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Whether all of them came past the page cache, from the medium; `None` where nothing was
    /// read.
    pub is_past_cache: Option<bool>,
    /// Whether it was ended before all was read.
    pub interrupted: bool,
    /// How long it took: the time of the copy is without it.
    pub elapsed: Duration,
}

/// How far reading again is, over all destinations.
#[derive(Debug, Default)]
pub(super) struct ReadingAgain {
    running: AtomicUsize,
    bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl ReadingAgain {
    /// Bytes so far and in all, while something is read again.
    pub(super) fn progress(&self) -> Option<(u64, u64)> {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (self.running.load(Ordering::Relaxed) > 0).then(|| (of(&self.bytes), of(&self.total_bytes)))
    }
}

impl Run<'_> {
    /// Reads again what all destinations got, at once. That is no time of the copy.
    pub(super) fn read_back(&self) {
        thread::scope(|scope| {
            for receiver in self.receivers.iter().filter(|receiver| receiver.read_back.is_some()) {
                scope.spawn(move || self.read_back_one(receiver));
            }
        });
    }

    /// What is found is a failure of the destination, and a mirror deletes nothing then.
    fn read_back_one(&self, receiver: &Receiver) {
        let Some(reading) = receiver.read_back.as_ref().filter(|_| !self.options.dry_run) else { return };
        if self.is_stopped() || receiver.is_stopped() {
            return;
        }
        self.again.running.fetch_add(1, Ordering::Relaxed);
        let mut counted = (0, 0);
        let mut go_on = |bytes: u64, total_bytes: u64| {
            self.again.bytes.fetch_add(bytes.saturating_sub(counted.0), Ordering::Relaxed);
            self.again.total_bytes.fetch_add(total_bytes.saturating_sub(counted.1), Ordering::Relaxed);
            counted = (counted.0.max(bytes), counted.1.max(total_bytes));
            !self.is_stopped()
        };
        let started = Instant::now();
        let (read, failures) = reading.read(receiver.index, &receiver.path, &mut go_on);
        self.again.running.fetch_sub(1, Ordering::Relaxed);
        receiver.state().report.read_again = Some(ReadAgain { elapsed: started.elapsed(), ..read });
        for Failure { key, error } in failures {
            // It says nothing of writing.
            receiver.fail_reading(&key, error);
        }
    }
}
