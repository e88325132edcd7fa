//! Records by number: each live one has one, whatever was written in which order.

use proptest::prelude::*;
use stook::pack::format::attributes::{NAMES, Name, Value};
use stook::pack::{
    Attributes, FileKind, Key, KeyRange, Kinds, OpenOptions, OrdinalOptions, Ordinals, Pack, PackWriter,
    ScanOptions,
};
use stook_testing::model::pack::{PackModel, ScriptedHost, open_simulated, rest_of, tiny_writer};
use stook_testing::sim::SimStorage;

use super::damage::{files_of, shared, storage_with};
use super::scans::{steps, written};

fn all(ordinals: &Ordinals) -> Vec<u64> {
    (0..ordinals.len()).collect()
}

/// Keys and bodies of these numbers.
fn got(pack: &Pack, ordinals: &Ordinals, numbers: &[u64]) -> Vec<(Key, Vec<u8>)> {
    let records = pack.get_at(ordinals, numbers).unwrap().into_iter();
    records.map(|record| record.unwrap()).map(|record| (record.head.key, record.body.to_vec())).collect()
}

fn everything() -> OrdinalOptions {
    OrdinalOptions { kinds: Kinds::ALL, ..OrdinalOptions::default() }
}

/// An order that is neither that of the medium nor of keys.
fn mixed(len: u64, seed: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..len).collect();
    numbers.sort_by_key(|number| (number + 1).wrapping_mul(seed | 1).rotate_left(29));
    numbers
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_live_record_has_one_number(steps in steps(), seed: u64, from in 0..60_u16, to in 0..60_u16) {
        let (storage, model, groups) = written(&steps);
        let pack = open_simulated(&storage).unwrap();
        let ordinals = pack.ordinals(&everything()).unwrap();
        // In the order of the medium, as a scan of it has them.
        let scanned = rest_of(pack.scan(ScanOptions::default())).unwrap();
        prop_assert!(got(&pack, &ordinals, &all(&ordinals)) == scanned);
        prop_assert_eq!(ordinals.len(), model.len() as u64);
        // In any other, some of them twice, also by another opening.
        let mut numbers = mixed(ordinals.len(), seed);
        numbers.extend_from_within(..numbers.len() / 3);
        let wanted: Vec<_> = numbers.iter().map(|number| scanned[*number as usize].clone()).collect();
        prop_assert!(got(&open_simulated(&storage).unwrap(), &ordinals, &numbers) == wanted);
        let bytes = ordinals.to_bytes();
        let again = Ordinals::from_bytes(&bytes).unwrap();
        prop_assert!(got(&pack, &again, &numbers) == wanted && again.to_bytes() == bytes);
        let mut other = bytes.clone();
        other[(seed % bytes.len() as u64) as usize] ^= 1;
        prop_assert!(Ordinals::from_bytes(&other).is_err());
        prop_assert!(Ordinals::from_bytes(&bytes[..(seed % bytes.len() as u64) as usize]).is_err());
        // No kind is said by any: all are files.
        prop_assert_eq!(pack.ordinals(&OrdinalOptions::default()).unwrap().len(), ordinals.len());

        for group in 0..3_u8 {
            let name = format!("g{group}");
            let options = OrdinalOptions { groups: vec![name.clone()], ..everything() };
            if !pack.groups().contains(&name) {
                prop_assert!(pack.ordinals(&options).is_err());
                continue;
            }
            let of_group = pack.ordinals(&options).unwrap();
            let wanted: PackModel =
                model.iter().filter(|(key, _)| groups[*key] == group).map(|(key, body)| (key.clone(), body.clone())).collect();
            let found: PackModel = got(&pack, &of_group, &all(&of_group)).into_iter().collect();
            prop_assert!(found == wanted);
        }
        let range = KeyRange::all().from(&Key::id(u64::from(from))).to(&Key::id(u64::from(to)));
        let options = OrdinalOptions { keys: range.clone(), ..everything() };
        let of_range = pack.ordinals(&options).unwrap();
        let found: PackModel = got(&pack, &of_range, &all(&of_range)).into_iter().collect();
        let wanted: PackModel =
            model.iter().filter(|(key, _)| range.contains(key)).map(|(key, body)| (key.clone(), body.clone())).collect();
        prop_assert!(found == wanted);
    }

    #[test]
    fn splits_and_spans_part_them(steps in steps(), count in 1..6_usize, bytes in 1..60_000_u64) {
        let (storage, model, _) = written(&steps);
        let pack = open_simulated(&storage).unwrap();
        let mut found = Vec::new();
        for split in pack.splits(count, &[]).unwrap() {
            let ordinals = pack.ordinals(&OrdinalOptions { split: Some(split), ..everything() }).unwrap();
            found.extend(got(&pack, &ordinals, &all(&ordinals)));
        }
        prop_assert_eq!(found.len(), model.len());
        prop_assert!(found.into_iter().collect::<PackModel>() == model);

        let ordinals = pack.ordinals(&everything()).unwrap();
        let spans = ordinals.spans(bytes);
        prop_assert!(spans.iter().all(|span| span.start < span.end));
        let numbers: Vec<u64> = spans.into_iter().flatten().collect();
        prop_assert_eq!(numbers, all(&ordinals));
    }
}

