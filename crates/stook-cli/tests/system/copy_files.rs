//! Copying where a part of the destination is something else, or may only grow.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program::{ended, stook};

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
    assert_eq!((code, names), (0, vec!["file".into()]), "{said}");
    assert_eq!(fs::read(to.join("file")).unwrap(), b"bytes");
}
