//! What is there, what is damaged, and what is chosen when a pack is unpacked.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use stook::pack::Key;
use stook::tree::{Kept, Overwrite, WhyKept};

use super::{Place, failed, same_trees, set_mode, set_time, write};

fn simple() -> Place {
    let place = Place::new();
    for name in ["a", "d/b", "d/e/c"] {
        write(place.tree().join(name), name.repeat(1000));
    }
    fs::hard_link(place.tree().join("a"), place.tree().join("d/linked")).unwrap();
    fs::hard_link(place.tree().join("a"), place.tree().join("d/again")).unwrap();
    std::os::unix::fs::symlink("a", place.tree().join("link")).unwrap();
    set_mode(&place.tree().join("d"), 0o700);
    set_time(&place.tree().join("d"), 77);
    place.pack();
    place
}

#[test]
fn what_is_there_is_kept_and_named_unless_told_otherwise() {
    let place = simple();
    write(place.path("out/a"), "mine");
    write(place.path("out/d/linked"), "mine, too");
    set_mode(&place.path("out/d"), 0o711);
    std::os::unix::fs::symlink("mine", place.path("out/link")).unwrap();
    let mut summary = place.unpack("out");
    summary.kept.sort();
    // Into `d` more may go than was recorded.
    // Before: nothing but a list beside it said so.
    let why = summary.kept.iter().map(|kept| (kept.key.as_slice(), kept.why));
    let expected = ["a", "d", "d/linked", "link"].map(|key| match key {
        "d" => (key.as_bytes(), WhyKept::TooOpen),
        _ => (key.as_bytes(), WhyKept::OtherContent),
    });
    assert!(why.eq(expected), "{summary:?}");
    assert!(summary.failures.is_empty(), "{summary:?}");
    assert_eq!(fs::read(place.path("out/a")).unwrap(), b"mine");
    assert_eq!(fs::read(place.path("out/d/linked")).unwrap(), b"mine, too");
    assert_eq!(fs::metadata(place.path("out/d")).unwrap().permissions().mode() & 0o7777, 0o711);
    // Not a name of the kept file, but with the bytes of the pack.
    assert_eq!(fs::read(place.path("out/d/again")).unwrap(), "a".repeat(1000).as_bytes());
    let mut unpacking = place.unpacking("out");
    unpacking.overwrite = Overwrite::Always;
    let summary = unpacking.run(&place.open(), &mut |_, _| true).unwrap();
    assert!(summary.failures.is_empty() && summary.kept.is_empty(), "{summary:?}");
    same_trees(&place.tree(), &place.path("out"));
    unpacking.run(&place.open(), &mut |_, _| true).unwrap();
    same_trees(&place.tree(), &place.path("out"));
}

#[test]
fn a_hard_link_never_becomes_one_of_a_file_that_only_looks_like_the_first() {
    let place = Place::new();
    write(place.tree().join("a"), "mine");
    fs::hard_link(place.tree().join("a"), place.tree().join("b")).unwrap();
    set_time(&place.tree().join("a"), 315_532_800_000_000_000);
    place.pack();
    // As long, and with a fixed time, as reproducible builds have it.
    write(place.path("out/a"), "evil");
    set_time(&place.path("out/a"), 315_532_800_000_000_000);
    let summary = place.unpack("out");
    assert_eq!(
        (&summary.kept[..], failed(&summary.failures).len()),
        (&[Kept { key: b"a".to_vec(), why: WhyKept::OtherContent }][..], 0),
        "{summary:?}"
    );
    assert_eq!(fs::read(place.path("out/a")).unwrap(), b"evil");
    assert_eq!(fs::read(place.path("out/b")).unwrap(), b"mine");
}

#[test]
fn a_second_unpacking_finds_everything_there() {
    let place = simple();
    place.comes_back("out");
    let summary = place.unpack("out");
    assert_eq!((summary.kept.len(), summary.unchanged, summary.files, summary.failures.len()), (0, 6, 0, 0));
    same_trees(&place.tree(), &place.path("out"));
}

#[test]
fn only_what_is_wanted_comes_out_with_the_directories_it_needs() {
    let place = simple();
    let mut unpacking = place.unpacking("out");
    unpacking.select = Box::new(|key| key.starts_with(b"d/l") || key == b"d/e/c" || key == b"d/again");
    let summary = unpacking.run(&place.open(), &mut |_, _| true).unwrap();
    assert!(summary.failures.is_empty(), "{summary:?}");
    assert_eq!(fs::read(place.path("out/d/linked")).unwrap(), "a".repeat(1000).as_bytes());
    let inode = |name: &str| fs::metadata(place.path(name)).unwrap().ino();
    assert_eq!(inode("out/d/linked"), inode("out/d/again"), "names of one file without its first");
    assert!(place.path("out/d/e/c").exists() && !place.path("out/a").exists());
}

