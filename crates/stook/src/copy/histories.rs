//! The functions of histories of ASC MHL that are there before a copy begins: in its destinations,
//! and in what is copied. Without their hashes nothing could be held against these histories.

use std::collections::BTreeSet;

use super::finish::shown;
use super::listing::Found;
use super::run::Destination;
use super::source::CopySource;
use crate::format::mhl::{FOLDER, generation_of};
use crate::hash::HashKind;
use crate::source::Forwards;
use crate::tree::Kind;
use crate::tree::history::{add_kinds, add_kinds_in};

/// Adds those of a list that is copied, and those that each destination has for a directory.
pub(super) fn add_kinds_of(
    found: &Found,
    sources: &[CopySource],
    destinations: &[Destination],
    kinds: &mut BTreeSet<HashKind>,
) {
    match found.node.kind {
        // What is at the top of a destination is known before anything is listed.
        Kind::Directory if !found.key.is_empty() => {
            destinations.iter().for_each(|one| add_kinds_in(&one.path.join(shown(&found.key)), kinds));
        }
        Kind::File if is_list(&found.key) => {
            let source = sources.get(found.source).and_then(|source| source.tree.open(found.id).ok());
            if let Some(Ok(list)) = source.map(Forwards::new) {
                add_kinds(list, kinds);
            }
        }
        _ => {}
    }
}

/// Whether a path is that of a list in a history.
fn is_list(key: &[u8]) -> bool {
    let mut names = key.rsplit(|byte| *byte == b'/');
    names.next().and_then(generation_of).is_some() && names.next() == Some(FOLDER.as_bytes())
}
