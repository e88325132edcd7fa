//! Deletion vectors: which records of a segment no longer count, and since when.

use std::collections::BTreeMap;

use super::bytes::{FieldCursor, put_leb128, put_zigzag};
use super::{Decoded, Invalid, VERSION};

const MAGIC: [u8; 8] = *b"\x89STKDEL\n";

/// Where a deletion vector says how long it is.
pub const DELETES_LEN_AT: usize = 56;

/// The longest deletion vector, in bytes of one copy.
pub const DELETES_LEN_MAX: u64 = 1 << 30;

/// When a record died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// Sequence number of the put or deletion that superseded it.
    pub sequence: u64,
    /// Its time, ns.
    pub time_ns: i64,
}

/// The dead records of one segment, by the offset of their frames (multiples of 8).
pub type Deaths = BTreeMap<u64, Death>;

/// Bytes of a copy but its entries.
const FIXED_LEN: u64 = 64 + 4;

/// The most that one more entry adds to a vector: five bytes and a bit for an offset, and two
/// numbers of up to ten bytes; the two that follow get no longer.
pub(crate) const ENTRY_GROWTH: u64 = 6 + 4 * 10;

/// How long a copy is that lists these.
pub(crate) fn encoded_len(deaths: &Deaths) -> u64 {
    let leb128 = |value: u64| u64::from(64 - (value | 1).leading_zeros()).div_ceil(7);
    let zigzag = |value: i64| leb128(((value << 1) ^ (value >> 63)) as u64);
    let mut before = (0u64, 0u64, 0i64);
    let entries = deaths.iter().map(|(offset, death)| {
        let len = leb128((offset / 8).saturating_sub(before.0))
            + zigzag(death.sequence.wrapping_sub(before.1) as i64)
            + zigzag(death.time_ns.wrapping_sub(before.2));
        before = (offset / 8, death.sequence, death.time_ns);
        len
    });
    entries.fold(FIXED_LEN, u64::saturating_add)
}

/// A deletion vector as a file holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletionVector {
    /// Segment it speaks of.
    pub segment: u64,
    /// Generation it was written with.
    pub generation: u64,
    /// The same in all files of a pack.
    pub pack_nonce: [u8; 16],
    /// The entries.
    pub deaths: Deaths,
}

impl DeletionVector {
    /// The bytes of one copy; the last four are its checksum.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.deaths.len() * 8);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 2 + 4]);
        out.extend(self.segment.to_le_bytes());
        out.extend(self.generation.to_le_bytes());
        out.extend(self.pack_nonce);
        out.extend((self.deaths.len() as u64).to_le_bytes());
        out.extend([0; 8]);
        let mut before = (0u64, 0u64, 0i64);
        for (offset, death) in &self.deaths {
            put_leb128(&mut out, offset / 8 - before.0);
            put_zigzag(&mut out, death.sequence.wrapping_sub(before.1) as i64);
            put_zigzag(&mut out, death.time_ns.wrapping_sub(before.2));
            before = (offset / 8, death.sequence, death.time_ns);
        }
        let len = (out.len() as u64 + 4).to_le_bytes();
        for (to, from) in out.iter_mut().skip(DELETES_LEN_AT).zip(len) {
            *to = from;
        }
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// Reads one copy.
    ///
    /// # Errors
    /// Returns an error if it is not a deletion vector of this version.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let covered = FieldCursor::new(bytes).preamble(&MAGIC, "deletion vector")?;
        let mut cursor = FieldCursor::new(covered);
        cursor.take(12)?;
        cursor.required_flags()?;
        let (segment, generation, pack_nonce) = (cursor.u64()?, cursor.u64()?, cursor.array()?);
        let count = cursor.u64()?;
        if cursor.u64()? != bytes.len() as u64 {
            let at = DELETES_LEN_AT as u64;
            return Err(Invalid::damaged(at, "the deletion vector has not the length that it says"));
        }
        let mut deaths = Deaths::new();
        let mut before = (0u64, 0u64, 0i64);
        for number in 0..count {
            let at = cursor.at();
            let step = cursor.leb128()?;
            let unit = before.0.checked_add(step).filter(|unit| unit >> 40 == 0);
            let Some(unit) = unit.filter(|_| number == 0 || step > 0) else {
                return Err(Invalid::damaged(
                    at,
                    "offsets of dead records do not rise, or lead out of the segment",
                ));
            };
            let sequence = before.1.wrapping_add(cursor.zigzag()? as u64);
            let time_ns = before.2.wrapping_add(cursor.zigzag()?);
            deaths.insert(unit * 8, Death { sequence, time_ns });
            before = (unit, sequence, time_ns);
        }
        if cursor.left() > 0 {
            return Err(Invalid::damaged(cursor.at(), "bytes follow the last entry"));
        }
        Ok(Self { segment, generation, pack_nonce, deaths })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_more_makes_a_vector_longer_by_no_more_than_is_said() {
        let (mut deaths, mut state) = (Deaths::new(), 9_u64);
        for _ in 0..300 {
            let mut drawn = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> (state % 61)
            };
            let (offset, sequence, time_ns) = (drawn() % (1 << 43) / 8 * 8, drawn(), drawn() as i64);
            let before = encoded_len(&deaths);
            deaths.insert(offset, Death { sequence, time_ns });
            let vector = DeletionVector { segment: 1, generation: 2, pack_nonce: [3; 16], deaths };
            assert!(encoded_len(&vector.deaths) <= before + ENTRY_GROWTH);
            assert_eq!(encoded_len(&vector.deaths), vector.encode().len() as u64);
            deaths = vector.deaths;
        }
    }

    #[test]
    fn deletion_vector_round_trips_and_any_flipped_bit_is_reported() {
        let deaths = [(4096, 9, 1), (4136, 3, -1), (1 << 42, u64::MAX, i64::MIN)]
            .map(|(offset, sequence, time_ns)| (offset, Death { sequence, time_ns }));
        let vector = DeletionVector { segment: 1, generation: 2, pack_nonce: [3; 16], deaths: deaths.into() };
        let bytes = vector.encode();
        assert_eq!(encoded_len(&vector.deaths), bytes.len() as u64);
        assert_eq!(DeletionVector::decode(&bytes), Ok(vector));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let invalid = DeletionVector::decode(&flipped).unwrap_err();
            assert!(!invalid.unsupported, "bit {bit}: {}", invalid.what);
        }
        for len in 0..bytes.len() {
            assert!(DeletionVector::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
}