#[test]
fn groups_come_out_alone() {
    let place = Place::new();
    write(place.tree().join("one/a"), "a");
    write(place.tree().join("two/b"), "b");
    let mut packing = place.packing();
    packing.grouping = stook::pack::tree::Grouping::Top;
    place.pack_with(&packing);
    let mut unpacking = place.unpacking("out");
    unpacking.groups = vec!["two".into()];
    let summary = unpacking.run(&place.open(), &mut |_, _| true).unwrap();
    assert_eq!((summary.files, summary.directories), (1, 1));
    same_trees(&place.tree().join("two"), &place.path("out/two"));
    assert!(!place.path("out/one").exists());
}

#[test]
fn a_damaged_record_leaves_nothing_and_the_rest_comes_out() {
    let place = Place::new();
    write(place.tree().join("small"), "small file");
    write(place.tree().join("large"), vec![3; 40 << 20]);
    write(place.tree().join("whole"), "whole file");
    fs::hard_link(place.tree().join("small"), place.tree().join("zzz")).unwrap();
    place.pack();
    let names: Vec<&[u8]> = vec![b"small", b"zzz"];
    let stored = |name: &[u8]| place.open().get(&Key::bytes(name).unwrap()).unwrap().unwrap();
    let first = names.into_iter().find(|name| stored(name).head.body_len == Some(10)).unwrap();
    for (key, at) in [(first, 0), (&b"large"[..], 39 << 20)] {
        let head = stored(key).head;
        let segment = place.pack_path().join(format!("segment-{:016x}", head.segment));
        let mut bytes = fs::read(&segment).unwrap();
        let body = stored(key).body;
        let from = head.offset as usize;
        let body_at = from + bytes[from..].windows(8).position(|part| *part == body[..8]).unwrap();
        bytes[body_at + at] ^= 1;
        fs::write(&segment, bytes).unwrap();
    }
    let summary = place.unpack("out");
    let mut keys = failed(&summary.failures);
    keys.sort_unstable();
    assert_eq!(keys, [&b"large"[..], b"small", b"zzz"], "{summary:?}");
    let left: Vec<_> = fs::read_dir(place.path("out")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["whole"]);
}

#[test]
fn an_interruption_leaves_whole_files_only_and_the_next_run_makes_the_rest() {
    let place = Place::new();
    for number in 0..40 {
        write(place.tree().join(format!("{number:02}")), vec![number; 5000]);
    }
    write(place.tree().join("large"), vec![9; 40 << 20]);
    fs::hard_link(place.tree().join("05"), place.tree().join("linked")).unwrap();
    place.pack();
    for stop_at in [1, 10, 30, 45, 60, 120] {
        let mut calls = 0;
        let summary = place.unpacking("out").run(&place.open(), &mut |_, _| {
            calls += 1;
            calls < stop_at
        });
        let summary = summary.unwrap();
        assert!(summary.interrupted && summary.failures.is_empty(), "{stop_at}: {summary:?}");
        // The first calls come while the keys are looked at: nothing is made yet.
        let made = fs::read_dir(place.path("out")).map_or(Vec::new(), Iterator::collect);
        assert!(stop_at == 1 || !made.is_empty(), "{stop_at}");
        for entry in made {
            let entry: fs::DirEntry = entry.unwrap();
            let bytes = fs::read(entry.path()).unwrap();
            assert!(bytes == fs::read(place.tree().join(entry.file_name())).unwrap(), "{entry:?}");
        }
    }
    let summary = place.unpack("out");
    assert!(summary.failures.is_empty() && summary.kept.is_empty() && summary.unchanged > 0);
    let mut unpacking = place.unpacking("out");
    unpacking.overwrite = Overwrite::Always;
    unpacking.run(&place.open(), &mut |_, _| true).unwrap();
    same_trees(&place.tree(), &place.path("out"));
}

#[test]
fn bits_that_would_mean_somebody_else_are_dropped_with_the_owner() {
    let place = Place::new();
    write(place.tree().join("tool"), "x");
    set_mode(&place.tree().join("tool"), 0o6755);
    place.pack();
    let mut unpacking = place.unpacking("out");
    unpacking.with_owner = false;
    unpacking.run(&place.open(), &mut |_, _| true).unwrap();
    let mode = fs::metadata(place.path("out/tool")).unwrap().mode() & 0o7777;
    let expected = if rustix::process::geteuid().is_root() { 0o755 } else { 0o6755 };
    assert_eq!(mode, expected);
}
