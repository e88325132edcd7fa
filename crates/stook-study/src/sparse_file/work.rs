//! The work that is measured on sparse files in memory.

use std::hint::black_box;
use std::time::Instant;

use serde::Serialize;
use stook::extent::ByteRange;
use stook::plan::PlanOptions;
use stook::report::units;
use stook::sparse::{OnDifference, SparseBuffer, SparseError};

/// Bytes that are read or written.
pub const TOTAL_BYTES: u64 = 1 << 20;
/// What `need` is asked about: a number of blocks, their distance and their length.
pub const NEED_BLOCKS: u64 = 238_310;
/// From one block to the next.
pub const NEED_STRIDE_BYTES: u64 = 800;
/// How long each block is.
pub const NEED_BLOCK_BYTES: u64 = 20;
/// Numbers of such blocks that are asked about as a whole.
pub const NEED_COUNTS: [u64; 4] = [NEED_BLOCKS / 8, NEED_BLOCKS / 4, NEED_BLOCKS / 2, NEED_BLOCKS];

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
}

impl Work {
    /// Everything, in the order in which it is measured.
    pub fn all() -> Vec<Self> {
        let sizes = || (0..=9).map(|power| 1_u64 << power);
        let mut all: Vec<Self> = sizes().map(|block_bytes| Self::Read { block_bytes }).collect();
        all.push(Self::Read { block_bytes: TOTAL_BYTES });
        all.extend(sizes().map(|block_bytes| Self::ReadApart { block_bytes }));
        all.extend(sizes().map(|block_bytes| Self::WriteApart { block_bytes }));
        all.extend(sizes().map(|block_bytes| Self::WriteJoined { block_bytes }));
        all.extend((5..=14).step_by(3).map(|power| Self::Need { ask_bytes: 1 << power }));
        all.extend(NEED_COUNTS.map(|blocks| Self::NeedAll { blocks }));
        for is_joined in [false, true] {
            all.extend([1, 2, 4, 8].map(|threads| Self::Overwrite { threads, is_joined }));
            all.extend([1, 2, 4, 8].map(|threads| Self::Threads { threads, is_joined }));
        }
        all
    }

    /// In words.
    pub fn label(self) -> String {
        match self {
            Self::Read { block_bytes: TOTAL_BYTES } => "read all of it at once".to_owned(),
            Self::Read { block_bytes } => format!("read blocks of {block_bytes} B"),
            Self::ReadApart { block_bytes } => format!("read blocks of {block_bytes} B that do not touch"),
            Self::WriteApart { block_bytes } => format!("write blocks of {block_bytes} B that do not touch"),
            Self::WriteJoined { block_bytes } => format!("write blocks of {block_bytes} B that touch"),
            Self::Need { ask_bytes } => format!("ask what is needed, {ask_bytes} B at a time"),
            Self::NeedAll { blocks } => format!("ask what is needed of {} blocks", units::count(blocks)),
            Self::Threads { threads, is_joined } => {
                format!("write blocks of 8 B that {}", by_threads(threads, is_joined))
            }
            Self::Overwrite { threads, is_joined } => {
                format!("write and overwrite blocks of 8 B that {}", by_threads(threads, is_joined))
            }
        }
    }

    /// In few words, for a column with little room.
    pub(super) fn short_label(self) -> String {
        match self {
            Self::Read { block_bytes } => format!("read {block_bytes} B"),
            Self::ReadApart { block_bytes } => format!("read {block_bytes} B, apart"),
            Self::WriteApart { block_bytes } => format!("write {block_bytes} B, apart"),
            Self::WriteJoined { block_bytes } => format!("write {block_bytes} B, touching"),
            Self::Need { ask_bytes } => format!("ask for {ask_bytes} B"),
            Self::NeedAll { blocks } => format!("ask for {} blocks", units::count(blocks)),
            Self::Overwrite { threads, .. } => format!("{threads} threads, all of it"),
            Self::Threads { threads, .. } => format!("{threads} threads"),
        }
    }

