//! [`Reader`]: several questions to one state of a sparse file.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

use bytes::{Bytes, BytesMut};

use super::blocks::{Blocks, Place};
use super::buffer::Inner;
use super::clock::Clock;
use super::counters::ReadTally;
use super::lock::Reading;
use super::{Extent, SegmentInfo, SparseError};
use crate::extent::ByteRange;
use crate::plan::{Merger, Plan, PlanOptions};

/// One state of a [`SparseBuffer`](super::SparseBuffer), to be asked as often as one likes.
///
/// Nothing is written while it lives, so it should not live long; and the thread that has it must
/// not call the buffer itself.
#[derive(Debug)]
pub struct Reader<'a> {
    inner: Reading<'a, Inner, ReadTally>,
    clock: &'a Clock,
    /// The leaf of the index that was looked at last, and where in it.
    leaf: Cell<u32>,
    at: Cell<usize>,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn new(inner: Reading<'a, Inner, ReadTally>, clock: &'a Clock) -> Self {
        let leaf = Cell::new(inner.beside().leaf.load(Relaxed));
        let at = Cell::new(inner.beside().at.load(Relaxed) as usize);
        Self { inner, clock, leaf, at }
    }

    /// The leaf that `position` is in, and remembers it.
    #[inline]
    fn leaf_of(&self, position: u64) -> u32 {
        let leaf = self.inner.held.index.leaf_near(position, self.leaf.get());
        if leaf != self.leaf.get() {
            self.leaf.set(leaf);
            self.inner.beside().leaf.store(leaf, Relaxed);
        }
        leaf
    }

    /// Copies the bytes at `position` into `out`.
    ///
    /// # Errors
    /// Returns [`SparseError::NotHeld`] with the first gap if not all are held; `out` is unchanged
    /// then.
    pub fn read(&self, position: u64, out: &mut [u8]) -> Result<(), SparseError> {
        self.read_inline(position, out)
    }

    /// The same, to become part of its caller: a reader that is made for one read then never lies
    /// in memory.
    #[inline(always)]
    pub(super) fn read_inline(&self, position: u64, out: &mut [u8]) -> Result<(), SparseError> {
        let len = out.len() as u64;
        let Some(range) = ByteRange::at(position, len) else {
            return Err(SparseError::TooFar { position, len });
        };
        let leaf = self.leaf_of(position);
        let now = || self.clock.now(self.inner.thread());
        match self.inner.held.in_one(range, leaf, self.at.get()) {
            Some((after, bytes, touch)) => {
                if after != self.at.get() {
                    self.at.set(after);
                    self.inner.beside().at.store(after as u32, Relaxed);
                }
                now().touch(Some(touch));
                copy(bytes, out);
            }
            None => self.inner.held.read(range, out, now, leaf)?,
        }
        self.count(len);
        Ok(())
    }

    #[inline]
    fn count(&self, bytes: u64) {
        self.inner.beside().count(bytes, self.inner.is_own(), self.inner.is_exact);
    }

    /// The bytes of a range: without a copy where all of them were adopted together.
    ///
    /// # Errors
    /// Returns [`SparseError::NotHeld`] with the first gap if not all are held.
    pub fn read_bytes(&self, range: ByteRange) -> Result<Bytes, SparseError> {
        self.check(range)?;
        let held = &self.inner.held;
        let bytes =
            match self.adopted_run(range).and_then(|(first, last)| held.blocks.shared_run(first, last)) {
                Some(shared) => shared,
                None => {
                    let mut bytes = BytesMut::with_capacity(range.len() as usize);
                    let pieces = held.segments(range).filter_map(|segment| segment.cut(range));
                    pieces.for_each(|(_, place)| bytes.extend_from_slice(held.blocks.bytes(place)));
                    bytes.freeze()
                }
            };
        self.note_read(range);
        Ok(bytes)
    }

    /// First and last place of a range that lies in one block, in order.
    fn adopted_run(&self, range: ByteRange) -> Option<(Place, Place)> {
        let mut places = self.inner.held.segments(range).filter_map(|segment| Some(segment.cut(range)?.1));
        let first = places.next()?;
        self.inner.held.blocks.shared(first)?;
        let mut last = first;
        for place in places {
            if !Blocks::follows(last, place) {
                return None;
            }
            last = place;
        }
        Some((first, last))
    }

    /// Passes the bytes of a range to a callback, in pieces, in order, without a copy.
    ///
    /// # Errors
    /// Returns [`SparseError::NotHeld`] with the first gap if not all are held; no bytes were
    /// returned then.
    pub fn with_pieces(&self, range: ByteRange, mut each: impl FnMut(&[u8])) -> Result<(), SparseError> {
        self.check(range)?;
        let held = &self.inner.held;
        for (_, place) in held.segments(range).filter_map(|segment| segment.cut(range)) {
            each(held.blocks.bytes(place));
        }
        self.note_read(range);
        Ok(())
    }

    fn check(&self, range: ByteRange) -> Result<(), SparseError> {
        match self.inner.held.gaps(range).next() {
            Some(gap) => Err(SparseError::NotHeld { range, gap }),
            None => Ok(()),
        }
    }

    fn note_read(&self, range: ByteRange) {
        let now = self.clock.now(self.inner.thread());
        self.inner.held.segments(range).for_each(|segment| now.touch(segment.touch));
        self.count(range.len());
    }

    /// Whether every byte of `range` is held. An empty range is.
    pub fn has(&self, range: ByteRange) -> bool {
        self.inner.held.gaps(range).next().is_none()
    }

    /// The parts of `range` that are not held, ascending.
    pub fn gaps(&self, range: ByteRange) -> impl Iterator<Item = ByteRange> + '_ {
        self.inner.held.gaps(range)
    }

    /// Adds to `reads` what to read elsewhere so that all of `range` is held. If ranges are
    /// requested in ascending order, reads are merged with earlier ones.
    ///
    /// # Errors
    /// Returns an error if the options contradict themselves, or too many reads would be needed.
    #[inline]
    pub fn need_into(
        &self,
        range: ByteRange,
        options: &PlanOptions,
        reads: &mut Vec<ByteRange>,
    ) -> Result<(), SparseError> {
        let merger = Merger::new(options)?;
        let number = self.leaf_of(range.start());
        let Some(leaf) = self.inner.held.index.leaf(number) else { return Ok(()) };
        let after = leaf.upto_near(range.start(), self.at.get());
        self.at.set(after);
        let before_end =
            leaf.get(after.wrapping_sub(1)).map_or(0, |(start, place)| start + place.len() as u64);
        if before_end >= range.end() {
            return Ok(());
        }
        let next = leaf.get(after).map_or(leaf.high(), |(next, _)| next);
        // Where the range lies between two segments, or begins in one, there is nothing to look
        // for.
        if next >= range.end() {
            let gap = ByteRange::new(before_end.max(range.start()), range.end());
            return gap.map_or(Ok(()), |gap| Ok(merger.add(gap, reads)?));
        }
        for gap in self.inner.held.gaps_near(range, number) {
            merger.add(gap, reads)?;
        }
        Ok(())
    }

    /// What to read elsewhere so that all of these ranges are held, in any order: as few reads as
    /// serve all.
    ///
    /// # Errors
    /// Returns an error if the options contradict themselves, or too many reads would be needed.
    pub fn need_many(
        &self,
        ranges: &[ByteRange],
        options: &PlanOptions,
    ) -> Result<Vec<ByteRange>, SparseError> {
        let mut reads = Vec::new();
        if ranges.is_sorted() {
            for range in ranges {
                self.need_into(*range, options, &mut reads)?;
            }
            return Ok(reads);
        }
        let gaps: Vec<ByteRange> = ranges.iter().flat_map(|range| self.inner.held.gaps(*range)).collect();
        Ok(Plan::new(&gaps, options)?.reads().to_vec())
    }

    /// The held ranges, as few as possible, ascending.
    pub fn extents(&self) -> impl Iterator<Item = Extent> + '_ {
        self.inner.held.extents()
    }

    /// All bytes around `position` that are held without a gap. Takes time for every segment of it.
    pub fn extent_at(&self, position: u64) -> Option<Extent> {
        self.inner.held.extent_at(position)
    }

    /// The last extent that begins at `position` or before. It may end before `position`, too.
    /// Takes time for every segment of it.
    pub fn extent_before(&self, position: u64) -> Option<Extent> {
        self.extent_at(self.inner.held.index.last_start(position)?)
    }

    /// The first extent that ends after `position`. Takes time for every segment of it.
    pub fn extent_after(&self, position: u64) -> Option<Extent> {
        let after = ByteRange::new(position, u64::MAX)?;
        let first = self.inner.held.segments(after).next()?.start;
        self.extent_at(first)
    }

    /// The segments that have a byte in `range`, whole, ascending.
    pub fn segments(&self, range: ByteRange) -> impl Iterator<Item = SegmentInfo> + '_ {
        self.inner.held.segments(range).filter_map(|segment| {
            let range = ByteRange::new(segment.start, segment.end())?;
            Some(SegmentInfo { range, last_touch: segment.last_touch() })
        })
    }

    /// The position after the last byte held, 0 for none.
    pub fn end(&self) -> u64 {
        self.inner.held.index.end()
    }
}

/// Copies a slice to one that is as long. One byte is not worth a call.
#[inline]
fn copy(from: &[u8], to: &mut [u8]) {
    match (from, &mut *to) {
        ([from], [to]) => *to = *from,
        _ => to.copy_from_slice(from),
    }
}
