//! The index of an entry as bytes: `docs/formats/sparse-cache-v1.md`. Pure data: nothing here reads
//! or writes a file.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use crate::extent::{ByteRange, ExtentValue};
use crate::format::fields::Fields;
use crate::source::Identity;

const MAGIC: [u8; 8] = *b"\x89STKSPC\n";
const VERSION: u16 = 1;
/// The header up to the texts in it.
const FIXED_LEN: usize = 104;
/// The longest header.
pub(super) const HEADER_LEN_MAX: usize = 64 << 10;
const HAS_ETAG: u16 = 1;
const HAS_VERSION: u16 = 2;

/// The bytes of one record.
pub(super) const RECORD_LEN: usize = 20;
/// The longest range of one record: all of it is read to verify any byte.
pub(super) const RANGE_LEN_MAX: u64 = 64 << 10;

/// Why bytes are not the index of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheIndexError {
    /// They begin otherwise.
    #[error("it does not begin with the eight bytes of the index of a cache")]
    NotAnIndex,
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

/// Whose bytes an entry holds, and in which file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexHeader {
    /// Names the data file, and distinguishes one beginning of an entry from another.
    pub(super) nonce: u64,
    pub(super) identity: Identity,
    /// The salted hash of the origin.
    pub(super) key: [u8; 32],
    /// What people call the source.
    pub(super) name: Arc<str>,
}

impl IndexHeader {
    /// The bytes of it; `None` where the texts are too long for an index.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let Identity { len, device, inode, mtime_ns, ctime_ns, etag, version } = &self.identity;
        let (etag_text, version_text) = (etag.as_deref().unwrap_or(""), version.as_deref().unwrap_or(""));
        let texts = [etag_text, version_text, &*self.name];
        let header_len = FIXED_LEN + texts.iter().map(|text| text.len()).sum::<usize>() + 4;
        if header_len > HEADER_LEN_MAX {
            return None;
        }
        let flag = |set: bool, flag: u16| if set { flag } else { 0 };
        let flags = flag(etag.is_some(), HAS_ETAG) | flag(version.is_some(), HAS_VERSION);
        let mut out = Vec::with_capacity(header_len);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(flags.to_le_bytes());
        out.extend((header_len as u32).to_le_bytes());
        for number in [self.nonce, *len, *device, *inode] {
            out.extend(number.to_le_bytes());
        }
        out.extend(mtime_ns.to_le_bytes());
        out.extend(ctime_ns.to_le_bytes());
        out.extend(u16::try_from(etag_text.len()).ok()?.to_le_bytes());
        out.extend(u16::try_from(version_text.len()).ok()?.to_le_bytes());
        out.extend(u32::try_from(self.name.len()).ok()?.to_le_bytes());
        out.extend(self.key);
        texts.iter().for_each(|text| out.extend(text.as_bytes()));
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        Some(out)
    }

    /// Decodes a header at the beginning of `bytes`, and returns its length and checksum, too.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, usize, u32), CacheIndexError> {
        let mut fields = Fields::new(bytes);
        if fields.array() != Some(MAGIC) {
            return Err(CacheIndexError::NotAnIndex);
        }
        let found = fields.u16().ok_or(CacheIndexError::Damaged)?;
        if found != VERSION {
            return Err(CacheIndexError::Version { found });
        }
        Self::decode_fields(bytes, fields).ok_or(CacheIndexError::Damaged)
    }

    fn decode_fields(bytes: &[u8], mut fields: Fields<'_>) -> Option<(Self, usize, u32)> {
        let flags = fields.u16()?;
        let header_len = fields.u32()? as usize;
        if header_len > HEADER_LEN_MAX || flags & !(HAS_ETAG | HAS_VERSION) != 0 {
            return None;
        }
        let (body, sum) = bytes.get(..header_len)?.split_last_chunk::<4>()?;
        let sum = u32::from_le_bytes(*sum);
        if crc32c::crc32c(body) != sum {
            return None;
        }
        let nonce = fields.u64()?;
        let mut identity = Identity {
            len: fields.u64()?,
            device: fields.u64()?,
            inode: fields.u64()?,
            mtime_ns: fields.i64()?,
            ctime_ns: fields.i64()?,
            etag: None,
            version: None,
        };
        let (etag_len, version_len, name_len) = (fields.u16()?, fields.u16()?, fields.u32()?);
        let key = fields.array()?;
        let etag = fields.text(usize::from(etag_len))?;
        let version = fields.text(usize::from(version_len))?;
        let name = fields.text(name_len as usize)?;
        let used = bytes.len().checked_sub(fields.left())?;
        let has = |flag: u16| flags & flag != 0;
        if used != body.len() || (!has(HAS_ETAG) && etag_len > 0) || (!has(HAS_VERSION) && version_len > 0) {
            return None;
        }
        identity.etag = has(HAS_ETAG).then(|| etag.into());
        identity.version = has(HAS_VERSION).then(|| version.into());
        Some((Self { nonce, identity, key, name: name.into() }, header_len, sum))
    }
}

