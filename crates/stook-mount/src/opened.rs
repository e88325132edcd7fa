//! Files and directories that are open, by the handles that the kernel has for them; and of a mount
//! that opens nothing, the files that were read last.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stook::source::Source;
use stook::tree::NodeId;

use crate::listing::Listing;

/// Files that were read last and stay open, where nothing says when they are closed.
const LAST_MAX: usize = 64;

/// What is open.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    next: AtomicU64,
    files: Mutex<HashMap<u64, Arc<dyn Source>>>,
    directories: Mutex<HashMap<u64, Arc<Mutex<Listing>>>>,
    last: Mutex<VecDeque<(NodeId, Arc<dyn Source>)>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Opened {
    fn handle(&self) -> u64 {
        // 0 is what the kernel has where nothing is opened.
        self.next.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    pub(crate) fn add_file(&self, source: Arc<dyn Source>) -> u64 {
        let handle = self.handle();
        lock(&self.files).insert(handle, source);
        handle
    }

    pub(crate) fn file(&self, handle: u64) -> Option<Arc<dyn Source>> {
        lock(&self.files).get(&handle).cloned()
    }

    pub(crate) fn close_file(&self, handle: u64) {
        lock(&self.files).remove(&handle);
    }

    pub(crate) fn add_directory(&self, directory: NodeId) -> u64 {
        let handle = self.handle();
        lock(&self.directories).insert(handle, Arc::new(Mutex::new(Listing::new(directory))));
        handle
    }

    pub(crate) fn directory(&self, handle: u64) -> Option<Arc<Mutex<Listing>>> {
        lock(&self.directories).get(&handle).cloned()
    }

    pub(crate) fn close_directory(&self, handle: u64) {
        lock(&self.directories).remove(&handle);
    }

    /// The file with this id, if it was read a short time ago.
    pub(crate) fn last(&self, id: NodeId) -> Option<Arc<dyn Source>> {
        lock(&self.last).iter().find(|(of, _)| *of == id).map(|(_, source)| source.clone())
    }

    pub(crate) fn note_last(&self, id: NodeId, source: Arc<dyn Source>) {
        let mut last = lock(&self.last);
        if last.len() >= LAST_MAX {
            last.pop_front();
        }
        last.push_back((id, source));
    }
}
