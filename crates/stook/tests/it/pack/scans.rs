//! Scans in both orders, of ranges, by splits, and from cursors.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use stook::engine::Backend;
use stook::pack::format::frame::{BodyLen, FrameHeader, FrameKind};
use stook::pack::format::segment::SegmentHeader;
use stook::pack::{
    AccessRule, Attributes, Cursor, Key, KeyRange, OnDamage, OpenOptions, Pack, PackWriter, Scan,
    ScanOptions, ScanOrder, Split, Stop, WriterOptions, chunk_sums,
};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook_testing::conformance::{contents, pattern};
use stook_testing::fault::{EngineCall, FaultEngineFactory};
use stook_testing::model::pack::{
    PackModel, ScriptedHost, next_of, open_simulated, rest_of, scanned, tiny_writer,
};
use stook_testing::sim::SimStorage;

use super::damage::{files_of, shared, storage_with};

fn key(number: u16) -> Key {
    match number % 3 {
        0 => Key::id(u64::from(number)),
        1 => Key::bytes(format!("dir/{:03}", number.wrapping_mul(97) % 1000)).unwrap(),
        _ => Key::bytes(vec![number as u8; usize::from(number % 64)]).unwrap(),
    }
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Put { group: u8, key: u16, len: usize, framed: bool },
    Delete(u16),
    Publish,
    Seal,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![4 => 0..200_usize, 2 => Just(4096), 1 => 0..40_000_usize];
    let step = prop_oneof![
        12 => (0..3_u8, 0..60_u16, len, prop::bool::weighted(0.2))
            .prop_map(|(group, key, len, framed)| Step::Put { group, key, len, framed }),
        3 => (0..60_u16).prop_map(Step::Delete),
        1 => Just(Step::Publish),
        1 => Just(Step::Seal),
    ];
    prop::collection::vec(step, 0..70)
}

fn put(writer: &mut PackWriter, group: &str, key: &Key, body: &[u8], framed: bool) {
    if framed {
        let mut record = writer.begin(group, key, &Attributes::new(), None).unwrap();
        body.chunks(1_777).for_each(|part| record.write(part).unwrap());
        record.finish().unwrap();
    } else {
        writer.put(group, key, &Attributes::new(), body).unwrap();
    }
}

pub(super) fn written(steps: &[Step]) -> (SimStorage, PackModel, BTreeMap<Key, u8>) {
    let storage = SimStorage::new();
    let options = tiny_writer(ScriptedHost::new(1));
    let mut writer = PackWriter::create(shared(&storage), options.clone()).unwrap();
    let (mut model, mut groups) = (PackModel::new(), BTreeMap::new());
    for (count, step) in steps.iter().enumerate() {
        match step {
            Step::Put { group, key: number, len, framed } => {
                let body = pattern(*len, count as u64);
                put(&mut writer, &format!("g{group}"), &key(*number), &body, *framed);
                model.insert(key(*number), body);
                groups.insert(key(*number), *group);
            }
            Step::Delete(number) => {
                assert_eq!(writer.delete(&key(*number)).unwrap(), model.remove(&key(*number)).is_some());
            }
            Step::Publish => writer.publish().unwrap(),
            Step::Seal => {
                writer.finish(true).unwrap();
                writer = PackWriter::open(shared(&storage), options.clone()).unwrap();
            }
        }
    }
    writer.sync().unwrap();
    (storage, model, groups)
}

fn by_key() -> ScanOptions {
    ScanOptions { order: ScanOrder::Key, ..ScanOptions::default() }
}

fn through_text(cursor: &Cursor) -> Cursor {
    let json = serde_json::to_string(cursor).unwrap();
    let again: Cursor = serde_json::from_str(&json).unwrap();
    assert_eq!(again, cursor.to_string().parse().unwrap());
    again
}

/// Stops before every record and continues from a cursor in a reopened pack.
fn goes_on_everywhere(storage: &SimStorage, begin: &dyn Fn(&Pack) -> Scan<'_>) {
    let pack = open_simulated(storage).unwrap();
    let all = rest_of(begin(&pack)).unwrap();
    for count in 0..=all.len() {
        let mut scan = begin(&pack);
        for expected in &all[..count] {
            // Of a long body not all has to be read.
            assert_eq!(scan.next().unwrap().unwrap().key().as_ref(), Some(&expected.0));
        }
        let cursor = through_text(&scan.cursor());
        drop(scan);
        let other = open_simulated(storage).unwrap();
        let rest = rest_of(other.scan_from(&cursor, OnDamage::Stop).unwrap()).unwrap();
        assert!(rest == all[count..], "after {count} of {} records", all.len());
    }
    let mut scan = begin(&pack);
    while scan.next().unwrap().is_some() {}
    let cursor = through_text(&scan.cursor());
    assert!(cursor.is_at_end());
    assert!(pack.scan_from(&cursor, OnDamage::Stop).unwrap().next().unwrap().is_none());
}

