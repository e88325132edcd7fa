//! Gets return what was put, for all sizes, and after every way of reopening.

use std::path::Path;
use std::sync::Arc;

use stook::pack::{Attributes, Key, OnDamage, OpenOptions, Pack, PackWriter, ScanOptions, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};

fn storage(path: &Path) -> Arc<dyn Storage> {
    Arc::new(LocalStorage::open(path, LocalStorageOptions::default()).unwrap())
}

fn small_segments() -> WriterOptions {
    WriterOptions { chunk_log2: 12, segment_len: 300_000, ..WriterOptions::default() }
}

fn body(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// Lengths around everything that could matter: nothing, one, chunks of 4 KiB, reads of 1 MiB.
const LENGTHS: [usize; 14] = [
    0,
    1,
    7,
    4095,
    4096,
    4097,
    8192,
    20_000,
    65_536,
    70_001,
    1 << 20,
    (1 << 20) + 1,
    20 << 20,
    (33 << 20) + 5,
];

fn key(number: usize) -> Key {
    match number % 3 {
        0 => Key::id(number as u64),
        1 => Key::bytes(format!("dir/{number}")).unwrap(),
        _ => Key::bytes([b"\xff\n".as_slice(), &number.to_le_bytes()].concat()).unwrap(),
    }
}

fn scanned(pack: &Pack) -> Vec<(Key, Vec<u8>)> {
    let mut all = Vec::new();
    let mut scan = pack.scan(ScanOptions { on_damage: OnDamage::Stop, ..ScanOptions::default() });
    while let Some(record) = scan.next().unwrap() {
        let key = record.key().unwrap();
        let mut bytes = record.body().map(<[u8]>::to_vec);
        if bytes.is_none() {
            let mut long = Vec::new();
            while let Some(chunk) = scan.next_chunk().unwrap() {
                long.extend_from_slice(chunk);
            }
            bytes = Some(long);
        }
        all.push((key, bytes.unwrap()));
    }
    all
}

fn check(dir: &Path, versions: u64) {
    let pack = Pack::open(storage(dir), OpenOptions::default()).unwrap();
    assert_eq!(pack.damages(), &[]);
    assert_eq!(pack.len() as usize, LENGTHS.len());
    let keys: Vec<Key> = (0..LENGTHS.len()).map(key).collect();
    for (number, record) in pack.get_many(&keys).unwrap().into_iter().enumerate() {
        let record = record.unwrap().unwrap();
        assert_eq!(record.head.key, keys[number]);
        assert_eq!(record.body, body(number as u64 + 100 * versions, LENGTHS[number]));
    }
    assert!(pack.get(&Key::bytes("absent").unwrap()).unwrap().is_none());
    let mut seen = scanned(&pack);
    seen.sort();
    let listed: Vec<Key> = pack.keys(&[]).unwrap().map(|entry| entry.unwrap().key).collect();
    assert!(listed.is_sorted());
    assert_eq!(listed, seen.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>());
    for (key, bytes) in &seen {
        assert_eq!(pack.get(key).unwrap().unwrap().body, bytes);
        let mut stream = pack.open_record(key).unwrap().unwrap();
        let mut long = Vec::new();
        while let Some(chunk) = stream.next_chunk().unwrap() {
            long.extend_from_slice(chunk);
        }
        assert_eq!(&long, bytes);
    }
}

fn put_all(writer: &mut PackWriter, version: u64) {
    for (number, &len) in LENGTHS.iter().enumerate() {
        let bytes = body(number as u64 + 100 * version, len);
        let (key, attributes) = (key(number), Attributes::new());
        match number % 3 {
            0 => {
                writer.put("", &key, &attributes, &bytes).unwrap();
            }
            rest => {
                let announced = (rest == 1).then_some(len as u64);
                let mut record = writer.begin("g", &key, &attributes, announced).unwrap();
                bytes.chunks(10_007).for_each(|part| record.write(part).unwrap());
                record.finish().unwrap();
            }
        }
    }
}

#[test]
fn every_length_comes_back_sealed_unsealed_and_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = PackWriter::create(storage(dir.path()), small_segments()).unwrap();
    put_all(&mut writer, 0);
    writer.sync().unwrap();
    check(dir.path(), 0);
    writer.finish(false).unwrap();
    check(dir.path(), 0);
    let mut writer = PackWriter::open(storage(dir.path()), small_segments()).unwrap();
    assert_eq!(writer.recovery().torn, []);
    put_all(&mut writer, 1);
    writer.sync().unwrap();
    check(dir.path(), 1);
    drop(writer);
    check(dir.path(), 1);
    let mut writer = PackWriter::open(storage(dir.path()), small_segments()).unwrap();
    put_all(&mut writer, 2);
    writer.finish(true).unwrap();
    check(dir.path(), 2);
}

#[test]
fn a_body_that_is_not_what_was_announced_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = PackWriter::create(storage(dir.path()), small_segments()).unwrap();
    let key = Key::id(1);
    writer.put("", &key, &Attributes::new(), b"old").unwrap();
    for (announced, given) in [(5, 4), (5, 6)] {
        let mut record = writer.begin("", &key, &Attributes::new(), Some(announced)).unwrap();
        let outcome = record.write(&vec![1; given]).and_then(|()| record.finish().map(|_| ()));
        assert!(matches!(outcome, Err(stook::pack::Error::BodyLength { .. })), "{outcome:?}");
    }
    let mut record = writer.begin("", &key, &Attributes::new(), None).unwrap();
    record.write(b"dropped half-way").unwrap();
    drop(record);
    writer.finish(true).unwrap();
    let pack = Pack::open(storage(dir.path()), OpenOptions::default()).unwrap();
    assert_eq!(pack.get(&key).unwrap().unwrap().body, "old".as_bytes());
    assert_eq!(pack.len(), 1);
}

/// What a writer that is killed has written is found although no checkpoint was due, but for the
/// beginning of a segment that no manifest names yet.
#[test]
fn a_killed_writer_loses_no_more_than_the_unnamed_beginning_of_a_segment() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        WriterOptions { segment_len: 40 << 20, checkpoint_len: 1 << 40, ..WriterOptions::default() };
    let bytes = body(1, 1 << 20);
    let mut written = 0;
    for stop_at in [20, 60, 100] {
        let mut writer = match written {
            0 => PackWriter::create(storage(dir.path()), options.clone()).unwrap(),
            _ => PackWriter::open(storage(dir.path()), options.clone()).unwrap(),
        };
        while written < stop_at {
            writer.put("", &Key::id(written), &Attributes::new(), &bytes).unwrap();
            written += 1;
        }
        // Dropped without a word, as after a kill: nothing is published any more.
        drop(writer);
        let found = scanned(&Pack::open_path(dir.path(), OpenOptions::default()).unwrap());
        assert!(found.len() as u64 + 17 >= written, "{} of {written}", found.len());
        assert!(found.iter().all(|(_, body)| *body == bytes));
        written = found.len() as u64;
    }
}
