//! The study of many small files as a page to show.

use serde::Serialize;
use stook::report::chart::{Bar, Bars};
use stook::report::page::{Block, Figure, Page};
use stook::report::stats::PairedRatio;
use stook::report::table::{Align, Table, Tone};
use stook::report::units;

use super::many_small_files::{Row, Study};
use super::readers::{PUBLISHED_BUFFER_LEN, Reader};

/// The page. `document` is what it embeds as its data.
///
/// # Errors
/// When `document` cannot be written as JSON.
pub fn page(study: &Study, document: &impl Serialize) -> Result<String, serde_json::Error> {
    let page = Page::new("Many small files")
        .lead(&study.verdict)
        .lead(
            "The same records were read as loose files, as one plain file and as a pack: cold, in turn, and all of \
             them returned the same bytes.",
        )
        .section("", vec![Block::Figures(figures(study))])
        .section(format!("Reading {}, cold", units::bytes_decimal(study.returned.bytes)), vec![
            Block::Bars(bars(study)),
            Block::Table(table(study)),
            Block::Text(
                "Spread is the least and the most of the rounds in seconds, processor what one round took of all \
                 processors together, speed-up how many times as fast as one reader of the loose files."
                    .to_owned(),
            ),
        ])
        .section("Beside the published figures", published(study))
        .section("What was concluded then, and what holds here", vec![Block::Table(conclusions(study))])
        .section("How it was measured", method(study))
        .section("On what", vec![Block::Facts(study.environment.facts())])
        .footer(format!(
            "Made by stook {}. The figures of every round are embedded in this page as JSON, in the element with the \
             id `data`.",
            env!("CARGO_PKG_VERSION")
        ))
        .data(document)?;
    Ok(page.render())
}

fn find(study: &Study, wanted: impl Fn(&Reader) -> bool) -> Option<&Row> {
    study.rows.iter().find(|row| row.reader.as_ref().is_some_and(&wanted))
}

fn limit(study: &Study) -> Option<&Row> {
    study.rows.iter().find(|row| row.reader.is_none())
}

fn parallel(study: &Study) -> Option<&Row> {
    find(study, |reader| matches!(reader, Reader::Files { threads } if *threads > 1))
}

fn figures(study: &Study) -> Vec<Figure> {
    let Some(pack) = find(study, |reader| *reader == Reader::PackStream) else { return Vec::new() };
    let share = pack.share_of_limit.as_ref().map(|share| units::percent(share.ratio));
    let mut figures = vec![
        Figure { value: units::factor(pack.speedup), label: "as fast as the files with one reader".into() },
        Figure {
            value: share.unwrap_or_default(),
            label: format!("of the speed of the device: {}", units::rate(pack.bytes_per_s)),
        },
    ];
    if let Some(parallel) = parallel(study) {
        let value = units::factor(pack.speedup / parallel.speedup);
        figures.insert(1, Figure { value, label: "as fast as the best parallel reader of the files".into() });
    }
    figures
}

fn tone(row: &Row) -> Tone {
    match row.reader {
        Some(Reader::PackStream | Reader::PackMemory) => Tone::Highlight,
        None => Tone::Muted,
        _ => Tone::Plain,
    }
}

fn detail(row: &Row) -> &'static str {
    match row.reader {
        Some(Reader::Files { threads: 1 }) => "one file after the other",
        Some(Reader::Files { .. }) => "the best number of those tried",
        Some(Reader::Plain { buffer_bytes: PUBLISHED_BUFFER_LEN }) => "as published: no index, no checksum",
        Some(Reader::Plain { .. }) => "no index, no checksum",
        Some(Reader::PackStream | Reader::PackMemory) => "all checksums verified",
        None => "",
    }
}

fn bars(study: &Study) -> Bars {
    let readers = study.rows.iter().filter(|row| row.reader.is_some());
    let bars = readers.map(|row| {
        Bar::new(row.label.clone(), (row.bytes_per_s / 1e6).round()).detail(detail(row)).tone(tone(row))
    });
    let chart = Bars::new("Speed of reading all records", "MB/s", bars.collect());
    match limit(study) {
        Some(row) => chart.reference((row.bytes_per_s / 1e6).round(), "Limit of the device"),
        None => chart,
    }
}

