//! [`BiasedLock`]: many readers on many processors, or one writer.
//!
//! Readers of a plain `RwLock` all count in one cache line, which then bounces between processors:
//! reads that take 50 ns get slower with every thread. Here, while there are no writers, the lock
//! is biased towards readers: each announces itself in its own cache line (up to 32 of them) and
//! never touches the plain lock. A writer takes the plain lock, revokes the bias and waits until no
//! reader is announced any more. The bias returns only after some reads without a write, so with
//! frequent writes this is a plain `RwLock`.
//!
//! Why it is sound: a writer holds the plain lock exclusively, so no reader that went through the
//! plain lock is inside. A reader that did not has, in this order and sequentially consistent,
//! announced itself and then seen the bias; a writer has taken the bias away and then seen no
//! announcement. One of the two comes first for both, so if the reader saw the bias, the writer
//! sees the announcement. The bias is set only by who holds the plain lock shared, so never while a
//! writer is inside.
#![expect(unsafe_code, reason = "a lock of our own hands out references to what it guards")]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::thread::thread_number;

/// Announcements of readers: one each for threads with small numbers, and a few that all others
/// share.
const OWN: usize = 32;
const SHARED: usize = 4;
const SLOTS: usize = OWN + SHARED;
/// Readings through the plain lock since the last write, after which the bias is given.
const READINGS: u32 = 64;

/// Where one thread (or a few) announces that it reads, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct ReaderSlot<S> {
    readers: AtomicUsize,
    beside: S,
}

/// A value for many readers or one writer, and beside it a `S` for every few threads, in which
/// readers may note something without getting into one another's way.
#[derive(Debug)]
pub(super) struct BiasedLock<T, S> {
    biased: AtomicBool,
    /// Readings through the plain lock since the last write.
    readings: AtomicU32,
    plain: RwLock<()>,
    /// Made when the bias is first given.
    slots: OnceLock<Box<[ReaderSlot<S>; SLOTS]>>,
    /// For readers that come through the plain lock.
    beside: S,
    value: UnsafeCell<T>,
}

// SAFETY: references to the value are shared by readers on any thread (`T: Sync`) or exclusive for
// one writer on any thread (`T: Send`), as with `RwLock`; `S` is only ever shared.
unsafe impl<T: Send + Sync, S: Sync> Sync for BiasedLock<T, S> {}

impl<T, S: Default> BiasedLock<T, S> {
    pub(super) fn new(value: T) -> Self {
        Self {
            biased: AtomicBool::new(false),
            readings: AtomicU32::new(0),
            plain: RwLock::new(()),
            slots: OnceLock::new(),
            beside: S::default(),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for a writer, and then keeps writers out.
    #[inline]
    pub(super) fn read(&self) -> Reading<'_, T, S> {
        match self.read_biased() {
            Some(reading) => reading,
            None => self.read_plain(thread_number()),
        }
    }

    /// Keeps writers out, where the bias lets readers in without waiting: what most readings come
    /// through. Who deals with it apart from [`read`](Self::read) lets the compiler keep the guard
    /// in registers.
    #[inline]
    pub(super) fn read_biased(&self) -> Option<Reading<'_, T, S>> {
        if !self.biased.load(Ordering::Acquire) {
            return None;
        }
        let thread = thread_number();
        let slot = self.slot(thread)?;
        slot.readers.fetch_add(1, Ordering::SeqCst);
        let own = thread < OWN;
        let announced = Some(Announced { readers: &slot.readers, own });
        // Dropped, an announcement that came too late is taken back.
        self.biased.load(Ordering::SeqCst).then_some(Reading {
            lock: self,
            thread,
            own,
            beside: &slot.beside,
            _announced: announced,
            _plain: None,
        })
    }

    #[inline]
    fn slot(&self, thread: usize) -> Option<&ReaderSlot<S>> {
        let number = if thread < OWN { thread } else { OWN + thread % SHARED };
        self.slots.get()?.get(number)
    }

    #[cold]
    fn read_plain(&self, thread: usize) -> Reading<'_, T, S> {
        let plain = self.plain.read().unwrap_or_else(PoisonError::into_inner);
        if self.readings.fetch_add(1, Ordering::Relaxed) >= READINGS {
            self.slots.get_or_init(|| Box::new(std::array::from_fn(|_| ReaderSlot::default())));
            self.biased.store(true, Ordering::SeqCst);
        }
        let slot = self.slot(thread);
        let (own, beside) = (thread < OWN && slot.is_some(), slot.map_or(&self.beside, |slot| &slot.beside));
        Reading { lock: self, thread, own, beside, _announced: None, _plain: Some(plain) }
    }

    /// Waits for readers and writers, and keeps others out.
    #[inline]
    pub(super) fn write(&self) -> Writing<'_, T, S> {
        let plain = self.plain.write().unwrap_or_else(PoisonError::into_inner);
        // The bias is never given while the plain lock is held exclusively.
        if self.biased.load(Ordering::Relaxed) {
            self.take_bias();
        }
        if self.readings.load(Ordering::Relaxed) != 0 {
            self.readings.store(0, Ordering::Relaxed);
        }
        Writing { lock: self, _plain: plain }
    }

    #[cold]
    fn take_bias(&self) {
        self.biased.store(false, Ordering::SeqCst);
        for slot in self.slots.get().into_iter().flat_map(|slots| slots.iter()) {
            let mut tries = 0u32;
            while slot.readers.load(Ordering::SeqCst) != 0 {
                tries = tries.saturating_add(1);
                // A reading is short, unless its thread does not run.
                if tries < 64 { std::hint::spin_loop() } else { std::thread::yield_now() }
            }
        }
    }

    /// The guarded value, through an exclusive reference.
    pub(super) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// What threads have noted, in any order.
    pub(super) fn all_beside(&self) -> impl Iterator<Item = &S> {
        let slots = self.slots.get().into_iter().flat_map(|slots| slots.iter());
        slots.map(|slot| &slot.beside).chain(std::iter::once(&self.beside))
    }

    /// The memory of the slots, beside the lock itself.
    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.get().map_or(0, |_| size_of::<[ReaderSlot<S>; SLOTS]>())
    }
}

