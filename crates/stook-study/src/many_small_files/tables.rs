//! The tables that the page and the text of the study of many small files both have.

use stook::report::stats::Summary;
use stook::report::table::{Table, Tone};
use stook::report::units;

use super::Findings;
use super::on::OnMeasured;
use crate::frame::NONE;
use crate::text::numbers;

/// A ratio, where it is known.
pub(super) fn times_of(times: Option<f64>) -> String {
    times.map_or_else(|| NONE.to_owned(), |times| format!("{times:.2}"))
}

/// The least and the most of the rounds; of one there is no spread.
pub(super) fn spread_of_rounds(rounds: usize, summary: &Summary) -> String {
    match rounds {
        0 | 1 => NONE.to_owned(),
        _ => format!("{:.3} – {:.3}", summary.min, summary.max),
    }
}

/// What has rounds of its own.
pub(super) fn further(findings: &Findings) -> Table {
    let columns = ["", "Time", "Spread", "Processor", "Read ÷ asked", "Times", "as long as"];
    findings.further.iter().fold(numbers("", columns), |table, row| {
        let cpu_s: f64 = row.runs.iter().map(|run| run.user_cpu_s + run.system_cpu_s).sum();
        let cells = [
            row.label.to_owned(),
            format!("{:.3} s", row.seconds),
            spread_of_rounds(row.runs.len(), &row.summary),
            format!("{:.2} s", cpu_s / row.runs.len().max(1) as f64),
            times_of(row.read_amplification),
            row.times.as_ref().map_or_else(String::new, |times| format!("{:.2}", times.ratio)),
            row.against.unwrap_or_default().to_owned(),
        ];
        table.row(cells, if row.against.is_some() { Tone::Plain } else { Tone::Muted })
    })
}

/// The file systems that were asked for.
pub(super) fn on_file_systems(findings: &Findings) -> Table {
    let columns = [
        "",
        "Clusters",
        "One file",
        "Files",
        "Files ÷ one",
        "Read ÷ asked, one file",
        "Read ÷ asked, files",
        "Driver",
    ];
    findings.file_systems.iter().fold(numbers("", columns), |table, on| match &on.measured {
        Some(measured) => table.row(cells_of(on.name, measured), Tone::Plain),
        None => {
            let because = format!("not to be had here: {}", on.not_had.as_deref().unwrap_or_default());
            let none = [NONE; 6].map(str::to_owned);
            table.row([vec![on.name.to_owned()], none.into(), vec![because]].concat(), Tone::Muted)
        }
    })
}

fn cells_of(name: &str, on: &OnMeasured) -> Vec<String> {
    let (one, files) = (&on.one_file, &on.loose_files);
    vec![
        name.to_owned(),
        units::bytes_binary(on.cluster_bytes),
        format!("{:.3} s", one.seconds),
        format!("{:.3} s", files.seconds),
        format!("{:.2}", files.seconds / one.seconds),
        times_of(one.read_amplification),
        times_of(files.read_amplification),
        on.driver.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: “0.288 – 0.288”.
    #[test]
    fn one_round_has_no_spread() {
        let summary = |seconds: &[f64]| Summary::of(seconds).unwrap();
        assert_eq!(spread_of_rounds(1, &summary(&[0.288])), NONE);
        assert_eq!(spread_of_rounds(2, &summary(&[0.5, 0.288])), "0.288 – 0.500");
    }
}
