//! The page of a search for the highest rate.

use super::super::gates::State;
use super::super::slo::{SloCell, SloResult, Trial};
use super::{NONE, cell_name};
use crate::report::chart::{Axis, Lines, Marker, Point, Series, TickFormat};
use crate::report::page::{Block, Figure, Page};
use crate::report::table::{Align, Table, Tone};
use crate::report::units::{count_of, duration_ns, significant};

/// The page of a search.
pub fn slo_page(result: &SloResult) -> Page {
    let objective = result.objective;
    let mut page = Page::new(format!("The highest rate with {objective}"));
    for line in result.about() {
        page = page.lead(line);
    }
    if result.interrupted {
        page = page.lead("It was interrupted: cells that were not finished are missing.");
    }
    page = page.lead(
        "Requests arrive by themselves, and each is timed from the moment it was due, however late it began. What \
         never began is longer than any latency.",
    );
    for cell in &result.cells {
        page = page.section(cell_name(&cell.workload), section(cell, result));
    }
    page
}

fn section(cell: &SloCell, result: &SloResult) -> Vec<Block> {
    let rate = cell.highest_rate_per_s;
    let interval = |rate: &crate::report::least_squares::Estimate| {
        format!("{} to {}", significant(rate.interval.low), significant(rate.interval.high))
    };
    let rounds = count_of(u64::from(cell.rounds), "round", "rounds");
    let label = match &rate {
        Some(rate) => format!("requests a second ({}; {rounds})", interval(rate)),
        None => "requests a second: no rate that was tried kept it".to_owned(),
    };
    let name = result.objective.statistic.name();
    let figures = vec![
        Figure { value: rate.map_or("none".to_owned(), |rate| significant(rate.value)), label },
        Figure {
            value: cell.latency_ns.map_or(NONE.to_owned(), duration_ns),
            label: format!("{name} at the highest that kept it"),
        },
        Figure {
            value: cell.state.as_str().to_owned(),
            label: "by the checks of the runs that decided".to_owned(),
        },
    ];
    let mut blocks = vec![Block::Figures(figures)];
    for limit in &cell.limits {
        blocks.push(Block::Text(format!("What kept it from being higher: {}.", limit.text())));
    }
    blocks.extend(cell.reasons.iter().map(|reason| Block::Note(reason.clone())));
    blocks.push(Block::Lines(chart(cell, result)));
    let summary = format!("All {} rates that were tried", cell.trials.len());
    blocks.push(Block::Folded { summary, blocks: vec![Block::Table(table(cell, name))] });
    blocks
}

fn chart(cell: &SloCell, result: &SloResult) -> Lines {
    let of = |is_kept: bool| -> Vec<Point> {
        let trials = cell.trials.iter().filter(|trial| trial.is_kept == is_kept);
        trials.filter_map(|trial| Some(Point::new(trial.rate_per_s, trial.latency_ns? as f64))).collect()
    };
    let name = result.objective.statistic.name();
    let series = [("Kept", of(true), Tone::Highlight), ("Missed", of(false), Tone::Muted)];
    let series = series.into_iter().filter(|(_, points, _)| !points.is_empty());
    let series = series.map(|(name, points, tone)| Series::new(name, points).tone(tone).scatter()).collect();
    let y = Axis::logarithmic(name).format(TickFormat::DurationNs);
    let caption = format!("{name} against the rate, one point for each that was tried");
    let lines = Lines::new(caption, Axis::linear("Requests/s that were due"), y, series);
    let objective_ns = result.objective.latency_ns;
    let lines =
        lines.marker(Marker::y(objective_ns as f64, format!("at most {}", duration_ns(objective_ns))));
    match cell.highest_rate_per_s {
        Some(rate) => lines.marker(Marker::x(rate.value, format!("{} a second", significant(rate.value)))),
        None => lines,
    }
}

fn table(cell: &SloCell, name: &str) -> Table {
    let head = Table::new("").column("Round", Align::Right);
    let head = ["Due/s", "Done/s", name, "Never began"]
        .iter()
        .fold(head, |head, column| head.column(*column, Align::Right));
    let head = head.column("Kept", Align::Left).column("State", Align::Left).stacked();
    cell.trials.iter().fold(head, |table, trial| {
        let Trial { round, rate_per_s, rate_reached_per_s, latency_ns, unserved, is_kept, state, .. } = trial;
        let limit = trial.limit.map_or("yes", |limit| limit.text());
        let cells = [
            (round + 1).to_string(),
            significant(*rate_per_s),
            significant(*rate_reached_per_s),
            latency_ns.map_or(NONE.to_owned(), duration_ns),
            unserved.to_string(),
            if *is_kept { "yes".to_owned() } else { format!("no: {limit}") },
            state.as_str().to_owned(),
        ];
        table.row(cells, if *state == State::Invalid { Tone::Muted } else { Tone::Plain })
    })
}
