//! The calls of a plan, made from Rust.

use std::hint::black_box;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::{PoisonError, RwLock};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use stook::extent::ByteRange;
use stook::plan::PlanOptions;
use stook::sparse::{OnDifference, SparseBuffer, SparseError};

use super::plan::{Blocks, Call, Plan, Share, Threads};

/// A plan that was carried out.
pub(super) struct Ran {
    /// How long all calls took, once.
    pub(super) seconds: f64,
    /// The files, one for each thread where each has its own.
    pub(super) files: Vec<SparseBuffer>,
    plan: Plan,
}

impl Plan {
    /// Makes all calls.
    ///
    /// # Errors
    /// Returns an error if a file refuses one.
    pub(super) fn run(self) -> Result<Ran, SparseError> {
        let files: Vec<SparseBuffer> = (0..self.files()).map(|_| SparseBuffer::new()).collect();
        if let Some(before) = self.before {
            let bytes = block(before.len);
            for file in &files {
                for number in 0..before.count {
                    file.write(number * before.stride, &bytes, OnDifference::Error)?;
                }
            }
        }
        let mut bytes = if self.call == Call::Need { Vec::new() } else { block(self.calls.len) };
        let began = Instant::now();
        match self.threads {
            Some(threads) => self.in_threads(threads, &files, &bytes)?,
            None => {
                for file in (0..self.repeats).flat_map(|_| &files) {
                    self.calls(file, 0..self.calls.count, &mut bytes)?;
                }
            }
        }
        let seconds = began.elapsed().as_secs_f64() / self.repeats as f64;
        Ok(Ran { seconds, files, plan: self })
    }

    fn calls(self, file: &SparseBuffer, numbers: Range<u64>, bytes: &mut [u8]) -> Result<(), SparseError> {
        let Blocks { stride, len, .. } = self.calls;
        match self.call {
            Call::Read => {
                for number in numbers {
                    file.read(number * stride, bytes)?;
                }
            }
            Call::ReadOneLock => {
                let reader = file.reader();
                for number in numbers {
                    reader.read(number * stride, bytes)?;
                }
            }
            Call::Write => {
                for number in numbers {
                    file.write(number * stride, bytes, OnDifference::Error)?;
                }
            }
            Call::Need => {
                let options = PlanOptions::default();
                let mut reads = 0;
                for range in numbers.filter_map(|number| ByteRange::at(number * stride, len)) {
                    reads += file.need(range, &options)?.len();
                }
                black_box(reads);
            }
        }
        black_box(bytes);
        Ok(())
    }

    fn in_threads(self, threads: Threads, files: &[SparseBuffer], bytes: &[u8]) -> Result<(), SparseError> {
        let all = self.calls.count;
        let each = all / threads.count;
        std::thread::scope(|scope| {
            let files = (0..threads.count).zip(files.iter().cycle());
            let start = files.map(|(thread, file)| {
                let numbers = match threads.share {
                    Share::Part => thread * each..(thread + 1) * each,
                    Share::All | Share::Own => 0..all,
                };
                scope.spawn(move || self.calls(file, numbers, &mut bytes.to_vec()))
            });
            let running: Vec<_> = start.collect();
            let joined = |thread: ScopedJoinHandle<'_, Result<(), SparseError>>| {
                thread.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            running.into_iter().try_for_each(joined)
        })
    }
}

impl Ran {
    /// Reads everything back, and counts the ranges: one where blocks touch, else as many as
    /// blocks.
    ///
    /// # Errors
    /// Returns an error if other bytes are returned, or there are other ranges.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let held = self.plan.held();
        let calls = if self.plan.call == Call::Need { held } else { self.plan.calls };
        let mut found = block(calls.len);
        for file in &self.files {
            for at in (0..calls.count).map(|number| number * calls.stride) {
                file.read(at, &mut found)?;
                // Bytes count from where the block begins that was written.
                let mut pairs = found.iter().zip(at % held.stride..);
                if let Some(inner) = pairs.position(|(byte, expected)| *byte != expected as u8) {
                    anyhow::bail!("the byte at {} is not the one that was written", at + inner as u64);
                }
            }
            let expected = if held.stride == held.len { 1 } else { held.count };
            let ranges = file.extents().len() as u64;
            anyhow::ensure!(ranges == expected, "there are {ranges} ranges, not {expected}");
        }
        Ok(())
    }
}

/// Bytes that count.
fn block(len: u64) -> Vec<u8> {
    (0..len).map(|n| n as u8).collect()
}

/// How long it takes to take and release this many times a lock of the kind that a write takes, and
/// that no other thread wants.
pub(super) fn locks(count: u64) -> f64 {
    let lock = RwLock::new(0_u64);
    let began = Instant::now();
    for _ in 0..count {
        *black_box(&lock).write().unwrap_or_else(PoisonError::into_inner) += 1;
    }
    black_box(&lock);
    began.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::super::work::Work;
    use super::*;

    #[test]
    fn a_byte_that_is_not_the_one_that_was_written_is_found() {
        for work in [Work::Read { block_bytes: 64 }, Work::WriteApart { block_bytes: 64 }] {
            let mut ran = work.plan().unwrap().run().unwrap();
            let held = ran.plan.held();
            ran.files = vec![SparseBuffer::new()];
            let zeros = vec![0; (held.count * held.stride) as usize];
            ran.files[0].write(0, &zeros, OnDifference::Error).unwrap();
            let message = ran.check().unwrap_err().to_string();
            assert_eq!(message, "the byte at 1 is not the one that was written");
        }
    }

    #[test]
    fn blocks_that_should_touch_and_do_not_are_found() {
        let ran = Work::WriteJoined { block_bytes: 64 }.plan().unwrap().run().unwrap();
        ran.check().unwrap();
        // The same bytes with more of them, far away.
        ran.files[0].write(1 << 30, b"more", OnDifference::Error).unwrap();
        assert_eq!(ran.check().unwrap_err().to_string(), "there are 2 ranges, not 1");
    }

    #[test]
    fn each_thread_has_a_file_of_its_own_where_it_should() {
        let ran = Work::Own { threads: 3, is_joined: false }.plan().unwrap().run().unwrap();
        assert_eq!(ran.files.len(), 3);
        ran.check().unwrap();
        let ran = Work::Overwrite { threads: 3, is_joined: false }.plan().unwrap().run().unwrap();
        assert_eq!(ran.files.len(), 1);
        assert!(locks(1000) > 0.0);
    }
}
