//! Without a deletion vector that can be trusted, records that it could concern are refused: by
//! every way to read them, and neither they nor the records that they replaced are returned.

use std::collections::BTreeSet;
use std::sync::Arc;

use stook::pack::{
    Attributes, Error, Key, KeyRange, OnDamage, PackWriter, ScanOptions, ScanOrder, WriterOptions,
};
use stook::storage::Storage;
use stook_testing::conformance::pattern;
use stook_testing::model::pack::{
    PackModel, ScriptedHost, open_simulated, open_simulated_mapped, tiny_writer,
};
use stook_testing::sim::SimStorage;

use super::damage::{Files, files_of, storage_with};

fn shared(storage: &SimStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

fn options(seed: u64) -> WriterOptions {
    WriterOptions { segment_len: 1 << 20, ..tiny_writer(ScriptedHost::new(seed)) }
}

fn put(writer: &mut PackWriter, group: &str, number: u64, version: u64) -> Vec<u8> {
    let body = pattern(100, number << 8 | version);
    writer.put(group, &Key::id(number), &Attributes::new(), &body).unwrap();
    body
}

/// In segment 1: 0 … 5, of which 1 was replaced there, 2 in segment 2, 3 deleted, and then, after
/// all generations, 4 replaced and 5 deleted. In segment 2: 2, 10 and 11, and 4.
fn made(sealed: bool) -> (Files, String) {
    let storage = SimStorage::new();
    let mut writer = PackWriter::create(shared(&storage), options(1)).unwrap();
    (0..6).for_each(|number| drop(put(&mut writer, "a", number, 1)));
    put(&mut writer, "a", 1, 2);
    if sealed {
        writer.finish(true).unwrap();
        writer = PackWriter::open(shared(&storage), options(2)).unwrap();
    }
    for number in [2, 10, 11] {
        put(&mut writer, "b", number, 2);
    }
    assert!(writer.delete(&Key::id(3)).unwrap());
    writer.publish().unwrap();
    writer.publish().unwrap();
    put(&mut writer, "b", 4, 2);
    assert!(writer.delete(&Key::id(5)).unwrap());
    put(&mut writer, "a", 20, 2);
    writer.sync().unwrap();
    drop(writer);
    let files = files_of(&storage);
    let vectors: Vec<&String> =
        files.keys().filter(|name| name.starts_with("deletes-0000000000000001")).collect();
    assert_eq!(vectors.len(), 1, "{vectors:?}");
    let vector = vectors[0].clone();
    (files, vector)
}

fn whole() -> PackModel {
    let body = |number: u64, version: u64| (Key::id(number), pattern(100, number << 8 | version));
    [body(2, 2), body(4, 2), body(10, 2), body(11, 2), body(20, 2)].into()
}

fn refused() -> BTreeSet<Key> {
    // It is not known whether 0 and the newer 1 count, nor that 3 does not.
    [0, 1, 3].map(Key::id).into()
}

fn ids() -> Vec<Key> {
    (0..25).map(Key::id).collect()
}

fn assert_refused(error: &Error) -> Key {
    let damage = error.damage().unwrap_or_else(|| panic!("{error}"));
    assert!(damage.what.contains("whether this record was deleted is not known"), "{damage}");
    assert!(damage.what.contains("check --repair"), "{damage}");
    damage.key.clone().unwrap()
}

/// What gets give, one by one and together, and what they refuse.
fn assert_gets(storage: &SimStorage) {
    for pack in [open_simulated(storage).unwrap(), open_simulated_mapped(storage).unwrap()] {
        assert_eq!(pack.damages().len(), 1, "{:?}", pack.damages());
        let many = pack.get_many(&ids()).unwrap();
        let located = pack.locate(&ids()).unwrap();
        for ((key, many), located) in ids().iter().zip(many).zip(located) {
            let one = pack.get(key);
            let stream = pack.open_record(key).map(|record| record.is_some());
            if refused().contains(key) {
                for error in [one.unwrap_err(), many.unwrap_err(), located.unwrap_err()] {
                    assert_eq!(assert_refused(&error), *key);
                }
                assert_refused(&stream.unwrap_err());
                assert_refused(&pack.contains(key).unwrap_err());
                assert_refused(&pack.get_with(key, |_| ()).unwrap_err());
                continue;
            }
            let wanted = whole().get(key).cloned();
            assert_eq!(one.unwrap().map(|record| record.body.to_vec()), wanted, "{key}");
            assert_eq!(many.unwrap().map(|record| record.body.to_vec()), wanted, "{key}");
            assert_eq!(pack.get_with(key, |record| record.body.to_vec()).unwrap(), wanted, "{key}");
            assert_eq!((stream.unwrap(), located.unwrap().is_some()), (wanted.is_some(), wanted.is_some()));
        }
        assert_eq!(pack.len(), whole().len() as u64 + 2, "what the manifest says of 0 and 1 counts");
    }
}

fn assert_lists(storage: &SimStorage) {
    let pack = open_simulated(storage).unwrap();
    let on_disk: Vec<_> = pack.keys_on_disk(&KeyRange::all(), &[]).collect();
    for entries in [pack.keys(&[]).unwrap().collect::<Vec<_>>(), on_disk] {
        let (mut listed, mut reported) = (BTreeSet::new(), BTreeSet::new());
        for entry in entries {
            match entry {
                Ok(entry) => assert!(listed.insert(entry.key)),
                Err(error) => assert!(reported.insert(assert_refused(&error))),
            }
        }
        assert_eq!((listed, reported), (whole().into_keys().collect(), refused()));
    }
    let report = pack.check(|_| {}).unwrap();
    assert_eq!((report.damages.len(), report.live_records), (1, whole().len() as u64), "{report:?}");
}

fn assert_scans(storage: &SimStorage) {
    let pack = open_simulated(storage).unwrap();
    let some = KeyRange::all().from(&Key::id(0));
    for (order, keys) in [
        (ScanOrder::Disk, KeyRange::all()),
        (ScanOrder::Disk, some.clone()),
        (ScanOrder::Key, KeyRange::all()),
        (ScanOrder::Key, some),
    ] {
        let skipping = ScanOptions { order, keys, on_damage: OnDamage::Skip, ..ScanOptions::default() };
        let mut scan = pack.scan(skipping.clone());
        let mut held = PackModel::new();
        while let Some(record) = scan.next().unwrap() {
            held.insert(record.key().unwrap(), record.body().unwrap().to_vec());
        }
        assert!(held == whole(), "{order:?}: {:?}", held.keys());
        let damaged = |damage: &stook::pack::Damage| assert_refused(&Error::Damaged(damage.clone()));
        assert_eq!(scan.damages().iter().map(damaged).collect::<BTreeSet<_>>(), refused(), "{order:?}");
        let loaded = pack.load(&skipping).unwrap();
        let held: PackModel = loaded.iter().map(|r| (r.key().unwrap(), r.body.to_vec())).collect();
        assert!(held == whole(), "load");
        assert_eq!(loaded.damages().iter().map(damaged).collect::<BTreeSet<_>>(), refused(), "load");
        let stopping = ScanOptions { on_damage: OnDamage::Stop, ..skipping };
        assert_refused(&pack.load(&stopping).unwrap_err());
        let mut scan = pack.scan(stopping);
        let error = loop {
            match scan.next() {
                Ok(record) => assert!(record.is_some(), "it ends in silence"),
                Err(error) => break error,
            }
        };
        assert_refused(&error);
    }
    let mut held = PackModel::new();
    for split in pack.splits(3, &[]).unwrap() {
        let options = ScanOptions { on_damage: OnDamage::Skip, ..ScanOptions::default() };
        let mut scan = pack.scan_split(&split, options).unwrap();
        while let Some(record) = scan.next().unwrap() {
            held.insert(record.key().unwrap(), record.body().unwrap().to_vec());
        }
    }
    assert!(held == whole(), "splits");
}

#[test]
fn records_that_a_lost_deletion_vector_could_concern_are_refused_by_every_way_to_them() {
    for sealed in [false, true] {
        let (files, vector) = made(sealed);
        let bytes = &files[&vector];
        let mut hit = bytes.clone();
        hit[40] ^= 1;
        hit[bytes.len() / 2 + 40] ^= 1;
        for lost in [Some(&hit[..]), None, Some(&bytes[..100]), Some(&[])] {
            let storage = storage_with(&files, &vector, lost);
            assert_gets(&storage);
            assert_lists(&storage);
            assert_scans(&storage);
            let refused = PackWriter::open(shared(&storage), options(3)).unwrap_err();
            assert!(refused.to_string().contains("lost"), "{refused}");
        }
    }
}
