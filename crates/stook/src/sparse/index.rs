//! Where segments are: an ordered map of small sorted leaves.
//!
//! A leaf holds the segments that begin in its span of positions, and no segment reaches out of the
//! span of its leaf. The spans of all leaves together are all positions. Knows nothing about bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::blocks::Place;
use super::directory::LeafDirectory;
use crate::extent::ByteRange;

/// The most segments of a leaf.
pub(super) const LEAF_MAX: usize = 128;
/// By how many a leaf gets room where segments come in no order: half-full leaves would else hold
/// as much memory as full ones.
const ROOM: usize = 16;

/// The segments of one span of positions, ascending, in three lists of one length.
#[derive(Debug)]
pub(super) struct Leaf {
    /// The span: from here on,
    low: u64,
    /// up to here.
    high: u64,
    starts: Vec<u64>,
    places: Vec<Place>,
    touches: Vec<AtomicU64>,
}

impl Leaf {
    fn new(low: u64, high: u64, capacity: usize) -> Self {
        Self {
            low,
            high,
            starts: Vec::with_capacity(capacity),
            places: Vec::with_capacity(capacity),
            touches: Vec::with_capacity(capacity),
        }
    }

    pub(super) fn high(&self) -> u64 {
        self.high
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// How many segments begin at or before `position`.
    #[inline]
    pub(super) fn upto(&self, position: u64) -> usize {
        // Most look-ups are after the last start.
        match self.starts.last() {
            Some(&last) if last <= position => self.starts.len(),
            _ => self.starts.partition_point(|&start| start <= position),
        }
    }

    /// The same; `hint` is the likely result, or a little less.
    #[inline]
    pub(super) fn upto_near(&self, position: u64, hint: usize) -> usize {
        let begins = |index: usize| self.starts.get(index).is_some_and(|&start| start <= position);
        if hint <= self.starts.len() && (hint == 0 || begins(hint - 1)) {
            if !begins(hint) {
                return hint;
            }
            if !begins(hint + 1) {
                return hint + 1;
            }
        }
        self.upto(position)
    }

    /// The segment at `index`.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<(u64, Place)> {
        Some((*self.starts.get(index)?, *self.places.get(index)?))
    }

    /// The first segment that ends after `position`: its index.
    #[inline]
    pub(super) fn first_after(&self, position: u64) -> usize {
        let after = self.upto(position);
        let before = after.wrapping_sub(1);
        match self.get(before) {
            Some((start, place)) if start + place.len() as u64 > position => before,
            _ => after,
        }
    }

    #[inline]
    pub(super) fn touch(&self, index: usize) -> Option<&AtomicU64> {
        self.touches.get(index)
    }

    #[inline]
    pub(super) fn set_place(&mut self, index: usize, place: Place) {
        if let Some(slot) = self.places.get_mut(index) {
            *slot = place;
        }
    }

    pub(super) fn set_start(&mut self, index: usize, start: u64) {
        if let Some(slot) = self.starts.get_mut(index) {
            *slot = start;
        }
    }

    /// Puts a segment at `index`; there must be room.
    #[inline]
    pub(super) fn insert(&mut self, index: usize, start: u64, place: Place, touch: u64) {
        debug_assert!(self.len() < LEAF_MAX && self.low <= start);
        debug_assert!(start + place.len() as u64 <= self.high);
        if self.len() == self.starts.capacity() {
            self.make_room();
        }
        if index >= self.len() {
            self.starts.push(start);
            self.places.push(place);
            self.touches.push(AtomicU64::new(touch));
            return;
        }
        self.starts.insert(index, start);
        self.places.insert(index, place);
        self.touches.insert(index, AtomicU64::new(touch));
    }

    #[cold]
    fn make_room(&mut self) {
        self.starts.reserve_exact(ROOM);
        self.places.reserve_exact(ROOM);
        self.touches.reserve_exact(ROOM);
    }

    /// Takes the segments `from..to` out.
    pub(super) fn remove(&mut self, from: usize, to: usize) {
        let to = to.min(self.len());
        if from < to {
            self.starts.drain(from..to);
            self.places.drain(from..to);
            self.touches.drain(from..to);
        }
    }

    /// Moves the later segments, from `at` on, to a new leaf. An empty leaf gets full capacity,
    /// because ascending or descending insertion fills it; two halves get some spare capacity.
    fn split_off(&mut self, at: usize, low: u64) -> Self {
        let moved = self.len() - at;
        let apart = moved > 0 && at > 0;
        let mut right = Self::new(low, self.high, if apart { moved + ROOM } else { LEAF_MAX });
        right.starts.extend(self.starts.drain(at..));
        right.places.extend(self.places.drain(at..));
        right.touches.extend(self.touches.drain(at..));
        if apart {
            self.starts.shrink_to(at + ROOM);
            self.places.shrink_to(at + ROOM);
            self.touches.shrink_to(at + ROOM);
        }
        self.high = low;
        right
    }

