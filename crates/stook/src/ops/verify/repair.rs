//! Repairing a copy from a good one: of what its own lists say, and it has not, only that is read
//! and written.
//!
//! A megabyte that a proof shows to be bad is read from the good copy, proven, and written where it
//! belongs: what is good is never touched, so that a kill leaves what was damaged damaged, and
//! nothing worse. A file without a proof, and one that is not there, is replaced as a whole, by the
//! rules of copying, if the good copy has the bytes that the list says.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::above::Above;
use super::blocks::Proofs;
use super::mend::{Mend, Seen, may_write};
use super::range::blake3_of;
use super::{Error, ListReport, Result, own, reading};
use crate::copy::{CopyEvents, CopyOptions, CopyReport};
use crate::error::chain;
use crate::format::now_ns;
use crate::format::proof::BLOCK_BYTES;
use crate::hash::Digest;
use crate::ops::copy::CopyGiven;
use crate::ops::given::Given;
use crate::source::AccessRule;
use crate::tree::{Failure, NodeId, Overwrite};
use crate::verify::{
    BadBlocks, Branch, Expected, Finding, Outcome, Progress, Subject, Unreadable, Verify, VerifyEvents,
    VerifyOptions,
};

/// What is repaired.
#[derive(Debug, Clone)]
pub struct RepairGiven {
    /// Directories on disk with lists of their own.
    pub destinations: Vec<PathBuf>,
    /// Nothing is written: the report says what would be.
    pub dry_run: bool,
    /// How files are copied that are replaced as a whole: durability, attributes, speed. What is
    /// copied, and what is replaced, is decided here.
    pub copying: CopyOptions,
}

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RepairPhase {
    /// A destination is verified.
    #[default]
    Verifying,
    /// Bad blocks are read of the good copy, and written.
    Mending,
    /// Files are verified in the good copy, and replaced as a whole.
    Replacing,
}

impl RepairPhase {
    /// It in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verifying => "verifying",
            Self::Mending => "mending",
            Self::Replacing => "replacing",
        }
    }
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RepairProgress {
    /// What is being done.
    pub phase: RepairPhase,
    /// Bytes that were read in it.
    pub bytes: u64,
    /// Bytes that it will read, once that is known.
    pub total_bytes: Option<u64>,
}

/// Asked now and then whether to go on.
pub type GoOn<'a> = &'a mut dyn FnMut(&RepairProgress) -> bool;

/// Opens the good copy, which any tree may be: once for what is mended, once for what is replaced.
pub type OpenGood<'a, E> = &'a mut dyn FnMut() -> Result<Given, E>;

/// What was repaired.
#[derive(Debug, Default)]
pub struct RepairReport {
    /// Each destination.
    pub destinations: Vec<Repaired>,
    /// Whether the caller ended it.
    pub interrupted: bool,
}

/// What was repaired of a destination.
#[derive(Debug, Default)]
pub struct Repaired {
    /// The directory.
    pub path: PathBuf,
    /// Files that are as their lists say.
    pub matching: u64,
    /// Files of which blocks were written, by their paths, with how many it were.
    pub mended: Vec<(Vec<u8>, u64)>,
    /// Files that had bytes at the end that their list does not know, with how many were cut off.
    pub cut: Vec<(Vec<u8>, u64)>,
    /// Files that were replaced as a whole, or made.
    pub replaced: Vec<Vec<u8>>,
    /// Bytes that were read of the good copy.
    pub read_bytes: u64,
    /// What is not as its list says, still.
    pub failures: Vec<Failure<crate::Error>>,
}

/// What became of the files of a destination, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RepairCounts {
    /// Files that are repaired.
    pub repaired: u64,
    /// Files that are not, or not yet whole.
    pub unrepaired: u64,
    /// Lists and proofs that cannot be used.
    pub unusable: u64,
    /// Failures that are of no single file: the medium is full, for one.
    pub others: u64,
}

