//! [`Pieces`]: all of a file, from front to back, several requests in flight.

use std::sync::Arc;

use super::error::{Error, Result};
use super::observer::Observer;
use crate::engine::{Access, Arena, Buffer, Completion, Engine, EngineFactory, File, Operation, Request};
use crate::extent::ByteRange;

/// The size of one request, and how many are in flight.
const PIECE_BYTES: usize = 1 << 20;
const DEPTH: usize = 8;

/// A file to be written or read as a whole, past the page cache where that is possible.
pub(super) struct Pieces<'a> {
    pub(super) file: &'a Arc<File>,
    pub(super) len: u64,
    pub(super) engines: &'a dyn EngineFactory,
    pub(super) observer: &'a dyn Observer,
}

impl Pieces<'_> {
    /// Writes everything; `make` fills the bytes that go to an offset.
    pub(super) fn write(&self, mut make: impl FnMut(&mut [u8], u64)) -> Result<()> {
        let request = |mut buffer: Buffer, offset, len| {
            buffer.set_data_range(0..len);
            make(buffer.data_mut(), offset);
            Operation::Write { offset, buffer }
        };
        self.run(request, |_, _| Ok(()))
    }

    /// Reads everything; `look` gets the bytes of an offset.
    pub(super) fn read(&self, look: impl FnMut(&[u8], u64) -> Result<()>) -> Result<()> {
        self.run(|buffer, offset, len| Operation::Read { offset, len, buffer }, look)
    }

    /// Makes written data durable, with all metadata, and drops it from the page cache.
    pub(super) fn settle(&self) -> Result<()> {
        let mut engine = self.engines.build(1)?;
        let mut completions = Vec::with_capacity(1);
        let range = ByteRange::to(self.len);
        for operation in [Operation::SyncAll, Operation::DropCached { range }] {
            let (file, access) = (Arc::clone(self.file), Access::Cached);
            engine.submit(Request { token: 0, file, access, operation });
            engine.reap(1, &mut completions)?;
            for completion in completions.drain(..) {
                completion.result?;
            }
        }
        Ok(())
    }

    fn run(
        &self,
        mut request: impl FnMut(Buffer, u64, usize) -> Operation,
        mut look: impl FnMut(&[u8], u64) -> Result<()>,
    ) -> Result<()> {
        // The arena outlives the engine, and so every buffer in flight.
        let mut arena = Arena::new(DEPTH * PIECE_BYTES)?;
        let mut engine = self.engines.build(DEPTH)?;
        let mut free: Vec<Buffer> =
            (0..DEPTH).map(|at| arena.take(at * PIECE_BYTES..(at + 1) * PIECE_BYTES)).collect();
        let (mut next, mut done) = (0, Vec::new());
        loop {
            if self.observer.is_interrupted() {
                return Err(Error::Interrupted);
            }
            while next < self.len
                && let Some(buffer) = free.pop()
            {
                let len = self.len_at(next);
                let (file, operation) = (Arc::clone(self.file), request(buffer, next, len));
                engine.submit(Request { token: next, file, access: Access::Direct, operation });
                next += len as u64;
            }
            if engine.in_flight() == 0 {
                return Ok(());
            }
            self.reap(&mut *engine, &mut done)?;
            for (offset, buffer) in done.drain(..) {
                look(buffer.data(), offset)?;
                self.observer.laid_out(buffer.len() as u64);
                free.push(buffer);
            }
        }
    }

    fn reap(&self, engine: &mut dyn Engine, done: &mut Vec<(u64, Buffer)>) -> Result<()> {
        let mut completions = Vec::new();
        engine.reap(1, &mut completions)?;
        for Completion { token, result, buffer, .. } in completions {
            let (wanted, got) = (self.len_at(token) as u64, result? as u64);
            if got < wanted {
                let path = self.file.path().to_path_buf();
                return Err(crate::Error::ShortRead { path, offset: token, wanted, got }.into());
            }
            done.extend(buffer.map(|buffer| (token, buffer)));
        }
        Ok(())
    }

    fn len_at(&self, offset: u64) -> usize {
        // No more than a piece, which is a `usize`.
        self.len.saturating_sub(offset).min(PIECE_BYTES as u64) as usize
    }
}
