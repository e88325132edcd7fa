//! Originals removed after packing: only what the pack holds, and only as it was when it was
//! compared.

use std::fs;
use std::os::unix::fs::symlink;

use stook::pack::tree::{Failure, MoveSummary, PackTree};
use stook::pack::{AccessRule, Error, OpenOptions, Pack};

use super::{Place, failed, same_trees};

fn direct(trees: &Place) -> Pack {
    let options = OpenOptions { access: AccessRule::Direct, ..OpenOptions::default() };
    Pack::open_path(trees.pack_path(), options).unwrap()
}

/// Removes, and calls `meanwhile` after this many entries.
fn remove(trees: &Place, at: u64, mut meanwhile: impl FnMut() -> bool) -> MoveSummary {
    let mut done = false;
    let mut progress = |seen: u64, _| {
        if seen == at && !done {
            done = true;
            return meanwhile();
        }
        true
    };
    trees.packing().remove_packed(&direct(trees), &[], &mut progress).unwrap()
}

#[test]
fn what_changes_after_it_was_compared_stays() {
    let trees = Place::new();
    for name in ["tree/a", "tree/b", "tree/c"] {
        fs::write(trees.path(name), name).unwrap();
    }
    symlink("a", trees.path("tree/l")).unwrap();
    trees.pack();
    // All five are read then, and none is removed: they wait for one another.
    let moved = remove(&trees, 5, || {
        fs::write(trees.path("tree/a"), "tree/A").unwrap();
        fs::remove_file(trees.path("tree/b")).unwrap();
        fs::remove_file(trees.path("tree/l")).unwrap();
        symlink("b", trees.path("tree/l")).unwrap();
        fs::write(trees.path("tree/new"), "x").unwrap();
        true
    });
    assert_eq!(failed(&moved.failures), [&b"a"[..], b"l"], "{moved:?}");
    assert!(
        moved
            .failures
            .iter()
            .all(|failure| matches!(failure.error, Error::Core(stook::Error::SourceChanged { .. })))
    );
    assert_eq!((moved.files, moved.symlinks, moved.directories), (1, 0, 0), "{moved:?}");
    assert_eq!(fs::read(trees.path("tree/a")).unwrap(), b"tree/A");
    assert!(trees.path("tree/new").exists() && !trees.path("tree/c").exists());
}

#[test]
fn stopped_anywhere_everything_is_in_the_tree_or_in_the_pack() {
    for at in [1, 3, 5, 6, 7, 8] {
        let trees = Place::new();
        fs::create_dir_all(trees.path("tree/d/e")).unwrap();
        fs::write(trees.path("tree/d/large"), vec![7; 3_000_000]).unwrap();
        fs::write(trees.path("tree/d/e/a"), "a").unwrap();
        fs::write(trees.path("tree/d/e/b"), "b").unwrap();
        fs::hard_link(trees.path("tree/d/e/b"), trees.path("tree/d/c")).unwrap();
        trees.pack();
        trees.unpack("before");
        let stopped = remove(&trees, at, || false);
        assert!(stopped.failures.is_empty(), "{at}: {stopped:?}");
        assert_eq!(stopped.interrupted, at <= 7, "{at}: {stopped:?}");
        trees.unpack("after");
        same_trees(&trees.path("before"), &trees.path("after"));
        // Directories that something was removed from are not what was packed; packed again, the
        // rest goes.
        trees.pack();
        let moved = remove(&trees, u64::MAX, || true);
        assert!(moved.failures.is_empty(), "{at}: {moved:?}");
        assert_eq!(fs::read_dir(trees.tree()).unwrap().count(), 0, "{at}");
        assert_eq!(stopped.files + moved.files, 4, "{at}");
    }
}

#[test]
fn what_failed_before_stays_whatever_the_pack_holds() {
    let trees = Place::new();
    fs::write(trees.path("tree/a"), "a").unwrap();
    fs::write(trees.path("tree/b"), "b").unwrap();
    trees.pack();
    let failure = Failure { key: b"a".to_vec(), error: Error::Invalid("for this test".into()) };
    let moved = trees.packing().remove_packed(&direct(&trees), &[failure], &mut |_, _| true).unwrap();
    assert_eq!((moved.files, moved.failures.len()), (1, 0), "{moved:?}");
    assert!(trees.path("tree/a").exists() && !trees.path("tree/b").exists());
}

/// An access control list as the kernel takes it: the owner, one more user, the group, the mask,
/// and the others.
fn access_control_list() -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in
        [(1_u16, 6_u16, u32::MAX), (2, 4, 1234), (4, 4, u32::MAX), (0x10, 4, u32::MAX), (0x20, 0, u32::MAX)]
    {
        list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    list
}

/// Files and directories with extended attributes.
fn labelled() -> Place {
    use rustix::fs::{XattrFlags, setxattr};
    let trees = Place::new();
    for name in ["note", "list", "plain", "labelled/file", "several"] {
        super::write(trees.tree().join(name), name);
    }
    super::write(trees.tree().join("long"), vec![7; 3 << 20]);
    fs::hard_link(trees.path("tree/several"), trees.path("tree/other")).unwrap();
    for name in ["note", "long", "labelled", "several"] {
        setxattr(trees.tree().join(name), "user.note", b"dear", XattrFlags::empty()).unwrap();
    }
    let list = access_control_list();
    setxattr(trees.tree().join("list"), "system.posix_acl_access", &list, XattrFlags::empty()).unwrap();
    trees
}

#[test]
fn what_has_extended_attributes_goes_where_the_pack_holds_them() {
    let trees = labelled();
    let packed = trees.pack();
    assert_eq!((packed.lost_xattrs.len(), packed.failures.len()), (0, 0), "{packed:?}");
    let moved = remove(&trees, u64::MAX, || true);
    assert!(moved.failures.is_empty(), "{moved:?}");
    assert_eq!(fs::read_dir(trees.tree()).unwrap().count(), 0);
}

#[test]
fn what_has_extended_attributes_that_the_pack_does_not_hold_stays_and_is_reported() {
    let trees = labelled();
    trees.pack_with(&PackTree { xattrs: false, ..trees.packing() });
    let moved = remove(&trees, u64::MAX, || true);
    let mut stay = failed(&moved.failures);
    stay.sort_unstable();
    assert_eq!(stay, [&b"labelled"[..], b"list", b"long", b"note", b"other", b"several"], "{moved:?}");
    let reported: Vec<String> = moved.failures.iter().map(|failure| failure.error.to_string()).collect();
    assert!(reported.iter().all(|reported| reported.contains("extended attributes")), "{reported:?}");
    assert!(reported.iter().any(|reported| reported.contains("user.note")), "{reported:?}");
    assert!(reported.iter().any(|reported| reported.contains("system.posix_acl_access")), "{reported:?}");
    assert!(!trees.path("tree/plain").exists() && !trees.path("tree/labelled/file").exists());
    for name in ["note", "list", "long", "labelled", "several", "other"] {
        assert!(trees.tree().join(name).exists(), "{name}");
    }
}
