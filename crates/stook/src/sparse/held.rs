//! The held bytes of a sparse file: segments in an index, and their bytes in blocks. Not
//! thread-safe.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::blocks::{BLOCK_MAX, Blocks, Full, Place};
use super::clock::Now;
use super::error::SparseError;
use super::index::{Index, LEAF_MAX, Segments};
use super::joins::{Joins, joins_of};
use super::{OnDifference, SparseOptions, Work, Written};
use crate::extent::ByteRange;

/// Dead bytes that are not worth a sweep.
const DEAD_MIN: u64 = 128 << 10;
/// The most segments that one step of a sweep examines, and the bytes that it moves beyond those of
/// the operation that pays for it.
const SWEEP_SEGMENTS: usize = 256;
const SWEEP_BYTES: u64 = 16 << 10;

/// Bytes to be written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Input<'a> {
    /// To be copied.
    Copied(&'a [u8]),
    /// To be adopted where that is worth it.
    Shared(&'a Bytes),
}

impl Input<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// How much was taken away.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Erased {
    pub(super) segments: u64,
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) blocks: Blocks,
    pub(super) index: Index,
    /// The most bytes of a segment.
    grain: usize,
    /// Shared bytes that are fewer are copied.
    adopt_min: usize,
    /// The position of the sweep that moves segments out of mostly dead blocks.
    sweep: Option<u64>,
    pub(super) work: Work,
}

impl Held {
    pub(super) fn new(options: &SparseOptions) -> Self {
        let (grain, adopt_min) = (options.grain as usize, options.adopt_min as usize);
        let (blocks, index) = (Blocks::new(options.wipe), Index::default());
        Self { blocks, index, grain, adopt_min, sweep: None, work: Work::default() }
    }

    /// Bytes held.
    pub(super) fn len(&self) -> u64 {
        self.blocks.live()
    }

