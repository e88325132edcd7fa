//! The clock of touches: a 64-bit count, cheap to advance from many threads.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// How many ticks a thread takes from the common count at a time.
const BATCH: u64 = 256;
/// How far a thread may lag behind the others.
const LAG_MAX: u64 = 16 * BATCH;
const SLOTS: usize = 16;
/// The slack of the ticks of an exact clock: a touch is noted if it is newer at all.
const EXACT: u64 = u64::MAX;

/// The counter of one thread (or a few), in its own cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct ThreadSlot {
    next: AtomicU64,
    /// How much newer a touch must be to be noted; 0 while only one thread counts.
    slack: AtomicU64,
}

/// The highest first touch: no count of touches can exhaust the range above it.
pub(super) const FIRST_MAX: u64 = 1 << 63;

/// A count of touches. Within a thread it is exact. Threads that count at the same time take ticks
/// in batches, so that they need not wait for one another: between them the order is right to
/// within some thousand ticks. An exact clock takes one tick at a time.
#[derive(Debug)]
pub(super) struct Clock {
    is_exact: bool,
    /// The offset that is added to a count that begins at [`BATCH`], modulo 2^64, so that the first
    /// tick is the requested one.
    origin: u64,
    /// The first count that is not taken yet.
    common: AtomicU64,
    /// The thread that took the last batch.
    last: AtomicUsize,
    slots: [ThreadSlot; SLOTS],
}

/// A moment, to be noted where something is touched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) tick: u64,
    slack: u64,
}

impl Now {
    /// Notes the touch; but not if a nearly as recent one is stored already and several threads are
    /// active: they would only contend for the cache line.
    #[inline]
    pub(super) fn touch(self, cell: Option<&AtomicU64>) {
        let Some(cell) = cell else { return };
        if self.tick > cell.load(Relaxed).saturating_add(self.slack) {
            cell.store(self.tick, Relaxed);
        } else if self.slack == EXACT {
            // Another thread may note a later one meanwhile.
            cell.fetch_max(self.tick, Relaxed);
        }
    }
}

impl Clock {
    /// A clock whose first tick is this one; 1 instead of 0, which means that nothing was touched
    /// yet.
    pub(super) fn new(first: u64, is_exact: bool) -> Self {
        let origin = first.max(1).wrapping_sub(BATCH);
        let (common, last) = (AtomicU64::new(BATCH), AtomicUsize::new(SLOTS));
        Self { is_exact, origin, common, last, slots: Default::default() }
    }

    /// Begins again with the first tick. No other thread may ask for one meanwhile.
    pub(super) fn reset(&self) {
        self.common.store(BATCH, Relaxed);
        self.last.store(SLOTS, Relaxed);
        for slot in &self.slots {
            slot.next.store(0, Relaxed);
            slot.slack.store(0, Relaxed);
        }
    }

    /// The next tick, for the thread of this number.
    #[inline]
    pub(super) fn now(&self, thread: usize) -> Now {
        let number = thread % SLOTS;
        let Some(slot) = self.slots.get(number) else { return Now { tick: 0, slack: 0 } };
        // Threads that share a slot may get the same tick: they are at work at the same time, and
        // which of them was first is not known anyway.
        let count = slot.next.load(Relaxed);
        if count.is_multiple_of(BATCH) || self.common.load(Relaxed).saturating_sub(count) > LAG_MAX {
            return self.take_batch(number, slot);
        }
        slot.next.store(count.saturating_add(1), Relaxed);
        Now { tick: count.wrapping_add(self.origin), slack: slot.slack.load(Relaxed) }
    }

    #[cold]
    fn take_batch(&self, number: usize, slot: &ThreadSlot) -> Now {
        // The slots of an exact clock stay at the start of a batch, so every tick is taken here.
        if self.is_exact {
            let count = self.common.fetch_add(1, Relaxed);
            return Now { tick: count.wrapping_add(self.origin), slack: EXACT };
        }
        let count = self.common.fetch_add(BATCH, Relaxed);
        let last = self.last.swap(number, Relaxed);
        let slack = if last == number || last == SLOTS { 0 } else { LAG_MAX };
        // The first tick of a batch is returned here, so that the slot is at the start of a batch
        // only if it has none.
        slot.next.store(count.saturating_add(1), Relaxed);
        slot.slack.store(slack, Relaxed);
        Now { tick: count.wrapping_add(self.origin), slack }
    }

