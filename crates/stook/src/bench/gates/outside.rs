//! The checks of what is between the requests and the device: timers, processors, configured
//! limits, and pending writes of a file system.

use std::num::NonZeroU32;

use super::{
    Allowed, CellFacts, Gate, GateName, Load, Outcome, Words, judge, not_applicable, or_unverified,
    unverified,
};
use crate::report::units::duration_ns;

/// How much of the mean latency may be the tool's own.
const LATE: Allowed = Allowed::at_most(0.20);
/// How much of its time, and of the time of its requests, a thread may wait for a processor.
const PROCESSOR_WAIT: Allowed = Allowed::at_most(0.05);
/// In less time than this a single turn of another program, which is a few milliseconds, is more
/// than that.
const PROCESSOR_WAIT_TIME_MIN_S: f64 = 0.1;
/// How long a thread that is woken waits for a processor even where no other thread wants it: a few
/// microseconds, once when a request is due and once when it is done.
const WAKING_S: f64 = 10e-6;
/// From this share of a limit on, the limit itself may have been measured.
const THROTTLE_FROM: f64 = 0.90;
const DURABLE: Allowed = Allowed::at_most(1.10);

/// A limit of a control group on the device, and how much of it was used.
#[derive(Debug, Clone, PartialEq)]
pub struct Throttled {
    /// What it allows, in plain words: `reads of 20 MB/s`.
    pub allowed: String,
    /// The rate that was reached ÷ the one that is allowed.
    pub share: f64,
}

/// The stops by a control group whose processor quota was used up.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaStop {
    /// What it allows, as its files have it: `cpu.max 20000 100000`.
    pub limit: String,
    /// For how long it stopped its programs, on all processors added up.
    pub stopped_s: f64,
}

/// Latencies of an open loop count from when a request was due, also where a timer woke the tool
/// after that.
pub(super) fn punctual(cell: &CellFacts<'_>) -> Gate {
    let name = GateName::Punctual;
    let Load::Open { late_mean_s, latency_mean_s, latency_median_s, .. } = cell.load else {
        return not_applicable(name, "in a closed loop no request has a moment at which it is due");
    };
    // A few slow requests raise the mean, and then a median that is mostly late would pass.
    let (latency_s, which) = match latency_median_s < latency_mean_s {
        true => (latency_median_s, "median"),
        false => (latency_mean_s, "mean"),
    };
    let share = late_mean_s / latency_s;
    let late = in_words(late_mean_s);
    let start = format!(
        "requests were handed over {late} after they were due ({:.0}% of the {which} latency)",
        share * 100.0
    );
    let above = format!(
        "{start}: the timers of this machine, not the device; use a closed loop (--depth) for latencies"
    );
    or_unverified(judge(name, share, LATE, Words { below: start.clone(), within: start, above }))
}

fn in_words(seconds: f64) -> String {
    duration_ns((seconds * 1e9).round() as u64)
}

/// Latencies include the time in which a thread was ready to continue and had no processor. If
/// requests are few, a small share of all time may be most of theirs.
pub(super) fn processor_wait(cell: &CellFacts<'_>) -> Gate {
    let name = GateName::ProcessorWait;
    let of_what = |share: f64| match share_of_latencies(cell, share) {
        of_latencies if of_latencies > share => (of_latencies, "the time in which requests were in flight"),
        _ => (share, "the time"),
    };
    let share = match &cell.processor_wait_share_max {
        Ok(share) => *share,
        Err(reason) => return unverified(name, reason.as_str()),
    };
    if cell.time_s < PROCESSOR_WAIT_TIME_MIN_S {
        return unverified(name, "the run is too short to tell whether threads waited for a processor");
    }
    let ((sure, _), (share, time)) = (of_what((share - cell.processor_wait_unsure).max(0.0)), of_what(share));
    let percent = share * 100.0;
    let above = match &cell.quota_stop {
        Some(QuotaStop { limit, stopped_s }) => format!(
            "the control group's processor quota stopped the program for {} ({limit}), and a thread waited \
             {percent:.0}% of {time} for a processor: latencies hold that time; raise the quota",
            in_words(*stopped_s)
        ),
        None => format!(
            "a thread waited {percent:.0}% of {time} for a processor that other programs used: latencies \
             hold that time; leave the machine to the measurement"
        ),
    };
    let within = format!("no thread waited more than {percent:.1}% of {time} for a processor");
    let gate = judge(name, share, PROCESSOR_WAIT, Words { below: within.clone(), within, above });
    let is_more = |share: f64| PROCESSOR_WAIT.max.is_none_or(|max| share > max);
    if gate.is_failed() && is_more(sure) {
        return gate;
    }
    if is_more(cell.stopped_share) {
        return stopped(cell.stopped_share);
    }
    if let (Some(tracer), false) = (cell.tracer, gate.is_failed()) {
        return traced(tracer);
    }
    if !gate.is_failed() {
        return gate;
    }
    let reason = format!(
        "a thread waited up to {percent:.0}% of {time} for a processor, and what kept it is not known: other \
         programs, a quota that cannot be seen from here, or threads of the run itself"
    );
    Gate { reason, ..or_unverified(gate) }
}

