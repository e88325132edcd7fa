//! `stook advise` where caches can be emptied: what is predicted, what is left, full devices.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use stook_testing::privileged::LoopDevice;

const MIB: u64 = 1 << 20;

fn tree(root: &Path, files: usize) {
    for number in 0..files {
        let directory = root.join(format!("tree/{}", number / 50));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(number.to_string()), vec![number as u8; 3000]).unwrap();
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != "lost+found");
    names.sort();
    names
}

/// Exit code, document or text, and errors.
fn advise(device: &LoopDevice, flags: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stook"));
    command.args(["advise", "tree", "--rounds", "2"]).args(flags).current_dir(device.path());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_cold_tree_is_predicted_and_confirmed_and_nothing_is_left() {
    let device = LoopDevice::mount(128 * MIB, 512).unwrap();
    tree(device.path(), 400);
    let (code, stdout, stderr) = advise(&device, &["--confirm", "--json"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let advice = &report["advice"][0]["tree"];
    assert_eq!((&advice["state"], &advice["sample"]["missed"]), (&"cold".into(), &0.into()));
    let ways = advice["prediction"]["ways"].as_array().unwrap();
    let named: Vec<&str> = ways.iter().map(|way| way["way"].as_str().unwrap()).collect();
    assert_eq!(named, ["files", "readers", "stitched", "merged", "pack", "mounted_pack"]);
    for way in ways {
        let part = |name: &str| way["seconds"][name].as_f64().unwrap();
        assert!(0.0 < part("low") && part("low") <= part("value") && part("value") <= part("high"), "{way}");
    }
    assert_eq!(advice["sample"]["pack_records"], 400);
    assert!(advice["confirmed"]["files_s"].as_f64().unwrap() > 0.0);
    assert_eq!(advice["facts"]["extents_mean"], 1.0);
    let (_, stdout, _) = advise(&device, &[]);
    assert!(stdout.contains("Reading all of it, cold") && stdout.lines().count() <= 14, "{stdout}");
    assert_eq!(names(device.path()), ["tree"]);
}

#[test]
fn without_room_for_a_pack_the_rest_is_said_and_nothing_is_left() {
    let device = LoopDevice::mount(32 * MIB, 512).unwrap();
    tree(device.path(), 100);
    super::full::fill(&device.path().join("full"), 0);
    let (code, stdout, stderr) = advise(&device, &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("no pack of a sample was made: ") && stdout.contains("free"), "{stdout}");
    assert!(stdout.contains("Reading all of it, cold, one reader"), "{stdout}");
    assert_eq!(names(device.path()), ["full", "tree"]);
}

#[test]
fn where_nothing_can_be_written_the_reason_is_said() {
    let device = LoopDevice::mount(32 * MIB, 512).unwrap();
    tree(device.path(), 100);
    device.make_read_only().unwrap();
    let (code, stdout, _) = advise(&device, &[]);
    assert_eq!(code, Some(0));
    assert!(stdout.contains("Read-only file system") && stdout.contains("--work"), "{stdout}");
}
