//! Profiles of simulated devices say what the devices are, and so do predictions of reading trees
//! on them.

use proptest::prelude::*;
use stook::bench::State;
use stook::bench::model::{Cell, Part};
use stook::bench::survey::{SurveyCells, fit, readers_needed};
use stook::ops::advise::model::{FileCost, FileLine, LengthClasses, TogetherCost, alone, together};
use stook::profile::survey::{Figure, ReadersPoint, Validity};
use stook::report::least_squares::Estimate;
use stook_testing::device::{Costs, Device, Run, Workload};

use super::rate;

const SHORT_BYTES: f64 = 4096.0;

/// Every kind, with a time in which it serves some thousands of requests one after the other.
fn devices() -> [(&'static str, Device, f64); 4] {
    [
        ("HDD", Device::hdd(), 100.0),
        ("SATA SSD", Device::sata_ssd(), 2.0),
        ("NVMe", Device::nvme(), 1.0),
        ("object store", Device::object_store(), 200.0),
    ]
}

fn near(found: f64, truth: f64, within: f64, what: &str) {
    assert!((found / truth - 1.0).abs() <= within, "{what}: {found} instead of {truth}");
}

fn cell(run: &Run, depth: u64) -> Cell {
    let rate_per_s: Estimate = rate(run);
    let block = run.workload.block_bytes;
    let part = |share: f64| {
        let per_s = rate_per_s.value * share;
        let latency_mean_s = run.latency_mean_s();
        (share > 0.0).then_some(Part {
            rate_per_s: per_s,
            bandwidth_bytes_per_s: per_s * block,
            latency_mean_s,
        })
    };
    let reads = run.read_share();
    Cell {
        block_bytes: block as u64,
        read_share: (run.workload.read_share * 100.0) as u8,
        depth,
        rate_per_s,
        bandwidth_bytes_per_s: rate_per_s.value * block,
        latency_mean_s: run.latency_mean_s(),
        latency_p99_s: Some(run.latency_quantile_s(0.99)),
        little_ratio: 1.0,
        read: part(reads),
        write: part(1.0 - reads),
        state: State::Valid,
        reasons: Vec::new(),
    }
}

/// The cells of a survey, on a simulated device.
fn cells(device: &Device, time_s: f64) -> SurveyCells {
    let windows = |workload: Workload| Workload { window_s: time_s / 20.0, ..workload };
    let reads = |depth: u64, block: f64| {
        cell(&device.run(windows(Workload::reads(depth as usize, block, time_s))), depth)
    };
    let mixed = |read_share: f64| {
        let workload = windows(Workload { read_share, ..Workload::reads(8, 16384.0, time_s) });
        cell(&device.run(workload), 8)
    };
    SurveyCells {
        blocks: [4096.0, 65536.0, 1048576.0, 16777216.0].map(|block| reads(1, block)).to_vec(),
        depths: [1, 2, 4, 8, 16, 32, 64, 128, 256].map(|depth| reads(depth, SHORT_BYTES)).to_vec(),
        long: [65536.0, 262144.0, 1048576.0, 4194304.0].map(|block| reads(32, block)).to_vec(),
        mixes: [1.0, 0.7, 0.0].map(mixed).to_vec(),
    }
}

#[test]
fn a_profile_says_what_the_device_is() {
    for (name, device, time_s) in devices() {
        let device = Device { chance: 0.2, ..device };
        let found = fit(&cells(&device, time_s), 1.0);
        assert_eq!(found.survey.notes, [""; 0], "{name}");
        let costs: Costs = device.read;
        let line = found.survey.block.as_ref().unwrap();
        near(line.fixed_s.value, costs.fixed_s, 0.05, name);
        near(line.bandwidth_bytes_per_s.value, costs.bandwidth_bytes_per_s, 0.05, name);
        assert_eq!(line.fixed_s.state, Validity::Valid);
        let most = (device.parallel as f64 / costs.alone_s(SHORT_BYTES)).min(costs.rate_max_per_s);
        near(found.measured.random_reads_per_s.unwrap(), most, 0.06, name);
        // More than is needed for the most is not chosen, nor much less.
        let enough = most * costs.alone_s(SHORT_BYTES);
        let depth = found.measured.depth.unwrap() as f64;
        assert!((0.7 * enough..=3.0 * enough.max(1.0)).contains(&depth), "{name}: {depth} for {enough}");
        near(found.measured.request_ns.unwrap() as f64, costs.alone_s(SHORT_BYTES) * 1e9, 0.06, name);
        assert!(found.measured.block_bytes.unwrap().is_multiple_of(4096), "{name}");
        assert!(found.survey.mix.as_ref().unwrap().interference.abs() < 0.1, "{name}");
        let curve = found.survey.depth.as_ref().unwrap();
        assert!(curve.cells.iter().all(|point| point.rate_per_s.low.is_some()), "{name}");
    }
}

#[test]
fn what_does_not_count_makes_no_profile_and_is_named() {
    let mut cells = cells(&Device::nvme(), 0.1);
    for cell in &mut cells.depths {
        cell.state = State::Invalid;
    }
    let found = fit(&cells, 1.0);
    assert_eq!((found.measured.depth, found.survey.depth), (None, None));
    assert!(found.survey.notes.iter().any(|note| note.starts_with("depth: ")), "{:?}", found.survey.notes);
    assert!(found.survey.block.is_some());
    let nothing = fit(&SurveyCells::default(), 1.0);
    assert_eq!(nothing.survey.notes.len(), 4, "{:?}", nothing.survey.notes);
}

#[test]
fn the_least_readers_that_are_as_good_as_the_most_are_chosen() {
    let of = |points: &[(u64, f64)]| {
        let point = |&(readers, value): &(u64, f64)| {
            let state = Validity::Unverified;
            let files_per_s = Figure { value, low: None, high: None, confidence: None, state };
            ReadersPoint { readers, files_per_s }
        };
        readers_needed(&points.iter().map(point).collect::<Vec<_>>())
    };
    assert_eq!(of(&[(1, 100.0), (4, 390.0), (16, 960.0), (64, 1000.0), (128, 900.0)]), Some(16));
    assert_eq!(of(&[(1, 0.0)]), None);
    assert_eq!(of(&[]), None);
}

/// A file on a device: that many requests for names and inode, one after the other, and its bytes.
fn file_s(device: &Device, requests: f64, len: f64) -> f64 {
    requests * device.read.alone_s(SHORT_BYTES) + device.read.alone_s(len)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the device and the lengths are, files that were drawn say what all of them take.
    #[test]
    fn a_tree_takes_what_its_sample_says(
        which in 0_usize..4,
        lens in prop::collection::vec(0_u32..22, 400..1500),
        requests in 0.0_f64..2.0,
    ) {
        let (name, device, _) = devices()[which];
        let lens: Vec<u64> = lens.iter().enumerate().map(|(at, power)| (1_u64 << power) + at as u64 % 7).collect();
        let mut classes = LengthClasses::default();
        lens.iter().for_each(|len| classes.add(*len, 1.0));
        let truth: f64 = lens.iter().map(|len| file_s(&device, requests, *len as f64)).sum();
        // Every third, in clusters of ten.
        let drawn = lens.iter().enumerate().filter(|(at, _)| at % 30 < 10);
        let costs: Vec<FileCost> = drawn
            .map(|(at, len)| FileCost {
                cluster: at / 30,
                len: *len,
                read_bytes: *len,
                seconds: file_s(&device, requests, *len as f64),
            })
            .collect();
        let found = alone(&classes, &costs).unwrap();
        prop_assert!((found.value / truth - 1.0).abs() < 0.1, "{name}: {found:?} instead of {truth}");
        prop_assert!(found.low <= found.value && found.value <= found.high);
        let line = FileLine::fit(&costs, 0.0).unwrap();
        let fixed = file_s(&device, requests, 0.0);
        prop_assert!((line.file_s / fixed - 1.0).abs() < 0.1, "{name}: {line:?} instead of {fixed}");
    }

    /// Readers that share a device are seen as many times as fast as they are, up to its limits.
    #[test]
    fn several_readers_take_what_they_were_seen_to(readers in 2_usize..64, len in 1000_u64..50_000) {
        let device = Device::nvme();
        let one_s = file_s(&device, 1.0, len as f64);
        let costs: Vec<FileCost> =
            (0..60).map(|at| FileCost { cluster: at / 10, len, read_bytes: len, seconds: one_s }).collect();
        let mut classes = LengthClasses::default();
        (0..10_000).for_each(|_| classes.add(len, 1.0));
        let all = alone(&classes, &costs).unwrap();
        let seen = TogetherCost { readers, read_bytes: vec![len; 500], seconds: 500.0 * one_s / readers as f64 };
        let least_s = classes.bytes() / device.read.bandwidth_max_bytes_per_s;
        let found = together(all, &costs, &[seen], least_s).unwrap();
        let truth = (10_000.0 * one_s / readers as f64).max(least_s);
        prop_assert!((found.value / truth - 1.0).abs() < 1e-6, "{found:?} instead of {truth}");
    }
}
