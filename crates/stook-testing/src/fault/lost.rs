//! Written data that is lost on its way to the medium, as Linux tells of it: each open file is told
//! once of its own loss, and each descriptor that syncs a file system once of any.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stook::tree::outbox::{Calls, System};

use super::outbox::EXT4;

/// How long a sync waits for other threads to write more.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many files others write while a sync waits.
const MEANWHILE: usize = 16;

/// Calls of the system. One sync of the file system loses all that was written and not synced
/// before, of whichever thread; the files then hold zeros. It waits for other threads to write
/// more.
#[derive(Debug)]
pub struct LostWrites {
    nth: usize,
    state: Mutex<State>,
    written: Condvar,
}

#[derive(Debug, Default)]
struct State {
    syncs: usize,
    /// What is in the page cache only, by inode.
    dirty: BTreeMap<u64, File>,
    /// Files with a loss of which nobody was told.
    untold: BTreeSet<u64>,
    /// How often the file system lost something, and of how much of that a descriptor was told.
    losses: usize,
    reported: BTreeMap<RawFd, usize>,
    /// Files that lost something.
    lost: usize,
}

impl LostWrites {
    /// The `nth` sync of the file system, from 0, loses what is not on the medium.
    pub fn at_sync(nth: usize) -> Self {
        Self { nth, state: Mutex::default(), written: Condvar::new() }
    }

    /// How many files lost something.
    pub fn lost(&self) -> usize {
        self.state().lost
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begun(&self, file: File) -> io::Result<File> {
        // Numbers of inodes are given again.
        let number = file.metadata()?.ino();
        let mut state = self.state();
        state.untold.remove(&number);
        state.dirty.remove(&number);
        Ok(file)
    }

    fn report(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        let number = number(file)?;
        if self.state().untold.remove(&number) {
            Err(io::Error::from_raw_os_error(libc::EIO))
        } else {
            Ok(())
        }
    }
}

impl State {
    fn lose(&mut self) -> io::Result<()> {
        self.losses += 1;
        for (number, file) in std::mem::take(&mut self.dirty) {
            let len = file.metadata()?.len();
            file.write_all_at(&vec![0; len as usize], 0)?;
            self.untold.insert(number);
            self.lost += 1;
        }
        Ok(())
    }
}

impl Calls for LostWrites {
    fn kind_of_file_system(&self, _: BorrowedFd<'_>) -> Option<u32> {
        Some(EXT4)
    }

    fn create(&self, parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<File> {
        self.begun(System.create(parent, name, mode)?)
    }

    fn create_unnamed(&self, parent: BorrowedFd<'_>, mode: u32) -> io::Result<File> {
        self.begun(System.create_unnamed(parent, mode)?)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state();
        let written = System.write_at(file, bytes, offset)?;
        let number = number(file.as_fd())?;
        if let Entry::Vacant(clean) = state.dirty.entry(number) {
            clean.insert(file.try_clone()?);
        }
        drop(state);
        self.written.notify_all();
        Ok(written)
    }

    fn sync(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.state().dirty.remove(&number(file)?);
        self.report(file)
    }

    fn sync_file_system(&self, directory: BorrowedFd<'_>) -> io::Result<()> {
        let mut state = self.state();
        let is_chosen = state.syncs == self.nth;
        state.syncs += 1;
        if is_chosen {
            let enough = state.dirty.len() + MEANWHILE;
            let waits = |state: &mut State| state.dirty.len() < enough;
            let waited = self.written.wait_timeout_while(state, PATIENCE, waits);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.lose()?;
        } else {
            state.dirty.clear();
        }
        let losses = state.losses;
        match state.reported.insert(directory.as_raw_fd(), losses) == Some(losses) || losses == 0 {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::EIO)),
        }
    }

    fn wait_written(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.report(file)
    }
}

fn number(file: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(rustix::fs::fstat(file)?.st_ino as u64)
}
