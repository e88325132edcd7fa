//! The study of sparse files as a page to show.

use stook::report::chart::{Axis, Lines, Point, Series, TickFormat};
use stook::report::page::{Block, Figure, Page};
use stook::report::table::{Table, Tone};
use stook::report::units;

use super::work::{NEED_BLOCKS, NEED_COUNTS, TOTAL_BYTES};
use super::{Findings, Row, Work, row};
use crate::text::{duration_s, numbers};

pub(super) fn page(findings: &Findings) -> Page {
    let peer = match &findings.svfsc {
        Some(version) => format!("svfsc {version} was measured beside, from Python, in turn."),
        None => "svfsc was not installed, so it was not measured beside.".to_owned(),
    };
    Page::new("Sparse files in memory")
        .lead("What has been fetched of a file that is elsewhere is held with gaps between: what do small reads, small \
               writes and questions cost?")
        .lead(peer)
        .section("", vec![Block::Figures(figures(findings))])
        .section("Reading", vec![
            Block::Lines(lines(findings, "read-apart", "Reading 1 MiB by the size of the blocks that it is held in", |work| match work {
                Work::ReadApart { block_bytes } => Some(block_bytes),
                _ => None,
            })),
            Block::Lines(lines(findings, "read", "Reading 1 MiB that is held without a gap, by the size of the blocks", |work| {
                match work {
                    Work::Read { block_bytes } if block_bytes < TOTAL_BYTES => Some(block_bytes),
                    _ => None,
                }
            })),
        ])
        .section("Writing", vec![
            Block::Lines(lines(findings, "write-apart", "Writing 1 MiB in blocks that do not touch", |work| match work {
                Work::WriteApart { block_bytes } => Some(block_bytes),
                _ => None,
            })),
            Block::Lines(lines(findings, "write-joined", "Writing 1 MiB in blocks that touch", |work| match work {
                Work::WriteJoined { block_bytes } => Some(block_bytes),
                _ => None,
            })),
        ])
        .section("Asking what is needed", vec![
            Block::Lines(lines(
                findings,
                "need",
                &format!("Asking all over a file of {} blocks, 800 bytes apart, by the length of an ask", units::count(NEED_BLOCKS)),
                |work| match work {
                    Work::Need { ask_bytes } => Some(ask_bytes),
                    _ => None,
                },
            )),
        ])
        .section("Asking over more and more blocks", vec![Block::Lines(need_all(findings))])
        .section("Threads", vec![
            Block::Lines(threads(findings, "overwrite", "Writing and overwriting 1 MiB in blocks of 8 bytes by several threads, each all of it", |work| {
                match work {
                    Work::Overwrite { threads, is_joined } => Some((threads, is_joined)),
                    _ => None,
                }
            })),
            Block::Lines(threads(findings, "threads", "Writing 1 MiB in blocks of 8 bytes by several threads, each a part of it", |work| match work {
                Work::Threads { threads, is_joined } => Some((threads, is_joined)),
                _ => None,
            })),
        ])
        .section("Beside svfsc", vec![
            Block::Text("svfsc is called from Python here, Stook from Rust.".to_owned()),
            Block::Table(beside(findings)),
        ])
        .section("How it was measured", vec![Block::Text(format!(
            "Each figure is the median of {} {}. Every write compares what it overlaps; every read touches what it \
             reads, for eviction; files are safe to be used by threads, and pay for it here with one.",
            findings.rounds,
            if findings.rounds == 1 { "round" } else { "rounds" },
        ))])
}

fn figures(findings: &Findings) -> Vec<Figure> {
    let all = [
        (Work::Read { block_bytes: 1 }, TOTAL_BYTES, "for a read of one byte"),
        (Work::WriteApart { block_bytes: 1 }, TOTAL_BYTES, "for a write of one byte that touches no other"),
        (Work::WriteJoined { block_bytes: 1 }, TOTAL_BYTES, "for a write of one byte after the last"),
    ];
    let figure = |(work, count, label): (Work, u64, &str)| {
        let each_ns = row(&findings.rows, work)?.seconds * 1e9 / count as f64;
        Some(Figure { value: format!("{each_ns:.0} ns"), label: label.to_owned() })
    };
    all.into_iter().filter_map(figure).collect()
}

