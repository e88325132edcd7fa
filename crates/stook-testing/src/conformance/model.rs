//! Random reads and writes of an engine against a flat `Vec<u8>`.
#![expect(clippy::unwrap_used, reason = "a suite that meets an error fails on the spot")]

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use stook::engine::{Access, Buffer, Completion, Engine, EngineFactory, File, Operation, Request};

use super::engine::{read, write};
use super::{noise, write_shared};

/// An operation of the model.
#[derive(Debug, Clone)]
pub enum FileOperation {
    /// Write bytes made from the seed.
    Write {
        /// Where.
        offset: usize,
        /// How many.
        len: usize,
        /// Which way.
        access: Access,
        /// What.
        seed: u64,
        /// Whether from bytes that are shared, and not aligned in memory where the seed is odd.
        shared: bool,
    },
    /// Read and compare.
    Read {
        /// Where.
        offset: usize,
        /// How many, at least 1.
        len: usize,
        /// Which way.
        access: Access,
    },
    /// Make durable.
    Sync,
}

/// Operations in the first 300 KB of a file, half of them aligned.
pub fn file_operations() -> impl Strategy<Value = Vec<FileOperation>> {
    let access = prop_oneof![Just(Access::Direct), Just(Access::Cached)];
    let place = prop_oneof![
        (0..250_000_usize, 1..40_000_usize),
        (0..60_usize, 1..10_usize).prop_map(|(page, pages)| (page * 4096, pages * 4096)),
        (0..500_usize, 1..20_usize).prop_map(|(sector, sectors)| (sector * 512, sectors * 512)),
    ];
    let operation =
        (place, access, any::<u64>(), 0..10_u8).prop_map(|((offset, len), access, seed, kind)| match kind {
            0..=4 => FileOperation::Read { offset, len, access },
            5..=8 => FileOperation::Write { offset, len, access, seed, shared: kind > 6 },
            _ => FileOperation::Sync,
        });
    proptest::collection::vec(operation, 1..60)
}

/// Runs the operations at this depth on a new file in `directory`.
///
/// # Panics
/// Panics if the file and the model differ.
pub fn engine_matches_model(
    factory: &dyn EngineFactory,
    directory: &Path,
    depth: usize,
    operations: &[FileOperation],
) {
    let path = directory.join("model");
    let _absent = std::fs::remove_file(&path);
    let file = Arc::new(File::create_new(&path).unwrap());
    let engine = factory.build(depth).unwrap();
    let mut run = Run { engine, file, model: Vec::new(), busy: Vec::new(), wanted: HashMap::new() };
    for (operation, token) in operations.iter().zip(0..) {
        run.submit(token, operation);
    }
    run.finish();
    assert!(std::fs::read(&path).unwrap() == run.model);
}

struct Run {
    engine: Box<dyn Engine>,
    file: Arc<File>,
    model: Vec<u8>,
    /// Pages in use by operations in flight, and whether they are written.
    busy: Vec<(Range<usize>, bool)>,
    /// The result that each operation in flight must have, and the bytes of reads.
    wanted: HashMap<u64, (usize, Option<Vec<u8>>)>,
}

impl Run {
    fn submit(&mut self, token: u64, operation: &FileOperation) {
        let (request, wanted) = match *operation {
            FileOperation::Write { offset, len, access, seed, shared } => {
                self.claim(offset..offset + len, true);
                let bytes = noise(seed, len);
                self.model.resize(self.model.len().max(offset + len), 0);
                self.model[offset..offset + len].copy_from_slice(&bytes);
                let request = match shared {
                    true => {
                        let odd = usize::from(seed % 2 == 1);
                        let mut padded = Buffer::with_capacity(odd + len);
                        padded.set_data_range(0..odd);
                        padded.extend_from_slice(&bytes);
                        let bytes = padded.into_bytes().slice(odd..);
                        write_shared(token, &self.file, access, offset as u64, &bytes)
                    }
                    false => write(token, &self.file, access, offset as u64, &bytes),
                };
                (request, (len, None))
            }
            FileOperation::Read { offset, len, access } => {
                self.claim(offset..offset + len, false);
                let end = (offset + len).min(self.model.len());
                let bytes = self.model.get(offset..end).unwrap_or_default().to_vec();
                (read(token, &self.file, access, offset as u64, len), (bytes.len(), Some(bytes)))
            }
            FileOperation::Sync => {
                let (file, access) = (Arc::clone(&self.file), Access::Cached);
                (Request { token, file, access, operation: Operation::Sync }, (0, None))
            }
        };
        if self.engine.in_flight() == self.engine.depth() {
            self.finish_some(1);
        }
        self.wanted.insert(token, wanted);
        self.engine.submit(request);
    }

    /// Waits until the pages can be used: what happens at once to a page has no defined order, and
    /// while the file grows neither has anything.
    fn claim(&mut self, range: Range<usize>, writes: bool) {
        let grows = writes && range.end > self.model.len();
        let pages =
            if grows { 0..usize::MAX } else { range.start / 4096 * 4096..range.end.next_multiple_of(4096) };
        let conflict = self.busy.iter().any(|(other, written)| {
            (writes || *written) && pages.start < other.end && other.start < pages.end
        });
        if conflict {
            self.finish();
        }
        self.busy.push((pages, writes));
    }

    fn finish(&mut self) {
        self.finish_some(usize::MAX);
        self.busy.clear();
    }

    fn finish_some(&mut self, min: usize) {
        let mut completions = Vec::new();
        self.engine.reap(min, &mut completions).unwrap();
        for Completion { token, result, buffer, .. } in completions {
            let (count, bytes) = self.wanted.remove(&token).unwrap();
            assert_eq!(result.unwrap(), count, "operation {token}");
            if let Some(bytes) = bytes {
                assert!(buffer.unwrap().data() == bytes, "operation {token}");
            }
        }
    }
}
