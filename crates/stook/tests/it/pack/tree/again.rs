//! Packing again adds what is new or changed, and nothing else.

use std::fs;
use std::sync::Arc;

use stook::pack::{Attributes, FileKind, Key, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook::walk::Decision;

use super::{Place, failed, set_mode, set_time, write};

#[test]
fn only_what_changed_is_packed_again() {
    let place = Place::new();
    for name in ["same", "bytes", "mode", "time", "kind", "dir/x"] {
        write(place.tree().join(name), name);
        set_time(&place.tree().join(name), 1_000_000_000);
    }
    std::os::unix::fs::symlink("one", place.tree().join("link")).unwrap();
    place.pack();
    write(place.tree().join("bytes"), "other");
    set_mode(&place.tree().join("mode"), 0o700);
    set_time(&place.tree().join("time"), 1_000_000_001);
    fs::remove_file(place.tree().join("kind")).unwrap();
    fs::create_dir(place.tree().join("kind")).unwrap();
    fs::remove_file(place.tree().join("link")).unwrap();
    std::os::unix::fs::symlink("two", place.tree().join("link")).unwrap();
    write(place.tree().join("new"), "new");
    let summary = place.pack();
    // The root has a new time, too.
    assert_eq!((summary.files, summary.directories, summary.symlinks), (4, 2, 1), "{summary:?}");
    assert_eq!((summary.replaced, summary.unchanged), (6, 3));
    place.comes_back("out");
}

#[test]
fn names_of_one_file_stay_together_whatever_happens_to_them() {
    let place = Place::new();
    let name = |name: &str| place.tree().join(name);
    write(name("a"), "first");
    for other in ["b", "c/d"] {
        fs::create_dir_all(name(other).parent().unwrap()).unwrap();
        fs::hard_link(name("a"), name(other)).unwrap();
    }
    let summary = place.pack();
    assert_eq!((summary.files, summary.hard_links), (1, 2));
    assert_eq!(place.pack().added(), 0);
    // One more name.
    fs::hard_link(name("a"), name("e")).unwrap();
    place.pack();
    place.comes_back("1");
    // The name that was a file in the pack becomes another file, in turn for each.
    for turn in ["a", "b", "c/d"] {
        fs::remove_file(name(turn)).unwrap();
        write(name(turn), format!("another {turn}"));
        let summary = place.pack();
        assert!(summary.failures.is_empty(), "{summary:?}");
        place.comes_back(&format!("2-{}", turn.replace('/', "")));
        assert_eq!(place.pack().added(), 0);
    }
    // New bytes under all names.
    fs::hard_link(name("e"), name("f")).unwrap();
    fs::write(name("f"), "changed through one name").unwrap();
    place.pack();
    place.comes_back("3");
    assert_eq!(place.pack().added(), 0);
}

#[test]
fn names_that_are_left_out_keep_their_content_when_another_name_is_packed() {
    let place = Place::new();
    let name = |name: &str| place.tree().join(name);
    write(name("a"), "first");
    fs::hard_link(name("a"), name("b")).unwrap();
    fs::hard_link(name("a"), name("c")).unwrap();
    assert_eq!((place.pack().files, place.open().len()), (1, 4));
    let holder = |key: &[u8]| {
        let record = place.open().get(&Key::bytes(key).unwrap()).unwrap().unwrap();
        record.head.attributes.file_kind() == Some(FileKind::File)
    };
    let holds = ["a", "b", "c"].into_iter().find(|key| holder(key.as_bytes())).unwrap();
    // The name that holds the content becomes another file, and only it is packed.
    fs::remove_file(name(holds)).unwrap();
    write(name(holds), "another");
    let mut packing = place.packing();
    packing.select = Box::new(move |key, _| match key.is_empty() || key == holds.as_bytes() {
        true => Decision::Take,
        false => Decision::Prune,
    });
    let summary = place.pack_with(&packing);
    assert_eq!((summary.files, summary.replaced, failed(&summary.failures).len()), (1, 2, 0), "{summary:?}");
    place.comes_back("out");
}

#[test]
fn a_name_that_a_file_got_after_it_was_packed_keeps_its_content_too() {
    let place = Place::new();
    write(place.tree().join("a"), "first");
    place.pack();
    fs::hard_link(place.tree().join("a"), place.tree().join("b")).unwrap();
    let summary = place.pack();
    assert_eq!((summary.hard_links, failed(&summary.failures).len()), (1, 0), "{summary:?}");
    place.comes_back("out");
    let storage = LocalStorage::open(place.pack_path(), LocalStorageOptions::default()).unwrap();
    let mut writer = PackWriter::open(Arc::new(storage), WriterOptions::default()).unwrap();
    let body = |name: &str| place.open().get(&Key::bytes(name).unwrap()).unwrap().unwrap().body;
    assert_eq!((&*body("a"), &*body("b")), (&b"first"[..], &b"a"[..]));
    writer.put("", &Key::bytes("a").unwrap(), &Attributes::new(), b"another").unwrap();
    writer.finish(true).unwrap();
    assert_eq!((&*body("a"), &*body("b")), (&b"another"[..], &b"first"[..]));
}

#[test]
fn content_is_written_once_when_a_file_with_several_names_changes() {
    let place = Place::new();
    let name = |name: &str| place.tree().join(name);
    write(name("a"), vec![1; 100_000]);
    fs::hard_link(name("a"), name("b")).unwrap();
    fs::hard_link(name("a"), name("c")).unwrap();
    place.pack();
    for (turn, change) in [(1, "bytes"), (2, "another file")] {
        match change {
            "bytes" => fs::write(name("b"), vec![2; 100_000]).unwrap(),
            _ => {
                fs::remove_file(name("a")).unwrap();
                write(name("a"), vec![3; 100_000]);
            }
        }
        let before: u64 = place.open().segments().iter().map(|segment| segment.tally.body_bytes).sum();
        let summary = place.pack();
        let after: u64 = place.open().segments().iter().map(|segment| segment.tally.body_bytes).sum();
        assert!(after - before < turn * 100_000 + 1000, "{change}: {} bytes, {summary:?}", after - before);
        place.comes_back(change);
    }
}

#[test]
fn two_files_that_became_one_are_linked() {
    let place = Place::new();
    for name in ["a", "b"] {
        write(place.tree().join(name), "equal");
        set_time(&place.tree().join(name), 5);
    }
    place.pack();
    fs::remove_file(place.tree().join("b")).unwrap();
    fs::hard_link(place.tree().join("a"), place.tree().join("b")).unwrap();
    place.pack();
    place.comes_back("out");
}

#[test]
fn a_name_whose_file_is_gone_is_packed_with_its_bytes() {
    let place = Place::new();
    write(place.tree().join("a"), "bytes");
    // The pack says that two names are links to a file that is not in this tree.
    fs::hard_link(place.tree().join("a"), place.tree().join("b")).unwrap();
    fs::hard_link(place.tree().join("a"), place.tree().join("c")).unwrap();
    let storage = LocalStorage::create(place.pack_path(), LocalStorageOptions::default()).unwrap();
    let mut writer = PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap();
    let metadata = fs::metadata(place.tree().join("a")).unwrap();
    let attributes = |kind| {
        use std::os::unix::fs::MetadataExt as _;
        let time = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
        Attributes::of_file(kind, metadata.mode() & 0o7777, time, Some((metadata.uid(), metadata.gid())))
    };
    for name in ["a", "b", "c"] {
        writer.put("", &Key::bytes(name).unwrap(), &attributes(FileKind::HardLink), b"gone").unwrap();
    }
    writer.finish(false).unwrap();
    let summary = place.pack();
    assert_eq!((summary.files, summary.hard_links, failed(&summary.failures).len()), (1, 2, 0));
    place.comes_back("out");
}

#[test]
fn a_damaged_record_is_packed_again() {
    let place = Place::new();
    write(place.tree().join("file"), "bytes of the file");
    place.pack();
    let head = place.open().get(&Key::bytes("file").unwrap()).unwrap().unwrap().head;
    let segment = place.pack_path().join(format!("segment-{:016x}", head.segment));
    let mut bytes = fs::read(&segment).unwrap();
    bytes[head.offset as usize + 20] ^= 1;
    fs::write(&segment, bytes).unwrap();
    assert!(place.open().get(&Key::bytes("file").unwrap()).is_err());
    let summary = place.pack();
    assert_eq!((summary.files, failed(&summary.failures).len()), (1, 0));
    assert_eq!(place.open().get(&Key::bytes("file").unwrap()).unwrap().unwrap().body, "bytes of the file");
}

#[test]
fn a_dry_run_counts_what_a_run_does_and_changes_nothing() {
    let place = Place::new();
    write(place.tree().join("a"), "one");
    write(place.tree().join("d/b"), "three");
    fs::hard_link(place.tree().join("a"), place.tree().join("c")).unwrap();
    std::os::unix::fs::symlink("x", place.tree().join("l")).unwrap();
    let counts = |s: &stook::pack::tree::PackSummary| {
        (s.files, s.directories, s.symlinks, s.hard_links, s.bytes, s.replaced, s.unchanged)
    };
    let dry = place.packing().run(None, None, &mut |_, _| true).unwrap();
    assert_eq!(counts(&dry), counts(&place.pack()));
    assert_eq!(counts(&dry), (2, 2, 1, 1, 8, 0, 0));
    write(place.tree().join("d/b"), "longer");
    let before = place.open();
    let generation = before.generation();
    let dry = place.packing().run(None, Some(&before), &mut |_, _| true).unwrap();
    assert_eq!(place.open().generation(), generation);
    assert_eq!(counts(&dry), counts(&place.pack()));
    assert_eq!(counts(&dry), (1, 0, 0, 0, 6, 1, 5));
}

#[test]
fn what_was_interrupted_goes_on_where_it_was() {
    let place = Place::new();
    for number in 0..50 {
        write(place.tree().join(format!("{number}")), vec![number; 3000]);
    }
    write(place.tree().join("long"), vec![7; 3 << 20]);
    for stop_at in [1, 20, 40] {
        let storage = LocalStorageOptions::default();
        let storage = match place.pack_path().exists() {
            true => LocalStorage::open(place.pack_path(), storage),
            false => LocalStorage::create(place.pack_path(), storage),
        };
        let storage = Arc::new(storage.unwrap());
        let mut writer = match stop_at {
            1 => PackWriter::create(storage, WriterOptions::default()).unwrap(),
            _ => PackWriter::open(storage, WriterOptions::default()).unwrap(),
        };
        let before = (stop_at > 1).then(|| place.open());
        let mut calls = 0;
        let summary = place.packing().run(Some(&mut writer), before.as_ref(), &mut |_, _| {
            calls += 1;
            calls < stop_at
        });
        assert!(summary.unwrap().interrupted);
        writer.finish(false).unwrap();
        assert!(!place.open().is_complete());
    }
    let summary = place.pack();
    assert!(summary.unchanged >= 1, "{summary:?}");
    assert!(place.open().is_complete());
    place.comes_back("out");
}

#[test]
fn a_file_that_changes_while_it_is_read_leaves_nothing() {
    let place = Place::new();
    let path = place.tree().join("changing");
    write(path.clone(), vec![1; 8 << 20]);
    write(place.tree().join("quiet"), "x");
    for change in [4 << 20, 9 << 20, 8 << 20] {
        let mut changed = false;
        let storage = LocalStorage::create(place.pack_path(), LocalStorageOptions::default()).unwrap();
        let mut writer = PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap();
        let summary = place.packing().run(Some(&mut writer), None, &mut |_, bytes| {
            // In the middle of the large file.
            if bytes >= 1 << 20 && !changed {
                changed = true;
                let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
                file.set_len(change).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, b"2", 2 << 20).unwrap();
            }
            true
        });
        let summary = summary.unwrap();
        writer.finish(true).unwrap();
        assert_eq!(failed(&summary.failures), [b"changing"], "cut or grown to {change}");
        assert_eq!(summary.files, 1);
        let pack = place.open();
        assert!(!pack.contains(&Key::bytes("changing").unwrap()).unwrap());
        assert_eq!(pack.get(&Key::bytes("quiet").unwrap()).unwrap().unwrap().body, "x");
        drop(pack);
        fs::remove_dir_all(place.pack_path()).unwrap();
        fs::write(&path, vec![1; 8 << 20]).unwrap();
    }
}

