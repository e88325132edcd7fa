//! `stook copy --read-back`: what was written is read again, and said to be so only where it was.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use super::packs::{Place, documented};
use super::{ended, stook, wait_until};

/// A card with a small file and one that takes some seconds at the limit of `SLOW`.
fn place() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("card/d")).unwrap();
    fs::write(place.path("card/d/note"), "what was read").unwrap();
    fs::write(place.path("card/empty"), "").unwrap();
    fs::write(place.path("card/take"), vec![7; 3_000_000]).unwrap();
    place
}

/// A file has its name long before the copy ends.
const SLOW: [&str; 7] = ["copy", "card", "disk", "--read-back", "--durability=file", "--bwlimit", "1MiB"];

fn copy(place: &Place, args: &[&str]) -> (i32, String, String) {
    ended(stook(["copy"]).args(args).current_dir(place.dir.path()))
}

#[test]
fn what_was_written_is_read_again_and_what_was_there_is_not() {
    let place = place();
    let (code, stdout, stderr) = copy(&place, &["card", "disk", "--to", "spare", "--read-back", "--json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&stdout).unwrap();
    documented("copy", &report);
    for one in report["destinations"].as_array().unwrap() {
        assert_eq!(one["read_back"]["files"], 3, "{one}");
        assert_eq!(one["read_back"]["bytes"], 3_000_013, "{one}");
        assert!(one["read_back"]["past_cache"].is_boolean(), "{one}");
    }
    // The hash that it takes is nobody's list.
    assert!(!stdout.contains("checksums-"), "{stdout}");
    fs::write(place.path("card/more"), "more").unwrap();
    let (code, stdout, _) = copy(&place, &["card", "disk", "--read-back"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("Read back") && stdout.contains("1 file (4 B read) is as copied"), "{stdout}");
    let (code, stdout, _) = copy(&place, &["card", "disk"]);
    assert!(code == 0 && !stdout.contains("Read back"), "{stdout}");
    let (code, stdout, _) = copy(&place, &["card", "new", "--read-back", "--dry-run"]);
    assert!(code == 0 && !stdout.contains("Read back"), "{stdout}");
}

#[test]
fn what_is_not_as_it_was_copied_is_a_failure_and_nothing_is_deleted_then() {
    let place = place();
    fs::create_dir(place.path("disk")).unwrap();
    fs::write(place.path("disk/extra"), "only here").unwrap();
    let mut command = stook(SLOW);
    command.args(["--mirror", "--force"]).current_dir(place.dir.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(&mut child, || place.path("disk/d/note").exists());
    // As long as before: only its bytes show it.
    fs::write(place.path("disk/d/note"), "what was lost").unwrap();
    let done = child.wait_with_output().unwrap();
    let (stdout, stderr) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    assert_eq!(done.status.code(), Some(1), "{stdout} {stderr}");
    assert!(stderr.contains("d/note: cannot read back disk/d/note: "), "{stderr}");
    assert!(stderr.contains("it does not have the bytes that were copied"), "{stderr}");
    assert!(stdout.contains("1 failed") && stdout.contains("2 files"), "{stdout}");
    assert!(place.path("disk/extra").exists(), "{stdout}");
}

#[test]
fn what_may_be_in_memory_alone_cannot_be_read_back() {
    let place = place();
    let (code, stdout, stderr) = copy(&place, &["card", "disk", "--read-back", "--durability", "none"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("not made durable"), "{stderr}");
    assert!(!place.path("disk").exists());
}
