//! [`Offsets`]: where the next block of a job lies.

use std::ops::Range;

use super::super::random::Random;
use super::super::workload::{Pattern, Workload};
use super::zipf::Zipf;

/// The blocks of one job, in the order of its requests.
#[derive(Debug)]
pub(super) struct Offsets {
    pattern: Pattern,
    block_size: u64,
    blocks: Range<u64>,
    /// The next block of a sequence; reads and writes of a mix have one each.
    next_read: u64,
    next_write: u64,
    random: Random,
    /// Some blocks are likelier than others.
    zipf: Option<Zipf>,
    /// Verified cells never have a block in flight twice, because it would not be known which write
    /// won.
    busy: Option<Bits>,
}

impl Offsets {
    /// For the `job`th job of a cell on a file of that length. Every turn, which is one run of one
    /// cell, requests blocks of its own, and its sequences begin at a place of their own: no run
    /// asks in the same order for what another one left in a cache.
    pub(super) fn new(workload: &Workload, file_len: u64, turn: u64, job: u32) -> Self {
        let whole = file_len / workload.block_size.max(1);
        let exclusive = workload.verify && workload.writes();
        let blocks = if workload.pattern == Pattern::Sequential || exclusive {
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
            Zipf::new(blocks.end - blocks.start, theta, seed)
        });
        let first = blocks.start + random.below((blocks.end - blocks.start).max(1));
        Self {
            pattern: workload.pattern,
            block_size: workload.block_size,
            next_read: first,
            next_write: first,
            random,
            zipf,
            busy: exclusive.then(|| Bits::new(blocks.end - blocks.start)),
            blocks,
        }
    }

    /// The offset of the next block that is read or written.
    #[inline]
    pub(super) fn next(&mut self, read: bool) -> u64 {
        loop {
            let block = match self.pattern {
                Pattern::Random => self.blocks.start + self.at_random(),
                Pattern::Sequential => self.next_in_sequence(read),
            };
            let at = block - self.blocks.start;
            match &mut self.busy {
                Some(busy) if busy.get(at) => {}
                Some(busy) => {
                    busy.set(at, true);
                    return block * self.block_size;
                }
                None => return block * self.block_size,
            }
        }
    }

    #[inline]
    fn at_random(&mut self) -> u64 {
        match &self.zipf {
            None => self.random.below(self.blocks.end - self.blocks.start),
            Some(zipf) => zipf.next(&mut self.random),
        }
    }

    fn next_in_sequence(&mut self, read: bool) -> u64 {
        let next = if read { &mut self.next_read } else { &mut self.next_write };
        let block = *next;
        *next = if block + 1 < self.blocks.end { block + 1 } else { self.blocks.start };
        block
    }

    /// The block at this offset is no longer in flight.
    #[inline]
    pub(super) fn release(&mut self, offset: u64) {
        if let Some(busy) = &mut self.busy {
            busy.set(offset / self.block_size - self.blocks.start, false);
        }
    }
}

/// The stream of which blocks are likely, beside those of offsets, arrivals and choices.
const LIKED: u64 = (1 << 33) - 1;

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
        (0..count).map(|_| offsets.next(true)).collect()
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
            (0..100).map(|_| offsets.next(true)).collect()
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
            (0..2000).for_each(|_| *counts.entry(offsets.next(true)).or_insert(0) += 1);
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
        let first: BTreeSet<_> = (0..8).map(|_| offsets.next(false)).collect();
        assert_eq!(first.len(), 8);
        offsets.release(3 * 4096);
        assert_eq!(offsets.next(true), 3 * 4096);
    }
}
