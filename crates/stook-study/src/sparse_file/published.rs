//! The performance figures in the documentation of svfsc. Most of its results are plots; these are
//! the figures in its text. It states neither the machine nor the version.

use crate::frame::{Document, Plot, Printed};

/// The document.
pub const DOCUMENT: Document = Document {
    title: "Performance",
    of: "the documentation of svfsc",
    on: "It states neither the machine nor the version; of its plots it prints only the figures below.",
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
        shows: "The time to read one megabyte, by the size of the blocks that it is held in; in the extreme right all of it",
        here: "The line of Stook in “Reading 1 MiB by the size of the blocks that it is held in”",
    },
    Plot {
        section: "C++ Performance, Need",
        shows: "The time of need",
        here: "The charts under “What is missing of a range?”",
    },
    Plot {
        section: "C++ Performance, Write",
        shows: "The time to write one megabyte, in blocks that touch and in blocks that do not",
        here: "The lines of Stook in “Writing 1 MiB in blocks that do not touch, and in blocks that do”",
    },
    Plot {
        section: "C++ Performance, Multi-threaded Writes",
        shows: "The time of several threads, in blocks that touch and in blocks that do not",
        here: "“Writing and overwriting 1 MiB in blocks of 8 bytes by several threads, each all of it”",
    },
    Plot {
        section: "Python Performance, Read",
        shows: "The time to read the same from Python",
        here: "The lines from Python in the chart of reading, of every package that is installed",
    },
    Plot {
        section: "Python Performance, Write",
        shows: "The time to write the same from Python",
        here: "The lines from Python in the same chart, of every package that is installed",
    },
    Plot {
        section: "Python Performance, Multi Threaded Write",
        shows: "The time of several threads from Python",
        here: "“The same from Python” under “Threads”, of every package that is installed",
    },
];
