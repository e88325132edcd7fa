//! Exclusive locks that die with their holder.
//!
//! A lock is a file and a `flock` on it. The file stays when the lock is let go: removing it would let
//! two processes lock two files of one name. What is written in it says who holds it, or held it last.

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
    _file: File,
}

impl Lock for LocalLock {}

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
    Ok(LocalLock { _file: file })
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
