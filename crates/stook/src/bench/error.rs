//! Errors of measurements.

use std::path::PathBuf;

/// A result of this capability.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong with a measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file, the engine or the system below it.
    #[error(transparent)]
    Core(#[from] crate::Error),
    /// A workload that cannot be run, and what was expected instead.
    #[error("{0}")]
    Workload(String),
    /// A job file that cannot be understood.
    #[error("{}, line {line}: {message}", path.display())]
    JobFile {
        /// The job file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The message.
        message: String,
    },
    /// A path that cannot be measured on.
    #[error("{} {problem}", path.display())]
    Target {
        /// The path.
        path: PathBuf,
        /// A predicate that fits after the path: what is wrong, and what was expected.
        problem: String,
    },
    /// Bytes that were read are not the ones that were written.
    #[error("{} is not what was written at offset {offset}: {what}", path.display())]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// Where the unit that differs begins.
        offset: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(super) fn workload(message: impl Into<String>) -> Self {
        Self::Workload(message.into())
    }

    pub(super) fn target(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self::Target { path: path.into(), problem: problem.into() }
    }
}
