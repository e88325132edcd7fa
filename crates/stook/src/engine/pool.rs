//! Buffers that come back: a pool keeps the memory of dropped buffers for the next ones.
//!
//! It saves zeroing and mapping fresh memory for every read. It is bounded, and never holds a buffer
//! back for somebody who waits: when nothing is on the shelf, fresh memory is made.

use std::sync::{Arc, Mutex, PoisonError};

use super::buffer::Buffer;
use super::memory::Memory;

/// Hands out buffers and gets their memory back when they are dropped, also when they were turned
/// into [`Bytes`](bytes::Bytes) before.
#[derive(Debug, Clone)]
pub struct BufferPool {
    shelf: Arc<Shelf>,
}

/// The memory that is not in use.
#[derive(Debug)]
pub(super) struct Shelf {
    keep: usize,
    free: Mutex<Vec<Memory>>,
}

impl BufferPool {
    /// A pool that keeps the memory of at most `keep` buffers.
    pub fn new(keep: usize) -> Self {
        Self { shelf: Arc::new(Shelf { keep, free: Mutex::default() }) }
    }

    /// A buffer of at least `capacity` bytes without data. Its memory may hold what an earlier use left.
    pub fn take(&self, capacity: usize) -> Buffer {
        let memory = self.shelf.get(capacity).unwrap_or_else(|| Memory::zeroed(capacity));
        Buffer::pooled(memory, Arc::downgrade(&self.shelf))
    }
}

impl Shelf {
    /// Memory that is large enough and not more than four times too large.
    fn get(&self, capacity: usize) -> Option<Memory> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |memory: &Memory| {
            memory.len() >= capacity && memory.len() / 4 <= capacity.max(super::memory::PAGE_BYTES)
        };
        // The latest is the likeliest to fit and to be in the processor's caches.
        let at = free.iter().rposition(fits)?;
        Some(free.swap_remove(at))
    }

    /// Keeps the memory, or the newer half of all when there is too much: sizes that nobody asks for
    /// any more must not fill the shelf for good.
    pub(super) fn put(&self, memory: Memory) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() >= self.keep {
            let surplus = free.len() - self.keep / 2;
            free.drain(..surplus);
        }
        if self.keep > 0 {
            free.push(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_dropped_buffers_is_used_again() {
        let pool = BufferPool::new(2);
        let buffer = pool.take(20_000);
        let address = buffer.as_ptr();
        drop(buffer.into_bytes());
        assert_eq!(pool.take(19_000).as_ptr(), address);
        assert!(pool.take(1 << 20).capacity() >= 1 << 20, "too small for this one");
    }

    #[test]
    fn the_shelf_is_bounded_and_outlived_by_its_buffers() {
        let pool = BufferPool::new(4);
        let buffers: Vec<_> = (0..100).map(|_| pool.take(1)).collect();
        drop(buffers);
        assert!(pool.shelf.free.lock().unwrap().len() <= 4);
        let last = pool.take(1);
        drop(pool);
        assert_eq!(last.memory().len(), 4096);
    }
}
