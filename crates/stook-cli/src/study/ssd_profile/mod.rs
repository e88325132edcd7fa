//! The study of an SSD: how fast is it, by block size, depth and mix, and do the figures add up?
//!
//! The cells of the published study are measured again, checked, fitted, and laid beside what was published. With
//! them come the four lines by which many know a device, and a map of block against depth. Cells that fail a check
//! are shown with the reason; nothing is concluded from them and nothing is fitted to them. Cells that are unverified
//! are used, and marked.

pub mod cells;
pub mod charts;
pub mod conclusions;
mod explained;
pub mod fits;
pub mod page;
mod plan;
pub mod published;
mod reading;
mod states;
pub mod summary;
mod tables;
pub mod text;
mod verdict;

use std::path::{Path, PathBuf};

use serde::Serialize;
use stook::bench::{Bench, BenchResult, KEPT_NAME, Workload, fio_jobs};
use stook::report::json::Document;

use self::cells::Profile;
use self::conclusions::{Conclusion, conclusions};
use self::fits::Fits;
use self::summary::{Field, Line};

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// A directory on the device; the test file has no name in it.
    pub work: PathBuf,
    /// Length of the test file.
    pub file_bytes: u64,
    /// How often each cell is measured, in turn with the others.
    pub rounds: u32,
    /// How long each cell is measured in each round.
    pub time_s: f64,
    /// How long each cell runs before that.
    pub ramp_s: f64,
    /// What 99% of all reads are to keep to, for the depth of a service level.
    pub p99_target_s: f64,
}

/// The result, as it is in `study.json`.
#[derive(Debug, Clone, Serialize)]
pub struct Study {
    /// `ssd-profile`.
    pub name: &'static str,
    /// The answer in a few sentences.
    pub verdict: String,
    /// Sequential and random reads, many at once and one at a time.
    pub summary: Vec<Line>,
    /// Random reads, block against depth.
    pub map: Vec<Field>,
    /// What was published, and whether it holds here.
    pub conclusions: Vec<Conclusion>,
    /// What was measured.
    pub profile: Profile,
    /// The published tables.
    pub published: Profile,
    /// What the device does, in few numbers.
    pub fits: Fits,
    /// The same for the published tables.
    pub published_fits: Fits,
    /// What the depth for a service level has to keep to.
    pub p99_target_s: f64,
    /// The same cells for fio.
    pub fio_job: String,
    /// Everything that was measured, as `stook bench --json` prints it.
    pub bench: Document<BenchResult>,
    /// The same for those who make the page.
    #[serde(skip)]
    pub result: BenchResult,
}

impl Options {
    /// The measurement.
    pub fn bench(&self) -> Bench {
        let base = Workload { ramp_s: self.ramp_s, ..Workload::default() };
        Bench {
            cells: plan::cells(&base, self.time_s),
            rounds: self.rounds,
            long_run_s: None,
            file_bytes: self.file_bytes,
            keep: false,
            overwrite_file: false,
            file_is_full: false,
        }
    }
}

impl Study {
    /// What a measurement of all cells says.
    pub fn of(result: BenchResult, p99_target_s: f64) -> Self {
        let (profile, published) = (Profile::of(&summary::published_cells(&result)), published::profile());
        let fits = Fits::of(&profile, Some(p99_target_s));
        let published_fits = Fits::of(&published, None);
        let workloads: Vec<Workload> = result.cells.iter().map(|cell| cell.workload.clone()).collect();
        Self {
            name: "ssd-profile",
            verdict: verdict::verdict(&result, &fits),
            summary: summary::lines(&result),
            map: summary::map(&result),
            conclusions: conclusions((&published, &published_fits), (&profile, &fits)),
            profile,
            published,
            fits,
            published_fits,
            p99_target_s,
            fio_job: fio_jobs(&workloads, Path::new(KEPT_NAME), result.file_bytes),
            bench: Document::new("bench", result.clone()),
            result,
        }
    }
}
