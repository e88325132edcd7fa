//! `stook verify` where the medium and the memory differ, and where blocks cannot be read.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use stook::extent::ByteRange;
use stook_testing::fuse::{Mirror, PageCache};
use stook_testing::privileged::{LoopDevice, run};

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
        assert!(said.contains(&format!("mismatch    {name}: its sha256 is another")), "{said}");
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
