//! The study of archives that are read out of many files: the published jobs of fio, and then real
//! files, one after another and through virtual files of the library, one read at a time and many
//! at once.

pub mod archives;
mod conclusions;
mod frame;
mod merged;
mod page;
pub mod published;
mod simulated;
mod stitched;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use stook::bench::gates::State as GateState;
use stook::bench::{self, Bench, Pattern, Workload, fresh_seed};
use stook::device::Attachment;
use stook::engine::Backend;
use stook::extent::ByteRange;
use stook::report::page::Page;
use stook::report::stats::median;
use stook::report::units;

use self::archives::{ARCHIVE_BYTES, Archive, Files};
pub use self::archives::{Order, Shape};
use self::merged::Copied;
pub use self::merged::{Merged, Rule};
pub use self::simulated::SimulatedJob;
use crate::cold::{Cold, Next};
use crate::disk::SimulatedDisk;
use crate::environment::{DeviceKind, Environment, is_memory};
use crate::frame::Frame;
use crate::limit::Fio;
use crate::place::{IsOwn, OwnDirectory, PlaceLock};
use crate::progress::{Expected, Portion, Unit, Watched, counting, ms_of};
use crate::sample::{BLOCK_LEN, check_space, sync, write_data};
use crate::{Hooks, OptionError, Study, Text};

/// Blocks and depths of the published jobs, and one that stands in one of its tables only.
pub const JOBS: [(u64, u32); 5] =
    [(64 << 20, 1), (4 << 20, 16), (1 << 20, 64), (512 << 10, 128), (128 << 10, 512)];

/// The study.
#[derive(Debug, Clone)]
pub struct SolidReads {
    /// A directory on the storage that is measured.
    pub work: PathBuf,
    /// Length of the file of the jobs of fio.
    pub file_bytes: u64,
    /// Archives of each shape.
    pub archives: u64,
    /// How long each job is measured in each round.
    pub time_s: f64,
    /// Rounds.
    pub rounds: u32,
    /// Whether the caches of other programs are left alone.
    pub keep_caches: bool,
}

/// A job.
#[derive(Debug, Clone, Serialize)]
pub struct Job {
    /// Bytes of each read.
    pub block_bytes: u64,
    /// Reads in flight.
    pub depth: u32,
    /// Ours.
    pub bytes_per_s: f64,
    /// Whether the checks of `bench` believe it.
    pub state: GateState,
    /// Why not.
    pub reasons: Vec<String>,
    /// The same by fio; absent where it is not installed.
    pub fio_bytes_per_s: Option<f64>,
}

/// A shape that was read in an order.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// How the archive is made up.
    #[serde(flatten)]
    pub shape: Shape,
    /// How it was read.
    pub order: Order,
    /// Median of all archives and rounds, seconds for one.
    pub seconds: f64,
    /// Bytes ÷ that.
    pub bytes_per_s: f64,
    /// Every read.
    pub runs: Vec<f64>,
}

/// What was found, as it is in `study.json` under `data`.
#[derive(Debug, Clone, Serialize)]
pub struct Findings {
    /// The published jobs, and one that stands in one of its tables only.
    pub jobs: Vec<Job>,
    /// The version of fio.
    pub fio: Option<String>,
    /// Real files.
    pub rows: Vec<Row>,
    /// Archives that were merged, that of the smallest files last.
    pub merged: Vec<Merged>,
    /// From which size of files on that is worth while; absent where many files are no slower.
    pub rule: Option<Rule>,
    /// The disk that the jobs were simulated on. Nothing of it is measured.
    pub simulated_disk: SimulatedDisk,
    /// The jobs on it.
    pub simulated: Vec<SimulatedJob>,
    /// What the link of the device carries, bytes a second, where that is known.
    pub link_limit_bytes_per_s: Option<f64>,
    /// Length of the file of the jobs.
    pub file_bytes: u64,
    /// Archives of each shape.
    pub archives: u64,
    /// Rounds.
    pub rounds: u32,
    /// How caches were emptied.
    pub cold: String,
    /// Whether the files lie in memory, so that nothing is judged of a device.
    #[serde(skip)]
    pub is_memory: bool,
    /// On what.
    #[serde(skip)]
    pub environment: Environment,
}

