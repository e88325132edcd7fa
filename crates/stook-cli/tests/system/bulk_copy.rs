//! `stook study bulk-copy` from one drive to another: a file system of its own on a loop device.

use std::fs;

use serde_json::Value;
use stook_testing::privileged::{EXT4, LoopDevice};

use super::program::{Home, ended};

/// A number that a cell begins with.
fn number(cell: &Value) -> f64 {
    let text = cell.as_str().unwrap();
    let end = text.find(|letter: char| !matches!(letter, '0'..='9' | '.')).unwrap_or(text.len());
    text[..end].parse().unwrap()
}

#[test]
fn a_loop_device_is_another_drive_and_is_marked_as_simulated() {
    let device = LoopDevice::mount_as(EXT4, 256 << 20, 512).unwrap();
    let home = Home::new();
    let args = ["study", "bulk-copy", "--verbose", "--size", "24M", "--runs", "1", "--rated-read", "500M"];
    let mut command = home.root(args);
    command.args(["--rated-write", "271M", "--out", "out", "--to"]).arg(device.path());
    let (code, stdout, stderr) = ended(&mut command);
    assert_eq!(code, 0, "{stderr}");
    let simulated =
        format!("The destination is simulated: {} is a file of another file system.", device.name());
    let page = fs::read_to_string(home.path("out/study.html")).unwrap();
    for text in [&stdout, &page] {
        assert!(text.contains(&simulated), "{text}");
    }
    let result: Value = serde_json::from_slice(&fs::read(home.path("out/study.json")).unwrap()).unwrap();
    let (data, destination) = (&result["data"], &result["data"]["destination"]);
    assert_eq!(data["is_between_drives"], true);
    assert!(destination["file_system"].as_str().unwrap().starts_with("ext4 ("), "{destination}");
    assert!(destination["device"].as_str().unwrap().starts_with(device.name()), "{destination}");
    assert!(!data["source"]["file_system"].as_str().unwrap().is_empty());
    assert_ne!(data["source"]["device"], destination["device"]);
    // The table from drive to drive, with both units and the share of the rating.
    assert_eq!(result["tables"][0]["section"], "External disk-to-disk tests");
    let [decimal, binary, share] = [0, 1, 2].map(|column| &result["tables"][0]["here"][0][column]);
    assert!(decimal.as_str().unwrap().ends_with(" (simulated)"), "{decimal}");
    assert!((number(decimal) / number(binary) - 1.048_576).abs() < 1e-3, "{decimal} {binary}");
    assert!((number(share) - number(decimal) / 2.71).abs() < 0.06, "{decimal} {share}");
    // Reads are held against the rating of the source.
    let of_reads = &result["tables"][0]["here"][3][2];
    assert!((number(of_reads) - number(decimal) / 5.0).abs() < 0.06, "{decimal} {of_reads}");
    let conclusions = result["conclusions"].as_array().unwrap();
    for words in ["98.4%", "105% of reads"] {
        let one = conclusions.iter().find(|one| one["published"].as_str().unwrap().contains(words)).unwrap();
        assert_ne!(one["verdict"], "not_measured", "{one}");
        assert!(one["here"].as_str().unwrap().contains("(simulated)"), "{one}");
    }
    let left: Vec<_> = fs::read_dir(device.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lost+found"]);
}