impl Repaired {
    /// How many files are repaired, and how many are not.
    pub fn counts(&self) -> RepairCounts {
        // Those of lists and proofs say so.
        let is_unusable = |error: &crate::Error| matches!(error, crate::Error::Io { operation: "use", .. });
        let (mut counts, mut failed) = (RepairCounts::default(), BTreeSet::new());
        for Failure { key, error } in &self.failures {
            match key.is_empty() {
                _ if is_unusable(error) => counts.unusable += 1,
                true => counts.others += 1,
                false => _ = failed.insert(key.as_slice()),
            }
        }
        let done = self.mended.iter().map(|(key, _)| key).chain(&self.replaced);
        let done: BTreeSet<&[u8]> = done.map(Vec::as_slice).collect();
        counts.repaired = done.difference(&failed).count() as u64;
        counts.unrepaired = failed.len() as u64;
        counts
    }
}

impl RepairReport {
    /// How much is not as it should be.
    pub fn undone(&self) -> u64 {
        self.destinations.iter().map(|one| one.failures.len() as u64).sum()
    }
}

impl RepairGiven {
    /// Repairs from a good copy.
    ///
    /// # Errors
    /// What cannot be opened, and a destination without a list.
    pub fn run<E: From<Error>>(&self, good: OpenGood<'_, E>, go_on: GoOn<'_>) -> Result<RepairReport, E> {
        let mut report = RepairReport::default();
        // That there is no good copy is said before a disk is read for an hour.
        good()?;
        for path in &self.destinations {
            check_has_lists(path)?;
        }
        for path in &self.destinations {
            let Some(mut damaged) = Damaged::find(path, go_on)? else {
                report.interrupted = true;
                break;
            };
            let mut done =
                Repaired { path: path.to_path_buf(), matching: damaged.matching, ..Repaired::default() };
            done.failures.append(&mut damaged.lists);
            let goes_on = self.repair(&damaged, &mut done, good, go_on)?;
            done.replaced.sort();
            report.destinations.push(done);
            if !goes_on {
                report.interrupted = true;
                break;
            }
        }
        Ok(report)
    }

    /// Whether to go on.
    fn repair<E: From<Error>>(
        &self,
        damaged: &Damaged,
        done: &mut Repaired,
        good: OpenGood<'_, E>,
        go_on: GoOn<'_>,
    ) -> Result<bool, E> {
        if damaged.in_blocks.is_empty() && damaged.whole.is_empty() {
            return Ok(true);
        }
        let (branch, _) = good()?.into_branch().map_err(Error::from)?;
        let path = done.path.clone();
        let (in_blocks, whole) = damaged.by_manner(&branch, done);
        if !self.mend_all((damaged, in_blocks), &branch, done, go_on) {
            return Ok(false);
        }
        let Some(keys) = damaged.replaceable(&path, whole, &branch, done, go_on)? else { return Ok(false) };
        // Where nothing was, nothing is replaced that somebody made meanwhile.
        let (missing, there): (Vec<_>, Vec<_>) = keys.into_iter().partition(|(_, seen)| seen.is_none());
        for (keys, overwrite) in [(missing, Overwrite::Never), (there, Overwrite::Always)] {
            let keys = self.unchanged(&path, keys, done);
            if keys.is_empty() {
                continue;
            }
            match self.replace(&path, (&keys, overwrite), good()?, done, go_on) {
                // What was mended is no less so: there is no room, for one.
                Err(error) => {
                    let error = crate::Error::io("repair", &path, io::Error::other(chain(&error)));
                    done.failures.push(Failure { key: Vec::new(), error });
                }
                Ok(true) => {}
                Ok(false) => return Ok(false),
            }
        }
        if self.dry_run { Ok(true) } else { Ok(damaged.verify_again(done, go_on)?) }
    }