/// The study while it is measured.
pub struct State {
    place: Place,
    cold: Cold,
    jobs: Vec<Job>,
    rows: Vec<(Shape, Order, Vec<f64>)>,
    copied: Vec<Copied>,
    rounds: u32,
}

/// The directory that is made, and removed in the end.
struct Place(OwnDirectory);

/// Its name, and its files.
pub(crate) const DIRECTORY: (&str, IsOwn) = ("stook-solid-reads", is_own);

/// The file of the jobs, a merged copy, or one of the files of archives, whose name is numbers.
fn is_own(name: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    name == "file" || name == "merged" || name.split('-').count() == 3 && name.split('-').all(is_number)
}

impl Place {
    fn make(work: &Path) -> anyhow::Result<Self> {
        let (name, is_own) = DIRECTORY;
        Ok(Self(OwnDirectory::make(work.join(name), is_own)?))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("file")
    }

    fn files(&self) -> Files {
        Files { directory: self.0.path().to_owned() }
    }
}

impl SolidReads {
    fn bench(&self) -> Bench {
        let base = Workload { ramp_s: 0.2_f64.min(self.time_s), seed: fresh_seed(), ..Workload::default() };
        let cell = |(block_size, depth)| Workload {
            pattern: Pattern::Random,
            read_share: 100,
            jobs: 1,
            block_size,
            depth,
            time_s: Some(self.time_s),
            ..base.clone()
        };
        Bench {
            cells: JOBS.map(cell).into(),
            rounds: self.rounds,
            long_run_s: None,
            file_bytes: self.file_bytes,
            keep: false,
            overwrite_file: false,
            overwrite_device: None,
            file_is_full: true,
            cold: false,
        }
    }

    /// Lengths of all files, and how many of each an archive needs at most.
    fn kinds() -> Vec<(u64, u64)> {
        let mut all: Vec<(u64, u64)> = Vec::new();
        for (file_bytes, files) in Shape::ALL.into_iter().flat_map(Shape::kinds) {
            match all.iter_mut().find(|(other, _)| *other == file_bytes) {
                Some((_, most)) => *most = (*most).max(files),
                None => all.push((file_bytes, files)),
            }
        }
        all
    }

    pub(crate) fn needed_bytes(&self) -> u64 {
        let archive: u64 = Self::kinds().iter().map(|(file_bytes, files)| file_bytes * files).sum();
        // And a merged copy.
        self.file_bytes.saturating_add(archive.saturating_mul(self.archives)).saturating_add(ARCHIVE_BYTES)
    }

    /// Bytes that a round reads of real files.
    fn round_bytes(&self) -> u64 {
        let reads = (Shape::ALL.len() * Order::ALL.len()) as u64;
        reads.saturating_mul(ARCHIVE_BYTES).saturating_mul(self.archives)
    }

    /// How long the jobs take, seconds, and those of fio.
    fn jobs_s(&self) -> f64 {
        let own_s = self.bench().expected_s().unwrap_or_default();
        let with_fio = Fio::version().is_some();
        if with_fio { own_s + self.time_s * JOBS.len() as f64 } else { own_s }
    }

    fn make_files(&self, place: &Place, hooks: &dyn Hooks) -> anyhow::Result<()> {
        let shown = hooks.begin(&Portion::new("writing", Unit::Bytes, self.needed_bytes() - ARCHIVE_BYTES));
        let write = |path: &Path, file_bytes: u64| {
            let block_bytes = file_bytes.min(BLOCK_LEN as u64);
            write_data(path, file_bytes, || {
                shown.add(block_bytes);
                hooks.check()
            })
        };
        write(&place.file(), self.file_bytes)?;
        let files = place.files();
        for archive in 0..self.archives {
            for (file_bytes, count) in Self::kinds() {
                for number in 0..count {
                    write(&files.path(file_bytes, archive, number), file_bytes)?;
                }
            }
        }
        sync(place.0.path())
    }

