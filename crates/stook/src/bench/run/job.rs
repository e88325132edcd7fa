//! [`JobThread`]: one thread of a cell, which keeps its engine busy and counts completions.
//!
//! A latency lasts from just before the request is prepared (in an open loop: from the moment it
//! was due) until it is taken. Requests that are taken together are taken at one moment, so the
//! clock is read at most twice a request. Nothing is allocated for a request.
//!
//! A job takes no more completions at once, and submits no more requests at once, than the cell's
//! batch. Completions that an engine has ready wait until they are taken, and count as in flight
//! until then, as for a program that reads the completion queue of its ring one entry at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::super::content;
use super::super::error::Result;
use super::super::layout::TestFile;
use super::super::random::Random;
use super::super::workload::Workload;
use super::Shared;
use super::arrivals::Arrivals;
use super::clock::thread_cpu_ns;
use super::offsets::{Offsets, Place, stream};
use super::record::{Kind, Record};
use super::threads::Spent;
use crate::engine::{Access, Arena, Buffer, Completion, Engine, EngineFactory, File, Operation, Request};

/// Threads that wait for an arrival look for an interruption this often.
const NAP: Duration = Duration::from_millis(50);
/// Buffers begin at multiples of this.
const PAGE_BYTES: usize = 4096;
/// The size of large pages, if the system has them.
const LARGE_PAGE_BYTES: usize = 2 << 20;
/// The streams of random numbers above those of offsets and arrivals.
const CHOICES: u64 = 1 << 32;

/// A request in flight.
#[derive(Debug, Clone, Copy)]
struct Slot {
    kind: Kind,
    offset: u64,
    len: u64,
    begin: Begin,
}

/// From when the latency of a request counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Begin {
    /// In an open loop when it was due.
    start_ns: u64,
    /// Open loop: how long after it was due it began.
    waited_ns: u64,
    /// How much of that nothing kept the tool from beginning it: it woke late.
    late_ns: u64,
}

/// The result of one job.
#[derive(Debug)]
pub(super) struct JobOutcome {
    pub(super) record: Record,
    /// When it had nothing in flight any more.
    pub(super) ended_ns: u64,
    /// Processor time of its thread, and the time that passed, since the ramp.
    pub(super) cpu_ns: u64,
    pub(super) wall_ns: u64,
    /// What the system counted of its thread in that time, where it does: how long it was ready
    /// and waited for a processor.
    pub(super) spent: Option<Spent>,
    /// Open loop: requests that were due in the measured time.
    pub(super) due: u64,
    /// Open loop: reads and writes that ended in it.
    pub(super) done: u64,
    /// Open loop: requests that could not start when they were due because the cap was reached.
    pub(super) overruns: u64,
    /// Open loop: requests that were due and never started.
    pub(super) unserved: u64,
    pub(super) verified_bytes: u64,
}

/// Everything one thread needs; made before the thread is.
pub(super) struct JobThread<'a> {
    shared: &'a Shared,
    number: u32,
    workload: &'a Workload,
    target: &'a TestFile,
    file: Arc<File>,
    access: Access,
    /// Of the longest block.
    block_len: usize,
    engine: Box<dyn Engine>,
    offsets: Offsets,
    choices: Random,
    slots: Vec<Slot>,
    free: Vec<usize>,
    read_buffers: Vec<Buffer>,
    write_buffers: Vec<Buffer>,
    /// Where the engine puts completions.
    reaped: Vec<Completion>,
    /// Completions that were not taken yet.
    done: VecDeque<Completion>,
    record: Record,
    /// The rest of a size bound.
    left_bytes: Option<u64>,
    writes_since_sync: u32,
    stopping: bool,
    /// When measuring is to begin.
    measure_from_ns: u64,
    /// The counters when it began.
    measured_since: Option<Since>,
    /// Open loop: until when no place was free.
    blocked_until_ns: u64,
    /// Open loop: until when there was no place, or requests were handed over.
    held_until_ns: u64,
    due: u64,
    done_in_time: u64,
    overruns: u64,
    unserved: u64,
    verified_bytes: u64,
    last_ns: u64,
}