    /// Writes the bad blocks of all files that have proofs: whether to go on.
    fn mend_all(
        &self,
        (damaged, in_blocks): (&Damaged, Vec<&InBlocks>),
        good: &Branch,
        done: &mut Repaired,
        go_on: GoOn<'_>,
    ) -> bool {
        let total = in_blocks.iter().map(|(_, bad, _)| bad.bad.saturating_mul(BLOCK_BYTES)).sum();
        let mut progress = RepairProgress { phase: RepairPhase::Mending, bytes: 0, total_bytes: Some(total) };
        let path = done.path.clone();
        for (key, bad, seen) in in_blocks {
            let mut is_ended = false;
            let (force, dry_run) = (self.copying.force, self.dry_run);
            let (path, seen, read_bytes, written, cut_bytes) = (&*path, *seen, 0, 0, 0);
            let mut mend =
                Mend { damaged, path, key, seen, good, force, dry_run, read_bytes, written, cut_bytes };
            let mended = mend.run(bad, &mut |bytes| {
                progress.bytes = progress.bytes.saturating_add(bytes);
                is_ended |= !go_on(&progress);
                !is_ended
            });
            done.read_bytes += mend.read_bytes;
            match mended {
                _ if is_ended => return false,
                Ok(()) => {
                    let blocks = if dry_run { bad.bad } else { mend.written };
                    done.mended.push((key.clone(), blocks));
                }
                Err(error) => {
                    // What was written is good now.
                    done.mended.extend((mend.written > 0).then(|| (key.clone(), mend.written)));
                    done.failures.push(Failure { key: key.clone(), error });
                }
            }
            if mend.cut_bytes > 0 {
                done.cut.push((key.clone(), mend.cut_bytes));
            }
        }
        true
    }

    /// Those of these files that are what they were when they were found damaged: a failure for
    /// each other one.
    fn unchanged(&self, path: &Path, keys: Vec<Whole>, done: &mut Repaired) -> Vec<Vec<u8>> {
        let mut unchanged = Vec::with_capacity(keys.len());
        for (key, seen) in keys {
            let why = match Seen::at(path, &key) {
                Ok(now) if now == seen => {
                    unchanged.push(key);
                    continue;
                }
                Ok(_) => io::Error::other("it was changed since it was verified"),
                Err(error) => error,
            };
            let error = crate::Error::io("repair", path.join(OsStr::from_bytes(&key)), why);
            done.failures.push(Failure { key, error });
        }
        unchanged
    }

    /// Files as a whole, by the rules of copying: whether to go on.
    fn replace(
        &self,
        path: &Path,
        (keys, overwrite): (&[Vec<u8>], Overwrite),
        good: Given,
        done: &mut Repaired,
        go_on: GoOn<'_>,
    ) -> Result<bool> {
        let options = CopyOptions {
            only: Some(keys.iter().cloned().collect::<BTreeSet<_>>()),
            overwrite,
            keep_directories: true,
            dry_run: self.dry_run,
            ..self.copying.clone()
        };
        let sources = vec![good];
        let copy = CopyGiven { sources, destinations: vec![path.to_path_buf()], options, read_back: false };
        let CopyReport { destinations, failures, interrupted, .. } = copy.run(&mut Asking(go_on))?;
        let failures = destinations.into_iter().flat_map(|one| one.failures).chain(failures);
        let failures: Vec<_> = failures.map(|one| Failure { key: one.key, error: one.error }).collect();
        let has_failed = |key: &Vec<u8>| failures.iter().any(|failure| failure.key == *key);
        if !interrupted {
            done.replaced.extend(keys.iter().filter(|key| !has_failed(key)).cloned());
        }
        done.failures.extend(failures);
        Ok(!interrupted)
    }
}

/// Returns an error where a destination has no lists of its own. Where those above have it, it says
/// so: that is what can be repaired.
fn check_has_lists(path: &Path) -> Result<()> {
    let is_directory = path.is_dir();
    let branch = if is_directory { Branch::directory(path)? } else { Branch::file(path)? };
    if is_directory && !own::lists_of(&branch)?.lists.is_empty() {
        return Ok(());
    }
    match Above::listing(&branch, 0, &mut || true)? {
        Some((above, ..)) => Err(Error::NotWhole { path: path.to_path_buf(), above: above.branch.path() }),
        None => Err(Error::NoList(path.to_path_buf())),
    }
}

/// A file that is to be replaced as a whole, and what is there.
type Whole = (Vec<u8>, Option<Seen>);

/// A file of which blocks are bad, these, and what it was then.
type InBlocks = (Vec<u8>, BadBlocks, Seen);

