//! [`Bench`]: a list of cells, run on one file, round after round.

use std::path::Path;

use super::environment::Environment;
use super::error::{Error, Result};
use super::judge::judge;
use super::layout::{Layout, TestFile, check_place};
use super::long_run::{self, LongRun, lengthened, long_runs};
use super::observer::Observer;
use super::raw::is_block_device;
use super::result::{BenchResult, Gathering, RunResult};
use super::run;
use super::workload::Workload;
use crate::engine::EngineFactory;

/// What is to be measured, and on what.
#[derive(Debug, Clone)]
pub struct Bench {
    /// The cells.
    pub cells: Vec<Workload>,
    /// How often each is run. Rounds run every cell once, so that what changes with time meets all
    /// of them.
    pub rounds: u32,
    /// Before the rounds, each distinct cell that writes is run once for this long, and its runs
    /// are compared with the rate sustained there: a short run may end before the write cache of a
    /// drive is full, and then shows only the speed of the cache.
    pub long_run_s: Option<f64>,
    /// The length of an own file.
    pub file_bytes: u64,
    /// Whether an own file stays.
    pub keep: bool,
    /// Whether an existing file may be written.
    pub overwrite_file: bool,
    /// What identifies the block device that may be written: its serial number, of a loop device
    /// the path of its file.
    pub overwrite_device: Option<String>,
    /// Whether every byte of an existing file is known to have been written, so that it need not be
    /// filled before cells write to it.
    pub file_is_full: bool,
    /// Whether the pages of the file are given up before each run of a cell that goes through the
    /// page cache, as fio does unless it is asked not to (`invalidate`).
    pub cold: bool,
}

impl Bench {
    /// Measures in a directory, on a file that is made there, or on an existing file.
    ///
    /// If it is interrupted, the results so far are returned, marked as interrupted.
    ///
    /// # Errors
    /// Returns an error if the cells are invalid, if the file cannot be made, or if a cell fails.
    pub fn run(
        &self,
        path: &Path,
        engines: &dyn EngineFactory,
        observer: &dyn Observer,
    ) -> Result<BenchResult> {
        self.check()?;
        let mut runner = Runner::new(self, path, engines, observer)?;
        let mut found = Found::new(self, runner.about());
        let measured = self.measure(&mut found, &mut runner);
        match measured {
            Ok(()) => Ok(found.finish(false)),
            Err(Error::Interrupted) => Ok(found.finish(true)),
            Err(error) => Err(error),
        }
    }

    fn measure(&self, found: &mut Found, runner: &mut Runner<'_>) -> Result<()> {
        for (long_run_s, cell) in self.long_runs() {
            let measured = runner.run(&cell)?;
            let long_run = LongRun::of(&measured);
            let same = |gathering: &&mut Gathering| lengthened(&gathering.workload, long_run_s) == cell;
            found
                .cells
                .iter_mut()
                .filter(same)
                .for_each(|gathering| gathering.long_run = Some(long_run.clone()));
        }
        let link_limit = found.result.environment.link_limit_bytes_per_s;
        for round in 0..self.rounds {
            for (cell, gathering) in self.cells.iter().zip(&mut found.cells) {
                let measured = runner.run(cell)?;
                let gates = judge(cell, &measured, gathering.long_run.as_ref(), link_limit);
                gathering.add(RunResult::new(round, cell, &measured, gates), &measured);
            }
        }
        Ok(())
    }

    /// The requested long runs, with the length of each.
    fn long_runs(&self) -> impl Iterator<Item = (f64, Workload)> {
        let cells =
            |long_run_s| long_runs(&self.cells, long_run_s).into_iter().map(move |cell| (long_run_s, cell));
        self.long_run_s.into_iter().flat_map(cells)
    }

    /// How long the long runs and the rounds take, where that is known.
    pub fn expected_s(&self) -> Option<f64> {
        let round: f64 = self.cells.iter().map(Workload::expected_s).sum::<Option<f64>>()?;
        let long_runs: f64 = self.long_runs().map(|(long_run_s, _)| long_run_s).sum();
        Some(long_runs + round * f64::from(self.rounds))
    }

    /// Checks everything that can be known before the file is there.
    ///
    /// # Errors
    /// Returns [`Error::Workload`], which states what was expected.
    pub fn check(&self) -> Result<()> {
        let Some(first) = self.cells.first() else {
            return Err(Error::workload("there is nothing to measure: expected at least one cell"));
        };
        if self.rounds == 0 {
            return Err(Error::workload("0 rounds were asked for; expected at least 1"));
        }
        self.cells.iter().try_for_each(Workload::check)?;
        if let Some(long_run_s) = self.long_run_s {
            long_run::check(&self.cells, long_run_s)?;
        }
        // Contents are laid out once for all cells.
        let same = |cell: &Workload| (cell.verify, cell.verify.then_some(cell.seed));
        if self.cells.iter().any(|cell| same(cell) != same(first)) {
            return Err(Error::workload(
                "some cells verify and others do not, or with other seeds: expected the same for all cells, \
                 because they share one file",
            ));
        }
        Ok(())
    }

