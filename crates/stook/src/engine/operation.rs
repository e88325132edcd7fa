//! [`Operation`]: what an engine can execute, the name of each operation, and the error it fails
//! with.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::{Buffer, File};
use crate::error::Error;
use crate::extent::ByteRange;

/// The operation on the file of a request.
#[derive(Debug)]
pub enum Operation {
    /// Fill `buffer` with up to `len` bytes from `offset`.
    ///
    /// The buffer's capacity must be at least [`File::span`] of the range under the same access,
    /// which is `len` rounded out to the alignment when direct. The data then begins in it where
    /// `span` says, also when the file system refuses direct I/O.
    Read {
        /// First byte wanted.
        offset: u64,
        /// Bytes wanted, at least 1.
        len: usize,
        /// Where they go.
        buffer: Buffer,
    },
    /// Write all of `buffer.data()` at `offset`.
    Write {
        /// Where the first byte goes.
        offset: u64,
        /// The bytes, and nothing is written of an empty buffer.
        buffer: Buffer,
    },
    /// Write bytes that others may hold, too: one buffer feeds several files without a copy.
    ///
    /// If offset and length of a direct write are aligned but its memory is not, it is copied once
    /// into aligned memory, as [`Passage::copied_bytes`](super::Passage) reports. Bytes from a
    /// [`Buffer`] whose data begins at its front are aligned. The completion returns nothing; the
    /// engine has released the bytes by then.
    WriteShared {
        /// Where the first byte goes.
        offset: u64,
        /// The bytes, and nothing is written of none.
        bytes: Bytes,
    },
    /// Make everything that was written before durable, and the length (`fdatasync`).
    Sync,
    /// As `Sync`, with all metadata: times, mode, owner (`fsync`).
    SyncAll,
    /// Sync the data of the file, then ask the system to drop the cached pages of the range. A
    /// failure may be that of the sync, and is as final. Mapped and locked pages stay, and so do
    /// pages that lie only partly in the range.
    DropCached {
        /// Which bytes.
        range: ByteRange,
    },
    /// Reserve space on the medium, so that writing there cannot fail for lack of it. Unwritten
    /// bytes read as zeros. Fails with [`Error::Unsupported`] if the file system does not support
    /// it; zeros are not written instead.
    Allocate {
        /// For which bytes.
        range: ByteRange,
        /// Whether the file keeps its length when the range ends beyond it; else it grows.
        keep_len: bool,
    },
    /// Find where the next bytes that the file keeps begin, or the next hole:
    /// [`Completion::found`](super::Completion) is the place. See [`File::next_data`] and
    /// [`File::next_hole`].
    Seek {
        /// The target.
        target: SeekTarget,
        /// Where looking begins.
        offset: u64,
    },
    /// Have the file share the blocks of a range of another (`FICLONERANGE`): whole, or not at all.
    /// Fails with [`Error::Unsupported`] if the file system does not support it, the two files are
    /// on different ones, or offsets are not multiples of its blocks (the end of the range may be
    /// the end of `from`).
    CloneRange {
        /// The file that has the bytes.
        from: Arc<File>,
        /// Which of its bytes.
        range: ByteRange,
        /// Where they go in the file of the request.
        offset: u64,
    },
    /// Have the system copy a range of another file (`copy_file_range`): it may share blocks, or
    /// copy on the server. Short copies are continued; fewer bytes than requested mean the end of
    /// `from`, or a file that the system cannot copy and reports as empty (`/proc`). Fails with
    /// [`Error::Unsupported`] if the system cannot copy between these two; part of the range may
    /// have been copied then.
    CopyRange {
        /// The file that has the bytes.
        from: Arc<File>,
        /// Which of its bytes.
        range: ByteRange,
        /// Where they go in the file of the request.
        offset: u64,
    },
}

/// The target of a seek in a file with holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SeekTarget {
    /// Bytes that the file keeps.
    Data,
    /// A hole; every file ends in one.
    Hole,
}

/// Kinds of operations. Both writes are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// [`Operation::Read`].
    Read,
    /// [`Operation::Write`] and [`Operation::WriteShared`].
    Write,
    /// [`Operation::Sync`].
    Sync,
    /// [`Operation::SyncAll`].
    SyncAll,
    /// [`Operation::DropCached`].
    DropCached,
    /// [`Operation::Allocate`].
    Allocate,
    /// [`Operation::Seek`].
    Seek,
    /// [`Operation::CloneRange`].
    CloneRange,
    /// [`Operation::CopyRange`].
    CopyRange,
}

