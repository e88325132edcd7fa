//! An older manifest is restored, as from half a backup: files that newer generations named are set
//! aside, not removed. Files of killed writers are removed as usual.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stook::pack::{Attributes, CompactOptions, Key, MapRule, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::Storage;
use stook_testing::fault::{FaultStorage, StorageCall, StorageFault};
use stook_testing::model::pack::{
    NoEngines, PackModel, ScriptedHost, assert_holds, open_simulated, tiny_writer,
};
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
    assert_eq!(writer.recovery().notes().len(), set_aside.len());
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
            // An empty file belongs to no writer: it stays.
            let left: Vec<_> = medium.list().unwrap().into_iter().filter(|file| file.len > 0).collect();
            let left: Vec<_> = left.iter().filter(|file| file.name.starts_with("segment-")).collect();
            assert!(left.len() <= if compacts { 3 } else { 2 }, "{nth}: {left:?}");
            if !was_met {
                break;
            }
        }
    }
}

/// A checkpoint that no generation names, of a range whose end was cut off since.
#[test]
fn a_checkpoint_of_a_span_that_was_cut_off_is_not_believed_later() {
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
    // A bit rots after the committed length: what follows is a torn tail.
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

/// How each of two copies of a pack continues.
type GoOn = fn(&mut PackWriter, u64);

/// Two diverged copies of a growing pack.
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

/// Half a backup: the segments of another, diverged copy of the same pack, under this manifest.
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
            let body = |pack: &Pack| pack.get(&Key::id(id)).unwrap().map(|record| record.body);
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

/// Records that one copy put after the committed length of a segment that the other did not touch
/// do not belong to the other.
#[test]
fn what_another_copy_put_after_the_committed_length_is_left_out_and_reported() {
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
    // Neither a writer nor a compaction adopts it.
    let mut writer = PackWriter::open(shared(&storage), options(7)).unwrap();
    writer.put("g", &Key::id(99), &Attributes::new(), b"newest").unwrap();
    writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
    writer.finish(true).unwrap();
    assert_eq!(files_of(&storage)[second], files[second]);
    let pack = open_simulated(&storage).unwrap();
    assert_eq!(pack.damages().len(), 1, "{:?}", pack.damages());
    assert_eq!(pack.get(&Key::id(2)).unwrap().unwrap().body, &b"two"[..]);
}

fn finish_with(storage: &SimStorage, seed: u64, change: impl FnOnce(&mut PackWriter)) {
    let mut writer = PackWriter::open(shared(storage), options(seed)).unwrap();
    change(&mut writer);
    writer.finish(false).unwrap();
}

fn put_text(writer: &mut PackWriter, group: &str, id: u64, body: &str) {
    writer.put(group, &Key::id(id), &Attributes::new(), body.as_bytes()).unwrap();
}

fn text(pack: &Pack, id: u64) -> Option<String> {
    let record = pack.get(&Key::id(id)).unwrap();
    record.map(|record| String::from_utf8(record.body.to_vec()).unwrap())
}

/// A pack with a record in each of two groups, whose segments keep growing.
fn two_groups() -> Files {
    let medium = SimStorage::new();
    PackWriter::create(shared(&medium), options(1)).unwrap().finish(false).unwrap();
    finish_with(&medium, 2, |writer| put_text(writer, "a", 1, "one"));
    finish_with(&medium, 3, |writer| put_text(writer, "b", 2, "two"));
    files_of(&medium)
}

/// The first changes of the other copy went to another segment: what follows in this one has
/// numbers that this copy has not given yet.
#[test]
fn later_frames_of_another_copy_are_left_out_whatever_their_numbers() {
    for (changes, publishes) in [(1, true), (5, true), (5, false)] {
        let both = two_groups();
        let [ours, theirs] = [(); 2].map(|()| of(&both));
        for id in 10..10 + changes {
            finish_with(&theirs, id, |writer| put_text(writer, "a", id, "theirs"));
        }
        let mut writer = PackWriter::open(shared(&theirs), options(20)).unwrap();
        assert!(writer.delete(&Key::id(2)).unwrap());
        put_text(&mut writer, "b", 30, "theirs");
        writer.sync().unwrap();
        if publishes {
            writer.finish(false).unwrap();
        }
        finish_with(&ours, 21, |writer| put_text(writer, "a", 40, "ours"));
        let second = "segment-0000000000000002";
        let mut files = files_of(&ours);
        files.insert(second.to_owned(), files_of(&theirs)[second].clone());
        let storage = of(&files);
        let pack = open_simulated(&storage).unwrap();
        assert_eq!(pack.damages().len(), 1, "{changes}: {:?}", pack.damages());
        assert!(!pack.check(|_| {}).unwrap().damages.is_empty());
        assert_eq!([1, 2, 40].map(|id| text(&pack, id).unwrap()), ["one", "two", "ours"]);
        assert!(pack.get(&Key::id(30)).is_err(), "it is not denied either");
        finish_with(&storage, 22, |writer| put_text(writer, "b", 99, "newest"));
        let kept = files_of(&storage);
        assert_eq!(kept[second], files[second], "{changes}: nothing is appended to it");
        assert_eq!(text(&open_simulated(&storage).unwrap(), 99).unwrap(), "newest");
    }
}

/// Clocks stand still, or are set to the same wrong time: heads of frames of two copies are then
/// the same, and bodies differ.
#[test]
fn frames_that_two_copies_wrote_alike_are_told_apart_by_their_writers() {
    let both = two_groups();
    for seals in [false, true] {
        let [ours, theirs] = [(5, "ours"), (6, "them")].map(|(seed, body)| {
            let storage = of(&both);
            let mut writer = PackWriter::open(shared(&storage), options(seed)).unwrap();
            put_text(&mut writer, "b", 30, body);
            writer.finish(seals).unwrap();
            files_of(&storage)
        });
        let second = "segment-0000000000000002";
        let mut files = ours;
        files.insert(second.to_owned(), theirs[second].clone());
        let pack = open_simulated(&of(&files)).unwrap();
        assert!(!pack.damages().is_empty(), "{seals}");
    }
}

/// A key that is in the state of the backup and in the last one is not in neither without a word.
#[test]
fn what_was_written_after_generations_that_are_gone_is_reported() {
    let begin = |storage: &Arc<dyn Storage>| {
        PackWriter::create(storage.clone(), options(1)).unwrap().finish(false).unwrap();
        let mut writer = PackWriter::open(storage.clone(), options(2)).unwrap();
        put_text(&mut writer, "a", 1, "one");
        put_text(&mut writer, "a", 2, "two");
        writer.finish(false).unwrap();
    };
    let medium = SimStorage::new();
    begin(&shared(&medium));
    let before = files_of(&medium);
    // By two writers, or by one that publishes in between.
    for writers in [1, 2] {
        let medium = of(&before);
        let mut writer = PackWriter::open(shared(&medium), options(3)).unwrap();
        writer.delete(&Key::id(1)).unwrap();
        if writers == 1 {
            writer.publish().unwrap();
        } else {
            writer.finish(false).unwrap();
            writer = PackWriter::open(shared(&medium), options(4)).unwrap();
        }
        put_text(&mut writer, "b", 1, "again");
        writer.finish(false).unwrap();
        let storage = restored(&before, &files_of(&medium));
        let pack = open_simulated(&storage).unwrap();
        assert_eq!(pack.damages().len(), 1, "{writers}: {:?}", pack.damages());
        let what = &pack.damages()[0].what;
        assert!(what.contains("generation"), "{what}");
        // The same if it continues in a segment that the older manifest names.
        finish_with(&medium, 5, |writer| put_text(writer, "a", 2, "twice"));
        let mut files = files_of(&restored(&before, &files_of(&medium)));
        files.remove("segment-0000000000000002");
        let storage = of(&files);
        let pack = open_simulated(&storage).unwrap();
        assert_eq!(pack.damages().len(), 1, "{writers}: {:?}", pack.damages());
        // It is the state after the deletion, and before what follows that.
        assert!(pack.get(&Key::id(1)).is_err(), "{writers}");
        assert_eq!(text(&pack, 2).unwrap(), "two");
        finish_with(&storage, 6, |writer| put_text(writer, "a", 3, "three"));
        let segment = "segment-0000000000000001";
        assert_eq!(files_of(&storage)[segment], files[segment], "{writers}: nothing is cut off");
        let pack = open_simulated(&storage).unwrap();
        assert_eq!(text(&pack, 3).unwrap(), "three");
        assert!(
            pack.get(&Key::id(1)).is_err(),
            "{writers}: still deleted, and the error says why it may be there"
        );
        assert_eq!(text(&pack, 2).unwrap(), "two");
    }
}

/// A reader that opened before a writer published sees a state that there was, and no damage.
#[test]
fn what_a_writer_publishes_meanwhile_is_no_damage() {
    let both = two_groups();
    let medium = of(&both);
    let mut writer = PackWriter::open(shared(&medium), options(3)).unwrap();
    put_text(&mut writer, "a", 10, "before");
    writer.sync().unwrap();
    let old = files_of(&medium);
    writer.publish().unwrap();
    put_text(&mut writer, "a", 11, "after");
    put_text(&mut writer, "c", 12, "new");
    writer.sync().unwrap();
    // All that the older generation names, as its reader finds it now.
    let storage = restored(&old, &files_of(&medium));
    let newest = files_of(&medium).into_iter().filter(|(name, _)| name.starts_with("manifest-"));
    let newest: Vec<_> = newest.collect();
    let (faulty, inner) = (FaultStorage::new(shared(&storage)), storage.clone());
    let lists = AtomicUsize::new(0);
    faulty.watch(move |call| {
        if call == StorageCall::List && lists.fetch_add(1, Ordering::Relaxed) == 1 {
            newest.iter().for_each(|(name, bytes)| drop(inner.publish_if_absent(name, bytes)));
        }
    });
    let options = OpenOptions { engines: Arc::new(NoEngines), map: MapRule::Never, ..OpenOptions::default() };
    let pack = Pack::open(Arc::new(faulty), options).unwrap();
    assert_eq!(pack.damages(), []);
    assert_eq!(text(&pack, 10).unwrap(), "before");
    assert_eq!(text(&pack, 11), None);
}
