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

use super::table::{depth, name};
use crate::context::Context;
use crate::output::{Align, Output, Table};

const EXAMPLES: &str = "\
Cells of the same workload are compared by their requests in each second, with
an interval of 95% from rounds drawn anew. A difference is called only when the
interval excludes zero and both sides have five rounds that count: with fewer
nobody can say how much two rounds of the same device differ. Cells that are not
valid are never compared; those that are unverified are, and marked.

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
}

/// Runs it.
///
/// # Errors
/// When a file cannot be read or is no result of `stook bench`.
pub(super) fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let (first, second) = (read(&args.first)?, read(&args.second)?);
    let mut cells = Vec::new();
    for cell in &first.cells {
        if let Some(other) = second.cells.iter().find(|other| is_same(&cell.workload, &other.workload)) {
            cells.push(compared(cell, other));
        }
    }
    let unmatched = first.cells.len() + second.cells.len() - 2 * cells.len();
    let text = |path: &Path| path.display().to_string();
    let report =
        Report { first: text(&args.first), second: text(&args.second), cells, unmatched: unmatched as u64 };
    let mut output = context.output();
    if context.json() {
        output.json(&Document::new("bench_compare", &report))?;
    } else {
        print(&report, &mut output)?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
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
    Compared { rw, workload, states: [first.state, second.state], comparison, reason }
}

fn print(report: &Report, output: &mut Output) -> anyhow::Result<()> {
    let columns = ["block", "depth", "first, requests/s", "second, requests/s", "difference", "95% interval"];
    let columns = [("", Align::Left)].into_iter().chain(columns.map(|name| (name, Align::Right)));
    let mut table = Table::new(columns.chain([("", Align::Left)]));
    for cell in &report.cells {
        let Compared { workload, states, comparison, reason, .. } = cell;
        let mut row = vec![name(workload), bytes_binary(workload.block_size), depth(workload)];
        match comparison {
            Some(comparison) => row.extend(figures(comparison, *states)),
            None => {
                row.extend(["–", "–", "–", "–", reason.as_deref().unwrap_or_default()].map(str::to_owned))
            }
        }
        table.row(row);
    }
    output.table(&table)?;
    if report.unmatched > 0 {
        output.line(format_args!("\n{} cells are in one of the two only", report.unmatched))?;
    }
    Ok(())
}

fn figures(comparison: &Comparison, states: [State; 2]) -> [String; 5] {
    let percent = |share: f64| format!("{:+.1}%", share * 100.0);
    let Comparison { first_mean, second_mean, difference, verdict, runs, .. } = comparison;
    let mut interval =
        format!("{} to {}", percent(difference.interval.low), percent(difference.interval.high));
    let mut verdict = match verdict {
        Verdict::Faster => "the second is faster".to_owned(),
        Verdict::Slower => "the second is slower".to_owned(),
        Verdict::NoDifference => "no difference can be told".to_owned(),
        Verdict::CannotTell => {
            "–".clone_into(&mut interval);
            let fewest = runs.iter().min().copied().unwrap_or(0);
            format!("cannot tell from {}: it takes --repeats {RUNS_MIN}", rounds(fewest))
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

fn rounds(number: usize) -> String {
    format!("{number} {}", if number == 1 { "round" } else { "rounds" })
}
