//! Reports as the dataclasses of `stook._types`.

use std::path::Path;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use stook::ops::pack::PackReport;
use stook::ops::repair;
use stook::ops::unpack::Unpacked;
use stook::pack::format::manifest::SegmentState;
use stook::pack::tree::MoveSummary;
use stook::pack::{CheckReport, Compacted, Damage, Pack, SegmentInfo};
use stook::tree::Failure;

use crate::errors::{Raise, damaged};
use crate::key::text_of;

/// An object of a dataclass of `stook._types`.
pub(crate) fn make<'py>(
    py: Python<'py>,
    class: &str,
    fields: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    py.import("stook._types")?.getattr(class)?.call((), Some(fields))
}

pub(crate) fn damages<'py>(py: Python<'py>, damages: &[Damage]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, damages.iter().map(|damage| damaged(damage, damage.to_string()).into_value(py)))
}

pub(crate) fn check_report<'py>(py: Python<'py>, report: &CheckReport) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("records", report.records)?;
    fields.set_item("live_records", report.live_records)?;
    fields.set_item("body_bytes", report.body_bytes)?;
    fields.set_item("damages", damages(py, &report.damages)?)?;
    fields.set_item("notes", &report.notes)?;
    make(py, "CheckReport", &fields)
}

pub(crate) fn repair_report<'py>(py: Python<'py>, report: &repair::Report) -> PyResult<Bound<'py, PyAny>> {
    let repaired = &report.repaired;
    let quarantined = PyList::empty(py);
    for aside in &repaired.quarantined {
        let fields = PyDict::new(py);
        fields.set_item("segment", aside.segment)?;
        fields.set_item("offset", aside.range.start())?;
        fields.set_item("size", aside.range.len())?;
        fields.set_item("path", report.quarantine.join(&aside.file))?;
        quarantined.append(make(py, "Quarantined", &fields)?)?;
    }
    let fields = PyDict::new(py);
    fields.set_item("path", &report.new)?;
    fields.set_item("records", repaired.records)?;
    fields.set_item("bytes", repaired.bytes)?;
    fields.set_item("damages", damages(py, &repaired.damages)?)?;
    fields.set_item("quarantined", quarantined)?;
    fields.set_item("notes", &repaired.notes)?;
    make(py, "RepairReport", &fields)
}

pub(crate) fn compact_report<'py>(py: Python<'py>, done: &Compacted) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("steps", done.steps)?;
    fields.set_item("records", done.records)?;
    fields.set_item("bytes", done.bytes)?;
    fields.set_item("dead_records", done.dead_records)?;
    fields.set_item("before_bytes", done.before_bytes)?;
    fields.set_item("after_bytes", done.after_bytes)?;
    fields.set_item("left_out", damages(py, &done.left_out)?)?;
    make(py, "CompactReport", &fields)
}

pub(crate) fn pack_info<'py>(py: Python<'py>, path: &Path, pack: &Pack) -> PyResult<Bound<'py, PyAny>> {
    let segments = py.detach(|| pack.segments());
    let fields = PyDict::new(py);
    fields.set_item("path", path)?;
    fields.set_item("generation", pack.generation())?;
    fields.set_item("complete", pack.is_complete())?;
    fields.set_item("records", pack.len())?;
    fields.set_item("body_bytes", segments.iter().map(|segment| segment.tally.body_bytes).sum::<u64>())?;
    fields.set_item("file_bytes", pack.file_bytes())?;
    fields.set_item("dead_records", segments.iter().map(|segment| segment.dead_records).sum::<u64>())?;
    fields.set_item("dead_bytes", segments.iter().map(|segment| segment.dead_bytes).sum::<u64>())?;
    fields.set_item("groups", pack.groups())?;
    fields.set_item("history_from_ns", pack.history_from_ns())?;
    fields.set_item("damages", damages(py, &pack.damages())?)?;
    let segments: PyResult<Vec<_>> = segments.iter().map(|segment| segment_info(py, segment)).collect();
    fields.set_item("segments", segments?)?;
    make(py, "PackInfo", &fields)
}

