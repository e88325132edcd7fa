//! What every implementation of [`Storage`] must do.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;

use stook::Error;
use stook::extent::ByteRange;
use stook::source::{Leaf, Source, read_object};
use stook::storage::Storage;

/// Reads a source leaf by leaf, without an engine: the expected bytes of a test should not be read
/// by the code under test.
///
/// # Panics
/// Panics if a leaf cannot be read in full.
pub fn read_all(source: &dyn Source) -> Vec<u8> {
    let mut leaves = Vec::new();
    source.resolve(ByteRange::to(source.len()), &mut leaves).expect("the whole source resolves");
    read_leaves(&leaves)
}

fn read_leaves(leaves: &[Leaf]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for leaf in leaves {
        match leaf {
            Leaf::Bytes(part) => bytes.extend_from_slice(part),
            Leaf::Fill { byte, len } => bytes.resize(bytes.len() + *len as usize, *byte),
            Leaf::Object { object, range } => {
                bytes.extend_from_slice(&read_object(object, *range).expect("the object is read"));
            }
            Leaf::Checked { check, len } => {
                let part = check.verify(read_leaves(check.leaves()).into()).expect("the bytes verify");
                assert_eq!(part.len() as u64, *len, "a checked leaf is as long as it says");
                bytes.extend_from_slice(&part);
            }
            Leaf::File { file, range } => {
                let start = bytes.len();
                bytes.resize(start + range.len() as usize, 0);
                let file = fs::File::open(file.path()).expect("the file is there");
                file.read_exact_at(&mut bytes[start..], range.start()).expect("the file is long enough");
            }
        }
    }
    bytes
}

/// The contents of a file of a storage.
///
/// # Panics
/// Panics if it is missing or cannot be read.
pub fn contents(storage: &dyn Storage, name: &str) -> Vec<u8> {
    read_all(&*storage.open(name).expect("the file opens"))
}

/// `len` bytes in which neighbours, blocks and pages differ, and none is zero.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let byte = |at: u64| ((at.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).max(1);
    (0..len as u64).map(byte).collect()
}

/// Runs every test of the suite, each on a fresh storage.
///
/// # Panics
/// Panics if the storage violates its contract.
pub fn storage_conformance(make: impl Fn() -> Box<dyn Storage>) {
    what_is_appended_is_read_back_at_every_size(&*make());
    appending_goes_on_where_it_ended(&*make());
    a_truncated_file_ends_there_and_grows_again(&*make());
    what_is_held_is_not_removed_until_the_last_lets_go(&*make());
    zeros_come_back_as_zeros(&*make());
    a_name_is_created_once(&*make());
    missing_files_are_not_found(&*make());
    names_that_are_no_plain_component_are_refused(&*make());
    renaming_replaces_and_unlinking_removes(&*make());
    a_publication_is_there_once(&*make());
    one_of_many_publications_wins(&Arc::from(make()));
    a_lock_is_held_by_one(&Arc::from(make()));
    a_lock_is_not_let_go_by_removing_its_note(&*make());
    a_note_of_a_lock_takes_the_place_of_what_has_its_name(&*make());
    a_source_keeps_the_length_it_was_opened_with(&*make());
    many_files_grow_at_once(&*make());
    files_grow_in_threads(&Arc::from(make()));
}

fn what_is_appended_is_read_back_at_every_size(storage: &dyn Storage) {
    let sizes = [0, 1, 511, 512, 513, 4095, 4096, 4097, 65_535, 65_536, 65_537, 131_072, 300_000, 2_500_000];
    for len in sizes {
        let name = format!("file-{len}");
        let bytes = pattern(len, len as u64);
        let mut appender = storage.create(&name).expect("it is created");
        let (first, second) = bytes.split_at(len / 3);
        appender.append(&[first, &[], second]).expect("it is appended");
        assert_eq!(appender.len(), len as u64);
        assert_eq!(appender.is_empty(), len == 0);
        appender.sync().expect("it is synced");
        assert!(contents(storage, &name) == bytes, "{len} bytes come back");
    }
    storage.sync_directory().expect("the directory is synced");
    let listed = storage.list().expect("it lists");
    assert!(listed.is_sorted_by(|a, b| a.name < b.name));
    let mut lens: Vec<usize> = listed.iter().map(|entry| entry.len as usize).collect();
    lens.sort_unstable();
    assert_eq!(lens, sizes);
}