    /// Takes everything of the leaf that follows.
    fn take_in(&mut self, next: &mut Self) {
        self.starts.append(&mut next.starts);
        self.places.append(&mut next.places);
        self.touches.append(&mut next.touches);
        self.high = next.high;
    }

    fn memory_bytes(&self) -> usize {
        let lists = self.starts.capacity() + self.places.capacity() + self.touches.capacity();
        lists * size_of::<u64>()
    }
}

/// All leaves.
#[derive(Debug)]
pub(super) struct Index {
    leaves: Vec<Leaf>,
    /// Numbers of leaves that are not in use.
    free: Vec<u32>,
    /// Which leaf a position belongs to.
    directory: LeafDirectory,
    /// The leaf of the last look-up that may change the index.
    last: u32,
    /// How many segments there are.
    len: u64,
}

impl Default for Index {
    fn default() -> Self {
        let leaves = vec![Leaf::new(0, u64::MAX, 0)];
        Self { leaves, free: Vec::new(), directory: LeafDirectory::new(), last: 0, len: 0 }
    }
}

impl Index {
    /// How many segments there are.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The position after the last segment, 0 for none.
    pub(super) fn end(&self) -> u64 {
        let leaves = self.directory.backwards().filter_map(|number| self.leaf(number));
        let last = leaves.filter_map(|leaf| leaf.get(leaf.len().wrapping_sub(1))).next();
        last.map_or(0, |(start, place)| start + place.len() as u64)
    }

    /// Where the last segment begins that begins at `position` or before.
    pub(super) fn last_start(&self, position: u64) -> Option<u64> {
        // A leaf may be empty.
        let mut at = position;
        loop {
            let leaf = self.leaf(self.leaf_at(at))?;
            if let Some((start, _)) = leaf.get(leaf.upto(at).wrapping_sub(1)) {
                return Some(start);
            }
            at = leaf.low.checked_sub(1)?;
        }
    }

    /// The number of the leaf whose span `position` is in; `hint` is that of a leaf where it may
    /// be.
    #[inline]
    pub(super) fn leaf_near(&self, position: u64, hint: u32) -> u32 {
        match self.leaves.get(hint as usize) {
            Some(leaf) if leaf.low <= position && position < leaf.high => hint,
            _ => self.directory.find(position),
        }
    }

    /// The same, near the last that was changed.
    #[inline]
    pub(super) fn leaf_at(&self, position: u64) -> u32 {
        self.leaf_near(position, self.last)
    }

    /// The same, and remembered.
    #[inline]
    pub(super) fn leaf_at_mut(&mut self, position: u64) -> u32 {
        self.last = self.leaf_at(position);
        self.last
    }

    #[inline]
    pub(super) fn leaf(&self, number: u32) -> Option<&Leaf> {
        self.leaves.get(number as usize)
    }

    #[inline]
    pub(super) fn leaf_mut(&mut self, number: u32) -> Option<&mut Leaf> {
        self.leaves.get_mut(number as usize)
    }

    /// Puts a segment into a leaf that has room.
    #[inline]
    pub(super) fn insert(&mut self, number: u32, index: usize, start: u64, place: Place, touch: u64) {
        if let Some(leaf) = self.leaf_mut(number) {
            leaf.insert(index, start, place, touch);
            self.len += 1;
        }
    }

    /// Takes the segments `from..to` out of a leaf.
    pub(super) fn remove(&mut self, number: u32, from: usize, to: usize) {
        if let Some(leaf) = self.leaf_mut(number) {
            let before = leaf.len();
            leaf.remove(from, to);
            let removed = before - leaf.len();
            self.len -= removed as u64;
        }
    }

    /// Splits a full leaf, so that there is room for a segment that is to begin at `start`, before
    /// the one at `index`. Ascending or descending insertion leaves full leaves. Returns how many
    /// were moved.
    pub(super) fn split(&mut self, number: u32, index: usize, start: u64) -> usize {
        let Some(leaf) = self.leaf_mut(number) else { return 0 };
        let (at, low) = match index {
            index if index >= leaf.len() => (leaf.len(), start),
            0 => (0, leaf.starts.first().copied().unwrap_or(start)),
            _ => (leaf.len() / 2, leaf.starts.get(leaf.len() / 2).copied().unwrap_or(start)),
        };
        let moved = leaf.len() - at;
        let right = leaf.split_off(at, low);
        self.last = self.add(right);
        moved
    }

