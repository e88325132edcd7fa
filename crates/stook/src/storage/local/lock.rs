//! Locks that die with their holder: exclusive ones for writers, shared ones that keep a file from removal.
//!
//! A lock is a file and a `flock` on it. The file stays when the lock is let go: removing it would let
//! two processes lock two files of one name. What is written in it says who holds it, or held it last.
//!
//! A `flock` belongs to the opening of the file, which a forked child shares. An exclusive lock is let go for all of
//! them when the process that took it drops it, so that no child keeps a pack locked; and a child that drops its
//! copy takes nothing from its parent. A shared one is kept until the last copy is closed: a child goes on reading
//! what its parent held.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::super::Lock;
use super::directory::Directory;
use crate::error::{Error, Result};

/// How much of a lock file is read: more than any holder writes.
const HOLDER_LEN_MAX: usize = 4096;

/// A lock held; dropping it lets it go.
#[derive(Debug)]
pub(super) struct LocalLock {
    /// The kernel lets the lock go when this is closed, and when the process dies.
    file: File,
    /// Who took it.
    process: u32,
}

impl Lock for LocalLock {}

impl Drop for LocalLock {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // Closing the file comes next and does the same, unless a child has it too.
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
    }
}

/// A file that is kept from removal.
#[derive(Debug)]
pub(super) struct LocalHold {
    _file: Option<File>,
}

impl Lock for LocalHold {}

/// Holds a file that is there; `NotFound` when it is not, or is being removed.
pub(super) fn hold(directory: &Directory, name: &str) -> Result<LocalHold> {
    let fail = |errno| directory.error("hold", name, errno);
    let file = File::from(directory.open_at(name, OFlags::RDONLY | OFlags::NONBLOCK).map_err(fail)?);
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(fail(Errno::NOENT)),
        // Where nobody can lock, nobody removes: see `unlink_unless_held`.
        Err(errno) if cannot_lock(errno) => return Ok(LocalHold { _file: None }),
        Err(errno) => return Err(fail(errno)),
    }
    // It may have been removed between the opening and the lock.
    if rustix::fs::fstat(&file).map_err(fail)?.st_nlink == 0 {
        return Err(fail(Errno::NOENT));
    }
    Ok(LocalHold { _file: Some(file) })
}

/// Removes a file that nobody holds; whether it is gone.
pub(super) fn unlink_unless_held(directory: &Directory, name: &str) -> Result<bool> {
    let fail = |errno| directory.error("remove", name, errno);
    // Over NFS an exclusive lock needs an opening for writing.
    let file = match directory.open_at(name, OFlags::RDWR | OFlags::NONBLOCK) {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT) => return Ok(true),
        Err(errno) => return Err(fail(errno)),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(false),
        Err(errno) if cannot_lock(errno) => return Ok(false),
        Err(errno) => return Err(fail(errno)),
    }
    match directory.unlink(name) {
        Err(error) if error.io_kind() != Some(io::ErrorKind::NotFound) => Err(error),
        _ => Ok(true),
    }
}

/// Whether the file system has no locks.
fn cannot_lock(errno: Errno) -> bool {
    [Errno::NOLCK, Errno::NOSYS, Errno::OPNOTSUPP].contains(&errno)
}

/// Takes the lock, or says who holds it; never waits.
pub(super) fn take(directory: &Directory, name: &str, holder: &str) -> Result<LocalLock> {
    let fd = directory
        .open_at(name, OFlags::RDWR | OFlags::CREATE)
        .map_err(|errno| directory.error("open the lock", name, errno))?;
    let (file, path) = (File::from(fd), directory.path().join(name));
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(Error::Locked { holder: read_holder(&file), path }),
        Err(errno) => return Err(directory.error("lock", name, errno)),
    }
    write_holder(&file, holder).map_err(|source| Error::io("write the holder to", path, source))?;
    Ok(LocalLock { file, process: std::process::id() })
}

fn write_holder(file: &File, holder: &str) -> io::Result<()> {
    let since = OffsetDateTime::now_utc().replace_nanosecond(0).map_err(io::Error::other)?;
    let since = since.format(&Rfc3339).map_err(io::Error::other)?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let text = format!("{holder}, process {} on {host}, since {since}\n", std::process::id());
    file.set_len(0)?;
    file.write_all_at(text.as_bytes(), 0)
}

/// What the holder left, fit for a message: one line of bounded length.
fn read_holder(file: &File) -> String {
    let mut bytes = [0; HOLDER_LEN_MAX];
    let text = match file.read_at(&mut bytes, 0) {
        Ok(len) => String::from_utf8_lossy(bytes.get(..len).unwrap_or_default()).into_owned(),
        Err(error) => return format!("somebody whose name cannot be read ({error})"),
    };
    let line: String = text.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.is_empty() { "somebody who has not left a name yet".to_owned() } else { line }
}
