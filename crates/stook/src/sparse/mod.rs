//! Sparse files in memory: bytes at any positions, held with gaps between them.
//!
//! A [`SparseBuffer`] holds the fetched parts of a file that is elsewhere: ranges are written as
//! they arrive, read if all bytes are held, and it computes what is still
//! [needed](SparseBuffer::need). Neighbours count as one range, overlapping writes are compared or
//! replaced, and least recently touched bytes are evicted under a byte budget. A [`SparseStore`]
//! holds many of them by name, under one budget.
//!
//! ```
//! use stook::extent::ByteRange;
//! use stook::plan::PlanOptions;
//! use stook::sparse::{OnDifference, SparseBuffer, SparseError};
//!
//! let range = |start, end| ByteRange::new(start, end).unwrap();
//! let file = SparseBuffer::new();
//! file.write(100, b"head", OnDifference::Error)?;
//! file.write(104, b"er", OnDifference::Error)?;
//! file.write(900, b"tail", OnDifference::Error)?;
//! assert_eq!(file.extents(), [range(100, 106), range(900, 904)]);
//!
//! let mut bytes = [0; 6];
//! file.read(100, &mut bytes)?;
//! assert_eq!(&bytes, b"header");
//!
//! // What is to be read elsewhere for two structures, in reads of at least 64 bytes.
//! let options = PlanOptions { min_len: 64, ..PlanOptions::default() };
//! let needed = file.need_many(&[range(100, 120), range(880, 910)], &options)?;
//! assert_eq!(needed, [range(106, 170), range(880, 944)]);
//!
//! // The same bytes again are fine; others are not, and then nothing is written.
//! let refused = file.write(102, b"aderX", OnDifference::Error).err();
//! assert!(refused.is_none(), "the X is new");
//! let refused = file.write(104, b"eX", OnDifference::Error).unwrap_err();
//! assert!(matches!(refused, SparseError::Differs { offset: 105, .. }));
//! # Ok::<(), SparseError>(())
//! ```
//!
//! # How it is made
//!
//! The index is separate from the bytes: an ordered index of segments, 24 bytes each, in leaves of
//! up to 128, and blocks of up to 1 MiB to which small writes are appended; large ones may be
//! adopted without a copy. A write at the end of the last segment extends it in place. Neighbouring
//! segments are joined when a leaf is full, and mostly dead blocks are emptied step by step, so
//! every operation takes O(log n) and O(1) more for every segment it touches, in any order of
//! writes. Segments have at most 64 KiB; each is touched and evicted as a unit, however long the
//! range that it is part of.

mod blocks;
mod buffer;
mod clock;
mod counters;
mod directory;
mod disk;
mod error;
mod evict;
mod extents;
mod file;
mod held;
mod index;
mod joins;
mod lease;
mod lock;
mod owner;
mod pins;
mod reader;
mod serial;
mod store;
mod thread;
mod trace;

pub use buffer::{Pinned, SparseBuffer};
pub use counters::Counters;
pub use disk::{CacheIndex, CacheIndexError, DiskCache, DiskCacheOptions, DiskEntry, DiskStatistics};
pub use error::SparseError;
pub use extents::Evicted;
pub use file::{AheadOptions, SparseFile, SparseFileError, SparseFileOptions, SparseStatistics};
pub use reader::Reader;
pub use store::SparseStore;
pub use trace::{Optimum, Replay, Trace, TraceError};

use crate::extent::ByteRange;

/// What a write does with bytes that are already held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnDifference {
    /// The same bytes are fine; where one differs the write fails, and nothing is written.
    Error,
    /// Keeps held bytes, without comparing them, and fills the gaps.
    Keep,
    /// Puts the new in place of the old.
    Replace,
}

/// What a write did, in bytes; the three add up to the written length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Bytes that were not held before.
    pub added: u64,
    /// Bytes that were held and stay.
    pub kept: u64,
    /// Bytes that were held and were replaced.
    pub replaced: u64,
}

/// How a sparse file behaves. Kept when it is serialised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SparseOptions {
    /// The most bytes held: each write evicts the least recently touched ones. `u64::MAX` for no
    /// limit.
    pub budget_bytes: u64,
    /// The most bytes of a segment, the unit of touching and eviction: 1 to 65,536.
    pub grain: u32,
    /// Shorter buffers are copied when they are adopted: 4,096 or more.
    pub adopt_min: u32,
    /// The number of the first touch; 1 for 0, and 2^63 at most.
    pub first_touch: u64,
    /// Touches are numbered without gaps, in one order for all threads, and every read and write
    /// notes the time. Operations take longer for it, most of all reads of many threads at once. In
    /// a store, a write that is refused may leave a number out.
    pub exact: bool,
    /// Memory that bytes were copied into is overwritten before it is given back. Not that of
    /// adopted bytes, nor of copies that were handed out.
    pub wipe: bool,
}

impl Default for SparseOptions {
    /// No budget, segments of 64 KiB, 16 KiB or more are adopted.
    fn default() -> Self {
        Self {
            budget_bytes: u64::MAX,
            grain: 64 << 10,
            adopt_min: 16 << 10,
            first_touch: 0,
            exact: false,
            wipe: false,
        }
    }
}

impl SparseOptions {
    fn check(&self) -> Result<(), SparseError> {
        if !(1..=blocks::SEGMENT_MAX as u32).contains(&self.grain) {
            let grain = self.grain;
            return Err(SparseError::Options(format!("grain is {grain}; it must be 1 to 65,536 bytes")));
        }
        if self.adopt_min < 4096 {
            let adopt_min = self.adopt_min;
            return Err(SparseError::Options(format!(
                "adopt_min is {adopt_min}; it must be 4,096 bytes or more"
            )));
        }
        if self.first_touch > clock::FIRST_MAX {
            let first_touch = self.first_touch;
            return Err(SparseError::Options(format!(
                "first_touch is {first_touch}; it must be 2^63 or less"
            )));
        }
        Ok(())
    }
}

/// Bytes that are held without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where.
    pub range: ByteRange,
    /// In how many segments.
    pub segments: u64,
    /// The latest touch of any of them: the count at the time.
    pub last_touch: u64,
}

/// A part of the held bytes, touched and evicted as a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Where.
    pub range: ByteRange,
    /// When it was last touched: the count at the time.
    pub last_touch: u64,
}

/// How much was moved within memory: the cost of an operation beyond its own bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Bytes that were copied from one place to another.
    pub bytes_moved: u64,
    /// Entries of the index that were shifted or moved to another leaf.
    pub segments_moved: u64,
}
