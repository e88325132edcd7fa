//! The journal beside a large file that is not whole yet, as bytes:
//! `docs/formats/copy-journal-v1.md`. Pure data: nothing here reads or writes a file.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use blake3::hazmat::HasherExt as _;

use crate::extent::ByteRange;
use crate::source::zeroes;

const MAGIC: [u8; 8] = *b"\x89STKCPJ\n";
const VERSION: u16 = 1;

/// The bytes of a header.
pub(super) const HEADER_LEN: usize = 92;
/// The bytes of a record.
pub(super) const RECORD_LEN: usize = 36;
/// How much of the file one record is about.
pub(super) const BLOCK_BYTES: u64 = 1 << 20;

/// The hash of a block. All zeros stand for a block of zeros, which is not hashed: a hole may be
/// terabytes long.
pub(super) type BlockHash = [u8; 32];
const ZEROES: BlockHash = [0; 32];

/// Why bytes are not the journal of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CopyJournalError {
    /// They begin otherwise.
    #[error("it does not begin with the eight bytes of the journal of a copy")]
    NotAJournal,
    /// Another version of Stook wrote them.
    #[error("it is of version {found}; only version {VERSION} is known here")]
    Version {
        /// The version found.
        found: u16,
    },
    /// The header is not whole.
    #[error("its header is cut short or damaged")]
    Damaged,
}

/// Which file is copied where, and in which state it was. Only a file of which all of this is the
/// same is continued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JournalHeader {
    /// The length of the source in bytes.
    pub(super) len: u64,
    /// Its modification time, ns since 1970.
    pub(super) mtime_ns: i64,
    /// The change time of its inode, ns since 1970, and its number; 0 where they are not kept.
    pub(super) ctime_ns: i64,
    pub(super) inode: u64,
    /// The inode of the file that the journal is about; 0 where numbers are not kept.
    pub(super) own_inode: u64,
    /// A hash of the path of the source and of the final name.
    pub(super) place: [u8; 32],
}

impl JournalHeader {
    /// The bytes of it, and their checksum, which is also their end.
    pub(super) fn encode(&self) -> (Vec<u8>, u32) {
        let mut out = Vec::with_capacity(HEADER_LEN);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(0_u16.to_le_bytes());
        out.extend((BLOCK_BYTES as u32).to_le_bytes());
        out.extend(self.len.to_le_bytes());
        out.extend(self.mtime_ns.to_le_bytes());
        out.extend(self.ctime_ns.to_le_bytes());
        out.extend(self.inode.to_le_bytes());
        out.extend(self.own_inode.to_le_bytes());
        out.extend(self.place);
        let sum = crc32c::crc32c(&out);
        out.extend(sum.to_le_bytes());
        (out, sum)
    }

    /// Decodes a header at the beginning of `bytes`, and gives its checksum, too.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, u32), CopyJournalError> {
        let mut left = bytes;
        if take(&mut left) != Some(MAGIC) {
            return Err(CopyJournalError::NotAJournal);
        }
        let found = take(&mut left).map(u16::from_le_bytes).ok_or(CopyJournalError::Damaged)?;
        if found != VERSION {
            return Err(CopyJournalError::Version { found });
        }
        Self::decode_fields(bytes, left).ok_or(CopyJournalError::Damaged)
    }

    fn decode_fields(bytes: &[u8], mut left: &[u8]) -> Option<(Self, u32)> {
        let flags = take(&mut left).map(u16::from_le_bytes)?;
        let block_bytes = take(&mut left).map(u32::from_le_bytes)?;
        let header = Self {
            len: take(&mut left).map(u64::from_le_bytes)?,
            mtime_ns: take(&mut left).map(i64::from_le_bytes)?,
            ctime_ns: take(&mut left).map(i64::from_le_bytes)?,
            inode: take(&mut left).map(u64::from_le_bytes)?,
            own_inode: take(&mut left).map(u64::from_le_bytes)?,
            place: take(&mut left)?,
        };
        let sum = take(&mut left).map(u32::from_le_bytes)?;
        let is_whole = crc32c::crc32c(bytes.get(..HEADER_LEN - 4)?) == sum;
        (is_whole && flags == 0 && u64::from(block_bytes) == BLOCK_BYTES).then_some((header, sum))
    }
}

/// The next bytes of some that may be any.
fn take<const N: usize>(left: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = left.split_first_chunk::<N>()?;
    *left = rest;
    Some(*first)
}

/// How many blocks a file has.
pub(super) fn blocks_of(len: u64) -> u64 {
    len.div_ceil(BLOCK_BYTES)
}

/// Where a block is in a file of this length.
pub(super) fn block_at(number: u64, len: u64) -> Option<ByteRange> {
    let start = number.checked_mul(BLOCK_BYTES)?;
    ByteRange::new(start, start.saturating_add(BLOCK_BYTES).min(len)).filter(|range| !range.is_empty())
}

