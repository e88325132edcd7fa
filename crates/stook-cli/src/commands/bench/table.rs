//! What `stook bench` found, as a table for people and as one for programs.

use stook::bench::{BenchResult, CellResult, Figures, LongRun, Workload};
use stook::report::units::{bytes_binary, count, duration_ns, significant};

use crate::output::{Align, Output, OutputError, Table};

type Result<T> = std::result::Result<T, OutputError>;

/// The table, and what it was measured on.
pub(super) fn text(result: &BenchResult, output: &mut Output) -> Result<()> {
    output.line(about(result))?;
    let columns = ["requests/s", "MB/s", "mean", "p50", "p99", "p99.9", "max", "CPU/request"];
    let first = [("", Align::Left), ("block", Align::Right), ("depth", Align::Right)];
    let mut table = Table::new(
        first.into_iter().chain(columns.map(|name| (name, Align::Right))).chain([("", Align::Left)]),
    );
    for cell in result.cells.iter().filter(|cell| !cell.runs.is_empty()) {
        rows(cell, &mut table);
    }
    output.line("")?;
    output.table(&table)?;
    for cell in result.cells.iter().filter(|cell| !cell.reasons.is_empty()) {
        output.line(format_args!("\n{}: not valid", full_name(&cell.workload)))?;
        for reason in &cell.reasons {
            output.line(format_args!("  {reason}"))?;
        }
    }
    let mut long_runs: Vec<String> = Vec::new();
    for cell in &result.cells {
        let found = cell.long_run.as_ref();
        let line = found.map(|long_run| format!("{}, long run: {long_run}", full_name(&cell.workload)));
        // Cells that differ in their time only share one.
        long_runs.extend(line.filter(|line| !long_runs.contains(line)));
    }
    if !long_runs.is_empty() {
        output.line(format_args!("\n{}", long_runs.join("\n")))?;
    }
    Ok(())
}

fn about(result: &BenchResult) -> String {
    let environment = &result.environment;
    let known = [
        environment.file_system.as_deref(),
        environment.device.as_deref(),
        environment.device_model.as_deref(),
    ];
    let known: Vec<&str> = known.into_iter().flatten().collect();
    let what = if result.own_file { "a test file of" } else { "an existing file of" };
    format!("{} on {}, {what} {}", result.path, known.join(", "), bytes_binary(result.file_bytes))
}

fn rows(cell: &CellResult, table: &mut Table) {
    let workload = &cell.workload;
    let cpu = cpu_per_request_ns(cell).map_or(String::new(), |ns| duration_ns(ns as u64));
    let mark = if cell.valid { "" } else { "not valid" };
    let depth = depth(workload);
    let parts = [("read", &cell.read), ("write", &cell.write), ("sync", &cell.sync)];
    let parts: Vec<_> = parts.iter().filter_map(|(name, part)| Some((*name, part.as_ref()?))).collect();
    let mut row = vec![name(workload), bytes_binary(workload.block_size), depth];
    row.extend(figures(&cell.total));
    row.extend([cpu, mark.to_owned()]);
    table.row(row);
    if parts.len() > 1 {
        for (part, found) in parts {
            let mut row = vec![format!("  {part}"), String::new(), String::new()];
            row.extend(figures(found));
            table.row(row);
        }
    }
}

fn figures(figures: &Figures) -> [String; 7] {
    let latency = |ns: Option<u64>| ns.map_or("–".to_owned(), duration_ns);
    [
        count(figures.iops.round() as u64),
        significant(figures.bandwidth_bytes_per_s / 1e6),
        latency(figures.latency_mean_ns.map(|ns| ns.round() as u64)),
        latency(figures.latency_p50_ns),
        latency(figures.latency_p99_ns),
        latency(figures.latency_p999_ns),
        latency(figures.latency_max_ns),
    ]
}

