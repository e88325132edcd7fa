//! What was published of svfsc 0.4.1: times for 1 MB, in C++ and from Python.

use serde::Serialize;

use super::work::Work;

/// One published figure.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Figure {
    /// What was done.
    #[serde(flatten)]
    pub work: Work,
    /// In C++, seconds.
    pub cpp_s: f64,
    /// From Python, seconds.
    pub python_s: f64,
}

const fn figure(work: Work, cpp_ms: f64, python_ms: f64) -> Figure {
    Figure { work, cpp_s: cpp_ms / 1e3, python_s: python_ms / 1e3 }
}

/// All that are laid beside.
pub const FIGURES: [Figure; 12] = [
    figure(Work::Read { block_bytes: 1 }, 165.0, 470.0),
    figure(Work::Read { block_bytes: 8 }, 18.5, 56.0),
    figure(Work::Read { block_bytes: 512 }, 0.135, 0.58),
    figure(Work::WriteApart { block_bytes: 1 }, 271.0, 511.0),
    figure(Work::WriteApart { block_bytes: 8 }, 24.0, 54.0),
    figure(Work::WriteApart { block_bytes: 512 }, 0.192, 0.62),
    figure(Work::WriteJoined { block_bytes: 1 }, 73.0, 237.0),
    figure(Work::WriteJoined { block_bytes: 8 }, 8.9, 30.0),
    figure(Work::WriteJoined { block_bytes: 512 }, 1.0, 1.4),
    figure(Work::Need { ask_bytes: 32 }, 271.0, 2186.0),
    figure(Work::Need { ask_bytes: 512 }, 36.0, 181.0),
    figure(Work::Need { ask_bytes: 16_384 }, 3.5, 21.6),
];

/// What was published about this work.
pub fn of(work: Work) -> Option<Figure> {
    FIGURES.into_iter().find(|figure| figure.work == work)
}