/// The record of a block, in the journal whose header has this checksum.
pub(super) fn encode_record(header_sum: u32, number: u64, hash: &BlockHash) -> [u8; RECORD_LEN] {
    let mut out = [0; RECORD_LEN];
    let sum = record_sum(header_sum, number, hash).to_le_bytes();
    out.iter_mut().zip(hash.iter().chain(&sum)).for_each(|(to, from)| *to = *from);
    out
}

/// The hash of a block; `None` if its record is damaged, or of another journal or block.
pub(super) fn decode_record(header_sum: u32, number: u64, bytes: &[u8; RECORD_LEN]) -> Option<BlockHash> {
    let mut left = &bytes[..];
    let hash = take(&mut left)?;
    let sum = take(&mut left).map(u32::from_le_bytes)?;
    (record_sum(header_sum, number, &hash) == sum).then_some(hash)
}

/// A record is bound to its journal and to its block.
fn record_sum(header_sum: u32, number: u64, hash: &BlockHash) -> u32 {
    let sum = crc32c::crc32c(&header_sum.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(sum, &number.to_le_bytes()), hash)
}

/// Whether these are the bytes of the block that begins here.
pub(super) fn is_block(hash: &BlockHash, start: u64, bytes: &[u8]) -> bool {
    if *hash == ZEROES {
        return bytes.iter().all(|byte| *byte == 0);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(start);
    !bytes.is_empty() && hasher.update(bytes).finalize_non_root() == *hash
}

/// Hashes the blocks of a file as its bytes come.
#[derive(Debug)]
pub(super) struct BlockHasher {
    hasher: blake3::Hasher,
    /// Where the next byte is, and how long the file is.
    at: u64,
    len: u64,
    /// Blocks that are whole.
    done: Vec<BlockHash>,
}

impl BlockHasher {
    /// From the beginning of a block on, of a file of this length.
    pub(super) fn new(at: u64, len: u64) -> Self {
        let mut hashing = Self { hasher: blake3::Hasher::new(), at, len, done: Vec::new() };
        hashing.begin_block();
        hashing
    }

    fn begin_block(&mut self) {
        self.hasher = blake3::Hasher::new();
        if self.at < self.len {
            self.hasher.set_input_offset(self.at);
        }
    }

    /// Where the next byte is.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Blocks that are whole, and were not taken.
    pub(super) fn done(&self) -> &[BlockHash] {
        &self.done
    }

    /// They were taken.
    pub(super) fn forget_done(&mut self) {
        self.done.clear();
    }

    /// How many bytes the block that is begun still lacks.
    fn lacks(&self) -> u64 {
        let end = (self.at / BLOCK_BYTES).saturating_add(1).saturating_mul(BLOCK_BYTES).min(self.len);
        end.saturating_sub(self.at)
    }

    /// The next bytes.
    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.at < self.len {
            let lacks = usize::try_from(self.lacks()).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(lacks.min(bytes.len()));
            self.hasher.update(now);
            self.at = self.at.saturating_add(now.len() as u64);
            bytes = later;
            if now.len() == lacks {
                let hash = self.hasher.finalize_non_root();
                self.done.push(hash);
                self.begin_block();
            }
        }
    }

    /// The next bytes are zeros.
    pub(super) fn take_zeroes(&mut self, mut len: u64) {
        while len > 0 && self.at < self.len {
            let lacks = self.lacks();
            let now = if self.at.is_multiple_of(BLOCK_BYTES) && len >= lacks {
                self.at = self.at.saturating_add(lacks);
                self.done.push(ZEROES);
                self.begin_block();
                lacks
            } else {
                let now = zeroes(len.min(lacks));
                self.take(now);
                now.len() as u64
            };
            len = len.saturating_sub(now);
        }
    }
}

/// The decoded journal of a copy, for tools that inspect one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyJournal {
    header: JournalHeader,
    hashes: Vec<BlockHash>,
}

impl CopyJournal {
    /// Decodes the bytes of a journal. What comes after a damaged record, after one that was cut
    /// off or after that of the last block is left out.
    ///
    /// # Errors
    /// Returns an error if they do not begin with a whole header.
    pub fn decode(bytes: &[u8]) -> Result<Self, CopyJournalError> {
        let (header, sum) = JournalHeader::decode(bytes)?;
        let (whole, _cut_off) = bytes.get(HEADER_LEN..).unwrap_or_default().as_chunks::<RECORD_LEN>();
        let numbers = 0..blocks_of(header.len);
        let records = numbers.zip(whole).map_while(|(number, record)| decode_record(sum, number, record));
        Ok(Self { hashes: records.collect(), header })
    }

    /// The bytes of it.
    pub fn encode(&self) -> Vec<u8> {
        let (mut out, sum) = self.header.encode();
        let records = (0..).zip(&self.hashes);
        out.extend(records.flat_map(|(number, hash)| encode_record(sum, number, hash)));
        out
    }

    /// The length of the source in bytes.
    pub fn source_len(&self) -> u64 {
        self.header.len
    }

    /// How many blocks it has hashes of, from the beginning of the file on.
    pub fn blocks(&self) -> u64 {
        self.hashes.len() as u64
    }

    /// How many bytes of the file these are.
    pub fn bytes(&self) -> u64 {
        self.blocks().saturating_mul(BLOCK_BYTES).min(self.header.len)
    }

