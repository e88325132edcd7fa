//! Errors of contents, and features that not all of them have.

use std::fmt;
use std::path::PathBuf;

use crate::{archive, pack, stitch};

/// A result of listing or reading contents.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong: of reading only, so without what packing and repairing meet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the pack, or below it.
    #[error(transparent)]
    Pack(pack::Error),
    /// An error of the archive, or below it.
    #[error(transparent)]
    Archive(archive::Error),
    /// An error of a layout.
    #[error(transparent)]
    Layout(#[from] stitch::Error),
    /// A requested group does not exist.
    #[error("cannot read {}", path.display())]
    NoSuchGroup {
        /// The pack.
        path: PathBuf,
        /// Which group it is, and which there are.
        source: pack::Error,
    },
    /// A feature that packs have and archives lack.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The cursor is of a load with another order, other keys, groups or parts.
    #[error("the cursor is of a load with another order, other keys, groups or parts")]
    OtherCursor,
    /// A load by several threads was to be in the order of keys.
    #[error("threads that load at once know no order of keys: a load in that order takes one")]
    ThreadsByKey,
    /// What is got does not fit where it goes.
    #[error("{0}")]
    Room(String),
    /// The caller wanted it to end.
    #[error("interrupted")]
    Interrupted,
}

impl From<pack::Error> for Error {
    fn from(error: pack::Error) -> Self {
        match error {
            // Nothing here writes: it was asked to stop.
            pack::Error::Stopped => Self::Interrupted,
            error => Self::Pack(error),
        }
    }
}

impl From<archive::Error> for Error {
    fn from(error: archive::Error) -> Self {
        match error {
            archive::Error::Interrupted => Self::Interrupted,
            error => Self::Archive(error),
        }
    }
}

/// What packs have and archives may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Groups of entries.
    Groups,
    /// States before the newest one.
    EarlierStates,
    /// A list in the order of the medium.
    ListByPlace,
    /// A list that continues with records put from now on.
    Follow,
    /// A load in the order of keys.
    LoadByKey,
    /// A load of some keys only.
    LoadOfKeys,
    /// A load of one part of several.
    Parts,
    /// A load with several threads.
    Threads,
    /// A load that ends after a number of entries.
    Limit,
    /// A load that continues from a cursor, or ends with one.
    Cursors,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Groups => "groups",
            Self::EarlierStates => "earlier states",
            Self::ListByPlace => "lists in the order of the medium",
            Self::Follow => "entries that are put while it is read",
            Self::LoadByKey => "loads in the order of keys",
            Self::LoadOfKeys => "loads of a range of keys",
            Self::Parts => "loads in parts",
            Self::Threads => "loads with several threads",
            Self::Limit => "loads of a number of entries",
            Self::Cursors => "loads with a cursor",
        })
    }
}

/// A feature was requested that an archive lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is a {format}, and has no {feature}", path.display())]
pub struct Unsupported {
    /// The feature.
    pub feature: Feature,
    /// The archive.
    pub path: PathBuf,
    /// The format of the archive.
    pub format: archive::Format,
}
