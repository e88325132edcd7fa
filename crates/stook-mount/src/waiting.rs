//! Requests that are being answered. A program that is killed ends only when its request has an
//! answer, and the library that serves the kernel has no handler for its interrupts: so it is
//! looked, while a request waits for long, whether its program is being killed.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fuser::{
    Errno, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyXattr,
};

/// How often it is looked, and how long a request is left alone.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// An answer that can be an error.
pub(crate) trait Refuse: Send + 'static {
    fn refuse(self, errno: Errno);
}

macro_rules! refuse {
    ($($reply:ty),*) => {$(
        impl Refuse for $reply {
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        }
    )*};
}

refuse!(
    ReplyAttr,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEntry,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyXattr
);

/// The answer of a request, which is given once: by who takes it first.
pub(crate) struct Slot<R>(Arc<Mutex<Option<R>>>);

impl<R> Slot<R> {
    /// The same, for who may have to give another answer.
    pub(crate) fn share(&self) -> Self {
        Self(self.0.clone())
    }

    pub(crate) fn take(&self) -> Option<R> {
        lock(&self.0).take()
    }

    /// Whether it was given already.
    pub(crate) fn is_given(&self) -> bool {
        lock(&self.0).is_none()
    }
}

impl<R: Refuse> Slot<R> {
    pub(crate) fn refuse(&self, errno: Errno) {
        if let Some(reply) = self.take() {
            reply.refuse(errno);
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request without an answer.
struct Request {
    process: u32,
    begun: Instant,
    refuse: Box<dyn Fn(Errno) + Send>,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Waiting {
    requests: Mutex<Requests>,
    /// Woken where there was none, and at the end.
    some: Condvar,
    /// Whether the thread that looks waits for that.
    is_idle: AtomicBool,
}

#[derive(Default)]
struct Requests {
    next: u64,
    by_number: HashMap<u64, Request>,
    is_ending: bool,
}

impl Waiting {
    /// Notes a request, by the process that it is of, and says its number here.
    pub(crate) fn begin<R: Refuse>(&self, process: u32, reply: R) -> (u64, Slot<R>) {
        let slot = Slot(Arc::new(Mutex::new(Some(reply))));
        let own = slot.share();
        let mut requests = lock(&self.requests);
        requests.next += 1;
        let number = requests.next;
        let refuse = Box::new(move |errno| own.refuse(errno));
        requests.by_number.insert(number, Request { process, begun: Instant::now(), refuse });
        drop(requests);
        if self.is_idle.load(Ordering::Relaxed) {
            self.some.notify_one();
        }
        (number, slot)
    }

    /// It has its result.
    pub(crate) fn end(&self, number: u64) {
        lock(&self.requests).by_number.remove(&number);
    }

    /// Ends [`watch`](Self::watch).
    pub(crate) fn stop(&self) {
        lock(&self.requests).is_ending = true;
        self.some.notify_one();
    }

    /// Gives up requests whose program is being killed, until it is stopped.
    pub(crate) fn watch(&self) {
        loop {
            let mut requests = lock(&self.requests);
            self.is_idle.store(true, Ordering::Relaxed);
            while requests.by_number.is_empty() && !requests.is_ending {
                // That of a request which came just now may be missed.
                let waited = self.some.wait_timeout(requests, 10 * LOOK_EVERY);
                requests = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            self.is_idle.store(false, Ordering::Relaxed);
            if !requests.is_ending {
                let waited = self.some.wait_timeout(requests, LOOK_EVERY);
                requests = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            if requests.is_ending {
                return;
            }
            drop(requests);
            self.give_up();
        }
    }

    fn give_up(&self) {
        let old: Vec<(u64, u32)> = lock(&self.requests)
            .by_number
            .iter()
            .filter(|(_, request)| request.begun.elapsed() >= LOOK_EVERY)
            .map(|(number, request)| (*number, request.process))
            .collect();
        for (number, _) in old.into_iter().filter(|(_, process)| is_being_killed(*process)) {
            let request = lock(&self.requests).by_number.remove(&number);
            // Without the lock: the kernel may make it wait.
            if let Some(request) = request {
                (request.refuse)(Errno::EINTR);
            }
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("requests", &lock(&self.requests).by_number.len())
            .finish_non_exhaustive()
    }
}

/// The bit of the signal that nothing survives. What ends a process at once becomes it, but for
/// signals that leave a core: with those a program waits for its answer.
const KILL: u64 = 1 << (9 - 1);

/// Whether a process, or a thread, has got that signal. It has no effect while it waits for a file
/// system.
fn is_being_killed(process: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{process}/status")) else { return false };
    let pending = status.lines().filter_map(|line| {
        let mask = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(mask.trim(), 16).ok()
    });
    pending.into_iter().any(|mask| mask & KILL != 0)
}
