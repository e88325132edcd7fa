//! Names and paths that something has stumbled over.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{Mode, OFlags, XattrFlags, fgetxattr, fsetxattr, mkdirat, open, openat};
use stook_testing::privileged::{EXT4, LoopDevice};

use super::super::program::{ended, stook};
use super::{assert_same, assert_same_attributes, copied, failed};

const NAMES: &[&[u8]] = &[
    b"-leading-dash",
    b"--delete",
    b"-",
    b"new\nline",
    b"\n",
    b"back\\slash",
    b"\\n",
    b"\\\\",
    b"tab\tbell\x07escape\x1b[31m",
    b"not-text-\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80 half of a pair",
    b" ",
    b" leading",
    b"trailing ",
    b"*?[a-z]{b,c}!",
    b"$(id)`id`;id|id&",
    b"'single' \"double\"",
    b"#comment",
    b"%s%n",
    b"Case",
    b"case",
    b"CASE",
    b"stra\xc3\x9fe",
    b"STRASSE",
    b"\xc3\xa9 in one piece",
    b"e\xcc\x81 in two pieces",
    b".hidden",
    b"...",
    b"..a",
    b"a:b",
    b"CON",
    b"id:7",
    b"s3:",
    b"x.stook",
    b".stook-0123456789abcdef-1.part",
    b".stook-0123456789abcdef-1.part~",
    b"doc",
    b"doc~",
    b"~",
];

/// Files, directories and links with each of them, and with one of 255 bytes.
fn make_names(root: &Path) {
    for below in ["files", "directories", "links"] {
        fs::create_dir_all(root.join(below)).unwrap();
    }
    let longest = [b'n'; 255];
    for name in NAMES.iter().copied().chain([&longest[..]]) {
        let name = OsStr::from_bytes(name);
        fs::write(root.join("files").join(name), name.as_bytes()).unwrap();
        let directory = root.join("directories").join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(name), name.as_bytes()).unwrap();
        symlink(Path::new("../files").join(name), root.join("links").join(name)).unwrap();
    }
}

#[test]
fn names_of_every_kind_come_out_as_they_are_from_and_to_every_run() {
    let (device, dir) = (LoopDevice::mount_as(EXT4, 64 << 20, 512).unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (dir.path().join("from"), device.path().join("to"));
    make_names(&from);
    copied([&from, &to]);
    assert_same(&from, &to);
    for more in [&[][..], &["--checksum"], &["--overwrite", "always"], &["--mirror"]] {
        let paths = [from.as_os_str(), to.as_os_str()];
        copied(paths.into_iter().chain(more.iter().map(OsStr::new)));
        assert_same(&from, &to);
    }
    fs::write(to.join("files/extra\n"), "").unwrap();
    let said = copied([from.as_os_str(), to.as_os_str(), "--mirror".as_ref()]);
    assert!(said.contains("deleted files/extra\\x0a\n"), "{said}");
    assert_same(&from, &to);
}

#[test]
fn names_of_every_kind_can_be_given_on_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("from");
    make_names(&from);
    let in_directory = |args: &[&OsStr]| {
        let mut command = stook(["copy"]);
        let (code, stdout, stderr) = ended(command.args(args).current_dir(from.join("files")));
        assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}: {stdout}");
    };
    fs::remove_file(from.join("files").join("n".repeat(255))).unwrap();
    let to = dir.path().join("to");
    let mut all = vec![OsStr::new("--")];
    all.extend(NAMES.iter().map(|name| OsStr::from_bytes(name)));
    all.push(to.as_os_str());
    in_directory(&all);
    assert_same(&from.join("files"), &to);
    let below = to.join(OsStr::from_bytes(b"new\nline\xff"));
    in_directory(&["--".as_ref(), "--delete".as_ref(), below.as_os_str()]);
    assert!(below.join("--delete").exists());
}

