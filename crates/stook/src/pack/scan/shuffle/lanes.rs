//! The windows of lanes: which records are read and mixed at once, and whose turn it is.

use std::ops::Range;
use std::sync::Arc;

use super::order::{key_of, permute};
use super::{EpochOrder, Shuffle, WINDOW_RECORDS_MAX};
use crate::pack::error::{Error, Result};

/// Which part of an epoch a reader hands out: of the lanes every `count`th, from `index` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShuffleShare {
    index: u32,
    count: u32,
}

impl ShuffleShare {
    /// All of it.
    pub const ALL: Self = Self { index: 0, count: 1 };

    /// That of one worker of several, of one rank of several. Ranks divide lanes first, so that
    /// they have the same number of records where that of the lanes is a multiple of theirs.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there is no such rank or worker.
    pub fn of((rank, world): (u32, u32), (worker, workers): (u32, u32)) -> Result<Self> {
        for (name, number, count) in [("rank", rank, world), ("worker", worker, workers)] {
            if number >= count {
                return Err(Error::Invalid(format!("there is no {name} {number} of {count}, from 0 on")));
            }
        }
        let count = world.checked_mul(workers);
        let count = count
            .ok_or_else(|| Error::Invalid(format!("{world} ranks of {workers} workers are too many")))?;
        Ok(Self { index: worker * world + rank, count })
    }

    /// Its lanes, of this many.
    pub(super) fn lanes(self, lanes: u32) -> Result<impl Iterator<Item = u32>> {
        if self.count > lanes {
            return Err(Error::Invalid(format!(
                "{} readers (workers of all ranks) cannot share {lanes} lanes: take fewer workers, or lanes={} or more",
                self.count, self.count
            )));
        }
        Ok((self.index..lanes).step_by(self.count as usize))
    }
}

/// Records of a lane that are read at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LaneWindow {
    pub(super) lane: u32,
    /// Which of the lane.
    number: u64,
    /// Records of the lane before it.
    position: u64,
    ranges: Vec<Range<u64>>,
    len: u64,
    /// How many of its records were handed out.
    done: u64,
}

impl LaneWindow {
    /// The ordinals that are left, in the order in which they are handed out.
    pub(super) fn numbers(&self, shuffle: &Shuffle, epoch: u64) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.ranges.iter().cloned().flatten().collect();
        if let Some(seed) = shuffle.options.seed {
            permute(&mut numbers, key_of(&[seed, epoch, self.lane.into(), self.number]));
        }
        numbers.drain(..(self.done as usize).min(numbers.len()));
        numbers
    }
}

/// Goes through the windows of a lane.
#[derive(Debug)]
struct LaneCursor {
    lane: u32,
    /// Which span of the epoch's order is next, and how many of its records are passed.
    at: usize,
    skip: u64,
    /// Records in no window yet.
    left: u64,
    position: u64,
    windows: u64,
}

impl LaneCursor {
    fn next(&mut self, shuffle: &Shuffle, order: &EpochOrder) -> Option<LaneWindow> {
        let (mut ranges, mut len, mut bytes) = (Vec::new(), 0, 0_u64);
        while self.left > 0 && bytes < shuffle.options.window_bytes && len < WINDOW_RECORDS_MAX {
            let span = shuffle.span(*order.spans.get(self.at)? as usize);
            let from = span.start + self.skip;
            let to = span.end.min(from + self.left);
            bytes = bytes.saturating_add(shuffle.ordinals.extent_bytes(from..to).unwrap_or(u64::MAX));
            let count = to - from;
            (len, self.left) = (len + count, self.left - count);
            (self.at, self.skip) =
                if to == span.end { (self.at + 1, 0) } else { (self.at, self.skip + count) };
            ranges.push(from..to);
        }
        let (number, position) = (self.windows, self.position);
        self.windows += 1;
        self.position += len;
        (len > 0).then_some(LaneWindow { lane: self.lane, number, position, ranges, len, done: 0 })
    }
}

/// The windows of a share in the order in which they are read. Which is next depends on nothing but
/// how far each lane is: the lane that had the fewest windows, one that was begun before others,
/// and of the same the first. So a reader that is resumed continues in the same order.
#[derive(Debug)]
pub(super) struct ShareWindows {
    shuffle: Arc<Shuffle>,
    pub(super) order: Arc<EpochOrder>,
    lanes: Vec<(LaneCursor, Option<LaneWindow>)>,
}

impl ShareWindows {
    /// Those of lanes that are at these positions.
    pub(super) fn new(
        shuffle: Arc<Shuffle>,
        order: Arc<EpochOrder>,
        positions: &[(u32, u64)],
    ) -> Result<Self> {
        let mut lanes = Vec::with_capacity(positions.len());
        for &(lane, position) in positions {
            let begin = order.lanes.get(lane as usize).copied();
            let begin = begin.filter(|begin| position <= begin.len).ok_or_else(|| {
                Error::Invalid(format!("lane {lane} of the state has no record {position}"))
            })?;
            let (at, skip, left) = (begin.at, begin.skip, begin.len);
            let mut cursor = LaneCursor { lane, at, skip, left, position: 0, windows: 0 };
            let mut window = cursor.next(&shuffle, &order);
            while window.as_ref().is_some_and(|window| window.position + window.len <= position) {
                window = cursor.next(&shuffle, &order);
            }
            if let Some(window) = &mut window {
                window.done = position - window.position;
            }
            lanes.push((cursor, window));
        }
        Ok(Self { shuffle, order, lanes })
    }
}

impl Iterator for ShareWindows {
    type Item = LaneWindow;

    fn next(&mut self) -> Option<LaneWindow> {
        let turn = |window: &LaneWindow| (window.number, window.done == 0, window.lane);
        let begun = self.lanes.iter_mut().filter(|(_, window)| window.is_some());
        let (cursor, window) = begun.min_by_key(|(_, window)| window.as_ref().map(turn))?;
        let next = cursor.next(&self.shuffle, &self.order);
        std::mem::replace(window, next)
    }
}
