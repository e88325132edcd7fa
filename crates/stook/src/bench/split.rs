//! [`BlockSplit`]: blocks of several sizes in one cell, as in `bssplit` of fio.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::random::Random;
use super::workload::BLOCK_MAX;
use crate::report::units::{bytes_binary, bytes_exact, parse_size};

/// More sizes than this are no distribution that anybody writes by hand.
const SIZES_MAX: usize = 64;

/// A size of blocks, and how many of a hundred requests have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeShare {
    /// Bytes of the block.
    pub block_size: u64,
    /// Of a hundred requests, from 1.
    pub percent: u8,
}

/// Sizes of blocks, each with its share of all requests. The size of each request is drawn by
/// itself, with numbers of the seed of the cell.
///
/// ```
/// use stook::bench::BlockSplit;
///
/// let split: BlockSplit = "4k/60:64k/30:1m/10".parse()?;
/// assert_eq!((split.largest(), split.smallest()), (1 << 20, 4 << 10));
/// // What says no share has a part of the rest.
/// assert_eq!("4k/50:8k:16k".parse::<BlockSplit>()?.to_string(), "4096/50:8192/25:16384/25");
/// # Ok::<(), stook::bench::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlockSplit {
    sizes: Vec<SizeShare>,
}

impl BlockSplit {
    /// The sizes, as they were given.
    pub fn sizes(&self) -> &[SizeShare] {
        &self.sizes
    }

    /// The longest block; 0 without sizes, which no cell may have.
    pub fn largest(&self) -> u64 {
        self.sizes.iter().map(|size| size.block_size).max().unwrap_or(0)
    }

    /// The shortest block; 0 without sizes.
    pub fn smallest(&self) -> u64 {
        self.sizes.iter().map(|size| size.block_size).min().unwrap_or(0)
    }

    /// Reads `4k/60:64k/30:1m/10`, with what `size` takes for a size: units differ between
    /// programs. Sizes without a share have equal parts of what is left, the last of them also
    /// what that leaves.
    ///
    /// # Errors
    /// Returns [`Error::Workload`], which states what was expected.
    pub(super) fn parse(text: &str, size: impl Fn(&str) -> std::result::Result<u64, String>) -> Result<Self> {
        if text.contains(',') {
            return Err(Error::workload(format!(
                "{text:?}: expected one list of block sizes for reads and writes, like 4k/60:64k/30:1m/10"
            )));
        }
        let mut sizes = Vec::new();
        for part in text.split(':') {
            let (bytes, percent) = part.split_once('/').unwrap_or((part, ""));
            let block_size = size(bytes).map_err(Error::workload)?;
            let percent = match percent {
                "" => None,
                number => Some(number.parse::<u8>().map_err(|_| {
                    Error::workload(format!("{part:?}: expected a whole number of per cent after the slash"))
                })?),
            };
            sizes.push((block_size, percent));
        }
        let given: u32 = sizes.iter().filter_map(|(_, percent)| *percent).map(u32::from).sum();
        let open = sizes.iter().filter(|(_, percent)| percent.is_none()).count() as u32;
        let (mut left, mut open_left) = (100_u32.saturating_sub(given), open);
        let mut fill = || {
            let part = if open_left == 1 { left } else { (100_u32.saturating_sub(given)) / open.max(1) };
            (left, open_left) = (left.saturating_sub(part), open_left.saturating_sub(1));
            // No more than 100.
            part as u8
        };
        let sizes = sizes.into_iter().map(|(block_size, percent)| SizeShare {
            block_size,
            percent: percent.unwrap_or_else(&mut fill),
        });
        let split = Self { sizes: sizes.collect() };
        split.check()?;
        Ok(split)
    }

    /// Checks what does not depend on the rest of a cell.
    ///
    /// # Errors
    /// Returns [`Error::Workload`], which states what was expected.
    pub(super) fn check(&self) -> Result<()> {
        if !(1..=SIZES_MAX).contains(&self.sizes.len()) {
            let found = self.sizes.len();
            return Err(Error::workload(format!(
                "the split of block sizes has {found} of them; expected 1 to {SIZES_MAX}"
            )));
        }
        for (at, &SizeShare { block_size, percent }) in self.sizes.iter().enumerate() {
            if !(1..=BLOCK_MAX).contains(&block_size) || !(1..=100).contains(&percent) {
                return Err(Error::workload(format!(
                    "{percent}% of the blocks have {}; expected 1 byte to {}, and 1 to 100%",
                    bytes_exact(block_size),
                    bytes_binary(BLOCK_MAX)
                )));
            }
            if self.sizes.iter().take(at).any(|other| other.block_size == block_size) {
                return Err(Error::workload(format!(
                    "the split of block sizes names {} twice; expected each size once",
                    bytes_exact(block_size)
                )));
            }
        }
        let sum: u32 = self.sizes.iter().map(|size| u32::from(size.percent)).sum();
        if sum != 100 {
            return Err(Error::workload(format!(
                "the shares of block sizes add up to {sum}%; expected 100%, or sizes without a share, which \
                 have the rest"
            )));
        }
        Ok(())
    }

