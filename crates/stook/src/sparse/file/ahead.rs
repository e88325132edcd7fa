//! [`Ahead`]: how much more than requested is fetched, without foreknowledge.
//!
//! Programs that read a few structures out of a huge file jump to a place, read there for a while
//! in tiny steps, and jump again. The requested bytes, with gaps of up to `max_gap` filled, form
//! **neighbourhoods**. If all reads were known in advance, each neighbourhood would be fetched by
//! one request. Its length is not known when it is first touched. So:
//!
//! - The first read of a neighbourhood fetches a window around itself: as far as earlier
//!   neighbourhoods reached from their first reads, or a share of the remaining allowance. If
//!   earlier ones were all small, so is the window.
//! - A read that continues past the fetched bytes doubles its neighbourhood, in the direction of
//!   the read; gaps between neighbours are filled at once.
//! - Where first reads came at equal distances, those that would be next are fetched too: two, then
//!   four, up to sixteen.
//!
//! Fetched bytes never exceed `max(2 n, n + allowance)`, where `n` is the length of all
//! neighbourhoods so far; a reader that knew all reads in advance would have fetched `n`. A part of
//! the allowance is reserved for neighbourhoods that turn out longer.

use std::collections::VecDeque;

use crate::extent::{ByteRange, ExtentMap, OnOverlap};

/// How a [`SparseFile`](super::SparseFile) reads ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AheadOptions {
    /// Gaps between reads up to this long are fetched too, bytes: a request costs more than they
    /// do.
    pub max_gap: u64,
    /// What may be fetched and never used in small files of reads, bytes; beyond that, at most as
    /// much as was needed. 0 for no reading ahead while less than that was needed.
    pub allowance: u64,
    /// The longest way ahead of one read, bytes.
    pub max_window: u64,
}

impl Default for AheadOptions {
    /// Gaps of 64 KiB, an allowance of 1 MiB, windows of 32 MiB.
    fn default() -> Self {
        Self { max_gap: 64 << 10, allowance: 1 << 20, max_window: 32 << 20 }
    }
}

/// Neighbourhoods that are looked back at.
const HISTORY: usize = 8;
/// The share of the remaining allowance that one new neighbourhood may use speculatively: 1/4.
const SHARE: u64 = 4;
/// The part of the allowance that is not spent on suspicion: 1/4.
const RESERVE: u64 = 4;
/// How far a neighbourhood may be guessed to reach beyond the longest of those before it: times 4.
const SURPRISE: u64 = 4;
/// The most first reads at equal distances that are fetched before they are requested.
const STRIDE_MAX: u32 = 16;

/// What was requested and fetched so far, and what follows from it.
#[derive(Debug)]
pub(super) struct Ahead {
    options: AheadOptions,
    /// Where the file ends.
    end: u64,
    /// Neighbourhoods.
    near: ExtentMap<()>,
    /// All ranges that were ever fetched. A range that is fetched again after eviction is needed
    /// again.
    fetched: ExtentMap<()>,
    /// The first reads of the latest neighbourhoods, oldest first.
    first_reads: VecDeque<ByteRange>,
    /// How many at equal distances were fetched beforehand last.
    strides: u32,
}

/// Where a read belongs.
struct Noted {
    is_new: bool,
    neighbourhood: ByteRange,
}

/// The parts of a range that are neither held nor in flight, ascending.
pub(super) type Missing<'a> = dyn Fn(ByteRange) -> Vec<ByteRange> + 'a;

impl Ahead {
    pub(super) fn new(options: AheadOptions, end: u64) -> Self {
        Self {
            options,
            end,
            near: ExtentMap::new(),
            fetched: ExtentMap::new(),
            first_reads: VecDeque::with_capacity(HISTORY + 2),
            strides: 1,
        }
    }

    /// The longest gap between reads that is fetched too.
    pub(super) fn max_gap(&self) -> u64 {
        self.options.max_gap
    }

    /// Takes notice of a read that needed nothing.
    pub(super) fn note_hit(&mut self, wanted: ByteRange) {
        self.note(wanted);
    }

    /// Notes ranges fetched by a caller with foreknowledge.
    pub(super) fn note_known(&mut self, ranges: &[ByteRange]) {
        for &range in ranges {
            self.note_fetched(range);
            insert(&mut self.near, range);
        }
    }

