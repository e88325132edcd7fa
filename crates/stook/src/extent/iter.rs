//! Ways through an [`ExtentMap`](super::ExtentMap) in ascending order.

use std::collections::btree_map;

use super::ByteRange;
use super::map::Entry;

/// A part of an extent.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<'a, V> {
    /// The part.
    pub range: ByteRange,
    /// The whole extent it belongs to.
    pub extent: ByteRange,
    /// The value of the whole extent.
    pub value: &'a V,
}

impl<V> Piece<'_, V> {
    /// Where the part begins in its extent, in bytes.
    pub fn offset(&self) -> u64 {
        self.range.start() - self.extent.start()
    }
}

// Derived impls would ask the same of V, which is only borrowed here.
impl<V> Clone for Piece<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Piece<'_, V> {}

/// The parts of extents that lie in a range.
#[derive(Debug, Clone)]
pub struct Pieces<'a, V> {
    pub(super) wanted: ByteRange,
    pub(super) entries: btree_map::Range<'a, u64, Entry<V>>,
}

impl<'a, V> Iterator for Pieces<'a, V> {
    type Item = Piece<'a, V>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&start, entry) = self.entries.next()?;
        let extent = ByteRange::new(start, entry.end)?;
        // The first and last extent may begin before or end after what is wanted.
        let range = extent.intersection(&self.wanted)?;
        Some(Piece { range, extent, value: &entry.value })
    }
}

/// The parts of a range that no extent covers, not empty and not adjacent.
#[derive(Debug, Clone)]
pub struct Gaps<'a, V> {
    pub(super) pieces: Pieces<'a, V>,
    /// Up to where the range has been looked at.
    pub(super) next: u64,
}

impl<V> Iterator for Gaps<'_, V> {
    type Item = ByteRange;

    fn next(&mut self) -> Option<ByteRange> {
        let end = self.pieces.wanted.end();
        while self.next < end {
            let from = self.next;
            let (until, resume) = match self.pieces.next() {
                Some(piece) => (piece.range.start(), piece.range.end()),
                None => (end, end),
            };
            self.next = resume;
            if from < until {
                return ByteRange::new(from, until);
            }
        }
        None
    }
}

/// The covered ranges, as few as possible: adjacent extents are one, joined or not.
#[derive(Debug, Clone)]
pub struct Spans<'a, V> {
    pub(super) pieces: std::iter::Peekable<Pieces<'a, V>>,
}

impl<V> Iterator for Spans<'_, V> {
    type Item = ByteRange;

    fn next(&mut self) -> Option<ByteRange> {
        let first = self.pieces.next()?.range;
        let mut end = first.end();
        while let Some(piece) = self.pieces.next_if(|piece| piece.range.start() == end) {
            end = piece.range.end();
        }
        ByteRange::new(first.start(), end)
    }
}
