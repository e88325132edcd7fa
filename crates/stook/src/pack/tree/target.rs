//! A directory into which things are put and out of which nothing can lead.
//!
//! Every path is opened below one directory descriptor, part by part, without following any link: neither
//! `..`, nor an absolute path, nor a link that was there or was just made can lead elsewhere.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;

/// Directories whose descriptors are kept open.
const OPEN_MAX: usize = 256;

/// The parts of a key that is a safe relative path, or why it is not one.
pub(super) fn parts(key: &[u8]) -> Result<Vec<&OsStr>, &'static str> {
    if key.is_empty() {
        return Ok(Vec::new());
    }
    if key.starts_with(b"/") {
        return Err("it is an absolute path");
    }
    let mut parts = Vec::new();
    for part in key.split(|byte| *byte == b'/') {
        match part {
            b"" => return Err("it has an empty part"),
            b"." => return Err("it has a part `.`"),
            b".." => return Err("it has a part `..`"),
            part if part.contains(&0) => return Err("it has a zero byte"),
            part if part.len() > 255 => return Err("it has a part of more than 255 bytes"),
            part => parts.push(OsStr::from_bytes(part)),
        }
    }
    Ok(parts)
}

/// What to set on a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dress {
    pub(super) mode: Option<u32>,
    pub(super) mtime_ns: Option<i64>,
    pub(super) owner: Option<(u32, u32)>,
}

/// The directory.
#[derive(Debug)]
pub(super) struct Target {
    root: Arc<OwnedFd>,
    path: PathBuf,
    open: HashMap<Vec<u8>, Arc<OwnedFd>>,
}

impl Target {
    /// Opens a directory, made if it is not there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        Ok(Self { root: Arc::new(root), path: path.to_path_buf(), open: HashMap::new() })
    }

    /// The path of a key, for messages.
    pub(super) fn path_of(&self, key: &[u8]) -> PathBuf {
        self.path.join(OsStr::from_bytes(key))
    }

    /// The directory itself.
    pub(super) fn root(&self) -> Arc<OwnedFd> {
        self.root.clone()
    }

    /// The directory of these parts, its missing parents and itself made with default modes.
    pub(super) fn directory(&mut self, parts: &[&OsStr]) -> io::Result<Arc<OwnedFd>> {
        let Some((last, parents)) = parts.split_last() else { return Ok(self.root.clone()) };
        let key = parts.iter().map(|part| part.as_bytes()).collect::<Vec<_>>().join(&b'/');
        if let Some(open) = self.open.get(&key) {
            return Ok(open.clone());
        }
        let parent = self.directory(parents)?;
        let open = match open_directory(&parent, last) {
            Err(Errno::NOENT) => {
                match rustix::fs::mkdirat(&parent, *last, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                open_directory(&parent, last)?
            }
            other => other?,
        };
        if self.open.len() >= OPEN_MAX {
            self.open.clear();
        }
        let open = Arc::new(open);
        self.open.insert(key, open.clone());
        Ok(open)
    }
}

fn open_directory(parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        // A link where a directory should be: what the kernel says of it differs with the flags.
        Err(Errno::LOOP) => Err(Errno::NOTDIR),
        other => other,
    }
}

/// Whether something has this name.
pub(super) fn exists(parent: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Makes a file of its own name, to be renamed when it is whole.
pub(super) fn create(parent: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o600))?))
}

/// Gives a finished file its name; `AlreadyExists` unless it may replace.
pub(super) fn publish(parent: &OwnedFd, from: &OsStr, to: &OsStr, replace: bool) -> io::Result<()> {
    if replace {
        return Ok(rustix::fs::renameat(parent, from, parent, to)?);
    }
    match rustix::fs::renameat_with(parent, from, parent, to, RenameFlags::NOREPLACE) {
        // Not every file system knows how: a link also refuses what is there.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(parent, from, parent, to, AtFlags::empty())?;
            Ok(rustix::fs::unlinkat(parent, from, AtFlags::empty())?)
        }
        other => Ok(other?),
    }
}

/// Removes a file that did not become whole.
pub(super) fn remove(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(parent, name, AtFlags::empty())?)
}

/// Owner, mode and modification time of an open file or directory, in the order in which they do not undo
/// one another.
pub(super) fn dress(file: impl AsFd, dress: Dress) -> io::Result<()> {
    if let Some((user, group)) = dress.owner {
        let (user, group) = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(group));
        rustix::fs::fchown(&file, Some(user), Some(group))?;
    }
    if let Some(mode) = dress.mode {
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o7777))?;
    }
    if let Some(ns) = dress.mtime_ns {
        rustix::fs::futimens(&file, &times(ns))?;
    }
    Ok(())
}

/// Owner and modification time of a link itself.
pub(super) fn dress_link(parent: &OwnedFd, name: &OsStr, dress: Dress) -> io::Result<()> {
    if let Some((user, group)) = dress.owner {
        let (user, group) = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(group));
        rustix::fs::chownat(parent, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if let Some(ns) = dress.mtime_ns {
        rustix::fs::utimensat(parent, name, &times(ns), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

fn times(mtime_ns: i64) -> Timestamps {
    let omit = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let modified = Timespec {
        tv_sec: mtime_ns.div_euclid(1_000_000_000),
        tv_nsec: mtime_ns.rem_euclid(1_000_000_000) as _,
    };
    Timestamps { last_access: omit, last_modification: modified }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_relative_paths_without_tricks_have_parts() {
        assert_eq!(parts(b"a/b\xff").unwrap().len(), 2);
        assert_eq!(parts(b"").unwrap().len(), 0);
        for bad in [&b"/a"[..], b"a//b", b"a/", b"./a", b"a/..", b"..", b"a\0b", &[b'x'; 256]] {
            assert!(parts(bad).is_err(), "{bad:?}");
        }
    }
}
