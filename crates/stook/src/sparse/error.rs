//! Errors of sparse files.

use std::io;

use crate::extent::ByteRange;
use crate::plan::PlanError;

/// Why something was not done. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SparseError {
    /// Requested bytes are not held.
    #[error("cannot read {range}: {gap} is not held")]
    NotHeld {
        /// The requested range.
        range: ByteRange,
        /// The first part of it that is missing.
        gap: ByteRange,
    },
    /// The bytes to write are already held and differ.
    #[error("cannot write {range}: the byte at {offset} is held already and differs (in {overlap})")]
    Differs {
        /// The range that was to be written.
        range: ByteRange,
        /// The part of it that is held and differs.
        overlap: ByteRange,
        /// The position of the first byte that differs.
        offset: u64,
        /// The byte that is held there.
        held: u8,
    },
    /// Positions end before 2^64 - 1.
    #[error("{len} bytes at position {position} would end past the last position, {}", u64::MAX)]
    TooFar {
        /// Where they were to begin.
        position: u64,
        /// How many.
        len: u64,
    },
    /// The options of a plan contradict themselves, or it would be too large.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// More pieces of memory than can be numbered.
    #[error("cannot write: more than 268 million blocks of memory are in use; evict some")]
    Full,
    /// An option has a value that it cannot have.
    #[error("{0}")]
    Options(String),
    /// There is no file of this name.
    #[error("{name:?} is already in the store")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// Bytes are held under this name, but it is not known which source they are from.
    #[error(
        "{name:?} is in the store already, with bytes of which nothing says whose they are; \
             remove it, or call the file something else"
    )]
    NotOfASource {
        /// The name.
        name: String,
    },
    /// The input is not a sparse file.
    #[error("this is no sparse file: {what}")]
    NotASparseFile {
        /// Why.
        what: String,
    },
    /// A sparse file that another version of Stook wrote.
    #[error("this is a sparse file of version {found}; only version {known} is known here")]
    Version {
        /// The version found.
        found: u16,
        /// The version that is known.
        known: u16,
    },
    /// A sparse file whose bytes do not match its checksums, or violate the format.
    #[error("the sparse file is damaged at offset {offset}: {what}")]
    Damaged {
        /// Where in the bytes read.
        offset: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// The reader or writer failed.
    #[error("cannot {operation} a sparse file")]
    Io {
        /// The operation: `read`, `write`.
        operation: &'static str,
        /// The underlying error.
        source: io::Error,
    },
}

impl From<super::blocks::Full> for SparseError {
    fn from(_: super::blocks::Full) -> Self {
        Self::Full
    }
}