/// What is damaged of a destination, by its own lists.
pub(super) struct Damaged {
    branch: Branch,
    expected: Arc<Expected>,
    folders: Vec<NodeId>,
    matching: u64,
    /// Files of which blocks are bad.
    in_blocks: Vec<InBlocks>,
    /// Files that are to be replaced, and what is there.
    whole: Vec<Whole>,
    /// Lists and proofs of which not all could be used, and what was changed meanwhile.
    lists: Vec<Failure<crate::Error>>,
}

/// What is wrong with lists, as failures.
fn of_lists(reports: &[ListReport]) -> Vec<Failure<crate::Error>> {
    let bad = reports.iter().filter(|list| list.bad_lines > 0);
    let of = |list: &ListReport| {
        let what =
            list.problems.first().map_or_else(|| "it has bad lines".to_owned(), |one| one.what.clone());
        let error = crate::Error::io("use", &list.path, io::Error::other(what));
        Failure { key: list.path.file_name().unwrap_or_default().as_bytes().to_vec(), error }
    };
    bad.map(of).collect()
}

impl Damaged {
    /// Verifies a destination; `None` if `go_on` ended it.
    fn find(path: &Path, go_on: GoOn<'_>) -> Result<Option<Self>> {
        let started_ns = i128::from(now_ns());
        let branch = Branch::directory(path)?;
        let lists = own::lists_of(&branch)?;
        if lists.lists.is_empty() {
            return Err(Error::NoList(path.to_path_buf()));
        }
        let read = reading::vouched(&branch, lists.lists, &mut || go_on(&RepairProgress::default()));
        let Some(read) = read else { return Ok(None) };
        let problems = [of_lists(&lists.problems), of_lists(&read.reports)].into_iter().flatten().collect();
        let expected = Arc::new(read.expected);
        let problems: Vec<Failure<crate::Error>> = problems;
        if expected.is_empty() && problems.is_empty() {
            return Err(Error::EmptyList(path.to_path_buf()));
        }
        let subject = Subject { only_listed: true, ..Subject::new(branch.clone()).listed(expected.clone()) };
        let report = Verify::new(vec![subject]).run(&mut Asking(go_on))?;
        if report.interrupted {
            return Ok(None);
        }
        let found = report.subjects.into_iter().next().unwrap_or_default();
        let mut damaged = Self {
            branch,
            expected,
            folders: lists.proofs,
            matching: found.matching,
            in_blocks: Vec::new(),
            whole: Vec::new(),
            lists: problems,
        };
        if !damaged.check_proofs(go_on) {
            return Ok(None);
        }
        let keys = found.mismatching.into_iter().map(|one| (one.key, true));
        // What this user may not read is not known to be damaged.
        let is_barred = |one: &Unreadable| one.error.io_kind() == Some(io::ErrorKind::PermissionDenied);
        let (barred, unreadable): (Vec<_>, Vec<_>) = found.unreadable.into_iter().partition(is_barred);
        damaged.lists.extend(barred.into_iter().map(|one| Failure { key: one.key, error: one.error }));
        let unreadable = unreadable.into_iter().map(|one| (one.key, true));
        let missing = found.missing.into_iter().map(|key| (key, false));
        let mut keys: Vec<_> = keys.chain(unreadable).chain(missing).collect();
        keys.sort();
        Ok(damaged.sort_out(keys, started_ns, go_on).then_some(damaged))
    }

