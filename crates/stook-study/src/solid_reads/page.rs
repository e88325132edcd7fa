//! The study of archives on a terminal and as a page.

use stook::report::chart::{Bar, Bars};
use stook::report::page::{Block, Figure, Page};
use stook::report::table::{Align, Table, Tone};
use stook::report::units;

use super::conclusions::break_even;
use super::{Findings, Order, Row, Shape};
use crate::Text;
use crate::text::{duration_s, numbers};

pub(super) fn text(findings: &Findings) -> Vec<Text> {
    let mut text = Vec::from(Text::titled("Jobs of fio: random reads of one file", jobs(findings)));
    text.extend(doubts(findings).into_iter().map(Text::Line));
    text.extend(Text::titled("Archives of 64 MiB out of real files, cold", real(findings)));
    text.push(Text::line(format_args!("\n{}", break_even(findings))));
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
        .section("Real files", vec![Block::Bars(bars(findings)), Block::Table(real(findings)), Block::Text(break_even(findings))])
}

fn figures(findings: &Findings) -> Vec<Figure> {
    let small = Shape::Files { file_bytes: 128 << 10 };
    let figure = |order: Order| {
        let value = units::percent(findings.against_whole(small, order)?);
        Some(Figure {
            value,
            label: format!("of the rate of one file: 512 files of 128 KiB, {}", order.label()),
        })
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

fn bars(findings: &Findings) -> Bars {
    let rows = findings.rows.iter().filter(|row| row.order == Order::InTurn);
    let bar = |row: &Row| {
        let tone = if row.shape == Shape::WHOLE { Tone::Muted } else { Tone::Highlight };
        Bar::new(row.shape.label(), (row.bytes_per_s / 1e6).round()).tone(tone)
    };
    Bars::new("Reading an archive, one file after the other", "MB/s", rows.map(bar).collect())
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
