//! Reads of the published blocks on a simulated hard disk, and which curve their latency follows.

use serde::Serialize;
use stook::report::least_squares::{LinearFit, Point};

use super::cells::{Cell, Profile};
use crate::disk::{SimulatedDisk, random_reads};

/// Reads of each block, and the file that they lie in: that of the document.
const READS: usize = 4096;
const FILE_BYTES: u64 = 1 << 30;

/// Mean latency of reads of one block on the simulated disk, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SimulatedRead {
    /// Bytes of each read.
    pub block_bytes: u64,
    /// At random places.
    pub latency_mean_s: f64,
    /// In order.
    pub ordered_latency_mean_s: f64,
}

/// Reads of the blocks of a profile.
pub(super) fn reads(disk: &SimulatedDisk, profile: &Profile) -> Vec<SimulatedRead> {
    let read = |cell: &Cell| {
        let block_bytes = cell.block_bytes;
        let random = random_reads(FILE_BYTES, block_bytes, READS);
        let ordered: Vec<(u64, u64)> =
            (0..READS as u64).map(|at| (at * block_bytes % FILE_BYTES, block_bytes)).collect();
        let each_s = |reads: &[(u64, u64)]| disk.read_s(reads, 1) / READS as f64;
        SimulatedRead {
            block_bytes,
            latency_mean_s: each_s(&random),
            ordered_latency_mean_s: each_s(&ordered),
        }
    };
    profile.blocks.iter().map(read).collect()
}

/// How well two curves follow latencies over the size of the block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Curves {
    /// The latency furthest from a fixed cost and a bandwidth, as a share of it.
    pub line_residual_max: f64,
    /// The same of a cost that grows with the logarithm of the block.
    pub logarithm_residual_max: f64,
}

impl Curves {
    /// Of blocks in bytes and latencies; `None` of too few.
    pub(super) fn of(points: &[(f64, f64)]) -> Option<Self> {
        Some(Self {
            line_residual_max: residual_max(points, |block| block)?,
            logarithm_residual_max: residual_max(points, f64::ln)?,
        })
    }

    /// Of what was simulated at random places.
    pub(super) fn of_reads(reads: &[SimulatedRead]) -> Option<Self> {
        let point = |read: &SimulatedRead| (read.block_bytes as f64, read.latency_mean_s);
        Self::of(&reads.iter().map(point).collect::<Vec<_>>())
    }

    /// Whether the logarithm is the nearer one.
    pub(super) fn is_logarithmic(self) -> bool {
        self.logarithm_residual_max < self.line_residual_max
    }
}

fn residual_max(points: &[(f64, f64)], of_block: fn(f64) -> f64) -> Option<f64> {
    let point = |&(block, y): &(f64, f64)| Point { x: [1.0, of_block(block)], y, weight: 1.0 / y };
    let fitted: Vec<Point<2>> = points.iter().map(point).collect();
    let [fixed, slope] = LinearFit::of(&fitted).ok()?.estimates(0.95).map(|estimate| estimate.value);
    let residual = |point: &Point<2>| (point.y / (fixed + slope * point.x[1]) - 1.0).abs();
    fitted.iter().map(residual).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd_profile::published;

    const BLOCKS: [f64; 5] = [4e3, 16e3, 32e3, 128e3, 512e3];

    #[test]
    fn each_curve_is_known_by_its_own_points() {
        let line = BLOCKS.map(|block| (block, 1e-3 + block / 1e8));
        let curves = Curves::of(&line).unwrap();
        assert!(curves.line_residual_max < 1e-9 && !curves.is_logarithmic(), "{curves:?}");
        let logarithm = BLOCKS.map(|block| (block, 1e-3 + block.ln() * 1e-4));
        let curves = Curves::of(&logarithm).unwrap();
        assert!(curves.logarithm_residual_max < 1e-9 && curves.is_logarithmic(), "{curves:?}");
        assert_eq!(Curves::of(&line[..2]), None);
    }

    #[test]
    fn a_simulated_disk_waits_at_random_places_and_not_in_order() {
        let disk = SimulatedDisk::ORDINARY;
        let reads = reads(&disk, &published::profile());
        assert_eq!(reads.len(), 5);
        for read in &reads {
            let carried_s = read.block_bytes as f64 / disk.bytes_per_s;
            let waited_s = read.latency_mean_s - carried_s;
            assert!((5e-3..7e-3).contains(&waited_s), "{read:?}");
            // A file of 1 GiB begins again after it was read once.
            assert!(read.ordered_latency_mean_s < 1.05 * carried_s, "{read:?}");
        }
        assert!(!Curves::of_reads(&reads).unwrap().is_logarithmic());
    }
}