    /// Does it once; returns the time, without preparations.
    ///
    /// # Errors
    /// Returns an error if the buffer refuses an operation.
    pub fn seconds(self) -> Result<f64, SparseError> {
        Ok(self.once()?.seconds)
    }

    /// Does it once, and reads back everything written.
    ///
    /// # Errors
    /// Returns an error if other bytes are returned, or the buffer refuses an operation.
    pub fn check_bytes(self) -> anyhow::Result<()> {
        self.once()?.check()
    }

    fn once(self) -> Result<Done, SparseError> {
        match self {
            Self::Read { block_bytes } => read(block_bytes),
            Self::ReadApart { block_bytes } => read_apart(block_bytes),
            Self::WriteApart { block_bytes } => write(block_bytes, block_bytes + 1),
            Self::WriteJoined { block_bytes } => write(block_bytes, block_bytes),
            Self::Need { ask_bytes } => need(ask_bytes),
            Self::NeedAll { blocks } => need_all(blocks),
            Self::Overwrite { threads, is_joined } => in_threads(threads, stride(is_joined), true),
            Self::Threads { threads, is_joined } => in_threads(threads, stride(is_joined), false),
        }
    }
}

fn by_threads(threads: u64, is_joined: bool) -> String {
    let touch = if is_joined { "touch" } else { "do not touch" };
    let noun = if threads == 1 { "thread" } else { "threads" };
    format!("{touch}, {threads} {noun}")
}

/// From one block of 8 bytes to the next.
fn stride(is_joined: bool) -> u64 {
    if is_joined { 8 } else { 9 }
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
}

impl Held {
    /// 1 MiB in such blocks.
    ///
    /// # Errors
    /// Returns an error if the buffer refuses a write.
    pub fn of(block_bytes: u64) -> Result<Self, SparseError> {
        let file = write(block_bytes, block_bytes + 1)?.file;
        Ok(Self { block_bytes, data_bytes: file.held_bytes(), memory_bytes: file.memory_bytes() })
    }
}

/// Work that was done, and the expected contents of the buffer.
struct Done {
    seconds: f64,
    file: SparseBuffer,
    blocks: u64,
    stride: u64,
    block_bytes: u64,
    /// Whether bytes continue counting from one block to the next, or start over in each.
    goes_on: bool,
}

impl Done {
    fn check(&self) -> anyhow::Result<()> {
        let mut found = block(self.block_bytes);
        for number in 0..self.blocks {
            let at = number * self.stride;
            self.file.read(at, &mut found)?;
            let first = if self.goes_on { at } else { 0 };
            let differs = found.iter().zip(first..).position(|(byte, expected)| *byte != expected as u8);
            if let Some(inner) = differs {
                anyhow::bail!("the byte at {} is not the one that was written", at + inner as u64);
            }
        }
        Ok(())
    }
}

/// Bytes that count.
fn block(len: u64) -> Vec<u8> {
    (0..len).map(|n| n as u8).collect()
}

fn read(block_bytes: u64) -> Result<Done, SparseError> {
    let file = SparseBuffer::new();
    file.write(0, &block(TOTAL_BYTES), OnDifference::Error)?;
    let mut out = block(block_bytes);
    let began = Instant::now();
    for at in (0..TOTAL_BYTES).step_by(block_bytes as usize) {
        file.read(at, &mut out)?;
    }
    black_box(&out);
    let seconds = began.elapsed().as_secs_f64();
    let blocks = TOTAL_BYTES / block_bytes;
    Ok(Done { seconds, file, blocks, stride: block_bytes, block_bytes, goes_on: true })
}

fn read_apart(block_bytes: u64) -> Result<Done, SparseError> {
    let mut done = write(block_bytes, block_bytes + 1)?;
    let mut out = block(block_bytes);
    let began = Instant::now();
    for number in 0..done.blocks {
        done.file.read(number * done.stride, &mut out)?;
    }
    black_box(&out);
    done.seconds = began.elapsed().as_secs_f64();
    Ok(done)
}

