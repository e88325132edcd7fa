//! [`BadLine`]: a line that is not taken, and why.

use crate::format::PathFault;
use crate::hash::DigestError;

/// A line that is not taken. Those after it are read on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {number}: {fault}")]
pub struct BadLine {
    /// The number of the line, from 1.
    pub number: u64,
    /// What is wrong with it.
    pub fault: LineFault,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// There is no checksum and name in it.
    #[error("not a line of a checksum list: a checksum, two spaces and a name were expected")]
    NoLine,
    /// No hash function that is known has values of this length.
    #[error("a checksum of {0} digits is of no hash function that is known here")]
    UnknownLen(usize),
    /// The hash function in `NAME (file) = …` is not known.
    #[error("the hash function {0} is not known here")]
    UnknownKind(String),
    /// The checksum is no value of the function that the list is of, or that the line names.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// A backslash before something else than `\`, `n` and `r`, in a line that begins with one.
    #[error("the line begins with a backslash, and has an escape that is none of \\\\, \\n and \\r")]
    Escape,
    /// The name is none of a file below the directory.
    #[error(transparent)]
    Path(#[from] PathFault),
    /// The line is longer than [`LINE_MAX`](super::LINE_MAX).
    #[error("longer than {} bytes, and skipped", super::LINE_MAX)]
    TooLong,
    /// The list is in UTF-16. Nothing of it is read.
    #[error("the list is in UTF-16: make it UTF-8 first, for example with `iconv -f UTF-16 -t UTF-8`")]
    Utf16,
}