#[test]
fn keys_that_are_given_have_numbers_in_the_order_of_the_medium() {
    let storage = SimStorage::new();
    let mut writer = PackWriter::create(shared(&storage), tiny_writer(ScriptedHost::new(1))).unwrap();
    for (id, group) in [(3, ""), (1, "g"), (2, ""), (9, "g")] {
        writer.put(group, &Key::id(id), &Attributes::new(), &[id as u8]).unwrap();
    }
    writer.finish(true).unwrap();
    let pack = open_simulated(&storage).unwrap();
    let of = |ids: &[u64]| OrdinalOptions {
        only: Some(ids.iter().copied().map(Key::id).collect()),
        ..everything()
    };
    let some = pack.ordinals(&of(&[2, 1, 3, 2])).unwrap();
    let mut ids: Vec<Key> = got(&pack, &some, &all(&some)).into_iter().map(|(key, _)| key).collect();
    ids.sort();
    assert_eq!(ids, [1, 2, 3].map(Key::id));
    let of_group = OrdinalOptions { groups: vec!["g".to_owned()], ..of(&[2, 1, 3]) };
    let some = pack.ordinals(&of_group).unwrap();
    assert_eq!(got(&pack, &some, &all(&some)), [(Key::id(1), vec![1])]);
    assert_eq!(pack.ordinals(&of(&[])).unwrap().len(), 0);
    assert!(pack.ordinals(&of(&[2, 4])).unwrap_err().to_string().contains("id:4"));
    let split = pack.splits(2, &[]).unwrap().pop();
    assert!(pack.ordinals(&OrdinalOptions { split, ..of(&[2]) }).is_err());
}

#[test]
fn files_are_meant_and_hard_links_have_the_content_of_theirs() {
    let storage = SimStorage::new();
    let mut writer = PackWriter::create(shared(&storage), tiny_writer(ScriptedHost::new(1))).unwrap();
    let attributes = |kind| Attributes::of_file(kind, 0o640, 7, None);
    for (name, kind, body) in [
        ("d", FileKind::Directory, ""),
        ("d/a", FileKind::File, "content"),
        ("d/b", FileKind::HardLink, "d/a"),
        ("d/lost", FileKind::HardLink, "d/none"),
        ("d/s", FileKind::Symlink, "a"),
    ] {
        writer.put("", &Key::bytes(name).unwrap(), &attributes(kind), body.as_bytes()).unwrap();
    }
    writer.finish(true).unwrap();
    let pack = open_simulated(&storage).unwrap();
    let ordinals = pack.ordinals(&OrdinalOptions::default()).unwrap();
    let mut records = pack.get_at(&ordinals, &all(&ordinals)).unwrap();
    assert!(records.pop().unwrap().is_err(), "a link that leads nowhere is an error of its own");
    let of = |record: stook::pack::Result<stook::pack::Record>| {
        let record = record.unwrap();
        (record.head.key.to_string(), record.body.to_vec(), record.head.body_len)
    };
    let wanted = ["d/a", "d/b"].map(|name| (name.to_owned(), b"content".to_vec(), Some(7)));
    assert_eq!(records.into_iter().map(of).collect::<Vec<_>>(), wanted);
    assert_eq!(pack.ordinals(&everything()).unwrap().len(), 5);
}

