//! `stook copy` of a large file that is killed, or interrupted, and run again.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use stook::source::{FileSource, Source as _};

use super::packs::{Place, documented};
use super::{ended, send, stook, wait_until};

/// More than the length from which on files are continued.
const LEN: usize = 80 << 20;
/// Slow enough to be killed many times.
const SLOW: [&str; 7] = ["copy", "card", "disk", "--hash", "xxh3", "--bwlimit", "1MiB"];

/// A place with one large file, which has not changed for a while.
fn place() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("card")).unwrap();
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    let bytes: Vec<u8> = (0..LEN / 4).flat_map(|_| next().to_le_bytes()).collect();
    fs::write(place.path("card/big"), bytes).unwrap();
    while !FileSource::open(place.path("card/big")).unwrap().identity().is_settled() {
        std::thread::sleep(Duration::from_millis(5));
    }
    place
}

fn spawn(place: &Place) -> Child {
    let mut command = stook(SLOW);
    command.current_dir(place.dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The names in the destination that are not final.
fn kept(place: &Place) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir(place.path("disk")) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(".stook-")).collect()
}

/// The length of the journal.
fn journal_len(place: &Place) -> u64 {
    let journal = kept(place).into_iter().find(|path| path.extension().is_some_and(|end| end == "journal"));
    journal.and_then(|path| path.metadata().ok()).map_or(0, |there| there.len())
}

/// Runs to the end, and returns how much was there already.
fn finish(place: &Place) -> u64 {
    let (code, stdout, stderr) =
        ended(stook(["copy", "card", "disk", "--hash", "xxh3", "--json"]).current_dir(place.dir.path()));
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stderr}"));
    documented("copy", &report);
    assert_eq!(code, 0, "{report}");
    assert!(fs::read(place.path("disk/big")).unwrap() == fs::read(place.path("card/big")).unwrap());
    assert!(kept(place).is_empty());
    let resumed = report["destinations"][0]["resumed_bytes"].as_u64().unwrap();
    assert_eq!(report["read_bytes"].as_u64().unwrap(), LEN as u64 - resumed);
    resumed
}

#[test]
fn a_copy_that_is_killed_ten_times_in_a_row_continues_each_time_and_ends_identical() {
    const HEADER_LEN: u64 = 92;
    let place = place();
    let mut there = HEADER_LEN;
    for turn in 0..10 {
        let mut child = spawn(&place);
        wait_until(&mut child, || journal_len(&place) > there);
        child.kill().unwrap();
        child.wait().unwrap();
        there = journal_len(&place);
        assert!(!place.path("disk/big").exists(), "{turn}");
    }
    let resumed = finish(&place);
    assert!(resumed >= 10 << 20, "{resumed} bytes after ten runs, each of which added some");
}

#[test]
fn ctrl_c_leaves_what_is_there_and_says_where_the_next_run_continues() {
    let place = place();
    let mut child = spawn(&place);
    wait_until(&mut child, || journal_len(&place) > 92);
    send("-INT", &child);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("disk/big continues from"), "{stderr}");
    assert!(finish(&place) >= 1 << 20);
}
