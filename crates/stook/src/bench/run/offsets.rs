//! [`Offsets`]: where the next block of a job lies.

use std::ops::Range;

use super::super::random::Random;
use super::super::split::BlockSplit;
use super::super::workload::{Pattern, Workload};
use super::zipf::Zipf;

/// The blocks of one job, in the order of its requests.
#[derive(Debug)]
pub(super) struct Offsets {
    pattern: Pattern,
    /// Random blocks begin at multiples of this: the block size, or the smallest of several.
    unit_bytes: u64,
    units: Range<u64>,
    /// Where the next block of a sequence begins; reads and writes of a mix have one each.
    next_read: u64,
    next_write: u64,
    random: Random,
    sizes: Sizes,
    /// Some blocks are likelier than others.
    zipf: Option<Zipf>,
    /// Verified cells never have a block in flight twice, because it would not be known which write
    /// won.
    busy: Option<Bits>,
}

/// A block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// How long blocks are.
#[derive(Debug)]
enum Sizes {
    One(u64),
    /// By chance, with numbers of their own: which blocks are asked for does not depend on how
    /// long the ones before were.
    Several(BlockSplit, Random),
}

impl Sizes {
    #[inline]
    fn next(&mut self) -> u64 {
        match self {
            Self::One(size) => *size,
            Self::Several(split, random) => split.next(random),
        }
    }
}

impl Offsets {
    /// For the `job`th job of a cell on a file of that length. Every turn, which is one run of one
    /// cell, requests blocks of its own, and its sequences begin at a place of their own: no run
    /// asks in the same order for what another one left in a cache.
    pub(super) fn new(workload: &Workload, file_len: u64, turn: u64, job: u32) -> Self {
        let exclusive = workload.verify && workload.writes();
        let is_apart = workload.pattern == Pattern::Sequential || exclusive;
        // Each part holds a block of every size.
        let largest = workload.block_size.max(1);
        let smallest = workload.block_split.as_ref().map_or(largest, BlockSplit::smallest).max(1);
        let unit_bytes = if is_apart { largest } else { smallest };
        let whole = file_len / unit_bytes;
        let units = if is_apart {
            let border = |job: u32| {
                let jobs = u128::from(workload.jobs.max(1));
                // At most `whole`.
                (u128::from(whole) * u128::from(job) / jobs) as u64
            };
            border(job)..border(job + 1)
        } else {
            0..whole
        };
        let mut random = Random::new(workload.seed, stream(turn, 2 * u64::from(job)));
        // All jobs of a run like the same blocks.
        let zipf = workload.zipf.map(|theta| {
            let seed = Random::new(workload.seed, stream(turn, LIKED)).next();
            Zipf::new(units.end - units.start, theta, seed)
        });
        let sizes = match &workload.block_split {
            None => Sizes::One(largest),
            Some(split) => {
                let random = Random::new(workload.seed, stream(turn, SIZES + u64::from(job)));
                Sizes::Several(split.clone(), random)
            }
        };
        let first = units.start + random.below((units.end - units.start).max(1));
        Self {
            pattern: workload.pattern,
            unit_bytes,
            next_read: first * unit_bytes,
            next_write: first * unit_bytes,
            random,
            sizes,
            zipf,
            busy: exclusive.then(|| Bits::new(units.end - units.start)),
            units,
        }
    }

    /// The next block that is read or written.
    #[inline]
    pub(super) fn next(&mut self, read: bool) -> Place {
        let len = self.sizes.next();
        loop {
            let offset = match self.pattern {
                Pattern::Random => (self.units.start + self.at_random()) * self.unit_bytes,
                Pattern::Sequential => self.next_in_sequence(read, len),
            };
            // A longer block does not fit everywhere.
            if offset + len > self.units.end * self.unit_bytes {
                continue;
            }
            let Some(busy) = &mut self.busy else { return Place { offset, len } };
            let at = offset / self.unit_bytes - self.units.start;
            if !busy.get(at) {
                busy.set(at, true);
                return Place { offset, len };
            }
        }
    }

    #[inline]
    fn at_random(&mut self) -> u64 {
        match &self.zipf {
            None => self.random.below(self.units.end - self.units.start),
            Some(zipf) => zipf.next(&mut self.random),
        }
    }