fn assert_splits(pack: &Pack, model: &PackModel, count: usize) {
    let splits = pack.splits(count, &[]).unwrap();
    assert!(splits.len() <= count, "{} splits of {count}", splits.len());
    let whole: u64 = pack.segments().iter().map(|segment| segment.frame_bytes).sum();
    assert_eq!(splits.iter().map(Split::bytes).sum::<u64>(), whole);
    assert!(splits.iter().all(|split| split.bytes() > 0));
    let mut all = PackModel::new();
    for split in &splits {
        let split: Split = serde_json::from_str(&serde_json::to_string(split).unwrap()).unwrap();
        let on_disk = rest_of(pack.scan_split(&split, ScanOptions::default()).unwrap()).unwrap();
        let mut sorted = on_disk.clone();
        sorted.sort();
        assert!(rest_of(pack.scan_split(&split, by_key()).unwrap()).unwrap() == sorted);
        for (key, body) in on_disk {
            assert!(all.insert(key.clone(), body).is_none(), "{key} is in two splits");
        }
    }
    assert!(all == *model, "{count} splits hold {} of {} records", all.len(), model.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scans_give_what_a_map_would(steps in steps(), from in 0..60_u16, to in 0..60_u16, group in 0..3_u8) {
        let (storage, model, groups) = written(&steps);
        let pack = open_simulated(&storage).unwrap();
        let group_name = format!("g{group}");
        let prefix = Key::bytes("dir/3").unwrap();
        let ranges = [
            KeyRange::all(),
            KeyRange::prefix(prefix.sort_form()),
            KeyRange::all().from(&key(from)),
            KeyRange::all().from(&key(from)).to(&key(to)),
        ];
        for keys in ranges {
            for only in [None, Some(group)].into_iter().filter(|only| only.is_none() || pack.groups().contains(&group_name)) {
                let wanted: Vec<_> = model
                    .iter()
                    .filter(|(key, _)| keys.contains(key) && only.is_none_or(|group| groups[*key] == group))
                    .map(|(key, body)| (key.clone(), body.clone()))
                    .collect();
                let options = ScanOptions {
                    groups: only.map(|_| group_name.clone()).into_iter().collect(),
                    keys: keys.clone(),
                    ..ScanOptions::default()
                };
                let mut scan = pack.scan(options.clone());
                let mut places = Vec::new();
                while let Some(record) = scan.next().unwrap() {
                    places.push((record.segment(), record.offset()));
                }
                prop_assert!(places.is_sorted(), "{places:?}");
                let mut found = rest_of(pack.scan(options.clone())).unwrap();
                found.sort();
                prop_assert!(found == wanted, "on disk");
                let ordered = ScanOptions { order: ScanOrder::Key, ..options.clone() };
                let found = rest_of(pack.scan(ordered.clone())).unwrap();
                prop_assert!(found == wanted, "by key");
                let loaded = pack.load(&ordered).unwrap();
                let loaded: Vec<_> = loaded.iter().map(|one| (one.key().unwrap(), one.body.to_vec())).collect();
                prop_assert!(loaded == wanted, "loaded");
            }
        }
        for count in [1, 2, 3, 7, 200] {
            assert_splits(&pack, &model, count);
        }
    }

    #[test]
    fn a_cursor_goes_on_after_every_record(steps in steps()) {
        let (storage, ..) = written(&steps);
        goes_on_everywhere(&storage, &|pack| pack.scan(ScanOptions::default()));
        goes_on_everywhere(&storage, &|pack| pack.scan(by_key()));
        let keys = KeyRange::all().from(&Key::bytes("dir").unwrap());
        goes_on_everywhere(&storage, &|pack| pack.scan(ScanOptions { keys: keys.clone(), ..ScanOptions::default() }));
        let splits = open_simulated(&storage).unwrap().splits(3, &[]).unwrap();
        for split in &splits {
            goes_on_everywhere(&storage, &|pack| pack.scan_split(split, ScanOptions::default()).unwrap());
            goes_on_everywhere(&storage, &|pack| pack.scan_split(split, by_key()).unwrap());
        }
    }
}

#[test]
fn records_longer_than_splits_and_empty_packs_are_split() {
    let storage = SimStorage::new();
    let options = || WriterOptions { segment_len: 64 << 20, ..tiny_writer(ScriptedHost::new(1)) };
    let mut writer = PackWriter::create(shared(&storage), options()).unwrap();
    writer.publish().unwrap();
    assert_eq!(open_simulated(&storage).unwrap().splits(5, &[]).unwrap(), []);
    let mut model = PackModel::new();
    // One that is longer than the range searched for a frame, another after it, and a group with
    // few records.
    for (number, group, len) in
        [(1, "a", 10), (2, "a", 9 << 20), (3, "a", 6 << 20), (4, "a", 1), (5, "b", 70_000)]
    {
        let body = pattern(len, number);
        put(&mut writer, group, &Key::id(number), &body, number == 3);
        model.insert(Key::id(number), body);
    }
    writer.finish(true).unwrap();
    let pack = open_simulated(&storage).unwrap();
    for count in [0, 1, 2, 4, 16, 100] {
        assert_splits(&pack, &model, count.max(1));
    }
    assert!(pack.splits(16, &[]).unwrap().len() >= 2);
    let b = pack.splits(3, &["b".into()]).unwrap();
    let held: Vec<_> = b
        .iter()
        .flat_map(|split| rest_of(pack.scan_split(split, ScanOptions::default()).unwrap()).unwrap())
        .map(|(key, _)| key)
        .collect();
    assert_eq!(held, [Key::id(5)]);
}

#[test]
fn a_cursor_or_split_of_another_pack_or_generation_is_refused_and_both_are_named() {
    let (storage, ..) = written(&[Step::Put { group: 0, key: 1, len: 9, framed: false }]);
    let other = SimStorage::new();
    PackWriter::create(shared(&other), tiny_writer(ScriptedHost::new(2))).unwrap().finish(true).unwrap();
    let pack = open_simulated(&storage).unwrap();
    let (cursor, split) = (pack.scan(by_key()).cursor(), pack.splits(1, &[]).unwrap().remove(0));
    let refused = |pack: &Pack, both: [String; 2]| {
        for error in [
            pack.scan_from(&cursor, OnDamage::Stop).err().unwrap().to_string(),
            pack.scan_split(&split, ScanOptions::default()).err().unwrap().to_string(),
        ] {
            assert!(both.iter().all(|part| error.contains(part)), "{error}");
        }
    };
    let foreign = open_simulated(&other).unwrap();
    refused(&foreign, [pack.nonce(), foreign.nonce()]);
    let mut writer = PackWriter::open(shared(&storage), tiny_writer(ScriptedHost::new(3))).unwrap();
    writer.put("g0", &Key::id(9), &Attributes::new(), b"new").unwrap();
    writer.finish(false).unwrap();
    let later = open_simulated(&storage).unwrap();
    let generation = |pack: &Pack| format!("generation {}", pack.generation());
    assert!(pack.generation() < later.generation());
    refused(&later, [generation(&pack), generation(&later)]);
    // The state at another time does not count as the same pack either.
    let options = OpenOptions { at_ns: Some(1_000), ..OpenOptions::default() };
    let past = Pack::open(shared(&storage), options).unwrap();
    let cursor = past.scan(by_key()).cursor();
    let error = later.scan_from(&cursor, OnDamage::Stop).err().unwrap().to_string();
    assert!(error.contains("1970-01-01") && error.contains("now"), "{error}");
    assert!(past.scan_from(&cursor, OnDamage::Stop).is_ok());
    for text in ["", "stook-cursor-2:00000000:{}", "stook-split-1:00000000:{}", "nonsense"] {
        assert!(text.parse::<Cursor>().is_err() && text.parse::<Split>().is_err(), "{text}");
    }
}

#[test]
fn what_is_appended_later_is_not_in_the_view_of_a_cursor_or_split() {
    let storage = SimStorage::new();
    let mut writer = PackWriter::create(shared(&storage), tiny_writer(ScriptedHost::new(1))).unwrap();
    let mut model = PackModel::new();
    for number in 0..30 {
        let body = pattern(300, number);
        put(&mut writer, "", &Key::id(number), &body, number % 4 == 0);
        model.insert(Key::id(number), body);
    }
    writer.sync().unwrap();
    let pack = open_simulated(&storage).unwrap();
    let splits = pack.splits(4, &[]).unwrap();
    assert_eq!(splits.len(), 4);
    let cursors = [pack.scan(by_key()).cursor(), pack.scan(ScanOptions::default()).cursor()];
    // Replaced, deleted and new, without a generation.
    for number in 20..40 {
        put(&mut writer, "", &Key::id(number), b"later", number % 2 == 0);
    }
    assert!(writer.delete(&Key::id(3)).unwrap());
    writer.sync().unwrap();
    let later = open_simulated(&storage).unwrap();
    assert_eq!(later.generation(), pack.generation());
    assert!(scanned(&later).unwrap() != model);
    for cursor in cursors {
        let found: PackModel =
            rest_of(later.scan_from(&cursor, OnDamage::Stop).unwrap()).unwrap().into_iter().collect();
        assert!(found == model);
    }
    let mut whole = Vec::new();
    for split in &splits {
        whole.extend(rest_of(later.scan_split(split, ScanOptions::default()).unwrap()).unwrap());
    }
    assert_eq!(whole.len(), model.len());
    assert!(whole.into_iter().collect::<PackModel>() == model);
    // And the other way round, what a writer lost is missed.
    let split = later.splits(1, &[]).unwrap().remove(0);
    let error = pack.scan_split(&split, ScanOptions::default()).err().unwrap();
    assert!(error.to_string().contains("begin again"), "{error}");
}

/// A pack with a record whose body holds frames that are right in every respect, for the place
/// where they lie.
fn forged() -> (SimStorage, PackModel, usize) {
    let storage = SimStorage::new();
    let options = WriterOptions { segment_len: 1 << 20, ..tiny_writer(ScriptedHost::new(1)) };
    let mut writer = PackWriter::create(shared(&storage), options).unwrap();
    let mut model = PackModel::new();
    for number in 0..4 {
        let body = pattern(500, number);
        put(&mut writer, "", &Key::id(number), &body, false);
        model.insert(Key::id(number), body);
    }
    writer.sync().unwrap();
    let name = "segment-0000000000000001";
    let salt = SegmentHeader::decode(&contents(&storage, name)[..4096]).unwrap().salt();
    // Where the frame will be: after a sync mark.
    let host = contents(&storage, name).len().next_multiple_of(8) + 64;
    let body_at = host + 40 + 8;
    let mut body = Vec::new();
    while body.len() < 30_000 {
        let fake = b"forged body".to_vec();
        let key = 77_u64.to_le_bytes();
        // Some claim to be as long as a later record is far.
        let claimed = if body.len() % 3 == 0 { fake.len() as u64 } else { 29_000 };
        let header = FrameHeader {
            live: true,
            kind: FrameKind::Record,
            in_batch: false,
            key_kind: 2,
            key_len: 8,
            attributes_len: 0,
            body: BodyLen::Known(claimed),
            sequence: 3,
            time_ns: 1,
            crc: 0,
        };
        body.extend(header.encode(&salt, (body_at + body.len()) as u64, &key, &[]));
        body.extend(key);
        body.extend(&fake);
        salt.bind_all(&chunk_sums(&fake, 12), 3, &mut body);
        body.resize(body.len().next_multiple_of(8), 0);
    }
    put(&mut writer, "", &Key::id(10), &body, false);
    model.insert(Key::id(10), body);
    for number in 11..14 {
        let body = pattern(500, number);
        put(&mut writer, "", &Key::id(number), &body, false);
        model.insert(Key::id(number), body);
    }
    writer.finish(true).unwrap();
    let pack = open_simulated(&storage).unwrap();
    assert_eq!(
        pack.get(&Key::id(10)).unwrap().unwrap().head.offset as usize,
        host,
        "the forgery lies elsewhere"
    );
    (storage, model, host)
}

#[test]
fn forged_frames_in_a_body_are_no_records_of_splits_nor_of_scans_after_damage() {
    let (storage, model, host) = forged();
    let pack = open_simulated(&storage).unwrap();
    for count in 1..40 {
        assert_splits(&pack, &model, count);
    }
    let name = "segment-0000000000000001";
    let mut bytes = contents(&storage, name);
    bytes[host + 9] ^= 1;
    let mut files = files_of(&storage);
    files.remove("writer.lock");
    let pack = open_simulated(&storage_with(&files, name, Some(&bytes))).unwrap();
    let mut left = model.clone();
    left.remove(&Key::id(10));
    let left: Vec<_> = left.into_iter().collect();
    for order in [ScanOrder::Disk, ScanOrder::Key] {
        let options = ScanOptions { on_damage: OnDamage::Skip, order, ..ScanOptions::default() };
        let mut scan = pack.scan(options.clone());
        let mut found = Vec::new();
        while let Some(record) = next_of(&mut scan).unwrap() {
            found.push(record);
        }
        assert!(found == left, "{order:?}: {:?}", found.iter().map(|(key, _)| key).collect::<Vec<_>>());
        let reported: Vec<_> = scan.damages().iter().filter_map(|damage| damage.key.clone()).collect();
        assert_eq!(reported, [Key::id(10)], "{order:?}: {:?}", scan.damages());
        let mut whole = Vec::new();
        for split in pack.splits(9, &[]).unwrap() {
            whole.extend(rest_of(pack.scan_split(&split, options.clone()).unwrap()).unwrap());
        }
        whole.sort();
        assert!(whole == left, "{order:?} by splits");
    }
}

#[test]
fn a_damaged_page_of_an_index_hides_no_key_and_is_reported() {
    let storage = SimStorage::new();
    let options =
        WriterOptions { segment_len: 8 << 20, checkpoint_len: 8 << 20, ..tiny_writer(ScriptedHost::new(1)) };
    let mut writer = PackWriter::create(shared(&storage), options).unwrap();
    for number in 0..3000_u64 {
        writer
            .put(
                "",
                &Key::bytes(format!("{:032}", number * 7919 % 3000)).unwrap(),
                &Attributes::new(),
                b"body",
            )
            .unwrap();
    }
    writer.finish(true).unwrap();
    let name = "segment-0000000000000001";
    let mut bytes = contents(&storage, name);
    let index_at = open_simulated(&storage).unwrap().segments()[0].frame_bytes as usize + 4096;
    // The second page of the index.
    bytes[index_at.next_multiple_of(4096) + 4096 + 100] ^= 1;
    let mut files = files_of(&storage);
    files.remove("writer.lock");
    let pack = open_simulated(&storage_with(&files, name, Some(&bytes))).unwrap();
    let keys = KeyRange::all().from(&Key::bytes(format!("{:032}", 0)).unwrap());
    let skipping = ScanOptions { keys, on_damage: OnDamage::Skip, ..ScanOptions::default() };
    let mut on_disk = pack.scan(skipping.clone());
    let mut count = 0;
    while on_disk.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!((count, on_disk.damages().len()), (3000, 0));
    let mut ordered = pack.scan(ScanOptions { order: ScanOrder::Key, ..skipping.clone() });
    let mut found = Vec::new();
    while let Some((key, _)) = next_of(&mut ordered).unwrap() {
        found.push(key);
    }
    assert!(found.len() == 3000 && found.is_sorted(), "{}", found.len());
    let stopping = ScanOptions { on_damage: OnDamage::Stop, order: ScanOrder::Key, ..skipping };
    assert_eq!(rest_of(pack.scan(stopping)).unwrap().len(), 3000);
    assert_eq!(pack.damages().len(), 1, "it is reported once: {:?}", pack.damages());
}

fn local(directory: &std::path::Path) -> Arc<dyn stook::storage::Storage> {
    Arc::new(LocalStorage::open(directory, LocalStorageOptions::default()).unwrap())
}

#[test]
fn by_key_a_sorted_pack_is_read_in_few_large_reads_and_a_shuffled_one_once() {
    let body = |number: u64| pattern((number * 7919 % 30_000) as usize, number);
    for (step, most_reads, most_bytes) in [(1, 90, 1.02), (611, 700, 1.5)] {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = PackWriter::create(local(directory.path()), WriterOptions::default()).unwrap();
        for number in 0..2400 {
            let number = number * step % 2400;
            put(&mut writer, "", &Key::id(number), &body(number), number % 50 == 0);
        }
        // Longer than a batch, and framed.
        put(&mut writer, "", &Key::id(1_000_000), &pattern(18 << 20, 3), false);
        put(&mut writer, "", &Key::id(1_000_001), &pattern(17 << 20, 4), true);
        writer.finish(true).unwrap();
        for access in [AccessRule::Direct, AccessRule::Cached, AccessRule::Auto] {
            let engines = FaultEngineFactory::new(Backend::Auto);
            let options =
                OpenOptions { engines: Arc::new(engines.clone()), access, ..OpenOptions::default() };
            let pack = Pack::open_path(directory.path(), options).unwrap();
            let mut scan = pack.scan(by_key());
            for number in (0..2400).chain([1_000_000, 1_000_001]) {
                let (key, found) = next_of(&mut scan).unwrap().unwrap();
                let wanted = match number {
                    1_000_000 => pattern(18 << 20, 3),
                    1_000_001 => pattern(17 << 20, 4),
                    _ => body(number),
                };
                assert!(key == Key::id(number) && found == wanted, "{number}");
            }
            assert!(next_of(&mut scan).unwrap().is_none());
            if access == AccessRule::Direct {
                let reads = engines.operations().into_iter().filter(|read| read.call == EngineCall::Read);
                let (count, bytes) = reads.fold((0, 0), |(count, bytes), read| (count + 1, bytes + read.len));
                let whole = pack.segments()[0].file_bytes as usize;
                assert!(count < most_reads, "{count} reads for {whole} bytes");
                // Of a shuffled pack a batch takes what is near, and reads over what lies between.
                let share = bytes as f64 / whole as f64;
                assert!(share < most_bytes, "step {step}: {bytes} bytes read of {whole}");
            }
        }
    }
}

#[test]
fn a_prefix_on_disk_reads_little_more_than_its_records() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = PackWriter::create(local(directory.path()), WriterOptions::default()).unwrap();
    for number in 0..400_u64 {
        let name = if number % 40 == 0 { "wanted" } else { "other" };
        let key = Key::bytes(format!("{name}/{number}")).unwrap();
        put(&mut writer, "", &key, &pattern(100_000, number), false);
    }
    writer.finish(true).unwrap();
    let engines = FaultEngineFactory::new(Backend::Auto);
    let options = OpenOptions {
        engines: Arc::new(engines.clone()),
        access: AccessRule::Direct,
        ..OpenOptions::default()
    };
    let pack = Pack::open_path(directory.path(), options).unwrap();
    let keys = KeyRange::prefix(Key::bytes("wanted/").unwrap().sort_form());
    let mut scan = pack.scan(ScanOptions { keys, ..ScanOptions::default() });
    let mut numbers = Vec::new();
    while let Some(record) = scan.next().unwrap() {
        assert_eq!(record.body().unwrap().len(), 100_000);
        numbers.push(record.sequence());
    }
    assert_eq!(numbers, (0..400).step_by(40).map(|number| number + 1).collect::<Vec<u64>>());
    let bytes: usize =
        engines.operations().iter().filter(|read| read.call == EngineCall::Read).map(|read| read.len).sum();
    assert!(bytes < 1_400_000, "{bytes} bytes were read for a million");
}

