//! Trees that were made to be awkward: deep, flat, circular, unreadable, oddly named.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use stook::Error;
use stook::walk::{Content, Decision, Kind, Walk, WalkOptions};

use super::{Found, reference, report, small, walk_of};

#[test]
fn links_are_reported_and_never_followed() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "x").unwrap();
    std::fs::create_dir(root.path().join("a")).unwrap();
    symlink("..", root.path().join("a/up")).unwrap();
    symlink(".", root.path().join("self")).unwrap();
    symlink(outside.path(), root.path().join("out")).unwrap();
    symlink("nowhere", root.path().join("dangling")).unwrap();
    symlink("loop", root.path().join("loop")).unwrap();
    let got = report(&walk_of(root.path()));
    assert_eq!(got.keys(), ["", "a", "a/up", "dangling", "loop", "out", "self"]);
    assert_eq!(got.summary.symlinks, 5);
    assert_eq!(got.tree(), reference(root.path()));
}

#[test]
fn special_files_are_reported_without_being_opened() {
    let root = tempfile::tempdir().unwrap();
    let directory: OwnedFd = std::fs::File::open(root.path()).unwrap().into();
    rustix::fs::mknodat(&directory, "pipe", rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _listener = UnixListener::bind(root.path().join("socket")).unwrap();
    let got = report(&walk_of(root.path()));
    assert_eq!(got.item("pipe").kind(), Kind::Fifo);
    assert_eq!(got.item("socket").kind(), Kind::Socket);
    assert_eq!(got.summary.specials, 2);
    assert!(got.errors.is_empty());
}

#[test]
fn names_of_any_bytes_come_through() {
    let root = tempfile::tempdir().unwrap();
    let names: [&[u8]; 6] = [b"\xff\xfe", b"new\nline", b"-rf", b" ", b"back\\slash", &[b'n'; 255]];
    for name in names {
        std::fs::write(root.path().join(OsStr::from_bytes(name)), name).unwrap();
    }
    let got = report(&walk_of(root.path()));
    assert_eq!(got.summary.files, 6);
    assert_eq!(got.tree(), reference(root.path()));
}

/// Makes a chain of directories of that name, with a file in every one.
fn make_chain(root: &Path, name: &str, levels: usize) {
    let mut at: OwnedFd = std::fs::File::open(root).unwrap().into();
    for level in 0..levels {
        rustix::fs::mkdirat(&at, name, Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&at, "file", flags, Mode::RUSR).unwrap();
        rustix::io::write(&file, level.to_string().as_bytes()).unwrap();
    }
}

/// `remove_dir_all` of the standard library opens all levels at once.
fn remove_chain(root: &Path, name: &str) {
    let root: OwnedFd = std::fs::File::open(root).unwrap().into();
    loop {
        let open =
            |at: &OwnedFd| rustix::fs::openat(at, name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let Ok(top) = open(&root) else { return };
        rustix::fs::unlinkat(&top, "file", AtFlags::empty()).unwrap();
        // The rest moves up one level, and what remains of the top is empty.
        if rustix::fs::renameat(&top, name, &root, "next").is_ok() {
            rustix::fs::unlinkat(&root, name, AtFlags::REMOVEDIR).unwrap();
            rustix::fs::renameat(&root, "next", &root, name).unwrap();
        } else {
            rustix::fs::unlinkat(&root, name, AtFlags::REMOVEDIR).unwrap();
        }
    }
}

#[test]
fn five_thousand_levels_and_paths_beyond_path_max_are_walked_with_few_open_files() {
    let levels = 5000;
    let root = tempfile::tempdir().unwrap();
    make_chain(root.path(), "a-directory", levels);
    for threads in [1, 16] {
        let got = report(&Walk::new([root.path()]).unwrap().options(small(threads)));
        assert!(got.errors.is_empty(), "{}", got.errors[0]);
        assert_eq!(got.summary.directories, levels as u64 + 1);
        assert_eq!(got.summary.files, levels as u64);
        let longest = got.items.iter().max_by_key(|i| i.key.len()).unwrap();
        assert_eq!(longest.key.len(), levels * "a-directory/".len() + "file".len());
        assert_eq!(super::found(longest), Found::File { mode: 0o400, bytes: b"4999".to_vec() });
    }
    remove_chain(root.path(), "a-directory");
}

#[test]
fn a_large_file_far_below_path_max_opens_after_the_walk() {
    let root = tempfile::tempdir().unwrap();
    make_chain(root.path(), "a-directory", 1500);
    let options = WalkOptions { read_up_to: 0, ..small(4) };
    let got = report(&Walk::new([root.path()]).unwrap().options(options));
    assert_eq!(got.summary.files_large, 1500);
    let deepest = got.items.iter().max_by_key(|i| i.key.len()).unwrap();
    assert_eq!(super::found(deepest), Found::File { mode: 0o400, bytes: b"1499".to_vec() });
    drop(got);
    remove_chain(root.path(), "a-directory");
}

#[test]
fn a_flat_directory_larger_than_the_backlog_is_complete() {
    let root = tempfile::tempdir().unwrap();
    let count = 40_000;
    for i in 0..count {
        std::fs::write(root.path().join(format!("f{i}")), []).unwrap();
    }
    // Directories beside the files, found before and after the listing is suspended.
    for i in 0..2_000 {
        std::fs::create_dir_all(root.path().join(format!("d{i}/e"))).unwrap();
    }
    let got = report(&walk_of(root.path()));
    assert_eq!(got.summary.files, count);
    assert_eq!(got.summary.directories, 4_001);
    assert_eq!(got.tree().len(), got.items.len());
}

#[test]
fn entries_that_cannot_be_read_are_reported_and_the_walk_goes_on() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("vanishing")).unwrap();
    for name in ["a", "gone", "z"] {
        std::fs::write(root.path().join(name), name).unwrap();
    }
    // Root may read anything, so what cannot be read is what disappears between list and open.
    let path = root.path().to_path_buf();
    let walk = walk_of(root.path()).select(move |key, _| {
        match key {
            b"gone" => std::fs::remove_file(path.join("gone")).unwrap(),
            b"vanishing" => std::fs::remove_dir(path.join("vanishing")).unwrap(),
            _ => {}
        }
        Decision::Take
    });
    let got = report(&walk);
    assert_eq!(got.keys(), ["", "a", "z"]);
    assert_eq!(got.summary.errors, 2);
    let mut keys: Vec<&[u8]> = got.errors.iter().map(|e| e.key()).collect();
    keys.sort_unstable();
    assert_eq!(keys, [&b"gone"[..], b"vanishing"]);
    for error in &got.errors {
        assert_eq!(error.error().io_kind(), Some(std::io::ErrorKind::NotFound));
        let path = root.path().join(OsStr::from_bytes(error.key()));
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn hard_links_tell_the_same_inode() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("one"), "1").unwrap();
    std::fs::hard_link(root.path().join("one"), root.path().join("two")).unwrap();
    let got = report(&walk_of(root.path()));
    let (one, two) = (got.item("one").status, got.item("two").status);
    assert_eq!((one.device, one.inode, one.node.links), (two.device, two.inode, two.node.links));
}

