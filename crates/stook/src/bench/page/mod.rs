//! A result of `bench` as a page: what was measured, whether it may be believed, and what cells say
//! together. [`two()`] has two results side by side.

pub mod charts;
mod rates;
mod two;

use super::gates::{Gate, Outcome, State};
use super::model::block::BlockModel;
use super::model::depth::DepthModel;
use super::model::mix::MixModel;
use super::model::{Models, Swept, doubts};
use super::result::{BenchResult, CellResult, Figures};
use super::workload::Workload;
use crate::report::least_squares::Estimate;
use crate::report::page::{Block, Figure, Page};
use crate::report::table::{Align, Table, Tone};
use crate::report::units::{bytes_binary, bytes_decimal, count, count_of, duration_ns, rate, significant};

pub use rates::slo_page;
pub use two::{Pair, Sides, two};

/// In the place of a figure that is not known.
const NONE: &str = "–";

/// The page of a result.
pub fn page(result: &BenchResult) -> Page {
    let models = Models::of(result);
    let mut page = Page::new(format!("Storage measured: {}", place(result))).lead(verdict(result));
    for line in result.about() {
        page = page.lead(line);
    }
    if result.interrupted {
        page = page.lead("It was interrupted: what is missing was not measured.");
    }
    page = page.section("Every cell", cells_section(result));
    for swept in &models.blocks {
        page = page
            .section(headed("What the size of blocks changes", result, &swept.cells), blocks(result, swept));
    }
    for swept in &models.depths {
        page = page.section(headed("What depth changes", result, &swept.cells), depths(result, swept));
    }
    if let Some(map) = charts::block_depth(result) {
        page = page.section("Block and depth together", vec![Block::Heat(map)]);
    }
    for swept in &models.mixes {
        page = page.section(headed("Reads and writes mixed", result, &swept.cells), mixes(result, swept));
    }
    page.section("How latencies are spread, and the time line", closely(result))
        .section("May these figures be believed?", believed(result))
        .section("On what", vec![Block::Facts(facts(result))])
        .section("The same with fio", fio(result))
}

/// What was measured, in a few words.
fn place(result: &BenchResult) -> &str {
    result.environment.device.as_deref().unwrap_or(&result.path)
}

fn measured(result: &BenchResult) -> Vec<&CellResult> {
    result.cells.iter().filter(|cell| !cell.runs.is_empty()).collect()
}

/// The name of a cell, with all that distinguishes it.
pub fn cell_name(workload: &Workload) -> String {
    let mut name = format!("{} {}, depth {}", workload.rw(), workload.block_name(), workload.depth);
    if workload.jobs > 1 {
        name.push_str(&format!(" × {} jobs", workload.jobs));
    }
    if (1..100).contains(&workload.read_share) {
        name.push_str(&format!(", {}% reads", workload.read_share));
    }
    if let Some(theta) = workload.zipf {
        name.push_str(&format!(", zipf {theta}"));
    }
    if workload.batch > 1 {
        name.push_str(&format!(", batch {}", workload.batch));
    }
    if workload.buffered {
        name.push_str(", buffered");
    }
    if let Some(every) = workload.fsync_every {
        name.push_str(&format!(", a sync after {every} writes"));
    }
    if let Some(rate) = workload.rate_per_s {
        name.push_str(&format!(", {} a second", significant(rate)));
    }
    name
}

/// How many cells may be believed, and the best of them.
fn verdict(result: &BenchResult) -> String {
    let cells = measured(result);
    let of = |state| cells.iter().filter(|cell| cell.state == state).count();
    let (valid, unverified, invalid) = (of(State::Valid), of(State::Unverified), of(State::Invalid));
    let all = count_of(cells.len() as u64, "cell was", "cells were");
    let mut text = match (valid, unverified, invalid) {
        (0, 0, 0) => return "Nothing was measured to its end.".to_owned(),
        (_, 0, 0) => format!("{all} measured, and every check passed."),
        (0, 0, _) => format!("{all} measured, and none is valid: no figure here is the speed of a device."),
        _ => format!(
            "{all} measured: {valid} valid, {unverified} unverified (nothing failed, and not everything could be \
             checked), {invalid} not valid (a check failed: do not use the figure)."
        ),
    };
    let counted = || cells.iter().filter(|cell| !cell.state.is_invalid());
    let by = |of: fn(&Figures) -> f64| counted().max_by(|a, b| of(&a.total).total_cmp(&of(&b.total)));
    if let (Some(most), Some(fastest)) = (by(|total| total.iops), by(|total| total.bandwidth_bytes_per_s)) {
        text.push_str(&format!(
            " The most requests a second: {} ({}). The most bytes: {} ({}).",
            count(most.total.iops.round() as u64),
            cell_name(&most.workload),
            rate(fastest.total.bandwidth_bytes_per_s),
            cell_name(&fastest.workload)
        ));
    }
    text
}

