//! [`BadLine`]: a line that is not taken, and why.

use crate::hash::{DigestError, HashKind};

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
    #[error("not a line of a checksum list: expected a checksum, two spaces and a name")]
    NoLine,
    /// No hash function that is known has values of this length.
    #[error("a checksum of {0} digits: no hash function that is known has them")]
    UnknownLen(usize),
    /// The name of a hash function, in `NAME (file) = …`, that is not known.
    #[error("the hash function {0} is not known")]
    UnknownKind(String),
    /// The checksum is none of the function that the list is for, or that the line names.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// Something else than `\\`, `\n` and `\r` in a line that begins with a backslash.
    #[error("an escape that is none of \\\\, \\n and \\r")]
    Escape,
    /// The name is empty, or leads to no file.
    #[error("there is no name of a file")]
    NoName,
    /// The name begins at the root, or on a drive.
    #[error("the name is absolute: it would lead out of the directory")]
    Absolute,
    /// There is a `..` in the name.
    #[error("there is a `..` in the name: it would lead out of the directory")]
    LeadsOut,
    /// There is a zero in the line, so it is no text.
    #[error("there is a zero byte in it")]
    Zero,
    /// The line is longer than [`LINE_MAX`](super::LINE_MAX).
    #[error("longer than {max} bytes, which is skipped", max = super::LINE_MAX)]
    TooLong,
    /// The list is in UTF-16; nothing of it is read.
    #[error("the list is in UTF-16: convert it to UTF-8 first, for example with `iconv -f UTF-16 -t UTF-8`")]
    Utf16,
}

/// What a line that was refused was expected to be of.
pub(super) fn is_of(kind: HashKind, digits: usize) -> bool {
    kind.text_len() == digits
}
