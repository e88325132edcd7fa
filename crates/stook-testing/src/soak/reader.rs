//! A reader: opens the pack repeatedly, and reads each opened state more than once.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use stook::pack::{Key, OpenOptions, Pack};

use super::{BATCH_KEYS, Chance, STOP, action_of, number};
use crate::model::pack::{PackModel, scanned};

/// Checks states until the directory contains a stop file; returns how many it opened.
///
/// # Panics
/// Panics if a state was not made by a writer, or changes.
pub fn read(directory: &Path, stop_in: &Path, seed: u64) -> u64 {
    let mut chance = Chance(seed);
    let mut opened = 0;
    while !stop_in.join(STOP).exists() {
        let pack = match Pack::open_path(directory, OpenOptions::default()) {
            Err(stook::pack::Error::NotAPack { .. }) => {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            pack => pack.expect("a pack opens while it is written"),
        };
        assert_eq!(pack.damages(), [], "generation {}", pack.generation());
        opened += 1;
        let seen = scanned(&pack).expect("what was opened is read");
        let versions = versions_of(&seen);
        let batches: Vec<Option<&u64>> = BATCH_KEYS.map(|key| versions.get(&key)).collect();
        assert!(batches.windows(2).all(|two| two[0] == two[1]), "half of a batch: {batches:?}");
        for _ in 0..chance.below(4) {
            thread::sleep(Duration::from_millis(chance.below(60)));
            assert!(scanned(&pack).expect("what was opened stays") == seen, "a snapshot changed");
            let keys: Vec<Key> = seen.keys().cloned().collect();
            let again = pack.get_many(&keys).expect("what was opened stays");
            for ((key, body), record) in seen.iter().zip(again) {
                let record = record.expect("it was whole").expect("it was there");
                assert!(record.head.key == *key && record.body == body, "{key} changed");
            }
        }
    }
    opened
}

/// Which action put each record.
///
/// # Panics
/// Panics if a record was not put by any action.
pub(super) fn versions_of(seen: &PackModel) -> BTreeMap<u64, u64> {
    let version = |(key, body): (&Key, &Vec<u8>)| {
        let number = number(key).unwrap_or_else(|| panic!("{key} was never put"));
        let action = action_of(number, body).unwrap_or_else(|| panic!("{key} holds what was never put"));
        (number, action)
    };
    seen.iter().map(version).collect()
}
