//! `stook bench`: how fast the storage below a path is, one cell after another.

mod compare;
mod models;
mod profiles;
mod slo;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stook::bench::page::page;
use stook::bench::slo::Objective;
use stook::bench::{
    Arrival, Bench, BenchResult, BlockSplit, Error, Job, KEPT_NAME, Observer, Preset, Rw, Sweep, Workload,
    fio_jobs, fresh_seed,
};
use stook::engine::Backend;
use stook::report::json::Document;
use stook::report::page::Page;
use stook::report::units;
use stook_study::sample::{check_publish, publish};

use crate::context::Context;
use crate::exit::{self, UsageError};
use crate::interrupt;
use crate::progress::{Progress, Unit};

const EXAMPLES: &str = "\
Examples:
  stook bench .                                        random reads of 4 KiB
  stook bench . --preset quick                         four lines in half a minute
  stook bench . --rw randread --depth 1,4,16,64        one cell for each depth
  stook bench . --rw read --block-size 1M --depth 8    sequential
  stook bench . --rw randrw --read-share 70 --jobs 4   a mix, on four threads
  stook bench . --rate 5000 --arrival poisson --depth 64
  stook bench . --slo p99=2ms --depth 64 --arrival poisson
  stook bench big.bin --buffered                       an existing file, only read
  stook bench . --preset ssd --json > ssd.json
  stook bench . --depth 1,4,16,64 --html depths.html
  stook bench . --rw write --block-size 1M --long-run 2m   past the write cache
  stook bench . --save                                 keeps the profile of the device
  stook bench --profiles

In a directory it makes a test file full of data that has no name while it is
measured: nothing remains, however the command ends. Lists are separated by
commas, and every combination is a cell.

Every cell is checked. It is valid if every check passed; not valid if one
failed, so that its figures are misleading; unverified if none failed but one
could not be made, for instance because no device could be identified, or the
time was too short. Both are marked, with the reason.";

/// What is measured where nothing else is said.
const FILE_BYTES: u64 = 1 << 30;
const TIME_S: f64 = 10.0;
const RAMP_S: f64 = 1.0;
/// Rounds of a search for a rate: from fewer it is not known how they differ.
const SLO_ROUNDS: u32 = 3;

/// What `stook bench` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// A directory, in which a test file is made, an existing file, or a block device
    #[arg(required_unless_present = "profiles")]
    path: Option<PathBuf>,
    #[command(flatten)]
    cell: CellArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// What is kept of a device.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Profile")]
struct ProfileArgs {
    /// Measure the device below a directory, in a minute or two, and keep its profile: reads and
    /// packs take their defaults from it
    #[arg(long, conflicts_with_all = [
        "rw", "block_size", "depth", "batch", "read_share", "jobs", "buffered", "fsync_every", "size", "rate", "arrival",
        "verify", "seed", "compressibility", "zipf", "preset", "job", "from_fio", "repeats", "long_run", "keep",
        "overwrite_file", "fio_job", "csv",
    ])]
    save: bool,
    /// With --save: leave the caches of the system alone, so that no small files are read cold
    #[arg(long, requires = "save")]
    keep_caches: bool,
    /// List the profiles that were kept
    #[arg(long, conflicts_with_all = ["path", "save", "time", "ramp", "file_size"])]
    profiles: bool,
}

/// What else there is to do.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Shows whether two results differ, or only seem to
    Compare(compare::Args),
}

/// What a cell is.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Workload")]
struct CellArgs {
    /// read, write, rw (sequential), randread, randwrite, randrw (random)
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    rw: Vec<Rw>,
    /// Random: the block of rank r is as likely as 1 ÷ r^THETA, by Zipf's law [default: all alike]
    #[arg(long, value_name = "THETA")]
    zipf: Option<f64>,
    /// Bytes of each read and write [default: 4K]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_size)]
    block_size: Vec<u64>,
    /// Blocks of several sizes, each with its share of all requests: 4k/60:64k/30:1m/10
    #[arg(long, value_name = "SPLIT", conflicts_with_all = ["block_size", "preset"])]
    bssplit: Option<BlockSplit>,
    /// Requests that each job keeps in flight [default: 1]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    depth: Vec<u32>,
    /// The most requests that a job hands to the system, and completions that it takes, at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: u32,
    /// How many of a hundred requests are reads [default: 50 for rw and randrw]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    read_share: Vec<u8>,
    /// Threads, each with an engine of its own [default: 1]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    jobs: Vec<u32>,
    /// Through the page cache instead of past it
    #[arg(long)]
    buffered: bool,
    /// Ask for a sync after every N writes of a job
    #[arg(long, value_name = "N")]
    fsync_every: Option<u32>,
    /// How long each cell runs before anything is counted [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    ramp: Option<f64>,
    /// How long each cell is measured [default: 10s, or until --size is reached]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    time: Option<f64>,
    /// End each cell after this many bytes, over all jobs
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<u64>,
    /// Open loop: requests a second, over all jobs, whatever has completed by then
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Open loop: when requests arrive [default: constant]
    #[arg(long, value_enum, value_name = "HOW")]
    arrival: Option<ArrivalArg>,
    /// Read what was written and compare it
    #[arg(long)]
    verify: bool,
    /// Seed of offsets, contents and arrivals [default: another one each time, which is reported]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Share of zeroes in the data that is written, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    compressibility: u8,
}

