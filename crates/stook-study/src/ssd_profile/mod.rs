//! The study of an SSD: how fast is it, by block size, depth and mix, and do the figures add up?
//!
//! The cells of the published study are measured again in order, as it did, checked, fitted, and
//! shown beside the published ones; and at random places, which is ours. In addition there are the
//! four well-known lines of disk benchmarks, and a map of block against depth. Cells that fail a
//! check are shown with the reason; nothing is concluded from them and nothing is fitted to them.
//! Cells that are unverified are used, and marked.

pub mod cells;
pub mod charts;
pub mod conclusions;
mod explained;
pub mod fits;
mod frame;
mod page;
mod plan;
pub mod published;
mod reading;
mod states;
pub mod summary;
mod tables;
mod text;
mod verdict;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use stook::bench::{self, Bench, BenchResult, KEPT_NAME, Workload, fio_jobs, fresh_seed};
use stook::engine::Backend;
use stook::report::json::Document;
use stook::report::page::Page;
use stook::report::units::bytes_binary;

use self::cells::Profile;
use self::conclusions::conclusions;
use self::fits::Fits;
use self::summary::{Field, Line};
use crate::environment::Environment;
use crate::frame::{Conclusion, Frame};
use crate::text::duration_s;
use crate::{Hooks, OptionError, Study, Text};

/// The study.
#[derive(Debug, Clone)]
pub struct SsdProfile {
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

/// What was found, as it is in `study.json` under `data`.
#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// The answer in a few sentences.
    #[serde(skip)]
    pub verdict: String,
    /// Sequential and random reads, many at once and one at a time.
    pub summary: Vec<Line>,
    /// Random reads, block against depth.
    pub map: Vec<Field>,
    /// The published conclusions, and whether they are true here, in order.
    #[serde(skip)]
    pub conclusions: Vec<Conclusion>,
    /// What was measured in order, as it was published.
    pub sequential: Profile,
    /// The same at random places, which the document did not measure but for its small writes.
    pub profile: Profile,
    /// The published tables.
    #[serde(serialize_with = "published::serialize")]
    pub published: Profile,
    /// The behaviour of the device at random places, in few numbers.
    pub fits: Fits,
    /// The same in order.
    pub sequential_fits: Fits,
    /// The same for the published tables.
    pub published_fits: Fits,
    /// The latency limit for the depth of a service level.
    pub p99_target_s: f64,
    /// The same cells for fio.
    pub fio_job: String,
    /// Everything that was measured, as `stook bench --json` prints it.
    pub bench: Document<BenchResult>,
    /// The same for those who make the page.
    #[serde(skip)]
    pub result: BenchResult,
    /// On what.
    #[serde(skip)]
    pub environment: Environment,
}

impl SsdProfile {
    /// The measurement.
    pub fn bench(&self) -> Bench {
        let base = Workload { ramp_s: self.ramp_s, seed: fresh_seed(), ..Workload::default() };
        Bench {
            cells: plan::cells(&base, self.time_s),
            rounds: self.rounds,
            long_run_s: None,
            file_bytes: self.file_bytes,
            keep: false,
            overwrite_file: false,
            file_is_full: false,
            cold: false,
        }
    }
}

/// The study while it is measured.
#[derive(Debug)]
pub struct State {
    bench: Bench,
    result: Option<BenchResult>,
}

impl Study for SsdProfile {
    type State = State;
    type Findings = Findings;

    const NAME: &'static str = "ssd-profile";
    const EMBEDDED: &'static str = "Everything that was measured is";

    fn check(&self) -> anyhow::Result<()> {
        // An existing file could be measured as well, and would be written to.
        if !self.work.is_dir() {
            let work = self.work.display();
            let message = format!("{work}: expected a directory, in which a test file is made");
            return Err(OptionError::new(message).into());
        }
        let bench = self.bench();
        bench.check()?;
        Ok(bench.check_new_file(&self.work)?)
    }

    fn prepare(&self, hooks: &dyn Hooks) -> anyhow::Result<State> {
        let bench = self.bench();
        hooks.note(&takes(&bench));
        Ok(State { bench, result: None })
    }

    /// All rounds: `bench` takes them itself, and writes the test file before the first.
    fn measure(&self, state: &mut State, hooks: &dyn Hooks) -> anyhow::Result<()> {
        let interrupted = || hooks.check().err().unwrap_or_else(|| bench::Error::Interrupted.into());
        let observer = hooks.observer(&state.bench);
        match state.bench.run(&self.work, &Backend::Auto, &*observer) {
            // Half a sweep answers nothing.
            Err(bench::Error::Interrupted) => return Err(interrupted()),
            Ok(result) if result.interrupted => return Err(interrupted()),
            result => state.result = Some(result?),
        }
        Ok(())
    }

    /// All cells read one file in one way, so there is nothing to compare: the gates of `bench`
    /// check that its bytes came from the device.
    fn check_bytes(&self, _state: &mut State, _hooks: &dyn Hooks) -> anyhow::Result<()> {
        Ok(())
    }

    fn conclude(&self, state: State) -> anyhow::Result<Findings> {
        Ok(Findings::of(state.result.context("nothing was measured")?, self.p99_target_s))
    }

    fn frame(findings: &Findings) -> Frame {
        frame::frame(findings)
    }

    fn text(findings: &Findings) -> Vec<Text> {
        text::text(findings)
    }

    fn page(findings: &Findings) -> Page {
        page::page(findings)
    }
}

/// The message before the measurement.
fn takes(bench: &Bench) -> String {
    let (cells, rounds) = (bench.cells.len(), bench.rounds);
    format!(
        "Measuring takes about {}: {cells} cells, {rounds} {} each. Before it a test file of {} is written",
        duration_s(bench.expected_s().unwrap_or(0.0)),
        if rounds == 1 { "round" } else { "rounds" },
        bytes_binary(bench.file_bytes),
    )
}

impl Findings {
    /// Evaluates a measurement of all cells.
    pub fn of(result: BenchResult, p99_target_s: f64) -> Self {
        let [profile, sequential] = [summary::random_cells(&result), summary::sequential_cells(&result)]
            .map(|result| Profile::of(&result));
        let published = published::profile();
        let fits = Fits::of(&profile, Some(p99_target_s));
        let [sequential_fits, published_fits] =
            [&sequential, &published].map(|profile| Fits::of(profile, None));
        let workloads: Vec<Workload> = result.cells.iter().map(|cell| cell.workload.clone()).collect();
        Self {
            verdict: verdict::verdict(&result, &fits),
            summary: summary::lines(&result),
            map: summary::map(&result),
            conclusions: conclusions((&published, &published_fits), (&sequential, &sequential_fits)),
            profile,
            sequential,
            published,
            fits,
            sequential_fits,
            published_fits,
            p99_target_s,
            fio_job: fio_jobs(&workloads, Path::new(KEPT_NAME), result.file_bytes),
            bench: Document::new("bench", result.clone()),
            environment: Environment::of(Path::new(&result.path)),
            result,
        }
    }
}