    fn target(
        &self,
        path: &Path,
        own_file: bool,
        engines: &dyn EngineFactory,
        observer: &dyn Observer,
    ) -> Result<TestFile> {
        let first = self.cells.first();
        let layout = Layout {
            seed: first.map_or(1, |cell| cell.seed),
            compressibility: self.cells.iter().map(|cell| cell.compressibility).min().unwrap_or(0),
            verify: first.is_some_and(|cell| cell.verify),
        };
        if own_file {
            self.check_new_file(path)?;
            let file = TestFile::create(path, self.file_bytes, layout, self.keep, engines, observer)?;
            self.check_file(&file)?;
            return Ok(file);
        }
        let writes = self.cells.iter().any(Workload::writes);
        let full = self.file_is_full && !layout.verify;
        if is_block_device(path) {
            let typed = self.overwrite_device.as_deref();
            let file = TestFile::open_device(path, typed, writes, full, layout)?;
            self.check_file(&file)?;
            return Ok(file);
        }
        if self.overwrite_device.is_some() {
            return Err(Error::target(path, "is no block device, and --overwrite-device is for those"));
        }
        if writes && !self.overwrite_file && path.exists() {
            return Err(Error::target(
                path,
                "is an existing file, and some cells write: expected --overwrite-file, which destroys what is in \
                 it, or a directory",
            ));
        }
        let file = TestFile::open(path, writes, full, layout)?;
        self.check_file(&file)?;
        Ok(file)
    }

    /// Checks whether a test file can be made in a directory, before a gigabyte is written for
    /// nothing.
    ///
    /// # Errors
    /// Returns [`Error::Workload`] if it is too short for a cell, [`Error::Target`] if there is no
    /// space for it, and [`Error::Core`] if the directory is, or is in, a pack.
    pub fn check_new_file(&self, directory: &Path) -> Result<()> {
        if self.file_bytes == 0 {
            return Err(Error::workload("the file size is 0 bytes; expected at least a block of each cell"));
        }
        self.cells.iter().try_for_each(|cell| cell.check_file(self.file_bytes, 1))?;
        check_place(directory, self.file_bytes)
    }

    fn check_file(&self, file: &TestFile) -> Result<()> {
        let engine_file = file.reopen()?;
        let alignment = engine_file.alignment().offset_bytes;
        if self.cells.iter().any(|cell| !cell.buffered) && !engine_file.is_direct_possible() {
            return Err(Error::target(
                file.path(),
                "lies on a file system that refuses direct I/O: expected buffered I/O, or another place",
            ));
        }
        self.cells.iter().try_for_each(|cell| cell.check_file(file.len(), alignment))
    }
}

/// Pages that are dirty would stay.
fn drop_pages(file: &TestFile) -> Result<()> {
    let file = file.reopen()?;
    file.sync_data()?;
    Ok(file.drop_cached()?)
}

fn run_cell(
    cell: &Workload,
    turn: u64,
    file: &mut TestFile,
    engines: &dyn EngineFactory,
    observer: &dyn Observer,
) -> Result<run::Measured> {
    if cell.writes() {
        file.precondition(engines, observer)?;
    }
    let mut measured = run::run(cell, turn, file, engines, observer)?;
    if cell.verify && cell.writes() {
        file.read_back(engines, observer)?;
        measured.verified_bytes += file.len();
    }
    Ok(measured)
}

/// Runs cells on one file, each with a turn of its own: it asks for other blocks than all others.
pub(super) struct Runner<'a> {
    bench: &'a Bench,
    path: &'a Path,
    own_file: bool,
    file: TestFile,
    turns: u64,
    engines: &'a dyn EngineFactory,
    observer: &'a dyn Observer,
}

impl<'a> Runner<'a> {
    /// Makes or opens the file.
    pub(super) fn new(
        bench: &'a Bench,
        path: &'a Path,
        engines: &'a dyn EngineFactory,
        observer: &'a dyn Observer,
    ) -> Result<Self> {
        let own_file = path.is_dir();
        let file = bench.target(path, own_file, engines, observer)?;
        Ok(Self { bench, path, own_file, file, turns: 0, engines, observer })
    }

    /// Runs a cell once.
    pub(super) fn run(&mut self, cell: &Workload) -> Result<run::Measured> {
        if self.bench.cold && cell.buffered {
            drop_pages(&self.file)?;
        }
        let turn = self.turns;
        self.turns += 1;
        run_cell(cell, turn, &mut self.file, self.engines, self.observer)
    }

    /// On what it runs them; no cells.
    pub(super) fn about(&self) -> BenchResult {
        let now = time::OffsetDateTime::now_utc();
        let now = now.replace_nanosecond(0).unwrap_or(now);
        let file = &self.file;
        let is_unnamed = self.own_file && !self.bench.keep;
        BenchResult {
            path: if is_unnamed { self.path } else { file.path() }.display().to_string(),
            file_bytes: file.len(),
            own_file: self.own_file,
            environment: Environment::of(file.path(), file.device()),
            // A date of this kind can always be written.
            time: now.format(&time::format_description::well_known::Rfc3339).unwrap_or_default(),
            interrupted: false,
            cells: Vec::new(),
        }
    }
}

/// What was found so far.
struct Found {
    result: BenchResult,
    cells: Vec<Gathering>,
}

impl Found {
    fn new(bench: &Bench, result: BenchResult) -> Self {
        Self { result, cells: bench.cells.iter().cloned().map(Gathering::new).collect() }
    }

    fn finish(mut self, interrupted: bool) -> BenchResult {
        self.result.interrupted = interrupted;
        self.result.cells = self.cells.into_iter().map(Gathering::finish).collect();
        self.result
    }
}
