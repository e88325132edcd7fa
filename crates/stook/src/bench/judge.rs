//! Passes the results of a run to the gates.

use super::gates::{CellFacts, Disks, Gate, Load, Looks, Sampled, Series, Throttled, check};
use super::long_run::LongRun;
use super::run::{Measured, TICK_NS, Tick};
use super::workload::{Arrival, Workload};
use crate::device::DeviceUse;
use crate::report::histogram::LatencyHistogram;
use crate::report::units::{rate, significant};

/// Runs of at least this many seconds are judged by seconds, shorter ones by ticks.
const SECONDS_MIN: usize = 10;

/// The least that drives in use take in one request: longer ones are split. With less, requests of
/// other programs would count.
const SPLIT_BYTES: u64 = 128 << 10;

/// Every check of one run, with the long run of its cell, if there was one.
pub(super) fn judge(
    workload: &Workload,
    measured: &Measured,
    long_run: Option<&LongRun>,
    link_limit_bytes_per_s: Option<f64>,
) -> Vec<Gate> {
    let Measured { record, .. } = measured;
    // Each sync takes a slot, so the number of requests in flight includes them.
    let all = [&record.reads, &record.writes, &record.syncs];
    let requests: u64 = all.iter().map(|histogram| histogram.count()).sum();
    let (device_read_bytes, device_written_bytes) = device_bytes(measured);
    let (window_s, rates) = rates(&record.ticks, measured.steady_s);
    check(&CellFacts {
        load: load(workload, measured),
        jobs: workload.jobs,
        time_s: measured.seconds,
        steady_s: measured.steady_s,
        requests,
        // What was late to begin was not in flight before it did.
        latency_mean_s: (latency_sum_ns(&all) - record.waited_ns as f64) / requests.max(1) as f64 / 1e9,
        earlier_s: record.earlier_ns as f64 / 1e9,
        in_flight: sampled(workload, measured.is_real_time, &measured.in_flight),
        read_bytes: record.read_bytes,
        written_bytes: record.write_bytes,
        device_read_bytes,
        device_written_bytes,
        disks: disks(measured),
        link_limit_bytes_per_s: link_limit_bytes_per_s
            .ok_or_else(|| "the system does not report the bandwidth of the device's link".to_owned()),
        thread_cpu_share_max: Ok(measured.busiest_thread),
        processors_share: measured.processors_share,
        processor_wait_share_max: measured
            .waiting_thread
            .ok_or_else(|| "the system does not report how long threads wait for a processor".to_owned()),
        processor_wait_unsure: measured.waiting_unsure,
        quota_stop: measured.quota_stop.clone(),
        stopped_share: measured.stopped_share,
        tracer: measured.tracer,
        throttled: throttled(workload, measured),
        durable_after_s: measured.durable_after_s,
        series: Series { window_s, rates_bytes_per_s: &rates },
        long_run: long_run.map(LongRun::series),
    })
}

/// What was seen in flight. In an open loop a look that sleeps until its moment wakes together with
/// the job whose request is due, and a thread of real time has to sleep.
fn sampled(workload: &Workload, is_real_time: bool, in_flight: &Looks) -> Result<Sampled, String> {
    match workload.rate_per_s {
        Some(_) if is_real_time => {
            Err("the program runs with a real-time policy (chrt), and its looks at what is in \
             flight come when requests are due"
                .to_owned())
        }
        _ => in_flight.sampled(),
    }
}

fn load(workload: &Workload, measured: &Measured) -> Load {
    if workload.rate_per_s.is_none() {
        return Load::Closed { in_flight: workload.requested_depth() as f64 };
    }
    let Measured { due, done, overruns, unserved, ref record, .. } = *measured;
    let is_random = workload.arrival == Arrival::Poisson;
    // Syncs are not due at a moment, and are no part of the latency that is reported.
    let arrived = [&record.reads, &record.writes];
    let requests = arrived.iter().map(|histogram| histogram.count()).sum::<u64>().max(1) as f64;
    let (late_mean_s, latency_mean_s) =
        (record.late_ns as f64 / requests / 1e9, latency_sum_ns(&arrived) / requests / 1e9);
    let held_back = overruns + unserved;
    let mut all = record.reads.clone();
    all.merge(&record.writes);
    let latency_median_s = all.quantile_ns(0.5).map_or(latency_mean_s, |ns| ns as f64 / 1e9);
    Load::Open { due, done, held_back, unserved, is_random, late_mean_s, latency_mean_s, latency_median_s }
}

/// Bytes that the device says it read, and that were written to it, each only once; or why that is
/// not known.
fn device_bytes(measured: &Measured) -> (Result<u64, String>, Result<u64, String>) {
    let unknown = || "the file lies on no block device that counts".to_owned();
    let doubt = measured.device_doubt.clone();
    match measured.device.as_ref().filter(|_| doubt.is_none()) {
        Some(device) => (Ok(device.read_bytes), Ok(device.write_bytes / measured.copies.max(1))),
        None => {
            let why = doubt.unwrap_or_else(unknown);
            (Err(why.clone()), Err(why))
        }
    }
}

/// What the disks below moved, each byte once.
fn disks(measured: &Measured) -> Option<Disks> {
    let used = measured.disks.as_ref().filter(|_| measured.device_doubt.is_none())?;
    let moved_bytes = used.read_bytes + used.write_bytes / measured.copies.max(1);
    Some(Disks { name: used.name.clone(), moved_bytes })
}

