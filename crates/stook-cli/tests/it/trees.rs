//! Trees to pack, and what two trees have to have in common.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

/// Bytes that no other seed gives.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    stook_testing::conformance::noise(seed, len)
}

/// A tree with one of everything that has gone wrong somewhere.
pub(crate) fn nasty(root: &Path) {
    for dir in ["a/b/c", "empty", "read-only", "sticky"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    let named = |name: &[u8], bytes: &[u8]| fs::write(root.join(OsStr::from_bytes(name)), bytes).unwrap();
    named(b"a/plain", b"text");
    named(b"a/b/empty", b"");
    named(b"-leading-dash", b"1");
    named(b"new\nline \\ and \"quotes\"", b"2");
    named(b"a/not-text-\xff\xfe", b"3");
    named(&[b'n'; 255], b"4");
    named(b"id:7", b"not a number");
    // Around a chunk, and around what the walk reads at once.
    for (number, len) in
        [65_535, 65_536, 65_537, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000].iter().enumerate()
    {
        named(format!("a/b/c/{len}").as_bytes(), &noise(number as u64, *len));
    }
    fs::hard_link(root.join("a/plain"), root.join("a/b/again")).unwrap();
    fs::hard_link(root.join("a/plain"), root.join("z-last")).unwrap();
    symlink("a/plain", root.join("link")).unwrap();
    symlink("../../loop", root.join("a/loop")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("/nonexistent/absolute", root.join("a/b/dangling")).unwrap();
    symlink("a", root.join("to-directory")).unwrap();
    fs::write(root.join("read-only/file"), b"x").unwrap();
    fs::set_permissions(root.join("a/plain"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::set_permissions(root.join("read-only"), fs::Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(root.join("sticky"), fs::Permissions::from_mode(0o1777)).unwrap();
    for (name, time) in [
        ("a/b/empty", UNIX_EPOCH - Duration::from_nanos(1_500_000_000)),
        ("a/b/c", UNIX_EPOCH + Duration::new(1_000_000_000, 7)),
    ] {
        fs::File::open(root.join(name)).unwrap().set_modified(time).unwrap();
    }
}

/// A description of a tree that differs if any stored property differs.
pub(crate) fn described(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    describe(root, b"", &mut lines);
    lines.sort();
    lines
}

fn describe(path: &Path, key: &[u8], lines: &mut Vec<String>) {
    let meta = path.symlink_metadata().unwrap();
    let what = match meta.file_type() {
        kind if kind.is_symlink() => format!("link to {:?}", fs::read_link(path).unwrap()),
        kind if kind.is_dir() => "directory".into(),
        kind if kind.is_file() => format!("file of {} with {} names", meta.len(), meta.nlink()),
        other => format!("{other:?}"),
    };
    // The mode of a link means nothing, and cannot be set.
    let mode = if meta.is_symlink() { 0 } else { meta.mode() & 0o7777 };
    let (name, time) = (OsStr::from_bytes(key), (meta.mtime(), meta.mtime_nsec()));
    lines.push(format!("{name:?} {what} {mode:o} {time:?} {}:{}", meta.uid(), meta.gid()));
    if meta.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            let name = entry.unwrap().file_name();
            let key =
                if key.is_empty() { name.as_bytes().to_vec() } else { [key, b"/", name.as_bytes()].concat() };
            describe(&path.join(&name), &key, lines);
        }
    }
}

/// The trees are the same: in bytes by `diff`, and in kinds, modes, times, owners and links.
pub(crate) fn assert_same(one: &Path, other: &Path) {
    let diff = Command::new("diff").args(["-r", "--no-dereference"]).args([one, other]).output().unwrap();
    assert!(diff.status.success(), "{}", String::from_utf8_lossy(&diff.stdout));
    assert_eq!(described(one), described(other));
}