    /// The segments that have a byte in `range`.
    #[inline]
    pub(super) fn segments(&self, range: ByteRange) -> Segments<'_> {
        self.index.segments(range)
    }

    /// The parts of `range` that are not held, ascending.
    pub(super) fn gaps(&self, range: ByteRange) -> Gaps<'_> {
        self.gaps_near(range, u32::MAX)
    }

    /// The same; `hint` is the number of a leaf where the range may begin.
    #[inline]
    pub(super) fn gaps_near(&self, range: ByteRange, hint: u32) -> Gaps<'_> {
        Gaps { segments: self.index.segments_near(range, hint), next: range.start(), end: range.end() }
    }

    /// Copies a range that is wholly held into `out`, which is as long.
    pub(super) fn read(
        &self,
        range: ByteRange,
        mut out: &mut [u8],
        now: impl FnOnce() -> Now,
        hint: u32,
    ) -> Result<(), SparseError> {
        // Looked at before anything is copied: a caller whose read fails keeps its buffer.
        if let Some(gap) = self.gaps_near(range, hint).next() {
            return Err(SparseError::NotHeld { range, gap });
        }
        let now = now();
        for segment in self.index.segments_near(range, hint) {
            let Some((common, place)) = segment.cut(range) else { continue };
            now.touch(segment.touch);
            let (to, rest) = std::mem::take(&mut out).split_at_mut(common.len() as usize);
            to.copy_from_slice(self.blocks.bytes(place));
            out = rest;
        }
        Ok(())
    }

    /// The bytes of a range that is not empty and lies in one segment, and its last touch: the
    /// usual case of a small read. Before them how many segments of the leaf begin there or before;
    /// `hint` is what that may be.
    #[inline]
    pub(super) fn in_one(
        &self,
        range: ByteRange,
        leaf: u32,
        hint: usize,
    ) -> Option<(usize, &[u8], &AtomicU64)> {
        let leaf = self.index.leaf(leaf).filter(|_| !range.is_empty())?;
        let after = leaf.upto_near(range.start(), hint);
        let index = after.wrapping_sub(1);
        let (start, place) = leaf.get(index)?;
        let from = (range.start() - start) as usize;
        let bytes = self.blocks.bytes(place).get(from..from.checked_add(range.len() as usize)?)?;
        Some((after, bytes, leaf.touch(index)?))
    }

    /// Writes a few bytes where nothing is held, by making the segment before them longer or by one
    /// more in a leaf that has room: the usual case of a small write. `None` in any other case;
    /// nothing has been done then.
    #[inline]
    pub(super) fn write_small(&mut self, range: ByteRange, bytes: &[u8], now: Now) -> Option<()> {
        let number = self.index.leaf_at_mut(range.start());
        let leaf = self.index.leaf_mut(number)?;
        let after = leaf.upto(range.start());
        let before = leaf.get(after.wrapping_sub(1));
        let before_end = before.map_or(0, |(start, place)| start + place.len() as u64);
        let next = leaf.get(after).map_or(leaf.high(), |(next, _)| next);
        if before_end > range.start() || next < range.end() || bytes.is_empty() {
            return None;
        }
        if let Some((_, place)) = before.filter(|_| before_end == range.start())
            && let Some(longer) = self.blocks.extend(place, bytes, self.grain)
        {
            leaf.set_place(after - 1, longer);
            now.touch(leaf.touch(after - 1));
            return Some(());
        }
        if leaf.len() >= LEAF_MAX || bytes.len() > self.grain || !self.blocks.has_room_for(range.len()) {
            return None;
        }
        let place = self.blocks.append(bytes).ok()?;
        self.insert(number, after, range.start(), place, now.tick);
        self.sweep(range.len());
        Some(())
    }

    /// Writes all of the input, or nothing.
    pub(super) fn write(
        &mut self,
        range: ByteRange,
        input: Input<'_>,
        policy: OnDifference,
        now: Now,
    ) -> Result<Written, SparseError> {
        let held = self.check(range, input, policy)?;
        let added = range.len() - held;
        if !self.blocks.has_room_for(range.len()) {
            return Err(SparseError::Full);
        }
        if held == 0 {
            self.fill(range, range, input, now)?;
        } else {
            self.write_over(range, input, policy, now)?;
        }
        self.sweep(range.len());
        match policy {
            OnDifference::Replace => Ok(Written { added, kept: 0, replaced: held }),
            OnDifference::Keep | OnDifference::Error => Ok(Written { added, kept: held, replaced: 0 }),
        }
    }

    /// How many bytes of the range are held; an error where they differ and must not.
    #[inline]
    fn check(&self, range: ByteRange, input: Input<'_>, policy: OnDifference) -> Result<u64, SparseError> {
        let mut held = 0;
        for segment in self.segments(range) {
            let Some((common, place)) = segment.cut(range) else { continue };
            held += common.len();
            if policy != OnDifference::Error {
                continue;
            }
            let from = (common.start() - range.start()) as usize;
            let new = input.bytes().get(from..).unwrap_or_default();
            let old = self.blocks.bytes(place);
            if let Some(at) = first_difference(old, new) {
                let (offset, held) = (common.start() + at as u64, old.get(at).copied().unwrap_or_default());
                return Err(SparseError::Differs { range, overlap: common, offset, held });
            }
        }
        Ok(held)
    }

    /// Writes where some is held already, by the policy.
    fn write_over(
        &mut self,
        range: ByteRange,
        input: Input<'_>,
        policy: OnDifference,
        now: Now,
    ) -> Result<(), SparseError> {
        match (policy, input) {
            (OnDifference::Replace, Input::Shared(bytes)) if bytes.len() >= self.adopt_min => {
                self.erase(range);
            }
            (OnDifference::Replace, _) => self.overwrite(range, input, now),
            (OnDifference::Keep | OnDifference::Error, _) => {
                self.segments(range).for_each(|segment| now.touch(segment.touch));
            }
        }
        let gaps: Vec<ByteRange> = self.gaps(range).collect();
        for gap in gaps {
            self.fill(gap, range, input, now)?;
        }
        Ok(())
    }

    /// Replaces bytes in own memory in place, and removes adopted ones.
    fn overwrite(&mut self, range: ByteRange, input: Input<'_>, now: Now) {
        let mut old: Vec<(ByteRange, Place)> = Vec::new();
        for segment in self.index.segments(range) {
            now.touch(segment.touch);
            old.extend(segment.cut(range));
        }
        // Only when all places have been used is anything erased, because that may move what is
        // left.
        let mut adopted: Vec<ByteRange> = Vec::new();
        for (common, place) in old {
            let from = (common.start() - range.start()) as usize;
            let new = input.bytes().get(from..from + place.len()).unwrap_or_default();
            match self.blocks.bytes_mut(place) {
                Some(bytes) if bytes.len() == new.len() => bytes.copy_from_slice(new),
                _ => adopted.push(common),
            }
        }
        for common in adopted {
            self.erase(common);
        }
    }

    /// Writes the part `gap` of the input, which begins at the start of `range`, where nothing is
    /// held.
    #[inline]
    fn fill(&mut self, gap: ByteRange, range: ByteRange, input: Input<'_>, now: Now) -> Result<(), Full> {
        let (from, len) = ((gap.start() - range.start()) as usize, gap.len() as usize);
        match input {
            Input::Shared(bytes) if len >= self.adopt_min => {
                self.fill_shared(gap.start(), bytes.slice(from..from + len), now)
            }
            _ => {
                let bytes = input.bytes().get(from..from + len).unwrap_or_default();
                self.fill_copied(gap.start(), bytes, now)
            }
        }
    }

    #[inline]
    fn fill_copied(&mut self, mut at: u64, mut rest: &[u8], now: Now) -> Result<(), Full> {
        while !rest.is_empty() {
            let number = self.index.leaf_at_mut(at);
            let Some(leaf) = self.index.leaf(number) else { return Err(Full) };
            let (index, full) = (leaf.upto(at), leaf.len() >= LEAF_MAX);
            let room = (leaf.high() - at).min(rest.len() as u64).min(self.grain as u64) as usize;
            let before =
                leaf.get(index.wrapping_sub(1)).filter(|(start, place)| start + place.len() as u64 == at);
            let taken = if let Some(len) = before.and_then(|(_, place)| {
                let (head, _) = rest.split_at(room.min(self.grain - place.len()));
                let longer = self.blocks.extend(place, head, self.grain).filter(|_| !head.is_empty())?;
                let leaf = self.index.leaf_mut(number)?;
                leaf.set_place(index - 1, longer);
                now.touch(leaf.touch(index - 1));
                Some(head.len())
            }) {
                len
            } else if full {
                self.make_room(number, at);
                0
            } else {
                let (head, _) = rest.split_at(room);
                let place = self.blocks.append(head)?;
                self.insert(number, index, at, place, now.tick);
                room
            };
            rest = rest.get(taken..).unwrap_or_default();
            at += taken as u64;
        }
        Ok(())
    }

    /// Appends a segment after all others, as it was when it was serialised.
    pub(super) fn restore(&mut self, start: u64, bytes: &[u8], touch: u64) -> Result<(), Full> {
        let number = self.index.leaf_at_mut(start);
        let Some(leaf) = self.index.leaf(number) else { return Err(Full) };
        let index = leaf.len();
        let place = self.blocks.append(bytes)?;
        let number = match index >= LEAF_MAX {
            true => {
                self.index.split(number, index, start);
                self.index.leaf_at_mut(start)
            }
            false => number,
        };
        let index = self.index.leaf(number).map_or(0, |leaf| leaf.len());
        self.insert(number, index, start, place, touch);
        Ok(())
    }

    fn fill_shared(&mut self, mut at: u64, mut rest: Bytes, now: Now) -> Result<(), Full> {
        while !rest.is_empty() {
            let chunk = rest.split_to(rest.len().min(BLOCK_MAX));
            let len = chunk.len();
            let adopted = self.blocks.adopt(chunk)?;
            let mut offset = 0;
            while offset < len {
                let number = self.index.leaf_at_mut(at);
                let Some(leaf) = self.index.leaf(number) else { return Err(Full) };
                if leaf.len() >= LEAF_MAX {
                    self.make_room(number, at);
                    continue;
                }
                let room = (leaf.high() - at).min((len - offset).min(self.grain) as u64) as usize;
                let index = leaf.upto(at);
                self.insert(number, index, at, adopted.place(offset, room), now.tick);
                offset += room;
                at += room as u64;
            }
        }
        Ok(())
    }

    #[inline]
    fn insert(&mut self, number: u32, index: usize, start: u64, place: Place, touch: u64) {
        let len = self.index.leaf(number).map_or(0, |leaf| leaf.len());
        self.work.segments_moved += len.saturating_sub(index) as u64;
        self.index.insert(number, index, start, place, touch);
    }

    /// Makes room in a full leaf for a segment that begins at `at`: by joining neighbours, or else
    /// by making two leaves of it.
    #[cold]
    fn make_room(&mut self, number: u32, at: u64) {
        let Some(leaf) = self.index.leaf(number) else { return };
        let Joins { joins, gain } = joins_of(leaf, self.grain);
        // Joined for less, a leaf would soon be full again, and looking through it cost more than
        // it gains.
        if gain >= LEAF_MAX / 4 {
            for join in joins.into_iter().rev() {
                self.join(number, join.start, join.end);
            }
            return;
        }
        let index = leaf.upto(at);
        self.work.segments_moved += self.index.split(number, index, at) as u64;
    }

    /// Makes one segment of the neighbours `from..to` of a leaf.
    fn join(&mut self, number: u32, from: usize, to: usize) {
        let Some(leaf) = self.index.leaf(number) else { return };
        let places: Vec<Place> = (from..to).filter_map(|at| Some(leaf.get(at)?.1)).collect();
        let touches = (from..to).filter_map(|at| leaf.touch(at));
        let touch = touches.map(|touch| touch.load(Ordering::Relaxed)).max().unwrap_or(0);
        let Some((start, _)) = leaf.get(from) else { return };
        let mut bytes = Vec::with_capacity(places.iter().map(|place| place.len()).sum());
        places.iter().for_each(|place| bytes.extend_from_slice(self.blocks.bytes(*place)));
        // Where there is no room for another block, all stays as it was.
        let Ok(joined) = self.blocks.append_copy(bytes) else { return };
        places.iter().for_each(|place| self.blocks.release(*place, place.len()));
        self.work.bytes_moved += joined.len() as u64;
        self.index.remove(number, from, to);
        self.insert(number, from, start, joined, touch);
    }

    /// Erases the held bytes of `range`.
    pub(super) fn erase(&mut self, range: ByteRange) -> Erased {
        let mut erased = Erased::default();
        let mut at = range.start();
        while at < range.end() {
            let number = self.index.leaf_at_mut(at);
            let Some(high) = self.index.leaf(number).map(|leaf| leaf.high()) else { break };
            if !self.cut_out(number, range, &mut erased) {
                continue;
            }
            if let Some(moved) = (erased.bytes > 0).then(|| self.index.settle(number)) {
                self.work.segments_moved += moved as u64;
            }
            at = high;
        }
        self.sweep(erased.bytes);
        erased
    }

    /// Erases the bytes of `range` in a leaf; `false` if the leaf was full and is now split.
    fn cut_out(&mut self, number: u32, range: ByteRange, erased: &mut Erased) -> bool {
        let Some(leaf) = self.index.leaf_mut(number) else { return true };
        let mut from = leaf.first_after(range.start());
        let Some((start, place)) = leaf.get(from).filter(|(start, _)| *start < range.end()) else {
            return true;
        };
        let end = start + place.len() as u64;
        if start < range.start() {
            let keep = (range.start() - start) as usize;
            if end > range.end() {
                if leaf.len() >= LEAF_MAX {
                    self.work.segments_moved += self.index.split(number, LEAF_MAX / 2, start) as u64;
                    return false;
                }
                let (resume, touch) = ((range.end() - start) as usize, leaf.touch(from));
                let touch = touch.map_or(0, |touch| touch.load(Ordering::Relaxed));
                leaf.set_place(from, place.part(0, keep));
                self.insert(number, from + 1, range.end(), place.part(resume, place.len()), touch);
                self.let_go(place, resume - keep, erased);
                return true;
            }
            leaf.set_place(from, place.part(0, keep));
            self.let_go(place, place.len() - keep, erased);
            from += 1;
        }
        self.cut_front(number, from, range, erased);
        true
    }

    /// Takes away the segments from index `from` on that begin in `range`, and the front of the one
    /// that reaches out of it.
    fn cut_front(&mut self, number: u32, from: usize, range: ByteRange, erased: &mut Erased) {
        let mut to = from;
        while let Some((start, place)) = self.index.leaf(number).and_then(|leaf| leaf.get(to)) {
            if start >= range.end() {
                break;
            }
            if start + place.len() as u64 <= range.end() {
                self.let_go(place, place.len(), erased);
                to += 1;
                continue;
            }
            let cut = (range.end() - start) as usize;
            if let Some(leaf) = self.index.leaf_mut(number) {
                leaf.set_start(to, range.end());
                leaf.set_place(to, place.part(cut, place.len()));
            }
            self.let_go(place, cut, erased);
            break;
        }
        let len = self.index.leaf(number).map_or(0, |leaf| leaf.len());
        self.work.segments_moved += if to > from { len.saturating_sub(to) as u64 } else { 0 };
        self.index.remove(number, from, to);
    }

    fn let_go(&mut self, place: Place, len: usize, erased: &mut Erased) {
        self.blocks.release(place, len);
        erased.segments += 1;
        erased.bytes += len as u64;
    }

    /// If a third of the memory is dead, moves some segments out of the blocks with most of it: a
    /// little at every change, in proportion to its `paid` bytes, so that no caller waits long.
    #[inline]
    fn sweep(&mut self, paid: u64) {
        if self.sweep.is_some() || self.blocks.dead() * 2 > self.blocks.live() + DEAD_MIN {
            self.sweep_on(paid);
        }
    }

    #[cold]
    fn sweep_on(&mut self, paid: u64) {
        let mut at = match self.sweep {
            Some(at) => at,
            None => {
                self.blocks.choose_leaving();
                0
            }
        };
        let mut left = SWEEP_BYTES.saturating_add(paid.saturating_mul(2));
        for _ in 0..SWEEP_SEGMENTS {
            let number = self.index.leaf_at(at);
            let Some(leaf) = self.index.leaf(number) else { break };
            let index = leaf.first_after(at);
            let Some((start, place)) = leaf.get(index) else {
                at = leaf.high();
                if at == u64::MAX {
                    self.sweep = None;
                    return;
                }
                continue;
            };
            at = start + place.len() as u64;
            if !self.blocks.is_leaving(place) {
                continue;
            }
            let Ok(moved) = self.blocks.relocate(place) else { break };
            self.work.bytes_moved += place.len() as u64;
            if let Some(leaf) = self.index.leaf_mut(number) {
                leaf.set_place(index, moved);
            }
            left = left.saturating_sub(place.len() as u64);
            if left == 0 {
                break;
            }
        }
        self.sweep = Some(at);
    }
}

/// The first index at which two slices differ, within the shorter.
fn first_difference(old: &[u8], new: &[u8]) -> Option<usize> {
    let len = old.len().min(new.len());
    if old.get(..len) == new.get(..len) {
        return None;
    }
    old.iter().zip(new).position(|(old, new)| old != new)
}

/// The iterator of [`Held::gaps`].
#[derive(Debug, Clone)]
pub(super) struct Gaps<'a> {
    segments: Segments<'a>,
    next: u64,
    end: u64,
}

impl Iterator for Gaps<'_> {
    type Item = ByteRange;

    #[inline]
    fn next(&mut self) -> Option<ByteRange> {
        loop {
            let start = self.next;
            if start >= self.end {
                return None;
            }
            let until = match self.segments.next() {
                Some(segment) => {
                    self.next = segment.end();
                    segment.start
                }
                None => {
                    self.next = self.end;
                    self.end
                }
            };
            if start < until {
                return ByteRange::new(start, until);
            }
        }
    }
}
