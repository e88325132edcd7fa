//! Differences are called only when they are there.

use stook::bench::compare::{CompareError, CompareOptions, Verdict, compare};
use stook_testing::device::{Device, Workload};

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
    let [first, second] = [first, second].map(|runs| runs.iter().map(Vec::as_slice).collect::<Vec<&[f64]>>());
    let options = CompareOptions { interleaved, ..CompareOptions::default() };
    let comparison = compare(&first, &second, options).unwrap();
    assert_eq!(comparison, compare(&first, &second, options).unwrap(), "the same every time");
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
    (0..5)
        .map(|run| {
            let seed = seed + run;
            let slower = 0.1 * (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1 << 24) as f64;
            let mut device = Device { chance: 1.0, ..Device::sata_ssd() };
            device.read.fixed_s *= 1.0 + slower;
            device.run(Workload { seed, ..Workload::reads(1, 4096.0, 2.0) }).window_rates_per_s()
        })
        .collect()
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
    let short = compare(&[&run], &[&run[..7]], CompareOptions::default());
    assert_eq!(short, Err(CompareError::TooFew { windows: 7, needed: 8 }));
    assert!(compare(&[&run], &[&run[..8]], CompareOptions::default()).is_ok());
    let interleaved = CompareOptions { interleaved: true, ..CompareOptions::default() };
    assert!(matches!(compare(&[&run], &[&run, &run], interleaved), Err(CompareError::Stats(_))));
    assert!(matches!(compare(&[&[0.0; 8]], &[&run], interleaved), Err(CompareError::Stats(_))));
}
