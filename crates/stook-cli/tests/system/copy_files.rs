//! Copying where a part of the destination is something else, or may only grow.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::program::{Home, SOMEBODY, ended, stook};

fn run(program: &str, arguments: &[&str]) {
    assert!(Command::new(program).args(arguments).status().unwrap().success(), "{program} {arguments:?}");
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_read_only_mount_in_a_destination_costs_only_what_goes_there() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for folder in ["a", "m", "z"] {
        fs::create_dir_all(at("from").join(folder)).unwrap();
        for number in 0..40 {
            fs::write(at("from").join(format!("{folder}/{number}")), "x").unwrap();
        }
    }
    fs::create_dir_all(at("to/m")).unwrap();
    run("mount", &["-t", "tmpfs", "-o", "ro,size=1m", "none", shown(&at("to/m"))]);
    let (code, _, said) = ended(&mut stook([OsStr::new("copy"), at("from").as_ref(), at("to").as_ref()]));
    run("umount", &[shown(&at("to/m"))]);
    assert_eq!(code, 1, "{said}");
    assert!(!said.contains("nothing more was written"), "{said}");
    for folder in ["a", "z"] {
        assert_eq!(fs::read_dir(at("to").join(folder)).unwrap().count(), 40);
    }
}

#[test]
fn a_directory_that_may_only_grow_gets_files_and_no_litter() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    fs::create_dir_all(&from).unwrap();
    fs::create_dir_all(&to).unwrap();
    fs::write(from.join("file"), "bytes").unwrap();
    run("chattr", &["+a", shown(&to)]);
    let (code, _, said) = ended(&mut stook([OsStr::new("copy"), from.as_ref(), to.as_ref()]));
    let names: Vec<_> = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    run("chattr", &["-a", shown(&to)]);
    assert_eq!(names, ["file"], "{said}");
    // Its own time cannot be set, and it is not the copy that made it.
    assert_eq!(code, 0, "{said}");
    assert_eq!(fs::read(to.join("file")).unwrap(), b"bytes");
}

#[test]
fn a_run_goes_on_in_a_directory_whose_owner_may_not_write_to_it() {
    let home = Home::new();
    let copied = |home: &Home| ended(&mut home.somebody(["copy", "from", "to"]));
    fs::create_dir_all(home.path("from/closed/deep")).unwrap();
    fs::write(home.path("from/closed/one"), "1").unwrap();
    run("chown", &["-R", &SOMEBODY.to_string(), shown(&home.path("from"))]);
    let close = |mode| {
        for name in ["closed/deep", "closed"] {
            fs::set_permissions(home.path("from").join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    close(0o555);
    assert_eq!(copied(&home).0, 0);
    close(0o755);
    fs::write(home.path("from/closed/two"), "2").unwrap();
    fs::write(home.path("from/closed/deep/three"), "3").unwrap();
    symlink("two", home.path("from/closed/link")).unwrap();
    fs::create_dir(home.path("from/closed/new")).unwrap();
    run("chown", &["-R", &SOMEBODY.to_string(), shown(&home.path("from"))]);
    close(0o555);
    let (code, _, said) = copied(&home);
    assert_eq!(code, 0, "{said}");
    for name in ["one", "two", "deep/three", "link", "new"] {
        assert!(home.path("to/closed").join(name).symlink_metadata().is_ok(), "{name}");
    }
    for name in ["closed", "closed/deep"] {
        let mode = fs::metadata(home.path("to").join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o555, "{name}");
    }
}
