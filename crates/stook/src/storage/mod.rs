//! Anything that publishes bytes: a directory on disk, and in the testing crate a simulator that
//! rebuilds what a medium may hold after a crash.
//!
//! The trait is narrow on purpose. Code that writes through it can be crash-tested: every change to
//! the medium is one of its calls. Names are flat (no `/`); a storage is one directory.
//!
//! Durability:
//! - bytes appended are durable after [`Appender::sync`] returned;
//! - a name made by [`Storage::create`], moved by [`Storage::rename`] or taken away by
//!   [`Storage::unlink`] is durable after [`Storage::sync_directory`] returned;
//! - [`Storage::publish_if_absent`] does all of it: when it returns, the whole file is there
//!   durably under its name; after an earlier crash, either the whole file is there or nothing.

pub(crate) mod cache;
mod local;
mod name;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

pub use local::{LocalStorage, LocalStorageOptions, WriteAccess, free_at, free_bytes};
pub use name::{TEMPORARY_PREFIX, check_name, is_temporary};

use crate::error::Result;
use crate::source::{Source, zeroes};
use crate::tree::Kind;

/// A name in a storage, and its entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// Length of the file in bytes; 0 for anything else.
    pub len: u64,
    /// The kind of the entry. Only files are ever opened: entries of a directory may come from
    /// anywhere, and a FIFO would block its reader forever, a link lead elsewhere, a device act.
    pub kind: Kind,
    /// The inode of a file, and when it changed, in nanoseconds, where there are such.
    pub inode: Option<(u64, i64)>,
}

/// A lock that is held until it is dropped.
pub trait Lock: Send + Sync + fmt::Debug {
    /// The previous holder, as it had named itself, if it still held the lock when it was requested
    /// and released it only by dying; `None` if the lock was free.
    fn waited_for(&self) -> Option<&str> {
        None
    }
}

/// The end of a file that grows.
pub trait Appender: Send + fmt::Debug {
    /// Bytes in the file, those not yet handed to the system included.
    fn len(&self) -> u64;

    /// Whether nothing is in it.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the parts one after another.
    ///
    /// # Errors
    /// The error of an earlier write may be reported here, or by [`flush`](Self::flush) or
    /// [`sync`](Self::sync). After an error the appender refuses all further work.
    fn append(&mut self, parts: &[&[u8]]) -> Result<()>;

    /// Appends this many zeros, as [`append`](Self::append) does. Where files have holes they need
    /// not be written.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    fn append_zeros(&mut self, len: u64) -> Result<()> {
        let mut left = len;
        while left > 0 {
            let some = zeroes(left);
            self.append(&[some])?;
            left -= some.len() as u64;
        }
        Ok(())
    }

    /// Hands everything to the system, so that other openings of the file see it.
    ///
    /// # Errors
    /// Returns the error of a write.
    fn flush(&mut self) -> Result<()>;

    /// [`flush`](Self::flush), then waits until all of it is on the medium.
    ///
    /// # Errors
    /// Returns the error of a write or of the sync. A failed sync is final: the data may be lost,
    /// and a second sync would wrongly succeed.
    fn sync(&mut self) -> Result<()>;

    /// Cuts the file back to `len` bytes; what follows was never acknowledged.
    ///
    /// # Errors
    /// Returns I/O errors; `InvalidInput` if `len` is more than its length.
    fn truncate(&mut self, len: u64) -> Result<()>;

    /// Rewrites the bytes of the file from offset `from` on, unchanged.
    ///
    /// After a failed sync, the system may return bytes that never reached the medium, and that no
    /// later sync writes. Call this before using a file further whose last sync is not known to
    /// have succeeded; the next [`sync`](Self::sync) then covers these bytes too.
    ///
    /// # Errors
    /// Returns an error if reading or writing fails.
    fn rewrite(&mut self, from: u64) -> Result<()>;
}

/// A complete file on the medium that does not have its final name yet. If it is dropped, nothing
/// of it stays.
pub trait Prepared: Send + fmt::Debug {
    /// Makes it appear under its name, durably, or finds the name taken and changes nothing.
    ///
    /// # Errors
    /// Returns [`Error::AlreadyExists`](crate::Error::AlreadyExists), or an I/O error. The file may
    /// then have its name or not, and after a crash as well.
    fn publish(self: Box<Self>) -> Result<()>;
}

/// What the path leads to by which a storage was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtPath {
    /// The storage.
    Itself,
    /// Something else: the storage was deleted or moved, and this took its place.
    Another,
    /// Nothing.
    Nothing,
}

/// A flat namespace of files that grow or are published whole.
pub trait Storage: Send + Sync + fmt::Debug {
    /// The path of a name, for messages.
    fn path(&self, name: &str) -> PathBuf;