/// Which cells, how often, on what.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Run")]
struct RunArgs {
    /// A named set of cells
    #[arg(long, value_enum, value_name = "NAME",
          conflicts_with_all = ["rw", "block_size", "depth", "read_share", "jobs"])]
    preset: Option<PresetArg>,
    /// Cells from a job file of fio, which means what it means to fio
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "preset", "job", "rw", "block_size", "bssplit", "depth", "batch", "read_share", "jobs", "buffered",
        "fsync_every", "ramp", "time", "size", "rate", "arrival", "verify", "compressibility", "zipf",
    ])]
    from_fio: Option<PathBuf>,
    /// Cells from a job file (TOML); options given beside it are defaults
    #[arg(long, value_name = "FILE", conflicts_with_all = ["preset", "rw", "block_size", "depth", "read_share", "jobs"])]
    job: Option<PathBuf>,
    /// Find the highest rate at which latencies keep an objective, like p99=2ms: mean, p50, p90,
    /// p99 or p99.9, and a time. Each rate is tried for --time, about seven in each of three rounds
    /// (--repeats)
    #[arg(long, value_name = "OBJECTIVE", conflicts_with_all = [
        "rate", "size", "csv", "fio_job", "long_run", "preset",
    ])]
    slo: Option<Objective>,
    /// Run every cell this often, in rounds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: Option<u32>,
    /// Before that, run every writing cell once for this long, to distinguish a burst into the
    /// drive's cache from its sustained rate; 0 for none [default: none; with --preset ssd twice as
    /// long as --time, and 20s at least]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    long_run: Option<f64>,
    /// Length of the test file [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    file_size: Option<u64>,
    /// Keep the test file, as stook-bench.dat
    #[arg(long)]
    keep: bool,
    /// Let cells write into an existing file, which destroys what is in it
    #[arg(long)]
    overwrite_file: bool,
    /// Let cells write to a block device, which destroys what is on it: its serial number, of a
    /// loop device the path of its file. Never one that is mounted, used or carries a file system
    #[arg(long, value_name = "SERIAL", conflicts_with = "overwrite_file")]
    overwrite_device: Option<String>,
    /// How requests are executed
    #[arg(long, value_enum, value_name = "NAME", default_value = "auto")]
    engine: EngineArg,
    /// Print the equivalent job of fio, and measure nothing
    #[arg(long)]
    fio_job: bool,
    /// Write the result as a page too: one HTML file that needs nothing else
    #[arg(long, value_name = "FILE", conflicts_with = "fio_job")]
    html: Option<PathBuf>,
    /// Print one line of comma-separated values for each cell
    #[arg(long, conflicts_with_all = ["json", "fio_job"])]
    csv: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ArrivalArg {
    Constant,
    Poisson,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum PresetArg {
    /// Sequential 1 MiB at depth 8 and 1, random 4 KiB at depth 32 and 1; under 30 s
    Quick,
    /// Block sizes, depths and mixes around random 16 KiB; a minute for each of 14 cells, and
    /// before that two minutes for each of the five that write
    Ssd,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum EngineArg {
    /// io_uring where the system grants it, else threads
    Auto,
    /// io_uring
    Uring,
    /// A pool of threads
    Threads,
}

fn parse_size(text: &str) -> Result<u64, String> {
    units::parse_size(text).map_err(|error| exit::chain(&error))
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    units::parse_seconds(text).map_err(|error| exit::chain(&error))
}

impl From<EngineArg> for Backend {
    fn from(argument: EngineArg) -> Self {
        match argument {
            EngineArg::Auto => Self::Auto,
            EngineArg::Uring => Self::Uring,
            EngineArg::Threads => Self::Threads,
        }
    }
}

/// Runs it.
///
/// # Errors
/// Returns an error if the workload is invalid, if the file cannot be made or opened, or if a cell
/// fails.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if let Some(Action::Compare(args)) = &args.action {
        return compare::run(args, context);
    }
    if args.profile.profiles {
        return profiles::list(context);
    }
    let path = args.path.as_deref().ok_or_else(|| UsageError::new("expected a directory or a file"))?;
    if args.profile.save {
        return profiles::save(&args, path, context);
    }
    check_target(path, &args.run)?;
    let bench = bench(&args).map_err(as_usage)?;
    bench.check().map_err(as_usage)?;
    if args.cell.arrival.is_some() && args.cell.rate.is_none() && args.run.slo.is_none() {
        return Err(UsageError::new(
            "--arrival is for requests that arrive by themselves: expected --rate or --slo",
        )
        .into());
    }
    let overwrites = [
        ("--overwrite-file", args.run.overwrite_file),
        ("--overwrite-device", args.run.overwrite_device.is_some()),
    ];
    if let Some((option, _)) = overwrites.iter().find(|(_, is_given)| *is_given)
        && !bench.cells.iter().any(Workload::writes)
    {
        return Err(UsageError::new(format!("{option} is for cells that write, and these only read")).into());
    }
    if args.run.fio_job {
        return print_fio_job(&bench, path, context);
    }
    if let Some(html) = &args.run.html {
        check_publish(html)?;
    }
    if let Some(objective) = args.run.slo {
        let html = args.run.html.as_deref();
        return slo::run(&bench, (objective, path), &Backend::from(args.run.engine), html, context);
    }
    if let (Some(_), Some(seconds)) = (bench.long_run_s, bench.expected_s()) {
        let time = units::duration(Duration::from_secs_f64(seconds));
        context.note(format_args!("Measuring takes {time}, long runs of the cells that write included"));
    }
    let watcher = Watcher::new(bench.file_bytes, bench.expected_s(), context);
    let result = bench.run(path, &Backend::from(args.run.engine), &watcher);
    drop(watcher);
    let result = match result {
        Err(Error::Interrupted) => return Err(interrupt::Interrupted.into()),
        result => result.map_err(as_usage)?,
    };
    if let Some(html) = &args.run.html {
        let models = models::Models::of(&result);
        let document = Document::new("bench", WithModels { result: &result, models });
        write_page(html, page(&result), &document)?;
    }
    print(&result, &args, context)?;
    if result.interrupted { Err(interrupt::Interrupted.into()) } else { Ok(ExitCode::SUCCESS) }
}