/// A reader's announcement, taken back when it is dropped.
#[derive(Debug)]
struct Announced<'a> {
    readers: &'a AtomicUsize,
    /// Whether only this thread writes to it.
    own: bool,
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        if self.own {
            // No other thread changes it, and the reads happen before this is visible.
            self.readers.store(self.readers.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Release);
        } else {
            self.readers.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Shared access to the value.
#[derive(Debug)]
pub(super) struct Reading<'a, T, S> {
    lock: &'a BiasedLock<T, S>,
    thread: usize,
    own: bool,
    beside: &'a S,
    _announced: Option<Announced<'a>>,
    _plain: Option<RwLockReadGuard<'a, ()>>,
}

// A guard stays on its thread: the one of the plain lock that it may hold is not `Send`.
impl<'a, T, S> Reading<'a, T, S> {
    /// Where this thread may note something, and a few others may too.
    #[inline]
    pub(super) fn beside(&self) -> &'a S {
        self.beside
    }

    /// Whether no other thread uses what is [beside](Self::beside), as long as this one runs.
    #[inline]
    pub(super) fn is_own(&self) -> bool {
        self.own
    }

    /// The number of this thread.
    #[inline]
    pub(super) fn thread(&self) -> usize {
        self.thread
    }
}

impl<T, S> Deref for Reading<'_, T, S> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: as long as this guard lives, it is announced or holds the plain lock, and no
        // writer is inside.
        unsafe { &*self.lock.value.get() }
    }
}

/// Exclusive access to the value.
#[derive(Debug)]
pub(super) struct Writing<'a, T, S> {
    lock: &'a BiasedLock<T, S>,
    _plain: RwLockWriteGuard<'a, ()>,
}

impl<T, S> Deref for Writing<'_, T, S> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the plain lock exclusively, and no reader is announced.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T, S> DerefMut for Writing<'_, T, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the plain lock exclusively, no reader is announced, and the
        // guard itself is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Two numbers that a writer changes one after the other: a reader that sees them differ looked
    /// inside a write.
    fn stress(readers: usize, writers: usize, rounds: u64, readings_per_write: u64) {
        let lock: BiasedLock<(u64, Vec<u64>), AtomicU64> = BiasedLock::new((0, vec![0; 8]));
        std::thread::scope(|scope| {
            for _ in 0..writers {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let mut writing = lock.write();
                        writing.0 += 1;
                        let new = writing.0;
                        writing.1.iter_mut().for_each(|value| *value = std::hint::black_box(new));
                        drop(writing);
                        for _ in 0..readings_per_write {
                            drop(lock.read());
                        }
                    }
                });
            }
            for _ in 0..readers {
                scope.spawn(|| {
                    let mut last = 0;
                    for _ in 0..rounds * 20 {
                        let reading = lock.read();
                        assert!(
                            reading.1.iter().all(|value| *value == reading.0),
                            "half of a write was seen"
                        );
                        assert!(reading.0 >= last, "a write was unseen again");
                        last = reading.0;
                        reading.beside().fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(lock.read().0, rounds * writers as u64, "a write was lost");
        let noted: u64 = lock.all_beside().map(|noted| noted.load(Ordering::Relaxed)).sum();
        assert_eq!(noted, rounds * 20 * readers as u64);
    }

    #[test]
    fn readers_see_whole_writes_whether_the_lock_is_biased_or_not() {
        stress(4, 2, 500, 0);
        stress(4, 2, 200, u64::from(READINGS) * 2);
        stress(OWN + 9, 1, 50, u64::from(READINGS) + 1);
    }

    #[test]
    fn bias_comes_after_readings_and_goes_with_a_write() {
        let lock: BiasedLock<u32, AtomicU64> = BiasedLock::new(1);
        assert_eq!(lock.memory_bytes(), 0);
        for _ in 0..=READINGS {
            assert!(!lock.biased.load(Ordering::SeqCst));
            assert_eq!(*lock.read(), 1);
        }
        assert!(lock.biased.load(Ordering::SeqCst));
        // Readers inside of one another, biased and not.
        let (first, second) = (lock.read(), lock.read());
        assert!(first._announced.is_some() && second._announced.is_some());
        drop((first, second));
        *lock.write() = 2;
        assert!(!lock.biased.load(Ordering::SeqCst));
        assert_eq!(*lock.read(), 2);
    }

    #[test]
    fn a_panic_of_a_reader_lets_the_next_writer_in() {
        let lock: BiasedLock<u32, AtomicU64> = BiasedLock::new(1);
        (0..=READINGS).for_each(|_| drop(lock.read()));
        std::thread::scope(|scope| {
            let panicked = scope.spawn(|| {
                let reading = lock.read();
                assert_eq!(*reading, 2, "on purpose");
            });
            assert!(panicked.join().is_err());
        });
        *lock.write() = 3;
        assert_eq!(*lock.read(), 3);
    }
}
