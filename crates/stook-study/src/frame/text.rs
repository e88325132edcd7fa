//! The part of the output on a terminal that is the same for all studies.

use super::Frame;
use super::page::beside;
use crate::Text;
use crate::text::CONCLUDED;

/// The printed tables with ours, conclusions, contradictions and the answer.
pub(crate) fn lines(frame: &Frame) -> Vec<Text> {
    let document = &frame.document;
    let tables = frame.tables.iter().flat_map(|table| {
        let title = format!("{}: {}", table.printed.section, table.printed.caption);
        beside(table).into_iter().flat_map(move |table| Text::titled(&title, table))
    });
    let mut text = vec![Text::line(format_args!("\nPublished: “{}” ({}).", document.title, document.of))];
    text.extend(tables);
    text.push(Text::line(format_args!("\n{CONCLUDED}\n")));
    for one in &frame.conclusions {
        let (then, here) = (one.verdict_of_published.text_of_document(), one.verdict.text());
        text.push(Text::line(format_args!(
            "  {} ({})\n    check: {}",
            one.published, one.section, one.check
        )));
        text.push(Text::line(format_args!("    its own figures: {then}. {}", one.figures_of_published)));
        text.push(Text::line(format_args!("    here: {here}. {}", one.here)));
    }
    if !frame.contradictions.is_empty() {
        text.push(Text::line("\nWhere the document contradicts itself\n"));
        let lines = frame.contradictions.iter();
        text.extend(
            lines
                .map(|one| Text::line(format_args!("  {}: {}\n    but: {}", one.section, one.says, one.but))),
        );
    }
    text.push(Text::line(format_args!("\n{}", frame.verdict)));
    text
}
