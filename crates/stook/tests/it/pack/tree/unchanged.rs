//! What counts as unchanged: never other bytes, and never more writing than there are other bytes.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use stook::pack::format::attributes::{CTIME_NS, INODE, Name, Value};
use stook::pack::tree::PackSummary;
use stook::pack::{Attributes, FileKind, Key, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook_testing::model::pack::ScriptedHost;

use super::{Place, failed, set_time, write};

/// Short files are read by the walk, long ones by the packing thread.
const LENS: [(&str, usize); 3] = [("empty", 0), ("short", 1000), ("long", 3 << 20)];

fn time_of(path: &Path) -> u64 {
    let metadata = fs::metadata(path).unwrap();
    (metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec()) as u64
}

/// Other bytes of the same length, and the time that it had.
fn rewrite(path: &Path) {
    let (len, time) = (fs::metadata(path).unwrap().len() as usize, time_of(path));
    fs::write(path, vec![b'y'; len]).unwrap();
    set_time(path, time);
}

fn record(pack: &Pack, key: &str) -> (Attributes, Vec<u8>) {
    let record = pack.get(&Key::bytes(key).unwrap()).unwrap().unwrap();
    (record.head.attributes, record.body.to_vec())
}

fn counts(summary: &PackSummary) -> (u64, u64, u64, usize) {
    (summary.files, summary.replaced, summary.unchanged, failed(&summary.failures).len())
}

fn filled() -> Place {
    let place = Place::new();
    for (name, len) in LENS {
        write(place.tree().join(name), vec![b'x'; len]);
        set_time(&place.tree().join(name), 1_000_000_000);
    }
    place
}

/// Packs as at this time.
fn pack_at(place: &Place, now_ns: i64) {
    let storage = LocalStorage::create(place.pack_path(), LocalStorageOptions::default()).unwrap();
    let host = ScriptedHost::new(1);
    host.set_clock(now_ns);
    let options = WriterOptions { host, ..WriterOptions::default() };
    let mut writer = PackWriter::create(Arc::new(storage), options).unwrap();
    place.packing().run(Some(&mut writer), None, &mut |_, _| true).unwrap();
    writer.finish(true).unwrap();
}

#[test]
fn a_file_that_was_rewritten_and_given_its_old_time_is_packed_again() {
    let place = filled();
    place.pack();
    for name in ["short", "long"] {
        rewrite(&place.tree().join(name));
    }
    let dry = place.packing().run(None, Some(&place.open()), &mut |_, _| true).unwrap();
    assert_eq!(counts(&dry), (2, 2, 2, 0), "{dry:?}");
    let summary = place.pack();
    assert_eq!(counts(&summary), (2, 2, 2, 0), "{summary:?}");
    place.comes_back("out");
    assert_eq!(place.pack().added(), 0);
}

#[test]
fn of_a_tree_that_was_copied_nothing_is_packed_but_what_differs() {
    let place = filled();
    fs::hard_link(place.tree().join("long"), place.tree().join("name")).unwrap();
    place.pack();
    let copy = place.path("copy");
    fs::create_dir(&copy).unwrap();
    for (name, _) in LENS {
        fs::copy(place.tree().join(name), copy.join(name)).unwrap();
        set_time(&copy.join(name), 1_000_000_000);
    }
    fs::hard_link(copy.join("long"), copy.join("name")).unwrap();
    set_time(&copy, time_of(&place.tree()));
    fs::rename(place.tree(), place.path("original")).unwrap();
    fs::rename(&copy, place.tree()).unwrap();
    let summary = place.pack();
    assert_eq!((summary.added(), summary.unchanged), (0, 5), "{summary:?}");
    // More names or other permissions of the inode are no reason either, as long as the bytes are
    // the same.
    fs::hard_link(place.tree().join("short"), place.path("elsewhere")).unwrap();
    assert_eq!(place.pack().added(), 0);
    fs::remove_file(place.path("elsewhere")).unwrap();
    rewrite(&place.tree().join("name"));
    let summary = place.pack();
    assert_eq!(counts(&summary).0, 1, "{summary:?}");
    place.comes_back("out");
}

/// Before: the new name became the file where it was found first, with its bytes stored again, and
/// a dry run said that one link would be packed.
#[test]
fn a_new_name_of_a_file_is_a_link_also_where_it_is_met_first() {
    for (name, _) in LENS {
        let place = filled();
        let metadata = fs::metadata(place.tree().join(name)).unwrap();
        let changed_ns = metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec();
        pack_at(&place, changed_ns + 2_000_000_000);
        for new in ["0", "zz"] {
            fs::hard_link(place.tree().join(name), place.tree().join(new)).unwrap();
        }
        let dry = place.packing().run(None, Some(&place.open()), &mut |_, _| true).unwrap();
        let summary = place.pack();
        for counted in [&dry, &summary] {
            let put = (counted.files, counted.hard_links, counted.bytes);
            assert_eq!((put, failed(&counted.failures).len()), ((0, 2, 0), 0), "{name}: {counted:?}");
        }
        assert_eq!(record(&place.open(), name).0.file_kind(), Some(FileKind::File), "{name}");
        place.comes_back("out");
        assert_eq!(place.pack().added(), 0);
    }
}

#[test]
fn a_file_as_young_as_a_tick_of_its_clock_is_compared_the_next_time() {
    let young = |after_ns: i64| {
        let place = Place::new();
        let path = place.tree().join("file");
        write(path.clone(), "one");
        let metadata = fs::metadata(&path).unwrap();
        let changed_ns = metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec();
        pack_at(&place, changed_ns + after_ns);
        let (attributes, _) = record(&place.open(), "file");
        assert_eq!(attributes.mtime_ns(), Some(time_of(&path) as i64));
        attributes.inode().map(|(ctime_ns, inode)| {
            assert_eq!((ctime_ns, inode), (changed_ns, metadata.ino()));
        })
    };
    for after_ns in [-5_000_000_000, 0, 10_000_000] {
        assert_eq!(young(after_ns), None, "{after_ns}: a later change could have the same times");
    }
    assert_eq!(young(2_000_000_000), Some(()));
}

#[test]
fn checksum_believes_no_times() {
    for (name, len) in LENS.into_iter().skip(1) {
        let place = filled();
        place.pack();
        // A record that says to be of this very inode, with other bytes.
        let metadata = fs::metadata(place.tree().join(name)).unwrap();
        let owner = Some((metadata.uid(), metadata.gid()));
        let mut attributes =
            Attributes::of_file(FileKind::File, metadata.mode() & 0o7777, 1_000_000_000, owner);
        let ctime_ns = metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec();
        attributes.set(Name::Id(CTIME_NS), Value::I64(ctime_ns));
        attributes.set(Name::Id(INODE), Value::U64(metadata.ino()));
        let storage = LocalStorage::open(place.pack_path(), LocalStorageOptions::default()).unwrap();
        let mut writer = PackWriter::open(Arc::new(storage), WriterOptions::default()).unwrap();
        writer.put("", &Key::bytes(name).unwrap(), &attributes, &vec![b'z'; len]).unwrap();
        writer.finish(true).unwrap();
        assert_eq!(place.pack().added(), 0, "the inode vouches for it");
        let mut packing = place.packing();
        packing.checksum = true;
        let dry = packing.run(None, Some(&place.open()), &mut |_, _| true).unwrap();
        assert_eq!(counts(&dry), (1, 1, 3, 0), "{dry:?}");
        let summary = place.pack_with(&packing);
        assert_eq!(counts(&summary), (1, 1, 3, 0), "{summary:?}");
        place.comes_back("out");
        assert_eq!(place.pack_with(&packing).added(), 0);
    }
}

/// Flips a bit in the middle of a body.
fn hurt(place: &Place, key: &str) {
    let head = place.open().get(&Key::bytes(key).unwrap()).unwrap().unwrap().head;
    let segment = place.pack_path().join(format!("segment-{:016x}", head.segment));
    let mut bytes = fs::read(&segment).unwrap();
    bytes[head.offset as usize + 200 + head.body_len.unwrap() as usize / 2] ^= 1;
    fs::write(&segment, bytes).unwrap();
    assert!(place.open().get(&Key::bytes(key).unwrap()).is_err());
}

#[test]
fn checksum_packs_what_is_damaged_again() {
    for (name, _) in LENS.into_iter().skip(1) {
        for names in [1, 3] {
            let place = filled();
            for other in 1..names {
                fs::hard_link(place.tree().join(name), place.tree().join(format!("name{other}"))).unwrap();
            }
            place.pack();
            let kind = |key: &str| record(&place.open(), key).0.file_kind();
            let all = [name, "name1", "name2"];
            let held = all[..names].iter().find(|key| kind(key) == Some(FileKind::File)).unwrap();
            hurt(&place, held);
            let mut packing = place.packing();
            packing.checksum = true;
            let summary = place.pack_with(&packing);
            assert_eq!((summary.files, failed(&summary.failures).len()), (1, 0), "{name}: {summary:?}");
            place.comes_back(&format!("out{names}"));
            assert_eq!(place.pack_with(&packing).added(), 0);
        }
    }
}
