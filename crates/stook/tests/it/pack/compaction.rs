//! Compaction: what it keeps, in which order, in how much space, and that it changes nothing if it
//! fails.

use std::sync::Arc;
use std::time::Duration;

use stook::pack::{
    Attributes, CompactOptions, Compacted, Error, Key, OpenOptions, Pack, PackWriter, ScanOptions,
    WriterOptions,
};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::conformance::pattern;
use stook_testing::fault::{FaultStorage, StorageCall, StorageFault};
use stook_testing::model::pack::{
    NoEngines, PackModel, ScriptedHost, assert_holds, open_simulated, read_in_every_way, scanned, tiny_writer,
};
use stook_testing::sim::{Failure, SimStorage};

fn shared(storage: &SimStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

fn put(writer: &mut PackWriter, model: &mut PackModel, group: &str, key: &Key, len: usize) {
    let body = pattern(len, model.len() as u64 * 31 + len as u64);
    writer.put(group, key, &Attributes::new(), &body).unwrap();
    model.insert(key.clone(), body);
}

fn key(number: u64) -> Key {
    Key::bytes(format!("k{number:03}")).unwrap()
}

/// A pack of two groups and many segments in which half of the records were overwritten and some
/// deleted.
fn churned(storage: &Arc<dyn Storage>, options: WriterOptions) -> (PackWriter, PackModel) {
    let mut writer = PackWriter::create(storage.clone(), options).unwrap();
    let mut model = PackModel::new();
    for number in 0..120 {
        put(&mut writer, &mut model, ["", "b"][number as usize % 2], &key(number * 37 % 120), 2_000);
    }
    for number in 0..60 {
        put(&mut writer, &mut model, "", &key(number * 11 % 120), 1_000 + number as usize);
    }
    for number in 0..24 {
        assert!(writer.delete(&key(number * 5)).unwrap());
        model.remove(&key(number * 5));
    }
    writer.publish().unwrap();
    (writer, model)
}

fn compact(writer: &mut PackWriter, options: &CompactOptions) -> Compacted {
    writer.compact(options, &mut |_| true).unwrap()
}

/// Segments and places of all live records, in the order in which a scan meets them.
fn disk_order(pack: &Pack, group: &str) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut scan = pack.scan(ScanOptions { groups: vec![group.into()], ..ScanOptions::default() });
    while let Some(record) = scan.next().unwrap() {
        keys.push(record.key().unwrap());
    }
    keys
}

#[test]
fn compaction_restores_the_order_of_keys_and_lets_go_of_the_dead() {
    let storage = SimStorage::new();
    let (mut writer, model) = churned(&shared(&storage), tiny_writer(ScriptedHost::new(1)));
    let before = open_simulated(&storage).unwrap().file_bytes();
    let planned =
        open_simulated(&storage).unwrap().plan_compaction(&CompactOptions::default(), i64::MAX).unwrap();
    let done = compact(&mut writer, &CompactOptions::default());
    assert_eq!(done.records, model.len() as u64);
    assert_eq!((done.dead_records, planned.dead_records()), (84, 84));
    assert_eq!(planned.kept_bytes(), done.bytes, "what was planned was written");
    assert_eq!(planned.steps.len() as u64, done.steps);
    let pack = open_simulated(&storage).unwrap();
    assert_holds(&pack, &model);
    for group in ["", "b"] {
        let keys = disk_order(&pack, group);
        assert!(keys.len() > 20 && keys.is_sorted(), "{group}: {keys:?}");
    }
    assert!(pack.file_bytes() * 10 < before * 7, "{} of {before}", pack.file_bytes());
    assert!(pack.segments().iter().all(|segment| segment.dead_records == 0));
    let again = compact(&mut writer, &CompactOptions::default());
    assert_eq!((again.steps, again.records), (0, 0), "there is nothing left to do");
    put(&mut writer, &mut model.clone(), "", &key(1), 10);
    assert_eq!(writer.contains(&key(2)).unwrap(), model.contains_key(&key(2)), "compacted keys are found");
    assert!(writer.contains(&key(1)).unwrap());
}