/// Ours and svfsc as measured here, by a size.
fn lines(findings: &Findings, id: &str, caption: &str, size: impl Fn(Work) -> Option<u64>) -> Lines {
    let of_rows = |seconds: &dyn Fn(&Row) -> Option<f64>| -> Vec<Point> {
        let point = |row: &Row| Some(Point::new(size(row.work)? as f64, seconds(row)? * 1e9));
        findings.rows.iter().filter_map(point).collect()
    };
    let mut series = vec![Series::new("Stook", of_rows(&|row| Some(row.seconds))).tone(Tone::Highlight)];
    let measured = of_rows(&|row| row.svfsc_python_s);
    if !measured.is_empty() {
        series.push(Series::new("svfsc, Python, here", measured));
    }
    let ticks = findings.rows.iter().filter_map(|row| size(row.work)).map(|size| size as f64);
    let x = Axis::logarithmic("Block").format(TickFormat::BytesBinary).ticks(ticks);
    let y = Axis::logarithmic("Time for all of it").format(TickFormat::DurationNs);
    Lines::new(caption, x, y, series).id(id)
}

/// One question over all blocks, by their number.
fn need_all(findings: &Findings) -> Lines {
    let point = |row: &Row, seconds: Option<f64>| match row.work {
        Work::NeedAll { blocks } => Some(Point::new(blocks as f64, seconds? * 1e9)),
        _ => None,
    };
    let ours = findings.rows.iter().filter_map(|row| point(row, Some(row.seconds))).collect();
    let theirs: Vec<Point> = findings.rows.iter().filter_map(|row| point(row, row.svfsc_python_s)).collect();
    let mut series = vec![Series::new("Stook", ours).tone(Tone::Highlight)];
    if !theirs.is_empty() {
        series.push(Series::new("svfsc, Python, here", theirs));
    }
    let x = Axis::linear("Blocks").ticks(NEED_COUNTS.map(|blocks| blocks as f64));
    let y = Axis::linear("Time of one question").format(TickFormat::DurationNs);
    Lines::new("Asking what is needed of all of it, by the number of blocks that are held", x, y, series)
        .id("need-all")
}

/// Two lines over threads: blocks that touch, and blocks that do not.
fn threads(findings: &Findings, id: &str, caption: &str, of: impl Fn(Work) -> Option<(u64, bool)>) -> Lines {
    let series = |name: &str, wanted: bool| {
        let point = |row: &Row| match of(row.work) {
            Some((threads, is_joined)) if is_joined == wanted => {
                Some(Point::new(threads as f64, row.seconds * 1e9))
            }
            _ => None,
        };
        Series::new(name, findings.rows.iter().filter_map(point).collect())
    };
    let x = Axis::logarithmic("Threads").ticks([1.0, 2.0, 4.0, 8.0]);
    let y = Axis::logarithmic("Time for all of it").format(TickFormat::DurationNs);
    let both = vec![series("do not touch", false).tone(Tone::Highlight), series("touch", true)];
    Lines::new(caption, x, y, both).id(id)
}

fn beside(findings: &Findings) -> Table {
    let mut table = numbers("", ["", "Stook", "svfsc, Python", "svfsc ÷ Stook"]);
    let none = || "–".to_owned();
    for row in &findings.rows {
        let cells = [
            row.work.short_label(),
            duration_s(row.seconds),
            row.svfsc_python_s.map_or_else(none, duration_s),
            row.svfsc_python_s.map_or_else(none, |theirs_s| units::factor(theirs_s / row.seconds)),
        ];
        table = table.row(cells, Tone::Plain);
    }
    table
}