#[test]
fn a_selection_by_attributes_has_numbers_of_its_own_and_conditions_are_about_something() {
    let storage = SimStorage::new();
    let mut writer = PackWriter::create(shared(&storage), tiny_writer(ScriptedHost::new(1))).unwrap();
    let label = || Name::Text("label".into());
    for number in 0..300 {
        let mut attributes = Attributes::new();
        attributes.set(label(), Value::U64(number % 3));
        writer.put("", &Key::id(number), &attributes, b"x").unwrap();
    }
    writer.finish(true).unwrap();
    let pack = open_simulated(&storage).unwrap();
    let of = |name, wanted: Vec<Value>, only: Option<Vec<Key>>| {
        let options = OrdinalOptions { attributes: vec![(name, wanted)], only, ..OrdinalOptions::default() };
        pack.ordinals(&options).map_err(|error| error.to_string())
    };
    let some = of(label(), vec![Value::U8(1)], None).unwrap();
    let keys: Vec<Key> = got(&pack, &some, &all(&some)).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, (0..300).filter(|number| number % 3 == 1).map(Key::id).collect::<Vec<_>>());
    let two = of(label(), vec![Value::U8(1), Value::I64(2)], Some((0..4).map(Key::id).collect())).unwrap();
    assert_eq!(two.len(), 2);
    assert!(of(label(), vec![Value::U8(7)], None).unwrap().is_empty());
    // Of the keys none may have it: others do.
    assert!(of(label(), vec![Value::U8(1)], Some(vec![Key::id(0)])).unwrap().is_empty());
    for (name, wanted, word) in [
        (Name::Text("lable".into()), vec![Value::U8(1)], "no record of this pack has the attribute lable"),
        (label(), vec![Value::Text("1".into())], "wants text, and records have a number"),
        (label(), vec![], "not none"),
    ] {
        let refused = of(name, wanted, None).unwrap_err();
        assert!(refused.contains(word), "{refused}");
    }
}

/// With 20 KB in each record, heads are as far apart as the records: reading them costs as many
/// reads as there are files.
#[test]
fn no_head_is_read_for_what_the_index_says() {
    for sealed in [true, false] {
        let storage = SimStorage::new();
        let mut writer = PackWriter::create(shared(&storage), tiny_writer(ScriptedHost::new(1))).unwrap();
        for (name, kind) in [
            ("d", FileKind::Directory),
            ("d/a", FileKind::File),
            ("d/b", FileKind::HardLink),
            ("d/s", FileKind::Symlink),
        ] {
            let attributes = Attributes::of_file(kind, 0o640, 7, None);
            writer.put("", &Key::bytes(name).unwrap(), &attributes, b"d/a").unwrap();
        }
        let plain = Attributes::new();
        writer.put("", &Key::id(7), &plain, b"of no tree").unwrap();
        writer.finish(sealed).unwrap();
        let pack = open_simulated(&storage).unwrap();
        let entries: Vec<_> = pack.keys(&[]).unwrap().map(|entry| entry.unwrap()).collect();
        let heads = pack.heads(&entries).unwrap();
        let places: Vec<u64> = heads.into_iter().map(|head| head.unwrap().offset).collect();
        let files = files_of(&storage);
        let name = files.keys().find(|name| name.starts_with("segment-")).unwrap().clone();
        let mut bytes = files.get(&name).unwrap().clone();
        for at in places {
            bytes[at as usize + 33] ^= 0x40;
        }
        let hurt = storage_with(&files, &name, Some(&bytes));
        // Of a segment that is not sealed the heads are read when it is opened.
        if sealed {
            let hurt = open_simulated(&hurt).unwrap();
            assert_eq!(hurt.ordinals(&OrdinalOptions::default()).unwrap().len(), 3);
        }
        let kinds = Kinds { files: false, ..Kinds::ALL };
        let others = pack.ordinals(&OrdinalOptions { kinds, ..OrdinalOptions::default() }).unwrap();
        let names = got(&pack, &others, &all(&others)).into_iter().map(|(key, _)| key.to_string());
        assert_eq!(names.collect::<Vec<_>>(), ["d", "d/s"]);
    }
}

