//! Requests that arrive independently of completions.

use stook::bench::gates::{GateName, Outcome};
use stook::bench::{Arrival, Workload};
use stook::engine::Backend;
use stook_testing::device::{Costs, Device, DeviceEngines};

use super::{BACKENDS, measure, short};

#[test]
fn the_schedule_decides_how_many_requests_there_are() {
    for backend in BACKENDS {
        for arrival in [Arrival::Constant, Arrival::Poisson] {
            let (time_s, rate_per_s) = (Some(1.0), Some(2000.0));
            let cell =
                Workload { size_bytes: None, time_s, rate_per_s, arrival, depth: 64, jobs: 2, ..short() };
            let found = measure(&cell, &backend).unwrap();
            let open_loop = found.runs[0].open_loop.unwrap();
            let due = found.total.count + open_loop.unserved;
            // Twelve standard deviations of as many random arrivals.
            let allowed = if arrival == Arrival::Constant { 4 } else { 550 };
            assert!(due.abs_diff(2000) <= allowed, "{arrival:?}: {due}");
            assert_eq!(open_loop.due, due, "each of them began or did not");
        }
    }
}

#[test]
fn what_comes_too_late_is_counted_and_its_waiting_is_part_of_its_latency() {
    // At most fifty a second are served, and five hundred arrive.
    let slow = DeviceEngines::new(Backend::Threads, Device::new(Costs::new(20e-3, 1e12), 1));
    let open = Workload { size_bytes: None, time_s: Some(1.0), rate_per_s: Some(500.0), depth: 1, ..short() };
    let found = measure(&open, &slow).unwrap();
    let open_loop = found.runs[0].open_loop.unwrap();
    assert!(found.total.count <= 51, "{}", found.total.count);
    assert_eq!(open_loop.overruns, found.total.count - 1, "all but the first came too late");
    assert_eq!((found.total.count + open_loop.unserved, open_loop.due), (500, 500));
    let reached = found.runs[0].gates.iter().find(|gate| gate.name == GateName::RateReached).unwrap();
    assert!(reached.is_failed() && reached.reason.contains("500 requests were due"), "{reached:?}");
    // On a machine that stood still for a moment, that may be why.
    let why = ["the device does not keep up", "the tool did not get a processor in time"];
    assert!(why.iter().any(|why| reached.reason.contains(why)), "{reached:?}");
    // They waited for a place, which is no fault of a timer.
    let punctual = found.runs[0].gates.iter().find(|gate| gate.name == GateName::Punctual).unwrap();
    assert_eq!(punctual.outcome, Outcome::Passed, "{punctual:?}");
    // The request served last was due long before; a closed loop would report 20 ms for each.
    let worst_ns = found.total.latency_max_ns.unwrap();
    assert!(worst_ns > 500_000_000, "{worst_ns}");
}

#[test]
fn syncs_take_no_arrivals() {
    let cell = Workload {
        read_share: 0,
        fsync_every: Some(10),
        size_bytes: Some(200 * 4096),
        rate_per_s: Some(2000.0),
        depth: 16,
        ..short()
    };
    let found = measure(&cell, &Backend::Auto).unwrap();
    assert_eq!((found.total.count, found.sync.unwrap().count), (200, 19));
    let open_loop = found.runs[0].open_loop.unwrap();
    assert!(open_loop.late_mean_ns.unwrap() > 0.0, "nothing begins in the very nanosecond");
}

/// Before: compared with rate × time, a schedule with fewer requests was "not reached".
#[test]
fn what_a_ramp_asked_for_is_not_due_in_the_measured_time() {
    let (ramp_s, time_s, arrival) = (0.5, Some(0.5), Arrival::Poisson);
    let cell = Workload {
        size_bytes: None,
        ramp_s,
        time_s,
        arrival,
        rate_per_s: Some(1000.0),
        depth: 64,
        ..short()
    };
    let found = measure(&cell, &Backend::Threads).unwrap();
    let due = found.runs[0].open_loop.unwrap().due;
    // Twelve standard deviations.
    assert!(due.abs_diff(500) < 270, "{due}");
    let reached = found.runs[0].gates.iter().find(|gate| gate.name == GateName::RateReached).unwrap();
    assert_ne!(reached.outcome, Outcome::NotApplicable);
    assert!(reached.reason.contains(&format!("{due} requests were due")), "{reached:?}");
}
