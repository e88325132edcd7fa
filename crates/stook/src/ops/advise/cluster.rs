//! Clusters: files that a reader of the whole tree would read one after the other.
//!
//! What a file costs depends on what was read before it: the kernel and the device read inodes and
//! directories by the block. So files are not drawn one by one, but with those that follow them.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Entries of one directory that are looked at, at most: others are as likely.
const LISTED_MAX: usize = 100_000;
/// Directories that are entered for one cluster, at most.
const DIRECTORIES_MAX: usize = 400;

/// Files of one directory, in the order in which it lists them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ClusterPart {
    /// The directory.
    pub(super) directory: PathBuf,
    /// Names of its regular files, with their lengths.
    pub(super) files: Vec<(OsString, u64)>,
    /// All its entries, of which these files are a part.
    pub(super) entries: usize,
}

/// What a reader meets from one file on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cluster {
    /// By directory.
    pub(super) parts: Vec<ClusterPart>,
}

/// How long a cluster is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Files at most.
    pub(super) files: usize,
    /// It ends with the file that reaches so many bytes.
    pub(super) bytes: u64,
}

impl Cluster {
    /// That from one file of a tree on. What cannot be listed, or is gone, is left out.
    pub(super) fn from(tree: &Path, first: &Path, bounds: Bounds) -> Self {
        let mut growing = Growing { cluster: Self::default(), bounds, bytes: 0, entered: 0 };
        if tree.is_file() {
            growing.only(tree);
            return growing.cluster;
        }
        let (mut path, mut after) = (first.to_path_buf(), false);
        // The directory of the file from the file on, then what follows in those above.
        while path != tree && !growing.is_full() {
            let Some((parent, name)) = path.parent().zip(path.file_name()) else { break };
            growing.rest_of(parent, name.to_owned(), after);
            after = true;
            path = parent.to_path_buf();
        }
        growing.cluster
    }

    /// All of a tree.
    pub(super) fn whole(tree: &Path, bounds: Bounds) -> Self {
        let mut growing = Growing { cluster: Self::default(), bounds, bytes: 0, entered: 0 };
        match tree.is_file() {
            true => growing.only(tree),
            false => growing.enter(tree),
        }
        growing.cluster
    }

    /// Where its files are, with their lengths.
    pub(super) fn files(&self) -> impl Iterator<Item = (PathBuf, u64)> + '_ {
        self.parts
            .iter()
            .flat_map(|part| part.files.iter().map(|(name, len)| (part.directory.join(name), *len)))
    }

    /// Without files that were taken before, which are noted.
    pub(super) fn without(mut self, taken: &mut HashSet<PathBuf>) -> Self {
        for part in &mut self.parts {
            let directory = &part.directory;
            part.files.retain(|(name, _)| taken.insert(directory.join(name)));
        }
        self.parts.retain(|part| !part.files.is_empty());
        self
    }

    /// How many files it has.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.files.len()).sum()
    }
}

struct Growing {
    cluster: Cluster,
    bounds: Bounds,
    bytes: u64,
    entered: usize,
}

impl Growing {
    fn is_full(&self) -> bool {
        self.cluster.len() >= self.bounds.files
            || self.bytes >= self.bounds.bytes
            || self.entered >= DIRECTORIES_MAX
    }

    fn only(&mut self, file: &Path) {
        let Some((directory, name)) = file.parent().zip(file.file_name()) else { return };
        let len = fs::metadata(file).map_or(0, |metadata| metadata.len());
        let files = vec![(name.to_owned(), len)];
        // A path without a slash has an empty parent, which names this directory.
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        self.cluster.parts.push(ClusterPart { directory: directory.to_path_buf(), files, entries: 1 });
    }

    /// Files of a directory from a name on, or only directories after it.
    fn rest_of(&mut self, directory: &Path, from: OsString, after: bool) {
        let Ok(listed) = list(directory) else { return };
        let at = listed.iter().position(|entry| entry.name == from).unwrap_or(0);
        let rest = listed.get(at + usize::from(after)..).unwrap_or_default();
        self.take(directory, rest, listed.len(), !after);
    }

