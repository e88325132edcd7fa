//! `stook bench` on devices that are full or read-only, and on one that reports its operations.

use std::process::Command;

use stook_testing::privileged::LoopDevice;

const MIB: u64 = 1 << 20;

/// Exit code, stdout and stderr of `stook bench` in the root of a device.
fn bench(device: &LoopDevice, flags: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stook"));
    command.args(["bench", "."]).args(flags).current_dir(device.path());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn files(device: &LoopDevice) -> usize {
    let names = std::fs::read_dir(device.path()).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name != "lost+found").count()
}

#[test]
fn a_full_device_is_reported_and_nothing_is_left() {
    let device = LoopDevice::mount(32 * MIB, 512).unwrap();
    let (code, _, stderr) = bench(&device, &["--file-size", "64M"]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains(" free, and the test file needs 64.0 MiB: free some"), "{stderr}");
    assert_eq!(files(&device), 0);
}

#[test]
fn a_read_only_device_is_reported() {
    let device = LoopDevice::mount(32 * MIB, 512).unwrap();
    device.make_read_only().unwrap();
    let (code, _, stderr) = bench(&device, &["--file-size", "4M"]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("cannot create ") && stderr.contains("Read-only file system"), "{stderr}");
}

#[test]
fn the_device_counts_the_bytes_that_were_asked_for() {
    let device = LoopDevice::mount(128 * MIB, 4096).unwrap();
    let flags =
        ["--file-size", "64M", "--rw", "randrw", "--depth", "8", "--time", "2s", "--ramp", "0.2", "--json"];
    let (_, stdout, stderr) = bench(&device, &flags);
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stderr}"));
    let run = &report["cells"][0]["runs"][0];
    for (direction, counter) in [("read", "read_bytes"), ("write", "write_bytes")] {
        let share = run["device"][counter].as_f64().unwrap() / run[direction]["bytes"].as_f64().unwrap();
        assert!((0.9..1.1).contains(&share), "{direction}: {share}");
    }
    assert_eq!(report["environment"]["file_system"], "ext4");
    assert_eq!(files(&device), 0);
}

#[test]
fn blocks_smaller_than_the_sectors_are_refused() {
    let device = LoopDevice::mount(32 * MIB, 4096).unwrap();
    let (code, _, stderr) = bench(&device, &["--file-size", "4M", "--block-size", "512"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("direct I/O on this file wants multiples of 4096 bytes"), "{stderr}");
    assert_eq!(files(&device), 0);
}
