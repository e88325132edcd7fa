//! Files of a pack that end too early, at every byte.

use stook::pack::{Error, PackWriter};
use stook::storage::Storage;
use stook_testing::model::pack::{assert_holds, open_simulated, scanned};

use super::damage::{Outcome, Small, is_version, options, outcome, shared, small, storage_with};

fn names(small: &Small, kind: &str) -> Vec<String> {
    let names: Vec<String> = small.files.keys().filter(|name| name.starts_with(kind)).cloned().collect();
    assert!(!names.is_empty(), "the small pack has a {kind}");
    names
}

/// Opens for every length of a file, but only every 61st inside long spans of zeros.
fn lens(bytes: &[u8]) -> impl Iterator<Item = usize> {
    (0..bytes.len()).filter(|&len| {
        let near = &bytes[len.saturating_sub(16)..(len + 16).min(bytes.len())];
        len % 61 == 0 || near.iter().any(|&byte| byte != 0)
    })
}

#[test]
fn a_sealed_segment_cut_anywhere_is_reported() {
    let small = small();
    for name in names(&small, "segment-").iter().take(2) {
        let bytes = &small.files[name];
        for len in lens(bytes) {
            let what = format!("{name} cut to {len}");
            let storage = storage_with(&small.files, name, Some(&bytes[..len]));
            let outcome = outcome(&storage, &small, &what);
            assert!(!matches!(outcome, Outcome::Harmless), "{what}: not reported");
        }
    }
}

#[test]
fn a_manifest_or_deletion_vector_cut_anywhere_is_reported() {
    let small = small();
    let newest = names(&small, "manifest-").pop().unwrap();
    for name in names(&small, "deletes-").into_iter().chain([newest]) {
        let bytes = &small.files[&name];
        for len in lens(bytes) {
            let what = format!("{name} cut to {len}");
            let storage = storage_with(&small.files, &name, Some(&bytes[..len]));
            let outcome = outcome(&storage, &small, &what);
            let half = bytes.len() / 2;
            let named = len < half && name.starts_with("manifest-") || matches!(outcome, Outcome::Reported);
            assert!(named, "{what}: not reported");
            assert!(!matches!(outcome, Outcome::Harmless), "{what}: not reported");
        }
    }
}

#[test]
fn a_checkpoint_cut_anywhere_or_missing_costs_nothing() {
    let small = small();
    for name in names(&small, "checkpoint-") {
        let bytes = &small.files[&name];
        for len in lens(bytes).map(Some).chain([None]) {
            let storage = storage_with(&small.files, &name, len.map(|len| &bytes[..len]));
            assert_holds(&open_simulated(&storage).unwrap(), &small.model);
        }
    }
}

#[test]
fn an_active_segment_cut_after_the_last_mark_loses_what_follows_it_and_grows_on() {
    let small = small();
    let name = names(&small, "segment-").pop().unwrap();
    let bytes = &small.files[&name];
    let mut fewer = 0;
    for len in lens(bytes) {
        let what = format!("{name} cut to {len}");
        let storage = storage_with(&small.files, &name, Some(&bytes[..len]));
        let Ok(pack) = open_simulated(&storage) else { continue };
        if !pack.damages().is_empty() {
            assert!(matches!(outcome(&storage, &small, &what), Outcome::Reported));
            continue;
        }
        // This cannot be distinguished from a crash before the rest was written.
        let held = scanned(&pack).unwrap();
        fewer += usize::from(held != small.model);
        assert!(held.iter().all(|(key, body)| is_version(body, key)), "{what}");
        let mut writer = PackWriter::open(shared(&storage), options()).unwrap();
        assert_eq!(writer.recovery().torn, pack.torn_tails());
        writer.sync().unwrap();
        drop(writer);
        assert_holds(&open_simulated(&storage).unwrap(), &held);
    }
    assert!(fewer > 100, "{fewer}");
}

#[test]
fn a_damaged_segment_is_left_as_it_is_and_the_pack_grows_on() {
    let small = small();
    let name = names(&small, "segment-").pop().unwrap();
    let bytes = &small.files[&name];
    // Every one of these lies below the committed length; odd ones cannot be the end of a frame.
    for len in (4096..5400).step_by(13) {
        let storage = storage_with(&small.files, &name, Some(&bytes[..len]));
        let before = scanned_in_spite(&storage, &small);
        for round in 0..2 {
            let mut writer = PackWriter::open(shared(&storage), options()).unwrap();
            assert_ne!(writer.recovery().damages, [], "cut to {len}");
            let key = super::damage::key(11);
            writer.put("c", &key, &Default::default(), &[round; 100]).unwrap();
            writer.sync().unwrap();
            drop(writer);
            let pack = open_simulated(&storage).unwrap();
            assert_eq!(pack.get(&key).unwrap().unwrap().body, [round; 100].as_slice(), "cut to {len}");
            assert_eq!(scanned_in_spite(&storage, &small), before, "cut to {len}");
        }
        assert!(stook_testing::conformance::contents(&storage, &name) == bytes[..len], "cut to {len}");
    }
}

/// How many records of the small pack can still be got.
fn scanned_in_spite(storage: &stook_testing::sim::SimStorage, small: &Small) -> usize {
    let pack = open_simulated(storage).unwrap();
    small
        .keys
        .iter()
        .filter(|key| small.model.contains_key(key) && matches!(pack.get(key), Ok(Some(_))))
        .count()
}

#[test]
fn a_missing_file_is_reported_and_nothing_of_the_rest_is_lost() {
    let small = small();
    for name in small.files.keys().filter(|name| name.starts_with("segment-") || name.starts_with("deletes-"))
    {
        let storage = storage_with(&small.files, name, None);
        let outcome = outcome(&storage, &small, name);
        assert!(matches!(outcome, Outcome::Reported), "{name} is missing");
        let before = storage.list().unwrap();
        if let Ok(writer) = PackWriter::open(shared(&storage), options()) {
            assert_ne!(writer.recovery().damages, [], "{name} is missing");
            drop(writer);
        }
        let after: Vec<String> = storage.list().unwrap().into_iter().map(|entry| entry.name).collect();
        let kept = before.iter().filter(|entry| !entry.name.starts_with("checkpoint-"));
        for entry in kept.filter(|entry| !entry.name.starts_with("manifest-")) {
            assert!(after.contains(&entry.name), "{} went because {name} is missing", entry.name);
        }
    }
}

#[test]
fn a_pack_without_manifests_is_no_pack_and_is_not_built_over() {
    let small = small();
    let mut files = small.files.clone();
    files.retain(|name, _| !name.starts_with("manifest-"));
    let storage = storage_with(&files, "", None);
    assert!(matches!(open_simulated(&storage), Err(Error::NotAPack { .. })));
    assert!(matches!(PackWriter::open(shared(&storage), options()), Err(Error::NotAPack { .. })));
    // Before: a new pack was to be made in another place, and the old one was given up.
    let refused = PackWriter::create(shared(&storage), options()).unwrap_err();
    assert!(matches!(refused, Error::NotAPack { .. }), "{refused}");
    assert!(refused.to_string().contains("`stook check --repair` saves"), "{refused}");
    assert_eq!(
        super::damage::files_of(&storage).keys().collect::<Vec<_>>(),
        files.keys().collect::<Vec<_>>()
    );
}
