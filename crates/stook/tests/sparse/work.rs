//! What operations cost, counted in bytes and entries moved, never in time.

use stook::extent::ByteRange;
use stook::sparse::{OnDifference, SparseBuffer, SparseOptions, Work};

use super::range;

/// Work of the changes that `run` makes with `count` steps.
fn work(count: u64, run: impl Fn(&SparseBuffer, u64)) -> (SparseBuffer, Work) {
    let file = SparseBuffer::new();
    run(&file, count);
    let work = file.work();
    (file, work)
}

/// `bytes` moved and `entries` moved per step, at most, at any size; so the whole is linear.
fn assert_linear(run: impl Fn(&SparseBuffer, u64), bytes: u64, entries: u64) {
    for count in [1 << 10, 1 << 13, 1 << 16] {
        let (_, work) = work(count, &run);
        let (moved, shifted) = (work.bytes_moved / count, work.segments_moved / count);
        assert!(moved <= bytes, "{count} steps moved {moved} bytes each");
        assert!(shifted <= entries, "{count} steps moved {shifted} entries each");
    }
}

fn write(file: &SparseBuffer, position: u64, len: usize) {
    file.write(position, &[1; 64][..len], OnDifference::Error).unwrap();
}

#[test]
fn ascending_writes_move_next_to_nothing() {
    let appends = |file: &SparseBuffer, count| (0..count).for_each(|at| write(file, at * 64, 64));
    // The first blocks are small, so segments that end with one are joined later, once.
    assert_linear(appends, 64, 0);
    let apart = |file: &SparseBuffer, count| (0..count).for_each(|at| write(file, at * 800, 1));
    assert_linear(apart, 0, 0);
    let (file, _) = work(1 << 16, appends);
    assert!(file.segments().len() <= 4 * 64, "{} segments", file.segments().len());
}

#[test]
fn abutting_writes_backwards_move_each_byte_a_few_times() {
    assert_linear(|file, count| (0..count).rev().for_each(|at| write(file, at * 64, 64)), 64 * 16, 128);
    assert_linear(|file, count| (0..count).rev().for_each(|at| write(file, at, 1)), 16, 128);
}

#[test]
fn filling_gaps_moves_each_byte_a_few_times() {
    let fill = |file: &SparseBuffer, count: u64| {
        (0..count / 2).for_each(|at| write(file, at * 128, 64));
        (0..count / 2).for_each(|at| write(file, at * 128 + 64, 64));
        assert_eq!(file.extents(), [range(0, count * 64)]);
    };
    assert_linear(fill, 64 * 16, 128);
    let random = |file: &SparseBuffer, count: u64| {
        (0..count).for_each(|at| write(file, at.wrapping_mul(0x9e37_79b1) % count * 8, 8));
    };
    assert_linear(random, 8 * 16, 128);
}

#[test]
fn bridging_moves_each_byte_a_few_times() {
    // Each write lies over what the one before wrote, and a gap.
    let bridge = |file: &SparseBuffer, count: u64| {
        (0..count).for_each(|at| write(file, at * 100, 40));
        (0..count - 1).for_each(|at| {
            file.write(at * 100 + 20, &[1; 100], OnDifference::Error).unwrap();
        });
        assert_eq!(file.extents().len(), 1);
    };
    assert_linear(bridge, 100 * 16, 256);
}

#[test]
fn evicting_at_every_write_costs_no_more_with_more_held() {
    for held in [1 << 8, 1 << 11, 1 << 14] {
        let options = SparseOptions { budget_bytes: held * 16, ..SparseOptions::default() };
        let file = SparseBuffer::with_options(options).unwrap();
        let count = held * 8;
        (0..count).for_each(|at| write(&file, at * 50, 16));
        let work = file.work();
        assert!(work.bytes_moved / count <= 16 * 4, "{work:?}");
        assert!(work.segments_moved / count <= 256, "{work:?}");
        assert!(file.memory_bytes() < held * 16 * 6 + 400_000, "{} for {held}", file.memory_bytes());
    }
}

#[test]
fn erasing_every_other_gives_the_memory_back() {
    let file = SparseBuffer::new();
    let count = 1 << 15;
    (0..count).for_each(|at| write(&file, at * 100, 64));
    let full = file.memory_bytes();
    for at in 0..count {
        if !at.is_multiple_of(8) {
            file.erase(range(at * 100, at * 100 + 100));
        }
    }
    let left = file.memory_bytes();
    assert!(left < full / 3, "{left} of {full} for an eighth");
    assert!(file.work().bytes_moved <= count * 64 * 4, "{:?}", file.work());
    assert_eq!(file.erase(ByteRange::to(u64::MAX)), count / 8 * 64);
    assert!(file.memory_bytes() < 100_000, "{}", file.memory_bytes());
}

#[test]
fn rewriting_the_same_range_takes_no_more_memory() {
    let file = SparseBuffer::new();
    for round in 0..2000_u32 {
        file.write(0, &vec![round as u8; 10_000], OnDifference::Replace).unwrap();
        file.adopt(20_000, vec![round as u8; 40_000].into(), OnDifference::Replace).unwrap();
        file.erase(range(100_000, 110_000));
        file.write(100_000, &[1; 10_000], OnDifference::Error).unwrap();
    }
    assert!(file.memory_bytes() < 400_000, "{}", file.memory_bytes());
}
