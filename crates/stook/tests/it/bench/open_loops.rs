//! Open loops that are idle most of the time, as chance lets a thread see them that looks now and
//! then.

use stook::bench::gates::{CellFacts, Disks, Gate, GateName, Load, Looks, Outcome, Series};

use super::gate;
use super::gates::{good, open};

/// What is asked, and how long each request takes.
#[derive(Debug, Clone, Copy)]
struct Asked {
    rate_per_s: f64,
    /// Whether arrivals, and latencies, are exponentially distributed instead of equal.
    random: bool,
    latency_s: f64,
    time_s: f64,
}

const LOADS: [Asked; 5] = [
    Asked { rate_per_s: 1000.0, random: true, latency_s: 100e-6, time_s: 2.0 },
    Asked { rate_per_s: 1000.0, random: false, latency_s: 100e-6, time_s: 2.0 },
    Asked { rate_per_s: 200.0, random: true, latency_s: 2e-3, time_s: 2.0 },
    Asked { rate_per_s: 100.0, random: true, latency_s: 30e-6, time_s: 2.0 },
    // Many looks see the same requests.
    Asked { rate_per_s: 1000.0, random: true, latency_s: 20e-3, time_s: 2.0 },
];

/// `SplitMix64`.
struct Chance(u64);

impl Chance {
    /// Above 0 and at most 1.
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn of_mean(&mut self, mean: f64, random: bool) -> f64 {
        if random { -self.share().ln() * mean } else { mean }
    }
}

/// What a tool finds that counts everything, and looks every one to three milliseconds.
fn measured(asked: Asked, seed: u64) -> CellFacts<'static> {
    let Asked { rate_per_s, random, latency_s, time_s } = asked;
    let mut chance = Chance(seed << 32);
    let (mut begins, mut ends, mut at_s, mut latency_sum_s) = (Vec::new(), Vec::new(), 0.0, 0.0);
    while at_s < time_s {
        let latency_s = chance.of_mean(latency_s, random);
        begins.push(at_s);
        ends.push(at_s + latency_s);
        latency_sum_s += latency_s;
        at_s += chance.of_mean(1.0 / rate_per_s, random);
    }
    ends.sort_by(f64::total_cmp);
    let until_s = ends.last().copied().unwrap().max(time_s);
    let (mut looks, mut look_s) = (Looks::default(), 0.0);
    while look_s < until_s {
        let begun = begins.partition_point(|begin_s| *begin_s <= look_s);
        let ended = ends.partition_point(|end_s| *end_s <= look_s);
        looks.add((begun - ended) as u64);
        look_s += 1e-3 + 2e-3 * chance.share();
    }
    let requests = begins.len() as u64;
    let done = ends.partition_point(|end_s| *end_s <= time_s) as u64;
    let latency_mean_s = latency_sum_s / requests as f64;
    CellFacts {
        load: Load::Open {
            due: requests,
            done,
            held_back: 0,
            unserved: 0,
            is_random: random,
            late_mean_s: 0.0,
            latency_mean_s,
            latency_median_s: latency_mean_s,
        },
        time_s: until_s,
        steady_s: time_s,
        requests,
        latency_mean_s,
        in_flight: looks.sampled(),
        ..good()
    }
}

/// Before: `--rate 1000` on an idle device was refused three times of three, and so was the example
/// of the help.
#[test]
fn honest_loops_at_a_light_load_are_not_refused() {
    let mut refused = Vec::new();
    for asked in LOADS {
        for seed in 0..50 {
            let cell = measured(asked, seed);
            let gates = [GateName::LittleSampled, GateName::RateReached].map(|name| gate(&cell, name));
            refused.extend(gates.into_iter().filter(|gate| gate.is_failed()).map(|gate| (asked, seed, gate)));
        }
    }
    // Chance takes a mean four standard errors away in one of some ten thousand cases.
    assert!(refused.len() <= 1, "{} of 250: {refused:?}", refused.len());
}

#[test]
fn latencies_that_leave_out_half_of_the_time_are_refused_at_any_load_that_tells() {
    for asked in LOADS {
        for seed in 0..10 {
            let whole = measured(Asked { time_s: 10.0, ..asked }, seed);
            let half = CellFacts { latency_mean_s: 0.5 * whole.latency_mean_s, ..whole.clone() };
            let (reported, unreported) =
                (gate(&half, GateName::LittleSampled), gate(&whole, GateName::LittleSampled));
            if asked.rate_per_s * asked.latency_s < 0.01 {
                // Three looks of a thousand: nothing is proven, and that is reported.
                assert_eq!(unreported.outcome, Outcome::Unverified, "{unreported:?}");
                assert!(unreported.reason.contains("too seldom"), "{unreported:?}");
            } else {
                assert!(
                    reported.is_failed() && reported.reason.contains("leave out"),
                    "{asked:?} {seed}: {reported:?}"
                );
                assert_eq!(unreported.outcome, Outcome::Passed, "{asked:?} {seed}: {unreported:?}");
            }
        }
    }
}

#[test]
fn a_load_that_outruns_the_device_is_refused_although_every_request_began() {
    // One at a time, a millisecond each, and 1,100 a second: the queue grows.
    let (due, done) = (22_000, 20_000);
    let cell = CellFacts { load: open(due, done, 0, 0), ..good() };
    assert!(gate(&cell, GateName::RateReached).is_failed());
}

