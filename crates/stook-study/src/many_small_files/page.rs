//! The study of many small files as a page to show.

use stook::report::chart::{Bar, Bars};
use stook::report::page::{Block, Figure, Page};
use stook::report::stats::PairedRatio;
use stook::report::table::{Table, Tone};
use stook::report::units;

use super::published::pairs;
use super::readers::{PUBLISHED_BUFFER_LEN, Reader};
use super::tables::{further, on_file_systems, spread_of_rounds, times_of};
use super::{FILES, Findings, LIMIT, PLAIN, Row, loose_files};
use crate::text::{numbers, rounds, spread};

pub(super) fn page(findings: &Findings) -> Page {
    let page = Page::new("Many small files")
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
                 processors together, speed-up how many times as fast as one reader of the loose files. Read ÷ asked \
                 is what the devices below read meanwhile, for all programs, ÷ the bytes of the records."
                    .to_owned(),
            ),
        ])
        .section("One file against many, there and here", vec![Block::Bars(ratios(findings))])
        .section("What else the document speaks of", beside(findings));
    let page = match findings.file_systems.is_empty() {
        true => page,
        false => page.section("On other file systems", file_systems(findings)),
    };
    page.section("How it was measured", method(findings))
}

fn beside(findings: &Findings) -> Vec<Block> {
    let bars = findings.further.iter().filter_map(|row| {
        let bar = Bar::new(row.label, round(row.times.as_ref()?.ratio));
        Some(bar.detail(format!("as long as: {}", row.against?)))
    });
    let mut blocks = vec![
        Block::Text(format!(
            "These have rounds of their own ({}), each with what it is compared with: read-ahead of the kernel off \
             (`POSIX_FADV_RANDOM`), a tree that has aged, a file half of whose records are history, another program (`dd`) \
             that finds the cache warm or cold, and a program in Java. The time of Java is taken within the program, so \
             that its start is not part of it; of the processor it is.",
            units::count_of(findings.method.further_runs as u64, "round", "rounds")
        )),
        Block::Bars(Bars::new("How many times as long as what it is compared with", "times", bars.collect())),
        Block::Table(further(findings)),
    ];
    let left = findings
        .left_out
        .iter()
        .map(|left| (left.what.to_owned(), format!("not measured: {}", left.because)));
    let left: Vec<(String, String)> = left.collect();
    if !left.is_empty() {
        blocks.push(Block::Facts(left));
    }
    blocks
}

fn file_systems(findings: &Findings) -> Vec<Block> {
    let measured = || findings.file_systems.iter().filter_map(|on| Some((on.name, on.measured.as_ref()?)));
    let bar =
        |label: String, seconds: f64, tone| Bar::new(label, (seconds * 1000.0).round() / 1000.0).tone(tone);
    let bars = measured().flat_map(|(name, on)| {
        let one = bar(format!("{name}, one file"), on.one_file.seconds, Tone::Highlight);
        [one, bar(format!("{name}, files"), on.loose_files.seconds, Tone::Plain)]
    });
    let bars: Vec<Bar> = bars.collect();
    let files = measured().map(|(_, on)| on.files).max().unwrap_or_default();
    let mut blocks = vec![Block::Text(format!(
        "Each was made in a file below the work directory, on a loop device, one after the other; what they take \
         differs by what the device did at that time as well. On each {} files and the same records in one file were \
         written, and before every read it was unmounted, mounted again, and caches were emptied. Read ÷ asked is \
         counted at the devices, for all programs.",
        units::count(files)
    ))];
    if !bars.is_empty() {
        blocks.push(Block::Bars(Bars::new("Reading, cold", "s", bars)));
    }
    blocks.push(Block::Table(on_file_systems(findings)));
    let made = measured().map(|(name, on)| (name.to_owned(), format!("made with `{}`", on.made_with)));
    let made: Vec<(String, String)> = made.collect();
    if !made.is_empty() {
        blocks.push(Block::Facts(made));
    }
    blocks
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
    let one = find(findings, |reader| *reader == FILES);
    let share = pack.share_of_limit.as_ref().map(|share| units::percent(share.ratio));
    let mut figures = vec![
        Figure {
            value: units::factor(pack.speedup),
            label: format!("as fast as the files with one reader{}", in_rounds(pack, one)),
        },
        Figure {
            value: share.unwrap_or_default(),
            label: format!("of the speed of the device: {}", units::rate(pack.bytes_per_s)),
        },
    ];
    if let Some(parallel) = parallel(findings) {
        let value = units::factor(pack.speedup / parallel.speedup);
        let spread = in_rounds(pack, Some(parallel));
        let label = format!("as fast as the best parallel reader of the files{spread}");
        figures.insert(1, Figure { value, label });
    }
    figures
}

/// How many times as fast as another, in each of the rounds.
fn in_rounds(row: &Row, other: Option<&Row>) -> String {
    let others = other.into_iter().flat_map(|other| &other.runs);
    let times: Vec<f64> = others.zip(&row.runs).map(|(other, own)| other.seconds / own.seconds).collect();
    spread(&times, units::factor)
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
    let columns = ["", "Time", "Spread", "Processor", "Speed", "Speed-up", "Of device", "Read ÷ asked"];
    let table = numbers(format!("Medians of {}", rounds(findings.method.runs)), columns);
    findings.rows.iter().fold(table, |table, row| {
        let cpu: f64 = row.runs.iter().map(|run| run.user_cpu_s + run.system_cpu_s).sum();
        let label = if row.reader.is_none() { LIMIT } else { &row.label };
        let cells = [
            label.to_owned(),
            format!("{:.2} s", row.seconds),
            spread_of_rounds(row.runs.len(), &row.summary),
            match row.reader {
                Some(_) => format!("{:.2} s", cpu / row.runs.len().max(1) as f64),
                None => String::new(),
            },
            units::rate(row.bytes_per_s),
            units::factor(row.speedup),
            row.share_of_limit.as_ref().filter(|_| row.reader.is_some()).map_or(String::new(), share),
            times_of(row.read_amplification),
        ];
        table.row(cells, tone(row))
    })
}

fn share(share: &PairedRatio) -> String {
    units::percent(share.ratio)
}

/// How many times as long the files take, ours and as it follows from the published seconds.
fn ratios(findings: &Findings) -> Bars {
    let files_s = loose_files(&findings.rows).map(|row| row.seconds);
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
        ("Java", method.java.clone().unwrap_or_else(|| "not measured".to_owned())),
        ("Reads of the device", method.uncounted.clone().unwrap_or_else(|| "by its counters".to_owned())),
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
