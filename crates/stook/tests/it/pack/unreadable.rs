//! Bad sectors: one block that cannot be read costs the records that are in it, and nothing else;
//! it is reported; repair finishes.

use std::collections::BTreeSet;
use std::sync::Arc;

use stook::extent::ByteRange;
use stook::pack::{
    Attributes, Damage, Error, Key, OnDamage, OpenOptions, Pack, PackWriter, ScanOptions, WriterOptions,
    repair,
};
use stook::storage::Storage;
use stook_testing::conformance::pattern;
use stook_testing::fault::UnreadableStorage;
use stook_testing::model::pack::{
    PackModel, ScriptedHost, WAYS, assert_holds, open_simulated, read_in_every_way, scanned, tiny_writer,
};
use stook_testing::sim::SimStorage;

const BLOCK: u64 = 4096;

/// A pack, what is in it, and where.
struct Sample {
    storage: SimStorage,
    model: PackModel,
    /// All that was ever put.
    put: Vec<(Key, Vec<u8>)>,
    keys: Vec<Key>,
    /// For each record its segment and the range of its frame.
    frames: Vec<(Key, u64, ByteRange)>,
}

fn options() -> WriterOptions {
    WriterOptions { segment_len: 48 << 10, checkpoint_len: 16 << 10, ..tiny_writer(ScriptedHost::new(3)) }
}

fn key(number: u64) -> Key {
    // Long keys, so that an index has several pages.
    Key::bytes(format!("{number:04}{}", "-".repeat(200 + number as usize % 50))).unwrap()
}

impl Sample {
    fn put(&mut self, writer: &mut PackWriter, group: &str, number: u64, len: usize) {
        let body = pattern(len, number * 31 + len as u64);
        if number.is_multiple_of(4) {
            let mut record = writer.begin(group, &key(number), &Attributes::new(), None).unwrap();
            record.write(&body).unwrap();
            record.finish().unwrap();
        } else {
            writer.put(group, &key(number), &Attributes::new(), &body).unwrap();
        }
        self.put.push((key(number), body.clone()));
        self.model.insert(key(number), body);
    }

    /// Sealed segments, long and framed bodies, records that were replaced and deleted, batches, an
    /// active segment with checkpoints and a tail that no manifest knows.
    fn new() -> Self {
        let storage = SimStorage::new();
        let shared: Arc<dyn Storage> = Arc::new(storage.clone());
        let (model, put, frames) = (PackModel::new(), Vec::new(), Vec::new());
        let mut all = Self { storage, model, put, keys: (0..110).map(key).collect(), frames };
        let mut writer = PackWriter::create(shared.clone(), options()).unwrap();
        for number in 0..90 {
            let len = if number % 23 == 7 { 9_000 } else { 300 + number as usize * 7 };
            all.put(&mut writer, "", number * 37 % 90, len);
        }
        for number in (0..90).step_by(11) {
            all.put(&mut writer, "", number, 200);
        }
        assert!(writer.delete(&key(5)).unwrap());
        writer.finish(true).unwrap();
        let mut writer = PackWriter::open(shared, options()).unwrap();
        for number in 90..100 {
            all.put(&mut writer, "other", number, 2_000);
        }
        let mut batch = writer.batch("other").unwrap();
        batch.put(&key(100), &Attributes::new(), b"one").unwrap();
        batch.put(&key(101), &Attributes::new(), b"two").unwrap();
        batch.delete(&key(6)).unwrap();
        batch.commit().unwrap();
        writer.publish().unwrap();
        for number in [102, 103, 1, 104] {
            all.put(&mut writer, "other", number, 700);
        }
        writer.sync().unwrap();
        drop(writer);
        all.model.insert(key(100), b"one".to_vec());
        all.model.insert(key(101), b"two".to_vec());
        all.model.remove(&key(5));
        all.model.remove(&key(6));
        let pack = open_simulated(&all.storage).unwrap();
        assert_holds(&pack, &all.model);
        for entry in pack.keys(&[]).unwrap().map(Result::unwrap) {
            let head = pack.heads(std::slice::from_ref(&entry)).unwrap().remove(0).unwrap();
            let range = ByteRange::at(head.offset, entry.stored_bytes.unwrap()).unwrap();
            all.frames.push((entry.key, head.segment, range));
        }
        all
    }

    /// The keys of the records without a byte in this range of a file.
    fn untouched(&self, name: &str, bad: ByteRange) -> BTreeSet<Key> {
        let is_hit = |segment: u64, frame: &ByteRange| {
            format!("segment-{segment:016x}") == name
                && frame.start() < bad.end()
                && bad.start() < frame.end()
        };
        let apart = self.frames.iter().filter(|(_, segment, frame)| !is_hit(*segment, frame));
        apart.map(|(key, ..)| key.clone()).collect()
    }

    /// The name of the segment that grows.
    fn active(&self) -> String {
        let last = self.frames.iter().map(|(_, segment, _)| *segment).max().unwrap();
        format!("segment-{last:016x}")
    }

    /// Every block of every file of the pack.
    fn blocks(&self) -> Vec<(String, ByteRange)> {
        let files = self.storage.list().unwrap().into_iter().filter(|file| file.name != "writer.lock");
        let blocks = files.flat_map(|file| {
            let starts = (0..file.len).step_by(BLOCK as usize);
            starts.map(move |at| (file.name.clone(), ByteRange::new(at, (at + BLOCK).min(file.len)).unwrap()))
        });
        blocks.collect()
    }

