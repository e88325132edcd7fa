//! The checks that compare two figures of a cell.

use super::outside::lacked_processor;
use super::{Allowed, CellFacts, Gate, GateName, Load, Outcome, Words, judge, not_applicable, unverified};
use crate::report::units::{bytes_decimal, count, significant};

/// How far the two sides of Little's law may differ.
const LITTLE: Allowed = Allowed::between(1.0 - LITTLE_SHARE, 1.0 + LITTLE_SHARE);
const LITTLE_SHARE: f64 = 0.03;
/// How many standard errors the sampled mean may be off: more than these happen to one of ten
/// thousand honest runs.
const LITTLE_ERRORS: f64 = 4.0;
/// A sampled mean that may be off by more than this share of itself would not show latencies that
/// leave out half.
const LITTLE_TELLS: f64 = 0.5;
/// Which share of the requests that are due has to be done in the same time.
const RATE_MIN: f64 = 0.97;
/// Of a few requests, as many as may just be in flight at the end are a larger share.
const RATE_STRAGGLERS: f64 = 4.0;
/// Bytes at the device ÷ bytes asked: metadata and the ends of the measured time make a few
/// percent.
const DEVICE_BYTES: Allowed = Allowed::between(DEVICE_BYTES_MIN, DEVICE_BYTES_MAX);
const DEVICE_BYTES_MIN: f64 = 0.95;
const DEVICE_BYTES_MAX: f64 = 1.10;
/// The journal writes of a file system beside any load, however light: some at the end, and some
/// each second.
const JOURNAL_BYTES: f64 = (256 << 10) as f64;
const JOURNAL_BYTES_PER_S: f64 = (64 << 10) as f64;
const LINK: Allowed = Allowed::at_most(1.0);
/// From this share on, a thread had no time left to issue more requests.
const THREAD_CPU_SHARE_MAX: f64 = 0.90;

pub(super) fn little_requested(cell: &CellFacts<'_>) -> Gate {
    let Load::Closed { in_flight: depth } = cell.load else {
        return not_applicable(GateName::LittleRequested, "an open loop requests a rate, not a depth");
    };
    let ratio = in_flight_for(cell, depth) / depth;
    let words = Words {
        below: shortfall(cell, ratio, depth),
        within: format!("throughput × mean latency is {ratio:.3} of the requested depth of {depth}"),
        above: format!(
            "throughput × mean latency is {ratio:.3} of the requested depth of {depth}: more than was \
             allowed was in flight, or the latencies hold time in which nothing was asked"
        ),
    };
    judge(GateName::LittleRequested, ratio, LITTLE, words)
}

/// How many requests were in flight, for a given depth. Latencies of requests that began in the
/// ramp count as a whole: they make up for the depth that is no longer full while the last requests
/// are waited for. In a short run they may exceed that; time before measuring began does not mean
/// that more than the depth was in flight.
fn in_flight_for(cell: &CellFacts<'_>, depth: f64) -> f64 {
    let whole = cell.in_flight_by_little();
    if whole > depth { depth.max(cell.in_flight_meanwhile()) } else { whole }
}

/// Which of two things a product that is too small means: the sampled count distinguishes them.
fn shortfall(cell: &CellFacts<'_>, ratio: f64, depth: f64) -> String {
    let start = format!("throughput × mean latency is only {ratio:.3} of the requested depth of {depth}");
    match &cell.in_flight {
        Ok(sampled) if sampled.mean < (1.0 - LITTLE_SHARE) * depth => {
            let mean = sampled.mean;
            format!("{start}: the depth was not reached, {mean:.2} requests were in flight on average")
        }
        Ok(_) => format!("{start}, which was in flight: the latencies leave out part of the time"),
        Err(_) => format!("{start}: the depth was not reached, or the latencies leave out part of the time"),
    }
}

