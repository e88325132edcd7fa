//! A storage in memory that records every change and rebuilds what a medium may hold after a crash.
//!
//! [`SimStorage`] is a [`Storage`](stook::storage::Storage) like the local directory. It records an
//! [`Operation`] for every change that reaches its medium, and [`SimStorage::crash_states`] builds
//! storages as they may be found when power fails while a given operation is under way: unsynced
//! bytes lost, cut, torn inside a sector, or later pages kept and earlier ones lost; truncates
//! undone; names made, moved or removed in any subset that keeps the order of changes to the same
//! name; lengths that arrived without their bytes. [`explore()`] runs a workload and has every
//! crash point checked; [`explore_failures`] makes every operation fail in turn.
//!
//! It is deterministic: the same workload, seed and numbers give the same states. It never touches
//! the disk.

mod appender;
#[cfg(target_os = "linux")]
mod calls;
mod explore;
mod medium;
mod operation;
mod rng;
mod state;
mod storage;
#[cfg(test)]
mod tests;
mod variant;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(target_os = "linux")]
pub use calls::SimCalls;
pub use explore::{Acknowledgements, CrashPoint, ExploreOptions, explore, explore_failures};
pub use medium::Attributes;
pub use operation::{Inode, Operation, Recorded};
pub use storage::SIM_DIRECTORY;

use medium::Medium;
use rng::Rng;
use state::State;

/// How an operation of the simulator is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The device reports an error (`EIO`).
    Io,
    /// The device is full (`ENOSPC`).
    NoSpace,
}

impl Failure {
    /// The error of the operating system. The numbers are those of every Unix.
    pub fn to_error(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            Self::Io => 5,
            Self::NoSpace => 28,
        })
    }
}

/// How many bytes a simulated appender gathers before it hands them to the medium unasked.
///
/// Small, so that a test of a few kilobytes has many crash points; more than a record, so that code
/// which forgets to flush before it reads is found out.
pub const SIM_BLOCK_LEN: usize = 16 << 10;

/// A storage in memory, and a handle to it: clones share it.
#[derive(Clone, Default)]
pub struct SimStorage {
    shared: Arc<Mutex<State>>,
}

impl SimStorage {
    /// An empty storage.
    pub fn new() -> Self {
        Self::default()
    }

    /// All operations so far, in order.
    pub fn operations(&self) -> Vec<Recorded> {
        self.state().log.clone()
    }

    /// All names and their bytes, as the running process sees them.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let bytes = |inode| state.live.files.get(inode).map(|bytes| bytes.to_vec()).unwrap_or_default();
        state.live.names.iter().map(|(name, inode)| (name.clone(), bytes(inode))).collect()
    }

    /// All names and the attributes that were set, as the running process sees them.
    pub fn attributes(&self) -> BTreeMap<String, Attributes> {
        let state = self.state();
        let attributes = |inode| state.live.attributes.get(inode).cloned().unwrap_or_default();
        state.live.names.iter().map(|(name, inode)| (name.clone(), attributes(inode))).collect()
    }

    /// How many operations there have been.
    pub fn operation_count(&self) -> usize {
        self.state().log.len()
    }

    /// Makes the operation with this index (as in [`operations`](Self::operations)) fail, and only
    /// it.
    ///
    /// A failed write leaves the first half of its bytes in the file. After a failed sync it stays
    /// unknown whether the bytes written before it are durable, whatever later syncs return, as in
    /// operating systems.
    pub fn fail_at(&self, index: usize, failure: Failure) {
        self.state().failure = Some((index, failure));
    }

    /// Makes the operation with this index, and every call after it, fail: the process is dead.
    /// Data that it had passed to the system survives, see
    /// [`after_process_death`](Self::after_process_death).
    pub fn die_at(&self, index: usize) {
        self.state().dies_at = Some(index);
    }

    /// What another process finds after this one died while the system lived on: everything that
    /// was handed to the system, and no lock held. Nothing of it counts as durable until synced.
    pub fn after_process_death(&self) -> Self {
        Self { shared: Arc::new(Mutex::new(self.state().after_process_death())) }
    }

    /// A storage with the same files, all durable, with no operations and no locks.
    pub fn settled_copy(&self) -> Self {
        Self::from_image(self.state().live.clone())
    }

    /// What the medium may hold when power fails while operation `index` is in progress and all
    /// before it have ended; `index` may be the number of operations, for a crash after the last.
    ///
    /// At most `options.variants` states; a single one when nothing was under way.
    ///
    /// # Panics
    /// Panics if there are fewer operations than `index`.
    pub fn crash_states(
        &self,
        index: usize,
        options: &ExploreOptions,
    ) -> impl Iterator<Item = SimStorage> + use<> {
        let medium = {
            let state = self.state();
            let mut medium = state.base.clone();
            state.log[..index].iter().for_each(|recorded| medium.end(recorded));
            if let Some(recorded) = state.log.get(index) {
                medium.begin(recorded);
            }
            medium
        };
        crash_states_of(medium, index, options)
    }

    fn from_image(image: medium::Image) -> Self {
        Self { shared: Arc::new(Mutex::new(State::settled(image))) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A test that panicked while it held the lock has failed already; its state is readable.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The states that may be left of `medium`, at most `options.variants`.
fn crash_states_of(
    medium: Medium,
    index: usize,
    options: &ExploreOptions,
) -> impl Iterator<Item = SimStorage> + use<> {
    let variants = if medium.is_settled() { 1 } else { options.variants.max(1) };
    let seed = options.seed;
    (0..variants).map(move |variant| {
        let mut rng = Rng::new(seed, index as u64, variant as u64);
        SimStorage::from_image(variant::build(&medium, variant, &mut rng))
    })
}

impl fmt::Debug for SimStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let lens = state.live.names.iter().map(|(name, inode)| (name, state.len(*inode)));
        f.debug_map().entries(lens).finish()
    }
}
