//! The study of many small files on a terminal.

use stook::report::table::{Table, Tone};
use stook::report::units;

use super::tables::{further, on_file_systems, times_of};
use super::{Findings, LIMIT};
use crate::Text;
use crate::text::{numbers, rounds};

pub(super) fn text(findings: &Findings) -> Vec<Text> {
    let method = &findings.method;
    let mut text = vec![
        Text::line(format_args!("\n{}, read cold, {}", method.data, rounds(method.runs))),
        Text::line(format_args!("Limit: {}\n", method.limit_tool)),
        Text::Table(measured(findings)),
    ];
    let records = units::count(findings.returned.records);
    text.push(Text::line(format_args!("\nAll of them returned the same {records} records.")));
    text.push(Text::line(&method.cold));
    if let Some(why) = &method.uncounted {
        text.push(Text::line(format_args!("What devices read is not known: {why}.")));
    }
    let title = format!("What else the document speaks of, {}", rounds(method.further_runs));
    text.extend(Text::titled(&title, further(findings)));
    text.extend(
        findings
            .left_out
            .iter()
            .map(|left| Text::line(format_args!("{}: not measured, {}.", left.what, left.because))),
    );
    if !findings.file_systems.is_empty() {
        text.extend(Text::titled("On other file systems, each on a loop device", on_file_systems(findings)));
    }
    text
}

fn measured(findings: &Findings) -> Table {
    let columns =
        ["", "seconds", "least", "most", "speed", "against one reader", "of the device", "read ÷ asked"];
    findings.rows.iter().fold(numbers("", columns), |table, row| {
        let share = row.share_of_limit.as_ref().filter(|_| row.reader.is_some());
        let cells = [
            if row.reader.is_none() { LIMIT.to_owned() } else { row.label.clone() },
            format!("{:.3}", row.seconds),
            format!("{:.3}", row.summary.min),
            format!("{:.3}", row.summary.max),
            units::rate(row.bytes_per_s),
            units::factor(row.speedup),
            share.map_or(String::new(), |share| units::percent(share.ratio)),
            times_of(row.read_amplification),
        ];
        table.row(cells, Tone::Plain)
    })
}