#[test]
fn several_roots_prefix_their_keys_and_may_be_files_and_links() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    std::fs::create_dir(at("a")).unwrap();
    std::fs::write(at("a/x"), "ax").unwrap();
    std::fs::create_dir(at("b")).unwrap();
    std::fs::write(at("b/x"), "bx").unwrap();
    std::fs::write(at("single"), "s").unwrap();
    symlink("b", at("linked")).unwrap();
    let walk = Walk::new([at("a"), at("b/."), at("single"), at("linked")]).unwrap().options(small(2));
    let got = report(&walk);
    assert_eq!(got.keys(), ["a", "a/x", "b", "b/x", "linked", "linked/x", "single"]);
    let alone = report(&walk_of(&at("single")));
    assert_eq!(alone.keys(), ["single"]);
    assert!(matches!(&alone.items[0].content, Content::Bytes(b) if &**b == b"s"));
}

#[test]
fn roots_that_cannot_be_told_apart_or_opened_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(scratch.path().join("a/same")).unwrap();
    std::fs::create_dir_all(scratch.path().join("b/same")).unwrap();
    let error = Walk::new([scratch.path().join("a/same"), scratch.path().join("b/same")]).unwrap_err();
    assert!(error.to_string().contains("b/same"), "{error}");
    // Before: "cannot walk".
    assert!(error.to_string().starts_with("cannot list the tree"), "{error}");
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("take them one by one"), "{why}");
    let missing = Walk::new([scratch.path().join("missing")]).unwrap();
    let error = missing.run::<Error>(|_| Ok(())).unwrap_err();
    assert_eq!(error.io_kind(), Some(std::io::ErrorKind::NotFound));
}

#[test]
fn the_first_error_of_the_consumer_ends_the_walk() {
    let root = tempfile::tempdir().unwrap();
    for i in 0..500 {
        std::fs::write(root.path().join(i.to_string()), [0; 900]).unwrap();
    }
    let mut seen = 0;
    // Little room, so that the threads are waiting for it when the consumer leaves.
    let walk =
        Walk::new([root.path()]).unwrap().options(WalkOptions { buffered_bytes_max: 10_000, ..small(8) });
    let result = walk.run::<Error>(|_| {
        seen += 1;
        if seen == 3 { Err(Error::AlreadyExists { path: "enough".into() }) } else { Ok(()) }
    });
    assert!(matches!(result, Err(Error::AlreadyExists { .. })));
    assert_eq!(seen, 3);
}

#[test]
fn a_panic_in_hook_or_consumer_reaches_the_caller() {
    let root = tempfile::tempdir().unwrap();
    for i in 0..200 {
        std::fs::write(root.path().join(i.to_string()), [0; 900]).unwrap();
    }
    let options = WalkOptions { buffered_bytes_max: 10_000, ..small(8) };
    let in_hook = std::panic::catch_unwind(|| {
        let walk = Walk::new([root.path()]).unwrap().options(options).wanted(|c| {
            assert!(c.key != b"77", "hook");
            true
        });
        walk.run::<Error>(|_| Ok(()))
    });
    assert!(in_hook.is_err());
    let in_consumer = std::panic::catch_unwind(|| {
        Walk::new([root.path()]).unwrap().options(options).run::<Error>(|_| panic!("consumer"))
    });
    assert!(in_consumer.is_err());
}
