//! Errors of archives: which file, at which offset, what.

use std::io;
use std::path::{Path, PathBuf};

pub use crate::format::{Decoded, Fault};

/// A result of reading an archive.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the core.
    #[error(transparent)]
    Core(#[from] crate::Error),
    /// The file has none of the known formats.
    #[error("{} is no archive: {what}", path.display())]
    NotAnArchive {
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// The bytes violate the format, or do not match a checksum.
    #[error("{}: damaged at offset {offset}: {what}", path.display())]
    Damaged {
        /// The archive.
        path: PathBuf,
        /// Where in it; in a compressed tar, where in the tar.
        offset: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// The archive wants something that is not known here.
    #[error("{}: not supported, at offset {offset}: {what}", path.display())]
    Unsupported {
        /// The archive.
        path: PathBuf,
        /// Where in it; in a compressed tar, where in the tar.
        offset: u64,
        /// What.
        what: String,
    },
    /// The caller wanted it to end.
    #[error("interrupted")]
    Interrupted,
    /// A property of a member prevents the request.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// Whether no other member can be read either: the archive has changed, or the server that it
    /// is on does not give it.
    pub(crate) fn is_of_all_members(&self) -> bool {
        matches!(self, Self::Core(crate::Error::SourceChanged { .. } | crate::Error::Remote(_)))
    }

    /// The same as an error of the core; `read` is what was to be read.
    pub(super) fn into_core(self, read: &Path) -> crate::Error {
        match self {
            Self::Core(error) => error,
            Self::Damaged { path, offset, what } => crate::Error::Damaged { path, offset, what },
            Self::Unsupported { path, offset, what } => {
                crate::Error::io_at("read", path, offset, io::Error::new(io::ErrorKind::Unsupported, what))
            }
            Self::NotAnArchive { path, what } => {
                crate::Error::io("read", path, io::Error::new(io::ErrorKind::InvalidData, what))
            }
            Self::Interrupted => crate::Error::io("read", read, io::ErrorKind::Interrupted.into()),
            Self::Invalid(what) => {
                crate::Error::io("read", read, io::Error::new(io::ErrorKind::Unsupported, what))
            }
        }
    }
}

impl Fault {
    /// The same in a file, `base` bytes further on.
    pub(super) fn of(self, path: &Path, base: u64) -> Error {
        let (path, offset, what) = (path.to_path_buf(), base.saturating_add(self.offset), self.what);
        match self.unsupported {
            true => Error::Unsupported { path, offset, what },
            false => Error::Damaged { path, offset, what },
        }
    }
}
