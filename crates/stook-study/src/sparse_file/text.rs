//! The study of sparse files on a terminal.

use stook::report::table::Tone;

use super::Findings;
use crate::Text;
use crate::text::{duration_s, numbers};

pub(super) fn text(findings: &Findings) -> Vec<Text> {
    let measured = findings.rows.iter().fold(numbers("", ["", "Stook", "svfsc, Python"]), |table, row| {
        let theirs = row.svfsc_python_s.map(duration_s).unwrap_or_default();
        table.row([row.work.label(), duration_s(row.seconds), theirs], Tone::Plain)
    });
    vec![Text::Table(measured)]
}
