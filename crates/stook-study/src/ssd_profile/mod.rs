//! The study of an SSD: how fast is it, by block size, depth and mix, and do the figures add up?
//!
//! The cells of the published study are measured again in order, as it did, checked, fitted, and
//! shown beside the published ones; and at random places, which is ours. What the document does not
//! state, the page cache and the engine, is measured the other way, too. In addition there are the
//! four well-known lines of disk benchmarks, and a map of block against depth; and runs of minutes
//! where these are asked for. Cells that fail a check are shown with the reason; nothing is fitted
//! to them, and nothing is concluded from them, unless Little's law is all that they fail: then
//! they decide about it. Cells that are unverified are used, and marked.

mod beside;
pub mod cells;
pub mod charts;
pub mod conclusions;
mod explained;
mod extra;
pub mod fits;
mod frame;
pub mod long_run;
mod needed;
mod page;
mod plan;
pub mod published;
mod reading;
pub mod simulated;
mod states;
pub mod summary;
mod tables;
mod text;
pub mod unstated;
mod verdict;
pub mod wear;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use stook::bench::{self, Bench, BenchResult, KEPT_NAME, Pattern, Workload, fio_jobs, fresh_seed};
use stook::engine::Backend;
use stook::report::json::Document;
use stook::report::page::Page;
use stook::report::units::bytes_binary;

use self::cells::Profile;
use self::conclusions::{Here, conclusions};
use self::fits::Fits;
use self::long_run::{LONG_RUN_MIN_S, Lasting};
use self::simulated::{Curves, SimulatedRead};
use self::summary::{Field, Line};
use self::unstated::{OtherWay, Unstated};
use self::wear::Wear;
use crate::disk::SimulatedDisk;
use crate::environment::Environment;
use crate::frame::{Conclusion, Frame};
use crate::place::PlaceLock;
use crate::progress::{Expected, Portion, Shown, Unit, Watched, laid_out_ms, ms_of};
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
    /// How long reads go on, and then writes, to see whether their speed lasts.
    pub long_run_s: Option<f64>,
    /// What the device is advertised with.
    pub rated: Ratings,
}

/// What a device is advertised with, bytes a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Ratings {
    /// Reads in order.
    pub read_bytes_per_s: Option<f64>,
    /// Writes in order.
    pub write_bytes_per_s: Option<f64>,
}

/// What is measured and asked beside the cells.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// What the document does not state, the other way.
    pub unstated: Vec<(OtherWay, BenchResult)>,
    /// Reads and writes that go on for minutes.
    pub long_runs: Option<BenchResult>,
    /// What the device is advertised with.
    pub rated: Ratings,
    /// What it says of its life.
    pub wear: Wear,
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
    /// What the document does not state, the other way.
    pub unstated: Vec<Unstated>,
    /// Reads and writes that went on for minutes; none where these were not asked for.
    pub long_runs: Vec<Lasting>,
    /// What the device is advertised with.
    pub rated: Ratings,
    /// The most bytes a second of any cell in order that only reads, and of any that only writes;
    /// absent where none was valid.
    pub best_bytes_per_s: [Option<f64>; 2],
    /// What it says of its life.
    pub wear: Wear,
    /// The disk that reads were simulated on. Nothing of it is measured.
    pub simulated_disk: SimulatedDisk,
    /// Reads of the published blocks on it.
    pub simulated: Vec<SimulatedRead>,
    /// How near these are to a line, and to a logarithm.
    pub simulated_curves: Option<Curves>,
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
        let mut cells = plan::cells(&base, self.time_s);
        if self.rated.write_bytes_per_s.is_some() {
            cells.push(plan::rated_writes(&base, self.time_s));
        }
        Bench {
            cells,
            rounds: self.rounds,
            long_run_s: None,
            file_bytes: self.file_bytes,
            keep: false,
            overwrite_file: false,
            overwrite_device: None,
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
    beside: Beside,
}

impl SsdProfile {
    fn long_run(&self) -> Option<Bench> {
        self.long_run_s.map(|long_run_s| long_run::bench(self, long_run_s))
    }

    /// How long everything is measured, at most.
    pub fn expected_s(&self) -> f64 {
        let bench = &self.bench();
        let others = OtherWay::ALL.map(|way| way.bench(self));
        let all = [bench].into_iter().chain(&others);
        let long_run_s = self.long_run().and_then(|bench| bench.expected_s()).unwrap_or(0.0);
        all.filter_map(Bench::expected_s).sum::<f64>() + long_run_s
    }

    /// Test files that are written, one after the other.
    fn test_files(&self) -> u64 {
        1 + OtherWay::ALL.len() as u64 + u64::from(self.long_run_s.is_some())
    }

