//! [`Sample`]: what one run of one cell gave, whichever tool measured it.

use serde::Serialize;
use stook::bench::RunResult;
use stook::bench::gates::State;

/// One run of a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Sample {
    /// Requests completed.
    pub(crate) requests: u64,
    /// How long it was measured, the drain included.
    pub(crate) seconds: f64,
    /// Requests a second.
    pub(crate) iops: f64,
    /// Bytes a second.
    pub(crate) bandwidth_bytes_per_s: f64,
    /// Mean time from preparing to reaping.
    pub(crate) latency_mean_ns: f64,
    /// Half took no longer.
    pub(crate) latency_p50_ns: f64,
    /// 99% took no longer.
    pub(crate) latency_p99_ns: f64,
    /// 99.9% took no longer.
    pub(crate) latency_p999_ns: f64,
    /// User and system time of the tool for each request.
    pub(crate) cpu_per_request_ns: f64,
    /// Whether it may be believed. fio does not look.
    pub(crate) state: Option<State>,
    /// Why it may not, or why that is not known.
    pub(crate) reasons: Vec<String>,
}

impl Sample {
    /// What our own tool measured, if anything completed.
    pub(crate) fn of(run: &RunResult) -> Option<Self> {
        let total = &run.total;
        Some(Self {
            requests: total.count,
            seconds: run.seconds,
            iops: total.iops,
            bandwidth_bytes_per_s: total.bandwidth_bytes_per_s,
            latency_mean_ns: total.latency_mean_ns?,
            latency_p50_ns: total.latency_p50_ns? as f64,
            latency_p99_ns: total.latency_p99_ns? as f64,
            latency_p999_ns: total.latency_p999_ns? as f64,
            cpu_per_request_ns: run.cpu.per_request_ns?,
            state: Some(run.state),
            reasons: run.reasons.clone(),
        })
    }
}
