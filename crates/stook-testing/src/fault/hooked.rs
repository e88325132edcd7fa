//! An engine that asks before each operation whether it is made.

use std::io;
use std::time::Instant;

use stook::Result;
use stook::engine::{Completion, Engine, Operation, Passage, Request};

/// Asked before an operation. With an error nothing is done, and the operation fails with it.
pub(crate) type Hook = Box<dyn FnMut(&Request) -> io::Result<()> + Send>;

/// Passes operations on to another engine, but for those that the hook refuses.
pub(crate) struct HookedEngine {
    inner: Box<dyn Engine>,
    hook: Hook,
    /// Completions of operations that were refused.
    ready: Vec<Completion>,
}

impl HookedEngine {
    pub(crate) fn new(inner: Box<dyn Engine>, hook: Hook) -> Self {
        Self { inner, hook, ready: Vec::new() }
    }

    /// How many completions of the inner engine are waited for, after those that are there.
    fn missing(&mut self, min: usize, completions: &mut Vec<Completion>) -> usize {
        let there = self.ready.len();
        completions.append(&mut self.ready);
        min.saturating_sub(there).min(self.inner.in_flight())
    }
}

impl Engine for HookedEngine {
    fn name(&self) -> &'static str {
        "hooked"
    }

    fn depth(&self) -> usize {
        self.inner.depth()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.ready.len()
    }

    fn submit(&mut self, request: Request) {
        let Err(error) = (self.hook)(&request) else { return self.inner.submit(request) };
        let (kind, offset) = (request.operation.kind(), request.operation.offset());
        let Request { token, file, mut operation, .. } = request;
        if let Operation::Read { buffer, .. } = &mut operation {
            buffer.clear();
        }
        let result = Err(kind.error(file.path(), offset, error));
        let (buffer, passage) = (operation.into_buffer(), Passage::default());
        self.ready.push(Completion { token, result, buffer, passage, found: None });
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<()> {
        let missing = self.missing(min, completions);
        self.inner.reap(missing, completions)
    }

    fn reap_until(&mut self, min: usize, deadline: Instant, completions: &mut Vec<Completion>) -> Result<()> {
        let missing = self.missing(min, completions);
        self.inner.reap_until(missing, deadline, completions)
    }
}
