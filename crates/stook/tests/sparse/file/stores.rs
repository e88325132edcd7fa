//! Files whose bytes are held in a store, by a name that may mean something else the next time.

use std::sync::Arc;

use bytes::Bytes;
use stook::source::Source;
use stook::sparse::{OnDifference, SparseError, SparseFile, SparseFileOptions, SparseOptions, SparseStore};
use stook_testing::conformance::pattern;

use super::{CountedSource, part, range};
use crate::disk::Tagged;

const LEN: u64 = 100_000;

fn store(budget_bytes: u64) -> SparseStore {
    SparseStore::new(SparseOptions { budget_bytes, ..SparseOptions::default() }).unwrap()
}

fn bytes(seed: u64) -> Bytes {
    Bytes::from(pattern(LEN as usize, seed))
}

fn open(source: Arc<dyn Source>, store: &SparseStore) -> SparseFile {
    SparseFile::in_store(source, store, "name", SparseFileOptions::default()).unwrap()
}

fn whole(file: &SparseFile) -> Bytes {
    file.read(range(0, LEN)).unwrap()
}

#[test]
fn what_is_held_is_given_to_the_next_file_over_the_same_state_of_the_same_source() {
    let store = store(u64::MAX);
    assert_eq!(whole(&open(Tagged::new("a", "1", bytes(1)), &store)), bytes(1));
    assert_eq!(store.held_bytes(), LEN, "it stays when the file ends");
    let again = Tagged::new("a", "1", bytes(1));
    let (one, other) = (open(again.clone(), &store), open(again.clone(), &store));
    assert_eq!((whole(&one), whole(&other)), (bytes(1), bytes(1)));
    assert!(again.asked().is_empty(), "{:?}", again.asked());
    assert!(
        Arc::ptr_eq(one.buffer(), other.buffer()) && Arc::ptr_eq(one.buffer(), &store.get("name").unwrap())
    );
}

#[test]
fn another_state_and_another_source_get_none_of_the_bytes_held() {
    let store = store(u64::MAX);
    for (name, etag, seed) in [("a", "1", 1), ("a", "2", 2), ("b", "2", 3), ("a", "1", 4)] {
        let file = open(Tagged::new(name, etag, bytes(seed)), &store);
        assert_eq!(whole(&file), bytes(seed), "{name} {etag}");
        assert_eq!((store.held_bytes(), store.len()), (LEN, 1), "those before are gone");
    }
    let weak = |seed| open(Tagged::new("a", "W/1", bytes(seed)), &store);
    assert_eq!((whole(&weak(5)), whole(&weak(6))), (bytes(5), bytes(6)), "a weak ETag proves nothing");
}

#[test]
fn files_of_two_sources_under_one_name_are_both_right_within_the_budget() {
    let store = store(40_000);
    let files = [("a", 1), ("b", 2), ("c", 3)]
        .map(|(name, seed)| (open(Tagged::new(name, "1", bytes(seed)), &store), bytes(seed)));
    for round in 0..3 {
        for (file, bytes) in &files {
            for start in (0..LEN).step_by(10_000) {
                let wanted = range(start, start + 10_000);
                assert_eq!(file.read(wanted).unwrap(), part(bytes, wanted), "round {round}");
                assert!(store.held_bytes() <= 40_000);
                let held: u64 = files.iter().map(|(file, _)| file.buffer().held_bytes()).sum();
                assert_eq!(held, store.held_bytes(), "all of them count");
            }
        }
    }
    let [_, _, last] = files;
    assert_eq!(last.0.buffer().held_bytes(), store.held_bytes(), "what is gone does not count");
}

#[test]
fn what_is_not_proven_goes_with_the_last_file_over_it() {
    let store = store(u64::MAX);
    // Of bytes in memory nothing but the length is known.
    let (one, other) =
        (open(CountedSource::new(bytes(1)), &store), open(CountedSource::new(bytes(2)), &store));
    assert_eq!((whole(&one), whole(&other)), (bytes(1), bytes(2)));
    assert_eq!(store.held_bytes(), 2 * LEN);
    drop(one);
    assert_eq!(store.held_bytes(), LEN);
    assert_eq!(whole(&other), bytes(2));
    drop(other);
    assert_eq!(store.held_bytes(), 0);
    assert_eq!(whole(&open(CountedSource::new(bytes(3)), &store)), bytes(3));
}

#[test]
fn bytes_of_which_nothing_says_whose_they_are_are_neither_believed_nor_dropped() {
    let store = store(u64::MAX);
    let buffer = store.get_or_create("name");
    let file = open(Tagged::new("a", "1", bytes(1)), &store);
    assert!(Arc::ptr_eq(file.buffer(), &buffer), "an empty one is as good as a new one");
    let store = self::store(u64::MAX);
    store.get_or_create("name").write(0, b"whose?", OnDifference::Error).unwrap();
    let source = Tagged::new("a", "1", bytes(1));
    let refused = SparseFile::in_store(source, &store, "name", SparseFileOptions::default()).unwrap_err();
    assert!(matches!(refused, SparseError::NotOfASource { .. }), "{refused}");
    assert_eq!(store.held_bytes(), 6);
}
