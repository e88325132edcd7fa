//! The system calls of everything that is put into a directory, one method each: tests make each
//! of them fail, and record them.
//!
//! Nothing here decides anything: rules are in the modules that call.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::{Engine, EngineOptions};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid, XattrFlags,
};

/// System calls that change a directory, or a file below it. Each method makes one; its errors are
/// those of the system.
pub trait Calls: Debug + Send + Sync {
    /// Makes a file, which must not be there, and opens it for writing.
    ///
    /// # Errors
    /// I/O errors.
    fn create(&self, parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(mode as _))?))
    }

    /// Makes a file that has no name yet, and opens it for writing.
    ///
    /// # Errors
    /// I/O errors; that the file system, or this system, has no such files.
    fn create_unnamed(&self, parent: BorrowedFd<'_>, mode: u32) -> io::Result<File> {
        #[cfg(target_os = "linux")]
        {
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            Ok(File::from(rustix::fs::openat(parent, ".", flags, Mode::from_raw_mode(mode))?))
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (parent, mode);
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// I/O errors.
    fn make_directory(&self, parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode as _))?)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// I/O errors.
    fn make_symlink(&self, target: &OsStr, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, parent, name)?)
    }

    /// Writes bytes, or the first of them: how many it were.
    ///
    /// # Errors
    /// I/O errors.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.write_at(bytes, offset)
    }

    /// An engine that reserves room for long files and writes them; its operations count as calls.
    ///
    /// # Errors
    /// That there is none.
    fn engine(&self, depth: usize) -> crate::Result<Box<dyn Engine>> {
        EngineOptions::with_depth(depth).build()
    }

    /// Sets the length of a file.
    ///
    /// # Errors
    /// I/O errors.
    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(file, len)?)
    }

    /// Sets user and group.
    ///
    /// # Errors
    /// I/O errors.
    fn set_owner(&self, file: BorrowedFd<'_>, (user, group): (u32, u32)) -> io::Result<()> {
        Ok(rustix::fs::fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?)
    }

    /// Sets the permission bits.
    ///
    /// # Errors
    /// I/O errors.
    fn set_mode(&self, file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(mode as _))?)
    }

    /// Sets the modification time, ns since 1970.
    ///
    /// # Errors
    /// I/O errors.
    fn set_mtime(&self, file: BorrowedFd<'_>, mtime_ns: i64) -> io::Result<()> {
        Ok(rustix::fs::futimens(file, &times(mtime_ns))?)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// I/O errors.
    fn set_xattr(&self, file: BorrowedFd<'_>, name: &[u8], value: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::fsetxattr(file, name, value, XattrFlags::empty())?)
    }

    /// Takes an extended attribute away.
    ///
    /// # Errors
    /// I/O errors.
    fn remove_xattr(&self, file: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::fremovexattr(file, name)?)
    }

    /// Sets user and group of a symbolic link itself.
    ///
    /// # Errors
    /// I/O errors.
    fn set_link_owner(
        &self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        (user, group): (u32, u32),
    ) -> io::Result<()> {
        let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        Ok(rustix::fs::chownat(parent, name, user, group, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Sets the modification time of a symbolic link itself, ns since 1970.
    ///
    /// # Errors
    /// I/O errors.
    fn set_link_mtime(&self, parent: BorrowedFd<'_>, name: &OsStr, mtime_ns: i64) -> io::Result<()> {
        Ok(rustix::fs::utimensat(parent, name, &times(mtime_ns), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Sets an extended attribute of what a path leads to, not of what a link there leads to.
    ///
    /// # Errors
    /// I/O errors.
    fn set_link_xattr(&self, path: &[u8], name: &[u8], value: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::lsetxattr(path, name, value, XattrFlags::empty())?)
    }

    /// Makes a file durable, or the names of a directory.
    ///
    /// # Errors
    /// I/O errors. After one it is not known what is durable, whatever later calls return.
    fn sync(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        Ok(rustix::fs::fsync(file)?)
    }

    /// Makes durable all that was written to the file system of a directory.
    ///
    /// # Errors
    /// I/O errors of any file of it.
    fn sync_file_system(&self, directory: BorrowedFd<'_>) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            Ok(rustix::fs::syncfs(directory)?)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = directory;
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Waits for what a sync began to write of a file, and says what was not written of it since it
    /// was opened. That is the error of this file alone, once for each opening, whichever process
    /// synced; no device is flushed.
    ///
    /// # Errors
    /// I/O errors of this file; that the system cannot say.
    fn wait_written(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        crate::engine::wait_written(file)
    }

    /// The number of the kind of file system that something open lies on, as `statfs(2)` gives it;
    /// `None` if it cannot be known.
    fn kind_of_file_system(&self, file: BorrowedFd<'_>) -> Option<u32> {
        crate::engine::type_of(file)
    }

    /// Whether what is open lies on a file server that copies ranges of its files by itself when it
    /// is asked.
    fn copies_on_server(&self, file: BorrowedFd<'_>) -> bool {
        crate::device::copies_on_server(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
    }

    /// Gives a file another name in its directory, in place of whatever has it.
    ///
    /// # Errors
    /// I/O errors.
    fn rename(&self, parent: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(parent, from, parent, to)?)
    }

    /// Gives a file another name in its directory, which nothing has.
    ///
    /// # Errors
    /// I/O errors; that something has the name, or that the file system cannot tell.
    fn rename_new(&self, parent: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(parent, from, parent, to, RenameFlags::NOREPLACE)?)
    }

    /// Exchanges two names in a directory, both of which something has.
    ///
    /// # Errors
    /// I/O errors; that nothing has one of them, or that the file system cannot.
    fn exchange(&self, parent: BorrowedFd<'_>, one: &OsStr, other: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(parent, one, parent, other, RenameFlags::EXCHANGE)?)
    }

    /// Gives a file one more name, which nothing has.
    ///
    /// # Errors
    /// I/O errors.
    fn link(
        &self,
        from: BorrowedFd<'_>,
        name: &OsStr,
        parent: BorrowedFd<'_>,
        new: &OsStr,
    ) -> io::Result<()> {
        Ok(rustix::fs::linkat(from, name, parent, new, AtFlags::empty())?)
    }

    /// Gives a file without a name its first one, which nothing has.
    ///
    /// # Errors
    /// I/O errors.
    fn link_unnamed(&self, file: &File, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        // Without the way through /proc, which takes longer than the link itself; `NOENT` where the
        // system wants more rights for that.
        #[cfg(target_os = "linux")]
        if LINKS_DESCRIPTORS.load(Ordering::Relaxed) {
            match rustix::fs::linkat(file, c"", parent, name, AtFlags::EMPTY_PATH) {
                Err(rustix::io::Errno::NOENT) => {}
                linked => return Ok(linked?),
            }
        }
        let open = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(CWD, open, parent, name, AtFlags::SYMLINK_FOLLOW)?;
        #[cfg(target_os = "linux")]
        LINKS_DESCRIPTORS.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Locks a file until it is closed; `WouldBlock` if another opening of it has the lock.
    ///
    /// # Errors
    /// I/O errors; that the file system has no locks.
    fn lock(&self, file: &File) -> io::Result<()> {
        Ok(rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?)
    }

    /// Makes a pipe or a device.
    ///
    /// # Errors
    /// I/O errors.
    fn make_node(
        &self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        kind: FileType,
        mode: u32,
        device: u64,
    ) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode as _);
        Ok(rustix::fs::mknodat(parent, name, kind, mode, device as _)?)
    }

    /// Sets the permission bits of what has a name, which is no link.
    ///
    /// # Errors
    /// I/O errors.
    fn set_mode_at(&self, parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::chmodat(parent, name, Mode::from_raw_mode(mode as _), AtFlags::empty())?)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// I/O errors; that something is in it.
    fn remove_directory(&self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
    }

    /// Takes a name away.
    ///
    /// # Errors
    /// I/O errors.
    fn unlink(&self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(parent, name, AtFlags::empty())?)
    }
}

/// Whether this process may give a name to what it has open: with `CAP_DAC_READ_SEARCH`, or from
/// Linux 6.10 on.
#[cfg(target_os = "linux")]
static LINKS_DESCRIPTORS: AtomicBool = AtomicBool::new(true);

/// The system itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl Calls for System {}

fn times(mtime_ns: i64) -> Timestamps {
    let omit = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let modified = Timespec {
        tv_sec: mtime_ns.div_euclid(1_000_000_000),
        tv_nsec: mtime_ns.rem_euclid(1_000_000_000) as _,
    };
    Timestamps { last_access: omit, last_modification: modified }
}
