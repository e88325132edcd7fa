//! The work that is left, shared by all threads of a walk.
//!
//! Files are queued as well as directories, in small batches, so that one flat directory keeps
//! every thread busy. Directories are taken newest first, which keeps the backlog proportional to
//! the depth of the tree instead of its width.

use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rustix::fs::Dir;

use super::directory::{Directory, lock};

/// Entries queued above which a directory is no longer listed in one go.
const BACKLOG_MAX: usize = 16 * 1024;
/// Half-listed directories that may wait, because each holds a directory open.
const SUSPENDED_MAX: usize = 64;

/// A piece of work.
#[derive(Debug)]
pub(super) enum Task {
    /// Enter this directory and list it.
    Enter {
        parent: Arc<Directory>,
        name: CString,
        /// Whether the directory itself is to be reported.
        report: bool,
    },
    /// Report and list a root, which is open already.
    Root { directory: Arc<Directory> },
    /// Report a root that is a file: this entry of this directory, under this key.
    RootFile { directory: Arc<Directory>, name: CString, key: Vec<u8> },
    /// Go on listing.
    List { directory: Arc<Directory>, listing: Dir },
    /// Report these entries of a directory, none of which is a directory.
    Entries { directory: Arc<Directory>, names: Vec<CString> },
}

/// Tasks that wait, and how many threads are at one.
#[derive(Debug)]
pub(super) struct Queue {
    threads: usize,
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    directories: Vec<Task>,
    files: VecDeque<Task>,
    entries: usize,
    suspended: usize,
    /// Tasks that were given out.
    begun: u64,
    busy: usize,
    idle: usize,
    stopped: bool,
}

impl Queue {
    pub(super) fn new(threads: usize, tasks: Vec<Task>) -> Self {
        let queue = Self { threads, state: Mutex::default(), changed: Condvar::new() };
        queue.push(tasks);
        queue
    }

    /// Adds work, and wakes as many threads as it can occupy.
    pub(super) fn push(&self, tasks: Vec<Task>) {
        let mut state = lock(&self.state);
        let wake = tasks.len().min(state.idle);
        for task in tasks {
            state.put(task);
        }
        drop(state);
        for _ in 0..wake {
            self.changed.notify_one();
        }
    }

    /// Whether a thread that lists a large directory should leave it for later. Asked after the
    /// entries found so far were pushed.
    pub(super) fn is_overfull(&self) -> bool {
        let state = lock(&self.state);
        state.entries > BACKLOG_MAX && state.suspended < SUSPENDED_MAX
    }

    /// The next task with its number, from 0; `None` when all work is done or the walk was stopped.
    /// The thread that got a task calls [`finished`](Self::finished) after it.
    pub(super) fn next(&self) -> Option<(u64, Task)> {
        let mut state = lock(&self.state);
        loop {
            if state.stopped {
                return None;
            }
            if let Some(task) = state.take(self.threads) {
                let number = state.begun;
                state.begun += 1;
                state.busy += 1;
                return Some((number, task));
            }
            if state.busy == 0 {
                self.changed.notify_all();
                return None;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// A task is done, and what it found was pushed.
    pub(super) fn finished(&self) {
        let mut state = lock(&self.state);
        state.busy -= 1;
        if state.busy == 0 && state.idle > 0 {
            self.changed.notify_all();
        }
    }

    /// Lets every thread end after the task it is at.
    pub(super) fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        lock(&self.state).stopped
    }
}

impl QueueState {
    fn put(&mut self, task: Task) {
        match &task {
            Task::Entries { names, .. } => {
                self.entries += names.len();
                self.files.push_back(task);
            }
            Task::List { .. } => {
                self.suspended += 1;
                self.directories.push(task);
            }
            Task::Enter { .. } => {
                self.entries += 1;
                self.directories.push(task);
            }
            Task::Root { .. } | Task::RootFile { .. } => self.directories.push(task),
        }
    }

    /// Directories first while the threads could run out of files, files first when they cannot.
    fn take(&mut self, threads: usize) -> Option<Task> {
        let task = if self.files.len() < threads.saturating_mul(2) {
            self.directories.pop().or_else(|| self.files.pop_front())
        } else {
            self.files.pop_front()
        }?;
        match &task {
            Task::Entries { names, .. } => self.entries -= names.len(),
            Task::List { .. } => self.suspended -= 1,
            Task::Enter { .. } => self.entries -= 1,
            Task::Root { .. } | Task::RootFile { .. } => {}
        }
        Some(task)
    }
}
