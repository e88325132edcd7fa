//! What bench computes, on simulated devices whose truth is known.

mod compare;
mod fits;
mod gates;
mod loads;
mod open_loops;
mod slo;
mod survey;

use stook::bench::gates::{CellFacts, Gate, GateName, Load, Looks, Outcome, Series};
use stook::bench::model::depth::DepthCell;
use stook::report::bootstrap::mean_interval;
use stook::report::least_squares::Estimate;
use stook_testing::device::{Arrival, Run};

fn unknown<T>() -> Result<T, String> {
    Err("a simulated device has none".to_owned())
}

/// What a tool that sees everything knows of a run; `rates` are its windows.
fn facts<'a>(run: &Run, rates: &'a [f64]) -> CellFacts<'a> {
    let (read, written) = run.bytes();
    let load = match run.workload.arrival {
        Arrival::Closed(depth) => Load::Closed { in_flight: depth as f64 },
        Arrival::Constant(_) | Arrival::Poisson(_) => {
            let done = run.finished.len() as u64;
            let is_random = matches!(run.workload.arrival, Arrival::Poisson(_));
            let due = done + run.in_flight.last().unwrap();
            let (late_mean_s, latency_mean_s) = (0.0, run.latency_mean_s());
            Load::Open {
                due,
                done,
                held_back: 0,
                unserved: 0,
                is_random,
                late_mean_s,
                latency_mean_s,
                latency_median_s: run.latency_quantile_s(0.5),
            }
        }
    };
    let mut looks = Looks::default();
    run.in_flight.iter().for_each(|&in_flight| looks.add(in_flight));
    CellFacts {
        load,
        jobs: 1,
        time_s: run.workload.time_s,
        steady_s: run.workload.time_s,
        requests: run.finished.len() as u64,
        latency_mean_s: run.latency_mean_s(),
        earlier_s: 0.0,
        in_flight: looks.sampled(),
        read_bytes: read as u64,
        written_bytes: written as u64,
        device_read_bytes: unknown(),
        device_written_bytes: unknown(),
        disks: None,
        link_limit_bytes_per_s: unknown(),
        thread_cpu_share_max: unknown(),
        processors_share: 0.0,
        processor_wait_share_max: unknown(),
        processor_wait_unsure: 0.0,
        quota_stop: None,
        stopped_share: 0.0,
        tracer: None,
        throttled: Vec::new(),
        durable_after_s: None,
        series: Series { window_s: run.workload.window_s, rates_bytes_per_s: rates },
        long_run: None,
    }
}

fn gate(cell: &CellFacts<'_>, name: GateName) -> Gate {
    stook::bench::gates::check(cell).into_iter().find(|gate| gate.name == name).unwrap()
}

fn outcome(cell: &CellFacts<'_>, name: GateName) -> Outcome {
    gate(cell, name).outcome
}

fn rate(run: &Run) -> Estimate {
    mean_interval(&[&run.window_rates_per_s()], 0.95, 1).unwrap()
}

fn depth_cell(depth: usize, run: &Run) -> DepthCell {
    DepthCell {
        depth: depth as u64,
        rate_per_s: rate(run),
        latency_mean_s: run.latency_mean_s(),
        latency_p99_s: run.latency_quantile_s(0.99),
        counts: true,
    }
}