fn table(study: &Study) -> Table {
    let table = Table::new(format!("Medians of {} rounds", study.method.runs))
        .column("", Align::Left)
        .column("Time", Align::Right)
        .column("Spread", Align::Right)
        .column("Processor", Align::Right)
        .column("Speed", Align::Right)
        .column("Speed-up", Align::Right)
        .column("Of device", Align::Right);
    study.rows.iter().fold(table, |table, row| {
        let cpu: f64 = row.runs.iter().map(|run| run.user_cpu_s + run.system_cpu_s).sum();
        let label = if row.reader.is_none() { "Limit of the device" } else { &row.label };
        let cells = [
            label.to_owned(),
            format!("{:.2} s", row.seconds),
            format!("{:.2} – {:.2}", row.summary.min, row.summary.max),
            match row.reader {
                Some(_) => format!("{:.2} s", cpu / row.runs.len().max(1) as f64),
                None => String::new(),
            },
            units::rate(row.bytes_per_s),
            units::factor(row.speedup),
            row.share_of_limit.as_ref().filter(|_| row.reader.is_some()).map_or(String::new(), share),
        ];
        table.row(cells, tone(row))
    })
}

fn share(share: &PairedRatio) -> String {
    units::percent(share.ratio)
}

fn published(study: &Study) -> Vec<Block> {
    let mut table = Table::new("One composite file against many files; published: 50,000 of 20,000 bytes")
        .column("", Align::Left)
        .column("One file", Align::Right)
        .column("Many files", Align::Right)
        .column("Ratio", Align::Right)
        .column("Extra per file", Align::Right);
    let files = find(study, |reader| *reader == Reader::Files { threads: 1 });
    let one_file = |wanted: fn(&Reader) -> bool| find(study, wanted);
    let here = [
        (
            "Here, plain file",
            one_file(|reader| *reader == Reader::Plain { buffer_bytes: PUBLISHED_BUFFER_LEN }),
        ),
        ("Here, pack", one_file(|reader| *reader == Reader::PackStream)),
    ];
    for (label, row) in here {
        let (Some(row), Some(files)) = (row, files) else { continue };
        let extra_ms = (files.seconds - row.seconds) / study.returned.records.max(1) as f64 * 1e3;
        let cells = [
            label.to_owned(),
            format!("{:.3} s", row.seconds),
            format!("{:.3} s", files.seconds),
            format!("{:.2}", row.speedup),
            format!("{extra_ms:.3} ms"),
        ];
        table = table.row(cells, Tone::Highlight);
    }
    for row in study.published {
        let cells = [
            format!("Published: {}, {}", row.file_system, row.system),
            format!("{:.3} s", row.one_file_s),
            format!("{:.3} s", row.files_s),
            format!("{:.2}", row.ratio),
            format!("{:.2} ms", row.extra_ms_per_file),
        ];
        table = table.row(cells, Tone::Muted);
    }
    let mut bars: Vec<Bar> = here
        .iter()
        .filter_map(|(label, row)| row.map(|row| Bar::new(*label, round(row.speedup)).tone(Tone::Highlight)))
        .collect();
    bars.extend(study.published.iter().map(|row| {
        Bar::new(format!("{}, {}", row.file_system, row.system), row.ratio)
            .detail("published")
            .tone(Tone::Muted)
    }));
    vec![
        Block::Bars(Bars::new("How many times as long the loose files take", "times", bars)),
        Block::Table(table),
    ]
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn conclusions(study: &Study) -> Table {
    let table = Table::new("")
        .column("Published", Align::Left)
        .column("Here", Align::Left)
        .column("Because", Align::Left);
    study.conclusions.iter().fold(table, |table, conclusion| {
        table.row([conclusion.published, conclusion.verdict.text(), &conclusion.here], Tone::Plain)
    })
}

fn method(study: &Study) -> Vec<Block> {
    let method = &study.method;
    let mut blocks = Vec::new();
    if !method.caches_dropped {
        blocks.push(Block::Note(method.cold.clone()));
    } else {
        blocks.push(Block::Text(method.cold.clone()));
    }
    blocks.push(Block::Text(
        "Then as much memory was touched and given back as a run needs, because virtual machines fetch memory that was \
         free for a while from their host, and that would be counted as reading. In every round each way of reading had \
         its turn, so that a device whose speed drifts does so for all of them; ratios were taken within rounds.\n\n\
         The time of a pack includes opening it and verifying every checksum. Loose files are read while the tree is \
         walked. What all ways returned was compared once, outside of the measured time: keys and bytes are the same."
            .to_owned(),
    ));
    let tried: Vec<String> =
        study.readers_tried.iter().map(|(threads, seconds)| format!("{threads}: {seconds:.2} s")).collect();
    let facts = [
        ("Data", method.data.clone()),
        ("Rounds", method.runs.to_string()),
        ("Limit", method.limit_tool.clone()),
        ("Files of the pack", units::bytes_exact(method.pack_bytes)),
        ("Readers tried", tried.join(", ")),
        (
            "Same bytes",
            format!("{} records, sum {:016x}", units::count(study.returned.records), study.returned.sum),
        ),
    ];
    blocks.push(Block::Facts(facts.map(|(name, value)| (name.to_owned(), value)).into()));
    blocks
}