/// Whether a thread of the run had to wait for a processor for longer than is allowed, or was
/// stopped, by whatever it was.
pub(super) fn lacked_processor(cell: &CellFacts<'_>) -> bool {
    let gate = processor_wait(cell);
    let has_waited = gate.measured.is_some() && gate.outcome != Outcome::Passed;
    has_waited || PROCESSOR_WAIT.max.is_some_and(|max| cell.stopped_share > max)
}

/// The program stood still for this share of the time. Who stopped it is not known: the user, a
/// manager of containers, or the host below.
fn stopped(share: f64) -> Gate {
    let above = format!(
        "the program was stopped for {:.0}% of the time (by a signal, a debugger, a freezer of control \
         groups, or the host below): rates and latencies hold that time",
        share * 100.0
    );
    let words = Words { below: String::new(), within: String::new(), above };
    or_unverified(judge(GateName::ProcessorWait, share, PROCESSOR_WAIT, words))
}

/// A stopped thread sleeps, as one that waits for the device does, so what a tracer stopped is not
/// known.
fn traced(tracer: NonZeroU32) -> Gate {
    let reason = format!(
        "process {tracer} traces a thread of the run (a debugger, or strace): it may stop the thread, and \
         latencies hold that time; measure without it"
    );
    unverified(GateName::ProcessorWait, reason)
}

/// The wait of a thread beyond its wake-up time ÷ the time in which its requests were in flight; 0
/// if there were none.
fn share_of_latencies(cell: &CellFacts<'_>, share_of_time: f64) -> f64 {
    let woken_s = cell.requests as f64 / f64::from(cell.jobs.max(1)) * WAKING_S;
    let waited_s = (share_of_time * cell.time_s - woken_s).max(0.0);
    let in_flight_s = cell.waited_for_requests_s();
    if in_flight_s > 0.0 { waited_s / in_flight_s } else { 0.0 }
}

/// A run at a configured limit shows nothing about the device.
pub(super) fn throttle(cell: &CellFacts<'_>) -> Gate {
    let name = GateName::Throttle;
    let Some(most) = cell.throttled.iter().max_by(|left, right| left.share.total_cmp(&right.share)) else {
        return not_applicable(name, "no control group limits what is done on the device");
    };
    let Throttled { allowed, share } = most;
    let start =
        format!("the control group allows {allowed} on this device, and {share:.2} of that was reached");
    let above = format!("{start}: the limit was measured, not the device");
    // The limit itself is not allowed: the greatest number below it is.
    let below_it = Allowed::at_most(THROTTLE_FROM.next_down());
    or_unverified(judge(name, *share, below_it, Words { below: start.clone(), within: start, above }))
}

/// Data that a file system has accepted and not yet written out does not show the speed of the
/// device.
pub(super) fn durable(cell: &CellFacts<'_>) -> Gate {
    let name = GateName::Durable;
    if cell.written_bytes == 0 {
        return not_applicable(name, "nothing was written");
    }
    let Some(after_s) = cell.durable_after_s else {
        return unverified(name, "no sync waited until the written data was durable");
    };
    let start = format!("after the last write the file system took {after_s:.1} s more to make them durable");
    let above = format!("{start}: the rate leaves that out; sync in the cell (--fsync-every) or run longer");
    let words = Words { below: start.clone(), within: start, above };
    judge(name, (cell.time_s + after_s) / cell.time_s, DURABLE, words)
}
