//! Which blocks of a damaged file are bad: by the proof beside its list, from which each block is
//! verified by itself.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::range::blocks_of;
use crate::engine::{Access, Backend};
use crate::error::Result;
use crate::extent::ByteRange;
use crate::format::proof::{BLOCK_BYTES, Proof, ProofBytes, ProofError};
use crate::format::sums;
use crate::hash::{Digest, HashKind};
use crate::source::{AccessRule, Session, SessionOptions, Source};
use crate::tree::NodeId;
use crate::verify::{BadBlocks, Branch};

/// Blocks that are read at once.
const DEPTH: u64 = 4;

/// Ranges that are named of one file, at most.
const RANGES_MAX: usize = 1000;

/// Where the proofs of a tree are.
pub(super) struct Proofs<'b> {
    pub(super) branch: &'b Branch,
    pub(super) folders: &'b [NodeId],
}

impl Proofs<'_> {
    /// The proof of a file with this digest, if there is one.
    pub(super) fn find(&self, digest: &Digest) -> Result<Option<Arc<dyn Source>>> {
        let name = sums::proof_name(digest);
        for folder in self.folders {
            if let Some(id) = self.branch.tree.lookup(*folder, name.as_bytes())? {
                return self.branch.tree.open(id).map(Some);
            }
        }
        Ok(None)
    }

    /// The bad blocks of a file that should have this digest; `None` where it has no proof.
    ///
    /// # Errors
    /// That the proof, or the file, cannot be opened, or `go_on`, which is asked for each block,
    /// ended it.
    pub(super) fn bad_blocks(
        &self,
        key: &[u8],
        digest: &Digest,
        rule: AccessRule,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<BadBlocks>> {
        let found = self.bad_in(key, digest, rule, (0, None), go_on)?;
        Ok(found.map(|(_, bad)| bad))
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
    ) -> Result<Option<(ByteRange, BadBlocks)>> {
        let value = <[u8; 32]>::try_from(digest.value.as_slice()).ok();
        let Some(value) = value.filter(|_| digest.kind == HashKind::Blake3) else { return Ok(None) };
        let Some(proof) = self.find(digest)? else { return Ok(None) };
        let path = proof.path().to_path_buf();
        let damaged = |error: ProofError| crate::Error::io("use", &path, io::Error::other(error));
        let (len, bytes) = (proof.len(), SourceBytes::new(proof)?);
        let proof = Proof::open(bytes, len, value).map_err(damaged)?;
        let Some(id) = self.branch.find(key)? else { return Ok(None) };
        let file = self.branch.tree.open(id)?;
        let len = proof.file_len();
        let Some(numbers) = blocks_of(start, end, len) else {
            let range = ByteRange::to(end.unwrap_or(start.saturating_add(1)));
            return Err(crate::Error::OutOfBounds { range, path: file.path().to_path_buf(), len });
        };
        let (first, last) = (numbers.start, numbers.end.saturating_sub(1));
        let is_all = first == 0 && numbers.end == proof.blocks();
        let read = proof.range_of(first).zip(proof.range_of(last));
        let read = read.and_then(|(first, last)| ByteRange::new(first.start(), last.end()));
        let mut search = Search { file: &*file, proof, rule, bad: BadBlocks::default() };
        search.run(numbers, is_all, go_on)?;
        Ok(read.map(|read| (read, search.bad)))
    }
}

/// A search for bad blocks.
struct Search<'f> {
    file: &'f dyn Source,
    proof: Proof<SourceBytes>,
    rule: AccessRule,
    bad: BadBlocks,
}

impl Search<'_> {
    fn run(&mut self, numbers: Range<u64>, is_all: bool, go_on: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        let options = SessionOptions { max_read_bytes: BLOCK_BYTES as usize, ..SessionOptions::default() };
        let mut session = Session::new(&Backend::Auto, options)?;
        let access = self.rule.decide(self.file, ByteRange::to(self.file.len()));
        self.bad.blocks = numbers.end.saturating_sub(numbers.start);
        let (mut asked, mut due) = (numbers.start, numbers.start);
        while due < numbers.end {
            while asked < numbers.end && asked < due + DEPTH {
                match self.proof.range_of(asked).filter(|range| range.end() <= self.file.len()) {
                    Some(range) => session.submit(asked, self.file, range, access)?,
                    // What the file does not have is bad.
                    None => {
                        self.add(asked);
                        due += 1;
                    }
                }
                asked += 1;
            }
            let Some((number, read)) = session.next() else { continue };
            due += 1;
            // What cannot be read is bad.
            let is_good = match &read {
                Ok(bytes) => self.proof.has(number, bytes),
                Err(_) => Ok(false),
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
        if let Some(more) = more.filter(|more| is_all && !more.is_empty()) {
            self.bad.ranges.push(more);
        }
        self.bad.settle(RANGES_MAX);
        Ok(())
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

/// The bytes of a proof that lies in a tree.
pub(super) struct SourceBytes {
    session: Session,
    source: Arc<dyn Source>,
}

impl SourceBytes {
    pub(super) fn new(source: Arc<dyn Source>) -> Result<Self> {
        let session =
            Session::new(&Backend::Threads, SessionOptions { depth: 1, ..SessionOptions::default() })?;
        Ok(Self { session, source })
    }
}

impl ProofBytes for SourceBytes {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(buffer.len() as u64);
        let range = ByteRange::new(offset, end).ok_or(io::ErrorKind::UnexpectedEof)?;
        let submitted = self.session.submit(0, &*self.source, range, Access::Cached);
        submitted.map_err(io::Error::other)?;
        let (_, read) = self.session.next().ok_or(io::ErrorKind::UnexpectedEof)?;
        let read = read.map_err(io::Error::other)?;
        if read.len() != buffer.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.copy_from_slice(&read);
        Ok(())
    }
}
