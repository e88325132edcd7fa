//! [`Call`]: the system calls of transfers that need nothing but descriptors, each made in one
//! place.
//!
//! Executed by threads, and by a ring if it has no operation for them. Harmless gaps of file
//! systems are filled here: one that does not support holes has none.
#![expect(unsafe_code, reason = "descriptors that a transfer keeps open, and a call without a wrapper")]

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use super::SeekTarget;

/// A system call on open files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// Make written data durable.
    Sync { fd: RawFd, data_only: bool },
    /// Forget the clean cached pages that lie wholly in a range.
    DropCached { fd: RawFd, offset: u64, len: u64 },
    /// Reserve room.
    Allocate { fd: RawFd, offset: u64, len: u64, keep_len: bool },
    /// Find data or a hole: the outcome is the place.
    Seek { fd: RawFd, target: SeekTarget, offset: u64 },
    /// Share the blocks of `from`.
    CloneRange { from: RawFd, start: u64, fd: RawFd, offset: u64, len: u64 },
    /// Copy from `from`: the outcome is how many bytes.
    CopyRange { from: RawFd, start: u64, fd: RawFd, offset: u64, len: u64 },
}

impl Call {
    /// Makes the call, and waits for it. The outcome is 0 unless stated otherwise above.
    pub(super) fn carry_out(self) -> io::Result<u64> {
        match self {
            Self::Sync { fd, data_only } => sync(borrow(fd), data_only),
            Self::DropCached { fd, offset, len } => drop_cached(borrow(fd), offset, len),
            Self::Allocate { fd, offset, len, keep_len } => allocate(borrow(fd), offset, len, keep_len),
            Self::Seek { fd, target, offset } => seek(borrow(fd), target, offset),
            Self::CloneRange { from, start, fd, offset, len } => {
                clone_range(borrow(from), start, borrow(fd), offset, len)
            }
            Self::CopyRange { from, start, fd, offset, len } => {
                copy_range(borrow(from), start, borrow(fd), offset, len)
            }
        }
    }
}

/// The descriptor of a call.
fn borrow<'fd>(fd: RawFd) -> BorrowedFd<'fd> {
    // SAFETY: the transfer that made the call holds the file, and so the descriptor, until it has
    // received the outcome. The borrow does not leave `carry_out`.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

fn sync(fd: BorrowedFd<'_>, data_only: bool) -> io::Result<u64> {
    #[cfg(target_os = "linux")]
    if data_only {
        rustix::fs::fdatasync(fd)?;
        return Ok(0);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = data_only;
    rustix::fs::fsync(fd)?;
    Ok(0)
}

/// Waits for what is being written of a file, and gives the error of its writing since it was
/// opened, once for each opening. Begins nothing, and flushes no device.
#[cfg(target_os = "linux")]
pub(crate) fn wait_written(fd: BorrowedFd<'_>) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open, and the call takes no memory.
    let result = unsafe { libc::sync_file_range(fd.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WAIT_BEFORE) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn wait_written(_: BorrowedFd<'_>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Applies to everything up to the end of the file when `len` is 0.
pub(super) fn drop_cached(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<u64> {
    #[cfg(target_os = "linux")]
    rustix::fs::fadvise(fd, offset, std::num::NonZeroU64::new(len), rustix::fs::Advice::DontNeed)?;
    #[cfg(not(target_os = "linux"))]
    let _ = (fd, offset, len);
    Ok(0)
}

#[cfg(target_os = "linux")]
fn allocate(fd: BorrowedFd<'_>, offset: u64, len: u64, keep_len: bool) -> io::Result<u64> {
    use rustix::fs::FallocateFlags;
    let flags = if keep_len { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
    rustix::fs::fallocate(fd, flags, offset, len)?;
    Ok(0)
}

/// Looks for data or a hole from `offset` on. Returns the length of the file if there is none; if
/// the file system does not support this, the whole file is data.
#[cfg(target_os = "linux")]
pub(super) fn seek(fd: BorrowedFd<'_>, target: SeekTarget, offset: u64) -> io::Result<u64> {
    use rustix::fs::SeekFrom;
    use rustix::io::Errno;
    let from = match target {
        SeekTarget::Data => SeekFrom::Data(offset),
        SeekTarget::Hole => SeekFrom::Hole(offset),
    };
    match rustix::fs::seek(fd, from) {
        Ok(found) => Ok(found),
        Err(Errno::NXIO) => len_of(fd),
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
            Ok(where_all_is_data(len_of(fd)?, target, offset))
        }
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn seek(fd: BorrowedFd<'_>, target: SeekTarget, offset: u64) -> io::Result<u64> {
    Ok(where_all_is_data(len_of(fd)?, target, offset))
}

fn where_all_is_data(len: u64, target: SeekTarget, offset: u64) -> u64 {
    match target {
        SeekTarget::Data => offset.min(len),
        SeekTarget::Hole => len,
    }
}

/// The end of the file; `stat` does not report it for a block device. The file position is not used
/// elsewhere.
fn len_of(fd: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(rustix::fs::seek(fd, rustix::fs::SeekFrom::End(0))?)
}

#[cfg(target_os = "linux")]
fn clone_range(
    from: BorrowedFd<'_>,
    start: u64,
    fd: BorrowedFd<'_>,
    offset: u64,
    len: u64,
) -> io::Result<u64> {
    use std::os::fd::AsRawFd;
    let range = libc::file_clone_range {
        src_fd: from.as_raw_fd().into(),
        src_offset: start,
        src_length: len,
        dest_offset: offset,
    };
    // SAFETY: the structure is that of this request and outlives the call, which only reads it;
    // both descriptors are open.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FICLONERANGE, &raw const range) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(0) }
}

#[cfg(target_os = "linux")]
fn copy_range(
    from: BorrowedFd<'_>,
    mut start: u64,
    fd: BorrowedFd<'_>,
    mut offset: u64,
    len: u64,
) -> io::Result<u64> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let copied = rustix::fs::copy_file_range(from, Some(&mut start), fd, Some(&mut offset), len)?;
    Ok(copied as u64)
}

#[cfg(not(target_os = "linux"))]
fn allocate(_: BorrowedFd<'_>, _: u64, _: u64, _: bool) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn clone_range(_: BorrowedFd<'_>, _: u64, _: BorrowedFd<'_>, _: u64, _: u64) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn copy_range(_: BorrowedFd<'_>, _: u64, _: BorrowedFd<'_>, _: u64, _: u64) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_tells_nothing_has_only_data() {
        let all_data = |target, offset| where_all_is_data(100, target, offset);
        assert_eq!([0, 50, 99, 100, 200].map(|at| all_data(SeekTarget::Data, at)), [0, 50, 99, 100, 100]);
        assert_eq!([0, 50, 99, 100, 200].map(|at| all_data(SeekTarget::Hole, at)), [100; 5]);
    }

    #[test]
    fn what_knows_no_positions_is_an_error() {
        use std::os::fd::AsFd;
        let (reader, _writer) = io::pipe().unwrap();
        let error = seek(reader.as_fd(), SeekTarget::Data, 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESPIPE));
    }
}