/// The limits of the control group on the device, with their use.
fn throttled(workload: &Workload, measured: &Measured) -> Vec<Throttled> {
    let Measured { limits, seconds, .. } = measured;
    let used = at_device(workload, measured);
    let met = |what: &str, limit: Option<f64>, amount: u64, shown: fn(f64) -> String| {
        let limit = limit.filter(|limit| *limit > 0.0 && amount > 0)?;
        let allowed = format!("{what} up to {}", shown(limit));
        Some(Throttled { allowed, share: amount as f64 / seconds / limit })
    };
    let all = [
        met("reads", limits.read_bytes_per_s, used.read_bytes, rate),
        met("writes", limits.write_bytes_per_s, used.write_bytes, rate),
        met("reads", limits.reads_per_s, used.reads, requests_a_second),
        met("writes", limits.writes_per_s, used.writes, requests_a_second),
    ];
    all.into_iter().flatten().collect()
}

fn requests_a_second(limit: f64) -> String {
    format!("{} a second", significant(limit))
}

/// What this cell did at the device, where other programs may do something, too. Bytes that a cache
/// gave or took did not meet it, and a long block may be several requests to it: one for every
/// [`SPLIT_BYTES`] at most.
fn at_device(workload: &Workload, measured: &Measured) -> DeviceUse {
    let (reads, writes) = (measured.record.reads.count(), measured.record.writes.count());
    let (read_bytes, write_bytes) = (measured.record.read_bytes, measured.record.write_bytes);
    let copies = measured.copies.max(1);
    let known = measured.device.as_ref().filter(|_| measured.device_doubt.is_none());
    let (reads, writes) = known.map_or((reads, writes), |device| {
        let own = |at_device, asked, bytes| own_requests(at_device, asked, bytes, workload.block_size);
        (own(device.reads, reads, read_bytes), own(device.writes / copies, writes, write_bytes))
    });
    let read_bytes = known.map_or(read_bytes, |device| device.read_bytes.min(read_bytes));
    let write_bytes = known.map_or(write_bytes, |device| (device.write_bytes / copies).min(write_bytes));
    DeviceUse { reads, read_bytes, writes, write_bytes, ..DeviceUse::default() }
}

/// How many of the requests that the device counted this cell can have made; `block_size` is that
/// of the longest.
fn own_requests(at_device: u64, asked: u64, bytes: u64, block_size: u64) -> u64 {
    let if_all_are_longest = asked * block_size.div_ceil(SPLIT_BYTES);
    // The last of each may be a part.
    at_device.min(if_all_are_longest).min(asked + bytes / SPLIT_BYTES)
}

fn latency_sum_ns(histograms: &[&LatencyHistogram]) -> f64 {
    histograms.iter().filter_map(|h| Some(h.mean_ns()? * h.count() as f64)).sum()
}

/// Bytes a second in each window of the steady time.
pub(super) fn rates(ticks: &[Tick], steady_s: f64) -> (f64, Vec<f64>) {
    let whole = ((steady_s * 1e9) as u64 / TICK_NS) as usize;
    let per_second = (1_000_000_000 / TICK_NS) as usize;
    let len = if whole >= SECONDS_MIN * per_second { per_second } else { 1 };
    let window_s = (len as u64 * TICK_NS) as f64 / 1e9;
    let rate = |ticks: &[Tick]| Tick::sum(ticks).bytes as f64 / window_s;
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
        vec![Tick { reads: 3, writes: 1, bytes: 4000, latency_sum_ns: 8 }; count]
    }

    #[test]
    fn short_runs_are_judged_by_ticks_and_long_ones_by_seconds() {
        assert_eq!(rates(&ticks(25), 2.0), (0.1, vec![40_000.0; 20]));
        assert_eq!(rates(&ticks(107), 10.6), (1.0, vec![40_000.0; 10]));
    }

    /// Before: an honest open loop under `chrt -f 50` was refused ten of eleven times, by looks
    /// that were not at random moments.
    #[test]
    fn looks_of_a_real_time_thread_say_nothing_of_an_open_loop() {
        let mut in_flight = Looks::default();
        (0..100).for_each(|_| in_flight.add(3));
        let open = Workload { rate_per_s: Some(1000.0), ..Workload::default() };
        let refused = sampled(&open, true, &in_flight).unwrap_err();
        assert!(refused.contains("a real-time policy (chrt)"), "{refused}");
        assert_eq!(sampled(&open, false, &in_flight), in_flight.sampled());
        assert_eq!(sampled(&Workload::default(), true, &in_flight), in_flight.sampled());
    }

    /// Before: cells that only read were checked against the limit of writes, with writes of other
    /// programs.
    #[test]
    fn requests_of_other_programs_are_not_held_against_a_limit() {
        assert_eq!(own_requests(1000, 0, 0, 4096), 0);
        assert_eq!(own_requests(1000, 10, 10 << 12, 4096), 10);
        assert_eq!(own_requests(1000, 10, 10 << 20, 1 << 20), 80);
        assert_eq!(own_requests(7, 10, 10 << 12, 4096), 7);
        // Nine of 4 KiB, and one of 1 MiB.
        assert_eq!(own_requests(1000, 10, (1 << 20) + (9 << 12), 1 << 20), 18);
    }

    #[test]
    fn spans_in_which_nothing_completes_count_as_nothing() {
        let (window_s, rates) = rates(&ticks(2), 0.5);
        assert_eq!((window_s, rates), (0.1, vec![40_000.0, 40_000.0, 0.0, 0.0, 0.0]));
    }
}