    fn next_in_sequence(&mut self, read: bool, len: u64) -> u64 {
        let next = if read { &mut self.next_read } else { &mut self.next_write };
        let end = self.units.end * self.unit_bytes;
        let fits = *next + len <= end;
        let offset = if fits { *next } else { self.units.start * self.unit_bytes };
        *next = offset + len;
        offset
    }

    /// The block at this offset is no longer in flight.
    #[inline]
    pub(super) fn release(&mut self, offset: u64) {
        if let Some(busy) = &mut self.busy {
            busy.set(offset / self.unit_bytes - self.units.start, false);
        }
    }
}

/// The stream of which blocks are likely, beside those of offsets, arrivals and choices.
const LIKED: u64 = (1 << 33) - 1;

/// The streams of how long the blocks of jobs are, above those of choices.
const SIZES: u64 = (1 << 32) + (1 << 20);

/// The stream of random numbers of one turn. Those of a turn are all below 2^33.
pub(super) fn stream(turn: u64, of_turn: u64) -> u64 {
    turn << 33 | of_turn
}

/// A bit for each block.
#[derive(Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(count: u64) -> Self {
        Self(vec![0; usize::try_from(count / 64 + 1).unwrap_or(usize::MAX)])
    }

    fn get(&self, at: u64) -> bool {
        self.0.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    fn set(&mut self, at: u64, to: bool) {
        if let Some(word) = self.0.get_mut((at / 64) as usize) {
            *word = *word & !(1 << (at % 64)) | u64::from(to) << (at % 64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn taken(workload: &Workload, len: u64, job: u32, count: usize) -> Vec<u64> {
        let mut offsets = Offsets::new(workload, len, 0, job);
        (0..count).map(|_| offsets.next(true).offset).collect()
    }

    #[test]
    fn a_seed_gives_the_same_offsets_and_another_gives_others() {
        let workload = Workload::default();
        let other = Workload { seed: 2, ..workload.clone() };
        let first = taken(&workload, 1 << 30, 0, 100);
        assert_eq!(first, taken(&workload, 1 << 30, 0, 100));
        assert_ne!(first, taken(&other, 1 << 30, 0, 100));
        assert_ne!(first, taken(&workload, 1 << 30, 1, 100));
        assert!(first.iter().all(|offset| offset % 4096 == 0 && *offset < 1 << 30));
    }

    #[test]
    fn every_block_of_a_file_is_reached_and_the_uneven_end_never() {
        let reached: BTreeSet<_> = taken(&Workload::default(), 8 * 4096 + 100, 0, 500).into_iter().collect();
        assert_eq!(reached, (0..8).map(|block| block * 4096).collect());
    }

    #[test]
    fn sequences_of_jobs_lie_side_by_side_and_begin_again() {
        let workload = Workload { pattern: Pattern::Sequential, jobs: 2, ..Workload::default() };
        let blocks = |job, count| -> Vec<u64> {
            taken(&workload, 5 * 4096, job, count).iter().map(|offset| offset / 4096).collect()
        };
        let follows = |pair: &[u64], part: Range<u64>| {
            part.contains(&pair[0])
                && pair[1] == if pair[0] + 1 < part.end { pair[0] + 1 } else { part.start }
        };
        assert!(blocks(0, 4).windows(2).all(|pair| follows(pair, 0..2)), "{:?}", blocks(0, 4));
        assert!(blocks(1, 6).windows(2).all(|pair| follows(pair, 2..5)), "{:?}", blocks(1, 6));
    }

    /// Before: all cells of a round, and every command without `--seed`, asked for the same blocks
    /// in the same order. `--depth 1,4,16` asked for 75.5 MB, and the device below the cache read
    /// 24.6 MB; the same command twice, 82.7 MB and then 9.6 MB.
    #[test]
    fn every_turn_and_every_seed_asks_for_other_blocks() {
        let of = |pattern, turn, seed| -> Vec<u64> {
            let workload = Workload { pattern, seed, ..Workload::default() };
            let mut offsets = Offsets::new(&workload, 1 << 30, turn, 0);
            (0..100).map(|_| offsets.next(true).offset).collect()
        };
        for pattern in [Pattern::Random, Pattern::Sequential] {
            let first: BTreeSet<_> = of(pattern, 0, 1).into_iter().collect();
            for (turn, seed) in [(1, 1), (2, 1), (3, 1), (4, 1), (0, 2), (0, 3), (1, 2)] {
                assert_eq!(of(pattern, turn, seed), of(pattern, turn, seed), "the same every time");
                let again = of(pattern, turn, seed).iter().filter(|offset| first.contains(offset)).count();
                assert!(
                    again < 3,
                    "{again} of 100 blocks of turn {turn}, seed {seed} were those of the first"
                );
            }
        }
        let steps = |turn| of(Pattern::Sequential, turn, 1).windows(2).all(|pair| pair[1] - pair[0] == 4096);
        assert!(steps(0) && steps(1));
    }

    #[test]
    fn jobs_of_a_run_like_the_same_blocks_and_another_run_others() {
        let workload = Workload { zipf: Some(1.5), jobs: 2, ..Workload::default() };
        let most = |turn, job| {
            let mut offsets = Offsets::new(&workload, 1 << 30, turn, job);
            let mut counts = std::collections::BTreeMap::new();
            (0..2000).for_each(|_| *counts.entry(offsets.next(true).offset).or_insert(0) += 1);
            counts.into_iter().max_by_key(|(_, count)| *count).unwrap()
        };
        let (block, count) = most(0, 0);
        assert!(count > 500, "{count} of 2,000: 1 ÷ 2.6 of all");
        assert_eq!(most(0, 1).0, block);
        assert_ne!(most(1, 0).0, block);
    }

    #[test]
    fn verified_blocks_are_in_flight_once() {
        let workload = Workload { verify: true, read_share: 0, depth: 4, ..Workload::default() };
        let mut offsets = Offsets::new(&workload, 8 * 4096, 0, 0);
        let first: BTreeSet<_> = (0..8).map(|_| offsets.next(false).offset).collect();
        assert_eq!(first.len(), 8);
        offsets.release(3 * 4096);
        assert_eq!(offsets.next(true), Place { offset: 3 * 4096, len: 4096 });
    }

    fn of_sizes(workload: Workload) -> Workload {
        workload.of_sizes(Some("4k/50:16k/30:20k/20".parse().unwrap()))
    }

    #[test]
    fn blocks_of_several_sizes_begin_at_multiples_of_the_smallest_and_lie_in_the_file() {
        let len = 64 * 4096 + 100;
        for zipf in [None, Some(1.1)] {
            let workload = of_sizes(Workload { zipf, ..Workload::default() });
            let places = |seed| -> Vec<Place> {
                let mut offsets = Offsets::new(&Workload { seed, ..workload.clone() }, len, 0, 0);
                (0..20_000).map(|_| offsets.next(true)).collect()
            };
            let first = places(1);
            assert_eq!(first, places(1));
            assert_ne!(first, places(2));
            assert!(first.iter().all(|place| place.offset % 4096 == 0));
            assert!(first.iter().all(|place| place.offset + place.len <= 64 * 4096));
            let ends: BTreeSet<u64> = first
                .iter()
                .filter(|place| place.len == 20 << 10)
                .map(|place| place.offset + place.len)
                .collect();
            assert!(ends.contains(&(64 * 4096)), "also where it just fits");
        }
    }

    #[test]
    fn sequences_of_several_sizes_follow_one_another_within_their_part() {
        let workload = of_sizes(Workload { pattern: Pattern::Sequential, jobs: 2, ..Workload::default() });
        for (job, part) in [(0, 0..60 << 10), (1, 60 << 10..120 << 10)] {
            let mut offsets = Offsets::new(&workload, 120 << 10, 0, job);
            let places: Vec<Place> = (0..500).map(|_| offsets.next(true)).collect();
            for pair in places.windows(2) {
                let end = pair[0].offset + pair[0].len;
                let follows = if end + pair[1].len <= part.end { end } else { part.start };
                assert_eq!(pair[1].offset, follows, "{pair:?}");
            }
            assert!(
                places.iter().all(|place| place.offset >= part.start && place.offset + place.len <= part.end)
            );
        }
    }
}
