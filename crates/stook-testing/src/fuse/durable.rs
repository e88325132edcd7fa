//! What a medium would hold if the power were cut now: of each file the bytes of its last sync, of
//! each directory the names of its last sync.
//!
//! This is stricter than most file systems, and what POSIX promises: a file that was synced and
//! whose directory was not has no name. What was there at the time of the mount is durable.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use super::nodes::{Nodes, ROOT};

/// See the module. Files that were never synced are empty.
#[derive(Debug, Default)]
pub(super) struct Durable {
    files: HashMap<u64, Vec<u8>>,
    directories: HashMap<u64, BTreeMap<OsString, u64>>,
}

impl Durable {
    /// All that is there now.
    pub(super) fn of(nodes: &mut Nodes) -> io::Result<Self> {
        let mut durable = Self::default();
        let mut waiting = vec![ROOT];
        while let Some(directory) = waiting.pop() {
            for name in names(nodes, directory)? {
                let (number, metadata) = nodes.look_up(directory, &name)?;
                if metadata.is_dir() {
                    waiting.push(number);
                } else if metadata.is_file() {
                    durable.sync_file(nodes, number)?;
                }
            }
            durable.sync_directory(nodes, directory)?;
        }
        Ok(durable)
    }

    pub(super) fn sync_file(&mut self, nodes: &Nodes, number: u64) -> io::Result<()> {
        self.files.insert(number, fs::read(nodes.path(number)?)?);
        Ok(())
    }

    /// What was written since the last sync is gone.
    pub(super) fn lose_file(&self, nodes: &Nodes, number: u64) -> io::Result<()> {
        fs::write(nodes.path(number)?, self.files.get(&number).map_or(&[][..], Vec::as_slice))
    }

    pub(super) fn sync_directory(&mut self, nodes: &mut Nodes, number: u64) -> io::Result<()> {
        let mut entries = BTreeMap::new();
        for name in names(nodes, number)? {
            let (number, _) = nodes.look_up(number, &name)?;
            entries.insert(name, number);
        }
        self.directories.insert(number, entries);
        Ok(())
    }

    /// Makes the directory below what the medium holds.
    pub(super) fn rewind(&self, nodes: &Nodes) -> io::Result<()> {
        let root = nodes.directory();
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        let mut made = HashMap::new();
        self.rewind_directory(nodes, ROOT, root, &mut made)
    }

    fn rewind_directory(
        &self,
        nodes: &Nodes,
        number: u64,
        path: &Path,
        made: &mut HashMap<u64, PathBuf>,
    ) -> io::Result<()> {
        for (name, &number) in self.directories.get(&number).into_iter().flatten() {
            let path = path.join(name);
            let metadata = nodes.get(number)?.metadata()?;
            if metadata.is_dir() {
                // A rename between two directories, one of which was synced, would lead to it
                // twice: a directory has one name, and the first is as good as the other.
                if made.insert(number, path.clone()).is_none() {
                    fs::create_dir(&path)?;
                    self.rewind_directory(nodes, number, &path, made)?;
                    set_attributes(nodes, number, &metadata, &path)?;
                }
            } else if let Some(first) = made.get(&number) {
                fs::hard_link(first, &path)?;
            } else {
                self.rewind_file(nodes, number, &metadata, &path)?;
                made.insert(number, path);
            }
        }
        Ok(())
    }

    fn rewind_file(&self, nodes: &Nodes, number: u64, metadata: &Metadata, path: &Path) -> io::Result<()> {
        if metadata.is_symlink() {
            symlink(OsStr::from_bytes(nodes.link_target(number)?.as_bytes()), path)?;
            return lchown(path, Some(metadata.uid()), Some(metadata.gid()));
        }
        fs::write(path, self.files.get(&number).map_or(&[][..], Vec::as_slice))?;
        set_attributes(nodes, number, metadata, path)
    }
}

/// Those that it has now: of them it is not known when they were synced.
fn set_attributes(nodes: &Nodes, number: u64, metadata: &Metadata, path: &Path) -> io::Result<()> {
    chown(path, Some(metadata.uid()), Some(metadata.gid()))?;
    super::xattrs::copy(&nodes.path(number)?, path)?;
    fs::set_permissions(path, metadata.permissions())?;
    File::open(path)?.set_modified(metadata.modified()?)
}

pub(super) fn names(nodes: &Nodes, directory: u64) -> io::Result<Vec<OsString>> {
    let entries = fs::read_dir(nodes.path(directory)?)?;
    let mut names =
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failed_sync_did_not_write_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("old"), b"before").unwrap();
        let mut nodes = Nodes::new(directory.path()).unwrap();
        let durable = Durable::of(&mut nodes).unwrap();
        fs::write(path("old"), b"after").unwrap();
        fs::write(path("new"), b"new").unwrap();
        for name in ["old", "new"] {
            let number = nodes.look_up(ROOT, OsStr::new(name)).unwrap().0;
            durable.lose_file(&nodes, number).unwrap();
        }
        assert_eq!(fs::read(path("old")).unwrap(), b"before");
        assert_eq!(fs::read(path("new")).unwrap(), b"");
    }

    #[test]
    fn a_power_cut_leaves_what_was_synced() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("sub")).unwrap();
        fs::write(path("sub/old"), b"before").unwrap();
        symlink("old", path("sub/link")).unwrap();
        let mut nodes = Nodes::new(directory.path()).unwrap();
        let mut durable = Durable::of(&mut nodes).unwrap();
        let sub = nodes.look_up(ROOT, OsStr::new("sub")).unwrap().0;
        fs::write(path("sub/old"), b"after").unwrap();
        fs::write(path("sub/new"), b"new").unwrap();
        fs::write(path("sub/empty"), b"not synced").unwrap();
        fs::remove_file(path("sub/link")).unwrap();
        let new = nodes.look_up(sub, OsStr::new("new")).unwrap().0;
        durable.sync_file(&nodes, new).unwrap();
        durable.rewind(&nodes).unwrap();
        // The name of the new file was not synced, nor that a link is gone.
        assert_eq!(fs::read(path("sub/old")).unwrap(), b"before");
        assert_eq!(fs::read_link(path("sub/link")).unwrap(), Path::new("old"));
        assert!(!path("sub/new").exists());

        let mut nodes = Nodes::new(directory.path()).unwrap();
        let mut durable = Durable::of(&mut nodes).unwrap();
        let sub = nodes.look_up(ROOT, OsStr::new("sub")).unwrap().0;
        fs::write(path("sub/new"), b"new").unwrap();
        fs::write(path("sub/empty"), b"not synced").unwrap();
        let new = nodes.look_up(sub, OsStr::new("new")).unwrap().0;
        durable.sync_file(&nodes, new).unwrap();
        durable.sync_directory(&mut nodes, sub).unwrap();
        durable.rewind(&nodes).unwrap();
        assert_eq!(fs::read(path("sub/new")).unwrap(), b"new");
        assert_eq!(fs::read(path("sub/empty")).unwrap(), b"");
    }
}
