//! Fits recover the parameters of simulated devices, do not depend on units, and refuse what they
//! cannot determine.

use proptest::prelude::*;
use stook::bench::model::ModelError;
use stook::bench::model::block::{BlockCell, BlockModel};
use stook::bench::model::depth::{DepthCell, DepthModel};
use stook::bench::model::mix::{MixCell, MixModel};
use stook::report::least_squares::Estimate;
use stook_testing::device::{Device, Workload};

use super::{depth_cell, rate};

const BLOCKS: &[u64] = &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Every device, with a time in which it serves some thousands of requests one after the other.
fn devices() -> [(&'static str, Device, f64); 4] {
    [
        ("HDD", Device::hdd(), 200.0),
        ("SATA SSD", Device::sata_ssd(), 4.0),
        ("NVMe", Device::nvme(), 2.0),
        ("object store", Device::object_store(), 400.0),
    ]
}

fn near(found: f64, truth: f64, within: f64, what: &str) {
    assert!((found / truth - 1.0).abs() <= within, "{what}: {found} instead of {truth}");
}

#[test]
fn fixed_cost_and_bandwidth_are_recovered_within_5_percent_of_noisy_devices() {
    for (name, device, time_s) in devices() {
        let device = Device { chance: 0.3, ..device };
        // The smallest blocks hardly feel the bandwidth of a disk, so the sweep goes as far as its
        // device.
        let cells: Vec<BlockCell> = BLOCKS
            .iter()
            .chain(&[4 << 20, 16 << 20])
            .map(|&block_bytes| {
                let run = device.run(Workload::reads(1, block_bytes as f64, time_s));
                BlockCell { block_bytes, latency_mean_s: run.latency_mean_s(), counts: true }
            })
            .collect();
        let model = BlockModel::fit(&cells).unwrap();
        let (fixed_s, bandwidth) = (device.read.fixed_s, device.read.bandwidth_bytes_per_s);
        near(model.fixed_cost_s.value, fixed_s, 0.05, name);
        near(model.bandwidth_bytes_per_s.value, bandwidth, 0.05, name);
        near(model.half_bandwidth_block_bytes.value, fixed_s * bandwidth, 0.08, name);
        assert!(model.residual_max < 0.05, "{name}: {model:?}");
        // At 90% efficiency nine times the half-bandwidth block, by definition.
        let block = model.block_for_efficiency_bytes(0.9).unwrap();
        near(block / model.latency_s(block), 0.9 * model.bandwidth_bytes_per_s.value, 1e-9, name);
    }
}

#[test]
fn the_published_latencies_are_a_line() {
    let table = [(4, 17.76), (16, 19.78), (32, 23.75), (128, 44.1), (512, 131.29)];
    let cells =
        table.map(|(kib, us)| BlockCell { block_bytes: kib << 10, latency_mean_s: us * 1e-6, counts: true });
    let model = BlockModel::fit(&cells).unwrap();
    near(model.fixed_cost_s.value, 16.6e-6, 0.01, "fixed cost");
    near(model.bandwidth_bytes_per_s.value, 4.64e9, 0.01, "bandwidth");
    assert!(model.residual_max < 0.019, "{model:?}");
    assert!(model.fixed_cost_s.interval.contains(16.6e-6));
    assert!(model.bandwidth_bytes_per_s.interval.contains(4.64e9));
}

#[test]
fn intervals_of_the_block_fit_hold_the_truth_at_least_as_often_as_they_say() {
    let device = Device { chance: 1.0, ..Device::nvme() };
    let mut held = [0; 3];
    for seed in 0..200 {
        let cells: Vec<BlockCell> = BLOCKS
            .iter()
            .map(|&block_bytes| {
                let workload = Workload {
                    seed: seed * 1000 + block_bytes,
                    ..Workload::reads(1, block_bytes as f64, 0.05)
                };
                BlockCell { block_bytes, latency_mean_s: device.run(workload).latency_mean_s(), counts: true }
            })
            .collect();
        let model = BlockModel::fit(&cells).unwrap();
        let (fixed_s, bandwidth) = (device.read.fixed_s, device.read.bandwidth_bytes_per_s);
        held[0] += u32::from(model.fixed_cost_s.interval.contains(fixed_s));
        held[1] += u32::from(model.bandwidth_bytes_per_s.interval.contains(bandwidth));
        held[2] += u32::from(model.half_bandwidth_block_bytes.interval.contains(fixed_s * bandwidth));
    }
    // 190 are expected; chance alone keeps it within 9 of that.
    assert!(held.iter().all(|held| *held >= 180), "{held:?}");
}

#[test]
fn what_cannot_be_told_of_blocks_is_refused_with_the_reason() {
    let cell =
        |kib: u64, us: f64, counts| BlockCell { block_bytes: kib << 10, latency_mean_s: us * 1e-6, counts };
    let few = [cell(4, 20.0, true), cell(4, 21.0, true), cell(16, 25.0, true), cell(64, 40.0, false)];
    let refused = BlockModel::fit(&few).unwrap_err();
    let expected = ModelError::TooFew { what: "block sizes", counted: 2, invalid: 1, needed: 3 };
    assert_eq!(refused, expected);
    assert!(refused.to_string().contains("3 different block sizes are needed"), "{refused}");
    let flat = [cell(4, 20.0, true), cell(16, 20.0, true), cell(64, 19.0, true)];
    assert!(BlockModel::fit(&flat).unwrap_err().to_string().contains("no bandwidth follows from it"));
    let steep = [cell(4, 1.0, true), cell(16, 8.0, true), cell(64, 64.0, true)];
    assert!(BlockModel::fit(&steep).unwrap_err().to_string().contains("no fixed cost follows from it"));
    let zero = [cell(4, 0.0, true), cell(16, 20.0, true), cell(64, 19.0, true)];
    assert!(matches!(BlockModel::fit(&zero), Err(ModelError::NotPositive { .. })));
    let good = [cell(4, 20.0, true), cell(16, 25.0, true), cell(64, 40.0, true)];
    let model = BlockModel::fit(&good).unwrap();
    assert_eq!([0.0, 1.0, -1.0, f64::NAN].map(|share| model.block_for_efficiency_bytes(share)), [None; 4]);
}

/// A sweep over depths 1, 2, 4 … of one device.
fn sweep(device: &Device, block_bytes: f64, deepest: usize, time_s: f64) -> Vec<DepthCell> {
    std::iter::successors(Some(1), |depth| Some(depth * 2))
        .take_while(|depth| *depth <= deepest)
        .map(|depth| {
            let workload = Workload::reads(depth, block_bytes, time_s);
            depth_cell(depth, &device.run(Workload { window_s: time_s / 20.0, ..workload }))
        })
        .collect()
}

#[test]
fn the_bend_over_depth_is_recovered_within_3_percent() {
    let (block, cases) = (4096.0, devices());
    for (name, device, time_s) in cases {
        let cells = sweep(&device, block, 1024, time_s / 5.0);
        let model = DepthModel::fit(&cells, None).unwrap();
        let alone_s = device.read.alone_s(block);
        let rate_max = (device.parallel as f64 / alone_s).min(1.0 / device.read.spacing_s(block));
        near(model.latency_alone_s.value, alone_s, 0.01, name);
        near(model.rate_max_per_s.value, rate_max, 0.03, name);
        near(model.depth_star.value, rate_max * alone_s, 0.03, name);
        assert!(model.saturated && model.retrograde.is_none(), "{name}: {model:?}");
        assert!(model.residuals.iter().all(|cell| cell.residual.abs() < 0.03), "{name}: {model:?}");
        let balanced = model.answers.balanced.unwrap().depth;
        assert_eq!(balanced, (rate_max * alone_s * 0.95).ceil().log2().ceil().exp2() as u64, "{name}");
    }
}

#[test]
fn block_and_depth_together_predict_the_bandwidth() {
    let device = Device::nvme();
    let cells: Vec<BlockCell> = BLOCKS
        .iter()
        .map(|&block_bytes| {
            let run = device.run(Workload::reads(1, block_bytes as f64, 0.2));
            BlockCell { block_bytes, latency_mean_s: run.latency_mean_s(), counts: true }
        })
        .collect();
    let model = BlockModel::fit(&cells).unwrap();
    for &block_bytes in BLOCKS {
        for depth in [1, 8, 64, 256] {
            let block = block_bytes as f64;
            let measured = device.run(Workload::reads(depth, block, 0.2)).rate_per_s() * block;
            let predicted = model.bandwidth_at_bytes_per_s(block, (depth as f64).min(128.0), 7e9, 800e3);
            near(measured, predicted, 0.03, &format!("{block_bytes} at {depth}"));
        }
    }
}

#[test]
fn each_of_the_three_answers_is_the_depth_it_is_meant_to_be() {
    // Rate, mean and 99th percentile in ms: a device for four at a time.
    let table =
        [(1, 1000.0, 1.0, 2.0), (2, 1800.0, 1.11, 2.5), (4, 2800.0, 1.43, 4.0), (8, 3000.0, 2.67, 9.0)];
    let cells = |width: f64| {
        table.map(|(depth, rate, mean_ms, p99_ms)| DepthCell {
            depth,
            rate_per_s: Estimate::around(rate, width * rate, 0.95),
            latency_mean_s: mean_ms * 1e-3,
            latency_p99_s: p99_ms * 1e-3,
            counts: true,
        })
    };
    let answers = DepthModel::fit(&cells(0.01), Some(3e-3)).unwrap().answers;
    // X ÷ W: 1000, 1622, 1958, 1124 thousand.
    assert_eq!(answers.latency.depth, 4);
    assert_eq!(answers.balanced.unwrap().depth, 8, "2800 is less than 95% of 3000");
    assert_eq!(answers.service_level.unwrap().depth, 2);
    let unsure = DepthModel::fit(&cells(0.06), Some(1e-3)).unwrap();
    assert_eq!(unsure.answers.balanced, None, "no interval is narrow enough");
    assert_eq!(unsure.answers.service_level, None, "no depth keeps to it");
    assert!(!unsure.saturated, "it was still growing by more than 5%");
    assert_eq!(DepthModel::fit(&cells(0.01), None).unwrap().answers.service_level, None);
}

#[test]
fn throughput_that_falls_at_great_depths_is_reported() {
    let device = Device { crowding: 0.002, chance: 0.2, ..Device::nvme() };
    let model = DepthModel::fit(&sweep(&device, 4096.0, 1024, 0.4), None).unwrap();
    let retrograde = model.retrograde.unwrap();
    assert_eq!((retrograde.peak_depth, retrograde.deepest_depth), (128, 1024));
    // 128 at a time, each longer by 0.2% for every other one, against the limit on the rate.
    let deepest = 128.0 / (device.read.alone_s(4096.0) * (1.0 + 0.002 * 1023.0));
    near(1.0 - retrograde.loss_share, deepest / 800e3, 0.03, "what is left");
    assert!((32.0..512.0).contains(&retrograde.peak_depth_fitted), "{retrograde:?}");
    assert!(retrograde.law.kappa > 0.0);
}

#[test]
fn the_scalability_law_is_recovered_where_it_holds() {
    let (lambda, sigma, kappa) = (10_000.0, 0.02, 0.0005);
    let cells: Vec<DepthCell> = (0..9)
        .map(|power| {
            let n = f64::from(1 << power);
            let rate = lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
            let (latency_mean_s, rate_per_s) = (n / rate, Estimate::around(rate, 1e-3 * rate, 0.95));
            DepthCell {
                depth: 1 << power,
                rate_per_s,
                latency_mean_s,
                latency_p99_s: latency_mean_s,
                counts: true,
            }
        })
        .collect();
    let retrograde = DepthModel::fit(&cells, None).unwrap().retrograde.unwrap();
    near(retrograde.law.lambda_per_s, lambda, 1e-6, "lambda");
    near(retrograde.law.sigma, sigma, 1e-6, "sigma");
    near(retrograde.law.kappa, kappa, 1e-6, "kappa");
    near(retrograde.peak_depth_fitted, ((1.0 - sigma) / kappa).sqrt(), 1e-6, "peak");
    assert!(retrograde.law.residual_max < 1e-9);
}

#[test]
fn what_cannot_be_told_of_depths_is_refused_with_the_reason() {
    let cells = sweep(&Device::hdd(), 4096.0, 8, 20.0);
    let some = |indices: &[usize]| -> Vec<DepthCell> {
        let counts = |index| indices.contains(&index);
        cells.iter().enumerate().map(|(index, cell)| DepthCell { counts: counts(index), ..*cell }).collect()
    };
    let few = DepthModel::fit(&some(&[0, 1]), None);
    assert_eq!(few, Err(ModelError::TooFew { what: "depths", counted: 2, invalid: 2, needed: 3 }));
    let headless = DepthModel::fit(&some(&[1, 2, 3]), None);
    assert_eq!(headless, Err(ModelError::NoReference { what: "at depth 1" }));
    assert_eq!(DepthModel::fit(&some(&[0, 1, 3]), None).unwrap().cells_invalid, 1);
    let mut idle = some(&[0, 1, 2, 3]);
    idle[2].latency_mean_s = 0.0;
    assert!(matches!(DepthModel::fit(&idle, None), Err(ModelError::NotPositive { .. })));
}

fn mix_cell(device: &Device, read_share: f64) -> MixCell {
    let workload = Workload { read_share, window_s: 0.02, ..Workload::reads(256, 4096.0, 0.4) };
    let run = device.run(workload);
    let read_share = run.read_share();
    MixCell { block_bytes: 4096, depth: 256, read_share, rate_per_s: rate(&run), counts: true }
}

#[test]
fn mixed_rates_follow_from_pure_ones_and_interference_is_what_is_left() {
    let shares = [1.0, 0.7, 0.5, 0.3, 0.0];
    // All that bounds this device is shared: reads and writes do not hinder one another otherwise.
    let mut device = Device::nvme();
    device.parallel = 512;
    let calm = MixModel::fit(&shares.map(|share| mix_cell(&device, share))).unwrap();
    assert_eq!(calm.predictions.len(), 3);
    assert!(calm.interference.abs() < 0.03, "{calm:?}");
    assert!(calm.predictions.iter().all(|cell| (cell.share_used - 1.0).abs() < 0.03));
    device.turn_s = 0.5e-6;
    let torn = MixModel::fit(&shares.map(|share| mix_cell(&device, share))).unwrap();
    for cell in &torn.predictions {
        // Two neighbours differ in 2·ρ·(1 − ρ) of all cases, and each time it costs a turn.
        let turns = 2.0 * cell.read_share * (1.0 - cell.read_share);
        let expected = 1.0 / (1.0 + turns * device.turn_s * cell.predicted_per_s.value) - 1.0;
        assert!((cell.residual - expected).abs() < 0.02, "{cell:?} {expected}");
        assert!(cell.residual_is_certain && cell.share_used < 0.95);
    }
    assert!(torn.interference < -0.1);
}

#[test]
fn the_published_mix_costs_little() {
    let table = [
        (1.0, 47_800.0, 0.0),
        (0.7, 28_500.0, 12_100.0),
        (0.5, 20_600.0, 20_500.0),
        (0.3, 11_900.0, 27_600.0),
        (0.0, 0.0, 37_000.0),
    ];
    let cells = table.map(|(read_share, reads, writes)| {
        let rate_per_s = Estimate::exactly(reads + writes);
        MixCell { block_bytes: 16 << 10, depth: 1, read_share, rate_per_s, counts: true }
    });
    let model = MixModel::fit(&cells).unwrap();
    assert!(model.interference.abs() < 0.08, "{model:?}");
}

#[test]
fn what_cannot_be_told_of_a_mix_is_refused_or_counted() {
    let cell = |read_share, block_bytes, counts| MixCell {
        block_bytes,
        depth: 1,
        read_share,
        rate_per_s: Estimate::exactly(1000.0),
        counts,
    };
    let no_writes = [cell(1.0, 4096, true), cell(0.5, 4096, true), cell(0.0, 4096, false)];
    assert!(matches!(MixModel::fit(&no_writes), Err(ModelError::NoReference { .. })));
    let other_block =
        [cell(1.0, 4096, true), cell(0.0, 4096, true), cell(0.5, 4096, true), cell(0.5, 512, true)];
    let model = MixModel::fit(&other_block).unwrap();
    assert_eq!((model.predictions.len(), model.cells_without_reference), (1, 1));
    assert_eq!((model.interference, model.predictions[0].residual_is_certain), (0.0, false));
    assert!(matches!(MixModel::fit(&[cell(1.5, 4096, true)]), Err(ModelError::Contradicted { .. })));
}

#[test]
fn models_serialise_with_units_in_their_names() {
    let cells = sweep(&Device::hdd(), 4096.0, 4, 20.0);
    let json = serde_json::to_value(DepthModel::fit(&cells, None).unwrap()).unwrap();
    assert!(json["latency_alone_s"]["interval"]["low"].is_number());
    assert!(json["answers"]["latency"]["rate_per_s"].is_number());
    assert!(json["retrograde"].is_null());
}

proptest! {
    #[test]
    fn exact_lines_are_found_in_any_unit(
        fixed in 1e-6_f64..1.0, half_block in 1e2_f64..1e8, time in 1e-6_f64..1e6, shift in 0_u32..10,
    ) {
        let bandwidth = half_block / fixed;
        let cells = |time: f64, shift: u32| BLOCKS.iter().map(|&block_bytes| BlockCell {
            block_bytes: block_bytes << shift,
            latency_mean_s: (fixed + block_bytes as f64 / bandwidth) * time,
            counts: true,
        }).collect::<Vec<_>>();
        let (one, other) = (BlockModel::fit(&cells(1.0, 0)).unwrap(), BlockModel::fit(&cells(time, shift)).unwrap());
        let is_near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
        prop_assert!(is_near(one.fixed_cost_s.value, fixed) && is_near(one.bandwidth_bytes_per_s.value, bandwidth));
        prop_assert!(is_near(other.fixed_cost_s.value, fixed * time));
        let scaled = bandwidth / time * f64::from(1_u32 << shift);
        prop_assert!(is_near(other.bandwidth_bytes_per_s.value, scaled));
    }

    #[test]
    fn answers_over_depth_do_not_depend_on_the_unit_of_time(
        rates in prop::collection::vec(1.0_f64..2.0, 3..10), power in -20_i32..20,
    ) {
        let unit = 2_f64.powi(power);
        let cells = |unit: f64| rates.iter().enumerate().map(|(index, growth)| {
            let depth = 1_u64 << index;
            let rate = growth * 1000.0 * depth as f64 / (1.0 + depth as f64 / 8.0) / unit;
            let rate_per_s = Estimate::around(rate, rate / 100.0, 0.95);
            DepthCell { depth, rate_per_s, latency_mean_s: depth as f64 / rate, latency_p99_s: unit, counts: true }
        }).collect::<Vec<_>>();
        let (one, other) = (DepthModel::fit(&cells(1.0), None).unwrap(), DepthModel::fit(&cells(unit), None).unwrap());
        prop_assert_eq!(one.answers.latency.depth, other.answers.latency.depth);
        prop_assert_eq!(one.answers.balanced.map(|a| a.depth), other.answers.balanced.map(|a| a.depth));
        prop_assert!((one.depth_star.value / other.depth_star.value - 1.0).abs() < 1e-9);
        prop_assert_eq!(one.retrograde.is_some(), other.retrograde.is_some());
    }
}
