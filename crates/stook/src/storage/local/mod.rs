//! A storage that is a directory of the local file system.
//!
//! The directory is opened once, and all names are looked up relative to that opening, so that
//! nothing is written or read elsewhere if the directory is moved or replaced. Its contents are not
//! trusted: only regular files are opened, links are never followed ([`directory`]). [`Storage`]
//! specifies what a crash can leave. How it is achieved here:
//! - appenders gather blocks and write them through an engine ([`appender`]); one queue of bounded
//!   depth and memory serves all appenders of a storage ([`queue`]);
//! - publication is temporary file, write, sync, rename that refuses to replace, sync of the
//!   directory ([`publish`]);
//! - locks are `flock`s, which die with their holder; the writer's is on the directory itself
//!   ([`lock`]).
//!
//! It never changes a byte that was written before, but for
//! [`truncate`](super::Appender::truncate).

mod appender;
mod block;
mod directory;
mod holder;
mod lock;
mod network;
mod publish;
mod queue;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::engine::{Access, Backend, EngineFactory, File};
use crate::error::{Error, Result};
use crate::source::{FileSource, Source};
use crate::tree::{Kind, target};

use super::{Appender, AtPath, Entry, Lock, Prepared, Storage, check_name};
use appender::LocalAppender;
use directory::Directory;
use queue::WriteQueue;

pub use directory::{free_at, free_bytes};

/// Which way full blocks take. Tails of blocks always go through the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteAccess {
    /// Past the page cache.
    Direct,
    /// Through the page cache.
    Cached,
}

impl WriteAccess {
    fn access(self) -> Access {
        match self {
            Self::Direct => Access::Direct,
            Self::Cached => Access::Cached,
        }
    }
}

/// How a [`LocalStorage`] writes.
#[derive(Debug, Clone)]
pub struct LocalStorageOptions {
    /// Makes the engines that write and sync.
    pub engine: Arc<dyn EngineFactory>,
    /// Which way full blocks take.
    pub write_access: WriteAccess,
    /// Blocks in flight at most, over all appenders of the storage.
    pub depth: usize,
    /// Bytes of a block: a multiple of 4096.
    pub block_len: usize,
}

/// Direct blocks of 256 KiB, 16 in flight: as fast as the device writes files whose room was made
/// beforehand, where the page cache costs several times the processor time and, at the end, waits
/// for the same device.
impl Default for LocalStorageOptions {
    fn default() -> Self {
        Self {
            engine: Arc::new(Backend::Auto),
            write_access: WriteAccess::Direct,
            depth: 16,
            block_len: 256 << 10,
        }
    }
}

/// A directory of files that grow or are published whole.
#[derive(Debug)]
pub struct LocalStorage {
    directory: Arc<Directory>,
    queue: Arc<WriteQueue>,
}

impl LocalStorage {
    /// Opens a directory that is there.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if it is missing, is not a directory, or may not be read;
    /// `InvalidInput` if the options are invalid.
    pub fn open(path: impl AsRef<Path>, options: LocalStorageOptions) -> Result<Self> {
        let directory = Arc::new(Directory::open(path.as_ref())?);
        let queue = Arc::new(WriteQueue::new(directory.path(), options)?);
        Ok(Self { directory, queue })
    }

    /// Makes a directory, durably, and opens it. Its parent must be there, and not be within a
    /// pack.
    ///
    /// # Errors
    /// Returns [`Error::AlreadyExists`], or the errors of [`open`](Self::open).
    pub fn create(path: impl AsRef<Path>, options: LocalStorageOptions) -> Result<Self> {
        Self::check_create(path.as_ref())?;
        directory::create_durably(path.as_ref())?;
        Self::open(path, options)
    }