impl Operation {
    /// Which one it is.
    pub fn kind(&self) -> OperationKind {
        match self {
            Self::Read { .. } => OperationKind::Read,
            Self::Write { .. } | Self::WriteShared { .. } => OperationKind::Write,
            Self::Sync => OperationKind::Sync,
            Self::SyncAll => OperationKind::SyncAll,
            Self::DropCached { .. } => OperationKind::DropCached,
            Self::Allocate { .. } => OperationKind::Allocate,
            Self::Seek { .. } => OperationKind::Seek,
            Self::CloneRange { .. } => OperationKind::CloneRange,
            Self::CopyRange { .. } => OperationKind::CopyRange,
        }
    }

    /// Where in the file of the request it begins; 0 for syncs.
    pub fn offset(&self) -> u64 {
        match self {
            Self::Read { offset, .. }
            | Self::Write { offset, .. }
            | Self::WriteShared { offset, .. }
            | Self::Seek { offset, .. }
            | Self::CloneRange { offset, .. }
            | Self::CopyRange { offset, .. } => *offset,
            Self::DropCached { range } | Self::Allocate { range, .. } => range.start(),
            Self::Sync | Self::SyncAll => 0,
        }
    }

    /// How many bytes it is about; 0 for syncs and seeks.
    pub fn asked_bytes(&self) -> u64 {
        match self {
            Self::Read { len, .. } => *len as u64,
            Self::Write { buffer, .. } => buffer.len() as u64,
            Self::WriteShared { bytes, .. } => bytes.len() as u64,
            Self::DropCached { range }
            | Self::Allocate { range, .. }
            | Self::CloneRange { range, .. }
            | Self::CopyRange { range, .. } => range.len(),
            Self::Sync | Self::SyncAll | Self::Seek { .. } => 0,
        }
    }

    /// Returns its buffer, without executing it.
    pub fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } => Some(buffer),
            _ => None,
        }
    }
}

impl OperationKind {
    /// The error of an operation on the file of this path, that was at this offset, when the system
    /// said this: [`Error::Unsupported`] where something else may still be tried.
    pub fn error(self, path: &Path, offset: u64, source: io::Error) -> Error {
        let verb = self.verb();
        match self {
            _ if self.is_unsupported(&source) => {
                Error::Unsupported { operation: verb, path: path.to_path_buf(), source }
            }
            Self::Sync | Self::SyncAll | Self::DropCached => Error::io(verb, path, source),
            _ => Error::io_at(verb, path, offset, source),
        }
    }

    /// Fits "cannot … PATH".
    fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync | Self::SyncAll => "sync",
            Self::DropCached => "drop the cached pages of",
            Self::Allocate => "reserve room in",
            Self::Seek => "look for holes in",
            Self::CloneRange => "clone into",
            Self::CopyRange => "copy into",
        }
    }

    /// Whether the system says that it cannot do this here, however often it is asked.
    fn is_unsupported(self, error: &io::Error) -> bool {
        let errno = error.raw_os_error();
        let is_absent = error.kind() == io::ErrorKind::Unsupported
            || matches!(errno, Some(libc::EOPNOTSUPP | libc::ENOSYS));
        match self {
            Self::Allocate => is_absent,
            // EINVAL: offsets that are not multiples of the block size, overlapping ranges of one
            // file, or not regular files.
            Self::CopyRange => is_absent || matches!(errno, Some(libc::EXDEV | libc::EINVAL)),
            Self::CloneRange => is_absent || matches!(errno, Some(libc::EXDEV | libc::EINVAL | libc::ENOTTY)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_done_here_is_no_failure_of_the_device() {
        let error = |kind: OperationKind, errno| {
            kind.error(Path::new("file"), 7, io::Error::from_raw_os_error(errno))
        };
        for kind in [OperationKind::Allocate, OperationKind::CloneRange, OperationKind::CopyRange] {
            let unsupported = error(kind, libc::EOPNOTSUPP);
            assert!(matches!(unsupported, Error::Unsupported { .. }), "{unsupported:?}");
            assert_eq!(unsupported.io_kind(), Some(io::ErrorKind::Unsupported));
            for errno in [libc::EIO, libc::ENOSPC, libc::EBADF] {
                assert!(matches!(error(kind, errno), Error::Io { offset: Some(7), .. }));
            }
        }
        for kind in [OperationKind::CloneRange, OperationKind::CopyRange] {
            assert!(matches!(error(kind, libc::EXDEV), Error::Unsupported { .. }));
        }
        assert!(matches!(error(OperationKind::Allocate, libc::EINVAL), Error::Io { .. }));
        assert!(matches!(error(OperationKind::Write, libc::EOPNOTSUPP), Error::Io { .. }));
        assert!(matches!(error(OperationKind::Sync, libc::EIO), Error::Io { offset: None, .. }));
    }

    #[test]
    fn errors_name_what_was_being_done() {
        let error = OperationKind::CloneRange.error(
            Path::new("a/b"),
            0,
            io::Error::from_raw_os_error(libc::EOPNOTSUPP),
        );
        assert_eq!(error.to_string(), "cannot clone into a/b: that is not supported there");
    }
}
