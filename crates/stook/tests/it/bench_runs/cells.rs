//! Cells that run to their end.

use stook::bench::gates::{Gate, GateName, Outcome};
use stook::bench::{
    Bench, BenchResult, CellResult, Figures, Pattern, RunResult, State, Unobserved, Workload,
};
use stook::engine::Backend;
use stook_testing::device::{Costs, Device, DeviceEngines};
use stook_testing::fault::{EngineCall, FaultEngineFactory};

use super::{BACKENDS, FILE_BYTES, bench, measure, only, short};

/// What has to add up in any result.
fn adds_up(cell: &CellResult) {
    let block = cell.workload.block_size;
    for run in &cell.runs {
        let parts = [&run.read, &run.write].map(|part| part.as_ref().map_or(0, |part| part.count));
        assert_eq!(run.total.count, parts.iter().sum::<u64>());
        assert_eq!(run.total.bytes, run.total.count * block);
        let in_series: u64 = run.series.iter().map(|second| second.reads + second.writes).sum();
        assert_eq!(in_series, run.total.count, "every request is in the series");
        assert_eq!(run.series.iter().map(|second| second.bytes).sum::<u64>(), run.total.bytes);
        assert_eq!(run.total.histogram.count.iter().sum::<u64>(), run.total.count);
        let latency_sum: u64 = run.series.iter().map(|second| second.latency_sum_ns).sum();
        let mean = run.total.latency_mean_ns.unwrap();
        assert!((latency_sum as f64 / run.total.count as f64 / mean - 1.0).abs() < 1e-9);
        let quantiles = [run.total.latency_min_ns, run.total.latency_p50_ns, run.total.latency_p99_ns];
        assert!(quantiles.is_sorted() && run.total.latency_p999_ns <= run.total.latency_max_ns);
        assert!(
            run.seconds > 0.0 && (run.total.iops * run.seconds / run.total.count as f64 - 1.0).abs() < 1e-9
        );
        assert!(run.in_flight.most <= run.in_flight.requested);
    }
}

#[test]
fn every_direction_and_pattern_is_counted_on_both_backends() {
    for backend in BACKENDS {
        for pattern in [Pattern::Random, Pattern::Sequential] {
            for (read_share, depth, jobs) in [(100, 1, 1), (0, 4, 1), (50, 8, 2), (100, 32, 3)] {
                let cell = Workload { pattern, read_share, depth, jobs, ..short() };
                let found = measure(&cell, &backend).unwrap();
                adds_up(&found);
                // A size is shared by the jobs, in whole blocks.
                let each = (2 << 20) / u64::from(jobs) / 4096;
                assert_eq!(found.total.count, each * u64::from(jobs), "{cell:?}");
                assert_eq!((found.read.is_some(), found.write.is_some()), (read_share > 0, read_share < 100));
                // What was written is made durable after it was measured, and that is reported.
                assert_eq!(found.runs[0].durable_after_s.is_some(), read_share < 100);
                if let (50, Some(read)) = (read_share, &found.read) {
                    // Twelve standard deviations.
                    assert!((128..=384).contains(&read.count), "{} of 512 are reads", read.count);
                }
            }
        }
    }
}

#[test]
fn blocks_of_several_sizes_are_counted_by_their_own_bytes() {
    for backend in BACKENDS {
        for pattern in [Pattern::Random, Pattern::Sequential] {
            let cell = Workload { pattern, read_share: 50, depth: 4, jobs: 2, ..short() };
            let cell = cell.of_sizes(Some("4k/60:8k/30:64k/10".parse().unwrap()));
            let found = measure(&cell, &backend).unwrap();
            let sizes: Vec<u64> = found.sizes.iter().map(|size| size.block_size).collect();
            assert_eq!(sizes, [4 << 10, 8 << 10, 64 << 10]);
            let sum = |of: fn(&Figures) -> u64| found.sizes.iter().map(|size| of(&size.total)).sum::<u64>();
            assert_eq!(sum(|size| size.count), found.total.count);
            assert_eq!(sum(|size| size.bytes), found.total.bytes);
            assert!(found.sizes.iter().all(|size| size.total.bytes == size.total.count * size.block_size));
            let run = &found.runs[0];
            assert_eq!(run.series.iter().map(|second| second.bytes).sum::<u64>(), run.total.bytes);
            // It ends with the last request that surely is not too much.
            assert!(run.total.bytes <= 2 << 20 && run.total.bytes > (2 << 20) - (2 << 16) - (2 << 16));
            // 10,240 bytes on average: no fewer than would be by more than six standard deviations.
            assert!(found.total.count > 90, "{}", found.total.count);
        }
    }
}

