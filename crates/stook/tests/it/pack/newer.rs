//! Segments of a newer version: where a checksum vouches for the version, the segment costs itself
//! alone, and no writer touches its pack. Else the version was hit, which is damage.

use stook::pack::{Error, Key, OpenOptions, Pack, PackWriter, repair};
use stook_testing::model::pack::{PackModel, open_simulated, read_in_every_way, scanned};
use stook_testing::sim::SimStorage;

use super::damage::{Small, files_of, options, shared, small, storage_with};

/// Where the header of a segment says its version, and where its checksum is.
const VERSION_AT: usize = 8;
const CRC_AT: usize = 4092;

fn segments(small: &Small) -> impl Iterator<Item = (&String, &Vec<u8>)> {
    small.files.iter().filter(|(name, _)| name.starts_with("segment-"))
}

/// The segment with the header of a later version.
fn of_the_next_version(segment: &[u8]) -> Vec<u8> {
    let mut bytes = segment.to_vec();
    bytes[VERSION_AT] = 2;
    let crc = crc32c::crc32c(&bytes[..CRC_AT]);
    bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn what_is_left(storage: &SimStorage) -> Pack {
    let options = OpenOptions { engines: options().engines, ..OpenOptions::default() };
    Pack::open_what_is_left(shared(storage), options).unwrap()
}

/// What a repair saves, and which damage it reports.
fn saved(storage: &SimStorage) -> (PackModel, Vec<String>) {
    let (to, aside) = (SimStorage::new(), SimStorage::new());
    let mut quarantine = || Ok(shared(&aside));
    let repaired = repair(storage, shared(&to), options(), &mut quarantine, &mut |_| true).unwrap();
    let damages = repaired.damages.iter().map(ToString::to_string).collect();
    (scanned(&open_simulated(&to).unwrap()).unwrap(), damages)
}

#[test]
fn a_version_that_was_hit_is_damage_of_that_segment_and_costs_no_record() {
    let small = small();
    for (name, bytes) in segments(&small) {
        for at in [VERSION_AT, VERSION_AT + 1] {
            let mut hit = bytes.clone();
            hit[at] ^= 0x54;
            let storage = storage_with(&small.files, name, Some(&hit));
            let pack = open_simulated(&storage).unwrap();
            let damages = pack.damages();
            assert!(damages.len() == 1 && damages[0].file.ends_with(name), "{name}: {damages:?}");
            assert!(damages[0].what.contains("checksum"), "{}", damages[0].what);
            let read = read_in_every_way(&pack, &small.keys);
            for (key, body) in &small.model {
                assert!(
                    read.given.iter().any(|given| given == &(key.clone(), body.clone())),
                    "{name}: {key}"
                );
            }
            let (saved, damages) = saved(&storage);
            assert!(saved == small.model, "{name}: {:?} are saved", saved.keys());
            assert!(damages.iter().all(|damage| !damage.contains("newer version")), "{damages:?}");
        }
    }
}

#[test]
fn a_segment_of_a_newer_version_costs_readers_a_check_and_a_repair_itself_alone() {
    let small = small();
    let mut costs = 0;
    for (name, bytes) in segments(&small) {
        let storage = storage_with(&small.files, name, Some(&of_the_next_version(bytes)));
        let pack = open_simulated(&storage).unwrap();
        let damages = pack.damages();
        let newer = damages.iter().find(|damage| damage.file.ends_with(name)).unwrap();
        assert!(newer.is_of_newer() && !newer.is_denied(), "{newer:?}");
        assert!(newer.what.contains("newer version of stook: segment header version 2"), "{newer}");
        let without = open_simulated(&storage_with(&small.files, name, None)).unwrap();
        let is_left = |key: &&Key| matches!(without.get(key), Ok(Some(_)));
        let left: PackModel = small
            .model
            .iter()
            .filter(|(key, _)| is_left(key))
            .map(|(key, body)| (key.clone(), body.clone()))
            .collect();
        costs += small.model.len() - left.len();
        // What is there is given, and nothing else is said not to be there.
        for key in small.model.keys() {
            let got = |pack: &Pack| pack.get(key).map(|found| found.map(|record| record.body.to_vec()));
            assert_eq!(got(&pack).ok(), got(&without).ok(), "{name}: {key}");
            let is_refused = matches!(got(&pack), Err(Error::Damaged(_)));
            assert!(is_refused != left.contains_key(key), "{name}: {key}");
        }

        let report = what_is_left(&storage).check(|_| {}).unwrap();
        let newer = report.damages.iter().find(|damage| damage.file.ends_with(name)).unwrap();
        assert!(newer.what.contains("newer version of stook: segment header version 2"), "{newer}");
        assert!(report.notes.iter().any(|note| note.contains("newer version")), "{:?}", report.notes);
        assert!(report.records >= left.len() as u64, "{report:?}");
        let (saved, damages) = saved(&storage);
        assert!(left.iter().all(|(key, body)| saved.get(key) == Some(body)), "{name}: {:?}", saved.keys());
        assert!(damages.iter().any(|damage| damage.contains("newer version")), "{damages:?}");
    }
    assert!(costs > 0, "the segments hold something");
}

/// Before: a writer was refused because the pack could not be opened.
#[test]
fn a_pack_with_a_segment_of_a_newer_version_is_written_to_by_nobody() {
    let small = small();
    for (name, bytes) in segments(&small) {
        let storage = storage_with(&small.files, name, Some(&of_the_next_version(bytes)));
        let but_the_note = |storage: &SimStorage| {
            let mut files = files_of(storage);
            files.retain(|name, _| name != "writer.lock");
            files
        };
        let before = but_the_note(&storage);
        let is_refused =
            |error: &Error| matches!(error, Error::Unsupported { path, .. } if path.ends_with(name));
        let said = open_simulated(&storage).unwrap().check_writable().unwrap_err();
        assert!(is_refused(&said), "{said}");
        let refused = PackWriter::open(shared(&storage), options()).unwrap_err();
        assert!(is_refused(&refused) && refused.to_string() == said.to_string(), "{refused}");
        assert!(but_the_note(&storage) == before, "{name}: something was cut or written");
    }
}
