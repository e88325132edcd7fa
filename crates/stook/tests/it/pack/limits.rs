//! The smallest and the largest of everything, and neighbouring files that do not belong to a pack.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use stook::pack::{Attributes, Error, Key, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::conformance::{contents, pattern};
use stook_testing::fault::{FaultStorage, StorageCall, StorageFault};
use stook_testing::model::pack::{
    PackModel, ScriptedHost, WAYS, assert_holds, open_simulated, read_in_every_way, tiny_writer,
};
use stook_testing::sim::{Failure, SimStorage};

fn shared(storage: &SimStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

fn local(directory: &Path) -> Arc<dyn Storage> {
    Arc::new(LocalStorage::open(directory, LocalStorageOptions::default()).unwrap())
}

fn put(writer: &mut PackWriter, model: &mut PackModel, group: &str, key: &Key, body: &[u8]) {
    writer.put(group, key, &Attributes::new(), body).unwrap();
    model.insert(key.clone(), body.to_vec());
}

#[test]
fn keys_of_every_length_and_content_come_back() {
    let storage = SimStorage::new();
    let mut writer = PackWriter::create(shared(&storage), tiny_writer(ScriptedHost::new(1))).unwrap();
    let mut model = PackModel::new();
    let long = |len: usize, byte| vec![byte; len];
    let strings = [
        vec![],
        vec![0],
        vec![0xff],
        b"\n".to_vec(),
        b"a\nb\r\n".to_vec(),
        b"id:5".to_vec(),
        b"../../etc".to_vec(),
        b"\xc3\x28\xff\xfe".to_vec(),
        long(255, b'x'),
        long(256, b'x'),
        long(65_534, 7),
        long(65_535, 7),
        pattern(65_535, 1),
    ];
    let keys = strings.iter().map(|bytes| Key::bytes(bytes).unwrap());
    for (number, key) in keys.chain([0, 1, 255, 256, u64::MAX].map(Key::id)).enumerate() {
        put(&mut writer, &mut model, "", &key, &pattern(number * 100, number as u64));
        put(&mut writer, &mut model, "", &key, &pattern(number * 90, number as u64));
    }
    writer.sync().unwrap();
    assert_holds(&open_simulated(&storage).unwrap(), &model);
    writer.finish(true).unwrap();
    assert_holds(&open_simulated(&storage).unwrap(), &model);
    let pack = open_simulated(&storage).unwrap();
    let prefix = Key::bytes(long(256, 7)).unwrap();
    let listed: Vec<Key> = pack.keys(prefix.sort_form()).unwrap().map(|entry| entry.unwrap().key).collect();
    assert_eq!(listed.len(), 2, "by prefix");
    assert!(Key::bytes(long(65_536, 7)).is_err());
}

#[test]
fn attributes_and_group_names_have_limits_and_reach_them() {
    use stook::pack::format::attributes::{Name, Value};
    let storage = SimStorage::new();
    let mut writer = PackWriter::create(shared(&storage), tiny_writer(ScriptedHost::new(1))).unwrap();
    let mut attributes = Attributes::new();
    attributes.set(Name::Id(200), Value::Bytes(vec![1; 65_531]));
    let (key, group) = (Key::bytes(vec![3; 65_535]).unwrap(), "é".repeat(127) + "x");
    writer.put(&group, &key, &attributes, b"body").unwrap();
    assert!(matches!(writer.put(&(group.clone() + "y"), &key, &attributes, b""), Err(Error::Limit { .. })));
    attributes.set(Name::Id(200), Value::Bytes(vec![1; 65_532]));
    assert!(writer.put(&group, &key, &attributes, b"").is_err());
    assert!(writer.begin(&group, &key, &Attributes::new(), Some(u64::MAX)).is_err());
    assert!(writer.put_encoded(&group, &key, &[0; 65_536], b"", b"").is_err());
    assert!(writer.put_encoded(&group, &key, b"", b"body", b"").is_err(), "no checksums");
    writer.finish(true).unwrap();
    let pack = open_simulated(&storage).unwrap();
    let record = pack.get(&key).unwrap().unwrap();
    assert_eq!(record.body, b"body".as_slice());
    assert_eq!(pack.groups(), [group]);
    assert_eq!(record.head.attributes.get(&Name::Id(200)), Some(&Value::Bytes(vec![1; 65_531])));
    assert_holds(&pack, &PackModel::from([(key, b"body".to_vec())]));
}

#[test]
fn a_record_of_more_than_4_gib_from_a_hole_takes_no_room_and_comes_back() {
    const LEN: u64 = (1 << 32) + 1;
    let directory = tempfile::tempdir().unwrap();
    let mut writer = PackWriter::create(local(directory.path()), WriterOptions::default()).unwrap();
    let mut record = writer.begin("", &Key::id(1), &Attributes::new(), Some(LEN)).unwrap();
    let zeros = vec![0; 4 << 20];
    (0..LEN >> 22).for_each(|_| record.write(&zeros).unwrap());
    record.write(&[9]).unwrap();
    record.finish().unwrap();
    writer.put("", &Key::id(2), &Attributes::new(), b"after it").unwrap();
    writer.finish(true).unwrap();
    let files = std::fs::read_dir(directory.path()).unwrap();
    let taken: u64 = files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum();
    assert!(taken < 4 << 20, "{taken} bytes of disk");
    let pack = Pack::open_path(directory.path(), OpenOptions::default()).unwrap();
    assert_eq!(pack.get(&Key::id(2)).unwrap().unwrap().body, b"after it".as_slice());
    let mut record = pack.open_record(&Key::id(1)).unwrap().unwrap();
    assert_eq!(record.head().body_len, Some(LEN));
    let (mut len, mut last) = (0, 0);
    while let Some(chunk) = record.next_chunk().unwrap() {
        len += chunk.len() as u64;
        last = *chunk.last().unwrap();
        let expected = if len < LEN { 0 } else { 1 };
        assert!(chunk.iter().filter(|&&byte| byte != 0).count() == expected);
    }
    assert_eq!((len, last), (LEN, 9));
}

#[test]
fn three_hundred_groups_are_written_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let storage = SimStorage::new();
    let options =
        WriterOptions { engines: WriterOptions::default().engines, ..tiny_writer(ScriptedHost::new(1)) };
    for storage in [local(directory.path()), shared(&storage)] {
        let mut writer = PackWriter::create(storage, options.clone()).unwrap();
        let mut model = PackModel::new();
        for number in 0..600_u64 {
            let body = pattern(number as usize, number);
            put(&mut writer, &mut model, &format!("group {}", number % 300), &Key::id(number), &body);
        }
        writer.sync().unwrap();
        writer.finish(false).unwrap();
    }
    let model: PackModel = (0..600).map(|n| (Key::id(n), pattern(n as usize, n))).collect();
    assert_holds(&Pack::open_path(directory.path(), OpenOptions::default()).unwrap(), &model);
    let pack = open_simulated(&storage).unwrap();
    assert_holds(&pack, &model);
    assert_eq!(pack.segments().len(), 300);
    assert_eq!(pack.get(&Key::id(299)).unwrap().unwrap().head.segment, 300);
}

