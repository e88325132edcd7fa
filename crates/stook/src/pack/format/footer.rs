//! The footer of a sealed segment and of a checkpoint: where its index is and what it covers.

use super::bytes::FieldCursor;
use super::{Decoded, Invalid, UNIT, VERSION};
use crate::extent::ByteRange;

/// Length of a footer, in bytes.
pub const FOOTER_LEN: usize = 256;

const MAGIC_SEALED: [u8; 8] = *b"\x89STKFTR\n";
const MAGIC_CHECKPOINT: [u8; 8] = *b"\x89STKCKP\n";

/// Which of the two it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FooterKind {
    /// A sealed segment.
    Sealed,
    /// A checkpoint file.
    Checkpoint,
}

/// A summary of a set of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Records.
    pub records: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Lowest sequence number, 0 if there is no record.
    pub sequence_first: u64,
    /// Highest sequence number.
    pub sequence_last: u64,
    /// First time, ns.
    pub time_first_ns: i64,
    /// Last time, ns.
    pub time_last_ns: i64,
}

impl Tally {
    /// Counts one more record.
    pub fn add(&mut self, body_bytes: u64, sequence: u64, time_ns: i64) {
        self.join(&Self {
            records: 1,
            body_bytes,
            sequence_first: sequence,
            sequence_last: sequence,
            time_first_ns: time_ns,
            time_last_ns: time_ns,
        });
    }

    /// Counts the records of another span.
    pub fn join(&mut self, other: &Self) {
        if other.records == 0 {
            return;
        }
        if self.records == 0 {
            *self = *other;
            return;
        }
        self.records = self.records.saturating_add(other.records);
        self.body_bytes = self.body_bytes.saturating_add(other.body_bytes);
        self.sequence_first = self.sequence_first.min(other.sequence_first);
        self.sequence_last = self.sequence_last.max(other.sequence_last);
        self.time_first_ns = self.time_first_ns.min(other.time_first_ns);
        self.time_last_ns = self.time_last_ns.max(other.time_last_ns);
    }
}

/// Identifies the last frame of a range. Two diverged copies of a pack have different frames but
/// the same nonces: this shows whether a file is the one that another file refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LastFrame {
    /// Where it begins; 0 if there is no frame.
    pub offset: u64,
    /// The checksum of its header, which covers its place, number and time.
    pub crc: u32,
    /// The same for the last sync mark, which is this frame or one before it; 0 if there is none.
    /// Marks name their writer, so it differs if two copies put the same key at the same time.
    pub mark_crc: u32,
}

/// The last 256 bytes of a sealed segment or a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// The kind of file that it ends.
    pub kind: FooterKind,
    /// Nonce of the segment.
    pub nonce: [u8; 16],
    /// Id of the segment.
    pub segment: u64,
    /// The frames the index covers.
    pub frames: ByteRange,
    /// Where the index pages are in this file.
    pub index: ByteRange,
    /// Where the top level is.
    pub top: ByteRange,
    /// The range of the filter; empty if there is none.
    pub filter: ByteRange,
    /// The records in the index.
    pub tally: Tally,
    /// The last of the frames.
    pub last_frame: LastFrame,
}

