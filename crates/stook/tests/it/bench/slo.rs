//! The search for the highest rate, on simulated devices whose answer is known.

use std::convert::Infallible;

use stook::bench::slo::{Start, search};
use stook_testing::device::{Arrival, Costs, Device, Workload};

/// How many requests each rate is tried with.
const REQUESTS: f64 = 1e5;

/// What is found on a device for a latency that a share of the requests are not to exceed.
fn found(device: Device, arrival: fn(f64) -> Arrival, share: f64, latency_s: f64, seed: u64) -> f64 {
    let few_s = 1000.0 * device.read.alone_s(4096.0);
    let closed = device.run(Workload { seed, ..Workload::reads(64, 4096.0, few_s) }).rate_per_s();
    let keeps = |rate: f64| {
        let time_s = REQUESTS / rate;
        let load = Workload { arrival: arrival(rate), seed, ..Workload::reads(1, 4096.0, time_s) };
        let run = device.run(load);
        // Every request that ended is timed from its arrival, and few are left at the end.
        let reached = run.rate_per_s() / rate >= 0.97;
        Ok::<_, Infallible>(reached && run.latency_quantile_s(share) <= latency_s)
    };
    let Ok(bracket) = search(Start::below(closed), keeps);
    (bracket.kept_per_s.unwrap() * bracket.missed_per_s.unwrap()).sqrt()
}

fn assert_within(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found} beside {expected}");
}

#[test]
fn equal_requests_at_equal_distances_wait_only_beyond_what_the_device_completes() {
    for (parallel, service_s) in [(1, 2e-3), (4, 10e-3), (32, 80e-6)] {
        let device = Device::new(Costs::new(service_s, 1e15), parallel);
        let most = parallel as f64 / service_s;
        // From any latency above that of one request on.
        assert_within(found(device, Arrival::Constant, 0.99, 1.5 * service_s, 1), most, 0.02);
    }
}

#[test]
fn a_limit_on_requests_is_where_waiting_begins() {
    let device = Device::sata_ssd();
    assert_within(found(device, Arrival::Constant, 0.99, 1e-3, 1), 95e3, 0.02);
}

/// M/M/1: the time in the system is exponential with the rate μ − λ, so a share p takes no longer
/// than −ln(1 − p) ÷ (μ − λ).
#[test]
fn one_server_with_random_arrivals_has_the_knee_that_queueing_theory_says() {
    let mu = 1000.0;
    let mut device = Device::new(Costs::new(1.0 / mu, 1e15), 1);
    device.chance = 1.0;
    for (share, latency_s) in [(0.5, 2e-3), (0.99, 20e-3), (0.999, 50e-3)] {
        let expected = mu + f64::ln(1.0 - share) / latency_s;
        for seed in [1, 2] {
            assert_within(found(device, Arrival::Poisson, share, latency_s, seed), expected, 0.04);
        }
    }
}
