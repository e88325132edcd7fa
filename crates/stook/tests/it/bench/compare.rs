//! Differences are called only when they are there.

use stook::bench::Second;
use stook::bench::compare::{CompareError, CompareOptions, Measure, Verdict, compare, latency_windows};
use stook_testing::device::{Arrival, Device, Workload};

/// Rates per window of `runs` runs of a device that is `faster` times as fast; run by run slower by
/// `drift`.
fn runs(runs: u32, faster: f64, drift: f64, seed: u64) -> Vec<Vec<f64>> {
    (0..runs)
        .map(|run| {
            let mut device = Device { chance: 1.0, ..Device::sata_ssd() };
            device.read.fixed_s *= (1.0 + drift * f64::from(run)) / faster;
            let seed = seed + u64::from(run);
            device.run(Workload { seed, ..Workload::reads(1, 4096.0, 10.0) }).window_rates_per_s()
        })
        .collect()
}

fn verdict(first: &[Vec<f64>], second: &[Vec<f64>], interleaved: bool) -> (Verdict, f64) {
    verdict_by(Measure::Iops, first, second, interleaved)
}

fn verdict_by(
    measure: Measure,
    first: &[Vec<f64>],
    second: &[Vec<f64>],
    interleaved: bool,
) -> (Verdict, f64) {
    let [first, second] = [first, second].map(|runs| runs.iter().map(Vec::as_slice).collect::<Vec<&[f64]>>());
    let options = CompareOptions { interleaved, ..CompareOptions::default() };
    let comparison = compare(&first, &second, measure, options).unwrap();
    assert_eq!(comparison, compare(&first, &second, measure, options).unwrap(), "the same every time");
    assert_eq!(comparison.measure, measure);
    (comparison.verdict, comparison.difference.value)
}

#[test]
fn a_difference_is_called_with_its_sign_and_size() {
    let (before, after) = (runs(5, 1.0, 0.0, 1), runs(5, 1.05, 0.0, 101));
    let (called, difference) = verdict(&before, &after, true);
    assert_eq!(called, Verdict::Faster);
    // 5% of the fixed cost, which is 80 of 87.6 µs.
    assert!((difference - 0.0455).abs() < 0.01, "{difference}");
    assert_eq!(verdict(&after, &before, true).0, Verdict::Slower);
}

#[test]
fn fewer_than_five_runs_tell_nothing() {
    for (before, after) in [(1, 1), (3, 3), (4, 5), (5, 4)] {
        let (first, second) = (runs(before, 1.0, 0.0, 1), runs(after, 2.0, 0.0, 101));
        assert_eq!(verdict(&first, &second, false).0, Verdict::CannotTell, "{before} and {after}");
    }
}

/// Before: with one run 39 of 60, with three 12 of 60.
#[test]
fn equal_things_are_told_apart_no_oftener_than_is_said() {
    let wrong = (0..40_u64).filter(|trial| {
        let (first, second) = (noisy(1000 * trial), noisy(1000 * trial + 500));
        verdict(&first, &second, false).0 != Verdict::NoDifference
    });
    // Two are expected of 40 intervals of 95%; more than five in one of a hundred such tests.
    let wrong = wrong.count();
    assert!(wrong <= 5, "{wrong} of 40");
}

/// Five runs of two seconds of the same device, which is up to 10% slower in some runs than in
/// others.
fn noisy(seed: u64) -> Vec<Vec<f64>> {
    (seed..seed + 5)
        .map(|seed| {
            let device = slower_by(0.1 * share_of(seed));
            device.run(Workload { seed, ..Workload::reads(1, 4096.0, 2.0) }).window_rates_per_s()
        })
        .collect()
}

/// A share of one by chance.
fn share_of(seed: u64) -> f64 {
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1 << 24) as f64
}

fn slower_by(share: f64) -> Device {
    let mut device = Device { chance: 1.0, ..Device::sata_ssd() };
    device.read.fixed_s *= 1.0 + share;
    device
}

/// The seconds of a run with 500 requests a second to a device, at independent moments.
fn open_loop(device: &Device, time_s: f64, seed: u64) -> Vec<Second> {
    let arrival = Arrival::Poisson(500.0);
    let run = device.run(Workload { arrival, seed, ..Workload::reads(1, 4096.0, time_s) });
    let mut seconds = vec![Second::default(); time_s as usize];
    for request in &run.finished {
        if let Some(second) = seconds.get_mut(request.end_s as usize) {
            second.reads += 1;
            second.latency_sum_ns += (request.latency_s() * 1e9) as u64;
        }
    }
    seconds
}

