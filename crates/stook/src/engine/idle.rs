//! [`IdlePool`]: idle engines and sessions, kept for the next caller that needs one.

use std::sync::{Mutex, PoisonError};

/// More than a few idle ones are left over from a burst of threads, and each holds kernel memory.
const IDLE_MAX: usize = 4;

/// Idle values that may be reused by the process that made them. A forked child has a copy of its
/// parent's: the rings belong to the parent, and the threads of a pool do not exist in the child.
/// The child neither uses nor destroys them.
pub(crate) struct IdlePool<T>(Mutex<OfProcess<T>>);

struct OfProcess<T> {
    process: u32,
    values: Vec<T>,
}

impl<T> OfProcess<T> {
    fn of_this_process(&mut self) -> &mut Vec<T> {
        let process = std::process::id();
        if self.process != process {
            std::mem::forget(std::mem::take(&mut self.values));
            self.process = process;
        }
        &mut self.values
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        self.of_this_process();
    }
}

impl<T> IdlePool<T> {
    /// A pool without any.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(OfProcess { process: std::process::id(), values: Vec::new() }))
    }

    /// Takes the most recently kept value, if there is any.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).of_this_process().pop()
    }

    /// Keeps one, unless there are enough.
    pub(crate) fn keep(&self, value: T) {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = pool.of_this_process();
        if idle.len() < IDLE_MAX {
            idle.push(value);
        }
    }
}

impl<T> std::fmt::Debug for IdlePool<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IdlePool")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_last_comes_back_first_and_no_more_than_a_few_are_kept() {
        let pool = IdlePool::new();
        (0..9).for_each(|value| pool.keep(value));
        let taken: Vec<usize> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(taken, (0..IDLE_MAX).rev().collect::<Vec<_>>());
    }

    #[test]
    fn what_another_process_made_is_neither_used_nor_dropped() {
        let value = Arc::new(());
        for _ in 0..2 {
            let pool = IdlePool::new();
            pool.keep(Arc::clone(&value));
            pool.0.lock().unwrap().process ^= 1;
            drop(pool);
        }
        let pool = IdlePool::new();
        pool.keep(Arc::clone(&value));
        pool.0.lock().unwrap().process ^= 1;
        assert!(pool.take().is_none());
        pool.keep(Arc::clone(&value));
        assert_eq!(Arc::strong_count(&value), 5, "three are left alone, one is kept");
        drop(pool);
        assert_eq!(Arc::strong_count(&value), 4);
    }
}
