//! Lists of what is there: made from the digests that were computed while it was verified.

use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::blocks::file_name;
use super::{Error, Result};
use crate::format::{list_date, sums};
use crate::hash::HashKind;
use crate::tree::outbox::{Calls as _, System};
use crate::tree::target::Target;
use crate::tree::{Draft, Failure};
use crate::verify::{Branch, Expected, ExpectedBuilder, Finding, Outcome, Progress, VerifyEvents};

/// Names that are tried, if lists of the same second are there.
const NAMES_MAX: u32 = 1000;

/// Bytes of a list that are written at once.
const BLOCK_BYTES: usize = 256 << 10;

/// A list that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeList {
    /// Which tree it is of, by its position.
    pub subject: usize,
    /// The list.
    pub path: PathBuf,
    /// The hash function.
    pub kind: HashKind,
    /// Files in it.
    pub files: u64,
}

/// Proofs that were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeProofs {
    /// Which tree they are of, by its position.
    pub subject: usize,
    /// The directory.
    pub path: PathBuf,
    /// Files that have one.
    pub files: u64,
}

/// The directory on disk that the list of a tree is made in.
pub(super) fn place_of(branch: &Branch) -> Result<PathBuf> {
    let path = branch.lies_in.as_ref().filter(|_| branch.is_on_disk);
    let directory = path.map(|path| if path.is_dir() { Some(path.as_path()) } else { path.parent() });
    let directory = directory.flatten().map(Path::to_path_buf);
    directory.ok_or_else(|| Error::NoPlace(branch.path()))
}

/// Hears what is found, keeps the digests of what is as it should be, and passes all on.
pub(super) struct Making<'e> {
    /// The directory, and what is known of its files, for each tree; none if no list is made.
    trees: Vec<(PathBuf, ExpectedBuilder)>,
    kinds: Vec<HashKind>,
    /// The date in the names of what is made.
    date: String,
    proofs: Vec<MadeProofs>,
    failures: Vec<Failure<crate::Error>>,
    events: &'e mut dyn VerifyEvents,
}

impl VerifyEvents for Making<'_> {
    fn go_on(&mut self, progress: &Progress) -> bool {
        self.events.go_on(progress)
    }

    fn found(&mut self, finding: &Finding) {
        let is_good = matches!(finding.outcome, Outcome::Matches | Outcome::New);
        if let Some((_, builder)) = self.trees.get_mut(finding.subject).filter(|_| is_good) {
            let wanted = finding.digests.iter().filter(|digest| self.kinds.contains(&digest.kind));
            let wanted: Vec<_> = wanted.cloned().collect();
            if !wanted.is_empty() {
                builder.add(&finding.key, 0, None, &wanted);
            }
            if let Some(proof) = &finding.proof {
                self.prove(finding, proof);
            }
        }
        self.events.found(finding);
    }
}

impl<'e> Making<'e> {
    pub(super) fn new(places: Vec<PathBuf>, kinds: Vec<HashKind>, events: &'e mut dyn VerifyEvents) -> Self {
        let trees = places.into_iter().map(|place| (place, Expected::builder())).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ns = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        let date = list_date(now_ns).unwrap_or_default();
        Self { trees, kinds, date, proofs: Vec::new(), failures: Vec::new(), events }
    }

    /// Writes the proof of a file.
    fn prove(&mut self, finding: &Finding, proof: &[u8]) {
        let digest = finding.digests.iter().find(|digest| digest.kind == HashKind::Blake3);
        let (Some((place, _)), Some(digest)) = (self.trees.get(finding.subject), digest) else { return };
        let path = place.join(sums::proofs_name(&self.date));
        let is_first = !self.proofs.iter().any(|one| one.subject == finding.subject);
        match write_proof(place, &path, &file_name(digest), proof, is_first) {
            Ok(()) => {}
            // Two files with the same bytes.
            Err(error) if is_taken(&error) => {}
            Err(error) => return self.failures.push(Failure { key: finding.key.clone(), error }),
        }
        match self.proofs.iter_mut().find(|one| one.subject == finding.subject) {
            Some(one) => one.files += 1,
            None => self.proofs.push(MadeProofs { subject: finding.subject, path, files: 1 }),
        }
    }

    /// Makes the lists: which were made, and which could not be. A tree without a file gets none.
    pub(super) fn finish(self) -> (Vec<MadeList>, Vec<MadeProofs>, Vec<Failure<crate::Error>>) {
        let (mut made, mut failures, date) = (Vec::new(), self.failures, self.date);
        for (subject, (place, builder)) in self.trees.into_iter().enumerate() {
            let expected = builder.finish();
            for kind in self.kinds.iter().filter(|_| !expected.is_empty()) {
                match make(&place, *kind, &date, &expected) {
                    Ok(path) => {
                        made.push(MadeList { subject, path, kind: *kind, files: expected.len() as u64 });
                    }
                    Err(error) => failures.push(Failure { key: Vec::new(), error }),
                }
            }
        }
        (made, self.proofs, failures)
    }
}

/// Makes a list under a name that nothing has.
fn make(place: &Path, kind: HashKind, date: &str, expected: &Expected) -> crate::Result<PathBuf> {
    let mut number = 1;
    loop {
        let name = sums::list_name(kind, date, number);
        match write(place, &name, kind, expected) {
            Err(error) if is_taken(&error) && number < NAMES_MAX => number += 1,
            written => return written.map(|()| place.join(name)),
        }
    }
}

/// Writes a proof, the first one into a directory that is made for it, durable before it is used.
fn write_proof(place: &Path, path: &Path, name: &str, proof: &[u8], is_first: bool) -> crate::Result<()> {
    if is_first {
        let made = || -> std::io::Result<()> {
            let mut target = Target::at(place)?;
            target.directory(&[path.file_name().unwrap_or_default()])?;
            System.sync(target.root().as_fd())
        };
        made().map_err(|error| crate::Error::io("make", path, error))?;
    }
    let mut draft = Draft::new_in(path, OsStr::new(name))?;
    draft.write(proof)?;
    draft.finish()
}

fn is_taken(error: &crate::Error) -> bool {
    error.io_kind() == Some(std::io::ErrorKind::AlreadyExists)
}

fn write(place: &Path, name: &str, kind: HashKind, expected: &Expected) -> crate::Result<()> {
    let mut draft = Draft::new_in(place, OsStr::new(name))?;
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    for entry in expected.iter() {
        let digests = entry.digests();
        let Some(digest) = digests.iter().find(|digest| digest.kind == kind) else { continue };
        block.extend(sums::line(digest, entry.path()));
        if block.len() >= BLOCK_BYTES {
            draft.write(&block)?;
            block.clear();
        }
    }
    draft.write(&block)?;
    draft.finish()
}
