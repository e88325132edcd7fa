//! An open directory and the operations on its names.
//!
//! Entries of the directory may come from others: a FIFO without a writer, a link to one of the
//! user's files, a device. So every file is opened in one place, [`Directory::open_at`], relative
//! to the open directory, and only if it is a regular file.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, StatVfs};
use rustix::io::Errno;

use super::super::{AtPath, Entry};
use crate::error::{Error, Result};
use crate::tree::Kind;

/// What files are made with; the umask takes from it.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);

/// How often a listing is made again while names change.
const LIST_TRIES_MAX: u32 = 20;

/// Bytes of names that one system call returns: about 20,000 names.
const LIST_LEN: usize = 1 << 20;

/// Names with their kinds.
type Names = BTreeMap<String, Kind>;

/// An open directory. It stays the same one even if its path changes.
#[derive(Debug)]
pub(super) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// The path may lead through links: it is the user's. The contents of the directory are not
    /// trusted.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // What is not there need not have been meant as a directory.
        let operation = |errno: Errno| if errno == Errno::NOENT { "open" } else { "open the directory" };
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| Error::io(operation(errno), path, errno.into()))?;
        Ok(Self { fd, path: path.to_path_buf() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// One more opening of the same directory: locks belong to openings.
    pub(super) fn open_again(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.fd, ".", flags, Mode::empty())
    }

    /// What its path leads to by now.
    pub(super) fn at_path(&self) -> Result<AtPath> {
        let fail = |errno: Errno| Error::io("look at", &self.path, errno.into());
        let own = rustix::fs::fstat(&self.fd).map_err(fail)?;
        match rustix::fs::stat(&self.path) {
            Ok(there) if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino) => Ok(AtPath::Itself),
            Ok(_) => Ok(AtPath::Another),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(AtPath::Nothing),
            Err(errno) => Err(fail(errno)),
        }
    }

    /// An error about a name in it; a taken name has an error of its own.
    pub(super) fn error(&self, operation: &'static str, name: &str, errno: Errno) -> Error {
        let path = self.path.join(name);
        if errno == Errno::EXIST {
            return Error::AlreadyExists { path };
        }
        Error::io(operation, path, errno.into())
    }

    /// Opens a file relative to the directory: never through a link, without waiting for the other
    /// end of a FIFO, without becoming the owner of a terminal.
    fn open_at(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let careful = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        rustix::fs::openat(&self.fd, name, flags | careful, FILE_MODE)
    }

    pub(super) fn create_file(&self, name: &str) -> Result<OwnedFd> {
        let fail = |errno| self.error("create", name, errno);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let fd = self.open_at(name, flags).map_err(fail)?;
        rustix::fs::fcntl_setfl(&fd, OFlags::empty()).map_err(fail)?;
        Ok(fd)
    }

    /// A regular file that is there, and its length.
    ///
    /// # Errors
    /// Returns [`Error::NotARegularFile`], or an I/O error.
    pub(super) fn open_file(
        &self,
        operation: &'static str,
        name: &str,
        flags: OFlags,
    ) -> Result<(OwnedFd, u64)> {
        let fail = |errno| self.error(operation, name, errno);
        // Asked before it is opened, because opening alone makes some devices act; and after,
        // because it may have been replaced between the two.
        self.check_regular(name, &self.about(name).map_err(fail)?)?;
        let fd = self.open_at(name, flags).map_err(|errno| self.refused(operation, name, errno))?;
        let stat = rustix::fs::fstat(&fd).map_err(fail)?;
        self.check_regular(name, &stat)?;
        // NONBLOCK only keeps the opening from waiting; io_uring would take it to mean that reads
        // and writes shall not wait either.
        rustix::fs::fcntl_setfl(&fd, OFlags::empty()).map_err(fail)?;
        Ok((fd, len_of(&stat)))
    }

    /// The status of the entry with this name, without following links.
    fn about(&self, name: &str) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn check_regular(&self, name: &str, stat: &Stat) -> Result<()> {
        match kind_of(stat) {
            Kind::File => Ok(()),
            kind => Err(Error::NotARegularFile { path: self.path.join(name), found: kind.noun() }),
        }
    }

    /// Why an opening failed: because of what the name leads to by now, if that is not a file.
    fn refused(&self, operation: &'static str, name: &str, errno: Errno) -> Error {
        let about = self.about(name).ok();
        let what = about.and_then(|stat| self.check_regular(name, &stat).err());
        what.unwrap_or_else(|| self.error(operation, name, errno))
    }

    pub(super) fn exists(&self, name: &str) -> Result<bool> {
        match self.about(name) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(self.error("look at", name, errno)),
        }
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Result<()> {
        rustix::fs::renameat(&self.fd, from, &self.fd, to).map_err(|errno| self.error("rename", from, errno))
    }

    pub(super) fn unlink(&self, name: &str) -> Result<()> {
        rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())
            .map_err(|errno| self.error("remove", name, errno))
    }

    pub(super) fn sync(&self) -> Result<()> {
        rustix::fs::fsync(&self.fd).map_err(|errno| Error::io("sync the directory", &self.path, errno.into()))
    }

    /// All entries, sorted, as they were at one moment. Names that are not UTF-8 are foreign and
    /// left out.
    ///
    /// Lengths are those of a moment later. Files that are gone by then are listed without one:
    /// leaving them out would hide that there had been something newer than the other listed files.
    pub(super) fn entries(&self) -> Result<Vec<Entry>> {
        let names = self.names()?.into_iter();
        names.map(|(name, kind)| self.look_at(&name, kind)).collect()
    }

    /// The names at one moment, and their inodes. A listing that takes several calls while names
    /// change may miss both a removed name and a name that appeared before it: it is repeated until
    /// two are equal.
    fn names(&self) -> Result<Names> {
        let (mut names, mut is_one_call) = self.list_once()?;
        for _ in 0..LIST_TRIES_MAX {
            if is_one_call {
                break;
            }
            let again = self.list_once()?;
            is_one_call = again.1 || again.0 == names;
            names = again.0;
        }
        Ok(names)
    }

    /// Names, and whether one system call returned all of them: a directory does not change during
    /// one call.
    fn list_once(&self) -> Result<(Names, bool)> {
        let fail = |errno: Errno| Error::io("list", &self.path, errno.into());
        let fd = self.open_again().map_err(fail)?;
        let mut buffer = Vec::with_capacity(LIST_LEN);
        let mut entries = RawDir::new(fd, buffer.spare_capacity_mut());
        let (mut names, mut calls) = (Names::new(), 0);
        loop {
            let is_next_call = entries.is_buffer_empty();
            let Some(entry) = entries.next() else { break };
            calls += usize::from(is_next_call);
            let entry = entry.map_err(fail)?;
            match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => drop(names.insert(name.to_owned(), Kind::of(entry.file_type()))),
            }
        }
        Ok((names, calls <= 1))
    }

    /// The name of an entry, and its inode when it was listed.
    fn look_at(&self, name: &str, kind: Kind) -> Result<Entry> {
        let (kind, len, inode) = match self.about(name) {
            Ok(stat) if kind_of(&stat) == Kind::File => {
                (Kind::File, len_of(&stat), Some((stat.st_ino, ctime_ns(&stat))))
            }
            Ok(stat) => (kind_of(&stat), 0, None),
            Err(Errno::NOENT) => (kind, 0, None),
            Err(errno) => return Err(self.error("look at", name, errno)),
        };
        Ok(Entry { name: name.to_owned(), len, kind, inode })
    }

    pub(super) fn free_bytes(&self) -> Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.fd)
            .map_err(|errno| Error::io("ask for the free space of", &self.path, errno.into()))?;
        Ok(free_of(&stat))
    }
}

