//! Repairing a copy from a good one: of what its own lists say, and it has not, only that is read
//! and written.
//!
//! A megabyte that a proof shows to be bad is read from the good copy, proven, and written where it
//! belongs: what is good is never touched, so that a kill leaves what was damaged damaged, and
//! nothing worse. A file without a proof, and one that is not there, is replaced as a whole, by the
//! rules of copying, if the good copy has the bytes that the list says.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};

use super::blocks::{Proofs, SourceBytes};
use super::{Error, Result, own, reading};
use crate::copy::{CopyOptions, CopyReport};
use crate::engine::Backend;
use crate::extent::ByteRange;
use crate::format::proof::{BLOCK_BYTES, Proof};
use crate::hash::{Digest, HashKind};
use crate::ops::copy::CopyGiven;
use crate::ops::given::OpenGiven;
use crate::source::{AccessRule, Source, read_range};
use crate::tree::existing::mtime_of;
use crate::tree::outbox::{Calls as _, System, again};
use crate::tree::target::{self, Target};
use crate::tree::{Failure, NodeId, Overwrite};
use crate::verify::{
    BadBlocks, Branch, Expected, Finding, Outcome, Progress, Subject, Verify, VerifyEvents, VerifyOptions,
};

/// What is repaired, and from what.
#[derive(Debug, Clone)]
pub struct RepairGiven {
    /// The good copy: any tree.
    pub good: PathBuf,
    /// How it is opened.
    pub open: OpenGiven,
    /// Directories on disk with lists of their own.
    pub destinations: Vec<PathBuf>,
    /// Nothing is written: the report says what would be.
    pub dry_run: bool,
}

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
    /// Repairs. `go_on` is asked now and then, with the bytes that were read.
    ///
    /// # Errors
    /// What cannot be opened, and a destination without a list.
    pub fn run(&self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<RepairReport> {
        let mut report = RepairReport::default();
        for path in &self.destinations {
            let Some(damaged) = Damaged::find(path, go_on)? else {
                report.interrupted = true;
                break;
            };
            report.destinations.push(self.repair(path, damaged, go_on)?);
        }
        Ok(report)
    }

    fn repair(&self, path: &Path, damaged: Damaged, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Repaired> {
        let (good, _) = self.open.open(&self.good, &mut |_| true)?.into_branch()?;
        let mut done =
            Repaired { path: path.to_path_buf(), matching: damaged.matching, ..Repaired::default() };
        let mut whole = damaged.whole.clone();
        for (key, bad) in &damaged.in_blocks {
            match damaged.mend(path, (key, bad), &good, self.dry_run, &mut done.read_bytes, go_on) {
                Ok(blocks) => done.mended.push((key.clone(), blocks)),
                Err(error) => done.failures.push(Failure { key: key.clone(), error }),
            }
        }
        let listed = whole_of(&good, &damaged.expected, &whole, &mut done.read_bytes, go_on)?;
        whole.retain(|key| {
            let is_good = listed.contains(key);
            if !is_good {
                let why = io::Error::other("the good copy does not have the bytes that the list says");
                let error = crate::Error::io("repair", path.join(std::ffi::OsStr::from_bytes(key)), why);
                done.failures.push(Failure { key: key.clone(), error });
            }
            is_good
        });
        if !whole.is_empty() {
            self.replace(path, &whole, &mut done)?;
        }
        Ok(done)
    }

    /// Files as a whole, by the rules of copying.
    fn replace(&self, path: &Path, keys: &[Vec<u8>], done: &mut Repaired) -> Result<()> {
        let options = CopyOptions {
            only: Some(keys.iter().cloned().collect::<BTreeSet<_>>()),
            overwrite: Overwrite::Always,
            dry_run: self.dry_run,
            ..CopyOptions::default()
        };
        let sources = vec![self.open.open(&self.good, &mut |_| true)?];
        let copy =
            CopyGiven { sources, destinations: vec![path.to_path_buf()], options, read_back: !self.dry_run };
        let CopyReport { destinations, failures, .. } = copy.run(&mut ())?;
        let failures = destinations.into_iter().flat_map(|one| one.failures).chain(failures);
        let failures: Vec<_> = failures.map(|one| Failure { key: one.key, error: one.error }).collect();
        let has_failed = |key: &Vec<u8>| failures.iter().any(|failure| failure.key == *key);
        done.replaced.extend(keys.iter().filter(|key| !has_failed(key)).cloned());
        done.failures.extend(failures);
        Ok(())
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
}

impl Damaged {
    /// Verifies a destination; `None` if `go_on` ended it.
    fn find(path: &Path, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Option<Self>> {
        let branch = Branch::directory(path)?;
        let lists = own::lists_of(&branch)?;
        if lists.lists.is_empty() {
            return Err(Error::NoList(path.to_path_buf()));
        }
        let Some(read) = reading::read(&branch, lists.lists, 0, &mut || go_on(0)) else { return Ok(None) };
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
        };
        let keys = found.mismatching.into_iter().map(|one| one.key);
        for key in keys.chain(found.unreadable.into_iter().map(|one| one.key)) {
            match damaged.bad_blocks(&key, go_on) {
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
        Proofs { branch: &self.branch, folders: &self.folders }
    }

    fn digest(&self, key: &[u8]) -> Option<Digest> {
        let digests = self.expected.find(key)?.digests();
        digests.into_iter().find(|digest| digest.kind == HashKind::Blake3)
    }

    fn bad_blocks(&self, key: &[u8], go_on: &mut dyn FnMut(u64) -> bool) -> crate::Result<Option<BadBlocks>> {
        match self.digest(key) {
            Some(digest) => self.proofs().bad_blocks(key, &digest, AccessRule::Direct, go_on),
            None => Ok(None),
        }
    }

    /// Writes the bad blocks of a file: how many.
    fn mend(
        &self,
        path: &Path,
        (key, bad): (&[u8], &BadBlocks),
        good: &Branch,
        dry_run: bool,
        read_bytes: &mut u64,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> crate::Result<u64> {
        let shown = path.join(std::ffi::OsStr::from_bytes(key));
        let failed = |operation| {
            let shown = shown.clone();
            move |error| crate::Error::io(operation, &shown, error)
        };
        let refused = |why: &str| failed("repair")(io::Error::other(why.to_owned()));
        if dry_run {
            return Ok(bad.bad);
        }
        let digest = self.digest(key).ok_or_else(|| refused("its list has no BLAKE3 of it"))?;
        let proof = self.proofs().find(&digest)?.ok_or_else(|| refused("its proof is gone"))?;
        let value = <[u8; 32]>::try_from(digest.value.as_slice()).unwrap_or_default();
        let len = proof.len();
        let mut proof = Proof::open(SourceBytes::new(proof)?, len, value)
            .map_err(|error| failed("repair")(io::Error::other(error)))?;
        let id = good.find(key)?.ok_or_else(|| refused("the good copy has no such file"))?;
        let from = good.tree.open(id)?;
        let file = open(path, key).map_err(failed("open"))?;
        let before = fstat(&file).map_err(|error| failed("look at")(error.into()))?;
        let mut written = 0;
        // What is beyond the end begins within a block.
        let ranges = bad.ranges.iter().filter(|range| range.start().is_multiple_of(BLOCK_BYTES));
        for number in ranges.flat_map(numbers_of) {
            let Some(range) = proof.range_of(number) else { continue };
            let block = block_of(&*from, range)?;
            *read_bytes += block.len() as u64;
            let is_proven =
                proof.has(number, &block).map_err(|error| failed("repair")(io::Error::other(error)))?;
            if !is_proven {
                let why =
                    format!("the good copy does not have the bytes that the list says at {}", range.start());
                return Err(refused(&why));
            }
            crate::tree::outbox::write_all(&System, &file, &block, range.start()).map_err(failed("write"))?;
            written += 1;
            if !go_on(block.len() as u64) {
                return Err(failed("repair")(io::ErrorKind::Interrupted.into()));
            }
        }
        // Only now is it known what the end of the file is.
        if u64::try_from(before.st_size).is_ok_and(|len| len > proof.file_len()) {
            again(|| System.set_len(&file, proof.file_len())).map_err(failed("set the length of"))?;
        }
        if let Ok(ns) = i64::try_from(mtime_of(&before)) {
            again(|| System.set_mtime(file.as_fd(), ns)).map_err(failed("set the time of"))?;
        }
        System.sync(file.as_fd()).map_err(failed("sync"))?;
        match self.bad_blocks(key, go_on)? {
            Some(bad) if bad.bad == 0 && bad.unknown == 0 && bad.ranges.is_empty() => Ok(written),
            _ => Err(refused("what is read back from it is not what was written")),
        }
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

/// Which of these files a tree has with the bytes that lists say.
fn whole_of(
    good: &Branch,
    expected: &Expected,
    keys: &[Vec<u8>],
    read_bytes: &mut u64,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<BTreeSet<Vec<u8>>> {
    let mut wanted = Expected::builder();
    for entry in keys.iter().filter_map(|key| expected.find(key)) {
        wanted.add(entry.path(), 0, None, &entry.digests());
    }
    let wanted = wanted.finish();
    if wanted.is_empty() {
        return Ok(BTreeSet::new());
    }
    let subject = Subject { only_listed: true, ..Subject::new(good.clone()).listed(wanted) };
    let mut events = Matching { go_on, keys: BTreeSet::new() };
    let options = VerifyOptions { cached: true, ..VerifyOptions::default() };
    let report = Verify::new(vec![subject]).with_options(options).run(&mut events)?;
    *read_bytes += report.subjects.iter().map(|one| one.read_bytes).sum::<u64>();
    Ok(events.keys)
}

struct Asking<'a>(&'a mut dyn FnMut(u64) -> bool);

impl VerifyEvents for Asking<'_> {
    fn go_on(&mut self, progress: &Progress) -> bool {
        (self.0)(progress.bytes)
    }
}

/// Keeps what matches.
struct Matching<'a> {
    go_on: &'a mut dyn FnMut(u64) -> bool,
    keys: BTreeSet<Vec<u8>>,
}

impl VerifyEvents for Matching<'_> {
    fn go_on(&mut self, progress: &Progress) -> bool {
        (self.go_on)(progress.bytes)
    }

    fn found(&mut self, finding: &Finding) {
        if matches!(finding.outcome, Outcome::Matches) {
            self.keys.insert(finding.key.clone());
        }
    }
}
