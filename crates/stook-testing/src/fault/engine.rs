//! An engine whose operations fail on demand, over any other engine.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use libc::{EINTR, EIO, ENOSPC, EOPNOTSUPP};
use stook::engine::{Completion, Engine, EngineFactory, Operation, Passage, Request};
use stook::extent::ByteRange;
use stook::{Error, Result};

/// The operations of an engine.
pub use stook::engine::OperationKind as EngineCall;

/// What happens to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineFault {
    /// Nothing is done, and the device reports a failure (`EIO`).
    Fails,
    /// Nothing is done, and the device is full (`ENOSPC`).
    NoSpace,
    /// Nothing is done, and a signal interrupted it (`EINTR`). Real engines try again; a caller
    /// that gets it anyway must not treat it as done.
    Interrupted,
    /// Nothing is done, and the file system cannot do it (`EOPNOTSUPP`).
    Unsupported,
    /// A read or a copy gets the first half of its bytes, as if the file ended there; a write puts
    /// the first half of its bytes into the file, and then the device is full; operations that move
    /// no bytes, or all or none, fail.
    Short,
    /// Nothing is done, and it is reported as done: some file systems have cloned and copied so.
    Claimed,
    /// It is done, but its completion is kept back until nothing else is in flight.
    Delayed,
}

/// An operation that was submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOperation {
    /// The operation.
    pub call: EngineCall,
    /// The file it was done to.
    pub path: PathBuf,
    /// Where it began (0 for a sync).
    pub offset: u64,
    /// Bytes requested or written (0 for syncs and seeks).
    pub len: usize,
    /// The fault that was injected into it.
    pub fault: Option<EngineFault>,
}

/// One fault: at the `nth` operation (from 0, counted from when it was set) of a kind, or of all;
/// then repeatedly, or only once.
#[derive(Debug)]
struct Plan {
    call: Option<EngineCall>,
    left: usize,
    every: Option<usize>,
    fault: EngineFault,
}

#[derive(Debug, Default)]
struct Shared {
    operations: Vec<EngineOperation>,
    plans: Vec<Plan>,
    meanwhile: Option<Meanwhile>,
}

/// An action that is run once, directly before an operation: this many (from 0) are left until
/// then.
struct Meanwhile {
    left: usize,
    what: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meanwhile").field("left", &self.left).finish_non_exhaustive()
    }
}

/// Makes engines that fail on demand. All of them, and all clones of this, share one plan and one
/// log.
#[derive(Debug, Clone)]
pub struct FaultEngineFactory {
    inner: Arc<dyn EngineFactory>,
    shared: Arc<Mutex<Shared>>,
}

impl FaultEngineFactory {
    /// Wraps the factory of the real engines; nothing fails yet.
    pub fn new(inner: impl EngineFactory + 'static) -> Self {
        Self { inner: Arc::new(inner), shared: Arc::default() }
    }

    /// From now on the `nth` operation (0 is the next) of this kind, or of any kind, meets this
    /// fault.
    pub fn fail(&self, call: Option<EngineCall>, nth: usize, fault: EngineFault) {
        self.lock().plans.push(Plan { call, left: nth, every: None, fault });
    }

    /// From now on every `nth` operation (1 is each) of this kind, or of any kind, meets this
    /// fault.
    ///
    /// # Panics
    /// Panics if `nth` is 0.
    pub fn fail_every(&self, call: Option<EngineCall>, nth: usize, fault: EngineFault) {
        assert!(nth > 0, "every 0th operation");
        self.lock().plans.push(Plan { call, left: nth - 1, every: Some(nth), fault });
    }

    /// Just before the `nth` operation from now on (0 is the next), does this: what another process
    /// may do meanwhile.
    pub fn meanwhile(&self, nth: usize, what: impl FnOnce() + Send + 'static) {
        self.lock().meanwhile = Some(Meanwhile { left: nth, what: Box::new(what) });
    }

    /// Clears faults that have not occurred.
    pub fn clear_faults(&self) {
        self.lock().plans.clear();
    }

