//! [`SumsReader`]: a list, line by line.

use std::io::{self, BufRead};

use super::{BadLine, SumLine};
use crate::hash::HashKind;

/// Longest line that is taken, in bytes: a path of 32 KiB of which every byte is escaped, and the
/// longest checksum.
pub const LINE_MAX: usize = 68 << 10;

/// Reads a list, line by line, in the memory of one line.
pub struct SumsReader<R> {
    input: R,
}

impl<R: BufRead> SumsReader<R> {
    /// Reads a list of this hash function, if that is known: by the caller, or the name of the list
    /// ([`kind_of_name`](super::kind_of_name)). A line that names its function is of that one.
    pub fn new(input: R, kind: Option<HashKind>) -> Self {
        todo!()
    }

    /// The next line that is not empty and no comment; `None` at the end.
    ///
    /// # Errors
    /// Returns the error of the input. A line that is not taken is no error of the reading, which
    /// goes on after it, except where the list is in UTF-16: then nothing comes after it.
    pub fn next_line(&mut self) -> io::Result<Option<Result<SumLine, BadLine>>> {
        todo!()
    }

    /// Whether the names up to here have backslashes and no slashes, as those of lists that were
    /// made on DOS or Windows have. Then [`SumLine::dos_path`] is likely what is meant.
    pub fn looks_like_dos(&self) -> bool {
        todo!()
    }

    /// Whether the last line ended with a line break. One that does not may be cut off.
    pub fn ended(&self) -> bool {
        todo!()
    }
}
