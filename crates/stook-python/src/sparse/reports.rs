//! Reports about sparse files, as the data classes of `stook._sparse`.

use pyo3::prelude::*;
use stook::source::Identity;
use stook::sparse::{Counters, DiskStatistics, Extent, SparseStatistics};

use crate::reports::report;

pub(crate) fn extent<'py>(py: Python<'py>, extent: &Extent) -> PyResult<Bound<'py, PyAny>> {
    let (start, end) = (extent.range.start(), extent.range.end());
    report!(py, "stook._sparse", "Extent", extent { segments, last_touch }, start: start, end: end)
}

pub(crate) fn counters<'py>(py: Python<'py>, counters: &Counters) -> PyResult<Bound<'py, PyAny>> {
    report!(
        py,
        "stook._sparse",
        "SparseCounters",
        counters {
            reads,
            read_bytes,
            writes,
            written_bytes,
            erased_segments,
            erased_bytes,
            evicted_segments,
            evicted_bytes,
            last_read_ns,
            last_write_ns,
        },
    )
}

pub(crate) fn statistics<'py>(py: Python<'py>, statistics: &SparseStatistics) -> PyResult<Bound<'py, PyAny>> {
    let latency = &statistics.latency_ns;
    let quantile = |share| (!latency.is_empty()).then(|| latency.value_at_quantile(share));
    report!(
        py, "stook._sparse", "SparseStatistics",
        statistics {
            reads, hits, misses, asked_bytes,
            requests, fetched_bytes, from_disk_bytes, evicted_bytes,
            disk_failures,
        },
        disk_failure: statistics.disk_failure.as_deref(),
        disk_remark: statistics.disk_remark.as_deref(),
        latency_p50_ns: quantile(0.5),
        latency_p99_ns: quantile(0.99),
        latency_max_ns: quantile(1.0),
    )
}

pub(crate) fn disk<'py>(py: Python<'py>, statistics: &DiskStatistics) -> PyResult<Bound<'py, PyAny>> {
    report!(
        py, "stook._sparse", "DiskStatistics",
        statistics {
            read_bytes, written_bytes, evicted_bytes, unkept_bytes,
            damaged_ranges, discarded_entries, failures,
        },
        first_failure: statistics.first_failure.as_deref(),
    )
}

/// A time or a number that is 0 where there is none.
fn some<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

pub(crate) fn identity<'py>(py: Python<'py>, identity: &Identity) -> PyResult<Bound<'py, PyAny>> {
    report!(
        py, "stook._sparse", "Identity", identity {},
        size: identity.len,
        etag: identity.etag.as_deref(),
        version: identity.version.as_deref(),
        modified_ns: some(identity.mtime_ns),
        changed_ns: some(identity.ctime_ns),
        inode: some(identity.inode),
        device: some(identity.device),
    )
}
