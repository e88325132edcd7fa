//! Whole extents: found, erased, evicted; touches and counters that are exact, and begin anew.

use proptest::prelude::*;
use stook::extent::ByteRange;
use stook::sparse::{Counters, Evicted, OnDifference, SparseBuffer, SparseError, SparseOptions, SparseStore};

use super::range;

fn exact() -> SparseBuffer {
    SparseBuffer::with_options(SparseOptions { grain: 16, exact: true, ..SparseOptions::default() }).unwrap()
}

fn write(file: &SparseBuffer, position: u64, len: u64) {
    file.write(position, &vec![7; len as usize], OnDifference::Error).unwrap();
}

/// Ranges and latest touches.
fn touched(file: &SparseBuffer) -> Vec<(u64, u64, u64)> {
    let extents = file.extents_touched();
    extents.iter().map(|one| (one.range.start(), one.range.end(), one.last_touch)).collect()
}

#[test]
fn extents_have_the_touch_of_the_last_operation_on_any_of_their_bytes() {
    let file = exact();
    for at in [100, 0, 60, 20] {
        write(&file, at, 20);
    }
    assert_eq!(touched(&file), [(0, 40, 4), (60, 80, 3), (100, 120, 1)]);
    file.read(115, &mut [0; 5]).unwrap();
    assert_eq!(touched(&file), [(0, 40, 4), (60, 80, 3), (100, 120, 5)]);
    write(&file, 40, 20);
    assert_eq!(touched(&file), [(0, 80, 6), (100, 120, 5)]);
    assert_eq!((file.extent_count(), file.next_touch()), (2, 7));
}

#[test]
fn only_what_is_done_takes_a_touch() {
    let file = exact();
    write(&file, 0, 50);
    assert!(matches!(file.read(49, &mut [0; 2]), Err(SparseError::NotHeld { .. })));
    assert!(matches!(file.read_bytes(range(49, 51)), Err(SparseError::NotHeld { .. })));
    let refused = file.write(45, &[7, 8], OnDifference::Error).unwrap_err();
    assert!(matches!(refused, SparseError::Differs { offset: 46, held: 7, .. }), "{refused}");
    assert!(file.has(range(0, 50)) && file.gaps(range(0, 60)) == [range(50, 60)]);
    assert_eq!(file.next_touch(), 2);
    let counters = file.counters();
    assert_eq!((counters.reads, counters.writes), (0, 1));
}

#[test]
fn touches_of_many_threads_are_numbered_without_gaps() {
    let file = exact();
    write(&file, 0, 1000);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|at| file.read(at, &mut [0; 3]).unwrap()));
        }
    });
    assert_eq!(file.next_touch(), 2002);
    assert_eq!(touched(&file), [(0, 1000, 2001)]);
    assert_eq!(file.counters().reads, 2000);
}

#[test]
fn every_operation_notes_the_time() {
    let file = exact();
    for _ in 0..3 {
        write(&file, 0, 1);
        let (written, before) = (file.counters().last_write_ns, file.counters().last_read_ns);
        assert!(written > before);
        // Until the clock of times has moved.
        while file.counters().last_read_ns <= written {
            file.read(0, &mut [0]).unwrap();
        }
        let read = file.counters().last_read_ns;
        while file.counters().last_write_ns <= read {
            write(&file, 0, 1);
        }
        file.reset();
    }
}

#[test]
fn neighbours_are_found_across_empty_leaves() {
    let file = exact();
    assert_eq!((file.extent_before(5), file.extent_after(5)), (None, None));
    for at in 0..2000 {
        write(&file, 1000 + at * 100, 10);
    }
    file.erase(range(20_000, 150_000));
    let found = |extent: Option<stook::sparse::Extent>| extent.map(|extent| extent.range.start());
    assert_eq!(found(file.extent_before(999)), None);
    assert_eq!(found(file.extent_after(0)), Some(1000));
    assert_eq!(found(file.extent_before(1000)), Some(1000));
    assert_eq!(found(file.extent_before(100_000)), Some(19_900));
    assert_eq!(found(file.extent_after(19_910)), Some(150_000));
    assert_eq!(found(file.extent_after(19_909)), Some(19_900));
    assert_eq!(found(file.extent_before(u64::MAX)), Some(1000 + 1999 * 100));
    assert_eq!(found(file.extent_after(1010 + 1999 * 100)), None);
    assert_eq!(file.extent_after(u64::MAX), None);
}

#[test]
fn an_extent_is_erased_by_its_first_position() {
    let file = exact();
    write(&file, 10, 100);
    write(&file, 200, 5);
    for position in [0, 9, 11, 26, 109, 110, 201, u64::MAX] {
        assert_eq!(file.erase_extent(position), None, "{position}");
    }
    assert_eq!(file.erase_extent(10), Some(100));
    assert_eq!(file.erase_extent(10), None);
    assert_eq!(file.extents(), [range(200, 205)]);
    let counters = file.counters();
    assert_eq!((counters.erased_bytes, counters.evicted_bytes), (100, 0));
}

