//! The part of a page that is the same for all studies.

use stook::report::page::{Block, Page};
use stook::report::table::{Align, Table, Tone};

use super::{Beside, Frame, NONE};
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
         under “Here” are ours. A dash is what was not measured, or failed a check.",
        document.title, document.of, document.on
    ))];
    blocks.extend(frame.tables.iter().flat_map(beside).map(Block::Table));
    if !frame.plots.is_empty() {
        blocks.push(Block::Table(plots(frame)));
    }
    blocks
}

/// The row of a device that does not say of which kind it is.
const UNKNOWN_KIND: &str = "This device, kind unknown";

/// Columns that fit beside one another, on paper too.
const COLUMNS_MAX: usize = 10;

/// Printed figures with ours beside them, or below where there are too many columns.
pub(super) fn beside(table: &Beside) -> Vec<Table> {
    let printed = &table.printed;
    let caption = format!("{}: {}", printed.section, printed.caption);
    // Figures to the right, words to the left.
    let is_number = |column: usize| {
        let mut cells = printed.rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty());
        cells.all(|cell| cell.starts_with(|letter: char| letter.is_ascii_digit()) || *cell == "NA")
    };
    let columns = printed.columns.iter().enumerate();
    let there = columns.fold(Table::new(&caption), |head, (number, name)| {
        head.column(*name, if number > 0 && is_number(number) { Align::Right } else { Align::Left })
    });
    let ours =
        |head: Table| table.here_columns.iter().fold(head, |head, name| head.column(name, Align::Right));
    let own = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<String>>();
    let unknown = table.unknown_kind.iter().map(|here| {
        let name = [UNKNOWN_KIND.to_owned()].into_iter();
        let dashes = std::iter::repeat_n(NONE.to_owned(), printed.columns.len().saturating_sub(1));
        (name.chain(dashes).collect::<Vec<String>>(), here)
    });
    let rows = printed.rows.iter().map(|row| own(row)).zip(&table.here).chain(unknown);
    let rows: Vec<(Vec<String>, &Vec<String>)> = rows.collect();
    if printed.columns.len() + table.here_columns.len() <= COLUMNS_MAX {
        let add = |head: Table, (row, here): &(Vec<String>, &Vec<String>)| {
            head.row([row.as_slice(), here.as_slice()].concat(), Tone::Plain)
        };
        return vec![rows.iter().fold(ours(there), add)];
    }
    let there = rows.iter().fold(there, |head, (row, _)| head.row(row.clone(), Tone::Plain));
    let names = printed.columns.first().copied().unwrap_or_default();
    let here = ours(Table::new(format!("{caption}, here")).column(names, Align::Left));
    let here = rows.iter().fold(here, |head, (row, here)| {
        head.row([row.get(..1).unwrap_or_default(), here.as_slice()].concat(), Tone::Plain)
    });
    vec![there, here]
}

fn lefts(caption: &str, columns: impl IntoIterator<Item = &'static str>) -> Table {
    columns.into_iter().fold(Table::new(caption), |table, name| table.column(name, Align::Left))
}

fn plots(frame: &Frame) -> Table {
    let head = lefts("Its plots", ["Section", "What it shows", "Here"]);
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

#[cfg(test)]
mod tests {
    use super::super::Printed;
    use super::*;

    #[test]
    fn ours_stand_beside_what_is_printed_and_below_where_there_is_no_room() {
        let printed = Printed {
            section: "S",
            caption: "C",
            columns: &["Row", "A"],
            rows: &[&["one", "1"], &["two", "2"]],
        };
        let narrow = beside(&Beside::new(printed, ["Here"], |row| [row.to_string()]));
        assert_eq!(narrow.len(), 1);
        let rows: Vec<&[String]> = narrow[0].rows().collect();
        assert_eq!(rows, [["one", "1", "0"], ["two", "2", "1"]]);
        let unknown =
            Beside::new(printed, ["Here"], |row| [row.to_string()]).with_unknown_kind(Some(["7".to_owned()]));
        assert_eq!(beside(&unknown)[0].rows().nth(2).unwrap(), ["This device, kind unknown", "–", "7"]);
        let wide = beside(&Beside::new(printed, ["Here"; 9], |row| [(); 9].map(|()| row.to_string())));
        assert_eq!(wide.iter().map(|table| table.columns().count()).collect::<Vec<_>>(), [2, 10]);
        assert_eq!(wide[1].rows().nth(1).unwrap()[..2], ["two", "1"]);
    }
}