    /// What to fetch so that all of `wanted`, which is within the file, is there: ranges that do
    /// not overlap, those that are needed first.
    pub(super) fn plan(&mut self, wanted: ByteRange, missing: &Missing<'_>) -> Vec<ByteRange> {
        let noted = self.note(wanted);
        let gaps = missing(wanted);
        let (Some(first), Some(last)) = (gaps.first(), gaps.last()) else { return Vec::new() };
        let needed = self.bridged(noted.neighbourhood, first.start(), last.end(), missing);
        let must: u64 = missing(needed).iter().map(ByteRange::len).sum();
        let room = self.room().saturating_sub(must);
        let (back, ahead) = match noted.is_new {
            true => self.first_window(room),
            false => self.next_window(&noted, wanted, room),
        };
        let widened = self.widened(needed, noted.neighbourhood, fitted(back, ahead, room / 2));
        let mut plan: Vec<ByteRange> =
            missing(widened).into_iter().filter(|gap| gap.intersection(&needed).is_some()).collect();
        for range in &plan {
            self.note_fetched(*range);
        }
        if noted.is_new {
            self.add_strides(wanted, widened, missing, &mut plan);
        }
        plan
    }

    /// What may still be fetched without need.
    fn room(&self) -> u64 {
        let near = self.near.covered_len();
        let most = near.saturating_add(self.options.allowance).max(near.saturating_mul(2));
        most.saturating_sub(self.fetched.covered_len())
    }

    fn note_fetched(&mut self, range: ByteRange) {
        insert(&mut self.fetched, range);
    }

    /// Adds a read to the neighbourhoods.
    fn note(&mut self, wanted: ByteRange) -> Noted {
        if let Some((neighbourhood, ())) = self.near.get(wanted.start())
            && neighbourhood.covers(&wanted)
        {
            return Noted { is_new: false, neighbourhood };
        }
        // One more on both sides: ranges that touch do not intersect.
        let reach = self.options.max_gap.saturating_add(1);
        let around = grown(wanted, reach, reach);
        let mut pieces = self.near.pieces(around).map(|piece| piece.range);
        let first = pieces.next();
        let last = pieces.last().or(first);
        let start = first.map_or(wanted.start(), |range| range.start().min(wanted.start()));
        let end = last.map_or(wanted.end(), |range| range.end().max(wanted.end()));
        insert(&mut self.near, ByteRange::new(start, end).unwrap_or(wanted));
        let is_new = first.is_none();
        if is_new {
            self.first_reads.push_back(wanted);
            if self.first_reads.len() > HISTORY + 1 {
                self.first_reads.pop_front();
            }
        }
        let neighbourhood = self.near.get(wanted.start()).map_or(wanted, |(range, ())| range);
        Noted { is_new, neighbourhood }
    }

    /// `start..end` with the gaps to the held parts of its neighbourhood on both sides.
    fn bridged(&self, neighbourhood: ByteRange, start: u64, end: u64, missing: &Missing<'_>) -> ByteRange {
        let gap = self.options.max_gap;
        let from = start.saturating_sub(gap).max(neighbourhood.start());
        let to = end.saturating_add(gap).min(neighbourhood.end());
        let before = ByteRange::new(from, start).map(missing).unwrap_or_default();
        let after = ByteRange::new(end, to).map(missing).unwrap_or_default();
        let start = before.last().filter(|gap| gap.end() == start).map_or(start, ByteRange::start);
        let end = after.first().filter(|gap| gap.start() == end).map_or(end, ByteRange::end);
        ByteRange::new(start, end).unwrap_or_default()
    }

    /// The part of the allowance that one new neighbourhood may use speculatively.
    fn share(&self, room: u64) -> u64 {
        room.saturating_sub(self.options.allowance / RESERVE) / SHARE
    }

    /// How far around its first read a new neighbourhood is fetched: back and ahead.
    fn first_window(&self, room: u64) -> (u64, u64) {
        let share = self.share(room);
        let (mut backs, mut aheads) = (Vec::new(), Vec::new());
        let earlier = self.first_reads.len().saturating_sub(1);
        for first in self.first_reads.iter().take(earlier) {
            // The head of a file shows nothing about the structures that it refers to.
            if first.start() > 0
                && let Some((whole, ())) = self.near.get(first.start())
            {
                backs.push(first.start() - whole.start());
                aheads.push(whole.end().saturating_sub(first.end()));
            }
        }
        if aheads.is_empty() {
            return (share / 8, share);
        }
        let doubt = 4096 >> aheads.len();
        (guessed(&mut backs, share, 0), guessed(&mut aheads, share, doubt))
    }

