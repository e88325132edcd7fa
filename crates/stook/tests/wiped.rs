//! What `SparseOptions::wipe` promises: memory that held bytes is overwritten before the allocator
//! has it back. A binary of its own, because its allocator looks at all memory that is freed.
#![expect(unsafe_code, reason = "an allocator")]
#![expect(clippy::unwrap_used, reason = "a helper that cannot set up a test should fail on the spot")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use stook::extent::ByteRange;
use stook::sparse::{OnDifference, SparseBuffer, SparseOptions};

/// Bytes that nothing else has by chance. Not a constant: the stack would have copies of it, which
/// get into the padding of what is moved from there.
static SECRET: [u8; 16] = *b"\xd1\x7a\x93\x0e\xb8\x45\xc6\x21\xfa\x5c\x88\x37\xe9\x14\xad\x62";

static IS_LOOKING: AtomicBool = AtomicBool::new(false);
static FOUND: AtomicUsize = AtomicUsize::new(0);

/// Counts freed memory that has the secret in it.
struct Looking;

fn look(memory: *mut u8, len: usize) {
    if !IS_LOOKING.load(Ordering::SeqCst) {
        return;
    }
    // A byte at a time: what was never written may not be read as a slice.
    let has_at = |at: usize| {
        (0..SECRET.len()).all(|byte| {
            // SAFETY: within memory of this length.
            unsafe { memory.add(at + byte).read_volatile() == SECRET[byte] }
        })
    };
    if (0..len.saturating_sub(SECRET.len() - 1)).any(has_at) {
        FOUND.fetch_add(1, Ordering::SeqCst);
    }
}

// SAFETY: all memory is that of the system's allocator.
unsafe impl GlobalAlloc for Looking {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Zeroed, so that nothing of earlier owners is found in it.
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        look(memory, layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
    // `realloc` is the default: it allocates, copies and frees.
}

#[global_allocator]
static ALLOCATOR: Looking = Looking;

type Work = fn(&SparseBuffer);

fn found_after(wipe: bool, work: impl Fn(&SparseBuffer)) -> usize {
    let options = SparseOptions { wipe, grain: 64, ..SparseOptions::default() };
    let file = SparseBuffer::with_options(options).unwrap();
    FOUND.store(0, Ordering::SeqCst);
    IS_LOOKING.store(true, Ordering::SeqCst);
    work(&file);
    drop(file);
    IS_LOOKING.store(false, Ordering::SeqCst);
    FOUND.load(Ordering::SeqCst)
}

fn write(file: &SparseBuffer, position: u64) {
    file.write(position, &SECRET, OnDifference::Replace).unwrap();
}

#[test]
fn no_freed_memory_has_what_was_held() {
    let works: [(&str, Work); 7] = [
        ("dropped", |file| write(file, 0)),
        ("grown", |file| (0..4000).for_each(|at| write(file, at * 16))),
        ("backwards", |file| (0..4000).rev().for_each(|at| write(file, at * 16))),
        ("cleared", |file| {
            (0..4000).for_each(|at| write(file, at * 20));
            file.clear();
            write(file, 0);
            file.reset();
        }),
        ("evicted", |file| {
            (0..4000).for_each(|at| write(file, at * 20));
            file.evict_to(100);
            file.evict_extents(0, 0);
        }),
        ("moved", |file| {
            // Most of many blocks is erased, so that the rest is moved out of them.
            (0..40_000).for_each(|at| write(file, at * 20));
            (0..40_000).filter(|at| at % 5 > 0).for_each(|at| {
                file.erase(ByteRange::at(at * 20, 16).unwrap());
            });
            (0..10_000).for_each(|at| write(file, 1_000_000 + at * 20));
            assert!(file.work().bytes_moved > 0);
        }),
        ("replaced", |file| {
            write(file, 0);
            file.write(0, &[0; 100], OnDifference::Replace).unwrap();
        }),
    ];
    for (what, work) in works {
        assert_eq!(found_after(true, work), 0, "{what}");
        // Without it the same is found: the test sees what it looks for.
        assert!(found_after(false, work) > 0 || what == "replaced", "{what}");
    }
}
