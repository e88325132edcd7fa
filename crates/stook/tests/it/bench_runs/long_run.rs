//! Long runs of cells that write, on simulated devices with and without a write cache.

use std::sync::atomic::{AtomicU64, Ordering};

use stook::bench::gates::{Gate, GateName, Outcome};
use stook::bench::{Bench, BenchResult, Observer, Unobserved, Workload};
use stook::engine::{Backend, EngineFactory};
use stook_testing::device::{Costs, Device, DeviceEngines, WriteCache};
use stook_testing::fault::{EngineCall, EngineFault, FaultEngineFactory};

use super::{bench, is_empty, reported, short};

const BLOCK_BYTES: f64 = 4096.0;

/// Takes 1,000 writes a second into a cache that drains 50, and is full after half a second.
fn cached() -> Device {
    let cache = WriteCache { size_bytes: 475.0 * BLOCK_BYTES, drain_bytes_per_s: 50.0 * BLOCK_BYTES };
    Device { cache: Some(cache), ..Device::new(Costs::new(1e-3, 1e12), 1) }
}

/// Writes for less time than that cache lasts.
fn write() -> Workload {
    Workload { read_share: 0, size_bytes: None, time_s: Some(0.2), ..short() }
}

fn run(bench: &Bench, engines: &dyn EngineFactory) -> BenchResult {
    let directory = tempfile::tempdir().unwrap();
    let result = bench.run(directory.path(), engines, &Unobserved).unwrap();
    assert!(is_empty(directory.path()));
    result
}

fn gate(result: &BenchResult, cell: usize, run: usize) -> &Gate {
    result.cells[cell].runs[run].gates.iter().find(|gate| gate.name == GateName::WriteBurst).unwrap()
}

#[test]
fn a_short_run_into_a_cache_is_a_burst_by_its_long_run() {
    let read = Workload { read_share: 100, ..write() };
    let cells = [read, write(), Workload { size_bytes: Some(100 * 4096), time_s: None, ..write() }];
    let long = Bench { long_run_s: Some(2.0), rounds: 2, ..bench(&cells) };
    let result = run(&long, &DeviceEngines::new(Backend::Threads, cached()));
    assert!(result.cells[0].long_run.is_none(), "nothing is written");
    assert_eq!(gate(&result, 0, 0).outcome, Outcome::NotApplicable);
    assert_eq!(result.cells[1].long_run, result.cells[2].long_run, "they differ in what ends them only");
    for (at, cell) in result.cells.iter().enumerate().skip(1) {
        let long_run = cell.long_run.as_ref().unwrap();
        let fall = long_run.burst.unwrap();
        assert!(fall.burst_bytes_per_s > 4.0 * fall.sustained_bytes_per_s, "{fall:?}");
        // All that the cache holds, and what left it meanwhile.
        assert!(fall.burst_bytes > 0.5 * 500.0 * BLOCK_BYTES, "{fall:?}");
        assert_eq!(long_run.sustained_bytes_per_s, fall.sustained_bytes_per_s);
        assert_eq!((long_run.window_s, long_run.rates_bytes_per_s.len()), (0.1, 20));
        assert!(cell.state.is_invalid() && cell.runs.len() == 2);
        for run in 0..2 {
            let gate = gate(&result, at, run);
            assert!(gate.is_failed() && gate.reason.contains("too short to leave the cache"), "{gate:?}");
        }
        // It applies to both rounds, and is reported once.
        let reported = |reason: &&String| reason.contains("too short to leave the cache");
        assert_eq!(cell.reasons.iter().filter(reported).count(), 1, "{:?}", cell.reasons);
    }
}

#[test]
fn the_same_run_without_a_long_one_does_not_know_and_says_how_to() {
    let result = run(&bench(&[write()]), &DeviceEngines::new(Backend::Threads, cached()));
    let gate = gate(&result, 0, 0);
    assert_eq!((gate.outcome, result.cells[0].long_run.is_none()), (Outcome::Unverified, true));
    assert!(
        gate.reason.contains("too short to tell a burst") && gate.reason.contains("--long-run"),
        "{gate:?}"
    );
}

#[test]
fn a_device_without_a_cache_has_no_burst_in_a_long_run() {
    // Four milliseconds each, regardless of earlier writes.
    let device = Device::new(Costs::new(4e-3, 1e12), 1);
    let long = Bench { long_run_s: Some(3.0), ..bench(&[Workload { time_s: Some(1.0), ..write() }]) };
    let result = run(&long, &DeviceEngines::new(Backend::Threads, device));
    let long_run = result.cells[0].long_run.as_ref().unwrap();
    assert_eq!((long_run.burst, long_run.rates_bytes_per_s.len()), (None, 30));
    let gate = gate(&result, 0, 0);
    assert_eq!(gate.outcome, Outcome::Passed, "{gate:?}");
    assert!(gate.reason.contains("a longer run went on at "), "{gate:?}");
}

#[test]
fn its_time_is_part_of_what_is_expected() {
    let timed = Workload { ramp_s: 0.5, time_s: Some(1.5), ..write() };
    let cells = [timed.clone(), Workload { depth: 2, ..timed.clone() }, timed];
    let long = Bench { long_run_s: Some(10.0), rounds: 3, ..bench(&cells) };
    assert_eq!(long.expected_s(), Some(2.0 * 10.0 + 3.0 * 3.0 * 2.0), "two of the three cells are one");
    let reported = |bench: &Bench| bench.check().unwrap_err().to_string();
    assert!(
        reported(&Bench { long_run_s: Some(1.5), ..long.clone() })
            .contains("expected a long run that is longer")
    );
    assert!(reported(&Bench { long_run_s: Some(0.0), ..long }).contains("expected at least 1 s, or none"));
}

#[test]
fn an_interrupted_or_failing_long_run_ends_everything() {
    /// Ends everything once that many milliseconds were measured.
    struct Impatient(AtomicU64);
    impl Observer for Impatient {
        fn is_interrupted(&self) -> bool {
            self.0.load(Ordering::Relaxed) >= 100
        }
        fn ran(&self, ms: u64) {
            self.0.fetch_add(ms, Ordering::Relaxed);
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let long = Bench { long_run_s: Some(3600.0), ..bench(&[write()]) };
    let result = long.run(directory.path(), &Backend::Auto, &Impatient(AtomicU64::new(0))).unwrap();
    assert!(result.interrupted && result.cells[0].runs.is_empty() && result.cells[0].long_run.is_none());
    assert!(is_empty(directory.path()));
    let engines = FaultEngineFactory::new(Backend::Threads);
    // After the writes that lay the file out.
    engines.fail(Some(EngineCall::Write), 50, EngineFault::NoSpace);
    let message = reported(&long.run(directory.path(), &engines, &Unobserved).unwrap_err());
    assert!(message.contains("cannot write ") && message.contains("No space left on device"), "{message}");
    assert!(is_empty(directory.path()));
}

#[test]
fn a_long_run_of_verified_cells_is_read_back_and_its_data_is_found_by_the_rounds() {
    let cell = Workload { read_share: 50, verify: true, depth: 4, jobs: 2, ..write() };
    let result = run(&Bench { long_run_s: Some(1.0), ..bench(&[cell]) }, &Backend::Auto);
    let cell = &result.cells[0];
    assert!(cell.long_run.as_ref().unwrap().bytes > 0 && cell.runs[0].verified_bytes > super::FILE_BYTES);
}
