//! An older manifest is put back, as half a backup does it: what newer generations named is set aside, not removed. What
//! writers that were killed left goes as ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use stook::pack::{Attributes, CompactOptions, Key, PackWriter, WriterOptions};
use stook::storage::Storage;
use stook_testing::fault::{FaultStorage, StorageCall, StorageFault};
use stook_testing::model::pack::{PackModel, ScriptedHost, assert_holds, open_simulated, tiny_writer};
use stook_testing::sim::{Failure, SimStorage};

use super::damage::{Files, files_of, shared, storage_with};

fn options(seed: u64) -> WriterOptions {
    tiny_writer(ScriptedHost::new(seed))
}

fn put(storage: &Arc<dyn Storage>, seed: u64, group: &str, id: u64) {
    let mut writer = PackWriter::open(storage.clone(), options(seed)).unwrap();
    writer.put(group, &Key::id(id), &Attributes::new(), &[id as u8; 300]).unwrap();
    writer.finish(true).unwrap();
}

fn of(files: &Files) -> SimStorage {
    storage_with(files, "", None)
}

fn names(storage: &SimStorage, prefix: &str) -> Vec<String> {
    let names = storage.list().unwrap().into_iter().map(|file| file.name);
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// A pack after its first record, and after more.
fn two_states(more: impl FnOnce(&Arc<dyn Storage>)) -> (Files, Files) {
    let storage = SimStorage::new();
    let all = shared(&storage);
    PackWriter::create(all.clone(), options(1)).unwrap().finish(true).unwrap();
    put(&all, 2, "a", 1);
    // Once more, and not in the order of the keys, so that there is something to compact.
    let mut writer = PackWriter::open(all.clone(), options(12)).unwrap();
    writer.put("a", &Key::id(1), &Attributes::new(), &[1; 300]).unwrap();
    writer.put("a", &Key::id(0), &Attributes::new(), &[0; 300]).unwrap();
    writer.finish(true).unwrap();
    let before = files_of(&storage);
    more(&all);
    (before, files_of(&storage))
}

/// The newer files with the manifests of the older state.
fn restored(before: &Files, after: &Files) -> SimStorage {
    let is_manifest = |name: &str| name.starts_with("manifest-");
    let mut files: BTreeMap<_, _> =
        after.clone().into_iter().filter(|(name, _)| !is_manifest(name)).collect();
    files.extend(before.clone().into_iter().filter(|(name, _)| is_manifest(name)));
    of(&files)
}

/// Opens for writing twice, puts in between; what was set aside.
fn go_on(storage: &SimStorage) -> Vec<String> {
    let mut writer = PackWriter::open(shared(storage), options(7)).unwrap();
    let set_aside: Vec<String> =
        writer.recovery().set_aside.iter().map(|file| file.kept_as.clone()).collect();
    assert_eq!(writer.recovery().remarks().len(), set_aside.len());
    writer.put("a", &Key::id(99), &Attributes::new(), b"newest").unwrap();
    writer.finish(true).unwrap();
    let again = PackWriter::open(shared(storage), options(8)).unwrap();
    assert_eq!(again.recovery().set_aside, [], "once is enough");
    again.finish(false).unwrap();
    set_aside
}

#[test]
fn newer_segments_are_kept_when_an_older_manifest_is_restored() {
    let (before, after) = two_states(|storage| {
        put(storage, 3, "b", 2);
        put(storage, 4, "c", 3);
        let mut writer = PackWriter::open(storage.clone(), options(5)).unwrap();
        // One that is still growing.
        writer.put("d", &Key::id(4), &Attributes::new(), b"four").unwrap();
        writer.delete(&Key::id(2)).unwrap();
        writer.sync().unwrap();
    });
    let storage = restored(&before, &after);
    let newer: Vec<String> = after.keys().filter(|name| !before.contains_key(*name)).cloned().collect();
    let newer: Vec<String> = newer
        .into_iter()
        .filter(|name| name.starts_with("segment-") || name.starts_with("deletes-"))
        .collect();
    assert!(newer.len() >= 3, "{newer:?}");
    let set_aside = go_on(&storage);
    let files = files_of(&storage);
    for name in newer.iter().filter(|name| name.starts_with("segment-")) {
        let kept_as = format!("orphan-{name}");
        assert!(set_aside.contains(&kept_as), "{name}: {set_aside:?}");
        assert_eq!(files[&kept_as], after[name], "{name}");
    }
    let model: PackModel =
        [(Key::id(0), vec![0; 300]), (Key::id(1), vec![1; 300]), (Key::id(99), b"newest".to_vec())].into();
    let pack = open_simulated(&storage).unwrap();
    assert_holds(&pack, &model);
    let notes = pack.check(|_| {}).unwrap().notes.join("\n");
    assert!(set_aside.iter().all(|name| notes.contains(name.as_str())), "{notes}");
    assert!(pack.last_sequence() > 4, "numbers that the lost generations gave are not given again");
}

#[test]
fn a_compaction_whose_sources_are_gone_is_kept_when_an_older_manifest_is_restored() {
    let (before, after) = two_states(|storage| {
        let mut writer = PackWriter::open(storage.clone(), options(3)).unwrap();
        writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
        writer.finish(true).unwrap();
    });
    let storage = restored(&before, &after);
    assert!(names(&storage, "segment-0000000000000001").is_empty(), "the source is gone");
    let mut writer = PackWriter::open(shared(&storage), options(7)).unwrap();
    assert_eq!(writer.recovery().set_aside.len(), 1);
    writer.put("b", &Key::id(99), &Attributes::new(), b"newest").unwrap();
    writer.finish(true).unwrap();
    let kept = names(&storage, "orphan-segment-");
    assert_eq!(kept.len(), 1);
    let name = kept[0].strip_prefix("orphan-").unwrap();
    assert_eq!(files_of(&storage)[&kept[0]], after[name]);
}

#[test]
fn leftovers_of_killed_writers_are_removed_and_nothing_is_set_aside() {
    // Killed at any call of a put into a new group, or of a compaction.
    for compacts in [false, true] {
        for nth in 0.. {
            let medium = SimStorage::new();
            let all = shared(&medium);
            PackWriter::create(all.clone(), options(1)).unwrap().finish(true).unwrap();
            put(&all, 2, "a", 1);
            put(&all, 3, "a", 2);
            let faulty = Arc::new(FaultStorage::new(all));
            let mut writer = PackWriter::open(faulty.clone(), options(4)).unwrap();
            let before = faulty.calls().len();
            faulty.inject(None, nth, StorageFault::Fails(Failure::Io));
            let done = if compacts {
                writer.compact(&CompactOptions::default(), &mut |_| true).map(drop)
            } else {
                // Not synced: nothing of it is promised.
                writer.put("new", &Key::id(3), &Attributes::new(), &[3; 300]).map(drop)
            };
            let was_met = faulty.calls().len() > before + nth;
            drop(writer);
            let next = PackWriter::open(shared(&medium), options(5)).unwrap();
            assert_eq!(next.recovery().set_aside, [], "{nth}: {done:?}");
            next.finish(true).unwrap();
            let model: PackModel = [(Key::id(1), vec![1; 300]), (Key::id(2), vec![2; 300])].into();
            assert_holds(&open_simulated(&medium).unwrap(), &model);
            // An empty file is nobody's: it stays.
            let left: Vec<_> = medium.list().unwrap().into_iter().filter(|file| file.len > 0).collect();
            let left: Vec<_> = left.iter().filter(|file| file.name.starts_with("segment-")).collect();
            assert!(left.len() <= if compacts { 3 } else { 2 }, "{nth}: {left:?}");
            if !was_met {
                break;
            }
        }
    }
}

/// A checkpoint that no generation came to name, of a stretch whose end was cut off since.
#[test]
fn a_checkpoint_of_a_stretch_that_was_cut_off_is_not_believed_later() {
    let medium = SimStorage::new();
    let options = |seed| WriterOptions { checkpoint_len: 4000, ..options(seed) };
    let mut writer = PackWriter::create(shared(&medium), options(1)).unwrap();
    writer.put("a", &Key::id(1), &Attributes::new(), &[1; 300]).unwrap();
    writer.publish().unwrap();
    drop(writer);
    let committed = medium.open("segment-0000000000000001").unwrap().len();
    let faulty = Arc::new(FaultStorage::new(shared(&medium)));
    let mut writer = PackWriter::open(faulty.clone(), options(2)).unwrap();
    // The checkpoint is published, the generation that would name it is not.
    faulty.inject(Some(StorageCall::Publish), 1, StorageFault::Fails(Failure::Io));
    let stopped =
        (10..40u64).any(|id| writer.put("a", &Key::id(id), &Attributes::new(), &[id as u8; 300]).is_err());
    assert!(stopped);
    drop(writer);
    assert_eq!(names(&medium, "checkpoint-").len(), 1);
    // A bit rots behind the committed length: what follows is a torn tail.
    let mut files = files_of(&medium);
    let segment = files.get_mut("segment-0000000000000001").unwrap();
    segment[committed as usize + 500] ^= 1;
    let medium = of(&files);
    let mut model: PackModel = [(Key::id(1), vec![1; 300])].into();
    let mut writer =
        PackWriter::open(shared(&medium), WriterOptions { checkpoint_len: 1 << 20, ..options(3) }).unwrap();
    assert_eq!(writer.recovery().torn.len(), 1);
    let kept = open_simulated(&medium).unwrap();
    for entry in kept.keys(&[]).unwrap() {
        let key = entry.unwrap().key;
        let body = kept.get(&key).unwrap().unwrap().body.to_vec();
        model.insert(key, body);
    }
    for id in 100..140u64 {
        let body = vec![id as u8; 290];
        writer.put("a", &Key::id(id), &Attributes::new(), &body).unwrap();
        model.insert(Key::id(id), body);
    }
    writer.publish().unwrap();
    drop(writer);
    assert_holds(&open_simulated(&medium).unwrap(), &model);
}

/// How each of two copies of a pack goes on.
type GoOn = fn(&mut PackWriter, u64);

/// Two copies of a growing pack, after each of them went on by itself.
fn two_copies(checkpoint_len: u64, seals: bool, go_on: GoOn) -> [Files; 2] {
    let medium = SimStorage::new();
    let options = |seed| WriterOptions { checkpoint_len, ..options(seed) };
    let mut writer = PackWriter::create(shared(&medium), options(1)).unwrap();
    writer.put("a", &Key::id(1), &Attributes::new(), &[1; 300]).unwrap();
    writer.put("a", &Key::id(2), &Attributes::new(), &[2; 300]).unwrap();
    writer.finish(false).unwrap();
    let both = files_of(&medium);
    [10, 20].map(|id| {
        let copy = of(&both);
        let mut writer = PackWriter::open(shared(&copy), options(id)).unwrap();
        go_on(&mut writer, id);
        writer.finish(seals).unwrap();
        files_of(&copy)
    })
}

fn put_one(writer: &mut PackWriter, id: u64) {
    writer.put("a", &Key::id(id), &Attributes::new(), &[7; 300]).unwrap();
}

/// Half a backup: the segments of another copy of the same pack, which went on too, under this manifest.
#[test]
fn files_of_another_copy_that_went_on_are_damage() {
    let ways: [(&str, GoOn); 4] = [
        ("one record of one length", put_one),
        ("records of other lengths", |writer, id| {
            writer.put("a", &Key::id(id), &Attributes::new(), &vec![7; 90 * id as usize]).unwrap();
        }),
        ("only a deletion, and a mark", |writer, id| {
            writer.delete(&Key::id(id / 10)).unwrap();
            writer.sync().unwrap();
        }),
        ("a batch", |writer, id| {
            let mut batch = writer.batch("a").unwrap();
            batch.put(&Key::id(id), &Attributes::new(), &[7; 30]).unwrap();
            batch.delete(&Key::id(1)).unwrap();
            batch.commit().unwrap();
        }),
    ];
    for (way, go_on) in ways {
        for checkpoint_len in [100, 1 << 20] {
            for seals in [false, true] {
                for prefixes in [&["segment-"][..], &["segment-", "checkpoint-"], &["checkpoint-"]] {
                    let case = format!("{way}, checkpoints {checkpoint_len}, sealed {seals}, {prefixes:?}");
                    let [mine, theirs] = two_copies(checkpoint_len, seals, go_on);
                    assert_restored_half(&mine, &theirs, prefixes, &case);
                }
            }
        }
    }
}

fn assert_restored_half(mine: &Files, theirs: &Files, prefixes: &[&str], case: &str) {
    let is_theirs = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let kept = mine.iter().filter(|(name, _)| !is_theirs(name));
    let taken = theirs.iter().filter(|(name, _)| is_theirs(name));
    let files: Files = kept.chain(taken).map(|(name, bytes)| (name.clone(), bytes.clone())).collect();
    let whole = open_simulated(&of(mine)).unwrap();
    assert_eq!(whole.damages(), [], "{case}");
    let storage = of(&files);
    let pack = open_simulated(&storage).unwrap();
    if !prefixes.contains(&"segment-") {
        // A checkpoint of another copy costs a scan.
        assert_eq!(pack.damages(), [], "{case}");
        for id in [1, 2, 10, 20] {
            let body = |pack: &stook::pack::Pack| pack.get(&Key::id(id)).unwrap().map(|record| record.body);
            assert_eq!(body(&pack), body(&whole), "{case}: {id}");
        }
        return;
    }
    assert!(!pack.damages().is_empty(), "{case}");
    let report = pack.check(|_| {}).unwrap();
    assert!(!report.damages.is_empty(), "{case}");
    // What this copy had and the other has not is not denied.
    if whole.get(&Key::id(10)).unwrap().is_some() {
        assert!(pack.get(&Key::id(10)).is_err(), "{case}");
    }
    let mut writer = PackWriter::open(shared(&storage), options(7)).unwrap();
    writer.put("a", &Key::id(99), &Attributes::new(), b"newest").unwrap();
    writer.finish(false).unwrap();
    let segment = "segment-0000000000000001";
    assert_eq!(files_of(&storage)[segment], files[segment], "{case}: nothing is appended to it");
    assert!(open_simulated(&storage).unwrap().get(&Key::id(99)).unwrap().is_some(), "{case}");
}

/// What one copy put behind the committed length of a segment that the other did not touch is not the other's.
#[test]
fn what_another_copy_put_behind_the_committed_length_is_left_out_and_told() {
    let medium = SimStorage::new();
    let put = |storage: &SimStorage, seed, group: &str, id, body: &[u8]| {
        let mut writer = PackWriter::open(shared(storage), options(seed)).unwrap();
        writer.put(group, &Key::id(id), &Attributes::new(), body).unwrap();
        writer.finish(false).unwrap();
    };
    PackWriter::create(shared(&medium), options(1)).unwrap().finish(false).unwrap();
    put(&medium, 2, "", 1, b"one");
    put(&medium, 3, "g", 2, b"two");
    put(&medium, 4, "g", 3, b"three");
    let [ours, theirs] = [files_of(&medium), files_of(&medium)].map(|files| of(&files));
    let mut writer = PackWriter::open(shared(&theirs), options(5)).unwrap();
    assert!(writer.delete(&Key::id(2)).unwrap());
    writer.put("g", &Key::id(4), &Attributes::new(), b"theirs").unwrap();
    writer.finish(false).unwrap();
    put(&ours, 6, "", 4, b"ours");
    let second = "segment-0000000000000002";
    let mut files = files_of(&ours);
    files.insert(second.to_owned(), files_of(&theirs)[second].clone());
    let storage = of(&files);
    let pack = open_simulated(&storage).unwrap();
    assert_eq!(pack.damages().len(), 1, "{:?}", pack.damages());
    assert!(!pack.check(|_| {}).unwrap().damages.is_empty());
    for (id, body) in [(1, &b"one"[..]), (2, b"two"), (3, b"three"), (4, b"ours")] {
        assert_eq!(pack.get(&Key::id(id)).unwrap().unwrap().body, body, "{id}");
    }
    // Neither a writer nor a compaction makes it this pack's.
    let mut writer = PackWriter::open(shared(&storage), options(7)).unwrap();
    writer.put("g", &Key::id(99), &Attributes::new(), b"newest").unwrap();
    writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
    writer.finish(true).unwrap();
    assert_eq!(files_of(&storage)[second], files[second]);
    let pack = open_simulated(&storage).unwrap();
    assert_eq!(pack.damages().len(), 1, "{:?}", pack.damages());
    assert_eq!(pack.get(&Key::id(2)).unwrap().unwrap().body, &b"two"[..]);
}