    /// How far a neighbourhood that is known is fetched beyond a read at its edge: back and ahead.
    fn next_window(&self, noted: &Noted, wanted: ByteRange, room: u64) -> (u64, u64) {
        let floor = (room / 256).min(4096);
        let window = noted.neighbourhood.len().max(self.share(room)).max(floor);
        if wanted.end() == noted.neighbourhood.end() {
            (0, window)
        } else if wanted.start() == noted.neighbourhood.start() {
            (window, 0)
        } else {
            (0, 0)
        }
    }

    /// The needed range with a window around it, if it is at the edge of its neighbourhood.
    fn widened(&self, needed: ByteRange, neighbourhood: ByteRange, (back, ahead): (u64, u64)) -> ByteRange {
        let back = if needed.start() == neighbourhood.start() { back } else { 0 };
        let ahead = if needed.end() == neighbourhood.end() { ahead } else { 0 };
        let most = self.options.max_window;
        grown(needed, back.min(most), ahead.min(most))
            .intersection(&ByteRange::to(self.end))
            .unwrap_or(needed)
    }

    /// Adds to a plan what first reads at equal distances will be about next.
    fn add_strides(
        &mut self,
        wanted: ByteRange,
        window: ByteRange,
        missing: &Missing<'_>,
        plan: &mut Vec<ByteRange>,
    ) {
        let Some(stride) = self.stride() else {
            self.strides = 1;
            return;
        };
        self.strides = (self.strides * 2).min(STRIDE_MAX);
        let mut room = self.room();
        let (mut first, mut window) = (wanted, window);
        for _ in 0..self.strides {
            let moved = (first.start().checked_add_signed(stride), window.start().checked_add_signed(stride));
            let (Some(start), Some(from)) = moved else { return };
            let (Some(next), Some(next_window)) =
                (ByteRange::at(start, first.len()), ByteRange::at(from, window.len()))
            else {
                return;
            };
            if next_window.end() > self.end || next_window.len() > room {
                return;
            }
            for range in missing(next_window) {
                // The ranges of a plan do not overlap: steps may be shorter than windows.
                if plan.iter().all(|other| other.intersection(&range).is_none()) {
                    self.note_fetched(range);
                    room = room.saturating_sub(range.len());
                    plan.push(range);
                }
            }
            (first, window) = (next, next_window);
        }
    }

    /// The distance between the latest three first reads, where it is the same twice and so is
    /// their length.
    fn stride(&self) -> Option<i64> {
        let mut latest = self.first_reads.iter().rev();
        let (third, second, first) = (latest.next()?, latest.next()?, latest.next()?);
        let distance = |from: &ByteRange, to: &ByteRange| {
            i64::try_from(i128::from(to.start()) - i128::from(from.start())).ok()
        };
        let stride = distance(second, third)?;
        let is_steady =
            distance(first, second)? == stride && first.len() == second.len() && second.len() == third.len();
        is_steady.then_some(stride)
    }
}

/// The longest of earlier distances that is within its share, or the median; or a share, where that
/// is not far more than any of them.
fn guessed(distances: &mut [u64], share: u64, doubt: u64) -> u64 {
    distances.sort_unstable();
    let median = distances.get(distances.len() / 2).copied().unwrap_or_default();
    let longest = distances.last().copied().unwrap_or_default();
    let fits = distances.iter().rev().find(|&&distance| distance <= share.max(median));
    let surprise = longest.saturating_mul(SURPRISE).saturating_add(doubt);
    fits.copied().unwrap_or_default().max(share.min(surprise))
}

/// Both parts of a window, cut alike so that they are within `most` together.
fn fitted(back: u64, ahead: u64, most: u64) -> (u64, u64) {
    let both = u128::from(back) + u128::from(ahead);
    if both <= u128::from(most) {
        return (back, ahead);
    }
    let cut = |part: u64| (u128::from(part) * u128::from(most) / both) as u64;
    (cut(back), cut(ahead))
}

fn grown(range: ByteRange, back: u64, ahead: u64) -> ByteRange {
    ByteRange::new(range.start().saturating_sub(back), range.end().saturating_add(ahead)).unwrap_or(range)
}

fn insert(map: &mut ExtentMap<()>, range: ByteRange) {
    // Keeping what is there, and values that fit any length, leave nothing that could be refused.
    let inserted = map.insert(range, (), OnOverlap::Keep);
    debug_assert!(inserted.is_ok(), "{inserted:?}");
}
