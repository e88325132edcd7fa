//! What sparse files, compactions, checks, repairs and layouts take of memory, against what the
//! allocator gave. A binary of its own, whose tests run one after another: the allocator counts for
//! the whole process.
#![expect(clippy::unwrap_used, reason = "a helper that cannot set up a test should fail on the spot")]

mod compaction;
mod reading;
mod stitch;

use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cap::Cap;
use stook::extent::ByteRange;
use stook::sparse::{OnDifference, SparseBuffer, SparseOptions};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Held by the one test that runs.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a file, and says what the allocator gave for it.
fn measured(make: impl Fn(&SparseBuffer)) -> (Box<SparseBuffer>, u64) {
    let before = ALLOCATOR.allocated();
    let options = SparseOptions { budget_bytes: 64 << 20, ..SparseOptions::default() };
    let file = Box::new(SparseBuffer::with_options(options).unwrap());
    make(&file);
    let given = ALLOCATOR.allocated() - before;
    (file, given as u64)
}

/// The size that the file reports is within a tenth of the allocated memory.
fn assert_reported(what: &str, file: &SparseBuffer, given: u64) {
    let reported = file.memory_bytes();
    assert!(
        reported * 10 >= given * 9 && reported * 9 <= given * 10,
        "{what}: {reported} reported, {given} given"
    );
}

/// Blocks of `len` bytes 800 bytes apart, upwards, downwards or in no order.
fn blocks(count: u64, len: usize, order: u64) -> impl Fn(&SparseBuffer) {
    move |file| {
        for at in 0..count {
            let at = [at, count - 1 - at, at.wrapping_mul(0x9e37_79b1) % count][order as usize];
            file.write(at * 800, &[1; 800][..len], OnDifference::Keep).unwrap();
        }
    }
}

#[test]
fn memory_is_what_the_allocator_gave_and_little_more_than_the_data() {
    let _alone = alone();
    for order in 0..3 {
        let (file, given) = measured(blocks(100_000, 1, order));
        assert_reported("1-byte blocks", &file, given);
        let (held, segments) = (file.held_bytes(), file.segments().len() as u64);
        assert!(given - held <= segments * 40, "{} bytes a block", (given - held) / segments);
    }
    for (count, order) in [(4096, 0), (4096, 1), (50_000, 0), (50_000, 2), (100_000, 2)] {
        let (file, given) = measured(blocks(count, 256, order));
        assert_reported("256-byte blocks", &file, given);
        let held = file.held_bytes();
        assert!((given - held) * 100 <= held * 12, "{given} bytes for {held}");
    }
    let (file, given) = measured(|file| {
        for at in 0..300_u64 {
            file.adopt(at * 70_000, vec![1; 60_000].into(), OnDifference::Error).unwrap();
        }
    });
    assert_reported("adopted", &file, given);
    let (file, given) = measured(|file| {
        blocks(60_000, 100, 2)(file);
        for at in (0..60_000).filter(|at| at % 5 > 0) {
            file.erase(ByteRange::at(at * 800, 800).unwrap());
        }
        (0..1000).for_each(|at| file.read(at * 4000, &mut [0; 100]).unwrap());
        file.evict_to(file.held_bytes() * 9 / 10);
    });
    assert_reported("erased, read and evicted", &file, given);
    let (file, given) = measured(|_| {});
    assert_reported("empty", &file, given);
    assert!(given < 4096, "{given} bytes for nothing");
}
