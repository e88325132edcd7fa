//! The study of sparse files on a terminal.

use stook::report::table::{Align, Table, Tone};
use stook::report::units;

use super::{Findings, Row, conclusions, locks};
use crate::Text;
use crate::frame::NONE;
use crate::text::{duration_s, numbers};

pub(super) fn text(findings: &Findings) -> Vec<Text> {
    // Without a package for Python there is one column, and one line that says what to do.
    let columns = if findings.has_python() { 5 } else { 2 };
    let head = ["", "Stook", "Stook, Python", "÷", "svfsc, Python"];
    let head = numbers("", head.into_iter().take(columns));
    let row = |row: &Row| [vec![row.work.label()], python(row)].concat().into_iter().take(columns);
    let measured = findings.rows.iter().fold(head, |table, one| table.row(row(one), Tone::Plain));
    let mut text = vec![Text::Table(measured)];
    match findings.has_python() {
        true => text.extend(findings.packages().into_iter().map(Text::Line)),
        false => text.push(Text::Line(findings.without_python())),
    }
    text.extend(Text::titled("One question over more and more blocks", growth(findings)));
    text.extend(Text::titled("What locks cost", locks::table(findings)));
    text
}

/// Times from Rust and from Python.
pub(super) fn python(row: &Row) -> Vec<String> {
    let none = || NONE.to_owned();
    vec![
        duration_s(row.seconds),
        row.python_s.map_or_else(none, duration_s),
        conclusions::of_native(row).map_or_else(none, units::factor),
        row.svfsc_python_s.map_or_else(none, duration_s),
    ]
}

/// How questions grow.
pub(super) fn growth(findings: &Findings) -> Table {
    // Two columns of words, and then figures.
    let head = Table::new("").column("", Align::Left).column("", Align::Left);
    let figures = ["Each block more", "R²", "Power of their number", "From a line, up to"].into_iter();
    let head = figures.fold(head, |table, name| table.column(name, Align::Right));
    findings.growth.iter().fold(head, |table, growth| {
        let cells = [
            growth.over.label().to_owned(),
            growth.by.label().to_owned(),
            format!("{:.1} ns", growth.slope_s * 1e9),
            format!("{:.3}", growth.r_squared),
            format!("{:.2}", growth.exponent),
            units::percent(growth.residual_max),
        ];
        table.row(cells, Tone::Plain)
    })
}

impl Findings {
    /// Whether anything was measured from Python.
    pub(super) fn has_python(&self) -> bool {
        self.stook_python.version.is_some() || self.svfsc.version.is_some()
    }

    /// That nothing was measured from Python, and how it is.
    pub(super) fn without_python(&self) -> String {
        format!(
            "Nothing was measured from Python. {} An interpreter that has stook or svfsc is named with `stook study \
             sparse-file --python .venv/bin/python`.",
            self.stook_python.why_not()
        )
    }

    /// What was measured from Python, or why it was not.
    pub(super) fn packages(&self) -> [String; 2] {
        let said = |name: &str, installed: &super::Installed| match &installed.version {
            Some(version) => {
                format!("{name} {version} was measured from Python, in turn with Stook from Rust.")
            }
            None => installed.why_not(),
        };
        [said("Our own package, stook", &self.stook_python), said("svfsc", &self.svfsc)]
    }
}