    /// The size of the next request.
    #[inline]
    pub(super) fn next(&self, random: &mut Random) -> u64 {
        let mut drawn = random.below(100);
        for size in &self.sizes {
            let share = u64::from(size.percent);
            if drawn < share {
                return size.block_size;
            }
            drawn -= share;
        }
        self.largest()
    }
}

impl FromStr for BlockSplit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text, |size| parse_size(size).map_err(|error| error.to_string()))
    }
}

/// As fio takes it: `4096/60:65536/40`.
impl fmt::Display for BlockSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, SizeShare { block_size, percent }) in self.sizes.iter().enumerate() {
            let colon = if at == 0 { "" } else { ":" };
            write!(f, "{colon}{block_size}/{percent}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<BlockSplit>().unwrap_err().to_string()
    }

    #[test]
    fn shares_that_are_not_given_are_parts_of_the_rest() {
        let read = |text: &str| text.parse::<BlockSplit>().unwrap().to_string();
        assert_eq!(read("4k/60:64K/30:1m/10"), "4096/60:65536/30:1048576/10");
        assert_eq!(read("4k/10:8k/:16k/:32k"), "4096/10:8192/30:16384/30:32768/30");
        assert_eq!(read("4k:8k:16k"), "4096/33:8192/33:16384/34", "the last has what is left");
        assert_eq!(read("4k"), "4096/100");
    }

    #[test]
    fn what_is_no_distribution_is_refused_with_what_was_expected() {
        for (text, part) in [
            ("4k/60:64k/30", "add up to 90%; expected 100%"),
            ("4k/60:64k/60", "add up to 120%"),
            ("4k/100:64k", "0% of the blocks have 65,536 bytes; expected"),
            ("4k/0:64k/100", "0% of the blocks"),
            ("0/100", "0 bytes; expected 1 byte to 1.00 GiB"),
            ("4k/50:4096/50", "names 4,096 bytes twice"),
            ("4k/half:8k", "a whole number of per cent"),
            ("4k/-1:8k", "a whole number of per cent"),
            ("4k/50,8k/50", "one list of block sizes"),
            ("", "is not a size"),
            ("4k/50:", "is not a size"),
            ("4 parsecs/100", "is not a size"),
        ] {
            assert!(refused(text).contains(part), "{text}: {}", refused(text));
        }
        let many: Vec<String> = (1..=65).map(|size| format!("{size}")).collect();
        assert!(refused(&many.join(":")).contains("expected"), "{}", refused(&many.join(":")));
    }

    #[test]
    fn sizes_come_as_often_as_their_share_says_and_the_same_for_a_seed() {
        let split: BlockSplit = "4k/60:64k/30:1m/10".parse().unwrap();
        let drawn = |seed| -> Vec<u64> {
            let mut random = Random::new(seed, 0);
            (0..100_000).map(|_| split.next(&mut random)).collect()
        };
        let first = drawn(1);
        assert_eq!(first, drawn(1));
        assert_ne!(first, drawn(2));
        for SizeShare { block_size, percent } in split.sizes() {
            let count = first.iter().filter(|size| *size == block_size).count();
            // More than six standard deviations.
            assert!(count.abs_diff(usize::from(*percent) * 1000) < 1000, "{block_size}: {count}");
        }
    }

    #[test]
    fn json_has_a_list_of_sizes() {
        let split: BlockSplit = "4k/75:8k/25".parse().unwrap();
        let json = serde_json::json!([
            {"block_size": 4096, "percent": 75},
            {"block_size": 8192, "percent": 25},
        ]);
        assert_eq!(serde_json::to_value(&split).unwrap(), json);
        assert_eq!(serde_json::from_value::<BlockSplit>(json).unwrap(), split);
    }
}