fn cells_section(result: &BenchResult) -> Vec<Block> {
    let columns = ["Requests/s", "MB/s", "Mean latency", "p50", "p99", "p99.9", "Longest"];
    let head = Table::new("").column("Cell", Align::Left);
    let head = columns.iter().fold(head, |head, name| head.column(*name, Align::Right));
    let mut table = head.column("State", Align::Left).stacked();
    for cell in measured(result) {
        let tone = if cell.state.is_invalid() { Tone::Muted } else { Tone::Plain };
        let row = |name: String, figures: &Figures, state: &str| {
            [vec![name], figures_of(figures).into(), vec![state.to_owned()]].concat()
        };
        table = table.row(row(cell_name(&cell.workload), &cell.total, cell.state.as_str()), tone);
        let parts = [("reads", &cell.read), ("writes", &cell.write), ("syncs", &cell.sync)];
        let parts: Vec<_> = parts.iter().filter_map(|(name, part)| Some((*name, part.as_ref()?))).collect();
        for (name, part) in parts.iter().filter(|_| parts.len() > 1) {
            table = table.row(row(format!("of these: {name}"), part, ""), Tone::Muted);
        }
        for size in &cell.sizes {
            let name = format!("of these: {}", bytes_binary(size.block_size));
            table = table.row(row(name, &size.total, ""), Tone::Muted);
        }
    }
    let mut blocks = vec![Block::Table(table)];
    blocks.extend(charts::rates(result).map(Block::Bars));
    blocks.extend(doubted(result).into_iter().map(Block::Note));
    blocks
}

fn figures_of(figures: &Figures) -> [String; 7] {
    let latency = |ns: Option<u64>| ns.map_or(NONE.to_owned(), duration_ns);
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

/// Why cells are not valid, or unverified: each reason once.
fn doubted(result: &BenchResult) -> Vec<String> {
    let measured = measured(result);
    let of = |state: State| {
        let reported = match state {
            State::Valid => "rounds are left out",
            state => state.as_str(),
        };
        let doubts = doubts(&measured, state).into_iter();
        doubts.map(move |doubt| {
            format!("{}: {reported}: {}.", doubt.named(cell_name), doubt.reason_texts().join("; "))
        })
    };
    [State::Invalid, State::Unverified, State::Valid].into_iter().flat_map(of).collect()
}

/// A heading with what the cells of a sweep have in common.
fn headed(heading: &str, result: &BenchResult, cells: &[usize]) -> String {
    let first = cells.first().and_then(|&at| result.cells.get(at));
    let several = |what: &dyn Fn(&Workload) -> String| {
        let mut all = cells.iter().filter_map(|&at| result.cells.get(at)).map(|cell| what(&cell.workload));
        let first = all.next();
        all.all(|other| Some(&other) == first.as_ref()).then_some(first).flatten()
    };
    let Some(first) = first else { return heading.to_owned() };
    let common = [
        several(&|cell| cell.rw().to_owned()),
        several(&Workload::block_name),
        several(&|cell| format!("depth {}", cell.depth)),
    ];
    let common: Vec<String> = common.into_iter().flatten().collect();
    let buffered = if first.workload.buffered { ", buffered" } else { "" };
    format!("{heading} ({}{buffered})", common.join(", "))
}

fn seconds(seconds: f64) -> String {
    if seconds.is_finite() { duration_ns((seconds.max(0.0) * 1e9).round() as u64) } else { NONE.to_owned() }
}

/// A value, and its interval.
fn figure(estimate: &Estimate, shown: impl Fn(f64) -> String, label: &str) -> Figure {
    let interval = format!("{} to {}", shown(estimate.interval.low), shown(estimate.interval.high));
    Figure { value: shown(estimate.value), label: format!("{label} ({interval})") }
}

fn refused<T: serde::Serialize>(swept: &Swept<T>) -> Option<Block> {
    swept.fitted.refused().map(|reason| Block::Note(format!("No model was fitted: {reason}.")))
}

fn blocks(result: &BenchResult, swept: &Swept<BlockModel>) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some(model) = swept.fitted.model() {
        let half = &model.half_bandwidth_block_bytes;
        blocks.push(Block::Text(
            "Latency is a wait before the first byte, and then as long as the bytes take: t₀ + block ÷ B."
                .to_owned(),
        ));
        blocks.push(Block::Figures(vec![
            figure(&model.fixed_cost_s, seconds, "t₀, for any block"),
            figure(&model.bandwidth_bytes_per_s, rate, "B, for its bytes"),
            figure(half, |bytes| bytes_binary(bytes.max(0.0) as u64), "block that reaches half of B"),
        ]));
    }
    blocks.extend(refused(swept));
    blocks.push(Block::Lines(charts::latency_block(result, swept)));
    blocks.push(Block::Lines(charts::bandwidth_block(result, swept)));
    blocks
}

