//! Manifests and deletion vectors are in their files twice: one that is hit or cut costs nothing
//! but a word.

use std::collections::BTreeSet;
use std::sync::Arc;

use stook::pack::{Attributes, Error, Key, OpenOptions, Pack, PackWriter};
use stook::storage::Storage;
use stook_testing::model::pack::{PackModel, WAYS, open_simulated, read_in_every_way};
use stook_testing::sim::SimStorage;

use super::damage::{Small, files_of, options, small, storage_with};

fn shared(storage: &SimStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

fn twice_there(small: &Small) -> Vec<String> {
    let newest = small.files.keys().rfind(|name| name.starts_with("manifest-")).cloned();
    let vectors = small.files.keys().filter(|name| name.starts_with("deletes-")).cloned();
    vectors.chain(newest).collect()
}

/// Everything is there in every way, and this file is reported as damaged.
fn assert_whole_and_reported(storage: &SimStorage, small: &Small, name: &str, what: &str) {
    let pack = open_simulated(storage).unwrap_or_else(|error| panic!("{what}: {error}"));
    let reported = pack.damages().iter().all(|damage| damage.file.ends_with(name));
    assert!(reported && !pack.damages().is_empty(), "{what}: {:?}", pack.damages());
    let read = read_in_every_way(&pack, &small.keys);
    let right = read.given.iter().all(|(key, body)| small.model.get(key) == Some(body));
    assert!(right && read.given.len() == WAYS * small.model.len(), "{what}: something is missing");
}

#[test]
fn one_copy_lost_block_by_block_costs_nothing_and_is_reported() {
    let small = small();
    for name in twice_there(&small) {
        let bytes = &small.files[&name];
        assert!(bytes.len().is_multiple_of(8192), "{name} has {} bytes", bytes.len());
        let (first, second) = bytes.split_at(bytes.len() / 2);
        assert!(first == second, "{name} holds the same twice");
        for at in (0..bytes.len()).step_by(4096) {
            let mut hit = bytes.clone();
            hit[at..at + 4096].fill(0xa5);
            let what = format!("{name}: a block at {at}");
            assert_whole_and_reported(&storage_with(&small.files, &name, Some(&hit)), &small, &name, &what);
        }
    }
}

#[test]
fn a_file_cut_within_its_second_copy_or_grown_is_read_and_reported() {
    let small = small();
    for name in twice_there(&small) {
        let bytes = &small.files[&name];
        let half = bytes.len() / 2;
        for len in [half, half + 1, half + 512, half + 4095, bytes.len() - 1] {
            let storage = storage_with(&small.files, &name, Some(&bytes[..len]));
            assert_whole_and_reported(&storage, &small, &name, &format!("{name} cut to {len}"));
        }
        for more in [1, 4096, 8192, 1 << 20] {
            let mut grown = bytes.clone();
            grown.resize(bytes.len() + more, 0);
            let storage = storage_with(&small.files, &name, Some(&grown));
            assert_whole_and_reported(&storage, &small, &name, &format!("{name} grown by {more}"));
        }
    }
}

#[test]
fn a_writer_goes_on_with_one_copy_and_what_it_publishes_is_whole_again() {
    let small = small();
    for name in twice_there(&small) {
        let mut hit = small.files[&name].clone();
        hit[100] ^= 1;
        let storage = storage_with(&small.files, &name, Some(&hit));
        let mut writer = PackWriter::open(shared(&storage), options()).unwrap();
        assert_eq!(writer.recovery().damages.len(), 1, "{name}");
        writer.put("c", &super::damage::key(0), &Attributes::new(), b"new").unwrap();
        writer.finish(false).unwrap();
        let pack = open_simulated(&storage).unwrap();
        assert_eq!(pack.damages(), [], "{name}");
        let held: PackModel = stook_testing::model::pack::scanned(&pack).unwrap();
        assert_eq!(held.len(), small.model.len() + 1, "{name}");
    }
}

#[test]
fn two_whole_copies_that_differ_are_refused() {
    let small = small();
    let manifests: Vec<&String> = small.files.keys().filter(|name| name.starts_with("manifest-")).collect();
    let newest = *manifests.last().unwrap();
    // The newest as it was, and in its second half one of the same generation that says something
    // else.
    let mut other = small.files[newest].clone();
    let half = other.len() / 2;
    let len = u64::from_le_bytes(*other[24..].first_chunk::<8>().unwrap()) as usize;
    other[half + 64] ^= 1;
    let crc = crc32c::crc32c(&other[half..half + len - 4]);
    other[half + len - 4..half + len].copy_from_slice(&crc.to_le_bytes());
    let storage = storage_with(&small.files, newest, Some(&other));
    let refused = open_simulated(&storage).unwrap_err();
    assert!(matches!(&refused, Error::Damaged(damage) if damage.offset == half as u64), "{refused}");
    assert!(refused.to_string().contains("differ"), "{refused}");
}

#[test]
fn a_segment_without_its_first_block_is_read_and_not_appended_to() {
    let small = small();
    for name in small.files.keys().filter(|name| name.starts_with("segment-")) {
        let mut hit = small.files[name].clone();
        hit[..4096].fill(0);
        // What follows is not needed to know what was there.
        let storage = storage_with(&small.files, name, Some(&hit));
        assert_whole_and_reported(&storage, &small, name, name);
        let mut writer = PackWriter::open(shared(&storage), options()).unwrap();
        writer.put("c", &Key::id(0), &Attributes::new(), b"new").unwrap();
        writer.finish(true).unwrap();
        assert!(files_of(&storage)[name] == hit, "{name} is left as it is");
        assert_eq!(open_simulated(&storage).unwrap().get(&Key::id(0)).unwrap().unwrap().body, "new");
    }
}

#[test]
fn a_segment_without_its_first_block_and_first_frame_loses_that_record_only() {
    let small = small();
    for name in small.files.keys().filter(|name| name.starts_with("segment-")) {
        let mut hit = small.files[name].clone();
        hit[..4096 + 40].fill(0);
        let pack = open_simulated(&storage_with(&small.files, name, Some(&hit))).unwrap();
        let lost = small.model.keys().filter(|key| !matches!(pack.get(key), Ok(Some(_)))).count();
        assert!(lost <= 1, "{name}: {lost} records are lost");
    }
}

#[test]
fn a_check_goes_on_where_both_copies_of_the_newest_manifest_are_lost() {
    let small = small();
    let newest = small.files.keys().filter(|name| name.starts_with("manifest-")).max().unwrap();
    let hit: Vec<u8> = small.files[newest].iter().map(|byte| byte ^ 0x40).collect();
    let storage = storage_with(&small.files, newest, Some(&hit));
    assert!(open_simulated(&storage).is_err());
    let options = OpenOptions { engines: options().engines, ..OpenOptions::default() };
    let pack = Pack::open_what_is_left(Arc::new(storage.clone()), options).unwrap();
    let report = pack.check(|_| {}).unwrap();
    assert!(report.damages.iter().any(|damage| damage.file.ends_with(newest)), "{:?}", report.damages);
    assert!(report.notes.iter().any(|note| note.contains("is damaged")), "{:?}", report.notes);
    let keys: BTreeSet<Key> = pack.keys(&[]).unwrap().map(|entry| entry.unwrap().key).collect();
    assert_eq!(report.live_records, keys.len() as u64);
    assert!(report.live_records > 0 && report.records >= report.live_records);
}

/// Before: each of them was damage, and the pack was called incomplete.
#[test]
fn what_was_replaced_is_no_damage_where_no_manifest_says_so() {
    let small = small();
    let mut files = small.files.clone();
    files.retain(|name, _| !name.starts_with("manifest-") && !name.starts_with("deletes-"));
    let storage = storage_with(&files, "", None);
    let options = OpenOptions { engines: options().engines, ..OpenOptions::default() };
    let report = Pack::open_what_is_left(shared(&storage), options).unwrap().check(|_| {}).unwrap();
    let what = |text: &str| report.notes.iter().any(|note| note.contains(text));
    assert!(report.damages.iter().all(|damage| !damage.what.contains("two live records")), "{report:?}");
    assert!(what("newer one with the same key") && what("complete is not known"), "{:?}", report.notes);
    assert!(!what("is incomplete") && report.needs_repair, "{:?}", report.notes);
    assert_eq!(report.live_records, small.model.len() as u64);
}
