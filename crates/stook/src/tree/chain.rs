//! Directories on the way to a very deep one that stay open, few of them.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Of the directories above the last one, this many stay open, and of those further up every one at
/// such a depth. Going up or down by a level opens two on average, however deep it is, and
/// a path of as many parts as a key can have holds a few hundred descriptors.
const STRIDE: usize = 128;

/// The way to the directory that was opened last.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// Its key.
    key: Vec<u8>,
    /// What is open of it, from the root down.
    open: Vec<Link>,
}

#[derive(Debug)]
struct Link {
    /// How many parts lead to it, and how long its key is.
    depth: usize,
    len: usize,
    directory: Arc<OwnedFd>,
    is_made: bool,
}

impl Chain {
    /// The deepest open directory that a key is, or lies below: how long its key is, the directory,
    /// and whether this run made it.
    pub(super) fn nearest(&self, key: &[u8]) -> Option<(usize, Arc<OwnedFd>, bool)> {
        let common = common(&self.key, key);
        let link = self.open.get(..self.open.partition_point(|link| link.len <= common))?.last()?;
        Some((link.len, link.directory.clone(), link.is_made))
    }

    /// Notes the next directory on the way to a key.
    pub(super) fn push(&mut self, key: &[u8], depth: usize, directory: &Arc<OwnedFd>, is_made: bool) {
        let common = common(&self.key, key);
        self.open.truncate(self.open.partition_point(|link| link.len <= common && link.depth < depth));
        self.key.truncate(common);
        self.key.extend_from_slice(key.get(common..).unwrap_or_default());
        self.open.retain(|link| link.depth.is_multiple_of(STRIDE) || link.depth + STRIDE > depth);
        self.open.push(Link { depth, len: key.len(), directory: directory.clone(), is_made });
    }
}

/// How many first bytes of two keys are those of a directory above both, or of one of them.
fn common(one: &[u8], other: &[u8]) -> usize {
    let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let ends = |key: &[u8]| key.get(same).is_none_or(|byte| *byte == b'/');
    if ends(one) && ends(other) {
        return same;
    }
    one.get(..same).and_then(|key| key.iter().rposition(|byte| *byte == b'/')).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_whole_parts_in_common() {
        for (one, other, len) in [
            ("a/b", "a/b", 3),
            ("a/b", "a/b/c", 3),
            ("a/b", "a/bc", 1),
            ("a/b/c", "a/b/d", 3),
            ("a/b", "c", 0),
            ("", "a", 0),
            ("ab", "a", 0),
        ] {
            assert_eq!(common(one.as_bytes(), other.as_bytes()), len, "{one} {other}");
            assert_eq!(common(other.as_bytes(), one.as_bytes()), len, "{one} {other}");
        }
    }
}