#[test]
fn a_step_takes_no_more_room_than_it_may_and_what_is_done_stays_done() {
    let storage = SimStorage::new();
    let (mut writer, model) = churned(&shared(&storage), tiny_writer(ScriptedHost::new(1)));
    let options = CompactOptions { extra_len: 70 << 10, memory_len: 5_000, ..CompactOptions::default() };
    let plan = open_simulated(&storage).unwrap().plan_compaction(&options, i64::MAX).unwrap();
    assert!(plan.steps.len() > 2 && plan.steps.iter().all(|step| step.kept_bytes <= options.extra_len));
    let mut reported = Vec::new();
    let stop_after = plan.steps[0].kept_bytes + 1;
    let cut = writer.compact(&options, &mut |bytes| {
        reported.push(bytes);
        bytes < stop_after
    });
    let cut = cut.unwrap();
    assert!(cut.interrupted && cut.steps == 1 && reported.is_sorted());
    assert_holds(&open_simulated(&storage).unwrap(), &model);
    let one = writer.compact(&CompactOptions { steps_max: 1, ..options.clone() }, &mut |_| true).unwrap();
    assert_eq!((one.steps, one.interrupted), (1, false));
    drop(writer);
    let mut writer = PackWriter::open(shared(&storage), tiny_writer(ScriptedHost::new(2))).unwrap();
    assert_eq!(writer.recovery().damages, []);
    let rest = compact(&mut writer, &options);
    assert_eq!(cut.dead_records + one.dead_records + rest.dead_records, 84);
    assert_holds(&open_simulated(&storage).unwrap(), &model);
    let small = CompactOptions { extra_len: 100, ..CompactOptions::default() };
    put(&mut writer, &mut PackModel::new(), "", &key(7), 5);
    writer.sync().unwrap();
    let plan = open_simulated(&storage).unwrap().plan_compaction(&small, i64::MAX).unwrap();
    assert!(!plan.too_large.is_empty() && plan.too_large[0].needed_bytes > 100, "{plan:?}");
}

#[test]
fn it_acts_only_on_the_groups_that_are_asked_for_and_only_when_enough_is_dead() {
    let storage = SimStorage::new();
    let (mut writer, model) = churned(&shared(&storage), tiny_writer(ScriptedHost::new(1)));
    let share = |max_dead| CompactOptions { max_dead: Some(max_dead), ..CompactOptions::default() };
    assert_eq!(compact(&mut writer, &share(0.9)).steps, 0);
    let without_memory = CompactOptions { memory_len: 0, ..CompactOptions::default() };
    for wrong in [share(-0.1), share(1.1), share(f64::NAN), without_memory] {
        let planned = open_simulated(&storage).unwrap().plan_compaction(&wrong, i64::MAX);
        assert!(matches!(planned, Err(Error::Invalid(_))), "{planned:?}");
        assert!(matches!(writer.compact(&wrong, &mut |_| true), Err(Error::Invalid(_))), "{wrong:?}");
    }
    let only_b = CompactOptions { groups: vec!["b".into()], ..CompactOptions::default() };
    assert_eq!(compact(&mut writer, &only_b).steps, 1);
    let pack = open_simulated(&storage).unwrap();
    let dead = |group: &str| -> u64 {
        pack.segments()
            .iter()
            .filter(|segment| segment.group == group)
            .map(|segment| segment.dead_records)
            .sum()
    };
    assert!(dead("b") == 0 && dead("") > 0);
    assert_eq!(compact(&mut writer, &share(0.1)).steps, 1);
    assert_eq!(compact(&mut writer, &share(0.0)).steps, 0, "nothing is dead");
    assert_holds(&open_simulated(&storage).unwrap(), &model);
    writer
        .compact(&CompactOptions { groups: vec!["none".into()], ..CompactOptions::default() }, &mut |_| true)
        .unwrap();
}

#[test]
fn a_group_of_which_nothing_lives_leaves_no_segment() {
    let storage = SimStorage::new();
    let mut writer = PackWriter::create(shared(&storage), tiny_writer(ScriptedHost::new(1))).unwrap();
    let mut model = PackModel::new();
    for number in 0..50 {
        put(&mut writer, &mut model, "x", &key(number), 3_000);
    }
    for number in 0..50 {
        writer.delete(&key(number)).unwrap();
    }
    let done = compact(&mut writer, &CompactOptions::default());
    assert_eq!((done.records, done.dead_records), (0, 50));
    let pack = open_simulated(&storage).unwrap();
    assert_holds(&pack, &PackModel::new());
    assert_eq!(pack.segments(), []);
}

