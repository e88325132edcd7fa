//! What proves that a batch is complete: its members have consecutive sequence numbers, and a
//! checksum covers all of them.
//!
//! First number and count alone are not enough: of a batch that was dropped, frames may be left on
//! the medium where those of a later one should be, each of them as it was written.

use super::bytes::FieldCursor;
use super::{Decoded, Invalid};

/// Length of the attributes of the frame that ends a batch, in bytes.
pub const BATCH_END_LEN: usize = 20;

/// What the end frame of a batch states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchEnd {
    /// Sequence number of its first member; the others have those that follow.
    pub first: u64,
    /// How many members it has.
    pub count: u64,
    /// CRC of the digests of all members in their order: see [`digest`].
    pub crc: u32,
}

impl BatchEnd {
    /// As the attributes of the frame.
    pub fn encode(&self) -> [u8; BATCH_END_LEN] {
        let mut out = [0; BATCH_END_LEN];
        let fields = [self.first, self.count].map(u64::to_le_bytes);
        let fields = fields.iter().flatten().copied().chain(self.crc.to_le_bytes());
        out.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        out
    }

    /// Reads the attributes of the frame.
    ///
    /// # Errors
    /// Returns an error if they have the wrong length.
    pub fn decode(attributes: &[u8]) -> Decoded<Self> {
        let mut cursor = FieldCursor::new(attributes);
        let end = Self { first: cursor.u64()?, count: cursor.u64()?, crc: cursor.u32()? };
        match cursor.left() {
            0 => Ok(end),
            more => Err(Invalid::damaged(cursor.at(), format!("{more} bytes follow the end of a batch"))),
        }
    }
}

/// The digest of a member: CRC(header checksum ‖ every checksum that is stored with its body, in
/// order). It begins with the header checksum, and [`digest_more`] adds the others.
pub fn digest(header_crc: u32) -> u32 {
    crc32c::crc32c(&header_crc.to_le_bytes())
}

/// Adds checksums, as they are stored, to the digest of a member.
pub fn digest_more(digest: u32, sums: &[u8]) -> u32 {
    crc32c::crc32c_append(digest, sums)
}

/// The members of a batch so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchSum {
    end: BatchEnd,
    /// A member has another number than the one that follows that of the member before.
    gap: Option<u64>,
}

impl BatchSum {
    /// Adds the next member.
    pub fn add(&mut self, sequence: u64, digest: u32) {
        if self.end.count == 0 {
            self.end.first = sequence;
        } else if self.end.first.checked_add(self.end.count) != Some(sequence) {
            self.gap.get_or_insert(sequence);
        }
        self.end.count = self.end.count.saturating_add(1);
        self.end.crc = crc32c::crc32c_append(self.end.crc, &digest.to_le_bytes());
    }

    /// The contents of the frame that ends it.
    pub fn end(&self) -> BatchEnd {
        self.end
    }

    /// Whether the frame that ends a batch with these attributes speaks of these members.
    ///
    /// # Errors
    /// Returns an error with the first claim that does not hold.
    pub fn verify(&self, attributes: &[u8]) -> Result<(), String> {
        let said = BatchEnd::decode(attributes).map_err(|invalid| invalid.what)?;
        let found = self.end;
        if (said.first, said.count) != (found.first, found.count) {
            return Err(format!(
                "a batch of {} records and deletions from sequence number {} on is ended as one of {} from {} on",
                found.count, found.first, said.count, said.first
            ));
        }
        if let Some(sequence) = self.gap {
            return Err(format!("sequence number {sequence} stands in a batch where another should"));
        }
        if said.crc != found.crc {
            return Err(format!(
                "the checksum over the members of a batch is {:08x}, {:08x} was written",
                found.crc, said.crc
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(members: &[(u64, u32)]) -> BatchSum {
        let mut sum = BatchSum::default();
        members.iter().for_each(|&(sequence, digest)| sum.add(sequence, digest));
        sum
    }

    #[test]
    fn an_end_speaks_of_its_own_members_and_of_no_others() {
        let batch = sum(&[(5, 1), (6, 2), (7, 3)]);
        let end = batch.end().encode();
        assert_eq!(BatchEnd::decode(&end), Ok(batch.end()));
        assert_eq!(batch.verify(&end), Ok(()));
        let others: [&[(u64, u32)]; 6] = [
            &[(5, 1), (6, 2)],
            &[(5, 1), (6, 2), (7, 4)],
            &[(5, 2), (6, 1), (7, 3)],
            &[(5, 1), (3, 2), (7, 3)],
            &[(6, 1), (7, 2), (8, 3)],
            &[],
        ];
        for other in others {
            assert!(sum(other).verify(&end).is_err(), "{other:?}");
        }
        assert!(batch.verify(&end[..19]).is_err() && batch.verify(&[&end[..], &[0]].concat()).is_err());
        assert!(sum(&[(u64::MAX, 1), (0, 2)]).verify(&sum(&[(u64::MAX, 1), (0, 2)]).end().encode()).is_err());
    }

    #[test]
    fn a_digest_has_every_checksum_of_its_member() {
        let whole = digest_more(digest(1), &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(digest_more(digest_more(digest(1), &[1, 2, 3, 4]), &[5, 6, 7, 8]), whole);
        assert_ne!(digest_more(digest(2), &[1, 2, 3, 4, 5, 6, 7, 8]), whole);
        assert_ne!(digest_more(digest(1), &[1, 2, 3, 4]), whole);
    }
}
