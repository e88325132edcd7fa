//! Searches for the highest rate, on engines that take as long as a device.

use stook::bench::slo::Objective;
use stook::bench::{Bench, Unobserved, Workload};
use stook::engine::Backend;
use stook_testing::device::{Costs, Device, DeviceEngines};

use super::{bench, is_empty, short};

fn cell() -> Workload {
    Workload { size_bytes: None, time_s: Some(0.4), depth: 8, ..short() }
}

fn objective(text: &str) -> Objective {
    text.parse().unwrap()
}

#[test]
fn no_rate_is_found_that_the_device_does_not_complete() {
    // One at a time, 20 ms each: no more than 50 a second, whatever the machine does.
    let engines = DeviceEngines::new(Backend::Threads, Device::new(Costs::new(20e-3, 1e12), 1));
    let directory = tempfile::tempdir().unwrap();
    let bench = Bench { rounds: 2, ..bench(&[cell()]) };
    let found = bench.run_slo(objective("p50=60ms"), directory.path(), &engines, &Unobserved).unwrap();
    assert!(is_empty(directory.path()));
    let [cell] = &found.cells[..] else { panic!("{found:?}") };
    assert_eq!((cell.workload.rate_per_s, cell.rounds, found.interrupted), (None, 2, false));
    for trial in &cell.trials {
        assert!(trial.rate_reached_per_s < 60.0, "{trial:?}");
        // Half of them within 60 ms: at most three waiting, beside what is completed.
        assert!(!trial.is_kept || trial.latency_ns.unwrap() <= 60_000_000, "{trial:?}");
        assert!(trial.is_kept || trial.limit.is_some(), "{trial:?}");
        assert!(trial.rate_per_s < 100.0 || !trial.is_kept, "{trial:?}");
    }
    let estimate = cell.highest_rate_per_s.unwrap();
    assert!(estimate.interval.low <= estimate.value && estimate.value <= estimate.interval.high);
    assert!(estimate.value < 100.0 && !cell.limits.is_empty(), "{cell:?}");
}

#[test]
fn a_latency_that_no_request_has_is_kept_at_no_rate() {
    let directory = tempfile::tempdir().unwrap();
    let cell = Workload { time_s: Some(0.05), ..cell() };
    let nanosecond = objective("p50=0.001us");
    let found = bench(&[cell]).run_slo(nanosecond, directory.path(), &Backend::Threads, &Unobserved).unwrap();
    let cell = &found.cells[0];
    assert!(cell.highest_rate_per_s.is_none() && cell.latency_ns.is_none());
    assert!(cell.trials.len() > 3 && cell.trials.iter().all(|trial| !trial.is_kept));
    assert!(cell.reasons[0].contains("the objective was not kept: p50 ≤ 1 ns"), "{:?}", cell.reasons);
    assert!(!cell.limits.is_empty());
}

#[test]
fn what_contradicts_an_objective_is_refused() {
    let refused = |change: &dyn Fn(&mut Workload)| {
        let mut cell = cell();
        change(&mut cell);
        bench(&[cell]).check_slo(objective("p99=2ms")).unwrap_err().to_string()
    };
    assert!(refused(&|cell| cell.rate_per_s = Some(10.0)).contains("the rate is what is looked for"));
    assert!(refused(&|cell| cell.size_bytes = Some(1 << 20)).contains("expected no size"));
    let long = Bench { long_run_s: Some(5.0), ..bench(&[Workload { read_share: 0, ..cell() }]) };
    assert!(long.check_slo(objective("p99=2ms")).unwrap_err().to_string().contains("a long run"));
}
