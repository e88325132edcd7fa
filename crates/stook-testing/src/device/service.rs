//! When a device begins and finishes each request, in the order in which they arrive.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::{Costs, Device, Stalls, WriteCache};

/// A moment. NaN has no order, and no moment is NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moment(pub(super) f64);

impl Eq for Moment {}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The splitmix64 generator.
#[derive(Debug, Clone)]
pub(super) struct Chance(pub(super) u64);

impl Chance {
    /// A number from 0 up to, and not including, 1.
    pub(super) fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An exponential number with the mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -(1.0 - self.share()).ln()
    }
}

/// A device while it is driven.
pub(super) struct Service {
    device: Device,
    /// When each of the parallel servers is free.
    servers: BinaryHeap<Reverse<Moment>>,
    /// When the next request may be begun.
    next_s: f64,
    last_was_read: Option<bool>,
    /// Completion times of the requests in flight.
    in_flight: BinaryHeap<Reverse<Moment>>,
    cached_bytes: f64,
    cached_at_s: f64,
}

impl Service {
    pub(super) fn new(device: Device) -> Self {
        let servers = (0..device.parallel).map(|_| Reverse(Moment(0.0))).collect();
        Self {
            device,
            servers,
            next_s: 0.0,
            last_was_read: None,
            in_flight: BinaryHeap::new(),
            cached_bytes: 0.0,
            cached_at_s: 0.0,
        }
    }

    /// When a request that arrives at `arrival_s` is finished. Arrivals are in order.
    pub(super) fn serve(
        &mut self,
        arrival_s: f64,
        is_read: bool,
        block_bytes: f64,
        chance: &mut Chance,
    ) -> f64 {
        let costs: Costs = if is_read { self.device.read } else { self.device.write };
        let free_s = self.servers.pop().map_or(0.0, |Reverse(moment)| moment.0);
        let turned = self.last_was_read.is_some_and(|last| last != is_read);
        let turn_s = if turned { self.device.turn_s } else { 0.0 };
        let mut begin_s = arrival_s.max(free_s).max(self.next_s) + turn_s;
        if let Some(stalls) = self.device.stalls {
            begin_s = after_stall(begin_s, stalls);
        }
        if let (false, Some(cache)) = (is_read, self.device.cache) {
            begin_s = self.room_in(cache, begin_s, block_bytes);
        }
        self.next_s = begin_s + costs.spacing_s(block_bytes);
        self.last_was_read = Some(is_read);
        let share = self.device.chance;
        let factor = if share > 0.0 { 1.0 - share + share * chance.exponential() } else { 1.0 };
        let crowd = 1.0 + self.device.crowding * self.others(arrival_s) as f64;
        let carried_s = block_bytes / costs.bandwidth_bytes_per_s;
        let end_s = begin_s + (costs.fixed_s * factor + carried_s) * crowd;
        self.servers.push(Reverse(Moment(end_s)));
        self.in_flight.push(Reverse(Moment(end_s)));
        end_s
    }

    /// How many requests are in flight at a moment.
    fn others(&mut self, at_s: f64) -> usize {
        while self.in_flight.peek().is_some_and(|Reverse(end)| end.0 <= at_s) {
            self.in_flight.pop();
        }
        self.in_flight.len()
    }

    /// The moment from `at_s` on at which the cache has room for a write, which is then in it.
    fn room_in(&mut self, cache: WriteCache, at_s: f64, block_bytes: f64) -> f64 {
        let drained = (at_s - self.cached_at_s) * cache.drain_bytes_per_s;
        let level = (self.cached_bytes - drained).max(0.0);
        let wait_s = ((level + block_bytes - cache.size_bytes) / cache.drain_bytes_per_s).max(0.0);
        self.cached_at_s = at_s + wait_s;
        self.cached_bytes = (level - wait_s * cache.drain_bytes_per_s).max(0.0) + block_bytes;
        self.cached_at_s
    }
}

/// The moment itself, or the end of the stall it lies in.
fn after_stall(at_s: f64, stalls: Stalls) -> f64 {
    let since_s = at_s % stalls.every_s;
    if at_s >= stalls.every_s && since_s < stalls.for_s { at_s - since_s + stalls.for_s } else { at_s }
}