/// Beside a depth that is always full, looks have no error. In a loop that is idle most of the
/// time, few of them see a request, and their mean is off by what chance makes of that.
pub(super) fn little_sampled(cell: &CellFacts<'_>) -> Gate {
    let name = GateName::LittleSampled;
    let sampled = match &cell.in_flight {
        Ok(sampled) => *sampled,
        Err(reason) => return unverified(name, reason.as_str()),
    };
    let (mean, by_little) = (sampled.mean, cell.in_flight_meanwhile());
    let tolerance = (LITTLE_ERRORS * sampled.standard_error_if(by_little)).max(LITTLE_SHARE * mean);
    if tolerance > LITTLE_TELLS * mean && (by_little - mean).abs() <= tolerance {
        let (seen, looks) = (significant(mean), count(sampled.looks));
        let reason = format!(
            "requests were in flight too seldom to hold their latencies against: {seen} on average in {looks} \
             looks; run longer (--time), or ask for more"
        );
        return unverified(name, reason);
    }
    let (ratio, seen) = (by_little / mean, significant(mean));
    let start = format!("throughput × mean latency is {ratio:.3} of the {seen} requests sampled in flight");
    let words = Words {
        below: format!("{start}: the latencies leave out part of the time"),
        above: format!("{start}: the latencies count time in which a request was not in flight"),
        within: start,
    };
    let share = (tolerance / mean).max(LITTLE_SHARE);
    judge(name, ratio, Allowed::between(1.0 - share, 1.0 + share), words)
}

/// Compared with the number of due requests, not with the rate: a random schedule may have more or
/// fewer.
pub(super) fn rate_reached(cell: &CellFacts<'_>) -> Gate {
    let Load::Open { due, done, held_back, unserved, .. } = cell.load else {
        return not_applicable(GateName::RateReached, "a closed loop requests a depth, not a rate");
    };
    let ratio = done as f64 / due as f64;
    let start = format!(
        "{} requests were due in the measured time, and {} were done in it ({ratio:.3})",
        count(due),
        count(done)
    );
    let below = match held_back {
        0 => format!(
            "{start}, though never as many were in flight as allowed: latencies grow, the tool began them late, or the \
             run is too short for them (--time, --ramp)"
        ),
        late => format!(
            "{start}; {} began late or never, because as many as allowed were in flight: {}",
            count(late),
            why_late(cell, unserved as f64 / due as f64)
        ),
    };
    let words = Words { below, above: start.clone(), within: start };
    let min = RATE_MIN.min(1.0 - RATE_STRAGGLERS / due as f64);
    judge(GateName::RateReached, ratio, Allowed::at_least(min), words)
}

