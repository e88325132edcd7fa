//! `stook bench compare`: whether two results differ, or only seem to.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;
use stook::bench::compare::{CompareOptions, Comparison, RUNS_MIN, Verdict, compare_cells, sides};
use stook::bench::gates::State;
use stook::bench::{BenchResult, CellResult, Workload};
use stook::report::json::Document;
use stook::report::units::{bytes_binary, count};

use super::table::{depth, full_name, name};
use crate::context::Context;
use crate::output::{Align, Output, Table, printable};

const EXAMPLES: &str = "\
Cells of the same workload are compared by their requests in each second, with
an interval of 95% from rounds drawn anew. A difference is called only when the
interval excludes zero and both sides have five rounds that count: with fewer
nobody can say how much two rounds of the same device differ. Cells that are not
valid are never compared; those that are unverified are, and marked. Where
nothing could be compared, the exit code is 1.

Examples:
  stook bench . --preset ssd --repeats 5 --json > before.json
  stook bench . --preset ssd --repeats 5 --json > after.json
  stook bench compare before.json after.json";

/// What `stook bench compare` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A result, as --json prints it
    first: PathBuf,
    /// Another
    second: PathBuf,
}

#[derive(Debug, Serialize)]
struct Report {
    first: String,
    second: String,
    cells: Vec<Compared>,
    /// Cells that only one of the two has.
    unmatched: u64,
    /// What these are called.
    #[serde(skip)]
    only_in: [Vec<String>; 2],
}

#[derive(Debug, Serialize)]
struct Compared {
    rw: String,
    #[serde(flatten)]
    workload: Workload,
    /// Of the first and of the second.
    states: [State; 2],
    /// Of requests a second; `null` where they cannot be compared.
    comparison: Option<Comparison>,
    /// Why they cannot.
    reason: Option<String>,
    /// Rounds of the first and of the second, those that do not count included.
    #[serde(skip)]
    rounds: [usize; 2],
}

