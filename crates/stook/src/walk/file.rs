//! Opening and reading one regular file so that its bytes and its metadata belong together.
//!
//! Never follows a link, never waits for the other end of a pipe, never returns bytes of a file
//! that changed while they were read.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::LazyLock;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::buffers::FileBytes;
use super::entry::Status;
use super::worker::Reading;
use super::xattrs;
use crate::engine;
use crate::error::{Error, Result};
use crate::tree::{HOLES_MAX, Holes, Xattrs};

/// What the inode of a name says, links not followed.
pub(super) fn status_at(directory: &OwnedFd, name: &CStr) -> io::Result<Status> {
    let stat = retry_on_intr(|| rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW))?;
    Status::from_stat(&stat)
}

/// What the inode of an open file says.
pub(super) fn status(file: impl AsFd) -> io::Result<Status> {
    Status::from_stat(&rustix::fs::fstat(file)?)
}

/// [`Error::SourceChanged`] unless both are the same state of the same file.
pub(super) fn same(before: &Status, after: &Status, path: impl FnOnce() -> PathBuf) -> Result<()> {
    let (before, after) = (before.identity(), after.identity());
    if before.same_content(&after) {
        return Ok(());
    }
    Err(Error::changed(path(), before, after))
}

/// Opens a name that was a regular file a moment ago. The caller compares what it got.
pub(super) fn open_regular(directory: &OwnedFd, name: &CStr, status: &Status) -> io::Result<OwnedFd> {
    // NONBLOCK: should the name have become a pipe meanwhile, the open must not wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let open = |flags| retry_on_intr(|| rustix::fs::openat(directory, name, flags, Mode::empty()));
    if let Some(quiet) = without_access_time(status) {
        match open(flags | quiet) {
            // In a user namespace the owner's rights may not reach this file system.
            Err(Errno::PERM) => {}
            result => return Ok(result?),
        }
    }
    Ok(open(flags)?)
}

/// Writing an access time back for every file that is read would cost a write per file. Only the
/// owner and root may ask to be spared that.
#[cfg(target_os = "linux")]
fn without_access_time(status: &Status) -> Option<OFlags> {
    static USER: LazyLock<u32> = LazyLock::new(|| rustix::process::geteuid().as_raw());
    (*USER == 0 || status.node.owner.is_some_and(|(user, _)| user == *USER)).then_some(OFlags::NOATIME)
}

#[cfg(not(target_os = "linux"))]
fn without_access_time(_: &Status) -> Option<OFlags> {
    None
}

/// The holes of an open file; the system is not asked where it takes as much room as it has bytes.
/// Moves where the file is read next.
pub(super) fn holes(file: impl AsFd, status: &Status) -> io::Result<Holes> {
    match status.may_have_holes() {
        true => Ok(Holes::of(engine::holes(file.as_fd(), status.node.len, HOLES_MAX)?)),
        false => Ok(Holes::default()),
    }
}

/// Reads all of a file whose name said `named`, with its extended attributes and its holes, if they
/// are wanted.
///
/// The name was asked before the open and the open file is asked after the last byte: when both
/// agree, the file that was read is the file that was named, and nothing moved in between. A change
/// of an extended attribute changes a time that is looked at there.
///
/// # Errors
/// [`Error::SourceChanged`] when they do not agree; [`Error::ShortRead`] when they agree and yet
/// there were fewer bytes than they say.
pub(super) fn read_whole(
    directory: &OwnedFd,
    name: &CStr,
    named: &Status,
    reading: Reading<'_>,
    path: impl Fn() -> PathBuf,
) -> Result<(FileBytes, Xattrs, Holes)> {
    let len = named.node.len;
    // One byte more than there should be: getting exactly `len` shows that the end was met.
    let wanted = usize::try_from(len.saturating_add(1)).ok();
    let Some((mut bytes, wanted)) = reading.buffers.take(len.saturating_add(1)).zip(wanted) else {
        let source = io::Error::new(io::ErrorKind::OutOfMemory, format!("no memory for its {len} bytes"));
        return Err(Error::io("read", path(), source));
    };
    let file = open_regular(directory, name, named).map_err(|e| Error::io("open", path(), e))?;
    let mut filled = 0;
    while let Some(space) = bytes.space().get_mut(filled..wanted).filter(|s| !s.is_empty()) {
        let got = retry_on_intr(|| rustix::io::read(&file, &mut *space))
            .map_err(|e| Error::io_at("read", path(), filled as u64, e.into()))?;
        filled += got;
        if got == 0 || filled as u64 == len {
            break;
        }
    }
    bytes.set_len(filled);
    let xattrs = if reading.xattrs { xattrs::read(&file) } else { Xattrs::default() };
    let holes = match reading.holes {
        true => holes(&file, named).map_err(|e| Error::io("look for holes in", path(), e))?,
        false => Holes::default(),
    };
    let after = status(&file).map_err(|e| Error::io("stat", path(), e))?;
    same(named, &after, &path)?;
    let got = filled as u64;
    if got < len {
        return Err(Error::ShortRead { path: path(), offset: 0, wanted: len, got });
    }
    if got > len {
        let source = io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it says {len} bytes and holds more, as files of /proc do; copy it first"),
        );
        return Err(Error::io("read", path(), source));
    }
    Ok((bytes, xattrs, holes))
}

/// The target of a link whose name said `named`.
///
/// # Errors
/// [`Error::SourceChanged`] when the name stood for something else before or after.
pub(super) fn read_link(
    directory: &OwnedFd,
    name: &CStr,
    named: &Status,
    path: impl Fn() -> PathBuf,
) -> Result<Vec<u8>> {
    let target = retry_on_intr(|| rustix::fs::readlinkat(directory, name, Vec::new()))
        .map_err(|e| Error::io("read link", path(), e.into()))?;
    let after = status_at(directory, name).map_err(|e| Error::io("stat", path(), e))?;
    same(named, &after, path)?;
    Ok(target.into_bytes())
}