fn appending_goes_on_where_it_ended(storage: &dyn Storage) {
    let mut expected = Vec::new();
    drop(storage.create("log").expect("it is created"));
    for round in 0..12 {
        let mut appender = storage.open_append("log").expect("it opens");
        assert_eq!(appender.len(), expected.len() as u64);
        for part in 0..3 {
            let bytes = pattern(7_919 * (round + part), (round * 10 + part) as u64);
            appender.append(&[&bytes]).expect("it is appended");
            expected.extend_from_slice(&bytes);
            if part == 1 {
                appender.flush().expect("it is flushed");
                assert!(contents(storage, "log") == expected, "round {round}");
            }
        }
        appender.sync().expect("it is synced");
        assert!(contents(storage, "log") == expected, "round {round}");
    }
}

fn a_truncated_file_ends_there_and_grows_again(storage: &dyn Storage) {
    let bytes = pattern(200_000, 1);
    for (number, len) in [0usize, 1, 4096, 65_536, 100_000, 199_999, 200_000].into_iter().enumerate() {
        for flushed in [0, 70_000, 200_000] {
            let name = format!("file-{number}-{flushed}");
            let mut appender = storage.create(&name).expect("it is created");
            appender.append(&[&bytes[..flushed]]).expect("it is appended");
            appender.flush().expect("it is flushed");
            appender.append(&[&bytes[flushed..]]).expect("it is appended");
            let too_long = appender.truncate(200_001).expect_err("a file is not made longer");
            assert_eq!(too_long.io_kind(), Some(io::ErrorKind::InvalidInput));
            appender.truncate(len as u64).expect("it is truncated");
            assert_eq!(appender.len(), len as u64);
            appender.append(&[b"after"]).expect("it grows again");
            appender.sync().expect("it is synced");
            let expected = [&bytes[..len], b"after"].concat();
            assert!(contents(storage, &name) == expected, "{len} of {flushed} flushed");
        }
    }
}

fn zeros_come_back_as_zeros(storage: &dyn Storage) {
    let zeros = vec![0; 2_200_000];
    let mut appender = storage.create("zeros").expect("it is created");
    appender.append(&[b"head", &zeros, b"middle", &zeros]).expect("it is appended");
    appender.flush().expect("it is flushed");
    let expected = [&b"head"[..], &zeros, b"middle", &zeros].concat();
    assert!(contents(storage, "zeros") == expected, "zeros in the middle and at the end");
    appender.append(&[&zeros]).expect("it is appended");
    appender.truncate(3_000_000).expect("it is truncated among zeros");
    appender.append(&[&zeros, b"tail"]).expect("it is appended");
    appender.sync().expect("it is synced");
    let expected = [&expected[..3_000_000], &zeros, b"tail"].concat();
    assert!(contents(storage, "zeros") == expected, "zeros after a truncate");
}

fn a_name_is_created_once(storage: &dyn Storage) {
    let mut appender = storage.create("a").expect("it is created");
    appender.append(&[b"first"]).expect("it is appended");
    appender.sync().expect("it is synced");
    let error = storage.create("a").expect_err("the name is taken");
    assert!(matches!(error, Error::AlreadyExists { ref path } if *path == storage.path("a")), "{error}");
    assert_eq!(contents(storage, "a"), b"first");
}

fn missing_files_are_not_found(storage: &dyn Storage) {
    let errors = [
        storage.open("none").expect_err("open"),
        storage.open_append("none").expect_err("open_append"),
        storage.unlink("none").expect_err("unlink"),
        storage.rename("none", "other").expect_err("rename"),
    ];
    for error in errors {
        assert_eq!(error.io_kind(), Some(io::ErrorKind::NotFound), "{error}");
        assert!(error.to_string().contains("none"), "{error}");
    }
    assert_eq!(storage.list().expect("it lists"), []);
    assert_eq!(storage.remove_leftovers().expect("there are none"), 0);
}

