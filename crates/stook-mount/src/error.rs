//! What can go wrong while something is mounted or unmounted.

use std::io;
use std::path::PathBuf;

/// The result of mounting or unmounting.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something is not mounted, or not unmounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The tree could not be read.
    #[error(transparent)]
    Core(#[from] stook::Error),
    /// The mountpoint is nothing that the tree could be mounted on.
    #[error("{}: {what}", path.display())]
    Mountpoint {
        /// The mountpoint.
        path: PathBuf,
        /// What it is, and what was expected.
        what: String,
    },
    /// The system did not mount it.
    #[error("cannot mount {}: {what}", path.display())]
    Refused {
        /// The mountpoint.
        path: PathBuf,
        /// What may help.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Programs still use it.
    #[error("{} is in use: a program has a file open on it, or works in it", path.display())]
    Busy {
        /// The mountpoint.
        path: PathBuf,
    },
    /// It could not be unmounted, or asked for its status.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// A verb.
        operation: &'static str,
        /// The mountpoint.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}
