//! Models of measured cells, and of a whole result.

use stook::bench::gates::state;
use stook::bench::model::block::BlockCell;
use stook::bench::model::depth::DepthCell;
use stook::bench::model::mix::MixCell;
use stook::bench::model::{Cell, Models, Part};
use stook::bench::page::page;
use stook::bench::{BenchResult, CellResult, Second, State, Unobserved, Workload};
use stook::engine::Backend;

use super::{bench, short};

/// A result with one cell of two runs, which tests give other figures.
fn measured() -> BenchResult {
    let directory = tempfile::tempdir().unwrap();
    let cell = Workload { read_share: 50, depth: 2, jobs: 2, ..short() };
    let twice = stook::bench::Bench { rounds: 2, ..bench(&[cell]) };
    twice.run(directory.path(), &Backend::Threads, &Unobserved).unwrap()
}

/// The cell as if each of its runs had completed these numbers of requests in each second.
fn with_rates(mut cell: CellResult, runs: [&[u64]; 2]) -> CellResult {
    for (run, rates) in cell.runs.iter_mut().zip(runs) {
        run.steady_s = rates.len() as f64;
        run.series = rates.iter().map(|&reads| Second { reads, ..Second::default() }).collect();
        run.windows.clear();
    }
    cell.total.iops = 1000.0;
    (cell.runs[0].state, cell.runs[1].state, cell.state) =
        (State::Valid, State::Unverified, State::Unverified);
    cell
}

#[test]
fn a_cell_has_the_figures_of_its_result_in_seconds() {
    let result = measured();
    let found = &result.cells[0];
    let cell = Cell::of(found);
    assert_eq!((cell.block_bytes, cell.read_share, cell.depth), (4096, 50, 4));
    assert_eq!((cell.rate_per_s.value, cell.state), (found.total.iops, found.state));
    assert!(found.runs.iter().all(|run| run.state == state(&run.gates)));
    let mean_s = found.total.latency_mean_ns.unwrap() / 1e9;
    assert_eq!((cell.latency_mean_s, cell.in_flight()), (mean_s, cell.little_ratio * 4.0));
    assert!((cell.in_flight() / (found.total.iops * mean_s) - 1.0).abs() < 1e-9);
    assert_eq!(cell.read, found.read.as_ref().map(Part::of));
    // What each model takes of it.
    assert_eq!(BlockCell::from(&cell).latency_mean_s, mean_s);
    let depth = DepthCell::from(&cell);
    assert_eq!((depth.depth, Some(depth.latency_p99_s)), (4, cell.latency_p99_s));
    assert_eq!(DepthCell::from(&Cell { latency_p99_s: None, ..cell.clone() }).latency_p99_s, mean_s);
    let (read, write) = (cell.read.unwrap().rate_per_s, cell.write.unwrap().rate_per_s);
    assert_eq!(MixCell::from(&cell).read_share, read / (read + write));
}

#[test]
fn the_interval_of_a_rate_is_that_of_its_seconds_and_open_where_they_are_too_few() {
    let cell = measured().cells.remove(0);
    let steady = with_rates(cell.clone(), [&[990, 1010, 1000, 1000, 1000], &[1005, 995, 1000, 990, 1010]]);
    let rate = Cell::of(&steady).rate_per_s;
    assert!(900.0 < rate.interval.low && rate.interval.low < 1000.0, "{rate:?}");
    assert!(1000.0 < rate.interval.high && rate.interval.high < 1100.0, "{rate:?}");
    // An invalid run does not count, whatever its rate.
    let mut half = with_rates(cell.clone(), [&[990, 1010, 1000, 1000, 1000], &[10, 5000, 10, 5000, 10]]);
    half.runs[1].state = State::Invalid;
    let rate = Cell::of(&half).rate_per_s;
    assert!(900.0 < rate.interval.low && rate.interval.high < 1100.0, "{rate:?}");
    let few = Cell::of(&with_rates(cell, [&[990, 1010], &[1005, 995]])).rate_per_s;
    assert_eq!((few.value, few.interval.low, few.interval.high), (1000.0, 0.0, f64::INFINITY));
}

