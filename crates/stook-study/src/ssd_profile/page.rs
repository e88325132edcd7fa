//! The study of an SSD as a page to show.

use stook::bench::gates::State;
use stook::bench::model::block::BlockModel;
use stook::bench::{BenchResult, CellResult, Workload};
use stook::report::least_squares::Estimate;
use stook::report::page::{Block, Figure, Page};
use stook::report::units::{bytes_binary, bytes_decimal, rate, significant};

use super::cells::{Cell, Profile};
use super::fits::{Fits, Fitted, interval, is_known};
use super::states::{self, States};
use super::{Findings, beside, charts, explained, reading, tables};
use crate::text::duration_s;

pub(super) fn page(findings: &Findings) -> Page {
    Page::new("What this storage does")
        .lead(&findings.verdict)
        .lead(
            "The sizes, mixes and numbers of requests at once of a published study of an SSD, measured here: in order, as \
             it did, and at random places, which is ours; with direct I/O, which passes the page cache by. The answer \
             names which of the two it speaks of; the conclusions of the document are judged in order. Every word that \
             this takes is explained where it first stands.",
        )
        .section("The device in four lines", summary_section(findings))
        .section("What it does, in few numbers", figures_section(findings))
        .section("One after another: what the size of the block changes", block_section(findings))
        .section("Many at once: what depth changes", depth_section(findings))
        .section("Block and depth together", map_section(findings))
        .section("Do the figures add up?", little_section(findings))
        .section("Reads and writes mixed", mix_section(findings))
        .appendix("One cell, closely", distribution_section(findings))
        .section("What the document does not state: page cache and engine", beside::unstated_section(findings))
        .section("What is advertised, and how long it lasts", beside::lasting_section(findings))
        .section("On a simulated hard disk", beside::simulated_section(findings))
        .appendix("What was fitted", vec![Block::Table(tables::fitted(findings).for_page(""))])
        .appendix("May these figures be believed?", gates_section(&findings.result))
        .appendix("The same with fio", fio_section(findings))
}

fn text(text: &str) -> Block {
    Block::Text(text.to_owned())
}

/// What is drawn and how to read it, its interpretation here, and the chart.
fn chart(explained: &str, here: &str, chart: Block) -> [Block; 2] {
    [Block::Text(format!("{explained} {here}")), chart]
}

fn summary_section(findings: &Findings) -> Vec<Block> {
    let words = explained::WORDS.map(|(word, meaning)| (word.to_owned(), meaning.to_owned()));
    vec![
        text(explained::SUMMARY),
        Block::Table(tables::summary(findings).for_page("Reads with direct I/O")),
        text(explained::SIGNS),
        text(&reading::summary(&findings.summary)),
        Block::Facts(words.into()),
    ]
}

fn figures_section(findings: &Findings) -> Vec<Block> {
    // Unverified figures are drawn, but where no others are, they make no law.
    let figures = if States::of(&findings.result).valid == 0 { Vec::new() } else { figures(findings) };
    if figures.is_empty() {
        return vec![text("Too few cells passed their checks to fit them.")];
    }
    vec![text(explained::BASICS), Block::Figures(figures)]
}

fn map_section(findings: &Findings) -> Vec<Block> {
    let heat = Block::Heat(charts::block_depth(findings));
    let mut blocks = Vec::from(chart(explained::BLOCK_DEPTH, &reading::block_depth(findings), heat));
    blocks.extend(unverified(findings.map.iter().filter_map(|field| field.cell.as_ref())));
    blocks
}

/// That some of the cells of a section are unverified.
fn unverified<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Option<Block> {
    states::note(cells).map(Block::Note)
}

/// In order, as it was published, and then at random places.
fn figures(findings: &Findings) -> Vec<Figure> {
    let both = [("in order", &findings.sequential_fits), ("at random places", &findings.fits)];
    both.into_iter().flat_map(|(places, fits)| figures_of(places, fits)).collect()
}

fn figures_of(places: &str, fits: &Fits) -> Vec<Figure> {
    let figure = |value: String, label: &str| Figure { value, label: format!("{label}, {places}") };
    let mut figures = Vec::new();
    if let Some(model) = fits.block.model() {
        let known = |estimate: &Estimate, shown: fn(f64) -> String, label: &str| {
            let label = format!("{label} ({})", interval(estimate, shown));
            is_known(estimate).then(|| figure(shown(estimate.value), &label))
        };
        figures.extend(known(&model.fixed_cost_s, duration_s, "wait before the first byte of a read"));
        figures.extend(known(&model.bandwidth_bytes_per_s, rate, "for the bytes that follow"));
    }
    if let Some(model) = fits.depth.model() {
        let most = model.rate_max_per_s.value;
        figures.push(figure(significant(most), "reads of 16 KiB per second at most, asked for together"));
        if is_known(&model.depth_star) {
            let least = super::verdict::plain(model.depth_star.value);
            figures.push(figure(least, "reads at once, at the very least, for that"));
        }
    }
    figures
}