/// The writer gives the content of a file to its next name when the file is replaced: who has
/// listed them before gets what was there, or an error.
#[test]
fn a_hard_link_never_has_the_content_that_came_later() {
    let storage = SimStorage::new();
    let options = tiny_writer(ScriptedHost::new(1));
    let mut writer = PackWriter::create(shared(&storage), options).unwrap();
    let attributes = |kind, names| {
        let mut attributes = Attributes::of_file(kind, 0o640, 7, None);
        if names > 1 {
            attributes.set(Name::Id(NAMES), Value::U32(names));
        }
        attributes
    };
    let key = |name: &str| Key::bytes(name).unwrap();
    writer.put("", &key("a"), &attributes(FileKind::File, 2), b"old").unwrap();
    writer.put("", &key("z"), &attributes(FileKind::HardLink, 1), b"a").unwrap();
    writer.publish().unwrap();
    let ordinals = open_simulated(&storage).unwrap().ordinals(&OrdinalOptions::default()).unwrap();
    writer.put("", &key("a"), &attributes(FileKind::File, 1), b"new").unwrap();
    writer.sync().unwrap();
    let later = open_simulated(&storage).unwrap();
    assert_eq!(later.get(&key("a")).unwrap().unwrap().body, b"new".as_slice());
    for record in later.get_at(&ordinals, &all(&ordinals)).unwrap() {
        match record {
            Ok(record) => assert_eq!(record.body, b"old".as_slice(), "{}", record.head.key),
            Err(error) => assert!(error.to_string().contains("begin again"), "{error}"),
        }
    }
}

#[test]
fn a_generation_that_is_asked_for_is_the_same_for_all() {
    let storage = SimStorage::new();
    let options = tiny_writer(ScriptedHost::new(1));
    let mut writer = PackWriter::create(shared(&storage), options).unwrap();
    writer.put("", &Key::id(1), &Attributes::new(), b"a").unwrap();
    writer.publish().unwrap();
    writer.put("", &Key::id(2), &Attributes::new(), b"b").unwrap();
    writer.sync().unwrap();
    let newest = open_simulated(&storage).unwrap();
    assert_eq!(newest.len(), 2);
    let generation = Some(newest.generation());
    let open = || Pack::open(shared(&storage), OpenOptions { generation, ..OpenOptions::default() }).unwrap();
    let first = open();
    let ordinals = first.ordinals(&everything()).unwrap();
    assert_eq!(ordinals.len(), 1);
    writer.publish().unwrap();
    assert_eq!(got(&open(), &ordinals, &[0]), [(Key::id(1), b"a".to_vec())]);
}

#[test]
fn what_is_of_another_state_or_out_of_range_is_refused() {
    let storage = SimStorage::new();
    let options = tiny_writer(ScriptedHost::new(1));
    let mut writer = PackWriter::create(shared(&storage), options.clone()).unwrap();
    writer.put("", &Key::id(1), &Attributes::new(), b"a").unwrap();
    writer.finish(true).unwrap();
    let before = open_simulated(&storage).unwrap();
    let ordinals = before.ordinals(&everything()).unwrap();
    assert!(before.get_at(&ordinals, &[1]).is_err() && before.get_at(&ordinals, &[u64::MAX]).is_err());
    assert!(before.get_at(&ordinals, &[]).unwrap().is_empty());
    let mut writer = PackWriter::open(shared(&storage), options).unwrap();
    writer.put("", &Key::id(2), &Attributes::new(), b"b").unwrap();
    writer.finish(true).unwrap();
    let after = open_simulated(&storage).unwrap();
    let error = after.get_at(&ordinals, &[0]).unwrap_err().to_string();
    assert!(error.contains("begin again"), "{error}");
    // Who has the earlier state open goes on.
    assert_eq!(got(&before, &ordinals, &[0]), [(Key::id(1), b"a".to_vec())]);
}
