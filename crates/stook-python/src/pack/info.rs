//! Conversion of reports to the dataclasses of `stook._types`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use stook::archive::Archive;
use stook::ops::advice::{Advice, advise};
use stook::ops::contents::{LoadReport, MemberCounts, Missing};
use stook::ops::delete::Doomed;
use stook::ops::pack::PackReport;
use stook::ops::repair;
use stook::ops::unpack::Unpacked;
use stook::pack::format::manifest::SegmentState;
use stook::pack::{CheckReport, CompactPlan, Compacted, Damage, Key, Pack, SegmentInfo, TornTail};
use stook::tree::{Failure, WhyKept};

use crate::errors::{Raise, damaged};
use crate::key::{self, text_of};
use crate::reports::report;

pub(crate) fn damages<'py>(py: Python<'py>, damages: &[Damage]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, damages.iter().map(|damage| damaged(damage, damage.to_string()).into_value(py)))
}

pub(crate) fn check_report<'py>(py: Python<'py>, report: &CheckReport) -> PyResult<Bound<'py, PyAny>> {
    report!(
        py, "stook._types", "CheckReport",
        report { records, live_records, body_bytes, notes, accepted },
        complete: !report.is_incomplete,
        damages: damages(py, &report.damages)?,
    )
}

pub(crate) fn repair_report<'py>(py: Python<'py>, done: &repair::Report) -> PyResult<Bound<'py, PyAny>> {
    let repaired = &done.repaired;
    let all: PyResult<Vec<_>> = repaired
        .quarantined
        .iter()
        .map(|aside| {
            report!(
                py, "stook._types", "Quarantined",
                aside { segment },
                offset: aside.range.start(),
                size: aside.range.len(),
                path: done.quarantine.join(&aside.file),
            )
        })
        .collect();
    report!(
        py, "stook._types", "RepairReport",
        repaired { records, bytes, notes },
        path: &done.new,
        complete: !repaired.is_incomplete,
        damages: damages(py, &repaired.damages)?,
        quarantined: all?,
    )
}

pub(crate) fn compact_report<'py>(py: Python<'py>, done: &Compacted) -> PyResult<Bound<'py, PyAny>> {
    report!(
        py, "stook._types", "CompactReport",
        done { steps, records, bytes, dead_records, before_bytes, after_bytes },
        left_out: damages(py, &done.left_out)?,
        too_large: done.too_large.len(),
    )
}

/// What a compaction would do, and in how many seconds.
pub(crate) fn compact_plan<'py>(
    py: Python<'py>,
    plan: &CompactPlan,
    seconds: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let kept = plan.kept_bytes();
    report!(
        py, "stook._types", "CompactReport", plan {},
        steps: plan.steps.len(),
        records: py.None(),
        bytes: kept,
        dead_records: plan.dead_records(),
        before_bytes: kept + plan.won_bytes(),
        after_bytes: kept,
        left_out: PyList::empty(py),
        too_large: plan.too_large.len(),
        dry_run: true,
        seconds_estimated: seconds,
    )
}

pub(crate) fn delete_report<'py>(
    py: Python<'py>,
    doomed: &Doomed,
    dry_run: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let list = |keys: &mut dyn Iterator<Item = &Key>| {
        let keys: PyResult<Vec<_>> = keys.map(|key| key::to_python(py, key)).collect();
        PyList::new(py, keys?)
    };
    let selected = &doomed.selected;
    let would_go = selected.keys().iter().filter(|_| dry_run);
    let is_known = |damage: &Damage| doomed.damages.iter().any(|known| known.damage() == Some(damage));
    let hidden = doomed.hidden.iter().filter(|damage| !is_known(damage));
    let hidden = hidden.map(|damage| damaged(damage, damage.to_string()));
    let damages = doomed.damages.iter().map(Raise::raise).chain(hidden).map(|error| error.into_value(py));
    report!(
        py, "stook._types", "DeleteReport", doomed {},
        dry_run: dry_run,
        deleted: selected.keys().len(),
        missing: list(&mut doomed.missing.iter().map(Missing::key))?,
        freed_bytes: selected.stored_bytes(),
        keys: list(&mut { would_go })?,
        damages: PyList::new(py, damages)?,
        directories: list(&mut doomed.directories.iter())?,
    )
}

pub(crate) fn pack_info<'py>(py: Python<'py>, path: &Path, pack: &Pack) -> PyResult<Bound<'py, PyAny>> {
    let segments = py.detach(|| pack.segments());
    let sum = |of: fn(&SegmentInfo) -> u64| segments.iter().map(of).sum::<u64>();
    let infos: PyResult<Vec<_>> = segments.iter().map(|segment| segment_info(py, segment)).collect();
    let torn =
        |torn: &TornTail| report!(py, "stook._types", "TornTail", torn { segment, offset }, size: torn.len);
    let torn_tails: PyResult<Vec<_>> = pack.torn_tails().iter().map(torn).collect();
    let roots = pack.roots().iter().map(|root| OsStr::from_bytes(root));
    let Advice { action, text } = py.detach(|| advise(pack, &[]));
    report!(
        py, "stook._types", "PackInfo", pack {},
        path: path,
        generation: pack.generation(),
        complete: pack.is_complete(),
        records: pack.len(),
        body_bytes: sum(|segment| segment.tally.body_bytes),
        file_bytes: pack.file_bytes(),
        dead_records: sum(|segment| segment.dead_records),
        dead_bytes: sum(|segment| segment.dead_bytes),
        groups: pack.groups(),
        history_from_ns: pack.history_from_ns(),
        roots: PyList::new(py, roots)?,
        torn_tails: torn_tails?,
        action: action,
        action_text: text,
        damages: damages(py, &pack.damages())?,
        segments: infos?,
    )
}

