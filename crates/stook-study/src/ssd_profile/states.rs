//! Validity: how many cells are in which state, and the text for those that are not valid.

use stook::bench::gates::{GateName, Outcome, State};
use stook::bench::model::{counted_runs, doubts};
use stook::bench::{BenchResult, CellResult};

use super::cells::Cell;
use super::tables::name;

/// How many cells are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct States {
    pub(super) valid: usize,
    pub(super) unverified: usize,
    pub(super) invalid: usize,
}

impl States {
    pub(super) fn of(result: &BenchResult) -> Self {
        let count = |state| result.cells.iter().filter(|cell| cell.state == state).count();
        let [valid, unverified, invalid] = [State::Valid, State::Unverified, State::Invalid].map(count);
        Self { valid, unverified, invalid }
    }

    pub(super) fn all(self) -> usize {
        self.valid + self.unverified + self.invalid
    }
}

/// The sign of a state in tables.
pub(super) fn sign(state: State) -> &'static str {
    match state {
        State::Valid => "✓",
        State::Unverified => "?",
        State::Invalid => "✗",
    }
}

/// That no device is known, or how many cells are unverified, and why: this must precede any
/// figure.
pub(super) fn doubt(result: &BenchResult) -> Option<String> {
    let states = States::of(result);
    let (unverified, all) = (states.unverified, states.all());
    // It holds for all of them, also for those that failed another check.
    if let Some(why) = &result.environment.device_doubt {
        return Some(format!("No device is known for any of the {all} measurements: {why}."));
    }
    if unverified == 0 {
        return None;
    }
    let these = match unverified {
        1 => format!("1 of {all} measurements is"),
        _ if unverified == all => format!("all {all} measurements are"),
        _ => format!("{unverified} of {all} measurements are"),
    };
    let mut reasons = reasons(result);
    if states.invalid > 0 {
        // Two things to say before any figure: each in a short sentence, and all reasons below.
        reasons.truncate(1);
    }
    let reported = format!("{these} unverified: {}.", reasons.join("; "));
    Some(match states.valid {
        0 if was_seen(result) => format!("Nothing shows that these figures hold for the device: {reported}"),
        0 => format!("Nothing shows that a device was measured: {reported}"),
        _ => reported,
    })
}

/// Whether counters of a device bear any of the figures out.
fn was_seen(result: &BenchResult) -> bool {
    let is_proof = |name| matches!(name, GateName::DeviceBytesRead | GateName::DeviceBytesWritten);
    let mut gates = result.cells.iter().flat_map(counted_runs).flat_map(|run| &run.gates);
    gates.any(|gate| is_proof(gate.name) && gate.outcome == Outcome::Passed)
}

/// Why cells are unverified: one reason for each check, because those of other cells differ in
/// their figures only.
fn reasons(result: &BenchResult) -> Vec<&str> {
    let mut found: Vec<(GateName, &str)> = Vec::new();
    let unverified = result.cells.iter().filter(|cell| cell.state == State::Unverified);
    let gates = unverified.flat_map(counted_runs).flat_map(|run| &run.gates);
    for gate in gates.filter(|gate| gate.outcome == Outcome::Unverified) {
        let reason = gate.reason.as_str();
        if !found.iter().any(|(name, known)| *name == gate.name || *known == reason) {
            found.push((gate.name, reason));
        }
    }
    found.into_iter().map(|(_, reason)| reason).collect()
}

/// The cells in a state, with their reasons, each reported once.
pub(super) fn notes(result: &BenchResult, state: State) -> Vec<String> {
    let cells: Vec<&CellResult> = result.cells.iter().collect();
    let reported = doubts(&cells, state).into_iter();
    reported.map(|doubt| format!("{}: {}.", doubt.named(name), doubt.reason_texts().join("; "))).collect()
}

/// The note below charts that draw unverified cells like all others.
pub(super) fn note<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> Option<String> {
    let (mut unverified, mut all) = (0, 0);
    for cell in cells {
        all += 1;
        unverified += usize::from(cell.state == State::Unverified);
    }
    let reported =
        || format!("Unverified (?), and drawn as the others are: {unverified} of these {all} measurements.");
    (unverified > 0).then(reported)
}