#[test]
fn older_versions_are_read_by_time_until_compaction_lets_them_go() {
    let storage = SimStorage::new();
    let host = ScriptedHost::new(1);
    let mut writer = PackWriter::create(shared(&storage), tiny_writer(host.clone())).unwrap();
    let mut model = PackModel::new();
    let mut history = Vec::new();
    for time_ns in 1..=40_i64 {
        host.set_clock(time_ns * 100);
        let number = time_ns as u64 % 7;
        if time_ns % 5 == 0 {
            writer.delete(&key(number)).unwrap();
            model.remove(&key(number));
        } else {
            put(&mut writer, &mut model, ["", "b"][time_ns as usize % 2], &key(number), 3_000);
        }
        history.push((time_ns * 100, model.clone()));
    }
    writer.publish().unwrap();
    let at = |at_ns| {
        let options =
            OpenOptions { engines: Arc::new(NoEngines), at_ns: Some(at_ns), ..OpenOptions::default() };
        Pack::open(shared(&storage), options)
    };
    // A time before the first record is a mistake: seconds instead of nanoseconds, for example.
    match at(99) {
        Err(Error::NoSuchState { what, .. }) => assert!(what.contains("first of its records"), "{what}"),
        other => panic!("{other:?}"),
    }
    for (time_ns, model) in &history {
        assert_holds(&at(*time_ns).unwrap(), model);
        assert_holds(&at(*time_ns + 99).unwrap(), model);
    }
    let keep = CompactOptions { keep: Duration::from_nanos(1_500), ..CompactOptions::default() };
    assert!(compact(&mut writer, &keep).dead_records > 5);
    let from_ns = open_simulated(&storage).unwrap().history_from_ns().unwrap();
    assert!((2_400..=2_500).contains(&from_ns), "{from_ns}");
    for (time_ns, model) in &history {
        match at(*time_ns) {
            Ok(pack) => assert_holds(&pack, model),
            Err(Error::NoSuchState { what, .. }) => {
                assert!(*time_ns < from_ns && what.contains("1970"), "{what}")
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(at(from_ns).is_ok() && at(from_ns - 1).is_err());
    // Compacted once more, with the same promise kept.
    host.set_clock(4_100);
    put(&mut writer, &mut model, "", &key(1), 50);
    assert!(compact(&mut writer, &keep).steps > 0);
    for (time_ns, model) in history.iter().filter(|(time_ns, _)| *time_ns >= 2_600) {
        assert_holds(&at(*time_ns).unwrap(), model);
    }
}

#[test]
fn a_segment_with_damage_is_left_as_it_is_and_reported() {
    let storage = SimStorage::new();
    let (writer, model) = churned(&shared(&storage), tiny_writer(ScriptedHost::new(1)));
    writer.finish(true).unwrap();
    let pack = open_simulated(&storage).unwrap();
    let victim = pack.get(&key(1)).unwrap().unwrap().head;
    drop(pack);
    let hurt = storage.settled_copy();
    let mut bytes = stook_testing::conformance::contents(&hurt, &format!("segment-{:016x}", victim.segment));
    bytes[victim.offset as usize + 60] ^= 4;
    hurt.unlink(&format!("segment-{:016x}", victim.segment)).unwrap();
    hurt.publish_if_absent(&format!("segment-{:016x}", victim.segment), &bytes).unwrap();
    let mut writer = PackWriter::open(shared(&hurt), tiny_writer(ScriptedHost::new(2))).unwrap();
    let done = compact(&mut writer, &CompactOptions::default());
    assert_eq!(done.left_out.len(), 1, "{done:?}");
    assert_eq!(done.left_out[0].key, Some(key(1)));
    assert!(done.steps == 2 && done.dead_records > 40, "the others were compacted");
    let pack = open_simulated(&hurt).unwrap();
    let reported = read_in_every_way(&pack, &model.keys().cloned().collect::<Vec<_>>());
    assert!(
        reported.complaints.iter().all(|complaint| complaint.contains("k001")),
        "{:?}",
        reported.complaints
    );
    let given: PackModel = reported.given.into_iter().collect();
    assert!(model.iter().all(|(key, body)| *key == self::key(1) || given.get(key) == Some(body)));
}

#[test]
fn a_full_disk_leaves_the_old_state_whole_and_the_writer_alive() {
    let mut failed = 0;
    for nth in 0.. {
        let medium = SimStorage::new();
        let faulty = Arc::new(FaultStorage::new(shared(&medium)));
        let storage: Arc<dyn Storage> = faulty.clone();
        let (mut writer, model) = churned(&storage, tiny_writer(ScriptedHost::new(1)));
        let files_before = medium.list().unwrap();
        faulty.inject(Some(StorageCall::Append), nth, StorageFault::Short);
        match writer
            .compact(&CompactOptions { memory_len: 20_000, ..CompactOptions::default() }, &mut |_| true)
        {
            Ok(_) => break,
            Err(error) => assert!(error.to_string().contains("segment-"), "{error}"),
        }
        failed += 1;
        assert_holds(&open_simulated(&medium).unwrap(), &model);
        let left = medium.list().unwrap();
        assert!(left.len() <= files_before.len() + 8, "what was begun is gone: {left:?}");
        drop(writer);
        let mut writer = PackWriter::open(shared(&medium), tiny_writer(ScriptedHost::new(2))).unwrap();
        assert_eq!(writer.recovery().damages, []);
        compact(&mut writer, &CompactOptions::default());
        assert_holds(&open_simulated(&medium).unwrap(), &model);
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn any_call_that_fails_during_compaction_is_reported_or_harmless_and_loses_nothing() {
    for nth in 0.. {
        let medium = SimStorage::new();
        let faulty = Arc::new(FaultStorage::new(shared(&medium)));
        let storage: Arc<dyn Storage> = faulty.clone();
        let (mut writer, model) = churned(&storage, tiny_writer(ScriptedHost::new(1)));
        let before = faulty.calls().len();
        faulty.inject(None, nth, StorageFault::Fails(Failure::Io));
        let outcome = writer.compact(&CompactOptions::default(), &mut |_| true);
        let calls = faulty.calls();
        let Some((call, _)) = calls.get(before + nth) else {
            outcome.unwrap();
            assert!(nth > 50);
            break;
        };
        if *call != StorageCall::Unlink {
            outcome.unwrap_err();
        }
        drop(writer);
        assert_holds(&open_simulated(&medium).unwrap(), &model);
        PackWriter::open(shared(&medium), tiny_writer(ScriptedHost::new(3))).unwrap().finish(true).unwrap();
        assert_holds(&open_simulated(&medium).unwrap(), &model);
    }
}

#[test]
fn long_records_are_copied_through_a_window() {
    let directory = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> =
        Arc::new(LocalStorage::open(directory.path(), LocalStorageOptions::default()).unwrap());
    let mut writer = PackWriter::create(storage.clone(), WriterOptions::default()).unwrap();
    let mut model = PackModel::new();
    for (number, announced) in [(3, true), (2, false), (1, true)] {
        let body = pattern((17 << 20) + 1_000 * number as usize, number);
        let mut record = writer
            .begin("", &key(number), &Attributes::new(), announced.then_some(body.len() as u64))
            .unwrap();
        body.chunks(1 << 20).for_each(|part| record.write(part).unwrap());
        record.finish().unwrap();
        model.insert(key(number), body);
        put(&mut writer, &mut model, "", &key(number + 10), 100);
    }
    let done = compact(&mut writer, &CompactOptions { memory_len: 1 << 20, ..CompactOptions::default() });
    assert_eq!(done.records, 6);
    writer.finish(true).unwrap();
    let pack = Pack::open_path(directory.path(), OpenOptions::default()).unwrap();
    assert!(scanned(&pack).unwrap() == model);
    assert!(disk_order(&pack, "").is_sorted());
    assert_eq!(pack.check(|_| {}).unwrap().damages, []);
}

#[test]
fn a_thousand_groups_are_compacted_one_by_one() {
    let storage = SimStorage::new();
    let options = tiny_writer(ScriptedHost::new(1));
    let mut writer = PackWriter::create(shared(&storage), options).unwrap();
    let mut model = PackModel::new();
    for round in 0..2 {
        for group in 0..1_000 {
            put(&mut writer, &mut model, &format!("g{group}"), &Key::id(group), 20 + round);
        }
    }
    writer.publish().unwrap();
    let done = compact(&mut writer, &CompactOptions::default());
    assert_eq!((done.steps, done.records, done.dead_records), (1_000, 1_000, 1_000));
    assert_holds(&open_simulated(&storage).unwrap(), &model);
}

#[test]
fn thousands_of_versions_of_one_key_go_through_little_memory_in_the_order_in_which_they_were_put() {
    let (storage, host) = (SimStorage::new(), ScriptedHost::new(1));
    let mut writer = PackWriter::create(shared(&storage), tiny_writer(host.clone())).unwrap();
    let keep = |memory_len| CompactOptions {
        keep: Duration::from_secs(1 << 30),
        memory_len,
        ..CompactOptions::default()
    };
    let body = |version: i64| pattern(version as usize % 700, version as u64);
    let put = |writer: &mut PackWriter, version: i64| {
        host.set_clock(1_000 + version * 10);
        writer.put("", &key(5), &Attributes::new(), &body(version)).unwrap();
        if version % 3 == 0 {
            writer.put("", &key(version as u64 % 9), &Attributes::new(), b"beside").unwrap();
        }
    };
    // Compacted in between, so that versions of the key lie in segments of every kind.
    for version in 0..1_500 {
        put(&mut writer, version * 2);
        if version == 700 {
            compact(&mut writer, &keep(2_000));
        }
    }
    let done = compact(&mut writer, &keep(2_000));
    assert!(done.left_out.is_empty() && done.records > 1_500, "{done:?}");
    for version in (0..1_500).step_by(97) {
        let options = OpenOptions {
            engines: Arc::new(NoEngines),
            at_ns: Some(1_005 + version * 20),
            ..OpenOptions::default()
        };
        let pack = Pack::open(shared(&storage), options).unwrap();
        assert_eq!(pack.get(&key(5)).unwrap().unwrap().body, body(version * 2), "{version}");
    }
    let pack = open_simulated(&storage).unwrap();
    assert_eq!(pack.check(|_| {}).unwrap().damages, []);
    assert_eq!(pack.get(&key(5)).unwrap().unwrap().body, body(2_998));
}

#[test]
fn a_compaction_stops_inside_a_long_record_and_leaves_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> =
        Arc::new(LocalStorage::open(dir.path(), LocalStorageOptions::default()).unwrap());
    let mut writer = PackWriter::create(storage.clone(), WriterOptions::default()).unwrap();
    let long = pattern(40 << 20, 7);
    for known in [true, false] {
        let key = key(u64::from(known));
        let mut record =
            writer.begin("", &key, &Attributes::new(), known.then_some(long.len() as u64)).unwrap();
        record.write(&long).unwrap();
        record.finish().unwrap();
    }
    writer.put("", &key(9), &Attributes::new(), b"gone").unwrap();
    assert!(writer.delete(&key(9)).unwrap());
    writer.publish().unwrap();
    for stop_at in [0, 10 << 20, 50 << 20, 79 << 20] {
        let mut reported = vec![0];
        let cut = writer.compact(&CompactOptions::default(), &mut |bytes| {
            reported.push(bytes);
            bytes < stop_at
        });
        assert!(cut.unwrap().interrupted, "{stop_at}");
        assert!(
            reported.is_sorted() && reported.windows(2).all(|two| two[1] - two[0] <= 2 << 20),
            "{stop_at}"
        );
        let segments = storage.list().unwrap().into_iter().filter(|file| file.name.starts_with("segment"));
        assert_eq!(segments.count(), 1, "{stop_at}: what was begun is gone");
    }
    assert_eq!(compact(&mut writer, &CompactOptions::default()).records, 2);
    drop(writer);
    let pack = Pack::open(storage, OpenOptions::default()).unwrap();
    for number in [0, 1] {
        assert!(pack.get(&key(number)).unwrap().unwrap().body == long);
    }
}
