//! The bounded way from the threads of a walk to its one consumer.
//!
//! Room is reserved *before* bytes are read, and given back after they were consumed, so what is
//! buffered never exceeds the limit (but for a single entry that is larger than the limit, which
//! travels alone). Every entry costs a fixed amount besides its bytes: that bounds the count.

use std::collections::VecDeque;
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
    parcels: VecDeque<Parcel>,
    used: u64,
    producers: usize,
    waiting: usize,
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

    /// Sends entries for which room was reserved. Never waits.
    pub(super) fn send(&self, parcel: Parcel) {
        if parcel.events.is_empty() && parcel.cost == 0 {
            return;
        }
        let mut state = lock(&self.state);
        state.parcels.push_back(parcel);
        let first = state.parcels.len() == 1;
        drop(state);
        if first {
            self.filled.notify_one();
        }
    }

    /// A producer has nothing more to send.
    pub(super) fn leave(&self) {
        let mut state = lock(&self.state);
        state.producers = state.producers.saturating_sub(1);
        if state.producers == 0 {
            self.filled.notify_all();
        }
    }

    /// All that was sent since the last call; empty when nothing more will come.
    pub(super) fn receive(&self) -> VecDeque<Parcel> {
        let mut state = lock(&self.state);
        while state.parcels.is_empty() && state.producers > 0 {
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut state.parcels)
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
}
