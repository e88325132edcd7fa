//! Zip: the directory at its end and the headers before its members, as others made them
//! ([`directory`]), and the same as they are made here ([`write`](mod@write)).

pub mod directory;
pub mod write;

use directory::{END, LOCAL};

/// Whether the first bytes of a file are those of most zips, with members or without.
pub fn has_magic(first: &[u8]) -> bool {
    [LOCAL, END].iter().any(|magic| first.starts_with(&magic.to_le_bytes()))
}
