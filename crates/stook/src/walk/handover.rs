//! The bounded way from the threads of a walk to its one consumer.
//!
//! Room is reserved *before* bytes are read, and given back after they were consumed, so what is
//! buffered never exceeds the limit (but for a single entry that is larger than the limit, which
//! travels alone). Every entry costs a fixed amount besides its bytes: that bounds the count.
//!
//! What is handed over has the order in which the tasks were begun, not that in which they ended:
//! what a consumer stores then lies on the medium in the order of the tree. What came early waits
//! for what was begun before it. A quarter of the room is for the first task that has not ended, so
//! that the others cannot keep it from ending; only if that is not enough for one of its entries,
//! what came early is handed over before it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::directory::lock;
use super::entry::WalkEvent;

/// What an entry costs besides its content: its key, its metadata, allocation headers.
pub(super) const ENTRY_COST: u64 = 512;

/// Entries on their way, with the room they take.
#[derive(Debug, Default)]
pub(super) struct Parcel {
    pub(super) events: Vec<WalkEvent>,
    pub(super) cost: u64,
}

#[derive(Debug)]
pub(super) struct HandOver {
    limit: u64,
    state: Mutex<HandOverState>,
    /// Something to consume, or all producers have left.
    filled: Condvar,
}

/// A producer that waits for room.
#[derive(Debug)]
struct Waiting {
    cost: u64,
    /// Room, its turn, or the consumer has left.
    woken: Arc<Condvar>,
}

#[derive(Debug, Default)]
struct HandOverState {
    /// By the number of their task, and in the order in which it sent them.
    parcels: BTreeMap<(u64, u64), Parcel>,
    sent: u64,
    /// The first task that has not ended; what is of it, or of those before, need not wait.
    first: u64,
    /// Tasks after the first that have ended.
    ended: BTreeSet<u64>,
    used: u64,
    producers: usize,
    /// By their tasks: each is one thread's.
    waiting: BTreeMap<u64, Waiting>,
    /// Whether the consumer waits.
    idle: bool,
    closed: bool,
}

impl HandOver {
    pub(super) fn new(limit: u64, producers: usize) -> Self {
        Self {
            limit,
            state: Mutex::new(HandOverState { producers, ..HandOverState::default() }),
            filled: Condvar::new(),
        }
    }

    /// Reserves room for an entry of a task if there is some now.
    pub(super) fn try_reserve(&self, task: u64, cost: u64) -> bool {
        lock(&self.state).reserve(task, cost, self.limit)
    }

    /// Waits for room; `false` when the consumer has left. The caller must not sit on a parcel that
    /// it has not sent: everybody would wait for everybody.
    pub(super) fn reserve(&self, task: u64, cost: u64) -> bool {
        let woken = Arc::new(Condvar::new());
        let mut state = lock(&self.state);
        loop {
            let has_room = !state.closed && state.reserve(task, cost, self.limit);
            if has_room || state.closed {
                state.waiting.remove(&task);
                return has_room;
            }
            state.waiting.insert(task, Waiting { cost, woken: woken.clone() });
            self.wake_consumer(&state);
            state = woken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes room whose need was not foreseen, without waiting for it: a thread that has room
    /// already must not wait for more.
    pub(super) fn charge(&self, cost: u64) {
        let mut state = lock(&self.state);
        state.used = state.used.saturating_add(cost);
    }

    /// Sends entries of a task for which room was reserved. Never waits.
    pub(super) fn send(&self, task: u64, parcel: Parcel) {
        if parcel.events.is_empty() && parcel.cost == 0 {
            return;
        }
        let mut state = lock(&self.state);
        let sent = state.sent;
        state.sent += 1;
        state.parcels.insert((task, sent), parcel);
        self.wake_consumer(&state);
    }

    /// A task has sent what others need not overtake.
    pub(super) fn end(&self, task: u64) {
        let mut state = lock(&self.state);
        state.end(task);
        state.wake_first();
        self.wake_consumer(&state);
    }

    /// A producer has nothing more to send.
    pub(super) fn leave(&self) {
        let mut state = lock(&self.state);
        state.producers = state.producers.saturating_sub(1);
        self.wake_consumer(&state);
    }

    fn wake_consumer(&self, state: &HandOverState) {
        if state.idle && state.is_due(self.limit) {
            self.filled.notify_one();
        }
    }

    /// What is next in order; empty when nothing more will come.
    pub(super) fn receive(&self) -> Vec<Parcel> {
        let mut state = lock(&self.state);
        while !state.is_due(self.limit) {
            state.idle = true;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle = false;
        }
        let taken = state.take();
        state.wake_first();
        taken
    }

    /// Gives room back. The first task may go on at once. The others are woken when half of it is
    /// free, so that each of them gets a good piece of work done before it has to wait again: woken
    /// for every entry, they would spend the processors on waking.
    pub(super) fn release(&self, cost: u64) {
        let mut state = lock(&self.state);
        state.used = state.used.saturating_sub(cost);
        match state.used <= self.limit / 2 {
            true => state.wake_all(),
            false => state.wake_first(),
        }
    }

    /// The consumer wants no more.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.wake_all();
    }
}

impl HandOverState {
    fn fits(&self, task: u64, cost: u64, limit: u64) -> bool {
        let room = if task <= self.first { limit } else { limit - limit / 4 };
        self.used == 0 || self.used.saturating_add(cost) <= room
    }

    fn reserve(&mut self, task: u64, cost: u64, limit: u64) -> bool {
        let fits = self.fits(task, cost, limit);
        if fits {
            self.used = self.used.saturating_add(cost);
        }
        fits
    }

    /// Wakes the thread of the first task, if that waits for room.
    fn wake_first(&self) {
        if let Some((_, waiting)) = self.waiting.first_key_value().filter(|(task, _)| **task <= self.first) {
            waiting.woken.notify_one();
        }
    }

