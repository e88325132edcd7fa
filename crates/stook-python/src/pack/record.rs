//! `stook.Record`: a record with all that is known of it, its value where the library has it.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView};
use stook::pack::{self, Attributes, Key};

use super::attributes;
use super::kinds::name_of;
use crate::key;
use crate::memory::{bytes_of, view_of};

/// A record of a pack. Everything it shows was verified.
///
/// Records of a scan share memory: one that is kept keeps up to a quarter of a MiB around it.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) attributes: Attributes,
    pub(crate) body: Bytes,
    pub(crate) group: Arc<str>,
    /// Its sequence number: records that were put later have a higher one.
    #[pyo3(get)]
    pub(crate) sequence: u64,
    /// When it was put, in nanoseconds since 1970.
    #[pyo3(get)]
    pub(crate) time_ns: i64,
    /// The id of the segment that it is in.
    #[pyo3(get)]
    pub(crate) segment: u64,
    /// Where in the segment, in bytes.
    #[pyo3(get)]
    pub(crate) offset: u64,
}

impl Record {
    /// What a get of the library gave.
    pub(crate) fn of(record: pack::Record, group: Arc<str>) -> Self {
        let head = record.head;
        Self {
            key: head.key,
            attributes: head.attributes,
            body: record.body,
            group,
            sequence: head.sequence,
            time_ns: head.time_ns,
            segment: head.segment,
            offset: head.offset,
        }
    }
}

#[pymethods]
impl Record {
    /// The key: `str` (bytes that are not UTF-8 as surrogate escapes) or `int`.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        key::to_python(py, &self.key)
    }

    /// The value, without a copy.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        view_of(py, self.body.clone())
    }

    /// ``"file"``, ``"directory"``, ``"symlink"``, or ``"hard_link"`` for a further name of a file.
    /// What no tree was packed from is a file.
    #[getter]
    fn kind(&self) -> &'static str {
        name_of(self.attributes.file_kind())
    }

    /// The attributes: a new dict.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        attributes::to_python(py, &self.attributes)
    }

    /// The group that it is in; the default group is the empty string.
    #[getter]
    fn group(&self) -> &str {
        &self.group
    }

    fn __len__(&self) -> usize {
        self.body.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        bytes_of(py, &self.body)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let key = key::to_python(py, &self.key)?.repr()?;
        Ok(format!("<stook.Record {key}: {} bytes>", self.body.len()))
    }
}