    /// Refuses what [`create`](Self::create) refuses, and makes nothing.
    ///
    /// # Errors
    /// Returns the errors of [`create`](Self::create), as far as they can be known before.
    pub(crate) fn check_create(path: &Path) -> Result<()> {
        // Without a trailing slash, which would make the system follow a link.
        let path: PathBuf = path.components().collect();
        // First: a pack that is there already is inside itself.
        if path.symlink_metadata().is_ok() {
            return Err(Error::AlreadyExists { path });
        }
        refuse_inside_pack(&path)?;
        directory::check_writable(directory::parent_of(&path))
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Bytes that may still be written to the file system of the directory.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn free_bytes(&self) -> Result<u64> {
        self.directory.free_bytes()
    }

    fn appender(&self, name: &str, fd: OwnedFd, len: u64) -> Box<dyn Appender> {
        Box::new(LocalAppender::new(&self.queue, &self.path(name), fd, len))
    }
}

fn refuse_inside_pack(path: &Path) -> Result<()> {
    target::refuse_inside_pack(path).map_err(|error| Error::io("make files in", path, error))
}

/// A publication makes regular files; a directory with such a name is foreign.
fn is_leftover(entry: &Entry) -> bool {
    super::is_temporary(&entry.name) && entry.kind != Kind::Directory
}

impl Storage for LocalStorage {
    fn check_place(&self) -> Result<()> {
        refuse_inside_pack(&self.path(""))
    }

    fn at_path(&self) -> Result<AtPath> {
        self.directory.at_path()
    }

    fn check_writable(&self) -> Result<()> {
        directory::check_writable(self.directory.path())
    }

    fn path(&self, name: &str) -> PathBuf {
        match name {
            // Joined to nothing, it would get a slash at its end.
            "" => self.directory.path().to_path_buf(),
            name => self.directory.path().join(name),
        }
    }

    fn free_bytes(&self) -> Result<Option<u64>> {
        self.directory.free_bytes().map(Some)
    }

    fn create(&self, name: &str) -> Result<Box<dyn Appender>> {
        check_name(self.directory.path(), name)?;
        let fd = self.directory.create_file(name)?;
        Ok(self.appender(name, fd, 0))
    }

    fn open_append(&self, name: &str) -> Result<Box<dyn Appender>> {
        check_name(self.directory.path(), name)?;
        let (fd, len) = self.directory.open_file("open for appending", name, OFlags::RDWR)?;
        Ok(self.appender(name, fd, len))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Source>> {
        check_name(self.directory.path(), name)?;
        let (fd, _) = self.directory.open_file("open", name, OFlags::RDONLY)?;
        let file = File::from_std(fd.into(), self.path(name), false);
        Ok(Arc::new(FileSource::new(Arc::new(file))?))
    }

    fn prepare(&self, name: &str, bytes: &[u8]) -> Result<Box<dyn Prepared>> {
        check_name(self.directory.path(), name)?;
        Ok(Box::new(publish::prepare(&self.directory, name, bytes)?))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(self.directory.path(), from)?;
        check_name(self.directory.path(), to)?;
        self.directory.rename(from, to)
    }

    fn unlink(&self, name: &str) -> Result<()> {
        check_name(self.directory.path(), name)?;
        self.directory.unlink(name)
    }

    fn sync_directory(&self) -> Result<()> {
        self.directory.sync()
    }

    fn list(&self) -> Result<Vec<Entry>> {
        let mut entries = self.directory.entries()?;
        entries.retain(|entry| !is_leftover(entry));
        Ok(entries)
    }

    fn remove_leftovers(&self) -> Result<u64> {
        let mut entries = self.directory.entries()?;
        entries.retain(is_leftover);
        for entry in &entries {
            self.directory.unlink(&entry.name)?;
        }
        Ok(entries.len() as u64)
    }

    fn lock(&self, note: &str, holder: &str) -> Result<Box<dyn Lock>> {
        check_name(self.directory.path(), note)?;
        let mut patience = lock::Patience::default();
        Ok(Box::new(lock::take(&self.directory, note, holder, &mut |limit| patience.waits(limit))?))
    }

    fn hold(&self, name: &str) -> Result<Box<dyn Lock>> {
        check_name(self.directory.path(), name)?;
        Ok(Box::new(lock::hold(&self.directory, name)?))
    }

    fn unlink_unless_held(&self, name: &str) -> Result<bool> {
        check_name(self.directory.path(), name)?;
        lock::unlink_unless_held(&self.directory, name)
    }
}
