//! What is wrong with a list, or cannot be written into one.

use std::io;

use crate::format::PathFault;
use crate::hash::{DigestError, HashKind};

/// Why a list is not read, or written, any further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MhlError {
    /// The file below it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are no list. What came before this line counts.
    #[error("line {line}: {what}")]
    Damaged {
        /// The number of the line, from 1.
        line: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// It may be a list, but not one that is read here.
    #[error("line {line}: {what}")]
    Unsupported {
        /// The number of the line, from 1.
        line: u64,
        /// What it is, and what is read.
        what: String,
    },
    /// Something cannot be written into a list. Nothing of it was written.
    #[error(transparent)]
    Refused(#[from] MhlFault),
}

/// A file, directory or reference of a list that is not taken. Those after it are read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct BadRecord {
    /// The number of the line where it begins, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub fault: MhlFault,
}

/// What is wrong with a file, directory or reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MhlFault {
    /// The path is none of a file below the directory.
    #[error(transparent)]
    Path(#[from] PathFault),
    /// A hash is no value of its function.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// It has no such element.
    #[error("there is no <{0}> in it")]
    Missing(&'static str),
    /// It has hashes only of functions that are not known here.
    #[error("no hash of a function that is known here")]
    UnknownKinds,
    /// The number of bytes of a file is no number.
    #[error("`{0}` is no number of bytes")]
    Size(String),
    /// The function is not allowed in a list.
    #[error("{} is not allowed in ASC MHL: take c4, which cannot be forged, either, or xxh128, which is \
             faster; md5, sha1, xxh3 and xxh64 are also allowed", .0.name())]
    Kind(HashKind),
    /// XML has no way to write these bytes.
    #[error("XML cannot hold {0}")]
    Xml(&'static str),
    /// The schema of lists wants another text.
    #[error("`{0}` is no e-mail address")]
    Email(String),
}
