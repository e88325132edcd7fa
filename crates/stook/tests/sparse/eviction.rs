//! What goes under a byte budget, and what stays.

use proptest::prelude::*;
use stook::sparse::{OnDifference, SparseBuffer, SparseOptions};

use super::range;

fn with_budget(budget_bytes: u64) -> SparseBuffer {
    SparseBuffer::with_options(SparseOptions { budget_bytes, ..SparseOptions::default() }).unwrap()
}

#[test]
fn parts_of_a_long_extent_go_and_not_all_of_it() {
    let file = SparseBuffer::new();
    let mib = vec![3; 1 << 20];
    file.write(0, &mib, OnDifference::Error).unwrap();
    assert_eq!(file.extents().len(), 1);
    file.read(500_000, &mut [0; 1000]).unwrap();
    file.read(900_000, &mut [0; 100_000]).unwrap();
    let gone = file.evict_to(300_000);
    assert!(file.held_bytes() <= 300_000 && file.held_bytes() > 300_000 - (64 << 10), "{gone}");
    assert!(file.has(range(500_000, 501_000)) && file.has(range(900_000, 1_000_000)), "what was read stays");
    let counters = file.counters();
    assert_eq!((counters.evicted_bytes, counters.erased_bytes), (gone, 0));
    assert_eq!(counters.evicted_segments, gone / (64 << 10));
}

#[test]
fn adopted_memory_goes_in_parts_and_comes_back() {
    let file = SparseBuffer::new();
    file.adopt(0, vec![1; 8 << 20].into(), OnDifference::Error).unwrap();
    assert_eq!(file.evict_to(1 << 20), 7 << 20);
    // Touched in order, so the front went; each further change moves a little of the rest.
    for at in 0..2000 {
        file.write((100 << 20) + at * 2, &[1], OnDifference::Error).unwrap();
    }
    assert!(file.memory_bytes() < 3 << 20, "{}", file.memory_bytes());
}

#[test]
fn pinned_bytes_stay_as_often_as_they_are_pinned() {
    let file = SparseBuffer::new();
    file.write(0, &[1; 100], OnDifference::Error).unwrap();
    file.write(200, &[2; 100], OnDifference::Error).unwrap();
    let pin = file.pin(range(50, 60));
    file.add_pin(range(55, 70));
    assert_eq!(pin.range(), range(50, 60));
    assert_eq!(file.evict_to(0), 180);
    assert_eq!(file.extents(), [range(50, 70)]);
    drop(pin);
    assert_eq!(file.evict_to(0), 5);
    assert_eq!(file.extents(), [range(55, 70)]);
    // What is pinned may be written, erased and cleared.
    assert_eq!(file.erase(range(55, 56)), 1);
    file.write(55, &[9], OnDifference::Error).unwrap();
    assert_eq!(file.evict_to(0), 0);
    file.remove_pin(range(55, 70));
    assert_eq!(file.evict_to(0), 15);
    assert!(file.is_empty());
}

#[test]
fn a_range_is_pinned_before_it_is_held() {
    let file = with_budget(10);
    let _pin = file.pin(range(1000, 1008));
    file.write(1000, &[1; 8], OnDifference::Error).unwrap();
    for at in 0..50 {
        file.write(at * 4, &[2; 4], OnDifference::Error).unwrap();
    }
    assert!(file.has(range(1000, 1008)));
    assert!(file.held_bytes() <= 10);
}

#[test]
fn a_budget_is_kept_at_every_write() {
    let file = with_budget(1000);
    for at in 0..500 {
        file.write(at * 100, &[at as u8; 60], OnDifference::Error).unwrap();
        assert!(file.held_bytes() <= 1000);
        assert!(file.has(range(at * 100, at * 100 + 60)), "what was just written is the last to go");
    }
    let expected: Vec<_> = (484..500).map(|at| range(at * 100, at * 100 + 60)).collect();
    assert_eq!(file.extents(), expected);
    file.write(0, &[1; 5000], OnDifference::Replace).unwrap();
    assert!(file.held_bytes() <= 1000, "more than the budget at once does not stay either");
}

#[test]
fn a_touch_is_enough_to_stay() {
    let file = SparseBuffer::new();
    for at in 0..10 {
        file.write(at * 100, &[1; 10], OnDifference::Error).unwrap();
    }
    file.touch(range(0, 110));
    file.evict_to(20);
    assert_eq!(file.extents(), [range(0, 10), range(100, 110)]);
}

proptest! {
    #[test]
    fn the_order_is_that_of_the_last_touches(touched in prop::collection::vec(0..20_u64, 0..80), left in 0..20_u64) {
        let file = SparseBuffer::new();
        let mut order: Vec<u64> = (0..20).collect();
        for at in 0..20 {
            file.write(at * 10, &[1; 5], OnDifference::Error).unwrap();
        }
        for at in touched {
            file.read(at * 10 + 1, &mut [0; 2]).unwrap();
            order.retain(|other| *other != at);
            order.push(at);
        }
        file.evict_to(left * 5);
        let mut stays: Vec<u64> = order.split_off(20 - left as usize);
        stays.sort_unstable();
        let expected: Vec<_> = stays.iter().map(|at| range(at * 10, at * 10 + 5)).collect();
        prop_assert_eq!(file.extents(), expected);
    }
}
