//! The printed figures of the published study of many small files. It does not say how many runs
//! they are from.

use crate::frame::{Document, Printed};

/// The document.
pub const DOCUMENT: Document = Document {
    title: "Single file vs multi file storage",
    of: "Mikhail Vorontsov",
    on: "It measured one external USB disk, three years old, on Ubuntu 12 and Windows 7.",
    tables: &[READS, TEXT],
};

/// Its table. It begins with the system that was used, and leaves out ext4 on Windows.
pub const READS: Printed = Printed {
    section: "Testing",
    caption: "Reading, in seconds",
    columns: &["", "Ubuntu 12", "Windows 7"],
    rows: &[
        &["ext4, one file", "35.547 sec", ""],
        &["ext4, 50K files", "63.381 sec", ""],
        &["fat32, one file", "29.342 sec", "32.806 sec"],
        &["fat32, 50K files", "148.746 sec", "166.069 sec"],
        &["ntfs, one file", "30.196 sec", "38.383 sec"],
        &["ntfs, 50K files", "54.629 sec", "211.933 sec"],
    ],
};

/// The figures in its text.
pub const TEXT: Printed = Printed {
    section: "Introduction and Testing",
    caption: "Figures in the text",
    columns: &["What", "Figure"],
    rows: &[
        &["A record of its data base, on average", "10 KB"],
        &["What else there is, of the records", "~5%"],
        &["Segments, and files", "50.000"],
        &["Bytes of each", "20K"],
        &["Sectors of FAT32", "64K"],
        &["Sectors of NTFS", "4K"],
        &["FAT32 against ext4 and NTFS, on Ubuntu", "approximately 3 times"],
        &["What is read more because of 64K sectors", "3 times"],
    ],
};

/// A row of the table: what is read from one file, and from many.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    /// File system and operating system.
    pub(super) label: &'static str,
    /// Reading one composite file, seconds.
    pub(super) one_file_s: f64,
    /// Reading 50,000 files, seconds.
    pub(super) files_s: f64,
}

/// What its table says of each file system and operating system.
pub(super) fn pairs() -> Vec<Pair> {
    let labels = [
        ("ext4, Ubuntu 12", 0, 1),
        ("fat32, Ubuntu 12", 2, 1),
        ("ntfs, Ubuntu 12", 4, 1),
        ("fat32, Windows 7", 2, 2),
        ("ntfs, Windows 7", 4, 2),
    ];
    let pair = |(label, row, column): (&'static str, usize, usize)| {
        let [one_file_s, files_s] = [row, row + 1].map(|row| READS.number(row, column));
        Some(Pair { label, one_file_s: one_file_s?, files_s: files_s? })
    };
    labels.into_iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_the_table_is_read_and_has_its_own_ratio() {
        let ratios: Vec<String> =
            pairs().iter().map(|pair| format!("{:.2}", pair.files_s / pair.one_file_s)).collect();
        assert_eq!(ratios, ["1.78", "5.07", "1.81", "5.06", "5.52"]);
    }
}
