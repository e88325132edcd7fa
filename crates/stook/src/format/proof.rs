//! Proofs of parts of files: the tree of BLAKE3 above blocks of 1 MiB, from which each block can be
//! verified by itself against the digest of the file (`docs/formats/proof.md`).
//!
//! The bytes are those of the outboard in post order of the crate `bao-tree`, with groups of 1,024
//! chunks and the length of the file after it.

use blake3::hazmat::ChainingValue;

use crate::extent::ByteRange;
use crate::hash::{BlockTree, Digest, HashKind, Pair, root_of_pair, value_of_block, value_of_pair};
use crate::source::zeroes;

/// The bytes of a block; the last one of a file may have fewer.
pub const BLOCK_BYTES: u64 = 1 << 20;

/// What the two halves of a part take.
const PAIR_BYTES: u64 = 64;
/// What the length takes.
const LEN_BYTES: u64 = 8;

/// Makes a proof while the blocks of a file come.
#[derive(Debug, Default)]
pub struct ProofBuilder {
    tree: BlockTree,
}

impl ProofBuilder {
    /// The next block, which is whole unless it is the last. Bytes of the proof are added to `out`.
    pub fn push(&mut self, block: &[u8], out: &mut Vec<u8>) {
        let offset = self.tree.blocks().saturating_mul(BLOCK_BYTES);
        self.push_value(value_of_block(offset, block), out);
    }

    /// The same of a block that was hashed elsewhere.
    pub(crate) fn push_value(&mut self, value: ChainingValue, out: &mut Vec<u8>) {
        self.tree.push(value, &mut |pair| write_pair(pair, out));
    }

    /// How many blocks came.
    pub(crate) fn blocks(&self) -> u64 {
        self.tree.blocks()
    }

    /// The rest of the proof, and the digest of the file, which has this length; `None` for a file
    /// of one block or none, of which the digest is all that there is.
    pub fn finish(self, file_len: u64, out: &mut Vec<u8>) -> Option<Digest> {
        let digest = self.tree.finish(&mut |pair| write_pair(pair, out))?;
        out.extend_from_slice(&file_len.to_le_bytes());
        Some(digest)
    }
}

/// Makes the proof of a file, and its digest, while its bytes come in any parts.
#[derive(Debug, Default)]
pub(crate) struct ProofHasher {
    builder: ProofBuilder,
    /// The beginning of the next block: a whole one waits until it is known that more follows.
    block: Vec<u8>,
    file_len: u64,
    out: Vec<u8>,
}

impl ProofHasher {
    /// The next bytes.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) {
        self.file_len = self.file_len.saturating_add(bytes.len() as u64);
        while !bytes.is_empty() {
            if self.block.len() as u64 == BLOCK_BYTES {
                self.builder.push(&self.block, &mut self.out);
                self.block.clear();
            }
            let missing = (BLOCK_BYTES as usize).saturating_sub(self.block.len());
            let (now, rest) = bytes.split_at_checked(missing).unwrap_or((bytes, &[]));
            self.block.extend_from_slice(now);
            bytes = rest;
        }
    }

    /// This many zeros of a hole.
    pub(crate) fn take_zeroes(&mut self, mut len: u64) {
        while len > 0 {
            let now = zeroes(len);
            self.take(now);
            len = len.saturating_sub(now.len() as u64);
        }
    }

    /// No more bytes: the digest, and the proof of a file of more than one block.
    pub(crate) fn finish(self) -> (Digest, Option<Vec<u8>>) {
        let Self { mut builder, block, file_len, mut out } = self;
        if builder.blocks() == 0 {
            return (Digest::of(HashKind::Blake3, &block), None);
        }
        builder.push(&block, &mut out);
        match builder.finish(file_len, &mut out) {
            Some(digest) => (digest, Some(out)),
            // Two blocks at least came.
            None => (Digest::of(HashKind::Blake3, &block), None),
        }
    }
}

fn write_pair((left, right): Pair, out: &mut Vec<u8>) {
    out.extend_from_slice(&left);
    out.extend_from_slice(&right);
}

