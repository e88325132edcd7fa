//! Reports about sparse files, as the data classes of `stook._sparse`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use stook::source::Identity;
use stook::sparse::{Counters, DiskStatistics, Extent, SparseStatistics};

fn make<'py>(py: Python<'py>, class: &str, fields: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    py.import("stook._sparse")?.getattr(class)?.call((), Some(fields))
}

pub(crate) fn extent<'py>(py: Python<'py>, extent: &Extent) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("start", extent.range.start())?;
    fields.set_item("end", extent.range.end())?;
    fields.set_item("segments", extent.segments)?;
    fields.set_item("last_touch", extent.last_touch)?;
    make(py, "Extent", &fields)
}

pub(crate) fn counters<'py>(py: Python<'py>, counters: &Counters) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("reads", counters.reads)?;
    fields.set_item("read_bytes", counters.read_bytes)?;
    fields.set_item("writes", counters.writes)?;
    fields.set_item("written_bytes", counters.written_bytes)?;
    fields.set_item("erased_segments", counters.erased_segments)?;
    fields.set_item("erased_bytes", counters.erased_bytes)?;
    fields.set_item("evicted_segments", counters.evicted_segments)?;
    fields.set_item("evicted_bytes", counters.evicted_bytes)?;
    fields.set_item("last_read_ns", counters.last_read_ns)?;
    fields.set_item("last_write_ns", counters.last_write_ns)?;
    make(py, "SparseCounters", &fields)
}

pub(crate) fn statistics<'py>(py: Python<'py>, statistics: &SparseStatistics) -> PyResult<Bound<'py, PyAny>> {
    let latency = &statistics.latency_ns;
    let quantile = |share| (!latency.is_empty()).then(|| latency.value_at_quantile(share));
    let fields = PyDict::new(py);
    fields.set_item("reads", statistics.reads)?;
    fields.set_item("hits", statistics.hits)?;
    fields.set_item("misses", statistics.misses)?;
    fields.set_item("asked_bytes", statistics.asked_bytes)?;
    fields.set_item("requests", statistics.requests)?;
    fields.set_item("fetched_bytes", statistics.fetched_bytes)?;
    fields.set_item("from_disk_bytes", statistics.from_disk_bytes)?;
    fields.set_item("evicted_bytes", statistics.evicted_bytes)?;
    fields.set_item("disk_failures", statistics.disk_failures)?;
    fields.set_item("disk_failure", statistics.disk_failure.as_deref())?;
    fields.set_item("disk_remark", statistics.disk_remark.as_deref())?;
    fields.set_item("latency_p50_ns", quantile(0.5))?;
    fields.set_item("latency_p99_ns", quantile(0.99))?;
    fields.set_item("latency_max_ns", quantile(1.0))?;
    make(py, "SparseStatistics", &fields)
}

pub(crate) fn disk<'py>(py: Python<'py>, statistics: &DiskStatistics) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("read_bytes", statistics.read_bytes)?;
    fields.set_item("written_bytes", statistics.written_bytes)?;
    fields.set_item("evicted_bytes", statistics.evicted_bytes)?;
    fields.set_item("unkept_bytes", statistics.unkept_bytes)?;
    fields.set_item("damaged_ranges", statistics.damaged_ranges)?;
    fields.set_item("discarded_entries", statistics.discarded_entries)?;
    fields.set_item("failures", statistics.failures)?;
    fields.set_item("first_failure", statistics.first_failure.as_deref())?;
    make(py, "DiskStatistics", &fields)
}

/// A time or a number that is 0 where there is none.
fn some<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

pub(crate) fn identity<'py>(py: Python<'py>, identity: &Identity) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("size", identity.len)?;
    fields.set_item("etag", identity.etag.as_deref())?;
    fields.set_item("version", identity.version.as_deref())?;
    fields.set_item("modified_ns", some(identity.mtime_ns))?;
    fields.set_item("changed_ns", some(identity.ctime_ns))?;
    fields.set_item("inode", some(identity.inode))?;
    fields.set_item("device", some(identity.device))?;
    make(py, "Identity", &fields)
}
