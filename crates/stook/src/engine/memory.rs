//! Page-aligned, zero-initialised memory: the one place that allocates memory for I/O of the
//! kernel.
//!
//! It returns raw memory with an owner and never decides who may read it; that is done by
//! [`Buffer`](super::Buffer) and [`Arena`](super::Arena).
#![expect(unsafe_code, reason = "aligned allocations and anonymous mappings have no safe interface")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

/// Every piece of memory starts at a multiple of this, which satisfies direct I/O on all devices
/// with logical blocks of up to 4 KiB.
pub(super) const PAGE_BYTES: usize = 4096;

/// The size of the requested large pages: mapping fresh memory costs half as much with them.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// From here on memory is mapped instead of taken from the heap: it comes zeroed from the system,
/// so that nothing is touched before it is used, and goes back to it at once.
const MAP_FROM_BYTES: usize = 2 << 20;

/// Memory that is all initialised and freed when this is dropped.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    len: usize,
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    Heap(Layout),
    Mapping {
        base: NonNull<c_void>,
        len: usize,
    },
    /// A part of a large page, which lives as long as any part of it.
    Part(#[expect(dead_code, reason = "it is kept for its drop")] Arc<LargePage>),
}

/// A large page, and who counts it while it lives.
#[derive(Debug)]
struct LargePage {
    #[expect(dead_code, reason = "it is kept for its drop")]
    memory: Memory,
    budget: Option<Arc<PageBudget>>,
}

impl Drop for LargePage {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.alive_bytes.fetch_sub(HUGE_PAGE_BYTES, Ordering::Relaxed);
        }
    }
}

/// How many bytes of large pages may be alive at once.
#[derive(Debug)]
pub(super) struct PageBudget {
    max_bytes: usize,
    alive_bytes: AtomicUsize,
}

impl PageBudget {
    pub(super) fn new(max_bytes: usize) -> Arc<Self> {
        Arc::new(Self { max_bytes, alive_bytes: AtomicUsize::new(0) })
    }

    #[cfg(test)]
    pub(super) fn alive_bytes(&self) -> usize {
        self.alive_bytes.load(Ordering::Relaxed)
    }

    /// Counts one more page, if there is room for it.
    fn take(&self) -> bool {
        let more = |alive: usize| alive.checked_add(HUGE_PAGE_BYTES).filter(|&alive| alive <= self.max_bytes);
        self.alive_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

// SAFETY: it owns its memory alone, which is not bound to a thread.
unsafe impl Send for Memory {}
// SAFETY: through a shared reference only the address and the length can be read.
unsafe impl Sync for Memory {}

impl Memory {
    /// At least `len` bytes, rounded up to whole pages; aborts like `Vec` when there is no memory.
    pub(super) fn zeroed(len: usize) -> Self {
        if len >= MAP_FROM_BYTES
            && let Ok(memory) = Self::mapped(len)
        {
            return memory;
        }
        let len = len.max(1).checked_next_multiple_of(PAGE_BYTES).expect("a length that fits in memory");
        let layout = Layout::from_size_align(len, PAGE_BYTES).expect("a length that fits in memory");
        // SAFETY: the layout's size is at least one page.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, len, origin: Origin::Heap(layout) }
    }

    /// At least `len` bytes of fresh zeroes in large pages where the system has them.
    ///
    /// # Errors
    /// Returns an error if the system has no memory for the mapping.
    pub(super) fn mapped(len: usize) -> io::Result<Self> {
        let too_long = || io::Error::from(io::ErrorKind::OutOfMemory);
        let len = len.max(1).checked_next_multiple_of(PAGE_BYTES).ok_or_else(too_long)?;
        // One large page more than needed, so that the memory can begin at the border of one. What
        // is never touched costs addresses only.
        let mapped_len = len.checked_add(HUGE_PAGE_BYTES).ok_or_else(too_long)?;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no other
        // memory.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                mapped_len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let base = NonNull::new(base).ok_or_else(too_long)?;
        let skip = base.cast::<u8>().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: `skip` is less than the large page that was added to the length.
        let start = unsafe { base.cast::<u8>().add(skip) };
        #[cfg(target_os = "linux")]
        // SAFETY: the range lies in the mapping just made. Advice that is refused leaves small
        // pages, which are slower and not wrong.
        let _advised =
            unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, rustix::mm::Advice::LinuxHugepage) };
        Ok(Self { start, len, origin: Origin::Mapping { base, len: mapped_len } })
    }

    /// One large page cut into pieces of at least `len` bytes each, two or more. A device is given
    /// such a piece as one range of addresses, and small pages that are scattered as one range for
    /// each page, which makes a read of 1 MiB take twice as long. A page is counted in the budget,
    /// if there is one, until the last of its pieces is gone.
    ///
    /// # Errors
    /// Returns an error if the system has no memory for the mapping, only one piece would fit, or
    /// the budget is used up.
    pub(super) fn pieces_of_a_large_page(
        len: usize,
        budget: Option<&Arc<PageBudget>>,
    ) -> io::Result<Vec<Self>> {
        let too_long = || io::Error::from(io::ErrorKind::OutOfMemory);
        let len = len.max(1).checked_next_multiple_of(PAGE_BYTES).ok_or_else(too_long)?;
        let count = HUGE_PAGE_BYTES / len;
        if count < 2 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let memory = Self::mapped(HUGE_PAGE_BYTES)?;
        if budget.is_some_and(|budget| !budget.take()) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let first = memory.start;
        let page = Arc::new(LargePage { memory, budget: budget.cloned() });
        let piece = |index: usize| {
            // SAFETY: the page has `count` pieces of this length.
            let start = unsafe { first.add(index * len) };
            Self { start, len, origin: Origin::Part(Arc::clone(&page)) }
        };
        Ok((0..count).map(piece).collect())
    }

    /// The first byte.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many bytes there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match &self.origin {
            // The page goes when its last part does.
            Origin::Part(_) => {}
            // SAFETY: it was allocated with this layout and is freed once.
            Origin::Heap(layout) => unsafe { dealloc(self.start.as_ptr(), *layout) },
            Origin::Mapping { base, len } => {
                // SAFETY: it was mapped with this length, and nothing refers to it any more.
                let unmapped = unsafe { rustix::mm::munmap(base.as_ptr(), *len) };
                debug_assert!(unmapped.is_ok(), "a mapping of our own cannot be refused: {unmapped:?}");
            }
        }
    }
}
