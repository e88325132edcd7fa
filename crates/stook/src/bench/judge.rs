//! What a run found, handed to the gates.

use super::gates::{CellFacts, Gate, Load, Series, check};
use super::long_run::LongRun;
use super::run::{Measured, TICK_NS, Tick};
use super::workload::Workload;
use crate::report::histogram::LatencyHistogram;

/// Runs of at least this many seconds are judged by seconds, shorter ones by ticks.
const SECONDS_MIN: usize = 10;

/// Every check of one run, beside the long run of its cell, where there was one.
pub(super) fn judge(
    workload: &Workload,
    measured: &Measured,
    long_run: Option<&LongRun>,
    link_limit_bytes_per_s: Option<f64>,
) -> Vec<Gate> {
    let Measured { record, .. } = measured;
    let load = match workload.rate_per_s {
        Some(rate_per_s) => Load::Open { rate_per_s },
        None => Load::Closed { in_flight: workload.requested_depth() as f64 },
    };
    // Syncs take a slot each, so whoever asks how many requests were in flight has to count them.
    let all = [&record.reads, &record.writes, &record.syncs];
    let requests: u64 = all.iter().map(|histogram| histogram.count()).sum();
    let bytes = |histogram: &LatencyHistogram| histogram.count() * workload.block_size;
    let device = measured.device.as_ref().ok_or("the file lies on no block device that counts");
    let (window_s, rates) = rates(&record.ticks, measured.steady_s, workload.block_size);
    check(&CellFacts {
        load,
        time_s: measured.seconds,
        requests,
        // What was late to begin was not in flight before it did.
        latency_mean_s: (latency_sum_ns(&all) - record.waited_ns as f64) / requests.max(1) as f64 / 1e9,
        in_flight_mean: measured
            .in_flight
            .mean()
            .ok_or_else(|| "it was over before anybody looked".to_owned()),
        read_bytes: bytes(&record.reads),
        written_bytes: bytes(&record.writes),
        device_read_bytes: device.map(|device| device.read_bytes).map_err(str::to_owned),
        device_written_bytes: device.map(|device| device.write_bytes).map_err(str::to_owned),
        link_limit_bytes_per_s: link_limit_bytes_per_s
            .ok_or_else(|| "the system does not tell what the link of the device carries".to_owned()),
        thread_cpu_share_max: Ok(measured.busiest_thread),
        series: Series { window_s, rates_bytes_per_s: &rates },
        long_run: long_run.map(LongRun::series),
    })
}

fn latency_sum_ns(histograms: &[&LatencyHistogram]) -> f64 {
    histograms.iter().filter_map(|h| Some(h.mean_ns()? * h.count() as f64)).sum()
}

/// Bytes a second in each window of the steady time.
pub(super) fn rates(ticks: &[Tick], steady_s: f64, block_size: u64) -> (f64, Vec<f64>) {
    let whole = ((steady_s * 1e9) as u64 / TICK_NS) as usize;
    let per_second = (1_000_000_000 / TICK_NS) as usize;
    let len = if whole >= SECONDS_MIN * per_second { per_second } else { 1 };
    let window_s = (len as u64 * TICK_NS) as f64 / 1e9;
    let rate = |ticks: &[Tick]| {
        let Tick { reads, writes, .. } = Tick::sum(ticks);
        ((reads + writes) * block_size) as f64 / window_s
    };
    // A tick in which nothing completed any more is not in the list, and yet it passed.
    let missing = whole.saturating_sub(ticks.len()) / len;
    let steady = ticks.get(..whole).unwrap_or(ticks);
    let mut rates: Vec<f64> = steady.chunks_exact(len).map(rate).collect();
    rates.extend(std::iter::repeat_n(0.0, missing));
    (window_s, rates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(count: usize) -> Vec<Tick> {
        vec![Tick { reads: 3, writes: 1, latency_sum_ns: 8 }; count]
    }

    #[test]
    fn short_runs_are_judged_by_ticks_and_long_ones_by_seconds() {
        assert_eq!(rates(&ticks(25), 2.0, 1000), (0.1, vec![40_000.0; 20]));
        assert_eq!(rates(&ticks(107), 10.6, 1000), (1.0, vec![40_000.0; 10]));
    }

    #[test]
    fn stretches_in_which_nothing_completes_count_as_nothing() {
        let (window_s, rates) = rates(&ticks(2), 0.5, 1000);
        assert_eq!((window_s, rates), (0.1, vec![40_000.0, 40_000.0, 0.0, 0.0, 0.0]));
    }
}
