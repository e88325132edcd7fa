//! Why nothing was copied. What single files meet is in the report.

use std::path::{Path, PathBuf};

/// A result of copying.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why nothing was copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A source or a destination as a whole, or an engine.
    #[error(transparent)]
    Core(#[from] crate::Error),
    /// A destination lies in what is copied, or is it.
    #[error("{}", inside(destination, source_path))]
    Inside {
        /// The destination.
        destination: PathBuf,
        /// What it is in.
        source_path: PathBuf,
    },
    /// A mirror would delete what is copied, or what is linked to.
    #[error("{} is inside {}, where a mirror would delete it", inner.display(), destination.display())]
    WouldDelete {
        /// What is copied, or linked to.
        inner: PathBuf,
        /// The directory that would become a mirror.
        destination: PathBuf,
    },
    /// A file would be copied onto itself.
    #[error("{} and {} are the same file", source_path.display(), destination.display())]
    SameFile {
        /// What is copied.
        source_path: PathBuf,
        /// Where it would go.
        destination: PathBuf,
    },
    /// Two destinations are the same directory, or one lies in the other.
    #[error("{}", same_destination(first, second))]
    SameDestination {
        /// One.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// Two sources would have the same name.
    #[error("two sources would both be {} in the destination: copy them one by one", name.escape_ascii())]
    SameName {
        /// That name.
        name: Vec<u8>,
    },
    /// A destination is something else than a directory.
    #[error("{} is there and is no directory", path.display())]
    NotADirectory {
        /// The destination.
        path: PathBuf,
    },
    /// A destination has less room than is needed.
    #[error("{0}")]
    Room(String),
    /// An option that cannot be used.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// Whether what was asked for makes no sense, rather than that something was in the way.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Core(_) | Self::NotADirectory { .. } | Self::Room(_))
    }
}

fn inside(destination: &Path, source_path: &Path) -> String {
    let (inner, outer) = (destination.display(), source_path.display());
    match destination == source_path {
        true => format!("{outer} would be copied into itself, and the copy would never end"),
        false => format!("{inner} is inside {outer}, which is to be copied: the copy would never end"),
    }
}

fn same_destination(first: &Path, second: &Path) -> String {
    match first == second {
        true => format!("the destination {} is given twice", first.display()),
        false => {
            format!("the destinations {} and {} are one in the other", first.display(), second.display())
        }
    }
}