/// The moment at which a job began to measure, and what its thread had used by then.
#[derive(Debug, Clone, Copy)]
struct Since {
    now_ns: u64,
    cpu_ns: u64,
    spent: Option<Spent>,
}

impl<'a> JobThread<'a> {
    /// Gets engine, descriptor and memory.
    pub(super) fn new(
        number: u32,
        workload: &'a Workload,
        target: &'a TestFile,
        engines: &dyn EngineFactory,
        shared: &'a Shared,
    ) -> Result<Self> {
        let depth = workload.depth as usize;
        // `Workload::check` bounds it.
        let block_len = workload.block_size as usize;
        let mut choices = Random::new(workload.seed, stream(shared.turn, CHOICES + u64::from(number)));
        let read_buffers = match workload.read_share {
            0 => Vec::new(),
            _ => buffers(depth, block_len)?,
        };
        let mut write_buffers = if workload.writes() { buffers(depth, block_len)? } else { Vec::new() };
        for buffer in &mut write_buffers {
            buffer.set_data_range(0..block_len);
            content::fill(buffer.data_mut(), workload.compressibility, &mut choices);
        }
        Ok(Self {
            shared,
            number,
            workload,
            target,
            file: Arc::new(target.reopen()?),
            access: if workload.buffered { Access::Cached } else { Access::Direct },
            block_len,
            engine: engines.build(depth)?,
            offsets: Offsets::new(workload, target.len(), shared.turn, number),
            choices,
            slots: vec![Slot { kind: Kind::Sync, offset: 0, len: 0, begin: Begin::default() }; depth],
            free: (0..depth).rev().collect(),
            read_buffers,
            write_buffers,
            reaped: Vec::with_capacity(depth),
            done: VecDeque::with_capacity(depth),
            record: Record::new(0, 0.0, &[]),
            left_bytes: workload.size_bytes.map(|size| size / u64::from(workload.jobs)),
            writes_since_sync: 0,
            stopping: false,
            measure_from_ns: 0,
            measured_since: None,
            blocked_until_ns: 0,
            held_until_ns: 0,
            due: 0,
            done_in_time: 0,
            overruns: 0,
            unserved: 0,
            verified_bytes: 0,
            last_ns: 0,
        })
    }

