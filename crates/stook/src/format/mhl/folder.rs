//! [`FolderHash`]: what a list says of a directory, computed of what it says of all that is in it.

use super::names::KINDS;
use crate::hash::{Digest, HashKind, Hashing};

/// The hashes of a directory, one of each function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderDigests {
    /// Of the contents of the files in it, whatever their names.
    pub content: Vec<Digest>,
    /// Of their names and the structure below it, too.
    pub structure: Vec<Digest>,
}

/// Computes the hashes of one directory. It keeps two hashes of each file and directory in it, for
/// each function.
#[derive(Debug)]
pub struct FolderHash(Vec<OfKind>);

#[derive(Debug)]
struct OfKind {
    kind: HashKind,
    content: Vec<Vec<u8>>,
    structure: Vec<Vec<u8>>,
    /// Whether all that is in the directory has a hash of this function.
    is_whole: bool,
}

impl FolderHash {
    /// By these functions; those that a list may not have are left out.
    pub fn new(kinds: &[HashKind]) -> Self {
        let of = |kind| OfKind { kind, content: Vec::new(), structure: Vec::new(), is_whole: true };
        Self(KINDS.into_iter().filter(|kind| kinds.contains(kind)).map(of).collect())
    }

    /// A file of this name, with its hashes. Where one is missing, the directory will have none of
    /// that function.
    pub fn file(&mut self, name: &[u8], digests: &[Digest]) {
        self.entry(name, digests, digests);
    }

    /// A directory of this name, with its hashes.
    pub fn folder(&mut self, name: &[u8], digests: &FolderDigests) {
        self.entry(name, &digests.content, &digests.structure);
    }

    fn entry(&mut self, name: &[u8], content: &[Digest], structure: &[Digest]) {
        for of in &mut self.0 {
            let find = |digests: &[Digest]| {
                digests.iter().find(|digest| digest.kind == of.kind).map(|digest| digest.value.clone())
            };
            let (Some(content), Some(structure)) = (find(content), find(structure)) else {
                of.is_whole = false;
                continue;
            };
            of.content.push(content);
            of.structure.push(Digest::of(of.kind, &[name, &structure].concat()).value);
        }
    }

    /// The hashes of the directory.
    pub fn finish(self) -> FolderDigests {
        let mut digests = FolderDigests::default();
        for of in self.0.into_iter().filter(|of| of.is_whole) {
            digests.content.push(all(of.kind, of.content));
            digests.structure.push(all(of.kind, of.structure));
        }
        digests
    }
}

/// The hash of hashes, in the order of their texts, which for each function is that of their bytes.
fn all(kind: HashKind, mut values: Vec<Vec<u8>>) -> Digest {
    values.sort_unstable();
    let mut hashing = Hashing::new(&[kind]);
    values.iter().for_each(|value| hashing.take(value));
    hashing.finish().pop().unwrap_or(Digest { kind, value: Vec::new() })
}
