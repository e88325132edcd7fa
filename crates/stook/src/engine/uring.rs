//! The backend for Linux `io_uring`: one ring per engine, one system call that submits and reaps.
//!
//! It decides nothing about the transfers; `Transfer` does. It does not use `SINGLE_ISSUER`,
//! because an engine may be made by one thread and used by another, nor `DEFER_TASKRUN`, which
//! requires that and cost more than it saved where it was measured.
//!
//! Calls for which the ring has no operation (seek, clone, copy), and reads and writes of files on
//! FUSE, are made by threads, and the ring polls for their ends (`aside.rs`). Outcomes of these are
//! taken when the poll is over and at no other time, so that there are never more entries than
//! slots.
#![expect(unsafe_code, reason = "the ring reads and writes memory that a transfer owns")]

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{IoUring, Probe, opcode, squeue, types};

use super::aside::Aside;
use super::calls::Call;
use super::threads::carry_out;
use super::transfer::{Step, Transfer};
use super::{CallFaults, Completion, Engine, Request};
use crate::error::{Error, Result};

/// How often a kernel that cannot wait for a time is asked.
const POLL_EVERY: Duration = Duration::from_micros(100);

/// The `user_data` of the poll for calls made by threads; no slot has this number.
const BELL: u64 = u64::MAX;

/// An [`Engine`] on an `io_uring`.
pub struct UringEngine {
    ring: IoUring,
    depth: usize,
    /// Transfers by the `user_data` of their entry. Each has at most one entry in the ring.
    slots: Vec<Option<Transfer>>,
    free: Vec<usize>,
    /// Completions that were not yet fetched.
    ready: Vec<Completion>,
    /// Entries in the submission queue or in the kernel.
    entries: usize,
    operations: Operations,
    /// Threads for steps that the ring is not given, once there was one.
    aside: Option<Aside>,
    /// Whether one of the entries polls for them.
    polls: bool,
    faults: Option<Arc<dyn CallFaults>>,
    /// The process that asked; a forked child shares the ring with it.
    process: u32,
}

impl UringEngine {
    /// A ring for this many requests in flight.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses it, or is older than the operations needed (5.6).
    pub fn new(depth: usize) -> io::Result<Self> {
        Self::with_faults(depth, None)
    }

    pub(super) fn with_faults(depth: usize, faults: Option<Arc<dyn CallFaults>>) -> io::Result<Self> {
        let entries = u32::try_from(depth).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // Kernels before 5.19 know neither flag and say EINVAL; a plain ring serves them.
        let ring =
            IoUring::builder().setup_coop_taskrun().setup_submit_all().build(entries).or_else(|error| {
                match error.raw_os_error() {
                    Some(libc::EINVAL) => IoUring::builder().build(entries),
                    _ => Err(error),
                }
            })?;
        let operations = Operations::of(&ring)?;
        Ok(Self {
            ring,
            depth,
            slots: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            ready: Vec::new(),
            entries: 0,
            operations,
            aside: None,
            polls: false,
            faults,
            process: std::process::id(),
        })
    }

    /// Queues the next step of the transfer in this slot, or takes it out of the slot when it is
    /// done.
    fn go_on(&mut self, slot: usize) {
        loop {
            let Some(transfer) = self.slots[slot].as_mut() else { return };
            let Some(step) = transfer.next_step(self.faults.as_deref()) else {
                if let Some(transfer) = self.slots[slot].take() {
                    self.free.push(slot);
                    self.ready.push(transfer.complete());
                }
                return;
            };
            if !transfer.needs_thread(&step)
                && let Some(entry) = self.operations.entry(step)
            {
                return self.push(&entry.user_data(slot as u64));
            }
            if let Some(aside) = self.aside() {
                aside.begin(slot, step);
                return self.poll();
            }
            // Where there is no thread to be had, it takes the time of this one.
            let outcome = carry_out(step);
            if let Some(transfer) = self.slots[slot].as_mut() {
                transfer.advance(outcome);
            }
        }
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the transfer owns the memory of the step, and keeps the descriptor open. It stays
        // in its slot until the ring has reported the outcome: `drain` takes it out only then, and
        // `drop` waits for the ring, or leaks the slots when it cannot. A poll has no memory.
        let pushed = unsafe { self.ring.submission().push(entry) };
        // The queue has as many entries as there are slots.
        assert!(pushed.is_ok(), "a submission queue of {} entries is full", self.depth);
        self.entries += 1;
    }

