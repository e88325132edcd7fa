//! Names of lists: what hash function they are of.

use crate::hash::HashKind;

/// The hash function of a list, by its file name: by the extension (`.sha256`, `.b3`, `.md5`, …), or
/// because it is called as tools and people call them (`SHA256SUMS`, `B3SUMS`, `shasum.NAME.txt` of
/// dircopy, …).
pub fn kind_of_name(name: &[u8]) -> Option<HashKind> {
    todo!()
}

/// Whether a file of this name is taken for a list of checksums when lists are looked for.
pub fn is_list_name(name: &[u8]) -> bool {
    kind_of_name(name).is_some()
}

/// The name of a list that is written now: `checksums-<date>.<algorithm>`. The date is
/// `2026-11-26T064134Z`.
pub fn list_name(kind: HashKind, date: &str) -> String {
    format!("checksums-{date}.{}", kind.name())
}
