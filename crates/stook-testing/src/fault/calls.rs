//! Real engines whose system calls fail, or do less than requested.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stook::Result;
use stook::engine::{Backend, CallFault, CallFaults, Engine, EngineFactory, EngineOptions, OperationKind};

/// Makes real engines whose chosen system calls hit a fault. All of them, and all clones of this,
/// count together.
#[derive(Debug, Clone)]
pub struct CallFaultEngines {
    backend: Backend,
    faults: Arc<Chosen>,
}

#[derive(Debug)]
struct Chosen {
    choice: Choice,
    kind: Option<OperationKind>,
    fault: CallFault,
    calls: AtomicUsize,
}

#[derive(Debug)]
enum Choice {
    /// The one with this number, from 0.
    Nth(usize),
    /// Each with a number that is one less than a multiple of this.
    Every(usize),
}

impl CallFaultEngines {
    /// The `nth` call (from 0) of operations of this kind, or of all, meets the fault.
    pub fn nth(backend: Backend, kind: Option<OperationKind>, nth: usize, fault: CallFault) -> Self {
        Self::new(backend, Choice::Nth(nth), kind, fault)
    }

    /// Every `nth` call (2 is every other) of any operation meets the fault.
    ///
    /// # Panics
    /// Panics if `nth` is less than 2: retries would never end.
    pub fn every(backend: Backend, nth: usize, fault: CallFault) -> Self {
        assert!(nth > 1, "every call meets a fault");
        Self::new(backend, Choice::Every(nth), None, fault)
    }

    fn new(backend: Backend, choice: Choice, kind: Option<OperationKind>, fault: CallFault) -> Self {
        let faults = Chosen { choice, kind, fault, calls: AtomicUsize::new(0) };
        Self { backend, faults: Arc::new(faults) }
    }

    /// How many calls there were, of those that are counted.
    pub fn calls(&self) -> usize {
        self.faults.calls.load(Ordering::Relaxed)
    }
}

impl CallFaults for Chosen {
    fn meet(&self, kind: OperationKind) -> Option<CallFault> {
        if self.kind.is_some_and(|wanted| wanted != kind) {
            return None;
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let is_chosen = match self.choice {
            Choice::Nth(nth) => number == nth,
            Choice::Every(nth) => (number + 1).is_multiple_of(nth),
        };
        is_chosen.then_some(self.fault)
    }
}

impl EngineFactory for CallFaultEngines {
    fn build(&self, depth: usize) -> Result<Box<dyn Engine>> {
        let faults: Arc<dyn CallFaults> = self.faults.clone();
        EngineOptions { backend: self.backend, depth }.build_with_faults(faults)
    }
}