/// How many bytes the proof of a file of this length has; `None` where it has none.
pub fn proof_len(file_len: u64) -> Option<u64> {
    let pairs = file_len.div_ceil(BLOCK_BYTES).checked_sub(1).filter(|pairs| *pairs > 0)?;
    pairs.checked_mul(PAIR_BYTES)?.checked_add(LEN_BYTES)
}

/// Why something is not the proof of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// It has not as many bytes as the proof of a file of the length that it says.
    #[error("it has {found} bytes, which is not the length of a proof")]
    Len {
        /// How many it has.
        found: u64,
    },
    /// What stands there does not fit what is above it, up to the digest of the file.
    #[error("at offset {offset} it is damaged, or that of another file")]
    Damaged {
        /// Where.
        offset: u64,
    },
    /// It says another length than that of the file whose bytes it proves.
    #[error("it is damaged: it says that the file has {said} bytes, and its bytes are {found}")]
    FileLen {
        /// What it says.
        said: u64,
        /// How many there are.
        found: u64,
    },
    /// It has no such block.
    #[error("it has {blocks} blocks, and none with the number {number}")]
    NoBlock {
        /// How many blocks the file has.
        blocks: u64,
        /// Which one was asked for.
        number: u64,
    },
    /// It cannot be read.
    #[error("it cannot be read at offset {offset}: {why}")]
    Read {
        /// Where.
        offset: u64,
        /// Why.
        why: String,
    },
}

/// Gives bytes of a proof.
pub trait ProofBytes {
    /// Fills `buffer` from an offset on.
    ///
    /// # Errors
    /// I/O errors; that there are not so many.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()>;
}

