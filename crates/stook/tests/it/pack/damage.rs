//! A small pack whose files are cut or hit: what tests of both have in common.

use std::collections::BTreeMap;
use std::sync::Arc;

use stook::pack::{Attributes, Error, Key, PackWriter, WriterOptions};
use stook::storage::Storage;
use stook_testing::conformance::{contents, pattern};
use stook_testing::model::pack::{
    PackModel, ScriptedHost, WAYS, open_simulated, open_simulated_mapped, read_in_every_way, tiny_writer,
};
use stook_testing::sim::SimStorage;

/// The files of a pack.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// A pack and its model.
pub(super) struct Small {
    pub(super) files: Files,
    /// Live records, all acknowledged.
    pub(super) model: PackModel,
    /// Keys that were used and are in `model`, or never were.
    pub(super) keys: Vec<Key>,
}

pub(super) fn options() -> WriterOptions {
    WriterOptions { segment_len: 1 << 20, checkpoint_len: 1500, ..tiny_writer(ScriptedHost::new(1)) }
}

pub(super) fn shared(storage: &SimStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

pub(super) fn key(number: usize) -> Key {
    if number.is_multiple_of(2) { Key::id(number as u64) } else { Key::bytes(vec![b'k'; number]).unwrap() }
}

fn put(writer: &mut PackWriter, model: &mut PackModel, group: &str, number: usize, len: usize) {
    let body = pattern(len, 1000 * number as u64 + len as u64);
    if len.is_multiple_of(2) {
        writer.put(group, &key(number), &Attributes::new(), &body).unwrap();
    } else {
        let mut record = writer.begin(group, &key(number), &Attributes::new(), None).unwrap();
        record.write(&body).unwrap();
        record.finish().unwrap();
    }
    model.insert(key(number), body);
}

/// A pack with two sealed segments, an active one with committed, marked and only synced frames,
/// overwritten records, a deletion vector, and a checkpoint.
pub(super) fn small() -> Small {
    let storage = SimStorage::new();
    let mut model = PackModel::new();
    let mut writer = PackWriter::create(shared(&storage), options()).unwrap();
    for (group, number, len) in [("a", 1, 10), ("a", 2, 21), ("b", 3, 300), ("a", 1, 30), ("b", 4, 0)] {
        put(&mut writer, &mut model, group, number, len);
    }
    writer.finish(true).unwrap();
    let mut writer = PackWriter::open(shared(&storage), options()).unwrap();
    for (number, len) in [(5, 600), (6, 601), (2, 40), (7, 300), (8, 11)] {
        put(&mut writer, &mut model, "c", number, len);
    }
    writer.publish().unwrap();
    put(&mut writer, &mut model, "c", 5, 50);
    put(&mut writer, &mut model, "c", 9, 33);
    writer.sync().unwrap();
    put(&mut writer, &mut model, "c", 6, 61);
    put(&mut writer, &mut model, "c", 10, 62);
    writer.sync().unwrap();
    drop(writer);
    Small { files: files_of(&storage), model, keys: (0..12).map(key).collect() }
}

pub(super) fn files_of(storage: &SimStorage) -> Files {
    let names = storage.list().unwrap().into_iter().map(|entry| entry.name);
    names.map(|name| (name.clone(), contents(storage, &name))).collect()
}

/// A storage with these files, but for one that is replaced, or missing.
pub(super) fn storage_with(files: &Files, name: &str, bytes: Option<&[u8]>) -> SimStorage {
    let storage = SimStorage::new();
    for (other, content) in files {
        let content = if other == name { bytes } else { Some(content.as_slice()) };
        let Some(content) = content else { continue };
        let mut appender = storage.create(other).unwrap();
        appender.append(&[content]).unwrap();
        appender.flush().unwrap();
    }
    storage
}

/// What came of a pack that was hit.
pub(super) enum Outcome {
    /// It could not be opened, and said why.
    Refused,
    /// Something was said to be wrong.
    Reported,
    /// Nothing was said, and everything is there.
    Harmless,
}

/// Reads everything there is: nothing wrong may come, and nothing may be missing in silence.
pub(super) fn outcome(storage: &SimStorage, small: &Small, what: &str) -> Outcome {
    let pack = match open_simulated(storage) {
        Ok(pack) => pack,
        Err(Error::Damaged(_) | Error::Unsupported { .. } | Error::NotAPack { .. } | Error::Core(_)) => {
            return Outcome::Refused;
        }
        Err(other) => panic!("{what}: {other}"),
    };
    let reported = read_in_every_way(&pack, &small.keys);
    let mapped = read_in_every_way(&open_simulated_mapped(storage).unwrap(), &small.keys);
    assert_eq!(
        (&mapped.given, &mapped.complaints),
        (&reported.given, &reported.complaints),
        "{what}: mapped"
    );
    for (key, body) in &reported.given {
        assert!(is_version(body, key), "{what}: {key} was never put so");
        let right = small.model.get(key) == Some(body);
        assert!(right || !reported.complaints.is_empty(), "{what}: {key} is another, and nothing says so");
    }
    if !reported.complaints.is_empty() {
        return Outcome::Reported;
    }
    let missing = small.model.iter().find(|(key, body)| {
        let ways = reported.given.iter().filter(|(other, given)| other == *key && given == *body).count();
        ways != WAYS
    });
    assert!(missing.is_none(), "{what}: {:?} is missing in silence", missing.map(|(key, _)| key));
    Outcome::Harmless
}

/// Whether a body is what was put under this key at some time.
pub(super) fn is_version(body: &[u8], wanted: &Key) -> bool {
    let number = (1..=10).find(|&number| key(number) == *wanted).unwrap();
    body == pattern(body.len(), 1000 * number as u64 + body.len() as u64)
}
