//! [`SimulatedDisk`]: a disk that rotates, in simulated time, for what the documents say of such
//! disks where none is at hand.
//!
//! One arm moves over tracks that turn below it. A read waits until the arm is there and its first
//! byte comes around, and then takes as long as its bytes take to pass. Of the reads in its queue
//! the disk takes the one that waits least. A read that begins where the last one ended waits for
//! nothing, as if the disk had read ahead. There are no file systems, caches or faults. Nothing
//! here is a measurement, and pages say so wherever its figures stand.

use serde::Serialize;

/// A disk that rotates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SimulatedDisk {
    /// Turns of its platters in a minute.
    pub turns_per_minute: f64,
    /// The shortest way of its arm, with the time to settle, seconds.
    pub seek_least_s: f64,
    /// The way over a third of the disk, which is the mean of all, seconds.
    pub seek_mean_s: f64,
    /// Bytes that pass below the arm in a second.
    pub bytes_per_s: f64,
    /// Its capacity.
    pub capacity_bytes: u64,
    /// Reads among which it chooses.
    pub queue: usize,
}

impl SimulatedDisk {
    /// One of 1 TB with usual times, which are assumed. Its rate is set so that a file of 64 MiB
    /// comes at the 106 MB/s that the document of solid reads prints for its disk.
    pub const ORDINARY: Self = Self {
        turns_per_minute: 7200.0,
        seek_least_s: 1.5e-3,
        seek_mean_s: 8.5e-3,
        bytes_per_s: 107e6,
        capacity_bytes: 1_000_000_000_000,
        queue: 32,
    };

    fn turn_s(&self) -> f64 {
        60.0 / self.turns_per_minute
    }

    /// The arm speeds up and slows down, so that a way takes as long as the root of its length.
    fn seek_s(&self, from: u64, to: u64) -> f64 {
        let thirds = 3.0 * from.abs_diff(to) as f64 / self.capacity_bytes as f64;
        self.seek_least_s + (self.seek_mean_s - self.seek_least_s) * thirds.sqrt()
    }

    /// How long it takes from a moment on until the first byte of a read is below the arm.
    fn wait_s(&self, now_s: f64, arm: u64, to: u64) -> f64 {
        if arm == to {
            return 0.0;
        }
        let (turn_s, seek_s) = (self.turn_s(), self.seek_s(arm, to));
        let angle = to as f64 / (self.bytes_per_s * turn_s);
        let turned = (now_s + seek_s) / turn_s;
        seek_s + (angle - turned).rem_euclid(1.0) * turn_s
    }

    /// Makes reads of these offsets and lengths, so many in flight at a time, and returns how long
    /// all of them take, in seconds.
    pub fn read_s(&self, reads: &[(u64, u64)], in_flight: usize) -> f64 {
        let mut coming = reads.iter().copied();
        let mut queue: Vec<(u64, u64)> = coming.by_ref().take(in_flight.clamp(1, self.queue)).collect();
        let (mut now_s, mut arm) = (0.0, 0);
        while let Some((chosen, wait_s)) = queue
            .iter()
            .enumerate()
            .map(|(number, (offset, _))| (number, self.wait_s(now_s, arm, *offset)))
            .min_by(|one, other| one.1.total_cmp(&other.1))
        {
            let (offset, len) = queue.swap_remove(chosen);
            now_s += wait_s + len as f64 / self.bytes_per_s;
            arm = offset.saturating_add(len);
            queue.extend(coming.next());
        }
        now_s
    }
}

/// Reads at random places of a range of the disk, the same every time; each begins at a multiple of
/// its length.
pub(crate) fn random_reads(range_bytes: u64, block_bytes: u64, count: usize) -> Vec<(u64, u64)> {
    let blocks = (range_bytes / block_bytes.max(1)).max(1);
    // Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014), the mixing of
    // SplitMix64.
    let mut state = block_bytes;
    let offset = |_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % blocks * block_bytes, block_bytes)
    };
    (0..count).map(offset).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: SimulatedDisk = SimulatedDisk::ORDINARY;

    fn near(found: f64, expected: f64, within: f64) {
        assert!((found / expected - 1.0).abs() < within, "{found} instead of {expected}");
    }

    #[test]
    fn one_read_at_a_time_waits_for_the_arm_and_half_a_turn_on_average() {
        let (range, count) = (DISK.capacity_bytes, 20_000);
        let reads = random_reads(range, 4096, count);
        let each_s = DISK.read_s(&reads, 1) / count as f64;
        // The mean of the root of three times the distance of two places is 0.924.
        let seek_s = DISK.seek_least_s + 0.924 * (DISK.seek_mean_s - DISK.seek_least_s);
        near(each_s, seek_s + DISK.turn_s() / 2.0 + 4096.0 / DISK.bytes_per_s, 0.02);
    }

    #[test]
    fn reads_in_order_wait_for_nothing_and_a_queue_shortens_the_ways() {
        let ordered: Vec<(u64, u64)> = (0..100).map(|at| (at * 4096, 4096)).collect();
        near(DISK.read_s(&ordered, 1), 409_600.0 / DISK.bytes_per_s, 1e-9);
        let reads = random_reads(32 << 30, 128 << 10, 2000);
        let alone_s = DISK.read_s(&reads, 1);
        let queued_s = DISK.read_s(&reads, 512);
        assert!(queued_s < 0.7 * alone_s, "{queued_s} against {alone_s}");
        // It never carries more than what passes below the arm.
        assert!(queued_s > 2000.0 * 131_072.0 / DISK.bytes_per_s);
        assert_eq!(queued_s, DISK.read_s(&reads, DISK.queue), "it sees no more than its queue");
        assert_eq!(DISK.read_s(&[], 4), 0.0);
    }

    #[test]
    fn random_reads_are_the_same_every_time_and_lie_in_the_range() {
        let reads = random_reads(1 << 20, 4096, 1000);
        assert_eq!(reads, random_reads(1 << 20, 4096, 1000));
        assert!(reads.iter().all(|(offset, len)| offset % 4096 == 0 && offset + len <= 1 << 20));
        let distinct: std::collections::BTreeSet<_> = reads.iter().collect();
        assert!(distinct.len() > 200, "{}", distinct.len());
    }
}
