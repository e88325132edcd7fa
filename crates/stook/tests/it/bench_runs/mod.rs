//! Measurements on small files: what is counted, what is refused, what is found to be wrong.

mod batch;
mod cells;
mod faults;
mod files;
mod long_run;
mod models;
mod open_loop;
mod slo;
mod verify;

use std::path::Path;

use stook::bench::{Bench, BenchResult, CellResult, Error, Unobserved, Workload};
use stook::engine::{Backend, EngineFactory};

/// The length of test files.
const FILE_BYTES: u64 = 4 << 20;

/// The backends on this system. If `io_uring` is refused, `Auto` means threads.
const BACKENDS: [Backend; 2] = [Backend::Auto, Backend::Threads];

/// A short cell. Through the page cache, so that it runs on any file system.
fn short() -> Workload {
    Workload { ramp_s: 0.0, time_s: None, size_bytes: Some(2 << 20), buffered: true, ..Workload::default() }
}

fn bench(cells: &[Workload]) -> Bench {
    Bench {
        cells: cells.to_vec(),
        rounds: 1,
        long_run_s: None,
        file_bytes: FILE_BYTES,
        keep: false,
        overwrite_file: false,
        overwrite_device: None,
        file_is_full: false,
        cold: false,
    }
}

/// Measures one cell on a file of its own.
fn measure(cell: &Workload, engines: &dyn EngineFactory) -> Result<CellResult, Error> {
    let directory = tempfile::tempdir().unwrap();
    let result = bench(std::slice::from_ref(cell)).run(directory.path(), engines, &Unobserved)?;
    assert!(is_empty(directory.path()), "nothing is left behind");
    Ok(only(result))
}

fn only(mut result: BenchResult) -> CellResult {
    assert_eq!((result.cells.len(), result.interrupted), (1, false));
    result.cells.remove(0)
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

/// An error and its causes.
fn reported(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