/// Why requests waited for others. `unserved` is the share that was still waiting at the end: after
/// a stall there is none.
fn why_late(cell: &CellFacts<'_>, unserved: f64) -> &'static str {
    match thread_cpu(cell).is_failed() {
        true => "the tool had no time left for more, and is the limit",
        false if lacked_processor(cell) => {
            "the tool did not get a processor in time, and what the device can do is not known"
        }
        false if unserved > 1.0 - RATE_MIN => "the device does not keep up, so latencies grow without end",
        false => "there was a stall, or it is more than the device takes",
    }
}

pub(super) fn device_bytes_read(cell: &CellFacts<'_>) -> Gate {
    let gate =
        device_bytes(GateName::DeviceBytesRead, cell.read_bytes, &cell.device_read_bytes, DEVICE_BYTES);
    unless_shared(cell, gate)
}

pub(super) fn device_bytes_written(cell: &CellFacts<'_>) -> Gate {
    let journal = journal_bytes(cell);
    let max = DEVICE_BYTES_MAX.max(1.0 + journal / cell.written_bytes.max(1) as f64);
    let allowed = Allowed::between(DEVICE_BYTES_MIN, max);
    let gate =
        device_bytes(GateName::DeviceBytesWritten, cell.written_bytes, &cell.device_written_bytes, allowed);
    unless_shared(cell, gate)
}

/// What a journal may write beside the cell.
fn journal_bytes(cell: &CellFacts<'_>) -> f64 {
    JOURNAL_BYTES + JOURNAL_BYTES_PER_S * cell.time_s
}

/// Bytes that agree for a partition, or a loop device, do not show what others did on the same disk
/// meanwhile.
fn unless_shared(cell: &CellFacts<'_>, gate: Gate) -> Gate {
    let Some(disks) = cell.disks.as_ref().filter(|_| gate.outcome == Outcome::Passed) else { return gate };
    let asked = (cell.read_bytes + cell.written_bytes) as f64;
    let moved = disks.moved_bytes as f64;
    if moved <= DEVICE_BYTES_MAX * asked + journal_bytes(cell) {
        return gate;
    }
    let reason = format!(
        "others moved {} on {} meanwhile, which this shares with them: measure alone",
        bytes_decimal((moved - asked) as u64),
        disks.name
    );
    Gate { outcome: Outcome::Unverified, reason, ..gate }
}

fn device_bytes(
    name: GateName,
    asked_bytes: u64,
    device_bytes: &Result<u64, String>,
    allowed: Allowed,
) -> Gate {
    let (verb, nothing, rest) = match name {
        GateName::DeviceBytesWritten => {
            ("wrote", "nothing was written", "other programs wrote, or writes were amplified")
        }
        _ => ("read", "nothing was read", "other programs read, or more was read ahead than was asked for"),
    };
    if asked_bytes == 0 {
        return not_applicable(name, nothing);
    }
    let device_bytes = match device_bytes {
        Ok(bytes) => *bytes,
        Err(reason) => return unverified(name, reason.as_str()),
    };
    let ratio = device_bytes as f64 / asked_bytes as f64;
    let start = match ratio < 1.0 {
        true => format!("the device {verb} {ratio:.2} of the bytes requested"),
        false => format!("the device {verb} {} times the bytes requested", significant(ratio)),
    };
    let words = Words {
        below: format!("{start}: a cache or compression stood in between, this is not the device"),
        above: format!("{start}: {rest}"),
        within: start,
    };
    judge(name, ratio, allowed, words)
}

/// A bound from above, which proves nothing where it holds: without one there is nothing to check.
pub(super) fn link_limit(cell: &CellFacts<'_>) -> Gate {
    let limit = match &cell.link_limit_bytes_per_s {
        Ok(limit) => *limit,
        Err(reason) => return not_applicable(GateName::LinkLimit, reason.as_str()),
    };
    let ratio = cell.bandwidth_bytes_per_s() / limit;
    let start = format!("the bandwidth is {ratio:.3} of what the link to the device can carry");
    let words = Words {
        above: format!("{start}: the bytes cannot have come from the device"),
        below: start.clone(),
        within: start,
    };
    judge(GateName::LinkLimit, ratio, LINK, words)
}

pub(super) fn thread_cpu(cell: &CellFacts<'_>) -> Gate {
    let share = match &cell.thread_cpu_share_max {
        Ok(share) => *share,
        Err(reason) => return unverified(GateName::ThreadCpu, reason.as_str()),
    };
    let fewer = if cell.jobs > 1 { "; ask for fewer jobs" } else { "" };
    let (share, who, of_what, advice) = match cell.processors_share {
        all if all > share => (all, "the threads of the run used", "of all processors", fewer),
        _ => (share, "the busiest thread used", "of a processor", "; try more jobs"),
    };
    let start = format!("{who} {:.0}% {of_what}", share * 100.0);
    let words = Words {
        above: format!("{start}: the tool is the limit, not the device{advice}"),
        below: start.clone(),
        within: start,
    };
    // The limit itself is not allowed: the greatest number below it is.
    judge(GateName::ThreadCpu, share, Allowed::at_most(THREAD_CPU_SHARE_MAX.next_down()), words)
}
