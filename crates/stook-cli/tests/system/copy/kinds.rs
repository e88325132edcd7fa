//! Trees with one of everything that a file system can hold, from each file system to the next.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, lsetxattr, makedev, mknodat};
use stook_testing::privileged::{BTRFS, EXT4, LoopDevice, XFS, run};
use stook_testing::trees::rsync_would;

use super::super::program::{Home, SOMEBODY, ended};
use super::super::trees::noise;
use super::{assert_same, assert_same_attributes, copied, copy, failed, set_mode};

/// Around nothing, a block of a file system, what is copied at once, and a block of a large file.
fn make_lens(root: &Path) {
    let around = [4096, 256 << 10, 1 << 20].into_iter().flat_map(|len| [len - 1, len, len + 1]);
    for len in [0, 1].into_iter().chain(around) {
        fs::write(root.join(format!("len-{len}")), noise(len as u64 + 1, len)).unwrap();
    }
}

fn make_links(root: &Path) {
    fs::create_dir_all(root.join("links/below")).unwrap();
    fs::write(root.join("links/first"), "of three names").unwrap();
    for name in ["second", "below/third"] {
        fs::hard_link(root.join("links/first"), root.join("links").join(name)).unwrap();
    }
    for (to, name) in [
        ("first", "plain"),
        ("no/such", "dangling"),
        ("/etc/hostname", "absolute"),
        ("../../../../../../etc", "out"),
        ("itself", "itself"),
        ("cycle-b", "cycle-a"),
        ("cycle-a", "cycle-b"),
        ("..", "below/up"),
        (".", "below/here"),
    ] {
        symlink(to, root.join("links").join(name)).unwrap();
    }
}

fn make_specials(root: &Path) {
    fs::create_dir(root.join("specials")).unwrap();
    let node = |name: &str, kind, mode, device| {
        mknodat(CWD, root.join("specials").join(name), kind, Mode::from_raw_mode(mode), device).unwrap();
        set_mode(&root.join("specials").join(name), mode);
    };
    node("pipe", FileType::Fifo, 0o622, 0);
    node("null", FileType::CharacterDevice, 0o666, makedev(1, 3));
    node("disk", FileType::BlockDevice, 0o660, makedev(7, 200));
}

/// Extended attributes of all spaces, and access control lists, inherited ones too.
fn make_attributes(root: &Path) {
    let below = root.join("attributes");
    fs::create_dir_all(below.join("inherits")).unwrap();
    fs::write(below.join("file"), "x").unwrap();
    symlink("file", below.join("link")).unwrap();
    let all: [(&str, &str, &[u8]); 9] = [
        ("file", "user.text", b"value"),
        ("file", "user.empty", b""),
        ("file", "user.bytes", b"\0\xff\n"),
        ("file", "user.long", &[b'v'; 300]),
        ("file", "security.stook", b"1"),
        ("file", "trusted.stook", b"2"),
        ("link", "trusted.of-the-link", b"3"),
        ("inherits", "user.of-a-directory", b"4"),
        ("../specials/pipe", "trusted.of-the-pipe", b"5"),
    ];
    for (path, name, value) in all {
        lsetxattr(below.join(path), name, value, XattrFlags::empty()).unwrap();
    }
    let acl = |list: &str, path: &str| {
        run(Command::new("setfacl").args(["-m", list]).arg(below.join(path))).unwrap()
    };
    acl("u:1234:rw-,g:5678:r--,m::rw-", "file");
    acl("u:1234:rwx,d:u:1234:rwx,d:g:5678:r-x,d:o::-", "inherits");
    acl("u:1234:r--", "../specials/null");
    fs::write(below.join("inherits/with-list"), "x").unwrap();
    fs::write(below.join("inherits/without"), "x").unwrap();
    run(Command::new("setfacl").arg("-b").arg(below.join("inherits/without"))).unwrap();
    fs::create_dir(below.join("inherits/directory")).unwrap();
}

fn make_modes(root: &Path) {
    fs::create_dir_all(root.join("modes/empty")).unwrap();
    fs::create_dir_all(root.join("modes/closed")).unwrap();
    fs::write(root.join("modes/closed/file"), "x").unwrap();
    for (name, mode, owner) in [
        ("set-user-id", 0o4755, 0),
        ("set-ids-of-somebody", 0o6711, SOMEBODY),
        ("none", 0o000, 1),
        ("all", 0o777, 2),
    ] {
        let path = root.join("modes").join(name);
        fs::write(&path, name).unwrap();
        std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
        set_mode(&path, mode);
    }
    for (name, mode) in [("modes/empty", 0o2770), ("modes/closed", 0o000), ("modes", 0o1777)] {
        set_mode(&root.join(name), mode);
    }
    for (name, time) in [
        ("modes/all", UNIX_EPOCH - Duration::from_nanos(1_500_000_000)),
        ("modes/set-user-id", UNIX_EPOCH + Duration::new(4_000_000_000, 123_456_789)),
        ("modes/empty", UNIX_EPOCH + Duration::new(1, 1)),
    ] {
        fs::File::open(root.join(name)).unwrap().set_modified(time).unwrap();
    }
}

