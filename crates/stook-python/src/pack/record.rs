//! `stook.Record`: a record with its metadata and value.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PyTuple, PyType};
use stook::pack::{Attributes, Key, RecordHead};

use super::attributes;
use super::kinds::name_of;
use crate::errors::{OrRaise as _, invalid};
use crate::key;
use crate::memory::{bytes_of, held, view_of};
use crate::reports::getters;

/// A record of a pack. Everything it shows was verified.
///
/// ``memoryview(record)``, ``bytes(record)`` and ``numpy.frombuffer(record, ...)`` give the value;
/// none but ``bytes`` copies. Records are equal if keys, values and attributes are, wherever and
/// whenever they were put. They can be pickled, by protocol 5 without a copy of the value.
///
/// Records of a scan share memory: one that is kept keeps up to a quarter of a MiB around it.
#[pyclass(module = "stook", frozen, eq, hash)]
pub(crate) struct Record {
    pub(crate) head: RecordHead,
    pub(crate) body: Bytes,
    pub(crate) group: Arc<str>,
}

impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (&self.head, &other.head);
        one.key == two.key && self.body == other.body && one.attributes.is_same(&two.attributes)
    }
}

/// Without the bytes of the value, which may be many: records with one key are few.
impl Hash for Record {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.head.key.hash(state);
        self.body.len().hash(state);
    }
}

/// What of a record is not its value, as it is pickled: the sort form of the key, the attributes as
/// the format has them, the group; sequence number, time, segment and offset.
type Pickled = (Vec<u8>, Vec<u8>, String, (u64, i64, u64, u64));

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

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __deepcopy__<'py>(slf: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        slf
    }

    fn __reduce_ex__<'py>(
        slf: &Bound<'py, Self>,
        protocol: u8,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, this) = (slf.py(), slf.get());
        let value = match protocol {
            // From this protocol on, the one who pickles may take the value out of band.
            5.. => py.import("pickle")?.getattr("PickleBuffer")?.call1((slf,))?,
            _ => bytes_of(py, &this.body)?.into_any(),
        };
        let RecordHead { key, attributes, sequence, time_ns, segment, offset, .. } = &this.head;
        let pickled: Pickled = (
            key.sort_form().to_vec(),
            attributes.encode().or_raise()?,
            this.group.to_string(),
            (*sequence, *time_ns, *segment, *offset),
        );
        let arguments = PyTuple::new(py, [pickled.into_pyobject(py)?.into_any(), value])?;
        Ok((slf.get_type().getattr("_from_pickled")?, arguments))
    }

    #[classmethod]
    fn _from_pickled(_: &Bound<'_, PyType>, pickled: Pickled, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (key, attributes, group, (sequence, time_ns, segment, offset)) = pickled;
        let key = Key::from_sort_form(&key).ok_or_else(|| invalid("this was not pickled as a record"))?;
        let attributes = Attributes::decode(&attributes).map_err(|wrong| invalid(wrong.what))?;
        let body = held(value)?;
        let body_len = Some(body.len() as u64);
        let head = RecordHead { key, attributes, body_len, sequence, time_ns, segment, offset };
        Ok(Self { head, body, group: group.into() })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let key = key::to_python(py, &self.head.key)?.repr()?;
        Ok(format!("<stook.Record {key}: {} bytes>", self.body.len()))
    }
}
