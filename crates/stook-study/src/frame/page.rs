//! The part of a page that is the same for all studies.

use stook::report::page::{Block, Page};
use stook::report::table::{Align, Table, Tone};

use super::{Beside, Frame};
use crate::text::CONCLUDED;

/// The page of a study with what all of them have at the end.
pub(crate) fn framed(page: Page, frame: &Frame) -> Page {
    let sections = [
        ("What was published, and what is here", published(frame)),
        ("What was done there, and what is done here", procedure(frame)),
        (CONCLUDED, conclusions(frame)),
        ("Where the document contradicts itself", contradictions(frame)),
        ("What we measured elsewhere", elsewhere(frame)),
        ("On what", vec![Block::Facts(facts(frame))]),
    ];
    let sections = sections.into_iter().filter(|(_, blocks)| !blocks.is_empty());
    sections.fold(page, |page, (heading, blocks)| page.section(heading, blocks))
}

fn published(frame: &Frame) -> Vec<Block> {
    let document = &frame.document;
    let mut blocks = vec![Block::Text(format!(
        "The document is “{}” ({}). {} Its figures are as it prints them, with the section that they stand in; those \
         under “Here” are ours. A dash is what was not measured.",
        document.title, document.of, document.on
    ))];
    blocks.extend(frame.tables.iter().map(|table| Block::Table(beside(table))));
    if !frame.plots.is_empty() {
        blocks.push(Block::Table(plots(frame)));
    }
    blocks
}

pub(super) fn beside(table: &Beside) -> Table {
    let printed = &table.printed;
    let head = Table::new(format!("{}: {}", printed.section, printed.caption));
    // Figures to the right, words to the left.
    let is_number = |column: usize| {
        let mut cells = printed.rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty());
        cells.all(|cell| cell.starts_with(|letter: char| letter.is_ascii_digit()) || *cell == "NA")
    };
    let columns = printed.columns.iter().enumerate();
    let head = columns.fold(head, |head, (number, name)| {
        head.column(*name, if number > 0 && is_number(number) { Align::Right } else { Align::Left })
    });
    let head = table.here_columns.iter().fold(head, |head, name| head.column(name, Align::Right));
    printed.rows.iter().zip(&table.here).fold(head, |head, (row, here)| {
        let cells = row.iter().map(|cell| (*cell).to_owned()).chain(here.iter().cloned());
        head.row(cells, Tone::Plain)
    })
}

fn lefts(caption: &str, columns: impl IntoIterator<Item = &'static str>) -> Table {
    columns.into_iter().fold(Table::new(caption), |table, name| table.column(name, Align::Left))
}

fn plots(frame: &Frame) -> Table {
    let head = lefts("Its plots, whose figures are not printed", ["Section", "What it shows", "Here"]);
    frame.plots.iter().fold(head, |table, plot| table.row([plot.section, plot.shows, plot.here], Tone::Plain))
}

fn procedure(frame: &Frame) -> Vec<Block> {
    let head = lefts("", ["There", "Here", "Differs because"]);
    let table = frame.procedure.iter().fold(head, |table, step| {
        let because = step.differs_because.unwrap_or("the same");
        table.row([step.published, &step.here, because], Tone::Plain)
    });
    vec![Block::Table(table)]
}

fn conclusions(frame: &Frame) -> Vec<Block> {
    let head = lefts(
        "The same check is made on the figures of the document and on ours",
        ["The document concludes", "Checked", "By its own figures", "Here"],
    );
    let table = frame.conclusions.iter().fold(head, |table, one| {
        let said = |verdict: &str, figures: &str| format!("{verdict}: {figures}");
        let cells = [
            format!("{} ({})", one.published, one.section),
            one.check.to_owned(),
            said(one.verdict_of_published.text_of_document(), &one.figures_of_published),
            said(one.verdict.text(), &one.here),
        ];
        table.row(cells, Tone::Plain)
    });
    vec![Block::Table(table)]
}

fn contradictions(frame: &Frame) -> Vec<Block> {
    let head = lefts("", ["Section", "It says", "But"]);
    let rows = frame.contradictions.iter();
    let table = rows.fold(head, |table, one| table.row([one.section, one.says, one.but], Tone::Plain));
    if frame.contradictions.is_empty() { Vec::new() } else { vec![Block::Table(table)] }
}

fn elsewhere(frame: &Frame) -> Vec<Block> {
    let text = |(what, written_in): (&str, &str)| Block::Text(format!("{what} (`{written_in}`)"));
    frame.elsewhere.iter().map(|one| text((one.what, one.written_in))).collect()
}

/// What is said twice is said in the words of the study.
fn facts(frame: &Frame) -> Vec<(String, String)> {
    let general = frame.environment.facts().into_iter();
    let general = general.filter(|(name, _)| frame.facts.iter().all(|(other, _)| other != name));
    frame.facts.iter().cloned().chain(general).collect()
}
