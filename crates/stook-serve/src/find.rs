//! From names to a node. Links are followed within what is served, and never out of it.

use std::io;

use stook::tree::{Kind, NodeId};

use crate::served::Opened;

/// Links that one path may lead over, as many as Linux allows.
const LINKS_MAX: usize = 40;
/// Names that are still to be looked up, those of links among them.
const NAMES_MAX: usize = 4096;

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A node, which is no link.
    Node(NodeId, Kind),
    /// The directory whose one entry is the only file.
    Around,
    /// Nothing.
    Nothing,
    /// A link that leads out of what is served.
    Outside,
    /// Links that lead to one another, or too many.
    Loop,
}

/// Looks a path up.
pub(crate) fn find(opened: &Opened, names: &[Vec<u8>]) -> stook::Result<Found> {
    let tree = &*opened.tree;
    if let Some(only) = &opened.only {
        return Ok(match names {
            [] => Found::Around,
            [name] if name == only => Found::Node(opened.root, tree.kind(opened.root)?),
            _ => Found::Nothing,
        });
    }
    let mut pending: Vec<Vec<u8>> = names.iter().rev().cloned().collect();
    let (mut above, mut at, mut links) = (Vec::new(), opened.root, 0);
    while let Some(name) = pending.pop() {
        match name.as_slice() {
            b"" | b"." => continue,
            b".." => {
                let Some(parent) = above.pop() else { return Ok(Found::Outside) };
                at = parent;
                continue;
            }
            _ => {}
        }
        let id = match tree.lookup(at, &name) {
            Ok(Some(id)) => id,
            Ok(None) => return Ok(Found::Nothing),
            Err(error) if error.io_kind() == Some(io::ErrorKind::NotADirectory) => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
        if tree.kind(id)? != Kind::Symlink {
            above.push(at);
            at = id;
            continue;
        }
        links += 1;
        let target = tree.link_target(id)?;
        if target.first() == Some(&b'/') {
            return Ok(Found::Outside);
        }
        pending.extend(target.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec));
        if links > LINKS_MAX || pending.len() > NAMES_MAX {
            return Ok(Found::Loop);
        }
    }
    Ok(Found::Node(at, tree.kind(at)?))
}