fn segment_info<'py>(py: Python<'py>, segment: &SegmentInfo) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("id", segment.id)?;
    fields.set_item("group", &segment.group)?;
    fields.set_item("sealed", segment.state == SegmentState::Sealed)?;
    fields.set_item("records", segment.tally.records)?;
    fields.set_item("body_bytes", segment.tally.body_bytes)?;
    fields.set_item("file_bytes", segment.file_bytes)?;
    fields.set_item("dead_records", segment.dead_records)?;
    fields.set_item("dead_bytes", segment.dead_bytes)?;
    fields.set_item("index_memory_bytes", segment.index_memory_bytes)?;
    make(py, "SegmentInfo", &fields)
}

fn failures<'py, E: Raise>(py: Python<'py>, failures: &[Failure<E>]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for failure in failures {
        let fields = PyDict::new(py);
        fields.set_item("key", text_of(py, &failure.key)?)?;
        fields.set_item("error", failure.error.raise().into_value(py))?;
        list.append(make(py, "Failure", &fields)?)?;
    }
    Ok(list)
}

fn keys<'py, 'k>(
    py: Python<'py>,
    keys: impl IntoIterator<Item = &'k Vec<u8>>,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for key in keys {
        list.append(text_of(py, key)?)?;
    }
    Ok(list)
}

pub(crate) fn pack_report<'py>(
    py: Python<'py>,
    report: &PackReport,
    met: &[Damage],
) -> PyResult<Bound<'py, PyAny>> {
    let summary = &report.summary;
    let left_out = summary.special.iter().map(|(key, _)| key).chain(&report.left_out);
    let fields = PyDict::new(py);
    fields.set_item("files", summary.files)?;
    fields.set_item("directories", summary.directories)?;
    fields.set_item("symlinks", summary.symlinks)?;
    fields.set_item("hard_links", summary.hard_links)?;
    fields.set_item("replaced", summary.replaced)?;
    fields.set_item("unchanged", summary.unchanged)?;
    fields.set_item("deleted", summary.deleted)?;
    fields.set_item("bytes", summary.bytes)?;
    fields.set_item("without_xattrs", summary.without_xattrs)?;
    fields.set_item("special", keys(py, left_out)?)?;
    fields.set_item("gone", keys(py, &summary.gone)?)?;
    fields.set_item("moved", report.moved.as_ref().map(|moved| move_report(py, moved)).transpose()?)?;
    fields.set_item("complete", report.complete)?;
    fields.set_item("failures", failures(py, &summary.failures)?)?;
    fields.set_item("damages", damages(py, met)?)?;
    make(py, "PackTreeReport", &fields)
}

fn move_report<'py>(py: Python<'py>, moved: &MoveSummary) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("files", moved.files)?;
    fields.set_item("symlinks", moved.symlinks)?;
    fields.set_item("directories", moved.directories)?;
    fields.set_item("bytes", moved.bytes)?;
    make(py, "MoveReport", &fields)
}

pub(crate) fn unpack_report<'py>(
    py: Python<'py>,
    unpacked: &Unpacked,
    met: &[Damage],
) -> PyResult<Bound<'py, PyAny>> {
    let summary = &unpacked.summary;
    let fields = PyDict::new(py);
    fields.set_item("files", summary.files)?;
    fields.set_item("directories", summary.directories)?;
    fields.set_item("symlinks", summary.symlinks)?;
    fields.set_item("hard_links", summary.hard_links)?;
    fields.set_item("bytes", summary.bytes)?;
    fields.set_item("unchanged", summary.unchanged)?;
    fields.set_item("kept", keys(py, &summary.kept)?)?;
    fields.set_item("complete", unpacked.is_complete)?;
    fields.set_item("failures", failures(py, &summary.failures)?)?;
    fields.set_item("damages", damages(py, met)?)?;
    make(py, "UnpackReport", &fields)
}
