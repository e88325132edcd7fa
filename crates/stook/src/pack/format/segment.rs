//! The segment header, and the salt that it adds to every checksum of its segment.

use super::bytes::FieldCursor;
use super::manifest::SegmentForm;
use super::{Decoded, Invalid, UNIT, VERSION};

const MAGIC: [u8; 8] = *b"\x89STKSEG\n";
const GROUP_LEN_MAX: usize = 255;
const BY_KEY_AT: usize = 88 + GROUP_LEN_MAX;

/// Chunk sizes the format allows, as powers of two.
pub const CHUNK_LOG2: std::ops::RangeInclusive<u8> = 12..=24;

/// The contents of the first 4096 bytes of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Chunk size of bodies as a power of two.
    pub chunk_log2: u8,
    /// Name of the group, at most 255 bytes.
    pub group: String,
    /// Segment id.
    pub id: u64,
    /// The same in all files of a pack.
    pub pack_nonce: [u8; 16],
    /// This segment's own.
    pub nonce: [u8; 16],
    /// Starts every frame; not zero.
    pub marker: u32,
    /// Lowest sequence number it may hold.
    pub sequence_first: u64,
    /// When it was made, ns.
    pub created_ns: i64,
    /// Its records are in key order, not in the order of writing.
    pub by_key: bool,
    /// The generation that was the newest when it was made.
    pub made_after: u64,
}

/// The values shared by the checksums and frames of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Salt {
    /// First word of every frame.
    pub marker: u32,
    /// CRC of the segment nonce, with which those of headers and pages begin.
    pub crc: u32,
    /// CRC of the pack nonce, with which the masks of chunks begin.
    pub pack_crc: u32,
    /// Chunk size in bytes.
    pub chunk_len: u64,
}

impl Salt {
    /// The checksum to store for a chunk, or a piece, with this plain checksum. It is bound to the
    /// record and the number of the chunk, so that whole extents written to the wrong place are
    /// detected. It is not bound to the place: records can be copied unchanged within a pack.
    /// Binding the stored checksum gives the plain one again.
    #[inline]
    pub fn bind(&self, sum: u32, sequence: u64, number: u64) -> u32 {
        let [sequence, number] = [sequence, number].map(u64::to_le_bytes);
        sum ^ crc32c::crc32c_append(crc32c::crc32c_append(self.pack_crc, &sequence), &number)
    }

    /// The checksums of the chunks of a record as they are stored, out of the plain ones.
    pub fn bind_all(&self, sums: &[u8], sequence: u64, out: &mut Vec<u8>) {
        let (sums, _) = sums.as_chunks::<4>();
        let sums = sums.iter().zip(0..);
        out.extend(
            sums.flat_map(|(sum, number)| {
                self.bind(u32::from_le_bytes(*sum), sequence, number).to_le_bytes()
            }),
        );
    }
}

impl SegmentHeader {
    /// The salt of its frames and pages.
    pub fn salt(&self) -> Salt {
        Salt {
            marker: self.marker,
            crc: crc32c::crc32c(&self.nonce),
            pack_crc: crc32c::crc32c(&self.pack_nonce),
            chunk_len: 1 << self.chunk_log2,
        }
    }

    /// The part that is also in a manifest.
    pub fn form(&self) -> SegmentForm {
        SegmentForm { marker: self.marker, by_key: self.by_key, chunk_log2: self.chunk_log2 }
    }

    /// The 4096 bytes.
    pub fn encode(&self) -> Vec<u8> {
        debug_assert!(self.group.len() <= GROUP_LEN_MAX, "checked where groups are named");
        let mut out = Vec::with_capacity(UNIT);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 2 + 4 + 4]);
        out.extend([self.chunk_log2, 0]);
        out.extend((self.group.len() as u16).to_le_bytes());
        out.extend(self.id.to_le_bytes());
        out.extend(self.pack_nonce);
        out.extend(self.nonce);
        out.extend(self.marker.to_le_bytes());
        out.extend([0; 4]);
        out.extend(self.sequence_first.to_le_bytes());
        out.extend(self.created_ns.to_le_bytes());
        out.extend_from_slice(self.group.as_bytes());
        out.resize(BY_KEY_AT, 0);
        out.push(u8::from(self.by_key));
        out.extend(self.made_after.to_le_bytes());
        out.resize(UNIT - 4, 0);
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// Reads the first bytes of a segment; all 4096 must be there.
    ///
    /// # Errors
    /// Returns an error if they are not a segment header of this version.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let Some(bytes) = bytes.get(..UNIT) else {
            return Err(Invalid::damaged(0, format!("the header has {} bytes, not {UNIT}", bytes.len())));
        };
        let mut cursor = FieldCursor::new(bytes);
        cursor.preamble(&MAGIC, "segment header")?;
        cursor.required_flags()?;
        cursor.u32()?;
        let chunk_log2 = cursor.u8()?;
        if !CHUNK_LOG2.contains(&chunk_log2) {
            return Err(Invalid::damaged(20, format!("chunk size 2^{chunk_log2} is not 2^12 to 2^24")));
        }
        cursor.reserved(1)?;
        let group_len = usize::from(cursor.u16()?);
        let (id, pack_nonce, nonce) = (cursor.u64()?, cursor.array()?, cursor.array()?);
        let marker = cursor.u32()?;
        cursor.reserved(4)?;
        let (sequence_first, created_ns) = (cursor.u64()?, cursor.i64()?);
        let group = cursor.take(GROUP_LEN_MAX)?;
        let group = group.get(..group_len).and_then(|name| String::from_utf8(name.to_vec()).ok());
        let Some(group) = group else {
            return Err(Invalid::damaged(88, "the group name is longer than 255 bytes or not UTF-8"));
        };
        if marker == 0 {
            return Err(Invalid::damaged(64, "the marker is zero"));
        }
        let (by_key, made_after) = (cursor.u8()? == 1, cursor.u64()?);
        Ok(Self {
            chunk_log2,
            group,
            id,
            pack_nonce,
            nonce,
            marker,
            sequence_first,
            created_ns,
            by_key,
            made_after,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips_and_no_flipped_bit_passes() {
        let header = SegmentHeader {
            chunk_log2: 16,
            group: "héllo".into(),
            id: 7,
            pack_nonce: [1; 16],
            nonce: [2; 16],
            marker: 0xdead_beef,
            sequence_first: 9,
            created_ns: -1,
            by_key: true,
            made_after: 1 << 40,
        };
        let bytes = header.encode();
        assert_eq!(bytes.len(), UNIT);
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        for bit in 0..UNIT * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let invalid = SegmentHeader::decode(&bytes).unwrap_err();
            assert!(!invalid.unsupported, "bit {bit}: {}", invalid.what);
        }
        let mut newer = bytes.clone();
        newer[8] = 2;
        let crc = crc32c::crc32c(&newer[..UNIT - 4]);
        newer[UNIT - 4..].copy_from_slice(&crc.to_le_bytes());
        assert!(SegmentHeader::decode(&newer).unwrap_err().unsupported, "its checksum vouches for it");
        for len in 0..UNIT {
            assert!(SegmentHeader::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }
}
