//! [`ExtentMap`]: an ordered map from disjoint extents to values.

use std::collections::BTreeMap;
use std::fmt;

use super::ByteRange;
use super::iter::{Gaps, Piece, Pieces, Spans};
use super::value::{ExtentValue, Overlap};

/// The entry that is stored under the first offset of an extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry<V> {
    pub(super) end: u64,
    pub(super) value: V,
}

/// What an insertion does with bytes that are covered already.
pub enum OnOverlap<'f, V> {
    /// Fails.
    Refuse,
    /// Keeps the existing bytes if they are equal, and fails otherwise. The function is called for
    /// every overlap in ascending order and returns the offset (counted like the map's) of the
    /// first byte that differs, or `None`; see
    /// [`first_byte_difference`](super::first_byte_difference).
    Compare(&'f mut dyn FnMut(&Overlap<'_, V>) -> Option<u64>),
    /// Keeps existing values and fills the gaps.
    Keep,
    /// Puts the new in place of the old.
    Replace,
}

impl<V> fmt::Debug for OnOverlap<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refuse => "Refuse",
            Self::Compare(_) => "Compare",
            Self::Keep => "Keep",
            Self::Replace => "Replace",
        })
    }
}

/// Why nothing was inserted. The map is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InsertError {
    /// Bytes of the range are covered, and the policy is [`OnOverlap::Refuse`].
    #[error("cannot insert {range}: {overlap} is already there")]
    Overlaps {
        /// The range that was to be inserted.
        range: ByteRange,
        /// The first part of it that is covered.
        overlap: ByteRange,
    },
    /// The existing bytes differ, and the policy is [`OnOverlap::Compare`].
    #[error("cannot insert {range}: the byte at offset {offset} is already there and differs")]
    Differs {
        /// The range that was to be inserted.
        range: ByteRange,
        /// The first byte that differs.
        offset: u64,
    },
    /// The value cannot represent an extent of this length.
    #[error("cannot insert {range}: its value does not fit an extent of {} bytes", range.len())]
    DoesNotFit {
        /// The range that was to be inserted.
        range: ByteRange,
    },
}

/// What an insertion did, in bytes; the three add up to the inserted length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inserted {
    /// Bytes that were not covered before.
    pub added: u64,
    /// Bytes whose old value was kept.
    pub kept: u64,
    /// Bytes whose old value was replaced.
    pub replaced: u64,
}

/// An ordered map from disjoint, non-empty extents to values.
///
/// Neighbours whose values can be joined are one extent; joining and cutting never touch the bytes
/// that the values represent. With `n` extents, every operation takes O(log n), and O(log n) more
/// for every extent it touches.
///
/// ```
/// use stook::extent::{ByteRange, ExtentMap, OnOverlap};
///
/// let range = |start, end| ByteRange::new(start, end).unwrap();
/// let mut held = ExtentMap::new();
/// held.insert(range(0, 100), (), OnOverlap::Refuse).unwrap();
/// held.insert(range(300, 400), (), OnOverlap::Refuse).unwrap();
/// held.insert(range(100, 200), (), OnOverlap::Refuse).unwrap();
///
/// assert_eq!(held.len(), 2, "neighbours became one");
/// assert_eq!(held.covered_len(), 300);
/// assert_eq!(held.gaps(range(150, 500)).collect::<Vec<_>>(), [range(200, 300), range(400, 500)]);
/// assert!(held.insert(range(350, 351), (), OnOverlap::Refuse).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtentMap<V> {
    entries: BTreeMap<u64, Entry<V>>,
    covered_len: u64,
}

impl<V> Default for ExtentMap<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> ExtentMap<V> {
    /// An empty map.
    pub const fn new() -> Self {
        Self { entries: BTreeMap::new(), covered_len: 0 }
    }

    /// How many extents there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is covered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many bytes are covered.
    pub fn covered_len(&self) -> u64 {
        self.covered_len
    }

    /// The offset after the last byte that is covered, 0 for none.
    pub fn end(&self) -> u64 {
        self.entries.last_key_value().map_or(0, |(_, entry)| entry.end)
    }

    /// The extent that contains `offset`, and its value.
    pub fn get(&self, offset: u64) -> Option<(ByteRange, &V)> {
        let (&start, entry) = self.entries.range(..=offset).next_back()?;
        let extent = ByteRange::new(start, entry.end)?;
        extent.contains(offset).then_some((extent, &entry.value))
    }

    /// Whether every byte of `range` is covered. An empty range is.
    pub fn covers(&self, range: ByteRange) -> bool {
        self.gaps(range).next().is_none()
    }

    /// The parts of extents that lie in `range`, ascending.
    pub fn pieces(&self, range: ByteRange) -> Pieces<'_, V> {
        let first = match self.get(range.start()) {
            Some((extent, _)) => extent.start(),
            None => range.start(),
        };
        Pieces { wanted: range, entries: self.entries.range(first..range.end()) }
    }

    /// The parts of `range` that are not covered, ascending.
    pub fn gaps(&self, range: ByteRange) -> Gaps<'_, V> {
        Gaps { pieces: self.pieces(range), next: range.start() }
    }

    /// The covered ranges, as few as possible: adjacent extents count as one even if their values
    /// could not be joined.
    pub fn spans(&self) -> Spans<'_, V> {
        Spans { pieces: self.pieces(ByteRange::to(u64::MAX)).peekable() }
    }

    /// All extents and their values, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (ByteRange, &V)> + '_ {
        // Entries are never empty, so every one of them is a range.
        self.entries
            .iter()
            .filter_map(|(&start, entry)| Some((ByteRange::new(start, entry.end)?, &entry.value)))
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.covered_len = 0;
    }

    /// The parts of `range` that are covered, as `(extent, piece)` of the first and sum of all.
    fn covered_in(&self, range: ByteRange) -> (Option<ByteRange>, u64) {
        let mut pieces = self.pieces(range).map(|piece| piece.range);
        let first = pieces.next();
        (first, first.map_or(0, |range| range.len()) + pieces.map(|range| range.len()).sum::<u64>())
    }
}

