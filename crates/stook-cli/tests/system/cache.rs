//! `stook cat --cache-dir` on file systems that have no room.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use stook_testing::privileged::LoopDevice;
use tempfile::TempDir;

use super::full::{fill, give_back};
use super::program::stook;
use super::trees::noise;

const MIB: usize = 1 << 20;
/// After this time a changed file has a settled identity, with time to spare.
const SETTLED: Duration = Duration::from_millis(2500);

/// The result of a run: bytes, requests, bytes from the disk, failed operations of the cache, and
/// its message.
struct Read {
    bytes: Vec<u8>,
    requests: u64,
    from_disk: u64,
    failures: u64,
    reported: String,
}

fn cat(source: &Path, cache: &Path) -> Read {
    let output =
        stook(["--json", "cat", "--stats"]).arg(source).arg("--cache-dir").arg(cache).output().unwrap();
    let reported = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{reported}");
    let line = reported.lines().find(|line| line.starts_with('{')).unwrap();
    let document: serde_json::Value = serde_json::from_str(line).unwrap();
    let number = |name: &str| document[name].as_u64().unwrap();
    let (requests, from_disk, failures) =
        (number("requests"), number("bytes_from_disk"), number("disk_failures"));
    Read { bytes: output.stdout, requests, from_disk, failures, reported }
}

/// Writes a source, and waits until it counts as settled: what changed a moment ago is not kept.
fn write_source(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    std::thread::sleep(SETTLED);
}

/// Reads and caches in a directory on a file system with `spare` free bytes, and then more.
fn reads_are_right_whatever_room_there_is(root: &Path, spare: u64) {
    let (cache, filler) = (root.join("cache"), root.join("filler"));
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    let old = noise(3, 8 * MIB);
    write_source(&source, &old);
    // The directory and an entry are there, with a MiB of bytes that are right.
    let mut command = stook(["cat", "--range", "0..1MiB"]);
    assert!(command.arg(&source).arg("--cache-dir").arg(&cache).output().unwrap().status.success());
    fill(&filler, spare);
    for _ in 0..2 {
        let read = cat(&source, &cache);
        assert!(read.bytes == old, "what a full disk did not take is read all the same");
        assert!(read.requests > 0 && read.failures > 0, "{}", read.reported);
        assert!(read.reported.contains("No space left on device"), "{}", read.reported);
        assert!(read.from_disk >= MIB as u64 && read.from_disk < 8 * MIB as u64, "{}", read.reported);
    }
    // Another state of the source: nothing of the one before is given.
    let new = noise(4, 8 * MIB);
    write_source(&source, &new);
    for _ in 0..2 {
        assert!(cat(&source, &cache).bytes == new);
    }
    // With room again everything is kept.
    give_back(&filler, 16 * MIB as u64);
    assert!(cat(&source, &cache).bytes == new);
    let read = cat(&source, &cache);
    assert!(read.bytes == new);
    assert_eq!((read.requests, read.from_disk, read.failures), (0, 8 * MIB as u64, 0), "{}", read.reported);
}

#[test]
fn reads_are_right_where_the_cache_is_on_a_full_ext4() {
    for spare in [0, 3 * MIB as u64] {
        reads_are_right_whatever_room_there_is(
            LoopDevice::mount(64 * MIB as u64, 512).unwrap().path(),
            spare,
        );
    }
}

/// A file system in memory; it goes when it goes.
struct InMemory {
    mountpoint: PathBuf,
    _folder: TempDir,
}

impl InMemory {
    fn mount(len_bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mountpoint = folder.path().join("mounted");
        fs::create_dir(&mountpoint).unwrap();
        let options = format!("size={len_bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&mountpoint);
        assert!(mount.status().unwrap().success());
        Self { mountpoint, _folder: folder }
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        let outcome = Command::new("umount").arg(&self.mountpoint).status();
        if !outcome.as_ref().is_ok_and(|status| status.success()) {
            eprintln!("cannot unmount {}: {outcome:?}", self.mountpoint.display());
        }
    }
}

#[test]
fn reads_are_right_where_the_cache_is_on_a_full_tmpfs() {
    for spare in [0, 3 * MIB as u64] {
        reads_are_right_whatever_room_there_is(&InMemory::mount(32 * MIB).mountpoint, spare);
    }
}
