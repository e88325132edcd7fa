//! The study of archives on a terminal and as a page.

use stook::report::chart::{Bar, Bars};
use stook::report::page::{Block, Figure, Page};
use stook::report::table::{Align, Table, Tone};
use stook::report::units;

use super::conclusions::{break_even, size_rule};
use super::{Findings, Order, Row, Shape};
use crate::Text;
use crate::text::{duration_s, numbers, spread};

pub(super) fn text(findings: &Findings) -> Vec<Text> {
    let mut text = Vec::from(Text::titled("Jobs of fio: random reads of one file", jobs(findings)));
    text.extend(doubts(findings).into_iter().map(Text::Line));
    text.extend(Text::titled("Archives of 64 MiB out of real files, cold", real(findings)));
    text.extend(Text::titled("Archives that were merged", merged(findings)));
    text.push(Text::line(format_args!("\n{} {}", break_even(findings), size_rule(findings))));
    text.extend(Text::titled(
        "The jobs on a simulated hard disk, which is no measurement",
        simulated(findings),
    ));
    text
}

pub(super) fn page(findings: &Findings) -> Page {
    Page::new("Archives out of many files")
        .lead(super::frame::frame(findings).verdict)
        .lead(
            "What does it cost to read an archive out of many files instead of one? First as it was published, with jobs \
             of fio that stand for files; then out of real ones.",
        )
        .section("", vec![Block::Figures(figures(findings))])
        .section("The jobs of fio", job_blocks(findings))
        .section("Real files", real_blocks(findings))
        .section("A merged copy", merged_blocks(findings))
        .section("On a simulated hard disk", simulated_blocks(findings))
}

fn real_blocks(findings: &Findings) -> Vec<Block> {
    let orders = [
        (Order::InTurn, "Reading an archive, one file after the other"),
        (Order::AtOnce, "Reading an archive through a stitched file, 16 reads at once"),
    ];
    let bars = orders.map(|(order, caption)| Block::Bars(bars(findings, order, caption)));
    bars.into_iter()
        .chain([Block::Table(real(findings))])
        .chain([Block::Text(
            "A stitched file is what the library makes of many files: it is read by offset like one, and opens a file when \
             a read comes to it. A framework that shows archives to a program answers each of its reads before the next \
             one comes, which is the first row of every archive; the files behind it can be read together where all of \
             it is asked for at once."
                .to_owned(),
        )])
        .collect()
}

fn merged_blocks(findings: &Findings) -> Vec<Block> {
    vec![
        Block::Table(merged(findings)),
        Block::Text(format!("{} {}", break_even(findings), size_rule(findings))),
    ]
}

fn simulated_blocks(findings: &Findings) -> Vec<Block> {
    vec![
        Block::Note(
            "This is no measurement: a hard disk was simulated, with times that are assumed; they stand under “What was \
             done there, and what is done here”. Directories and file systems take no part in it."
                .to_owned(),
        ),
        Block::Table(simulated(findings)),
    ]
}

fn merged(findings: &Findings) -> Table {
    let columns = ["Archive", "Made in", "Read in", "Its files", "A read gains", "Has paid after"];
    findings.merged.iter().fold(numbers("", columns), |table, one| {
        let shape = Shape::Files { file_bytes: one.file_bytes };
        let paid = one.break_even_reads.map_or_else(
            || "never".to_owned(),
            |reads| units::count_of(reads.ceil() as u64, "read", "reads"),
        );
        let sign = if one.gain_s < 0.0 { "−" } else { "" };
        let cells = [
            shape.label(),
            duration_s(one.made_s),
            duration_s(one.read_s),
            duration_s(one.read_s + one.gain_s),
            format!("{sign}{}", duration_s(one.gain_s.abs())),
            paid,
        ];
        table.row(cells, Tone::Plain)
    })
}

fn simulated(findings: &Findings) -> Table {
    let columns = ["Job", "Simulated, MB/s", "Against the first", "One after the other, MB/s"];
    let first = findings.simulated.first().map_or(f64::NAN, |job| job.bytes_per_s);
    findings.simulated.iter().fold(numbers("", columns), |table, job| {
        let cells = [
            format!("{} at depth {}", units::bytes_binary(job.block_bytes), job.depth),
            format!("{:.1}", job.bytes_per_s / 1e6),
            format!("{:.2}x", job.bytes_per_s / first),
            format!("{:.1}", job.in_turn_bytes_per_s / 1e6),
        ];
        table.row(cells, Tone::Plain)
    })
}

