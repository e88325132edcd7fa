//! [`Workload`]: one cell of a measurement, and what makes one impossible.

use serde::{Deserialize, Serialize};

use super::content::UNIT_BYTES;
use super::error::{Error, Result};
use super::split::BlockSplit;
use crate::report::units::{bytes_binary, bytes_exact};

/// The greatest depth of one job: what one engine takes.
const DEPTH_MAX: u32 = 4096;
/// More threads than this are never the way to drive one file.
const JOBS_MAX: u32 = 1024;
/// The longest block: what one request of an engine moves in a single system call.
pub(super) const BLOCK_MAX: u64 = 1 << 30;
/// The most memory that buffers may take.
const MEMORY_MAX: u64 = 16 << 30;

/// Where the next block lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// After the one before. Each job has its own part of the file, and starts over at its end.
    Sequential,
    /// Anywhere in the file, each block as likely as any other.
    #[default]
    Random,
}

/// When requests of an open loop arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// At equal distances.
    #[default]
    Constant,
    /// Independently of one another: exponentially distributed distances.
    Poisson,
}

/// One cell: what is asked of the storage, and for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Where the blocks lie.
    pub pattern: Pattern,
    /// Random: how unlike one another blocks are; that of rank `r` is as likely as `1 ÷ r^θ`, by
    /// Zipf's law. Without it all are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zipf: Option<f64>,
    /// Bytes of each read and write; of several sizes the largest.
    pub block_size: u64,
    /// The sizes of blocks, if there are several: see [`of_sizes`](Self::of_sizes). Random blocks
    /// begin at multiples of the smallest, those in order one after another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_split: Option<BlockSplit>,
    /// How many of a hundred requests are reads; the others are writes.
    pub read_share: u8,
    /// Requests that each job keeps in flight; in an open loop, the most that it has in flight.
    pub depth: u32,
    /// The most requests that a job hands to the system at once, and the most completions that it
    /// takes at once.
    pub batch: u32,
    /// Threads, each with an engine of its own.
    pub jobs: u32,
    /// Through the page cache instead of past it.
    pub buffered: bool,
    /// The number of writes of a job after which it requests a sync.
    pub fsync_every: Option<u32>,
    /// How long it runs before anything is counted.
    pub ramp_s: f64,
    /// How long it is measured.
    pub time_s: Option<f64>,
    /// After how many bytes it ends, over all jobs, if the time is not over before.
    pub size_bytes: Option<u64>,
    /// Open loop: requests a second, over all jobs. Without it each completion begins the next
    /// request.
    pub rate_per_s: Option<f64>,
    /// Open loop: when they arrive.
    pub arrival: Arrival,
    /// Whether what was written is read and compared.
    pub verify: bool,
    /// Of offsets, contents and arrivals: [`fresh_seed`](super::fresh_seed) for one that was
    /// never used.
    pub seed: u64,
    /// How much of the bytes written is zeroes, in per cent; the rest cannot be compressed.
    pub compressibility: u8,
}

impl Default for Workload {
    /// Random reads of 4 KiB at depth 1 by one job for 30 s, past the page cache.
    fn default() -> Self {
        Self {
            pattern: Pattern::Random,
            zipf: None,
            block_size: 4096,
            block_split: None,
            read_share: 100,
            depth: 1,
            batch: 1,
            jobs: 1,
            buffered: false,
            fsync_every: None,
            ramp_s: 1.0,
            time_s: Some(30.0),
            size_bytes: None,
            rate_per_s: None,
            arrival: Arrival::Constant,
            verify: false,
            seed: 1,
            compressibility: 0,
        }
    }
}

/// With a greater one hardly anything but one block would be asked for.
const ZIPF_MAX: f64 = 5.0;

/// More requests a second than any device completes.
const RATE_MAX: f64 = 1e9;

impl Workload {
    /// The same with blocks of these sizes, or of one size where there is no split.
    #[must_use]
    pub fn of_sizes(self, split: Option<BlockSplit>) -> Self {
        let block_size = split.as_ref().map_or(self.block_size, BlockSplit::largest);
        Self { block_size, block_split: split, ..self }
    }

