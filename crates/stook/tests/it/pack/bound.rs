//! Extents that landed in the wrong place, each as it was written: bodies are bound to their
//! records, and chunks to their number.

use std::collections::BTreeSet;
use std::sync::Arc;

use stook::pack::{
    Attributes, CompactOptions, Error, Key, OnDamage, Pack, PackWriter, ScanOptions, ScanOrder,
    WriterOptions, repair,
};
use stook::storage::Storage;
use stook_testing::conformance::{contents, pattern};
use stook_testing::model::pack::{
    PackModel, ScriptedHost, assert_holds, open_simulated, open_simulated_mapped, scanned, tiny_writer,
};
use stook_testing::sim::SimStorage;

use super::damage::{Files, files_of, storage_with};

const SEGMENT: &str = "segment-0000000000000001";
const CHUNK: usize = 64 << 10;

/// A body and its one checksum take 64 KiB together; so do a piece and the bytes before it in two
/// chunks and a bit.
const ONE_CHUNK: usize = CHUNK - 4;
const THREE_CHUNKS: usize = 2 * CHUNK + 500;

fn shared(storage: &SimStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

fn options(seed: u64) -> WriterOptions {
    WriterOptions { chunk_log2: 16, segment_len: 8 << 20, ..tiny_writer(ScriptedHost::new(seed)) }
}

/// Six records of one length, sealed or not.
fn made(len: usize, framed: bool, sealed: bool) -> (Files, PackModel, Vec<usize>) {
    let storage = SimStorage::new();
    let mut writer = PackWriter::create(shared(&storage), options(1)).unwrap();
    let mut model = PackModel::new();
    for number in 0..6 {
        let (key, body) = (Key::id(number), pattern(len, number));
        if framed {
            let mut record = writer.begin("", &key, &Attributes::new(), None).unwrap();
            record.write(&body).unwrap();
            record.finish().unwrap();
        } else {
            writer.put("", &key, &Attributes::new(), &body).unwrap();
        }
        model.insert(key, body);
    }
    if sealed {
        writer.finish(true).unwrap()
    } else {
        writer.finish(false).unwrap()
    }
    let pack = open_simulated(&storage).unwrap();
    // Frames of no attributes and keys of eight bytes.
    let bodies = (0..6).map(|number| pack.get(&Key::id(number)).unwrap().unwrap().head.offset as usize + 48);
    let bodies = bodies.collect();
    (files_of(&storage), model, bodies)
}

/// The same pack with two extents exchanged on the medium.
fn exchanged(files: &Files, extents: &[(usize, usize, usize)]) -> SimStorage {
    let mut bytes = files[SEGMENT].clone();
    for &(a, b, len) in extents {
        let (from, to) = (bytes[a..a + len].to_vec(), bytes[b..b + len].to_vec());
        assert!(from != to, "the exchange changes something");
        bytes[a..a + len].copy_from_slice(&to);
        bytes[b..b + len].copy_from_slice(&from);
    }
    storage_with(files, SEGMENT, Some(&bytes))
}

fn keys_of<'a>(damages: impl IntoIterator<Item = &'a stook::pack::Damage>) -> BTreeSet<Key> {
    damages.into_iter().filter_map(|damage| damage.key.clone()).collect()
}

fn drained(pack: &Pack, key: &Key) -> Result<Vec<u8>, Error> {
    let mut record = pack.open_record(key)?.expect("it is there");
    let mut body = Vec::new();
    while let Some(chunk) = record.next_chunk()? {
        body.extend_from_slice(chunk);
    }
    Ok(body)
}

/// Every way to read reports exactly the damage of these records, and returns the others.
fn assert_reported(storage: &SimStorage, model: &PackModel, hurt: &[u64]) {
    let hurt: BTreeSet<Key> = hurt.iter().copied().map(Key::id).collect();
    let whole: PackModel =
        model.iter().filter(|(key, _)| !hurt.contains(key)).map(|(k, b)| (k.clone(), b.clone())).collect();
    let pack = open_simulated(storage).unwrap();
    for pack in [&pack, &open_simulated_mapped(storage).unwrap()] {
        for (key, body) in model {
            match pack.get(key) {
                Ok(record) => assert!(!hurt.contains(key) && record.unwrap().body == *body, "{key}: get"),
                Err(error) => assert!(hurt.contains(key) && error.damage().is_some(), "{key}: {error}"),
            }
        }
    }
    for (key, body) in model {
        match drained(&pack, key) {
            Ok(found) => assert!(!hurt.contains(key) && found == *body, "{key}: a stream"),
            Err(error) => assert!(hurt.contains(key) && error.damage().is_some(), "{key}: {error}"),
        }
    }
    assert_eq!(keys_of(&pack.check(|_| {}).unwrap().damages), hurt, "check");
    let skipping = || ScanOptions { on_damage: OnDamage::Skip, ..ScanOptions::default() };
    let loaded = pack.load(&skipping()).unwrap();
    let held: PackModel = loaded.iter().map(|r| (r.key().unwrap(), r.body.to_vec())).collect();
    assert!(held == whole && keys_of(loaded.damages()) == hurt, "load");
    for order in [ScanOrder::Disk, ScanOrder::Key] {
        let mut scan = pack.scan(ScanOptions { order, ..skipping() });
        let (mut held, mut reported) = (PackModel::new(), BTreeSet::new());
        while let Some(record) = scan.next().unwrap() {
            let key = record.key().unwrap();
            let body = match record.body() {
                Some(body) => Ok(body.to_vec()),
                None => drained_scan(&mut scan),
            };
            match body {
                Ok(body) => drop(held.insert(key, body)),
                Err(error) => drop(reported.insert(error.damage().unwrap().key.clone().unwrap())),
            }
        }
        reported.extend(keys_of(scan.damages()));
        assert!(held == whole && reported == hurt, "{order:?}: {reported:?}");
    }
    assert_compaction_and_repair(storage, &whole, &hurt);
}

