//! Directories of a walk: each knows its parent and its name, and opens relative to it.
//!
//! Paths are never handed to the system whole: so no path is too long, and a directory that is
//! replaced by a link while the walk is under way is refused instead of followed. Open directories
//! are bounded; one that was closed is reopened from the nearest ancestor that is still open, and
//! must then be the same inode.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::{Mode, OFlags};
use rustix::io::retry_on_intr;

use super::entry::{Kind, Status};
use super::file;

/// Locks whatever another thread left: every guarded value here is valid between any two
/// statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all directories under one root share.
#[derive(Debug)]
pub(super) struct Root {
    /// As the caller named it.
    pub(super) path: PathBuf,
    /// What every key under it begins with: empty, or the name of the root.
    pub(super) prefix: Vec<u8>,
    /// Device of the root directory.
    pub(super) device: u64,
    pub(super) open: Arc<OpenDirectories>,
}

/// A directory that was entered.
#[derive(Debug)]
pub(super) struct Directory {
    root: Arc<Root>,
    parent: Option<Arc<Directory>>,
    /// Empty for the root.
    name: CString,
    device: u64,
    inode: u64,
    handle: Mutex<Option<Arc<OwnedFd>>>,
}

impl Directory {
    /// A root. Its handle is never closed before the walk ends: it is where reopening starts.
    pub(super) fn root(root: Root, handle: OwnedFd, status: &Status) -> Arc<Self> {
        Arc::new(Self {
            root: Arc::new(root),
            parent: None,
            name: CString::default(),
            device: status.device,
            inode: status.inode,
            handle: Mutex::new(Some(Arc::new(handle))),
        })
    }

    /// Enters a directory, without following a link.
    pub(super) fn enter(parent: &Arc<Self>, name: &CStr) -> io::Result<(Arc<Self>, Status)> {
        let handle = open_directory(&*parent.handle()?, name)?;
        let status = file::status(&handle)?;
        if parent.is_inside(status.device, status.inode) {
            return Err(io::Error::other("it is one of its own ancestors; it is not entered again"));
        }
        let directory = Arc::new(Self {
            root: parent.root.clone(),
            parent: Some(parent.clone()),
            name: name.to_owned(),
            device: status.device,
            inode: status.inode,
            handle: Mutex::new(Some(Arc::new(handle))),
        });
        parent.root.open.opened(&directory);
        Ok((directory, status))
    }

    pub(super) fn shared(&self) -> &Root {
        &self.root
    }

    /// Whether this directory or one above it is that inode.
    pub(super) fn is_inside(&self, device: u64, inode: u64) -> bool {
        self.upwards().any(|d| (d.device, d.inode) == (device, inode))
    }

    /// This directory, its parent, and so on.
    fn upwards(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |d| d.parent.as_deref())
    }

    /// The open directory, reopened where it had to be closed.
    pub(super) fn handle(self: &Arc<Self>) -> io::Result<Arc<OwnedFd>> {
        if let Some(handle) = &*lock(&self.handle) {
            return Ok(handle.clone());
        }
        let mut closed = vec![self];
        let mut handle = None;
        let mut above = self.parent.as_ref();
        while let Some(directory) = above {
            if let Some(found) = &*lock(&directory.handle) {
                handle = Some(found.clone());
                break;
            }
            closed.push(directory);
            above = directory.parent.as_ref();
        }
        let mut handle = handle.ok_or_else(|| io::Error::other("the root of the walk is not open"))?;
        for (distance, directory) in closed.into_iter().enumerate().rev() {
            handle = Arc::new(directory.reopen(&handle)?);
            // Often the ones above are asked next, up to the root: from a very deep directory all
            // would be opened again for each of them.
            if distance.is_power_of_two() {
                *lock(&directory.handle) = Some(handle.clone());
                self.root.open.opened(directory);
            }
        }
        *lock(&self.handle) = Some(handle.clone());
        self.root.open.opened(self);
        Ok(handle)
    }

    fn reopen(&self, parent: &OwnedFd) -> io::Result<OwnedFd> {
        #[cfg(test)]
        self.root.open.reopened.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let handle = open_directory(parent, &self.name)?;
        let now = file::status(&handle)?;
        if (now.device, now.inode) != (self.device, self.inode) {
            return Err(io::Error::other("the directory was replaced by another while it was walked"));
        }
        Ok(handle)
    }

    /// The key of the directory itself.
    pub(super) fn key(&self) -> Vec<u8> {
        let mut key = self.root.prefix.clone();
        self.push_parts(&mut key);
        key
    }

    fn push_parts(&self, to: &mut Vec<u8>) {
        let parts: Vec<&CStr> = self.upwards().map(|d| d.name.as_c_str()).collect();
        for part in parts.into_iter().rev().filter(|p| !p.is_empty()) {
            push_part(to, part);
        }
    }

    /// Where an entry of it is, for messages.
    pub(super) fn path_of(&self, name: &CStr) -> PathBuf {
        let mut below = Vec::new();
        self.push_parts(&mut below);
        if !name.is_empty() {
            push_part(&mut below, name);
        }
        if below.is_empty() { self.root.path.clone() } else { self.root.path.join(OsStr::from_bytes(&below)) }
    }
}

