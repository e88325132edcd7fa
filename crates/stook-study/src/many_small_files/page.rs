//! The study of many small files as a page to show.

use stook::report::chart::{Bar, Bars};
use stook::report::page::{Block, Figure, Page};
use stook::report::stats::PairedRatio;
use stook::report::table::{Table, Tone};
use stook::report::units;

use super::published::pairs;
use super::readers::{PUBLISHED_BUFFER_LEN, Reader};
use super::{FILES, Findings, LIMIT, PLAIN, Row};
use crate::text::numbers;

pub(super) fn page(findings: &Findings) -> Page {
    Page::new("Many small files")
        .lead(&findings.verdict)
        .lead(
            "The same records were read as loose files, as one plain file and as a pack: cold, in turn, and all of \
             them returned the same bytes.",
        )
        .section("", vec![Block::Figures(figures(findings))])
        .section(format!("Reading {}, cold", units::bytes_decimal(findings.returned.bytes)), vec![
            Block::Bars(bars(findings)),
            Block::Table(table(findings)),
            Block::Text(
                "Spread is the least and the most of the rounds in seconds, processor what one round took of all \
                 processors together, speed-up how many times as fast as one reader of the loose files."
                    .to_owned(),
            ),
        ])
        .section("One file against many, there and here", vec![Block::Bars(ratios(findings))])
        .section("How it was measured", method(findings))
}

fn find(findings: &Findings, wanted: impl Fn(&Reader) -> bool) -> Option<&Row> {
    findings.rows.iter().find(|row| row.reader.as_ref().is_some_and(&wanted))
}

fn limit(findings: &Findings) -> Option<&Row> {
    findings.rows.iter().find(|row| row.reader.is_none())
}

fn parallel(findings: &Findings) -> Option<&Row> {
    find(findings, |reader| matches!(reader, Reader::Files { threads } if *threads > 1))
}

fn figures(findings: &Findings) -> Vec<Figure> {
    let Some(pack) = find(findings, |reader| *reader == Reader::PackStream) else { return Vec::new() };
    let share = pack.share_of_limit.as_ref().map(|share| units::percent(share.ratio));
    let mut figures = vec![
        Figure { value: units::factor(pack.speedup), label: "as fast as the files with one reader".into() },
        Figure {
            value: share.unwrap_or_default(),
            label: format!("of the speed of the device: {}", units::rate(pack.bytes_per_s)),
        },
    ];
    if let Some(parallel) = parallel(findings) {
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
        Some(FILES) => "one file after the other",
        Some(Reader::Numbered) => "as published: one file after the other",
        Some(Reader::Files { .. }) => "the best number of those tried",
        Some(Reader::Plain { buffer_bytes: PUBLISHED_BUFFER_LEN }) => "as published: no index, no checksum",
        Some(Reader::Plain { .. }) => "no index, no checksum",
        Some(Reader::PackStream | Reader::PackMemory) => "all checksums verified",
        None => "",
    }
}

fn bars(findings: &Findings) -> Bars {
    let readers = findings.rows.iter().filter(|row| row.reader.is_some());
    let bars = readers.map(|row| {
        Bar::new(row.label.clone(), (row.bytes_per_s / 1e6).round()).detail(detail(row)).tone(tone(row))
    });
    let chart = Bars::new("Speed of reading all records", "MB/s", bars.collect());
    match limit(findings) {
        Some(row) => chart.reference((row.bytes_per_s / 1e6).round(), LIMIT),
        None => chart,
    }
}

fn table(findings: &Findings) -> Table {
    let columns = ["", "Time", "Spread", "Processor", "Speed", "Speed-up", "Of device"];
    let table = numbers(format!("Medians of {} rounds", findings.method.runs), columns);
    findings.rows.iter().fold(table, |table, row| {
        let cpu: f64 = row.runs.iter().map(|run| run.user_cpu_s + run.system_cpu_s).sum();
        let label = if row.reader.is_none() { LIMIT } else { &row.label };
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

/// How many times as long the files take, ours and as it follows from the published seconds.
fn ratios(findings: &Findings) -> Bars {
    let files_s = find(findings, |reader| *reader == FILES).map(|row| row.seconds);
    let here =
        [("plain file", PLAIN), ("pack", Reader::PackStream)].into_iter().filter_map(|(label, reader)| {
            let ratio = files_s? / find(findings, |other| *other == reader)?.seconds;
            Some(Bar::new(format!("Here, {label}"), round(ratio)).tone(Tone::Highlight))
        });
    let there = pairs().into_iter().map(|pair| {
        Bar::new(pair.label, round(pair.files_s / pair.one_file_s))
            .detail("computed from published seconds")
            .tone(Tone::Muted)
    });
    Bars::new("How many times as long the loose files take", "times", here.chain(there).collect())
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn method(findings: &Findings) -> Vec<Block> {
    let method = &findings.method;
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
    let tried: Vec<String> = findings
        .readers_tried
        .iter()
        .map(|(threads, seconds)| format!("{threads}: {seconds:.2} s"))
        .collect();
    let facts = [
        ("Data", method.data.clone()),
        ("Rounds", method.runs.to_string()),
        ("Limit", method.limit_tool.clone()),
        ("Files of the pack", units::bytes_exact(method.pack_bytes)),
        ("Readers tried", tried.join(", ")),
        (
            "Same bytes",
            format!(
                "{} records, sum {:016x}",
                units::count(findings.returned.records),
                findings.returned.sum
            ),
        ),
    ];
    blocks.push(Block::Facts(facts.map(|(name, value)| (name.to_owned(), value)).into()));
    blocks
}
