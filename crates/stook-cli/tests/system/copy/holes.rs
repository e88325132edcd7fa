//! Files that are nearly all holes, and files that share blocks.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use stook_testing::privileged::{BTRFS, EXT4, LoopDevice, Mounted, XFS, run};

use super::super::trees::noise;
use super::{assert_same, copied, report};

const GIB: u64 = 1 << 30;
const LEN: u64 = 100 * GIB;

/// Where there are bytes, and how many: at the beginning, within, over the end of a block, and at
/// the end.
const ISLANDS: [(u64, usize); 5] =
    [(0, 4096), (GIB + 12_288, 1 << 20), (50 * GIB, 70_000), (70 * GIB + 100, 3), (LEN - 5, 5)];

fn make_holes(path: &Path) {
    let file = File::create(path).unwrap();
    file.set_len(LEN).unwrap();
    for (number, (at, len)) in (1..).zip(ISLANDS) {
        file.write_all_at(&noise(number, len), at).unwrap();
    }
    file.sync_all().unwrap();
}

/// Where the system says that there are bytes.
fn data(file: &File) -> Vec<(u64, u64)> {
    let (mut data, mut at) = (Vec::new(), 0);
    loop {
        match seek(file, SeekFrom::Data(at)) {
            Ok(start) => {
                at = seek(file, SeekFrom::Hole(start)).unwrap();
                data.push((start, at));
            }
            Err(Errno::NXIO) => return data,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The bytes of one are where the bytes of the other are, and are the same.
fn assert_same_bytes(one: &Path, other: &Path) {
    let files = [one, other].map(|path| File::open(path).unwrap());
    assert!(files.iter().all(|file| file.metadata().unwrap().len() == LEN));
    for (start, end) in files.iter().flat_map(data) {
        let read = |file: &File| {
            let mut bytes = vec![0; (end - start) as usize];
            file.read_exact_at(&mut bytes, start).unwrap();
            bytes
        };
        assert!(read(&files[0]) == read(&files[1]), "{} from {start} on", other.display());
    }
}

#[test]
fn a_hundred_gigabytes_of_holes_take_no_room_and_are_not_read_from_and_to_each_file_system() {
    let devices = [(EXT4, 64 << 20), (XFS, 320 << 20), (BTRFS, 192 << 20)]
        .map(|(kind, len_bytes)| LoopDevice::mount_as(kind, len_bytes, 512).unwrap());
    let memory = Mounted::in_memory(64 << 20).unwrap();
    let mut roots: Vec<PathBuf> = devices.iter().map(|device| device.path().to_path_buf()).collect();
    roots.push(memory.path().to_path_buf());
    roots.iter().for_each(|root| make_holes(&root.join("holes")));
    for (number, root) in roots.iter().enumerate() {
        let from = root.join("holes");
        for to in &roots {
            let to = to.join(format!("from-{number}"));
            let report = report([&from, &to]);
            let made = to.join("holes");
            assert_same_bytes(&from, &made);
            let blocks = [&from, &made].map(|path| fs::metadata(path).unwrap().blocks());
            println!("{} {}: {blocks:?}", from.display(), made.display());
            assert!(blocks[1] <= blocks[0] + 64, "{}: {blocks:?}", made.display());
            // A clone is not read at all; blocks at the edges of islands are read whole.
            assert!(report["read_bytes"].as_u64().unwrap() <= 2 << 20, "{report}");
            fs::remove_dir_all(to).unwrap();
        }
    }
}

/// How many extents a file has, and how many of them it shares.
fn extents(path: &Path) -> (usize, usize) {
    let shown = run(Command::new("filefrag").arg("-v").arg(path)).unwrap();
    let extents: Vec<&str> = shown
        .lines()
        .filter(|line| line.trim_start().starts_with(|first: char| first.is_ascii_digit()))
        .collect();
    (extents.len(), extents.iter().filter(|extent| extent.contains("shared")).count())
}

#[test]
fn large_files_share_all_their_blocks_with_their_source_unless_a_hash_needs_the_bytes() {
    for (kind, len_bytes) in [(BTRFS, 256 << 20), (XFS, 320 << 20)] {
        let device = LoopDevice::mount_as(kind, len_bytes, 512).unwrap();
        let [from, cloned, hashed] = ["from", "cloned", "hashed"].map(|name| device.path().join(name));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("large"), noise(1, 8 << 20)).unwrap();
        fs::write(from.join("odd"), noise(2, 700_001)).unwrap();
        let said = report([&from, &cloned]);
        assert_eq!(
            (&said["destinations"][0]["cloned"], &said["read_bytes"]),
            (&2.into(), &0.into()),
            "{said}"
        );
        assert_same(&from, &cloned);
        for name in ["large", "odd"] {
            let (all, shared) = extents(&cloned.join(name));
            assert!(all > 0 && all == shared, "{kind:?} {name}: {shared} of {all}");
        }
        copied([from.as_os_str(), hashed.as_os_str(), "--hash".as_ref(), "xxh3".as_ref()]);
        assert_same(&from, &hashed);
        let (all, shared) = extents(&hashed.join("large"));
        assert!(all > 0 && shared == 0, "{kind:?}: {shared} of {all}");
    }
}
