//! What a study says on a terminal, and the words that studies share.

use std::fmt;
use std::iter::repeat;

use stook::report::table::{Align, Table};
use stook::report::units::duration_ns;

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

/// The title over conclusions, on the terminal and on pages.
pub(crate) const CONCLUDED: &str = "What was concluded then, and what holds here";

/// A time as people read it.
pub(crate) fn duration_s(seconds: f64) -> String {
    if seconds.is_finite() { duration_ns((seconds.max(0.0) * 1e9).round() as u64) } else { "–".to_owned() }
}
