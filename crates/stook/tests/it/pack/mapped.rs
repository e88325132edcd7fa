//! Packs whose sealed segments are mapped give what packs that are read give, damage included.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use proptest::prelude::*;
use stook::pack::{
    Attributes, Error, FileKind, Key, MapRule, OpenOptions, Pack, PackWriter, Record, RecordView, Result,
    WriterOptions,
};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::conformance::pattern;
use stook_testing::model::pack::{PackModel, ScriptedHost, assert_holds, tiny_writer};

fn storage(directory: &Path) -> Arc<dyn Storage> {
    Arc::new(LocalStorage::open(directory, LocalStorageOptions::default()).unwrap())
}

fn options(segment_len: u64) -> WriterOptions {
    let engines = WriterOptions::default().engines;
    WriterOptions { engines, segment_len, ..tiny_writer(ScriptedHost::new(1)) }
}

fn open(directory: &Path, map: MapRule) -> Pack {
    Pack::open_path(directory, OpenOptions { map, ..OpenOptions::default() }).unwrap()
}

/// What was got of a record, in words that two ways of getting it must share.
fn reported(record: Result<Option<Record>>) -> String {
    format!("{:?}", record.map_err(|error| error.to_string()))
}

fn reported_view(view: &Result<Option<RecordView<'_>>>) -> String {
    let view = view.as_ref().map_err(ToString::to_string);
    let parts = view.map(|view| {
        view.map(|view| (view.key().clone(), view.body.to_vec(), view.sequence, view.attributes().unwrap()))
    });
    format!("{parts:?}")
}

fn reported_as_view(record: Result<Option<Record>>) -> String {
    let record = record.map_err(|error| error.to_string());
    let parts = record.map(|record| {
        record.map(|record| {
            let Record { head, body } = record;
            (head.key, body.to_vec(), head.sequence, head.attributes)
        })
    });
    format!("{:?}", parts.as_ref())
}

/// Holds every way of getting these keys from a mapped pack against getting them from one that is
/// read.
fn assert_same(directory: &Path, keys: &[Key]) {
    let (read, mapped) = (open(directory, MapRule::Never), open(directory, MapRule::Sealed));
    let wanted: Vec<String> = read.get_many(keys).unwrap().into_iter().map(reported).collect();
    let got: Vec<String> = mapped.get_many(keys).unwrap().into_iter().map(reported).collect();
    assert_eq!(got, wanted);
    for key in keys {
        assert_eq!(reported(mapped.get(key)), reported(read.get(key)), "{key}");
        let with = |pack: &Pack| {
            let with = pack.get_with(key, |view| (view.body.to_vec(), view.sequence, view.time_ns));
            format!("{:?}", with.map_err(|error| error.to_string()))
        };
        assert_eq!(with(&mapped), with(&read), "{key}");
    }
    for pack in [&read, &mapped] {
        let mut views = vec![None; keys.len()];
        pack.get_many_with(keys, |number, view| {
            assert!(views[number].replace(reported_view(&view)).is_none(), "{number} is given twice");
        })
        .unwrap();
        let wanted: Vec<_> =
            read.get_many(keys).unwrap().into_iter().map(|record| Some(reported_as_view(record))).collect();
        assert_eq!(views, wanted);
    }
}

fn key(shape: u8, number: u64) -> Key {
    match shape {
        0 => Key::id(number),
        1 => Key::id(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        2 => Key::bytes(format!("file{number:06}")).unwrap(),
        3 => Key::bytes(format!("a/long/way/to/a/folder/file{number:06}")).unwrap(),
        _ => Key::bytes(format!("d{}/f{number}", number % 7)).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mapped_pack_gives_what_a_read_one_does(
        shapes in prop::collection::vec(0..5_u8, 1..3),
        count in 1..400_u64,
        lens in prop::collection::vec(prop_oneof![0..40_usize, 4000..9000_usize], 1..9),
        segment_len in prop_oneof![Just(64_u64 << 10), Just(1 << 30)],
        again in 0..150_u64,
        seal_all in any::<bool>(),
        step in 1..997_u64,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let shape = |number: u64| shapes[number as usize % shapes.len()];
        let mut writer = PackWriter::create(storage(directory.path()), options(segment_len)).unwrap();
        let mut model = PackModel::new();
        for step in 0..count + again {
            let number = step % count;
            let (key, body) = (key(shape(number), number), pattern(lens[step as usize % lens.len()], step));
            let attributes = Attributes::of_file(FileKind::File, 0o644, step as i64, None);
            match step % 11 {
                9 => {
                    let mut record = writer.begin("", &key, &attributes, None).unwrap();
                    record.write(&body).unwrap();
                    record.finish().unwrap();
                }
                _ => drop(writer.put("", &key, &attributes, &body).unwrap()),
            }
            model.insert(key, body);
            if step % 13 == 12 {
                let gone = (step * 7) % count;
                let gone = self::key(shape(gone), gone);
                assert_eq!(writer.delete(&gone).unwrap(), model.remove(&gone).is_some());
            }
        }
        writer.finish(seal_all).unwrap();
        let mut keys: Vec<Key> = (0..count + 20).map(|n| n * step % (count + 20)).map(|n| key(shape(n), n)).collect();
        keys.push(Key::bytes("not here").unwrap());
        assert_same(directory.path(), &keys);
        assert_holds(&open(directory.path(), MapRule::Sealed), &model);
    }
}

/// A pack of numbered records, in one sealed segment.
fn numbered(directory: &Path, count: u64) -> PackModel {
    let mut writer = PackWriter::create(storage(directory), options(1 << 30)).unwrap();
    let mut model = PackModel::new();
    for number in 0..count {
        let body = pattern(1000 + number as usize % 50, number);
        writer.put("", &Key::id(number), &Attributes::new(), &body).unwrap();
        model.insert(Key::id(number), body);
    }
    writer.finish(true).unwrap();
    model
}

fn segment_of(directory: &Path) -> std::path::PathBuf {
    let mut files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("segment-")).unwrap()
}

#[test]
fn damage_in_a_mapped_segment_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let keys: Vec<Key> = numbered(directory.path(), 40).into_keys().collect();
    let path = segment_of(directory.path());
    let whole = std::fs::read(&path).unwrap();
    let mut reported = 0;
    for at in (4096..whole.len()).step_by(211) {
        let mut hit = whole.clone();
        hit[at] ^= 1 << (at % 8);
        std::fs::write(&path, &hit).unwrap();
        let pack = Pack::open_path(directory.path(), OpenOptions::default());
        if pack.is_err() {
            continue;
        }
        let mapped = open(directory.path(), MapRule::Sealed);
        let index_is_hit = mapped.get_many(&keys).is_err();
        assert_eq!(index_is_hit, pack.unwrap().get_many(&keys).is_err(), "byte {at}");
        if index_is_hit {
            continue;
        }
        assert_same(directory.path(), &keys);
        let records = mapped.get_many(&keys).unwrap();
        reported += records.iter().filter(|record| matches!(record, Err(Error::Damaged(_)))).count();
    }
    assert!(reported > 100, "{reported}");
}

