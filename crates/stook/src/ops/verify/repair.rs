//! Repairing a copy from a good one: of what its own lists say, and it has not, only that is read
//! and written.
//!
//! A megabyte that a proof shows to be bad is read from the good copy, proven, and written where it
//! belongs: what is good is never touched, so that a kill leaves what was damaged damaged, and
//! nothing worse. A file without a proof, and one that is not there, is replaced as a whole, by the
//! rules of copying, if the good copy has the bytes that the list says.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};

use super::blocks::{Proofs, SourceBytes};
use super::range::blake3_of;
use super::{Error, ListReport, Result, own, reading};
use crate::copy::{CopyEvents, CopyOptions, CopyReport};
use crate::engine::Backend;
use crate::error::chain;
use crate::extent::ByteRange;
use crate::format::proof::{BLOCK_BYTES, Proof};
use crate::hash::Digest;
use crate::ops::copy::CopyGiven;
use crate::ops::given::Given;
use crate::source::{AccessRule, Source, read_range};
use crate::tree::existing::mtime_of;
use crate::tree::outbox::{Calls as _, Durability, System, again, write_all};
use crate::tree::target::{self, Target};
use crate::tree::{Failure, NodeId, Overwrite};
use crate::verify::{
    BadBlocks, Branch, Expected, Finding, Outcome, Progress, Subject, Verify, VerifyEvents, VerifyOptions,
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
    /// Files that were replaced as a whole, or made.
    pub replaced: Vec<Vec<u8>>,
    /// Bytes that were read of the good copy.
    pub read_bytes: u64,
    /// What is not as its list says, still.
    pub failures: Vec<Failure<crate::Error>>,
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
        if !self.dry_run && !damaged.mend_all(&path, &branch, done, go_on) {
            return Ok(false);
        }
        if self.dry_run {
            done.mended.extend(damaged.in_blocks.iter().map(|(key, bad)| (key.clone(), bad.bad)));
        }
        let Some(keys) = damaged.replaceable(&path, &branch, done, go_on)? else { return Ok(false) };
        if keys.is_empty() {
            return Ok(true);
        }
        match self.replace(&path, &keys, good()?, done, go_on) {
            // What was mended is no less so: there is no room, for one.
            Err(error) => {
                let error = crate::Error::io("repair", &path, io::Error::other(chain(&error)));
                done.failures.push(Failure { key: Vec::new(), error });
                Ok(true)
            }
            Ok(goes_on) => Ok(goes_on),
        }
    }

    /// Files as a whole, by the rules of copying: whether to go on.
    fn replace(
        &self,
        path: &Path,
        keys: &[Vec<u8>],
        good: Given,
        done: &mut Repaired,
        go_on: GoOn<'_>,
    ) -> Result<bool> {
        let options = CopyOptions {
            only: Some(keys.iter().cloned().collect::<BTreeSet<_>>()),
            overwrite: Overwrite::Always,
            dry_run: self.dry_run,
            ..self.copying.clone()
        };
        let read_back = !self.dry_run && options.durability != Durability::None;
        let sources = vec![good];
        let copy = CopyGiven { sources, destinations: vec![path.to_path_buf()], options, read_back };
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

/// What is damaged of a destination, by its own lists.
struct Damaged {
    branch: Branch,
    expected: std::sync::Arc<Expected>,
    folders: Vec<NodeId>,
    matching: u64,
    /// Files of which blocks are bad.
    in_blocks: Vec<(Vec<u8>, BadBlocks)>,
    /// Files that are to be replaced.
    whole: Vec<Vec<u8>>,
    /// Lists of which not all could be used.
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
        let branch = Branch::directory(path)?;
        let lists = own::lists_of(&branch)?;
        if lists.lists.is_empty() {
            return Err(Error::NoList(path.to_path_buf()));
        }
        let read = reading::read(&branch, lists.lists, 0, &mut || go_on(&RepairProgress::default()));
        let Some(read) = read else { return Ok(None) };
        let problems = [of_lists(&lists.problems), of_lists(&read.reports)].into_iter().flatten().collect();
        let expected = std::sync::Arc::new(read.expected);
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
            whole: found.missing,
            lists: problems,
        };
        let keys = found.mismatching.into_iter().map(|one| one.key);
        let mut keys: Vec<_> = keys.chain(found.unreadable.into_iter().map(|one| one.key)).collect();
        keys.sort();
        for key in keys {
            let mut progress = RepairProgress::default();
            let mut is_ended = false;
            let bad = damaged.bad_blocks(&key, &mut |bytes| {
                progress.bytes = progress.bytes.saturating_add(bytes);
                is_ended |= !go_on(&progress);
                !is_ended
            });
            match bad {
                _ if is_ended => return Ok(None),
                // Also where the proof is damaged: then nothing but the whole can be proven.
                Ok(Some(bad)) if bad.unknown == 0 && bad.bad < bad.blocks => {
                    damaged.in_blocks.push((key, bad))
                }
                Ok(_) | Err(_) => damaged.whole.push(key),
            }
        }
        Ok(Some(damaged))
    }

    fn proofs(&self) -> Proofs<'_> {
        Proofs { branch: &self.branch, tree: &*self.branch.tree, folders: &self.folders }
    }

    fn digest(&self, key: &[u8]) -> Option<Digest> {
        // Of the newest list alone: what an older one says may have been changed since.
        blake3_of(&self.expected, key)
    }

    fn bad_blocks(&self, key: &[u8], go_on: &mut dyn FnMut(u64) -> bool) -> crate::Result<Option<BadBlocks>> {
        match self.digest(key) {
            Some(digest) => self.proofs().bad_blocks(key, &digest, AccessRule::Direct, go_on),
            None => Ok(None),
        }
    }

    /// Writes the bad blocks of all files that have proofs: whether to go on.
    fn mend_all(&self, path: &Path, good: &Branch, done: &mut Repaired, go_on: GoOn<'_>) -> bool {
        let total = self.in_blocks.iter().map(|(_, bad)| bad.bad.saturating_mul(BLOCK_BYTES)).sum();
        let mut progress = RepairProgress { phase: RepairPhase::Mending, bytes: 0, total_bytes: Some(total) };
        for (key, bad) in &self.in_blocks {
            let mut is_ended = false;
            let mut mend = Mend { damaged: self, path, key, good, read_bytes: 0, written: 0 };
            let mended = mend.run(bad, &mut |bytes| {
                progress.bytes = progress.bytes.saturating_add(bytes);
                is_ended |= !go_on(&progress);
                !is_ended
            });
            done.read_bytes += mend.read_bytes;
            match mended {
                _ if is_ended => return false,
                Ok(()) => done.mended.push((key.clone(), mend.written)),
                Err(error) => {
                    // What was written is good now.
                    done.mended.extend((mend.written > 0).then(|| (key.clone(), mend.written)));
                    done.failures.push(Failure { key: key.clone(), error });
                }
            }
        }
        true
    }

    /// Those of the files that are to be replaced that the good copy has as their lists say: a
    /// failure for each other one. `None` if `go_on` ended it.
    fn replaceable(
        &self,
        path: &Path,
        good: &Branch,
        done: &mut Repaired,
        go_on: GoOn<'_>,
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let mut wanted = Expected::builder();
        for entry in self.whole.iter().filter_map(|key| self.expected.find(key)) {
            wanted.add(entry.path(), 0, None, &entry.digests());
        }
        let wanted = wanted.finish();
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
        let mut keys = self.whole.clone();
        keys.retain(|key| {
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
        Ok(Some(keys))
    }
}

/// A file of which bad blocks are written.
struct Mend<'a> {
    damaged: &'a Damaged,
    path: &'a Path,
    key: &'a [u8],
    good: &'a Branch,
    /// Bytes that were read of the good copy.
    read_bytes: u64,
    /// Blocks that were written.
    written: u64,
}