fn make_tree(root: &Path) {
    fs::create_dir(root).unwrap();
    make_lens(root);
    make_links(root);
    make_specials(root);
    make_attributes(root);
    make_modes(root);
}

#[test]
fn a_tree_of_everything_comes_out_the_same_on_every_file_system() {
    let devices = [(EXT4, 64 << 20), (XFS, 320 << 20), (BTRFS, 192 << 20)]
        .map(|(kind, len_bytes)| LoopDevice::mount_as(kind, len_bytes, 512).unwrap());
    make_tree(&devices[0].path().join("tree"));
    // From the first to the second, from that to the third, and back.
    let paths: Vec<_> =
        (0..4).map(|at| devices[at % 3].path().join(if at == 3 { "back" } else { "tree" })).collect();
    for pair in paths.windows(2) {
        copied([pair[0].as_os_str(), pair[1].as_os_str(), "--specials".as_ref()]);
        for path in [&paths[0], &pair[0]] {
            assert_same(path, &pair[1]);
            assert_same_attributes(path, &pair[1]);
        }
        // Nothing is left to be done.
        let said = copied([pair[0].as_os_str(), pair[1].as_os_str(), "--specials".as_ref()]);
        assert!(said.starts_with("Copied 0 files,"), "{said}");
        assert_same(&paths[0], &pair[1]);
    }
}

#[test]
fn two_destinations_and_files_that_are_replaced_get_everything_too() {
    let dir = tempfile::tempdir().unwrap();
    let [from, one, two] = ["from", "one", "two"].map(|name| dir.path().join(name));
    make_tree(&from);
    copied([&from, &two].map(|path| path.as_os_str()).into_iter().chain(["--specials".as_ref()]));
    for entry in fs::read_dir(two.join("links")).unwrap().map(Result::unwrap) {
        // Each link is another, each name another file.
        if !entry.file_type().unwrap().is_dir() {
            fs::remove_file(entry.path()).unwrap();
            fs::write(entry.path(), "another").unwrap();
        }
    }
    let args = ["--specials", "--overwrite", "different", "--to"].map(OsStr::new);
    copied([from.as_os_str(), one.as_os_str()].into_iter().chain(args).chain([two.as_os_str()]));
    for to in [one, two] {
        assert_same(&from, &to);
        assert_same_attributes(&from, &to);
    }
}

#[test]
fn sockets_and_special_files_that_nobody_asked_for_are_named_and_all_else_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    make_tree(&from);
    let _listener = UnixListener::bind(from.join("socket")).unwrap();
    let said = failed([&from, &to]);
    for (name, kind) in [
        ("socket", "a socket"),
        ("specials/pipe", "a named pipe"),
        ("specials/null", "a character device"),
        ("specials/disk", "a block device"),
    ] {
        let line = said.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {said}"));
        assert!(line.contains(kind) && line.contains("was not copied"), "{line}");
    }
    let missing = rsync_would(&from, &to);
    let mut missing: Vec<&str> = missing.iter().filter_map(|line| line.split(' ').next_back()).collect();
    missing.sort_unstable();
    assert_eq!(missing, ["socket", "specials/disk", "specials/null", "specials/pipe"]);
    let said = failed([from.as_os_str(), to.as_os_str(), "--specials".as_ref()]);
    assert!(said.contains("socket is a socket, and was not copied."), "{said}");
    let missing = rsync_would(&from, &to);
    assert!(missing.len() == 1 && missing[0].ends_with(" socket"), "{missing:?}");
}

