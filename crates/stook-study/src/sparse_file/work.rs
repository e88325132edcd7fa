//! The work that is measured on sparse files in memory.

use serde::Serialize;
use stook::report::units;
use stook::sparse::{SparseBuffer, SparseError};

use super::native::locks;
use super::plan::{Blocks, Call, Plan, Task};

/// Bytes that are read or written.
pub const TOTAL_BYTES: u64 = 1 << 20;
/// What `need` is asked about: a number of blocks, their distance and their length.
pub const NEED_BLOCKS: u64 = 238_310;
/// From one block to the next.
pub const NEED_STRIDE_BYTES: u64 = 800;
/// How long each block is: about 1Mb ÷ their number.
pub const NEED_BLOCK_BYTES: u64 = 4;
/// Numbers of such blocks that are asked about as a whole.
pub const NEED_COUNTS: [u64; 4] = [NEED_BLOCKS / 8, NEED_BLOCKS / 4, NEED_BLOCKS / 2, NEED_BLOCKS];
/// The sizes of blocks that the document names: from 1 to 512 bytes.
pub const SIZES: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// Larger ones in which 1 MiB is held when it is asked what is needed: they are ours.
pub const SIZES_ABOVE: [u64; 3] = [1024, 4096, 16_384];
/// Sizes of the reads that are made with one lock for each, and with one for all of them.
pub const LOCKED_SIZES: [u64; 4] = [1, 8, 64, 512];
/// Numbers of threads.
pub const THREADS: [u64; 4] = [1, 2, 4, 8];

/// One thing that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub enum Work {
    /// 1 MiB that is held without a gap is read in blocks.
    Read {
        /// Bytes of each block.
        block_bytes: u64,
    },
    /// 1 MiB is read from blocks that do not touch, one at a time.
    ReadApart {
        /// Bytes of each block.
        block_bytes: u64,
    },
    /// The same with one lock for all reads, in place of one for each.
    ReadOneLock {
        /// Bytes of each block.
        block_bytes: u64,
    },
    /// 1 MiB is written in blocks that do not touch.
    WriteApart {
        /// Bytes of each block.
        block_bytes: u64,
    },
    /// 1 MiB is written in blocks, each where the last ended.
    WriteJoined {
        /// Bytes of each block.
        block_bytes: u64,
    },
    /// Queries of needed ranges, all over a file of many blocks.
    Need {
        /// Bytes of each request.
        ask_bytes: u64,
    },
    /// One query over all of so many blocks.
    NeedAll {
        /// Blocks that are held.
        blocks: u64,
    },
    /// One query over 1 MiB that is held in blocks, 800 bytes between them.
    NeedOf {
        /// Bytes of each block.
        block_bytes: u64,
    },
    /// 1 MiB is written in blocks of 8 bytes by threads, each of which writes all of it.
    Overwrite {
        /// The number of threads.
        threads: u64,
        /// Whether the blocks touch.
        is_joined: bool,
    },
    /// 1 MiB is written in blocks of 8 bytes by threads, each a part of it.
    Threads {
        /// The number of threads.
        threads: u64,
        /// Whether the blocks of one thread touch.
        is_joined: bool,
    },
    /// 1 MiB is written in blocks of 8 bytes by threads, each of which writes all of it into a file
    /// that no other uses.
    Own {
        /// The number of threads.
        threads: u64,
        /// Whether the blocks touch.
        is_joined: bool,
    },
    /// A lock is taken and released, which no other thread wants.
    Locks {
        /// How often.
        count: u64,
    },
}

