//! Very many names in one directory, and very many directories in one another: in bounded memory.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Mode, OFlags, fstat, mkdirat, open, openat};
use stook_testing::privileged::{LoopDevice, XFS};

use super::super::program::ended;
use super::{assert_same, copy, is_whole_sweep};

/// Of what is copied, however much it is.
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// And for each file.
const FILE_BYTES_MAX: u64 = 100;

/// Runs a command, and prints the most memory that it had resident, in KiB.
const MEASURED: &str = "\
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
";

/// Copies, and returns the most memory that it took, in bytes.
fn peak_bytes(from: &Path, to: &Path) -> u64 {
    let copy = copy([from, to]);
    let mut python = Command::new("python3");
    python.args(["-c", MEASURED]).arg(copy.get_program()).args(copy.get_args());
    let (code, stdout, stderr) = ended(&mut python);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    stdout.lines().next_back().unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn very_many_names_in_one_directory_are_copied_in_bounded_memory() {
    let files = if is_whole_sweep() { 200_000 } else { 10_000 };
    let device = LoopDevice::mount_as(XFS, 2 << 30, 512).unwrap();
    let (from, to) = (device.path().join("from"), device.path().join("to"));
    fs::create_dir(&from).unwrap();
    for number in 0..files {
        // A byte takes a block.
        let bytes: &[u8] = if number % 10 == 0 { b"bytes" } else { b"" };
        fs::write(from.join(format!("a name of some length {number:08}")), bytes).unwrap();
    }
    let first = peak_bytes(&from, &to);
    assert_same(&from, &to);
    let again = peak_bytes(&from, &to);
    println!("{files} files: {} and {} KiB", first >> 10, again >> 10);
    let most = MEMORY_BYTES_MAX + files * FILE_BYTES_MAX;
    assert!(first <= most && again <= most, "{first} and {again} bytes, not {most}");
}

/// What the file in a directory has, and mode and time of the directory.
fn level_of(directory: &OwnedFd) -> (u64, u32, i64, u64) {
    let file = openat(directory, "f", OFlags::RDONLY, Mode::empty()).unwrap();
    let mut bytes = [0; 8];
    assert_eq!(rustix::io::read(&file, &mut bytes).unwrap(), 8);
    let status = fstat(directory).unwrap();
    (u64::from_le_bytes(bytes), status.st_mode, status.st_mtime, status.st_mtime_nsec)
}

#[test]
fn very_deep_trees_are_copied_in_bounded_memory() {
    const LEVELS: u64 = 2_000;
    let device = LoopDevice::mount_as(XFS, 320 << 20, 512).unwrap();
    let (from, to) = (device.path().join("from"), device.path().join("to"));
    fs::create_dir(&from).unwrap();
    let mut here = open(&from, OFlags::DIRECTORY, Mode::empty()).unwrap();
    for level in 0..LEVELS {
        let flags = OFlags::CREATE | OFlags::WRONLY;
        let file = openat(&here, "f", flags, Mode::from_raw_mode(0o600)).unwrap();
        rustix::io::write(&file, &level.to_le_bytes()).unwrap();
        mkdirat(&here, "d", Mode::from_raw_mode(0o750)).unwrap();
        here = openat(&here, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let first = peak_bytes(&from, &to);
    // Whole paths are too long for other programs.
    let [mut here, mut there] =
        [&from, &to].map(|root| open(root, OFlags::DIRECTORY, Mode::empty()).unwrap());
    for _ in 0..LEVELS {
        assert_eq!(level_of(&here), level_of(&there));
        [here, there] = [&here, &there].map(|at| openat(at, "d", OFlags::DIRECTORY, Mode::empty()).unwrap());
    }
    let again = peak_bytes(&from, &to);
    println!("{LEVELS} levels: {} and {} KiB", first >> 10, again >> 10);
    let most = MEMORY_BYTES_MAX + LEVELS * FILE_BYTES_MAX;
    assert!(first <= most && again <= most, "{first} and {again} bytes, not {most}");
}
