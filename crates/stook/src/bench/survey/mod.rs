//! Measures what a [profile](crate::profile) of a device says, within two minutes.
//!
//! Cells of reads past the page cache on a test file, and small files that are read cold, where
//! this process may empty the caches of the system. What follows from the cells ([`fit()`]) takes
//! plain numbers and does no I/O.

mod files;
mod fit;

use std::path::Path;
use std::time::Instant;

pub use self::fit::{SurveyCells, SurveyFit, fit, readers_needed};
use super::environment::Environment;
use super::error::Result;
use super::model::Cell;
use super::observer::Observer;
use super::session::Bench;
use super::workload::{Pattern, Workload};
use super::{BenchResult, fresh_seed};
use crate::engine::EngineFactory;
use crate::profile::Measured;
use crate::profile::survey::{Survey, Taken};

/// Lengths of reads that have the device for themselves.
const BLOCKS: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Short reads in flight, beside one.
const DEPTHS: [u32; 6] = [2, 4, 8, 16, 32, 128];
/// Lengths of reads that are many in flight.
const LONG: [u64; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// How many of these are.
const LONG_DEPTH: u32 = 32;
/// Shares of reads, and the length of what is mixed.
const MIXES: [u8; 3] = [100, 70, 0];
const MIX_BLOCK_BYTES: u64 = 16 << 10;
const MIX_DEPTH: u32 = 8;

/// How a device is to be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceSurvey {
    /// The length of the test file.
    pub file_bytes: u64,
    /// How long each cell is measured.
    pub cell_s: f64,
    /// How long it runs before that.
    pub ramp_s: f64,
    /// Small files that are made and read; 0 for none.
    pub files: u64,
    /// What 99% of short reads should keep to: the third answer to which depth to use.
    pub p99_target_s: f64,
    /// Whether caches of the system may be emptied, which reading small files cold needs.
    pub may_drop_caches: bool,
}

impl Default for DeviceSurvey {
    /// A little more than a minute.
    fn default() -> Self {
        Self {
            file_bytes: 1 << 30,
            cell_s: 2.5,
            ramp_s: 0.5,
            files: 4000,
            p99_target_s: 2e-3,
            may_drop_caches: true,
        }
    }
}

/// What was measured: what others take their defaults from, and its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Surveyed {
    /// The first.
    pub measured: Measured,
    /// The second.
    pub survey: Survey,
    /// Whether it was interrupted: then it is not to be kept.
    pub interrupted: bool,
}

impl DeviceSurvey {
    /// What is measured on the test file, reads first: the work that writes leave to a device slows
    /// the reads after them.
    pub fn bench(&self) -> Bench {
        let base = Workload {
            pattern: Pattern::Random,
            read_share: 100,
            depth: 1,
            jobs: 1,
            ramp_s: self.ramp_s,
            time_s: Some(self.cell_s),
            seed: fresh_seed(),
            ..Workload::default()
        };
        let with = |block_size: u64, depth: u32| Workload { block_size, depth, ..base.clone() };
        let blocks = BLOCKS.map(|block_size| with(block_size, 1));
        let depths = DEPTHS.map(|depth| with(BLOCKS[0], depth));
        let long =
            LONG.map(|block_size| Workload { pattern: Pattern::Sequential, ..with(block_size, LONG_DEPTH) });
        let mixes = MIXES.map(|read_share| Workload { read_share, ..with(MIX_BLOCK_BYTES, MIX_DEPTH) });
        Bench {
            cells: blocks.into_iter().chain(depths).chain(long).chain(mixes).collect(),
            rounds: 1,
            long_run_s: None,
            file_bytes: self.file_bytes,
            keep: false,
            overwrite_file: false,
            overwrite_device: None,
            file_is_full: false,
            cold: false,
        }
    }

    /// Measures in a directory, in which nothing remains.
    ///
    /// # Errors
    /// Returns an error if a test file or small files cannot be made there, a cell fails, or on an
    /// interruption before anything was measured.
    pub fn run(
        &self,
        directory: &Path,
        engines: &dyn EngineFactory,
        observer: &dyn Observer,
    ) -> Result<Surveyed> {
        let begun = Instant::now();
        let result = self.bench().run(directory, engines, observer)?;
        let mut found = fit(&cells_of(&result), self.p99_target_s);
        let mut interrupted = result.interrupted;
        if !interrupted {
            match files::measure(self, directory, observer)? {
                files::FilesOutcome::Measured(files) => found.add_files(files),
                files::FilesOutcome::Not(why) => found.survey.notes.push(why),
                files::FilesOutcome::Interrupted => interrupted = true,
            }
        }
        let SurveyFit { measured, mut survey } = found;
        survey.taken = taken(&result, directory, begun.elapsed().as_secs_f64());
        Ok(Surveyed { measured, survey, interrupted })
    }
}

/// Which cells of the result are for what.
fn cells_of(result: &BenchResult) -> SurveyCells {
    let mut cells = SurveyCells::default();
    for cell in result.cells.iter().filter(|cell| !cell.runs.is_empty()) {
        let (workload, cell) = (&cell.workload, Cell::of(cell));
        let is_short = workload.block_size == BLOCKS[0];
        match workload.pattern {
            Pattern::Sequential => cells.long.push(cell),
            Pattern::Random if workload.block_size == MIX_BLOCK_BYTES && workload.depth == MIX_DEPTH => {
                cells.mixes.push(cell);
            }
            Pattern::Random => {
                if is_short {
                    cells.depths.push(cell.clone());
                }
                if workload.depth == 1 {
                    cells.blocks.push(cell);
                }
            }
        }
    }
    cells
}

fn taken(result: &BenchResult, directory: &Path, seconds: f64) -> Taken {
    let Environment { kernel, stook, file_system, device, device_model, device_doubt, .. } =
        result.environment.clone();
    Taken {
        time: result.time.clone(),
        stook,
        kernel,
        path: std::path::absolute(directory).unwrap_or_else(|_| directory.into()).display().to_string(),
        file_system,
        device,
        model: device_model,
        doubt: device_doubt,
        seconds,
    }
}