#[test]
fn a_second_writer_is_told_who_the_first_is() {
    let directory = tempfile::tempdir().unwrap();
    let writer = PackWriter::create(local(directory.path()), tiny_writer(ScriptedHost::new(1))).unwrap();
    let second = PackWriter::open(local(directory.path()), WriterOptions::default());
    let message = second.unwrap_err().to_string();
    assert!(message.contains("a test") && message.contains(" is locked by "), "{message}");
    drop(writer);
    PackWriter::open(local(directory.path()), WriterOptions::default()).unwrap();
}

#[test]
fn foreign_files_are_left_alone_and_noted() {
    let storage = SimStorage::new();
    let foreign = ["notes.txt", "segment-1", "manifest-0000000000000001.bak", "checkpoint-zz"];
    let options = || tiny_writer(ScriptedHost::new(1));
    let mut model = PackModel::new();
    let mut writer = PackWriter::create(shared(&storage), options()).unwrap();
    for name in foreign {
        storage.publish_if_absent(name, b"mine").unwrap();
    }
    put(&mut writer, &mut model, "", &Key::id(1), b"one");
    writer.finish(true).unwrap();
    PackWriter::open(shared(&storage), options()).unwrap().finish(true).unwrap();
    let pack = open_simulated(&storage).unwrap();
    assert_holds(&pack, &model);
    let notes = pack.check(|_| {}).unwrap().notes.join("\n");
    for name in foreign {
        assert!(notes.contains(name), "{notes}");
        assert!(contents(&storage, name) == b"mine");
    }
}

#[test]
fn a_pack_is_made_where_nothing_else_is() {
    let storage = SimStorage::new();
    storage.publish_if_absent("holiday.jpg", b"mine").unwrap();
    let refused = PackWriter::create(shared(&storage), tiny_writer(ScriptedHost::new(1))).unwrap_err();
    assert!(
        matches!(refused, Error::NotAPack { .. }) && refused.to_string().contains("holiday.jpg"),
        "{refused}"
    );
    let names: Vec<_> = storage.list().unwrap().into_iter().map(|file| file.name).collect();
    assert_eq!(names, ["holiday.jpg"]);
}