fn drained_scan(scan: &mut stook::pack::Scan<'_>) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = scan.next_chunk()? {
        body.extend_from_slice(chunk);
    }
    Ok(body)
}

/// A compaction leaves the segment as it is, and a repair takes what is whole.
fn assert_compaction_and_repair(storage: &SimStorage, whole: &PackModel, hurt: &BTreeSet<Key>) {
    let (to, quarantine) = (SimStorage::new(), SimStorage::new());
    let mut aside = || Ok(shared(&quarantine));
    let reported = repair(storage, shared(&to), options(9), &mut aside, &mut |_| true).unwrap();
    assert_eq!(keys_of(&reported.damages), *hurt, "repair");
    // Their checksums are bound to a pack of another nonce by now.
    assert_holds(&open_simulated(&to).unwrap(), whole);

    let before = contents(storage, SEGMENT);
    let mut writer = PackWriter::open(shared(storage), options(3)).unwrap();
    for key in whole.keys().take(1) {
        assert!(writer.delete(key).unwrap(), "so that there is something to do");
    }
    let done = writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
    assert_eq!(done.left_out.len(), 1, "{done:?}");
    writer.finish(true).unwrap();
    assert!(contents(storage, SEGMENT)[..before.len().min(4096)] == before[..4096], "it is as it was");
}

#[test]
fn exchanged_bodies_of_two_records_are_damage_of_both_and_of_nothing_else() {
    for sealed in [false, true] {
        let (files, model, bodies) = made(ONE_CHUNK, false, sealed);
        let storage = exchanged(&files, &[(bodies[1], bodies[3], CHUNK)]);
        assert_reported(&storage, &model, &[1, 3]);
    }
}

#[test]
fn exchanged_chunks_of_one_record_with_their_checksums_are_damage_of_it() {
    let (files, model, bodies) = made(THREE_CHUNKS, false, true);
    let (body, sums) = (bodies[2], bodies[2] + THREE_CHUNKS);
    let storage = exchanged(&files, &[(body, body + CHUNK, CHUNK), (sums, sums + 4, 4)]);
    assert_reported(&storage, &model, &[2]);
}

#[test]
fn exchanged_pieces_are_damage_in_framed_bodies_too() {
    let (files, model, bodies) = made(THREE_CHUNKS, true, true);
    let storage = exchanged(&files, &[(bodies[1], bodies[4], CHUNK + 8)]);
    assert_reported(&storage, &model, &[1, 4]);
    let storage = exchanged(&files, &[(bodies[2], bodies[2] + CHUNK + 8, CHUNK + 8)]);
    assert_reported(&storage, &model, &[2]);
}

#[test]
fn records_keep_what_binds_them_through_compactions_and_repairs() {
    for framed in [false, true] {
        let (files, model, _) = made(THREE_CHUNKS, framed, true);
        let storage = storage_with(&files, "", None);
        let mut writer = PackWriter::open(shared(&storage), options(3)).unwrap();
        assert!(writer.delete(&Key::id(0)).unwrap());
        let done = writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
        assert_eq!((done.records, done.left_out.len()), (5, 0));
        writer.finish(true).unwrap();
        let mut left = model.clone();
        left.remove(&Key::id(0));
        assert_holds(&open_simulated(&storage).unwrap(), &left);
        let to = SimStorage::new();
        let mut aside = || Ok(shared(&SimStorage::new()));
        let reported = repair(&storage, shared(&to), options(9), &mut aside, &mut |_| true).unwrap();
        assert_eq!((reported.records, reported.damages.to_vec()), (5, Vec::new()));
        assert_holds(&open_simulated(&to).unwrap(), &left);
        assert!(scanned(&open_simulated(&to).unwrap()).unwrap() == left);
    }
}
