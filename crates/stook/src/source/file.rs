//! [`FileSource`]: a file that is read by range.
//!
//! Its length is fixed when it is made. It never reads; its leaves say where the bytes are.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::address::misspelt;
use super::{Identity, Leaf, Source, check_bounds};
use crate::engine::File;
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::tree::{HOLES_MAX, Holes, Kind};

/// A file, or the first part of one that grows.
#[derive(Debug, Clone)]
pub struct FileSource {
    file: Arc<File>,
    identity: Identity,
    /// Whether the file may grow past the length that is fixed here.
    is_prefix: bool,
}

impl FileSource {
    /// Opens a file for reading, with the length it has now.
    ///
    /// # Errors
    /// Returns I/O errors, and an error if it is a directory, or anything else that cannot be read
    /// in parts, or if the path was probably meant as an address.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = open_at_once(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => misspelt(path).unwrap_or_else(|| Error::io("open", path, error)),
            _ => Error::io("open", path, error),
        })?;
        // It can be opened and has a length, and only a read would be refused.
        if file.metadata().map_err(|error| Error::io("open", path, error))?.is_dir() {
            return Err(Error::io("open", path, Errno::ISDIR.into()));
        }
        Self::opened(file, path)
    }

    /// A file that was opened for reading without blocking (`O_NONBLOCK`), with its current length.
    ///
    /// # Errors
    /// Returns the errors of [`open`](Self::open).
    pub(crate) fn opened(file: fs::File, path: &Path) -> Result<Self> {
        let file = waiting(file, path)?;
        check_kind(&file)?;
        let identity = file.identity()?;
        Self::of_regular(file, identity)
    }

    /// A regular file that was opened for reading without waiting, and what it was when it was
    /// open: nothing is asked a second time.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn regular(file: fs::File, path: &Path, identity: Identity) -> Result<Self> {
        Self::of_regular(waiting(file, path)?, identity)
    }

    fn of_regular(file: File, identity: Identity) -> Result<Self> {
        let source = Self { file: Arc::new(file), identity, is_prefix: false };
        if source.is_empty() { source.checked_empty() } else { Ok(source) }
    }

    /// An open file, with the length it has now.
    ///
    /// # Errors
    /// Returns I/O errors, and an error if it cannot be read in parts.
    pub fn new(file: Arc<File>) -> Result<Self> {
        check_kind(&file)?;
        let identity = file.identity()?;
        Ok(Self { file, identity, is_prefix: false })
    }

    /// The first `len` bytes of a file that others append to. Its identity leaves out the times,
    /// and does not change while the file is at least that long.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn prefix(file: Arc<File>, len: u64) -> Result<Self> {
        let identity = Identity { len, ..identity_of_prefix(&file, len)? };
        Ok(Self { file, identity, is_prefix: true })
    }

    /// The same, if its length is 0 because it is empty. Files that the kernel makes up as they are
    /// read, as in `/proc`, say 0 of themselves and have bytes all the same.
    fn checked_empty(self) -> Result<Self> {
        let has_bytes = self.file.read_at(&mut [0], 0)? > 0;
        // It may have been written just now.
        let now = Self::new(self.file)?;
        if !has_bytes || !now.is_empty() {
            return Ok(now);
        }
        let what =
            "its length is not known, so that it cannot be read in parts: it says 0, and there are bytes";
        Err(Error::Address { path: now.path().to_path_buf(), what: what.into() })
    }

    /// The file it reads.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }
}

/// Without waiting: nothing ends the opening of a FIFO without a writer.
fn open_at_once(path: &Path) -> io::Result<fs::File> {
    match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        // Another process has a lease on it, and releases it to an opener that waits. Only regular
        // files can have leases.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => fs::File::open(path),
        opened => opened,
    }
}

/// Its reads are to wait: engines pass on that a device was not ready.
fn waiting(file: fs::File, path: &Path) -> Result<File> {
    let failed = |error: Errno| Error::io("open", path, error.into());
    let flags = fcntl_getfl(&file).map_err(failed)?;
    fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK)).map_err(failed)?;
    Ok(File::from_std(file, path, false))
}

/// Only a regular file has a length, and bytes at positions that stay what they are.
fn check_kind(file: &File) -> Result<()> {
    let kind = Kind::of(FileType::from_raw_mode(file.metadata()?.mode()));
    if kind == Kind::File {
        return Ok(());
    }
    let what = format!("it is {}, which cannot be read in parts", kind.noun());
    Err(Error::Address { path: file.path().to_path_buf(), what })
}

fn identity_of_prefix(file: &File, len: u64) -> Result<Identity> {
    let now = file.identity()?;
    Ok(Identity { len: now.len.min(len), mtime_ns: 0, ctime_ns: 0, ..now })
}

impl Source for FileSource {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn len(&self) -> u64 {
        self.identity.len
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn current_identity(&self) -> Result<Identity> {
        if self.is_prefix { identity_of_prefix(&self.file, self.identity.len) } else { self.file.identity() }
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        if !range.is_empty() {
            leaves.push(Leaf::File { file: Arc::clone(&self.file), range });
        }
        Ok(())
    }

    fn holes(&self) -> Result<Holes> {
        Ok(Holes::of(self.file.holes(self.identity.len, HOLES_MAX)?))
    }

    fn whole_file(&self) -> Option<&Arc<File>> {
        (!self.is_prefix).then_some(&self.file)
    }
}