impl ProofBytes for &[u8] {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        let found = usize::try_from(offset).ok().and_then(|start| self.get(start..));
        let found = found.and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(found.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A part of the tree that was verified: blocks from `start` to `end`.
#[derive(Debug, Clone, Copy)]
struct Part {
    start: u64,
    end: u64,
    /// Where its pair stands, in pairs.
    pair: u64,
    value: ChainingValue,
}

/// The proof of a file. Nothing in it is believed: what is read of it is verified up to the digest.
#[derive(Debug)]
pub struct Proof<R> {
    bytes: R,
    file_len: u64,
    digest: [u8; 32],
    /// The parts above the block that was asked for last, the whole first: those above the next
    /// one are mostly the same.
    above: Vec<Part>,
}

impl<R: ProofBytes> Proof<R> {
    /// The proof of the file with this digest, in as many bytes. That the halves of the whole file
    /// give the digest is verified at once; the rest when it is needed.
    ///
    /// # Errors
    /// That it is none.
    pub fn open(mut bytes: R, len: u64, digest: [u8; 32]) -> Result<Self, ProofError> {
        let no_proof = ProofError::Len { found: len };
        let offset = len.checked_sub(LEN_BYTES).ok_or(no_proof.clone())?;
        let mut buffer = [0; 8];
        read(&mut bytes, offset, &mut buffer)?;
        let file_len = u64::from_le_bytes(buffer);
        if proof_len(file_len) != Some(len) {
            return Err(no_proof);
        }
        let mut proof = Self { bytes, file_len, digest, above: Vec::new() };
        let blocks = proof.blocks();
        let whole = proof.whole(blocks)?;
        proof.pair_of(&whole, blocks)?;
        Ok(proof)
    }

    /// The length of the file.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> u64 {
        self.file_len.div_ceil(BLOCK_BYTES)
    }

    /// Where a block lies in the file; `None` if there is none with this number.
    pub fn range_of(&self, number: u64) -> Option<ByteRange> {
        let start = number.checked_mul(BLOCK_BYTES)?;
        let range = ByteRange::new(start, start.saturating_add(BLOCK_BYTES).min(self.file_len));
        range.filter(|range| !range.is_empty())
    }

    /// The part of a file from which it shows whether the proof says its length right: its last
    /// block, where the file has another length, and as many blocks. Nothing else in a proof
    /// depends on the length, so a damaged one would make a good file look cut, or too long.
    pub fn doubtful(&self, found_len: u64) -> Option<ByteRange> {
        let is_close = found_len != self.file_len && found_len.div_ceil(BLOCK_BYTES) == self.blocks();
        let last = self.blocks().checked_sub(1).filter(|_| is_close)?;
        ByteRange::new(last.checked_mul(BLOCK_BYTES)?, found_len)
    }

    /// Verifies the length that the proof says, with the bytes of a [doubtful](Self::doubtful)
    /// part.
    ///
    /// # Errors
    /// [`ProofError::FileLen`] if these are the last bytes of the file; that the proof is damaged
    /// above them, or cannot be read.
    pub fn check_len(&mut self, part: ByteRange, bytes: &[u8]) -> Result<(), ProofError> {
        let value = self.value_of(part.start() / BLOCK_BYTES)?;
        match value_of_block(part.start(), bytes) == value {
            true => Err(ProofError::FileLen { said: self.file_len, found: part.end() }),
            false => Ok(()),
        }
    }

    /// Whether these are the bytes of a block.
    ///
    /// # Errors
    /// That the proof is damaged, or cannot be read, on the way to the block.
    pub fn has(&mut self, number: u64, bytes: &[u8]) -> Result<bool, ProofError> {
        let value = self.value_of(number)?;
        let range = self.range_of(number);
        let is_whole = range.is_some_and(|range| range.len() == bytes.len() as u64);
        Ok(is_whole && range.is_some_and(|range| value_of_block(range.start(), bytes) == value))
    }

    /// Verifies all of it, up to the digest, without the file. `go_on` is asked for each block, and
    /// ends it by returning `false`.
    ///
    /// # Errors
    /// The first place at which it is damaged, or cannot be read.
    pub fn check(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<(), ProofError> {
        for number in 0..self.blocks() {
            if !go_on() {
                break;
            }
            self.value_of(number)?;
        }
        Ok(())
    }

    /// The value of a block, verified from the digest down.
    fn value_of(&mut self, number: u64) -> Result<ChainingValue, ProofError> {
        let blocks = self.blocks();
        if number >= blocks {
            return Err(ProofError::NoBlock { blocks, number });
        }
        while self.above.last().is_some_and(|part| number < part.start || part.end <= number) {
            self.above.pop();
        }
        loop {
            let part = match self.above.last() {
                Some(part) if part.end.saturating_sub(part.start) == 1 => return Ok(part.value),
                Some(part) => *part,
                None => self.whole(blocks)?,
            };
            let pair = self.pair_of(&part, blocks)?;
            let half = half_of(&part, number, &pair);
            self.above.push(half);
        }
    }

    /// The whole tree, which is the first of the parts that are kept.
    fn whole(&mut self, blocks: u64) -> Result<Part, ProofError> {
        // Its value is not that of a part: it is verified by the digest.
        let pair = blocks.saturating_sub(2);
        let whole = Part { start: 0, end: blocks, pair, value: [0; 32] };
        self.above.push(whole);
        Ok(whole)
    }

    /// The halves of a part, if they fit it.
    fn pair_of(&mut self, part: &Part, blocks: u64) -> Result<Pair, ProofError> {
        let offset = part.pair.saturating_mul(PAIR_BYTES);
        let mut buffer = [0; 64];
        read(&mut self.bytes, offset, &mut buffer)?;
        let (mut left, mut right) = ([0; 32], [0; 32]);
        for (to, from) in left.iter_mut().chain(right.iter_mut()).zip(buffer) {
            *to = from;
        }
        let pair = (left, right);
        let is_whole = part.end.saturating_sub(part.start) == blocks;
        let fits = match is_whole {
            true => root_of_pair(&pair) == self.digest,
            false => value_of_pair(&pair) == part.value,
        };
        if fits { Ok(pair) } else { Err(ProofError::Damaged { offset }) }
    }
}

fn read(bytes: &mut impl ProofBytes, offset: u64, buffer: &mut [u8]) -> Result<(), ProofError> {
    let read = bytes.read_at(offset, buffer);
    read.map_err(|error| ProofError::Read { offset, why: error.to_string() })
}

/// The half of a part in which a block is. The left one is the longest tree that is whole and
/// leaves something for the right one. In post order the pairs of the left half come first, then
/// those of the right one, then that of both.
fn half_of(part: &Part, number: u64, (left, right): &Pair) -> Part {
    let blocks = part.end.saturating_sub(part.start);
    let in_left = 1_u64.checked_shl(blocks.saturating_sub(1).max(1).ilog2()).unwrap_or(1);
    let middle = part.start.saturating_add(in_left);
    let in_right = blocks.saturating_sub(in_left);
    if number < middle {
        // One pair less than blocks is in each half.
        let pair = part.pair.saturating_sub(in_right);
        Part { start: part.start, end: middle, pair, value: *left }
    } else {
        Part { start: middle, end: part.end, pair: part.pair.saturating_sub(1), value: *right }
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "lengths of tests")]
mod tests {
    use bao_tree::io::outboard::PostOrderMemOutboard;
    use bao_tree::{BlockSize, io::sync};
    use proptest::prelude::*;

    use super::*;

    const BLOCK: usize = BLOCK_BYTES as usize;
    /// Groups of 1,024 chunks.
    const GROUP: BlockSize = BlockSize::from_chunk_log(10);

    fn bytes_of(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at / 7 + at / BLOCK) as u8).collect()
    }

