//! What comes out is what was there.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use stook::copy::{Copy, CopyOptions, CopySource, Destination, Durability, HashKind};
use stook_testing::model::tree::{TreeEntry, TreeModel, tree_models, with_random_xattrs};
use stook_testing::trees::{MemoryTree, make_files};

use super::{assert_same, copy, copy_with, heard};

/// A tree with all that there is: small and large files, holes, links of both kinds, empty
/// directories, modes and times.
pub(super) fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("a/b/empty")).unwrap();
    for len in [0, 1, 4095, 4096, 4097, 262_144, 262_145, 1 << 20, (1 << 20) + 1, 5_000_003] {
        let bytes: Vec<u8> = (0..len).map(|at: usize| (at * 7 + len) as u8).collect();
        fs::write(root.join(format!("a/{len}")), bytes).unwrap();
    }
    let mut sparse = fs::File::create(root.join("a/sparse")).unwrap();
    sparse.write_all(b"begin").unwrap();
    sparse.seek(SeekFrom::Start(8 << 20)).unwrap();
    sparse.write_all(b"middle").unwrap();
    sparse.set_len(20 << 20).unwrap();
    symlink("../a/1", root.join("a/b/link")).unwrap();
    symlink("/nowhere", root.join("dangling")).unwrap();
    fs::hard_link(root.join("a/4097"), root.join("a/b/again")).unwrap();
    fs::hard_link(root.join("a/5000003"), root.join("z")).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"-\xff\n\\name")), "odd").unwrap();
    fs::set_permissions(root.join("a/1"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(root.join("a/b"), fs::Permissions::from_mode(0o711)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_007, 123_456_789);
    fs::File::open(root.join("a/4096")).unwrap().set_modified(time).unwrap();
    fs::File::open(root.join("a/b/empty")).unwrap().set_modified(time).unwrap();
    fs::File::open(root.join("a")).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_tree_is_copied_with_all_that_it_has_and_the_second_run_does_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    fs::create_dir(&from).unwrap();
    make_tree(&from);
    for durability in [Durability::Batch, Durability::File, Durability::None] {
        let _ = fs::remove_dir_all(&to);
        let report = copy_with(&from, &[&to], CopyOptions { durability, ..CopyOptions::default() });
        assert_eq!(report.undone(), 0, "{report:?}");
        let one = &report.destinations[0];
        assert_eq!((one.files, one.hard_links, one.symlinks, one.directories), (12, 2, 2, 4));
        assert_same(&from, &to);
        let blocks = |path: &str| fs::metadata(to.join(path)).unwrap().blocks() * 512;
        assert!(blocks("a/sparse") < 1 << 20, "{}", blocks("a/sparse"));
        assert!(blocks("z") >= 5_000_000);
        let again = copy(&from, &to);
        assert_eq!(again.undone(), 0, "{again:?}");
        let one = &again.destinations[0];
        assert_eq!((one.files, one.unchanged, again.read_files), (0, 16, 0), "{again:?}");
        assert_same(&from, &to);
    }
}

#[test]
fn one_read_feeds_all_destinations_and_hashes() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("from")).unwrap();
    make_tree(&at("from"));
    let options = CopyOptions { hashes: HashKind::ALL.to_vec(), ..CopyOptions::default() };
    let report = copy_with(&at("from"), &[&at("one"), &at("two"), &at("three")], options.clone());
    assert_eq!(report.undone(), 0, "{report:?}");
    let mut wanted = 0;
    for name in ["one", "two", "three"] {
        assert_same(&at("from"), &at(name));
    }
    for entry in fs::read_dir(at("from/a")).unwrap() {
        let found = entry.unwrap().metadata().unwrap();
        wanted += if found.is_file() { found.len() } else { 0 };
    }
    // The holes of one file are not read.
    let read = report.read_bytes;
    assert!(read <= wanted && read > 6_000_000, "{read} of {wanted}");
    let (_, events) = heard(&at("from"), &at("four"), options);
    let item = events.items.iter().find(|item| item.key == b"a/sparse").unwrap();
    let mut bytes = Vec::new();
    fs::File::open(at("from/a/sparse")).unwrap().read_to_end(&mut bytes).unwrap();
    let blake3 = item.digests.iter().find(|digest| digest.kind == HashKind::Blake3).unwrap();
    assert_eq!(blake3.value, blake3::hash(&bytes).as_bytes());
    assert_eq!(item.digests.len(), HashKind::ALL.len());
}

#[test]
fn bodies_that_lie_in_other_files_are_gathered() {
    let mut model = TreeModel::new().file("big", vec![7; 3_000_001]).file("empty", "");
    for number in 0..3000 {
        model = model.file(format!("d{}/{number}", number % 7), vec![number as u8; number % 300]);
    }
    let directory = tempfile::tempdir().unwrap();
    let (to, files) = (directory.path().join("to"), directory.path().join("files"));
    fs::create_dir(&files).unwrap();
    make_files(&model, &files);
    let source = CopySource::tree(Arc::new(MemoryTree::new(&model)), "memory");
    let report = Copy::new(vec![source], vec![Destination::new(&to)]).run(&mut ()).unwrap();
    assert_eq!((report.undone(), report.destinations[0].files), (0, 3002), "{report:?}");
    for (path, entry) in model.iter() {
        if let TreeEntry::File(bytes) = entry {
            assert!(fs::read(to.join(OsStr::from_bytes(path))).unwrap() == *bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Names of any bytes, links, hard links and extended attributes, from disk and from memory.
    #[test]
    fn any_tree_comes_out_as_it_is(model in with_random_xattrs(tree_models(true))) {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("from")).unwrap();
        make_files(&model, &at("from"));
        let options = CopyOptions { durability: Durability::None, ..CopyOptions::default() };
        let report = copy_with(&at("from"), &[&at("to")], options.clone());
        prop_assert_eq!(report.undone(), 0, "{:?}", report);
        assert_same(&at("from"), &at("to"));
        let names = |name: &str, path: &[u8]| {
            let path = at(name).join(OsStr::from_bytes(path));
            let mut names = vec![0; 4096];
            let len = rustix::fs::llistxattr(&path, names.as_mut_slice()).unwrap();
            let names: Vec<Vec<u8>> = names[..len].split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
            let mut values: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            for name in names.into_iter().filter(|name| name.starts_with(b"user.")) {
                let mut value = vec![0; 4096];
                let len = rustix::fs::lgetxattr(&path, name.as_slice(), value.as_mut_slice()).unwrap();
                value.truncate(len);
                values.push((name, value));
            }
            values.sort();
            values
        };
        for (path, _) in model.iter() {
            prop_assert_eq!(names("from", path), names("to", path));
        }
        let source = CopySource::tree(Arc::new(MemoryTree::new(&model)), "memory");
        let copy = Copy::new(vec![source], vec![Destination::new(at("memory"))]).with_options(options);
        prop_assert_eq!(copy.run(&mut ()).unwrap().undone(), 0);
        for (path, _) in model.iter() {
            if let Some(bytes) = model.bytes(path) {
                prop_assert_eq!(&fs::read(at("memory").join(OsStr::from_bytes(path))).unwrap(), bytes);
            }
            prop_assert_eq!(names("from", path), names("memory", path));
        }
    }
}