#[test]
fn reading_changes_nothing_and_needs_no_lock() {
    let storage = SimStorage::new();
    let mut model = PackModel::new();
    let options = tiny_writer(ScriptedHost::new(1));
    let mut writer = PackWriter::create(shared(&storage), options.clone()).unwrap();
    put(&mut writer, &mut model, "", &Key::id(1), &[7; 9000]);
    writer.finish(false).unwrap();
    let watched = Arc::new(FaultStorage::new(shared(&storage)));
    let operations = storage.operation_count();
    let open = OpenOptions { engines: options.engines.clone(), ..OpenOptions::default() };
    assert_holds(&Pack::open(watched.clone(), open).unwrap(), &model);
    let reads =
        |call: &StorageCall| matches!(call, StorageCall::Open | StorageCall::List | StorageCall::Hold);
    assert!(watched.calls().iter().all(|(call, _)| reads(call)), "{:?}", watched.calls());
    assert_eq!(storage.operation_count(), operations);
    watched.inject(Some(StorageCall::Lock), 0, StorageFault::Fails(Failure::Io));
    let refused = PackWriter::open(watched, options).unwrap_err().to_string();
    assert!(refused.contains("writer.lock"), "{refused}");
}

/// A pack whose records hold copies of its own segment, and of another pack's.
fn nested() -> (SimStorage, PackModel) {
    let (inner, storage) = (SimStorage::new(), SimStorage::new());
    let mut other = PackModel::new();
    let mut writer = PackWriter::create(shared(&inner), tiny_writer(ScriptedHost::new(2))).unwrap();
    put(&mut writer, &mut other, "", &Key::id(70), &[70; 500]);
    put(&mut writer, &mut other, "", &Key::id(71), &[71; 500]);
    writer.finish(true).unwrap();
    let mut model = PackModel::new();
    let options = WriterOptions { segment_len: 1 << 20, ..tiny_writer(ScriptedHost::new(1)) };
    let mut writer = PackWriter::create(shared(&storage), options).unwrap();
    put(&mut writer, &mut model, "", &Key::id(1), &[1; 300]);
    put(&mut writer, &mut model, "", &Key::id(2), &[2; 301]);
    writer.sync().unwrap();
    let segment = "segment-0000000000000001";
    // Once at an offset that is right for a search in steps of 8, and once not.
    for (number, shift) in [(3, 0), (4, 3)] {
        let own = [vec![0; shift], contents(&storage, segment)].concat();
        put(&mut writer, &mut model, "", &Key::id(number), &own);
        let copy = [vec![0; shift], contents(&inner, segment)].concat();
        put(&mut writer, &mut model, "", &Key::id(number + 10), &copy);
        writer.sync().unwrap();
    }
    put(&mut writer, &mut model, "", &Key::id(5), b"the last");
    writer.publish().unwrap();
    (storage, model)
}

#[test]
fn frames_of_a_pack_inside_a_pack_are_never_taken_for_its_own() {
    let (storage, model) = nested();
    assert_holds(&open_simulated(&storage).unwrap(), &model);
    let (keys, name) = (model.keys().cloned().collect::<Vec<_>>(), "segment-0000000000000001");
    let bytes = contents(&storage, name);
    let marker = bytes[64..68].to_vec();
    let frames: Vec<usize> =
        (4096..bytes.len()).step_by(8).filter(|&at| bytes[at..].starts_with(&marker)).collect();
    assert!(frames.len() > model.len() + 2, "the copies hold frames too");
    for at in frames {
        for byte in [0, 4, 16, 20, 33] {
            let mut hit = bytes.clone();
            hit[at + byte] ^= 0x10;
            let mut files = super::damage::files_of(&storage);
            files.remove("writer.lock");
            let damaged = super::damage::storage_with(&files, name, Some(&hit));
            let pack = open_simulated(&damaged).unwrap();
            let reported = read_in_every_way(&pack, &keys);
            assert!(!reported.complaints.is_empty(), "byte {byte} of the frame at {at}");
            let own = reported.given.iter().all(|(key, body)| model.get(key) == Some(body));
            assert!(own, "byte {byte} of the frame at {at}: frames of the copy are taken for records");
            let last = reported.given.iter().filter(|(key, _)| *key == Key::id(5)).count();
            let hit_last = byte != 0 && last < WAYS;
            assert!(last == WAYS || hit_last || at > 4096, "the scan continues after the damage");
        }
    }
}