impl<V: ExtentValue> ExtentMap<V> {
    /// Inserts `value` for `range`: all of it, or nothing.
    ///
    /// An empty range changes nothing. Where only parts of the range are inserted, the value is
    /// cut.
    ///
    /// # Errors
    /// Returns the errors of the policy, and [`InsertError::DoesNotFit`]. The map is then
    /// unchanged.
    pub fn insert(
        &mut self,
        range: ByteRange,
        value: V,
        on_overlap: OnOverlap<'_, V>,
    ) -> Result<Inserted, InsertError> {
        if !value.fits(range.len()) {
            return Err(InsertError::DoesNotFit { range });
        }
        let (overlap, old) = self.covered_in(range);
        let added = range.len() - old;
        match (overlap, on_overlap) {
            (None, _) => self.insert_into_gap(range, value),
            (Some(overlap), OnOverlap::Refuse) => return Err(InsertError::Overlaps { range, overlap }),
            (Some(_), OnOverlap::Compare(first_difference)) => {
                self.compare(range, &value, first_difference)?;
                self.fill_gaps(range, value);
            }
            (Some(_), OnOverlap::Keep) => self.fill_gaps(range, value),
            (Some(_), OnOverlap::Replace) => {
                self.remove(range);
                self.insert_into_gap(range, value);
                return Ok(Inserted { added, kept: 0, replaced: old });
            }
        }
        Ok(Inserted { added, kept: old, replaced: 0 })
    }

    /// Removes the covered parts of `range` and returns them, ascending. Extents that reach beyond
    /// the range are cut.
    pub fn remove(&mut self, range: ByteRange) -> Vec<(ByteRange, V)> {
        let touched: Vec<u64> = self.pieces(range).map(|piece| piece.range.start()).collect();
        if !touched.is_empty() {
            self.cut(range.start());
            self.cut(range.end());
        }
        let mut removed = Vec::with_capacity(touched.len());
        for start in touched {
            // After cutting, every piece is an extent of its own.
            let taken = self.entries.remove(&start);
            let taken = taken.and_then(|entry| Some((ByteRange::new(start, entry.end)?, entry.value)));
            removed.extend(taken);
        }
        self.covered_len -= removed.iter().map(|(range, _)| range.len()).sum::<u64>();
        removed
    }

    fn compare(
        &self,
        range: ByteRange,
        new: &V,
        first_difference: &mut dyn FnMut(&Overlap<'_, V>) -> Option<u64>,
    ) -> Result<(), InsertError> {
        for piece in self.pieces(range) {
            let Piece { range: common, value: old, .. } = piece;
            let new_offset = common.start() - range.start();
            let overlap = Overlap { range: common, old, old_offset: piece.offset(), new, new_offset };
            if let Some(offset) = first_difference(&overlap) {
                return Err(InsertError::Differs { range, offset });
            }
        }
        Ok(())
    }

    /// Inserts the parts of `value` for the gaps of `range`.
    fn fill_gaps(&mut self, range: ByteRange, value: V) {
        let gaps: Vec<ByteRange> = self.gaps(range).collect();
        let (mut rest, mut from) = (value, range.start());
        for gap in gaps {
            if from < gap.start() {
                rest = rest.split_off(gap.start() - from);
            }
            from = gap.end();
            if from == range.end() {
                self.insert_into_gap(gap, rest);
                return;
            }
            let after = rest.split_off(gap.len());
            self.insert_into_gap(gap, std::mem::replace(&mut rest, after));
        }
    }

    /// Inserts where nothing is covered, and joins with the neighbours.
    fn insert_into_gap(&mut self, range: ByteRange, value: V) {
        if range.is_empty() {
            return;
        }
        self.entries.insert(range.start(), Entry { end: range.end(), value });
        self.covered_len += range.len();
        self.join_at(range.end());
        self.join_at(range.start());
    }

    /// Joins the extents that end and begin at `offset`, if they exist and their values agree.
    fn join_at(&mut self, offset: u64) {
        // At most one extent begins before `offset` and reaches it; looking both up in one walk
        // lets both be borrowed at once.
        let Some(previous) = self.entries.range(..offset).next_back().map(|(&start, _)| start) else {
            return;
        };
        let mut around = self.entries.range_mut(previous..=offset);
        let (Some((_, left)), Some((_, right))) = (around.next(), around.next()) else { return };
        if left.end == offset && left.value.try_join(offset - previous, &mut right.value) {
            left.end = right.end;
            self.entries.remove(&offset);
        }
    }

    /// Makes `offset` a boundary: an extent with bytes on both sides of it becomes two.
    fn cut(&mut self, offset: u64) {
        let Some((&start, entry)) = self.entries.range_mut(..offset).next_back() else { return };
        if entry.end <= offset {
            return;
        }
        let value = entry.value.split_off(offset - start);
        let end = std::mem::replace(&mut entry.end, offset);
        self.entries.insert(offset, Entry { end, value });
    }
}
