//! [`View`]: what of a pack a scan sees, the same in every process that continues it.

use crate::pack::state::segment::{Life, Segment};

/// A pack at one moment. Records that a writer appends later, without a new generation, are not in
/// it, and what they replaced still is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct View {
    /// Records and deletions from this number on came later.
    pub(super) sequence_end: u64,
}

impl View {
    /// Whether the record with a frame at this offset was alive. Whether it was there at all, its
    /// own sequence number says.
    pub(super) fn life(self, segment: &Segment, offset: u64) -> Life {
        match segment.deaths.get(&offset) {
            Some(death) if death.sequence < self.sequence_end => Life::Dead,
            _ => segment.life_untold(offset),
        }
    }

    /// Whether a record with this sequence number was there.
    pub(super) fn has(self, sequence: u64) -> bool {
        sequence < self.sequence_end
    }
}
