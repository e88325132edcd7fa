//! Numbers that are 0 or more: any other raises `InvalidError`, with the name of the argument.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

use crate::errors::invalid;

/// A number that is 0 or more. One that is negative, or too large, is a value that makes no sense,
/// as it is for files.
pub(crate) fn whole<'py, T: FromPyObjectOwned<'py, Error = PyErr>>(value: &Bound<'py, PyAny>) -> PyResult<T> {
    value.extract::<T>().map_err(|error| match error.is_instance_of::<PyOverflowError>(value.py()) {
        true if value.lt(0).unwrap_or(false) => invalid(format!("a number from 0 on is wanted, not {value}")),
        true => invalid(format!("a smaller number is wanted, not {value}")),
        false => error,
    })
}

/// As many threads as an argument `threads` says: one at least.
pub(crate) fn threads_up_to(max: usize, threads: usize) -> PyResult<usize> {
    match (1..=max).contains(&threads) {
        true => Ok(threads),
        false => Err(invalid(format!("argument 'threads': 1 to {max} threads are wanted, not {threads}"))),
    }
}

/// The same for an argument, whose name is reported.
pub(crate) fn argument<'py, T: FromPyObjectOwned<'py, Error = PyErr>>(
    name: &str,
    value: &Bound<'py, PyAny>,
) -> PyResult<T> {
    whole(value).map_err(|error| named(value.py(), name, error))
}

/// The same exception with the name of the argument.
pub(crate) fn named(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    with_prefix(py, &format!("argument '{name}'"), error)
}

/// The same exception with something in front of its message.
pub(crate) fn with_prefix(py: Python<'_>, prefix: &str, error: PyErr) -> PyErr {
    match error.get_type(py).call1((format!("{prefix}: {}", error.value(py)),)) {
        Ok(exception) => PyErr::from_value(exception),
        Err(_) => error,
    }
}

/// An argument as a type of its own, which knows its name. Its default cannot be a number.
macro_rules! named_numbers {
    ($($type:ident($number:ty) = $name:literal)+) => {$(
        #[doc = concat!("The argument `", $name, "`.")]
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $type(pub(crate) $number);

        impl<'py> FromPyObject<'_, 'py> for $type {
            type Error = PyErr;

            fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                argument($name, &value).map(Self)
            }
        }
    )+};
}

named_numbers! {
    Position(u64) = "position"
    Length(u64) = "length"
    Size(u64) = "size"
    Count(usize) = "count"
    Budget(u64) = "budget_bytes"
    MaxLen(u64) = "max_len"
    End(u64) = "end"
    Generation(u64) = "generation"
}

/// What converts other arguments: `from_py_with` does not know which one it converts.
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
    extra_bytes
    first_touch
    grain
    max_delete
    max_gap
    min_len
    segment_bytes
    threads
}
