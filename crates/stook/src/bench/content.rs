//! The written contents: bytes with a given compressibility, in units that state where and when
//! they were written.
//!
//! Every unit of 512 bytes that can be verified begins with a stamp (little-endian):
//!
//! | at | bytes | |
//! | --- | --- | --- |
//! | 0 | 4 | `STKB` |
//! | 4 | 4 | CRC-32C of all bytes of the unit from 8 on |
//! | 8 | 8 | where the unit begins in the file |
//! | 16 | 8 | the seed of the run |
//! | 24 | 4 | generation: how often the unit was written before |
//! | 28 | 4 | 0 |
//!
//! A flipped bit breaks the checksum, a block in the wrong place the offset, a lost write the
//! generation.

use std::sync::atomic::{AtomicU32, Ordering};

use super::random::Random;

/// The smallest unit that is verified: every block size that direct I/O takes is a multiple of it.
pub(super) const UNIT_BYTES: usize = 512;
/// Compressible and incompressible bytes alternate at this distance: that of the blocks that file
/// systems compress at the least.
const CHUNK_BYTES: usize = 4096;
const MAGIC: [u8; 4] = *b"STKB";
/// An unknown generation: the contents of the file before it was first written.
const UNKNOWN: u32 = u32::MAX;

/// Fills memory with new contents; `compressibility` per cent are zeroes.
pub(super) fn fill(bytes: &mut [u8], compressibility: u8, random: &mut Random) {
    for chunk in bytes.chunks_mut(CHUNK_BYTES) {
        let kept = chunk.len() * usize::from(100 - compressibility.min(100)) / 100;
        let (noise, zeroes) = chunk.split_at_mut(kept);
        random.fill(noise);
        zeroes.fill(0);
    }
}

/// Makes old contents differ from everything written before, at a fraction of the cost of [`fill`]:
/// a deduplicating device must not find equal blocks.
pub(super) fn renew(bytes: &mut [u8], random: &mut Random) {
    for chunk in bytes.chunks_mut(CHUNK_BYTES) {
        if let Some(word) = chunk.first_chunk_mut() {
            *word = random.next().to_le_bytes();
        }
    }
}

/// Stamps every unit of a block that begins at `offset` of the file. `generation` returns that of a
/// unit of the file.
pub(super) fn stamp(bytes: &mut [u8], offset: u64, seed: u64, mut generation: impl FnMut(u64) -> u32) {
    for (unit, at) in bytes.chunks_exact_mut(UNIT_BYTES).zip((offset..).step_by(UNIT_BYTES)) {
        let number = at / UNIT_BYTES as u64;
        put(unit, 8, &at.to_le_bytes());
        put(unit, 16, &seed.to_le_bytes());
        put(unit, 24, &u64::from(generation(number)).to_le_bytes());
        let checksum = crc32c::crc32c(unit.get(8..).unwrap_or_default());
        put(unit, 0, &MAGIC);
        put(unit, 4, &checksum.to_le_bytes());
    }
}

fn put(unit: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = unit.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// A unit with wrong contents.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// Where the unit begins in the file.
    pub(super) offset: u64,
    /// What was found and what was expected.
    pub(super) what: String,
}

/// Checks every unit of a block that begins at `offset` of the file. `generation` says which
/// generation a unit has to have, where that is known.
pub(super) fn check(
    bytes: &[u8],
    offset: u64,
    seed: u64,
    mut generation: impl FnMut(u64) -> Option<u32>,
) -> Result<(), Difference> {
    for (unit, at) in bytes.chunks_exact(UNIT_BYTES).zip((offset..).step_by(UNIT_BYTES)) {
        let expected = Stamp { offset: at, seed, generation: generation(at / UNIT_BYTES as u64) };
        if let Some(what) = expected.difference(unit) {
            return Err(Difference { offset: at, what });
        }
    }
    Ok(())
}