/// Stopping a scan does not wait for the next intact record.
#[test]
fn a_scan_stops_within_damage_when_it_is_asked_to() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let medium = SimStorage::new();
    let mut writer = PackWriter::create(shared(&medium), tiny_writer(ScriptedHost::new(1))).unwrap();
    for id in 0..200 {
        writer.put("", &Key::id(id), &Attributes::new(), &[id as u8; 64]).unwrap();
    }
    writer.finish(true).unwrap();
    let mut files = files_of(&medium);
    for (name, bytes) in &mut files {
        if name.starts_with("segment-") {
            for id in 1..200_u8 {
                let at = bytes.windows(64).position(|part| part == [id; 64]).unwrap();
                bytes[at] ^= 1;
            }
        }
    }
    let pack = open_simulated(&storage_with(&files, "", None)).unwrap();
    for order in [ScanOrder::Disk, ScanOrder::Key] {
        ASKED.store(0, Ordering::SeqCst);
        let stop = Stop(|| ASKED.fetch_add(1, Ordering::SeqCst) == 20);
        let options = ScanOptions { on_damage: OnDamage::Skip, order, stop, ..ScanOptions::default() };
        let mut scan = pack.scan(options.clone());
        assert!(scan.next().unwrap().is_some());
        assert!(matches!(scan.next(), Err(stook::pack::Error::Stopped)), "{order:?}");
        assert!((20..30).contains(&scan.damages().len()), "{order:?}: {}", scan.damages().len());
        ASKED.store(0, Ordering::SeqCst);
        assert!(matches!(pack.load(&options), Err(stook::pack::Error::Stopped)), "{order:?}");
    }
}
