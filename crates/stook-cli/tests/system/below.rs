//! What lies below a file: `stook bench` on file systems and devices that lie on others, or in
//! memory.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use stook_testing::privileged::{Attached, EXT4, LoopDevice, Mounted, run};

use super::measured::{assert_fired, assert_passed, assert_unverified, bench, gate, only_run, report};

const MIB: u64 = 1 << 20;
const READ: [&str; 8] = ["--file-size", "16M", "--rw", "randread", "--depth", "4", "--time", "1.5s"];

fn device(report: &Value) -> &str {
    report["environment"]["device"].as_str().unwrap()
}

/// Before: tmpfs was valid, 123 k IOPS with `direct: true`: what could not be checked counted as
/// passed.
#[test]
fn a_file_system_in_memory_is_never_valid() {
    let memory = Mounted::in_memory(64 * MIB).unwrap();
    for rw in ["randread", "randwrite"] {
        let flags = ["--file-size", "16M", "--rw", rw, "--time", "1.5s"];
        let found = report(&mut bench(memory.path(), &flags));
        let doubt = "tmpfs keeps files in memory: this is not a device";
        let name = if rw == "randread" { "device_bytes_read" } else { "device_bytes_written" };
        assert_unverified(&only_run(&found), name, doubt);
        assert_ne!(found["cells"][0]["state"], "valid");
        assert_eq!(found["environment"]["device_doubt"], doubt);
        assert_eq!(found["environment"]["device"], Value::Null);
    }
}

#[test]
fn a_loop_device_on_a_file_in_memory_is_never_valid() {
    let memory = Mounted::in_memory(128 * MIB).unwrap();
    let folder = tempfile::tempdir_in(memory.path()).unwrap();
    let device =
        LoopDevice::mount_on(Attached::on(folder, 96 * MIB, 512, false).unwrap(), EXT4, "defaults").unwrap();
    let found = report(&mut bench(device.path(), &READ));
    assert_unverified(&only_run(&found), "device_bytes_read", "tmpfs keeps files in memory");
    let name = format!("{} (through the page cache) on tmpfs", device.name());
    assert_eq!(self::device(&found), name);
}

#[test]
fn an_overlay_is_measured_by_the_device_below_its_layers() {
    let device = LoopDevice::mount(256 * MIB, 512).unwrap();
    let root = device.path().display();
    for folder in ["low,er/sub", "upper", "work"] {
        fs::create_dir_all(device.path().join(folder)).unwrap();
    }
    fs::write(device.path().join("low,er/old"), vec![7; 16 << 20]).unwrap();
    let options = format!("lowerdir={root}/low\\,er,upperdir={root}/upper,workdir={root}/work");
    let overlay = Mounted::new(&["-t", "overlay", "-o", &options, "overlay"]).unwrap();
    let below = format!("{} (direct I/O) on ", device.name());
    let found = report(&mut bench(overlay.path(), &READ));
    assert!(self::device(&found).starts_with(&format!("overlay's upper directory on {below}")), "{found}");
    assert_passed(&only_run(&found), &["device_bytes_read"]);
    // The first file in it makes the directory in the upper layer.
    let found = report(&mut bench(&overlay.path().join("sub"), &READ));
    assert!(self::device(&found).starts_with(&format!("overlay's upper directory on {below}")), "{found}");
    assert_passed(&only_run(&found), &["device_bytes_read"]);
    let found = report(&mut bench(&overlay.path().join("old"), &READ[2..]));
    assert!(self::device(&found).starts_with(&format!("overlay's lower directory on {below}")), "{found}");
    assert_passed(&only_run(&found), &["device_bytes_read"]);
    // What the page cache took is not on the device.
    let flags = ["--file-size", "64M", "--rw", "write", "--block-size", "1M", "--buffered", "--time", "1.5s"];
    let buffered = only_run(&report(&mut bench(overlay.path(), &flags)));
    assert_eq!(buffered["state"], "invalid", "{buffered}");
    let has_failed = |name: &str| gate(&buffered, name)["outcome"] == "failed";
    assert!(has_failed("device_bytes_written") || has_failed("durable"), "{buffered}");
}

