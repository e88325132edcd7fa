//! The backend that is always available: a pool of threads that share one queue and call `pread`,
//! `pwrite` and the other system calls of a transfer.
//!
//! It decides nothing about the transfers; `Transfer` does.
#![expect(unsafe_code, reason = "system calls on memory that a transfer owns")]

use std::io;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use super::transfer::{Step, Transfer};
use super::workers::Workers;
use super::{CallFaults, Completion, Engine, Request};
use crate::error::{Error, Result};

/// An [`Engine`] of `pread` and `pwrite` on threads.
#[derive(Debug)]
pub struct ThreadsEngine {
    depth: usize,
    in_flight: usize,
    workers: Workers<Transfer, Completion>,
}

impl ThreadsEngine {
    /// A pool for this many requests in flight. Threads start as they are needed, up to 64.
    ///
    /// # Errors
    /// Returns an error if not even one thread can be started.
    pub fn new(depth: usize) -> io::Result<Self> {
        Self::with_faults(depth, None)
    }

    pub(super) fn with_faults(depth: usize, faults: Option<Arc<dyn CallFaults>>) -> io::Result<Self> {
        let run = move |mut transfer: Transfer| {
            while let Some(step) = transfer.next_step(faults.as_deref()) {
                transfer.advance(carry_out(step));
            }
            transfer.complete()
        };
        Ok(Self { depth, in_flight: 0, workers: Workers::start(depth, run, || ())? })
    }

    /// Takes available completions, and waits for at least `min` until the deadline.
    fn collect(
        &mut self,
        min: usize,
        deadline: Option<Instant>,
        completions: &mut Vec<Completion>,
    ) -> Result<()> {
        let mut missing = min.min(self.in_flight);
        let completed = self.workers.results();
        while self.in_flight > 0 {
            let next = match deadline {
                _ if missing == 0 => completed.try_recv().ok(),
                None => Some(completed.recv().map_err(|_| gone())?),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    match completed.recv_timeout(left) {
                        Ok(completion) => Some(completion),
                        Err(RecvTimeoutError::Timeout) => None,
                        Err(RecvTimeoutError::Disconnected) => return Err(gone()),
                    }
                }
            };
            let Some(completion) = next else { break };
            missing = missing.saturating_sub(1);
            self.in_flight -= 1;
            completions.push(completion);
        }
        Ok(())
    }
}

/// The thread of a pool that is to complete something is gone.
fn gone() -> Error {
    Error::io("wait for", "an I/O thread", io::ErrorKind::BrokenPipe.into())
}

/// Makes the system call of a step, and waits for it. The memory and the descriptors are those of
/// the transfer that gave the step, which has to keep them until this returns.
pub(super) fn carry_out(step: Step) -> io::Result<u64> {
    match step {
        Step::Read { fd, memory, len, offset } => {
            // SAFETY: the transfer owns `len` bytes at `memory`, and keeps the descriptor open,
            // until it receives the outcome.
            count(unsafe { libc::pread(fd, memory.cast(), len, file_offset(offset)?) })
        }
        Step::Write { fd, memory, len, offset } => {
            // SAFETY: as for a read.
            count(unsafe { libc::pwrite(fd, memory.cast(), len, file_offset(offset)?) })
        }
        Step::Call(call) => call.carry_out(),
    }
}

fn file_offset(offset: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

fn count(result: isize) -> io::Result<u64> {
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl Engine for ThreadsEngine {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn submit(&mut self, request: Request) {
        assert!(self.in_flight < self.depth, "more than {} requests in flight", self.depth);
        self.in_flight += 1;
        self.workers.hand_over(Transfer::new(request));
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<()> {
        self.collect(min, None, completions)
    }

    fn reap_until(&mut self, min: usize, deadline: Instant, completions: &mut Vec<Completion>) -> Result<()> {
        self.collect(min, Some(deadline), completions)
    }
}
