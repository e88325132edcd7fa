//! Files and directories that are open, by the handles that the kernel has for them; and of a mount
//! that opens nothing, the files that were read last.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::BackingId;
use stook::source::Source;
use stook::tree::NodeId;

use crate::listing::Listing;

/// Files that were read last and stay open, where nothing says when they are closed.
const LAST_MAX: usize = 64;

/// What is open.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    next: AtomicU64,
    files: Mutex<Files>,
    directories: Mutex<HashMap<u64, Arc<Mutex<Listing>>>>,
    last: Mutex<VecDeque<(NodeId, Arc<dyn Source>)>>,
}

/// Open files.
#[derive(Debug, Default)]
struct Files {
    by_handle: HashMap<u64, OpenFile>,
    by_node: HashMap<NodeId, Vec<u64>>,
}

/// A file that is open.
#[derive(Debug)]
struct OpenFile {
    id: NodeId,
    source: Arc<dyn Source>,
    /// The file on disk that the kernel reads by itself, if it does.
    backing: Option<Arc<BackingId>>,
}

/// How the kernel reads what was opened.
#[derive(Debug)]
pub(crate) enum Reading {
    /// By requests, through pages in memory.
    Cached,
    /// By requests alone: another handle has the file in another state, and no page in memory may
    /// be of this one.
    Direct,
    /// From a file on disk.
    Backed(Arc<BackingId>),
}

impl Files {
    /// What a node is open by.
    fn of(&self, id: NodeId) -> impl Iterator<Item = &OpenFile> {
        let handles = self.by_node.get(&id).into_iter().flatten();
        handles.filter_map(|handle| self.by_handle.get(handle))
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether two are one file on disk, in whatever states.
fn are_one_file(one: &dyn Source, other: &dyn Source) -> bool {
    let inode = |source: &dyn Source| {
        source.whole_file().map(|_| source.identity()).map(|identity| (identity.device, identity.inode))
    };
    inode(one).is_some_and(|one| inode(other) == Some(one))
}

impl Opened {
    fn handle(&self) -> u64 {
        // 0 is what the kernel has where nothing is opened.
        self.next.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Opens a file for one handle more. All handles of a file that the kernel reads by itself, or
    /// none, are such: `back` is asked for the first. `None` where the kernel reads another file
    /// for it now, and would go on with that.
    pub(crate) fn add_file(
        &self,
        id: NodeId,
        source: Arc<dyn Source>,
        back: impl FnOnce() -> Option<BackingId>,
    ) -> Option<(u64, Reading)> {
        let handle = self.handle();
        let mut files = lock(&self.files);
        let backing = match files.of(id).next() {
            Some(OpenFile { backing: Some(_), source: other, .. }) if !are_one_file(&**other, &*source) => {
                return None;
            }
            Some(other) => other.backing.clone(),
            None => back().map(Arc::new),
        };
        let identity = source.identity();
        let reading = match &backing {
            Some(backing) => Reading::Backed(backing.clone()),
            None if files.of(id).all(|other| other.source.identity().same_content(&identity)) => {
                Reading::Cached
            }
            None => Reading::Direct,
        };
        files.by_handle.insert(handle, OpenFile { id, source, backing });
        files.by_node.entry(id).or_default().push(handle);
        Some((handle, reading))
    }

    /// What a node of a tree that never changes is open by already: what was unpacked for it is
    /// held once.
    pub(crate) fn shared(&self, id: NodeId) -> Option<Arc<dyn Source>> {
        lock(&self.files).of(id).next().map(|open| open.source.clone())
    }

    pub(crate) fn file(&self, handle: u64) -> Option<Arc<dyn Source>> {
        lock(&self.files).by_handle.get(&handle).map(|open| open.source.clone())
    }

    pub(crate) fn close_file(&self, handle: u64) {
        let mut files = lock(&self.files);
        let files = &mut *files;
        let Some(OpenFile { id, backing, .. }) = files.by_handle.remove(&handle) else { return };
        if let Entry::Occupied(mut handles) = files.by_node.entry(id) {
            handles.get_mut().retain(|other| *other != handle);
            if handles.get().is_empty() {
                handles.remove();
            }
        }
        // The last that has it tells the kernel so.
        drop(backing);
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

#[cfg(test)]
mod tests {
    use stook::source::MemorySource;

    use super::*;

    #[test]
    fn a_node_is_open_as_long_as_a_handle_has_it() {
        let opened = Opened::default();
        let (id, other) = (NodeId::new(7), NodeId::new(8));
        let source = || -> Arc<dyn Source> { Arc::new(MemorySource::new("a", vec![1, 2])) };
        let (first, reading) = opened.add_file(id, source(), || None).unwrap();
        assert!(
            matches!(reading, Reading::Cached)
                && opened.shared(id).is_some()
                && opened.shared(other).is_none()
        );
        let (second, _) = opened.add_file(id, source(), || None).unwrap();
        opened.close_file(first);
        assert!(opened.file(first).is_none() && opened.file(second).is_some() && opened.shared(id).is_some());
        opened.close_file(second);
        opened.close_file(second);
        assert!(opened.shared(id).is_none());
        let files = lock(&opened.files);
        assert!(files.by_handle.is_empty() && files.by_node.is_empty());
    }
}