fn write(block_bytes: u64, stride: u64) -> Result<Done, SparseError> {
    let (file, bytes, blocks) = (SparseBuffer::new(), block(block_bytes), TOTAL_BYTES / block_bytes);
    let began = Instant::now();
    for number in 0..blocks {
        file.write(number * stride, &bytes, OnDifference::Error)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    black_box(file.held_bytes());
    Ok(Done { seconds, file, blocks, stride, block_bytes, goes_on: false })
}

fn need(ask_bytes: u64) -> Result<Done, SparseError> {
    let (file, bytes) = (SparseBuffer::new(), block(NEED_BLOCK_BYTES));
    for number in 0..NEED_BLOCKS {
        file.write(number * NEED_STRIDE_BYTES, &bytes, OnDifference::Error)?;
    }
    let options = PlanOptions::default();
    let began = Instant::now();
    let mut reads = 0;
    for at in (0..NEED_BLOCKS * NEED_STRIDE_BYTES).step_by(ask_bytes as usize) {
        let Some(range) = ByteRange::at(at, ask_bytes) else { break };
        reads += file.need(range, &options)?.len();
    }
    black_box(reads);
    let (seconds, stride, block_bytes) = (began.elapsed().as_secs_f64(), NEED_STRIDE_BYTES, NEED_BLOCK_BYTES);
    Ok(Done { seconds, file, blocks: NEED_BLOCKS, stride, block_bytes, goes_on: false })
}

fn need_all(blocks: u64) -> Result<Done, SparseError> {
    let (file, bytes) = (SparseBuffer::new(), block(NEED_BLOCK_BYTES));
    for number in 0..blocks {
        file.write(number * NEED_STRIDE_BYTES, &bytes, OnDifference::Error)?;
    }
    let options = PlanOptions::default();
    let began = Instant::now();
    black_box(file.need(ByteRange::to(blocks * NEED_STRIDE_BYTES), &options)?.len());
    let (seconds, stride, block_bytes) = (began.elapsed().as_secs_f64(), NEED_STRIDE_BYTES, NEED_BLOCK_BYTES);
    Ok(Done { seconds, file, blocks, stride, block_bytes, goes_on: false })
}

/// Each thread writes a part of the blocks, or all of them.
fn in_threads(threads: u64, stride: u64, all: bool) -> Result<Done, SparseError> {
    let (file, bytes) = (SparseBuffer::new(), block(8));
    let blocks = TOTAL_BYTES / 8;
    let each = blocks / threads;
    let began = Instant::now();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let (file, bytes) = (&file, &bytes);
                scope.spawn(move || {
                    let first = thread * each;
                    let mut numbers = if all { 0..blocks } else { first..first + each };
                    numbers.try_for_each(|number| {
                        file.write(number * stride, bytes, OnDifference::Error).map(drop)
                    })
                })
            })
            .collect();
        // A thread that panicked has reported it.
        running.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Done { seconds, file, blocks, stride, block_bytes: 8, goes_on: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_work_can_be_done_and_has_a_name_of_its_own() {
        let all = Work::all();
        let names: std::collections::BTreeSet<String> = all.iter().map(|work| work.label()).collect();
        assert_eq!(names.len(), all.len());
        for work in [
            Work::Read { block_bytes: 512 },
            Work::WriteApart { block_bytes: 256 },
            Work::WriteJoined { block_bytes: 256 },
            Work::Need { ask_bytes: 16_384 },
            Work::Threads { threads: 4, is_joined: true },
            Work::ReadApart { block_bytes: 256 },
            Work::NeedAll { blocks: 1000 },
            Work::Overwrite { threads: 2, is_joined: false },
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

    #[test]
    fn a_byte_that_is_not_the_one_that_was_written_is_found() {
        for work in [Work::Read { block_bytes: 64 }, Work::WriteApart { block_bytes: 64 }] {
            let mut done = work.once().unwrap();
            done.file = SparseBuffer::new();
            let zeros = vec![0; (done.blocks * done.stride) as usize];
            done.file.write(0, &zeros, OnDifference::Error).unwrap();
            let message = done.check().unwrap_err().to_string();
            assert_eq!(message, "the byte at 1 is not the one that was written");
        }
    }
}
