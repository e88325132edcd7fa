//! An open directory and what is done to the names in it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::super::Entry;
use crate::error::{Error, Result};

/// What files are made with; the umask takes from it.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);

/// A directory that stays the same one whatever becomes of its path.
#[derive(Debug)]
pub(super) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

impl Directory {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| Error::io("open the directory", path, errno.into()))?;
        Ok(Self { fd, path: path.to_path_buf() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// An error about a name in it; a taken name has an error of its own.
    pub(super) fn error(&self, operation: &'static str, name: &str, errno: Errno) -> Error {
        let path = self.path.join(name);
        if errno == Errno::EXIST {
            return Error::AlreadyExists { path };
        }
        Error::io(operation, path, errno.into())
    }

    /// Opens a file relative to the directory.
    pub(super) fn open_at(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat(&self.fd, name, flags | OFlags::CLOEXEC, FILE_MODE)
    }

    pub(super) fn create_file(&self, name: &str) -> Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        self.open_at(name, flags).map_err(|errno| self.error("create", name, errno))
    }

    /// A file that is there, and its length.
    pub(super) fn open_file_to_write(&self, name: &str) -> Result<(OwnedFd, u64)> {
        let fail = |errno| self.error("open for appending", name, errno);
        let fd = self.open_at(name, OFlags::RDWR | OFlags::NONBLOCK).map_err(fail)?;
        let stat = rustix::fs::fstat(&fd).map_err(fail)?;
        // NONBLOCK only keeps the opening from waiting at a pipe; io_uring would take it to mean that
        // writes shall not wait either.
        rustix::fs::fcntl_setfl(&fd, OFlags::empty()).map_err(fail)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
            return Err(Error::io("open for appending", self.path.join(name), source));
        }
        Ok((fd, len_of(&stat)))
    }

    pub(super) fn exists(&self, name: &str) -> Result<bool> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
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

    /// All regular files and links to such, sorted by name. Names that are not UTF-8 are somebody
    /// else's and left out, and so is what vanishes while it is looked at.
    pub(super) fn files(&self) -> Result<Vec<Entry>> {
        let fail = |errno: Errno| Error::io("list", &self.path, errno.into());
        let mut files = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let stat = match rustix::fs::statat(&self.fd, name, AtFlags::empty()) {
                Ok(stat) => stat,
                Err(Errno::NOENT | Errno::LOOP) => continue,
                Err(errno) => return Err(self.error("look at", name, errno)),
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                files.push(Entry { name: name.to_owned(), len: len_of(&stat) });
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    pub(super) fn free_bytes(&self) -> Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.fd)
            .map_err(|errno| Error::io("ask for the free space of", &self.path, errno.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

fn len_of(stat: &rustix::fs::Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Bytes that may still be written to the file system of a directory, by those who are not root.
///
/// # Errors
/// What the system met.
pub fn free_bytes(directory: impl AsRef<Path>) -> Result<u64> {
    Directory::open(directory.as_ref())?.free_bytes()
}

/// Makes a directory and its name durable.
pub(super) fn create_durably(path: &Path) -> Result<()> {
    if let Err(source) = fs::create_dir(path) {
        if source.kind() == io::ErrorKind::AlreadyExists {
            return Err(Error::AlreadyExists { path: path.to_path_buf() });
        }
        return Err(Error::io("create the directory", path, source));
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Directory::open(parent)?.sync()
}
