//! The printed figures of the published measurement of archives that are read out of many files.

use crate::frame::{Document, Printed};

/// The document.
pub const DOCUMENT: Document = Document {
    title: "Read Performance of SOLID Files",
    of: "the documentation of a program that shows archives made of other files",
    on: "It ran fio on one file of 32G, on an old hard disk, a SATA SSD and an NVMe SSD.",
    tables: &[JOBS, DISK, SATA, NVME, TEXT],
};

/// What fio was told.
pub const JOBS: Printed = Printed {
    section: "Test Setup",
    caption: "Jobs of fio: `randread`, `--numjobs=1 --size=32G --direct=1 --ioengine=libaio`",
    columns: &["Stands for", "--bs", "--iodepth"],
    rows: &[
        &["Single 64MB File", "64M", "1"],
        &["16 Files, each 4MB", "4M", "16"],
        &["64 Files, each 1MB", "1M", "64"],
        &["512 Files, each 128K", "128K", "512"],
    ],
};

const RESULT: &[&str] = &["Stands for", "Rate", "Against the single file"];

/// A hard disk.
pub const DISK: Printed = Printed {
    section: "Old Hard Drive",
    caption: "2014 WD Blue 1TB HDD, ntfs3",
    columns: RESULT,
    rows: &[
        &["Single 64MB File", "106MB/s", "1.00x"],
        &["16 Files, each 4MB", "85.2MB/s", "0.80x"],
        &["64 Files, each 1MB", "75.7MB/s", "0.71x"],
        &["512 Files, each 128K", "30.2MB/s", "0.28x"],
    ],
};

/// An SSD on SATA.
pub const SATA: Printed = Printed {
    section: "Solid State Storage (SATA)",
    caption: "SanDisk SDSSDHP1 128GB, ntfs3",
    columns: RESULT,
    rows: &[
        &["Single 64MB File", "498MB/s", "1.00x"],
        &["16 Files, each 4MB", "499MB/s", "1.00x"],
        &["64 Files, each 1MB", "498MB/s", "1.00x"],
        &["128 Files, each 512KB", "494MB/s", "0.99x"],
        &["512 Files, each 128K", "446MB/s", "0.90x"],
    ],
};

/// An SSD on PCIe.
pub const NVME: Printed = Printed {
    section: "Solid State Storage (NVME)",
    caption: "SanDisk Samsung SSD 980 PRO 1TB, btrfs",
    columns: RESULT,
    rows: &[
        &["Single 64MB File", "3466MB/s", "1.00x"],
        &["16 Files, each 4MB", "3625MB/s", "1.05x"],
        &["64 Files, each 1MB", "3618MB/s", "1.05x"],
        &["512 Files, each 128K", "3622MB/s", "1.05x"],
    ],
};

/// The figures in its text.
pub const TEXT: Printed = Printed {
    section: "Introduction, Importance of These Tests",
    caption: "Figures in the text",
    columns: &["What", "Figure"],
    rows: &[
        &["Textures of the archive of its example", "32"],
        &["Of them from other files", "16"],
        &["Files that are read", "17"],
        &["The archive otherwise", "64MB"],
        &["Archives to merge: smaller than", "32M"],
        &["Archives to merge: with many files smaller than", "1M"],
        &["Usually emulated of large archives, less than", "10%"],
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    /// One of them is rounded up from 1.044.
    #[test]
    fn what_is_printed_as_a_ratio_is_that_of_the_rates() {
        for table in [DISK, SATA, NVME] {
            let first = table.number(0, 1).unwrap();
            for row in 0..table.rows.len() {
                let ratio = table.number(row, 1).unwrap() / first;
                assert!((ratio - table.number(row, 2).unwrap()).abs() < 0.007, "{}: {ratio}", table.caption);
            }
        }
    }
}