    /// The threads, started now if they were not.
    fn aside(&mut self) -> Option<&mut Aside> {
        if self.aside.is_none() && self.operations.poll {
            self.aside = Aside::new(self.depth).ok();
        }
        self.aside.as_mut()
    }

    /// Has the ring wait for the threads, too, while they are at something.
    fn poll(&mut self) {
        let Some(aside) = &self.aside else { return };
        if aside.pending() == 0 || self.polls {
            return;
        }
        let entry = opcode::PollAdd::new(types::Fd(aside.bell()), libc::POLLIN as u32).build();
        self.push(&entry.user_data(BELL));
        self.polls = true;
    }

    /// The poll is over: takes the results of the threads.
    fn take_aside(&mut self, poll: i32) {
        self.polls = false;
        if poll < 0 {
            // The poll is cancelled, for example, when the thread that submitted it ends: submit it
            // again.
            std::thread::yield_now();
        }
        for (slot, outcome) in self.aside.as_mut().map(Aside::take).unwrap_or_default() {
            self.advance(slot, outcome);
        }
        self.poll();
    }

    fn advance(&mut self, slot: usize, outcome: io::Result<u64>) {
        if let Some(transfer) = self.slots.get_mut(slot).and_then(Option::as_mut) {
            transfer.advance(outcome);
            self.go_on(slot);
        }
    }

    /// Starts queued entries and waits until `want` entries are done, or the deadline is over.
    fn enter(&mut self, want: usize, deadline: Option<Instant>) -> io::Result<()> {
        let entered = match deadline {
            Some(deadline) if want > 0 => self.enter_until(want, deadline),
            _ => self.ring.submit_and_wait(want),
        };
        match entered {
            Ok(_) => Ok(()),
            // Interrupted, the deadline is over, out of memory for the moment, or the completion
            // queue is full: all are over once completions are taken.
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::EBUSY | libc::ETIME) => Ok(()),
                Some(libc::EAGAIN) => {
                    std::thread::yield_now();
                    Ok(())
                }
                _ => Err(error),
            },
        }
    }

    fn enter_until(&mut self, want: usize, deadline: Instant) -> io::Result<usize> {
        let left = deadline.saturating_duration_since(Instant::now());
        if self.ring.params().is_feature_ext_arg() {
            let left = types::Timespec::from(left);
            return self.ring.submitter().submit_with_args(want, &types::SubmitArgs::new().timespec(&left));
        }
        // Kernels before 5.11 cannot wait for a time.
        let submitted = self.ring.submit()?;
        std::thread::sleep(left.min(POLL_EVERY));
        Ok(submitted)
    }

    /// Returns at least `min` completions, or fewer once the deadline is over.
    fn collect(
        &mut self,
        min: usize,
        deadline: Option<Instant>,
        completions: &mut Vec<Completion>,
    ) -> Result<()> {
        let min = min.min(self.in_flight());
        loop {
            // What is done already costs no system call.
            self.drain();
            let missing = min.saturating_sub(self.ready.len());
            let queued = !self.ring.submission().is_empty();
            let is_over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if (missing == 0 || is_over) && !queued {
                break;
            }
            let want = match &self.aside {
                _ if is_over => 0,
                // One entry represents all work of the threads.
                Some(aside) if aside.pending() > 0 => missing.min(1),
                _ => missing,
            };
            self.enter(want, deadline).map_err(|error| Error::io("wait for", "an io_uring", error))?;
        }
        completions.append(&mut self.ready);
        Ok(())
    }

    /// Takes all outcomes that are there.
    fn drain(&mut self) {
        loop {
            let Some(outcome) = self.ring.completion().next() else { return };
            self.entries -= 1;
            match outcome.user_data() {
                BELL => self.take_aside(outcome.result()),
                slot => self.advance(slot as usize, count(outcome.result())),
            }
        }
    }
}

