//! The study on a terminal: the tables, the conclusions and the verdict.

use stook::bench::BenchResult;
use stook::bench::gates::State;

use super::{Findings, beside, explained, states, tables};
use crate::Text;

pub(super) fn text(findings: &Findings) -> Vec<Text> {
    let result = &findings.result;
    let mut text: Vec<Text> =
        result.about().into_iter().chain(states::doubt(result)).map(Text::Line).collect();
    let title = "The device in four lines: sequential and random reads, Q at once";
    text.extend(Text::titled(title, tables::summary(findings).for_terminal()));
    text.push(Text::line(format_args!("\n{}", explained::SIGNS)));
    let grids = [
        ("Reads one at a time, of growing blocks, at random places and in order", tables::blocks(findings)),
        (
            "Reads of 16 KiB at growing depth, at random places and in order (X·W ÷ N is 1 where Little's law holds)",
            tables::depths(findings),
        ),
        (
            "Reads and writes of 16 KiB mixed, one at a time, at random places and in order",
            tables::mixes(findings),
        ),
        ("Random reads by block and depth, MB/s", tables::map(findings)),
    ];
    text.extend(grids.into_iter().flat_map(|(title, grid)| Text::titled(title, grid.for_terminal())));
    let left_out = findings.map.iter().filter_map(|field| field.left_out.as_ref());
    text.extend(left_out.map(|reason| Text::line(format_args!("– {reason}"))));
    text.extend(fitted(findings));
    text.extend(others(findings));
    text.extend(notes(result));
    text
}

/// What is beside the cells.
fn others(findings: &Findings) -> Vec<Text> {
    let title = "Little's law: X·W, and what it is of the depth";
    let mut text = Vec::from(Text::titled(title, tables::little(findings).for_terminal()));
    if !findings.unstated.is_empty() {
        let title =
            "What the document does not state: the published cells past the page cache, and in other ways";
        text.extend(Text::titled(title, tables::unstated(findings).for_terminal()));
        let differ = findings.unstated.iter().map(beside::differs);
        text.extend(differ.map(|line| Text::line(format_args!("\n{line}"))));
    }
    text.extend(Text::titled("Advertised and reached", tables::advertised(findings).for_terminal()));
    text.push(Text::line(format_args!("\n{}", beside::long_runs(&findings.long_runs))));
    let title = "What may be written, for each TB of capacity";
    text.extend(Text::titled(title, tables::endurance(findings).for_terminal()));
    text.push(Text::line(format_args!("\n{}", findings.wear.said())));
    let title = "Mean latency of reads on a simulated hard disk, which is no measurement";
    text.extend(Text::titled(title, tables::simulated(findings).for_terminal()));
    text.push(Text::line(format_args!("\n{}", beside::simulated(findings))));
    text
}

fn fitted(findings: &Findings) -> Vec<Text> {
    let fits = &findings.fits;
    let mut text = Vec::from(Text::titled("Fitted", tables::fitted(findings).for_terminal()));
    let refused = [fits.block.refused(), fits.depth.refused(), fits.mix.refused()];
    text.extend(refused.into_iter().flatten().map(|why| Text::line(format_args!("not fitted: {why}"))));
    if fits.depth.model().is_some() {
        text.extend(Text::titled("Which depth to use", tables::answers(findings).for_terminal()));
    }
    if fits.mix.model().is_some() {
        let title = "Mixes, predicted from reads alone and writes alone";
        text.extend(Text::titled(title, tables::predictions(findings).for_terminal()));
    }
    text
}

fn notes(result: &BenchResult) -> Vec<Text> {
    let mut text = Vec::new();
    for (state, title) in [
        (State::Invalid, "Not valid: shown, and used for nothing"),
        (State::Unverified, "Unverified: used, and marked"),
    ] {
        let notes = states::notes(result, state);
        if !notes.is_empty() {
            text.push(Text::line(format_args!("\n{title}\n")));
            text.extend(notes.iter().map(|note| Text::line(format_args!("  {note}"))));
        }
    }
    text
}