    fn wake_all(&self) {
        self.waiting.values().for_each(|waiting| waiting.woken.notify_one());
    }

    fn end(&mut self, task: u64) {
        if task >= self.first {
            self.ended.insert(task);
        }
        self.advance();
    }

    fn advance(&mut self) {
        while self.ended.remove(&self.first) {
            self.first += 1;
        }
    }

    /// Whether the consumer need not wait: for the first task, unless that has no room to go on.
    fn is_due(&self, limit: u64) -> bool {
        let Some((&(task, _), _)) = self.parcels.first_key_value() else { return self.producers == 0 };
        let first = self.waiting.first_key_value().filter(|(task, _)| **task <= self.first);
        let is_stuck = first.is_some_and(|(task, waiting)| !self.fits(*task, waiting.cost, limit));
        task <= self.first || is_stuck || self.producers == 0
    }

    /// Takes what is in order. If that is nothing, the first task has no room: the first half of
    /// what there is, with what follows it without a gap; what was begun before it comes late.
    fn take(&mut self) -> Vec<Parcel> {
        let Some((&(earliest, _), _)) = self.parcels.first_key_value() else { return Vec::new() };
        if earliest > self.first {
            let middle = self.parcels.len().saturating_sub(1) / 2;
            self.first = self.parcels.keys().nth(middle).map_or(earliest, |&(task, _)| task);
            self.ended = self.ended.split_off(&self.first);
            self.advance();
        }
        let later = match self.first.checked_add(1) {
            Some(next) => self.parcels.split_off(&(next, 0)),
            None => BTreeMap::new(),
        };
        std::mem::replace(&mut self.parcels, later).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1000;

    fn parcel(cost: u64) -> Parcel {
        Parcel { events: Vec::new(), cost }
    }

    fn costs(hand_over: &HandOver) -> Vec<u64> {
        hand_over.receive().iter().map(|parcel| parcel.cost).collect()
    }

    #[test]
    fn what_tasks_send_is_received_in_the_order_in_which_they_were_begun() {
        let hand_over = HandOver::new(LIMIT, 1);
        hand_over.send(2, parcel(20));
        hand_over.end(2);
        hand_over.send(0, parcel(1));
        assert_eq!(costs(&hand_over), [1], "the second is not there, so the third waits");
        hand_over.send(1, parcel(10));
        hand_over.send(0, parcel(2));
        assert_eq!(costs(&hand_over), [2]);
        hand_over.end(0);
        assert_eq!(costs(&hand_over), [10]);
        hand_over.send(1, parcel(11));
        hand_over.end(1);
        assert_eq!(costs(&hand_over), [11, 20]);
        hand_over.leave();
        assert!(costs(&hand_over).is_empty());
    }

    #[test]
    fn the_first_task_has_room_that_others_do_not_take() {
        let hand_over = HandOver::new(LIMIT, 5);
        for task in 1..=3 {
            assert!(hand_over.try_reserve(task, 250));
            hand_over.send(task, parcel(250));
            hand_over.end(task);
        }
        assert!(!hand_over.try_reserve(4, 1) && hand_over.try_reserve(0, 250));
        hand_over.send(0, parcel(250));
        assert_eq!(costs(&hand_over), [250]);
        hand_over.release(250);
        hand_over.end(0);
        assert_eq!(costs(&hand_over), [250; 3]);
    }

    #[test]
    fn nothing_waits_for_a_task_that_has_no_room_to_end() {
        let hand_over = HandOver::new(LIMIT, 2);
        for task in 1..=3 {
            assert!(hand_over.try_reserve(task, 250));
            hand_over.send(task, parcel(250));
            hand_over.end(task);
        }
        std::thread::scope(|scope| {
            let first = scope.spawn(|| hand_over.reserve(0, 500));
            let early = costs(&hand_over);
            hand_over.release(250 * early.len() as u64);
            assert!(first.join().unwrap());
            assert_eq!(early, [250; 3], "half of what is there, and what follows it without a gap");
        });
        hand_over.send(0, parcel(500));
        assert_eq!(costs(&hand_over), [500], "late, and still first of what is left");
    }

    #[test]
    fn a_slow_consumer_gets_everything_in_order_where_entries_are_small() {
        const THREADS: u64 = 8;
        const TASKS: u64 = 400;
        let hand_over = HandOver::new(LIMIT, THREADS as usize);
        let next = std::sync::atomic::AtomicU64::new(0);
        let received = std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    loop {
                        let task = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        if task >= TASKS {
                            return hand_over.leave();
                        }
                        // Its number stands in what each of its entries costs.
                        for _ in 0..task % 5 {
                            let cost = 50 + task % 100;
                            assert!(hand_over.reserve(task, cost));
                            hand_over.send(task, parcel(cost));
                        }
                        hand_over.end(task);
                    }
                });
            }
            let mut received = Vec::new();
            loop {
                let all = costs(&hand_over);
                if all.is_empty() {
                    return received;
                }
                std::thread::yield_now();
                all.iter().for_each(|cost| hand_over.release(*cost));
                received.extend(all);
            }
        });
        let wanted = (0..TASKS).flat_map(|task| (0..task % 5).map(move |_| 50 + task % 100));
        assert_eq!(received, wanted.collect::<Vec<_>>());
    }

    #[test]
    fn what_is_left_is_received_when_the_producers_have_gone() {
        let hand_over = HandOver::new(LIMIT, 1);
        hand_over.send(3, parcel(3));
        hand_over.send(5, parcel(5));
        hand_over.leave();
        assert_eq!((costs(&hand_over), costs(&hand_over)), (vec![3], vec![5]));
        assert!(costs(&hand_over).is_empty());
    }
}
