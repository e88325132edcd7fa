//! The printed figures of the published notes on copying large files.

use crate::frame::{Document, Printed};

/// The document.
pub const DOCUMENT: Document = Document {
    title: "Performance tuning",
    of: "the documentation of a program that copies in bulk",
    on: "It copied few very large files on Windows, with 64 GiB of memory, between disks, SSDs and an SD card.",
    tables: &[DISKS, NOTES, LOCAL, MEMORY, CHECKS, DETAILS, OPTIONS, SYSTEMS],
};

/// From one drive to another.
pub const DISKS: Printed = Printed {
    section: "External disk-to-disk tests",
    caption: "Copies from one drive to another",
    columns: &["Source", "Destination", "Performance", "Notes"],
    rows: &[
        &["10GbE SSD RAID NAS", "Toshiba MG10AFA22TE over IB-377-C31", "266.553 MB/s", "98.4% `1`"],
        &["Samsung EVO 870 SATA", "Toshiba MG10AFA22TE over IB-377-C31", "195.027 MB/s", "72% `1`"],
        &["Samsung EVO 870 SATA", "Toshiba MG10AFA22TE over old USB adapter", "189.559 MB/s", "70% `1`"],
        &["Kingston SDR2V6/256GB", "Samsung EVO 870 EVO 4TB SSD SATA", "295.218 MB/s", "105% `2`"],
        &["Samsung EVO 870 SATA", "Kingston SDR2V6/256GB", "194.394 MB/s", "130% `3`"],
    ],
};

/// What stands under that table: what the numbers of its notes mean.
pub const NOTES: Printed = Printed {
    section: "External disk-to-disk tests",
    caption: "Notes under that table",
    columns: &["Note", "It says"],
    rows: &[
        &["Tests", "very large; of SD cards the full card"],
        &["`1`", "against MG10AFA22TE, rated max of 271 MBps"],
        &["`2`", "against Kingston SDR2V6/256GB, rated max of 280 MB/s read"],
        &["`3`", "against Kingston SDR2V6/256GB, rated max of 150 MB/s write"],
    ],
};

/// The rating that each row of [`DISKS`] is held against, in MB/s.
pub const RATED: [f64; 5] = [271.0, 271.0, 271.0, 280.0, 150.0];

/// Within one drive.
pub const LOCAL: Printed = Printed {
    section: "Local tests",
    caption: "Copying files within a drive",
    columns: &["Drive", "Performance", "Outliers (cached reads)"],
    rows: &[
        &["Samsung EVO 970 Plus 1TB SSD NVME", "965.849 MB/s", "up to 1.8 GB/s"],
        &["Samsung EVO 870 EVO 4TB SSD SATA", "235.847 MB/s", "up to 482.9 MB/s"],
    ],
};

/// Data against memory.
pub const MEMORY: Printed = Printed {
    section: "Benchmarking is hard",
    caption: "Files against 64GiB of memory",
    columns: &["Files", "Impossible performance"],
    rows: &[&["18GiB", "observed"], &["147GiB", "no longer observed"]],
};

/// What a copy within a drive may be held against.
pub const CHECKS: Printed = Printed {
    section: "Benchmarking is hard",
    caption: "Twice the rate, against the link of 600 MB/s",
    columns: &["Copy", "Rate", "Twice", "Twice, of the link"],
    rows: &[
        &["Its own", "235.847 MB/s", "471.7", "79%"],
        &["Dialog of Windows, taken as 210", "200 - 220 MB/s", "", "70%"],
        &["Its own, again", "482.9 MB/s", "", "161%"],
    ],
};

/// What it adds on each drive.
pub const DETAILS: Printed = Printed {
    section: "Additional details",
    caption: "Figures in the text",
    columns: &["What", "Figure"],
    rows: &[
        &["Toshiba MG10AFA22TE, rated", "271 MBps"],
        &["Toshiba MG10AFA22TE, cache", "512 MB"],
        &["Enclosure IB-377-C31, link", "10Gbit/s"],
        &["Samsung EVO 970 Plus, seen occasionally", "1.844 GB/s"],
        &["Samsung EVO 870 EVO, copying files", "266.553 MB/s"],
        &["Samsung EVO 870 EVO, reading and writing", "533 MB/s"],
        &["Samsung EVO 870 EVO, reading and writing, of 600 MB/s", "89%"],
        &["Samsung EVO 870 EVO, between directories", "471.692 MB/s"],
        &["Samsung EVO 870 EVO, between directories, again", "482.924 MB/s"],
        &["Kingston SDR2V6/256GB, rated reads", "280 MB/s"],
        &["Kingston SDR2V6/256GB, rated writes", "150MB/s"],
        &["Kingston SDR2V6/256GB, classes", "Class 10, UHS-II, U3, V60"],
        &["Kingston SDR2V6/256GB, rated reads and writes", "280/150MB/s (256GB-1TB)"],
        &["Kingston SDR2V6/256GB, as it might be sold", "295 MB/s (281 MiB/s)"],
        &["Line of progress, data", "235GiB 78MiB 512KiB"],
        &["Line of progress, data in GB", "252GB"],
        &["Line of progress, rate", "295.218 MB/s"],
        &["Line of progress, files", "258"],
        &["Line of progress, time", "855s"],
        &["The same in MiB/s", "281.5 MiB/s"],
        &["The reader of cards on another cable", "30 MB/s"],
    ],
};

/// What it says of its options.
pub const OPTIONS: Printed = Printed {
    section: "Queue size, Block size",
    caption: "Its options",
    columns: &["Option", "Value", "It says"],
    rows: &[
        &["--queue-size", "10", "the default, good"],
        &["--queue-size", "1", "marginally slower, if at all"],
        &["--queue-size", "1000", "no faster"],
        &["--block-size", "128K", "the default, close to optimal"],
        &["--block-size", "1M to 8M", "should suffice"],
        &["--block-size", "1K", "seems slower"],
        &["--block-size", "1G", "significantly slower"],
    ],
};

/// Against other systems and programs.
pub const SYSTEMS: Printed = Printed {
    section: "Linux Subsystem for Windows (WSL) considerations, Native Windows performance",
    caption: "Against other systems and programs",
    columns: &["What", "Figure"],
    rows: &[&["WSL, time against Windows", "3 - 4 times"], &["Robocopy and dialogs of Windows", "on par"]],
};

/// What the name of the card says that it holds; it was copied in full.
pub const CARD_BYTES: u64 = 256_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_say_what_rows_are_held_against() {
        for (row, cells) in DISKS.rows.iter().enumerate() {
            let note = NOTES.rows.iter().find(|note| cells[3].ends_with(note[0])).unwrap();
            assert!(note[1].contains(&format!("{} MB", RATED[row])), "{note:?}");
        }
    }

    #[test]
    fn shares_of_ratings_are_those_of_the_printed_rates() {
        for (row, rated) in RATED.iter().enumerate() {
            let share = DISKS.number(row, 2).unwrap() / rated * 100.0;
            assert!((share - DISKS.number(row, 3).unwrap()).abs() < 0.5, "{row}: {share}");
        }
        for row in 0..CHECKS.rows.len() {
            let rate = if row == 1 { 210.0 } else { CHECKS.number(row, 1).unwrap() };
            let share = 2.0 * rate / 600.0 * 100.0;
            assert!((share - CHECKS.number(row, 3).unwrap()).abs() < 0.5, "{row}: {share}");
        }
    }
}
