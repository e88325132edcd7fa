//! Several caches in one directory, as processes have them.

use super::*;

#[test]
fn what_one_fetched_the_others_find() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = Bytes::from(pattern(1_000_000, 1));
    let open = || {
        let source = Tagged::new("a", "1", bytes.clone());
        (source.clone(), file(source, &cache(directory.path(), PLENTY)))
    };
    // All are open before anything is there.
    let (one, two) = (open(), open());
    for at in (0..1_000_000).step_by(50_000) {
        let part = range(at, at + 50_000);
        let (fetching, finding) = if at % 100_000 == 0 { (&one, &two) } else { (&two, &one) };
        fetching.1.read(part).unwrap();
        assert_eq!(finding.1.read(part).unwrap(), bytes[at as usize..at as usize + 50_000]);
    }
    let fetched = one.1.statistics().fetched_bytes + two.1.statistics().fetched_bytes;
    assert_eq!(fetched, 1_000_000);
}

#[test]
fn both_may_write_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let identity = Identity { len: 1 << 30, etag: Some("1".into()), ..Identity::default() };
    let bytes = pattern(300_000, 1);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let entry = cache(directory.path(), PLENTY).entry(&named("a"), &identity);
            let bytes = &bytes;
            scope.spawn(move || {
                for at in (0..250_000).step_by(10_000) {
                    let at = (at + number * 70_000) % 250_000;
                    entry.write(at as u64, &bytes[at..at + 50_000]);
                    for (start, held) in entry.read(range(0, 300_000)) {
                        assert_eq!(held, bytes[start as usize..start as usize + held.len()]);
                    }
                }
                let statistics = entry.cache().statistics();
                assert_eq!((statistics.failures, statistics.damaged_ranges), (0, 0), "{statistics:?}");
            });
        }
    });
    assert_eq!(files(directory.path(), ".index").len(), 1);
    let entry = cache(directory.path(), PLENTY).entry(&named("a"), &identity);
    assert_eq!(entry.gaps(range(0, 300_000)), [range(290_000, 300_000)]);
}

#[test]
fn an_entry_that_another_threw_away_begins_anew() {
    let directory = tempfile::tempdir().unwrap();
    let identity = |etag: &str| Identity { len: 1000, etag: Some(etag.into()), ..Identity::default() };
    let old = cache(directory.path(), PLENTY).entry(&named("a"), &identity("1"));
    old.write(0, &[1; 1000]);
    old.discard();
    assert_eq!(old.read(range(0, 1000)), []);
    old.write(0, &[1; 500]);
    assert_eq!(old.read(range(0, 1000)), [(0, Bytes::from(vec![1; 500]))]);
    // Another process finds that the source has changed: its entry is not touched by those who do
    // not know yet.
    let new = cache(directory.path(), PLENTY).entry(&named("a"), &identity("2"));
    new.write(0, &[2; 700]);
    old.write(500, &[1; 500]);
    assert_eq!(old.read(range(0, 1000)), []);
    old.discard();
    assert_eq!(new.read(range(0, 1000)), [(0, Bytes::from(vec![2; 700]))]);
    let (old, new) = (old.cache().statistics(), new.cache().statistics());
    assert_eq!((old.damaged_ranges, old.failures, new.damaged_ranges, new.failures), (0, 0, 0, 0));
    assert_eq!((old.discarded_entries, new.discarded_entries), (1, 1));
}

#[test]
fn ranges_that_another_evicted_are_only_missing() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = Bytes::from(pattern(4 << 20, 1));
    let source = Tagged::new("a", "1", bytes.clone());
    let reading = cache(directory.path(), PLENTY);
    let first = file(source.clone(), &reading);
    first.prefetch(&[range(0, 4 << 20)]).unwrap();
    // It is opened, and knows all ranges; then another process has a small budget.
    let second = file(source, &reading);
    let evicting = cache(directory.path(), 2 << 20);
    assert!(evicting.statistics().evicted_bytes >= 2 << 20);
    assert_eq!(second.read(range(0, 4 << 20)).unwrap(), bytes);
    let statistics = second.statistics();
    assert!(statistics.from_disk_bytes > 1 << 20 && statistics.fetched_bytes > 2 << 20, "{statistics:?}");
    assert_eq!(statistics.disk_failures, 0);
}
