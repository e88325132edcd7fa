//! An engine that counts its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use stook::engine::{Access, Backend, Completion, Engine, EngineFactory, Operation, Request};

/// Reads requested so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Past the page cache: of records.
    pub(crate) direct: AtomicU64,
    /// Through the page cache: of index pages, headers and footers.
    pub(crate) cached: AtomicU64,
}

/// Makes engines that count.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    counts: Arc<Counts>,
}

impl Counting {
    /// Direct and cached reads since the last call.
    pub(crate) fn take(&self) -> (u64, u64) {
        (self.counts.direct.swap(0, Ordering::Relaxed), self.counts.cached.swap(0, Ordering::Relaxed))
    }
}

impl EngineFactory for Counting {
    fn build(&self, depth: usize) -> stook::Result<Box<dyn Engine>> {
        Ok(Box::new(Counter { inner: Backend::Auto.build(depth)?, counts: self.counts.clone() }))
    }
}

struct Counter {
    inner: Box<dyn Engine>,
    counts: Arc<Counts>,
}

impl Engine for Counter {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn depth(&self) -> usize {
        self.inner.depth()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn submit(&mut self, request: Request) {
        if matches!(request.operation, Operation::Read { .. }) {
            let counter = match request.access {
                Access::Direct => &self.counts.direct,
                Access::Cached => &self.counts.cached,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.submit(request);
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> stook::Result<()> {
        self.inner.reap(min, completions)
    }

    fn reap_until(
        &mut self,
        min: usize,
        deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> stook::Result<()> {
        self.inner.reap_until(min, deadline, completions)
    }
}