/// Before: both completed the requests that were due, and so there was no difference.
#[test]
fn open_loops_are_told_apart_by_how_long_their_requests_took() {
    // With the same seeds the same requests are due.
    let loops = |share: f64| -> Vec<Vec<Second>> {
        (1..6).map(|seed| open_loop(&slower_by(share), 4.0, seed)).collect()
    };
    let (before, after) = (loops(0.0), loops(0.5));
    let latencies = |runs: &[Vec<Second>]| runs.iter().map(|run| latency_windows(run)).collect::<Vec<_>>();
    let (first, second) = (latencies(&before), latencies(&after));
    let (called, difference) = verdict_by(Measure::LatencyMeanNs, &first, &second, false);
    assert_eq!(called, Verdict::Slower);
    // Half of the fixed cost, which is 80 of 87.6 µs, and a little more for those that wait.
    assert!((0.4..0.6).contains(&difference), "{difference}");
    assert_eq!(verdict_by(Measure::LatencyMeanNs, &second, &first, false).0, Verdict::Faster);
    let rate = |run: &Vec<Second>| run.iter().map(|second| second.reads as f64).collect::<Vec<_>>();
    let rates = |runs: &[Vec<Second>]| runs.iter().map(rate).collect::<Vec<_>>();
    assert_eq!(verdict(&rates(&before), &rates(&after), false).0, Verdict::NoDifference);
}

#[test]
fn equal_open_loops_are_told_apart_no_oftener_than_is_said() {
    let noisy = |seed: u64| -> Vec<Vec<f64>> {
        let run = |seed| latency_windows(&open_loop(&slower_by(0.1 * share_of(seed)), 2.0, seed));
        (seed..seed + 5).map(run).collect()
    };
    let wrong = (0..40_u64).filter(|trial| {
        let (first, second) = (noisy(1000 * trial), noisy(1000 * trial + 500));
        verdict_by(Measure::LatencyMeanNs, &first, &second, false).0 != Verdict::NoDifference
    });
    let wrong = wrong.count();
    assert!(wrong <= 5, "{wrong} of 40");
}

#[test]
fn the_mean_of_latency_windows_is_that_of_all_requests() {
    let second = |reads, latency_sum_ns| Second { reads, latency_sum_ns, ..Second::default() };
    // A stall: nothing for a second, and then all that had waited.
    let seconds = [second(100, 10_000), second(0, 0), second(200, 290_000)];
    let windows = latency_windows(&seconds);
    assert_eq!(windows.len(), 3);
    let mean = windows.iter().sum::<f64>() / 3.0;
    assert!((mean - 1000.0).abs() < 1e-9, "{mean}");
    assert!(latency_windows(&seconds[1..2]).is_empty() && latency_windows(&[]).is_empty());
}

#[test]
fn a_drift_that_both_share_hides_nothing_when_runs_are_interleaved() {
    let (before, after) = (runs(6, 1.0, 0.1, 1), runs(6, 1.05, 0.1, 101));
    assert_eq!(verdict(&before, &after, true).0, Verdict::Faster);
    assert_eq!(verdict(&before, &after, false).0, Verdict::NoDifference);
}

#[test]
fn what_is_too_short_or_not_paired_is_refused() {
    let run = [1.0; 10];
    let options = CompareOptions::default();
    let short = compare(&[&run], &[&run[..7]], Measure::Iops, options);
    assert_eq!(short, Err(CompareError::TooFew { windows: 7, needed: 8 }));
    assert!(compare(&[&run], &[&run[..8]], Measure::Iops, options).is_ok());
    let interleaved = CompareOptions { interleaved: true, ..options };
    let refused =
        |first: &[&[f64]], second: &[&[f64]]| compare(first, second, Measure::Iops, interleaved).unwrap_err();
    assert!(matches!(refused(&[&run], &[&run, &run]), CompareError::Stats(_)));
    assert!(matches!(refused(&[&[0.0; 8]], &[&run]), CompareError::Stats(_)));
}