fn count(result: i32) -> io::Result<u64> {
    u64::try_from(result).map_err(|_| io::Error::from_raw_os_error(result.wrapping_neg()))
}

/// Which operations a ring has beside those that it must have.
#[derive(Debug, Clone, Copy)]
struct Operations {
    allocate: bool,
    advise: bool,
    poll: bool,
}

impl Operations {
    fn of(ring: &IoUring) -> io::Result<Self> {
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE];
        if !needed.iter().all(|&operation| probe.is_supported(operation)) {
            let message = "io_uring of this kernel cannot read and write";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        Ok(Self {
            allocate: probe.is_supported(opcode::Fallocate::CODE),
            advise: probe.is_supported(opcode::Fadvise::CODE),
            poll: probe.is_supported(opcode::PollAdd::CODE),
        })
    }

    /// The entry for a step; `None` where the ring has no operation for it.
    fn entry(self, step: Step) -> Option<squeue::Entry> {
        // No step moves or drops more than 1 GiB.
        Some(match step {
            Step::Read { fd, memory, len, offset } => {
                opcode::Read::new(types::Fd(fd), memory, len as u32).offset(offset).build()
            }
            Step::Write { fd, memory, len, offset } => {
                opcode::Write::new(types::Fd(fd), memory, len as u32).offset(offset).build()
            }
            Step::Call(Call::Sync { fd, data_only }) => {
                let flags = if data_only { types::FsyncFlags::DATASYNC } else { types::FsyncFlags::empty() };
                opcode::Fsync::new(types::Fd(fd)).flags(flags).build()
            }
            Step::Call(Call::Allocate { fd, offset, len, keep_len }) if self.allocate => {
                let mode = if keep_len { libc::FALLOC_FL_KEEP_SIZE } else { 0 };
                opcode::Fallocate::new(types::Fd(fd), len).offset(offset).mode(mode).build()
            }
            Step::Call(Call::DropCached { fd, offset, len }) if self.advise => {
                let advice = libc::POSIX_FADV_DONTNEED;
                opcode::Fadvise::new(types::Fd(fd), len as libc::off_t, advice).offset(offset).build()
            }
            Step::Call(_) => return None,
        })
    }
}

impl Engine for UringEngine {
    fn name(&self) -> &'static str {
        "uring"
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.depth - self.free.len() + self.ready.len()
    }

    fn submit(&mut self, request: Request) {
        assert!(self.in_flight() < self.depth, "more than {} requests in flight", self.depth);
        let transfer = Transfer::new(request);
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = Some(transfer);
            self.go_on(slot);
        }
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<()> {
        self.collect(min, None, completions)
    }

    fn reap_until(&mut self, min: usize, deadline: Instant, completions: &mut Vec<Completion>) -> Result<()> {
        self.collect(min, Some(deadline), completions)
    }
}

impl Drop for UringEngine {
    fn drop(&mut self) {
        while self.entries > 0 {
            // Completions that a forked child took would be missed by the parent.
            let is_forked = self.process != std::process::id();
            if is_forked || self.enter(self.entries, None).is_err() {
                // The kernel may still write to the memory of requests in flight, so it must stay.
                mem::forget(mem::take(&mut self.slots));
                return;
            }
            self.drain();
        }
    }
}

impl std::fmt::Debug for UringEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UringEngine").field("depth", &self.depth).field("entries", &self.entries).finish()
    }
}