    fn enter(&mut self, directory: &Path) {
        self.entered += 1;
        if let Ok(listed) = list(directory) {
            self.take(directory, &listed, listed.len(), true);
        }
    }

    /// The files first: a reader that lists a directory reads them, and enters directories later.
    fn take(&mut self, directory: &Path, listed: &[Listed], entries: usize, with_files: bool) {
        let mut part = ClusterPart { directory: directory.to_path_buf(), files: Vec::new(), entries };
        for entry in listed.iter().filter(|entry| with_files && entry.kind == ListedKind::File) {
            if self.cluster.len() + part.files.len() >= self.bounds.files || self.bytes >= self.bounds.bytes {
                break;
            }
            let Ok(metadata) = fs::symlink_metadata(directory.join(&entry.name)) else { continue };
            if metadata.is_file() {
                self.bytes = self.bytes.saturating_add(metadata.len());
                part.files.push((entry.name.clone(), metadata.len()));
            }
        }
        if !part.files.is_empty() {
            self.cluster.parts.push(part);
        }
        for entry in listed.iter().filter(|entry| entry.kind == ListedKind::Directory) {
            if self.is_full() {
                return;
            }
            self.enter(&directory.join(&entry.name));
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum ListedKind {
    File,
    Directory,
}

struct Listed {
    name: OsString,
    kind: ListedKind,
}

/// Files and directories of a directory, in its own order.
fn list(directory: &Path) -> io::Result<Vec<Listed>> {
    let mut listed = Vec::new();
    for entry in fs::read_dir(directory)?.take(LISTED_MAX) {
        let entry = entry?;
        let kind = entry.file_type()?;
        let kind = match () {
            () if kind.is_file() => ListedKind::File,
            () if kind.is_dir() => ListedKind::Directory,
            () => continue,
        };
        listed.push(Listed { name: entry.file_name(), kind });
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { files: 100, bytes: 1 << 20 };

    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        for directory in ["a/one", "a/two", "b"] {
            fs::create_dir_all(tree.path().join(directory)).unwrap();
            for number in 0..5 {
                fs::write(tree.path().join(directory).join(number.to_string()), vec![1; 100]).unwrap();
            }
        }
        std::os::unix::fs::symlink("/", tree.path().join("a/link")).unwrap();
        tree
    }

    #[test]
    fn the_whole_of_a_tree_is_every_file_once_and_no_link_is_followed() {
        let tree = tree();
        let cluster = Cluster::whole(tree.path(), BOUNDS);
        let files: HashSet<PathBuf> = cluster.files().map(|(path, _)| path).collect();
        assert_eq!((cluster.len(), files.len()), (15, 15));
        assert!(cluster.parts.iter().all(|part| part.entries >= part.files.len()));
        let mut taken: HashSet<PathBuf> = files.into_iter().take(4).collect();
        assert_eq!(cluster.without(&mut taken).len(), 11);
    }

    #[test]
    fn a_cluster_begins_with_its_file_and_is_bounded() {
        let tree = tree();
        for first in ["a/one/3", "b/0", "a/two/4"] {
            let first = tree.path().join(first);
            let cluster = Cluster::from(tree.path(), &first, BOUNDS);
            assert_eq!(cluster.files().next(), Some((first.clone(), 100)), "{cluster:?}");
            assert!(cluster.files().all(|(path, _)| path.starts_with(tree.path())));
            let short = Cluster::from(tree.path(), &first, Bounds { files: 2, ..BOUNDS });
            assert!((1..=2).contains(&short.len()), "{short:?}");
            let short = Cluster::from(tree.path(), &first, Bounds { bytes: 100, ..BOUNDS });
            assert_eq!(short.len(), 1);
        }
    }

    #[test]
    fn what_is_gone_is_left_out() {
        let tree = tree();
        let gone = tree.path().join("c/not/there");
        assert!(Cluster::from(tree.path(), &gone, BOUNDS).files().all(|(path, _)| path.exists()));
    }
}