fn names_that_are_no_plain_component_are_refused(storage: &dyn Storage) {
    drop(storage.create("good").expect("it is created"));
    for name in ["", ".", "..", "a/b", "/a", "../a", ".tmp-1", "a\0b"] {
        let errors = [
            storage.create(name).expect_err("create"),
            storage.open(name).expect_err("open"),
            storage.open_append(name).expect_err("open_append"),
            storage.publish_if_absent(name, b"").expect_err("publish"),
            storage.rename("good", name).expect_err("rename to"),
            storage.rename(name, "good").expect_err("rename from"),
            storage.unlink(name).expect_err("unlink"),
            storage.lock(name, "holder").expect_err("lock"),
        ];
        for error in errors {
            assert_eq!(error.io_kind(), Some(io::ErrorKind::InvalidInput), "{name:?}: {error}");
        }
    }
    assert_eq!(storage.list().expect("it lists").len(), 1);
}

fn renaming_replaces_and_unlinking_removes(storage: &dyn Storage) {
    storage.publish_if_absent("a", b"a").expect("a is published");
    storage.publish_if_absent("b", b"b").expect("b is published");
    storage.rename("a", "b").expect("it is renamed");
    storage.sync_directory().expect("the directory is synced");
    assert_eq!(contents(storage, "b"), b"a");
    assert_eq!(storage.list().expect("it lists").len(), 1);
    storage.unlink("b").expect("it is removed");
    assert_eq!(storage.list().expect("it lists"), []);
}

fn a_publication_is_there_once(storage: &dyn Storage) {
    for len in [0, 1, 100_000] {
        let (name, bytes) = (format!("published-{len}"), pattern(len, 5));
        storage.publish_if_absent(&name, &bytes).expect("it is published");
        let error = storage.publish_if_absent(&name, b"other").expect_err("the name is taken");
        assert!(
            matches!(error, Error::AlreadyExists { ref path } if *path == storage.path(&name)),
            "{error}"
        );
        assert!(contents(storage, &name) == bytes);
    }
    assert_eq!(storage.list().expect("it lists").len(), 3);
    assert_eq!(storage.remove_leftovers().expect("there are none"), 0);
}

fn one_of_many_publications_wins(storage: &Arc<dyn Storage>) {
    let publish = |number: usize| {
        let storage = Arc::clone(storage);
        thread::spawn(move || storage.publish_if_absent("one", &pattern(10_000, number as u64)).is_ok())
    };
    let threads: Vec<_> = (0..8).map(publish).collect();
    let won: Vec<bool> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
    assert_eq!(won.iter().filter(|won| **won).count(), 1, "{won:?}");
    let winner = won.iter().position(|won| *won).expect("one won");
    assert!(contents(&**storage, "one") == pattern(10_000, winner as u64));
    assert_eq!(storage.remove_leftovers().expect("it cleans"), 0);
}

fn a_lock_is_held_by_one(storage: &Arc<dyn Storage>) {
    let lock = storage.lock("lock", "the first").expect("it is free");
    let other = Arc::clone(storage);
    let refuse = move || other.lock("lock", "the second").expect_err("it is held");
    for error in [refuse(), thread::spawn(refuse).join().expect("no panic")] {
        assert!(error.to_string().contains("the first"), "{error}");
        let is_it = |path: &std::path::Path| Some(path) == storage.path("lock").parent();
        assert!(matches!(error, Error::Locked { ref path, .. } if is_it(path)), "{error}");
    }
    drop(lock);
    let lock = storage.lock("lock", "2").expect("it is free again");
    let error = storage.lock("lock", "3").expect_err("it is held again");
    assert!(error.to_string().contains("by 2") && !error.to_string().contains("first"), "{error}");
    drop(lock);
}

fn a_lock_is_not_let_go_by_removing_its_note(storage: &dyn Storage) {
    let lock = storage.lock("lock", "the first").expect("it is free");
    storage.unlink("lock").expect("the note is a file");
    let error = storage.lock("lock", "the second").expect_err("it is held");
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    let error =
        storage.lock("another", "the second").expect_err("there is one lock, whatever its note is called");
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    drop(lock);
    drop(storage.lock("another", "the second").expect("it is free"));
}

