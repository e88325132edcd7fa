//! [`SumLine`]: what a line says.

use super::LineFault;
use crate::hash::{Digest, HashKind};

/// What a line says: a checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SumLine {
    /// The number of the line, from 1.
    pub number: u64,
    /// The checksum, for each hash function that it may be of. There are two where neither the line
    /// nor its list says which: 32 digits are MD5 or XXH128, 64 are SHA-256 or BLAKE3, 16 are XXH64
    /// or XXH3. It is never empty.
    pub digests: Vec<Digest>,
    /// The path below the directory of the list, `/` between its names; no name is empty, `.` or
    /// `..`.
    pub path: Vec<u8>,
    /// The same where `\` is a separator, too; `None` if there is none in the name.
    pub dos_path: Option<Result<Vec<u8>, LineFault>>,
}
