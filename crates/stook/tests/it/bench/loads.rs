//! Closed and open loops on simulated devices: Little's law, and what a closed loop hides.

use stook::bench::gates::{GateName, Outcome, check, reasons, state};
use stook_testing::device::{Arrival, Costs, Device, Stalls, Workload};

use super::{facts, outcome};

#[test]
fn littles_law_holds_at_every_depth_of_a_device_of_known_service_time() {
    for chance in [0.0, 1.0] {
        let device = Device { chance, ..Device::new(Costs::new(1e-3, 1e12), 8) };
        for depth in 1..=64 {
            let run = device.run(Workload::reads(depth, 4096.0, 12.0));
            let rates = run.window_rates_bytes_per_s();
            let cell = facts(&run, &rates);
            assert!(!state(&check(&cell)).is_invalid(), "depth {depth}: {:?}", reasons(&check(&cell)));
            // Eight at a time, 1 ms each: the rate is known, and with it the latency.
            let rate = 1000.0 * depth.min(8) as f64;
            assert!((run.rate_per_s() / rate - 1.0).abs() < 0.03, "depth {depth}: {}", run.rate_per_s());
            let latency_s = depth as f64 / rate;
            assert!((run.latency_mean_s() / latency_s - 1.0).abs() < 0.03, "depth {depth}");
        }
    }
}

#[test]
fn littles_law_holds_in_open_loops_below_saturation() {
    let device = Device { chance: 1.0, ..Device::new(Costs::new(1e-3, 1e12), 1) };
    for arrival in [Arrival::Constant(500.0), Arrival::Poisson(500.0)] {
        let run = device.run(Workload { arrival, ..Workload::reads(1, 4096.0, 100.0) });
        let rates = run.window_rates_bytes_per_s();
        let cell = facts(&run, &rates);
        assert!(!state(&check(&cell)).is_invalid(), "{:?}", reasons(&check(&cell)));
        assert_eq!(outcome(&cell, GateName::LittleRequested), Outcome::NotApplicable);
        assert_eq!(outcome(&cell, GateName::RateReached), Outcome::Passed);
        if arrival == Arrival::Poisson(500.0) {
            // M/M/1 at half load: twice the service time.
            assert!((run.latency_mean_s() / 2e-3 - 1.0).abs() < 0.05, "{}", run.latency_mean_s());
        }
    }
}

#[test]
fn a_device_that_cannot_keep_up_with_the_rate_is_reported() {
    let device = Device::new(Costs::new(1e-3, 1e12), 1);
    let run = device.run(Workload { arrival: Arrival::Constant(1100.0), ..Workload::reads(1, 4096.0, 20.0) });
    let rates = run.window_rates_bytes_per_s();
    assert_eq!(outcome(&facts(&run, &rates), GateName::RateReached), Outcome::Failed);
}

#[test]
fn an_open_loop_shows_the_stalls_that_a_closed_loop_hides() {
    // 0.1 ms each, and every ten seconds nothing for half a second: 5% of all moments fall into a
    // stall.
    let stalls = Some(Stalls { every_s: 10.0, for_s: 0.5 });
    let device = Device { stalls, ..Device::new(Costs::new(100e-6, 1e12), 1) };
    let closed = device.run(Workload::reads(1, 4096.0, 101.0));
    let open = |arrival| device.run(Workload { arrival, ..Workload::reads(1, 4096.0, 101.0) });
    assert!(closed.latency_quantile_s(0.99) < 110e-6, "one request per stall is not one in a hundred");
    assert!(closed.latency_quantile_s(1.0) > 0.49);
    for run in [open(Arrival::Constant(1000.0)), open(Arrival::Poisson(1000.0))] {
        let p99_s = run.latency_quantile_s(0.99);
        // The worst 1% of all moments are the first fifth of each stall, which wait four fifths of
        // it or more.
        assert!((0.38..0.46).contains(&p99_s), "{p99_s}");
        let rates = run.window_rates_bytes_per_s();
        assert_eq!(outcome(&facts(&run, &rates), GateName::LittleSampled), Outcome::Passed);
    }
}