/// Runs it.
///
/// # Errors
/// When a file cannot be read or is no result of `stook bench`, or nothing could be compared.
pub(super) fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let (first, second) = (read(&args.first)?, read(&args.second)?);
    let mut cells = Vec::new();
    for cell in &first.cells {
        if let Some(other) = second.cells.iter().find(|other| is_same(&cell.workload, &other.workload)) {
            cells.push(compared(cell, other));
        }
    }
    let only_in = [only_in(&first, &second), only_in(&second, &first)];
    let unmatched = only_in.iter().map(|names| names.len() as u64).sum();
    let text = |path: &Path| path.display().to_string();
    let report = Report { first: text(&args.first), second: text(&args.second), cells, unmatched, only_in };
    let mut output = context.output();
    if context.json() {
        output.json(&Document::new("bench_compare", &report))?;
    } else {
        print(&report, &mut output)?;
    }
    output.finish()?;
    match nothing_compared(&report) {
        Some(why) => anyhow::bail!("nothing was compared: {why}"),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// The cells that the other result does not have.
fn only_in(result: &BenchResult, other: &BenchResult) -> Vec<String> {
    let is_missing =
        |cell: &&CellResult| !other.cells.iter().any(|other| is_same(&cell.workload, &other.workload));
    result.cells.iter().filter(is_missing).map(|cell| full_name(&cell.workload)).collect()
}

/// Why there is no comparison, if there is none.
fn nothing_compared(report: &Report) -> Option<String> {
    if report.cells.iter().any(|cell| cell.comparison.is_some()) {
        return None;
    }
    let mut reasons: Vec<&str> = report.cells.iter().filter_map(|cell| cell.reason.as_deref()).collect();
    reasons.dedup();
    Some(match reasons.as_slice() {
        [] => "no cell is in both results".to_owned(),
        reasons => format!("of the cells in both results, {}", reasons.join("; ")),
    })
}

fn read(path: &Path) -> anyhow::Result<BenchResult> {
    let what = || format!("{} is no result of `stook bench --json`", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| stook::Error::io("read", path, error))?;
    let value: serde_json::Value = serde_json::from_str(&text).with_context(what)?;
    let schema = value.get("schema").and_then(|schema| schema.as_str()).unwrap_or_default();
    anyhow::ensure!(schema == "stook.bench/1", "{}: expected the schema stook.bench/1", what());
    serde_json::from_value(value).with_context(what)
}

/// Whether the same is asked of the storage. How long it is measured may differ.
fn is_same(one: &Workload, other: &Workload) -> bool {
    let untimed = |workload: &Workload| Workload {
        ramp_s: 0.0,
        time_s: None,
        size_bytes: None,
        seed: 0,
        ..workload.clone()
    };
    untimed(one) == untimed(other)
}

fn compared(first: &CellResult, second: &CellResult) -> Compared {
    let (comparison, reason) = match compare_cells(first, second, CompareOptions::default()) {
        Ok(comparison) => (Some(comparison), None),
        Err(reason) => (None, Some(reason.to_string())),
    };
    let (rw, workload) = (first.rw.clone(), first.workload.clone());
    let states = [first.state, second.state];
    Compared { rw, workload, states, comparison, reason, rounds: [first.runs.len(), second.runs.len()] }
}

fn print(report: &Report, output: &mut Output) -> anyhow::Result<()> {
    let columns = ["block", "depth", "first, requests/s", "second, requests/s", "difference", "95% interval"];
    let columns = [("", Align::Left)].into_iter().chain(columns.map(|name| (name, Align::Right)));
    let mut table = Table::new(columns.chain([("", Align::Left)]));
    for cell in &report.cells {
        let Compared { workload, states, comparison, reason, rounds, .. } = cell;
        let mut row = vec![name(workload), bytes_binary(workload.block_size), depth(workload)];
        match comparison {
            Some(comparison) => row.extend(figures(comparison, *states, *rounds)),
            None => {
                row.extend(["–", "–", "–", "–", reason.as_deref().unwrap_or_default()].map(str::to_owned))
            }
        }
        table.row(row);
    }
    if !report.cells.is_empty() {
        output.table(&table)?;
    }
    for (file, names) in [&report.first, &report.second].into_iter().zip(&report.only_in) {
        if !names.is_empty() {
            output.line(format_args!("only in {}: {}", printable(file.as_bytes()), names.join("; ")))?;
        }
    }
    Ok(())
}

fn figures(comparison: &Comparison, states: [State; 2], rounds: [usize; 2]) -> [String; 5] {
    let percent = |share: f64| format!("{:+.1}%", share * 100.0);
    let Comparison { first_mean, second_mean, difference, verdict, runs, .. } = comparison;
    let mut interval =
        format!("{} to {}", percent(difference.interval.low), percent(difference.interval.high));
    let mut verdict = match verdict {
        Verdict::Faster => "the second is faster".to_owned(),
        Verdict::Slower => "the second is slower".to_owned(),
        Verdict::NoDifference => "no difference can be reported".to_owned(),
        Verdict::CannotTell => {
            "–".clone_into(&mut interval);
            let fewest = runs.iter().copied().zip(rounds).min().unwrap_or_default();
            too_few(fewest)
        }
    };
    if let Some(who) = sides(states, State::Unverified) {
        verdict.push_str(&format!("; {who} unverified"));
    }
    [
        count(first_mean.round() as u64),
        count(second_mean.round() as u64),
        percent(difference.value),
        interval,
        verdict,
    ]
}

/// Why nothing is said of so many rounds that count, of all there were; and how many may do, if as
/// many of them count as now.
fn too_few((counted, all): (usize, usize)) -> String {
    let repeats = (all * RUNS_MIN).div_ceil(counted.max(1)).max(RUNS_MIN);
    format!(
        "cannot tell: {counted} of {all} {} {}; it takes {RUNS_MIN} on each side (--repeats {repeats})",
        if all == 1 { "round" } else { "rounds" },
        if counted == 1 { "counts" } else { "count" }
    )
}
