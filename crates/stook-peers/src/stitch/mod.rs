//! Stitched files: finding a piece, opening an archive that is not there, reads of many files as
//! one against those of one file, and writing archives of many files beside GNU tar and Info-ZIP.

mod gather;
mod lookup;
pub(crate) mod open;
mod write;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use stook_study::cold::Cold;
use stook_study::environment::{Environment, version_of};
use stook_study::sample;

use crate::result::Results;

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
    /// How many virtual files of 64 MiB each shape has; 64 MiB of files and as much of one file
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    sets: u32,
    /// How many files are written as archives, of 20,000 bytes each
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(2..))]
    files: u64,
    /// Where the data is made; up to 2.1 GB, removed at the end
    #[arg(long, default_value = "target/peers-stitch")]
    work: PathBuf,
    /// The folder that the raw results go into
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Section {
    /// Finding the piece that an offset is in, in memory
    Lookup,
    /// Opening archives of 65,536 members
    Open,
    /// Many files as one, against one file, cold
    Gather,
    /// Writing archives, beside `tar` and `zip`, cold
    Write,
}

const ALL: [Section; 4] = [Section::Lookup, Section::Open, Section::Gather, Section::Write];

/// What every section needs.
struct Bench<'a> {
    args: &'a Args,
    work: PathBuf,
    stook: PathBuf,
    cold: Cold,
}

impl Bench<'_> {
    fn rounds(&self) -> usize {
        self.args.rounds as usize
    }
}

/// Measures, and writes what was found.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let sections = if args.only.is_empty() { &ALL[..] } else { &args.only };
    let stook = match sections.contains(&Section::Write) {
        true => args.stook.canonicalize().with_context(|| format!("cannot find {}", args.stook.display()))?,
        false => args.stook.clone(),
    };
    sample::prepare_work(&args.work)?;
    let work = args.work.canonicalize()?;
    let bench = Bench { args, work, stook, cold: Cold::detect() };
    let mut results = Results {
        environment: Environment::of(&args.work),
        tools: [("tar", "--version"), ("zip", "--version"), ("rustc", "--version")]
            .into_iter()
            .filter_map(|(program, argument)| Some((program.to_owned(), version_of(program, argument)?)))
            .collect(),
        command: std::env::args().skip(1).collect(),
        cold: bench.cold.describe(),
        ..Results::default()
    };
    for section in sections {
        match section {
            Section::Lookup => lookup::run(&bench, &mut results)?,
            Section::Open => open::run(&bench, &mut results)?,
            Section::Gather => gather::run(&bench, &mut results)?,
            Section::Write => write::run(&bench, &mut results)?,
        }
        publish(args, &results)?;
    }
    println!("{}", results.markdown());
    sample::clean(&bench.work, |_| true)?;
    Ok(())
}

fn publish(args: &Args, results: &Results) -> anyhow::Result<()> {
    let out = args.out.clone().unwrap_or_else(|| {
        let date = results.environment.time.get(..10).unwrap_or("undated");
        Path::new("benchmarks/runs").join(format!("{date}-stitch"))
    });
    std::fs::create_dir_all(&out)?;
    sample::publish(&out.join("stitch.json"), &serde_json::to_vec_pretty(results)?)?;
    sample::publish(&out.join("stitch.md"), results.markdown().as_bytes())
}