/// What is said goes to a terminal.
#[test]
fn names_in_messages_have_no_control_characters() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to\x1b[31m\n"));
    make_names(&from);
    for name in NAMES {
        // A directory where a file is to go.
        fs::create_dir_all(to.join("files").join(OsStr::from_bytes(name))).unwrap();
    }
    let said = failed([from.as_os_str(), to.as_os_str(), "--verbose".as_ref()]);
    assert!(!said.bytes().any(|byte| byte < b' ' && byte != b'\n' || byte == 0x7f), "{said:?}");
    assert_eq!(said.lines().count(), NAMES.len(), "one line for each: {said}");
    for name in NAMES {
        assert!(to.join("directories").join(OsStr::from_bytes(name)).exists());
    }
}

fn directory(parent: &OwnedFd, name: &str) -> OwnedFd {
    openat(parent, name, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap()
}

#[test]
fn paths_longer_than_the_system_takes_come_out_with_all_attributes() {
    const LEVELS: usize = 40;
    let (device, dir) = (LoopDevice::mount_as(EXT4, 64 << 20, 512).unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (device.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).unwrap();
    let name = "d".repeat(255);
    let mut here = open(&from, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..LEVELS {
        mkdirat(&here, &name, Mode::from_raw_mode(0o750)).unwrap();
        here = directory(&here, &name);
    }
    let new = OFlags::CREATE | OFlags::RDWR;
    let file = openat(&here, &name[1..], new, Mode::from_raw_mode(0o640)).unwrap();
    rustix::io::write(&file, b"deep down").unwrap();
    fsetxattr(&file, "user.deep", b"down", XattrFlags::empty()).unwrap();
    rustix::fs::symlinkat("a/b", &here, "link").unwrap();
    rustix::fs::linkat(&here, &name[1..], &here, "again", rustix::fs::AtFlags::empty()).unwrap();
    copied([&from, &to]);
    let said = copied([&from, &to]);
    assert!(said.contains("unchanged"), "{said}");
    let mut there = open(&to, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..LEVELS {
        there = directory(&there, &name);
        assert_eq!(rustix::fs::fstat(&there).unwrap().st_mode & 0o7777, 0o750);
    }
    let made = openat(&there, &name[1..], OFlags::RDONLY, Mode::empty()).unwrap();
    let (mut bytes, mut value) = ([0; 20], [0; 20]);
    assert_eq!(rustix::io::read(&made, &mut bytes).unwrap(), 9);
    assert_eq!(fgetxattr(&made, "user.deep", &mut value).unwrap(), 4);
    assert_eq!((&bytes[..9], &value[..4]), (&b"deep down"[..], &b"down"[..]));
    let (was, is) = (rustix::fs::fstat(&file).unwrap(), rustix::fs::fstat(&made).unwrap());
    assert_eq!(
        (was.st_mode, was.st_mtime, was.st_mtime_nsec, was.st_nlink),
        (is.st_mode, is.st_mtime, is.st_mtime_nsec, is.st_nlink)
    );
    assert_eq!(rustix::fs::readlinkat(&there, "link", Vec::new()).unwrap().as_bytes(), b"a/b");
}

/// `doc~` is a file of its own, and the name under which `doc` is kept.
#[test]
fn names_that_end_like_backups_are_ordinary_and_what_is_replaced_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir(&from).unwrap();
    for (name, text) in [("doc", "first"), ("doc~", "another"), ("~", "home")] {
        fs::write(from.join(name), text).unwrap();
    }
    copied([&from, &to]);
    assert_same(&from, &to);
    fs::write(from.join("doc"), "second, and longer").unwrap();
    copied([from.as_os_str(), to.as_os_str(), "--overwrite".as_ref(), "different".as_ref()]);
    assert_same(&from, &to);
    fs::write(from.join("doc"), "third").unwrap();
    let with_backup = ["--overwrite", "different", "--backup=.old"].map(OsStr::new);
    copied([from.as_os_str(), to.as_os_str()].into_iter().chain(with_backup));
    assert_eq!(fs::read(to.join("doc.old")).unwrap(), b"second, and longer");
    fs::remove_file(to.join("doc.old")).unwrap();
    // That was a change of the directory, perhaps in another second.
    let time = from.metadata().unwrap().modified().unwrap();
    fs::File::open(&to).unwrap().set_modified(time).unwrap();
    assert_same(&from, &to);
    assert_same_attributes(&from, &to);
}
