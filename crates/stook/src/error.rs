//! The error of the core: what was being done, to which path, at which offset.
//!
//! Capabilities have error enums of their own that wrap this one. A message never repeats its
//! source: to print an error, print the chain.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::extent::ByteRange;
use crate::source::Identity;

/// A result of the core.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong below the capabilities.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation.
    #[error("cannot {operation} {}{}", path.display(), At(*offset))]
    Io {
        /// A verb that fits "cannot … PATH": `open`, `read`, `sync`.
        operation: &'static str,
        /// The file or directory it was done to.
        path: PathBuf,
        /// The byte offset in the file, if it applies.
        offset: Option<u64>,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The system cannot do this there, however often it is asked; something else may do.
    #[error("cannot {operation} {}: that is not supported there", path.display())]
    Unsupported {
        /// A verb that fits "cannot … PATH": `clone into`, `reserve room in`.
        operation: &'static str,
        /// The file it was to be done to.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file ended before the bytes that were promised.
    #[error("{} ends too early: wanted {wanted} bytes at offset {offset}, got {got}", path.display())]
    ShortRead {
        /// The file.
        path: PathBuf,
        /// Where the read began.
        offset: u64,
        /// Requested bytes.
        wanted: u64,
        /// Bytes there were.
        got: u64,
    },
    /// More bytes were returned than requested: it is not known which of them were meant.
    #[error("{} returned too many bytes: wanted {wanted} bytes at offset {offset}, got {got}", path.display())]
    LongRead {
        /// The source.
        path: PathBuf,
        /// Where the read began.
        offset: u64,
        /// Requested bytes.
        wanted: u64,
        /// Bytes that came.
        got: u64,
    },
    /// Bytes that are verified when they are read are damaged.
    #[error("{} is damaged at offset {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// A source has changed since it was opened.
    #[error("{} changed while it was in use: it was {before}, it is now {after}; open it again", path.display())]
    SourceChanged {
        /// The source.
        path: PathBuf,
        /// Its identity when it was opened.
        before: Box<Identity>,
        /// Its identity now.
        after: Box<Identity>,
    },
    /// An object could not be read.
    #[error(transparent)]
    Remote(Box<RemoteError>),
    /// An address that cannot be opened.
    #[error("{} cannot be opened: {what}", path.display())]
    Address {
        /// The address, without secrets.
        path: PathBuf,
        /// What was expected.
        what: String,
    },
    /// What is hardly meant as a path, where only one can be meant: of what is written, or of a
    /// pack.
    #[error("{} {what}", path.display())]
    NotAPath {
        /// The address, or the place on another machine, without secrets.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// A range reaches past the end of a source.
    #[error("range {range} reaches past the end of {} ({len} bytes)", path.display())]
    OutOfBounds {
        /// The source.
        path: PathBuf,
        /// The requested range.
        range: ByteRange,
        /// The length of the source.
        len: u64,
    },
    /// Something is to be created or published that is already there.
    #[error("{} already exists", path.display())]
    AlreadyExists {
        /// The name that is taken.
        path: PathBuf,
    },
    /// The name of a file leads to something else, which is neither opened nor followed.
    #[error("{} is {found}, where a regular file was expected; it was not opened", path.display())]
    NotARegularFile {
        /// The path that was to be opened.
        path: PathBuf,
        /// What is there: `a FIFO`, `a symbolic link`.
        found: &'static str,
    },
    /// An entry that no tree can have: its path leads out of it, or another entry is in the way.
    #[error("{} cannot be in a tree of files: {what}", path.display())]
    Entry {
        /// The path of the tree, followed by the name of the entry.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// The file system cannot do what writing needs.
    #[error("{} is on {file_system}, whose locks do not keep a second writer out; packs there can be read. \
             Write the pack on a local file system, and copy it when it is finished", path.display())]
    NoLocks {
        /// The directory.
        path: PathBuf,
        /// What its file system is called.
        file_system: &'static str,
    },
    /// A lock is already held.
    #[error("{} is locked by {holder}", path.display())]
    Locked {
        /// The directory that is locked.
        path: PathBuf,
        /// Who holds it: process, host, since when.
        holder: String,
    },
}

impl Error {
    /// An [`Error::Io`] without an offset.
    pub fn io(operation: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        Self::Io { operation, path: path.as_ref().to_path_buf(), offset: None, source }
    }

    /// An [`Error::Io`] at a byte offset.
    pub fn io_at(operation: &'static str, path: impl AsRef<Path>, offset: u64, source: io::Error) -> Self {
        Self::Io { operation, path: path.as_ref().to_path_buf(), offset: Some(offset), source }
    }

    /// An [`Error::SourceChanged`].
    pub fn changed(path: impl AsRef<Path>, before: Identity, after: Identity) -> Self {
        let path = path.as_ref().to_path_buf();
        Self::SourceChanged { path, before: Box::new(before), after: Box::new(after) }
    }

    /// The kind of the operating system's error, if it is one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Io { source, .. } => Some(source.kind()),
            Self::Remote(error) => error.kind.io_kind(),
            Self::NotARegularFile { .. } | Self::Entry { .. } => Some(io::ErrorKind::InvalidInput),
            Self::NoLocks { .. } | Self::Unsupported { .. } => Some(io::ErrorKind::Unsupported),
            _ => None,
        }
    }
}

/// Why an object could not be read, after how many tries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteError {
    /// Its address, without secrets.
    pub path: PathBuf,
    /// The requested range; `None` if the error came while opening.
    pub range: Option<ByteRange>,
    /// How often it was tried.
    pub tries: u32,
    /// The cause.
    pub kind: RemoteErrorKind,
    /// What happened last.
    pub cause: String,
}

/// The cause of an error of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemoteErrorKind {
    /// There is no such object.
    NotFound,
    /// The server wants other credentials, or more rights.
    Denied,
    /// The server cannot send parts of it.
    NoRanges,
    /// The server sends it in a content encoding, whose ranges are not ranges of the object.
    Encoded,
    /// A response violates the protocol or does not match the request.
    Protocol,
    /// The server refuses, and would refuse again.
    Refused,
    /// All tries failed in ways that may pass.
    GaveUp,
    /// The time for it was over.
    Deadline,
}

impl RemoteErrorKind {
    fn io_kind(self) -> Option<io::ErrorKind> {
        Some(match self {
            Self::NotFound => io::ErrorKind::NotFound,
            Self::Denied => io::ErrorKind::PermissionDenied,
            Self::Deadline => io::ErrorKind::TimedOut,
            Self::NoRanges | Self::Encoded => io::ErrorKind::Unsupported,
            Self::Protocol => io::ErrorKind::InvalidData,
            Self::Refused | Self::GaveUp => return None,
        })
    }
}

impl std::error::Error for RemoteError {}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.range {
            Some(range) => write!(f, "cannot read bytes {range} of {}: ", self.path.display())?,
            None => write!(f, "cannot open {}: ", self.path.display())?,
        }
        write!(f, "{}", self.cause)?;
        match self.tries {
            0 | 1 => Ok(()),
            tries => write!(f, " (after {tries} tries)"),
        }
    }
}

/// Prints ` at offset N`, or nothing.
struct At(Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(offset) => write!(f, " at offset {offset}"),
            None => Ok(()),
        }
    }
}

/// An error and its causes on one line: `what: why: why`. A cause whose text the message before it
/// already ends in is not said twice.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