/// What a killed run left, or another run makes now, is no file of the tree.
#[test]
fn temporary_files_are_left_out_and_named_and_what_only_looks_so_is_packed() {
    let place = Place::new();
    let name = |number: u32| format!(".stook-0123456789abcdef-{number}.part");
    let at = |key: &str| place.tree().join(key);
    write(at("a"), "whole");
    write(at(&name(0)), "half");
    write(at("d").join(name(1)), "half");
    // Of another form, and of another kind.
    write(at(".stook-notes.part"), "notes");
    write(at(&name(2)).join("b"), "whole");
    std::os::unix::fs::symlink("a", at(&name(3))).unwrap();
    let temporary = [name(0).into_bytes(), format!("d/{}", name(1)).into_bytes()];
    for _ in 0..2 {
        let dry = place.packing().run(None, None, &mut |_, _| true).unwrap();
        let summary = place.pack();
        for summary in [&dry, &summary] {
            assert_eq!(summary.temporary, temporary, "{summary:?}");
            assert!(summary.failures.is_empty(), "{summary:?}");
        }
    }
    let keys: Vec<_> = place.open().keys(&[]).unwrap().map(|entry| entry.unwrap().key.to_string()).collect();
    let below = format!("{}/b", name(2));
    let expected = ["", &name(2), &below, &name(3), ".stook-notes.part", "a", "d"];
    assert_eq!(keys.len(), expected.len(), "{keys:?}");
    assert!(expected[1..].iter().all(|key| keys.iter().any(|there| there == key)), "{keys:?}");
    // The rest comes back.
    fs::remove_file(at(&name(0))).unwrap();
    fs::remove_file(at("d").join(name(1))).unwrap();
    place.pack();
    place.comes_back("out");
}