#[test]
fn whole_extents_go_and_pinned_ones_stay() {
    let file = exact();
    for at in 0..5 {
        write(&file, at * 100, 50);
    }
    file.read(0, &mut [0; 1]).unwrap();
    let pin = file.pin(range(240, 241));
    assert_eq!(file.evict_extents(250, 0), Evicted::default(), "there is no more than that");
    assert_eq!(file.evict_extents(120, 0), Evicted { extents: 3, bytes: 150 });
    assert_eq!(file.extents(), [range(0, 50), range(200, 250)], "the last touched, and the pinned");
    assert_eq!(file.evict_extents(0, 2), Evicted::default());
    assert_eq!(file.evict_extents(0, 1), Evicted { extents: 1, bytes: 50 });
    assert_eq!(file.evict_extents(0, 0), Evicted::default());
    drop(pin);
    assert_eq!(file.evict_extents(0, 0), Evicted { extents: 1, bytes: 50 });
    assert_eq!(file.counters().evicted_bytes, 250);
    assert_eq!(file.counters().erased_bytes, 0);
}

#[test]
fn in_a_store_what_was_evicted_no_longer_counts() {
    let store = SparseStore::new(SparseOptions { exact: true, ..SparseOptions::default() }).unwrap();
    let (one, two) = (store.get_or_create("one"), store.get_or_create("two"));
    write(&one, 0, 100);
    write(&one, 200, 100);
    write(&two, 0, 100);
    assert_eq!(one.evict_extents(100, 0).bytes, 100);
    assert_eq!(store.held_bytes(), 200);
    assert_eq!(one.reset(), 100);
    assert_eq!(store.held_bytes(), 100);
    write(&one, 0, 1);
    assert_eq!(touched(&one), [(0, 1, 4)], "touches are those of all files");
}

#[test]
fn everything_begins_anew() {
    for exact in [false, true] {
        let options = SparseOptions { exact, first_touch: 100, grain: 10, ..SparseOptions::default() };
        let file = SparseBuffer::with_options(options).unwrap();
        let work = |file: &SparseBuffer| {
            for at in [0, 100, 50] {
                write(file, at, 20);
            }
            for _ in 0..100 {
                file.read(55, &mut [0; 5]).unwrap();
            }
            file.evict_to(50);
            file.erase(range(100, 105));
        };
        work(&file);
        let (touches, counters) = (touched(&file), file.counters());
        file.set_modified_ns(Some(5));
        let held = file.held_bytes();
        assert_eq!(file.reset(), held);
        assert_eq!((file.counters(), file.extents()), (Counters::default(), vec![]));
        assert_eq!(file.modified_ns(), Some(5));
        work(&file);
        assert_eq!(touched(&file), touches);
        let timeless = |counters| Counters { last_read_ns: None, last_write_ns: None, ..counters };
        assert_eq!(timeless(file.counters()), timeless(counters));
    }
}

proptest! {
    #[test]
    fn extents_by_position_are_those_of_the_list(
        writes in prop::collection::vec((0..200_u64, 1..30_u64), 0..20), asked in 0..240_u64,
        budget in 0..200_u64, keep in 0..5_u64,
    ) {
        let file = exact();
        writes.iter().for_each(|&(at, len)| write(&file, at, len));
        let extents = file.extents_touched();
        prop_assert_eq!(extents.len() as u64, file.extent_count());
        prop_assert_eq!(extents.iter().map(|one| one.range).collect::<Vec<_>>(), file.extents());
        let before = extents.iter().rev().find(|one| one.range.start() <= asked);
        prop_assert_eq!(file.extent_before(asked), before.copied());
        let after = extents.iter().find(|one| one.range.end() > asked);
        prop_assert_eq!(file.extent_after(asked), after.copied());
        let begins = extents.iter().find(|one| one.range.start() == asked);
        let mut left: Vec<ByteRange> = file.extents();
        prop_assert_eq!(file.erase_extent(asked), begins.map(|one| one.range.len()));
        left.retain(|range| range.start() != asked);
        prop_assert_eq!(&file.extents(), &left);

        let mut oldest = file.extents_touched();
        oldest.sort_by_key(|one| one.last_touch);
        let evicted = file.evict_extents(budget, keep);
        let held = |extents: &[stook::sparse::Extent]| extents.iter().map(|one| one.range.len()).sum::<u64>();
        let mut gone = 0;
        while held(&oldest) > budget && oldest.len() as u64 > keep {
            gone += oldest.remove(0).range.len();
        }
        oldest.sort_by_key(|one| one.range.start());
        prop_assert_eq!(evicted.bytes, gone);
        prop_assert_eq!(file.extents_touched(), oldest);
    }
}
