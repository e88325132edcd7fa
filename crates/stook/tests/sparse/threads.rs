//! Many threads at once.

use std::sync::atomic::{AtomicBool, Ordering};

use stook::sparse::{OnDifference, SparseBuffer, SparseError, SparseOptions, SparseStore};

use super::range;

#[test]
fn readers_see_only_whole_writes() {
    const LEN: usize = 300;
    let file = SparseBuffer::with_options(SparseOptions { grain: 64, ..SparseOptions::default() }).unwrap();
    file.write(10, &[0; LEN], OnDifference::Error).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=2000_u32 {
                file.write(10, &[round as u8; LEN], OnDifference::Replace).unwrap();
                if round.is_multiple_of(64) {
                    file.erase(range(0, 1000));
                    file.write(10, &[round as u8; LEN], OnDifference::Error).unwrap();
                }
            }
            over.store(true, Ordering::SeqCst);
        });
        for _ in 0..3 {
            scope.spawn(|| {
                let mut out = [0; LEN];
                while !over.load(Ordering::SeqCst) {
                    match file.read(10, &mut out) {
                        Ok(()) => assert!(out.iter().all(|byte| *byte == out[0]), "half of a write was seen"),
                        Err(SparseError::NotHeld { gap, .. }) => assert_eq!(gap, range(10, 10 + LEN as u64)),
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
}

#[test]
fn writers_of_the_same_bytes_agree_and_every_byte_counts_once() {
    let file = SparseBuffer::new();
    let added: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u64)
            .map(|number| {
                let file = &file;
                scope.spawn(move || {
                    let mut added = 0;
                    for step in 0..4000_u64 {
                        let position = (step * (7 + number * 2)) % 5000 * 3;
                        let bytes: Vec<u8> = (position..position + 5).map(|at| at as u8).collect();
                        added += file.write(position, &bytes, OnDifference::Error).unwrap().added;
                        let mut out = [0; 5];
                        file.read(position, &mut out).unwrap();
                        assert_eq!(out.as_slice(), bytes);
                    }
                    added
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(added, file.held_bytes());
    let counters = file.counters();
    assert_eq!((counters.reads, counters.writes, counters.read_bytes), (16_000, 16_000, 80_000));
}

#[test]
fn asking_beside_writes_that_evict_never_hangs() {
    let options = SparseOptions { budget_bytes: 2000, ..SparseOptions::default() };
    let file = SparseBuffer::with_options(options).unwrap();
    std::thread::scope(|scope| {
        for number in 0..2_u64 {
            let file = &file;
            scope.spawn(move || {
                for step in 0..3000 {
                    file.write((step * 2 + number) * 50, &[1; 40], OnDifference::Error).unwrap();
                }
            });
            scope.spawn(move || {
                for step in 0..3000 {
                    let _pin = file.pin(range(step * 50, step * 50 + 40));
                    assert!(file.memory_bytes() > 0);
                    assert!(file.counters().writes <= 6000);
                    file.touch(range(0, step * 10));
                }
            });
        }
    });
    assert!(file.evict_to(2000) <= 80, "only what was pinned last can be left over");
}

#[test]
fn a_store_under_threads_keeps_its_budget_and_its_sums() {
    let budget_bytes = 20_000;
    let store = SparseStore::new(SparseOptions { budget_bytes, ..SparseOptions::default() }).unwrap();
    std::thread::scope(|scope| {
        for number in 0..4_u64 {
            let store = &store;
            scope.spawn(move || {
                for step in 0..1500_u64 {
                    let file = store.get_or_create(&format!("file {}", (step * 3 + number) % 7));
                    file.write(step % 300 * 100, &[7; 90], OnDifference::Replace).unwrap();
                    let mut out = [0; 20];
                    if file.read(step % 299 * 100, &mut out).is_ok() {
                        assert_eq!(out, [7; 20]);
                    }
                    if step.is_multiple_of(200) {
                        store.remove(&format!("file {number}"));
                    }
                }
            });
        }
    });
    let held: u64 = store.names().iter().map(|name| store.get(name).unwrap().held_bytes()).sum();
    assert_eq!(store.held_bytes(), held);
    assert!(held <= budget_bytes, "{held}");
    store.clear();
    assert_eq!(store.held_bytes(), 0);
}
