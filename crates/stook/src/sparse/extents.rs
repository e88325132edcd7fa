//! Extents as units: erased and evicted as a whole, and everything begun anew.

use super::buffer::{SparseBuffer, lock};
use super::counters::ReadTally;
use super::held::Held;
use super::index::Segment;
use super::pins::Pins;
use super::{Counters, Extent};
use crate::extent::ByteRange;

/// What was evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Evicted {
    /// Whole extents.
    pub extents: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Held {
    /// The held ranges, as few as possible, ascending.
    pub(super) fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        let mut segments = self.segments(ByteRange::to(u64::MAX)).peekable();
        std::iter::from_fn(move || {
            let mut extent = of_one(segments.next()?)?;
            while let Some(next) = segments.next_if(|next| next.start == extent.range.end()) {
                extent = joined(extent, of_one(next)?);
            }
            Some(extent)
        })
    }

    /// All bytes around `position` that are held without a gap.
    pub(super) fn extent_at(&self, position: u64) -> Option<Extent> {
        let mut extent = of_one(self.segments(ByteRange::at(position, 1)?).next()?)?;
        while let Some(before) = self.segment_before(extent.range.start()) {
            extent = joined(of_one(before)?, extent);
        }
        self.to_its_end(extent)
    }

    /// The extent that begins at `position`.
    fn extent_from(&self, position: u64) -> Option<Extent> {
        let first = self.segments(ByteRange::at(position, 1)?).next()?;
        let begins = first.start == position && self.segment_before(position).is_none();
        self.to_its_end(of_one(first).filter(|_| begins)?)
    }

    /// The segment that ends at `position`, or has the byte before it.
    fn segment_before(&self, position: u64) -> Option<Segment<'_>> {
        self.segments(ByteRange::at(position.checked_sub(1)?, 1)?).next()
    }

    /// An extent with the segments that follow it without a gap.
    fn to_its_end(&self, mut extent: Extent) -> Option<Extent> {
        let after = ByteRange::new(extent.range.end(), u64::MAX)?;
        for segment in self.segments(after) {
            if segment.start != extent.range.end() {
                break;
            }
            extent = joined(extent, of_one(segment)?);
        }
        Some(extent)
    }
}

impl SparseBuffer {
    /// Erases the whole extent that begins at `position`; how many bytes that were, or `None` where
    /// no extent begins there.
    pub fn erase_extent(&self, position: u64) -> Option<u64> {
        let mut inner = self.lock.write();
        let range = inner.held.extent_from(position)?.range;
        let erased = inner.held.erase(range);
        inner.counters.erased_segments += erased.segments;
        inner.counters.erased_bytes += erased.bytes;
        self.let_go(inner);
        Some(erased.bytes)
    }

    /// Evicts whole extents, first the one whose latest touch is the earliest, until at most
    /// `budget_bytes` are held or `keep` extents are left. Extents of which a byte is pinned stay.
    ///
    /// [`evict_to`](Self::evict_to) evicts parts of extents, and so keeps more of what is needed:
    /// this is for those to whom only whole extents are of use. Takes time for every segment.
    pub fn evict_extents(&self, budget_bytes: u64, keep: u64) -> Evicted {
        let pins = lock(&self.pins);
        let mut inner = self.lock.write();
        let mut evicted = Evicted::default();
        if inner.held.len() <= budget_bytes {
            return evicted;
        }
        let mut extents: Vec<Extent> = inner.held.extents().collect();
        let mut left = extents.len() as u64;
        extents.sort_unstable_by_key(|extent| extent.last_touch);
        for extent in extents {
            if inner.held.len() <= budget_bytes || left <= keep {
                break;
            }
            if is_pinned(&pins, extent.range) {
                continue;
            }
            let erased = inner.held.erase(extent.range);
            inner.counters.evicted_segments += erased.segments;
            inner.counters.evicted_bytes += erased.bytes;
            evicted.extents += 1;
            evicted.bytes += erased.bytes;
            left -= 1;
        }
        self.note_len(&mut inner);
        evicted
    }

    /// Takes everything away, pinned or not, and begins anew: all counters are 0, and the next
    /// touch is the first. Options, pins and the modification time stay. In a store, whose count of
    /// touches is that of all its files, touches go on. How many bytes that were.
    pub fn reset(&self) -> u64 {
        // The queue is locked before the file, as where something is evicted.
        let mut queue = lock(&self.queue);
        let mut inner = self.lock.write();
        let bytes = inner.held.len();
        let old = std::mem::replace(&mut inner.held, Held::new(self.options()));
        inner.counters = Counters::default();
        self.lock.all_beside().for_each(ReadTally::reset);
        if self.pool.is_none() {
            self.meter.clock.reset();
        }
        queue.clear();
        drop(queue);
        self.let_go(inner);
        // Freeing the memory takes time; no caller needs to wait for it.
        drop(old);
        bytes
    }
}

fn of_one(segment: Segment<'_>) -> Option<Extent> {
    let range = ByteRange::new(segment.start, segment.end())?;
    Some(Extent { range, segments: 1, last_touch: segment.last_touch() })
}

/// Two extents that touch, as one.
fn joined(left: Extent, right: Extent) -> Extent {
    Extent {
        range: ByteRange::new(left.range.start(), right.range.end()).unwrap_or(left.range),
        segments: left.segments + right.segments,
        last_touch: left.last_touch.max(right.last_touch),
    }
}

/// Whether any byte of a range is pinned.
fn is_pinned(pins: &Pins, range: ByteRange) -> bool {
    pins.free_in(range) != [range]
}
