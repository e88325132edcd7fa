//! The study on a terminal.

use stook::bench::gates::State;

use super::tables::{self, Grid};
use super::{Study, explained, states};
use crate::output::{Output, OutputError};

/// Prints the tables, the conclusions and the verdict.
///
/// # Errors
/// When it cannot be written.
pub fn print(study: &Study, output: &mut Output) -> Result<(), OutputError> {
    let result = &study.result;
    result.about().iter().try_for_each(|line| output.line(line))?;
    states::doubt(result).iter().try_for_each(|doubt| output.line(doubt))?;
    table(
        output,
        "The device in four lines: sequential and random reads, Q at once",
        &tables::summary(study),
    )?;
    output.line(format_args!("\n{}", explained::SIGNS))?;
    table(output, "Reads one at a time, of growing blocks", &tables::blocks(study))?;
    table(
        output,
        "Reads of 16 KiB at growing depth (X·W ÷ N is 1 where Little's law holds)",
        &tables::depths(study),
    )?;
    table(output, "Reads and writes of 16 KiB mixed, one at a time", &tables::mixes(study))?;
    table(output, "Random reads by block and depth, MB/s", &tables::map(study))?;
    for field in &study.map {
        if let Some(reason) = &field.left_out {
            output.line(format_args!("– {reason}"))?;
        }
    }
    table(output, "Fitted", &tables::fitted(study))?;
    let fits = &study.fits;
    for refused in [fits.block.refused(), fits.depth.refused(), fits.mix.refused()].into_iter().flatten() {
        output.line(format_args!("not fitted: {refused}"))?;
    }
    if fits.depth.model().is_some() {
        table(output, "Which depth to use", &tables::answers(study))?;
    }
    if fits.mix.model().is_some() {
        table(output, "Mixes, predicted from reads alone and writes alone", &tables::predictions(study))?;
    }
    for (state, title) in [
        (State::Invalid, "Not valid: shown, and used for nothing"),
        (State::Unverified, "Unverified: used, and marked"),
    ] {
        let notes = states::notes(result, state);
        if !notes.is_empty() {
            output.line(format_args!("\n{title}\n"))?;
            notes.iter().try_for_each(|note| output.line(format_args!("  {note}")))?;
        }
    }
    output.line("\nWhat was concluded then, and what holds here\n")?;
    for conclusion in &study.conclusions {
        output.line(format_args!("  {}\n    check: {}", conclusion.published, conclusion.check))?;
        let (then, here) = (conclusion.verdict_of_published.text(), conclusion.verdict.text());
        output.line(format_args!("    its own figures: {then}. {}", conclusion.figures_of_published))?;
        output.line(format_args!("    here: {here}. {}", conclusion.here))?;
    }
    output.line(format_args!("\n{}", study.verdict))
}

fn table(output: &mut Output, title: &str, grid: &Grid) -> Result<(), OutputError> {
    output.line(format_args!("\n{title}\n"))?;
    output.table(&grid.for_terminal())
}
