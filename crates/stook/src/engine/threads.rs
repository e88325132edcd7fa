//! The backend that is always there: a pool of threads that share one queue and call `pread`,
//! `pwrite` and `fdatasync`.
//!
//! It decides nothing about the transfers; `Transfer` does.
#![expect(unsafe_code, reason = "system calls on memory that a transfer owns")]

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use super::transfer::{Step, Transfer};
use super::{Completion, Engine, Request};
use crate::error::{Error, Result};

/// More threads than this do not make a device faster; deeper requests wait in the queue.
const THREADS_MAX: usize = 64;

/// An [`Engine`] of `pread` and `pwrite` on threads.
#[derive(Debug)]
pub struct ThreadsEngine {
    depth: usize,
    in_flight: usize,
    shared: Arc<Shared>,
    sender: Sender<Completion>,
    completed: Receiver<Completion>,
    threads: Vec<JoinHandle<()>>,
    /// The process that has these threads; a forked child does not.
    process: u32,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Transfer>,
    idle: usize,
    closed: bool,
}

impl ThreadsEngine {
    /// A pool for this many requests in flight. Threads start as they are needed, up to 64.
    ///
    /// # Errors
    /// When not even one thread can be started.
    pub fn new(depth: usize) -> io::Result<Self> {
        let (sender, completed) = channel();
        let (shared, process) = (Arc::default(), std::process::id());
        let mut engine =
            Self { depth, in_flight: 0, shared, sender, completed, threads: Vec::new(), process };
        engine.start_thread()?;
        Ok(engine)
    }

    fn start_thread(&mut self) -> io::Result<()> {
        let (shared, sender) = (Arc::clone(&self.shared), self.sender.clone());
        let thread = Builder::new().name("stook-io".to_owned()).spawn(move || work(&shared, &sender))?;
        self.threads.push(thread);
        Ok(())
    }

    /// In a forked child the threads are not there, and what they had locked stays locked:
    /// everything that they may have been at stays where it is, untouched, until the child ends.
    fn leave(&mut self) {
        std::mem::forget(std::mem::take(&mut self.threads));
        let (sender, completed) = channel();
        std::mem::forget(std::mem::replace(&mut self.sender, sender));
        std::mem::forget(std::mem::replace(&mut self.completed, completed));
        // What waits goes with the last who holds the queue: the threads hold it, so nobody lets go
        // of it.
        std::mem::forget(Arc::clone(&self.shared));
    }

    /// Takes what is there, and waits for at least `min` until the deadline.
    fn collect(
        &mut self,
        min: usize,
        deadline: Option<Instant>,
        completions: &mut Vec<Completion>,
    ) -> Result<()> {
        let mut missing = min.min(self.in_flight);
        while self.in_flight > 0 {
            let next = match deadline {
                _ if missing == 0 => self.completed.try_recv().ok(),
                None => Some(self.completed.recv().map_err(|_| gone())?),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    match self.completed.recv_timeout(left) {
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Every change to the queue is a single step, so a panic cannot leave it half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next transfer, or `None` when the engine is gone and nothing is left to do.
    fn next(&self) -> Option<Transfer> {
        let mut queue = self.lock();
        loop {
            if let Some(transfer) = queue.waiting.pop_front() {
                return Some(transfer);
            }
            if queue.closed {
                return None;
            }
            queue.idle += 1;
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

fn work(shared: &Shared, sender: &Sender<Completion>) {
    while let Some(mut transfer) = shared.next() {
        while let Some(step) = transfer.step() {
            transfer.advance(carry_out(step));
        }
        // When the engine is being dropped nobody wants to know any more.
        let _wanted = sender.send(transfer.complete());
    }
}

fn carry_out(step: Step) -> io::Result<usize> {
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
        Step::Sync { fd } => count(sync(fd) as isize),
    }
}

#[cfg(target_os = "linux")]
fn sync(fd: RawFd) -> libc::c_int {
    // SAFETY: it touches no memory, and the transfer keeps the descriptor open.
    unsafe { libc::fdatasync(fd) }
}

#[cfg(not(target_os = "linux"))]
fn sync(fd: RawFd) -> libc::c_int {
    // SAFETY: it touches no memory, and the transfer keeps the descriptor open.
    unsafe { libc::fsync(fd) }
}

fn file_offset(offset: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

fn count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
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
        let transfer = Transfer::new(request);
        self.in_flight += 1;
        let (waiting, idle) = {
            let mut queue = self.shared.lock();
            queue.waiting.push_back(transfer);
            (queue.waiting.len(), queue.idle)
        };
        self.shared.changed.notify_one();
        if waiting > idle && self.threads.len() < self.depth.min(THREADS_MAX) {
            // One more that cannot be started makes it slower, not wrong: one thread is always
            // there.
            let _started = self.start_thread();
        }
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<()> {
        self.collect(min, None, completions)
    }

    fn reap_until(&mut self, min: usize, deadline: Instant, completions: &mut Vec<Completion>) -> Result<()> {
        self.collect(min, Some(deadline), completions)
    }
}

impl Drop for ThreadsEngine {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return self.leave();
        }
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has been reported by the panic, and holds nothing any more.
            let _panicked = thread.join();
        }
    }
}