fn depths(result: &BenchResult, swept: &Swept<DepthModel>) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some(model) = swept.fitted.model() {
        let per_s = |rate: f64| count(rate.max(0.0).round() as u64);
        let mut figures = vec![
            figure(&model.rate_max_per_s, per_s, "requests a second at most"),
            figure(&model.depth_star, significant, "in flight, at the least, for that (N*)"),
        ];
        figures.push(Figure {
            value: model.answers.latency.depth.to_string(),
            label: "depth for the shortest wait at a good rate".to_owned(),
        });
        figures.extend(model.answers.balanced.map(|answer| Figure {
            value: answer.depth.to_string(),
            label: "balanced: the least depth with nearly all of the rate".to_owned(),
        }));
        blocks.push(Block::Figures(figures));
        if !model.saturated {
            blocks.push(Block::Note("The rate still grows: deeper would give more.".to_owned()));
        }
    }
    blocks.extend(refused(swept));
    blocks.push(Block::Lines(charts::throughput_latency(result, swept)));
    blocks.push(Block::Text(
        "By Little's law, throughput × mean latency is the number of requests in flight: where it is not, \
         latencies leave out part of the waiting, or the depth was not reached."
            .to_owned(),
    ));
    blocks.push(Block::Lines(charts::little(result, &swept.cells)));
    blocks
}

fn mixes(result: &BenchResult, swept: &Swept<MixModel>) -> Vec<Block> {
    let mut blocks: Vec<Block> = refused(swept).into_iter().collect();
    blocks.push(Block::Lines(charts::mix(result, swept)));
    blocks
}

fn closely(result: &BenchResult) -> Vec<Block> {
    let cells = measured(result);
    let mut blocks = vec![Block::Lines(charts::percentiles(&cells))];
    if let Some(cell) = cells.iter().find(|cell| !cell.state.is_invalid()).or(cells.first()) {
        blocks.push(Block::Columns(charts::histogram(cell)));
        blocks.push(Block::Lines(charts::time_line(cell)));
    }
    blocks
}

fn believed(result: &BenchResult) -> Vec<Block> {
    let mut blocks = vec![Block::Text(
        "Every run is checked. A cell is valid if every check that applies was made and passed; unverified if \
         none failed and one could not be made; not valid if one failed."
            .to_owned(),
    )];
    for cell in measured(result) {
        let head = Table::new("").column("Check", Align::Left).column("Outcome", Align::Left);
        let mut table = head.column("Why", Align::Left).stacked();
        let runs = cell.runs.iter();
        let gates = runs.flat_map(|run| run.gates.iter().map(move |gate| (run.round, gate)));
        for (round, gate) in gates.filter(|(_, gate)| gate.outcome != Outcome::NotApplicable) {
            let name = if cell.runs.len() > 1 {
                format!("{}, round {}", gate_name(gate), round + 1)
            } else {
                gate_name(gate)
            };
            let (outcome, tone) = match gate.outcome {
                Outcome::Passed => ("passed", Tone::Plain),
                Outcome::Failed => ("failed", Tone::Highlight),
                Outcome::Unverified | Outcome::NotApplicable => ("unverified", Tone::Plain),
            };
            table = table.row([name, outcome.to_owned(), gate.reason.clone()], tone);
        }
        let summary = format!("{}: {}", cell_name(&cell.workload), cell.state);
        blocks.push(Block::Folded { summary, blocks: vec![Block::Table(table)] });
    }
    blocks
}

/// Its name in JSON.
fn gate_name(gate: &Gate) -> String {
    let name = serde_json::to_value(gate.name).ok();
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

fn facts(result: &BenchResult) -> Vec<(String, String)> {
    let environment = &result.environment;
    let known =
        |name: &str, value: &Option<String>| value.as_ref().map(|value| (name.to_owned(), value.clone()));
    let always = |name: &str, value: String| Some((name.to_owned(), value));
    let facts = [
        always("Measured on", result.path.clone()),
        always("Length", bytes_binary(result.file_bytes)),
        always("When", result.time.clone()),
        known("File system", &environment.file_system),
        known("Mounted at", &environment.mount_point),
        known("Mount options", &environment.mount_options),
        known("Device", &environment.device),
        known("Model", &environment.device_model),
        environment.device_bytes.map(|bytes| ("Size".to_owned(), bytes_decimal(bytes))),
        known("Scheduler", &environment.scheduler),
        known("Write cache", &environment.write_cache),
        environment.link_limit_bytes_per_s.map(|limit| ("Link".to_owned(), rate(limit))),
        known("Limit of the control group", &environment.throttle),
        known("In doubt", &environment.device_doubt),
        always("Processors", environment.processors.to_string()),
        always("Kernel", environment.kernel.clone()),
        always("Stook", environment.stook.clone()),
        result.seed().and_then(|seed| always("Seed", seed.to_string())),
    ];
    facts.into_iter().flatten().collect()
}

fn fio(result: &BenchResult) -> Vec<Block> {
    let cells: Vec<Workload> = measured(result).into_iter().map(|cell| cell.workload.clone()).collect();
    let path = std::path::Path::new(&result.path);
    let file = if result.own_file { path.join(super::layout::KEPT_NAME) } else { path.to_path_buf() };
    let job = super::fio::fio_jobs(&cells, &file, result.file_bytes);
    vec![Block::Folded { summary: "The job of every cell".to_owned(), blocks: vec![Block::Code(job)] }]
}
