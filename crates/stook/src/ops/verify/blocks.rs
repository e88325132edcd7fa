//! Which blocks of a damaged file are bad: by the proof beside its list, from which each block is
//! verified by itself.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::range::{blocks_of, out_of_bounds};
use crate::engine::{Access, Backend};
use crate::error::{Result, chain};
use crate::extent::ByteRange;
use crate::format::proof::{BLOCK_BYTES, Proof, ProofBytes, ProofError};
use crate::format::sums;
use crate::hash::{Digest, HashKind};
use crate::source::{AccessRule, Session, SessionOptions, Source, read_range};
use crate::tree::{NodeId, Tree};
use crate::verify::{BadBlocks, Branch};

/// Blocks that are read at once.
const DEPTH: u64 = 4;

/// Ranges that are named of one file, at most.
const RANGES_MAX: usize = 1000;

/// Where the proofs of a tree are.
pub(super) struct Proofs<'b> {
    /// The tree whose files these are of.
    pub(super) branch: &'b Branch,
    /// The tree that they are in.
    pub(super) tree: &'b dyn Tree,
    /// The directories that they are in.
    pub(super) folders: &'b [NodeId],
}

impl Proofs<'_> {
    /// The proofs of a file with this digest, the newest first.
    fn all<'p>(&'p self, digest: &Digest) -> impl Iterator<Item = Result<Arc<dyn Source>>> + use<'p> {
        let name = sums::proof_name(digest);
        self.folders.iter().filter_map(move |folder| {
            let found = self.tree.lookup(*folder, name.as_bytes());
            found.and_then(|id| id.map(|id| self.tree.open(id)).transpose()).transpose()
        })
    }

    /// Verifies the proof of a file with this digest, if there is one: it is damaged, or not.
    ///
    /// # Errors
    /// That it is, or cannot be read.
    pub(super) fn check(&self, key: &[u8], digest: &Digest, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let Some((path, mut proof)) = self.open(digest)? else { return Ok(()) };
        proof.check(go_on).map_err(|error| unusable(&path, error))?;
        // What cannot be opened is found elsewhere.
        let file = self.branch.find(key).ok().flatten().and_then(|id| self.branch.tree.open(id).ok());
        file.map_or(Ok(()), |file| check_len(&path, &mut proof, &*file))
    }

    /// Verifies with a good copy of a file that its proof says its length right.
    ///
    /// # Errors
    /// That it does not, or cannot be read.
    pub(super) fn check_len(&self, digest: &Digest, good: &dyn Source) -> Result<()> {
        match self.open(digest)? {
            Some((path, mut proof)) => check_len(&path, &mut proof, good),
            None => Ok(()),
        }
    }

    /// The proof of the file with this digest, and where it is; `None` where there is none. Of
    /// several it is the newest that can be used.
    pub(super) fn open(&self, digest: &Digest) -> Result<Option<(PathBuf, Proof<SourceBytes>)>> {
        let value = <[u8; 32]>::try_from(digest.value.as_slice()).ok();
        let Some(value) = value.filter(|_| digest.kind == HashKind::Blake3) else { return Ok(None) };
        let mut first = None;
        for proof in self.all(digest) {
            let opened = proof.and_then(|proof| {
                let (path, len) = (proof.path().to_path_buf(), proof.len());
                let opened = Proof::open(SourceBytes::new(proof)?, len, value);
                Ok((path.clone(), opened.map_err(|error| unusable(&path, error))?))
            });
            match opened {
                Ok(opened) => return Ok(Some(opened)),
                Err(error) => _ = first.get_or_insert(error),
            }
        }
        first.map_or(Ok(None), Err)
    }

    /// The bad blocks of a file that should have this digest; `None` where it has no proof, and
    /// where it cannot be opened itself, which is found elsewhere.
    ///
    /// # Errors
    /// That the proof cannot be used, or `go_on`, which is asked for each block, ended it.
    pub(super) fn bad_blocks(
        &self,
        key: &[u8],
        digest: &Digest,
        rule: AccessRule,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<BadBlocks>> {
        let file = self.branch.find(key).ok().flatten().map(|id| self.branch.tree.open(id));
        if !matches!(file, Some(Ok(_))) {
            return Ok(None);
        }
        let found = self.bad_in(key, digest, rule, (0, None), go_on)?;
        Ok(found.map(|found| found.bad))
    }

    /// The same of the blocks in which a part of a file lies, and where these are.
    ///
    /// # Errors
    /// As [`bad_blocks`](Self::bad_blocks); that the part reaches past the end of the file.
    pub(super) fn bad_in(
        &self,
        key: &[u8],
        digest: &Digest,
        rule: AccessRule,
        (start, end): (u64, Option<u64>),
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Part>> {
        let Some((path, mut proof)) = self.open(digest)? else { return Ok(None) };
        let Some(id) = self.branch.find(key)? else { return Ok(None) };
        let file = self.branch.tree.open(id)?;
        check_len(&path, &mut proof, &*file)?;
        let len = proof.file_len();
        let other_len = Some(len).filter(|len| *len != file.len());
        let is_beyond = start >= len && start < file.len() && end.is_none_or(|end| start < end);
        if is_beyond {
            // The list knows no such bytes.
            let range = ByteRange::new(start, end.unwrap_or(file.len()).min(file.len()));
            let ranges = range.into_iter().collect();
            let bad = BadBlocks { ranges, ..BadBlocks::default() };
            return Ok(range.map(|read| Part { read, bad, other_len }));
        }
        let (longest, reaches_on) = (len.max(file.len()), end.is_none_or(|end| end > len));
        let end = end.map(|end| if end <= longest { end.min(len) } else { end });
        let Some(numbers) = blocks_of(start, end, len) else {
            return Err(out_of_bounds((start, end), file.path(), len));
        };
        let (first, last) = (numbers.start, numbers.end.saturating_sub(1));
        let to_end = reaches_on && numbers.end == proof.blocks();
        let read = proof.range_of(first).zip(proof.range_of(last));
        let read = read.and_then(|(first, last)| ByteRange::new(first.start(), last.end()));
        let mut search = Search { file: &*file, proof, rule, bad: BadBlocks::default() };
        search.run(numbers, to_end, go_on)?;
        Ok(read.map(|read| Part { read, bad: search.bad, other_len }))
    }
}

/// What was found of a part of a file.
pub(super) struct Part {
    /// The blocks that were read.
    pub(super) read: ByteRange,
    pub(super) bad: BadBlocks,
    /// The length that the file should have, where it has another.
    pub(super) other_len: Option<u64>,
}

/// A search for bad blocks.
struct Search<'f> {
    file: &'f dyn Source,
    proof: Proof<SourceBytes>,
    rule: AccessRule,
    bad: BadBlocks,
}