/// Before: an overlay, the usual root of a container, was valid at 4,951 MB/s of buffered writes.
#[test]
fn an_overlay_in_memory_is_never_valid() {
    let memory = Mounted::in_memory(64 * MIB).unwrap();
    let root = memory.path().display();
    for folder in ["lower", "upper", "work"] {
        fs::create_dir(memory.path().join(folder)).unwrap();
    }
    let options = format!("lowerdir={root}/lower,upperdir={root}/upper,workdir={root}/work");
    let overlay = Mounted::new(&["-t", "overlay", "-o", &options, "overlay"]).unwrap();
    let found = report(&mut bench(overlay.path(), &READ));
    assert_unverified(&only_run(&found), "device_bytes_read", "tmpfs keeps files in memory");
}

/// The same command with something else mounted over a directory, in its own mount namespace.
fn with_mounted_over(directory: &Path, other: &Path, command: &Command) -> Command {
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "sh", "-c", "mount --bind \"$0\" \"$1\" && shift && exec \"$@\""]);
    inside.args([other, directory]).arg(command.get_program()).args(command.get_args());
    inside
}

/// Before: what was mounted there was named as the device of the overlay.
#[test]
fn an_overlay_whose_upper_directory_is_hidden_is_never_valid() {
    let memory = Mounted::in_memory(64 * MIB).unwrap();
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let root = memory.path().display();
    for folder in ["lower/sub", "upper", "work"] {
        fs::create_dir_all(memory.path().join(folder)).unwrap();
    }
    let options = format!("lowerdir={root}/lower,upperdir={root}/upper,workdir={root}/work");
    let overlay = Mounted::new(&["-t", "overlay", "-o", &options, "overlay"]).unwrap();
    let upper = memory.path().join("upper");
    let doubt = format!("overlay: its upper directory {} cannot be seen from here", upper.display());
    let hides = |target: &Path, flags: &[&str]| {
        let found = report(&mut with_mounted_over(&upper, device.path(), &bench(target, flags)));
        assert_eq!(found["environment"]["device"], Value::Null);
        assert_eq!(found["environment"]["device_doubt"], doubt.as_str());
        assert_unverified(&only_run(&found), "device_bytes_read", &doubt);
    };
    hides(overlay.path(), &READ);
    // A file of this name is there, and is another one.
    fs::write(overlay.path().join("file"), vec![7; 16 << 20]).unwrap();
    fs::write(device.path().join("file"), vec![7; 16 << 20]).unwrap();
    hides(&overlay.path().join("file"), &READ[2..]);
    // As is a directory that only the lower layer has before the test file is made in it.
    fs::create_dir(device.path().join("sub")).unwrap();
    hides(&overlay.path().join("sub"), &READ);
}

/// Before: tmpfs was valid as the disk whose mount it hid, while others read from that disk.
#[test]
fn memory_over_the_mount_of_a_device_is_never_valid() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("x")).unwrap();
    let command = bench(&folder.path().join("x"), &READ);
    let mut inside = Command::new("unshare");
    let mounts = "mount --bind \"$0\" \"$1/x\" && mount -t tmpfs none \"$1\" && mkdir \"$1/x\"";
    inside.args(["--mount", "sh", "-c", &format!("{mounts} && shift && exec \"$@\"")]);
    inside.args([device.path(), folder.path()]).arg(command.get_program()).args(command.get_args());
    let found = report(&mut inside);
    let doubt = "tmpfs keeps files in memory: this is not a device";
    assert_eq!(found["environment"]["device_doubt"], doubt);
    assert_eq!(found["environment"]["device"], Value::Null);
    assert_unverified(&only_run(&found), "device_bytes_read", doubt);
}

#[test]
fn a_loop_device_that_serves_from_the_page_cache_of_its_file_is_not_the_device() {
    for is_direct in [true, false] {
        let attached = Attached::new(128 * MIB, 512, is_direct).unwrap();
        let device = LoopDevice::mount_on(attached, EXT4, "defaults").unwrap();
        let found = report(&mut bench(device.path(), &READ));
        let how = if is_direct { "direct I/O" } else { "through the page cache" };
        let name = format!("{} ({how}) on ", device.name());
        assert!(self::device(&found).starts_with(&name), "{found}");
        let found = only_run(&found);
        if is_direct {
            assert_passed(&found, &["device_bytes_read"]);
        } else {
            assert_fired(&found, "device_bytes_read", "of the bytes requested");
        }
    }
}

