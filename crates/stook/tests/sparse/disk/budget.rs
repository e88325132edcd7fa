//! The budget of a cache: what goes, in which order, and what the disk then has.

use std::time::{Duration, SystemTime};

use super::*;

const MIB: u64 = 1 << 20;

fn identity() -> Identity {
    Identity { len: 1 << 40, etag: Some("1".into()), ..Identity::default() }
}

#[test]
fn one_file_larger_than_the_budget_keeps_what_came_last() {
    let directory = tempfile::tempdir().unwrap();
    let (budget, bytes) = (4 * MIB, Bytes::from(pattern(20 << 20, 1)));
    let cache = cache(directory.path(), budget);
    let source = Tagged::new("a", "1", bytes.clone());
    let reading = file(source.clone(), &cache);
    for at in (0..20 * MIB).step_by(300_000) {
        let part = range(at, (at + 300_000).min(20 * MIB));
        assert_eq!(reading.read(part).unwrap(), bytes[part.start() as usize..part.end() as usize]);
        let taken = disk_bytes(directory.path());
        assert!(taken <= budget, "{taken} at {at}");
    }
    assert!(disk_bytes(directory.path()) > budget / 2, "it is used");
    assert_eq!(files(directory.path(), "").len(), 4, "the lock, the salt and one entry");
    let again = file(source, &cache);
    again.read(range(18 * MIB, 20 * MIB)).unwrap();
    let statistics = again.statistics();
    assert_eq!((statistics.from_disk_bytes, statistics.disk_failures), (2 * MIB, 0));
    assert_eq!(cache.statistics().failures, 0);
}

#[test]
fn what_was_used_longest_ago_goes_first() {
    let directory = tempfile::tempdir().unwrap();
    let budget = 10 * MIB;
    let shared = cache(directory.path(), budget);
    let bytes = pattern(MIB as usize, 1);
    for number in 0..9 {
        shared.entry(&named(&format!("source {number}")), &identity()).write(7_000_000, &bytes);
    }
    assert_eq!(shared.statistics().evicted_bytes, 0);
    // In another order than they were written.
    let now = SystemTime::now();
    for path in files(directory.path(), ".index") {
        let index = CacheIndex::decode(&fs::read(&path).unwrap()).unwrap();
        let number: u64 = index.name().split_once(' ').unwrap().1.parse().unwrap();
        let opened = fs::File::options().write(true).open(&path).unwrap();
        opened.set_modified(now - Duration::from_secs(1000 * (1 + number * 2 % 9))).unwrap();
    }
    // 4 was used longest ago, then 8; but now it is read.
    assert_eq!(shared.entry(&named("source 4"), &identity()).read(range(7_000_000, 7_000_001)).len(), 1);
    let another = cache(directory.path(), budget);
    another.entry(&named("new"), &identity()).write(0, &bytes);
    another.entry(&named("new"), &identity()).write(MIB, &bytes);
    assert!(disk_bytes(directory.path()) <= budget);
    let held = |number: u64| {
        let gaps = another
            .entry(&named(&format!("source {number}")), &identity())
            .gaps(range(7_000_000, 7_000_000 + MIB));
        gaps.is_empty()
    };
    assert!(!held(8) && held(4) && (0..3).all(held), "{:?}", (0..9).map(held).collect::<Vec<_>>());
    assert!(another.entry(&named("new"), &identity()).gaps(range(0, 2 * MIB)).is_empty());
}

#[test]
fn many_entries_stay_within_the_budget() {
    let directory = tempfile::tempdir().unwrap();
    let cache = cache(directory.path(), 2 * MIB);
    let bytes = pattern(40_000, 1);
    for number in 0..200 {
        cache.entry(&named(&format!("source {number}")), &identity()).write(number * 12_345, &bytes);
        let taken = disk_bytes(directory.path());
        assert!(taken <= 2 * MIB, "{taken} after {number}");
    }
    assert!(disk_bytes(directory.path()) > MIB);
    let statistics = cache.statistics();
    assert!(statistics.evicted_bytes > 5 * MIB && statistics.failures == 0, "{statistics:?}");
    assert!(files(directory.path(), ".data").len() == files(directory.path(), ".index").len());
}

#[test]
fn without_room_nothing_is_kept_and_everything_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = pattern(100_000, 1);
    for budget in [0, 1, 50_000] {
        let file = file(Tagged::new("a", "1", bytes.clone()), &cache(directory.path(), budget));
        assert_eq!(file.read(range(0, 100_000)).unwrap(), bytes);
        assert!(disk_bytes(directory.path()) <= budget.max(4096));
        let note = file.statistics().disk_remark.unwrap();
        assert!(note.contains("budget") && note.contains("too small"), "{note}");
        assert_eq!(file.statistics().disk_failures, 0);
    }
}

#[test]
fn what_killed_processes_left_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let shared = cache(directory.path(), PLENTY);
    shared.entry(&named("a"), &identity()).write(0, &pattern(100_000, 1));
    shared.entry(&named("b"), &identity()).write(0, &pattern(100_000, 1));
    let data = files(directory.path(), ".data");
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap()[..64].to_owned();
    let (first, other) = (name(&data[0]), name(&data[1]));
    let write = |file: String| fs::write(directory.path().join(file), pattern(900_000, 3)).unwrap();
    write(format!("{first}.00000000000000aa.data"));
    write(format!("{first}.00000000000000ab.draft"));
    write(format!("{}.00000000000000ac.data", "0".repeat(64)));
    write("notes.txt".to_owned());
    fs::remove_file(directory.path().join(format!("{other}.index"))).unwrap();
    cache(directory.path(), 1_000_000);
    assert_eq!(files(directory.path(), ".data"), [data[0].clone()]);
    assert_eq!(files(directory.path(), ".draft").len(), 0);
    assert!(directory.path().join("notes.txt").exists(), "what is not of the cache is left alone");
}