    fn spoiled(&self, name: &str, bad: ByteRange) -> UnreadableStorage {
        let storage = UnreadableStorage::new(Arc::new(self.storage.clone()));
        storage.spoil(name, bad);
        storage
    }
}

fn open(storage: &UnreadableStorage) -> Result<Pack, Error> {
    let options = OpenOptions { engines: options().engines, ..OpenOptions::default() };
    Pack::open(Arc::new(storage.clone()), options)
}

/// Everything that a new pack made of the old one holds, and what was reported.
fn repaired(storage: &UnreadableStorage) -> (PackModel, usize) {
    let to = SimStorage::new();
    let aside: Arc<dyn Storage> = Arc::new(SimStorage::new());
    let mut quarantine = || Ok(aside.clone());
    let reported = repair(storage, Arc::new(to.clone()), options(), &mut quarantine, &mut |_| true)
        .expect("it finishes");
    (scanned(&open_simulated(&to).unwrap()).unwrap(), reported.damages.len())
}

/// The keys that asking for them one by one is refused for.
fn refused(pack: &Pack, keys: &[Key]) -> BTreeSet<Key> {
    keys.iter().filter(|key| matches!(pack.get(key), Err(Error::Damaged(_)))).cloned().collect()
}

/// The keys that a scan and a load report, which are the same, and those that a check and a repair
/// report.
fn keys_reported(storage: &UnreadableStorage) -> (BTreeSet<Key>, BTreeSet<Key>) {
    let keys = |damages: &[Damage]| -> BTreeSet<Key> {
        damages.iter().filter_map(|damage| damage.key.clone()).collect()
    };
    let options = ScanOptions { on_damage: OnDamage::Skip, ..ScanOptions::default() };
    let checked = keys(&open(storage).unwrap().check(|_| ()).unwrap().damages);
    let pack = open(storage).unwrap();
    let mut scan = pack.scan(options.clone());
    while scan.next().unwrap().is_some() {}
    let scanned = keys(&[scan.damages(), &pack.damages()].concat());
    let pack = open(storage).unwrap();
    let loaded = keys(&[pack.load(&options).unwrap().damages(), &pack.damages()].concat());
    let aside: Arc<dyn Storage> = Arc::new(SimStorage::new());
    let to = Arc::new(SimStorage::new());
    let mut quarantine = || Ok(aside.clone());
    let repaired = repair(storage, to, self::options(), &mut quarantine, &mut |_| true).unwrap();
    assert_eq!((&scanned, &keys(&repaired.damages)), (&loaded, &checked));
    (scanned, checked)
}

#[test]
fn a_bad_block_costs_the_records_in_it_and_no_other_in_any_way_of_reading() {
    let sample = Sample::new();
    let blocks = sample.blocks();
    assert!((60..250).contains(&blocks.len()), "{} blocks", blocks.len());
    for (name, bad) in blocks {
        let storage = sample.spoiled(&name, bad);
        let what = format!("{name} at {}", bad.start());
        let pack = open(&storage).unwrap_or_else(|error| panic!("{what}: {error}"));
        // Files of an older generation are looked at by a check only.
        let is_older = !name.starts_with("segment-") && pack.damages().is_empty();
        let reported = read_in_every_way(&pack, &sample.keys);
        let untouched = sample.untouched(&name, bad);
        for (key, body) in &reported.given {
            let right = sample.model.get(key) == Some(body);
            // Its replacement may be recorded only in the bad block.
            let was_put = sample.put.iter().any(|(put, old)| put == key && old == body);
            assert!(right || was_put && !untouched.contains(key), "{what}: {key} is another");
        }
        for key in &untouched {
            let ways = reported.given.iter().filter(|(given, _)| given == key).count();
            assert_eq!(ways, WAYS, "{what}: {key} is not there in all ways: {:?}", reported.complaints);
        }
        let silent = name.starts_with("checkpoint-");
        assert_eq!(reported.complaints.is_empty(), silent, "{what}: {:?}", reported.complaints);
        let (read, looked_at) = keys_reported(&storage);
        let refused = refused(&pack, &sample.keys);
        // After the last checkpoint no index has the key of a lost frame, so no absent key is known
        // to be absent.
        let is_reported = if name == sample.active() { read.is_subset(&refused) } else { read == refused };
        assert!(is_reported, "{what}: {read:?} are reported, {refused:?} refused");
        // What a check and a repair look at besides are versions that no longer count.
        assert!(looked_at.is_superset(&read), "{what}: {:?}", read.difference(&looked_at));
        let is_old = |key: &&Key| {
            let versions = sample.put.iter().filter(|(put, _)| put == *key).count();
            versions > 1 || !sample.model.contains_key(*key)
        };
        assert!(looked_at.difference(&read).all(|key| is_old(&key)), "{what}: {looked_at:?}");
        let (saved, damages) = repaired(&storage);
        assert!(
            untouched.iter().all(|key| saved.get(key) == sample.model.get(key)),
            "{what}: repair lost some"
        );
        assert!(silent || is_older || damages > 0, "{what}: repair reports nothing");
    }
}
