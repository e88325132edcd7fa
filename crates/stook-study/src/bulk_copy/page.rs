//! The study of large copies on a terminal and as a page.

use stook::report::chart::{Axis, Bar, Bars, Lines, Point, Series, TickFormat};
use stook::report::page::{Block, Figure, Page};
use stook::report::table::{Table, Tone};
use stook::report::units;

use super::ways::{PUBLISHED_QUEUE, Way};
use super::{Findings, Row, progress};
use crate::Text;
use crate::text::{numbers, spread};

pub(super) fn text(findings: &Findings) -> Vec<Text> {
    let mut text: Vec<Text> = findings.note().into_iter().map(Text::line).collect();
    text.extend([Text::line(limit(findings)), Text::Table(table(findings, ""))]);
    text.extend(Text::titled("From where to where", findings.ends_table("")));
    text.extend(Text::titled("A source that was read just before, by cp", cached(findings, "")));
    text.extend(Text::titled("The line of progress of the document, computed again", progress::table("")));
    text
}

pub(super) fn page(findings: &Findings) -> Page {
    let note = findings.note().into_iter().map(Block::Note);
    let first = note.chain([Block::Figures(figures(findings))]).collect();
    let ways =
        vec![Block::Bars(bars(findings)), Block::Table(table(findings, "")), Block::Text(limit(findings))];
    Page::new("Copying a large file")
        .lead(super::frame::frame(findings).verdict)
        .lead("One large file was copied in every way in turn, cold, down to the medium, and compared with its source.")
        .section("", first)
        .section("From where to where", vec![Block::Table(findings.ends_table(""))])
        .section("Every way", ways)
        .section("The size of the block", vec![Block::Lines(blocks(findings))])
        .section("What memory makes of a benchmark", vec![
            Block::Text(
                "cp copies a cold source, and one that was read just before, in a control group with so much memory that \
                 the file is 0.3 of it, and then 2.3. In the first the source comes out of memory, and the rate says nothing about the \
                 device."
                    .to_owned(),
            ),
            Block::Table(cached(findings, "")),
        ])
        .section("The line of progress of the document", vec![
            Block::Text(
                "It prints how much was copied, at what rate and how many files, and the time of execution. What these \
                 figures imply is computed here, and held against what else it prints of them."
                    .to_owned(),
            ),
            Block::Table(progress::table("")),
        ])
}

fn limit(findings: &Findings) -> String {
    let passes = match (findings.is_shared(), findings.is_within_disks) {
        (true, _) => "Twice each rate, because reads and writes of the same disks share it,",
        (false, true) => {
            "Each rate, not twice as much, because a limit may hold for reads and for writes apart (that of SATA, of USB \
             up to 2.0 and of a disk that rotates holds for both together),"
        }
        (false, false) => "Each rate",
    };
    match &findings.limit {
        Some(limit) => format!(
            "{passes} is held against {} ({}). What is above 100% of that did not come from the device: it is marked as \
             cached.",
            limit.what,
            units::rate(limit.bytes_per_s)
        ),
        None => "No limit is known that rates could be held against.".to_owned(),
    }
}

fn figures(findings: &Findings) -> Vec<Figure> {
    let figure = |way: Way| {
        let row = findings.rows.iter().find(|row| row.way == way)?;
        let mark = if row.is_cached() { format!(" ({})", row.mark()) } else { String::new() };
        let rates: Vec<f64> = row.runs.iter().map(|seconds| findings.file_bytes as f64 / seconds).collect();
        let spread = spread(&rates, units::rate);
        Some(Figure { value: units::rate(row.bytes_per_s?), label: format!("{}{mark}{spread}", row.label) })
    };
    [Way::PUBLISHED, Way::Stook, Way::Cp].into_iter().filter_map(figure).collect()
}

fn tone(row: &Row) -> Tone {
    match row.way {
        Way::PUBLISHED => Tone::Highlight,
        Way::Threads { .. } => Tone::Plain,
        Way::Stook | Way::Cp => Tone::Muted,
    }
}

fn bars(findings: &Findings) -> Bars {
    let bar = |row: &Row| {
        Some(Bar::new(row.label.clone(), (row.bytes_per_s? / 1e6).round()).tone(tone(row)).detail(row.mark()))
    };
    Bars::new("Rate of copying, cold", "MB/s", findings.rows.iter().filter_map(bar).collect())
}

fn blocks(findings: &Findings) -> Lines {
    let point = |row: &Row| match row.way {
        Way::Threads { block_bytes, queue: PUBLISHED_QUEUE } => {
            Some(Point::new(block_bytes as f64, row.bytes_per_s? / 1e6))
        }
        _ => None,
    };
    let points: Vec<Point> = findings.rows.iter().filter_map(point).collect();
    let x = Axis::logarithmic("Block")
        .format(TickFormat::BytesBinary)
        .ticks(super::ways::BLOCKS.map(|block| block as f64));
    let series = vec![Series::new("two threads, queue 10", points).tone(Tone::Highlight)];
    Lines::new("Rate against the size of the block", x, Axis::linear("MB/s"), series).id("bulk-block")
}

fn table(findings: &Findings, caption: &str) -> Table {
    let none = || "–".to_owned();
    let head = numbers(caption, ["", "Time", "MB/s", "Rounds, MB/s", "MiB/s", "Of the limit", ""]);
    findings.rows.iter().fold(head, |table, row| {
        let rate = |unit: f64| row.bytes_per_s.map_or_else(none, |rate| format!("{:.1}", rate / unit));
        let last = row.left_out.clone().unwrap_or_else(|| row.mark().to_owned());
        let cells = [
            row.label.clone(),
            row.seconds.map_or_else(none, |seconds| format!("{seconds:.3} s")),
            rate(1e6),
            rounds(findings, row),
            rate(f64::from(1 << 20)),
            row.of_limit.map_or_else(none, units::percent),
            last,
        ];
        table.row(cells, tone(row))
    })
}

/// The slowest and the fastest round.
fn rounds(findings: &Findings, row: &Row) -> String {
    let rate = |seconds: f64| format!("{:.0}", findings.file_bytes as f64 / seconds / 1e6);
    let slowest = row.runs.iter().copied().max_by(f64::total_cmp);
    let fastest = row.runs.iter().copied().min_by(f64::total_cmp);
    match slowest.zip(fastest) {
        Some((slowest, fastest)) => format!("{} – {}", rate(slowest), rate(fastest)),
        None => "–".to_owned(),
    }
}

fn cached(findings: &Findings, caption: &str) -> Table {
    let head =
        numbers(caption, ["File ÷ memory", "Memory", "MB/s, cold", "MB/s, read before", "Of cold", ""]);
    findings.cached.iter().fold(head, |table, one| {
        let of = |seconds: Option<f64>| Some(findings.file_bytes as f64 / seconds?);
        let (rate, cold) = (of(one.seconds), of(one.cold_seconds));
        let shown =
            |rate: Option<f64>| rate.map_or_else(|| "–".to_owned(), |rate| format!("{:.1}", rate / 1e6));
        let share = rate.zip(cold).map(|(rate, cold)| units::percent(rate / cold));
        let cells = [
            format!("{:.1}", one.data_of_memory),
            units::bytes_binary(one.memory_bytes),
            shown(cold),
            shown(rate),
            share.unwrap_or_else(|| "–".to_owned()),
            one.left_out.clone().unwrap_or_default(),
        ];
        table.row(cells, Tone::Plain)
    })
}
