//! `stook verify` where the medium and the memory differ, and where blocks cannot be read.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use stook::extent::ByteRange;
use stook_testing::fuse::{Mirror, PageCache};
use stook_testing::privileged::{Attached, EXT4, LoopDevice, Mounted, run};

use crate::program::{ended, stook};
use crate::trees::noise;

fn verify(arguments: &[&str], path: &Path) -> (i32, String) {
    let (code, stdout, stderr) = ended(stook(["verify"]).arg(path).args(arguments));
    (code, format!("{stdout}{stderr}"))
}

/// Turns a byte of a device's file that has these bytes.
fn damage(image: &Path, bytes: &[u8]) {
    let all = fs::read(image).unwrap();
    let at = all.windows(bytes.len()).position(|window| window == bytes).unwrap();
    let file = File::options().write(true).open(image).unwrap();
    file.write_all_at(&[bytes[0] ^ 1], at as u64).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn what_changed_on_the_medium_is_found_although_memory_has_what_was_written() {
    let device = LoopDevice::mount(64 << 20, 512).unwrap();
    let disk = device.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let large = noise(7, 3_000_000);
    let small = noise(8, 5000);
    fs::write(disk.join("large"), &large).unwrap();
    fs::write(disk.join("small"), &small).unwrap();
    let (code, said) = verify(&["--make-list"], &disk);
    assert_eq!(code, 0, "{said}");
    run(Command::new("sync").args(["-f"]).arg(&disk)).unwrap();
    let (code, said) = verify(&[], &disk);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("read past the page cache"), "{said}");
    // The pages of both files are in memory from now on.
    assert!(fs::read(disk.join("large")).unwrap() == large && fs::read(disk.join("small")).unwrap() == small);
    damage(&device.image(), &large[2_000_000..2_000_100]);
    damage(&device.image(), &small[100..200]);
    let (code, said) = verify(&["--cached"], &disk);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("through the page cache"), "{said}");
    let (code, said) = verify(&[], &disk);
    assert_eq!(code, 1, "{said}");
    for name in ["large", "small"] {
        assert!(
            said.contains(&format!("mismatch    {name}: its sha256 is not the one in the list")),
            "{said}"
        );
    }
}

#[test]
fn on_fuse_an_unreadable_block_is_named_and_nothing_is_said_to_be_past_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = noise(9, 2_500_000);
    for name in ["a", "b", "c"] {
        fs::write(folder.path().join(name), &bytes).unwrap();
    }
    assert_eq!(verify(&["--make-list=xxh128"], folder.path()).0, 0);
    for cache in [PageCache::Off, PageCache::On] {
        let mirror = Mirror::mount(folder.path(), cache).unwrap();
        let (code, said) = verify(&[], mirror.path());
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("not past the cache: a program serves these files (FUSE)"), "{said}");
        mirror.spoil("b", ByteRange::new(2_100_000, 2_100_001).unwrap());
        let (code, said) = verify(&[], mirror.path());
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("unreadable  b: cannot read") && said.contains(" at offset "), "{said}");
        assert!(said.contains("2 files match") && said.contains("1 unreadable"), "{said}");
    }
}

/// The file gets its name while a long one is still copied, and changes on the medium then.
#[test]
fn what_changes_on_the_medium_before_it_is_read_back_is_noticed() {
    let device = LoopDevice::mount(64 << 20, 512).unwrap();
    let card = tempfile::tempdir().unwrap();
    let first = noise(11, 5000);
    fs::write(card.path().join("first"), &first).unwrap();
    fs::write(card.path().join("long"), noise(12, 4_000_000)).unwrap();
    let disk = device.path().join("disk");
    let slow = ["--read-back", "--durability=file", "--bwlimit=1MiB"];
    let mut command = stook(["copy"]);
    command.arg(card.path()).arg(&disk).args(slow);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !disk.join("first").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    damage(&device.image(), &first[100..200]);
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("first: cannot read back ") && said.contains("1 failed"), "{said}");
    assert!(said.contains("Read back from the medium: 1 file "), "{said}");
    // Memory has what was written.
    assert!(fs::read(disk.join("first")).unwrap() == first);
}

#[test]
fn what_never_leaves_memory_is_not_said_to_be_read_from_the_medium() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let card = tempfile::tempdir().unwrap();
    fs::write(card.path().join("a"), noise(13, 300_000)).unwrap();
    let mut command = stook(["copy", "--read-back"]);
    let (code, stdout, stderr) = ended(command.arg(card.path()).arg(memory.path()));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("Read back, but not past the cache (tmpfs keeps files in memory)"), "{stdout}");
}

#[test]
fn a_block_that_cannot_be_read_is_no_mismatch_of_a_part() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("long"), noise(15, 3_500_000)).unwrap();
    fs::write(folder.path().join("short"), noise(16, 5000)).unwrap();
    assert_eq!(verify(&["--proof"], folder.path()).0, 0);
    let mirror = Mirror::mount(folder.path(), PageCache::Off).unwrap();
    for (name, at) in [("long", 2_100_000), ("short", 100)] {
        mirror.spoil(name, ByteRange::new(at, at + 1).unwrap());
        let (code, said) = verify(&["--range", "0.."], &mirror.path().join(name));
        assert_eq!(code, 1, "{said}");
        assert!(said.starts_with("unreadable  ") && said.contains(" at offset "), "{said}");
        assert!(said.contains("; bad: "), "{said}");
    }
}

#[test]
fn a_loop_device_that_reads_its_file_through_the_page_cache_is_no_medium() {
    let device =
        LoopDevice::mount_on(Attached::new(64 << 20, 512, false).unwrap(), EXT4, "defaults").unwrap();
    let card = tempfile::tempdir().unwrap();
    fs::write(card.path().join("a"), noise(14, 300_000)).unwrap();
    let disk = device.path().join("disk");
    let mut command = stook(["copy", "--read-back", "--list"]);
    let (code, stdout, stderr) = ended(command.arg(card.path()).arg(&disk));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let layer = format!("{} (through the page cache)", device.name());
    assert!(stdout.contains(&format!("Read back, but not past the cache (below is {layer})")), "{stdout}");
    let (code, said) = verify(&[], &disk);
    assert!(code == 0 && said.contains(&format!("not past the cache: below is {layer}")), "{said}");
}

#[test]
fn a_tree_is_not_compared_with_itself_by_another_mount() {
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("a"), "some").unwrap();
    let again = Mounted::new(&["--bind", tree.path().to_str().unwrap()]).unwrap();
    let (code, said) = verify(&["--against", again.path().to_str().unwrap()], tree.path());
    assert!(code == 2 && said.contains("would be compared with itself"), "{said}");
}