#[test]
fn the_law_of_little_holds_for_blocks_of_several_sizes() {
    // 10 ms, and 20 ms for the longer ones, four at a time.
    let costs = Costs::new(9.6e-3, 4096.0 / 0.4e-3);
    let engines = DeviceEngines::new(Backend::Threads, Device::new(costs, 4));
    let cell = Workload { size_bytes: None, time_s: Some(1.5), depth: 4, ..short() };
    let cell = cell.of_sizes(Some("4k/50:104k/50".parse().unwrap()));
    let found = measure(&cell, &engines).unwrap();
    let run = &found.runs[0];
    for name in [GateName::LittleRequested, GateName::LittleSampled] {
        let gate = run.gates.iter().find(|gate| gate.name == name).unwrap();
        assert_ne!(gate.outcome, Outcome::NotApplicable, "{gate:?}");
        // On a machine that stood still it may be unverified.
        assert!(!gate.is_failed(), "{gate:?}");
    }
    let mean = |at: usize| found.sizes[at].total.latency_mean_ns.unwrap();
    assert!(mean(0) < mean(1), "{} {}", mean(0), mean(1));
}

#[test]
fn direct_cells_pass_the_page_cache_by_where_that_is_possible() {
    let directory = tempfile::tempdir().unwrap();
    let probe = stook::engine::File::create_new(directory.path().join("probe")).unwrap();
    let possible = probe.is_direct_possible();
    let cell = Workload { buffered: false, depth: 8, ..short() };
    for backend in BACKENDS {
        match measure(&cell, &backend) {
            Ok(found) => assert!(possible && found.runs.iter().all(|run| run.direct)),
            Err(error) => {
                assert!(!possible && error.to_string().contains("expected buffered I/O"), "{error}")
            }
        }
    }
}

#[test]
fn a_time_bound_is_kept_and_the_ramp_is_not_counted() {
    for backend in BACKENDS {
        let cell = Workload { ramp_s: 0.3, time_s: Some(1.0), size_bytes: None, depth: 4, ..short() };
        let found = measure(&cell, &backend).unwrap();
        adds_up(&found);
        let run = &found.runs[0];
        // It may end late on a busy machine, never early.
        assert!(run.seconds >= 1.0 && run.steady_s <= run.seconds, "{} {}", run.seconds, run.steady_s);
        assert!(run.in_flight.samples > 0 && run.in_flight.mean.unwrap() <= 4.0);
        assert!(run.cpu.process_s > 0.0 && run.cpu.busiest_thread_share > 0.0);
        assert!(run.cpu.waiting_share_max.is_some_and(|share| share >= 0.0), "{:?}", run.cpu);
        assert_eq!(run.windows.len(), 5);
    }
}

#[test]
fn syncs_are_asked_for_after_every_so_many_writes_and_are_no_part_of_the_total() {
    for backend in BACKENDS {
        let cell = Workload { read_share: 0, fsync_every: Some(8), size_bytes: Some(64 * 4096), ..short() };
        let found = measure(&cell, &backend).unwrap();
        adds_up(&found);
        let syncs = found.sync.as_ref().unwrap();
        assert_eq!((found.total.count, syncs.bytes), (64, 0));
        // The one after the last write is not requested any more.
        assert_eq!(syncs.count, 7);
    }
}

/// The offsets of all reads, as an engine that counts saw them after the layout.
fn offsets(cell: &Workload) -> Vec<u64> {
    let engines = FaultEngineFactory::new(Backend::Threads);
    measure(cell, &engines).unwrap();
    let reads = engines.operations().into_iter().filter(|operation| operation.call == EngineCall::Read);
    reads.map(|operation| operation.offset).collect()
}

#[test]
fn a_seed_repeats_the_offsets() {
    let cell = Workload { depth: 4, ..short() };
    let first = offsets(&cell);
    assert_eq!(first.len(), 512);
    assert!(first.iter().all(|offset| offset % 4096 == 0 && *offset < FILE_BYTES));
    assert_eq!(first, offsets(&cell));
    assert_ne!(first, offsets(&Workload { seed: 2, ..cell.clone() }));
    let sequential = offsets(&Workload { pattern: Pattern::Sequential, ..cell });
    // From a place of its own, and from the start of the file after its end.
    assert!(sequential.windows(2).all(|pair| pair[1] == (pair[0] + 4096) % FILE_BYTES), "{sequential:?}");
}

