//! Repair: everything that can still be read is in the new pack, the rest in the quarantine, and
//! nothing is made up.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use stook::extent::ByteRange;
use stook::pack::{
    Attributes, CompactOptions, Error, FileKind, Key, OpenOptions, Pack, PackWriter, RecordHead,
    RepairOptions, Repaired, WriterOptions, repair,
};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::conformance::{contents, pattern};
use stook_testing::model::pack::{
    PackModel, ScriptedHost, assert_holds, open_simulated, scanned, tiny_writer,
};
use stook_testing::sim::SimStorage;

fn shared(storage: &SimStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

fn options(seed: u64) -> WriterOptions {
    tiny_writer(ScriptedHost::new(seed))
}

/// Groups, replaced and deleted records, framed ones, a compacted segment, and one that grows with
/// a tail that no manifest knows.
fn sample() -> (SimStorage, PackModel) {
    let storage = SimStorage::new();
    let mut writer = PackWriter::create(shared(&storage), options(1)).unwrap();
    let mut model = PackModel::new();
    let mut put = |writer: &mut PackWriter, number: u64, len: usize| {
        let body = pattern(len, number * 7 + len as u64);
        let group = ["", "b"][number as usize % 2];
        if number.is_multiple_of(5) {
            let mut record = writer.begin(group, &Key::id(number), &Attributes::new(), None).unwrap();
            record.write(&body).unwrap();
            record.finish().unwrap();
        } else {
            writer.put(group, &Key::id(number), &Attributes::new(), &body).unwrap();
        }
        model.insert(Key::id(number), body);
    };
    for number in 0..40 {
        put(&mut writer, number * 13 % 40, 3_000);
    }
    writer
        .compact(&CompactOptions { groups: vec!["b".into()], ..CompactOptions::default() }, &mut |_| true)
        .unwrap();
    for number in 0..10 {
        put(&mut writer, number, 2_000);
    }
    writer.publish().unwrap();
    put(&mut writer, 3, 500);
    let gone = [11, 12, 13].map(Key::id);
    for key in &gone {
        assert!(writer.delete(key).unwrap());
    }
    writer.sync().unwrap();
    drop(writer);
    model.retain(|key, _| !gone.contains(key));
    assert_holds(&open_simulated(&storage).unwrap(), &model);
    (storage, model)
}

/// The new pack, what was reported, and the quarantine.
fn repaired(from: &SimStorage) -> (SimStorage, Repaired, SimStorage) {
    let (to, quarantine) = (SimStorage::new(), SimStorage::new());
    let asked = RefCell::new(0);
    let mut aside = || {
        *asked.borrow_mut() += 1;
        Ok(shared(&quarantine))
    };
    let before = from.operation_count();
    let reported = repair(from, shared(&to), options(9), &mut aside, &mut |_| true).unwrap();
    assert_eq!(from.operation_count(), before, "the old pack is not touched");
    assert_eq!(reported.quarantined.is_empty(), *asked.borrow() == 0);
    assert_little_memory_changes_nothing(from, &to, &reported);
    (to, reported, quarantine)
}

/// With memory for three keys or so there are a dozen walks, and the same comes out.
fn assert_little_memory_changes_nothing(from: &SimStorage, to: &SimStorage, reported: &Repaired) {
    let (again, quarantine) = (SimStorage::new(), SimStorage::new());
    let little = RepairOptions { writer: options(9), memory_len: 500 };
    let mut aside = || Ok(shared(&quarantine));
    let reported_again = repair(from, shared(&again), little, &mut aside, &mut |_| true).unwrap();
    assert_eq!(&reported_again, reported);
    let [before, after] = [to, &again].map(|storage| open_simulated(storage).unwrap());
    assert_eq!(before.keys(&[]).unwrap().count(), after.keys(&[]).unwrap().count());
    for entry in before.keys(&[]).unwrap() {
        let key = entry.unwrap().key;
        let [before, after] = [&before, &after].map(|pack| pack.get(&key).unwrap().unwrap());
        assert_eq!(before.body, after.body, "{key}");
        let seen = |head: &RecordHead| (head.sequence, head.time_ns, head.attributes.clone());
        assert_eq!(seen(&before.head), seen(&after.head), "{key}");
    }
    assert_eq!(after.check(|_| ()).unwrap().damages, []);
}

/// The same storage with one file changed.
fn changed(storage: &SimStorage, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> SimStorage {
    let hurt = storage.settled_copy();
    let mut bytes = contents(&hurt, name);
    change(&mut bytes);
    hurt.unlink(name).unwrap();
    hurt.publish_if_absent(name, &bytes).unwrap();
    hurt
}

#[test]
fn a_pack_that_is_whole_is_copied_as_it_is_with_sequence_numbers_and_times() {
    let (storage, model) = sample();
    let (to, reported, _) = repaired(&storage);
    assert_eq!((reported.records, &reported.damages[..]), (model.len() as u64, &[][..]));
    // It was not said that the pack is all that it was meant to be, and saving it does not make it
    // so.
    let is_said = |note: &str| note.starts_with("the pack was incomplete, and so is the new one");
    assert!(matches!(&reported.notes[..], [note] if is_said(note)), "{:?}", reported.notes);
    assert!(!open_simulated(&to).unwrap().is_complete());
    let (before, after) = (open_simulated(&storage).unwrap(), open_simulated(&to).unwrap());
    assert_holds(&after, &model);
    assert_ne!(before.nonce(), after.nonce());
    // The versions that make up earlier states are not copied, and the new pack does not pretend to
    // know those.
    assert!(after.history_from_ns() > before.history_from_ns(), "{:?}", after.history_from_ns());
    for key in model.keys() {
        let [before, after] = [&before, &after].map(|pack| pack.get(key).unwrap().unwrap().head);
        assert_eq!((before.sequence, before.time_ns), (after.sequence, after.time_ns), "{key}");
        assert_eq!(before.attributes, after.attributes);
    }
    let mut writer = PackWriter::open(shared(&to), options(10)).unwrap();
    let sequence = writer.put("", &Key::id(1), &Attributes::new(), b"on").unwrap();
    assert!(sequence > 50, "it continues after all there was: {sequence}");
}

#[test]
fn damage_anywhere_costs_the_records_it_hits_and_their_bytes_are_set_aside() {
    let (storage, model) = sample();
    let names: Vec<String> = storage.list().unwrap().into_iter().map(|file| file.name).collect();
    let mut lost = 0;
    for name in names.iter().filter(|name| *name != "writer.lock") {
        let len = contents(&storage, name).len();
        for at in (0..24).map(|step| step * len / 24) {
            let hurt = changed(&storage, name, |bytes| bytes[at] ^= 0x10);
            let (to, reported, quarantine) = repaired(&hurt);
            let pack = open_simulated(&to).unwrap();
            let held = scanned(&pack).unwrap();
            assert_holds(&pack, &held);
            let what = format!("{name} at {at}: {reported:?}");
            for (key, body) in &held {
                // A lost list of the dead, or a lost newest version, may show an older one; never
                // anything else.
                if model.get(key) != Some(body) {
                    assert!(!reported.damages.is_empty() || !reported.notes.is_empty(), "{what}: {key}");
                }
            }
            let missing = model.keys().filter(|key| !held.contains_key(key)).count();
            lost += missing;
            assert!(missing <= 1, "{what}: {missing} records are missing");
            for aside in &reported.quarantined {
                let (start, end) = (aside.range.start() as usize, aside.range.end() as usize);
                let from = contents(&hurt, &format!("segment-{:016x}", aside.segment));
                assert!(contents(&quarantine, &aside.file) == from[start..end], "{what}");
            }
        }
    }
    assert!(lost > 5, "some damage hit bodies");
}

#[test]
fn hard_links_of_what_is_lost_are_left_out_and_reported_where_they_were() {
    let storage = SimStorage::new();
    let mut writer = PackWriter::create(shared(&storage), options(1)).unwrap();
    let key = |name: &str| Key::bytes(name).unwrap();
    let link = Attributes::of_file(FileKind::HardLink, 0o640, 7, None);
    for number in 0..20 {
        let [file, also, more] = ["file", "also", "more"].map(|name| format!("{name}-{number:02}"));
        writer.put("", &key(&file), &Attributes::new(), &pattern(3_000, number)).unwrap();
        let group = ["", "b"][number as usize % 2];
        writer.put(group, &key(&also), &link, file.as_bytes()).unwrap();
        writer.put("", &key(&more), &link, also.as_bytes()).unwrap();
    }
    writer.set_complete(true);
    writer.finish(true).unwrap();
    let mut hurt = storage.settled_copy();
    for number in [3, 8] {
        let body = pattern(3_000, number);
        let place = |name: &str| contents(&hurt, name).windows(3_000).position(|part| part == &body[..]);
        let mut names = hurt.list().unwrap().into_iter().map(|file| file.name);
        let (name, at) = names.find_map(|name| place(&name).map(|at| (name, at))).unwrap();
        hurt = changed(&hurt, &name, |bytes| bytes[at + 1_500] ^= 1);
    }
    let (to, reported, _) = repaired(&hurt);
    let lost: BTreeSet<String> =
        reported.damages.iter().filter_map(|damage| Some(damage.key.as_ref()?.to_string())).collect();
    let names = ["also-03", "also-08", "file-03", "file-08", "more-03", "more-08"];
    assert_eq!(lost.iter().map(String::as_str).collect::<Vec<_>>(), names, "{reported:?}");
    let (before, after) = (open_simulated(&hurt).unwrap(), open_simulated(&to).unwrap());
    for name in names {
        assert!(after.get(&key(name)).unwrap().is_none(), "{name}");
        if name.starts_with("file") {
            continue;
        }
        let head = before.get(&key(name)).unwrap().unwrap().head;
        let is_there = |damage: &&stook::pack::Damage| {
            let is_file = damage.file.to_string_lossy().ends_with(&format!("segment-{:016x}", head.segment));
            is_file && damage.offset == head.offset && damage.key == Some(key(name))
        };
        assert_eq!(reported.damages.iter().filter(is_there).count(), 1, "{name}: {reported:?}");
        let mut aside = reported.quarantined.iter().filter(|aside| aside.segment == head.segment);
        let holds = |range: ByteRange| range.start() <= head.offset && head.offset < range.end();
        assert!(aside.any(|aside| holds(aside.range)), "{name}: {reported:?}");
    }
    assert_eq!((reported.records, after.len(), after.is_complete()), (54, 54, true));
    assert!(reported.notes.iter().any(|note| note.contains("says that it is complete")), "{reported:?}");
    assert_eq!(after.check(|_| ()).unwrap().damages, []);
    // What was left out is in no earlier state either.
    assert!(after.history_from_ns() > before.history_from_ns());
    let (_, reported, _) = repaired(&to);
    assert_eq!((reported.records, &reported.damages[..], &reported.notes[..]), (54, &[][..], &[][..]));
}

/// Before: the new pack said that it is complete, as an older generation of the old one had.
#[test]
fn an_older_manifest_does_not_make_the_new_pack_complete_where_the_newest_is_lost() {
    let storage = SimStorage::new();
    let mut writer = PackWriter::create(shared(&storage), options(1)).unwrap();
    let of_tree = Attributes::of_file(FileKind::File, 0o644, 1, None);
    writer.put("", &Key::bytes("a").unwrap(), &of_tree, b"a").unwrap();
    writer.set_complete(true);
    writer.publish().unwrap();
    writer.put("", &Key::bytes("b").unwrap(), &of_tree, b"b").unwrap();
    writer.publish().unwrap();
    drop(writer);
    let names = storage.list().unwrap().into_iter().map(|file| file.name);
    let newest = names.filter(|name| name.starts_with("manifest-")).max().unwrap();
    let hurt = changed(&storage, &newest, |bytes| bytes.iter_mut().for_each(|byte| *byte ^= 0x40));
    let (to, reported, _) = repaired(&hurt);
    assert!(reported.notes.iter().any(|note| note.contains("complete is not known")), "{reported:?}");
    let pack = open_simulated(&to).unwrap();
    assert_eq!((reported.records, pack.len(), pack.is_complete()), (2, 2, false));
}

/// Before: the new pack was incomplete forever, and the advice was to continue a `stook pack` that
/// never existed.
#[test]
fn a_pack_of_single_records_is_complete_again_without_its_manifest() {
    let of_tree = Attributes::of_file(FileKind::File, 0o644, 1, None);
    for (attributes, is_complete) in [(Attributes::new(), true), (of_tree, false)] {
        let storage = SimStorage::new();
        let mut writer = PackWriter::create(shared(&storage), options(1)).unwrap();
        writer.put("", &Key::bytes("a").unwrap(), &Attributes::new(), b"a").unwrap();
        writer.put("", &Key::bytes("b").unwrap(), &attributes, b"b").unwrap();
        writer.set_complete(true);
        writer.finish(true).unwrap();
        for file in storage.list().unwrap() {
            if file.name.starts_with("manifest-") {
                storage.unlink(&file.name).unwrap();
            }
        }
        let (to, reported, _) = repaired(&storage);
        let pack = open_simulated(&to).unwrap();
        assert_eq!((reported.records, pack.is_complete()), (2, is_complete), "{reported:?}");
        let is_said = |note: &String| note.contains("no record came from a tree");
        assert_eq!(reported.notes.iter().any(is_said), is_complete, "{reported:?}");
    }
}

#[test]
fn without_any_manifest_the_segments_tell_what_there_was() {
    let (storage, model) = sample();
    let bare = storage.settled_copy();
    for file in bare.list().unwrap() {
        if file.name.starts_with("manifest-") {
            bare.unlink(&file.name).unwrap();
        }
    }
    assert!(matches!(open_simulated(&bare), Err(Error::NotAPack { .. })));
    let (to, reported, _) = repaired(&bare);
    assert!(reported.notes.iter().any(|note| note.contains("no manifest")), "{reported:?}");
    // Before: "the pack was incomplete, and so is the new one".
    let is_of_state =
        |note: &String| note.contains("complete is not known") || note.contains("no record came");
    assert!(reported.notes.iter().any(is_of_state), "{reported:?}");
    assert!(!reported.notes.iter().any(|note| note.contains("so is the new one")), "{reported:?}");
    let held = scanned(&open_simulated(&to).unwrap()).unwrap();
    assert!(model.iter().all(|(key, body)| held.get(key) == Some(body)), "all that counted is there");
}

#[test]
fn a_newest_manifest_that_is_damaged_is_done_without() {
    let (storage, model) = sample();
    let newest =
        storage.list().unwrap().into_iter().rfind(|file| file.name.starts_with("manifest-")).unwrap();
    let hurt = changed(&storage, &newest.name, |bytes| {
        let half = bytes.len() / 2;
        bytes[100] ^= 1;
        bytes[half + 100] ^= 1;
    });
    assert!(open_simulated(&hurt).is_err());
    let (to, reported, _) = repaired(&hurt);
    assert!(reported.notes.iter().any(|note| note.contains("generation")), "{reported:?}");
    assert_holds(&open_simulated(&to).unwrap(), &model);
}

#[test]
fn what_is_no_pack_and_what_is_stopped_is_reported() {
    let nothing = SimStorage::new();
    let to = SimStorage::new();
    let mut aside = || Ok(shared(&SimStorage::new()));
    let refused = repair(&nothing, shared(&to), options(9), &mut aside, &mut |_| true);
    assert!(matches!(refused, Err(Error::NotAPack { .. })));
    assert!(to.list().unwrap().is_empty(), "nothing is made for nothing");
    let (storage, _) = sample();
    let stopped = repair(&storage, shared(&to), options(9), &mut aside, &mut |_| false);
    assert!(matches!(stopped, Err(Error::Stopped)));
    let there = repair(&storage, shared(&storage), options(9), &mut aside, &mut |_| true);
    assert!(matches!(there, Err(Error::Exists { .. } | Error::Core(_))), "{there:?}");
}

#[test]
fn checks_and_repairs_ask_inside_a_long_record_whether_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let storage = |name: &str| {
        Arc::new(LocalStorage::create(dir.path().join(name), LocalStorageOptions::default()).unwrap())
    };
    let from = storage("from");
    let mut writer = PackWriter::create(from.clone(), WriterOptions::default()).unwrap();
    for len in [None, Some(40 << 20)] {
        let key = Key::id(u64::from(len.is_some()));
        let mut record = writer.begin("", &key, &Attributes::new(), len).unwrap();
        record.write(&pattern(40 << 20, 3)).unwrap();
        record.finish().unwrap();
    }
    writer.finish(true).unwrap();
    let is_often = |reported: &[u64]| reported.windows(2).all(|two| two[1].saturating_sub(two[0]) <= 2 << 20);
    let pack = Pack::open(from.clone(), OpenOptions::default()).unwrap();
    let mut reported = vec![0];
    assert_eq!(pack.check(|at| reported.push(at)).unwrap().damages, []);
    assert!(is_often(&reported) && reported.len() > 40, "{} times", reported.len());
    for stop_at in [10_u64 << 20, 70 << 20, 100 << 20, 150 << 20] {
        let mut reported = vec![0];
        let aside = storage(&format!("aside{stop_at}"));
        let stopped = repair(
            from.as_ref(),
            storage(&format!("to{stop_at}")),
            WriterOptions::default(),
            &mut || Ok(aside.clone()),
            &mut |at| {
                reported.push(at);
                at < stop_at
            },
        );
        assert!(matches!(stopped, Err(Error::Stopped)), "{stop_at}");
        assert!(
            is_often(&reported) && *reported.last().unwrap() < stop_at + (2 << 20),
            "{stop_at}: {:?}",
            reported.last()
        );
    }
}