impl Work {
    /// Everything, in the order in which it is measured.
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = SIZES.map(|block_bytes| Self::Read { block_bytes }).into();
        all.push(Self::Read { block_bytes: TOTAL_BYTES });
        all.extend(SIZES.map(|block_bytes| Self::ReadApart { block_bytes }));
        all.extend(LOCKED_SIZES.map(|block_bytes| Self::ReadOneLock { block_bytes }));
        all.extend(SIZES.map(|block_bytes| Self::WriteApart { block_bytes }));
        all.extend(SIZES.map(|block_bytes| Self::WriteJoined { block_bytes }));
        all.push(Self::Locks { count: TOTAL_BYTES });
        all.extend((5..=14).step_by(3).map(|power| Self::Need { ask_bytes: 1 << power }));
        all.extend(NEED_COUNTS.map(|blocks| Self::NeedAll { blocks }));
        all.extend(SIZES.into_iter().chain(SIZES_ABOVE).map(|block_bytes| Self::NeedOf { block_bytes }));
        for is_joined in [false, true] {
            all.extend(THREADS.map(|threads| Self::Overwrite { threads, is_joined }));
            all.extend(THREADS.map(|threads| Self::Threads { threads, is_joined }));
            all.extend(THREADS.map(|threads| Self::Own { threads, is_joined }));
        }
        all
    }

    /// In words.
    pub fn label(self) -> String {
        match self {
            Self::Read { block_bytes: TOTAL_BYTES } => "read all of it at once".to_owned(),
            Self::Read { block_bytes } => format!("read blocks of {block_bytes} B"),
            Self::ReadApart { block_bytes } => format!("read blocks of {block_bytes} B that do not touch"),
            Self::ReadOneLock { block_bytes } => {
                format!("read blocks of {block_bytes} B that do not touch, one lock for all")
            }
            Self::WriteApart { block_bytes } => format!("write blocks of {block_bytes} B that do not touch"),
            Self::WriteJoined { block_bytes } => format!("write blocks of {block_bytes} B that touch"),
            Self::Need { ask_bytes } => format!("ask what is needed, {ask_bytes} B at a time"),
            Self::NeedAll { blocks } => format!("ask what is needed of {} blocks", units::count(blocks)),
            Self::NeedOf { block_bytes } => {
                format!("ask what is needed of 1 MiB in blocks of {block_bytes} B")
            }
            Self::Threads { threads, is_joined } => {
                format!("write blocks of 8 B that {}", by_threads(threads, is_joined))
            }
            Self::Overwrite { threads, is_joined } => {
                format!("write and overwrite blocks of 8 B that {}", by_threads(threads, is_joined))
            }
            Self::Own { threads, is_joined } => {
                format!("write blocks of 8 B that {}, each a file of its own", by_threads(threads, is_joined))
            }
            Self::Locks { count } => format!("take and release a lock {} times", units::count(count)),
        }
    }

    /// In few words, for a column with little room.
    pub(super) fn short_label(self) -> String {
        match self {
            Self::Read { block_bytes } => format!("read {block_bytes} B"),
            Self::ReadApart { block_bytes } => format!("read {block_bytes} B, apart"),
            Self::ReadOneLock { block_bytes } => format!("read {block_bytes} B, one lock"),
            Self::WriteApart { block_bytes } => format!("write {block_bytes} B, apart"),
            Self::WriteJoined { block_bytes } => format!("write {block_bytes} B, touching"),
            Self::Need { ask_bytes } => format!("ask for {ask_bytes} B"),
            Self::NeedAll { blocks } => format!("ask for {} blocks", units::count(blocks)),
            Self::NeedOf { block_bytes } => format!("ask for 1 MiB in {block_bytes} B"),
            Self::Overwrite { threads, is_joined } => short(threads, is_joined, "all of it"),
            Self::Threads { threads, is_joined } => short(threads, is_joined, "a part each"),
            Self::Own { threads, is_joined } => short(threads, is_joined, "a file each"),
            Self::Locks { count } => format!("{} locks", units::count(count)),
        }
    }

    /// Does it once; returns the time, without preparations.
    ///
    /// # Errors
    /// Returns an error if the buffer refuses an operation.
    pub fn seconds(self) -> Result<f64, SparseError> {
        match self.task() {
            Task::Calls(plan) => Ok(plan.run()?.seconds),
            Task::Locks(count) => Ok(locks(count)),
        }
    }

    /// Does it once, and reads back everything written.
    ///
    /// # Errors
    /// Returns an error if other bytes are returned, or the buffer refuses an operation.
    pub fn check_bytes(self) -> anyhow::Result<()> {
        self.plan().map_or(Ok(()), |plan| plan.run()?.check())
    }
}

fn by_threads(threads: u64, is_joined: bool) -> String {
    let touch = if is_joined { "touch" } else { "do not touch" };
    format!("{touch}, {}", units::count_of(threads, "thread", "threads"))
}

fn short(threads: u64, is_joined: bool, what: &str) -> String {
    let touch = if is_joined { "blocks touching" } else { "blocks apart" };
    format!("{}, {what}, {touch}", units::count_of(threads, "thread", "threads"))
}

/// What is held in blocks that do not touch, and what that takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Bytes of each block.
    pub block_bytes: u64,
    /// Bytes of all blocks.
    pub data_bytes: u64,
    /// Memory, as the buffer counts it.
    pub memory_bytes: u64,
    /// Memory that svfsc counts for the same; `None` where it is not installed.
    pub svfsc_memory_bytes: Option<u64>,
}

impl Held {
    /// 1 MiB in such blocks, by Stook.
    ///
    /// # Errors
    /// Returns an error if the buffer refuses a write.
    pub fn of(block_bytes: u64) -> Result<Self, SparseError> {
        let calls = Self::blocks(block_bytes);
        let plan = Plan { before: None, call: Call::Write, calls, repeats: 1, threads: None };
        let files = plan.run()?.files;
        let sum = |of: fn(&SparseBuffer) -> u64| files.iter().map(of).sum();
        let (data_bytes, memory_bytes) = (sum(SparseBuffer::held_bytes), sum(SparseBuffer::memory_bytes));
        Ok(Self { block_bytes, data_bytes, memory_bytes, svfsc_memory_bytes: None })
    }

    /// What is held.
    pub(super) fn blocks(block_bytes: u64) -> Blocks {
        Blocks::total(block_bytes, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_work_can_be_done_and_has_a_name_of_its_own() {
        let all = Work::all();
        for name in [Work::label, Work::short_label] {
            let names: std::collections::BTreeSet<String> = all.iter().map(|work| name(*work)).collect();
            assert_eq!(names.len(), all.len());
        }
        for work in [
            Work::Read { block_bytes: 512 },
            Work::WriteApart { block_bytes: 256 },
            Work::WriteJoined { block_bytes: 256 },
            Work::Need { ask_bytes: 16_384 },
            Work::Threads { threads: 4, is_joined: true },
            Work::ReadApart { block_bytes: 256 },
            Work::ReadOneLock { block_bytes: 256 },
            Work::NeedAll { blocks: 1000 },
            Work::NeedOf { block_bytes: 512 },
            Work::Overwrite { threads: 2, is_joined: false },
            Work::Own { threads: 2, is_joined: true },
            Work::Locks { count: 1000 },
        ] {
            assert!(work.seconds().unwrap() > 0.0, "{}", work.label());
            work.check_bytes().unwrap();
        }
    }

    #[test]
    fn small_blocks_take_more_memory_than_large_ones() {
        let [small, large] = [1, 256].map(|block_bytes| Held::of(block_bytes).unwrap());
        assert_eq!((small.data_bytes, large.data_bytes), (TOTAL_BYTES, TOTAL_BYTES));
        assert!(
            small.memory_bytes > large.memory_bytes && large.memory_bytes >= TOTAL_BYTES,
            "{small:?} {large:?}"
        );
    }
}