/// A doubt in place of the model.
fn refused<T>(what: &str, fitted: &Fitted<T>) -> Option<Block> {
    fitted.refused().map(|reason| Block::Note(format!("{what} could not be fitted: {reason}.")))
}

fn block_section(findings: &Findings) -> Vec<Block> {
    let profile = &findings.profile;
    let mut blocks = Vec::new();
    blocks.extend(chart(
        explained::LATENCY_BLOCK,
        &reading::latency_block(profile),
        Block::Lines(charts::latency_block(findings)),
    ));
    blocks.extend(refused("Latency against block size", &findings.fits.block));
    blocks.extend(findings.fits.block.model().map(|model| Block::Text(line_of_blocks(model))));
    blocks.extend(chart(
        explained::IOPS_BLOCK,
        &reading::iops_block(profile),
        Block::Lines(charts::iops_block(findings)),
    ));
    blocks.extend(chart(
        explained::BANDWIDTH_BLOCK,
        &reading::bandwidth_block(findings),
        Block::Lines(charts::bandwidth_block(findings)),
    ));
    blocks.extend([
        Block::Table(tables::blocks(findings).for_page("Reads at depth 1, at random places and in order")),
        text(explained::TABLES),
    ]);
    blocks.extend(unverified(&profile.blocks));
    blocks
}

fn line_of_blocks(model: &BlockModel) -> String {
    let (fixed_s, per_s) = (model.fixed_cost_s.value, model.bandwidth_bytes_per_s.value);
    let half = model.half_bandwidth_block_bytes.value;
    let nine_tenths = model.block_for_efficiency_bytes(0.9).unwrap_or(0.0);
    format!(
        "The dashed line is the simplest thing that could be true: a fixed wait t₀ of {} for every read, and then \
         the bytes at B = {}. No cell is further than {:.1}% from it. With blocks of {} half of the time is \
         waiting, so half of B is reached; nine tenths of B take blocks of {}.",
        duration_s(fixed_s),
        rate(per_s),
        model.residual_max * 100.0,
        bytes_binary(half as u64),
        bytes_binary(nine_tenths as u64),
    )
}

fn depth_section(findings: &Findings) -> Vec<Block> {
    let profile = &findings.profile;
    let mut blocks = Vec::new();
    blocks.extend(chart(
        explained::CURVE,
        &reading::throughput_latency(profile),
        Block::Lines(charts::throughput_latency(findings)),
    ));
    blocks.extend(refused("Throughput against depth", &findings.fits.depth));
    if let Some(model) = findings.fits.depth.model() {
        if !model.saturated {
            blocks.push(Block::Note(
                "Throughput was still growing at the greatest depth, so N* is only known to be no less than this."
                    .to_owned(),
            ));
        }
        blocks.push(Block::Table(
            tables::answers(findings).for_page("Which depth to use depends on what you want"),
        ));
    }
    let charts = [
        (explained::IOPS_DEPTH, reading::iops_depth(findings), charts::iops_depth(findings)),
        (explained::LATENCY_DEPTH, reading::latency_depth(profile), charts::latency_depth(findings)),
        (explained::BANDWIDTH_DEPTH, reading::bandwidth_depth(profile), charts::bandwidth_depth(findings)),
    ];
    blocks.extend(charts.into_iter().flat_map(|(how, here, lines)| chart(how, &here, Block::Lines(lines))));
    blocks.extend(unverified(&profile.depths));
    blocks
}

fn little_section(findings: &Findings) -> Vec<Block> {
    let mut blocks = Vec::from(chart(
        explained::LITTLE,
        &reading::little(&findings.profile),
        Block::Lines(charts::little(findings)),
    ));
    blocks.push(Block::Table(
        tables::little(findings)
            .for_page("Little's law: the product and the depth are the same where it holds"),
    ));
    blocks.push(Block::Table(
        tables::depths(findings).for_page("Reads of 16 KiB, at random places and in order; N is the depth"),
    ));
    blocks
}

fn mix_section(findings: &Findings) -> Vec<Block> {
    let mut blocks = Vec::from(chart(
        explained::MIX,
        &reading::mix_predicted(findings),
        Block::Lines(charts::mix_predicted(findings)),
    ));
    match findings.fits.mix.model() {
        Some(_) => blocks.push(Block::Table(
            tables::predictions(findings).for_page("Predicted from reads alone and writes alone"),
        )),
        None => blocks.extend(refused("What a mix costs", &findings.fits.mix)),
    }
    let profile = &findings.profile;
    let charts = [
        (explained::IOPS_MIX, reading::iops_mix(profile), charts::iops_mix(findings)),
        (explained::LATENCY_MIX, reading::latency_mix(profile), charts::latency_mix(findings)),
        (explained::BANDWIDTH_MIX, reading::bandwidth_mix(profile), charts::bandwidth_mix(findings)),
        (
            explained::NORMALISED_MIX,
            reading::normalised_mix(&findings.sequential),
            charts::normalised_mix(findings),
        ),
    ];
    blocks.extend(charts.into_iter().flat_map(|(how, here, lines)| chart(how, &here, Block::Lines(lines))));
    blocks.push(Block::Table(
        tables::mixes(findings)
            .for_page("Requests of 16 KiB at depth 1, at random places and in order, and small writes"),
    ));
    blocks.extend(unverified(profile.mixes.iter().chain(&profile.small_writes)));
    blocks
}

