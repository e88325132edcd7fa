//! `stook cat`.

use std::fs;

use stook_testing::conformance::pattern;

use super::{ended, stook};

#[test]
fn a_file_and_ranges_of_it_go_to_stdout_in_the_order_given() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let bytes = pattern(20_000_000, 5);
    fs::write(&path, &bytes).unwrap();
    let whole = stook(["cat"]).arg(&path).output().unwrap();
    assert!(whole.status.success() && whole.stdout == bytes);
    let mut command = stook(["cat"]);
    command.arg(&path).args(["--range", "19MB..", "--range", "0..4KiB", "--range", "7..7", "--stats"]);
    let parts = command.output().unwrap();
    assert!(parts.status.success());
    assert_eq!(parts.stdout, [&bytes[19_000_000..], &bytes[..4096]].concat());
    let told = String::from_utf8(parts.stderr).unwrap();
    assert!(told.contains("1.00 MB written; 2 requests"), "{told}");
    let json = stook(["--json", "cat"]).arg(&path).args(["--range", "10..20", "--stats"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&json.stderr).unwrap();
    assert_eq!(document["schema"], "stook.cat/1");
    assert_eq!((&document["bytes_written"], &document["requests"]), (&10.into(), &1.into()));
}

#[test]
fn what_cannot_be_is_refused_before_a_byte_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "0123456789").unwrap();
    for (range, code, expected) in [
        ("0..11", 1, "range [0, 11) reaches past the end of"),
        ("11..", 1, "reaches past the end of"),
        ("5", 2, "expected A..B, as in 0..4KiB"),
        ("9..3", 2, "it ends before it begins"),
    ] {
        let (ended_with, stdout, stderr) =
            ended(stook(["cat"]).arg(&path).args(["--range", "0..2", "--range", range]));
        assert_eq!((ended_with, stdout.as_str()), (code, ""), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
    let (code, _, stderr) = ended(&mut stook(["cat", "ftp://host/file"]));
    assert!(code == 1 && stderr.contains("`ftp` is not among what is known"), "{stderr}");
    let (code, _, stderr) = ended(&mut stook(["cat", "http://127.0.0.1:1/file"]));
    assert!(code == 1 && stderr.contains("http://127.0.0.1:1/file"), "{stderr}");
    let empty = directory.path().join("empty");
    fs::write(&empty, "").unwrap();
    assert_eq!(ended(stook(["cat"]).arg(&empty)), (0, String::new(), String::new()));
}

#[test]
fn what_was_fetched_is_kept_in_the_cache_directory_until_the_source_changes() {
    let directory = tempfile::tempdir().unwrap();
    let (path, cache) = (directory.path().join("file"), directory.path().join("cache"));
    let bytes = pattern(3_000_000, 6);
    fs::write(&path, &bytes).unwrap();
    let cat = || {
        let mut command = stook(["--json", "cat", "--range", "1MB..2MB", "--stats"]);
        let output = command.arg(&path).arg("--cache-dir").arg(&cache).output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
        (output.stdout, document["requests"].as_u64(), document["bytes_from_disk"].as_u64())
    };
    let (read, requests, _) = cat();
    assert!(read == bytes[1_000_000..2_000_000] && requests == Some(1));
    // What was written a moment ago could change within the tick of the clock, and is not kept.
    let kept = (0..100).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        cat()
    });
    let (read, _, from_disk) = kept.into_iter().find(|(_, requests, _)| *requests == Some(0)).unwrap();
    assert!(read == bytes[1_000_000..2_000_000] && from_disk >= Some(1_000_000));
    let other = pattern(3_000_000, 8);
    fs::write(&path, &other).unwrap();
    let (read, requests, _) = cat();
    assert!(read == other[1_000_000..2_000_000] && requests == Some(1));
}