fn figures(findings: &Findings) -> Vec<Figure> {
    let small = Shape::Files { file_bytes: 128 << 10 };
    let figure = |order: Order| {
        let value = units::percent(findings.against_whole(small, order)?);
        let runs = |shape| findings.rows.iter().find(|row| (row.shape, row.order) == (shape, order));
        let (own, whole) = (runs(small)?, runs(Shape::WHOLE)?);
        let ratios: Vec<f64> = whole.runs.iter().zip(&own.runs).map(|(whole, own)| whole / own).collect();
        let spread = spread(&ratios, units::percent);
        let label = format!("of the rate of one file: 512 files of 128 KiB, {}{spread}", order.label());
        Some(Figure { value, label })
    };
    Order::ALL.into_iter().filter_map(figure).collect()
}

fn job_blocks(findings: &Findings) -> Vec<Block> {
    let drawn = [Block::Bars(job_bars(findings)), Block::Table(jobs(findings))];
    drawn.into_iter().chain(doubts(findings).into_iter().map(Block::Note)).collect()
}

fn job_bars(findings: &Findings) -> Bars {
    let bar = |job: &super::Job| {
        let label = format!("{} at depth {}", units::bytes_binary(job.block_bytes), job.depth);
        let tone = if job.state.is_invalid() { Tone::Muted } else { Tone::Highlight };
        let detail = if job.state.is_valid() { String::new() } else { job.state.to_string() };
        Bar::new(label, (job.bytes_per_s / 1e6).round()).tone(tone).detail(detail)
    };
    Bars::new("Random reads of one file", "MB/s", findings.jobs.iter().map(bar).collect())
}

fn jobs(findings: &Findings) -> Table {
    let head = numbers("", ["Job", "Stook, MB/s", "Against the first", "fio, MB/s", "Checks"]);
    findings.jobs.iter().fold(head, |table, job| {
        let none = || "–".to_owned();
        let ratio = findings.job_against_first(job.block_bytes);
        let cells = [
            format!("{} at depth {}", units::bytes_binary(job.block_bytes), job.depth),
            format!("{:.0}", job.bytes_per_s / 1e6),
            ratio.map_or_else(none, |ratio| format!("{ratio:.2}x")),
            job.fio_bytes_per_s.map_or_else(none, |rate| format!("{:.0}", rate / 1e6)),
            job.state.to_string(),
        ];
        table.row(cells, if job.state.is_invalid() { Tone::Muted } else { Tone::Plain })
    })
}

/// Why jobs are not valid, or unverified.
fn doubts(findings: &Findings) -> Vec<String> {
    let doubt = |job: &super::Job| {
        let (block, reasons) = (units::bytes_binary(job.block_bytes), job.reasons.join("; "));
        format!("{block} at depth {} is {}: {reasons}.", job.depth, job.state)
    };
    findings.jobs.iter().filter(|job| !job.state.is_valid()).map(doubt).collect()
}

fn bars(findings: &Findings, order: Order, caption: &str) -> Bars {
    let rows = findings.rows.iter().filter(|row| row.order == order);
    let bar = |row: &Row| {
        let tone = if row.shape == Shape::WHOLE { Tone::Muted } else { Tone::Highlight };
        Bar::new(row.shape.label(), (row.bytes_per_s / 1e6).round()).tone(tone)
    };
    Bars::new(caption, "MB/s", rows.map(bar).collect())
}

fn real(findings: &Findings) -> Table {
    // Two columns of words, and then figures.
    let head = Table::new("").column("Archive", Align::Left).column("Read", Align::Left);
    let figures = ["Time", "MB/s", "Against one file"].into_iter();
    let head = figures.fold(head, |table, name| table.column(name, Align::Right));
    findings.rows.iter().fold(head, |table, row| {
        let ratio = findings.against_whole(row.shape, row.order);
        let cells = [
            row.shape.label(),
            row.order.label().to_owned(),
            duration_s(row.seconds),
            format!("{:.0}", row.bytes_per_s / 1e6),
            ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}x")),
        ];
        table.row(cells, Tone::Plain)
    })
}
