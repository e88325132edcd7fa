//! Makes durable what lies in a directory.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::outbox::Calls;
use crate::engine::is_fuse;

/// Everything below a directory, and its own name, is on the medium when this returns.
///
/// That is one `syncfs` for what may be very many files. FUSE does not pass it on to who serves the
/// file system, so there each file and directory is synced, and those above it on the same file
/// system, as they may be new. What may be neither read nor written is left out.
///
/// # Errors
/// I/O errors; the data may then be lost although a second call succeeds.
pub(crate) fn sync_below(calls: &dyn Calls, root: impl AsFd) -> io::Result<()> {
    if has_syncfs(&root) {
        return calls.sync_file_system(root.as_fd());
    }
    sync_each(calls, &root)?;
    sync_above(calls, &root)
}

/// Whether one call makes everything durable on the file system of a directory.
pub(crate) fn has_syncfs(root: impl AsFd) -> bool {
    cfg!(target_os = "linux") && !is_fuse(root)
}

/// Syncs files and directories.
fn sync_each(calls: &dyn Calls, root: &impl AsFd) -> io::Result<()> {
    let root = openat(root, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut waiting = vec![root];
    while let Some(directory) = waiting.pop() {
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_synced =
                matches!(entry.file_type(), FileType::RegularFile | FileType::Directory | FileType::Unknown);
            if !is_synced || [c".", c".."].contains(&name) {
                continue;
            }
            let Some(opened) = open(&directory, name)? else { continue };
            match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
                FileType::Directory => waiting.push(opened),
                FileType::RegularFile => calls.sync(opened.as_fd())?,
                _ => {}
            }
        }
        calls.sync(directory.as_fd())?;
    }
    Ok(())
}

/// Opens a file or directory to sync it. `None` if that is refused, or it is neither.
fn open(directory: &OwnedFd, name: &std::ffi::CStr) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let open = |access| openat(directory, name, flags | access, Mode::empty());
    match open(OFlags::RDONLY).or_else(|_| open(OFlags::WRONLY)) {
        Ok(opened) => Ok(Some(opened)),
        // A link, a socket, gone meanwhile, or nothing that may be opened.
        Err(Errno::LOOP | Errno::NXIO | Errno::NOENT | Errno::ACCESS | Errno::ISDIR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Syncs the directories that lead to it.
fn sync_above(calls: &dyn Calls, root: &impl AsFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut place = fstat(root)?;
    let mut parent = openat(root, c"..", flags, Mode::empty());
    loop {
        // What may not be read was not made now.
        let Ok(directory) = parent else { return Ok(()) };
        let above = fstat(&directory)?;
        // At the root of all, the directory above is itself.
        if above.st_dev != place.st_dev || above.st_ino == place.st_ino {
            return Ok(());
        }
        calls.sync(directory.as_fd())?;
        place = above;
        parent = openat(&directory, c"..", flags, Mode::empty());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::CWD;

    use super::super::outbox::System;
    use super::*;

    #[test]
    fn trees_of_all_kinds_are_synced_one_by_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("a/b/c")).unwrap();
        fs::write(path("a/b/c/file"), b"x").unwrap();
        symlink("nowhere", path("a/link")).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        let opened = openat(CWD, directory.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        sync_each(&System, &opened).unwrap();
        sync_above(&System, &opened).unwrap();
        sync_below(&System, &opened).unwrap();
    }
}
