//! `stook copy` where something cannot be read that is not the bytes of a source: what is there, an
//! earlier copy, extended attributes; and what root left that belongs to another user by then.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stook_testing::fuse::{Fault, FaultMount, Files, Operation, PageCache, Rule, Which};

use super::program::{SOMEBODY, ended, stook};

const EIO: i32 = 5;

struct Place(tempfile::TempDir);

impl Place {
    /// A source with files of which ten will not be readable elsewhere.
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for name in ["s", "below"] {
            fs::create_dir(place.at(name)).unwrap();
        }
        for number in 0..10 {
            fs::write(place.at(&format!("s/bad{number}")), format!("bad {number}")).unwrap();
        }
        fs::write(place.at("s/good"), "good").unwrap();
        fs::write(place.at("s/bad large"), vec![7; 600_000]).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn copy(&self, args: &[&str]) -> (i32, String, String) {
        ended(stook(["copy"]).args(args).current_dir(self.0.path()))
    }

    /// What is below, seen through a medium with bad blocks.
    fn failing(&self, operation: Operation, named: &str) -> FaultMount {
        let mount = FaultMount::mount(&self.at("below"), PageCache::Off).unwrap();
        let files = Files::Containing(named.into());
        mount.add(Rule { files, ..Rule::new(operation, Which::All, Fault::Errno(EIO)) });
        mount
    }

    fn assert_copied(&self, to: &Path) {
        for entry in fs::read_dir(self.at("s")).unwrap() {
            let path = entry.unwrap().path();
            let copied = to.join(path.file_name().unwrap());
            assert!(fs::read(&path).unwrap() == fs::read(&copied).unwrap(), "{}", copied.display());
        }
    }
}

/// Before: none of them was copied, and the destination, which is well, was given up.
#[test]
fn an_earlier_copy_that_cannot_be_read_costs_nothing_but_the_links_and_is_named() {
    let place = Place::new();
    assert_eq!(place.copy(&["s", "below/day1"]).0, 0);
    let mount = place.failing(Operation::Read, "bad");
    let earlier = mount.path().join("day1");
    let args = ["s", "day2", "--checksum", "--link-dest", earlier.to_str().unwrap()];
    let (code, stdout, stderr) = place.copy(&args);
    assert_eq!(code, 1, "{stdout}{stderr}");
    let first = earlier.join("bad");
    assert!(stderr.contains(first.to_str().unwrap()) && !stderr.contains("nothing more"), "{stderr}");
    place.assert_copied(&place.at("day2"));
}

/// Before: it stayed, and after eight such files nothing more was copied.
#[test]
fn what_is_there_and_cannot_be_read_is_replaced_where_what_differs_is() {
    let place = Place::new();
    assert_eq!(place.copy(&["s", "below/to"]).0, 0);
    for entry in fs::read_dir(place.at("s")).unwrap() {
        let time = std::time::SystemTime::now();
        fs::File::open(entry.unwrap().path()).unwrap().set_modified(time).unwrap();
    }
    fs::write(place.at("s/more"), "more").unwrap();
    let mount = place.failing(Operation::Read, "bad");
    let to = mount.path().join("to");
    let (code, stdout, stderr) = place.copy(&["s", to.to_str().unwrap()]);
    assert_eq!(code, 1, "{stdout}");
    assert!(stderr.contains("bad") && !stderr.contains("nothing more was written"), "{stderr}");
    assert!(place.at("below/to/more").exists(), "the others are copied");
    let (code, stdout, stderr) = place.copy(&["s", to.to_str().unwrap(), "--overwrite", "different"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    mount.unmount().unwrap();
    place.assert_copied(&place.at("below/to"));
}

/// Before: the second run took the file for the same, and ended with 0.
#[test]
fn an_attribute_that_cannot_be_read_is_missed_until_it_can_be() {
    let place = Place::new();
    let name = place.at("below/from");
    fs::create_dir(&name).unwrap();
    fs::write(name.join("file"), "bytes").unwrap();
    let set = |value: &str| {
        rustix::fs::setxattr(
            name.join("file"),
            "user.note",
            value.as_bytes(),
            rustix::fs::XattrFlags::empty(),
        )
    };
    set("a note").unwrap();
    let mount = place.failing(Operation::ReadAttributes, "file");
    let from = mount.path().join("from");
    for _ in 0..2 {
        for (to, more) in [
            ("to", &[][..]),
            ("to", &["--checksum"]),
            ("to", &["--overwrite", "different"]),
            ("today", &["--link-dest", "to"]),
        ] {
            let (code, stdout, stderr) = place.copy(&[&[from.to_str().unwrap(), to], more].concat());
            assert_eq!(code, 1, "{more:?}: {stdout}{stderr}");
            assert!(stderr.contains("extended attributes of 1 file"), "{more:?}: {stderr}");
            assert_eq!(fs::read(place.at(to).join("file")).unwrap(), b"bytes");
        }
    }
    mount.heal();
    let (code, stdout, stderr) = place.copy(&[from.to_str().unwrap(), "to"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    let mut value = [0; 16];
    let len = rustix::fs::getxattr(place.at("to/file"), "user.note", &mut value).unwrap();
    assert_eq!(&value[..len], b"a note");
}

/// A kill between the owner and the name. Before: nothing continued it, and nothing removed it.
#[test]
fn what_root_left_with_the_owner_of_its_source_is_continued() {
    let place = Place::new();
    fs::create_dir(place.at("film")).unwrap();
    fs::write(place.at("film/take"), vec![7; 70 << 20]).unwrap();
    chown(place.at("film/take"), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let mut child = stook(["copy", "film", "disk", "--bwlimit", "20MB"])
        .current_dir(place.0.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let left = |end: &str| {
        let names = fs::read_dir(place.at("disk")).into_iter().flatten().map(|entry| entry.unwrap().path());
        names.into_iter().find(|path| path.to_str().unwrap().ends_with(end))
    };
    let is_begun =
        || left(".journal").is_some_and(|path| path.metadata().is_ok_and(|there| there.len() > 200));
    while !is_begun() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before anything of it could stay");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.unwrap().success());
    child.wait().unwrap();
    chown(left(".part").unwrap(), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    let (code, stdout, stderr) = place.copy(&["film", "disk"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("were there already"), "{stdout}");
    assert!(left(".part").is_none() && left(".journal").is_none());
    assert!(fs::read(place.at("disk/take")).unwrap() == fs::read(place.at("film/take")).unwrap());
}
