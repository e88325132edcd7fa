//! [`State`]: the result of all checks of a cell.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Gate, Outcome};

/// Whether a figure may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Every check that applies was made, and passed.
    Valid,
    /// None failed, and some could not be made: the figure may be right, and nothing shows it.
    Unverified,
    /// A check failed: the figure is wrong.
    Invalid,
}

impl State {
    /// Whether every check that applies was made and passed.
    pub fn is_valid(self) -> bool {
        self == Self::Valid
    }

    /// Whether a check failed.
    pub fn is_invalid(self) -> bool {
        self == Self::Invalid
    }

    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Unverified => "unverified",
            Self::Invalid => "not valid",
        }
    }

    /// How the checks end that a state has its reasons from.
    pub(in crate::bench) fn outcome(self) -> Outcome {
        match self {
            Self::Valid => Outcome::Passed,
            Self::Unverified => Outcome::Unverified,
            Self::Invalid => Outcome::Failed,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The result of the checks: a failed one decides, otherwise one that could not be made.
pub fn state(gates: &[Gate]) -> State {
    let any = |outcome| gates.iter().any(|gate| gate.outcome == outcome);
    match () {
        () if any(Outcome::Failed) => State::Invalid,
        () if any(Outcome::Unverified) => State::Unverified,
        () => State::Valid,
    }
}

/// Why a cell is not valid: the reasons of the checks that failed; if none did, of those that could
/// not be made. Reasons shared by two checks are reported once.
pub fn reasons(gates: &[Gate]) -> Vec<String> {
    let decided_by = match state(gates) {
        State::Valid => return Vec::new(),
        other => other.outcome(),
    };
    let mut reasons: Vec<String> = Vec::new();
    for gate in gates.iter().filter(|gate| gate.outcome == decided_by) {
        if !reasons.contains(&gate.reason) {
            reasons.push(gate.reason.clone());
        }
    }
    reasons
}
