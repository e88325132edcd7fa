//! `stook bench` on block devices themselves: anything may be read, and nothing that is used, or
//! that was not named by its serial number or file, is written.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::Command;

use rustix::fs::OFlags;
use stook_testing::privileged::{Attached, LoopDevice, Mounted, run};

use super::program::{ended, stook};

const MIB: u64 = 1 << 20;

fn bench(node: &str, flags: &[&str]) -> (i32, String, String) {
    ended(stook(["bench", node, "--size", "256K", "--ramp", "0"]).args(flags))
}

/// A device full of bytes that are nothing.
fn filled() -> Attached {
    let device = Attached::new(8 * MIB, 512, true).unwrap();
    let bytes: Vec<u8> = (0..8 * MIB).map(|at| (at % 251) as u8 | 1).collect();
    OpenOptions::new().write(true).open(device.node()).unwrap().write_all_at(&bytes, 0).unwrap();
    run(Command::new("sync").arg(device.node())).unwrap();
    device
}

/// Checks that a write is refused with these words, and that no byte changed.
fn assert_untouched(node: &str, image: &Path, typed: Option<&Path>, words: &str) {
    run(Command::new("sync").arg(image)).unwrap();
    let before = fs::read(image).unwrap();
    let mut flags = vec!["--rw", "randwrite"];
    if let Some(typed) = typed {
        flags.extend(["--overwrite-device", typed.to_str().unwrap()]);
    }
    let (code, _, stderr) = bench(node, &flags);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains(words), "{stderr}");
    run(Command::new("sync").arg(node)).unwrap();
    assert!(fs::read(image).unwrap() == before, "bytes changed: {stderr}");
}

#[test]
fn a_device_is_read_mounted_or_not_and_stays_as_it_is() {
    let device = filled();
    let before = fs::read(device.image()).unwrap();
    let (code, stdout, stderr) = bench(device.node(), &["--json"]);
    assert_eq!(code, 0, "{stderr}");
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&report["path"], &report["file_bytes"]), (&device.node().into(), &(8 * MIB).into()));
    let environment = &report["environment"];
    assert_eq!((&environment["is_raw_device"], &environment["file_system"]), (&true.into(), &().into()));
    assert!(environment["device"].as_str().unwrap().starts_with(device.name()), "{environment}");
    assert_eq!(report["cells"][0]["total"]["count"], 64);
    assert!(fs::read(device.image()).unwrap() == before);
    let (_, stdout, _) = bench(device.node(), &[]);
    assert!(stdout.contains("the device itself, 8.00 MiB"), "{stdout}");
    let mounted = LoopDevice::mount(32 * MIB, 512).unwrap();
    let (code, _, stderr) = bench(&format!("/dev/{}", mounted.name()), &["--rw", "read"]);
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn what_is_not_named_by_its_file_is_not_written() {
    let (device, other) = (filled(), filled());
    let (node, image) = (device.node(), device.image());
    assert_untouched(node, &image, None, "expected --overwrite-device with its serial number");
    for wrong in [other.image().as_path(), Path::new(node), Path::new(device.name()), Path::new("image")] {
        assert_untouched(node, &image, Some(wrong), "is not its serial number or file");
    }
    let (code, _, stderr) = bench(node, &["--rw", "randwrite", "--overwrite-file"]);
    assert!(code == 1 && stderr.contains("expected --overwrite-device"), "{stderr}");
    let (code, _, stderr) = bench(node, &["--overwrite-device", image.to_str().unwrap()]);
    assert!(code == 2 && stderr.contains("--overwrite-device is for cells that write"), "{stderr}");
}

#[test]
fn a_mounted_device_is_not_written() {
    let device = LoopDevice::mount(32 * MIB, 512).unwrap();
    let node = format!("/dev/{}", device.name());
    let words = format!("is mounted at {}", device.path().display());
    assert_untouched(&node, &device.image(), Some(&device.image()), &words);
}

#[test]
fn a_device_with_a_file_system_on_it_is_not_written_although_nothing_uses_it() {
    let device = filled();
    run(Command::new("mkfs.ext4").args(["-q", "-F", device.node()])).unwrap();
    assert_untouched(device.node(), &device.image(), Some(&device.image()), "carries an ext2, ext3 or ext4");
}

/// Something that is undone at the end.
struct Undone(Vec<String>);

impl Drop for Undone {
    fn drop(&mut self) {
        if let Some((program, args)) = self.0.split_first()
            && let Err(error) = run(Command::new(program).args(args))
        {
            eprintln!("{error}");
        }
    }
}

fn attached_again(file: &str) -> (String, Undone) {
    let node = run(Command::new("losetup").args(["--find", "--show", file])).unwrap();
    let undone = Undone(vec!["losetup".to_owned(), "-d".to_owned(), node.clone()]);
    (node, undone)
}

