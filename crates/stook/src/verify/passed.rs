//! [`CountingEngines`]: which way the bytes of a tree took, by the completions of
//! all its reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::engine::{Completion, Engine, EngineFactory, Passage, Request};
use crate::error::Result;

/// Makes engines whose reads are counted.
#[derive(Debug, Clone)]
pub(super) struct CountingEngines {
    inner: Arc<dyn EngineFactory>,
    passed: Arc<Passed>,
}

#[derive(Debug, Default)]
struct Passed {
    direct_bytes: AtomicU64,
    cached_bytes: AtomicU64,
}

impl CountingEngines {
    pub(super) fn new(inner: Arc<dyn EngineFactory>) -> Self {
        Self { inner, passed: Arc::default() }
    }

    /// What passed so far.
    pub(super) fn passage(&self) -> Passage {
        Passage {
            direct_bytes: self.passed.direct_bytes.load(Ordering::Relaxed),
            cached_bytes: self.passed.cached_bytes.load(Ordering::Relaxed),
            copied_bytes: 0,
        }
    }
}

impl EngineFactory for CountingEngines {
    fn build(&self, depth: usize) -> Result<Box<dyn Engine>> {
        let inner = self.inner.build(depth)?;
        Ok(Box::new(CountingEngine { inner, passed: self.passed.clone() }))
    }
}

struct CountingEngine {
    inner: Box<dyn Engine>,
    passed: Arc<Passed>,
}

impl CountingEngine {
    fn count(&self, completions: &[Completion]) {
        for Completion { passage, .. } in completions {
            self.passed.direct_bytes.fetch_add(passage.direct_bytes, Ordering::Relaxed);
            self.passed.cached_bytes.fetch_add(passage.cached_bytes, Ordering::Relaxed);
        }
    }
}

impl Engine for CountingEngine {
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
        self.inner.submit(request);
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> Result<()> {
        let before = completions.len();
        let reaped = self.inner.reap(min, completions);
        self.count(completions.get(before..).unwrap_or_default());
        reaped
    }

    fn reap_until(&mut self, min: usize, deadline: Instant, completions: &mut Vec<Completion>) -> Result<()> {
        let before = completions.len();
        let reaped = self.inner.reap_until(min, deadline, completions);
        self.count(completions.get(before..).unwrap_or_default());
        reaped
    }
}
