//! The checks that compare two figures of a cell.

use super::{Allowed, CellFacts, Gate, GateName, Load, Words, judge, not_applicable};

/// How far the two sides of Little's law may differ.
const LITTLE: Allowed = Allowed::between(0.97, 1.03);
/// Which share of a requested rate has to be reached.
const RATE: Allowed = Allowed::at_least(0.97);
/// Bytes at the device ÷ bytes asked: metadata and the ends of the measured time make a few percent.
const DEVICE_BYTES: Allowed = Allowed::between(0.95, 1.10);
const LINK: Allowed = Allowed::at_most(1.0);
/// From here on a thread has no time left in which it could have asked for more.
const THREAD_CPU_SHARE_MAX: f64 = 0.90;

pub(super) fn little_requested(cell: &CellFacts<'_>) -> Gate {
    let Load::Closed { in_flight: depth } = cell.load else {
        return not_applicable(GateName::LittleRequested, "an open loop requests a rate, not a depth");
    };
    let ratio = cell.in_flight_by_little() / depth;
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

/// Which of two things a product that is too small means: the sampled count tells them apart.
fn shortfall(cell: &CellFacts<'_>, ratio: f64, depth: f64) -> String {
    let start = format!("throughput × mean latency is only {ratio:.3} of the requested depth of {depth}");
    match &cell.in_flight_mean {
        Ok(sampled) if *sampled < 0.97 * depth => {
            format!("{start}: the depth was not reached, {sampled:.2} requests were in flight on average")
        }
        Ok(_) => format!("{start}, which was in flight: the latencies leave out part of the time"),
        Err(_) => format!("{start}: the depth was not reached, or the latencies leave out part of the time"),
    }
}

pub(super) fn little_sampled(cell: &CellFacts<'_>) -> Gate {
    let sampled = match &cell.in_flight_mean {
        Ok(sampled) => *sampled,
        Err(reason) => return not_applicable(GateName::LittleSampled, reason.as_str()),
    };
    let ratio = cell.in_flight_by_little() / sampled;
    let start =
        format!("throughput × mean latency is {ratio:.3} of the {sampled:.2} requests sampled in flight");
    let words = Words {
        below: format!("{start}: the latencies leave out part of the time"),
        above: format!("{start}: the latencies count time in which a request was not in flight"),
        within: start,
    };
    judge(GateName::LittleSampled, ratio, LITTLE, words)
}

pub(super) fn rate_reached(cell: &CellFacts<'_>) -> Gate {
    let Load::Open { rate_per_s } = cell.load else {
        return not_applicable(GateName::RateReached, "a closed loop requests a depth, not a rate");
    };
    let reached = cell.rate_per_s();
    let ratio = reached / rate_per_s;
    let start = format!("{reached:.1} of {rate_per_s:.1} requests per second were reached ({ratio:.3})");
    let words = Words {
        below: format!("{start}: the device or the tool does not keep up, so latencies grow without end"),
        above: start.clone(),
        within: start,
    };
    judge(GateName::RateReached, ratio, RATE, words)
}

pub(super) fn device_bytes(name: GateName, asked_bytes: u64, device_bytes: &Result<u64, String>) -> Gate {
    let (verb, rest) = match name {
        GateName::DeviceBytesWritten => ("written", "other programs wrote, or writes were amplified"),
        _ => ("read", "other programs read, or more was read ahead than was asked for"),
    };
    if asked_bytes == 0 {
        return not_applicable(name, format!("nothing was {verb}"));
    }
    let device_bytes = match device_bytes {
        Ok(bytes) => *bytes,
        Err(reason) => return not_applicable(name, reason.as_str()),
    };
    let ratio = device_bytes as f64 / asked_bytes as f64;
    let start = format!("the device says that {ratio:.3} of the bytes asked for were {verb}");
    let words = Words {
        below: format!("{start}: a cache or compression stood in between, this is not the device"),
        above: format!("{start}: {rest}"),
        within: start,
    };
    judge(name, ratio, DEVICE_BYTES, words)
}

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
        Err(reason) => return not_applicable(GateName::ThreadCpu, reason.as_str()),
    };
    let percent = share * 100.0;
    let start = format!("the busiest thread used {percent:.0}% of a processor");
    let words = Words {
        above: format!("{start}: the tool is the limit, not the device; try more jobs"),
        below: start.clone(),
        within: start,
    };
    // The limit itself is not allowed: the greatest number below it is.
    judge(GateName::ThreadCpu, share, Allowed::at_most(THREAD_CPU_SHARE_MAX.next_down()), words)
}
