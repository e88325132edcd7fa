//! The study of sparse files as a page to show.

use serde::Serialize;
use stook::report::chart::{Axis, Lines, Point, Series, TickFormat};
use stook::report::page::{Block, Figure, Page};
use stook::report::table::{Align, Table, Tone};
use stook::report::units;

use super::work::{NEED_BLOCKS, TOTAL_BYTES};
use super::{Row, Study, Work, row};

/// The page. `document` is what it embeds as its data.
///
/// # Errors
/// When `document` cannot be written as JSON.
pub fn page(study: &Study, document: &impl Serialize) -> Result<String, serde_json::Error> {
    let peer = match &study.svfsc {
        Some(version) => format!("svfsc {version} was measured beside, from Python, in turn."),
        None => "svfsc was not installed, so it was not measured beside.".to_owned(),
    };
    let page = Page::new("Sparse files in memory")
        .lead("What has been fetched of a file that is elsewhere is held with gaps between: what do small reads, small \
               writes and questions cost?")
        .lead(peer)
        .section("", vec![Block::Figures(figures(study))])
        .section("Reading", vec![
            Block::Lines(lines(study, "read", "Reading 1 MiB that is held without a gap, by the size of the blocks", |work| {
                match work {
                    Work::Read { block_bytes } if block_bytes < TOTAL_BYTES => Some(block_bytes),
                    _ => None,
                }
            })),
        ])
        .section("Writing", vec![
            Block::Lines(lines(study, "write-apart", "Writing 1 MiB in blocks that do not touch", |work| match work {
                Work::WriteApart { block_bytes } => Some(block_bytes),
                _ => None,
            })),
            Block::Lines(lines(study, "write-joined", "Writing 1 MiB in blocks that touch", |work| match work {
                Work::WriteJoined { block_bytes } => Some(block_bytes),
                _ => None,
            })),
        ])
        .section("Asking what is needed", vec![
            Block::Lines(lines(
                study,
                "need",
                &format!("Asking all over a file of {} blocks, 800 bytes apart, by the length of an ask", units::count(NEED_BLOCKS)),
                |work| match work {
                    Work::Need { ask_bytes } => Some(ask_bytes),
                    _ => None,
                },
            )),
        ])
        .section("Threads", vec![Block::Lines(threads(study))])
        .section("Beside svfsc", vec![
            Block::Text("svfsc is called from Python here, Stook from Rust.".to_owned()),
            Block::Table(beside(study)),
        ])
        .section("What is published of svfsc", vec![
            Block::Text(
                "As its documentation prints it, without the machine and the version. What it reads in small blocks is held \
                 in such blocks; here it is held without a gap. Both the machine and the work differ.".to_owned(),
            ),
            Block::Table(published(study)),
        ])
        .section("How it was measured", vec![Block::Text(format!(
            "Each figure is the median of {} {}. Every write compares what it overlaps; every read touches what it \
             reads, for eviction; files are safe to be used by threads, and pay for it here with one.",
            study.rounds,
            if study.rounds == 1 { "round" } else { "rounds" },
        ))])
        .section("On what", vec![Block::Facts(study.environment.facts())])
        .footer(format!(
            "Made by stook {}. All figures are embedded in this page as JSON, in the element with the id `data`.",
            env!("CARGO_PKG_VERSION")
        ))
        .data(document)?;
    Ok(page.render())
}

fn figures(study: &Study) -> Vec<Figure> {
    let all = [
        (Work::Read { block_bytes: 1 }, TOTAL_BYTES, "for a read of one byte"),
        (Work::WriteApart { block_bytes: 1 }, TOTAL_BYTES, "for a write of one byte that touches no other"),
        (Work::WriteJoined { block_bytes: 1 }, TOTAL_BYTES, "for a write of one byte behind the last"),
    ];
    let figure = |(work, count, label): (Work, u64, &str)| {
        let each_ns = row(&study.rows, work)?.seconds * 1e9 / count as f64;
        Some(Figure { value: format!("{each_ns:.0} ns"), label: label.to_owned() })
    };
    all.into_iter().filter_map(figure).collect()
}

/// Ours and svfsc as measured here, by a size.
fn lines(study: &Study, id: &str, caption: &str, size: impl Fn(Work) -> Option<u64>) -> Lines {
    let of_rows = |seconds: &dyn Fn(&Row) -> Option<f64>| -> Vec<Point> {
        let point = |row: &Row| Some(Point::new(size(row.work)? as f64, seconds(row)? * 1e9));
        study.rows.iter().filter_map(point).collect()
    };
    let mut series = vec![Series::new("Stook", of_rows(&|row| Some(row.seconds))).tone(Tone::Highlight)];
    let measured = of_rows(&|row| row.svfsc_python_s);
    if !measured.is_empty() {
        series.push(Series::new("svfsc, Python, here", measured));
    }
    let ticks = study.rows.iter().filter_map(|row| size(row.work)).map(|size| size as f64);
    let x = Axis::logarithmic("Block").format(TickFormat::BytesBinary).ticks(ticks);
    let y = Axis::logarithmic("Time for all of it").format(TickFormat::DurationNs);
    Lines::new(caption, x, y, series).id(id)
}

fn threads(study: &Study) -> Lines {
    let series = |name: &str, wanted: bool| {
        let point = |row: &Row| match row.work {
            Work::Threads { threads, is_joined } if is_joined == wanted => {
                Some(Point::new(threads as f64, row.seconds * 1e9))
            }
            _ => None,
        };
        Series::new(name, study.rows.iter().filter_map(point).collect())
    };
    let x = Axis::logarithmic("Threads").ticks([1.0, 2.0, 4.0, 8.0]);
    let y = Axis::logarithmic("Time for all of it").format(TickFormat::DurationNs);
    let both = vec![series("do not touch", false).tone(Tone::Highlight), series("touch", true)];
    Lines::new("Writing 1 MiB in blocks of 8 bytes to one file by several threads", x, y, both).id("threads")
}

fn milliseconds(seconds: f64) -> String {
    units::duration_ns((seconds * 1e9) as u64)
}

fn beside(study: &Study) -> Table {
    let mut table = Table::new("").column("", Align::Left);
    for header in ["Stook", "svfsc, Python", "svfsc ÷ Stook"] {
        table = table.column(header, Align::Right);
    }
    let none = || "–".to_owned();
    for row in &study.rows {
        let cells = [
            row.work.short_label(),
            milliseconds(row.seconds),
            row.svfsc_python_s.map_or_else(none, milliseconds),
            row.svfsc_python_s.map_or_else(none, |theirs_s| units::factor(theirs_s / row.seconds)),
        ];
        table = table.row(cells, Tone::Plain);
    }
    table
}

fn published(study: &Study) -> Table {
    let mut table = Table::new("")
        .column("Published", Align::Left)
        .column("Figure", Align::Left)
        .column("Stook, here", Align::Left);
    for one in &study.published {
        let here = one.here.as_deref().unwrap_or("not measured");
        table = table.row([one.what, one.figure, here], Tone::Plain);
    }
    table
}
