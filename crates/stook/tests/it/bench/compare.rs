//! Differences are called only when they are there.

use stook::bench::Second;
use stook::bench::compare::{
    CompareError, CompareOptions, Measure, Order, Verdict, compare, latency_windows,
};
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

fn verdict(first: &[Vec<f64>], second: &[Vec<f64>], order: Order) -> (Verdict, f64) {
    verdict_by(Measure::Iops, first, second, order)
}

fn verdict_by(measure: Measure, first: &[Vec<f64>], second: &[Vec<f64>], order: Order) -> (Verdict, f64) {
    let [first, second] = [first, second].map(|runs| runs.iter().map(Vec::as_slice).collect::<Vec<&[f64]>>());
    let options = CompareOptions { order, ..CompareOptions::default() };
    let comparison = compare(&first, &second, measure, options).unwrap();
    assert_eq!(comparison, compare(&first, &second, measure, options).unwrap(), "the same every time");
    assert_eq!(comparison.measure, measure);
    (comparison.verdict, comparison.difference.value)
}

#[test]
fn a_difference_is_called_with_its_sign_and_size() {
    let (before, after) = (runs(5, 1.0, 0.0, 1), runs(5, 1.05, 0.0, 101));
    let (called, difference) = verdict(&before, &after, Order::Alternating);
    assert_eq!(called, Verdict::Faster);
    // 5% of the fixed cost, which is 80 of 87.6 µs.
    assert!((difference - 0.0455).abs() < 0.01, "{difference}");
    assert_eq!(verdict(&after, &before, Order::Alternating).0, Verdict::Slower);
}

#[test]
fn fewer_than_five_runs_tell_nothing() {
    for (before, after) in [(1, 1), (3, 3), (4, 5), (5, 4)] {
        let (first, second) = (runs(before, 1.0, 0.0, 1), runs(after, 2.0, 0.0, 101));
        assert_eq!(verdict(&first, &second, Order::Apart).0, Verdict::CannotTell, "{before} and {after}");
    }
}

