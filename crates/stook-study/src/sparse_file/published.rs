//! The performance figures in the documentation of svfsc. Most of its results are plots; these are
//! the figures in its text. It states neither the machine nor the version.

use crate::frame::{Document, Plot, Printed};

/// The document.
pub const DOCUMENT: Document = Document {
    title: "Performance",
    of: "the documentation of svfsc",
    on: "It states neither the machine nor the version.",
    tables: &[READS, NEED, MEMORY, THREADS, PYTHON],
};

/// Reading one megabyte.
pub const READS: Printed = Printed {
    section: "C++ Performance, Read",
    caption: "Reading one megabyte that is held in blocks",
    columns: &["Blocks", "Bytes of each", "Rate"],
    rows: &[&["1,000,000", "1", "7.6 MB/s"], &["2,048", "512", "2,174 MB/s"], &["1", "1 MB", "1,480 MB/s"]],
};

/// Asking what is needed.
pub const NEED: Printed = Printed {
    section: "C++ Performance, Need",
    caption: "A low-level index of RP66V1, and then need",
    columns: &["What", "Figure"],
    rows: &[&["Written", "1Mb"], &["From block to block", "800 bytes"], &["Blocks", "238,310"]],
};

/// What held data takes.
pub const MEMORY: Printed = Printed {
    section: "C++ Performance, Write",
    caption: "Memory for one megabyte in blocks that do not touch",
    columns: &["Bytes of each block", "Memory", "Against the data"],
    rows: &[&["1", "34,603,192 bytes", "x33"], &["256", "1,179,832 bytes", "12.5%"]],
};

/// Threads that write.
pub const THREADS: Printed = Printed {
    section: "C++ Performance, Multi-threaded Writes",
    caption: "Several threads that write and overwrite one megabyte",
    columns: &["What", "Figure"],
    rows: &[&["Written at once", "8 bytes"], &["Blocks that do not touch", "1024 * 1024 / 8"]],
};

/// Python against C++.
pub const PYTHON: Printed = Printed {
    section: "Python Performance",
    caption: "Python against C++",
    columns: &["Work", "Blocks of one byte", "Large blocks"],
    rows: &[&["Reading", "x5", "nearly equal"], &["Writing", "x3", "nearly equal"]],
};

/// Its plots.
pub const PLOTS: [Plot; 7] = [
    Plot {
        section: "C++ Performance, Read",
        shows: "The time to read one megabyte, by the size of the blocks that it is held in",
        here: "“Reading 1 MiB by the size of the blocks”",
    },
    Plot {
        section: "C++ Performance, Need",
        shows: "The time of need",
        here: "“Asking all over a file”, by the length of an ask",
    },
    Plot {
        section: "C++ Performance, Write",
        shows: "The time to write one megabyte, in blocks that touch and in blocks that do not",
        here: "The two charts under “Writing”",
    },
    Plot {
        section: "C++ Performance, Multi-threaded Writes",
        shows: "The time of several threads, in blocks that touch and in blocks that do not",
        here: "The chart under “Threads”",
    },
    Plot {
        section: "Python Performance, Read",
        shows: "The time to read the same from Python",
        here: "The line of svfsc in the chart of reading, where it is installed; ours is not called from Python here",
    },
    Plot {
        section: "Python Performance, Write",
        shows: "The time to write the same from Python",
        here: "The lines of svfsc in the charts of writing, where it is installed; ours is not called from Python here",
    },
    Plot {
        section: "Python Performance, Multi Threaded Write",
        shows: "The time of several threads from Python",
        here: "Not measured: the module of svfsc holds the lock of the interpreter",
    },
];