#[test]
fn a_key_that_the_index_leads_astray_is_reported() {
    // Two packs with the same nonces: the index of one, the frames of the other.
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (directory, first) in [(&one, 0), (&other, 100)] {
        let mut writer = PackWriter::create(storage(directory.path()), options(1 << 30)).unwrap();
        for number in first..first + 10 {
            writer.put("", &Key::id(number), &Attributes::new(), &pattern(100, number)).unwrap();
        }
        writer.finish(true).unwrap();
    }
    let (path, theirs) = (segment_of(one.path()), std::fs::read(segment_of(other.path())).unwrap());
    let mut mixed = std::fs::read(&path).unwrap();
    assert_eq!(mixed.len(), theirs.len());
    let frames = 4096..4096 + 10 * 160;
    mixed[frames.clone()].copy_from_slice(&theirs[frames]);
    std::fs::write(&path, mixed).unwrap();
    let keys: Vec<Key> = (0..10).map(Key::id).collect();
    assert_same(one.path(), &keys);
    let records = open(one.path(), MapRule::Sealed).get_many(&keys).unwrap();
    assert!(records.iter().all(|record| matches!(record, Err(Error::Damaged(_)))), "{records:?}");
}

#[test]
fn segments_that_grow_are_not_mapped() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = PackWriter::create(storage(directory.path()), options(1 << 30)).unwrap();
    writer.put("", &Key::id(1), &Attributes::new(), b"one").unwrap();
    writer.sync().unwrap();
    let path = segment_of(directory.path());
    let pack = open(directory.path(), MapRule::Sealed);
    assert!(!is_mapped(&path));
    assert_eq!(pack.get(&Key::id(1)).unwrap().unwrap().body, b"one".as_slice());
    writer.finish(true).unwrap();
    let sealed = open(directory.path(), MapRule::Sealed);
    assert_eq!(is_mapped(&path), cfg!(target_os = "linux"));
    drop(sealed);
    assert!(!is_mapped(&path));
    let _read = open(directory.path(), MapRule::Never);
    assert!(!is_mapped(&path));
}

/// Whether this process has a file mapped, as far as the system reports it.
fn is_mapped(path: &Path) -> bool {
    let path = path.canonicalize().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| line.ends_with(path.to_str().unwrap()))
}

#[test]
fn records_outlive_their_pack_and_the_names_of_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let model = numbered(directory.path(), 300);
    let keys: Vec<Key> = model.keys().cloned().collect();
    let pack = open(directory.path(), MapRule::Sealed);
    let path = segment_of(directory.path());
    std::fs::rename(&path, directory.path().join("moved")).unwrap();
    std::fs::write(&path, b"another file under the same name").unwrap();
    std::fs::remove_file(directory.path().join("moved")).unwrap();
    let records = pack.get_many(&keys).unwrap();
    drop(pack);
    for ((_, body), record) in model.iter().zip(records) {
        assert_eq!(record.unwrap().unwrap().body, *body);
    }
}

#[test]
fn many_threads_get_from_one_pack() {
    let directory = tempfile::tempdir().unwrap();
    let model = numbered(directory.path(), 2000);
    let pack = open(directory.path(), MapRule::Sealed);
    thread::scope(|scope| {
        for thread in 0..8 {
            let (pack, model) = (&pack, &model);
            scope.spawn(move || {
                let keys: Vec<Key> = (0..2000).map(|n| Key::id(n * (2 * thread + 1) % 2000)).collect();
                let mut count = 0;
                pack.get_many_with(&keys, |number, view| {
                    assert_eq!(view.unwrap().unwrap().body, model[&keys[number]]);
                    count += 1;
                })
                .unwrap();
                assert_eq!(count, 2000);
            });
        }
    });
}
