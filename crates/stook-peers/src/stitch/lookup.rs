//! Finding the piece that an offset is in, at random, in memory: `VirtualFile::piece_at`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use stook::report::stats;
use stook::report::units;
use stook::source::Source as _;
use stook::stitch::{Pieces, VirtualFile};

use super::Bench;
use crate::pack::{Way, interleave};
use crate::result::{Results, Target};

/// How many pieces, and nanoseconds for finding one, at most.
const COUNTS: [(u32, f64); 3] = [(64, 5.0), (16_384, 20.0), (1_000_000, 60.0)];
/// Offsets that are looked up, another one each time: 8 MiB of them.
const OFFSETS: usize = 1 << 20;
/// How often all of them are, for one measurement.
const PASSES: usize = 8;
/// Bytes of a piece: all of them have as many, or some number up to twice that.
const PIECE_BYTES: u64 = 65_536;

/// How the look-ups follow one another.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// The next one may begin before the last has ended, as in a loop over many.
    Free,
    /// Which offset is next depends on what was found.
    Waiting,
}

/// A virtual file, and offsets in it.
struct Looked {
    name: String,
    file: VirtualFile,
    offsets: Vec<u64>,
}

/// Measures all.
pub(super) fn run(bench: &Bench<'_>, results: &mut Results) -> anyhow::Result<()> {
    for (count, target_ns) in COUNTS {
        for is_equal in [true, false] {
            one(bench, results, (count, target_ns), is_equal)?;
        }
    }
    Ok(())
}

fn one(
    bench: &Bench<'_>,
    results: &mut Results,
    (count, target_ns): (u32, f64),
    is_equal: bool,
) -> anyhow::Result<()> {
    let looked = Looked::new(count, is_equal)?;
    looked.check()?;
    let section = format!("a million look-ups, {}", looked.name);
    let mut ways = [
        Way::warm("the offsets alone", || {
            Ok(Some(per_million(|| looked.offsets.iter().fold(0, |sum: u64, at| sum ^ black_box(*at)))))
        }),
        Way::warm("one after another", || Ok(Some(per_million(|| looked.find_all(Order::Free))))),
        Way::warm("each waits for the last", || Ok(Some(per_million(|| looked.find_all(Order::Waiting))))),
    ];
    let series = interleave(&bench.cold, &section, bench.rounds(), &mut ways)?;
    for (way, target) in
        [("one after another", Target::AtMost(target_ns)), ("each waits for the last", Target::None)]
    {
        let taken = series.get(way).context("it was measured")?;
        // A million of them take as many milliseconds as one takes nanoseconds.
        let ns: Vec<f64> = taken.iter().map(|taken| taken.seconds * 1e3).collect();
        let (least, most) =
            (ns.iter().copied().fold(f64::MAX, f64::min), ns.iter().copied().fold(0.0, f64::max));
        let goal = format!("finding the piece of an offset, {}, {way}", looked.name);
        results.figure(&goal, target, stats::median(&ns)?, "ns", format!("{least:.2} to {most:.2}"));
    }
    results.raw.insert(section, series);
    Ok(())
}

/// Seconds for a million look-ups of a pass over all offsets.
fn per_million(pass: impl Fn() -> u64) -> f64 {
    let started = Instant::now();
    for _ in 0..PASSES {
        black_box(pass());
    }
    started.elapsed().as_secs_f64() * 1e6 / (PASSES * OFFSETS) as f64
}

impl Looked {
    fn new(count: u32, is_equal: bool) -> anyhow::Result<Self> {
        let (mut random, mut pieces) = (Random(u64::from(count)), Pieces::new());
        for number in 0..count {
            let len = if is_equal { PIECE_BYTES } else { 1 + random.below(2 * PIECE_BYTES) };
            pieces.body(number, 0, len);
        }
        let file = VirtualFile::new("looked-up", pieces, Arc::new(()))?;
        ensure!(file.pieces() == count as usize, "{} pieces", file.pieces());
        let offsets = (0..OFFSETS).map(|_| random.below(file.len())).collect();
        let lengths = if is_equal { "of one length" } else { "of any length" };
        let name = format!("{} pieces {lengths}", units::count(count.into()));
        Ok(Self { name, file, offsets })
    }

    /// Each piece is found by its first and its last byte, and nothing at the end.
    fn check(&self) -> anyhow::Result<()> {
        let mut random = Random(u64::from(u32::try_from(self.file.pieces())?));
        let is_equal = self.file.len() == PIECE_BYTES * self.file.pieces() as u64;
        let mut at = 0;
        for number in 0..self.file.pieces() {
            let len = if is_equal { PIECE_BYTES } else { 1 + random.below(2 * PIECE_BYTES) };
            for offset in [at, at + len - 1] {
                let found = self.file.piece_at(offset);
                ensure!(found == Some(number), "offset {offset}: {found:?} instead of {number}");
            }
            at += len;
        }
        ensure!(self.file.piece_at(at).is_none(), "something is found at the end");
        Ok(())
    }

    /// The sum of what is found.
    fn find_all(&self, order: Order) -> u64 {
        // Who compiles this does not know that nothing of what was found is in the next offset.
        let nothing = black_box(0_u64);
        let (mut sum, mut last) = (0_u64, 0_u64);
        for offset in &self.offsets {
            let offset = match order {
                Order::Free => *offset,
                Order::Waiting => *offset ^ (last & nothing),
            };
            last = self.file.piece_at(offset).unwrap_or(0) as u64;
            sum = sum.wrapping_add(last);
        }
        sum
    }
}

/// Numbers that look random, always the same.
struct Random(u64);

impl Random {
    /// One below a number.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let scaled = u128::from(mixed ^ (mixed >> 31)) * u128::from(end);
        (scaled >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_find_the_same() {
        for is_equal in [true, false] {
            let looked = Looked::new(1000, is_equal).unwrap();
            looked.check().unwrap();
            let sum = looked.find_all(Order::Free);
            assert_eq!(sum, looked.find_all(Order::Waiting));
            // About the middle, a million times.
            let middle = sum as f64 / OFFSETS as f64;
            assert!((490.0..510.0).contains(&middle), "{middle}");
        }
    }

    #[test]
    fn random_numbers_stay_below_their_end() {
        let mut random = Random(1);
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(1), 0);
    }
}
