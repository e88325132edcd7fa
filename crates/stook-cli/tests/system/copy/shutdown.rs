//! A destination whose file system is shut down while it is copied to, as when its device is pulled
//! out: what was not on the medium is gone.

use std::fs;
use std::path::Path;
use std::process::Command;

use stook_testing::privileged::{EXT4, Kind, LoopDevice, Mounted, XFS, run};

use super::super::full::{signal, stopped_when};
use super::super::trees::noise;
use super::{assert_same, copied, copy};

/// Small files in two directories, and large ones.
fn make_tree(root: &Path) {
    for number in 0..1_600_u64 {
        let below = root.join((number % 2).to_string());
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join(number.to_string()), noise(number, 3_000)).unwrap();
    }
    for number in 0..4 {
        fs::write(root.join(format!("large-{number}")), noise(number, 6 << 20)).unwrap();
    }
}

/// How many files below a directory have their names; each has all its bytes.
fn whole_files(from: &Path, to: &Path) -> usize {
    let mut whole = 0;
    for entry in fs::read_dir(to).into_iter().flatten().map(Result::unwrap) {
        let (name, kind) = (entry.file_name(), entry.file_type().unwrap());
        if kind.is_dir() {
            whole += whole_files(&from.join(&name), &entry.path());
        } else if !name.to_string_lossy().starts_with(".stook-") {
            let wanted = fs::read(from.join(&name)).unwrap();
            assert!(fs::read(entry.path()).unwrap() == wanted, "{}", entry.path().display());
            whole += 1;
        }
    }
    whole
}

fn dies_alone(kind: Kind, len_bytes: u64) {
    let (device, memory) =
        (LoopDevice::mount_as(kind, len_bytes, 512).unwrap(), Mounted::in_memory(96 << 20).unwrap());
    let (from, good, dead) =
        (memory.path().join("from"), memory.path().join("good"), device.path().join("dead"));
    make_tree(&from);
    // Slow enough for most of it to be left.
    let mut command = copy([&from, &dead]);
    command.arg("--to").arg(&good).args(["--bwlimit", "15MiB"]);
    let names = || fs::read_dir(dead.join("0")).is_ok_and(|names| names.count() > 100);
    let child = stopped_when(&mut command, names);
    run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(device.path())).unwrap();
    signal(&child, "-CONT");
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    let given_up = format!("nothing more was written to {}: ", dead.display());
    assert!(said.contains(&given_up) && said.contains("Input/output error"), "{said}");
    assert!(!said.contains(good.to_str().unwrap()), "{said}");
    assert_same(&from, &good);
    device.remount().unwrap();
    let kept = whole_files(&from, &dead);
    assert!(kept < 1_604, "it was dead before the end");
    copied([&from, &dead]);
    assert_same(&from, &dead);
}

#[test]
fn ext4_that_is_shut_down_stops_only_itself_and_has_whole_files_when_it_is_back() {
    dies_alone(EXT4, 128 << 20);
}

#[test]
fn xfs_that_is_shut_down_stops_only_itself_and_has_whole_files_when_it_is_back() {
    dies_alone(XFS, 320 << 20);
}
