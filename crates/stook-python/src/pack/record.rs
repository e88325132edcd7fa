//! `stook.Record`: a record with its metadata and value.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView};
use stook::pack::RecordHead;

use super::attributes;
use super::kinds::name_of;
use crate::key;
use crate::memory::{bytes_of, view_of};
use crate::reports::getters;

/// A record of a pack. Everything it shows was verified.
///
/// Records of a scan share memory: one that is kept keeps up to a quarter of a MiB around it.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Record {
    pub(crate) head: RecordHead,
    pub(crate) body: Bytes,
    pub(crate) group: Arc<str>,
}

getters! { Record {
    /// The key: `str` (bytes that are not UTF-8 as surrogate escapes) or `int`.
    key: PyResult<Bound<'_, PyAny>> = |this, py| key::to_python(py, &this.head.key);
    /// The value, without a copy.
    value: PyResult<Bound<'_, PyMemoryView>> = |this, py| view_of(py, this.body.clone());
    /// ``"file"``, ``"directory"``, ``"symlink"``, or ``"hard_link"``, another name of a file.
    /// What no tree was packed from is a file.
    kind: &'static str = |this| name_of(this.head.attributes.file_kind());
    /// The attributes: a new dict.
    attributes: PyResult<Bound<'_, PyDict>> = |this, py| attributes::to_python(py, &this.head.attributes);
    /// Its sequence number: records that were put later have a higher one.
    sequence: u64 = |this| this.head.sequence;
    /// When it was put, in nanoseconds since 1970.
    time_ns: i64 = |this| this.head.time_ns;
    /// The id of the segment that it is in.
    segment: u64 = |this| this.head.segment;
    /// The group that it is in; the default group is the empty string.
    group: String = |this| this.group.to_string();
    /// Where in the segment, in bytes.
    offset: u64 = |this| this.head.offset;
}}

#[pymethods]
impl Record {
    fn __len__(&self) -> usize {
        self.body.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bytes_of(py, &self.body)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let key = key::to_python(py, &self.head.key)?.repr()?;
        Ok(format!("<stook.Record {key}: {} bytes>", self.body.len()))
    }
}
