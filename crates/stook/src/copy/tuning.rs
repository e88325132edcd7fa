//! [`Tuning`]: how long the blocks of a large file are, and how many of them are in flight.

use super::options::CopyOptions;
use super::run::MEMORY_BYTES;
use super::throttle::quantum;
use crate::profile::Profile;

/// Blocks in flight where nothing was measured.
const DEPTH: usize = 8;

/// Bytes in flight of one file, at most: two are copied at once, and what was read of them and is
/// not written yet takes memory, too.
const IN_FLIGHT_MAX_BYTES: u64 = MEMORY_BYTES / 4;

/// A file has this many blocks at least, so that one is written while the next is read, unless they
/// would be shorter than this.
const BLOCKS_MIN: u64 = 4;
const SHORT_BYTES: u64 = 128 << 10;

/// Lengths of blocks are multiples of this.
const UNIT_BYTES: u64 = 64 << 10;

/// How large files are read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tuning {
    /// The longest block.
    pub(super) block_bytes: u64,
    pub(super) depth: usize,
    /// Whether the length was given or measured: then it is the same for all files.
    is_fixed: bool,
}

impl Tuning {
    /// As the caller says; else as was measured of the storage of sources and destinations, where
    /// the one that needs more decides; else as suits most devices.
    pub(super) fn new(options: &CopyOptions, profiles: &[Profile]) -> Self {
        let measured = profiles.iter().map(|profile| profile.measured);
        // Where the rate is limited, no block takes long.
        let most = options.bytes_per_s.map_or(u64::MAX, quantum);
        let best = || measured.clone().filter_map(|one| one.block_bytes).max().map(|best| best.min(most));
        let block_bytes = options.block_bytes.or_else(best);
        let is_fixed = block_bytes.is_some();
        let block_bytes = block_bytes.unwrap_or(Profile::LOCAL.block_bytes.min(most));
        let most = usize::try_from(IN_FLIGHT_MAX_BYTES / block_bytes).unwrap_or(usize::MAX).max(1);
        let depth = options.depth.unwrap_or_else(|| {
            let measured = measured.filter_map(|one| one.depth).max();
            measured.unwrap_or(DEPTH).min(most)
        });
        Self { block_bytes, depth, is_fixed }
    }

    /// The length of the blocks of a file of this length.
    pub(super) fn block_of(&self, len: u64) -> u64 {
        let short = len.div_ceil(BLOCKS_MIN).max(SHORT_BYTES).next_multiple_of(UNIT_BYTES);
        if self.is_fixed { self.block_bytes } else { short.min(self.block_bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Class, Measured};

    const MIB: u64 = 1 << 20;

    fn of(block_bytes: Option<u64>, depth: Option<usize>) -> Profile {
        Profile::new(Class::Local, Measured { block_bytes, depth, ..Measured::NOTHING })
    }

    #[test]
    fn the_caller_comes_before_what_was_measured_and_the_one_that_needs_more_decides() {
        let plain = CopyOptions::default();
        fn tuning(options: &CopyOptions, profiles: &[Profile]) -> (u64, usize, u64) {
            let tuning = Tuning::new(options, profiles);
            (tuning.block_bytes, tuning.depth, tuning.block_of(MIB))
        }
        assert_eq!(tuning(&plain, &[Profile::LOCAL, Profile::ROTATING]), (MIB, DEPTH, MIB / 4));
        let measured = [of(Some(256 << 10), Some(32)), of(Some(512 << 10), Some(4)), of(None, None)];
        assert_eq!(tuning(&plain, &measured), (512 << 10, 24, 512 << 10), "12 MiB are in flight at most");
        let given = CopyOptions { block_bytes: Some(4096), depth: Some(3), ..plain.clone() };
        assert_eq!(tuning(&given, &measured), (4096, 3, 4096));
        let slow = CopyOptions { bytes_per_s: Some(MIB), ..plain.clone() };
        assert_eq!(tuning(&slow, &measured), (64 << 10, 32, 64 << 10));
        assert_eq!(tuning(&slow, &[]), (64 << 10, DEPTH, 64 << 10));
        assert_eq!(tuning(&CopyOptions { block_bytes: Some(MIB), ..slow }, &[]).0, MIB);
        let long = CopyOptions { block_bytes: Some(16 * MIB), ..plain };
        assert_eq!(tuning(&long, &[]), (16 * MIB, 1, 16 * MIB));
    }

    #[test]
    fn short_files_have_blocks_to_overlap() {
        let tuning = Tuning::new(&CopyOptions::default(), &[]);
        for (len, block) in [
            (300 << 10, 128 << 10),
            (600 << 10, 192 << 10),
            (2 * MIB, 512 << 10),
            (4 * MIB, MIB),
            (400 * MIB, MIB),
        ] {
            assert_eq!(tuning.block_of(len), block, "{len}");
        }
    }
}