    fn run_jobs(&self, place: &Place, hooks: &dyn Hooks) -> anyhow::Result<Vec<Job>> {
        let bench = self.bench();
        let interrupted = || hooks.check().err().unwrap_or_else(|| bench::Error::Interrupted.into());
        let shown = hooks.begin(&Portion::new("jobs of fio", Unit::Milliseconds, ms_of(self.jobs_s())));
        let observer = Watched { hooks, shown: &*shown };
        let result = match bench.run(&place.file(), &Backend::Auto, &observer) {
            Err(bench::Error::Interrupted) => return Err(interrupted()),
            Ok(result) if result.interrupted => return Err(interrupted()),
            result => result?,
        };
        let with_fio = Fio::version().is_some();
        let mut jobs = Vec::new();
        for cell in result.cells {
            hooks.check()?;
            let (block_bytes, depth) = (cell.workload.block_size, cell.workload.depth);
            let fio = Fio {
                pattern: "randread",
                block_len: block_bytes as usize,
                depth: depth as usize,
                requests: None,
                time_s: Some(self.time_s),
                cached: false,
            };
            let fio = with_fio.then(|| fio.run(&[place.file()])).transpose()?;
            if fio.is_some() {
                shown.add(ms_of(self.time_s));
            }
            jobs.push(Job {
                block_bytes,
                depth,
                bytes_per_s: cell.total.bandwidth_bytes_per_s,
                state: cell.state,
                reasons: cell.reasons,
                fio_bytes_per_s: fio.map(|speed| speed.bytes_per_s()),
            });
        }
        Ok(jobs)
    }
}

impl Study for SolidReads {
    type State = State;
    type Findings = Findings;

    const NAME: &'static str = "solid-reads";
    const EMBEDDED: &'static str = "The times of every read are";

    fn check(&self) -> anyhow::Result<()> {
        let wrong = |why: String| Err(OptionError::new(why).into());
        if !self.work.is_dir() {
            return wrong(format!("{}: expected a directory", self.work.display()));
        }
        if self.archives == 0 {
            return wrong("--archives: expected one archive or more".to_owned());
        }
        if self.file_bytes < ARCHIVE_BYTES {
            return wrong(format!(
                "--size: expected a file of {} or more",
                units::bytes_binary(ARCHIVE_BYTES)
            ));
        }
        self.bench().check()?;
        check_space(&self.work, self.needed_bytes()).context("the files of --size and --archives do not fit")
    }

    fn expected(&self) -> Expected {
        let rounds = self.round_bytes().saturating_mul(u64::from(self.rounds));
        Expected { time_s: self.jobs_s(), bytes: self.needed_bytes().saturating_add(rounds) }
    }

    fn lock(&self) -> anyhow::Result<Vec<PlaceLock>> {
        PlaceLock::take_all([self.work.as_path()])
    }

    fn prepare(&self, hooks: &dyn Hooks) -> anyhow::Result<State> {
        let place = Place::make(&self.work)?;
        hooks.note(&format!("Writing {}", units::bytes_binary(self.needed_bytes())));
        self.make_files(&place, hooks)?;
        let cold = match self.keep_caches {
            true => Cold::Files("they were to be left alone".to_owned()),
            false => Cold::detect(),
        };
        hooks.note("The jobs of fio");
        let jobs = self.run_jobs(&place, hooks)?;
        let rows =
            Shape::ALL.into_iter().flat_map(|shape| Order::ALL.map(|order| (shape, order, Vec::new())));
        Ok(State { place, cold, jobs, rows: rows.collect(), copied: Vec::new(), rounds: 0 })
    }

    fn measure(&self, state: &mut State, hooks: &dyn Hooks) -> anyhow::Result<()> {
        state.rounds += 1;
        hooks.note(&format!("Real files, round {} of {}", state.rounds, self.rounds));
        let files = state.place.files();
        let what = format!("round {} of {}", state.rounds, self.rounds);
        let shown = hooks.begin(&Portion::new(what, Unit::Bytes, self.round_bytes()));
        for archive in 0..self.archives {
            for (shape, order, runs) in &mut state.rows {
                hooks.check()?;
                let archive = Archive::new(*shape, &files, archive);
                state.cold.prepare(Next { paths: archive.paths(), memory_bytes: ARCHIVE_BYTES })?;
                runs.push(archive.read(*order)?);
                shown.add(ARCHIVE_BYTES);
            }
        }
        Ok(())
    }