#[test]
fn rounds_run_every_cell_once_and_are_taken_together() {
    let directory = tempfile::tempdir().unwrap();
    let engines = FaultEngineFactory::new(Backend::Threads);
    let cells = [short(), Workload { block_size: 16_384, ..short() }];
    let bench = Bench { rounds: 3, ..bench(&cells) };
    let result = bench.run(directory.path(), &engines, &Unobserved).unwrap();
    for (cell, count) in result.cells.iter().zip([512, 128]) {
        assert_eq!(cell.runs.iter().map(|run| run.round).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(cell.runs.iter().all(|run| run.total.count == count));
        // Runs that are invalid count only where all are.
        let any = cell.runs.iter().any(|run| !run.state.is_invalid());
        let counted = || cell.runs.iter().filter(|run| !run.state.is_invalid() || !any);
        assert_eq!(cell.total.count, counted().count() as u64 * count);
        let seconds: f64 = counted().map(|run| run.seconds).sum();
        assert!((cell.total.iops * seconds / cell.total.count as f64 - 1.0).abs() < 1e-9);
    }
    let reads = engines.operations().into_iter().filter(|operation| operation.call == EngineCall::Read);
    let mut lengths: Vec<usize> = reads.map(|operation| operation.len).collect();
    lengths.dedup();
    assert_eq!(lengths, [4096, 16_384].repeat(3), "A B A B A B");
}

#[test]
fn results_are_the_same_after_json() {
    let directory = tempfile::tempdir().unwrap();
    let cell = Workload { read_share: 50, rate_per_s: Some(5000.0), depth: 4, ..short() };
    let result = bench(&[cell]).run(directory.path(), &Backend::Auto, &Unobserved).unwrap();
    let text = serde_json::to_string(&result).unwrap();
    let again: BenchResult = serde_json::from_str(&text).unwrap();
    // Figures may lose their last bit; whole numbers, names and flags may not lose anything.
    let (before, after) = (only(result), only(again));
    assert!(before.workload == after.workload && before.total.histogram == after.total.histogram);
    let (run, read) = (&before.runs[0], &after.runs[0]);
    assert!(run.series == read.series && run.device == read.device && run.reasons == read.reasons);
    let gates = |gates: &[Gate]| gates.iter().map(|gate| (gate.name, gate.outcome)).collect::<Vec<_>>();
    assert_eq!(gates(&run.gates), gates(&read.gates));
    adds_up(&after);
}

/// Before: 256 requests were valid, because nothing could be said against them.
#[test]
fn a_run_of_a_few_milliseconds_is_never_valid() {
    for backend in BACKENDS {
        let found = measure(&short(), &backend).unwrap();
        let length = found.runs[0].gates.iter().find(|gate| gate.name == GateName::Length).unwrap();
        assert_eq!(length.outcome, Outcome::Unverified, "{length:?}");
        assert!(!found.runs[0].state.is_valid() && !found.state.is_valid() && !found.reasons.is_empty());
    }
}

/// A run as it was measured, but for rate and state: what a device does is up to it.
fn judged(run: &RunResult, rounds: &[(f64, State)]) -> (State, Vec<String>) {
    let runs = rounds.iter().map(|&(iops, state)| {
        let mut run = run.clone();
        (run.total.iops, run.state) = (iops, state);
        run
    });
    CellResult::verdict(&runs.collect::<Vec<_>>())
}

/// Before: rounds of 1,985 (not valid), 8,147, 1,763 (not valid) and 8,014 requests a second were
/// "valid, 8,080".
#[test]
fn a_cell_takes_a_majority_of_rounds_that_agree() {
    use State::{Invalid, Unverified, Valid};
    let run = measure(&short(), &Backend::Threads).unwrap().runs.remove(0);
    let said = |rounds: &[(f64, State)]| {
        let (state, reasons) = judged(&run, rounds);
        assert_eq!(state, Invalid, "{rounds:?}");
        reasons[0].clone()
    };
    let odd = said(&[(1985.0, Invalid), (8147.0, Valid), (1763.0, Invalid), (8014.0, Unverified)]);
    assert!(odd.contains("2 of 4 rounds are not valid"), "{odd}");
    // Their own reasons are enough.
    assert!(!said(&[(1.0, Invalid), (1.0, Invalid)]).contains("rounds"));
    assert!(said(&[(100.0, Valid), (130.0, Unverified), (90.0, Valid)]).contains("37.5%"));
    assert!(said(&[(0.0, Valid), (0.0, Valid)]).contains("changes from round to round"));
    for agree in [&[(100.0, Valid)][..], &[(100.0, Valid), (110.0, Valid), (50.0, Invalid)]] {
        assert_eq!(judged(&run, agree).0, Valid);
    }
    for mixed in [&[(100.0, Unverified)][..], &[(100.0, Valid), (110.0, Unverified), (50.0, Invalid)]] {
        let (state, reasons) = judged(&run, mixed);
        assert!(state == Unverified && !reasons.is_empty(), "{mixed:?}");
    }
}

#[test]
fn a_reason_that_rounds_share_is_reported_once_for_each_check() {
    let mut runs = vec![measure(&short(), &Backend::Threads).unwrap().runs.remove(0); 3];
    for (at, run) in runs.iter_mut().enumerate() {
        run.gates.retain(|gate| gate.name == GateName::Length);
        run.gates[0].reason = format!("too short: {at} s");
        (run.state, run.total.iops) = (State::Unverified, 100.0);
    }
    assert_eq!(CellResult::verdict(&runs), (State::Unverified, vec!["too short: 0 s".to_owned()]));
    // Why a round was left out is reported too.
    (runs[1].state, runs[1].gates[0].outcome) = (State::Invalid, Outcome::Failed);
    let reasons = ["too short: 0 s", "too short: 1 s"].map(str::to_owned).to_vec();
    assert_eq!(CellResult::verdict(&runs), (State::Unverified, reasons));
}
