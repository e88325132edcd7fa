//! [`Shuffle`]: the records of a selection in a seeded order, for training: read by few long reads,
//! shared by any number of readers, resumed exactly by any other number.
//!
//! The records are cut into spans of 2 MiB of the medium. An epoch brings the spans into the order
//! of seed and epoch ([`order`]), one sequence of all records. It is cut into lanes of the same
//! number of records, give or take one, wherever that is in a span; lanes are what readers divide.
//! Each lane is read in windows of 32 MiB: its next spans, whose records are shuffled by seed,
//! epoch, lane and window ([`lanes`]). So the order within a lane depends on nothing else, and how
//! far each lane is says exactly what was handed out, to any other reader too.
//!
//! A reader takes windows of its lanes in turn, the first of each, then the second: it holds the
//! window at hand and the ones that are read ahead, however many lanes it has. That is the
//! trade-off: of 64 lanes that were mixed record by record 64 windows would be in memory, 2 GiB; of
//! one window 64 MiB are, with the one ahead, and records that are handed out together come from 16
//! spans from anywhere in the pack.
//!
//! Of a pack below 4 GiB a span is a 2048th of it (a 32nd of a lane), so that records of a lane
//! come from all over it; of fewer records than that it is one record.

pub(super) mod lanes;
pub(super) mod order;
pub(super) mod reader;
pub(super) mod state;

use std::ops::Range;
use std::sync::Arc;

use lanes::ShuffleShare;
use order::{key_of, permute};
use state::ShuffleState;

use super::ordinals::Ordinals;
use crate::pack::error::{Error, Result};

/// Spans of the medium are of this length, bytes.
const SPAN_BYTES: u64 = 2 << 20;
/// A lane has at least this many spans, where there are records enough.
const SPANS_PER_LANE: u64 = 32;
/// A window has at least this many.
const SPANS_PER_WINDOW: u64 = 8;
/// Records of a window at most: each takes some hundred bytes beside its body.
const WINDOW_RECORDS_MAX: u64 = 16 << 10;
/// Lanes at most: a state has a number for each.
const LANES_MAX: u32 = 4096;
/// Bytes of a window, at least and at most.
const WINDOW_BYTES: Range<u64> = 64 << 10..(1 << 30) + 1;

/// How records are shuffled. All of it is part of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShuffleOptions {
    /// What the order is of; `None` leaves that of the medium.
    pub seed: Option<u64>,
    /// Into how many parts readers can divide an epoch at most.
    pub lanes: u32,
    /// Bytes of records that are read and mixed at once.
    pub window_bytes: u64,
    /// Whether all lanes have the same number of records, to the last: what remains, fewer than
    /// there are lanes, is left out, other ones in each epoch. In the order of the medium an epoch
    /// begins where the one before ended.
    pub even: bool,
}

impl Default for ShuffleOptions {
    fn default() -> Self {
        Self { seed: Some(0), lanes: 64, window_bytes: 32 << 20, even: false }
    }
}

/// Records of a selection, to be handed out in a seeded order, once per epoch.
#[derive(Debug)]
pub struct Shuffle {
    ordinals: Arc<Ordinals>,
    options: ShuffleOptions,
    /// The first ordinal of each span.
    starts: Vec<u64>,
    /// The checksum of the ordinals.
    sum: u32,
}

/// The order of one epoch.
#[derive(Debug)]
pub(super) struct EpochOrder {
    /// Numbers of spans.
    spans: Vec<u32>,
    lanes: Vec<LaneBegin>,
}

/// Where in the order of an epoch a lane begins, and how many records it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaneBegin {
    /// Which of the spans in their order.
    at: usize,
    /// Records of that span that are the lane's before.
    skip: u64,
    len: u64,
}

/// The records of a lane, of this many, in a sequence of this length.
fn lane_range(lane: u32, lanes: u32, len: u64) -> Range<u64> {
    let (lane, lanes) = (u128::from(lane), u128::from(lanes));
    let bound = |lane: u128| (lane * u128::from(len) / lanes) as u64;
    bound(lane)..bound(lane + 1)
}

