//! Destinations that have room for all but the last blocks of a file.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use stook_testing::privileged::{BTRFS, EXT4, Kind, LoopDevice, Mounted, XFS};
use tempfile::TempDir;

use super::super::full::give_back;
use super::super::program::ended;
use super::super::trees::noise;
use super::{copy, is_whole_sweep};

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;

/// Short enough for a file system to keep it beside its name; as in the published study; one block
/// of a large file; many.
const LENS: [u64; 4] = [1, 19_999, MIB, 64 * MIB];

/// What a file system is spared for its own tables when a copy has to succeed: btrfs rounds up.
const SLACK: u64 = 24 * MIB;

/// Files to copy, in one directory each.
struct Sources(TempDir);

impl Sources {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for len in LENS {
            let below = dir.path().join(len.to_string());
            fs::create_dir(&below).unwrap();
            fs::write(below.join("file"), noise(len, len as usize)).unwrap();
        }
        Self(dir)
    }

    fn of(&self, len: u64) -> PathBuf {
        self.0.path().join(len.to_string())
    }
}

/// A file that takes the room of a file system.
struct Filler {
    file: File,
    path: PathBuf,
}

impl Filler {
    fn new(root: &Path) -> Self {
        let path = root.join("filler");
        Self { file: File::create(&path).unwrap(), path }
    }

    /// Leaves room for this many bytes.
    fn leave(&self, bytes: u64) {
        // What was removed before is free only then.
        give_back(&self.path, 0);
        let mut take = 64 * MIB;
        while take >= BLOCK {
            let len = self.file.metadata().unwrap().len();
            match fallocate(&self.file, FallocateFlags::empty(), len, take) {
                Ok(()) => {}
                Err(Errno::NOSPC) => take /= 2,
                Err(error) => panic!("{error}"),
            }
        }
        give_back(&self.path, bytes.min(self.file.metadata().unwrap().len()));
    }
}

/// How many blocks are left for a file of this length: none, all, and about as many as it takes.
fn spared(len: u64) -> BTreeSet<u64> {
    let all = len.div_ceil(BLOCK);
    if is_whole_sweep() {
        return (0..all.min(2)).chain(all.saturating_sub(300)..=all + 16).collect();
    }
    [0, all - 1, all, all + 16].into_iter().collect()
}

/// What became of a copy for which there may be too little room: whether there was enough.
fn tried(from: &Path, to: &Path) -> Result<bool, String> {
    let (code, stdout, stderr) = ended(copy([from, to]).arg("--force"));
    let (wanted, found) = (fs::read(from.join("file")).unwrap(), fs::read(to.join("file")));
    let is_there = found.is_ok();
    if found.is_ok_and(|found| found != wanted) {
        return Err(format!("a part of the file has its name: {stderr}"));
    }
    match code {
        0 if is_there => Ok(true),
        1 => {
            // Where there is a directory it is the file in it that had no room.
            let path = if to.exists() && !is_there { to.join("file") } else { to.to_path_buf() };
            let says = |line: &str| {
                line.contains("No space left on device") && line.contains(path.to_str().unwrap())
            };
            let is_said = stderr.lines().any(says);
            if is_said { Ok(false) } else { Err(format!("{} is not named: {stderr}", path.display())) }
        }
        code => Err(format!("code {code}: {stdout}{stderr}")),
    }
}

/// Leaves room for each number of blocks in turn, and enough after that.
fn swept(root: &Path, name: &str, sources: &Sources) {
    let (filler, to) = (Filler::new(root), root.join("to"));
    let (mut cases, mut full, mut wrong) = (0, 0, Vec::new());
    for len in LENS {
        for blocks in spared(len) {
            filler.leave(blocks * BLOCK);
            let first = tried(&sources.of(len), &to);
            full += u64::from(first == Ok(false));
            filler.leave(len + SLACK);
            let second = tried(&sources.of(len), &to);
            cases += 1;
            let outcome = (first, second);
            if !matches!(outcome, (Ok(_), Ok(true))) {
                wrong.push(format!("{len} bytes, {blocks} blocks: {outcome:?}"));
            }
            if to.exists() {
                fs::remove_dir_all(&to).unwrap();
            }
        }
    }
    println!("{name}: {full} of {cases} copies met a full file system");
    assert!(wrong.is_empty(), "{name}, {} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(full >= 5 && full < cases, "{name}: {full} of {cases}");
}

fn swept_on(kind: Kind, len_bytes: u64, name: &str) {
    let device = LoopDevice::mount_as(kind, len_bytes, 512).unwrap();
    swept(device.path(), name, &Sources::new());
}

#[test]
fn a_file_that_lacks_a_block_on_ext4_is_named_and_is_finished_when_there_is_room() {
    swept_on(EXT4, 128 * MIB, "ext4");
}

#[test]
fn a_file_that_lacks_a_block_on_xfs_is_named_and_is_finished_when_there_is_room() {
    swept_on(XFS, 320 * MIB, "xfs");
}

#[test]
fn a_file_that_lacks_a_block_on_btrfs_is_named_and_is_finished_when_there_is_room() {
    swept_on(BTRFS, 256 * MIB, "btrfs");
}

#[test]
fn a_file_that_lacks_a_page_in_memory_is_named_and_is_finished_when_there_is_room() {
    swept(Mounted::in_memory(100 * MIB).unwrap().path(), "tmpfs", &Sources::new());
}

#[test]
fn a_tree_that_cannot_fit_is_refused_before_anything_is_made_unless_it_is_there_already() {
    let (sources, memory) = (Sources::new(), Mounted::in_memory(65 * MIB).unwrap());
    let to = memory.path().join("to");
    let all = sources.0.path();
    let (code, stdout, stderr) = ended(&mut copy([all, &to]));
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("would be needed in") && stderr.contains(to.to_str().unwrap()), "{stderr}");
    assert!(!to.exists());
    super::copied([&sources.of(64 * MIB), &to.join((64 * MIB).to_string())]);
    let (code, _, stderr) = ended(copy([all, &to]).args(["--exclude", &MIB.to_string()]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(fs::metadata(to.join("19999/file")).unwrap().size(), 19_999);
}