    /// The name of its engine.
    pub(super) fn engine_name(&self) -> &'static str {
        self.engine.name()
    }

    /// Whether its reads and writes really went past the page cache.
    fn note_direct(&self) {
        if self.access == Access::Direct && !self.file.is_direct_possible() {
            self.shared.direct_refused.store(true, Ordering::Relaxed);
        }
    }

    /// Runs until the time or the size is reached, something fails, or the cell is aborted; then
    /// drains.
    pub(super) fn run(mut self) -> Result<JobOutcome> {
        let measured_s = self.workload.time_s.unwrap_or(60.0);
        self.measure_from_ns = self.shared.measure_from_ns();
        self.record = Record::new(self.measure_from_ns, measured_s, &sizes_of(self.workload));
        self.cross(self.shared.clock.now_ns());
        match Arrivals::new(self.workload, self.shared.turn, self.number, self.shared.begin_ns()) {
            None => self.closed_loop()?,
            Some(arrivals) => self.open_loop(arrivals)?,
        }
        self.shared.drained.fetch_add(1, Ordering::Relaxed);
        self.note_direct();
        let until = Since::now(self.shared.clock.now_ns());
        let since = self.measured_since.unwrap_or(until);
        self.record.finish();
        Ok(JobOutcome {
            record: self.record,
            ended_ns: self.last_ns,
            cpu_ns: until.cpu_ns.saturating_sub(since.cpu_ns),
            wall_ns: until.now_ns.saturating_sub(since.now_ns),
            spent: since.spent.zip(until.spent).map(|(since, until)| until.since(since)),
            due: self.due,
            done: self.done_in_time,
            overruns: self.overruns,
            unserved: self.unserved,
            verified_bytes: self.verified_bytes,
        })
    }

    /// Each completion begins the next request, until it is to stop; then waits for requests in
    /// flight.
    fn closed_loop(&mut self) -> Result<()> {
        let batch = self.workload.batch as usize;
        loop {
            let mut left = batch;
            while !self.stopping && left > 0 && !self.free.is_empty() {
                let now_ns = self.shared.clock.now_ns();
                self.issue(Begin::at(now_ns));
                left -= 1;
            }
            if self.engine.in_flight() == 0 && self.done.is_empty() {
                return Ok(());
            }
            // First all of the depth is in use: what comes back while it is being filled waits.
            if !self.stopping && !self.free.is_empty() {
                self.reap(0)?;
                self.cross(self.shared.clock.now_ns());
                continue;
            }
            self.reap(usize::from(self.done.is_empty()))?;
            self.take_completions(batch)?;
        }
    }

    /// Submits issued requests to the system, and fetches at least `min` completions.
    #[inline]
    fn reap(&mut self, min: usize) -> Result<()> {
        self.engine.reap(min, &mut self.reaped)?;
        self.done.extend(self.reaped.drain(..));
        Ok(())
    }

    /// Requests begin when they are due, regardless of completions.
    fn open_loop(&mut self, mut arrivals: Arrivals) -> Result<()> {
        // A timed wait is late by the timer slack, 50 µs by default; if setting it is refused,
        // latencies show that.
        let _refused = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let clock = self.shared.clock;
        loop {
            self.issue_due(&mut arrivals);
            if self.stopping {
                break;
            }
            if self.free.is_empty() {
                self.reap(1)?;
                self.blocked_until_ns = clock.now_ns();
                self.held_until_ns = self.blocked_until_ns;
            } else {
                self.await_arrival(arrivals.next_ns())?;
            }
            // Who waits for a moment does not let completions wait for it, too.
            self.take_completions(usize::MAX)?;
        }
        self.done_in_time = self.record.reads.count() + self.record.writes.count();
        let stopped_ns = clock.now_ns().min(self.shared.end_ns());
        while arrivals.next_ns() < stopped_ns {
            self.unserved += 1;
            self.due += u64::from(arrivals.next_ns() >= self.measure_from_ns);
            arrivals.advance();
        }
        self.closed_loop()
    }

    /// Waits until a request is due, or one has come back.
    fn await_arrival(&mut self, due_ns: u64) -> Result<()> {
        let clock = self.shared.clock;
        if self.engine.in_flight() > 0 {
            // Separate from waiting: if the system serves a request during submission, a request
            // that is due meanwhile waits for it, not for a timer.
            self.reap(0)?;
            self.held_until_ns = clock.now_ns();
            if !self.done.is_empty() {
                return Ok(());
            }
        }
        let until_ns = due_ns.min(self.shared.end_ns());
        let nap_ns = clock.now_ns() + NAP.as_nanos() as u64;
        let deadline = clock.instant(until_ns.min(nap_ns));
        if self.engine.in_flight() > 0 {
            self.engine.reap_until(1, deadline, &mut self.reaped)?;
            self.done.extend(self.reaped.drain(..));
        } else {
            thread::sleep(deadline.saturating_duration_since(std::time::Instant::now()));
        }
        Ok(())
    }

    fn issue_due(&mut self, arrivals: &mut Arrivals) {
        let now_ns = self.shared.clock.now_ns();
        while !self.stopping && !self.free.is_empty() && arrivals.next_ns() <= now_ns {
            if self.is_sync_due() {
                // It is not waited for: it takes a slot, not an arrival.
                self.issue(Begin::at(now_ns));
                continue;
            }
            let due_ns = arrivals.next_ns();
            let is_overrun = due_ns < self.blocked_until_ns && self.measured_since.is_some();
            self.overruns += u64::from(is_overrun);
            self.due += u64::from(due_ns >= self.measure_from_ns);
            self.issue(Begin::of_arrival(due_ns, self.held_until_ns, now_ns));
            arrivals.advance();
        }
    }

    /// Prepares the next request and hands it to the engine.
    #[inline]
    fn issue(&mut self, begin: Begin) {
        let Some(token) = self.free.pop() else { return };
        let in_flight = self.slots.len() - self.free.len();
        self.shared.in_flight(self.number).store(in_flight as u32, Ordering::Relaxed);
        let (kind, Place { offset, len }, operation) = self.next_operation();
        if let Some(slot) = self.slots.get_mut(token) {
            *slot = Slot { kind, offset, len, begin };
        }
        let (file, access) = (Arc::clone(&self.file), self.access);
        self.engine.submit(Request { token: token as u64, file, access, operation });
        if kind != Kind::Sync
            && self.measured_since.is_some()
            && let Some(left) = &mut self.left_bytes
        {
            *left = left.saturating_sub(len);
            self.stopping |= *left < self.workload.block_size;
        }
    }

    #[inline]
    fn is_sync_due(&self) -> bool {
        self.workload.fsync_every.is_some_and(|every| self.writes_since_sync >= every)
    }

    #[inline]
    fn next_operation(&mut self) -> (Kind, Place, Operation) {
        if self.is_sync_due() {
            self.writes_since_sync = 0;
            return (Kind::Sync, Place { offset: 0, len: 0 }, Operation::Sync);
        }
        let share = self.workload.read_share;
        let read = share == 100 || (share > 0 && self.choices.below(100) < u64::from(share));
        let place = self.offsets.next(read);
        let (offset, len) = (place.offset, place.len as usize);
        if read {
            // There is a buffer for every slot.
            let buffer = self.read_buffers.pop().unwrap_or_else(|| Buffer::with_capacity(self.block_len));
            return (Kind::Read, place, Operation::Read { offset, len, buffer });
        }
        let mut buffer = self.write_buffers.pop().unwrap_or_else(|| Buffer::with_capacity(self.block_len));
        buffer.set_data_range(0..len);
        self.renew(buffer.data_mut(), offset);
        self.writes_since_sync += 1;
        (Kind::Write, place, Operation::Write { offset, buffer })
    }

    fn renew(&mut self, bytes: &mut [u8], offset: u64) {
        if self.workload.verify
            && let Some(generations) = self.target.generations()
        {
            content::stamp(bytes, offset, self.target.seed(), |unit| generations.advance(unit));
        } else if self.workload.compressibility < 100 {
            content::renew(bytes, &mut self.choices);
        }
    }

    /// Takes some completions, at one moment.
    fn take_completions(&mut self, most: usize) -> Result<()> {
        let now_ns = self.shared.clock.now_ns();
        self.cross(now_ns);
        let count = self.done.len().min(most);
        if count == 0 {
            return Ok(());
        }
        self.last_ns = now_ns;
        // From now on, as their latencies have it: what is done with them takes time, too.
        let in_flight = (self.slots.len() - self.free.len()).saturating_sub(count);
        self.shared.in_flight(self.number).store(in_flight as u32, Ordering::Relaxed);
        for _ in 0..count {
            let Some(completion) = self.done.pop_front() else { break };
            self.complete(completion, now_ns)?;
        }
        Ok(())
    }

    /// Notices that the ramp, or everything, is over.
    #[inline]
    fn cross(&mut self, now_ns: u64) {
        if self.measured_since.is_none() && now_ns >= self.measure_from_ns {
            self.measured_since = Some(Since::now(now_ns));
        }
        self.stopping |= now_ns >= self.shared.end_ns() || self.shared.aborted.load(Ordering::Relaxed);
        if self.stopping {
            self.shared.draining.store(true, Ordering::Relaxed);
        }
    }

    #[inline]
    fn complete(&mut self, completion: Completion, now_ns: u64) -> Result<()> {
        let Completion { token, result, buffer, .. } = completion;
        let token = token as usize;
        let Some(&Slot { kind, offset, len, begin }) = self.slots.get(token) else { return Ok(()) };
        let Begin { start_ns, waited_ns, late_ns } = begin;
        let moved = result?;
        if kind != Kind::Sync && (moved as u64) < len {
            let path = self.target.path().to_path_buf();
            let (wanted, got) = (len, moved as u64);
            return Err(crate::Error::ShortRead { path, offset, wanted, got }.into());
        }
        if self.measured_since.is_some() {
            self.record.count(kind, len, now_ns.saturating_sub(start_ns), now_ns);
            self.record.waited_ns += waited_ns;
            self.record.late_ns += late_ns;
            self.record.earlier_ns += self.measure_from_ns.saturating_sub(start_ns + waited_ns);
        }
        if let Some(buffer) = buffer {
            if kind == Kind::Read {
                if self.workload.verify {
                    self.target.check(buffer.data(), offset)?;
                    self.verified_bytes += moved as u64;
                }
                self.read_buffers.push(buffer);
            } else {
                self.write_buffers.push(buffer);
            }
        }
        if kind != Kind::Sync {
            self.offsets.release(offset);
        }
        self.free.push(token);
        Ok(())
    }
}

