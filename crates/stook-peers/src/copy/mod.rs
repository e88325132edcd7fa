//! Copying trees, beside cp, rsync, rclone, xcp, fcp and dircopy: many small files, one large one,
//! two destinations of which one is slower, and the memory that it takes.
//!
//! Each copy is compared with its source afterwards, outside the time; a wrong one ends it all.

pub(crate) mod memory;
mod rows;
mod same;
pub(crate) mod tools;
mod two;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use stook::report::units;
use stook_study::cold::Cold;
use stook_study::environment::{Environment, version_of};
use stook_study::limit::Fio;
use stook_study::sample::{self, Sample};
use stook_testing::privileged::WriteLimit;

use self::tools::{Copier, Copiers};
use crate::result::Results;

/// Bytes of each of the small files.
const SMALL_BYTES: u64 = 20_000;

/// Flags of the comparison.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds; each measures every way once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only these sections
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Section>,
    /// The program under test
    #[arg(long, default_value = "target/release/stook")]
    stook: PathBuf,
    /// Where xcp, fcp and dircopy are; `scripts/need copiers` installs them here
    #[arg(long, default_value = "target/tools/bin")]
    tools: PathBuf,
    /// How many small files, of 20,000 bytes each
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(2..))]
    files: u64,
    /// Length of the large file
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = units::parse_size)]
    large: u64,
    /// How much is copied to two destinations
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = units::parse_size)]
    two: u64,
    /// What the slower of two destinations takes a second
    #[arg(long, value_name = "SIZE", default_value = "60MB", value_parser = units::parse_size)]
    slower: u64,
    /// What the faster of two destinations takes a second
    #[arg(long, value_name = "SIZE", default_value = "120MB", value_parser = units::parse_size)]
    faster: u64,
    /// Where the data is made; up to 12 GB, removed at the end
    #[arg(long, default_value = "target/peers-copy")]
    work: PathBuf,
    /// The folder that the raw results go into
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Section {
    /// Many small files
    Files,
    /// One large file
    Large,
    /// Two destinations of which one is slower (root, control groups of version 1)
    Two,
    /// The most memory
    Memory,
}

const ALL: [Section; 4] = [Section::Files, Section::Large, Section::Two, Section::Memory];

/// What every section needs.
struct Bench<'a> {
    args: &'a Args,
    work: &'a Path,
    copiers: Copiers,
    cold: Cold,
}

impl Bench<'_> {
    /// The small files, and what they are called in results.
    fn small(&self) -> (String, Sample) {
        let sample = Sample { files: self.args.files, size: SMALL_BYTES };
        let bytes = units::count(sample.size);
        (format!("{} files of {bytes} bytes", units::count(sample.files)), sample)
    }

    /// The large file.
    fn large(&self) -> (String, Sample) {
        let sample = Sample { files: 1, size: self.args.large };
        (format!("one file of {}", units::bytes_decimal(sample.size)), sample)
    }

    fn rounds(&self) -> usize {
        self.args.rounds as usize
    }

    /// The ways whose programs are there.
    fn copiers(&self) -> Vec<Copier> {
        Copier::ALL.into_iter().filter(|&copier| self.copiers.has(copier)).collect()
    }

    /// Refuses what would not fit. Both trees are kept to the end.
    fn check_space(&self, sections: &[Section]) -> anyhow::Result<()> {
        let (small, large) = (self.small().1.bytes(), self.large().1.bytes());
        let copies = Copier::ALL.len() as u64;
        let needed = sections.iter().map(|section| match section {
            Section::Files => (copies + 1).saturating_mul(small),
            Section::Large | Section::Memory => small.saturating_add(large.saturating_mul(2)),
            Section::Two => self.args.two.saturating_mul(4),
        });
        sample::check_space(self.work, needed.max().unwrap_or(0))
    }
}

/// Measures, and writes what was found.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(Fio::version().is_some(), "fio is the limit that copying is compared with: install it");
    let sections = if args.only.is_empty() { &ALL[..] } else { &args.only };
    if sections.contains(&Section::Two) {
        WriteLimit::check().context("without two destinations: --only files,large,memory")?;
        ensure!(args.slower < args.faster, "--slower has to be less than --faster");
    }
    let stook = args.stook.canonicalize().with_context(|| format!("cannot find {}", args.stook.display()))?;
    sample::prepare_work(&args.work)?;
    let work = args.work.canonicalize()?;
    let copiers = Copiers::find(&stook, &args.tools)?;
    let mut tools = copiers.versions.clone();
    tools.extend(version_of("fio", "--version").map(|version| ("fio".to_owned(), version)));
    let bench = Bench { args, work: &work, copiers, cold: Cold::detect() };
    bench.check_space(sections)?;
    let mut results = Results {
        environment: Environment::of(&args.work),
        tools,
        command: std::env::args().skip(1).collect(),
        cold: bench.cold.describe(),
        ..Results::default()
    };
    for section in sections {
        match section {
            Section::Files => rows::small(&bench, &mut results)?,
            Section::Large => rows::large(&bench, &mut results)?,
            Section::Two => two::run(&bench, &mut results)?,
            Section::Memory => memory::run(&bench, &mut results)?,
        }
        write(args, &results)?;
    }
    println!("{}", results.markdown());
    if !bench.copiers.has(Copier::Dircopy) {
        println!("Left out, because it is not installed: dircopy");
    }
    sample::clean(&work, |_| true)?;
    Ok(())
}

fn write(args: &Args, results: &Results) -> anyhow::Result<()> {
    let out = args.out.clone().unwrap_or_else(|| {
        let date = results.environment.time.get(..10).unwrap_or("undated");
        PathBuf::from(format!("benchmarks/runs/{date}-copy"))
    });
    std::fs::create_dir_all(&out)?;
    sample::publish(&out.join("copy.json"), &serde_json::to_vec_pretty(results)?)?;
    sample::publish(&out.join("copy.md"), results.markdown().as_bytes())
}
