//! `stook bench` against fio: the same cells on the same file, in turn, and fio against itself for
//! the noise.

mod cells;
pub(crate) mod fio;
mod results;
mod sample;
mod verdict;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use stook::bench::{Bench, KEPT_NAME, Unobserved, Workload, fresh_seed};
use stook::engine::Backend;
use stook_study::environment::{Environment, version_of};
use stook_study::limit::Fio;
use stook_study::sample as work;

use self::cells::name;
use self::fio::Memory;
use self::results::{Cell, Results};
use self::sample::Sample;
use self::verdict::Pair;

/// The file that all measure on. It is full of data that cannot be compressed.
const FILE_BYTES: u64 = 1 << 30;
/// The job of fio that is running.
const JOB_NAME: &str = "cell.fio";

/// Flags of the comparison.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often every cell is measured: by fio, ours, fio and ours again
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long each measures a cell
    #[arg(long, default_value = "5s", value_parser = seconds)]
    time: f64,
    /// How long each runs before it measures
    #[arg(long, default_value = "1s", value_parser = seconds)]
    ramp: f64,
    /// Only the cells whose names contain one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where the file is made: 1 GiB, removed at the end
    #[arg(long, default_value = "target/peers-bench")]
    work: PathBuf,
    /// The folder that the raw results go into
    #[arg(long)]
    out: Option<PathBuf>,
    /// Keep the file for the next run
    #[arg(long)]
    keep: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let found: Option<f64> = text.strip_suffix('s').unwrap_or(text).parse().ok();
    found
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
        .ok_or_else(|| "expected seconds, such as 5s or 0.5s".to_owned())
}

/// Who measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Fio,
    Ours(Backend),
}

/// One round. The runs of ours lie between or beside those of fio, and every other round runs
/// backwards, so that a device that gets slower or faster meets all alike.
const TURNS: [Turn; 4] = [Turn::Fio, Turn::Ours(Backend::Uring), Turn::Fio, Turn::Ours(Backend::Threads)];

/// Measures all cells and writes what was found.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let version = Fio::version().context("fio is what all is compared with: install it")?;
    let cells = chosen(args)?;
    work::prepare_work(&args.work)?;
    let file = laid_out(&args.work)?;
    let largest = cells.iter().map(|cell| cell.requested_depth() * cell.block_size).max().unwrap_or(0);
    let memory = Memory::available(largest);
    if memory == Memory::Malloc {
        eprintln!(
            "fio gets buffers of 4 KiB pages, ours are of 2 MiB: its large requests may be slower. \
             `sysctl vm.nr_hugepages={}` lets both have the same",
            largest.div_ceil(2 << 20) + 8
        );
    }
    let mut results = Results {
        fio_memory: memory,
        environment: Environment::of(&args.work),
        fio: version,
        rustc: version_of("rustc", "--version").unwrap_or_default(),
        rounds: args.rounds,
        time_s: args.time,
        ramp_s: args.ramp,
        file_bytes: FILE_BYTES,
        cells: cells.iter().map(Cell::new).collect(),
        summary: Vec::new(),
    };
    for round in 0..args.rounds {
        for (cell, result) in cells.iter().zip(&mut results.cells) {
            measure(round, cell, result, &file, memory, &args.work)?;
        }
        results.compare()?;
        write(args, &results)?;
    }
    println!("{}", results.markdown());
    if !args.keep {
        work::clean(&args.work, |name| name == KEPT_NAME || name == JOB_NAME)?;
    }
    Ok(())
}

fn chosen(args: &Args) -> anyhow::Result<Vec<Workload>> {
    let mut cells = cells::cells(args.time, args.ramp);
    cells.retain(|cell| args.only.is_empty() || args.only.iter().any(|part| name(cell).contains(part)));
    if cells.is_empty() {
        bail!("no cell has a name with {}", args.only.join(" or "));
    }
    Ok(cells)
}

/// The file, made now if it is not there.
fn laid_out(directory: &Path) -> anyhow::Result<PathBuf> {
    let file = directory.join(KEPT_NAME);
    if !file.is_file() {
        eprintln!("Making the file");
        // One block is read, because a run without a cell makes no sense.
        let cell = Workload { ramp_s: 0.0, time_s: None, size_bytes: Some(4096), ..Workload::default() };
        bench(cell, true).run(directory, &Backend::Auto, &Unobserved)?;
        work::sync(directory)?;
    }
    Ok(file)
}

fn bench(cell: Workload, keep: bool) -> Bench {
    Bench {
        cells: vec![cell],
        rounds: 1,
        long_run_s: None,
        file_bytes: FILE_BYTES,
        keep,
        overwrite_file: true,
        overwrite_device: None,
        // Filling it again before every run of ours, and not before those of fio, would not be the
        // same to both.
        file_is_full: true,
        cold: false,
    }
}

fn measure(
    round: u32,
    cell: &Workload,
    result: &mut Cell,
    file: &Path,
    memory: Memory,
    directory: &Path,
) -> anyhow::Result<()> {
    let mut turns = TURNS;
    if !round.is_multiple_of(2) {
        turns.reverse();
    }
    let mut before = None;
    for turn in turns {
        // What a turn leaves in a cache is not what the next one asks for.
        let cell = &Workload { seed: fresh_seed(), ..cell.clone() };
        let (tool, sample) = match turn {
            Turn::Fio => ("fio", fio::run(cell, file, FILE_BYTES, memory, &directory.join(JOB_NAME))?),
            Turn::Ours(backend) => (results::tool(backend), ours(cell, file, backend)?),
        };
        eprintln!(
            "{}, round {}, {tool}: {:.0} IOPS, mean {:.1} µs, p99 {:.1} µs, CPU {:.2} µs {}",
            name(cell),
            round + 1,
            sample.iops,
            sample.latency_mean_ns / 1e3,
            sample.latency_p99_ns / 1e3,
            sample.cpu_per_request_ns / 1e3,
            sample.reasons.join("; ")
        );
        match (turn, before.take()) {
            (Turn::Ours(backend), earlier) => {
                result.ours(backend).push(sample);
                before = earlier;
            }
            (Turn::Fio, Some(earlier)) => result.fio.push(Pair { earlier, later: sample }),
            (Turn::Fio, None) => before = Some(sample),
        }
    }
    Ok(())
}

fn ours(cell: &Workload, file: &Path, backend: Backend) -> anyhow::Result<Sample> {
    let found = bench(cell.clone(), false).run(file, &backend, &Unobserved)?;
    let run = found.cells.first().and_then(|cell| cell.runs.first()).context("nothing was run")?;
    Sample::of(run).context("nothing was measured")
}

fn write(args: &Args, results: &Results) -> anyhow::Result<()> {
    let out = match &args.out {
        Some(out) => out.clone(),
        None => {
            let date = results.environment.time.get(..10).unwrap_or("undated");
            Path::new("benchmarks/runs").join(date)
        }
    };
    std::fs::create_dir_all(&out)?;
    work::publish(&out.join("bench.json"), &serde_json::to_vec_pretty(results)?)?;
    work::publish(&out.join("bench.md"), results.markdown().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds() {
        assert_eq!((seconds("5s"), seconds("0.5")), (Ok(5.0), Ok(0.5)));
        for wrong in ["", "s", "-1s", "NaN", "infs"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_round_has_fio_twice_and_each_backend_once() {
        let count = |wanted| TURNS.iter().filter(|turn| **turn == wanted).count();
        let ours = [Backend::Uring, Backend::Threads].map(|backend| count(Turn::Ours(backend)));
        assert_eq!((count(Turn::Fio), ours), (2, [1, 1]));
    }
}