/// A result of cells that all count, and take 100 µs and what their bytes take at 1 GB/s.
fn swept(cells: &[Workload]) -> BenchResult {
    let mut result = measured();
    let one = with_rates(result.cells.remove(0), [&[990, 1010, 1000, 1000], &[1005, 995, 1000, 1000]]);
    let of = |workload: &Workload| {
        let mut cell = CellResult { workload: workload.clone(), ..one.clone() };
        cell.total.latency_mean_ns = Some(100_000.0 + workload.block_size as f64);
        cell
    };
    BenchResult { cells: cells.iter().map(of).collect(), ..result }
}

#[test]
fn what_differs_in_one_thing_only_is_fitted_and_the_rest_left_alone() {
    let block = |block_size| Workload { block_size, ..short() };
    let mut cells: Vec<Workload> = [4096, 16_384, 65_536, 262_144].map(block).to_vec();
    // Two depths are no sweep, and an open loop is none at any number of block sizes.
    cells.push(Workload { depth: 8, ..short() });
    cells.extend([4096, 16_384, 65_536].map(|size| Workload { rate_per_s: Some(100.0), ..block(size) }));
    let models = Models::of(&swept(&cells));
    assert_eq!((models.blocks.len(), models.depths.len(), models.mixes.len()), (1, 0, 0));
    assert_eq!(models.blocks[0].cells, [0, 1, 2, 3]);
    let model = models.blocks[0].fitted.model().unwrap();
    assert!((model.fixed_cost_s.value * 1e6 - 100.0).abs() < 0.01, "{model:?}");
    assert!((model.bandwidth_bytes_per_s.value / 1e9 - 1.0).abs() < 1e-3, "{model:?}");
}

#[test]
fn a_sweep_of_cells_that_are_not_valid_says_why_it_has_no_model() {
    let mut result = swept(&[1, 2, 4].map(|depth| Workload { depth, ..short() }));
    result.cells.iter_mut().for_each(|cell| cell.state = State::Invalid);
    let models = Models::of(&result);
    let fitted = &models.depths[0].fitted;
    assert!(fitted.model().is_none() && fitted.refused().unwrap().contains("3 not valid"), "{fitted:?}");
    let json = serde_json::to_value(&models).unwrap();
    assert_eq!(json["depths"][0]["cells"], serde_json::json!([0, 1, 2]));
    assert!(json["depths"][0]["model"].is_null() && json["depths"][0]["refused"].is_string(), "{json}");
}

/// Every block at every depth, of a device that completes 40,000 a second at most, four at a time.
#[test]
fn the_page_of_a_sweep_draws_what_counts_and_names_what_does_not() {
    let sizes = [4096, 16_384, 65_536, 262_144];
    let cell = |block_size, depth| Workload { block_size, depth, ..short() };
    let cells: Vec<Workload> =
        sizes.into_iter().flat_map(|size| [1, 2, 4, 8, 16].map(|depth| cell(size, depth))).collect();
    let mut result = swept(&cells);
    for cell in &mut result.cells {
        let (depth, alone_ns) = (f64::from(cell.workload.depth), cell.total.latency_mean_ns.unwrap());
        let waiting = (depth / 4.0).max(1.0);
        cell.total.latency_mean_ns = Some(alone_ns * waiting);
        cell.total.iops = depth * 1e9 / (alone_ns * waiting);
        cell.total.bandwidth_bytes_per_s = cell.total.iops * cell.workload.block_size as f64;
        for run in &mut cell.runs {
            let reads = cell.total.iops as u64;
            run.series = (0..4).map(|at| Second { reads: reads + at, ..Second::default() }).collect();
            (run.seconds, run.state) = (4.0, State::Valid);
        }
        (cell.state, cell.reasons) = (State::Valid, Vec::new());
    }
    let spoiled = &mut result.cells[19];
    (spoiled.state, spoiled.reasons) = (State::Invalid, vec!["a cache stood in between".to_owned()]);
    let html = page(&result).render();
    for part in [
        "20 cells were measured: 19 valid, 0 unverified",
        "What the size of blocks changes (",
        "t₀: 100 µs",
        "half of B: 97.7 KiB",
        "What depth changes (",
        "N* = 4",
        "what the law says",
        "Block and depth together",
        "depth 16, buffered: not valid",
        "The job of every cell",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let unmeasured = BenchResult { cells: Vec::new(), ..result };
    assert!(page(&unmeasured).render().contains("Nothing was measured to its end."));
}