/// The name of a cell: what the other columns do not say.
pub(super) fn name(workload: &Workload) -> String {
    let mut name = workload.rw().to_owned();
    if (1..100).contains(&workload.read_share) {
        name.push_str(&format!(" {}% read", workload.read_share));
    }
    if workload.batch > 1 {
        name.push_str(&format!(" batch {}", workload.batch));
    }
    if workload.buffered {
        name.push_str(" buffered");
    }
    if let Some(every) = workload.fsync_every {
        name.push_str(&format!(" sync/{every}"));
    }
    if let Some(rate) = workload.rate_per_s {
        name.push_str(&format!(" {}/s", significant(rate)));
    }
    name
}

pub(super) fn depth(workload: &Workload) -> String {
    match workload.jobs {
        1 => workload.depth.to_string(),
        jobs => format!("{} × {jobs}", workload.depth),
    }
}

/// The name with what else tells cells apart.
fn full_name(workload: &Workload) -> String {
    format!("{}, {}, depth {}", name(workload), bytes_binary(workload.block_size), depth(workload))
}

/// Over all runs that the figures are made of.
fn cpu_per_request_ns(cell: &CellResult) -> Option<f64> {
    let runs = || cell.runs.iter().filter(|run| run.valid || !cell.valid);
    let requests: u64 = runs().map(|run| run.total.count).sum();
    (requests > 0).then(|| runs().map(|run| run.cpu.process_s).sum::<f64>() * 1e9 / requests as f64)
}

/// One line for each cell; names as in JSON.
pub(super) fn csv(result: &BenchResult, output: &mut Output) -> Result<()> {
    let parts = ["total", "read", "write"];
    let fields = [
        "iops",
        "bandwidth_bytes_per_s",
        "latency_mean_ns",
        "latency_p50_ns",
        "latency_p99_ns",
        "latency_p999_ns",
        "latency_max_ns",
    ];
    let mut header: Vec<String> =
        ["rw", "block_size", "depth", "jobs", "read_share", "buffered"].map(str::to_owned).to_vec();
    header.extend(parts.iter().flat_map(|part| fields.iter().map(move |field| format!("{part}_{field}"))));
    header.extend(["cpu_per_request_ns", "valid"].map(str::to_owned));
    let long_run = ["seconds", "bytes", "burst_bytes_per_s", "burst_bytes", "sustained_bytes_per_s"];
    header.extend(long_run.map(|field| format!("long_run_{field}")));
    output.line(header.join(","))?;
    for cell in result.cells.iter().filter(|cell| !cell.runs.is_empty()) {
        let workload = &cell.workload;
        let mut line = vec![
            cell.rw.clone(),
            workload.block_size.to_string(),
            workload.depth.to_string(),
            workload.jobs.to_string(),
            workload.read_share.to_string(),
            workload.buffered.to_string(),
        ];
        for part in [Some(&cell.total), cell.read.as_ref(), cell.write.as_ref()] {
            line.extend(part.map_or_else(Default::default, csv_fields));
        }
        line.push(cpu_per_request_ns(cell).map_or(String::new(), |ns| format!("{ns:.1}")));
        line.push(cell.valid.to_string());
        line.extend(cell.long_run.as_ref().map_or_else(Default::default, csv_long_run));
        output.line(line.join(","))?;
    }
    Ok(())
}

fn csv_fields(figures: &Figures) -> [String; 7] {
    let latency = |ns: Option<u64>| ns.map_or(String::new(), |ns| ns.to_string());
    [
        format!("{:.3}", figures.iops),
        format!("{:.1}", figures.bandwidth_bytes_per_s),
        figures.latency_mean_ns.map_or(String::new(), |ns| format!("{ns:.1}")),
        latency(figures.latency_p50_ns),
        latency(figures.latency_p99_ns),
        latency(figures.latency_p999_ns),
        latency(figures.latency_max_ns),
    ]
}

/// Without a burst, its two fields are empty.
fn csv_long_run(long_run: &LongRun) -> [String; 5] {
    let one = |value: f64| format!("{value:.1}");
    let burst = long_run.burst.as_ref();
    [
        format!("{:.3}", long_run.seconds),
        long_run.bytes.to_string(),
        burst.map_or(String::new(), |fall| one(fall.burst_bytes_per_s)),
        burst.map_or(String::new(), |fall| one(fall.burst_bytes)),
        one(long_run.sustained_bytes_per_s),
    ]
}
