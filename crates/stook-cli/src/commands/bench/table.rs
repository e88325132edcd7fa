//! What `stook bench` found, as a table for people and as one for programs.

use std::io::Write;

use stook::bench::gates::State;
use stook::bench::model::{counted_runs, doubts};
use stook::bench::{Arrival, BenchResult, CellResult, Figures, LongRun, SizeFigures, Workload};
use stook::report::units::{bytes_binary, count, duration_ns, significant};

use crate::output::{Align, Output, OutputError, Table};

type Result<T> = std::result::Result<T, OutputError>;

/// The table, and the environment of the measurement.
pub(super) fn text<W: Write>(result: &BenchResult, output: &mut Output<W>) -> Result<()> {
    result.about().iter().try_for_each(|line| output.line(line))?;
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
    for state in [State::Invalid, State::Unverified, State::Valid] {
        why(result, state, output)?;
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

/// Why cells are in this state: each reason once.
fn why<W: Write>(result: &BenchResult, state: State, output: &mut Output<W>) -> Result<()> {
    let measured: Vec<&CellResult> = result.cells.iter().filter(|cell| !cell.runs.is_empty()).collect();
    let reported = match state {
        // A valid cell has reasons where rounds of it do not count.
        State::Valid => "rounds that are left out",
        state => state.as_str(),
    };
    for doubt in doubts(&measured, state) {
        output.line(format_args!("\n{}: {reported}", doubt.named(full_name)))?;
        doubt.reason_texts().iter().try_for_each(|reason| output.line(format_args!("  {reason}")))?;
    }
    Ok(())
}

fn rows(cell: &CellResult, table: &mut Table) {
    let workload = &cell.workload;
    let cpu = cpu_per_request_ns(cell).map_or(String::new(), |ns| duration_ns(ns as u64));
    let mark = if cell.state.is_valid() { "" } else { cell.state.as_str() };
    let depth = depth(workload);
    let parts = [("read", &cell.read), ("write", &cell.write), ("sync", &cell.sync)];
    let parts: Vec<_> = parts.iter().filter_map(|(name, part)| Some((*name, part.as_ref()?))).collect();
    let mut row = vec![name(workload), block(workload), depth];
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
    for SizeFigures { block_size, total } in &cell.sizes {
        let mut row = vec!["  of these".to_owned(), bytes_binary(*block_size), String::new()];
        row.extend(figures(total));
        table.row(row);
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

/// The size of its blocks, where there is room for one.
pub(super) fn block(workload: &Workload) -> String {
    match &workload.block_split {
        None => bytes_binary(workload.block_size),
        Some(split) => split.to_string(),
    }
}

pub(super) fn depth(workload: &Workload) -> String {
    match workload.jobs {
        1 => workload.depth.to_string(),
        jobs => format!("{} × {jobs}", workload.depth),
    }
}

/// The name with what else distinguishes cells.
pub(super) fn full_name(workload: &Workload) -> String {
    format!("{}, {}, depth {}", name(workload), workload.block_name(), depth(workload))
}

/// Over all runs that the figures are made of.
fn cpu_per_request_ns(cell: &CellResult) -> Option<f64> {
    let requests: u64 = counted_runs(cell).map(|run| run.total.count).sum();
    (requests > 0)
        .then(|| counted_runs(cell).map(|run| run.cpu.process_s).sum::<f64>() * 1e9 / requests as f64)
}

/// One line for each cell; names as in JSON.
pub(super) fn csv<W: Write>(result: &BenchResult, output: &mut Output<W>) -> Result<()> {
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
    header.extend(["cpu_per_request_ns", "state"].map(str::to_owned));
    let long_run = ["seconds", "bytes", "burst_bytes_per_s", "burst_bytes", "sustained_bytes_per_s"];
    header.extend(long_run.map(|field| format!("long_run_{field}")));
    header.extend(["rate_per_s", "arrival", "block_split"].map(str::to_owned));
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
        line.push(csv_state(cell.state).to_owned());
        line.extend(cell.long_run.as_ref().map_or_else(Default::default, csv_long_run));
        line.extend(csv_load(workload));
        line.push(workload.block_split.as_ref().map_or(String::new(), ToString::to_string));
        output.line(line.join(","))?;
    }
    Ok(())
}

/// Empty in a closed loop.
fn csv_load(workload: &Workload) -> [String; 2] {
    let Some(rate_per_s) = workload.rate_per_s else { return Default::default() };
    let arrival = match workload.arrival {
        Arrival::Constant => "constant",
        Arrival::Poisson => "poisson",
    };
    [rate_per_s.to_string(), arrival.to_owned()]
}

fn csv_state(state: State) -> &'static str {
    match state {
        State::Valid => "valid",
        State::Unverified => "unverified",
        State::Invalid => "invalid",
    }
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

#[cfg(test)]
mod tests {
    use stook::bench::{CpuResult, Environment, InFlightResult, RunResult};

    use super::*;

    fn run(state: State) -> RunResult {
        RunResult {
            round: 0,
            engine: "simulated".to_owned(),
            direct: true,
            seconds: 1.0,
            steady_s: 1.0,
            total: Figures { count: 100, ..Figures::default() },
            read: None,
            write: None,
            sync: None,
            series: Vec::new(),
            windows: Vec::new(),
            in_flight: InFlightResult::default(),
            cpu: CpuResult { process_s: 1e-3, ..CpuResult::default() },
            device: None,
            open_loop: None,
            verified_bytes: 0,
            durable_after_s: None,
            gates: Vec::new(),
            state,
            reasons: Vec::new(),
        }
    }

    fn cell(depth: u32, state: State, reasons: &[&str]) -> CellResult {
        CellResult {
            rw: "randread".to_owned(),
            workload: Workload { depth, ..Workload::default() },
            total: Figures { count: 100, iops: 100.0, ..Figures::default() },
            read: None,
            write: None,
            sync: None,
            sizes: Vec::new(),
            state,
            reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
            long_run: None,
            runs: vec![run(state)],
        }
    }

    fn result(cells: Vec<CellResult>, environment: Environment) -> BenchResult {
        BenchResult {
            path: "/disk".to_owned(),
            file_bytes: 1 << 30,
            own_file: true,
            environment,
            time: "2024-01-01T00:00:00Z".to_owned(),
            interrupted: false,
            cells,
        }
    }

    fn written(what: impl FnOnce(&mut Output<&mut Vec<u8>>) -> Result<()>) -> String {
        let mut bytes = Vec::new();
        let mut output = Output::new(&mut bytes);
        what(&mut output).unwrap();
        output.finish().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    fn table(cells: Vec<CellResult>) -> String {
        written(|output| text(&result(cells, Environment::default()), output))
    }

    #[test]
    fn every_cell_that_is_not_valid_or_unverified_is_marked_and_its_reasons_stand_below() {
        let found = table(vec![
            cell(1, State::Valid, &[]),
            cell(2, State::Unverified, &["no device is known"]),
            cell(4, State::Invalid, &["a cache stood in between"]),
            cell(8, State::Unverified, &["no device is known", "too short"]),
        ]);
        let row = |depth: u32| {
            let start = format!("randread  4.00 KiB      {depth}  ");
            found.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{depth}: {found}"))
        };
        assert!(row(1).ends_with(" 10.0 µs"), "{found}");
        assert!(row(2).ends_with("  unverified") && row(8).ends_with("  unverified"), "{found}");
        assert!(row(4).ends_with("  not valid"), "{found}");
        let below = "\nrandread, 4.00 KiB, depth 4: not valid\n  a cache stood in between\n\
                     \n2 cells (randread, 4.00 KiB, depth 2; randread, 4.00 KiB, depth 8): unverified\n  \
                     no device is known\n\nrandread, 4.00 KiB, depth 8: unverified\n  too short\n";
        assert!(found.ends_with(below), "{found}");
    }

    #[test]
    fn what_all_cells_share_is_reported_once_and_a_round_that_is_left_out_makes_no_cell_invalid() {
        let found = table([1, 2, 4].map(|depth| cell(depth, State::Unverified, &["memory"])).to_vec());
        assert!(found.ends_with("\n\nall cells: unverified\n  memory\n"), "{found}");
        assert_eq!(found.matches("memory").count(), 1, "{found}");
        let found = table(vec![cell(1, State::Valid, &["it was not steady"])]);
        let below = "\nrandread, 4.00 KiB, depth 1: rounds that are left out\n  it was not steady\n";
        assert!(found.ends_with(below) && !found.contains("valid"), "{found}");
    }

    #[test]
    fn what_lies_below_and_what_there_is_to_say_against_it_stands_at_the_top() {
        let environment = Environment {
            file_system: Some("ext4".to_owned()),
            device: Some("loop0 (through the page cache) on vda1".to_owned()),
            device_doubt: Some("the page cache of vda1 stands in between".to_owned()),
            throttle: Some("reads 20 MB/s in the control group".to_owned()),
            ..Environment::default()
        };
        let found = written(|output| text(&result(Vec::new(), environment), output));
        let top = "/disk on ext4, loop0 (through the page cache) on vda1, a test file of 1.00 GiB\n\
                   In doubt: the page cache of vda1 stands in between\n\
                   Limited: reads 20 MB/s in the control group\n";
        assert!(found.starts_with(top), "{found}");
    }

    /// Before: cells that differ only in their rate could not be distinguished.
    #[test]
    fn lines_for_programs_tell_open_loops_and_splits_apart() {
        let mut open = cell(1, State::Valid, &[]);
        open.workload.rate_per_s = Some(1500.0);
        open.workload.arrival = Arrival::Poisson;
        let mut split = cell(1, State::Valid, &[]);
        split.workload = split.workload.of_sizes(Some("4k/60:8k/40".parse().unwrap()));
        let cells = vec![open, split, cell(1, State::Valid, &[])];
        let found = written(|output| csv(&result(cells, Environment::default()), output));
        let ends: Vec<&str> = found.lines().filter_map(|line| line.rsplitn(4, ',').nth(3)).collect();
        let ends: Vec<&str> = found.lines().zip(ends).map(|(line, rest)| &line[rest.len()..]).collect();
        assert_eq!(ends, [",rate_per_s,arrival,block_split", ",1500,poisson,", ",,,4096/60:8192/40", ",,,"]);
    }

    #[test]
    fn the_sizes_of_a_split_stand_below_their_cell() {
        let mut split = cell(1, State::Valid, &[]);
        split.workload = split.workload.of_sizes(Some("4k/60:8k/40".parse().unwrap()));
        let of =
            |block_size, count| SizeFigures { block_size, total: Figures { count, ..Figures::default() } };
        split.sizes = vec![of(4096, 60), of(8192, 40)];
        let found = table(vec![split]);
        assert!(found.contains("\nrandread    4096/60:8192/40      1  "), "{found}");
        let below = found.lines().filter(|line| line.starts_with("  of these  "));
        assert_eq!(below.count(), 2, "{found}");
    }

    #[test]
    fn lines_for_programs_name_states_as_json_does() {
        let states = [State::Valid, State::Unverified, State::Invalid];
        let cells = states.map(|state| cell(1, state, &[])).to_vec();
        let found = written(|output| csv(&result(cells, Environment::default()), output));
        let rows: Vec<Vec<&str>> = found.lines().map(|line| line.split(',').collect()).collect();
        let at = rows[0].iter().position(|&name| name == "state").unwrap();
        for (row, state) in rows.iter().skip(1).zip(states) {
            assert_eq!(serde_json::json!(row[at]), serde_json::to_value(state).unwrap());
        }
        assert_eq!(rows.len(), 4);
    }
}
