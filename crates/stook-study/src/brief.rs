//! What a study says first on a terminal: the answer, the figures that are to be seen first, and
//! how many conclusions hold.

use stook::report::page::Figure;
use stook::report::table::{Align, Table, Tone};

use crate::Text;
use crate::frame::Frame;

/// All of it, for one study.
pub(crate) fn brief(frame: &Frame, figures: &[Figure]) -> Vec<Text> {
    let mut text = vec![Text::line(&frame.verdict)];
    if !figures.is_empty() {
        text.extend([Text::line(""), Text::Table(table(figures))]);
    }
    text.push(Text::line(format_args!("\n{}", counted(frame.counts()))));
    text
}

/// Figures with what they mean, without headers.
pub(crate) fn table(figures: &[Figure]) -> Table {
    let head = Table::new("").column("", Align::Right).column("", Align::Left);
    figures.iter().fold(head, |table, figure| {
        table.row([format!("  {}", figure.value), figure.label.clone()], Tone::Plain)
    })
}

/// How many conclusions of the document hold here, do not, and were not measured.
pub(crate) fn counted([holds, does_not_hold, not_measured]: [usize; 3]) -> String {
    let verb = |count, one, many| if count == 1 { one } else { many };
    format!(
        "Conclusions of the document: {holds} {} here, {does_not_hold} {}, {not_measured} {}.",
        verb(holds, "holds", "hold"),
        verb(does_not_hold, "does not", "do not"),
        verb(not_measured, "was not measured", "were not measured"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_counted_in_a_sentence() {
        assert_eq!(
            counted([7, 1, 0]),
            "Conclusions of the document: 7 hold here, 1 does not, 0 were not measured."
        );
        assert_eq!(
            counted([1, 2, 1]),
            "Conclusions of the document: 1 holds here, 2 do not, 1 was not measured."
        );
    }
}