/// A range that is held, and the checksum of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) range: ByteRange,
    pub(super) sum: u32,
}

impl Record {
    /// The bytes of it in the index whose header has this checksum.
    pub(super) fn encode(&self, header_sum: u32) -> [u8; RECORD_LEN] {
        let mut out = [0; RECORD_LEN];
        let len = self.range.len() as u32;
        let body = [&self.range.start().to_le_bytes()[..], &len.to_le_bytes(), &self.sum.to_le_bytes()];
        let sum = body.iter().fold(first_sum(header_sum), |sum, part| crc32c::crc32c_append(sum, part));
        let all = body.into_iter().flatten().copied().chain(sum.to_le_bytes());
        out.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        out
    }

    /// Decodes one of a source of `len` bytes; `None` where it is damaged, of another index or
    /// cannot be.
    pub(super) fn decode(bytes: &[u8; RECORD_LEN], header_sum: u32, len: u64) -> Option<Self> {
        let (body, record_sum) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c_append(first_sum(header_sum), body) != u32::from_le_bytes(*record_sum) {
            return None;
        }
        let mut fields = Fields::new(body);
        let (start, range_len, sum) = (fields.u64()?, u64::from(fields.u32()?), fields.u32()?);
        let range = ByteRange::at(start, range_len).filter(|range| range.end() <= len)?;
        (1..=RANGE_LEN_MAX).contains(&range_len).then_some(Self { range, sum })
    }
}

/// Records are bound to their index: one from another entry is invalid here.
fn first_sum(header_sum: u32) -> u32 {
    crc32c::crc32c(&header_sum.to_le_bytes())
}

/// Cutting keeps what is needed to verify the remaining part: the whole record.
impl ExtentValue for Record {
    fn split_off(&mut self, _offset: u64) -> Self {
        *self
    }

    fn try_join(&mut self, _len: u64, next: &mut Self) -> bool {
        self == next
    }
}

/// The decoded index of an entry of a [`DiskCache`](super::DiskCache), for tools that inspect one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheIndex {
    pub(super) header: IndexHeader,
    pub(super) records: Vec<Record>,
    damaged_records: u64,
}

impl CacheIndex {
    /// Decodes the bytes of an index file. Records that are damaged are left out, and so is a last
    /// one that was cut off.
    ///
    /// # Errors
    /// Returns an error if they do not begin with a complete header.
    pub fn decode(bytes: &[u8]) -> Result<Self, CacheIndexError> {
        let (header, header_len, sum) = IndexHeader::decode(bytes)?;
        let mut index = Self { header, records: Vec::new(), damaged_records: 0 };
        let (whole, _cut_off) = bytes.get(header_len..).unwrap_or_default().as_chunks::<RECORD_LEN>();
        for record in whole {
            match Record::decode(record, sum, index.header.identity.len) {
                Some(record) => index.records.push(record),
                None => index.damaged_records += 1,
            }
        }
        Ok(index)
    }

    /// The bytes of it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.header.encode().unwrap_or_default();
        let sum = out.last_chunk::<4>().map_or(0, |sum| u32::from_le_bytes(*sum));
        self.records.iter().for_each(|record| out.extend(record.encode(sum)));
        out
    }

    /// What people call the source; it reveals no secret, and another may have the same.
    pub fn name(&self) -> &str {
        &self.header.name
    }

    /// The salted hash of its [origin](crate::source::Origin), which distinguishes it from all
    /// others.
    pub fn key(&self) -> &[u8; 32] {
        &self.header.key
    }

    /// The state of the source that the bytes are from.
    pub fn identity(&self) -> &Identity {
        &self.header.identity
    }

    /// Each range that is held, in the order in which they came.
    pub fn ranges(&self) -> impl Iterator<Item = ByteRange> + '_ {
        self.records.iter().map(|record| record.range)
    }

    /// How many records were left out.
    pub fn damaged_records(&self) -> u64 {
        self.damaged_records
    }
}
