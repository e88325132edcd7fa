//! Long files, written past the page cache, several blocks at once.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Calls, OutFile};
use crate::engine::{self, Access, Buffer, BufferPool, Completion, Engine, Operation, Request};
use crate::error::Error;
use crate::extent::ByteRange;

/// Files from this length on are long. Shorter ones are written sooner through the page cache.
pub(crate) const LONG: u64 = 4 << 20;

/// Bytes that are written at once.
const BLOCK: usize = 1 << 20;

/// Blocks that are on their way at once.
const DEPTH: usize = 8;

/// Writes long files, one after another.
pub(crate) struct LongWriter {
    engine: Box<dyn Engine>,
    /// Memory of blocks that were written.
    pool: BufferPool,
    completions: Vec<Completion>,
}

impl std::fmt::Debug for LongWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LongWriter").field("engine", &self.engine.name()).finish_non_exhaustive()
    }
}

/// A long file on its way. When it is dropped, nothing of it is on its way any more.
#[derive(Debug)]
pub(crate) struct LongFile<'a> {
    writer: &'a mut LongWriter,
    file: Arc<engine::File>,
    /// What is not on its way yet, and where it begins.
    block: Buffer,
    at: u64,
    /// The length that the file has when all is written.
    len: u64,
}

impl LongWriter {
    /// One with an engine of its own.
    pub(crate) fn new(calls: &dyn Calls) -> io::Result<Self> {
        let engine = calls.engine(DEPTH).map_err(io_of)?;
        Ok(Self { engine, pool: BufferPool::new((DEPTH + 1) * BLOCK), completions: Vec::new() })
    }

    /// Begins a file of this length, for which room is reserved. `None` where its bytes would go
    /// through the page cache anyway.
    pub(crate) fn begin(
        &mut self,
        file: &OutFile,
        shown: &Path,
        len: u64,
    ) -> io::Result<Option<LongFile<'_>>> {
        let opened = Arc::new(engine::File::from_std(file.file.try_clone()?, shown, true));
        if engine::is_fuse(&file.file) || !opened.bypasses_cache() {
            return Ok(None);
        }
        let block = self.pool.take(BLOCK);
        let mut long = LongFile { writer: self, file: opened, block, at: 0, len: 0 };
        long.reserve(len)?;
        Ok(Some(long))
    }

    fn submit(&mut self, file: &Arc<engine::File>, operation: Operation) -> io::Result<()> {
        self.wait_below(DEPTH)?;
        let file = file.clone();
        self.engine.submit(Request { token: 0, file, access: Access::Direct, operation });
        // It begins now, not when something is waited for.
        self.engine.reap(0, &mut self.completions).map_err(io_of)?;
        self.ended()
    }

    /// Waits until fewer than this many are on their way; the first error of one of them.
    fn wait_below(&mut self, count: usize) -> io::Result<()> {
        let mut first = Ok(());
        while self.engine.in_flight() >= count {
            self.engine.reap(1, &mut self.completions).map_err(io_of)?;
            first = first.and(self.ended());
        }
        first
    }

    /// The first error of those that have ended.
    fn ended(&mut self) -> io::Result<()> {
        let ended = self.completions.drain(..).map(|completion| completion.result.map(drop));
        ended.fold(Ok(()), Result::and).map_err(io_of)
    }
}

impl LongFile<'_> {
    /// Room on the medium: blocks that are written inside a file need not wait for each other.
    fn reserve(&mut self, len: u64) -> io::Result<()> {
        let operation = Operation::Allocate { range: ByteRange::to(len), keep_len: false };
        let submitted = self.writer.submit(&self.file, operation);
        match submitted.and_then(|()| self.writer.wait_below(1)) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            reserved => {
                reserved?;
                self.len = len;
            }
        }
        Ok(())
    }

    /// The next bytes, which stand at this offset of the file.
    pub(crate) fn write_at(&mut self, mut bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset != self.at.saturating_add(self.block.len() as u64) {
            self.flush()?;
            self.at = offset;
        }
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK.saturating_sub(self.block.len())));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() >= BLOCK {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let next = self.writer.pool.take(BLOCK);
        let buffer = std::mem::replace(&mut self.block, next);
        let (offset, len) = (self.at, buffer.len() as u64);
        self.at = offset.saturating_add(len);
        self.len = self.len.max(self.at);
        self.writer.submit(&self.file, Operation::Write { offset, buffer })
    }

    /// All bytes are there, and written when this returns: the length that the file has now.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.flush()?;
        self.writer.wait_below(1)?;
        Ok(self.len)
    }
}

impl Drop for LongFile<'_> {
    fn drop(&mut self) {
        // What went wrong first is what was reported.
        let _ = self.writer.wait_below(1);
    }
}

/// The error of the system, whose path the caller adds.
fn io_of(error: Error) -> io::Error {
    match error {
        Error::Io { source, .. } => source,
        Error::Unsupported { source, .. } => io::Error::new(io::ErrorKind::Unsupported, source),
        other => io::Error::other(other),
    }
}
