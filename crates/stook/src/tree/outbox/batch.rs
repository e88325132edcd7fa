//! Many files, made durable by one sync before any of them gets its name.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::target::{Unset, share_of_descriptors};
use super::{Backup, OutFile, Outbox};

/// Files of a batch at most. Each keeps a descriptor open, and is in a list of ext4 for files
/// without names: in larger batches a file took more system time, in smaller ones syncs did.
const FILES_MAX: usize = 512;

/// Bytes of a batch at most: much more than a sync takes to be worth it.
const BYTES_MAX: u64 = 256 << 20;

/// Of the descriptors of a process, a batch may keep one in this many, twice: for its files, and
/// for the directories that they are in.
const SHARE: u64 = 8;

/// What was to be done when a file could not be made durable.
pub(crate) const SYNC: &str = "sync";

/// When files are on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Each before it gets its name, by a sync of its own.
    File,
    /// Many by one sync, and none gets its name before that.
    #[default]
    Batch,
    /// When the system writes them back: files are whole while the system runs, and a loss of power
    /// may leave any of them short.
    None,
}

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
    /// How what it replaces is kept, if it is.
    pub(crate) backup: Option<Backup>,
    /// Whether it waits for no others: it is synced by itself, unless nothing is, and gets its name
    /// at once.
    pub(crate) is_alone: bool,
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
    /// Whether something else came to have its name in between, with the same bytes.
    pub(crate) is_same: bool,
    /// What was to be done, and its error.
    pub(crate) result: Result<(), (&'static str, io::Error)>,
}

/// What is done with files that are whole, before any of them gets its name.
pub(crate) trait BeforeNames {
    /// These files are about to get their names, and are as durable as was asked for.
    fn note(&self, files: &[&Waiting]);

    /// Makes what was noted as durable as they are.
    fn sync(&self);
}

impl BeforeNames for () {
    fn note(&self, _: &[&Waiting]) {}
    fn sync(&self) {}
}

/// Files that wait for one sync of the file system.
#[derive(Debug)]
pub(crate) struct Batch {
    waiting: Mutex<(Vec<Waiting>, u64)>,
    /// Who syncs. The others fill the next batch meanwhile, and wait when that is full, too.
    turn: Mutex<()>,
    files_max: usize,
    durability: Durability,
}

impl Batch {
    /// An empty one, whose files are durable when that is asked.
    pub(crate) fn with(durability: Durability) -> Self {
        let files_max = share_of_descriptors(SHARE, FILES_MAX);
        Self { waiting: Mutex::default(), turn: Mutex::new(()), files_max, durability }
    }

    fn waiting(&self) -> MutexGuard<'_, (Vec<Waiting>, u64)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one more. When the batch is full, all of it is published, and reported; where none
    /// waits for others, at once.
    pub(crate) fn put(&self, outbox: &Outbox, file: Waiting) -> Vec<Published> {
        self.put_noted(outbox, file, &())
    }

    /// The same, with something done before files get their names.
    pub(crate) fn put_noted(
        &self,
        outbox: &Outbox,
        file: Waiting,
        before: &dyn BeforeNames,
    ) -> Vec<Published> {
        match self.durability {
            Durability::Batch if !file.is_alone => {}
            Durability::Batch | Durability::File => {
                let synced = file.file.sync();
                return self.name_all(vec![file], vec![synced], before);
            }
            Durability::None => return self.name_all(vec![file], vec![Ok(())], before),
        }
        let is_full = {
            let mut waiting = self.waiting();
            waiting.1 = waiting.1.saturating_add(file.len);
            waiting.0.push(file);
            waiting.0.len() >= self.files_max || waiting.1 >= BYTES_MAX
        };
        if is_full { self.publish_noted(outbox, before) } else { Vec::new() }
    }

    /// Takes a file back that waits; its length, if it did. What is being given its name is not
    /// waiting any more when this returns.
    pub(crate) fn withdraw(&self, key: &[u8]) -> Option<u64> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waiting = self.waiting();
        let (files, bytes) = &mut *waiting;
        let at = files.iter().position(|file| file.key == key)?;
        let len = files.swap_remove(at).len;
        *bytes = bytes.saturating_sub(len);
        Some(len)
    }

    /// Makes durable what waits, then gives each its name. Where the sync of a file system fails
    /// it is not known whose bytes were lost: none gets its name, and all have failed. Where it
    /// succeeds, each file is still asked: an earlier sync may have met its bytes, and the error.
    pub(crate) fn publish(&self, outbox: &Outbox) -> Vec<Published> {
        self.publish_noted(outbox, &())
    }

    /// The same, with something done before files get their names.
    pub(crate) fn publish_noted(&self, outbox: &Outbox, before: &dyn BeforeNames) -> Vec<Published> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (files, _) = std::mem::take(&mut *self.waiting());
        if files.is_empty() {
            return Vec::new();
        }
        let synced = outbox.sync_files(&files.iter().map(|waiting| &waiting.file).collect::<Vec<_>>());
        self.name_all(files, synced, before)
    }

    /// Gives each file its name that was synced.
    fn name_all(
        &self,
        files: Vec<Waiting>,
        synced: Vec<io::Result<()>>,
        before: &dyn BeforeNames,
    ) -> Vec<Published> {
        let whole = files.iter().zip(&synced).filter(|(_, synced)| synced.is_ok());
        let whole: Vec<&Waiting> = whole.map(|(file, _)| file).collect();
        if !whole.is_empty() {
            before.note(&whole);
            if self.durability != Durability::None {
                before.sync();
            }
        }
        files.into_iter().zip(synced).map(|(waiting, synced)| waiting.publish(synced)).collect()
    }

    /// Makes all that got its name below a directory durable, unless nothing is to be.
    pub(crate) fn sync_all(&self, outbox: &Outbox, directory: &OwnedFd) -> io::Result<()> {
        match self.durability {
            Durability::File | Durability::Batch => outbox.sync_all(directory),
            Durability::None => Ok(()),
        }
    }
}

impl Waiting {
    /// Gives it its name, if it was synced.
    fn publish(self, synced: io::Result<()>) -> Published {
        let Self { mut file, name, key, len, unset, backup, .. } = self;
        let parent = file.parent.clone();
        let result = match synced {
            Ok(()) => file.publish(&name, backup.as_ref()),
            Err(error) => Err((SYNC, error)),
        };
        let is_same = matches!(&result, Err((_, error)) if file.is_as_what_came(&name, error));
        Published { key, len, unset, parent, name, is_same, result }
    }
}
