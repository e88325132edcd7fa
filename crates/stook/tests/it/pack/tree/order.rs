//! Where the files of a tree lie in a new pack.

use std::collections::BTreeMap;

use stook::pack::KeyRange;
use stook::profile::Profile;

use super::{PackTree, Place, write};

const DIRECTORIES: usize = 80;
const FILES: usize = 50;
const FILE_LEN: usize = 20_000;
/// Which a directory of a megabyte may span.
const SPAN_MAX_BYTES: u64 = 4 << 20;

/// How far each directory reaches from the first byte of its records to the last.
fn spans(place: &Place) -> BTreeMap<Vec<u8>, u64> {
    let pack = place.open();
    let mut reach: BTreeMap<Vec<u8>, (u64, u64)> = BTreeMap::new();
    let mut at = 0;
    for entry in pack.keys_on_disk(&KeyRange::all(), &[]) {
        let entry = entry.unwrap();
        let end = at + entry.stored_bytes.unwrap();
        let key = entry.key.as_bytes().unwrap();
        if let Some(slash) = key.iter().rposition(|byte| *byte == b'/').filter(|_| key.ends_with(b".bin")) {
            reach.entry(key[..slash].to_vec()).or_insert((at, end)).1 = end;
        }
        at = end;
    }
    reach.into_iter().map(|(directory, (from, to))| (directory, to - from)).collect()
}

#[test]
fn the_files_of_a_directory_lie_together_however_many_threads_read_them() {
    let place = Place::new();
    let body: Vec<u8> = (0..FILE_LEN).map(|at| (at * 31) as u8).collect();
    for directory in 0..DIRECTORIES {
        for file in 0..FILES {
            let (above, below) = (directory / 10, directory % 10);
            write(place.tree().join(format!("d{above}/s{below}/f{file:02}.bin")), &body);
        }
    }
    let summary = place.pack_with(&PackTree { threads: Profile::LOCAL.opens, ..place.packing() });
    assert_eq!(summary.files as usize, DIRECTORIES * FILES);
    let mut spans: Vec<u64> = spans(&place).into_values().collect();
    assert_eq!(spans.len(), DIRECTORIES);
    spans.sort_unstable();
    let median = spans[DIRECTORIES / 2];
    assert!(median <= SPAN_MAX_BYTES, "median {median}, longest {:?}", spans.last());
}
