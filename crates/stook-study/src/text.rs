//! What a study says on a terminal, and the words that studies share.

use std::fmt;
use std::iter::repeat;

use stook::report::table::{Align, Table};
use stook::report::units::{self, duration_ns};

/// A piece of the output of a study.
#[derive(Debug, Clone)]
pub enum Text {
    /// A line, or several with line ends between.
    Line(String),
    /// A table. Its caption is not shown.
    Table(Table),
}

impl Text {
    /// A line.
    pub(crate) fn line(text: impl fmt::Display) -> Self {
        Self::Line(text.to_string())
    }

    /// A table under its title, with an empty line before and after the title.
    pub(crate) fn titled(title: &str, table: Table) -> [Self; 2] {
        [Self::Line(format!("\n{title}\n")), Self::Table(table)]
    }
}

/// A table whose first column is text, and whose others are numbers.
pub(crate) fn numbers<'a>(caption: impl Into<String>, columns: impl IntoIterator<Item = &'a str>) -> Table {
    let columns = columns.into_iter().zip([Align::Left].into_iter().chain(repeat(Align::Right)));
    columns.fold(Table::new(caption), |table, (name, align)| table.column(name, align))
}

/// The least and the most of several figures; nothing of one, or of some that look the same.
pub(crate) fn spread(all: &[f64], shown: impl Fn(f64) -> String) -> String {
    let least = all.iter().copied().min_by(f64::total_cmp);
    let ends = least.zip(all.iter().copied().max_by(f64::total_cmp));
    let ends = ends.map(|(least, most)| (shown(least), shown(most)));
    ends.filter(|(least, most)| least != most)
        .map_or_else(String::new, |(least, most)| format!(" ({least} to {most})"))
}

/// `1 round`, `3 rounds`.
pub(crate) fn rounds(count: usize) -> String {
    units::count_of(count as u64, "round", "rounds")
}

/// The title over conclusions, on the terminal and on pages.
pub(crate) const CONCLUDED: &str = "What was concluded then, and what holds here";

/// A time as people read it.
pub(crate) fn duration_s(seconds: f64) -> String {
    if seconds.is_finite() { duration_ns((seconds.max(0.0) * 1e9).round() as u64) } else { "–".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_said_where_there_is_one() {
        let shown = |figure: f64| format!("{figure:.1}");
        assert_eq!(spread(&[2.0, 1.0, 3.0], shown), " (1.0 to 3.0)");
        assert_eq!(spread(&[1.0, 1.04], shown), "");
        assert_eq!((spread(&[1.0], shown), spread(&[], shown)), (String::new(), String::new()));
    }
}
