//! What goes, and what stays.

use std::time::SystemTime;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// As if an entry had been used last so long ago.
fn age(record: &Path, days: u32) {
    let used = SystemTime::now() - DAY * days;
    File::options().write(true).open(record).unwrap().set_modified(used).unwrap();
}

/// A copy of a tree of its own: its record.
fn add(place: &Place, number: usize) -> PathBuf {
    let cache = place.cache();
    let before = place.files(".record");
    let tree = Place::of(9 + number);
    assert!(merged(&cache, &tree.tar().file).is_merged());
    place.files(".record").into_iter().find(|record| !before.contains(record)).unwrap()
}

#[test]
fn after_fourteen_days_without_use_a_copy_goes_with_the_next_purge_and_not_before() {
    let place = Place::of(9);
    let (old, young, own) = (add(&place, 0), add(&place, 1), place.tar());
    let cache = place.cache();
    drop(merged(&cache, &own.file));
    let record = place.files(".record").into_iter().find(|path| ![&old, &young].contains(&path)).unwrap();
    age(&old, 15);
    age(&young, 13);
    age(&record, 15);
    // Its use is noted, without which it would go.
    drop(merged(&place.cache(), &own.file));
    assert!(old.exists(), "nothing goes before all is open");
    let purged = cache.purge().unwrap();
    assert_eq!(purged.entries, 1);
    assert!(purged.bytes > 9000, "{purged:?}");
    assert_eq!(cache.statistics().removed, 1);
    assert!(!old.exists() && young.exists() && record.exists());
    assert_eq!(place.files(".merged").len(), 2);
    assert_eq!(MergedCacheOptions::default().unused_max, DAY * 14);
}

#[test]
fn what_is_in_use_stays_however_old_and_whatever_the_budget() {
    let place = Place::of(9);
    let file = merged(&place.cache(), &place.tar().file);
    let record = place.files(".record").remove(0);
    age(&record, 100);
    let small = place.cache_with(MergedCacheOptions { budget_bytes: 1, ..ALWAYS });
    assert_eq!(small.purge().unwrap().entries, 0);
    assert!(record.exists());
    all_of(&file).unwrap();
    drop(file);
    // It was used until now.
    assert_eq!(place.cache().purge().unwrap().entries, 0);
    assert_eq!(small.purge().unwrap().entries, 1);
    assert!(!record.exists() && place.files(".merged").is_empty());
}

#[test]
fn files_of_others_stay() {
    let place = Place::of(9);
    drop(merged(&place.cache(), &place.tar().file));
    let (key, zeroes) = ("a".repeat(64), "0".repeat(16));
    let foreign = [
        "note.txt".to_owned(),
        "x.record".to_owned(),
        format!("{key}.index"),
        format!("{key}.{zeroes}.data"),
        format!("{}.record", "A".repeat(64)),
        format!("{key}.0.merged"),
        ".stook-part".to_owned(),
    ];
    let old = SystemTime::now() - DAY * 100;
    for name in &foreign {
        fs::write(place.cache_path().join(name), "foreign").unwrap();
        File::options().write(true).open(place.cache_path().join(name)).unwrap().set_modified(old).unwrap();
    }
    // And what a killed process left goes.
    let left = place.cache_path().join(format!("{key}.{zeroes}.merged"));
    let begun = place.cache_path().join(".stook-0123456789abcdef-1.part");
    [&left, &begun].iter().for_each(|path| fs::write(path, "left").unwrap());
    let cache = place.cache_with(MergedCacheOptions { budget_bytes: 1, ..ALWAYS });
    assert_eq!(cache.purge().unwrap().entries, 1);
    for name in &foreign {
        assert_eq!(fs::read(place.cache_path().join(name)).unwrap(), b"foreign", "{name}");
    }
    assert!(!left.exists() && !begun.exists());
}

#[test]
fn the_budget_holds_and_what_was_used_longest_ago_goes_first() {
    let place = Place::of(9);
    let records: Vec<PathBuf> = (0..4).map(|number| add(&place, number)).collect();
    for (record, days) in records.iter().zip([3, 9, 1, 5]) {
        age(record, days);
    }
    let size = |end: &str| -> u64 { place.files(end).iter().map(|path| disk_bytes(path)).sum() };
    let all = size(".merged") + size(".record");
    let cache = place.cache_with(MergedCacheOptions { budget_bytes: all, ..ALWAYS });
    assert!(merged(&cache, &place.tar().file).is_merged());
    assert!(!records[1].exists() && records[2].exists() && records[0].exists(), "nine days");
    assert!(size(".merged") + size(".record") <= all);
    // One that alone is more than the budget has no copy; the others stay.
    let before = place.files(".record");
    let tiny = place.cache_with(MergedCacheOptions { budget_bytes: 1000, ..ALWAYS });
    let other = Place::of(30);
    assert!(!merged(&tiny, &other.tar().file).is_merged());
    assert!(tiny.take_notes()[0].contains("more than the cache may have"));
    assert_eq!(place.files(".record"), before);
}

fn disk_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let found = path.metadata().unwrap();
    found.len().max(found.blocks() * 512)
}

#[test]
fn where_all_is_in_use_there_is_no_room() {
    let place = Place::of(9);
    let file = merged(&place.cache(), &place.tar().file);
    let budget_bytes = file.len() + (16 << 10);
    let cache = place.cache_with(MergedCacheOptions { budget_bytes, ..ALWAYS });
    let other = Place::of(10);
    let expected = read_through(&other.tar().file).unwrap();
    assert!(!check(&cache, &other.tar(), &expected));
    assert!(cache.take_notes()[0].contains("in use"));
    drop(file);
    assert!(check(&cache, &other.tar(), &expected));
    assert_eq!(place.files(".record").len(), 1);
}

#[test]
fn a_clock_that_was_ahead_keeps_nothing_for_ever() {
    let place = Place::of(9);
    drop(merged(&place.cache(), &place.tar().file));
    let record = place.files(".record").remove(0);
    let ahead = SystemTime::now() + DAY * 1000;
    File::options().write(true).open(&record).unwrap().set_modified(ahead).unwrap();
    assert_eq!(place.cache().purge().unwrap().entries, 0);
    let used = record.metadata().unwrap().modified().unwrap();
    assert!(used < SystemTime::now() + DAY, "it counts as used now");
    assert!(merged(&place.cache(), &place.tar().file).is_merged());
}