    /// Finds out how each of these files is repaired, of which some were there when they were
    /// verified: whether to go on.
    fn sort_out(&mut self, keys: Vec<(Vec<u8>, bool)>, started_ns: i128, go_on: GoOn<'_>) -> bool {
        let path = self.branch.path();
        for (key, was_there) in keys {
            let seen = match Seen::at(&path, &key) {
                Ok(seen) if seen.is_some() == was_there => seen,
                // It is looked at again when it is written.
                Err(_) => None,
                Ok(_) => {
                    self.fail(&key, "it was changed while it was verified");
                    continue;
                }
            };
            if seen.is_some_and(|seen| seen.ctime_ns > started_ns) {
                self.fail(&key, "it was changed while it was verified");
                continue;
            }
            let mut progress = RepairProgress::default();
            let mut is_ended = false;
            let bad = match seen {
                None => Ok(None),
                Some(_) => self.bad_blocks(&key, &mut |bytes| {
                    progress.bytes = progress.bytes.saturating_add(bytes);
                    is_ended |= !go_on(&progress);
                    !is_ended
                }),
            };
            match (bad, seen) {
                _ if is_ended => return false,
                // Where nothing is bad, another digest of the list is not that of the file. Also
                // where the proof is damaged nothing but the whole can be proven.
                (Ok(Some(bad)), Some(seen))
                    if bad.unknown == 0 && bad.bad < bad.blocks && !bad.ranges.is_empty() =>
                {
                    self.in_blocks.push((key, bad, seen));
                }
                (_, seen) => self.whole.push((key, seen)),
            }
        }
        true
    }

    fn fail(&mut self, key: &[u8], why: &str) {
        let path = self.branch.path().join(OsStr::from_bytes(key));
        let error = crate::Error::io("repair", path, io::Error::other(why.to_owned()));
        self.lists.push(Failure { key: key.to_vec(), error });
    }

    /// Verifies the proofs, which no good copy has: whether to go on.
    fn check_proofs(&mut self, go_on: GoOn<'_>) -> bool {
        let (mut seen, mut failed) = (BTreeSet::new(), Vec::new());
        for entry in self.expected.iter() {
            let Some(digest) = blake3_of(&self.expected, entry.path()) else { continue };
            if !seen.insert(digest.value.clone()) {
                continue;
            }
            let mut is_ended = false;
            let checked = self.proofs().check(entry.path(), &digest, &mut || {
                is_ended |= !go_on(&RepairProgress::default());
                !is_ended
            });
            if is_ended {
                return false;
            }
            failed.extend(checked.err().map(|error| Failure { key: entry.path().to_vec(), error }));
        }
        self.lists.extend(failed);
        true
    }

    /// Verifies what was written, by all that the lists say of it: whether to go on.
    fn verify_again(&self, done: &mut Repaired, go_on: GoOn<'_>) -> Result<bool> {
        let keys: BTreeSet<Vec<u8>> =
            done.mended.iter().map(|(key, _)| key).chain(&done.replaced).cloned().collect();
        let wanted = self.expected.among(|path| keys.contains(path));
        if wanted.is_empty() {
            return Ok(true);
        }
        let mut events = Matching { asking: Asking(go_on), keys: BTreeSet::new() };
        let subject = Subject { only_listed: true, ..Subject::new(self.branch.clone()).listed(wanted) };
        let report = Verify::new(vec![subject]).run(&mut events)?;
        if report.interrupted {
            return Ok(false);
        }
        let is_failed = |key: &[u8]| done.failures.iter().any(|failure| failure.key == key);
        let wrong: Vec<Vec<u8>> =
            keys.into_iter().filter(|key| !events.keys.contains(key) && !is_failed(key)).collect();
        done.replaced.retain(|key| !wrong.contains(key));
        for key in wrong {
            let why = "what is read back is not what the list says: the good copy, or this one, was changed meanwhile";
            let error =
                crate::Error::io("repair", done.path.join(OsStr::from_bytes(&key)), io::Error::other(why));
            done.failures.push(Failure { key, error });
        }
        Ok(true)
    }

