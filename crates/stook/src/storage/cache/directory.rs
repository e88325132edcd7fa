//! The directory of a cache: its files by name, and the locks on them.
//!
//! A lock belongs to an open file description, which a forked child shares. So a file is opened
//! again for each lock.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, Stat, UTIME_NOW, UTIME_OMIT};
use rustix::io::{Errno, retry_on_intr};

use super::salt;
use crate::error::{Error, Result};
use crate::tree::target;

pub(crate) const LOCK: &str = "lock";
const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
/// The unit of `st_blocks`.
const BLOCK: u64 = 512;

/// Which file it is: as long as it is held open, no other has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64);

/// Metadata of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct About {
    pub(crate) id: FileId,
    pub(crate) len: u64,
    /// Its size on disk.
    pub(crate) disk_bytes: u64,
    pub(crate) modified: (i64, i64),
}

pub(crate) fn about(file: &File) -> io::Result<About> {
    let found = file.metadata()?;
    Ok(About {
        id: FileId(found.dev(), found.ino()),
        len: found.len(),
        disk_bytes: found.blocks().saturating_mul(BLOCK),
        modified: (found.mtime(), found.mtime_nsec()),
    })
}

fn about_name(stat: &Stat) -> About {
    About {
        id: FileId(stat.st_dev, stat.st_ino),
        len: stat.st_size.cast_unsigned(),
        disk_bytes: stat.st_blocks.cast_unsigned().saturating_mul(BLOCK),
        modified: (stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
    }
}

/// An open directory. It stays the same one even if its path changes.
#[derive(Debug)]
pub(crate) struct CacheDirectory {
    fd: Arc<OwnedFd>,
    path: PathBuf,
}

/// A lock held; dropping it lets it go.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) file: File,
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing it comes next and does the same, unless a child that was forked meanwhile has it
        // too.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl CacheDirectory {
    /// Opens it, or makes it for the user of this process only.
    ///
    /// Its contents are returned as the bytes of sources. So no other user may be able to write
    /// there. A directory with files of which none belongs to a cache is refused, and one within a
    /// pack: ours must not be mixed with them. `is_of_an_entry` says which names such files have
    /// beside those that all caches have.
    pub(crate) fn open(path: &Path, is_of_an_entry: impl Fn(&str) -> bool) -> Result<Self> {
        target::refuse_inside_pack(path).map_err(|error| Error::io("keep a cache in", path, error))?;
        let directory = Self::open_safe(path)?;
        let is_own = directory.refuse_others(is_of_an_entry);
        is_own.map_err(|error| Error::io("keep a cache in", path, error))?;
        Ok(directory)
    }

    fn open_safe(path: &Path) -> Result<Self> {
        let fail = |operation| move |error: io::Error| Error::io(operation, path, error);
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(fail("make the directory"))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = || rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from);
        let fd = open().map_err(fail("open the directory"))?;
        let stat = rustix::fs::fstat(&fd).map_err(|errno| fail("look at")(errno.into()))?;
        let user = rustix::process::geteuid().as_raw();
        if (stat.st_uid != user && stat.st_uid != 0) || stat.st_mode & 0o022 != 0 {
            let what = "others may write there, whose bytes would be taken for those of sources";
            let error = io::Error::new(io::ErrorKind::PermissionDenied, what);
            return Err(fail("keep a cache in")(error));
        }
        Ok(Self { fd: Arc::new(fd), path: path.to_path_buf() })
    }

    /// One file is enough to recognise a cache: the first opening may have been interrupted, and
    /// any file of a cache may be removed.
    fn refuse_others(&self, is_of_an_entry: impl Fn(&str) -> bool) -> io::Result<()> {
        let mut is_empty = true;
        for name in self.names()? {
            // Others have files called `lock` or `salt`, too.
            let is_own = match name.as_str() {
                LOCK => self.about(&name)?.is_some_and(|about| about.len == 0),
                salt::NAME => self.about(&name)?.is_some_and(|about| about.len == salt::LEN as u64),
                name => is_of_an_entry(name) || salt::is_draft(name),
            };
            if is_own {
                return Ok(());
            }
            // The last is in every file system of its own.
            is_empty &= matches!(name.as_str(), "." | ".." | "lost+found");
        }
        let what =
            "it holds other files, and none of a cache; give a directory that is empty, or not there yet";
        if is_empty { Ok(()) } else { Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, what)) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// It, for what publishes files.
    pub(crate) fn handle(&self) -> &Arc<OwnedFd> {
        &self.fd
    }

    /// Opens a file that is there.
    pub(crate) fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        // Without blocking: a pipe that was put there is not read, and nothing waits for its other
        // end.
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        Ok(retry_on_intr(|| rustix::fs::openat(&*self.fd, name, flags, FILE_MODE))?.into())
    }

    pub(crate) fn create_file(&self, name: &str) -> io::Result<File> {
        self.open_file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    /// The metadata of the file with this name, if there is one.
    pub(crate) fn about(&self, name: &str) -> io::Result<Option<About>> {
        match rustix::fs::statat(&*self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(about_name(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&*self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&*self.fd, from, &*self.fd, to)?)
    }

    /// The names of all files.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&*self.fd)? {
            // Names that are not UTF-8 are not ours.
            if let Ok(name) = entry?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Locks the directory, to begin, remove or shorten an entry.
    pub(crate) fn lock(&self) -> io::Result<Locked> {
        let file = self.open_file(LOCK, OFlags::RDWR | OFlags::CREATE)?;
        retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
        Ok(Locked { file })
    }

    /// The same, or `None` if it is already locked.
    pub(crate) fn try_lock(&self) -> io::Result<Option<Locked>> {
        let file = self.open_file(LOCK, OFlags::RDWR | OFlags::CREATE)?;
        Ok(Self::try_lock_file(&file, false)?.then_some(Locked { file }))
    }

    /// Locks a file that is open: shared with others that use it, or against all of them; `false`
    /// if that cannot be now. The lock lasts until the file is closed.
    pub(crate) fn try_lock_file(file: &File, is_shared: bool) -> io::Result<bool> {
        let operation = match is_shared {
            true => FlockOperation::NonBlockingLockShared,
            false => FlockOperation::NonBlockingLockExclusive,
        };
        match retry_on_intr(|| rustix::fs::flock(file, operation)) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Locks the index of an entry for adding to it, and returns its metadata then; `None` if it is
    /// gone.
    pub(crate) fn lock_index(&self, name: &str) -> io::Result<Option<(Locked, About)>> {
        loop {
            let file = match self.open_file(name, OFlags::RDWR) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
            let locked = Locked { file };
            let found = about(&locked.file)?;
            // It may have been replaced while this waited.
            if self.about(name)?.is_some_and(|current| current.id == found.id) {
                return Ok(Some((locked, found)));
            }
        }
    }
}

/// Notes that a file was used now.
pub(crate) fn stamp(file: &File) -> io::Result<()> {
    let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    set_times(file, now)
}

/// Sets the modification time of a file.
pub(crate) fn set_modified(file: &File, (seconds, ns): (i64, i64)) -> io::Result<()> {
    set_times(file, rustix::fs::Timespec { tv_sec: seconds, tv_nsec: ns })
}

fn set_times(file: &File, last_modification: rustix::fs::Timespec) -> io::Result<()> {
    let last_access = rustix::fs::Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    Ok(rustix::fs::futimens(file, &rustix::fs::Timestamps { last_access, last_modification })?)
}

/// Frees the space of a range of a file; it then reads as zeros.
#[cfg(target_os = "linux")]
pub(crate) fn punch(file: &File, start: u64, len: u64) -> io::Result<()> {
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    Ok(retry_on_intr(|| rustix::fs::fallocate(file, flags, start, len))?)
}

/// Where it cannot be had back in parts, entries are evicted whole.
#[cfg(not(target_os = "linux"))]
pub(crate) fn punch(_file: &File, _start: u64, _len: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Bytes of a file from `start` on; fewer than `len` only where it ends.
pub(crate) fn read_up_to(file: &File, start: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, start.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