fn a_note_of_a_lock_takes_the_place_of_what_has_its_name(storage: &dyn Storage) {
    storage.publish_if_absent("lock", b"of a writer that was killed").expect("it is published");
    let lock = storage.lock("lock", "the next").expect("it is free");
    assert_eq!(lock.waited_for(), None);
    let note = String::from_utf8(contents(storage, "lock")).expect("it is text");
    assert!(note.contains("the next") && !note.contains("killed"), "{note}");
    drop(lock);
    assert!(storage.list().expect("it lists").is_empty(), "a lock that was let go leaves no note");
}

fn a_source_keeps_the_length_it_was_opened_with(storage: &dyn Storage) {
    let mut appender = storage.create("log").expect("it is created");
    appender.append(&[b"12345"]).expect("it is appended");
    appender.flush().expect("it is flushed");
    let source = storage.open("log").expect("it opens");
    source.check_unchanged().expect("nothing changed");
    appender.append(&[b"67890"]).expect("it is appended");
    appender.flush().expect("it is flushed");
    assert_eq!(read_all(&*source), b"12345");
    assert!(matches!(source.check_unchanged(), Err(Error::SourceChanged { .. })));
    let past = source.resolve(ByteRange::to(6), &mut Vec::new()).expect_err("past its end");
    assert!(matches!(past, Error::OutOfBounds { len: 5, .. }), "{past}");
}

fn many_files_grow_at_once(storage: &dyn Storage) {
    let names: Vec<String> = (0..200).map(|number| format!("group-{number:03}")).collect();
    let mut appenders: Vec<_> = names.iter().map(|name| storage.create(name).expect("created")).collect();
    for round in 0..4 {
        for (number, appender) in appenders.iter_mut().enumerate() {
            appender.append(&[&pattern(30_000, number as u64 + round)]).expect("it is appended");
        }
    }
    for (number, (name, appender)) in names.iter().zip(&mut appenders).enumerate() {
        appender.sync().expect("it is synced");
        let expected: Vec<u8> = (0..4).flat_map(|round| pattern(30_000, number as u64 + round)).collect();
        assert!(contents(storage, name) == expected, "{name}");
    }
}

fn files_grow_in_threads(storage: &Arc<dyn Storage>) {
    let grow = |number: u64| {
        let storage = Arc::clone(storage);
        thread::spawn(move || {
            let name = format!("thread-{number}");
            let mut appender = storage.create(&name).expect("it is created");
            for round in 0..40 {
                appender.append(&[&pattern(50_000, number * 100 + round)]).expect("it is appended");
                if round % 7 == number {
                    appender.sync().expect("it is synced");
                }
            }
            appender.sync().expect("it is synced");
            let expected: Vec<u8> = (0..40).flat_map(|round| pattern(50_000, number * 100 + round)).collect();
            assert!(contents(&*storage, &name) == expected, "{name}");
        })
    };
    let threads: Vec<_> = (0..6).map(grow).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

fn what_is_held_is_not_removed_until_the_last_lets_go(storage: &dyn Storage) {
    let missing = storage.hold("a").expect_err("there is none");
    assert_eq!(missing.io_kind(), Some(io::ErrorKind::NotFound));
    assert!(storage.unlink_unless_held("a").expect("what is not there is gone"));
    storage.publish_if_absent("a", b"held").expect("it is published");
    let first = storage.hold("a").expect("it is held");
    let second = storage.hold("a").expect("it is held twice");
    assert!(!storage.unlink_unless_held("a").expect("it can be tried"), "two hold it");
    drop(first);
    assert!(!storage.unlink_unless_held("a").expect("it can be tried"), "one holds it");
    assert_eq!(contents(storage, "a"), b"held");
    drop(second);
    assert!(storage.unlink_unless_held("a").expect("it is not held"));
    assert!(storage.list().expect("it lists").is_empty());
    storage.publish_if_absent("a", b"another").expect("the name is free");
    assert!(storage.unlink_unless_held("a").expect("this one is not held"));
}
