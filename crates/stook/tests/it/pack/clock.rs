//! Clocks that go backwards.

use std::sync::Arc;

use stook::pack::{Attributes, Key, OpenOptions, Pack, PackWriter, ScanOptions, WriterOptions};
use stook::storage::Storage;
use stook_testing::model::pack::{NoEngines, ScriptedHost, open_simulated, tiny_writer};
use stook_testing::sim::SimStorage;

/// Sequence number and time of every record.
fn times(storage: &SimStorage) -> Vec<(u64, i64)> {
    let pack = open_simulated(storage).unwrap();
    let mut scan = pack.scan(ScanOptions::default());
    let mut times = Vec::new();
    while let Some(record) = scan.next().unwrap() {
        times.push((record.sequence(), record.time_ns()));
    }
    times.sort_unstable();
    times
}

#[test]
fn times_never_fall_when_the_clock_does() {
    let storage = SimStorage::new();
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let host = ScriptedHost::new(1);
    let options = WriterOptions { segment_len: 9000, ..tiny_writer(host.clone()) };
    host.set_clock(5_000);
    let mut writer = PackWriter::create(shared.clone(), options.clone()).unwrap();
    let clock = [5_000, 7_000, 6_000, -3, i64::MIN, 7_001, 0, i64::MAX, 12];
    for (number, &now_ns) in clock.iter().enumerate() {
        host.set_clock(now_ns);
        let group = format!("g{}", number % 2);
        writer.put(&group, &Key::id(number as u64), &Attributes::new(), &[1; 3000]).unwrap();
        if number == 3 {
            writer.sync().unwrap();
            drop(writer);
            writer = PackWriter::open(shared.clone(), options.clone()).unwrap();
        }
        if number == 5 {
            writer.finish(true).unwrap();
            writer = PackWriter::open(shared.clone(), options.clone()).unwrap();
        }
    }
    writer.sync().unwrap();
    let times = times(&storage);
    assert_eq!(times.len(), clock.len());
    assert!(times.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{times:?}");
    let expected = [5_000, 7_000, 7_000, 7_000, 7_000, 7_001, 7_001, i64::MAX, i64::MAX];
    assert!(times.iter().map(|(_, time)| *time).eq(expected), "{times:?}");
    assert_eq!(open_simulated(&storage).unwrap().check(|_| {}).unwrap().damages, []);
}

#[test]
fn the_state_at_a_time_has_all_of_a_batch_or_nothing() {
    let storage = SimStorage::new();
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let host = ScriptedHost::new(1);
    host.set_clock(100);
    let mut writer = PackWriter::create(shared.clone(), tiny_writer(host.clone())).unwrap();
    writer.put("", &Key::id(0), &Attributes::new(), b"old").unwrap();
    let mut batch = writer.batch("").unwrap();
    for number in 0..5 {
        host.set_clock(200 + number as i64 * 10);
        batch.put(&Key::id(number), &Attributes::new(), b"new").unwrap();
    }
    host.set_clock(300);
    assert!(batch.delete(&Key::id(4)).unwrap());
    assert_eq!((batch.len(), batch.is_empty()), (6, false));
    batch.commit().unwrap();
    host.set_clock(250);
    writer.put("", &Key::id(9), &Attributes::new(), b"after").unwrap();
    writer.finish(true).unwrap();
    for (at_ns, expected) in
        [(100, vec![0]), (199, vec![0]), (200, vec![0, 1, 2, 3]), (250, vec![0, 1, 2, 3, 9])]
    {
        let options =
            OpenOptions { at_ns: Some(at_ns), engines: Arc::new(NoEngines), ..OpenOptions::default() };
        let pack = Pack::open(shared.clone(), options).unwrap();
        let keys: Vec<Key> = pack.keys(&[]).unwrap().map(|entry| entry.unwrap().key).collect();
        assert_eq!(keys, expected.iter().map(|&id| Key::id(id)).collect::<Vec<_>>(), "at {at_ns}");
        let body = pack.get(&Key::id(0)).unwrap().unwrap().body;
        assert_eq!(body == b"new".as_slice(), at_ns >= 200);
    }
}

#[test]
fn a_clock_that_was_ahead_is_reported_at_each_opening_for_writing() {
    let storage = SimStorage::new();
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let host = ScriptedHost::new(1);
    let (now, year_2099) = (1_790_000_000_000_000_000, 4_070_908_800_000_000_000);
    host.set_clock(year_2099);
    let mut writer = PackWriter::create(shared.clone(), tiny_writer(host.clone())).unwrap();
    writer.put("", &Key::id(1), &Attributes::new(), b"one").unwrap();
    writer.finish(true).unwrap();
    host.set_clock(year_2099 - 1_000_000_000);
    let writer = PackWriter::open(shared.clone(), tiny_writer(host.clone())).unwrap();
    assert_eq!(writer.recovery().clock, None, "a second is what clocks are set right by");
    drop(writer);
    host.set_clock(now);
    let mut writer = PackWriter::open(shared.clone(), tiny_writer(host)).unwrap();
    let reported = writer.recovery().notes().join("\n");
    assert!(
        reported.contains("2026-") && reported.contains("2099-") && reported.contains("--at"),
        "{reported}"
    );
    writer.put("", &Key::id(2), &Attributes::new(), b"two").unwrap();
    writer.finish(true).unwrap();
    assert_eq!(times(&storage), [(1, year_2099), (2, year_2099)]);
    let notes = open_simulated(&storage).unwrap().check(|_| {}).unwrap().notes.join("\n");
    assert!(notes.contains("2099-"), "{notes}");
}
