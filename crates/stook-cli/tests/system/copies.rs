//! `stook copy` on file systems whose files can share blocks, and on one whose cannot.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::Command;

use stook_testing::privileged::{BTRFS, EXT4, LoopDevice, XFS, run};

use super::program::{ended, stook};
use super::trees::{assert_same, noise};

const MIB: u64 = 1 << 20;

/// Large files, one with a hole, and a small one.
fn make_source(from: &Path) {
    fs::create_dir(from).unwrap();
    fs::write(from.join("large"), noise(1, 8 << 20)).unwrap();
    fs::write(from.join("odd"), noise(2, 1_000_001)).unwrap();
    fs::write(from.join("small"), "small").unwrap();
    let mut sparse = fs::File::create(from.join("sparse")).unwrap();
    sparse.seek(SeekFrom::Start(4 << 20)).unwrap();
    sparse.write_all(&noise(3, 1 << 20)).unwrap();
    sparse.set_len(8 << 20).unwrap();
}

/// Copies, and returns what is said of the destination.
fn copy(from: &Path, to: &Path) -> serde_json::Value {
    let (code, stdout, stderr) = ended(stook(["--json", "copy"]).args([from, to]));
    assert_eq!(code, 0, "{stderr}");
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    report["destinations"][0].clone()
}

/// Whether all blocks of a file are shared with another.
fn is_shared(path: &Path) -> bool {
    run(Command::new("sync").arg("--file-system").arg(path)).unwrap();
    let output = Command::new("filefrag").arg("-v").arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let is_extent = |line: &&str| {
        let number = line.split(':').next().unwrap_or_default().trim();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let extents: Vec<&str> = text.lines().filter(is_extent).collect();
    assert!(!extents.is_empty(), "{text}");
    extents.iter().all(|line| line.contains("shared"))
}

fn shares_blocks(device: &LoopDevice) {
    let (from, to) = (device.path().join("from"), device.path().join("to"));
    make_source(&from);
    let one = copy(&from, &to);
    assert_same(&from, &to);
    assert_eq!((one["cloned"].as_u64(), one["files"].as_u64()), (Some(3), Some(4)), "{one}");
    for name in ["large", "odd", "sparse"] {
        assert!(is_shared(&to.join(name)), "{name}");
    }
    // Each is a file of its own all the same.
    fs::write(from.join("large"), "another").unwrap();
    assert!(fs::read(to.join("large")).unwrap() == noise(1, 8 << 20));
}

#[test]
fn copies_on_btrfs_share_the_blocks_of_their_source() {
    shares_blocks(&LoopDevice::mount_as(BTRFS, 256 * MIB, 512).unwrap());
}

#[test]
fn copies_on_xfs_share_the_blocks_of_their_source() {
    shares_blocks(&LoopDevice::mount_as(XFS, 320 * MIB, 512).unwrap());
}

#[test]
fn copies_on_ext4_and_to_another_file_system_are_written() {
    let (ext4, btrfs) = (
        LoopDevice::mount_as(EXT4, 128 * MIB, 512).unwrap(),
        LoopDevice::mount_as(BTRFS, 256 * MIB, 512).unwrap(),
    );
    let from = ext4.path().join("from");
    make_source(&from);
    for to in [ext4.path().join("to"), btrfs.path().join("to")] {
        let one = copy(&from, &to);
        assert_same(&from, &to);
        let counts = ["cloned", "copied_by_server", "files"].map(|name| one[name].as_u64());
        assert_eq!(counts, [Some(0), Some(0), Some(4)], "{one}");
        assert!(!is_shared(&to.join("large")));
    }
}
