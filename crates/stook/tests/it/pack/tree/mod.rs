//! Trees of files into packs and out again, and what a test needs to build and compare them.

mod again;
mod gone;
mod holes;
mod hostile;
mod moved;
mod order;
mod roundtrip;
mod unchanged;
mod unpacked;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, FileTimes, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use stook::pack::tree::{Delete, Grouping, PackSummary, PackTree, UnpackSummary, UnpackTree};
use stook::pack::{OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook::tree::Overwrite;
use stook::walk::Decision;

/// What an entry is: kind and mode, owner, time, bytes or target, and the first name of its inode.
type Entry = (u32, (u32, u32), i128, Vec<u8>, Option<PathBuf>);

/// All of a tree, for comparison. Times of directories count.
fn listing(root: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut all = BTreeMap::new();
    let mut names = HashMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(path) = open.pop() {
        let metadata = path.symlink_metadata().unwrap();
        let short = path.strip_prefix(root).unwrap().to_path_buf();
        let time = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        let body = match metadata.file_type() {
            kind if kind.is_symlink() => fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec(),
            kind if kind.is_file() => fs::read(&path).unwrap(),
            kind => {
                assert!(kind.is_dir(), "{}", path.display());
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                Vec::new()
            }
        };
        if metadata.is_file() && metadata.nlink() > 1 {
            names.entry(metadata.ino()).or_insert_with(Vec::new).push(short.clone());
        }
        all.insert(short, (metadata.mode(), (metadata.uid(), metadata.gid()), time, body, None));
    }
    for mut group in names.into_values() {
        group.sort();
        for name in &group {
            all.get_mut(name).unwrap().4 = Some(group[0].clone());
        }
    }
    all
}

fn same_trees(left: &Path, right: &Path) {
    let (left, right) = (listing(left), listing(right));
    assert_eq!(left.keys().collect::<Vec<_>>(), right.keys().collect::<Vec<_>>());
    for (path, entry) in &left {
        let other = &right[path];
        assert!(entry.3 == other.3, "the bytes of {path:?} differ");
        assert_eq!(
            (entry.0, entry.1, entry.2, &entry.4),
            (other.0, other.1, other.2, &other.4),
            "mode, owner, time or names of {path:?}"
        );
    }
}

fn write(path: PathBuf, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn set_time(path: &Path, ns: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(ns);
    fs::File::open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A directory to work in, with a tree and a pack.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(place.tree()).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn tree(&self) -> PathBuf {
        self.path("tree")
    }

    fn pack_path(&self) -> PathBuf {
        self.path("p.stook")
    }

    fn packing(&self) -> PackTree<'static> {
        PackTree {
            roots: vec![self.tree()],
            grouping: Grouping::Default,
            with_owner: true,
            xattrs: true,
            threads: 8,
            select: Box::new(|_, _| Decision::Take),
            own: None,
            delete: Delete::Nothing,
            checksum: false,
            keeps_moved: false,
            attributes: None,
        }
    }

    /// Packs the tree, once or again, and completes the pack.
    fn pack(&self) -> PackSummary {
        self.pack_with(&self.packing())
    }

    fn pack_with(&self, packing: &PackTree<'_>) -> PackSummary {
        self.write_with(|writer, before| packing.run(Some(writer), before, &mut |_, _| true).unwrap())
    }

    /// Writes to the pack, which is made if it is not there, and completes it.
    fn write_with(&self, write: impl FnOnce(&mut PackWriter, Option<&Pack>) -> PackSummary) -> PackSummary {
        let there = self.pack_path().exists();
        let storage = LocalStorageOptions::default();
        let storage = match there {
            true => LocalStorage::open(self.pack_path(), storage).unwrap(),
            false => LocalStorage::create(self.pack_path(), storage).unwrap(),
        };
        let options = WriterOptions { segment_len: 64 << 20, ..WriterOptions::default() };
        let (mut writer, before) = match there {
            true => (PackWriter::open(Arc::new(storage), options).unwrap(), Some(self.open())),
            false => (PackWriter::create(Arc::new(storage), options).unwrap(), None),
        };
        let summary = write(&mut writer, before.as_ref());
        writer.set_complete(true);
        // What some of the tests do next.
        writer.set_moved(Vec::new());
        writer.finish(true).unwrap();
        summary
    }

    fn open(&self) -> Pack {
        Pack::open_path(self.pack_path(), OpenOptions::default()).unwrap()
    }

    fn unpacking(&self, target: &str) -> UnpackTree<'static> {
        UnpackTree {
            target: self.path(target),
            overwrite: Overwrite::Never,
            with_owner: true,
            xattrs: true,
            groups: Vec::new(),
            threads: 4,
            durability: Default::default(),
            force: false,
            select: Box::new(|_| true),
        }
    }

    fn unpack(&self, target: &str) -> UnpackSummary {
        self.unpacking(target).run(&self.open(), &mut |_, _| true).unwrap()
    }

    /// Unpacks to a new place, where everything must be as in the tree.
    fn comes_back(&self, target: &str) {
        let summary = self.unpack(target);
        assert!(summary.failures.is_empty() && summary.kept.is_empty(), "{summary:?}");
        same_trees(&self.tree(), &self.path(target));
    }
}

/// Keys of failures.
fn failed(failures: &[stook::pack::tree::Failure]) -> Vec<&[u8]> {
    failures.iter().map(|failure| failure.key.as_slice()).collect()
}