impl Search<'_> {
    fn run(&mut self, numbers: Range<u64>, to_end: bool, go_on: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        let options = SessionOptions { max_read_bytes: BLOCK_BYTES as usize, ..SessionOptions::default() };
        let mut session = Session::new(&Backend::Auto, options)?;
        let access = self.rule.decide(self.file, ByteRange::to(self.file.len()));
        self.bad.blocks = numbers.end.saturating_sub(numbers.start);
        let there = self.there(&numbers);
        // What the file does not have is bad: as one range, because a proof may say any length.
        let beyond = self.proof.range_of(there.end).zip(self.proof.range_of(numbers.end.saturating_sub(1)));
        if let Some((first, last)) = beyond.filter(|_| there.end < numbers.end) {
            self.bad.bad += numbers.end - there.end;
            self.bad.ranges.extend(ByteRange::new(first.start(), last.end()));
        }
        let (mut asked, mut due) = (there.start, there.start);
        while due < there.end {
            while asked < there.end && asked < due + DEPTH {
                let range = self.proof.range_of(asked).unwrap_or(ByteRange::to(0));
                session.submit(asked, self.file, range, access)?;
                asked += 1;
            }
            let Some((number, read)) = session.next() else { continue };
            due += 1;
            // What cannot be read is bad.
            let is_good = match &read {
                Ok(bytes) => self.proof.has(number, bytes),
                Err(error) => {
                    self.bad.read_error.get_or_insert_with(|| chain(error));
                    Ok(false)
                }
            };
            match is_good {
                Ok(true) => {}
                Ok(false) => self.add(number),
                Err(_) => self.bad.unknown += 1,
            }
            if !go_on(read.map_or(0, |bytes| bytes.len() as u64)) {
                return Err(crate::Error::io("read", self.file.path(), io::ErrorKind::Interrupted.into()));
            }
        }
        let more = ByteRange::new(self.proof.file_len(), self.file.len());
        if let Some(more) = more.filter(|more| to_end && !more.is_empty()) {
            self.bad.ranges.push(more);
        }
        self.bad.settle(RANGES_MAX);
        Ok(())
    }

    /// Those of these blocks that the file has all bytes of.
    fn there(&self, numbers: &Range<u64>) -> Range<u64> {
        let is_whole = self.file.len() >= self.proof.file_len();
        let end = if is_whole { numbers.end } else { self.file.len() / BLOCK_BYTES };
        numbers.start..end.clamp(numbers.start, numbers.end)
    }

    fn add(&mut self, number: u64) {
        self.bad.bad += 1;
        self.bad.ranges.extend(self.proof.range_of(number));
        // In order but for what was in flight: most of them touch.
        if self.bad.ranges.len() > 2 * RANGES_MAX {
            self.bad.settle(RANGES_MAX);
        }
    }
}

