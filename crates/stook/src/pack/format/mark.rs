//! Sync marks: how far a segment is known to be durable, and which generation what follows was
//! written after.
//!
//! In two diverged copies of a pack, segments have the same ids and nonces, and generations the
//! same numbers. Their frames differ in who wrote them, after which manifest.

use super::bytes::FieldCursor;
use super::{Decoded, Invalid};

/// Length of the attributes of a sync mark, in bytes.
pub const MARK_LEN: usize = 24;

/// Which manifest: its generation, and the first bytes of the nonce of its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Edition {
    /// The generation.
    pub generation: u64,
    /// Who published it.
    pub writer: u32,
}

/// The contents of a sync mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncMark {
    /// All below this offset was durable before the mark was written.
    pub durable_len: u64,
    /// The manifest that was the newest when the mark was written. What follows in the segment, up
    /// to the next mark, was written while it was.
    pub after: Edition,
    /// The first bytes of the nonce of who wrote it, and what follows.
    pub writer: u32,
}

/// The id of a writer in marks and editions.
pub fn writer_of(nonce: &[u8; 16]) -> u32 {
    nonce.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

impl SyncMark {
    /// As the attributes of the frame.
    pub fn encode(&self) -> [u8; MARK_LEN] {
        let mut out = [0; MARK_LEN];
        let numbers = [self.durable_len, self.after.generation].map(u64::to_le_bytes);
        let writers = [self.after.writer, self.writer].map(u32::to_le_bytes);
        let fields = numbers.iter().flatten().chain(writers.iter().flatten());
        out.iter_mut().zip(fields).for_each(|(to, from)| *to = *from);
        out
    }

    /// Reads the attributes of the frame.
    ///
    /// # Errors
    /// Returns an error if they have the wrong length.
    pub fn decode(attributes: &[u8]) -> Decoded<Self> {
        let mut cursor = FieldCursor::new(attributes);
        let durable_len = cursor.u64()?;
        let after = Edition { generation: cursor.u64()?, writer: cursor.u32()? };
        let mark = Self { durable_len, after, writer: cursor.u32()? };
        match cursor.left() {
            0 => Ok(mark),
            more => Err(Invalid::damaged(cursor.at(), format!("{more} bytes follow a sync mark"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_round_trips_and_has_one_length() {
        let after = Edition { generation: 7, writer: 0xdead_beef };
        let mark = SyncMark { durable_len: 1 << 40, after, writer: 9 };
        let bytes = mark.encode();
        assert_eq!(SyncMark::decode(&bytes), Ok(mark));
        for len in 0..MARK_LEN {
            assert!(SyncMark::decode(&bytes[..len]).is_err(), "{len}");
        }
        assert!(SyncMark::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
}