    /// The size of its blocks, or the sizes with their shares: `4.00 KiB`,
    /// `4.00 KiB 60%, 1.00 MiB 40%`.
    pub fn block_name(&self) -> String {
        match &self.block_split {
            None => bytes_binary(self.block_size),
            Some(split) => {
                let each = split.sizes().iter();
                let each = each.map(|size| format!("{} {}%", bytes_binary(size.block_size), size.percent));
                each.collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Every size of its blocks.
    pub(super) fn block_sizes(&self) -> Vec<u64> {
        match &self.block_split {
            None => vec![self.block_size],
            Some(split) => split.sizes().iter().map(|size| size.block_size).collect(),
        }
    }

    /// The usual short name: `read`, `write`, `rw`, `randread`, `randwrite`, `randrw`.
    pub fn rw(&self) -> &'static str {
        match (self.pattern, self.read_share) {
            (Pattern::Sequential, 100) => "read",
            (Pattern::Sequential, 0) => "write",
            (Pattern::Sequential, _) => "rw",
            (Pattern::Random, 100) => "randread",
            (Pattern::Random, 0) => "randwrite",
            (Pattern::Random, _) => "randrw",
        }
    }

    /// Whether it writes.
    pub fn writes(&self) -> bool {
        self.read_share < 100
    }

    /// Requests that may be in flight, over all jobs.
    pub fn requested_depth(&self) -> u64 {
        u64::from(self.depth) * u64::from(self.jobs)
    }

    /// How long it takes, where that is known: ramp and measured time.
    pub fn expected_s(&self) -> Option<f64> {
        Some(self.ramp_s + self.time_s?)
    }

    /// Checks everything that does not depend on the file.
    ///
    /// # Errors
    /// Returns [`Error::Workload`], which states what was expected.
    pub fn check(&self) -> Result<()> {
        self.check_sizes()?;
        self.check_bounds()?;
        if let Some(rate) = self.rate_per_s
            && !(rate > 0.0 && rate <= RATE_MAX)
        {
            return refuse(format!(
                "the rate is {rate} requests/s; expected a number above 0, at most {RATE_MAX}"
            ));
        }
        self.check_zipf()?;
        if self.fsync_every == Some(0) {
            return refuse("fsync every 0 writes was asked for; expected a number of writes from 1");
        }
        if self.fsync_every.is_some() && !self.writes() {
            return refuse("syncs were asked for, and nothing is written: expected a read share below 100%");
        }
        if self.verify
            && let Some(size) =
                self.block_sizes().into_iter().find(|size| !size.is_multiple_of(UNIT_BYTES as u64))
        {
            return refuse(format!(
                "the block size is {}; with verification it has to be a multiple of {UNIT_BYTES} bytes",
                bytes_exact(size)
            ));
        }
        self.check_split()
    }

    fn check_split(&self) -> Result<()> {
        let Some(split) = &self.block_split else { return Ok(()) };
        split.check()?;
        if self.block_size != split.largest() {
            return refuse(format!(
                "the block size is {}, and the largest of the split {}; expected the same",
                bytes_exact(self.block_size),
                bytes_exact(split.largest())
            ));
        }
        if self.verify && self.writes() {
            return refuse(
                "blocks of several sizes were asked for with verification, in which no block is in flight twice; \
                 expected one of them",
            );
        }
        Ok(())
    }

    fn check_zipf(&self) -> Result<()> {
        let Some(theta) = self.zipf else { return Ok(()) };
        if !(theta > 0.0 && theta <= ZIPF_MAX) {
            return refuse(format!("the exponent for zipf is {theta}; expected above 0, at most {ZIPF_MAX}"));
        }
        if self.pattern == Pattern::Sequential {
            return refuse("zipf was asked for in order; expected randread, randwrite or randrw");
        }
        if self.verify && self.writes() {
            return refuse(
                "zipf was asked for with verification, in which no block is in flight twice; expected one of \
                 them",
            );
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<()> {
        if !(1..=BLOCK_MAX).contains(&self.block_size) {
            return refuse(format!(
                "the block size is {}; expected 1 byte to {}",
                bytes_exact(self.block_size),
                bytes_binary(BLOCK_MAX)
            ));
        }
        let batch_max = self.depth.clamp(1, DEPTH_MAX);
        for (what, value, most) in [
            ("depth", self.depth, DEPTH_MAX),
            ("batch", self.batch, batch_max),
            ("number of jobs", self.jobs, JOBS_MAX),
        ] {
            if !(1..=most).contains(&value) {
                return refuse(format!("the {what} is {value}; expected 1 to {most}"));
            }
        }
        for (what, value) in [("read share", self.read_share), ("compressibility", self.compressibility)] {
            if value > 100 {
                return refuse(format!("the {what} is {value}%; expected 0 to 100"));
            }
        }
        let memory = self.requested_depth().saturating_mul(self.block_size);
        if memory > MEMORY_MAX {
            return refuse(format!(
                "{} requests of {} in flight need {} of memory; expected at most {}: lower depth, jobs or block size",
                self.requested_depth(),
                bytes_binary(self.block_size),
                bytes_binary(memory),
                bytes_binary(MEMORY_MAX)
            ));
        }
        Ok(())
    }

    fn check_bounds(&self) -> Result<()> {
        if !(self.ramp_s.is_finite() && self.ramp_s >= 0.0) {
            return refuse(format!("the ramp is {} s; expected 0 or more", self.ramp_s));
        }
        match (self.time_s, self.size_bytes) {
            (None, None) => return refuse("it would never end: expected a time or a size"),
            (Some(time), _) if !(time.is_finite() && time > 0.0) => {
                return refuse(format!("the time is {time} s; expected more than 0"));
            }
            (_, Some(size)) if size < self.block_size.saturating_mul(u64::from(self.jobs)) => {
                return refuse(format!(
                    "the size is {}; expected at least one block of {} for each of {} jobs",
                    bytes_exact(size),
                    bytes_exact(self.block_size),
                    self.jobs
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks it against the file: its length, and what direct I/O on it wants offsets to be
    /// multiples of.
    ///
    /// # Errors
    /// Returns [`Error::Workload`], which states what was expected.
    pub fn check_file(&self, len: u64, alignment: u64) -> Result<()> {
        let smallest = self.block_split.as_ref().map_or(1, BlockSplit::smallest).max(1);
        if self.block_size > len / smallest * smallest {
            return refuse(format!(
                "the block size is {}, and the file has {}; expected a block that fits in the file",
                bytes_exact(self.block_size),
                bytes_exact(len)
            ));
        }
        let uneven = self.block_sizes().into_iter().find(|size| !size.is_multiple_of(alignment));
        if let Some(size) = uneven.filter(|_| !self.buffered) {
            return refuse(format!(
                "the block size is {}; direct I/O on this file wants multiples of {alignment} bytes: expected such \
                 a block size, or buffered I/O",
                bytes_exact(size)
            ));
        }
        let blocks = len / self.block_size;
        if blocks < u64::from(self.jobs) {
            return refuse(format!(
                "the file has {blocks} blocks for {} jobs; expected at least one for each",
                self.jobs
            ));
        }
        // Each job of a verified cell keeps to its span, and no block is in flight twice.
        if self.verify && self.writes() && blocks / u64::from(self.jobs) < 2 * u64::from(self.depth) {
            return refuse(format!(
                "the file has {} blocks for each job; verification at depth {} expects at least {}",
                blocks / u64::from(self.jobs),
                self.depth,
                2 * u64::from(self.depth)
            ));
        }
        Ok(())
    }
}

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::workload(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Workload)) -> String {
        let mut workload = Workload::default();
        change(&mut workload);
        workload.check().unwrap_err().to_string()
    }

    #[test]
    fn the_default_is_sound() {
        Workload::default().check().unwrap();
        Workload::default().check_file(4096, 4096).unwrap();
    }

    #[test]
    fn what_cannot_be_run_is_refused_and_reported() {
        let message = refused(|w| w.block_size = 0);
        assert_eq!(message, "the block size is 0 bytes; expected 1 byte to 1.00 GiB");
        assert_eq!(refused(|w| w.depth = 0), "the depth is 0; expected 1 to 4096");
        assert_eq!(refused(|w| w.batch = 0), "the batch is 0; expected 1 to 1");
        assert_eq!(refused(|w| (w.depth, w.batch) = (8, 9)), "the batch is 9; expected 1 to 8");
        assert_eq!(refused(|w| w.jobs = 2000), "the number of jobs is 2000; expected 1 to 1024");
        assert_eq!(refused(|w| w.read_share = 101), "the read share is 101%; expected 0 to 100");
        assert_eq!(refused(|w| w.compressibility = 200), "the compressibility is 200%; expected 0 to 100");
        assert_eq!(refused(|w| w.time_s = Some(0.0)), "the time is 0 s; expected more than 0");
        assert_eq!(refused(|w| w.time_s = None), "it would never end: expected a time or a size");
        assert!(refused(|w| w.ramp_s = f64::NAN).contains("expected 0 or more"));
        assert!(refused(|w| w.size_bytes = Some(4095)).contains("at least one block of 4,096 bytes"));
        assert!(refused(|w| w.rate_per_s = Some(-1.0)).contains("expected a number above 0"));
        assert!(refused(|w| w.zipf = Some(0.0)).contains("expected above 0, at most 5"));
        assert!(refused(|w| w.zipf = Some(f64::NAN)).contains("expected above 0"));
        assert!(refused(|w| (w.zipf, w.pattern) = (Some(1.0), Pattern::Sequential)).contains("randread"));
        let split =
            |w: &mut Workload, text: &str| w.clone_from(&w.clone().of_sizes(Some(text.parse().unwrap())));
        let other = |w: &mut Workload| {
            split(w, "4k/50:8k/50");
            w.block_size = 4096;
        };
        assert!(refused(other).contains("expected the same"));
        let uneven = |w: &mut Workload| {
            split(w, "512/50:700/50");
            w.verify = true;
        };
        assert!(refused(uneven).contains("is 700 bytes; with"));
        let verified = |w: &mut Workload| {
            split(w, "4k/50:8k/50");
            (w.verify, w.read_share) = (true, 50);
        };
        assert!(refused(verified).contains("in flight twice"));
        let verified = |w: &mut Workload| (w.zipf, w.verify, w.read_share) = (Some(1.0), true, 0);
        assert!(refused(verified).contains("in flight twice"));
        assert!(refused(|w| w.fsync_every = Some(1)).contains("nothing is written"));
        assert!(refused(|w| (w.depth, w.block_size) = (4096, 16 << 20)).contains("lower depth"));
        assert!(refused(|w| (w.verify, w.block_size) = (true, 1000)).contains("multiple of 512"));
    }

    #[test]
    fn the_file_has_to_fit_the_blocks() {
        let reported = |workload: &Workload, len| workload.check_file(len, 4096).unwrap_err().to_string();
        let mut workload = Workload { block_size: 8192, ..Workload::default() };
        assert!(reported(&workload, 8191).contains("expected a block that fits in the file"));
        workload.block_size = 1000;
        assert!(reported(&workload, 8192).contains("multiples of 4096 bytes"));
        workload.buffered = true;
        workload.check_file(8192, 4096).unwrap();
        workload.jobs = 9;
        assert!(reported(&workload, 8192).contains("expected at least one for each"));
        let split = Workload::default().of_sizes(Some("4k/50:6k/50".parse().unwrap()));
        assert!(reported(&split, 1 << 20).contains("the block size is 6,144 bytes; direct I/O"));
        let verified = Workload { verify: true, read_share: 50, depth: 2, ..Workload::default() };
        assert!(reported(&verified, 3 * 4096).contains("expects at least 4"));
        verified.check_file(4 * 4096, 4096).unwrap();
    }

    #[test]
    fn blocks_of_several_sizes_are_named_with_their_shares() {
        let cell = Workload::default();
        assert_eq!(cell.block_name(), "4.00 KiB");
        let cell = cell.of_sizes(Some("4k/60:1m/40".parse().unwrap()));
        assert_eq!((cell.block_size, cell.block_name().as_str()), (1 << 20, "4.00 KiB 60%, 1.00 MiB 40%"));
        cell.check().unwrap();
        assert_eq!(cell.of_sizes(None).block_split, None);
    }

    #[test]
    fn names_are_the_usual_ones() {
        let name = |pattern, read_share| Workload { pattern, read_share, ..Workload::default() }.rw();
        assert_eq!([100, 0, 30].map(|share| name(Pattern::Sequential, share)), ["read", "write", "rw"]);
        assert_eq!([100, 0, 30].map(|s| name(Pattern::Random, s)), ["randread", "randwrite", "randrw"]);
    }
}
