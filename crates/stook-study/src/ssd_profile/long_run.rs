//! How long the speed of a drive lasts: reads and writes that go on for minutes.

use serde::Serialize;
use stook::bench::gates::{GateName, Series, find_fall};
use stook::bench::{Bench, CellResult, LongRun, Pattern, Workload};
use stook::report::units::{bytes_decimal, rate};

use super::SsdProfile;
use crate::frame::{Judgement, not_measured};
use crate::text::duration_s;
use crate::verdict::Verdict;

/// A shorter one has nothing to say, whatever is found.
pub(super) const LONG_RUN_MIN_S: f64 = 1.0;
/// What counts as a minute or so, seconds: a factor of 3.
const MINUTE_S: std::ops::RangeInclusive<f64> = 20.0..=180.0;

/// A long run of reads, or of writes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lasting {
    /// `read` or `write`.
    pub rw: String,
    /// What was found.
    #[serde(flatten)]
    pub run: LongRun,
    /// Why it is not believed; `null` where it is.
    pub doubt: Option<String>,
}

/// Reads of 1 MiB in order, eight at once, and then writes of the same.
pub(super) fn bench(study: &SsdProfile, long_run_s: f64) -> Bench {
    let bench = study.bench();
    let base = bench.cells.first().cloned().unwrap_or_default();
    let cell = |read_share| Workload {
        pattern: Pattern::Sequential,
        block_size: 1 << 20,
        depth: 8,
        read_share,
        ramp_s: 0.0,
        time_s: Some(long_run_s),
        ..base.clone()
    };
    Bench { cells: [100, 0].map(cell).into(), rounds: 1, ..bench }
}

impl Lasting {
    /// `None` of a cell that was not run.
    pub(super) fn of(cell: &CellResult) -> Option<Self> {
        let run = cell.runs.first()?;
        // What is left after the last whole second says nothing.
        let whole = (run.steady_s.max(0.0).floor() as usize).min(run.series.len());
        let rates: Vec<f64> = run.series.iter().take(whole).map(|second| second.bytes as f64).collect();
        let series = Series { window_s: 1.0, rates_bytes_per_s: &rates };
        let burst = find_fall(series);
        let sustained = burst.map_or_else(|| series.mean_bytes_per_s(), |fall| fall.sustained_bytes_per_s);
        let is_of_device = |name| {
            let names = [
                GateName::DeviceBytesRead,
                GateName::DeviceBytesWritten,
                GateName::LinkLimit,
                GateName::Throttle,
                GateName::ThreadCpu,
            ];
            names.contains(&name)
        };
        let failed = run.gates.iter().find(|gate| gate.is_failed() && is_of_device(gate.name));
        Some(Self {
            rw: cell.rw.clone(),
            run: LongRun {
                seconds: run.seconds,
                bytes: run.total.bytes,
                window_s: 1.0,
                burst,
                sustained_bytes_per_s: sustained,
                rates_bytes_per_s: rates,
            },
            doubt: failed.map(|gate| gate.reason.clone()),
        })
    }

    /// What it is called where both are named.
    pub(super) fn name(&self) -> &'static str {
        if self.rw == "write" { "Writes" } else { "Reads" }
    }

    /// What was found, as a sentence.
    pub(super) fn said(&self) -> String {
        let (name, run) = (self.name(), &self.run);
        if let Some(doubt) = &self.doubt {
            return format!("{name} are not believed: {doubt}.");
        }
        match run.burst {
            Some(fall) => format!(
                "{name} fell from {} to {} after {} ({}).",
                rate(fall.burst_bytes_per_s),
                rate(fall.sustained_bytes_per_s),
                duration_s(fall.burst_s),
                bytes_decimal(fall.burst_bytes.max(0.0) as u64)
            ),
            None => format!(
                "{name} went on at {} for {}, {} in all, without a fall.",
                rate(run.sustained_bytes_per_s),
                duration_s(run.seconds),
                bytes_decimal(run.bytes)
            ),
        }
    }
}

/// Whether the speed of reads or of writes falls after a minute or so.
pub(super) fn lasts_a_minute(runs: &[Lasting]) -> Judgement {
    if runs.is_empty() {
        return not_measured("No cell runs for so long: --long-run 5m reads and writes for so long each.");
    }
    let said: Vec<String> = runs.iter().map(Lasting::said).collect();
    let said = said.join(" ");
    let believed: Vec<&LongRun> = runs.iter().filter(|run| run.doubt.is_none()).map(|run| &run.run).collect();
    let falls: Vec<f64> = believed.iter().filter_map(|run| Some(run.burst?.burst_s)).collect();
    if falls.iter().any(|burst_s| MINUTE_S.contains(burst_s)) {
        return (Verdict::Holds, said);
    }
    let is_enough = |run: &&LongRun| run.burst.is_some() || run.seconds >= *MINUTE_S.end();
    match believed.len() == runs.len() && believed.iter().all(is_enough) {
        true => (Verdict::DoesNotHold, said),
        false => {
            not_measured(format!("{said} It takes 3 minutes (--long-run 3m) to say that nothing falls."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stook::bench::gates::BurstFall;

    fn lasting(rw: &str, seconds: f64, fell_after_s: Option<f64>) -> Lasting {
        let fall = |burst_s: f64| BurstFall {
            burst_bytes_per_s: 2e9,
            burst_bytes: 2e9 * burst_s,
            burst_s,
            sustained_bytes_per_s: 0.5e9,
        };
        let run = LongRun {
            seconds,
            bytes: (seconds * 1e9) as u64,
            window_s: 1.0,
            rates_bytes_per_s: Vec::new(),
            burst: fell_after_s.map(fall),
            sustained_bytes_per_s: 1e9,
        };
        Lasting { rw: rw.to_owned(), run, doubt: None }
    }

    #[test]
    fn a_fall_after_a_minute_or_so_is_what_was_concluded() {
        let judged =
            |reads, writes| lasts_a_minute(&[lasting("read", 300.0, reads), lasting("write", 300.0, writes)]);
        let (verdict, said) = judged(None, Some(70.0));
        assert_eq!(verdict, Verdict::Holds);
        assert_eq!(
            said,
            "Reads went on at 1,000 MB/s for 5 min 00 s, 300 GB in all, without a fall. Writes fell from 2,000 MB/s to \
             500 MB/s after 1 min 10 s (140 GB)."
        );
        // Sooner or later is another thing, and so is never.
        assert_eq!(judged(None, Some(5.0)).0, Verdict::DoesNotHold);
        assert_eq!(judged(Some(250.0), None).0, Verdict::DoesNotHold);
        assert_eq!(judged(None, None).0, Verdict::DoesNotHold);
    }

    #[test]
    fn what_did_not_run_for_minutes_or_is_not_believed_says_nothing() {
        assert!(lasts_a_minute(&[]).1.contains("--long-run"));
        let short = [lasting("read", 60.0, None), lasting("write", 60.0, None)];
        assert_eq!(lasts_a_minute(&short).0, Verdict::NotMeasured);
        let mut cached = [lasting("read", 300.0, Some(60.0)), lasting("write", 300.0, None)];
        cached[0].doubt = Some("a cache stood in between".to_owned());
        let (verdict, said) = lasts_a_minute(&cached);
        assert_eq!(verdict, Verdict::NotMeasured);
        assert!(said.starts_with("Reads are not believed: a cache stood in between."), "{said}");
    }
}
