//! What the document does not state, measured both ways: whether the page cache was passed by, and
//! with which engine.

use serde::Serialize;
use stook::bench::{Bench, BenchResult, CellResult, Workload};
use stook::engine::Backend;

use super::cells::Profile;
use super::conclusions::verdicts_of;
use super::{SsdProfile, plan};
use crate::verdict::Verdict;

/// How long a cell is measured, of what it is measured otherwise.
const TIME_SHARE: f64 = 0.5;

/// A way of measuring that the document does not exclude.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OtherWay {
    /// Past the page cache, by `pread` and `pwrite` in threads.
    Threads,
    /// Through the page cache, which has nothing of the file in it when a cell begins.
    Buffered,
}

impl OtherWay {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Threads, Self::Buffered];

    /// Its name.
    pub fn label(self) -> &'static str {
        match self {
            Self::Threads => "pread and pwrite in threads, past the page cache",
            Self::Buffered => "through the page cache, cold",
        }
    }

    /// Makes its engines.
    pub(super) fn engines(self) -> Backend {
        match self {
            Self::Threads => Backend::Threads,
            Self::Buffered => Backend::Auto,
        }
    }

    /// The published cells. Through the cache each ends with the file, because a second time its
    /// bytes would come from memory; and it has no ramp, which would read some of them.
    pub(super) fn bench(self, study: &SsdProfile) -> Bench {
        let bench = study.bench();
        let base = bench.cells.first().cloned().unwrap_or_default();
        let (ramp_s, size_bytes) = match self {
            Self::Threads => (base.ramp_s, None),
            Self::Buffered => (0.0, Some(study.file_bytes)),
        };
        let base = Workload { buffered: self == Self::Buffered, ramp_s, size_bytes, ..base };
        let cells = plan::as_published(&base, Some(study.time_s * TIME_SHARE));
        Bench { cells, rounds: 1, cold: true, ..bench }
    }
}

/// What was measured in such a way.
#[derive(Debug, Clone, Serialize)]
pub struct Unstated {
    /// How.
    pub way: OtherWay,
    /// The engine that it was measured with.
    pub engine: String,
    /// The published cells, in order as they were published.
    pub profile: Profile,
    /// Conclusions that come out otherwise than as they were measured first.
    pub differs: Vec<Differs>,
}

/// A conclusion, and its verdict in another way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Differs {
    /// The conclusion.
    pub published: &'static str,
    /// The verdict in this way.
    pub verdict: Verdict,
}

impl Unstated {
    /// What was found, against the profile that conclusions are judged by.
    pub(super) fn of(way: OtherWay, result: &BenchResult, first: &Profile) -> Self {
        let profile = Profile::of(result);
        let (before, now) = (verdicts_of(first), verdicts_of(&profile));
        // What was not decided first cannot come out otherwise.
        let changes = |first: Verdict, other: Verdict| first != Verdict::NotMeasured && first != other;
        let differs = before.into_iter().zip(now).filter(|(one, other)| changes(one.1, other.1));
        Self {
            way,
            engine: engine_of(&result.cells).unwrap_or_default(),
            differs: differs.map(|(_, (published, verdict))| Differs { published, verdict }).collect(),
            profile,
        }
    }
}

/// The engine of the first run.
pub(super) fn engine_of(cells: &[CellResult]) -> Option<String> {
    cells.iter().find_map(|cell| Some(cell.runs.first()?.engine.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_cells_are_measured_in_both_ways_and_each_byte_once_through_the_cache() {
        let study = SsdProfile {
            work: ".".into(),
            file_bytes: 1 << 30,
            rounds: 2,
            time_s: 4.0,
            ramp_s: 0.5,
            p99_target_s: 1e-3,
            long_run_s: None,
            rated: super::super::Ratings::default(),
        };
        let [threads, buffered] = OtherWay::ALL.map(|way| way.bench(&study));
        for bench in [&threads, &buffered] {
            bench.check().unwrap();
            assert_eq!((bench.cells.len(), bench.rounds, bench.long_run_s), (14, 1, None));
            assert!(bench.cells.iter().all(|cell| cell.time_s == Some(2.0)));
        }
        let asked = |cell: &Workload| (cell.buffered, cell.ramp_s, cell.size_bytes);
        assert!(threads.cells.iter().all(|cell| asked(cell) == (false, 0.5, None)));
        assert!(buffered.cold && buffered.cells.iter().all(|cell| asked(cell) == (true, 0.0, Some(1 << 30))));
    }
}
