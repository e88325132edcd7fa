//! What is done to a sparse file: the same list of calls for everyone who is measured.

use serde::Serialize;
use stook_study::sparse_file::work::{NEED_BLOCK_BYTES, NEED_BLOCKS, NEED_STRIDE_BYTES, TOTAL_BYTES};

/// Bytes of the blocks of the patterns, and what their positions are multiples of half of.
const PATTERN_BYTES: u64 = 64;
/// An odd number: multiples of it, modulo a power of two, reach every number once, in an unhelpful
/// order.
pub(crate) const SCATTER: u64 = 0x9e37_79b1;
/// From one block to the next where threads read and write 8 bytes: they do not touch.
const THREAD_STRIDE: u64 = 9;
/// Random reads of all threads together.
const THREAD_READS: u64 = 1 << 20;

/// Calls at evenly spaced positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Calls {
    /// The first position.
    pub(crate) first: u64,
    /// From each to the next.
    pub(crate) step: i64,
    /// How many.
    pub(crate) count: u64,
    /// Bytes of each.
    pub(crate) len: u64,
    /// Where positions begin again, counted from the first; 0 for nowhere.
    pub(crate) around: u64,
}

impl Calls {
    const fn line(first: u64, step: i64, count: u64, len: u64) -> Self {
        Self { first, step, count, len, around: 0 }
    }

    /// What is worked out before the clock runs: positions that begin again.
    fn listed(&self) -> Vec<u64> {
        let position = |n: u64| {
            let at = i128::from(n) * i128::from(self.step);
            self.first + at.rem_euclid(i128::from(self.around)) as u64
        };
        if self.around == 0 { Vec::new() } else { (0..self.count).map(position).collect() }
    }
}

/// Calls with what is known of them before the clock runs.
#[derive(Debug)]
pub(crate) struct Prepared(Vec<(Calls, Vec<u64>)>);

impl Prepared {
    /// Of these calls.
    pub(crate) fn of(calls: &[Calls]) -> Self {
        Self(calls.iter().map(|calls| (*calls, calls.listed())).collect())
    }

    /// Makes each call, by its position and length.
    #[inline]
    pub(crate) fn each(&self, mut call: impl FnMut(u64, u64) -> anyhow::Result<()>) -> anyhow::Result<()> {
        for (calls, listed) in &self.0 {
            if calls.around == 0 {
                let mut at = calls.first;
                for _ in 0..calls.count {
                    call(at, calls.len)?;
                    at = at.wrapping_add_signed(calls.step);
                }
            } else {
                listed.iter().try_for_each(|at| call(*at, calls.len))?;
            }
        }
        Ok(())
    }

    /// The longest call.
    pub(crate) fn longest(&self) -> u64 {
        self.0.iter().map(|(calls, _)| calls.len).max().unwrap_or(0)
    }
}

/// What the calls are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Copies bytes out.
    Read,
    /// Copies bytes in, and compares what they overlap.
    Write,
    /// Asks what is missing.
    Need,
}

/// One piece of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Work {
    /// What is timed.
    pub(crate) kind: Kind,
    /// Writes before the clock runs.
    pub(crate) before: Vec<Calls>,
    /// The calls of each thread; those of one are made without starting any.
    pub(crate) threads: Vec<Vec<Calls>>,
    /// After each write no more than this is held.
    pub(crate) budget_bytes: Option<u64>,
    /// The least number of repetitions for one measurement; the median counts.
    pub(crate) repeats: usize,
}

/// An order of writes that a sparse file may be bad at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Each block ends where the last began.
    Reverse,
    /// Every other block, and then those between.
    Fill,
    /// Blocks apart, and then writes over a gap and half of both neighbours, in no order.
    Bridge,
    /// Each write evicts one block.
    Evict,
}

/// Bytes written, the same by position for all: positions that overlap are multiples of 32.
pub(crate) fn content(len: u64) -> Vec<u8> {
    (0..len).map(|n| (n % 32) as u8).collect()
}

impl Work {
    fn alone(kind: Kind, before: Vec<Calls>, calls: Vec<Calls>) -> Self {
        let count: u64 = calls.iter().map(|calls| calls.count).sum();
        let repeats = if count < 5_000 { 9 } else { 1 };
        Self { kind, before, threads: vec![calls], budget_bytes: None, repeats }
    }

    /// 1 MiB is read in blocks.
    pub(crate) fn read(block_bytes: u64) -> Self {
        let calls = Calls::line(0, block_bytes as i64, TOTAL_BYTES / block_bytes, block_bytes);
        Self::alone(Kind::Read, vec![Calls::line(0, 0, 1, TOTAL_BYTES)], vec![calls])
    }

