//! [`Workers`]: threads that share one queue of jobs, and start as they are needed.
//!
//! They know nothing of I/O. Queued jobs are run even if nothing waits for them any more.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// More threads than this do not make a device faster; deeper requests wait in the queue.
const THREADS_MAX: usize = 64;

/// Threads that make results of jobs.
pub(super) struct Workers<J, R> {
    shared: Arc<Shared<J, R>>,
    results: Receiver<R>,
    threads: Vec<JoinHandle<()>>,
    threads_max: usize,
    /// The process that has these threads; a forked child does not.
    process: u32,
}

struct Shared<J, R> {
    queue: Mutex<Queue<J>>,
    changed: Condvar,
    run: Box<dyn Fn(J) -> R + Send + Sync>,
    /// Called after a result was sent.
    notify: Box<dyn Fn() + Send + Sync>,
    sender: Sender<R>,
}

struct Queue<J> {
    waiting: VecDeque<J>,
    idle: usize,
    closed: bool,
}

impl<J: Send + 'static, R: Send + 'static> Workers<J, R> {
    /// Starts the first thread. There are at most as many as may have a job at once.
    ///
    /// # Errors
    /// Returns an error if not even one thread can be started.
    pub(super) fn start(
        depth: usize,
        run: impl Fn(J) -> R + Send + Sync + 'static,
        notify: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (sender, results) = channel();
        let queue = Queue { waiting: VecDeque::new(), idle: 0, closed: false };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            changed: Condvar::new(),
            run: Box::new(run),
            notify: Box::new(notify),
            sender,
        });
        let (threads_max, process) = (depth.min(THREADS_MAX), std::process::id());
        let mut workers = Self { shared, results, threads: Vec::new(), threads_max, process };
        workers.start_thread()?;
        Ok(workers)
    }

    fn start_thread(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = Builder::new().name("stook-io".to_owned()).spawn(move || shared.work())?;
        self.threads.push(thread);
        Ok(())
    }

    /// Queues a job.
    pub(super) fn hand_over(&mut self, job: J) {
        let (waiting, idle) = {
            let mut queue = self.shared.lock();
            queue.waiting.push_back(job);
            (queue.waiting.len(), queue.idle)
        };
        self.shared.changed.notify_one();
        if waiting > idle && self.threads.len() < self.threads_max {
            // One more that cannot be started makes it slower, not wrong: one thread is always
            // there.
            let _started = self.start_thread();
        }
    }

    /// Where the results arrive, in any order.
    pub(super) fn results(&self) -> &Receiver<R> {
        &self.results
    }
}

impl<J, R> Shared<J, R> {
    fn lock(&self) -> MutexGuard<'_, Queue<J>> {
        // Every change to the queue is a single step, so a panic cannot leave it half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, or `None` when none is left and none will be added.
    fn next(&self) -> Option<J> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.waiting.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue.idle += 1;
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            // While the workers are being dropped, the outcome no longer matters.
            let _wanted = self.sender.send((self.run)(job));
            (self.notify)();
        }
    }
}

impl<J, R> Workers<J, R> {
    /// In a forked child the threads do not exist, and their locks stay locked: everything that
    /// they may have been using stays untouched until the child ends.
    fn leave(&mut self) {
        mem::forget(mem::take(&mut self.threads));
        let (_, results) = channel();
        mem::forget(mem::replace(&mut self.results, results));
        // Waiting jobs are dropped with the last reference to the queue.
        mem::forget(Arc::clone(&self.shared));
    }
}

impl<J, R> Drop for Workers<J, R> {
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

impl<J, R> fmt::Debug for Workers<J, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn all_jobs_are_done_though_nobody_waits() {
        let (done, rung) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (done_there, rung_there) = (Arc::clone(&done), Arc::clone(&rung));
        let run = move |job: usize| done_there.fetch_add(job, Ordering::Relaxed);
        let notify = move || {
            rung_there.fetch_add(1, Ordering::Relaxed);
        };
        let mut workers = Workers::start(8, run, notify).unwrap();
        (0..100).for_each(|job| workers.hand_over(job));
        workers.results().recv().unwrap();
        assert!(workers.threads.len() <= 8);
        drop(workers);
        assert_eq!((done.load(Ordering::Relaxed), rung.load(Ordering::Relaxed)), (4950, 100));
    }
}