impl Drop for Directory {
    /// Lets go of the ancestors one by one: left to the compiler, a tree some ten thousand levels
    /// deep would be dropped by as many nested calls.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(directory) = next {
            next = Arc::into_inner(directory).and_then(|mut d| d.parent.take());
        }
    }
}

/// Appends a part of a path, with a `/` before it unless it is the first.
pub(super) fn push_part(to: &mut Vec<u8>, part: &CStr) {
    if !to.is_empty() {
        to.push(b'/');
    }
    to.extend_from_slice(part.to_bytes());
}

/// Opens a directory below another, never through a link.
fn open_directory(parent: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| rustix::fs::openat(parent, name, flags, Mode::empty()))?)
}

/// Keeps the number of open directories bounded: the one opened longest ago is closed first.
#[derive(Debug)]
pub(super) struct OpenDirectories {
    limit: usize,
    open: Mutex<VecDeque<Weak<Directory>>>,
    /// How often one was opened that was closed before.
    #[cfg(test)]
    reopened: std::sync::atomic::AtomicU64,
}

impl OpenDirectories {
    pub(super) fn with_limit(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            open: Mutex::default(),
            #[cfg(test)]
            reopened: Default::default(),
        }
    }

    fn opened(&self, directory: &Arc<Directory>) {
        let mut surplus = Vec::new();
        {
            let mut open = lock(&self.open);
            open.push_back(Arc::downgrade(directory));
            while open.len() > self.limit {
                surplus.extend(open.pop_front().and_then(|d| d.upgrade()));
            }
        }
        for directory in surplus {
            let closed = lock(&directory.handle).take();
            // Closed outside of the lock, and only now, unless somebody is still using it.
            drop(closed);
        }
    }
}

/// Whether that directory entry is the directory itself or its parent.
pub(super) fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// Opens a root: the only place where a link is followed, because the caller named it.
pub(super) fn open_root(path: &std::path::Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))?)
}

/// The kind of an entry: what the directory says of it, else what its inode says.
pub(super) fn kind_of(handle: &OwnedFd, name: &CStr, said: rustix::fs::FileType) -> io::Result<Kind> {
    match Kind::from_type(said) {
        Some(kind) => Ok(kind),
        None => Ok(file::status_at(handle, name)?.node.kind),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn going_up_from_a_very_deep_directory_opens_few_of_those_above_again() {
        const DEPTH: u64 = 1_000;
        let place = tempfile::tempdir().unwrap();
        let handle = open_root(place.path()).unwrap();
        let status = file::status(&handle).unwrap();
        let open = Arc::new(OpenDirectories::with_limit(64));
        let root =
            Root { path: place.path().into(), prefix: Vec::new(), device: status.device, open: open.clone() };
        let mut directories = vec![Directory::root(root, handle, &status)];
        for _ in 0..DEPTH {
            let above = directories.last().unwrap();
            rustix::fs::mkdirat(&*above.handle().unwrap(), "d", Mode::RWXU).unwrap();
            let (entered, _) = Directory::enter(above, c"d").unwrap();
            directories.push(entered);
        }
        assert!(directories.iter().rev().all(|directory| directory.handle().is_ok()));
        let reopened = open.reopened.load(Ordering::Relaxed);
        assert!((DEPTH / 2..60 * DEPTH).contains(&reopened), "{reopened}");
        // The library's way takes a descriptor for each level.
        drop(directories);
        let removed = std::process::Command::new("rm").arg("-r").arg(place.path().join("d")).status();
        assert!(removed.unwrap().success());
    }
}
