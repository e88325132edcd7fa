//! [`HashPool`]: threads that hash what others read: small files where one thread reads all of a
//! tree, and parts of large ones.

use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;

use bytes::Bytes;

use super::subtrees::Subtree;
use crate::hash::{Digest, HashKind, Hashing, value_of_block};

/// What waits for a thread, at most: each is as long as one read.
pub(super) const WAITING_MAX: usize = 8;

/// Threads at most: each holds the bytes that it hashes.
pub(super) const THREADS_MAX: usize = 16;

/// A file that was read, and is hashed.
#[derive(Debug)]
pub(super) struct Hashed {
    /// Its position among those that are read together.
    pub(super) at: usize,
    pub(super) len: u64,
    pub(super) digests: Arc<[Digest]>,
}

/// Something to be hashed. Who asked for it may have given up, and takes nothing any more.
pub(super) enum HashTask {
    /// All of a file.
    Whole { at: usize, kinds: Vec<HashKind>, bytes: Bytes, to: Sender<Hashed> },
    /// A part of a file for BLAKE3.
    Part { number: u64, offset: u64, bytes: Bytes, to: Sender<Subtree> },
}

impl HashTask {
    fn run(self) {
        match self {
            Self::Whole { at, kinds, bytes, to } => {
                let mut hashing = Hashing::new(&kinds);
                hashing.take(&bytes);
                let (len, digests) = (bytes.len() as u64, hashing.finish().into());
                let _ = to.send(Hashed { at, len, digests });
            }
            Self::Part { number, offset, bytes, to } => {
                let value = value_of_block(offset, &bytes);
                let _ = to.send(Subtree { number, value });
            }
        }
    }
}

/// Hands tasks to the threads. They end when the last of its clones is dropped.
#[derive(Clone)]
pub(super) struct HashPool(SyncSender<HashTask>);

impl HashPool {
    /// Starts as many threads.
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, '_>, threads: usize) -> Self {
        let (tasks, incoming) = sync_channel(WAITING_MAX);
        let incoming = Arc::new(Mutex::new(incoming));
        for _ in 0..threads {
            let incoming = incoming.clone();
            scope.spawn(move || {
                while let Some(task) = next(&incoming) {
                    task.run();
                }
            });
        }
        Self(tasks)
    }

    /// Has something hashed: by this thread, if all others have enough to do.
    pub(super) fn hash(&self, task: HashTask) {
        match self.0.try_send(task) {
            Ok(()) => {}
            Err(TrySendError::Full(task) | TrySendError::Disconnected(task)) => task.run(),
        }
    }
}

fn next(incoming: &Mutex<Receiver<HashTask>>) -> Option<HashTask> {
    incoming.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
