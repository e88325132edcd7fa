//! [`LongRun`]: a cell that writes, run once for longer than it is measured.
//!
//! Drives take writes into a fast part first and do not report when it is full. A run that ends
//! before has measured that part, and nothing in it shows that; a longer run of the same writes
//! does.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::gates::{BurstFall, Series, find_fall};
use super::judge::rates;
use super::run::Measured;
use super::workload::Workload;
use crate::report::units::{bytes_decimal, rate};

/// A shorter one has too few windows to show a fall.
const LONG_RUN_MIN_S: f64 = 1.0;

/// The result of a long run of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LongRun {
    /// How long it took.
    pub seconds: f64,
    /// Bytes read and written.
    pub bytes: u64,
    /// How long each window is: a second, or a tenth where it took less than ten seconds.
    pub window_s: f64,
    /// Bytes a second in each window.
    pub rates_bytes_per_s: Vec<f64>,
    /// Where it fell to a lower rate; `null` where it did not.
    pub burst: Option<BurstFall>,
    /// The rate after that; the mean of all windows where it did not fall.
    pub sustained_bytes_per_s: f64,
}

impl LongRun {
    pub(super) fn of(measured: &Measured) -> Self {
        let record = &measured.record;
        let (window_s, rates) = rates(&record.ticks, measured.steady_s);
        let series = Series { window_s, rates_bytes_per_s: &rates };
        let burst = find_fall(series);
        Self {
            seconds: measured.seconds,
            bytes: record.read_bytes + record.write_bytes,
            window_s,
            burst,
            sustained_bytes_per_s: burst
                .map_or_else(|| series.mean_bytes_per_s(), |fall| fall.sustained_bytes_per_s),
            rates_bytes_per_s: rates,
        }
    }

    /// The series for the gates.
    pub fn series(&self) -> Series<'_> {
        Series { window_s: self.window_s, rates_bytes_per_s: &self.rates_bytes_per_s }
    }
}

impl fmt::Display for LongRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.burst {
            Some(fall) => write!(f, "within {:.0} s {fall}", self.seconds),
            None => write!(
                f,
                "{} for {:.0} s, {} in all, without a fall to a lower rate",
                rate(self.sustained_bytes_per_s),
                self.seconds,
                bytes_decimal(self.bytes)
            ),
        }
    }
}

/// The long run of a cell. It has no ramp, because a burst begins with the first byte, and no size
/// ends it.
pub(super) fn lengthened(cell: &Workload, long_run_s: f64) -> Workload {
    Workload { ramp_s: 0.0, time_s: Some(long_run_s), size_bytes: None, ..cell.clone() }
}

/// One for each distinct cell that writes.
pub(super) fn long_runs(cells: &[Workload], long_run_s: f64) -> Vec<Workload> {
    let mut long_runs = Vec::new();
    for cell in cells.iter().filter(|cell| cell.writes()) {
        let long_run = lengthened(cell, long_run_s);
        if !long_runs.contains(&long_run) {
            long_runs.push(long_run);
        }
    }
    long_runs
}

/// Whether it applies to these cells.
///
/// # Errors
/// Returns [`Error::Workload`], which states what was expected.
pub(super) fn check(cells: &[Workload], long_run_s: f64) -> Result<()> {
    if !(long_run_s.is_finite() && long_run_s >= LONG_RUN_MIN_S) {
        return Err(Error::workload(format!(
            "the long run takes {long_run_s} s; expected at least {LONG_RUN_MIN_S} s, or none"
        )));
    }
    if !cells.iter().any(Workload::writes) {
        return Err(Error::workload(
            "a long run was asked for, and nothing is written: expected a cell that writes",
        ));
    }
    let longest =
        cells.iter().filter(|cell| cell.writes()).filter_map(|cell| cell.time_s).fold(0.0, f64::max);
    if longest >= long_run_s {
        return Err(Error::workload(format!(
            "the long run takes {long_run_s} s, and a cell that writes is measured for {longest} s; expected a long run \
             that is longer"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(depth: u32) -> Workload {
        Workload { read_share: 0, depth, time_s: Some(5.0), ..Workload::default() }
    }

    #[test]
    fn every_distinct_cell_that_writes_has_one() {
        let sized = Workload { size_bytes: Some(4096), ramp_s: 3.0, ..write(1) };
        let buffered = Workload { buffered: true, ..write(1) };
        let found = long_runs(&[Workload::default(), write(1), write(4), sized, buffered], 20.0);
        let seen: Vec<_> = found.iter().map(|cell| (cell.depth, cell.buffered)).collect();
        assert_eq!(seen, [(1, false), (4, false), (1, true)]);
        assert!(
            found.iter().all(|cell| (cell.ramp_s, cell.time_s, cell.size_bytes) == (0.0, Some(20.0), None))
        );
    }

    #[test]
    fn one_that_can_tell_nothing_is_refused() {
        let refused = |cells: &[Workload], long_run_s| check(cells, long_run_s).unwrap_err().to_string();
        assert!(refused(&[write(1)], 0.5).contains("expected at least 1 s"));
        assert!(refused(&[write(1)], f64::NAN).contains("expected at least 1 s"));
        assert!(refused(&[Workload::default()], 20.0).contains("nothing is written"));
        assert!(refused(&[write(1)], 5.0).contains("expected a long run that is longer"));
        // Cells that only read may take as long as they like.
        check(&[write(1), Workload { time_s: Some(100.0), ..Workload::default() }], 5.1).unwrap();
    }
}