pub(crate) fn archive_info<'py>(
    py: Python<'py>,
    path: &Bound<'py, PyAny>,
    archive: &Archive,
) -> PyResult<Bound<'py, PyAny>> {
    let (counts, summary) = (py.detach(|| MemberCounts::of(archive)), archive.index().summary());
    report!(
        py, "stook._types", "ArchiveInfo",
        counts { files, directories, symlinks, hard_links, other, sparse, body_bytes, stored_bytes },
        path: path,
        format: archive.format().to_string(),
        sequential: archive.is_sequential(),
        complete: archive.has_end(),
        members: archive.len(),
        replaced: summary.replaced,
        file_bytes: archive.file_bytes(),
    )
}

pub(crate) fn load_report<'py>(
    py: Python<'py>,
    report: &LoadReport,
    failed: &[Failure<PyErr>],
    is_complete: bool,
) -> PyResult<Bound<'py, PyAny>> {
    report!(
        py, "stook._types", "LoadReport", report { bytes },
        members: report.records,
        complete: is_complete,
        failures: failures(py, failed)?,
    )
}

fn segment_info<'py>(py: Python<'py>, segment: &SegmentInfo) -> PyResult<Bound<'py, PyAny>> {
    report!(
        py, "stook._types", "SegmentInfo",
        segment { id, group, file_bytes, dead_records, dead_bytes, index_memory_bytes },
        sealed: segment.state == SegmentState::Sealed,
        records: segment.tally.records,
        body_bytes: segment.tally.body_bytes,
    )
}

pub(crate) fn failures<'py, E: Raise>(
    py: Python<'py>,
    failures: &[Failure<E>],
) -> PyResult<Bound<'py, PyList>> {
    let all: PyResult<Vec<_>> = failures
        .iter()
        .map(|failure| {
            let (key, error) = (text_of(py, &failure.key)?, failure.error.raise().into_value(py));
            report!(py, "stook._types", "Failure", failure {}, key: key, error: error)
        })
        .collect();
    PyList::new(py, all?)
}

pub(crate) fn keys<'py>(
    py: Python<'py>,
    keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> PyResult<Bound<'py, PyList>> {
    let texts: PyResult<Vec<_>> = keys.into_iter().map(|key| text_of(py, key.as_ref())).collect();
    PyList::new(py, texts?)
}

pub(crate) fn pack_report<'py>(
    py: Python<'py>,
    report: &PackReport,
    found: &[Damage],
) -> PyResult<Bound<'py, PyAny>> {
    let summary = &report.summary;
    let moved = report.moved.as_ref().map(|moved| {
        report!(py, "stook._types", "MoveReport", moved { files, symlinks, directories, bytes })
    });
    let left_out = summary.special.iter().map(|(key, _)| key).chain(&report.left_out);
    report!(
        py, "stook._types", "PackTreeReport",
        summary {
            files, directories, symlinks, hard_links, replaced,
            unchanged, deleted, uncertain, bytes,
        },
        without_xattrs: summary.lost_xattrs.len(),
        lost_xattrs: lost_xattrs(py, &summary.lost_xattrs)?,
        special: keys(py, left_out)?,
        gone: keys(py, &summary.gone)?,
        held: keys(py, summary.held.iter().map(|held| &held.key))?,
        moved: moved.transpose()?,
        complete: report.complete,
        failures: failures(py, &summary.failures)?,
        damages: damages(py, found)?,
    )
}

/// Which extended attributes what was added lacks, by key.
fn lost_xattrs<'py>(py: Python<'py>, lost: &[(Vec<u8>, String)]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, names) in lost {
        dict.set_item(text_of(py, key)?, names)?;
    }
    Ok(dict)
}

pub(crate) fn unpack_report<'py>(
    py: Python<'py>,
    unpacked: &Unpacked,
    found: &[Damage],
) -> PyResult<Bound<'py, PyAny>> {
    let summary = &unpacked.summary;
    report!(
        py, "stook._types", "UnpackReport",
        summary { files, directories, symlinks, hard_links, bytes, unchanged },
        kept: keys(py, summary.kept.iter().map(|kept| &kept.key))?,
        too_open: keys(py, summary.kept_for(WhyKept::TooOpen))?,
        unset_xattrs: summary.unset_xattrs.entries,
        foreign_xattrs: summary.unset_xattrs.foreign,
        complete: unpacked.is_complete,
        failures: failures(py, &summary.failures)?,
        damages: damages(py, found)?,
    )
}