    /// A virtual file and a merged copy have the bytes of the files; and each read has counted its
    /// bytes.
    fn check_bytes(&self, state: &mut State, hooks: &dyn Hooks) -> anyhow::Result<()> {
        let files = state.place.files();
        let pieces = (Shape::ALL.len() + merged::FILE_BYTES.len()) as u64;
        let task = Portion::new("comparing and merging", Unit::Bytes, pieces * ARCHIVE_BYTES);
        let before_each = counting(hooks, &task, ARCHIVE_BYTES);
        for shape in Shape::ALL {
            before_each()?;
            let archive = Archive::new(shape, &files, 0);
            let stitched = archive.stitched(false)?.read_at(ByteRange::to(ARCHIVE_BYTES))?;
            anyhow::ensure!(stitched == archive.bytes()?, "{}: other bytes, stitched", shape.label());
        }
        let copy = state.place.0.path().join("merged");
        for file_bytes in merged::FILE_BYTES {
            before_each()?;
            state.copied.push(Copied::measure(file_bytes, &files, &state.cold, &copy)?);
        }
        Ok(())
    }

    fn wants_round(&self, state: &State, _: &dyn Hooks) -> bool {
        state.rounds < self.rounds
    }

    fn conclude(&self, state: State) -> anyhow::Result<Findings> {
        let row = |(shape, order, runs): (Shape, Order, Vec<f64>)| {
            let seconds = median(&runs)?;
            anyhow::Ok(Row { shape, order, seconds, bytes_per_s: ARCHIVE_BYTES as f64 / seconds, runs })
        };
        let rows = state.rows.into_iter().map(row).collect::<anyhow::Result<Vec<_>>>()?;
        let merged = state.copied.into_iter().map(|copied| copied.against(&rows));
        let disk = SimulatedDisk::ORDINARY;
        Ok(Findings {
            jobs: state.jobs,
            fio: Fio::version(),
            merged: merged.collect::<Option<_>>().context("nothing was read")?,
            rule: Rule::of(&rows),
            simulated: simulated::jobs(&disk),
            simulated_disk: disk,
            link_limit_bytes_per_s: Attachment::of(&self.work).read_limit_bytes_per_s(),
            rows,
            file_bytes: self.file_bytes,
            archives: self.archives,
            rounds: state.rounds,
            cold: state.cold.describe(),
            is_memory: is_memory(&self.work),
            environment: Environment::of(&self.work),
        })
    }

    fn frame(findings: &Findings) -> Frame {
        frame::frame(findings)
    }

    fn text(findings: &Findings) -> Vec<Text> {
        page::text(findings)
    }

    fn page(findings: &Findings) -> Page {
        page::page(findings)
    }
}

impl Findings {
    /// The kind of the device; of what lies in memory there is none.
    fn kind(&self) -> DeviceKind {
        self.environment.kind()
    }

    /// Whether a disk is known to rotate here.
    fn is_hard_disk(&self) -> bool {
        self.kind() == DeviceKind::HardDisk
    }

    /// A shape against the whole archive, by its rate in this order.
    fn against_whole(&self, shape: Shape, order: Order) -> Option<f64> {
        let rate = |shape| {
            self.rows.iter().find(|row| (row.shape, row.order) == (shape, order)).map(|row| row.bytes_per_s)
        };
        Some(rate(shape)? / rate(Shape::WHOLE)?)
    }

    /// The merged copy of the archive of the smallest files.
    fn smallest(&self) -> Option<&Merged> {
        self.merged.last()
    }

    /// A job against the first, if both are believed.
    fn job_against_first(&self, block_bytes: u64) -> Option<f64> {
        let rate = |block_bytes| {
            let job = self.jobs.iter().find(|job| job.block_bytes == block_bytes)?;
            (!job.state.is_invalid()).then_some(job.bytes_per_s)
        };
        Some(rate(block_bytes)? / rate(ARCHIVE_BYTES)?)
    }
}
