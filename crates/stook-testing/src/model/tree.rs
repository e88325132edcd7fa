//! The plainest tree of files: a map of paths.

use std::collections::BTreeMap;

use proptest::prelude::*;
use stook::extent::ByteRange;
use stook::tree::{Holes, Xattrs};

/// Zeros that are a hole, where a model is made on a medium that has holes: whole blocks of this
/// many.
pub const HOLE_LEN: usize = 64 << 10;

/// The entry at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeEntry {
    /// A directory.
    Directory,
    /// A regular file with these bytes.
    File(Vec<u8>),
    /// A symbolic link with this target.
    Symlink(Vec<u8>),
    /// Another name of the file with this path.
    Link(Vec<u8>),
}

/// A tree as a map of full paths, without the root. Every entry except a hard link is a separate
/// node; every parent exists, and is a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeModel {
    entries: BTreeMap<Vec<u8>, TreeEntry>,
    /// Extended attributes, by path and by name.
    xattrs: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>,
    /// How many hard links files have that are not in the tree.
    hidden_names: BTreeMap<Vec<u8>, usize>,
}

impl TreeModel {
    /// A tree with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry and the directories above it. Returns `false`, and adds nothing, if the path
    /// exists, a parent is not a directory, or a link leads to no file.
    pub fn add(&mut self, path: &[u8], entry: TreeEntry) -> bool {
        let parents: Vec<&[u8]> = slashes(path).map(|at| &path[..at]).collect();
        let is_blocked =
            |parent: &&[u8]| !matches!(self.entries.get(*parent), None | Some(TreeEntry::Directory));
        let leads_nowhere = match &entry {
            TreeEntry::Link(to) => !matches!(self.entries.get(to), Some(TreeEntry::File(_))),
            _ => false,
        };
        if self.entries.contains_key(path) || parents.iter().any(is_blocked) || leads_nowhere {
            return false;
        }
        for parent in parents {
            self.entries.entry(parent.to_vec()).or_insert(TreeEntry::Directory);
        }
        self.entries.insert(path.to_vec(), entry);
        true
    }

    /// With a file.
    #[must_use]
    pub fn file(mut self, path: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Self {
        let path = path.as_ref();
        assert!(self.add(path, TreeEntry::File(bytes.as_ref().to_vec())), "{}", path.escape_ascii());
        self
    }

    /// With another entry.
    #[must_use]
    pub fn with(mut self, path: impl AsRef<[u8]>, entry: TreeEntry) -> Self {
        let path = path.as_ref();
        assert!(self.add(path, entry), "{}", path.escape_ascii());
        self
    }

    /// With an extended attribute of an entry that is there; the names of a file share theirs.
    #[must_use]
    pub fn xattr(mut self, path: impl AsRef<[u8]>, name: &str, value: impl AsRef<[u8]>) -> Self {
        let path = self.file_of(path.as_ref()).to_vec();
        assert!(self.entries.contains_key(&path), "{}", path.escape_ascii());
        self.xattrs.entry(path).or_default().insert(name.into(), value.as_ref().to_vec());
        self
    }

    /// With names of a file that are not in the tree, and yet counted.
    #[must_use]
    pub fn hiding_names(mut self, path: &[u8], count: usize) -> Self {
        let path = self.file_of(path).to_vec();
        assert!(matches!(self.get(&path), Some(TreeEntry::File(_))), "{}", path.escape_ascii());
        if count > 0 {
            self.hidden_names.insert(path, count);
        }
        self
    }

    /// How many names a file has that are not in the tree.
    pub fn hidden_names(&self, path: &[u8]) -> usize {
        self.hidden_names.get(self.file_of(path)).copied().unwrap_or_default()
    }

    /// The entry at a path.
    pub fn get(&self, path: &[u8]) -> Option<&TreeEntry> {
        self.entries.get(path)
    }

    /// The extended attributes at a path.
    pub fn xattrs(&self, path: &[u8]) -> Xattrs {
        let pairs = self.xattrs.get(self.file_of(path)).into_iter().flatten();
        Xattrs::of(pairs.map(|(name, value)| (name.clone(), Some(value.clone()))))
    }

    /// All entries, a directory before its contents.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &TreeEntry)> {
        self.entries.iter().map(|(path, entry)| (path.as_slice(), entry))
    }

