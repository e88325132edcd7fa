//! `stook verify` where the medium and the memory differ, and where blocks cannot be read.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use stook::extent::ByteRange;
use stook_testing::fuse::{Mirror, PageCache};
use stook_testing::privileged::{Attached, EXT4, LoopDevice, Mounted, run};

use crate::program::{Home, SOMEBODY, ended, stook};
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

/// What somebody may not write, but replace, is replaced; what he may not read, or replace, is left
/// alone and said, and all else is repaired.
#[test]
fn a_repair_by_somebody_else_than_root_does_what_he_may_and_says_what_not() {
    let home = Home::new();
    let set_mode = |name: &str, mode| {
        fs::set_permissions(home.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let repaired = ["own", "read-only", "read-only long", "of root", "of root long", "in own/file"];
    let left =
        ["unreadable", "of root unreadable", "shared/of root", "shared/of root long", "of root's/file"];
    let sizes = |name: &str| if name.ends_with("long") { 2_500_000 } else { 5000 };
    for directory in ["to", "to/shared", "to/of root's", "to/in own"] {
        fs::create_dir(home.path(directory)).unwrap();
    }
    for (seed, name) in repaired.iter().chain(&left).enumerate() {
        fs::write(home.path("to").join(name), noise(seed as u64, sizes(name))).unwrap();
    }
    run(Command::new("chown").args(["-R", &SOMEBODY.to_string()]).arg(home.path("to"))).unwrap();
    for args in [&["verify", "to", "--proof", "-q"][..], &["copy", "to", "good", "-q"]] {
        assert_eq!(ended(&mut home.somebody(args)), (0, String::new(), String::new()));
    }
    let flip = |name: &str| {
        let file = File::options().read(true).write(true).open(home.path("to").join(name)).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 1234).unwrap();
        file.write_all_at(&[byte[0] ^ 1], 1234).unwrap();
    };
    repaired.iter().chain(&left).for_each(|name| flip(name));
    for name in repaired.iter().chain(&left).filter(|name| name.contains("of root")) {
        chown(home.path("to").join(name), Some(0), Some(0)).unwrap();
    }
    for (directory, mode) in [("to/shared", 0o1777), ("to/of root's", 0o755)] {
        chown(home.path(directory), Some(0), Some(0)).unwrap();
        set_mode(directory, mode);
    }
    for (name, mode) in [
        ("to/read-only", 0o444),
        ("to/read-only long", 0o444),
        ("to/unreadable", 0),
        ("to/of root unreadable", 0o600),
        ("to/in own", 0o555),
    ] {
        set_mode(name, mode);
    }
    let before: Vec<Vec<u8>> =
        left.iter().map(|name| fs::read(home.path("to").join(name)).unwrap()).collect();
    let (code, stdout, stderr) = ended(&mut home.somebody(["copy", "good", "to", "--repair"]));
    assert_eq!(code, 1, "{stdout}{stderr}");
    assert!(stdout.contains("Repaired 6 of 11 files of to; 5 could not be repaired"), "{stdout}{stderr}");
    for (seed, name) in repaired.iter().enumerate() {
        assert!(
            fs::read(home.path("to").join(name)).unwrap() == noise(seed as u64, sizes(name)),
            "{name}: {stderr}"
        );
    }
    for (name, before) in left.iter().zip(&before) {
        assert!(fs::read(home.path("to").join(name)).unwrap() == *before, "{name}");
        let lines = stderr.lines().filter(|line| line.contains(&format!("to/{name}: "))).count();
        assert_eq!(lines, 1, "{name}: {stderr}");
    }
    let mode = |name: &str| fs::metadata(home.path(name)).unwrap().mode() & 0o7777;
    assert_eq!([mode("to/in own"), mode("to/shared"), mode("to/unreadable")], [0o555, 0o1777, 0]);
    for directory in ["to", "to/shared", "to/of root's", "to/in own"] {
        let mut names = fs::read_dir(home.path(directory)).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!names.any(|name| name.as_encoded_bytes().starts_with(b".stook-")), "{directory}");
    }
    // Root may do all of it.
    let (code, stdout, stderr) = ended(&mut home.root(["copy", "good", "to", "--repair"]));
    assert!(code == 0 && stdout.contains("Repaired 5 files of to"), "{stdout}{stderr}");
    assert_eq!(ended(&mut home.root(["verify", "to", "-q"])).0, 0);
}
