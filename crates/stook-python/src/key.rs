//! Keys: `str` and `bytes` are byte strings, `int` are ids.
//!
//! Byte strings come back as `str`, with surrogate escapes for bytes that are not UTF-8 as
//! `os.fsdecode` does it, so that every key survives the round trip.

use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};
use stook::pack::{Key, KeyRange, KeyValue};

use crate::errors::{OrRaise as _, invalid};
use crate::numbers::named;

/// The key of a Python object.
pub(crate) fn from_python(object: &Bound<'_, PyAny>) -> PyResult<Key> {
    if let Ok(text) = object.cast::<PyString>() {
        return match text.to_str() {
            Ok(text) => Key::bytes(text),
            Err(_) => {
                let escaped = text.call_method1("encode", ("utf-8", "surrogateescape"))?;
                Key::bytes(escaped.cast::<PyBytes>()?.as_bytes())
            }
        }
        .or_raise();
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Key::bytes(bytes.as_bytes()).or_raise();
    }
    if object.is_instance_of::<PyInt>() {
        let id = object.extract::<u64>();
        return id.map(Key::id).map_err(|_| invalid(format!("ids are 0 to 2**64 - 1, not {object}")));
    }
    // Integers of other libraries, such as numpy.
    if let Ok(number) = object.call_method0("__index__") {
        return from_python(&number);
    }
    Err(PyTypeError::new_err(format!("keys are str, bytes or int, not {}", object.get_type().name()?)))
}

/// The key of an object, or `None` of one that can be no key.
pub(crate) fn if_any(object: &Bound<'_, PyAny>) -> PyResult<Option<Key>> {
    let is_none = |error: &PyErr| {
        let py = object.py();
        error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyValueError>(py)
    };
    match from_python(object) {
        Ok(key) => Ok(Some(key)),
        Err(error) if is_none(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A key as packs give it back, and any other object as it is: what sets of keys are made of.
#[pyfunction]
#[pyo3(signature = (object, /))]
pub(crate) fn as_key<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if_any(object)?.map_or_else(|| Ok(object.clone()), |key| to_python(object.py(), &key))
}

/// The key as a Python object.
pub(crate) fn to_python<'py>(py: Python<'py>, key: &Key) -> PyResult<Bound<'py, PyAny>> {
    match key.value() {
        KeyValue::Id(id) => Ok(id.into_pyobject(py)?.into_any()),
        KeyValue::Bytes(bytes) => text_of(py, bytes),
    }
}

/// Bytes as `str`, with surrogate escapes.
pub(crate) fn text_of<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(PyString::new(py, text).into_any());
    }
    PyBytes::new(py, bytes).call_method1("decode", ("utf-8", "surrogateescape"))
}

/// The exception for a key without a record.
pub(crate) fn missing(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err((key.clone().unbind(),))
}

/// Parses a prefix, which must be a byte string.
pub(crate) fn prefix(prefix: &Bound<'_, PyAny>) -> PyResult<Key> {
    let key = from_python(prefix).map_err(|error| named(prefix.py(), "prefix", error))?;
    match key.value() {
        KeyValue::Bytes(_) => Ok(key),
        KeyValue::Id(_) => Err(PyTypeError::new_err("a prefix is str or bytes, not int")),
    }
}

/// What the sort forms of keys with a prefix begin with; `"id:"` for numeric keys, as on the
/// command line.
pub(crate) fn sort_prefix(prefix: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let is_text = |text: &str| prefix.extract::<&str>().is_ok_and(|prefix| prefix == text);
    if is_text("id:") {
        return Ok(Key::IDS.to_vec());
    }
    if prefix.len().is_ok_and(|len| len == 0) {
        return Ok(Vec::new());
    }
    Ok(self::prefix(prefix)?.sort_form().to_vec())
}

/// The range of the arguments `prefix`, `start` and `end`.
pub(crate) fn range(
    prefix: Option<&Bound<'_, PyAny>>,
    start: Option<&Bound<'_, PyAny>>,
    end: Option<&Bound<'_, PyAny>>,
) -> PyResult<KeyRange> {
    if prefix.is_some() && (start.is_some() || end.is_some()) {
        return Err(invalid("either a prefix, or start and end"));
    }
    if let Some(prefix) = prefix {
        return Ok(KeyRange::prefix(self::prefix(prefix)?.sort_form()));
    }
    let key = |name, given: Option<&Bound<'_, PyAny>>| {
        given.map(|given| from_python(given).map_err(|error| named(given.py(), name, error))).transpose()
    };
    let range = key("start", start)?.iter().fold(KeyRange::all(), KeyRange::from);
    Ok(key("end", end)?.iter().fold(range, KeyRange::to))
}