    /// Returns an error if a new set of files does not belong here, because this place is within a
    /// pack.
    ///
    /// # Errors
    /// Returns that error, or an I/O error.
    fn check_place(&self) -> Result<()> {
        Ok(())
    }

    /// What its path leads to by now.
    ///
    /// # Errors
    /// Returns I/O errors.
    fn at_path(&self) -> Result<AtPath> {
        Ok(AtPath::Itself)
    }

    /// Returns an error if no file can be made here, as far as that can be determined without
    /// making one.
    ///
    /// # Errors
    /// Returns that error.
    fn check_writable(&self) -> Result<()> {
        Ok(())
    }

    /// Bytes that may still be written here; `None` where that is not known.
    ///
    /// # Errors
    /// Returns I/O errors.
    fn free_bytes(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Makes an empty file.
    ///
    /// # Errors
    /// Returns [`Error::AlreadyExists`](crate::Error::AlreadyExists), or an I/O error.
    fn create(&self, name: &str) -> Result<Box<dyn Appender>>;

    /// Opens a file to append to it; appending continues after its last byte.
    ///
    /// # Errors
    /// Returns [`Error::NotARegularFile`](crate::Error::NotARegularFile), or an I/O error, also for
    /// a missing file.
    fn open_append(&self, name: &str) -> Result<Box<dyn Appender>>;

    /// Opens a file for reading, with the length it has now.
    ///
    /// # Errors
    /// Returns [`Error::NotARegularFile`](crate::Error::NotARegularFile), or an I/O error, also for
    /// a missing file.
    fn open(&self, name: &str) -> Result<Arc<dyn Source>>;

    /// Writes and syncs a publication without its final name: if this fails, the file was never
    /// visible.
    ///
    /// # Errors
    /// Returns [`Error::AlreadyExists`](crate::Error::AlreadyExists), or an I/O error.
    fn prepare(&self, name: &str, bytes: &[u8]) -> Result<Box<dyn Prepared>>;

    /// Makes a whole file appear under `name`, durably, or finds the name taken and changes
    /// nothing.
    ///
    /// # Errors
    /// Returns [`Error::AlreadyExists`](crate::Error::AlreadyExists), or an I/O error.
    fn publish_if_absent(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.prepare(name, bytes)?.publish()
    }

    /// Renames a file, replacing an existing one.
    ///
    /// # Errors
    /// Returns I/O errors.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Takes a file away.
    ///
    /// # Errors
    /// Returns I/O errors, including a missing file.
    fn unlink(&self, name: &str) -> Result<()>;

    /// Makes creations, renames and unlinks durable.
    ///
    /// # Errors
    /// Returns I/O errors.
    fn sync_directory(&self) -> Result<()>;

    /// All names, sorted, as they were at one moment; temporary files of publications under way are
    /// left out. A name that existed throughout is included, and so is at least one of two names if
    /// the second appeared before the first was removed.
    ///
    /// # Errors
    /// Returns I/O errors.
    fn list(&self) -> Result<Vec<Entry>>;

    /// Removes the temporary files of publications that a crash or a dead process left half-made,
    /// and returns how many there were. Call it only while holding the lock that all who publish
    /// here hold: a publication under way would lose its file, and fail.
    ///
    /// # Errors
    /// Returns I/O errors.
    fn remove_leftovers(&self) -> Result<u64>;

    /// Takes the one exclusive lock of the storage, held until the value is dropped or the process
    /// dies. It is on the storage itself, so there is no file whose removal would let another in.
    /// While it is held, the file `note` contains `holder` for others to read; that file is
    /// replaced and never followed, and locks nothing.
    ///
    /// A lock whose holder is dying is waited for, but not for long: see [`Lock::waited_for`].
    ///
    /// # Errors
    /// Returns [`Error::Locked`](crate::Error::Locked) with what the holder left,
    /// [`Error::NoLocks`](crate::Error::NoLocks), or an I/O error.
    fn lock(&self, note: &str, holder: &str) -> Result<Box<dyn Lock>>;

    /// Keeps a file from [`unlink_unless_held`](Self::unlink_unless_held) until the value is
    /// dropped or every process that has it is dead. Any number may hold the same file.
    ///
    /// # Errors
    /// Returns I/O errors; `NotFound` also if the file was being removed.
    fn hold(&self, name: &str) -> Result<Box<dyn Lock>>;

    /// Removes a file unless it is held; returns whether it was removed.
    ///
    /// # Errors
    /// Returns I/O errors. A file that is already gone is not an error.
    fn unlink_unless_held(&self, name: &str) -> Result<bool>;
}
