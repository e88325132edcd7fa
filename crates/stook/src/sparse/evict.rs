//! Which segments go when too much is held: those that were touched longest ago.
//!
//! A pass over all segments finds the oldest eighth of them, which are then evicted one after the
//! other as space is needed. Segments touched or written meanwhile are younger than all of those,
//! so the order is right without a list that every touch would have to update; and a pass over `n`
//! segments serves `n / 8` evictions.

use super::buffer::SparseBuffer;

/// Segments to be evicted next.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Last touch, which of the files, first position; the oldest last.
    waiting: Vec<(u64, u32, u64)>,
}

impl Queue {
    /// Forgets what was to be evicted next.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.waiting.capacity() * size_of::<(u64, u32, u64)>()) as u64
    }
}

/// Files that are evicted from together.
pub(super) trait Files {
    /// Bytes held by all.
    fn held_bytes(&self) -> u64;
    /// About how many segments all have.
    fn segments(&self) -> u64;
    /// Goes through all files, and calls `each` with number, start and last touch of all segments
    /// that may be evicted.
    fn look(&self, each: &mut dyn FnMut(u32, u64, u64));
    /// Evicts one segment; see [`SparseBuffer::evict_segment`].
    fn evict(&self, file: u32, start: u64, tick: u64, whatever: bool) -> u64;
}

/// A single file.
pub(super) struct One<'a>(pub(super) &'a SparseBuffer);

impl Files for One<'_> {
    fn held_bytes(&self) -> u64 {
        self.0.held_bytes()
    }

    fn segments(&self) -> u64 {
        self.0.lock.read().held.index.len()
    }

    fn look(&self, each: &mut dyn FnMut(u32, u64, u64)) {
        self.0.evictable(|start, tick| each(0, start, tick));
    }

    fn evict(&self, _file: u32, start: u64, tick: u64, whatever: bool) -> u64 {
        self.0.evict_segment(start, tick, whatever)
    }
}

/// Evicts until at most `budget_bytes` are held, or nothing is left that may go; how many bytes
/// went.
pub(super) fn evict(queue: &mut Queue, budget_bytes: u64, files: &dyn Files) -> u64 {
    let (mut gone, mut fruitless) = (0, 0);
    while files.held_bytes() > budget_bytes {
        if queue.waiting.is_empty() {
            look(queue, files);
            fruitless += 1;
            // Once may be that all were touched between looking and evicting.
            if queue.waiting.is_empty() || fruitless > 2 {
                break;
            }
        }
        let mut over = files.held_bytes().saturating_sub(budget_bytes);
        while over > 0
            && let Some((tick, file, start)) = queue.waiting.pop()
        {
            let bytes = files.evict(file, start, tick, fruitless > 1);
            over = over.saturating_sub(bytes);
            gone += bytes;
            if bytes > 0 {
                fruitless = 0;
            }
        }
    }
    gone
}

/// Fills the queue with the oldest.
fn look(queue: &mut Queue, files: &dyn Files) {
    let some = (files.segments() / 8).max(64) as usize;
    let waiting = &mut queue.waiting;
    files.look(&mut |file, start, tick| {
        waiting.push((tick, file, start));
        // Never many more than are wanted, so that looking takes little memory.
        if waiting.len() >= some * 2 {
            waiting.select_nth_unstable(some);
            waiting.truncate(some);
        }
    });
    if waiting.len() > some {
        waiting.select_nth_unstable(some);
        waiting.truncate(some);
    }
    waiting.sort_unstable_by(|left, right| right.cmp(left));
    waiting.shrink_to_fit();
}
