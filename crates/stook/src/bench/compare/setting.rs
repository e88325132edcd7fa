//! What two results differ in, apart from their figures.

use serde::Serialize;

use crate::bench::result::{BenchResult, CellResult};
use crate::bench::workload::Workload;
use crate::report::units::bytes_binary;

/// Something that is not the same in two results, and may be why their figures differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SettingDifference {
    /// What: `file_bytes`, `engine`.
    pub name: &'static str,
    /// What it is in the first, for people.
    pub first: String,
    /// What it is in the second.
    pub second: String,
}

/// Whether two workloads ask the same of the storage. How long it is measured may differ, and which
/// of equal blocks.
pub fn is_same(one: &Workload, other: &Workload) -> bool {
    let untimed = |workload: &Workload| Workload {
        ramp_s: 0.0,
        time_s: None,
        size_bytes: None,
        seed: 0,
        ..workload.clone()
    };
    untimed(one) == untimed(other)
}

/// Everything but the figures that two results differ in.
pub fn setting_differences(first: &BenchResult, second: &BenchResult) -> Vec<SettingDifference> {
    let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "not known".to_owned());
    let whole = |result: &BenchResult| if result.interrupted { "interrupted" } else { "whole" }.to_owned();
    let all = |result: &BenchResult| {
        let environment = &result.environment;
        [
            ("file_bytes", bytes_binary(result.file_bytes)),
            ("own_file", if result.own_file { "a test file" } else { "an existing file" }.to_owned()),
            ("engine", of_runs(result, |cell| cell.runs.iter().map(|run| run.engine.clone()).collect())),
            ("direct", of_runs(result, direct)),
            ("device", known(&environment.device)),
            ("device_model", known(&environment.device_model)),
            ("file_system", known(&environment.file_system)),
            ("mount_options", known(&environment.mount_options)),
            ("scheduler", known(&environment.scheduler)),
            ("throttle", known(&environment.throttle)),
            ("processors", environment.processors.to_string()),
            ("kernel", environment.kernel.clone()),
            ("stook", environment.stook.clone()),
            ("interrupted", whole(result)),
        ]
    };
    let pairs = all(first).into_iter().zip(all(second));
    let pairs = pairs.filter(|((_, first), (_, second))| first != second);
    pairs.map(|((name, first), (_, second))| SettingDifference { name, first, second }).collect()
}

/// Whether each run passed by the page cache.
fn direct(cell: &CellResult) -> Vec<String> {
    let word = |direct| if direct { "past the page cache" } else { "through the page cache" };
    cell.runs.iter().map(|run| word(run.direct).to_owned()).collect()
}

/// What is the same in most runs is said once.
fn of_runs(result: &BenchResult, of: impl Fn(&CellResult) -> Vec<String>) -> String {
    let all: std::collections::BTreeSet<String> = result.cells.iter().flat_map(of).collect();
    all.into_iter().collect::<Vec<_>>().join(", ")
}
