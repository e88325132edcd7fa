//! Buffers that come back: a pool keeps the memory of dropped buffers for the next ones.
//!
//! It saves zeroing and mapping fresh memory for every read. It is bounded, and never makes a
//! caller wait for a buffer: if the pool is empty, fresh memory is allocated.

use std::sync::{Arc, Mutex, PoisonError};

use super::arena::Arena;
use super::buffer::Buffer;
use super::memory::{Memory, PAGE_BYTES, PageBudget};
use crate::error::Result;

/// Lends buffers and gets their memory back when they are dropped, also when they were turned into
/// [`Bytes`](bytes::Bytes) before.
#[derive(Debug, Clone)]
pub struct BufferPool {
    shelf: Arc<Shelf>,
}

/// The memory that is not in use, by the power of two of its length.
#[derive(Debug)]
pub(super) struct Shelf {
    idle_max_bytes: usize,
    idle: Mutex<Idle>,
    /// Of the large pages that shorter pieces are cut from.
    shared: Arc<PageBudget>,
}

#[derive(Debug, Default)]
struct Idle {
    classes: Vec<Vec<Memory>>,
    bytes: usize,
}

/// From this length on fresh memory is cut from large pages; for longer ones than half of such a
/// page the system is asked for memory of their own. A piece that is kept keeps its page: up to
/// eight times its length.
const CUT_FROM_BYTES: usize = 256 << 10;

/// So are pieces from this length on, but only while pages of them take no more than the pool may
/// keep: a caller that keeps one piece of each page would hold up to 32 times as much as it keeps.
/// Pages take that much more memory at most, however many pieces are kept and however long.
const SHARED_FROM_BYTES: usize = 64 << 10;

/// How many pieces of the own class are tried; in the class above, none is too small.
const LOOKED_AT: usize = 8;

impl BufferPool {
    /// A pool that keeps memory of at most this many bytes.
    pub fn new(idle_max_bytes: usize) -> Self {
        let shared = PageBudget::new(idle_max_bytes);
        Self { shelf: Arc::new(Shelf { idle_max_bytes, idle: Mutex::default(), shared }) }
    }

    /// A buffer of at least `capacity` bytes without data. Its memory may hold bytes of an earlier
    /// use.
    pub fn take(&self, capacity: usize) -> Buffer {
        let memory = self.shelf.get(capacity).unwrap_or_else(|| self.shelf.fresh(capacity));
        Buffer::pooled(memory, Arc::downgrade(&self.shelf))
    }

    /// The same as an arena of at least `len` bytes.
    ///
    /// # Errors
    /// When the system has no memory for it.
    pub(crate) fn arena(&self, len: usize) -> Result<Arena> {
        Arena::pooled(len, &self.shelf)
    }
}

impl Shelf {
    /// Memory from the system. What is cut off with it comes onto the shelf.
    fn fresh(&self, capacity: usize) -> Memory {
        if capacity < SHARED_FROM_BYTES || self.idle_max_bytes < CUT_FROM_BYTES * 16 {
            return Memory::zeroed(capacity);
        }
        let budget = (capacity < CUT_FROM_BYTES).then_some(&self.shared);
        let Ok(mut pieces) = Memory::pieces_of_a_large_page(capacity, budget) else {
            return match budget {
                Some(_) => Memory::zeroed(capacity),
                None => Memory::mapped(capacity).unwrap_or_else(|_| Memory::zeroed(capacity)),
            };
        };
        let first = pieces.pop();
        pieces.into_iter().for_each(|piece| self.put(piece));
        first.unwrap_or_else(|| Memory::zeroed(capacity))
    }

    /// Memory that is large enough and not more than four times too large.
    pub(super) fn get(&self, capacity: usize) -> Option<Memory> {
        let class = class_of(capacity.max(PAGE_BYTES));
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let Idle { classes, bytes } = &mut *idle;
        let own = classes.get_mut(class)?;
        // The latest is the likeliest to be in the processor's caches.
        let fits = own.iter().rev().take(LOOKED_AT).position(|memory| memory.len() >= capacity);
        let memory = match fits {
            Some(back) => Some(own.swap_remove(own.len() - 1 - back)),
            None => classes.get_mut(class + 1).and_then(Vec::pop),
        }?;
        *bytes -= memory.len();
        Some(memory)
    }

