//! Unsigned numbers: out of range is an `InvalidError` that names the argument.

use pyo3::exceptions::{PyIndexError, PyOverflowError};
use pyo3::prelude::*;

use crate::arguments::arguments;
use crate::errors::invalid;

/// An unsigned number. A negative or too large one is an `InvalidError`, not an `OverflowError`, as
/// files of the standard library have it.
pub(crate) fn whole<'a, 'py, T: FromPyObject<'a, 'py, Error = PyErr>>(
    value: &'a Bound<'py, PyAny>,
) -> PyResult<T> {
    value.extract::<T>().map_err(|error| match error.is_instance_of::<PyOverflowError>(value.py()) {
        true if value.lt(0).unwrap_or(false) => invalid(format!("a number from 0 on is wanted, not {value}")),
        true => invalid(format!("a smaller number is wanted, not {value}")),
        false => error,
    })
}

/// An index into that many, where one below 0 counts from the end.
pub(crate) fn index_in(value: &Bound<'_, PyAny>, len: u64) -> PyResult<u64> {
    let index: i64 = value.extract().map_err(|error: PyErr| {
        match error.is_instance_of::<PyOverflowError>(value.py()) {
            true => no_index(value, len),
            false => error,
        }
    })?;
    let from_start = match index {
        0.. => Some(index.unsigned_abs()),
        _ => len.checked_sub(index.unsigned_abs()),
    };
    from_start.filter(|index| *index < len).ok_or_else(|| no_index(&index, len))
}

/// That there is no such index.
pub(crate) fn no_index(index: &impl std::fmt::Display, len: u64) -> PyErr {
    PyIndexError::new_err(format!("there is no record {index}: there are {len}"))
}

/// Checks that an argument `threads` is between 1 and `max`.
pub(crate) fn threads_up_to(max: usize, threads: usize) -> PyResult<usize> {
    match (1..=max).contains(&threads) {
        true => Ok(threads),
        false => Err(invalid(format!("argument 'threads': 1 to {max} threads are wanted, not {threads}"))),
    }
}

/// The same for an argument; errors name it.
pub(crate) fn argument<'a, 'py, T: FromPyObject<'a, 'py, Error = PyErr>>(
    name: &str,
    value: &'a Bound<'py, PyAny>,
) -> PyResult<T> {
    whole(value).map_err(|error| named(value.py(), name, error))
}

/// The same exception with the name of the argument.
pub(crate) fn named(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    with_prefix(py, &format!("argument '{name}'"), error)
}

/// The same exception with a prefix before its message.
pub(crate) fn with_prefix(py: Python<'_>, prefix: &str, error: PyErr) -> PyErr {
    match error.get_type(py).call1((format!("{prefix}: {}", error.value(py)),)) {
        Ok(exception) => PyErr::from_value(exception),
        Err(_) => error,
    }
}

/// Newtypes that know the name of their argument. Defaults of such arguments cannot be literals.
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

arguments! {
    argument:
        adopt_min alignment block_bytes budget_bytes bytes_per_s depth end epoch extra_bytes first_touch grain
        jobs keep keep_seconds lanes max_dead max_delete max_gap memory min_len rank readers seed segment_bytes
        shard_bytes start threads timeout window_bytes worker workers world
}