    /// Makes the next tick of an exact clock this one again, because nothing was touched, unless
    /// another thread has taken one since. Other clocks leave it out.
    #[cold]
    pub(super) fn take_back(&self, now: Now) {
        let count = now.tick.wrapping_sub(self.origin);
        if self.is_exact {
            // Taken by another, the tick is left out.
            let _ = self.common.compare_exchange(count.wrapping_add(1), count, Relaxed, Relaxed);
        }
    }

    /// A tick that is later than all that were returned: of an exact clock the next.
    pub(super) fn next(&self) -> u64 {
        self.common.load(Relaxed).wrapping_add(self.origin)
    }

    /// The latest tick that may have been returned.
    pub(super) fn latest(&self) -> u64 {
        match self.is_exact {
            true => self.next() - 1,
            false => self.next(),
        }
    }

    /// No tick from now on is as early as `past`.
    pub(super) fn advance_past(&self, past: u64) {
        if past < self.origin.wrapping_add(BATCH) {
            return;
        }
        let past = past.wrapping_sub(self.origin);
        if self.is_exact {
            self.common.fetch_max(past.saturating_add(1), Relaxed);
            return;
        }
        let first = past.saturating_add(BATCH) / BATCH * BATCH;
        self.common.fetch_max(first.saturating_add(LAG_MAX).saturating_add(BATCH) / BATCH * BATCH, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sparse::thread::thread_number;

    #[test]
    fn ticks_of_one_thread_rise_past_32_bits_and_batches() {
        let clock = Clock::new((1 << 32) - 1000, false);
        let ticks: Vec<u64> = (0..5000).map(|_| clock.now(thread_number()).tick).collect();
        assert!(ticks.is_sorted_by(|a, b| a < b));
        assert!(ticks[0] < 1 << 32 && ticks[4999] > 1 << 32);
    }

    #[test]
    fn the_first_tick_is_the_one_that_was_asked_for() {
        for first in [1, 2, 255, 256, 1_000, 1 << 40, FIRST_MAX] {
            let clock = Clock::new(first, false);
            let ticks: Vec<u64> = (0..1_000).map(|_| clock.now(thread_number()).tick).collect();
            assert_eq!(ticks, (first..first + 1_000).collect::<Vec<_>>());
            assert!((first + 1_000..first + 1_000 + BATCH).contains(&clock.latest()));
            clock.advance_past(first - 1);
            clock.advance_past(first + 5_000);
            assert!(clock.now(thread_number()).tick > first + 5_000);
        }
        assert_eq!(Clock::new(0, false).now(thread_number()).tick, 1);
    }

    #[test]
    fn threads_stay_close_to_one_another() {
        let clock = Clock::new(0, false);
        let early =
            std::thread::scope(|scope| scope.spawn(|| clock.now(thread_number()).tick).join().unwrap());
        let late = (0..100_000).map(|_| clock.now(thread_number()).tick).last().unwrap();
        assert!(late > early);
        // A thread that rested and comes back is not taken for one that was here long ago.
        std::thread::scope(|scope| {
            let (clock, from) = (&clock, clock.now(thread_number()).tick);
            let back = scope.spawn(move || clock.now(thread_number()).tick).join().unwrap();
            assert!(back + LAG_MAX >= from);
        });
    }

    #[test]
    fn a_clock_that_is_advanced_is_past_what_was_loaded() {
        let clock = Clock::new(0, false);
        clock.now(thread_number());
        clock.advance_past(1 << 40);
        assert!(clock.now(thread_number()).tick > 1 << 40);
        clock.reset();
        assert_eq!(clock.now(thread_number()).tick, 1);
    }

    #[test]
    fn an_exact_clock_leaves_no_tick_out_whichever_thread_asks() {
        let clock = Clock::new(7, true);
        assert_eq!((clock.next(), clock.latest()), (7, 6));
        let mut ticks: Vec<u64> = std::thread::scope(|scope| {
            let one = || (0..1000).map(|_| clock.now(thread_number()).tick).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        ticks.sort_unstable();
        assert_eq!(ticks, (7..4007).collect::<Vec<_>>());
        assert_eq!(clock.next(), 4007);
        clock.advance_past(4006);
        assert_eq!(clock.now(thread_number()).tick, 4007);
        clock.advance_past(1 << 40);
        assert_eq!(clock.now(thread_number()).tick, (1 << 40) + 1);
        clock.advance_past(5);
        clock.take_back(clock.now(thread_number()));
        assert_eq!(clock.next(), (1 << 40) + 2);
        let early = clock.now(thread_number());
        clock.now(thread_number());
        clock.take_back(early);
        assert_eq!(clock.next(), (1 << 40) + 4, "it is not the last any more");
        clock.reset();
        assert_eq!(clock.now(thread_number()).tick, 7);
    }
}
