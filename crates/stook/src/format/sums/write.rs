//! Lines as the tools of each hash function read them with `-c`.

use crate::hash::Digest;

/// The line for a file: the checksum, two spaces, the path, and a line feed. Any bytes of a path
/// can be written, and [`SumsReader`](super::SumsReader) reads them all.
pub fn line(digest: &Digest, path: &[u8]) -> Vec<u8> {
    todo!()
}

/// Whether the tool of this hash function reads the line for this path with `-c`. `b3sum` reads only
/// names in UTF-8.
pub fn is_read_by_its_tool(kind: crate::hash::HashKind, path: &[u8]) -> bool {
    todo!()
}
