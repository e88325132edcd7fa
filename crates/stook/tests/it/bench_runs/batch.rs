//! How many requests are handed over, and how many completions taken, at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use stook::bench::Workload;
use stook::engine::{Backend, Completion, Engine, EngineFactory, Request};

use super::{BACKENDS, short};

/// Counts what is submitted between two calls that hand it over.
#[derive(Debug)]
struct Counting {
    inner: Backend,
    most: Arc<AtomicUsize>,
}

struct CountingEngine {
    inner: Box<dyn Engine>,
    submitted: usize,
    most: Arc<AtomicUsize>,
}

impl EngineFactory for Counting {
    fn build(&self, depth: usize) -> stook::Result<Box<dyn Engine>> {
        Ok(Box::new(CountingEngine {
            inner: self.inner.build(depth)?,
            submitted: 0,
            most: Arc::clone(&self.most),
        }))
    }
}

impl Engine for CountingEngine {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn depth(&self) -> usize {
        self.inner.depth()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn submit(&mut self, request: Request) {
        self.submitted += 1;
        self.most.fetch_max(self.submitted, Ordering::Relaxed);
        self.inner.submit(request);
    }

    fn reap(&mut self, min: usize, completions: &mut Vec<Completion>) -> stook::Result<()> {
        self.submitted = 0;
        self.inner.reap(min, completions)
    }

    fn reap_until(
        &mut self,
        min: usize,
        deadline: Instant,
        completions: &mut Vec<Completion>,
    ) -> stook::Result<()> {
        self.submitted = 0;
        self.inner.reap_until(min, deadline, completions)
    }
}

#[test]
fn no_more_are_handed_over_at_once_than_the_batch_and_none_is_lost() {
    for inner in BACKENDS {
        for batch in [1, 3, 16] {
            let most = Arc::new(AtomicUsize::default());
            // A file that is there is not written first: what is counted is the cell alone.
            let cell = Workload { depth: 16, batch, ..short() };
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("data");
            std::fs::write(&file, vec![1; super::FILE_BYTES as usize]).unwrap();
            let bench = super::bench(&[cell]);
            let result =
                bench.run(&file, &Counting { inner, most: Arc::clone(&most) }, &stook::bench::Unobserved);
            let found = super::only(result.unwrap());
            assert_eq!(found.total.count, 512, "batch {batch}");
            assert_eq!(most.load(Ordering::Relaxed), batch as usize, "{inner:?}");
        }
    }
}
