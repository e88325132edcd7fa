//! The queue through which all appenders of a storage write: one engine, a bounded number of blocks
//! in flight, and a bounded number of large buffers, however many appenders are open.
//!
//! Syncs are not queued: each runs on its own engine, so that a slow sync does not delay other
//! writes.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::LocalStorageOptions;
use crate::engine::{Access, Buffer, Completion, Engine, File, Operation, Request};
use crate::error::{Error, Result};

/// Large buffers of a storage together, in bytes: beyond that, data gathers in small ones.
const LARGE_BUFFERS_BYTES: usize = 64 << 20;

/// Bytes of a small buffer: what an appender begins with, and keeps using while all large ones are
/// taken.
pub(super) const SMALL_LEN: usize = 64 << 10;

/// Block lengths must be multiples of this, so that full blocks suit every device.
const BLOCK_UNIT: usize = 4096;

/// An appender, to the queue.
pub(super) type Owner = u64;

/// See the module.
#[derive(Debug)]
pub(super) struct WriteQueue {
    path: PathBuf,
    pub(super) options: LocalStorageOptions,
    state: Mutex<State>,
    syncers: Mutex<Syncers>,
}

#[derive(Default)]
struct Syncers(Vec<Box<dyn Engine>>);

impl std::fmt::Debug for Syncers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} idle", self.0.len())
    }
}

#[derive(Default)]
struct State {
    engine: Option<Box<dyn Engine>>,
    owners: HashMap<Owner, Outcome>,
    next_owner: Owner,
    /// Whose the writes in flight are, by token.
    writes: HashMap<u64, Owner>,
    next_token: u64,
    /// Large buffers that are not in use.
    free: Vec<Buffer>,
    /// Small buffers that are not in use: as many as may be in flight, the others are let go.
    free_small: Vec<Buffer>,
    /// Large buffers that exist, and those of them that are in flight.
    large: usize,
    large_in_flight: usize,
    completions: Vec<Completion>,
}

impl State {
    fn lend_small(&mut self) -> Buffer {
        self.free_small.pop().unwrap_or_else(|| Buffer::with_capacity(SMALL_LEN))
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("owners", &self.owners)
            .field("large", &self.large)
            .finish_non_exhaustive()
    }
}

/// What became of an appender's writes.
#[derive(Debug, Default)]
struct Outcome {
    in_flight: usize,
    error: Option<Error>,
}

impl WriteQueue {
    pub(super) fn new(path: &Path, options: LocalStorageOptions) -> Result<Self> {
        let block_fits = options.block_len >= SMALL_LEN && options.block_len.is_multiple_of(BLOCK_UNIT);
        if !block_fits || options.depth == 0 {
            let message = format!(
                "blocks of {} bytes at depth {}: expected a multiple of 4096 from 65536 on, and a depth of at least 1",
                options.block_len, options.depth,
            );
            let source = io::Error::new(io::ErrorKind::InvalidInput, message);
            return Err(Error::io("set up writing to", path, source));
        }
        Ok(Self { path: path.to_path_buf(), options, state: Mutex::default(), syncers: Mutex::default() })
    }

    pub(super) fn register(&self) -> Owner {
        let mut state = self.state();
        state.next_owner += 1;
        let owner = state.next_owner;
        state.owners.insert(owner, Outcome::default());
        owner
    }

    /// Waits for the requests of the owner in flight and discards them, including errors.
    pub(super) fn unregister(&self, owner: Owner) {
        // An appender that is dropped without a flush does not need the outcome.
        drop(self.wait(owner));
        self.state().owners.remove(&owner);
    }

    /// A buffer of the block length, or a small one when `large` is false or all large ones are
    /// taken.
    pub(super) fn lend(&self, large: bool) -> Result<Buffer> {
        let mut state = self.state();
        if !large {
            return Ok(state.lend_small());
        }
        let large_max = self.options.depth + LARGE_BUFFERS_BYTES.div_ceil(self.options.block_len);
        if state.free.is_empty() && state.large >= large_max && state.large_in_flight > 0 {
            self.reap(&mut state, 1)?;
        }
        if let Some(buffer) = state.free.pop() {
            return Ok(buffer);
        }
        if state.large >= large_max {
            return Ok(state.lend_small());
        }
        state.large += 1;
        Ok(Buffer::with_capacity(self.options.block_len))
    }

    /// Takes back a buffer that was not written.
    pub(super) fn give_back(&self, buffer: Buffer) {
        self.recycle(&mut self.state(), buffer);
    }

