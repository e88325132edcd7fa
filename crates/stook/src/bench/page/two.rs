//! [`two`]: two results side by side, as a page.

use super::super::compare::{Comparison, Measure, SettingDifference, Verdict};
use super::super::result::CellResult;
use super::{NONE, cell_name, charts};
use crate::report::page::{Block, Page};
use crate::report::table::{Align, Table, Tone};
use crate::report::units::{count, duration_ns};

/// More charts than this nobody looks at: the table has all.
const CHARTS_MAX: usize = 12;

/// A cell that both have.
#[derive(Debug, Clone)]
pub struct Pair<'a> {
    /// That of the first, and that of the second: of several results the first of each.
    pub cells: [&'a CellResult; 2],
    /// `None` where they cannot be compared.
    pub comparison: Option<Comparison>,
    /// The verdict in words, or why there is none.
    pub verdict: String,
}

/// The two sides.
#[derive(Debug, Clone)]
pub struct Sides<'a> {
    /// What they are called.
    pub names: [String; 2],
    /// The cells that both have.
    pub pairs: Vec<Pair<'a>>,
    /// Whatever else they differ in.
    pub differences: Vec<SettingDifference>,
    /// Cells that only the first has, and that only the second has.
    pub only_in: [Vec<String>; 2],
}

/// The page of two results side by side. A difference is called one only where its interval
/// excludes zero.
pub fn two(sides: &Sides<'_>) -> Page {
    let [first, second] = &sides.names;
    let mut page = Page::new(format!("Two measurements: {first} and {second}"))
        .lead(verdict(sides))
        .section("Every cell", vec![Block::Table(table(sides)), Block::Text(explained())]);
    let mut others = differences(sides);
    others.extend(only_in(sides));
    if !others.is_empty() {
        page = page.section("What else differs", others);
    }
    let names = (first.as_str(), second.as_str());
    let charts = sides.pairs.iter().take(CHARTS_MAX).map(|pair| chart(names, pair)).collect();
    page.section("Latencies side by side", charts)
}

fn verdict(sides: &Sides<'_>) -> String {
    let of = |verdict: Verdict| {
        let found = sides.pairs.iter().filter_map(|pair| pair.comparison.as_ref());
        found.filter(|comparison| comparison.verdict == verdict).count()
    };
    let all = sides.pairs.len();
    let (faster, slower) = (of(Verdict::Faster), of(Verdict::Slower));
    let same = of(Verdict::NoDifference);
    let unknown = all - faster - slower - same;
    if all == 0 {
        return "The two have no cell in common.".to_owned();
    }
    let mut parts = Vec::new();
    for (number, what) in [
        (faster, "the second is faster"),
        (slower, "the second is slower"),
        (same, "no difference is shown"),
        (unknown, "nothing can be said"),
    ] {
        if number > 0 {
            parts.push(format!("in {number} {what}"));
        }
    }
    let cells = if all == 1 { "the one cell" } else { "the cells" };
    format!("Of {cells} that both have ({all}): {}.", parts.join(", "))
}

fn explained() -> String {
    "A difference is called one only where its 95% interval excludes zero, five rounds on each side count, and a \
     change over time cannot be what makes it. Cells with a rate are compared by mean latency, others by requests \
     a second."
        .to_owned()
}

fn table(sides: &Sides<'_>) -> Table {
    let head = Table::new("").column("Cell", Align::Left);
    let columns = [&sides.names[0], &sides.names[1], "Difference", "95% interval"].map(str::to_owned);
    let head = columns.iter().fold(head, |head, name| head.column(name, Align::Right));
    let head = head.column("Verdict", Align::Left).stacked();
    sides.pairs.iter().fold(head, |table, pair| {
        let name = pair.cells.first().map_or_else(String::new, |cell| cell_name(&cell.workload));
        let tone = match pair.comparison.map(|found| found.verdict) {
            Some(Verdict::Faster | Verdict::Slower) => Tone::Highlight,
            Some(Verdict::NoDifference) => Tone::Plain,
            Some(Verdict::CannotTell) | None => Tone::Muted,
        };
        let figures = pair.comparison.as_ref().map_or([NONE; 4].map(str::to_owned), figures);
        table.row([vec![name], figures.into(), vec![pair.verdict.clone()]].concat(), tone)
    })
}

fn figures(found: &Comparison) -> [String; 4] {
    let percent = |share: f64| format!("{:+.1}%", share * 100.0);
    let mean = |mean: f64| match found.measure {
        Measure::Iops => format!("{}/s", count(mean.round() as u64)),
        Measure::LatencyMeanNs => duration_ns(mean.round() as u64),
    };
    let interval = match found.verdict {
        Verdict::CannotTell if !found.may_be_drift => NONE.to_owned(),
        _ => {
            let interval = found.difference.interval;
            format!("{} to {}", percent(interval.low), percent(interval.high))
        }
    };
    [mean(found.first_mean), mean(found.second_mean), percent(found.difference.value), interval]
}

fn differences(sides: &Sides<'_>) -> Vec<Block> {
    let head = Table::new("").column("", Align::Left);
    let head = sides.names.iter().fold(head, |head, name| head.column(name, Align::Left));
    let table = sides.differences.iter().fold(head, |table, found| {
        table.row([found.name.replace('_', " "), found.first.clone(), found.second.clone()], Tone::Plain)
    });
    if sides.differences.is_empty() { Vec::new() } else { vec![Block::Table(table)] }
}

fn only_in(sides: &Sides<'_>) -> Vec<Block> {
    let each = sides.names.iter().zip(&sides.only_in).filter(|(_, cells)| !cells.is_empty());
    each.map(|(name, cells)| Block::Text(format!("Only in {name}: {}.", cells.join("; ")))).collect()
}

fn chart((first, second): (&str, &str), pair: &Pair<'_>) -> Block {
    let [one, other] = pair.cells;
    let caption = format!("Latency that a share of the requests kept to, {}", cell_name(&one.workload));
    Block::Lines(charts::percentiles_of_two(&caption, [(first, one), (second, other)]))
}
