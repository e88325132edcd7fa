//! Many threads read one file: bytes in flight for one are not requested again by another.

use std::sync::{Arc, Barrier};
use std::thread;

use stook::extent::{ByteRange, ExtentMap, OnOverlap};
use stook::sparse::{AheadOptions, SparseFile, SparseFileOptions, SparseOptions, SparseStore};
use stook_testing::fault::{ObjectSource, TestObject};

use super::{CountedSource, part, range};

#[test]
fn sixty_four_threads_that_read_overlapping_ranges_fetch_every_byte_once() {
    let (source, bytes) = CountedSource::of_len(4 << 20);
    let file = SparseFile::new(source.clone());
    let barrier = Barrier::new(64);
    thread::scope(|scope| {
        for thread in 0..64_u64 {
            let (file, bytes, barrier) = (&file, &bytes, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let mut state = thread + 1;
                for _ in 0..200 {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let start = (state >> 33) % (4 << 20);
                    let end = (start + 1 + (state >> 20) % 40_000).min(4 << 20);
                    let wanted = range(start, end);
                    assert_eq!(file.read(wanted).unwrap(), part(bytes, wanted));
                }
            });
        }
    });
    let mut fetched = ExtentMap::new();
    for asked in source.asked() {
        fetched.insert(asked, (), OnOverlap::Refuse).expect("no byte is fetched twice");
    }
    let statistics = file.statistics();
    assert_eq!(statistics.reads, 64 * 200);
    assert_eq!(statistics.fetched_bytes, fetched.covered_len());
    assert_eq!(statistics.requests as usize, source.asked().len());
    assert_eq!(statistics.latency_ns.len(), statistics.requests);
}

#[test]
fn sixty_four_threads_that_want_the_same_make_one_request() {
    let bytes: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
    let object = TestObject::new(bytes.clone(), None);
    let ahead = AheadOptions { allowance: 0, ..AheadOptions::default() };
    let options = SparseFileOptions { ahead, ..SparseFileOptions::default() };
    let file = SparseFile::with_options(Arc::new(ObjectSource(object.clone())), Arc::default(), options);
    thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| assert_eq!(file.read(range(10, 90_000)).unwrap(), bytes[10..90_000]));
        }
    });
    assert_eq!(object.begun(), 1);
}

#[test]
fn known_ranges_are_fetched_side_by_side_and_neighbours_together() {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7) as u8).collect();
    let object = TestObject::new(bytes.clone(), None);
    let file = SparseFile::new(Arc::new(ObjectSource(object.clone())));
    let wanted: Vec<ByteRange> = (0..8)
        .flat_map(|n| [range(n * 300_000, n * 300_000 + 10), range(n * 300_000 + 5_000, n * 300_000 + 5_100)])
        .collect();
    let parts = file.read_many(&wanted).unwrap();
    for (wanted, read) in wanted.iter().zip(parts) {
        assert_eq!(read, bytes[wanted.start() as usize..wanted.end() as usize]);
    }
    assert_eq!(object.begun(), 8, "two to a request");
    assert!(object.most_under_way() > 1, "side by side");
    file.prefetch(&wanted).unwrap();
    assert_eq!(object.begun(), 8, "all is there");
    assert!(file.prefetch(&[range(0, 3_000_001)]).is_err(), "past the end");
    file.prefetch(&[]).unwrap();
}

#[test]
fn a_budget_shared_by_files_is_kept_and_what_was_evicted_comes_again() {
    let store =
        SparseStore::new(SparseOptions { budget_bytes: 300_000, ..SparseOptions::default() }).unwrap();
    let open = |name: &str| {
        let (source, bytes) = CountedSource::of_len(1 << 20);
        (SparseFile::in_store(source, &store, name, SparseFileOptions::default()).unwrap(), bytes)
    };
    let files = [open("a"), open("b")];
    for round in 0..3 {
        for (file, bytes) in &files {
            for start in (0..1 << 20).step_by(50_000) {
                let wanted = range(start, (start + 30_000).min(1 << 20));
                assert_eq!(file.read(wanted).unwrap(), part(bytes, wanted), "round {round}");
            }
            assert!(store.held_bytes() <= 300_000, "{} bytes are held", store.held_bytes());
        }
    }
    assert!(files.iter().all(|(file, _)| file.statistics().evicted_bytes > 0));
    // A read that is longer than the budget is served all the same.
    let (file, bytes) = &files[0];
    assert_eq!(file.read(range(0, 1 << 20)).unwrap(), bytes);
}

#[test]
fn nothing_and_the_end() {
    let (source, bytes) = CountedSource::of_len(1_000);
    let file = SparseFile::new(source.clone());
    let mut out = [0; 64];
    for position in [0, 500, 1_000, 1_001, u64::MAX] {
        assert_eq!(file.read_at(position, &mut []).unwrap(), 0);
    }
    assert_eq!(file.read_at(1_000, &mut out).unwrap(), 0);
    assert_eq!(file.read_at(u64::MAX, &mut out).unwrap(), 0);
    assert_eq!(file.read(range(1_000, 1_000)).unwrap(), b""[..]);
    assert_eq!(source.asked(), [], "nothing was needed");
    assert_eq!(file.read_at(990, &mut out).unwrap(), 10);
    assert_eq!(out[..10], bytes[990..]);
    assert!(file.read(range(990, 1_001)).is_err());
    let empty = SparseFile::new(CountedSource::new(Vec::new()));
    assert!(empty.is_empty());
    assert_eq!(empty.read_at(0, &mut out).unwrap(), 0);
    assert_eq!(empty.read(range(0, 0)).unwrap(), b""[..]);
}

#[test]
fn what_is_not_held_is_neither_fetched_nor_counted_by_who_must_not_wait() {
    let (source, bytes) = CountedSource::of_len(4 << 20);
    let file = SparseFile::new(source.clone());
    let mut out = [7; 4];
    assert_eq!(file.read_at_once(100, &mut out), None);
    assert_eq!((out, file.statistics().reads, source.asked().len()), ([7; 4], 0, 0));
    file.read_at(100, &mut out).unwrap();
    let requests = source.asked().len();
    assert_eq!(file.read_at_once(101, &mut out[1..]), Some(3));
    assert_eq!(&out[1..], part(&bytes, range(101, 104)));
    assert_eq!((file.statistics().hits, source.asked().len()), (1, requests));
    assert_eq!(file.read_at_once(5 << 20, &mut out), Some(0), "past the end is nothing to wait for");
    // That a source has changed is said by what may fail.
    source.change();
    assert!(file.read_at(3_000_000, &mut out).is_err_and(|error| error.is_changed_source()));
    assert_eq!(file.read_at_once(100, &mut out), None);
}
