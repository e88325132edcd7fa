//! What can go wrong with a pack, and the one shape in which damage is reported.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::key::Key;

/// A result of this capability.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Bytes on the medium that are not what was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Damage {
    /// The file: a segment, a manifest, a deletion vector.
    pub file: PathBuf,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// The key of the record it hits, where that can still be told.
    pub key: Option<Key>,
    /// What was found and what was expected.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged at offset {}", self.file.display(), self.offset)?;
        if let Some(key) = &self.key {
            write!(f, " (record {key})")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// What went wrong with a pack.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage or a source below the pack.
    #[error(transparent)]
    Core(#[from] crate::Error),
    /// Reading from or writing to something that is not part of the pack.
    #[error("cannot {operation} {name}")]
    Outside {
        /// A verb that fits.
        operation: &'static str,
        /// What it is: a path, `standard input`.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no pack at this place.
    #[error("{} is not a pack: {why}", path.display())]
    NotAPack {
        /// The place.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// There is something at this place already.
    #[error("{} is already there: open it, or choose another name", path.display())]
    Exists {
        /// The place.
        path: PathBuf,
    },
    /// Bytes are not what was written.
    #[error("{0}; `stook check` lists all damage, and what is whole can still be read")]
    Damaged(Damage),
    /// Written by a newer version, or by something else.
    #[error("{} needs a newer version of stook: {what}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is not known here.
        what: String,
    },
    /// Something is larger than the format allows.
    #[error("{what} is {found}; a pack holds at most {limit}")]
    Limit {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        found: u64,
        /// How large it may be.
        limit: u64,
    },
    /// Something a caller gave makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// A body was shorter or longer than was announced.
    #[error("the body of {key} has {found} bytes where {announced} were announced; nothing of it was kept")]
    BodyLength {
        /// The record.
        key: Key,
        /// Length announced.
        announced: u64,
        /// Bytes given.
        found: u64,
    },
    /// A state of a pack that cannot be opened any more, or never was.
    #[error("{} has no {what}", path.display())]
    NoSuchState {
        /// The pack.
        path: PathBuf,
        /// The generation or the time that was asked for, and what there is.
        what: String,
    },
    /// A writer is used in a process that was forked from the one that opened it.
    #[error(
        "this writer belongs to process {owner}, of which this process was forked; open the pack again here"
    )]
    Forked {
        /// The process that opened it.
        owner: u32,
    },
    /// An earlier write failed; what the medium holds since is not known.
    #[error("the writer stopped after an earlier failure; open the pack again to go on from what is safe")]
    Stopped,
    /// A commit that others were part of too failed: whether this record is there is not known before the pack is opened
    /// again.
    #[error(transparent)]
    Commit(Arc<Error>),
}

impl Error {
    /// The damage this error reports, if it reports damage.
    pub fn damage(&self) -> Option<&Damage> {
        match self {
            Self::Damaged(damage) => Some(damage),
            Self::Commit(cause) => cause.damage(),
            _ => None,
        }
    }
}
