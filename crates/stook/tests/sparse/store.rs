//! Many sparse files under one budget.

use std::sync::Arc;

use stook::sparse::{OnDifference, SparseError, SparseOptions, SparseStore};

use super::range;

fn store(budget_bytes: u64) -> SparseStore {
    SparseStore::new(SparseOptions { budget_bytes, ..SparseOptions::default() }).unwrap()
}

fn names(store: &SparseStore) -> Vec<String> {
    store.names().iter().map(|name| name.to_string()).collect()
}

#[test]
fn one_budget_holds_over_all_files_in_the_order_of_all_touches() {
    let store = store(1000);
    for round in 0..3 {
        for name in ["a", "b", "c"] {
            store.get_or_create(name).write(round * 500, &[round as u8; 150], OnDifference::Error).unwrap();
            assert!(store.held_bytes() <= 1000);
        }
    }
    // 9 writes of 150 bytes: the three oldest went, whichever file they were in.
    let held: Vec<u64> = ["a", "b", "c"].iter().map(|name| store.get(name).unwrap().held_bytes()).collect();
    assert_eq!(held, [300, 300, 300]);
    for name in ["a", "b", "c"] {
        assert_eq!(store.get(name).unwrap().extents(), [range(500, 650), range(1000, 1150)]);
    }
    store.get("c").unwrap().read(500, &mut [0; 1]).unwrap();
    assert_eq!(store.evict_to(450), 450);
    let left: Vec<usize> =
        ["a", "b", "c"].iter().map(|name| store.get(name).unwrap().extents().len()).collect();
    assert_eq!(left, [0, 1, 2]);
    assert_eq!(store.counters().evicted_bytes, 450 + 450);
}

#[test]
fn files_come_and_go_by_name() {
    let store = store(u64::MAX);
    assert!(store.is_empty() && store.get("x").is_none() && store.remove("x").is_none());
    for name in ["b", "a", "", "ä"] {
        store.get_or_create(name).write(0, b"1234", OnDifference::Error).unwrap();
    }
    assert_eq!(names(&store), ["", "a", "b", "ä"]);
    assert_eq!(store.names_after("a", 1), [Arc::from("b")]);
    assert!(Arc::ptr_eq(&store.get_or_create("a"), &store.get("a").unwrap()));
    assert_eq!((store.len(), store.held_bytes()), (4, 16));
    let gone = store.remove("a").unwrap();
    assert_eq!((store.len(), store.held_bytes()), (3, 12));
    gone.write(100, b"5678", OnDifference::Error).unwrap();
    gone.erase(range(0, 2));
    assert_eq!((store.held_bytes(), gone.held_bytes()), (12, 6), "what is out does not count");
    assert_eq!(store.counters().writes, 4);
    store.clear();
    assert_eq!((store.len(), store.held_bytes()), (0, 0));
    assert_eq!(store.counters().writes, 4, "what was counted stays");
}

#[test]
fn erasing_and_clearing_make_room_for_others() {
    let store = store(100);
    let (a, b) = (store.get_or_create("a"), store.get_or_create("b"));
    a.write(0, &[1; 100], OnDifference::Error).unwrap();
    a.erase(range(0, 60));
    assert_eq!(store.held_bytes(), 40);
    b.write(0, &[2; 60], OnDifference::Error).unwrap();
    assert_eq!(store.held_bytes(), 100);
    a.clear();
    assert_eq!(store.held_bytes(), 60);
}

#[test]
fn pins_of_one_file_hold_for_the_whole_store() {
    let store = store(u64::MAX);
    let (a, b) = (store.get_or_create("a"), store.get_or_create("b"));
    a.write(0, &[1; 100], OnDifference::Error).unwrap();
    b.write(0, &[1; 100], OnDifference::Error).unwrap();
    let _pin = a.pin(range(10, 20));
    assert_eq!(store.evict_to(0), 190);
    assert_eq!((a.extents(), b.extents()), (vec![range(10, 20)], vec![]));
}

#[test]
fn a_file_is_loaded_under_the_budget_of_the_store() {
    let lone = store(u64::MAX);
    let file = lone.get_or_create("x");
    for at in 0..10 {
        file.write(at * 100, &[7; 50], OnDifference::Error).unwrap();
    }
    let mut bytes = Vec::new();
    file.to_writer(&mut bytes).unwrap();
    let small = store(200);
    let loaded = small.load("y", bytes.as_slice()).unwrap();
    assert_eq!(small.held_bytes(), 200);
    assert_eq!(loaded.extents()[0], range(600, 650), "the oldest went");
    assert!(matches!(small.load("y", bytes.as_slice()), Err(SparseError::NameTaken { .. })));
    small.load("z", &bytes[..bytes.len() - 1]).unwrap_err();
    assert_eq!((small.len(), small.held_bytes()), (1, 200), "what was not loaded does not count");
    loaded.write(5000, &[1; 200], OnDifference::Error).unwrap();
    assert_eq!(loaded.extents(), [range(5000, 5200)]);
}

#[test]
fn options_that_cannot_be_are_refused() {
    for options in [
        SparseOptions { grain: 0, ..SparseOptions::default() },
        SparseOptions { grain: 65_537, ..SparseOptions::default() },
        SparseOptions { adopt_min: 4095, ..SparseOptions::default() },
    ] {
        assert!(matches!(SparseStore::new(options), Err(SparseError::Options(_))));
    }
}