    fn proof_of(bytes: &[u8]) -> Option<(Vec<u8>, Digest)> {
        let (mut builder, mut out) = (ProofBuilder::default(), Vec::new());
        bytes.chunks(BLOCK).for_each(|block| builder.push(block, &mut out));
        let digest = builder.finish(bytes.len() as u64, &mut out)?;
        Some((out, digest))
    }

    fn open<'b>(proof: &'b [u8], digest: &Digest) -> Result<Proof<&'b [u8]>, ProofError> {
        Proof::open(proof, proof.len() as u64, digest.value.clone().try_into().unwrap())
    }

    #[test]
    fn a_file_of_one_block_has_no_proof() {
        for len in [0, 1, BLOCK - 1, BLOCK] {
            assert_eq!(proof_of(&bytes_of(len)), None, "{len}");
            assert_eq!(proof_len(len as u64), None, "{len}");
        }
        assert_eq!(proof_len(u64::MAX), Some(((1 << 44) - 1) * 64 + 8));
    }

    #[test]
    fn proofs_are_those_of_bao_tree() {
        for len in
            [BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 3 * BLOCK, 4 * BLOCK + 17, 7 * BLOCK, 9 * BLOCK - 1024]
        {
            let bytes = bytes_of(len);
            let (proof, digest) = proof_of(&bytes).unwrap();
            let theirs = PostOrderMemOutboard::create(&bytes, GROUP);
            assert_eq!(digest, Digest::of(HashKind::Blake3, &bytes), "{len}");
            assert_eq!(digest.value, theirs.root.as_bytes(), "{len}");
            assert!(proof == theirs.clone().into_inner_with_suffix(), "{len}");
            assert_eq!(proof_len(len as u64), Some(proof.len() as u64), "{len}");
            // What they find valid by our bytes is all of the file.
            let ours = PostOrderMemOutboard { data: proof[..proof.len() - 8].to_vec(), ..theirs };
            let ranges = bao_tree::ChunkRanges::all();
            let valid: Vec<_> =
                sync::valid_ranges(&ours, &bytes[..], &ranges).into_iter().map(Result::unwrap).collect();
            let end = valid.last().unwrap().end.0 * 1024;
            assert!(valid[0].start.0 == 0 && end >= len as u64, "{len}: {valid:?}");
        }
    }

    #[test]
    fn in_any_parts_it_is_the_proof_of_the_whole() {
        for (len, part) in [(0, 7), (5, 7), (BLOCK, BLOCK), (BLOCK + 1, 4097), (3 * BLOCK, 5 * BLOCK / 2)] {
            let bytes = bytes_of(len);
            let mut hasher = ProofHasher::default();
            bytes.chunks(part).for_each(|part| hasher.take(part));
            let (digest, proof) = hasher.finish();
            assert_eq!(digest, Digest::of(HashKind::Blake3, &bytes), "{len}");
            assert_eq!(proof.map(|proof| (proof, digest)), proof_of(&bytes), "{len}");
        }
        let mut hole = ProofHasher::default();
        hole.take(b"a");
        hole.take_zeroes(3 * BLOCK_BYTES);
        let bytes = [&b"a"[..], &vec![0; 3 * BLOCK]].concat();
        assert_eq!(hole.finish().1, proof_of(&bytes).map(|(proof, _)| proof));
    }

    #[test]
    fn what_is_no_proof_is_refused() {
        let (proof, digest) = proof_of(&bytes_of(3 * BLOCK)).unwrap();
        assert_eq!(proof.len(), 2 * 64 + 8);
        for len in [0, 7, 8, 64, proof.len() - 1] {
            assert!(matches!(open(&proof[..len], &digest), Err(ProofError::Len { .. })), "{len}");
        }
        // As long as it should be, and no longer there.
        assert!(matches!(
            Proof::open(&proof[..20], proof.len() as u64, [0; 32]),
            Err(ProofError::Read { offset: 128, .. })
        ));
        let mut huge = proof.clone();
        huge.truncate(128);
        huge.extend_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(open(&huge, &digest), Err(ProofError::Len { .. })));
        // Of another file.
        let (_, other) = proof_of(&bytes_of(3 * BLOCK - 1)).unwrap();
        assert_eq!(open(&proof, &other).unwrap_err(), ProofError::Damaged { offset: 64 });
        let mut right = open(&proof, &digest).unwrap();
        assert_eq!(right.has(3, &[]), Err(ProofError::NoBlock { blocks: 3, number: 3 }));
        assert_eq!(right.has(2, &[]), Ok(false));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn each_block_is_proven_and_no_other_bytes_are(
            blocks in 2_usize..20,
            last in prop_oneof![Just(BLOCK), Just(1), 1..BLOCK],
            asked in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..40),
            at in any::<prop::sample::Index>(),
        ) {
            let bytes = bytes_of((blocks - 1) * BLOCK + last);
            let (proof, digest) = proof_of(&bytes).unwrap();
            let mut opened = open(&proof, &digest).unwrap();
            prop_assert_eq!(opened.check(&mut || true), Ok(()));
            prop_assert_eq!(opened.blocks(), blocks as u64);
            for (index, is_other) in asked {
                let number = index.index(blocks) as u64;
                let range = opened.range_of(number).unwrap();
                let mut block = bytes[range.start() as usize..range.end() as usize].to_vec();
                if is_other {
                    let at = at.index(block.len());
                    block[at] ^= 1;
                }
                prop_assert_eq!(opened.has(number, &block), Ok(!is_other));
            }
        }

        #[test]
        fn a_damaged_proof_proves_nothing_wrong(
            blocks in 2_usize..12,
            flip in any::<prop::sample::Index>(),
            number in any::<prop::sample::Index>(),
        ) {
            let bytes = bytes_of(blocks * BLOCK);
            let (mut proof, digest) = proof_of(&bytes).unwrap();
            let at = flip.index(proof.len() - 8);
            proof[at] ^= 1;
            let number = number.index(blocks);
            let mut block = bytes[number * BLOCK..(number + 1) * BLOCK].to_vec();
            let offset = (at / 64 * 64) as u64;
            let checked = open(&proof, &digest).and_then(|mut proof| proof.check(&mut || true));
            prop_assert_eq!(checked, Err(ProofError::Damaged { offset }));
            let Ok(mut opened) = open(&proof, &digest) else {
                prop_assert_eq!(at / 64, blocks - 2, "only the halves of the whole are read at once");
                return Ok(());
            };
            match opened.has(number as u64, &block) {
                Ok(is_proven) => prop_assert!(is_proven),
                Err(error) => prop_assert_eq!(error, ProofError::Damaged { offset }),
            }
            block[0] ^= 1;
            prop_assert_ne!(opened.has(number as u64, &block), Ok(true));
        }
    }
}