impl Mend<'_> {
    /// Writes the bad blocks, and reads the file back. Of very many only the first thousand ranges
    /// are known at once. A block that the good copy does not have either costs only itself.
    fn run(&mut self, bad: &BadBlocks, go_on: &mut dyn FnMut(u64) -> bool) -> crate::Result<()> {
        self.write(bad, go_on)?;
        let mut before = bad.bad;
        loop {
            match self.damaged.bad_blocks(self.key, &mut |_| go_on(0))? {
                Some(bad) if bad.bad == 0 && bad.unknown == 0 && bad.ranges.is_empty() => return Ok(()),
                Some(bad) if bad.bad < before && bad.unknown == 0 => {
                    before = bad.bad;
                    self.write(&bad, go_on)?;
                }
                _ => return Err(self.refused("what is read back from it is not what was written")),
            }
        }
    }

    fn shown(&self) -> PathBuf {
        self.path.join(OsStr::from_bytes(self.key))
    }

    fn refused(&self, why: &str) -> crate::Error {
        crate::Error::io("repair", self.shown(), io::Error::other(why.to_owned()))
    }

    fn write(&mut self, bad: &BadBlocks, go_on: &mut dyn FnMut(u64) -> bool) -> crate::Result<()> {
        let shown = self.shown();
        let failed = |operation| {
            let shown = shown.clone();
            move |error| crate::Error::io(operation, &shown, error)
        };
        let mut proof = self.proof()?;
        let id = self.good.find(self.key)?.ok_or_else(|| self.refused("the good copy has no such file"))?;
        let from = self.good.tree.open(id)?;
        let file = open(self.path, self.key).map_err(failed("open"))?;
        let before = fstat(&file).map_err(|error| failed("look at")(error.into()))?;
        let mut lacking = None;
        // What is beyond the end begins within a block.
        let ranges = bad.ranges.iter().filter(|range| range.start().is_multiple_of(BLOCK_BYTES));
        for number in ranges.flat_map(numbers_of) {
            let Some(range) = proof.range_of(number) else { continue };
            let block = match block_of(&*from, range) {
                Ok(block) => block,
                // Damaged there, too.
                Err(error) => {
                    lacking.get_or_insert((range, Some(error)));
                    continue;
                }
            };
            self.read_bytes += block.len() as u64;
            let is_proven = proof.has(number, &block).map_err(|error| self.refused(&error.to_string()))?;
            if !is_proven {
                lacking.get_or_insert((range, None));
                continue;
            }
            write_all(&System, &file, &block, range.start()).map_err(failed("write"))?;
            self.written += 1;
            if !go_on(block.len() as u64) {
                return Err(failed("repair")(io::ErrorKind::Interrupted.into()));
            }
        }
        // Only now is it known what the end of the file is.
        if u64::try_from(before.st_size).is_ok_and(|len| len > proof.file_len()) {
            again(|| System.set_len(&file, proof.file_len())).map_err(failed("set the length of"))?;
        }
        // Its bytes are those of the good copy again, and so is its time: a write that was killed
        // left another one.
        let time_ns = self.good.tree.node(id)?.mtime_ns.filter(|_| lacking.is_none());
        if let Some(ns) = time_ns.or_else(|| i64::try_from(mtime_of(&before)).ok()) {
            again(|| System.set_mtime(file.as_fd(), ns)).map_err(failed("set the time of"))?;
        }
        System.sync(file.as_fd()).map_err(failed("sync"))?;
        let Some((range, why)) = lacking else { return Ok(()) };
        let (start, end) = (range.start() / BLOCK_BYTES, range.end().div_ceil(BLOCK_BYTES));
        let why = why.map(|error| format!(": {}", chain(&error))).unwrap_or_default();
        Err(self.refused(&format!(
            "the good copy does not have the bytes that the list says in {start}MiB..{end}MiB{why}"
        )))
    }

    fn proof(&self) -> crate::Result<Proof<SourceBytes>> {
        let digest = self.damaged.digest(self.key);
        let digest = digest.ok_or_else(|| self.refused("its list has no BLAKE3 of it"))?;
        let proof = self.damaged.proofs().find(&digest)?.ok_or_else(|| self.refused("its proof is gone"))?;
        let value = <[u8; 32]>::try_from(digest.value.as_slice()).unwrap_or_default();
        let len = proof.len();
        Proof::open(SourceBytes::new(proof)?, len, value).map_err(|error| self.refused(&error.to_string()))
    }
}

/// A file of a destination, to be written in place: no link is followed below it.
fn open(path: &Path, key: &[u8]) -> io::Result<File> {
    let refused = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
    let parts = target::parts(key).map_err(refused)?;
    let (name, parents) = parts.split_last().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = Target::at(path)?.existing(parents)?.ok_or(io::ErrorKind::NotFound)?;
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(&*parent, *name, flags, Mode::empty())?);
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// The numbers of the blocks in which a range lies.
fn numbers_of(range: &ByteRange) -> std::ops::Range<u64> {
    range.start() / BLOCK_BYTES..range.end().div_ceil(BLOCK_BYTES)
}

/// A block of the good copy; shorter where that ends within it.
fn block_of(from: &dyn Source, range: ByteRange) -> crate::Result<bytes::Bytes> {
    let end = range.end().min(from.len());
    let Some(range) = ByteRange::new(range.start(), end) else { return Ok(bytes::Bytes::new()) };
    read_range(&Backend::Auto, from, range, AccessRule::Auto.decide(from, range))
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
