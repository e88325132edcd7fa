//! Numbers that are 0 or more: one that is not is a value that makes no sense, told as such, with the name of its argument.

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

/// The same for an argument, whose name is told.
pub(crate) fn argument<'py, T: FromPyObjectOwned<'py, Error = PyErr>>(
    name: &str,
    value: &Bound<'py, PyAny>,
) -> PyResult<T> {
    whole(value).map_err(|error| named(value.py(), name, error))
}

/// The same exception with the name of the argument.
pub(crate) fn named(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    match error.get_type(py).call1((format!("argument '{name}': {}", error.value(py)),)) {
        Ok(exception) => PyErr::from_value(exception),
        Err(_) => error,
    }
}

/// What converts arguments by their names: `from_py_with` is not told which one it converts.
macro_rules! arguments {
    ($($name:ident)+) => {$(
        #[doc = concat!("The argument `", stringify!($name), "`.")]
        pub(crate) fn $name<'py, T: FromPyObjectOwned<'py, Error = PyErr>>(
            value: &Bound<'py, PyAny>,
        ) -> PyResult<T> {
            argument(stringify!($name), value)
        }
    )+};
}

arguments! {
    adopt_min
    alignment
    budget_bytes
    count
    end
    extra_bytes
    first_touch
    generation
    grain
    length
    max_delete
    max_gap
    max_len
    min_len
    position
    segment_bytes
    size
    threads
}
