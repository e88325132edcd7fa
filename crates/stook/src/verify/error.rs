//! Why nothing was verified. What single files meet is in the report.

use std::path::PathBuf;

use crate::tree::Kind;

/// A result of verifying.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why nothing was verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tree as a whole.
    #[error(transparent)]
    Core(#[from] crate::Error),
    /// Two that are to be compared are not of one kind.
    #[error("{} is {}, and {} is {}: two files or two trees can be compared",
            path.display(), kind.noun(), other.display(), other_kind.noun())]
    Kinds {
        /// What was to be verified.
        path: PathBuf,
        /// What it is.
        kind: Kind,
        /// What it was to be compared with.
        other: PathBuf,
        /// What that is.
        other_kind: Kind,
    },
    /// Nothing says what a tree should have.
    #[error("nothing says what {} should have", .0.display())]
    NothingExpected(PathBuf),
    /// An option that cannot be used.
    #[error("{0}")]
    Invalid(String),
}
