//! The record of an entry as bytes: `docs/formats/merged-cache-v1.md`. Pure data: nothing here
//! reads or writes a file.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use crate::format::fields::Fields;

const MAGIC: [u8; 8] = *b"\x89STKMRG\n";
const VERSION: u16 = 1;
/// The record up to the name in it.
const FIXED_LEN: usize = 104;
/// The longest record.
pub(super) const RECORD_LEN_MAX: usize = 64 << 10;

/// What an entry holds, and in which file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Names the file with the bytes, and distinguishes one building of an entry from another.
    pub(super) nonce: u64,
    /// How many bytes it has.
    pub(super) len: u64,
    pub(super) key: [u8; 32],
    /// The BLAKE3 of the bytes.
    pub(super) hash: [u8; 32],
    /// What people call the file.
    pub(super) name: Arc<str>,
}

impl Record {
    /// The bytes of it. A name that is too long is cut: it is for people alone.
    pub(super) fn encode(&self) -> Vec<u8> {
        let room = RECORD_LEN_MAX - FIXED_LEN - 4;
        let end = (0..=room.min(self.name.len())).rev().find(|end| self.name.is_char_boundary(*end));
        let name = end.and_then(|end| self.name.get(..end)).unwrap_or_default();
        let len = FIXED_LEN + name.len() + 4;
        let mut out = Vec::with_capacity(len);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(0_u16.to_le_bytes());
        out.extend((len as u32).to_le_bytes());
        out.extend(self.nonce.to_le_bytes());
        out.extend(self.len.to_le_bytes());
        out.extend(self.key);
        out.extend(self.hash);
        out.extend((name.len() as u32).to_le_bytes());
        out.extend([0; 4]);
        out.extend(name.as_bytes());
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// Decodes the bytes of a whole file.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut fields = Fields::new(bytes);
        if fields.array() != Some(MAGIC) {
            return Err("it does not begin as a record does");
        }
        if fields.u16() != Some(VERSION) {
            return Err("it is of another version");
        }
        Self::decode_fields(bytes, fields).ok_or("its record is cut short or damaged")
    }

    fn decode_fields(bytes: &[u8], mut fields: Fields<'_>) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        let flags = fields.u16()?;
        let is_whole = fields.u32()? as usize == bytes.len();
        if !is_whole || flags != 0 || crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
            return None;
        }
        let (nonce, len) = (fields.u64()?, fields.u64()?);
        let (key, hash) = (fields.array()?, fields.array()?);
        let (name_len, zeroes) = (fields.u32()? as usize, fields.u32()?);
        let name = fields.text(name_len)?;
        (zeroes == 0 && fields.left() == 4).then(|| Self { nonce, len, key, hash, name: name.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str) -> Record {
        Record { nonce: 7, len: 1 << 40, key: [1; 32], hash: [2; 32], name: name.into() }
    }

    #[test]
    fn it_comes_back_and_no_change_of_a_bit_goes_unnoticed() {
        for name in ["", "a/päth.tar"] {
            let bytes = record(name).encode();
            assert_eq!(Record::decode(&bytes), Ok(record(name)));
            for bit in 0..bytes.len() * 8 {
                let mut other = bytes.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(Record::decode(&other).is_err(), "bit {bit}");
            }
            for len in 0..bytes.len() {
                assert!(Record::decode(&bytes[..len]).is_err(), "{len} bytes");
            }
            assert!(Record::decode(&[&bytes[..], &[0]].concat()).is_err());
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_cut_between_letters() {
        let bytes = record(&"ä".repeat(RECORD_LEN_MAX)).encode();
        assert!(bytes.len() <= RECORD_LEN_MAX);
        assert!(Record::decode(&bytes).is_ok_and(|record| record.name.chars().all(|c| c == 'ä')));
    }
}
