//! `stook bench --slo`: the highest rate at which latencies keep an objective.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use stook::bench::page::slo_page;
use stook::bench::slo::{Limit, Objective, SloCell, SloResult};
use stook::bench::{Arrival, Bench, Error};
use stook::engine::EngineFactory;
use stook::report::json::Document;
use stook::report::units::{self, duration_ns, significant};

use super::table::{block, depth, full_name, name};
use super::{Watcher, as_usage, write_page};
use crate::context::Context;
use crate::interrupt;
use crate::output::{Align, Output, Table};

/// Runs it.
///
/// # Errors
/// Returns an error if the cells are invalid, if the file cannot be made or opened, or if a cell
/// fails.
pub(super) fn run(
    bench: &Bench,
    (objective, path): (Objective, &Path),
    engines: &dyn EngineFactory,
    html: Option<&Path>,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    bench.check_slo(objective).map_err(as_usage)?;
    let expected_s = bench.expected_slo_s();
    if let Some(seconds) = expected_s {
        let time = units::duration(Duration::from_secs_f64(seconds));
        context.note(format_args!("Measuring takes about {time}: seven rates for each cell in each round"));
    }
    let watcher = Watcher::new(bench.file_bytes, expected_s, context);
    let result = bench.run_slo(objective, path, engines, &watcher);
    drop(watcher);
    let result = match result {
        Err(Error::Interrupted) => return Err(interrupt::Interrupted.into()),
        result => result.map_err(as_usage)?,
    };
    if let Some(html) = html {
        write_page(html, slo_page(&result), &Document::new("bench_slo", &result))?;
    }
    let mut output = context.output();
    if context.json() {
        output.json(&Document::new("bench_slo", &result))?;
    } else {
        print(&result, &mut output)?;
    }
    output.finish()?;
    if result.interrupted { Err(interrupt::Interrupted.into()) } else { Ok(ExitCode::SUCCESS) }
}

fn print(result: &SloResult, output: &mut Output) -> anyhow::Result<()> {
    result.about().iter().try_for_each(|line| output.line(line))?;
    output.line(format_args!(
        "\nThe highest rate with {}; each request is timed from when it was due\n",
        result.objective
    ))?;
    let columns = ["block", "depth", "requests/s", "interval", result.objective.statistic.name(), "tried"];
    let columns = [("", Align::Left)].into_iter().chain(columns.map(|name| (name, Align::Right)));
    let mut table = Table::new(columns.chain([("limit", Align::Left), ("", Align::Left)]));
    result.cells.iter().for_each(|cell| table.row(row(cell)));
    output.table(&table)?;
    for cell in result.cells.iter().filter(|cell| !cell.reasons.is_empty()) {
        let state = cell.state.as_str();
        output.line(format_args!("\n{}: {state}", full_name(&cell.workload)))?;
        cell.reasons.iter().try_for_each(|reason| output.line(format_args!("  {reason}")))?;
    }
    if result.cells.iter().any(|cell| cell.rounds == 1) {
        output.line("\nOf one round: the interval is that of the rates that were tried, and how rounds differ is not known.")?;
    }
    Ok(())
}

fn row(cell: &SloCell) -> Vec<String> {
    let rate = cell.highest_rate_per_s;
    let interval = rate.map_or("–".to_owned(), |rate| {
        format!("{} to {}", significant(rate.interval.low), significant(rate.interval.high))
    });
    let arrival = match cell.workload.arrival {
        Arrival::Constant => "",
        Arrival::Poisson => " poisson",
    };
    let limits: Vec<&str> = cell.limits.iter().map(|limit: &Limit| limit.text()).collect();
    vec![
        format!("{}{arrival}", name(&cell.workload)),
        block(&cell.workload),
        depth(&cell.workload),
        rate.map_or("none".to_owned(), |rate| significant(rate.value)),
        interval,
        cell.latency_ns.map_or("–".to_owned(), duration_ns),
        cell.trials.len().to_string(),
        limits.join("; or "),
        if cell.state.is_valid() { String::new() } else { cell.state.as_str().to_owned() },
    ]
}
