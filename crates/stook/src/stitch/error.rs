//! Why no virtual file can be made.

use std::path::{Path, PathBuf};

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
        "a layout would hold more than {most} bytes that are in no file, such as headers: write the file itself"
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
    /// Which file of a layout is meant cannot be told.
    #[error("{}", names_of(path, name.as_deref(), names))]
    Name {
        /// The path of the layout.
        path: PathBuf,
        /// The name that none has, if one was given.
        name: Option<Vec<u8>>,
        /// Those that there are.
        names: Vec<Vec<u8>>,
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

/// How many names of files an error lists.
const NAMES_MAX: usize = 5;

fn names_of(path: &Path, name: Option<&[u8]>, names: &[Vec<u8>]) -> String {
    let few: Vec<_> = names.iter().take(NAMES_MAX).map(|name| escaped(name).to_string()).collect();
    let few = few.join(", ");
    let more = if names.len() > NAMES_MAX { ", …" } else { "" };
    let path = path.display();
    match (name, names.len()) {
        (_, 0) => format!("{path} has no file"),
        (Some(name), _) => format!("{path} has no file {}, but {few}{more}", escaped(name)),
        (None, count) => format!("{path} has {count} files, and one has to be named: {few}{more}"),
    }
}
