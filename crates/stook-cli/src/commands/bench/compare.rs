//! `stook bench compare`: whether two results differ, or only seem to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Serialize;
use stook::bench::compare::{
    CompareOptions, Comparison, Measure, RUNS_MIN, SettingDifference, Verdict, compare_cells, is_same,
    setting_differences, sides, worst,
};
use stook::bench::gates::State;
use stook::bench::page::{Pair, Sides, two};
use stook::bench::{BenchResult, CellResult, Workload};
use stook::report::json::Document;
use stook::report::units::{count, duration_ns};
use stook_study::sample::check_publish;

use super::table::{block, depth, full_name, name};
use super::write_page;
use crate::context::Context;
use crate::exit::UsageError;
use crate::output::{Align, Output, Table, printable};

const EXAMPLES: &str = "\
Cells of the same workload are compared by their requests in each second, and
those with --rate by their mean latency: every device that keeps up reaches the
rate. The 95% interval comes from resampled rounds (bootstrap), and is widened
where rounds resemble their neighbours or follow a line over time. A difference
is reported only if it excludes zero and both sides have five valid rounds: fewer
do not show how much two rounds of the same device differ. Cells that are not
valid are never compared; unverified ones are, and marked. If no cell can be
compared, the exit code is 1.

A device that changes with time differs from itself. Measure in turn, A B A B,
five times each, and name the results in that order: then each result counts as
one, and what changes with time affects both sides.

Examples:
  stook bench . --preset ssd --repeats 5 --json > before.json
  stook bench . --preset ssd --repeats 5 --json > after.json
  stook bench compare before.json after.json

  for i in 1 2 3 4 5; do
    stook bench /mnt/a --json > a$i.json; stook bench /mnt/b --json > b$i.json
  done
  stook bench compare a1.json b1.json a2.json b2.json a3.json b3.json \\
    a4.json b4.json a5.json b5.json";

/// What `stook bench compare` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A result, as --json prints it
    first: PathBuf,
    /// Another
    second: PathBuf,
    /// More of both, in turn, in the order in which they were measured
    more: Vec<PathBuf>,
    /// Write both side by side as a page too: one HTML file that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Report {
    first: String,
    second: String,
    /// All files of the first, and of the second.
    files: [Vec<String>; 2],
    /// Everything else that the results differ in.
    differences: Vec<SettingDifference>,
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
    /// Of requests a second, or of mean latencies; `null` where they cannot be compared.
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
/// Returns an error if a file cannot be read or is not a result of `stook bench`, or if no cell can
/// be compared.
pub(super) fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let [first_files, second_files] = in_turn(args)?;
    let read_all = |files: &[&Path]| files.iter().map(|file| read(file)).collect::<anyhow::Result<Vec<_>>>();
    let (first, second) = (read_all(&first_files)?, read_all(&second_files)?);
    if let Some(html) = &args.html {
        check_publish(html)?;
    }
    let mut cells = Vec::new();
    for cell in first.iter().take(1).flat_map(|result| &result.cells) {
        let same = |results| cells_like(&cell.workload, results);
        if let Some((first, second)) = same(&first).zip(same(&second)) {
            cells.push(compared(&first, &second));
        }
    }
    let only_in = [only_in(&first, &second), only_in(&second, &first)];
    let unmatched = only_in.iter().map(|names| names.len() as u64).sum();
    let names = |files: &[&Path]| files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
    let files = [names(&first_files), names(&second_files)];
    let differences = all_differences(&first, &second);
    let [one, other] = files.each_ref().map(|files| files.first().cloned().unwrap_or_default());
    let report = Report { first: one, second: other, files, differences, cells, unmatched, only_in };
    let mut output = context.output();
    if context.json() {
        output.json(&Document::new("bench_compare", &report))?;
    } else {
        print(&report, &mut output)?;
    }
    output.finish()?;
    if let Some(why) = nothing_compared(&report) {
        anyhow::bail!("nothing was compared: {why}");
    }
    if let Some(html) = &args.html {
        let page = two(&side_by_side(&report, &first, &second));
        write_page(html, page, &Document::new("bench_compare", &report))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Both for the page.
fn side_by_side<'a>(report: &Report, first: &'a [BenchResult], second: &'a [BenchResult]) -> Sides<'a> {
    let cell = |workload: &Workload, results: &'a [BenchResult]| -> Option<&'a CellResult> {
        cells_like(workload, results)?.first().copied()
    };
    let pair = |compared: &Compared| {
        let both = cell(&compared.workload, first).zip(cell(&compared.workload, second))?;
        let [.., verdict] = compared.figures();
        Some(Pair { cells: both.into(), comparison: compared.comparison, verdict })
    };
    Sides {
        names: [report.first.clone(), report.second.clone()],
        pairs: report.cells.iter().filter_map(pair).collect(),
        differences: report.differences.clone(),
        only_in: report.only_in.clone(),
    }
}

/// The files of the first and of the second.
fn in_turn(args: &Args) -> anyhow::Result<[Vec<&Path>; 2]> {
    if !args.more.len().is_multiple_of(2) {
        let message = format!(
            "{} results were named; expected as many of the first as of the second, in turn: A B A B",
            args.more.len() + 2
        );
        return Err(UsageError::new(message).into());
    }
    let mut files = [vec![args.first.as_path()], vec![args.second.as_path()]];
    for (file, side) in args.more.iter().zip([0, 1].into_iter().cycle()) {
        if let Some(files) = files.get_mut(side) {
            files.push(file);
        }
    }
    Ok(files)
}

/// The cell of this workload in every result of a side; `None` unless all have it.
fn cells_like<'a>(workload: &Workload, results: &'a [BenchResult]) -> Option<Vec<&'a CellResult>> {
    let cell = |result: &'a BenchResult| result.cells.iter().find(|cell| is_same(&cell.workload, workload));
    results.iter().map(cell).collect()
}

