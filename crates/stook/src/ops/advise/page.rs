//! An advice as a page in the style of the studies.

use super::predict::{Prediction, Way, WayKind};
use super::text::{advised, lines, name_of};
use super::{AdviceReport, TreeAdvice};
use crate::names::escaped;
use crate::report::chart::{Bar, Bars};
use crate::report::page::{Block, Page};
use crate::report::table::{Align, Table, Tone};
use crate::report::units;

/// One page for all that was looked at; the data is in it.
///
/// # Errors
/// When the data cannot be written as JSON.
pub fn page(reports: &[AdviceReport]) -> Result<Page, serde_json::Error> {
    let mut page = Page::new("Advice");
    for report in reports {
        let shown = escaped(report.path.as_bytes()).to_string();
        let mut blocks = Vec::new();
        match &report.tree {
            Some(tree) => {
                page = page.lead(format!("{shown}: {}", advised(tree)));
                of_tree(tree, &mut blocks);
            }
            None => {
                let why = report.archive.as_ref().map(|archive| archive.why.as_str()).unwrap_or_default();
                page = page.lead(format!("{shown}: {why}"));
            }
        }
        blocks.push(Block::Code(lines(report).join("\n")));
        page = page.section(shown, blocks);
    }
    page.footer(format!("stook {}", env!("CARGO_PKG_VERSION"))).data(&reports)
}

fn of_tree(tree: &TreeAdvice, blocks: &mut Vec<Block>) {
    match &tree.prediction {
        Some(prediction) => {
            blocks.push(Block::Bars(bars(prediction)));
            blocks.push(Block::Table(ways(prediction)));
        }
        None => blocks.push(Block::Note(
            "What was read may have been in memory: nothing is predicted of the device.".to_owned(),
        )),
    }
    let mut lengths = Table::new("Files by length").column("shorter than", Align::Left);
    for name in ["files", "bytes"] {
        lengths = lengths.column(name, Align::Right);
    }
    for row in &tree.facts.lengths {
        let cells = [
            units::bytes_binary(row.below_bytes),
            units::count(row.files.round() as u64),
            units::bytes_decimal(row.bytes as u64),
        ];
        lengths = lengths.row(cells, Tone::Plain);
    }
    blocks.push(Block::Table(lengths));
}

fn bars(prediction: &Prediction) -> Bars {
    let bar = |way: &Way| {
        let bar = Bar::new(name_of(way), way.bytes_per_s / 1e6)
            .detail(units::duration_ns((way.seconds.value * 1e9) as u64));
        match way.way {
            WayKind::Pack => bar.tone(Tone::Highlight),
            WayKind::MountedPack | WayKind::Merged => bar.tone(Tone::Muted),
            _ => bar,
        }
    };
    let bars = Bars::new("Reading all of it, cold", "MB/s", prediction.ways.iter().map(bar).collect());
    match prediction.device_bytes_per_s {
        Some(device) => bars.reference(device / 1e6, "what the device gives in order"),
        None => bars,
    }
}

fn ways(prediction: &Prediction) -> Table {
    let mut table = Table::new("Predicted, with intervals of 95%").column("way", Align::Left);
    for name in ["time", "from", "to", "gain", "from", "to"] {
        table = table.column(name, Align::Right);
    }
    let time = |seconds: f64| units::duration_ns((seconds * 1e9) as u64);
    for way in &prediction.ways {
        let (seconds, gain) = (way.seconds, way.speedup);
        let cells = [
            name_of(way),
            time(seconds.value),
            time(seconds.low),
            time(seconds.high),
            units::factor(gain.value),
            units::factor(gain.low),
            units::factor(gain.high),
        ];
        let tone = if way.way == WayKind::Pack { Tone::Highlight } else { Tone::Plain };
        table = table.row(cells, tone);
    }
    table
}