/// Before: tmpfs was valid as `loop0 (direct I/O) on vda`, while others read from the disk, because
/// another file was at the path of its file.
#[test]
fn a_loop_device_whose_file_is_hidden_is_never_valid() {
    let memory = Mounted::in_memory(128 * MIB).unwrap();
    let folder = tempfile::tempdir_in(memory.path()).unwrap();
    let directory = folder.path().to_owned();
    let device =
        LoopDevice::mount_on(Attached::on(folder, 96 * MIB, 512, false).unwrap(), EXT4, "defaults").unwrap();
    let disk = tempfile::tempdir().unwrap();
    fs::write(disk.path().join("image"), "another file").unwrap();
    let command = bench(device.path(), &READ);
    let found = report(&mut with_mounted_over(&directory, disk.path(), &command));
    let image = directory.join("image");
    let doubt = format!(
        "the file below {} cannot be seen from here: {} is another one",
        device.name(),
        image.display()
    );
    assert_eq!(found["environment"]["device_doubt"], doubt.as_str());
    assert_unverified(&only_run(&found), "device_bytes_read", &doubt);
}

/// Before: an honest run was refused: "the device read 0.00 of the bytes requested: a cache or
/// compression stood in between".
#[test]
fn a_device_that_does_not_count_is_unverified() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    fs::write(device.sys().join("queue/iostats"), "0").unwrap();
    let found = report(&mut bench(device.path(), &READ));
    // Before anything can fail: the next test may get the same device.
    fs::write(device.sys().join("queue/iostats"), "1").unwrap();
    let doubt = format!("{} does not count (queue/iostats is 0)", device.name());
    assert_eq!(found["environment"]["device_doubt"], doubt.as_str());
    assert_unverified(&only_run(&found), "device_bytes_read", &doubt);
    let found = report(&mut bench(device.path(), &READ));
    assert_eq!(found["environment"]["device_doubt"], Value::Null);
    assert_passed(&only_run(&found), &["device_bytes_read"]);
}

/// Before: always "not valid", because only the first device was counted.
#[test]
fn btrfs_over_two_devices_counts_both_of_them_and_every_copy() {
    for profile in ["single", "raid1"] {
        let devices = [0, 1].map(|_| Attached::new(1024 * MIB, 512, true).unwrap());
        let [first, second] = devices.each_ref().map(Attached::node);
        run(Command::new("mkfs.btrfs").args(["-q", "-d", profile, first, second])).unwrap();
        let pool = Mounted::new(&["-o", &format!("device={second}"), first]).unwrap();
        run(Command::new("btrfs").args(["-q", "subvolume", "create"]).arg(pool.path().join("sub"))).unwrap();
        // Files of a subvolume have the number of no mount.
        let sub = pool.path().join("sub");
        for (rw, name) in [("randread", "device_bytes_read"), ("randwrite", "device_bytes_written")] {
            let flags = ["--file-size", "64M", "--rw", rw, "--block-size", "64K", "--time", "1.5s"];
            let found = report(&mut bench(&sub, &flags));
            for device in &devices {
                assert!(self::device(&found).contains(device.name()), "{profile}: {found}");
            }
            assert_eq!(found["environment"]["device_doubt"], Value::Null, "{profile}");
            assert_passed(&only_run(&found), &[name]);
        }
    }
}

/// Before: btrfs writes were measured before the commit of their metadata, and valid.
#[test]
fn what_btrfs_does_after_the_last_write_is_measured() {
    let device = LoopDevice::mount_as(stook_testing::privileged::BTRFS, 512 * MIB, 512).unwrap();
    let flags = ["--file-size", "64M", "--rw", "randwrite", "--block-size", "64K", "--time", "1.5s"];
    let found = only_run(&report(&mut bench(device.path(), &flags)));
    assert!(gate(&found, "durable")["measured"].as_f64().unwrap() >= 1.0, "{found}");
    assert!(found["durable_after_s"].as_f64().unwrap() > 0.0, "{found}");
}