fn len_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn ctime_ns(stat: &Stat) -> i64 {
    stat.st_ctime.saturating_mul(1_000_000_000).saturating_add(stat.st_ctime_nsec as i64)
}

fn kind_of(stat: &Stat) -> Kind {
    Kind::of(FileType::from_raw_mode(stat.st_mode))
}

/// Bytes that may still be written to the file system of a directory, by those who are not root.
///
/// # Errors
/// Returns I/O errors.
pub fn free_bytes(directory: impl AsRef<Path>) -> Result<u64> {
    Directory::open(directory.as_ref())?.free_bytes()
}

/// The same where a path is, or will be made. What is there is followed: a link may lead to another
/// file system, and `/dev/fd/3` to a file on any.
///
/// # Errors
/// Returns I/O errors.
pub fn free_at(path: impl AsRef<Path>) -> Result<u64> {
    let there = path.as_ref().ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let stat = rustix::fs::statvfs(there)
        .map_err(|errno| Error::io("ask for the free space of", there, errno.into()))?;
    Ok(free_of(&stat))
}

fn free_of(stat: &StatVfs) -> u64 {
    stat.f_bavail.saturating_mul(stat.f_frsize)
}

/// Makes a directory and its name durable.
pub(super) fn create_durably(path: &Path) -> Result<()> {
    if let Err(source) = fs::create_dir(path) {
        if source.kind() == io::ErrorKind::AlreadyExists {
            return Err(Error::AlreadyExists { path: path.to_path_buf() });
        }
        return Err(Error::io("create the directory", path, source));
    }
    Directory::open(parent_of(path))?.sync()
}

/// The directory that a path is in.
pub(super) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Whether files can be made in a directory, as far as rights and the mount show.
///
/// # Errors
/// Returns the reason if not.
pub(super) fn check_writable(path: &Path) -> Result<()> {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
        .map_err(|errno| Error::io("make files in", path, errno.into()))
}
