//! `stook advise` against what it advises about: the predicted gain of packing six trees, and the
//! measured one, in turn.

mod trees;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::Serialize;
use stook::ops::advise::predict::WayKind;
use stook::ops::advise::{AdviceReport, AdviseOptions, advise};
use stook::report::stats::median;
use stook_study::cold::{Cold, Next};
use stook_study::environment::Environment;
use stook_study::many_small_files::plain;
use stook_study::many_small_files::readers::{Data, Reader};
use stook_study::sample;

use self::trees::{KINDS, Maker};

/// How far a prediction may be off.
const TOLERANCE: f64 = 0.15;
/// Of six trees.
const MET_MIN: usize = 5;

/// Flags of the comparison.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds; each predicts and measures every tree once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Source code that is there
    #[arg(long, default_value_os_t = cargo_registry())]
    sources: PathBuf,
    /// Python packages that are there
    #[arg(long, default_value = "/usr/lib/python3/dist-packages")]
    python: PathBuf,
    /// Where the trees and packs are made, removed at the end
    #[arg(long, default_value = "target/peers-advise")]
    work: PathBuf,
    /// The folder that the raw results go into
    #[arg(long)]
    out: Option<PathBuf>,
    /// Keep the trees for the next run
    #[arg(long)]
    keep: bool,
}

fn cargo_registry() -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    home.unwrap_or_default().join("registry/src")
}

/// One round of one tree.
#[derive(Debug, Clone, Serialize)]
struct Round {
    files_s: f64,
    pack_s: f64,
    measured: f64,
    predicted: f64,
    predicted_low: f64,
    predicted_high: f64,
    advice: AdviceReport,
}

/// One tree.
#[derive(Debug, Clone, Serialize)]
struct Compared {
    tree: &'static str,
    files: u64,
    bytes: u64,
    /// The median of measured gains: files, one reader ÷ the pack, loaded.
    measured: f64,
    /// The median of predicted ones.
    predicted: f64,
    /// measured ÷ predicted − 1.
    error: f64,
    /// The medians of both ends of the interval that was stated.
    low: f64,
    high: f64,
    is_within_tolerance: bool,
    is_within_interval: bool,
    rounds: Vec<Round>,
}

/// All of it.
#[derive(Debug, Serialize)]
struct Found {
    environment: Environment,
    command: Vec<String>,
    cold: String,
    tolerance: f64,
    within_tolerance: usize,
    is_met: bool,
    trees: Vec<Compared>,
}

/// Measures, and writes what was found.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let cold = Cold::detect();
    ensure!(cold.is_complete(), "caches cannot be emptied: {}", cold.describe());
    sample::prepare_work(&args.work)?;
    let maker = Maker { sources: &args.sources, python: &args.python };
    let mut data = Vec::new();
    for kind in &KINDS {
        eprintln!("Making {}", kind.name);
        let tree = kind.tree(&maker, &args.work)?;
        let pack = args.work.join(format!("{}.stook", kind.name));
        plain::pack(&tree, &pack, || Ok(()))?;
        data.push((kind.name, Data { tree, plain: PathBuf::new(), pack, numbered: None }));
    }
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); data.len()];
    for round in 0..args.rounds {
        for ((name, data), rounds) in data.iter().zip(&mut rounds) {
            eprintln!("Round {}: {name}", round + 1);
            rounds.push(measure(&cold, data, round)?);
        }
    }
    let mut trees = Vec::new();
    for ((name, data), rounds) in data.iter().zip(rounds) {
        trees.push(compared(name, data, rounds)?);
    }
    let within_tolerance = trees.iter().filter(|tree| tree.is_within_tolerance).count();
    let others_within = trees.iter().all(|tree| tree.is_within_tolerance || tree.is_within_interval);
    let found = Found {
        environment: Environment::of(&args.work),
        command: std::env::args().skip(1).collect(),
        cold: cold.describe(),
        tolerance: TOLERANCE,
        within_tolerance,
        is_met: within_tolerance >= MET_MIN && others_within,
        trees,
    };
    println!("{}", markdown(&found));
    write(args, &found)?;
    if !args.keep {
        let made: Vec<String> =
            KINDS.iter().flat_map(|kind| [kind.name.to_owned(), format!("{}.stook", kind.name)]).collect();
        sample::clean(&args.work, |name| {
            let name = name.to_string_lossy();
            made.iter().any(|made| name.strip_suffix(".partial").unwrap_or(&name) == made)
        })?;
    }
    Ok(())
}