    /// Every operation so far, in the order of submission over all engines.
    pub fn operations(&self) -> Vec<EngineOperation> {
        self.lock().operations.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EngineFactory for FaultEngineFactory {
    fn build(&self, depth: usize) -> Result<Box<dyn Engine>> {
        let inner = self.inner.build(depth)?;
        let (shared, kept, ready) = (Arc::clone(&self.shared), Vec::new(), VecDeque::new());
        Ok(Box::new(FaultEngine { inner, shared, kept, ready, altered: Vec::new() }))
    }
}

/// Passes operations on to another engine, records them, and fails the chosen ones.
struct FaultEngine {
    inner: Box<dyn Engine>,
    shared: Arc<Mutex<Shared>>,
    /// Completions that are kept back.
    kept: Vec<Completion>,
    /// Completions of operations that were never done.
    ready: VecDeque<Completion>,
    /// Alterations of completions of the inner engine, by token.
    altered: Vec<(u64, Alteration)>,
}

enum Alteration {
    KeepBack,
    /// The write was cut short; this is its full data, and the error to report.
    Torn(std::ops::Range<usize>, Error),
}

impl FaultEngine {
    /// Notes the operation and finds the fault that it meets.
    fn note(&self, request: &Request) -> Option<EngineFault> {
        let (call, offset) = (request.operation.kind(), request.operation.offset());
        let len = usize::try_from(request.operation.asked_bytes()).unwrap_or(usize::MAX);
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fault = None;
        shared.plans.retain_mut(|plan| {
            if plan.call.is_some_and(|wanted| wanted != call) {
                return true;
            }
            if plan.left == 0 {
                fault = Some(plan.fault);
                plan.left = plan.every.unwrap_or_default();
                if plan.every.is_none() {
                    return false;
                }
            }
            plan.left -= 1;
            true
        });
        let path = request.file.path().to_path_buf();
        shared.operations.push(EngineOperation { call, path, offset, len, fault });
        let is_due = match &mut shared.meanwhile {
            Some(Meanwhile { left: 0, .. }) => true,
            Some(meanwhile) => {
                meanwhile.left -= 1;
                false
            }
            None => false,
        };
        let due = shared.meanwhile.take_if(|_| is_due);
        drop(shared);
        if let Some(Meanwhile { what, .. }) = due {
            what();
        }
        fault
    }

    fn refuse(&mut self, request: Request, errno: i32) {
        let error = error_of(&request, errno);
        self.end(request, Err(error));
    }

    /// An operation that was never done has this result.
    fn end(&mut self, request: Request, result: Result<usize>) {
        let Request { token, mut operation, .. } = request;
        if let Operation::Read { buffer, .. } = &mut operation {
            buffer.clear();
        }
        let buffer = operation.into_buffer();
        self.ready.push_back(Completion { token, result, buffer, passage: Passage::default(), found: None });
    }

    fn shorten(&mut self, mut request: Request) {
        let torn = error_of(&request, ENOSPC);
        match &mut request.operation {
            // The end of the file, right where the read begins.
            Operation::Read { len: 1, .. } => return self.end(request, Ok(0)),
            Operation::Read { len, .. } => *len /= 2,
            Operation::CopyRange { range, .. } => {
                *range = ByteRange::at(range.start(), range.len() / 2).unwrap_or_default();
            }
            Operation::Write { buffer, .. } => {
                let whole = buffer.data_range();
                buffer.set_data_range(whole.start..whole.start + whole.len() / 2);
                self.altered.push((request.token, Alteration::Torn(whole, torn)));
            }
            Operation::WriteShared { bytes, .. } => {
                bytes.truncate(bytes.len() / 2);
                // There is no buffer that it would be the data of.
                self.altered.push((request.token, Alteration::Torn(0..0, torn)));
            }
            _ => return self.refuse(request, EIO),
        }
        self.inner.submit(request);
    }

    fn alter(&mut self, mut completion: Completion, completions: &mut Vec<Completion>) {
        let found = self.altered.iter().position(|(token, _)| *token == completion.token);
        match found.map(|at| self.altered.swap_remove(at).1) {
            None => completions.push(completion),
            Some(Alteration::KeepBack) => self.kept.push(completion),
            Some(Alteration::Torn(whole, error)) => {
                if let Some(buffer) = &mut completion.buffer {
                    buffer.set_data_range(whole);
                }
                completion.result = Err(error);
                completions.push(completion);
            }
        }
    }
}

impl Engine for FaultEngine {
    fn name(&self) -> &'static str {
        "fault"
    }

    fn depth(&self) -> usize {
        self.inner.depth()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.kept.len() + self.ready.len()
    }

    fn submit(&mut self, request: Request) {
        assert!(self.in_flight() < self.depth(), "more than {} requests in flight", self.depth());
        match self.note(&request) {
            Some(EngineFault::Fails) => self.refuse(request, EIO),
            Some(EngineFault::NoSpace) => self.refuse(request, ENOSPC),
            Some(EngineFault::Interrupted) => self.refuse(request, EINTR),
            Some(EngineFault::Unsupported) => self.refuse(request, EOPNOTSUPP),
            Some(EngineFault::Short) => self.shorten(request),
            Some(EngineFault::Claimed) => {
                let bytes = usize::try_from(request.operation.asked_bytes()).unwrap_or(usize::MAX);
                self.end(request, Ok(bytes));
            }
            Some(EngineFault::Delayed) => {
                self.altered.push((request.token, Alteration::KeepBack));
                self.inner.submit(request);
            }
            None => self.inner.submit(request),
        }
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<()> {
        self.collect(min, None, completions)
    }

    fn reap_until(&mut self, min: usize, deadline: Instant, completions: &mut Vec<Completion>) -> Result<()> {
        self.collect(min, Some(deadline), completions)
    }
}

impl FaultEngine {
    fn collect(
        &mut self,
        min: usize,
        deadline: Option<Instant>,
        completions: &mut Vec<Completion>,
    ) -> Result<()> {
        let min = min.min(self.in_flight());
        let before = completions.len();
        completions.extend(self.ready.drain(..));
        loop {
            let missing = min.saturating_sub(completions.len() - before).min(self.inner.in_flight());
            let mut reaped = Vec::new();
            match deadline {
                None => self.inner.reap(missing, &mut reaped)?,
                Some(deadline) => self.inner.reap_until(missing, deadline, &mut reaped)?,
            }
            for completion in reaped {
                self.alter(completion, completions);
            }
            if self.inner.in_flight() == 0 {
                completions.append(&mut self.kept);
            }
            if completions.len() - before >= min
                || deadline.is_some_and(|deadline| Instant::now() >= deadline)
            {
                return Ok(());
            }
        }
    }
}

impl fmt::Debug for FaultEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultEngine").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

/// The error that the real engines would return.
fn error_of(request: &Request, errno: i32) -> Error {
    let (operation, error) = (&request.operation, io::Error::from_raw_os_error(errno));
    operation.kind().error(request.file.path(), operation.offset(), error)
}