    /// 1 MiB is written in blocks, `gap_bytes` apart.
    pub(crate) fn write(block_bytes: u64, gap_bytes: u64) -> Self {
        let step = (block_bytes + gap_bytes) as i64;
        Self::alone(
            Kind::Write,
            Vec::new(),
            vec![Calls::line(0, step, TOTAL_BYTES / block_bytes, block_bytes)],
        )
    }

    /// It is asked what is missing, all over a file of many blocks.
    pub(crate) fn need(ask_bytes: u64) -> Self {
        let before = Calls::line(0, NEED_STRIDE_BYTES as i64, NEED_BLOCKS, NEED_BLOCK_BYTES);
        let asks = (NEED_BLOCKS * NEED_STRIDE_BYTES).div_ceil(ask_bytes);
        Self::alone(Kind::Need, vec![before], vec![Calls::line(0, ask_bytes as i64, asks, ask_bytes)])
    }

    /// This many writes in a bad order. `count` is a power of two.
    pub(crate) fn pattern(pattern: Pattern, count: u64) -> Self {
        let (len, half) = (PATTERN_BYTES, count / 2);
        let apart = 2 * len as i64;
        let calls = match pattern {
            Pattern::Reverse => vec![Calls::line((count - 1) * len, -(len as i64), count, len)],
            Pattern::Fill => [0, len].map(|first| Calls::line(first, apart, half, len)).to_vec(),
            Pattern::Bridge => {
                let (step, around) = ((SCATTER * 2 * len) as i64, half * 2 * len);
                let bridges = Calls { first: len / 2, step, count: half, len: 2 * len, around };
                vec![Calls::line(0, apart, half, len), bridges]
            }
            Pattern::Evict => vec![Calls::line(0, apart, count, len)],
        };
        let budget_bytes = (pattern == Pattern::Evict).then_some(count * len / 4);
        Self { budget_bytes, ..Self::alone(Kind::Write, Vec::new(), calls) }
    }

    /// 1 MiB is written in blocks of 8 bytes that do not touch, each thread a part of it.
    pub(crate) fn thread_writes(threads: u64) -> Self {
        let each = TOTAL_BYTES / 8 / threads;
        let part = |thread| vec![Calls::line(thread * each * THREAD_STRIDE, THREAD_STRIDE as i64, each, 8)];
        let threads = (0..threads).map(part).collect();
        Self { threads, ..Self::alone(Kind::Write, Vec::new(), Vec::new()) }
    }

    /// Blocks of 8 bytes that do not touch are read in no order; all threads together read as often
    /// as one.
    pub(crate) fn thread_reads(threads: u64) -> Self {
        let blocks = TOTAL_BYTES / 8;
        let before = Calls::line(0, THREAD_STRIDE as i64, blocks, 8);
        let part = |thread: u64| {
            // Each thread in an order of its own: the step stays odd.
            let step = ((SCATTER + 2 * thread) * THREAD_STRIDE) as i64;
            let around = blocks * THREAD_STRIDE;
            vec![Calls { first: 0, step, count: THREAD_READS / threads, len: 8, around }]
        };
        let threads = (0..threads).map(part).collect();
        Self { threads, repeats: 1, ..Self::alone(Kind::Read, vec![before], Vec::new()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(work: &Work) -> Vec<u64> {
        let mut all = Vec::new();
        for calls in &work.threads {
            let noted = Prepared::of(calls).each(|at, _| {
                all.push(at);
                Ok(())
            });
            noted.unwrap();
        }
        all
    }

    #[test]
    fn patterns_write_every_block_once_in_their_order() {
        assert_eq!(positions(&Work::pattern(Pattern::Reverse, 4)), [192, 128, 64, 0]);
        assert_eq!(positions(&Work::pattern(Pattern::Fill, 4)), [0, 128, 64, 192]);
        let bridges = positions(&Work::pattern(Pattern::Bridge, 64)).split_off(32);
        assert!(!bridges.is_sorted());
        let mut sorted = bridges;
        sorted.sort_unstable();
        assert!(sorted.iter().zip(0..).all(|(at, n): (&u64, u64)| *at == 32 + n * 128));
    }

    #[test]
    fn threads_share_what_one_does() {
        let mut all = positions(&Work::thread_writes(8));
        all.sort_unstable();
        assert_eq!(all, positions(&Work::thread_writes(1)));
        assert_eq!(positions(&Work::thread_reads(8)).len(), positions(&Work::thread_reads(1)).len());
    }
}