/// What any two results differ in, each once.
fn all_differences(first: &[BenchResult], second: &[BenchResult]) -> Vec<SettingDifference> {
    let mut all: Vec<SettingDifference> = Vec::new();
    let Some(one) = first.first() else { return all };
    for other in first.iter().chain(second) {
        for difference in setting_differences(one, other) {
            if !all.iter().any(|known| known.name == difference.name) {
                all.push(difference);
            }
        }
    }
    all
}

/// The cells of a side that some result of the other does not have.
fn only_in(results: &[BenchResult], others: &[BenchResult]) -> Vec<String> {
    let is_missing = |cell: &&CellResult| cells_like(&cell.workload, others).is_none();
    let cells = results.iter().take(1).flat_map(|result| &result.cells);
    cells.filter(is_missing).map(|cell| full_name(&cell.workload)).collect()
}

/// Why no cell can be compared, if that is so.
fn nothing_compared(report: &Report) -> Option<String> {
    let reasons: Option<BTreeSet<String>> = report.cells.iter().map(Compared::no_verdict).collect();
    let reasons: Vec<String> = reasons?.into_iter().collect();
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

fn compared(first: &[&CellResult], second: &[&CellResult]) -> Compared {
    let (comparison, reason) = match compare_cells(first, second, CompareOptions::default()) {
        Ok(comparison) => (Some(comparison), None),
        Err(reason) => (None, Some(reason.to_string())),
    };
    let (rw, workload) =
        first.first().map(|cell| (cell.rw.clone(), cell.workload.clone())).unwrap_or_default();
    let rounds = |cells: &[&CellResult]| match cells {
        [one] => one.runs.len(),
        several => several.len(),
    };
    Compared {
        rw,
        workload,
        states: [worst(first), worst(second)],
        comparison,
        reason,
        rounds: [rounds(first), rounds(second)],
    }
}

impl Compared {
    /// Why the verdict is missing, if it is.
    fn no_verdict(&self) -> Option<String> {
        match &self.comparison {
            None => Some(self.reason.clone().unwrap_or_default()),
            Some(found) if found.may_be_drift => Some(DRIFT.to_owned()),
            Some(found) if found.verdict == Verdict::CannotTell && found.interleaved => {
                let [results, _] = found.runs;
                Some(format!("{results} results on each side are too few; it takes {RUNS_MIN}"))
            }
            Some(found) if found.verdict == Verdict::CannotTell => {
                Some(too_few(found.runs.into_iter().zip(self.rounds).min().unwrap_or_default()))
            }
            Some(_) => None,
        }
    }

    /// The last columns of its row.
    fn figures(&self) -> [String; 5] {
        let Some(found) = &self.comparison else {
            let reason = self.reason.as_deref().unwrap_or_default();
            return ["–", "–", "–", "–", reason].map(str::to_owned);
        };
        let percent = |share: f64| format!("{:+.1}%", share * 100.0);
        let Comparison { measure, first_mean, second_mean, difference, verdict, .. } = found;
        let mean = |mean: f64| match measure {
            Measure::Iops => format!("{}/s", count(mean.round() as u64)),
            Measure::LatencyMeanNs => duration_ns(mean.round() as u64),
        };
        let (low, high) = (percent(difference.interval.low), percent(difference.interval.high));
        let mut interval = format!("{low} to {high}");
        let mut verdict = match verdict {
            Verdict::Faster => "the second is faster".to_owned(),
            Verdict::Slower => "the second is slower".to_owned(),
            Verdict::NoDifference => "no difference is shown".to_owned(),
            Verdict::CannotTell => {
                if !self.comparison.is_some_and(|found| found.may_be_drift) {
                    "–".clone_into(&mut interval);
                }
                format!("cannot tell: {}", self.no_verdict().unwrap_or_default())
            }
        };
        if let Some(who) = sides(self.states, State::Unverified) {
            verdict.push_str(&format!("; {who} unverified"));
        }
        [mean(*first_mean), mean(*second_mean), percent(difference.value), interval, verdict]
    }
}

/// What is said below rows with latencies.
const OPEN_LOOPS: &str = "Cells with a rate are compared by their mean latency: every device that \
    keeps up reaches the rate.";

/// Why a difference that rounds show is not reported.
const DRIFT: &str = "the difference may be a change over time; measure in turn, and name the results as \
    A B A B (--help)";

fn print(report: &Report, output: &mut Output) -> anyhow::Result<()> {
    let columns = ["block", "depth", "first", "second", "difference", "95% interval"];
    let columns = [("", Align::Left)].into_iter().chain(columns.map(|name| (name, Align::Right)));
    let mut table = Table::new(columns.chain([("", Align::Left)]));
    for cell in &report.cells {
        let workload = &cell.workload;
        let row = [name(workload), block(workload), depth(workload)];
        table.row(row.into_iter().chain(cell.figures()));
    }
    if !report.cells.is_empty() {
        output.table(&table)?;
    }
    let mut found = report.cells.iter().filter_map(|cell| cell.comparison.as_ref());
    if found.any(|comparison| comparison.measure == Measure::LatencyMeanNs) {
        output.line(OPEN_LOOPS)?;
    }
    for SettingDifference { name, first, second } in &report.differences {
        let [first, second] = [first, second].map(|text| printable(text.as_bytes()));
        output.line(format_args!("different {}: {first} and {second}", name.replace('_', " ")))?;
    }
    for (file, names) in [&report.first, &report.second].into_iter().zip(&report.only_in) {
        if !names.is_empty() {
            output.line(format_args!("only in {}: {}", printable(file.as_bytes()), names.join("; ")))?;
        }
    }
    Ok(())
}

/// Why this many valid rounds, of all there were, give no verdict; and how many may suffice, at the
/// same share of valid ones.
fn too_few((counted, all): (usize, usize)) -> String {
    let repeats = (all * RUNS_MIN).div_ceil(counted.max(1)).max(RUNS_MIN);
    format!(
        "{counted} of {all} {} {}; it takes {RUNS_MIN} on each side (--repeats {repeats})",
        if all == 1 { "round" } else { "rounds" },
        if counted == 1 { "counts" } else { "count" }
    )
}