    /// Keeps the memory; if there is too much, drops half of all: sizes that are no longer
    /// requested must not fill the pool forever.
    pub(super) fn put(&self, memory: Memory) {
        if memory.len() > self.idle_max_bytes {
            // No room could be made for it.
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let Idle { classes, bytes } = &mut *idle;
        if bytes.saturating_add(memory.len()) > self.idle_max_bytes {
            for class in classes.iter_mut() {
                for dropped in class.drain(..class.len().div_ceil(2)) {
                    *bytes -= dropped.len();
                }
            }
        }
        if bytes.saturating_add(memory.len()) > self.idle_max_bytes {
            return;
        }
        let class = class_of(memory.len());
        if classes.len() <= class {
            classes.resize_with(class + 2, Vec::new);
        }
        *bytes += memory.len();
        if let Some(class) = classes.get_mut(class) {
            class.push(memory);
        }
    }
}

fn class_of(len: usize) -> usize {
    len.max(1).ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_dropped_buffers_is_used_again() {
        let pool = BufferPool::new(4 << 20);
        let buffer = pool.take(20_000);
        let address = buffer.as_ptr();
        drop(buffer.into_bytes());
        assert_eq!(pool.take(19_000).as_ptr(), address);
        assert_eq!(pool.take(11_000).as_ptr(), address, "from the class above");
        assert!(pool.take(1 << 20).capacity() >= 1 << 20, "too small for this one");
        assert_ne!(pool.take(4_000).as_ptr(), address, "far too large for this one");
    }

    #[test]
    fn longer_buffers_are_cut_from_one_large_page() {
        let pool = BufferPool::new(8 << 20);
        let mut buffers: Vec<_> = (0..8).map(|_| pool.take(256 << 10)).collect();
        let mut starts: Vec<usize> = buffers.iter().map(|buffer| buffer.as_ptr() as usize).collect();
        starts.sort_unstable();
        assert_eq!(starts[0] % (2 << 20), 0);
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 256 << 10), "{starts:x?}");
        for (index, buffer) in buffers.iter_mut().enumerate() {
            assert!(buffer.memory().iter().all(|byte| *byte == 0));
            buffer.memory_mut().fill(index as u8);
        }
        // The page lives as long as one of them, also without the pool.
        let last = buffers.pop().unwrap();
        drop((buffers, pool));
        assert!(last.memory().iter().all(|byte| *byte == 7));
    }

    #[test]
    fn shorter_buffers_share_large_pages_until_these_take_what_the_pool_may_keep() {
        let pool = BufferPool::new(4 << 20);
        let large_page = |buffer: &Buffer| buffer.as_ptr() as usize / (2 << 20);
        // One is kept of each page: what is asked for next is of another.
        let mut kept = Vec::new();
        for _ in 0..2 {
            let mut page: Vec<_> = (0..16).map(|_| pool.take(128 << 10)).collect();
            assert!(page.iter().all(|buffer| large_page(buffer) == large_page(&page[0])));
            kept.append(&mut page);
        }
        assert_ne!(large_page(&kept[0]), large_page(&kept[16]));
        // Further ones have memory of their own, which goes when they do.
        let own: Vec<_> = (0..100).map(|_| pool.take(128 << 10)).collect();
        let alive = || pool.shelf.shared.alive_bytes();
        assert_eq!(alive(), 4 << 20);
        drop(own);
        let last = kept.pop();
        drop(kept);
        assert_eq!(alive(), 4 << 20, "the pool has them, and one is out");
        pool.shelf.idle.lock().unwrap().classes.clear();
        assert_eq!(alive(), 2 << 20);
        drop(last);
        pool.shelf.idle.lock().unwrap().classes.clear();
        assert_eq!(alive(), 0);
    }

    #[test]
    fn the_memory_of_an_arena_comes_back_with_its_last_piece() {
        let pool = BufferPool::new(8 << 20);
        let mut arena = pool.arena(3 << 20).unwrap();
        let mut piece = arena.take(4096..8192);
        piece.spare().fill(7);
        let address = piece.as_ptr();
        drop(arena);
        assert_eq!(pool.shelf.idle.lock().unwrap().bytes, 0, "a piece is still out");
        drop(piece);
        let mut again = pool.arena(2 << 20).unwrap();
        assert!(again.len() >= 2 << 20);
        assert_eq!(again.take(4096..8192).as_ptr(), address);
        let bytes = again.into_bytes();
        assert_eq!((bytes.len(), bytes[4096]), (3 << 20, 7));
        drop(bytes);
        assert_eq!(pool.take(3 << 20).memory()[4096], 7, "buffers and arenas share a shelf");
    }

    #[test]
    fn the_shelf_is_bounded_and_outlived_by_its_buffers() {
        let pool = BufferPool::new(40_960);
        let buffers: Vec<_> = (0..100).map(|_| pool.take(1)).collect();
        drop(buffers);
        let held = |pool: &BufferPool| pool.shelf.idle.lock().unwrap().bytes;
        assert!((4096..=40_960).contains(&held(&pool)));
        drop(pool.take(100_000));
        assert!(held(&pool) <= 40_960, "larger than the shelf");
        let last = pool.take(1);
        drop(pool);
        assert_eq!(last.memory().len(), 4096);
    }
}
