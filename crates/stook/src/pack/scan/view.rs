//! [`View`]: what of a pack a scan sees, the same in every process that goes on with it.

use crate::pack::segment::Segment;

/// A pack at one moment. Records that a writer appends later, without a new generation, are not in it, and what they
/// replaced still is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct View {
    /// Records and deletions from this number on came later.
    pub(super) sequence_end: u64,
}

impl View {
    /// Whether the record with a frame at this offset was alive. Whether it was there at all, its own sequence number
    /// says.
    pub(super) fn is_alive(self, segment: &Segment, offset: u64) -> bool {
        segment.deaths.get(&offset).is_none_or(|death| death.sequence >= self.sequence_end)
    }

    /// Whether a record with this sequence number was there.
    pub(super) fn has(self, sequence: u64) -> bool {
        sequence < self.sequence_end
    }
}