#[test]
fn immutable_sources_are_copied_and_immutable_destinations_are_named() {
    let device = LoopDevice::mount_as(EXT4, 64 << 20, 512).unwrap();
    let (from, to) = (device.path().join("from"), device.path().join("to"));
    for below in ["held", "open"] {
        fs::create_dir_all(from.join(below)).unwrap();
        for name in ["held", "open"] {
            fs::write(from.join(below).join(name), format!("{below}/{name}")).unwrap();
        }
    }
    let attribute = |change: &str, path: &Path| run(Command::new("chattr").arg(change).arg(path)).unwrap();
    for path in ["held/held", "held"] {
        attribute("+i", &from.join(path));
    }
    copied([&from, &to]);
    assert_same(&from, &to);
    for path in ["open/held", "open/open"] {
        fs::write(from.join(path), "more than it had").unwrap();
    }
    fs::write(from.join("new"), "new").unwrap();
    attribute("+i", &to.join("open/held"));
    attribute("+i", &to.join("held"));
    let args = [from.as_os_str(), to.as_os_str(), "--overwrite".as_ref(), "different".as_ref()];
    let said = failed(args);
    // The time of an immutable directory cannot be set, and is.
    assert!(said.contains(to.join("open/held").to_str().unwrap()), "{said}");
    assert!(said.contains("Operation not permitted"), "{said}");
    assert!(!said.contains("open/open") && !said.contains("/new"), "{said}");
    assert_eq!(fs::read(to.join("open/held")).unwrap(), b"open/held");
    assert_eq!(fs::read(to.join("open/open")).unwrap(), b"more than it had");
    assert_eq!(fs::read(to.join("new")).unwrap(), b"new");
    attribute("-i", &to.join("open/held"));
    attribute("-i", &to.join("held"));
    copied(args);
    assert_same(&from, &to);
}

#[test]
fn a_directory_to_which_can_only_be_added_gets_large_files_too_and_nothing_else() {
    let device = LoopDevice::mount_as(EXT4, 256 << 20, 512).unwrap();
    let (from, to) = (device.path().join("from"), device.path().join("to"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    // One that the next run could continue, after its times have become what they stay.
    fs::write(from.join("large"), noise(1, 65 << 20)).unwrap();
    fs::write(from.join("small"), "small").unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let attribute = |change: &str, path: &Path| run(Command::new("chattr").arg(change).arg(path)).unwrap();
    attribute("+a", &to);
    let (_, stdout, stderr) = ended(&mut copy([&from, &to]));
    attribute("-a", &to);
    assert!(!stderr.contains("large"), "{stdout}{stderr}");
    assert!(fs::read(from.join("large")).unwrap() == fs::read(to.join("large")).unwrap());
    let mut names: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["large", "small"], "{stderr}");
}

/// Root reads everything: this is for everybody else.
#[test]
fn what_may_not_be_read_is_named_and_all_else_is_copied() {
    let home = Home::new();
    let tree = home.path("tree");
    for name in ["locked/inside", "plain/file", "listed-only/inside", "unlisted/inside"] {
        fs::create_dir_all(tree.join(name).parent().unwrap()).unwrap();
        fs::write(tree.join(name), name).unwrap();
    }
    fs::write(tree.join("plain/secret"), "of root").unwrap();
    run(Command::new("chown").args(["-R", &format!("{SOMEBODY}:{SOMEBODY}")]).arg(&tree)).unwrap();
    for (name, mode) in [
        ("locked", 0),
        ("listed-only", 0o400),
        ("unlisted", 0o100),
        ("plain/secret", 0),
        ("plain/file", 0o440),
    ] {
        set_mode(&tree.join(name), mode);
    }
    let (code, stdout, stderr) = ended(&mut home.somebody(["copy", "tree", "out"]));
    assert_eq!(code, 1, "{stdout}{stderr}");
    for name in ["tree/locked", "tree/listed-only", "tree/unlisted", "tree/plain/secret"] {
        let line = stderr.lines().find(|line| line.contains(name));
        let line = line.unwrap_or_else(|| panic!("{name} is not named: {stderr}"));
        assert!(line.contains("Permission denied"), "{line}");
    }
    assert!(!stderr.contains("plain/file"), "{stderr}");
    let made = fs::metadata(home.path("out/plain/file")).unwrap();
    assert_eq!((made.mode() & 0o7777, made.len()), (0o440, 10));
    let inside = ["locked", "listed-only", "unlisted"].map(|name| home.path("out").join(name).join("inside"));
    assert!(inside.iter().all(|path| !path.exists()), "{inside:?}");
    // Once all may be read, and what is there may be written to, the next run has it.
    for name in ["locked", "listed-only", "unlisted"] {
        set_mode(&tree.join(name), 0o755);
        set_mode(&home.path("out").join(name), 0o755);
    }
    set_mode(&tree.join("plain/secret"), 0o600);
    let (code, stdout, stderr) = ended(&mut home.somebody(["copy", "tree", "out"]));
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert_same(&tree, &home.path("out"));
}

/// What root copies for itself must not run with rights that others were given.
#[test]
fn set_user_id_bits_come_along_only_with_owners() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).unwrap();
    make_modes(&from);
    let (code, _, stderr) = ended(copy([&from, &to]).arg("--no-owner"));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let bits = |name: &str| fs::metadata(to.join("modes").join(name)).unwrap().mode() & 0o7000;
    assert_eq!((bits("set-user-id"), bits("set-ids-of-somebody")), (0, 0));
}