impl Footer {
    /// The 256 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_LEN);
        out.extend(match self.kind {
            FooterKind::Sealed => MAGIC_SEALED,
            FooterKind::Checkpoint => MAGIC_CHECKPOINT,
        });
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 2 + 4 + 4]);
        out.extend((UNIT as u32).to_le_bytes());
        out.extend(self.nonce);
        for value in [self.segment, self.frames.start(), self.frames.end()] {
            out.extend(value.to_le_bytes());
        }
        for range in [self.index, self.top, self.filter] {
            out.extend(range.start().to_le_bytes());
            out.extend(range.len().to_le_bytes());
        }
        let tally = &self.tally;
        for value in [tally.records, tally.body_bytes, tally.sequence_first, tally.sequence_last] {
            out.extend(value.to_le_bytes());
        }
        out.extend(tally.time_first_ns.to_le_bytes());
        out.extend(tally.time_last_ns.to_le_bytes());
        out.extend(self.last_frame.offset.to_le_bytes());
        out.extend(self.last_frame.crc.to_le_bytes());
        out.extend(self.last_frame.mark_crc.to_le_bytes());
        out.resize(FOOTER_LEN - 4, 0);
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// Reads the last 256 bytes of a file that has `file_len` bytes.
    ///
    /// # Errors
    /// Returns an error if they are not a footer of that kind, or point outside the file.
    pub fn decode(bytes: &[u8], kind: FooterKind, file_len: u64) -> Decoded<Self> {
        if bytes.len() != FOOTER_LEN {
            return Err(Invalid::damaged(
                0,
                format!("a footer has {FOOTER_LEN} bytes, this one {}", bytes.len()),
            ));
        }
        let mut cursor = FieldCursor::new(bytes);
        match kind {
            FooterKind::Sealed => cursor.preamble(&MAGIC_SEALED, "footer")?,
            FooterKind::Checkpoint => cursor.preamble(&MAGIC_CHECKPOINT, "checkpoint")?,
        };
        cursor.required_flags()?;
        cursor.u32()?;
        let unit = cursor.u32()?;
        if unit as usize != UNIT {
            return Err(Invalid::unsupported(20, format!("index pages in units of {unit} bytes")));
        }
        let (nonce, segment) = (cursor.array()?, cursor.u64()?);
        let at = cursor.at();
        let frames = ByteRange::new(cursor.u64()?, cursor.u64()?)
            .ok_or_else(|| Invalid::damaged(at, "the range of frames runs backwards"))?;
        let inside = file_len.saturating_sub(FOOTER_LEN as u64);
        let index = range_within(&mut cursor, inside)?;
        let top = range_within(&mut cursor, inside)?;
        let filter = range_within(&mut cursor, inside)?;
        let tally = Tally {
            records: cursor.u64()?,
            body_bytes: cursor.u64()?,
            sequence_first: cursor.u64()?,
            sequence_last: cursor.u64()?,
            time_first_ns: cursor.i64()?,
            time_last_ns: cursor.i64()?,
        };
        let last_frame = LastFrame { offset: cursor.u64()?, crc: cursor.u32()?, mark_crc: cursor.u32()? };
        let whole_units =
            index.len().is_multiple_of(UNIT as u64) && index.start().is_multiple_of(UNIT as u64);
        let frames_before_index = kind == FooterKind::Checkpoint || frames.end() <= index.start();
        if !whole_units || !frames_before_index {
            return Err(Invalid::damaged(64, "the index is not where an index can be"));
        }
        Ok(Self { kind, nonce, segment, frames, index, top, filter, tally, last_frame })
    }
}

fn range_within(cursor: &mut FieldCursor<'_>, end: u64) -> Decoded<ByteRange> {
    let at = cursor.at();
    let range = ByteRange::at(cursor.u64()?, cursor.u64()?);
    range.filter(|range| range.end() <= end).ok_or_else(|| {
        Invalid::damaged(at, format!("a section reaches past the {end} bytes before the footer"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footer_round_trips_and_any_flipped_bit_is_reported() {
        let mut tally = Tally::default();
        tally.add(10, 3, 4);
        tally.add(5, 9, 8);
        let footer = Footer {
            kind: FooterKind::Sealed,
            nonce: [7; 16],
            segment: 3,
            frames: ByteRange::new(4096, 5000).unwrap(),
            index: ByteRange::new(8192, 12288).unwrap(),
            top: ByteRange::new(12288, 12300).unwrap(),
            filter: ByteRange::new(12300, 12300).unwrap(),
            tally,
            last_frame: LastFrame { offset: 4800, crc: 77, mark_crc: 78 },
        };
        let bytes = footer.encode();
        assert_eq!(Footer::decode(&bytes, FooterKind::Sealed, 20_000), Ok(footer));
        assert!(Footer::decode(&bytes, FooterKind::Checkpoint, 20_000).is_err());
        assert!(Footer::decode(&bytes, FooterKind::Sealed, 12_400).is_err(), "points past the end");
        for bit in 0..FOOTER_LEN * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let invalid = Footer::decode(&flipped, FooterKind::Sealed, 20_000).unwrap_err();
            assert!(!invalid.unsupported, "bit {bit}: {}", invalid.what);
        }
    }
}
