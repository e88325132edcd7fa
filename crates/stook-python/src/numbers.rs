//! Numbers that are 0 or more: one that is not is a value that makes no sense, told as such.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

use crate::errors::invalid;

/// A number that is 0 or more. One that is negative, or too large, is a value that makes no sense, as it is for files.
pub(crate) fn whole<'py, T: FromPyObjectOwned<'py, Error = PyErr>>(value: &Bound<'py, PyAny>) -> PyResult<T> {
    value.extract::<T>().map_err(|error| match error.is_instance_of::<PyOverflowError>(value.py()) {
        true => invalid(format!("a number from 0 on is wanted that is not too large, not {value}")),
        false => error,
    })
}

/// The same, as PyO3 wants it for arguments.
pub(crate) fn whole_u64(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    whole(value)
}

/// The same.
pub(crate) fn whole_usize(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    whole(value)
}

/// The same, or nothing.
pub(crate) fn whole_or_none(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if value.is_none() { Ok(None) } else { whole(value).map(Some) }
}
