//! The jobs on a simulated hard disk: the class of devices that the document is about, and that is
//! seldom at hand.

use serde::Serialize;

use super::JOBS;
use crate::disk::{SimulatedDisk, random_reads};

/// The file of the document.
const RANGE_BYTES: u64 = 32 << 30;
/// Bytes that are read in each, at most, and reads, at least.
const READ_BYTES: u64 = 1 << 30;
const READS_MIN: u64 = 128;

/// A job on the simulated disk.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SimulatedJob {
    /// Bytes of each read.
    pub block_bytes: u64,
    /// Reads in flight.
    pub depth: u32,
    /// At this depth.
    pub bytes_per_s: f64,
    /// With one read after the other.
    pub in_turn_bytes_per_s: f64,
}

/// All of them.
pub(super) fn jobs(disk: &SimulatedDisk) -> Vec<SimulatedJob> {
    let job = |(block_bytes, depth): (u64, u32)| {
        let count = (READ_BYTES / block_bytes).max(READS_MIN);
        let reads = random_reads(RANGE_BYTES, block_bytes, count as usize);
        let rate = |in_flight| (count * block_bytes) as f64 / disk.read_s(&reads, in_flight);
        SimulatedJob { block_bytes, depth, bytes_per_s: rate(depth as usize), in_turn_bytes_per_s: rate(1) }
    };
    JOBS.map(job).into()
}

/// Each but the first against that, in the order of the jobs.
pub(super) fn ratios(jobs: &[SimulatedJob]) -> Vec<f64> {
    let Some(first) = jobs.first() else { return Vec::new() };
    jobs.iter().skip(1).map(|job| job.bytes_per_s / first.bytes_per_s).collect()
}

#[cfg(test)]
mod tests {
    use super::super::published::DISK;
    use super::*;

    /// Its rate was chosen for the first row; the others follow from it.
    #[test]
    fn a_simulated_disk_is_as_slow_with_small_pieces_as_the_printed_one() {
        let jobs = jobs(&SimulatedDisk::ORDINARY);
        let of = |block_bytes: u64| jobs.iter().find(|job| job.block_bytes == block_bytes).unwrap();
        for (row, block_bytes, within) in
            [(0, 64 << 20, 0.01), (1, 4 << 20, 0.25), (2, 1 << 20, 0.25), (3, 128 << 10, 0.25)]
        {
            let printed = DISK.number(row, 1).unwrap() * 1e6;
            let ratio = of(block_bytes).bytes_per_s / printed;
            assert!((ratio - 1.0).abs() < within, "{block_bytes}: {ratio}");
        }
        assert!(ratios(&jobs).windows(2).all(|pair| pair[1] < pair[0]), "{jobs:?}");
        // A queue is all that keeps small pieces from being slower still.
        assert!(jobs.iter().skip(1).all(|job| job.in_turn_bytes_per_s < job.bytes_per_s), "{jobs:?}");
    }
}
