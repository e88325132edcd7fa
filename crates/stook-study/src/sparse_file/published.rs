//! The performance figures in the documentation of svfsc, verbatim. Most of its results are plots;
//! these are the figures in its text. It states neither the machine nor the version.

use serde::Serialize;
use stook::report::table::{Align, Table, Tone};
use stook::report::units;

use super::work::{TOTAL_BYTES, Work};
use super::{Findings, Row, row};

/// A published figure, and the closest measurement here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Published {
    /// The work, and its language.
    pub what: &'static str,
    /// The figure as it is printed.
    pub figure: &'static str,
    /// The measurement here; absent if there is none.
    pub here: Option<String>,
}

/// The read of the published figure, the figure, and the read here.
const READS: [(&str, &str, u64); 3] = [
    ("C++: reading 1 MB held in blocks of 1 byte", "7.6 MB/s", 1),
    ("C++: reading 1 MB held in blocks of 512 bytes", "2,174 MB/s", 512),
    ("C++: reading 1 MB held as one block", "1,480 MB/s", TOTAL_BYTES),
];

/// What nothing here is measured like.
const OTHERS: [(&str, &str); 6] = [
    ("C++: memory for 1M blocks of one byte that do not touch", "34,603,192 bytes, so x33"),
    ("C++: memory for 1 MB in blocks of 256 bytes", "1,179,832 bytes, just a 12.5% premium"),
    ("C++: need over 238,310 blocks, 800 bytes apart", "good linear performance"),
    ("Python: reading, against C++", "about x5 for one byte, nearly equal for large blocks"),
    ("Python: writing, against C++", "about x3 for one byte, nearly equal for large blocks"),
    ("Python: writing by several threads", "quite different from the C++ result"),
];

/// All published figures; those that were also measured here come first.
pub fn figures(rows: &[Row]) -> Vec<Published> {
    let reads = READS.into_iter().map(|(what, figure, block_bytes)| {
        let here = row(rows, Work::Read { block_bytes })
            .map(|row| format!("{}, held without a gap", units::rate(TOTAL_BYTES as f64 / row.seconds)));
        Published { what, figure, here }
    });
    reads.chain(OTHERS.map(|(what, figure)| Published { what, figure, here: None })).collect()
}

/// The published figures beside ours, under these headers.
pub(super) fn table(findings: &Findings, columns: [&str; 3]) -> Table {
    let table = columns.into_iter().fold(Table::new(""), |table, name| table.column(name, Align::Left));
    findings.published.iter().fold(table, |table, one| {
        let here = one.here.as_deref().unwrap_or("not measured");
        table.row([one.what, one.figure, here], Tone::Plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sentences of the document, from its source: <https://pypi.org/project/svfsc/>,
    /// "performance".
    const DOCUMENT: [&str; 8] = [
        "The one byte case corresponds to 7.6 MB/s, the 512 bytes case corresponds to 2,174 MB/s, the single 1MB block \
         case corresponds to 1,480 MB/s.",
        "In the case of storing 1M one byte blocks the ``SVF`` consumes 34,603,192 bytes of memory, so x33.",
        "In the case of a 256 byte block size the ``SVF`` consumes 1,179,832 bytes of memory, just a 12.5% premium.",
        "Blocks are 800 bytes apart. There are 238,310 blocks.",
        "This shows good linear performance.",
        "The Python performance is about x5 compared to C++ for the one byte case and nearly equal to C++ for the large \
         block cases.",
        "The Python performance is about x3 compared to C++ for the one byte case and nearly equal to C++ for the large \
         block cases.",
        "The result is quite different from the C++ result given above.",
    ];

    /// Before: 165 ms, 0.135 ms and others that were measured here stood as published.
    #[test]
    fn every_published_figure_stands_in_the_document() {
        let text = DOCUMENT.join(" ");
        let numbers = |text: &str| -> Vec<String> {
            text.split_whitespace()
                .map(|word| word.trim_end_matches(['.', ',', '%']).to_owned())
                .filter(|word| word.contains(|letter: char| letter.is_ascii_digit()))
                .collect()
        };
        let printed = numbers(&text);
        for one in figures(&[]) {
            for number in numbers(one.figure) {
                assert!(printed.contains(&number), "{number} of {one:?} is not printed");
            }
            assert_eq!(one.here, None);
        }
    }

    #[test]
    fn what_was_read_here_stands_beside() {
        let seconds = 0.01;
        let rows = [Row {
            work: Work::Read { block_bytes: 1 },
            seconds,
            least_s: 0.0,
            most_s: 1.0,
            svfsc_python_s: None,
        }];
        let here: Vec<_> = figures(&rows).into_iter().filter_map(|one| one.here).collect();
        assert_eq!(here, ["105 MB/s, held without a gap"]);
    }
}