impl Shuffle {
    /// Shuffles these.
    ///
    /// # Errors
    /// [`Error::Invalid`] for no lanes or more than 4096, for windows below 64 KiB or above 1 GiB.
    pub fn new(ordinals: Arc<Ordinals>, options: ShuffleOptions) -> Result<Self> {
        let ShuffleOptions { lanes, window_bytes, .. } = options;
        if !(1..=LANES_MAX).contains(&lanes) {
            return Err(Error::Invalid(format!("lanes: 1 to {LANES_MAX} are possible, not {lanes}")));
        }
        if !WINDOW_BYTES.contains(&window_bytes) {
            let (least, end) = (WINDOW_BYTES.start, WINDOW_BYTES.end - 1);
            let text = format!("window_bytes: {least} to {end} are possible, not {window_bytes}");
            return Err(Error::Invalid(text));
        }
        let parts = u64::from(lanes) * SPANS_PER_LANE;
        let bytes =
            SPAN_BYTES.min(window_bytes / SPANS_PER_WINDOW).min(ordinals.medium_bytes() / parts).max(1);
        let records = (WINDOW_RECORDS_MAX / SPANS_PER_WINDOW).min(ordinals.len() / parts).max(1);
        let starts = ordinals.span_starts(bytes, records);
        let sum = ordinals.sum();
        Ok(Self { ordinals, options, starts, sum })
    }

    /// What is shuffled.
    pub fn ordinals(&self) -> &Arc<Ordinals> {
        &self.ordinals
    }

    /// How it is shuffled.
    pub fn options(&self) -> ShuffleOptions {
        self.options
    }

    /// How many records an epoch hands out.
    pub fn len(&self) -> u64 {
        let lanes = u64::from(self.options.lanes);
        if self.options.even { self.ordinals.len() / lanes * lanes } else { self.ordinals.len() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many records of an epoch a reader hands out.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more readers than lanes.
    pub fn share_len(&self, share: ShuffleShare) -> Result<u64> {
        let lanes = share.lanes(self.options.lanes)?.map(|lane| self.lane_range(lane));
        Ok(lanes.map(|lane| lane.end - lane.start).sum())
    }

    /// Memory that it takes with its ordinals, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.ordinals.memory_bytes() + self.starts.capacity() * size_of::<u64>()
    }

    /// The state in which nothing of an epoch was handed out.
    pub fn begin(&self, epoch: u64) -> ShuffleState {
        ShuffleState::new(self, epoch)
    }

    /// Whether all lanes were handed out whole; not where a state says nothing of one.
    ///
    /// # Errors
    /// Those of [`check`](Self::check).
    pub fn is_over(&self, state: &ShuffleState) -> Result<bool> {
        self.check(state)?;
        let lens =
            (0..self.options.lanes).map(|lane| self.lane_range(lane)).map(|lane| lane.end - lane.start);
        Ok(state.positions().iter().zip(lens).all(|(position, len)| position.is_some_and(|at| at >= len)))
    }

    /// The records of a lane in the sequence of an epoch.
    fn lane_range(&self, lane: u32) -> Range<u64> {
        lane_range(lane, self.options.lanes, self.len())
    }

    /// The ordinals of a span.
    fn span(&self, number: usize) -> Range<u64> {
        let start = self.starts.get(number).copied().unwrap_or(self.ordinals.len());
        start..self.starts.get(number + 1).copied().unwrap_or(self.ordinals.len())
    }

    /// Has an epoch in the order of the medium begin where the one before ended, so that it is not
    /// the same records that are left out each time. Returns how many records of the first span it
    /// begins after; they come at the end.
    fn go_on_after(&self, epoch: u64, spans: &mut Vec<u32>) -> u64 {
        let (len, all) = (u128::from(self.len()), u128::from(self.ordinals.len()));
        let first = (u128::from(epoch) * len).checked_rem(all).unwrap_or(0) as u64;
        let span = self.starts.partition_point(|start| *start <= first).saturating_sub(1);
        if first == 0 || span >= spans.len() {
            return 0;
        }
        spans.rotate_left(span);
        spans.push(span as u32);
        first - self.span(span).start
    }

    fn order_of(&self, epoch: u64) -> Result<EpochOrder> {
        let count = u32::try_from(self.starts.len()).map_err(|_| Error::Limit {
            what: "the number of spans to shuffle",
            found: self.starts.len() as u64,
            limit: u32::MAX.into(),
        })?;
        let mut spans: Vec<u32> = (0..count).collect();
        let mut before = 0;
        match self.options.seed {
            Some(seed) => permute(&mut spans, key_of(&[seed, epoch])),
            None => before = self.go_on_after(epoch, &mut spans),
        }
        let mut lanes = Vec::with_capacity(self.options.lanes as usize);
        let (mut at, mut passed) = (0, 0_u64);
        for lane in 0..self.options.lanes {
            let Range { start, end } = self.lane_range(lane);
            let (start, end) = (start + before, end + before);
            while let Some(&span) = spans.get(at) {
                let Range { start: from, end: to } = self.span(span as usize);
                if passed + (to - from) > start {
                    break;
                }
                passed += to - from;
                at += 1;
            }
            lanes.push(LaneBegin { at, skip: start - passed, len: end - start });
        }
        Ok(EpochOrder { spans, lanes })
    }
}
