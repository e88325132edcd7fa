//! [`Aside`]: the steps that a ring has no operation for, or must not be given, carried out by
//! threads.
//!
//! A descriptor becomes readable when a call is done. The ring polls it, so waiting for the ring
//! also waits for the threads.
#![expect(unsafe_code, reason = "a step names memory that a transfer owns")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::event::EventfdFlags;

use super::threads::carry_out;
use super::transfer::Step;
use super::workers::Workers;

/// A step of the transfer in this slot.
#[derive(Debug)]
struct Job {
    slot: usize,
    step: Step,
}

// SAFETY: the memory that the step names belongs to the transfer in that slot. The transfer stays
// there until the outcome was taken, or is leaked, and nothing else touches the memory meanwhile.
unsafe impl Send for Job {}

/// What became of it.
pub(super) type Done = (usize, io::Result<u64>);

/// See the module.
#[derive(Debug)]
pub(super) struct Aside {
    workers: Workers<Job, Done>,
    bell: Arc<OwnedFd>,
    /// Steps whose outcomes were not taken.
    pending: usize,
}

impl Aside {
    /// Allows at most this many steps at once. Threads are started on demand.
    ///
    /// # Errors
    /// Returns an error if the system refuses the descriptor or the first thread.
    pub(super) fn new(depth: usize) -> io::Result<Self> {
        let bell = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let rung = Arc::clone(&bell);
        let notify = move || {
            // The write fails only after 2⁶⁴ calls that were not read; the descriptor is readable
            // then anyway.
            let _counted = rustix::io::write(&*rung, &1_u64.to_ne_bytes());
        };
        let run = |job: Job| (job.slot, carry_out(job.step));
        Ok(Self { workers: Workers::start(depth, run, notify)?, bell, pending: 0 })
    }

    /// Hands a step over.
    pub(super) fn begin(&mut self, slot: usize, step: Step) {
        self.pending += 1;
        self.workers.hand_over(Job { slot, step });
    }

    /// The descriptor that is readable when a step is done. It may become readable once too often.
    pub(super) fn bell(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// Steps whose outcomes were not taken.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// The outcomes that are there.
    pub(super) fn take(&mut self) -> Vec<Done> {
        // Before the outcomes: what comes between the two makes it readable again. That it is not
        // readable now is no failure.
        let _count = rustix::io::read(&*self.bell, &mut [0_u8; 8]);
        let done: Vec<Done> = self.workers.results().try_iter().collect();
        self.pending -= done.len();
        done
    }
}
