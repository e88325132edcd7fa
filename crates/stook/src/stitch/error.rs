//! Why no virtual file can be made.

use std::path::PathBuf;

use crate::format::layout::LayoutFault;
use crate::names::escaped;

/// A result of stitching.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why no virtual file can be made, or its parts not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A source, or a tree.
    #[error(transparent)]
    Core(#[from] crate::Error),
    /// It would be longer than a file can be, or have too many pieces.
    #[error("it would be longer than 2^63 - 1 bytes, or have more than 2^32 - 2 pieces ({pieces})")]
    TooLong {
        /// How many pieces it has.
        pieces: usize,
    },
    /// A member that the format has no way to hold.
    #[error("{} cannot be in it: {why}", escaped(key))]
    Member {
        /// Its path.
        key: Vec<u8>,
        /// Why not.
        why: String,
    },
    /// A layout would hold too many bytes itself.
    #[error(
        "a layout would hold more than {most} bytes that are in no file, such as headers: write the file itself \
         (`--write`)"
    )]
    TooMuchHeld {
        /// How many are the most.
        most: u64,
    },
    /// There is nothing that a file could be made of.
    #[error("there is nothing to make it of: {0}")]
    Nothing(&'static str),
    /// A layout that cannot be.
    #[error("{}: {fault}", path.display())]
    Layout {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        fault: LayoutFault,
    },
    /// A change of an archive that cannot be made.
    #[error("{}: {why}", escaped(key))]
    Change {
        /// The path below the folder that asks for it, or the member that is in its way.
        key: Vec<u8>,
        /// Why not.
        why: String,
    },
    /// The caller ended it.
    #[error("it was interrupted")]
    Interrupted,
}