/// The seed in the stamp of a unit; `None` unless it is whole.
pub(super) fn seed_of(unit: &[u8]) -> Option<u64> {
    let stored = unit.get(4..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
    let is_whole = unit.starts_with(&MAGIC) && crc32c::crc32c(unit.get(8..)?) == stored;
    let seed = unit.get(16..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
    is_whole.then_some(seed)
}

/// The header of a unit.
struct Stamp {
    offset: u64,
    seed: u64,
    generation: Option<u32>,
}

impl Stamp {
    fn difference(&self, unit: &[u8]) -> Option<String> {
        let word =
            |at: usize| unit.get(at..).and_then(|rest| rest.first_chunk()).map(|b| u64::from_le_bytes(*b));
        let (Some(offset), Some(seed), Some(generation)) = (word(8), word(16), word(24)) else {
            return Some(format!("a unit of {} bytes", unit.len()));
        };
        if !unit.starts_with(&MAGIC) {
            return Some("no stamp of a test file: expected one that this command wrote".to_owned());
        }
        let checksum = crc32c::crc32c(unit.get(8..).unwrap_or_default());
        let stored = unit.get(4..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b));
        if checksum != stored {
            return Some(format!("checksum {checksum:08x}, expected {stored:08x}"));
        }
        if offset != self.offset {
            return Some(format!("this unit was written for offset {offset}"));
        }
        if seed != self.seed {
            return Some(format!("written with seed {seed}, expected {}", self.seed));
        }
        match self.generation {
            Some(expected) if generation != u64::from(expected) => {
                Some(format!("generation {generation}, expected {expected}: an older write, or a lost one"))
            }
            _ => None,
        }
    }
}

/// How often each unit of a file was written. Each unit is written by one job at a time.
#[derive(Debug)]
pub(super) struct Generations(Vec<AtomicU32>);

impl Generations {
    /// For a file of that length, about which nothing is known.
    pub(super) fn unknown(len: u64) -> Self {
        let units = usize::try_from(len / UNIT_BYTES as u64).unwrap_or(usize::MAX);
        Self((0..units).map(|_| AtomicU32::new(UNKNOWN)).collect())
    }

    /// The expected generation of a unit, if it was written by this run.
    pub(super) fn get(&self, unit: u64) -> Option<u32> {
        let generation = self.cell(unit)?.load(Ordering::Relaxed);
        (generation != UNKNOWN).then_some(generation)
    }

    /// The generation for the next write of a unit.
    pub(super) fn advance(&self, unit: u64) -> u32 {
        let Some(cell) = self.cell(unit) else { return 0 };
        let next = cell.load(Ordering::Relaxed).wrapping_add(1);
        let next = if next == UNKNOWN { 0 } else { next };
        cell.store(next, Ordering::Relaxed);
        next
    }

    fn cell(&self, unit: u64) -> Option<&AtomicU32> {
        self.0.get(usize::try_from(unit).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(offset: u64) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        fill(&mut bytes, 0, &mut Random::new(1, 0));
        stamp(&mut bytes, offset, 9, |_| 3);
        bytes
    }

    #[test]
    fn what_was_stamped_is_accepted_with_and_without_generations() {
        let bytes = stamped(8192);
        assert_eq!(check(&bytes, 8192, 9, |_| Some(3)), Ok(()));
        assert_eq!(check(&bytes, 8192, 9, |_| None), Ok(()));
    }

    #[test]
    fn every_flipped_bit_is_found_in_its_unit() {
        let mut bytes = stamped(0);
        for at in 0..bytes.len() {
            bytes[at] ^= 1 << (at % 8);
            let difference = check(&bytes, 0, 9, |_| Some(3)).unwrap_err();
            assert_eq!(difference.offset, (at / UNIT_BYTES * UNIT_BYTES) as u64, "{at}");
            bytes[at] ^= 1 << (at % 8);
        }
    }

    #[test]
    fn wrong_places_seeds_and_generations_are_told_apart() {
        let bytes = stamped(8192);
        let reported =
            |offset, seed, generation| check(&bytes, offset, seed, |_| generation).unwrap_err().what;
        assert_eq!(reported(0, 9, None), "this unit was written for offset 8192");
        assert_eq!(reported(8192, 8, None), "written with seed 9, expected 8");
        assert!(reported(8192, 9, Some(4)).starts_with("generation 3, expected 4"));
        assert!(check(&[0; 512], 0, 9, |_| None).unwrap_err().what.starts_with("no stamp"));
    }

    #[test]
    fn zeroes_are_as_many_as_asked() {
        for compressibility in [0, 30, 100] {
            let mut bytes = vec![1; 1 << 20];
            fill(&mut bytes, compressibility, &mut Random::new(1, 0));
            let share = bytes.iter().filter(|&&byte| byte == 0).count() as f64 / bytes.len() as f64;
            assert!((share - f64::from(compressibility) / 100.0).abs() < 0.01, "{share}");
        }
    }

    #[test]
    fn renewed_blocks_differ_in_every_chunk() {
        let mut random = Random::new(1, 0);
        let old = stamped(0);
        let mut new = old.clone();
        renew(&mut new, &mut random);
        assert!(old[..8] != new[..8] && old[8..] == new[8..]);
    }

    #[test]
    fn generations_are_unknown_until_written_and_then_count() {
        let generations = Generations::unknown(1024);
        assert_eq!((generations.get(0), generations.get(2)), (None, None));
        assert_eq!((generations.advance(0), generations.advance(0), generations.get(0)), (0, 1, Some(1)));
        assert_eq!(generations.get(1), None);
    }
}
