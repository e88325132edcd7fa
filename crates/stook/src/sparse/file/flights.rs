//! [`Flights`]: ranges that are in flight, so that they are not requested again.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::error::SparseFileError;
use crate::extent::ByteRange;

/// A range that one thread fetches, and that others may wait for.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) range: ByteRange,
    /// How it ended.
    pub(super) outcome: OnceLock<Result<(), SparseFileError>>,
}

/// Ranges on their way, none overlapping another.
#[derive(Debug, Default)]
pub(super) struct Flights {
    by_start: BTreeMap<u64, Arc<Flight>>,
}

impl Flights {
    /// Begins to fetch a range.
    pub(super) fn begin(&mut self, range: ByteRange) -> Arc<Flight> {
        let flight = Arc::new(Flight { range, outcome: OnceLock::new() });
        self.by_start.insert(range.start(), Arc::clone(&flight));
        flight
    }

    /// Ends one that was begun, if it has not ended already.
    pub(super) fn end(&mut self, flight: &Arc<Flight>, outcome: Result<(), SparseFileError>) {
        if flight.outcome.set(outcome).is_ok() {
            self.by_start.remove(&flight.range.start());
        }
    }

    /// The one that fetches this position.
    pub(super) fn of(&self, position: u64) -> Option<&Arc<Flight>> {
        let (_, flight) = self.by_start.range(..=position).next_back()?;
        flight.range.contains(position).then_some(flight)
    }

    /// Those that fetch any of a range.
    pub(super) fn within(&self, range: ByteRange) -> Vec<Arc<Flight>> {
        let first = self.of(range.start()).map_or(range.start(), |flight| flight.range.start());
        self.by_start.range(first..range.end().max(first)).map(|(_, flight)| Arc::clone(flight)).collect()
    }

    /// The parts of ascending ranges that are not on their way.
    pub(super) fn missing_of(&self, ranges: Vec<ByteRange>) -> Vec<ByteRange> {
        if self.by_start.is_empty() {
            return ranges;
        }
        let mut missing = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut at = range.start();
            let first = self.of(at).map_or(at, |flight| flight.range.start());
            for flight in self.by_start.range(first..range.end().max(first)).map(|(_, flight)| flight.range) {
                missing.extend(ByteRange::new(at, flight.start()).filter(|gap| !gap.is_empty()));
                at = at.max(flight.end());
            }
            missing.extend(ByteRange::new(at, range.end()).filter(|gap| !gap.is_empty()));
        }
        missing
    }
}
