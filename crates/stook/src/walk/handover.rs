//! The bounded way from the threads of a walk to its one consumer.
//!
//! Room is reserved *before* bytes are read, and given back after they were consumed, so what is
//! buffered never exceeds the limit (but for a single entry that is larger than the limit, which
//! travels alone). Every entry costs a fixed amount besides its bytes: that bounds the count.
//!
//! What is handed over has the order in which the tasks were begun, not that in which they ended:
//! what a consumer stores then lies on the medium in the order of the tree. What came early waits
//! for what was begun before it, unless a thread has no room to read on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, PoisonError};

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
    /// Room, or the consumer has left.
    emptied: Condvar,
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
    /// Producers that wait for room.
    waiting: usize,
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
            emptied: Condvar::new(),
        }
    }

    /// Reserves room if there is some now.
    pub(super) fn try_reserve(&self, cost: u64) -> bool {
        lock(&self.state).reserve(cost, self.limit)
    }

    /// Waits for room; `false` when the consumer has left. The caller must not sit on a parcel that
    /// it has not sent: everybody would wait for everybody.
    pub(super) fn reserve(&self, cost: u64) -> bool {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return false;
            }
            if state.reserve(cost, self.limit) {
                return true;
            }
            state.waiting += 1;
            self.wake_consumer(&state);
            state = self.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
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
        self.wake_consumer(&state);
    }

    /// A producer has nothing more to send.
    pub(super) fn leave(&self) {
        let mut state = lock(&self.state);
        state.producers = state.producers.saturating_sub(1);
        self.wake_consumer(&state);
    }

    fn wake_consumer(&self, state: &HandOverState) {
        if state.idle && state.is_due() {
            self.filled.notify_one();
        }
    }

    /// What is next in order; empty when nothing more will come.
    pub(super) fn receive(&self) -> Vec<Parcel> {
        let mut state = lock(&self.state);
        while !state.is_due() {
            state.idle = true;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle = false;
        }
        state.take()
    }

    /// Gives room back. Those who wait for it are woken when half of it is free, so that each of
    /// them gets a good piece of work done before it has to wait again: woken for every entry, they
    /// would spend the processors on waking.
    pub(super) fn release(&self, cost: u64) {
        let mut state = lock(&self.state);
        state.used = state.used.saturating_sub(cost);
        let wake = state.waiting > 0 && state.used <= self.limit / 2;
        drop(state);
        if wake {
            self.emptied.notify_all();
        }
    }

    /// The consumer wants no more.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.emptied.notify_all();
    }
}

impl HandOverState {
    fn reserve(&mut self, cost: u64, limit: u64) -> bool {
        let fits = self.used == 0 || self.used.saturating_add(cost) <= limit;
        if fits {
            self.used = self.used.saturating_add(cost);
        }
        fits
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

    /// Whether the consumer need not wait.
    fn is_due(&self) -> bool {
        let Some((&(task, _), _)) = self.parcels.first_key_value() else { return self.producers == 0 };
        task <= self.first || self.waiting > 0 || self.producers == 0
    }

    /// Takes what is in order. If that is nothing, somebody waits for room: the first half of what
    /// there is, with what follows it without a gap; what was begun before it comes late.
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
    fn nothing_waits_for_a_task_that_has_no_room_to_end() {
        let hand_over = HandOver::new(LIMIT, 2);
        for task in 1..=4 {
            assert!(hand_over.try_reserve(250));
            hand_over.send(task, parcel(250));
        }
        for task in [1, 3, 4] {
            hand_over.end(task);
        }
        std::thread::scope(|scope| {
            let first = scope.spawn(|| hand_over.reserve(100));
            let early = costs(&hand_over);
            hand_over.release(500);
            assert!(first.join().unwrap());
            assert_eq!(early, [250, 250], "half of what is there");
        });
        hand_over.send(0, parcel(100));
        assert_eq!(costs(&hand_over), [100], "late, and still first of what is left");
        hand_over.end(2);
        assert_eq!(costs(&hand_over), [250, 250]);
        assert!(lock(&hand_over.state).ended.is_empty());
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