impl Begin {
    /// For a request that did not have to wait.
    fn at(now_ns: u64) -> Self {
        Self { start_ns: now_ns, ..Self::default() }
    }

    /// Of an arrival that begins now. Until `held_until_ns` something kept it from that: no place,
    /// or others that were handed over.
    fn of_arrival(due_ns: u64, held_until_ns: u64, now_ns: u64) -> Self {
        let late_ns = now_ns.saturating_sub(due_ns.max(held_until_ns));
        Self { start_ns: due_ns, waited_ns: now_ns.saturating_sub(due_ns), late_ns }
    }
}

impl Since {
    fn now(now_ns: u64) -> Self {
        Self { now_ns, cpu_ns: thread_cpu_ns(), spent: Spent::of_this_thread() }
    }
}

/// The sizes that latencies are counted apart for: none where all are alike.
fn sizes_of(workload: &Workload) -> Vec<u64> {
    workload.block_split.as_ref().map_or_else(Vec::new, |_| workload.block_sizes())
}

/// Memory for every request in flight, taken before anything is measured.
fn buffers(depth: usize, block_len: usize) -> Result<Vec<Buffer>> {
    let room = block_len.next_multiple_of(PAGE_BYTES);
    // A whole large page even for short blocks: a block that is contiguous in memory is one segment
    // for the device. In scattered pages of 4 KiB, reads of 1 MiB took 2.4 times as long on a
    // virtual machine.
    let mut arena = Arena::new((depth * room).next_multiple_of(LARGE_PAGE_BYTES))?;
    let mut buffers: Vec<Buffer> = (0..depth).map(|at| arena.take(at * room..(at + 1) * room)).collect();
    // The first touch of a page costs more than a request.
    buffers.iter_mut().for_each(|buffer| {
        buffer.memory_mut().iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
    });
    Ok(buffers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: waits for a slot and delays of a timer were one figure.
    #[test]
    fn what_waited_for_a_place_was_not_late_by_a_timer() {
        let begin = |due_ns, held_until_ns, now_ns| {
            let Begin { start_ns, waited_ns, late_ns } = Begin::of_arrival(due_ns, held_until_ns, now_ns);
            assert_eq!(start_ns, due_ns, "its latency counts from when it was due");
            (waited_ns, late_ns)
        };
        assert_eq!(begin(1000, 400, 1050), (50, 50), "it slept until 1050");
        assert_eq!(begin(1000, 1050, 1050), (50, 0), "there was no place before");
        assert_eq!(begin(1000, 1040, 1050), (50, 10), "there was one at 1040");
        assert_eq!(begin(1000, 400, 1000), (0, 0));
        assert_eq!(Begin::at(7), Begin { start_ns: 7, waited_ns: 0, late_ns: 0 });
    }
}