/// Writes a page with the document that it was made from.
fn write_page(path: &Path, page: Page, document: &impl serde::Serialize) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let footer = format!(
        "Made by stook {version}. Everything is embedded in this page as JSON, in the element with the id `data`."
    );
    publish(path, page.footer(footer).data(document)?.render().as_bytes())
}

/// What is for one kind of target, and would be ignored with the other.
fn check_target(path: &Path, run: &RunArgs) -> Result<(), UsageError> {
    let is_given = [
        ("--file-size", run.file_size.is_some(), false),
        ("--keep", run.keep, false),
        ("--overwrite-file", run.overwrite_file, true),
        ("--overwrite-device", run.overwrite_device.is_some(), true),
    ];
    let wrong = is_given.iter().find(|(_, given, for_file)| *given && *for_file == path.is_dir());
    match wrong {
        Some((option, _, true)) => Err(UsageError::new(format!(
            "{option} is for an existing file or device, and {} is a directory, in which a test file is made",
            path.display()
        ))),
        Some((option, ..)) => Err(UsageError::new(format!(
            "{option} is for the test file that is made in a directory, and {} is not a directory",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// Errors of usage are reported as such, with their exit code.
pub(super) fn as_usage(error: Error) -> anyhow::Error {
    match error {
        Error::Workload(_) | Error::JobFile { .. } => UsageError::new(exit::chain(&error)).into(),
        error => error.into(),
    }
}

fn bench(args: &Args) -> Result<Bench, Error> {
    let (cell, run) = (&args.cell, &args.run);
    let ramp_s = run.preset.map_or(RAMP_S, |preset| Preset::from(preset).ramp_s());
    let base = Workload {
        batch: cell.batch,
        buffered: cell.buffered,
        fsync_every: cell.fsync_every,
        ramp_s: cell.ramp.unwrap_or(ramp_s),
        time_s: cell.time.or(if cell.size.is_some() { None } else { Some(TIME_S) }),
        size_bytes: cell.size,
        rate_per_s: cell.rate,
        arrival: cell.arrival.map_or_else(Arrival::default, Arrival::from),
        verify: cell.verify,
        seed: cell.seed.unwrap_or_else(fresh_seed),
        compressibility: cell.compressibility,
        zipf: cell.zipf,
        ..Workload::default()
    };
    let base = base.of_sizes(cell.bssplit.clone());
    let (mut repeats, mut file_bytes, mut long_run_s) = (None, None, None);
    let cells = if let Some(preset) = run.preset {
        let preset = Preset::from(preset);
        long_run_s = preset.long_run_s(cell.time);
        preset.cells(&base, cell.time)
    } else if let Some(path) = &run.job {
        let job = Job::read(path, &base)?;
        (repeats, file_bytes, long_run_s) = (job.repeats, job.file_bytes, job.long_run_s);
        job.cells
    } else if let Some(path) = &run.from_fio {
        let job = Job::read_fio(path, base.seed)?;
        file_bytes = job.file_bytes;
        job.cells
    } else {
        let (rw, block_sizes) = (cell.rw.clone(), cell.block_size.clone());
        let (read_shares, jobs, depths) = (cell.read_share.clone(), cell.jobs.clone(), cell.depth.clone());
        Sweep { base, rw, block_sizes, read_shares, jobs, depths }.cells()?
    };
    Ok(Bench {
        cells,
        rounds: run.repeats.or(repeats).unwrap_or(if run.slo.is_some() { SLO_ROUNDS } else { 1 }),
        long_run_s: run.long_run.or(long_run_s).filter(|&seconds| seconds != 0.0),
        file_bytes: run.file_size.or(file_bytes).unwrap_or(FILE_BYTES),
        keep: run.keep,
        overwrite_file: run.overwrite_file,
        overwrite_device: run.overwrite_device.clone(),
        file_is_full: false,
        cold: false,
    })
}

impl From<ArrivalArg> for Arrival {
    fn from(argument: ArrivalArg) -> Self {
        match argument {
            ArrivalArg::Constant => Self::Constant,
            ArrivalArg::Poisson => Self::Poisson,
        }
    }
}

impl From<PresetArg> for Preset {
    fn from(argument: PresetArg) -> Self {
        match argument {
            PresetArg::Quick => Self::Quick,
            PresetArg::Ssd => Self::Ssd,
        }
    }
}

fn print_fio_job(bench: &Bench, path: &Path, context: &Context) -> anyhow::Result<ExitCode> {
    let (file, len) = if path.is_dir() {
        (path.join(KEPT_NAME), bench.file_bytes)
    } else {
        let metadata = std::fs::metadata(path).map_err(|error| stook::Error::io("open", path, error))?;
        (path.to_path_buf(), metadata.len())
    };
    let mut output = context.output();
    output.bytes(fio_jobs(&bench.cells, &file, len).as_bytes())?;
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn print(result: &BenchResult, args: &Args, context: &Context) -> anyhow::Result<()> {
    let mut output = context.output();
    let models = models::Models::of(result);
    if context.json() {
        output.json(&Document::new("bench", WithModels { result, models }))?;
    } else if args.run.csv {
        table::csv(result, &mut output)?;
    } else {
        table::text(result, &mut output)?;
        models.text(&mut output)?;
    }
    Ok(output.finish()?)
}

/// The document: the measurements, and their joint interpretation.
#[derive(serde::Serialize)]
struct WithModels<'a> {
    #[serde(flatten)]
    result: &'a BenchResult,
    models: models::Models,
}

/// Draws how far it is, and passes on Ctrl-C.
struct Watcher<'a> {
    context: &'a Context,
    file_bytes: u64,
    expected_ms: Option<u64>,
    phase: Mutex<Phase>,
}

/// One bar at a time.
struct Phase {
    laying_out: Option<Progress>,
    measuring: Option<Progress>,
}

impl<'a> Watcher<'a> {
    pub(super) fn new(file_bytes: u64, expected_s: Option<f64>, context: &'a Context) -> Self {
        let expected_ms = expected_s.map(|seconds| (seconds * 1000.0) as u64);
        let phase = Mutex::new(Phase { laying_out: None, measuring: None });
        Self { context, file_bytes, expected_ms, phase }
    }
}

impl Observer for Watcher<'_> {
    fn is_interrupted(&self) -> bool {
        interrupt::interrupted()
    }

    fn laid_out(&self, bytes: u64) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        // What is written or read between cells is part of measuring.
        if phase.measuring.is_none() {
            let total = Some(self.file_bytes);
            let bar = phase
                .laying_out
                .get_or_insert_with(|| self.context.progress("writing the test file", Unit::Bytes, total));
            bar.add(bytes);
        }
    }

    fn ran(&self, ms: u64) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        phase.laying_out = None;
        let total = self.expected_ms;
        let bar = phase
            .measuring
            .get_or_insert_with(|| self.context.progress("measuring", Unit::Milliseconds, total));
        bar.add(ms);
    }
}
