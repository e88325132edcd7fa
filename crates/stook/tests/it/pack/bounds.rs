//! What readers take is bounded, and a writer refuses what would be more before it changes
//! anything: a compaction makes room.

use std::sync::Arc;

use stook::pack::{Attributes, CompactOptions, Error, Key, PackWriter, WriterOptions};
use stook::storage::Storage;
use stook_testing::conformance::pattern;
use stook_testing::model::pack::{PackModel, ScriptedHost, assert_holds, open_simulated, tiny_writer};
use stook_testing::sim::SimStorage;

fn shared(storage: &SimStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

fn options(list_len_max: u64) -> WriterOptions {
    WriterOptions { list_len_max, segment_len: 1 << 20, ..tiny_writer(ScriptedHost::new(1)) }
}

fn is_full(error: &Error) -> bool {
    assert!(error.to_string().contains("run `stook compact`"), "{error}");
    matches!(error, Error::Full { .. })
}

/// A pack of this many records in one segment, and its writer.
fn made(count: u64, list_len_max: u64) -> (SimStorage, PackWriter, PackModel) {
    let storage = SimStorage::new();
    let mut writer = PackWriter::create(shared(&storage), options(list_len_max)).unwrap();
    let mut model = PackModel::new();
    for number in 0..count {
        let body = pattern(20, number);
        writer.put("", &Key::id(number), &Attributes::new(), &body).unwrap();
        model.insert(Key::id(number), body);
    }
    writer.sync().unwrap();
    (storage, writer, model)
}

#[test]
fn a_list_of_dead_records_never_gets_longer_than_readers_take() {
    let (storage, mut writer, mut model) = made(400, 800);
    let mut refused = None;
    for number in 0..400 {
        let key = Key::id(number);
        // Deleted, replaced at once, replaced by pieces.
        let done = match number % 3 {
            0 => writer.delete(&key).map(|_| model.remove(&key)),
            1 => writer.put("", &key, &Attributes::new(), b"new").map(|_| model.insert(key, b"new".to_vec())),
            _ => writer.begin("", &key, &Attributes::new(), None).and_then(|mut record| {
                record.write(b"newer")?;
                record.finish()?;
                Ok(model.insert(key, b"newer".to_vec()))
            }),
        };
        if let Err(error) = done {
            assert!(is_full(&error) && number > 100, "{number}: {error}");
            refused = Some(number);
            break;
        }
    }
    let refused = refused.expect("it is refused at last");
    // Nothing was changed, and operations that need no room in the list continue.
    writer.put("", &Key::id(1000), &Attributes::new(), b"another").unwrap();
    model.insert(Key::id(1000), b"another".to_vec());
    writer.publish().unwrap();
    assert_holds(&open_simulated(&storage).unwrap(), &model);
    let mut batch = writer.batch("").unwrap();
    assert!(is_full(&batch.delete(&Key::id(refused)).unwrap_err()));
    drop(batch);
    writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
    assert!(writer.delete(&Key::id(refused)).unwrap());
    model.remove(&Key::id(refused));
    writer.finish(true).unwrap();
    assert_holds(&open_simulated(&storage).unwrap(), &model);
}

#[test]
fn a_batch_is_refused_at_the_member_that_would_be_too_many() {
    let (storage, mut writer, model) = made(400, 1500);
    let mut batch = writer.batch("").unwrap();
    let refused = (0..400).map(Key::id).find_map(|key| batch.delete(&key).err()).unwrap();
    assert!(is_full(&refused) && batch.len() > 20, "{} are in", batch.len());
    drop(batch);
    writer.publish().unwrap();
    assert_holds(&open_simulated(&storage).unwrap(), &model);
}

#[test]
fn a_manifest_never_gets_longer_than_readers_take() {
    let (storage, mut writer, mut model) = made(1, 3000);
    let mut refused = None;
    for number in 1..100 {
        let (group, key) = (format!("group {number}"), Key::id(number));
        match writer.put(&group, &key, &Attributes::new(), b"body") {
            Ok(_) => drop(model.insert(key, b"body".to_vec())),
            Err(error) => {
                assert!(is_full(&error) && number > 5, "{number}: {error}");
                refused = Some(number);
                break;
            }
        }
    }
    assert!(refused.is_some(), "it is refused at last");
    writer.put("group 1", &Key::id(1000), &Attributes::new(), b"another").unwrap();
    model.insert(Key::id(1000), b"another".to_vec());
    writer.finish(false).unwrap();
    let pack = open_simulated(&storage).unwrap();
    assert_holds(&pack, &model);
    assert_eq!(pack.groups().len() as u64, refused.unwrap(), "no group without a segment is named");
}