    fn run(
        &self,
        bench: &Bench,
        engines: Backend,
        shown: &dyn Shown,
        hooks: &dyn Hooks,
    ) -> anyhow::Result<BenchResult> {
        let interrupted = || hooks.check().err().unwrap_or_else(|| bench::Error::Interrupted.into());
        match bench.run(&self.work, &engines, &Watched { hooks, shown }) {
            // Half a sweep answers nothing.
            Err(bench::Error::Interrupted) => Err(interrupted()),
            Ok(result) if result.interrupted => Err(interrupted()),
            result => Ok(result?),
        }
    }
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
        if self.long_run_s.is_some_and(|long_run_s| long_run_s < LONG_RUN_MIN_S) {
            let message = format!("--long-run: expected {LONG_RUN_MIN_S} s or more, like 5m");
            return Err(OptionError::new(message).into());
        }
        let bench = self.bench();
        let others = OtherWay::ALL.map(|way| way.bench(self));
        for bench in [&bench].into_iter().chain(&others).chain(&self.long_run()) {
            bench.check()?;
            bench.check_new_file(&self.work)?;
        }
        Ok(())
    }

    fn expected(&self) -> Expected {
        let bytes = self.file_bytes.saturating_mul(self.test_files());
        Expected { time_s: self.expected_s(), bytes }
    }

    fn lock(&self) -> anyhow::Result<Vec<PlaceLock>> {
        PlaceLock::take_all([self.work.as_path()])
    }

    fn prepare(&self, hooks: &dyn Hooks) -> anyhow::Result<State> {
        let bench = self.bench();
        hooks.note(&takes(&bench, self.expected_s()));
        let beside = Beside { rated: self.rated, wear: Wear::of(&self.work), ..Beside::default() };
        Ok(State { bench, result: None, beside })
    }

    /// All rounds: `bench` takes them itself, and writes the test file before the first.
    fn measure(&self, state: &mut State, hooks: &dyn Hooks) -> anyhow::Result<()> {
        let writing_ms = laid_out_ms(self.file_bytes).saturating_mul(self.test_files());
        let total_ms = ms_of(self.expected_s()).saturating_add(writing_ms);
        // One bar over all of it.
        let shown = hooks.begin(&Portion::new("measuring", Unit::Milliseconds, total_ms));
        state.result = Some(self.run(&state.bench, Backend::Auto, &*shown, hooks)?);
        for way in OtherWay::ALL {
            shown.say("measuring in another way");
            hooks.detail(&format!("The published cells, {}", way.label()));
            let result = self.run(&way.bench(self), way.engines(), &*shown, hooks)?;
            state.beside.unstated.push((way, result));
        }
        if let Some(bench) = self.long_run() {
            shown.say("measuring for long");
            hooks.detail("A long run of reads, and one of writes");
            state.beside.long_runs = Some(self.run(&bench, Backend::Auto, &*shown, hooks)?);
        }
        Ok(())
    }

    /// All cells read one file in one way, so there is nothing to compare: the gates of `bench`
    /// check that its bytes came from the device.
    fn check_bytes(&self, _state: &mut State, _hooks: &dyn Hooks) -> anyhow::Result<()> {
        Ok(())
    }

    fn conclude(&self, state: State) -> anyhow::Result<Findings> {
        let result = state.result.context("nothing was measured")?;
        Ok(Findings::with(result, self.p99_target_s, state.beside))
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
fn takes(bench: &Bench, expected_s: f64) -> String {
    let (cells, rounds) = (bench.cells.len(), bench.rounds);
    format!(
        "Measuring takes about {}: {cells} cells, {rounds} {} each, and then the published ones in two other ways. Before \
         each a test file of {} is written",
        duration_s(expected_s),
        if rounds == 1 { "round" } else { "rounds" },
        bytes_binary(bench.file_bytes),
    )
}

impl Findings {
    /// Evaluates a measurement of all cells, with nothing beside it.
    pub fn of(result: BenchResult, p99_target_s: f64) -> Self {
        Self::with(result, p99_target_s, Beside::default())
    }

    /// Evaluates a measurement of all cells, and what was measured and asked beside it.
    pub fn with(result: BenchResult, p99_target_s: f64, beside: Beside) -> Self {
        let [profile, sequential] = [summary::random_cells(&result), summary::sequential_cells(&result)]
            .map(|result| Profile::of(&result));
        let published = published::profile();
        let fits = Fits::of(&profile, Some(p99_target_s));
        let [sequential_fits, published_fits] =
            [&sequential, &published].map(|profile| Fits::of(profile, None));
        let workloads: Vec<Workload> = result.cells.iter().map(|cell| cell.workload.clone()).collect();
        let environment = Environment::of(Path::new(&result.path));
        let unstated = beside.unstated.iter();
        let unstated = unstated.map(|(way, found)| Unstated::of(*way, found, &sequential)).collect();
        let long_runs: Vec<Lasting> =
            beside.long_runs.iter().flat_map(|result| &result.cells).filter_map(Lasting::of).collect();
        let simulated_disk = SimulatedDisk::ORDINARY;
        let simulated = simulated::reads(&simulated_disk, &published);
        let best_bytes_per_s = [100, 0].map(|read_share| best(&result, read_share));
        let here = Here {
            ordered: &sequential,
            random: &profile,
            best_bytes_per_s,
            rated: beside.rated,
            long_runs: &long_runs,
            wear: &beside.wear,
            kind: environment.kind(),
            simulated: &simulated,
        };
        let conclusions = conclusions((&published, &published_fits), &here, &sequential_fits);
        Self {
            verdict: verdict::verdict(&result, &fits, &sequential_fits),
            summary: summary::lines(&result),
            map: summary::map(&result),
            conclusions,
            simulated_curves: Curves::of_reads(&simulated),
            profile,
            sequential,
            published,
            fits,
            sequential_fits,
            published_fits,
            unstated,
            long_runs,
            rated: beside.rated,
            best_bytes_per_s,
            wear: beside.wear,
            simulated_disk,
            simulated,
            p99_target_s,
            fio_job: fio_jobs(&workloads, Path::new(KEPT_NAME), result.file_bytes),
            bench: Document::new("bench", result.clone()),
            environment,
            result,
        }
    }
}

/// The most bytes a second of the cells that only read, or only write. Drives are rated in order.
fn best(result: &BenchResult, read_share: u8) -> Option<f64> {
    let belongs = |cell: &&bench::CellResult| {
        let Workload { pattern, read_share: share, .. } = cell.workload;
        share == read_share && pattern == Pattern::Sequential && !cell.state.is_invalid()
    };
    let cells = result.cells.iter().filter(belongs);
    cells.map(|cell| cell.total.bandwidth_bytes_per_s).max_by(f64::total_cmp)
}