    /// Whether these are the bytes of a block.
    pub fn is_block(&self, number: u64, bytes: &[u8]) -> bool {
        let hash = usize::try_from(number).ok().and_then(|number| self.hashes.get(number));
        let range = block_at(number, self.header.len).filter(|range| range.len() == bytes.len() as u64);
        hash.zip(range).is_some_and(|(hash, range)| is_block(hash, range.start(), bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(len: u64, parts: &[(&[u8], u64)]) -> Vec<BlockHash> {
        let mut hasher = BlockHasher::new(0, len);
        for (bytes, zeros) in parts {
            hasher.take(bytes);
            hasher.take_zeroes(*zeros);
        }
        assert_eq!(hasher.at(), len);
        hasher.done().to_vec()
    }

    #[test]
    fn blocks_are_subtrees_of_the_hash_of_the_whole_file() {
        use blake3::hazmat::{Mode, merge_subtrees_non_root, merge_subtrees_root};
        let block = BLOCK_BYTES as usize;
        let bytes: Vec<u8> = (0..2 * block + 7).map(|at| (at % 251) as u8 | 1).collect();
        let all = hashes(bytes.len() as u64, &[(&bytes, 0)]);
        let [a, b, c] = all.as_slice() else { panic!("{} blocks", all.len()) };
        let left = merge_subtrees_non_root(a, b, Mode::Hash);
        assert_eq!(merge_subtrees_root(&left, c, Mode::Hash), blake3::hash(&bytes));
        let (one, other) = bytes.split_at(block / 3);
        assert_eq!(hashes(bytes.len() as u64, &[(one, 0), (other, 0)]), all);
        assert!(is_block(c, 2 * BLOCK_BYTES, &bytes[2 * block..]));
        assert!(!is_block(c, BLOCK_BYTES, &bytes[2 * block..]) && !is_block(c, 2 * BLOCK_BYTES, &[]));
        // A later run begins at any block.
        let mut later = BlockHasher::new(BLOCK_BYTES, bytes.len() as u64);
        later.take(&bytes[block..]);
        assert_eq!(later.done(), [*b, *c]);
    }

    #[test]
    fn a_hole_is_not_hashed_and_only_zeros_are_one() {
        let block = BLOCK_BYTES as usize;
        let found = hashes(3 * BLOCK_BYTES, &[(&[1], 3 * BLOCK_BYTES - 1)]);
        assert_eq!(found[1..], [ZEROES, ZEROES]);
        assert!(is_block(&found[1], BLOCK_BYTES, &vec![0; block]));
        assert!(!is_block(&found[1], BLOCK_BYTES, &[&vec![0; block - 1][..], &[1]].concat()));
        // Zeros that were written are hashed, and are the same bytes.
        let written = hashes(BLOCK_BYTES, &[(&vec![0; block], 0)]);
        assert!(written[0] != ZEROES && is_block(&written[0], 0, &vec![0; block]));
        assert_eq!(hashes(5 * BLOCK_BYTES + 3, &[(&[], 5 * BLOCK_BYTES + 3)]), [ZEROES; 6]);
    }

    fn journal() -> CopyJournal {
        let header = JournalHeader {
            len: 2 * BLOCK_BYTES + 1,
            mtime_ns: -5,
            ctime_ns: 7,
            inode: 11,
            own_inode: 13,
            place: [3; 32],
        };
        CopyJournal { header, hashes: vec![[1; 32], [2; 32], [4; 32]] }
    }

    #[test]
    fn what_is_written_is_read_and_any_damage_ends_it() {
        let journal = journal();
        let bytes = journal.encode();
        assert_eq!(bytes.len(), HEADER_LEN + 3 * RECORD_LEN);
        assert_eq!(CopyJournal::decode(&bytes).unwrap(), journal);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let decoded = CopyJournal::decode(&damaged);
            let cut = CopyJournal::decode(&bytes[..at]);
            match at.checked_sub(HEADER_LEN) {
                None => assert!(decoded.is_err() && cut.is_err(), "{at}"),
                Some(at) => {
                    let whole = (at / RECORD_LEN) as u64;
                    assert_eq!((decoded.unwrap().blocks(), cut.unwrap().blocks()), (whole, whole), "{at}");
                }
            }
        }
        let other = JournalHeader { own_inode: 14, ..journal.header.clone() }.encode().0;
        let mixed = [&other[..], &bytes[HEADER_LEN..]].concat();
        assert_eq!(CopyJournal::decode(&mixed).unwrap().blocks(), 0, "records of another journal");
        let longer = [&bytes[..], &bytes[HEADER_LEN..]].concat();
        assert_eq!(CopyJournal::decode(&longer).unwrap(), journal, "more records than blocks");
        assert_eq!(CopyJournal::decode(b"").unwrap_err(), CopyJournalError::NotAJournal);
        let newer = [&MAGIC[..], &[2, 0]].concat();
        assert_eq!(CopyJournal::decode(&newer).unwrap_err(), CopyJournalError::Version { found: 2 });
    }
}
