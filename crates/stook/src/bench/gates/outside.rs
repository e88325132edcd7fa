//! The checks of what stands between the requests and the device: processors, a limit that somebody
//! set, and what a file system still has to write.

use super::{Allowed, CellFacts, Gate, GateName, Words, judge, not_applicable, or_unverified, unverified};

/// How much of its time a thread may wait for a processor.
const PROCESSOR_WAIT: Allowed = Allowed::at_most(0.05);
/// In less time than this a single turn of another thread, which is a few milliseconds, is more
/// than that.
const PROCESSOR_WAIT_TIME_MIN_S: f64 = 0.1;
/// From this share of a limit on, the limit may be what was measured.
const THROTTLE_FROM: f64 = 0.90;
const DURABLE: Allowed = Allowed::at_most(1.10);

/// What a control group allows on the device, and how much of it was used.
#[derive(Debug, Clone, PartialEq)]
pub struct Throttled {
    /// What it allows, in plain words: `reads of 20 MB/s`.
    pub allowed: String,
    /// The rate that was reached ÷ the one that is allowed.
    pub share: f64,
}

/// Latencies hold the time in which a thread was ready to go on and had no processor.
pub(super) fn processor_wait(cell: &CellFacts<'_>) -> Gate {
    let name = GateName::ProcessorWait;
    let share = match &cell.processor_wait_share_max {
        Ok(share) => *share,
        Err(reason) => return unverified(name, reason.as_str()),
    };
    if cell.time_s < PROCESSOR_WAIT_TIME_MIN_S {
        return unverified(name, "the run is too short to tell whether threads waited for a processor");
    }
    let percent = share * 100.0;
    let fewer = if cell.jobs > 1 { ", or ask for fewer jobs" } else { "" };
    let above = format!(
        "a thread waited {percent:.0}% of the time for a processor that other threads used: latencies hold that \
         time; leave the machine to the measurement{fewer}"
    );
    let within = format!("no thread waited more than {percent:.1}% of the time for a processor");
    judge(name, share, PROCESSOR_WAIT, Words { below: within.clone(), within, above })
}

/// What runs at a limit that somebody set says nothing of the device.
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

/// What a file system has taken and not yet written out is no speed of the device.
pub(super) fn durable(cell: &CellFacts<'_>) -> Gate {
    let name = GateName::Durable;
    if cell.written_bytes == 0 {
        return not_applicable(name, "nothing was written");
    }
    let Some(after_s) = cell.durable_after_s else {
        return unverified(name, "nobody waited until what was written was durable");
    };
    let start = format!("after the last write the file system took {after_s:.1} s more to make them durable");
    let above = format!("{start}: the rate leaves that out; sync in the cell (--fsync-every) or run longer");
    let words = Words { below: start.clone(), within: start, above };
    judge(name, (cell.time_s + after_s) / cell.time_s, DURABLE, words)
}