/// Before: with one run 39 of 60, with three 12 of 60.
#[test]
fn equal_things_are_told_apart_no_oftener_than_is_said() {
    let wrong = (0..40_u64).filter(|trial| {
        let (first, second) = (noisy(1000 * trial), noisy(1000 * trial + 500));
        verdict(&first, &second, Order::Apart).0 != Verdict::NoDifference
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
    let (called, difference) = verdict_by(Measure::LatencyMeanNs, &first, &second, Order::Apart);
    assert_eq!(called, Verdict::Slower);
    // Half of the fixed cost, which is 80 of 87.6 µs, and a little more for those that wait.
    assert!((0.4..0.6).contains(&difference), "{difference}");
    assert_eq!(verdict_by(Measure::LatencyMeanNs, &second, &first, Order::Apart).0, Verdict::Faster);
    let rate = |run: &Vec<Second>| run.iter().map(|second| second.reads as f64).collect::<Vec<_>>();
    let rates = |runs: &[Vec<Second>]| runs.iter().map(rate).collect::<Vec<_>>();
    assert_eq!(verdict(&rates(&before), &rates(&after), Order::Apart).0, Verdict::NoDifference);
}

#[test]
fn equal_open_loops_are_told_apart_no_oftener_than_is_said() {
    let noisy = |seed: u64| -> Vec<Vec<f64>> {
        let run = |seed| latency_windows(&open_loop(&slower_by(0.1 * share_of(seed)), 2.0, seed));
        (seed..seed + 5).map(run).collect()
    };
    let wrong = (0..40_u64).filter(|trial| {
        let (first, second) = (noisy(1000 * trial), noisy(1000 * trial + 500));
        verdict_by(Measure::LatencyMeanNs, &first, &second, Order::Apart).0 != Verdict::NoDifference
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
    // Run by run, in turn, the device gets slower by 5%.
    let (before, after) = (runs(6, 1.0, 0.1, 1), runs(6, 1.2, 0.1, 101));
    assert_eq!(verdict(&before, &after, Order::Alternating).0, Verdict::Faster);
    assert_ne!(verdict(&before, &after, Order::Apart).0, Verdict::Faster);
}

/// The bits of a number, mixed (`SplitMix64`).
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Rates of a device that changes from run to run: each run keeps `kept` of the deviation of the
/// one before, and all follow a line that rises by `slope` standard deviations a run. All that was
/// measured, in order.
fn drifting(kept: f64, slope: f64, count: usize, seed: u64) -> Vec<Vec<f64>> {
    // The method of Box and Muller.
    let share = |at: u64| (mixed(seed << 20 | at) >> 11) as f64 / (1_u64 << 53) as f64;
    let normal = |at: u64| {
        (-2.0 * (1.0 - share(2 * at)).ln()).sqrt() * (std::f64::consts::TAU * share(2 * at + 1)).cos()
    };
    let mut deviation = normal(0) / (1.0 - kept * kept).sqrt();
    (0..count as u64)
        .map(|at| {
            if at > 0 {
                deviation = kept * deviation + normal(at);
            }
            let rate = 10_000.0 + 100.0 * (deviation + slope * at as f64);
            (0..4).map(|window| rate + 5.0 * normal(1000 + 4 * at + window)).collect()
        })
        .collect()
}

/// How many of 400 comparisons of a device with itself report a difference.
fn wrong_of_400(kept: f64, slope: f64, runs: usize, order: Order) -> usize {
    (0..400_u64)
        .filter(|&seed| {
            let all = drifting(kept, slope, 2 * runs, seed);
            let (first, second): (Vec<_>, Vec<_>) = match order {
                Order::Apart => (all[..runs].to_vec(), all[runs..].to_vec()),
                Order::Alternating => {
                    let side = |side: usize| all.iter().skip(side).step_by(2).cloned().collect();
                    (side(0), side(1))
                }
            };
            let sides = [&first, &second].map(|runs| runs.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let options = CompareOptions { order, seed, ..CompareOptions::default() };
            let found = compare(&sides[0], &sides[1], Measure::Iops, options).unwrap().verdict;
            matches!(found, Verdict::Faster | Verdict::Slower)
        })
        .count()
}

/// Before: 40% of comparisons of a device with itself reported a difference where rounds keep 0.8
/// of their neighbour's deviation, and all of them where it drifts; of six pairs on a real one,
/// three did.
#[test]
fn a_device_that_changes_with_time_does_not_differ_from_itself_oftener_than_is_said() {
    for (kept, slope) in [(0.0, 0.0), (0.5, 0.0), (0.8, 0.0), (0.0, 0.5), (0.0, 5.0), (0.8, 0.3)] {
        for runs in [5, 10] {
            for order in [Order::Apart, Order::Alternating] {
                let wrong = wrong_of_400(kept, slope, runs, order);
                // 20 are 5%; more than 32 in one of three hundred such counts.
                assert!(wrong <= 32, "{wrong} of 400: {kept} kept, slope {slope}, {runs} runs, {order:?}");
            }
        }
    }
}

#[test]
fn what_may_be_a_drift_is_not_called_equal_either() {
    let rising: Vec<Vec<f64>> = (0..10).map(|at| vec![100.0 + f64::from(at); 4]).collect();
    let sides = [&rising[..5], &rising[5..]].map(|runs| runs.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let found = compare(&sides[0], &sides[1], Measure::Iops, CompareOptions::default()).unwrap();
    assert_eq!((found.verdict, found.may_be_drift), (Verdict::CannotTell, true));
    assert!(found.difference.interval.contains(0.0), "{found:?}");
}

#[test]
fn what_is_too_short_or_not_paired_is_refused() {
    let run = [1.0; 10];
    let options = CompareOptions::default();
    let short = compare(&[&run], &[&run[..7]], Measure::Iops, options).unwrap_err();
    assert_eq!(short, CompareError::TooFew { windows: 7, needed: 8 });
    let message = short.to_string();
    assert!(
        message.contains("7 whole seconds") && message.contains("--time") && message.contains("--repeats")
    );
    assert!(compare(&[&run], &[&run[..8]], Measure::Iops, options).is_ok());
    let in_turn = CompareOptions { order: Order::Alternating, ..options };
    let refused =
        |first: &[&[f64]], second: &[&[f64]]| compare(first, second, Measure::Iops, in_turn).unwrap_err();
    assert_eq!(refused(&[&run], &[&run, &run]), CompareError::Unpaired { first: 1, second: 2 });
    assert!(matches!(refused(&[&[0.0; 8]], &[&run]), CompareError::Stats(_)));
}