    fn add(&mut self, leaf: Leaf) -> u32 {
        let low = leaf.low;
        let number = match self.free.pop() {
            Some(number) => {
                if let Some(slot) = self.leaves.get_mut(number as usize) {
                    *slot = leaf;
                }
                number
            }
            None => {
                self.leaves.push(leaf);
                (self.leaves.len() - 1) as u32
            }
        };
        self.directory.insert(low, number);
        number
    }

    /// Joins a leaf that has become small with a neighbour, if both fit into one with room to
    /// spare. Says how many segments were moved.
    pub(super) fn settle(&mut self, number: u32) -> usize {
        let Some(leaf) = self.leaf(number) else { return 0 };
        if leaf.len() > LEAF_MAX / 4 {
            return 0;
        }
        let (len, low, high) = (leaf.len(), leaf.low, leaf.high);
        // An empty leaf goes in any case.
        let most = if len == 0 { LEAF_MAX } else { LEAF_MAX / 4 * 3 };
        let room = |other: u32| self.leaf(other).is_some_and(|other| other.len() + len <= most);
        let before = low.checked_sub(1).map(|before| self.directory.find(before));
        if let Some(before) = before.filter(|&before| room(before)) {
            return self.join(before, number);
        }
        let after = (high < u64::MAX).then(|| self.directory.find(high));
        match after.filter(|&after| room(after)) {
            Some(after) => self.join(number, after),
            None => 0,
        }
    }

    /// Appends the contents of `right` to `left`.
    fn join(&mut self, left: u32, right: u32) -> usize {
        let Some(leaf) = self.leaf_mut(right) else { return 0 };
        let low = leaf.low;
        let empty = Leaf::new(0, 0, 0);
        let mut taken = std::mem::replace(leaf, empty);
        let moved = taken.len();
        if let Some(leaf) = self.leaf_mut(left) {
            leaf.take_in(&mut taken);
        }
        self.directory.remove(low);
        self.free.push(right);
        self.last = left;
        moved
    }

    /// What all of it takes of memory, without the blocks.
    pub(super) fn memory_bytes(&self) -> u64 {
        let lists: usize = self.leaves.iter().map(Leaf::memory_bytes).sum();
        let leaves = self.leaves.capacity() * size_of::<Leaf>() + self.free.capacity() * size_of::<u32>();
        (lists + leaves + self.directory.memory_bytes()) as u64
    }

    /// The segments that have a byte in `range`, ascending, uncut.
    #[inline]
    pub(super) fn segments(&self, range: ByteRange) -> Segments<'_> {
        self.segments_near(range, self.last)
    }

    /// The same; `hint` is the number of a leaf where they may begin.
    #[inline]
    pub(super) fn segments_near(&self, range: ByteRange, hint: u32) -> Segments<'_> {
        let leaf = self.leaf(self.leaf_near(range.start(), hint)).filter(|_| !range.is_empty());
        let at = leaf.map_or(0, |leaf| leaf.first_after(range.start()));
        Segments { index: self, leaf, at, end: range.end() }
    }
}

/// A segment as it is found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) start: u64,
    pub(super) place: Place,
    pub(super) touch: Option<&'a AtomicU64>,
}

impl Segment<'_> {
    pub(super) fn end(&self) -> u64 {
        self.start + self.place.len() as u64
    }

    pub(super) fn last_touch(&self) -> u64 {
        self.touch.map_or(0, |touch| touch.load(Ordering::Relaxed))
    }

    /// Its intersection with `range`, and the place of that.
    pub(super) fn cut(&self, range: ByteRange) -> Option<(ByteRange, Place)> {
        let common = ByteRange::new(self.start, self.end())?.intersection(&range)?;
        let from = (common.start() - self.start) as usize;
        Some((common, self.place.part(from, from + common.len() as usize)))
    }
}

/// The iterator of [`Index::segments`].
#[derive(Debug, Clone)]
pub(super) struct Segments<'a> {
    index: &'a Index,
    leaf: Option<&'a Leaf>,
    at: usize,
    end: u64,
}

impl<'a> Iterator for Segments<'a> {
    type Item = Segment<'a>;

    #[inline]
    fn next(&mut self) -> Option<Segment<'a>> {
        loop {
            let leaf = self.leaf?;
            if let Some((start, place)) = leaf.get(self.at) {
                if start >= self.end {
                    self.leaf = None;
                    return None;
                }
                let touch = leaf.touch(self.at);
                self.at += 1;
                return Some(Segment { start, place, touch });
            }
            self.at = 0;
            self.leaf = match leaf.high < self.end {
                true => self.index.leaf(self.index.directory.find(leaf.high)),
                false => None,
            };
        }
    }
}