/// The advice, the files and the pack, each cold; every second round in the other order.
fn measure(cold: &Cold, data: &Data, round: u32) -> anyhow::Result<Round> {
    let options = AdviseOptions { rounds: 3, ..AdviseOptions::default() };
    let advice = || anyhow::Ok(advise(&data.tree, &options, &|| false)?);
    let timed = |reader: Reader| {
        let paths = [reader.path(data).to_path_buf()];
        cold.prepare(Next { paths: &paths, memory_bytes: 1 << 30 })?;
        anyhow::Ok(reader.timed(data)?.0.seconds)
    };
    let (files, pack) = (Reader::Files { threads: 1 }, Reader::PackStream);
    let (advice, files_s, pack_s) = match round % 2 {
        0 => (advice()?, timed(files)?, timed(pack)?),
        _ => {
            let (pack_s, files_s) = (timed(pack)?, timed(files)?);
            (advice()?, files_s, pack_s)
        }
    };
    let prediction = advice.tree.as_ref().and_then(|tree| tree.prediction.as_ref());
    let way = prediction.and_then(|prediction| prediction.way(WayKind::Pack));
    let speedup = way.context("nothing was predicted of a pack")?.speedup;
    Ok(Round {
        files_s,
        pack_s,
        measured: files_s / pack_s,
        predicted: speedup.value,
        predicted_low: speedup.low,
        predicted_high: speedup.high,
        advice,
    })
}

fn compared(tree: &'static str, data: &Data, rounds: Vec<Round>) -> anyhow::Result<Compared> {
    let of = |figure: fn(&Round) -> f64| median(&rounds.iter().map(figure).collect::<Vec<_>>());
    let (measured, predicted) = (of(|round| round.measured)?, of(|round| round.predicted)?);
    let (low, high) = (of(|round| round.predicted_low)?, of(|round| round.predicted_high)?);
    let error = measured / predicted - 1.0;
    let count = sample::count(&data.tree)?;
    Ok(Compared {
        tree,
        files: count.files,
        bytes: count.bytes,
        measured,
        predicted,
        error,
        low,
        high,
        is_within_tolerance: error.abs() <= TOLERANCE,
        is_within_interval: (low..=high).contains(&measured),
        rounds,
    })
}

fn markdown(found: &Found) -> String {
    use std::fmt::Write as _;
    let mut text = String::from(
        "| tree | files | MB | files, one reader | pack | gain measured | predicted | interval | off |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for tree in &found.trees {
        let of = |figure: fn(&Round) -> f64| {
            median(&tree.rounds.iter().map(figure).collect::<Vec<_>>()).unwrap_or(f64::NAN)
        };
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} | {:.3} s | {:.3} s | {:.2} | {:.2} | {:.2}–{:.2} | {:+.1}% |",
            tree.tree,
            tree.files,
            tree.bytes as f64 / 1e6,
            of(|round| round.files_s),
            of(|round| round.pack_s),
            tree.measured,
            tree.predicted,
            tree.low,
            tree.high,
            tree.error * 100.0
        );
    }
    let met = if found.is_met { "met" } else { "**not met**" };
    let _ = writeln!(
        text,
        "\n{} of {} within {:.0}%: {met}",
        found.within_tolerance,
        found.trees.len(),
        TOLERANCE * 100.0
    );
    text
}

fn write(args: &Args, found: &Found) -> anyhow::Result<()> {
    let out = match &args.out {
        Some(out) => out.clone(),
        None => {
            let date = found.environment.time.get(..10).unwrap_or("undated");
            Path::new("benchmarks/runs").join(format!("{date}-advise"))
        }
    };
    fs::create_dir_all(&out)?;
    sample::publish(&out.join("advise.json"), &serde_json::to_vec_pretty(found)?)?;
    sample::publish(&out.join("advise.md"), markdown(found).as_bytes())
}
