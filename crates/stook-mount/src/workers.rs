//! Threads beside those that take requests: for requests that come when all others wait.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Runtime};

/// Requests that wait at once, each on a thread of its own. More wait for their turn.
const WAITING_MAX: usize = 256;

/// Runs what may wait, and leaves one thread of those that take requests free: it answers what can
/// be answered, whatever a server or a disk does.
pub(crate) struct Workers {
    /// Requests that are answered by the threads that took them.
    inside: AtomicUsize,
    /// How many these may be.
    inside_max: usize,
    /// Has the others. Always there until this is dropped.
    others: Option<Runtime>,
}

impl Workers {
    /// For so many threads that take requests, at least one.
    pub(crate) fn new(threads: usize) -> io::Result<Self> {
        let mut others = Builder::new_current_thread();
        let others = others.max_blocking_threads(WAITING_MAX).thread_name("stook-wait").build()?;
        Ok(Self { inside: AtomicUsize::new(0), inside_max: threads.max(1) - 1, others: Some(others) })
    }

    /// Runs it on this thread; on another, where this is the last that is free.
    pub(crate) fn run(&self, work: impl FnOnce() + Send + 'static) {
        let inside = Inside(&self.inside);
        if inside.0.fetch_add(1, Ordering::Relaxed) < self.inside_max {
            return work();
        }
        drop(inside);
        match &self.others {
            Some(others) => drop(others.spawn_blocking(work)),
            None => work(),
        }
    }
}

/// Counts one until it is dropped.
struct Inside<'a>(&'a AtomicUsize);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // What still waits is not waited for: its requests have ended.
        if let Some(others) = self.others.take() {
            others.shutdown_background();
        }
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("inside", &self.inside).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn one_thread_stays_free_however_many_wait() {
        let workers = Arc::new(Workers::new(2).unwrap());
        let (go, wait) = channel::<()>();
        let (done, finished) = channel();
        // The first waits on a thread that takes requests.
        let first = {
            let (workers, done) = (workers.clone(), done.clone());
            std::thread::spawn(move || {
                workers.run(move || {
                    wait.recv().unwrap();
                    done.send(0).unwrap();
                });
            })
        };
        while workers.inside.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        // The others wait elsewhere, and this thread goes on.
        let mut gates = Vec::new();
        for number in 1..20 {
            let (gate, shut) = channel::<()>();
            let done = done.clone();
            workers.run(move || {
                shut.recv().unwrap();
                done.send(number).unwrap();
            });
            gates.push(gate);
        }
        assert!(finished.try_recv().is_err());
        gates.iter().chain([&go]).for_each(|gate| gate.send(()).unwrap());
        first.join().unwrap();
        let mut all: Vec<i32> = finished.iter().take(20).collect();
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
        assert_eq!(workers.inside.load(Ordering::Relaxed), 0);
    }
}