    pub(super) fn proofs(&self) -> Proofs<'_> {
        Proofs { branch: &self.branch, tree: &*self.branch.tree, folders: &self.folders }
    }

    pub(super) fn digest(&self, key: &[u8]) -> Option<Digest> {
        // Of the newest list alone: what an older one says may have been changed since.
        blake3_of(&self.expected, key)
    }

    pub(super) fn bad_blocks(
        &self,
        key: &[u8],
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> crate::Result<Option<BadBlocks>> {
        match self.digest(key) {
            Some(digest) => self.proofs().bad_blocks(key, &digest, AccessRule::Direct, go_on),
            None => Ok(None),
        }
    }

    /// The files of which blocks are written, and those that are replaced as a whole: also what has
    /// a proof that says another length than the good copy shows.
    fn by_manner(&self, good: &Branch, done: &mut Repaired) -> (Vec<&InBlocks>, Vec<Whole>) {
        let (mut in_blocks, mut whole) = (Vec::with_capacity(self.in_blocks.len()), self.whole.clone());
        for file in &self.in_blocks {
            let (key, _, seen) = file;
            let good = good.find(key).ok().flatten().and_then(|id| good.tree.open(id).ok());
            let checked = match (self.digest(key), good) {
                (Some(digest), Some(good)) => self.proofs().check_len(&digest, &*good),
                _ => Ok(()),
            };
            match checked {
                // What may not be written, but replaced, is replaced as a whole.
                Ok(()) if !may_write(&self.branch.path(), key) => whole.push((key.clone(), Some(*seen))),
                Ok(()) => in_blocks.push(file),
                Err(error) => {
                    done.failures.push(Failure { key: key.clone(), error });
                    whole.push((key.clone(), Some(*seen)));
                }
            }
        }
        (in_blocks, whole)
    }

    /// Those of the files that are to be replaced that the good copy has as their lists say: a
    /// failure for each other one. `None` if `go_on` ended it.
    fn replaceable(
        &self,
        path: &Path,
        mut whole: Vec<Whole>,
        good: &Branch,
        done: &mut Repaired,
        go_on: GoOn<'_>,
    ) -> Result<Option<Vec<Whole>>> {
        // All that the newest lists say has to hold, as when a tree is verified.
        let keys: BTreeSet<&[u8]> = whole.iter().map(|(key, _)| key.as_slice()).collect();
        let wanted = self.expected.among(|path| keys.contains(path));
        let mut events = Matching { asking: Asking(go_on), keys: BTreeSet::new() };
        if !wanted.is_empty() {
            let subject = Subject { only_listed: true, ..Subject::new(good.clone()).listed(wanted) };
            let options = VerifyOptions { cached: true, ..VerifyOptions::default() };
            let report = Verify::new(vec![subject]).with_options(options).run(&mut events)?;
            done.read_bytes += report.subjects.iter().map(|one| one.read_bytes).sum::<u64>();
            if report.interrupted {
                return Ok(None);
            }
        }
        whole.retain(|(key, _)| {
            let is_good = events.keys.contains(key);
            if !is_good {
                let is_there = matches!(good.find(key), Ok(Some(_)));
                let why = match is_there {
                    true => "the good copy does not have the bytes that the list says",
                    false => "the good copy has no such file",
                };
                let why = io::Error::other(why);
                let error = crate::Error::io("repair", path.join(OsStr::from_bytes(key)), why);
                done.failures.push(Failure { key: key.clone(), error });
            }
            is_good
        });
        Ok(Some(whole))
    }
}

/// Passes the progress of verifying and of copying on.
struct Asking<'a>(GoOn<'a>);

impl VerifyEvents for Asking<'_> {
    fn go_on(&mut self, progress: &Progress) -> bool {
        let total_bytes = progress.total_bytes;
        // While they are counted, these are bytes that were found.
        let bytes = if total_bytes.is_some() { progress.bytes } else { 0 };
        (self.0)(&RepairProgress { phase: RepairPhase::Verifying, bytes, total_bytes })
    }
}

impl CopyEvents for Asking<'_> {
    fn go_on(&mut self, progress: &crate::copy::Progress) -> bool {
        let (bytes, total_bytes) = (progress.bytes, progress.total_bytes);
        (self.0)(&RepairProgress { phase: RepairPhase::Replacing, bytes, total_bytes })
    }
}

/// Keeps what matches.
struct Matching<'a> {
    asking: Asking<'a>,
    keys: BTreeSet<Vec<u8>>,
}

impl VerifyEvents for Matching<'_> {
    fn go_on(&mut self, progress: &Progress) -> bool {
        VerifyEvents::go_on(&mut self.asking, progress)
    }

    fn found(&mut self, finding: &Finding) {
        if matches!(finding.outcome, Outcome::Matches) {
            self.keys.insert(finding.key.clone());
        }
    }
}