#[test]
fn damage_that_a_later_mark_vouches_for_is_reported_and_never_cut() {
    let storage = SimStorage::new();
    let options = || WriterOptions { checkpoint_len: 1 << 30, ..tiny_writer(ScriptedHost::new(1)) };
    let mut writer = PackWriter::create(shared(&storage), options()).unwrap();
    let mut model = PackModel::new();
    put(&mut writer, &mut model, "", &Key::id(0), &[9; 40]);
    writer.publish().unwrap();
    for number in 1..5 {
        put(&mut writer, &mut model, "", &Key::id(number), &[number as u8; 200]);
        writer.sync().unwrap();
    }
    drop(writer);
    let pack = open_simulated(&storage).unwrap();
    let offset = |number| pack.get(&Key::id(number)).unwrap().unwrap().head.offset as usize;
    let name = "segment-0000000000000001";
    let (bytes, files) = (contents(&storage, name), super::damage::files_of(&storage));
    for number in 1..5 {
        for byte in [offset(number) + 17, offset(number) + 100] {
            let mut hit = bytes.clone();
            hit[byte] ^= 1;
            let damaged = super::damage::storage_with(&files, name, Some(&hit));
            let writer = PackWriter::open(shared(&damaged), options()).unwrap();
            let recovery = writer.recovery().clone();
            drop(writer);
            let len = contents(&damaged, name).len();
            if number == 4 {
                assert_eq!((recovery.torn.len(), recovery.damages.len()), (1, 0), "no mark follows the last");
                assert_eq!(len, offset(4));
            } else {
                assert_eq!(
                    (recovery.torn.len(), recovery.damages.len()),
                    (0, 1),
                    "a mark vouches for {number}"
                );
                assert_eq!(len, bytes.len());
                let pack = open_simulated(&damaged).unwrap();
                let others = (0..5).filter(|&other| other != number);
                assert!(others.into_iter().all(|other| pack.get(&Key::id(other)).unwrap().is_some()));
            }
        }
    }
}

/// A frame as a newer version may write it: the bytes of a whole one with another kind or codec,
/// and a header checksum that is right for that.
fn of_a_newer_version(segment: &[u8], at: usize, byte: usize, value: u8) -> Vec<u8> {
    let mut bytes = segment.to_vec();
    bytes[at + byte] = value;
    let lens = [bytes[at + 12], bytes[at + 13], bytes[at + 14], bytes[at + 15]];
    let rest = 40 + usize::from(u16::from_le_bytes([lens[0], lens[1]]));
    let rest = rest + usize::from(u16::from_le_bytes([lens[2], lens[3]]));
    let crc = crc32c::crc32c(&bytes[48..64]);
    let crc = crc32c::crc32c_append(crc, &(at as u64).to_le_bytes());
    let covered = [&bytes[at..at + 4], &bytes[at + 5..at + 8], &bytes[at + 12..at + rest]].concat();
    let crc = crc32c::crc32c_append(crc, &covered);
    bytes[at + 8..at + 12].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn a_frame_of_a_newer_version_is_refused_and_not_cut_as_a_torn_tail() {
    let storage = SimStorage::new();
    let options = || WriterOptions { checkpoint_len: 1 << 30, ..tiny_writer(ScriptedHost::new(1)) };
    let mut writer = PackWriter::create(shared(&storage), options()).unwrap();
    writer.put("", &Key::id(1), &Attributes::new(), b"committed").unwrap();
    writer.publish().unwrap();
    writer.put("", &Key::bytes("two").unwrap(), &Attributes::new(), b"the last").unwrap();
    writer.sync().unwrap();
    drop(writer);
    let pack = open_simulated(&storage).unwrap();
    let at = pack.get(&Key::bytes("two").unwrap()).unwrap().unwrap().head.offset as usize;
    let name = "segment-0000000000000001";
    let (bytes, files) = (contents(&storage, name), super::damage::files_of(&storage));
    assert!(of_a_newer_version(&bytes, at, 5, 1) == bytes, "the checksum is made as the format says");
    for (byte, value) in [(5, 0), (5, 8), (5, 77), (6, 1)] {
        let newer = of_a_newer_version(&bytes, at, byte, value);
        let storage = super::damage::storage_with(&files, name, Some(&newer));
        let refused = open_simulated(&storage).unwrap_err();
        let reason = std::error::Error::source(&refused).unwrap().to_string();
        assert!(reason.contains("newer version"), "{refused}: {reason}");
        PackWriter::open(shared(&storage), options()).unwrap_err();
        assert!(contents(&storage, name) == newer, "byte {byte}, value {value}");
        let mut torn = newer.clone();
        torn[at + 8] ^= 1;
        let storage = super::damage::storage_with(&files, name, Some(&torn));
        assert_eq!(open_simulated(&storage).unwrap().torn_tails().len(), 1, "a checksum that is wrong");
    }
}
