//! Executes reads, writes and other operations on files at a queue depth.
//!
//! Two backends implement one trait and pass the same conformance suite: [`uring`] (Linux
//! `io_uring`, one ring per engine, submit and reap in one call) and [`threads`] (a
//! `pread`/`pwrite` pool, always compiled). [`EngineOptions::build`] chooses;
//! `STOOK_ENGINE=uring|threads` overrides.
//!
//! What callers may rely on, whichever backend runs:
//! - an operation owns its [`Buffer`] until its completion hands it back, so memory in flight can
//!   never be freed or read;
//! - short reads, writes and copies, `EINTR` and `EAGAIN` are retried here; a read that returns
//!   fewer bytes than requested has reached the end of the file;
//! - direct reads are widened to the device's alignment and narrowed again here; an unaligned
//!   direct write goes through the page cache; shared bytes whose memory alone is unaligned are
//!   copied once;
//! - a completion says which way the bytes took;
//! - operations that a file system does not support are
//!   [`Error::Unsupported`](crate::Error::Unsupported); one without support for holes has none;
//! - completions come in any order, each with the `token` of its request;
//! - dropping an engine waits until all submitted requests are done.
//!
//! This module never looks into the bytes it moves.

mod arena;
#[cfg(target_os = "linux")]
mod aside;
mod available;
mod buffer;
mod cache;
mod calls;
mod extents;
mod faults;
mod file;
mod file_system;
mod holes;
mod idle;
mod mapping;
mod memory;
mod nameless;
mod operation;
mod options;
mod pool;
pub mod threads;
mod transfer;
#[cfg(target_os = "linux")]
pub mod uring;
mod workers;

use std::sync::Arc;
use std::time::Instant;

pub use arena::Arena;
pub(crate) use available::available_memory;
pub use buffer::Buffer;

pub use cache::{CacheResidency, drop_system_caches, touch_memory};
pub(crate) use calls::wait_written;
pub use extents::extents_of;
pub use faults::{CallFault, CallFaults};
pub use file::{Alignment, File};
pub(crate) use file_system::{is_fuse, type_of};
pub(crate) use holes::{holes, may_have_holes};
pub(crate) use idle::IdlePool;
pub use mapping::{Mapping, prefetch};
pub(crate) use nameless::nameless;
pub use operation::{Operation, OperationKind, SeekTarget};
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

/// An operation on its way to the engine.
#[derive(Debug)]
pub struct Request {
    /// Handed back with the completion; the engine never looks at it.
    pub token: u64,
    /// The file it is done to; of clones and copies, the one that is written.
    pub file: Arc<File>,
    /// Direct or cached, for reads and writes.
    pub access: Access,
    /// The operation.
    pub operation: Operation,
}

/// An operation that has ended.
#[derive(Debug)]
pub struct Completion {
    /// The token of the request.
    pub token: u64,
    /// Bytes read, written, cloned or copied; 0 for everything else. If a read or a copy returns
    /// fewer than requested, the end of the source file was reached.
    pub result: Result<usize>,
    /// The buffer of the request, where it had one. After a read, `data()` is exactly those
    /// requested bytes that exist.
    pub buffer: Option<Buffer>,
    /// Which way the bytes of a read or a write took.
    pub passage: Passage,
    /// The result of a seek: the length of the file if nothing was found.
    pub found: Option<u64>,
}

/// How the bytes of a read or a write were really transferred, whatever was requested.
///
/// It shows when a direct request was served through the page cache: because the file system
/// refuses direct I/O or keeps files in memory, or because the rest of a range is not aligned. What
/// a file system does below an accepted request is not visible (btrfs buffers direct writes to
/// files with checksums). The bytes of clones and copies do not pass through the process and are
/// not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passage {
    /// Bytes that went past the page cache, those included that alignment alone made it read.
    pub direct_bytes: u64,
    /// Bytes that went through the page cache.
    pub cached_bytes: u64,
    /// Shared bytes that were copied into aligned memory first.
    pub copied_bytes: u64,
}

impl Passage {
    /// Whether there were bytes, and all went past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct_bytes > 0 && self.cached_bytes == 0
    }
}

/// Runs requests at a bounded depth.
pub trait Engine: Send {
    /// `"uring"`, `"threads"`, or the name of a test double.
    fn name(&self) -> &'static str;

    /// How many requests may be in flight.
    fn depth(&self) -> usize;

    /// Submitted requests whose completions have not been returned.
    fn in_flight(&self) -> usize;

    /// Queues a request. The kernel may learn of it only at the next [`reap`](Self::reap).
    ///
    /// # Panics
    /// Panics if `in_flight() == depth()`: a caller that does not count is a defect.
    fn submit(&mut self, request: Request);

    /// Starts queued requests, waits for at least `min` completions (at most those in flight) and
    /// appends all available ones to `completions`.
    ///
    /// # Errors
    /// Returns an error only if the engine itself is broken; the error of an operation is in its
    /// completion.
    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<()>;

    /// As [`reap`](Self::reap), but waits no longer than until `deadline`; then there may be fewer
    /// than `min`, or none.
    ///
    /// # Errors
    /// The same as for `reap`.
    fn reap_until(&mut self, min: usize, deadline: Instant, completions: &mut Vec<Completion>) -> Result<()>;
}

/// Makes engines: what library code takes, so that tests can hand in one that injects faults.
pub trait EngineFactory: Send + Sync + std::fmt::Debug {
    /// A new engine of at least this depth.
    ///
    /// # Errors
    /// Returns an error if the system refuses the requested backend.
    fn build(&self, depth: usize) -> Result<Box<dyn Engine>>;

    /// Whether small reads of cached data may bypass its engines ([`File::read_if_cached`]).
    /// Engines that count, or fail on demand, do not allow this.
    fn may_be_bypassed(&self) -> bool {
        false
    }
}