/// Before: "the device does not keep up", of an idle device, while the tool waited for a processor
/// for 72% of the time: only its own use of processors was asked.
#[test]
fn a_tool_that_had_no_processor_does_not_blame_the_device() {
    let reason = |cell: CellFacts<'static>| {
        let cell = CellFacts { load: open(10_000, 4_000, 9_000, 6_000), ..cell };
        let gate = gate(&cell, GateName::RateReached);
        assert!(gate.is_failed(), "{gate:?}");
        gate.reason
    };
    assert!(reason(good()).contains("the device does not keep up"), "{}", reason(good()));
    let starved = [
        CellFacts { processor_wait_share_max: Ok(0.72), ..good() },
        // Not known to be others: it may be a quota that is not seen.
        CellFacts { processor_wait_share_max: Ok(0.72), processor_wait_unsure: 0.72, ..good() },
        CellFacts { stopped_share: 0.5, ..good() },
        CellFacts { stopped_share: 0.5, processor_wait_share_max: Err("unknown".to_owned()), ..good() },
    ];
    for cell in starved {
        let reason = reason(cell);
        assert!(reason.contains("the tool did not get a processor in time"), "{reason}");
        assert!(!reason.contains("keep up"), "{reason}");
    }
}

/// How the checks of steadiness end for as many requests as are due in each tenth of a second.
fn steady(due: &[u64], is_random: bool) -> [Gate; 2] {
    let rates: Vec<f64> = due.iter().map(|&requests| requests as f64 * 4096.0 / 0.1).collect();
    let all: u64 = due.iter().sum();
    let load = Load::Open {
        due: all,
        done: all,
        held_back: 0,
        unserved: 0,
        is_random,
        late_mean_s: 0.0,
        latency_mean_s: good().latency_mean_s,
        latency_median_s: good().latency_mean_s,
    };
    let cell = CellFacts { load, series: Series { window_s: 0.1, rates_bytes_per_s: &rates }, ..good() };
    [GateName::SteadySpread, GateName::SteadySlope].map(|name| gate(&cell, name))
}

/// Arrivals at random moments, counted in each tenth of a second.
fn random_arrivals(rate_per_s: f64, time_s: f64, seed: u64) -> Vec<u64> {
    let mut chance = Chance(seed << 32);
    let mut ticks = vec![0; (time_s * 10.0) as usize];
    let mut at_s = chance.of_mean(1.0 / rate_per_s, true);
    while let Some(tick) = ticks.get_mut((at_s * 10.0) as usize) {
        *tick += 1;
        at_s += chance.of_mean(1.0 / rate_per_s, true);
    }
    ticks
}

/// Before: `--rate 1000 --arrival poisson --time 2s` was refused every time.
#[test]
fn what_chance_alone_makes_of_arrivals_is_no_drift() {
    for (rate_per_s, time_s) in [(100.0, 10.0), (1000.0, 2.0), (5000.0, 10.0)] {
        for seed in 0..200 {
            let gates = steady(&random_arrivals(rate_per_s, time_s, seed), true);
            assert!(
                gates.iter().all(|gate| gate.outcome == Outcome::Passed),
                "{rate_per_s} {seed}: {gates:?}"
            );
        }
    }
    // So few that nothing can be known is nothing to check, and no reason to doubt the cell.
    let few = steady(&random_arrivals(20.0, 10.0, 1), true);
    assert!(few.iter().all(|gate| gate.outcome == Outcome::NotApplicable), "{few:?}");
    assert!(few[0].reason.contains("their chance hides any drift"), "{few:?}");
}

#[test]
fn a_device_that_falls_to_half_is_found_in_an_open_loop_as_well() {
    for seed in 0..200 {
        let mut done = random_arrivals(5000.0, 10.0, seed);
        done[50..].iter_mut().for_each(|requests| *requests /= 2);
        assert!(steady(&done, true).iter().all(Gate::is_failed), "{seed}");
    }
    // Nothing is left to chance where requests come at equal distances.
    let rising = [100, 100, 100, 100, 105, 105, 110, 110, 120, 120];
    assert_eq!([true, false].map(|is_random| steady(&rising, is_random)[1].is_failed()), [false, true]);
}

/// Before: a program that read as much from another partition of the disk, or beside the file of a
/// loop device, was not seen.
#[test]
fn other_programs_on_the_disk_below_make_a_cell_unverified() {
    let on = |moved_bytes| {
        let disks = Some(Disks { name: "vda".to_owned(), moved_bytes });
        gate(&CellFacts { disks, ..good() }, GateName::DeviceBytesRead)
    };
    // 10% and what a journal writes.
    assert_eq!(on(2_200_000_000).outcome, Outcome::Passed);
    let shared = on(3_500_000_000);
    assert_eq!(shared.outcome, Outcome::Unverified);
    assert!(shared.reason.contains("others moved 1.50 GB on vda meanwhile"), "{shared:?}");
    let disks = Some(Disks { name: "vda".to_owned(), moved_bytes: 9_000_000_000 });
    let cached = CellFacts { disks, device_read_bytes: Ok(0), ..good() };
    assert!(gate(&cached, GateName::DeviceBytesRead).is_failed());
}
