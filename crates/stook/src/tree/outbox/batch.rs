//! Many files, made durable by one sync before any of them gets its name.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::target::Unset;
use super::{OutFile, Outbox};

/// Files of a batch at most. Each keeps a descriptor open, and is in a list of ext4 for files
/// without names: in larger batches a file took more system time, in smaller ones syncs did.
const FILES_MAX: usize = 512;

/// Bytes of a batch at most: much more than a sync takes to be worth it.
const BYTES_MAX: u64 = 256 << 20;

/// Of the descriptors of a process, a batch may keep one in so many.
const SHARE: u64 = 8;

/// A file that waits for its name.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) file: OutFile,
    pub(crate) name: OsString,
    /// Its key, for reports.
    pub(crate) key: Vec<u8>,
    /// Its length.
    pub(crate) len: u64,
    /// What could not be set.
    pub(crate) unset: Unset,
}

/// What became of a file that waited.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) key: Vec<u8>,
    pub(crate) len: u64,
    pub(crate) unset: Unset,
    /// Where and how its name would be; for what came in between.
    pub(crate) parent: Arc<OwnedFd>,
    pub(crate) name: OsString,
    /// What was to be done, and its error.
    pub(crate) result: Result<(), (&'static str, io::Error)>,
}

/// Files that wait for one sync of the file system.
#[derive(Debug)]
pub(crate) struct Batch {
    waiting: Mutex<(Vec<Waiting>, u64)>,
    /// Who syncs. The others fill the next batch meanwhile, and wait when that is full, too.
    turn: Mutex<()>,
    files_max: usize,
}

impl Batch {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let open = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let share = open.map_or(FILES_MAX, |open| usize::try_from(open / SHARE).unwrap_or(FILES_MAX));
        let files_max = share.clamp(1, FILES_MAX);
        Self { waiting: Mutex::default(), turn: Mutex::new(()), files_max }
    }

    fn waiting(&self) -> MutexGuard<'_, (Vec<Waiting>, u64)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one more. When the batch is full, all of it is published, and reported.
    pub(crate) fn put(&self, outbox: &Outbox, file: Waiting) -> Vec<Published> {
        let is_full = {
            let mut waiting = self.waiting();
            waiting.1 = waiting.1.saturating_add(file.len);
            waiting.0.push(file);
            waiting.0.len() >= self.files_max || waiting.1 >= BYTES_MAX
        };
        if is_full { self.publish(outbox) } else { Vec::new() }
    }

    /// Makes durable what waits, then gives each its name. Where the sync fails nobody knows whose
    /// bytes were lost: none gets its name, and all have failed.
    pub(crate) fn publish(&self, outbox: &Outbox) -> Vec<Published> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (files, _) = std::mem::take(&mut *self.waiting());
        if files.is_empty() {
            return Vec::new();
        }
        let synced = outbox.sync_files(files.iter().map(|waiting| &waiting.file));
        let publish = |waiting: Waiting| {
            let Waiting { file, name, key, len, unset } = waiting;
            let (parent, device) = (file.parent.clone(), file.device);
            let result = match synced.get(&device) {
                None | Some(Ok(())) => {
                    file.publish(&name, false).map_err(|error| ("give its name to", error))
                }
                Some(Err(error)) => Err(("sync", copy_of(error))),
            };
            Published { key, len, unset, parent, name, result }
        };
        files.into_iter().map(publish).collect()
    }
}

/// The same error once more.
fn copy_of(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}
