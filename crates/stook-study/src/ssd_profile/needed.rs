//! Which cells a conclusion needs: one rule for all of them.
//!
//! A conclusion about every cell of a sweep is refuted by those that count, however few; it holds
//! only where all of them count. One about the best of a sweep needs all of them either way,
//! because any that is missing may be it. What is missing is named.

use super::cells::{Cell, Profile};
use super::published;
use super::summary::size;
use crate::frame::{Judgement, not_measured};
use crate::verdict::Verdict;

/// What is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sweep {
    /// The block, one read at a time.
    Blocks,
    /// The share of reads.
    Mixes,
    /// Requests at once.
    Depths,
}

impl Sweep {
    fn cells(self, profile: &Profile) -> &[Cell] {
        match self {
            Self::Blocks => &profile.blocks,
            Self::Mixes => &profile.mixes,
            Self::Depths => &profile.depths,
        }
    }

    fn value(self, cell: &Cell) -> u64 {
        match self {
            Self::Blocks => cell.block_bytes,
            Self::Mixes => u64::from(cell.read_share),
            Self::Depths => cell.depth,
        }
    }

    fn name(self, cell: &Cell) -> String {
        match self {
            Self::Blocks => size(cell.block_bytes),
            Self::Mixes => format!("{}% reads", cell.read_share),
            Self::Depths => format!("depth {}", cell.depth),
        }
    }

    /// Cells of the published sweep that are needed, and are not there or failed a check.
    pub(super) fn missing(self, profile: &Profile, is_needed: impl Fn(&Cell) -> bool) -> Missing {
        let counts = |wanted: &Cell| {
            let mut cells = self.cells(profile).iter();
            cells.any(|cell| cell.counts() && self.value(cell) == self.value(wanted))
        };
        let published = published::profile();
        let missing = self.cells(&published).iter().filter(|cell| is_needed(cell) && !counts(cell));
        Missing(missing.map(|cell| self.name(cell)).collect())
    }

    /// All of the published sweep that are missing.
    pub(super) fn all_missing(self, profile: &Profile) -> Missing {
        self.missing(profile, |_| true)
    }
}

/// Cells that a conclusion needs and that do not count, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Missing(pub(super) Vec<String>);

impl Missing {
    /// These and those, each once.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self.0.dedup();
        self
    }

    fn said(&self) -> Option<String> {
        let needed = || format!("Needed for it, and not valid: {}.", self.0.join(", "));
        (!self.0.is_empty()).then(needed)
    }

    /// A check of every cell, made on those that count.
    pub(super) fn judge_every(&self, holds: bool, figures: String) -> Judgement {
        if holds { self.judge_best(true, figures) } else { (Verdict::DoesNotHold, figures) }
    }

    /// A check of the best of all cells, made on those that count.
    pub(super) fn judge_best(&self, holds: bool, figures: String) -> Judgement {
        match self.said() {
            Some(missing) => not_measured(format!("{missing} Of the others: {figures}")),
            None => (Verdict::of(holds), figures),
        }
    }

    /// Too few count to check anything.
    pub(super) fn too_few(&self) -> Judgement {
        not_measured(self.said().unwrap_or_else(|| "Too few cells were measured.".to_owned()))
    }
}