    /// Writes the buffer's data, waiting only while the queue is full.
    ///
    /// # Errors
    /// Returns the error of any earlier write of this owner.
    pub(super) fn submit(
        &self,
        owner: Owner,
        file: &Arc<File>,
        access: Access,
        offset: u64,
        buffer: Buffer,
    ) -> Result<()> {
        let mut state = self.state();
        let depth = self.options.depth;
        if state.engine.is_none() {
            state.engine = Some(self.options.engine.build(depth)?);
        }
        while state.engine.as_ref().is_some_and(|engine| engine.in_flight() >= depth) {
            self.reap(&mut state, 1)?;
        }
        let large = self.is_large(&buffer);
        let operation = Operation::Write { offset, buffer };
        state.next_token += 1;
        let token = state.next_token;
        let Some(engine) = state.engine.as_mut() else {
            return Err(self.broken());
        };
        engine.submit(Request { token, file: Arc::clone(file), access, operation });
        state.writes.insert(token, owner);
        state.large_in_flight += usize::from(large);
        let outcome = state.owners.entry(owner).or_default();
        outcome.in_flight += 1;
        self.reap(&mut state, 0)?;
        take_error(&mut state, owner)
    }

    /// Waits until nothing of the owner is in flight.
    ///
    /// # Errors
    /// Returns the error of any of its writes.
    pub(super) fn wait(&self, owner: Owner) -> Result<()> {
        loop {
            // The lock is let go between rounds, so that others get on with their work.
            let mut state = self.state();
            if state.owners.get(&owner).is_none_or(|outcome| outcome.in_flight == 0) {
                return take_error(&mut state, owner);
            }
            self.reap(&mut state, 1)?;
        }
    }

    /// Makes a file durable, on an engine of its own.
    pub(super) fn sync(&self, file: &Arc<File>) -> Result<()> {
        let idle = self.syncers.lock().unwrap_or_else(PoisonError::into_inner).0.pop();
        let mut engine = match idle {
            Some(engine) => engine,
            None => self.options.engine.build(1)?,
        };
        let access = Access::Cached;
        engine.submit(Request { token: 0, file: Arc::clone(file), access, operation: Operation::Sync });
        let mut completions = Vec::with_capacity(1);
        engine.reap(1, &mut completions)?;
        let completion = completions.pop().ok_or_else(|| self.broken())?;
        completion.result?;
        self.syncers.lock().unwrap_or_else(PoisonError::into_inner).0.push(engine);
        Ok(())
    }

    fn reap(&self, state: &mut State, min: usize) -> Result<()> {
        let Some(engine) = state.engine.as_mut() else { return Err(self.broken()) };
        let mut completions = std::mem::take(&mut state.completions);
        let reaped = engine.reap(min, &mut completions);
        for completion in completions.drain(..) {
            self.complete(state, completion);
        }
        state.completions = completions;
        reaped.inspect_err(|_| self.give_up(state))
    }

    fn complete(&self, state: &mut State, completion: Completion) {
        let Completion { token, result, buffer, .. } = completion;
        let wanted = buffer.as_ref().map_or(0, Buffer::len);
        let error = match result {
            Ok(moved) if moved == wanted => None,
            Ok(moved) => {
                let message = format!("{moved} of {wanted} bytes were written");
                let source = io::Error::new(io::ErrorKind::WriteZero, message);
                Some(Error::io("write to a file in", &self.path, source))
            }
            Err(error) => Some(error),
        };
        let outcome = state.writes.remove(&token).and_then(|owner| state.owners.get_mut(&owner));
        if let Some(outcome) = outcome {
            outcome.in_flight -= 1;
            // The first error is the cause; what follows it is its consequence.
            outcome.error = outcome.error.take().or(error);
        }
        if let Some(buffer) = buffer {
            state.large_in_flight -= usize::from(self.is_large(&buffer));
            self.recycle(state, buffer);
        }
    }

    /// The engine broke: requests in flight will never complete.
    fn give_up(&self, state: &mut State) {
        state.engine = None;
        state.writes.clear();
        state.large -= state.large_in_flight;
        state.large_in_flight = 0;
        for outcome in state.owners.values_mut().filter(|outcome| outcome.in_flight > 0) {
            outcome.in_flight = 0;
            outcome.error.get_or_insert_with(|| self.broken());
        }
    }

    fn recycle(&self, state: &mut State, buffer: Buffer) {
        if self.is_large(&buffer) {
            state.free.push(buffer);
        } else if state.free_small.len() < self.options.depth {
            state.free_small.push(buffer);
        }
    }

    fn is_large(&self, buffer: &Buffer) -> bool {
        self.options.block_len > SMALL_LEN && buffer.capacity() >= self.options.block_len
    }

    fn broken(&self) -> Error {
        Error::io("write to", &self.path, io::Error::other("the engine that writes broke earlier"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here is left half-changed by a panic of an engine but counts that only grow.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take_error(state: &mut State, owner: Owner) -> Result<()> {
    match state.owners.get_mut(&owner).and_then(|outcome| outcome.error.take()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
