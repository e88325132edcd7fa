//! A writer that calls a pack incomplete from its first change on: before the first byte of it, and
//! not at all where nothing is changed.

use stook::pack::{Attributes, Error, Key, PackWriter, WriterOptions};
use stook::storage::Storage as _;
use stook_testing::conformance::pattern;
use stook_testing::model::pack::{ScriptedHost, open_simulated, tiny_writer};
use stook_testing::sim::SimStorage;

use super::damage::shared;

/// Longer than what an appender gathers.
const LONG: usize = 40_000;

fn options(seed: u64) -> WriterOptions {
    WriterOptions { segment_len: 1 << 20, ..tiny_writer(ScriptedHost::new(seed)) }
}

/// A complete pack of one record, whose segment grows or is sealed.
fn complete(is_sealed: bool) -> SimStorage {
    let storage = SimStorage::new();
    let mut writer = PackWriter::create(shared(&storage), options(1)).unwrap();
    writer.put("", &Key::id(1), &Attributes::new(), b"one").unwrap();
    writer.set_complete(true);
    writer.finish(is_sealed).unwrap();
    storage.settled_copy()
}

fn writer(storage: &SimStorage) -> Result<PackWriter, Error> {
    let mut writer = PackWriter::open(shared(storage), options(2))?;
    writer.set_incomplete_on_change(vec![b"/tree".to_vec()]);
    Ok(writer)
}

/// Names and lengths of the segments.
fn segments(storage: &SimStorage) -> Vec<(String, u64)> {
    let files = storage.list().unwrap().into_iter().filter(|file| file.name.starts_with("segment-"));
    let mut segments: Vec<(String, u64)> = files.map(|file| (file.name, file.len)).collect();
    segments.sort();
    segments
}

type Change = fn(&mut PackWriter) -> Result<(), Error>;

const CHANGES: [(&str, Change); 5] = [
    ("put", |writer| writer.put("", &Key::id(2), &Attributes::new(), &pattern(LONG, 2)).map(drop)),
    ("put into a new group", |writer| writer.put("new", &Key::id(2), &Attributes::new(), b"two").map(drop)),
    ("begin", |writer| {
        let mut record = writer.begin("", &Key::id(2), &Attributes::new(), None)?;
        record.write(&pattern(LONG, 2))?;
        record.finish().map(drop)
    }),
    ("delete", |writer| writer.delete(&Key::id(1)).map(drop)),
    ("batch", |writer| {
        let mut batch = writer.batch("")?;
        batch.put(&Key::id(2), &Attributes::new(), &pattern(LONG, 2))?;
        batch.commit()
    }),
];

#[test]
fn the_pack_says_that_it_is_incomplete_before_the_first_byte_of_a_change() {
    for (what, change) in CHANGES {
        for is_sealed in [true, false] {
            for index in 0.. {
                let storage = complete(is_sealed);
                let before = segments(&storage);
                storage.die_at(index);
                let changed = writer(&storage).and_then(|mut writer| {
                    change(&mut writer)?;
                    writer.sync()
                });
                let left = storage.after_process_death();
                let is_changed = segments(&left) != before;
                let says_so = !open_simulated(&left).unwrap().is_complete();
                assert!(says_so || !is_changed, "{what}, sealed: {is_sealed}, dead at {index}");
                if changed.is_ok() {
                    assert!(is_changed && says_so, "{what}, sealed: {is_sealed}");
                    break;
                }
            }
        }
    }
}

#[test]
fn a_writer_that_changes_nothing_leaves_a_complete_pack_complete() {
    for is_sealed in [true, false] {
        let storage = complete(is_sealed);
        let generation = || open_simulated(&storage).unwrap().generation();
        let before = (generation(), segments(&storage));
        let mut writer = writer(&storage).unwrap();
        assert!(writer.contains(&Key::id(1)).unwrap());
        assert!(!writer.delete(&Key::id(3)).unwrap());
        // Refused before anything is written.
        let refused = writer.put(&"g".repeat(300), &Key::id(2), &Attributes::new(), b"two");
        assert!(matches!(refused, Err(Error::Limit { .. })), "{refused:?}");
        writer.sync().unwrap();
        assert_eq!((generation(), segments(&storage)), before, "sealed: {is_sealed}");
        writer.finish(false).unwrap();
        assert_eq!(segments(&storage), before.1, "sealed: {is_sealed}");
        assert!(open_simulated(&storage).unwrap().is_complete(), "sealed: {is_sealed}");
    }
}

/// Before: it published one where a segment grows, and every cursor was of an older generation.
#[test]
fn a_writer_that_changes_nothing_publishes_no_generation() {
    for is_sealed in [true, false] {
        let storage = complete(is_sealed);
        let generation = || open_simulated(&storage).unwrap().generation();
        let before = generation();
        writer(&storage).unwrap().finish(false).unwrap();
        assert_eq!(generation(), before, "sealed: {is_sealed}");
        // What a writer before it put and did not publish is published.
        let mut dies = PackWriter::open(shared(&storage), options(3)).unwrap();
        dies.put("", &Key::id(2), &Attributes::new(), b"two").unwrap();
        dies.sync().unwrap();
        drop(dies);
        writer(&storage).unwrap().finish(false).unwrap();
        assert!(generation() > before && open_simulated(&storage).unwrap().len() == 2);
    }
}

#[test]
fn what_a_writer_says_in_the_end_counts_whatever_it_changed() {
    for is_complete in [true, false] {
        for is_changed in [true, false] {
            let storage = complete(true);
            let mut writer = writer(&storage).unwrap();
            if is_changed {
                writer.put("", &Key::id(2), &Attributes::new(), b"two").unwrap();
                assert!(!open_simulated(&storage).unwrap().is_complete());
            }
            writer.set_complete(is_complete);
            writer.finish(false).unwrap();
            let pack = open_simulated(&storage).unwrap();
            assert_eq!((pack.is_complete(), pack.len()), (is_complete, 1 + u64::from(is_changed)));
        }
    }
}