fn distribution_section(findings: &Findings) -> Vec<Block> {
    let result = &findings.result;
    let mut blocks = vec![text(explained::DISTRIBUTION)];
    let doubtful = Profile::base(result).filter(|cell| !cell.state.is_valid());
    let note = |cell: &CellResult| format!("This cell is {}: {}.", cell.state, cell.reasons.join("; "));
    blocks.extend(doubtful.map(|cell| Block::Note(note(cell))));
    let charts = [
        (explained::PERCENTILES, reading::percentiles(findings), Block::Lines(charts::percentiles(result))),
        (explained::HISTOGRAM, reading::histogram(findings), Block::Columns(charts::histogram(result))),
        (explained::TIME_LINE, reading::time_line(findings), Block::Lines(charts::time_line(result))),
    ];
    blocks.extend(charts.into_iter().flat_map(|(how, here, drawn)| chart(how, &here, drawn)));
    blocks
}

fn gates_section(result: &BenchResult) -> Vec<Block> {
    let States { valid, unverified, invalid } = States::of(result);
    let mut blocks = vec![Block::Text(format!(
        "{valid} cells are valid (✓), {unverified} unverified (?), and {invalid} not valid (✗)."
    ))];
    for (state, title) in [(State::Invalid, "Not valid"), (State::Unverified, "Unverified")] {
        let notes = states::notes(result, state).into_iter();
        blocks.extend(notes.map(|note| Block::Note(format!("{title}: {note}"))));
    }
    blocks.push(text(explained::CHECKS));
    blocks.push(Block::Folded {
        summary: "Every check of every cell".to_owned(),
        blocks: vec![Block::Table(tables::gates(result).for_page(""))],
    });
    blocks
}

/// As it is, and not as it was typed.
fn absolute(path: &str) -> String {
    std::path::Path::new(path)
        .canonicalize()
        .map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

pub(super) fn facts(result: &BenchResult) -> Vec<(String, String)> {
    let environment = &result.environment;
    let known = |value: &Option<String>| value.clone().unwrap_or_default();
    let base = Profile::base(result);
    let run = base.and_then(|cell| cell.runs.first());
    let workload = base.map(|cell| &cell.workload);
    let facts = [
        ("Place", absolute(&result.path)),
        ("Test file", format!("{}, full of data that cannot be compressed", bytes_binary(result.file_bytes))),
        ("Device", known(&environment.device)),
        ("Model", known(&environment.device_model)),
        ("Size of the device", environment.device_bytes.map(bytes_decimal).unwrap_or_default()),
        ("File system", known(&environment.file_system)),
        ("Mount", known(&environment.mount_options)),
        ("Mounted from", known(&environment.mount_source)),
        ("Scheduler", known(&environment.scheduler)),
        ("Write cache", known(&environment.write_cache)),
        ("Link carries", environment.link_limit_bytes_per_s.map(rate).unwrap_or_default()),
        ("In doubt", known(&environment.device_doubt)),
        ("Limited", known(&environment.throttle)),
        ("Kernel", environment.kernel.clone()),
        ("Processors", environment.processors.to_string()),
        ("Stook", environment.stook.clone()),
        ("Engine", run.map(|run| run.engine.clone()).unwrap_or_default()),
        ("Each cell", base.map(how_long).unwrap_or_default()),
        ("Seed", workload.map(|workload| workload.seed.to_string()).unwrap_or_default()),
        ("Time", result.time.clone()),
    ];
    let facts = facts.into_iter().filter(|(_, value)| !value.is_empty());
    facts.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn how_long(cell: &CellResult) -> String {
    let Workload { time_s, ramp_s, .. } = cell.workload;
    let measured = time_s.map_or_else(|| "–".to_owned(), duration_s);
    let rounds = if cell.runs.len() > 1 { format!("{} rounds of ", cell.runs.len()) } else { String::new() };
    format!("{rounds}{measured} after a ramp of {}, past the page cache", duration_s(ramp_s))
}

fn fio_section(findings: &Findings) -> Vec<Block> {
    vec![
        text(
            "Anybody can check these figures with another tool. `stook bench . --keep` leaves a file of this name with \
             data in it; compare the total latencies of fio (`lat`), because its `clat` leaves out the time before a \
             request is on its way.",
        ),
        Block::Folded {
            summary: "The jobs, as a file for fio".to_owned(),
            blocks: vec![Block::Code(findings.fio_job.clone())],
        },
    ]
}