    /// The path of the file that a path leads to: for a hard link, that of its first name.
    pub fn file_of<'a>(&'a self, path: &'a [u8]) -> &'a [u8] {
        match self.entries.get(path) {
            Some(TreeEntry::Link(to)) => to,
            _ => path,
        }
    }

    /// The bytes at a path, if it is a file.
    pub fn bytes(&self, path: &[u8]) -> Option<&[u8]> {
        match self.entries.get(self.file_of(path)) {
            Some(TreeEntry::File(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The holes of the file at a path, where the medium has any.
    ///
    /// # Panics
    /// Never: blocks of bytes in memory have places.
    pub fn holes(&self, path: &[u8]) -> Holes {
        let blocks = self.bytes(path).unwrap_or_default().chunks(HOLE_LEN).zip((0_u64..).step_by(HOLE_LEN));
        let zeros = blocks.filter(|(block, _)| block.iter().all(|byte| *byte == 0));
        Holes::of(zeros.map(|(block, at)| ByteRange::at(at, block.len() as u64).expect("it is in memory")))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

fn slashes(path: &[u8]) -> impl Iterator<Item = usize> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at)
}

/// Names of any bytes that can be one, mostly short and few, so that they meet.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let any_bytes = proptest::collection::vec(1_u8..=255, 1..12).prop_map(|mut name| {
        name.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = b'_');
        name
    });
    let short = proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(b'.')], 1..4);
    prop_oneof![2 => short, 1 => any_bytes].prop_filter("no dots", |name| name != b"." && name != b"..")
}

/// Random trees of up to some sixty entries, hard links among them if the tree that is tested knows
/// them.
pub fn tree_models(hard_links: bool) -> impl Strategy<Value = TreeModel> {
    tree_models_named(name(), hard_links)
}

/// The same, of these names.
pub(super) fn tree_models_named(
    name: impl Strategy<Value = Vec<u8>>,
    hard_links: bool,
) -> impl Strategy<Value = TreeModel> {
    let path = proptest::collection::vec(name, 1..5).prop_map(|names| names.join(&b'/'));
    let bytes = proptest::collection::vec(any::<u8>(), 0..3000);
    let target = proptest::collection::vec(1_u8..=255, 1..40);
    let entry = prop_oneof![
        4 => bytes.prop_map(TreeEntry::File),
        1 => Just(TreeEntry::Directory),
        1 => target.prop_map(TreeEntry::Symlink),
        // The path is chosen among those that are there.
        1 => Just(TreeEntry::Link(Vec::new())),
    ];
    proptest::collection::vec((path, entry, any::<prop::sample::Index>()), 0..60).prop_map(move |wanted| {
        let mut model = TreeModel::new();
        for (path, entry, index) in wanted {
            let entry = match entry {
                TreeEntry::Link(_) => {
                    let is_file = |(path, entry): (&[u8], &TreeEntry)| {
                        matches!(entry, TreeEntry::File(_)).then(|| path.to_vec())
                    };
                    let files: Vec<Vec<u8>> = model.iter().filter_map(is_file).collect();
                    if files.is_empty() || !hard_links {
                        continue;
                    }
                    TreeEntry::Link(index.get(&files).clone())
                }
                other => other,
            };
            model.add(&path, entry);
        }
        model
    })
}

/// These trees, with up to three extended attributes of each of a few files and directories.
pub fn with_random_xattrs(models: impl Strategy<Value = TreeModel>) -> impl Strategy<Value = TreeModel> {
    let value = proptest::collection::vec(any::<u8>(), 0..200);
    let xattr =
        (any::<prop::sample::Index>(), prop::sample::select(vec!["user.a", "user.b", "user.z"]), value);
    (models, proptest::collection::vec(xattr, 0..10)).prop_map(|(mut model, wanted)| {
        for (index, name, value) in wanted {
            // Linux keeps none on links.
            let has_some = |(path, entry): (&[u8], &TreeEntry)| {
                (!matches!(entry, TreeEntry::Symlink(_))).then(|| path.to_vec())
            };
            let paths: Vec<Vec<u8>> = model.iter().filter_map(has_some).collect();
            if !paths.is_empty() {
                model = model.xattr(index.get(&paths), name, value);
            }
        }
        model
    })
}