#[test]
fn what_another_loop_device_lies_on_is_not_written() {
    let device = filled();
    let (above, _undone) = attached_again(device.node());
    let words = format!("is the device below {}", above.trim_start_matches("/dev/"));
    assert_untouched(device.node(), &device.image(), Some(&device.image()), &words);
    // Through the one above the mounted one below would be written.
    let mounted = LoopDevice::mount(32 * MIB, 512).unwrap();
    let below = format!("/dev/{}", mounted.name());
    let (above, _undone) = attached_again(&below);
    let words = format!("shares its bytes with {below}, which is mounted at ");
    assert_untouched(&above, &mounted.image(), Some(Path::new(&below)), &words);
}

#[test]
fn a_second_device_on_the_same_file_is_not_written_and_nor_is_the_first() {
    let device = filled();
    let image = device.image();
    let (second, _undone) = attached_again(image.to_str().unwrap());
    assert_untouched(device.node(), &image, Some(&image), "lies on the same file as loop");
    assert_untouched(&second, &image, Some(&image), "lies on the same file as loop");
}

#[test]
fn swap_is_not_written() {
    let device = filled();
    run(Command::new("mkswap").arg(device.node())).unwrap();
    run(Command::new("swapon").arg(device.node())).unwrap();
    let _undone = Undone(vec!["swapoff".to_owned(), device.node().to_owned()]);
    assert_untouched(device.node(), &device.image(), Some(&device.image()), "is swap");
}

/// A table of one partition from 1 MiB on, as an MBR has it.
fn partition_table(mib: u32) -> [u8; 512] {
    let mut table = [0; 512];
    let sectors = |mib: u32| (mib * 2048).to_le_bytes();
    table[446 + 4] = 0x83;
    table[446 + 8..446 + 12].copy_from_slice(&sectors(1));
    table[446 + 12..446 + 16].copy_from_slice(&sectors(mib));
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    table
}

#[test]
fn a_disk_with_a_mounted_partition_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    fs::write(&image, vec![0; 34 << 20]).unwrap();
    OpenOptions::new().write(true).open(&image).unwrap().write_all_at(&partition_table(32), 0).unwrap();
    let arguments = ["--find", "--show", "--partscan", image.to_str().unwrap()];
    let disk = run(Command::new("losetup").args(arguments)).unwrap();
    let _detached = Undone(vec!["losetup".to_owned(), "-d".to_owned(), disk.clone()]);
    let name = disk.trim_start_matches("/dev/").to_owned();
    let part = format!("/sys/block/{name}/{name}p1/dev");
    if !Path::new(&part).exists() {
        // A kernel that does not read tables of this kind is told what is in it.
        run(Command::new("partx").args(["--add", &disk])).unwrap();
    }
    let numbers = fs::read_to_string(part).unwrap();
    let (major, minor) = numbers.trim().split_once(':').unwrap();
    // Where nothing makes nodes of partitions.
    let node = folder.path().join("partition");
    run(Command::new("mknod").arg(&node).args(["b", major, minor])).unwrap();
    let node = node.to_str().unwrap();
    run(Command::new("mkfs.ext4").args(["-q", "-F", node])).unwrap();
    let mounted = Mounted::new(&[node]).unwrap();
    let words =
        format!("shares its bytes with /dev/{name}p1, which is mounted at {}", mounted.path().display());
    assert_untouched(&disk, &image, Some(&image), &words);
    assert_untouched(node, &image, Some(&image), &format!("is mounted at {}", mounted.path().display()));
    drop(mounted);
    // Then it still has a table, and the partition a file system.
    assert_untouched(&disk, &image, Some(&image), "carries a partition table");
    assert_untouched(node, &image, Some(&image), "carries an ext2, ext3 or ext4");
}

#[test]
fn what_the_system_gives_to_somebody_alone_is_not_written() {
    let device = filled();
    let flags = OFlags::EXCL.bits().cast_signed();
    let _alone = OpenOptions::new().read(true).custom_flags(flags).open(device.node()).unwrap();
    let words = "is used by something that cannot be seen from here";
    assert_untouched(device.node(), &device.image(), Some(&device.image()), words);
}

#[test]
fn a_device_that_is_named_and_unused_is_written_and_free_again_afterwards() {
    let device = filled();
    let image = device.image();
    let before = fs::read(&image).unwrap();
    let typed = image.to_str().unwrap();
    let flags = ["--rw", "randrw", "--verify", "--overwrite-device", typed, "--json"];
    let (code, stdout, stderr) = bench(device.node(), &flags);
    assert_eq!(code, 0, "{stderr}");
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert!(report["cells"][0]["write"]["count"].as_u64().unwrap() > 0, "{report}");
    assert!(report["cells"][0]["runs"][0]["verified_bytes"].as_u64().unwrap() >= 8 * MIB, "{report}");
    run(Command::new("sync").arg(device.node())).unwrap();
    let after = fs::read(&image).unwrap();
    assert!(after.len() == before.len() && after != before);
    // What it has now is nothing that keeps it from being written again.
    let (code, _, stderr) = bench(device.node(), &["--rw", "write", "--overwrite-device", typed]);
    assert_eq!(code, 0, "{stderr}");
    drop(LoopDevice::mount_on(device, stook_testing::privileged::EXT4, "defaults").unwrap());
}