/// Verifies that a proof says the length of a file right, if its bytes show that.
fn check_len(path: &Path, proof: &mut Proof<SourceBytes>, file: &dyn Source) -> Result<()> {
    let Some(part) = proof.doubtful(file.len()) else { return Ok(()) };
    let read = read_range(&Backend::Auto, file, part, AccessRule::Auto.decide(file, part));
    // What cannot be read shows nothing, and neither does a part of the proof that is damaged: both
    // are found where they are looked for.
    match read.map(|bytes| proof.check_len(part, &bytes)) {
        Ok(Err(error @ ProofError::FileLen { .. })) => Err(unusable(path, error)),
        _ => Ok(()),
    }
}

fn unusable(path: &Path, error: ProofError) -> crate::Error {
    crate::Error::io("use", path, io::Error::other(error))
}

/// Bytes of a proof that are read at once: what stands beside one pair is mostly asked for next.
const WINDOW_BYTES: u64 = 64 << 10;

/// The bytes of a proof that lies in a tree.
pub(super) struct SourceBytes {
    session: Session,
    source: Arc<dyn Source>,
    /// What was read last, and where it begins.
    window: (u64, Bytes),
}

impl SourceBytes {
    pub(super) fn new(source: Arc<dyn Source>) -> Result<Self> {
        let session =
            Session::new(&Backend::Threads, SessionOptions { depth: 1, ..SessionOptions::default() })?;
        Ok(Self { session, source, window: (0, Bytes::new()) })
    }
}

impl ProofBytes for SourceBytes {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let wanted = ByteRange::at(offset, buffer.len() as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        if self.held().is_none_or(|held| held.intersection(&wanted) != Some(wanted)) {
            let start = offset / WINDOW_BYTES * WINDOW_BYTES;
            let end = wanted.end().max(start.saturating_add(WINDOW_BYTES)).min(self.source.len());
            let range = ByteRange::new(start, end).ok_or(io::ErrorKind::UnexpectedEof)?;
            let submitted = self.session.submit(0, &*self.source, range, Access::Cached);
            submitted.map_err(io::Error::other)?;
            let (_, read) = self.session.next().ok_or(io::ErrorKind::UnexpectedEof)?;
            self.window = (start, read.map_err(io::Error::other)?);
        }
        let from = usize::try_from(offset.saturating_sub(self.window.0)).unwrap_or(usize::MAX);
        let found = self.window.1.get(from..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl SourceBytes {
    fn held(&self) -> Option<ByteRange> {
        ByteRange::at(self.window.0, self.window.1.len() as u64)
    }
}
