//! Reading back: [`verify`](crate::verify) of what a copy wrote, against what it read.

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::copy::{Failure, ReadAgain, ReadBack};
use crate::hash::Digest;
use crate::verify::{
    Branch, Expected, ExpectedBuilder, Progress, Subject, SubjectReport, Verify, VerifyEvents, VerifyReport,
};

/// What each destination got. Of each file its path, its digests and some forty bytes are kept.
#[derive(Debug)]
pub(super) struct WrittenFiles {
    destinations: Vec<Mutex<Noted>>,
}

/// The files of one destination.
#[derive(Debug, Default)]
struct Noted {
    files: ExpectedBuilder,
    /// How many were noted: of a file that is written twice the last one counts.
    number: i64,
}

impl WrittenFiles {
    pub(super) fn new(destinations: usize) -> Self {
        Self { destinations: (0..destinations).map(|_| Mutex::default()).collect() }
    }

    fn noted(&self, destination: usize) -> Option<MutexGuard<'_, Noted>> {
        let noted = self.destinations.get(destination)?;
        Some(noted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ReadBack for WrittenFiles {
    fn note(&self, destination: usize, key: &[u8], len: u64, digests: &[Digest]) {
        let Some(mut noted) = self.noted(destination) else { return };
        noted.number += 1;
        let number = noted.number;
        // One suffices.
        let one = digests.get(..1).unwrap_or_default();
        noted.files.add(key, number, Some(len), one);
    }

    fn read(
        &self,
        destination: usize,
        path: &Path,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> (ReadAgain, Vec<Failure>) {
        let noted = self.noted(destination).map(|mut noted| std::mem::take(&mut noted.files));
        let expected = noted.unwrap_or_default().finish();
        if expected.is_empty() {
            return Default::default();
        }
        match verify(expected, path, go_on) {
            Ok(report) => found(report, path),
            Err(error) => {
                let error = crate::Error::io("read back", path, io::Error::other(error));
                (ReadAgain::default(), vec![Failure { key: Vec::new(), error }])
            }
        }
    }
}

fn verify(
    expected: Expected,
    path: &Path,
    go_on: &mut dyn FnMut(u64, u64) -> bool,
) -> crate::verify::Result<VerifyReport> {
    let subject = Subject { only_listed: true, ..Subject::new(Branch::directory(path)?).listed(expected) };
    Verify::new(vec![subject]).run(&mut GoOn(go_on))
}

struct GoOn<'a>(&'a mut dyn FnMut(u64, u64) -> bool);

impl VerifyEvents for GoOn<'_> {
    fn go_on(&mut self, progress: &Progress) -> bool {
        let total_bytes = progress.total_bytes.unwrap_or(0);
        (self.0)(if progress.total_bytes.is_some() { progress.bytes } else { 0 }, total_bytes)
    }
}

/// What is said of it, and what is not as it was read.
fn found(report: VerifyReport, path: &Path) -> (ReadAgain, Vec<Failure>) {
    let interrupted = report.interrupted;
    let subject = report.subjects.into_iter().next().unwrap_or_default();
    let is_past_cache = subject.is_past_cache();
    let SubjectReport { matching, read_bytes, mismatching, missing, unreadable, .. } = subject;
    let failure = |key: &[u8], why: String| {
        let place = path.join(std::os::unix::ffi::OsStrExt::from_bytes(key) as &std::ffi::OsStr);
        Failure { key: key.to_vec(), error: crate::Error::io("read back", place, io::Error::other(why)) }
    };
    let others = mismatching.iter().map(|one| {
        let why = format!("it does not have the bytes that were copied: {}", one.difference);
        failure(&one.key, why)
    });
    let gone = missing.iter().map(|key| failure(key, "it is not there any more".into()));
    let lost = unreadable.into_iter().map(|one| Failure { key: one.key, error: one.error });
    let failures = others.chain(gone).collect::<Vec<_>>().into_iter().chain(lost).collect();
    let read =
        ReadAgain { files: matching, bytes: read_bytes, is_past_cache, interrupted, ..ReadAgain::default() };
    (read, failures)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::hash::HashKind;

    #[test]
    fn what_is_not_as_it_was_noted_last_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let written = WrittenFiles::new(2);
        let note = |key: &str, bytes: &str| {
            written.note(
                1,
                key.as_bytes(),
                bytes.len() as u64,
                &[Digest::of(HashKind::Xxh128, bytes.as_bytes())],
            );
        };
        for name in ["same", "other", "short", "again", "not noted"] {
            fs::write(directory.path().join(name), "bytes").unwrap();
        }
        fs::create_dir(directory.path().join("directory")).unwrap();
        note("same", "bytes");
        note("other", "bytez");
        note("short", "bytes and more");
        note("again", "what it had first");
        note("again", "bytes");
        note("gone", "bytes");
        note("directory", "bytes");
        let mut asked = 0;
        let mut go_on = |_: u64, _: u64| {
            asked += 1;
            true
        };
        let (read, failures) = written.read(1, directory.path(), &mut go_on);
        assert_eq!((read.files, read.interrupted), (2, false));
        let keys: Vec<&[u8]> = failures.iter().map(|failure| failure.key.as_slice()).collect();
        assert_eq!(keys, [&b"directory"[..], b"other", b"short", b"gone"]);
        for Failure { error, .. } in &failures {
            let why = crate::error::chain(error);
            assert!(why.starts_with("cannot read back "), "{why}");
        }
        assert!(asked > 0);
        // Nothing was noted of the other one, and it is noted once.
        assert_eq!(written.read(0, directory.path(), &mut |_, _| true).0, ReadAgain::default());
        assert_eq!(written.read(1, directory.path(), &mut |_, _| true).0, ReadAgain::default());
        note("same", "bytes");
        let gone = directory.path().join("gone");
        let (read, failures) = written.read(1, &gone, &mut |_, _| true);
        assert_eq!((read.files, failures.len()), (0, 1));
    }
}
