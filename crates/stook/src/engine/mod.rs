//! Executes reads and writes of files at a queue depth.
//!
//! Two backends implement one trait and pass the same conformance suite: [`uring`] (Linux
//! `io_uring`, one ring per engine, submit and reap in one call) and [`threads`] (a
//! `pread`/`pwrite` pool, always compiled). [`EngineOptions::build`] chooses;
//! `STOOK_ENGINE=uring|threads` overrides.
//!
//! What callers may rely on, whichever backend runs:
//! - an operation owns its [`Buffer`] until its completion hands it back, so memory in flight can
//!   never be freed or read;
//! - short reads and writes, `EINTR` and `EAGAIN` are retried here; a read that comes back with
//!   fewer bytes than asked has met the end of the file;
//! - direct reads are widened to the device's alignment and narrowed again here; a direct write
//!   that is not aligned goes through the page cache;
//! - completions come in any order, each with the `token` of its request;
//! - dropping an engine waits until all that was submitted is done.
//!
//! This module never looks into the bytes it moves.

mod arena;
mod available;
mod buffer;
mod cache;
mod file;
mod idle;
mod mapping;
mod memory;
mod options;
mod pool;
pub mod threads;
mod transfer;
#[cfg(target_os = "linux")]
pub mod uring;

use std::sync::Arc;
use std::time::Instant;

pub use arena::Arena;
pub(crate) use available::available_memory;
pub use buffer::Buffer;
pub use cache::{CacheResidency, drop_system_caches, touch_memory};
pub use file::{Alignment, File};
pub(crate) use idle::IdlePool;
pub use mapping::{Mapping, prefetch};
pub use options::{Backend, EngineOptions};
pub use pool::BufferPool;

use crate::error::Result;

/// Which way the bytes of an operation take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Past the page cache (`O_DIRECT`); falls back to the cache where the file system refuses it.
    Direct,
    /// Through the page cache.
    Cached,
}

/// What is to be done to a file.
#[derive(Debug)]
pub enum Operation {
    /// Fill `buffer` with up to `len` bytes from `offset`.
    ///
    /// The buffer's capacity must be at least [`File::span`] of the range under the same access,
    /// which is `len` rounded out to the alignment when direct. The data then begins in it where
    /// `span` says, also when the file system refuses direct I/O.
    Read {
        /// First byte wanted.
        offset: u64,
        /// Bytes wanted, at least 1.
        len: usize,
        /// Where they go.
        buffer: Buffer,
    },
    /// Write all of `buffer.data()` at `offset`.
    Write {
        /// Where the first byte goes.
        offset: u64,
        /// The bytes, and nothing is written of an empty buffer.
        buffer: Buffer,
    },
    /// Make everything that was written before durable (`fdatasync`).
    Sync,
}

/// An operation on its way to the engine.
#[derive(Debug)]
pub struct Request {
    /// Handed back with the completion; the engine never looks at it.
    pub token: u64,
    /// The file it is done to.
    pub file: Arc<File>,
    /// Direct or cached.
    pub access: Access,
    /// What is to be done.
    pub operation: Operation,
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Completion {
    /// The token of the request.
    pub token: u64,
    /// Bytes moved. For a read fewer than asked means end of file; for a sync 0.
    pub result: Result<usize>,
    /// The buffer of the request (none for a sync). After a read, `data()` is exactly the bytes
    /// that were asked for and found.
    pub buffer: Option<Buffer>,
}

/// Runs requests at a bounded depth.
pub trait Engine: Send {
    /// `"uring"`, `"threads"`, or the name of a test double.
    fn name(&self) -> &'static str;

    /// How many requests may be in flight.
    fn depth(&self) -> usize;

    /// Requests submitted whose completions have not been handed out.
    fn in_flight(&self) -> usize;

    /// Queues a request. The kernel may learn of it only at the next [`reap`](Self::reap).
    ///
    /// # Panics
    /// When `in_flight() == depth()`: a caller that does not count is a defect.
    fn submit(&mut self, request: Request);

    /// Starts what is queued, waits until at least `min` completions are there (capped at what is
    /// in flight) and appends all that are to `completions`.
    ///
    /// # Errors
    /// Only when the engine itself is broken; what an operation met is in its completion.
    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<()>;

    /// As [`reap`](Self::reap), but waits no longer than until `deadline`; then there may be fewer
    /// than `min`, or none.
    ///
    /// # Errors
    /// As for `reap`.
    fn reap_until(&mut self, min: usize, deadline: Instant, completions: &mut Vec<Completion>) -> Result<()>;
}

/// Makes engines: what library code takes, so that tests can hand in one that injects faults.
pub trait EngineFactory: Send + Sync + std::fmt::Debug {
    /// A new engine of at least this depth.
    ///
    /// # Errors
    /// When the wanted backend is refused by the system.
    fn build(&self, depth: usize) -> Result<Box<dyn Engine>>;

    /// Whether small reads of what is in the page cache may go around its engines
    /// ([`File::read_if_cached`]). Not those that count or fail on demand.
    fn may_be_bypassed(&self) -> bool {
        false
    }
}
