//! Threads beside those that take requests: for requests that come when all others wait.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Runtime};

/// What a request may have to wait for. Those of one kind never wait for those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// Names and what is said of them: mostly in memory.
    Names,
    /// Bytes on disks.
    Disk,
    /// Bytes that come by requests to a server.
    Server,
}

/// Requests that wait at once, each on a thread of its own: for servers, and of each other kind.
/// More wait for their turn.
const SERVER_MAX: usize = 256;
const OTHERS_MAX: usize = 64;

/// Requests of a kind that may wait for their turn: far more than programs make, and bounded.
const QUEUE_MAX: usize = 16 << 10;

/// Runs what may wait, and leaves one thread of those that take requests free: it answers what can
/// be answered, whatever a server or a disk does.
pub(crate) struct Workers {
    /// Requests that are answered by the threads that took them.
    inside: AtomicUsize,
    /// How many these may be.
    inside_max: usize,
    /// The others, of each kind.
    names: Threads,
    disk: Threads,
    server: Threads,
}

/// That too many wait already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// Threads that are made as they are wanted, and what waits for one.
struct Threads {
    /// How many requests they have, those that wait for their turn among them.
    taken: Arc<AtomicUsize>,
    taken_max: usize,
    /// Always there until this is dropped.
    runtime: Option<Runtime>,
}

impl Threads {
    fn new(threads_max: usize) -> io::Result<Self> {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(threads_max).thread_name("stook-wait").build()?;
        Ok(Self { taken: Arc::default(), taken_max: threads_max + QUEUE_MAX, runtime: Some(runtime) })
    }

    fn run(&self, work: impl FnOnce() + Send + 'static) -> Result<(), Full> {
        let taken = Counted::one(self.taken.clone());
        if taken.before >= self.taken_max {
            return Err(Full);
        }
        if let Some(runtime) = &self.runtime {
            let counted = move || {
                work();
                drop(taken);
            };
            drop(runtime.spawn_blocking(counted));
        }
        Ok(())
    }
}

impl Workers {
    /// For so many threads that take requests, at least one.
    pub(crate) fn new(threads: usize) -> io::Result<Self> {
        Ok(Self {
            inside: AtomicUsize::new(0),
            inside_max: threads.max(1) - 1,
            names: Threads::new(OTHERS_MAX)?,
            disk: Threads::new(OTHERS_MAX)?,
            server: Threads::new(SERVER_MAX)?,
        })
    }

    /// Runs it on this thread; on another, where this is the last that is free.
    ///
    /// # Errors
    /// [`Full`], and it is not run: more wait already than may.
    pub(crate) fn run(&self, waits_for: WaitsFor, work: impl FnOnce() + Send + 'static) -> Result<(), Full> {
        let inside = Inside(&self.inside);
        if inside.0.fetch_add(1, Ordering::Relaxed) < self.inside_max {
            work();
            return Ok(());
        }
        drop(inside);
        let others = match waits_for {
            WaitsFor::Names => &self.names,
            WaitsFor::Disk => &self.disk,
            WaitsFor::Server => &self.server,
        };
        others.run(work)
    }
}

/// Counts one until it is dropped.
struct Inside<'a>(&'a AtomicUsize);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The same, on another thread; and how many there were before it.
struct Counted {
    count: Arc<AtomicUsize>,
    before: usize,
}

impl Counted {
    fn one(count: Arc<AtomicUsize>) -> Self {
        let before = count.fetch_add(1, Ordering::Relaxed);
        Self { count, before }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // What still waits is not waited for: its requests have ended.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = [&self.names, &self.disk, &self.server].map(|of| of.taken.load(Ordering::Relaxed));
        f.debug_struct("Workers").field("inside", &self.inside).field("taken", &taken).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::JoinHandle;

    use super::*;

    /// Workers of which no thread that takes requests is left but one: it ends with the sender.
    fn busy() -> (Arc<Workers>, Sender<()>, JoinHandle<()>) {
        let workers = Arc::new(Workers::new(2).unwrap());
        let (go, wait) = channel::<()>();
        let first = {
            let workers = workers.clone();
            let work = move || assert!(wait.recv().is_err());
            std::thread::spawn(move || workers.run(WaitsFor::Server, work).unwrap())
        };
        while workers.inside.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        (workers, go, first)
    }

    /// Work that waits until the sender is dropped.
    fn waiting() -> (Sender<()>, impl FnOnce() + Send + 'static) {
        let (gate, shut): (_, Receiver<()>) = channel();
        (gate, move || assert!(shut.recv().is_err()))
    }

    #[test]
    fn one_thread_stays_free_however_many_wait() {
        let (workers, go, first) = busy();
        let (done, finished) = channel();
        // The others wait elsewhere, and this thread goes on.
        let mut gates = Vec::new();
        for number in 0..19 {
            let (gate, wait) = waiting();
            let done = done.clone();
            let work = move || {
                wait();
                done.send(number).unwrap();
            };
            workers.run(WaitsFor::Server, work).unwrap();
            gates.push(gate);
        }
        assert!(finished.try_recv().is_err());
        drop((gates, go));
        first.join().unwrap();
        let mut all: Vec<i32> = finished.iter().take(19).collect();
        all.sort_unstable();
        assert_eq!(all, (0..19).collect::<Vec<_>>());
        assert_eq!(workers.inside.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_waits_for_a_server_holds_up_nothing_else_and_is_bounded() {
        let (workers, go, first) = busy();
        let mut gates = Vec::new();
        let most = SERVER_MAX + QUEUE_MAX;
        for number in 0..most + 5 {
            let (gate, wait) = waiting();
            gates.push(gate);
            let is_refused = workers.run(WaitsFor::Server, wait) == Err(Full);
            assert_eq!(is_refused, number >= most, "{number}");
        }
        for waits_for in [WaitsFor::Names, WaitsFor::Disk] {
            let (done, finished) = channel();
            workers.run(waits_for, move || done.send(()).unwrap()).unwrap();
            finished.recv().unwrap();
        }
        // When those have ended, there is room again.
        drop((gates, go));
        first.join().unwrap();
        let (done, finished) = channel();
        loop {
            let done = done.clone();
            if workers.run(WaitsFor::Server, move || done.send(()).unwrap()).is_ok() {
                break;
            }
            std::thread::yield_now();
        }
        finished.recv().unwrap();
    }
}
