//! Conversion of ranges: half-open `(start, end)`, or a position and a length.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use stook::extent::ByteRange;
use stook::plan::PlanOptions;
use stook::sparse::SparseError;

use crate::arguments::iter_of;
use crate::errors::{Raise as _, invalid};
use crate::numbers::{End, Length, MaxLen, Position, argument};

/// The range of `length` bytes at `position`.
pub(crate) fn at(Position(position): Position, Length(len): Length) -> PyResult<ByteRange> {
    ByteRange::at(position, len).ok_or_else(|| SparseError::TooFar { position, len }.raise())
}

/// The ranges of an iterable of `(start, end)`.
pub(crate) fn of(ranges: &Bound<'_, PyAny>) -> PyResult<Vec<ByteRange>> {
    iter_of("ranges", ranges)?.map(|item| one(&item?)).collect()
}

fn one(item: &Bound<'_, PyAny>) -> PyResult<ByteRange> {
    let wrong = || -> PyErr {
        match item.repr() {
            Ok(text) => PyTypeError::new_err(format!("a range is (start, end), not {text}")),
            Err(error) => error,
        }
    };
    let (start, end): (u64, u64) = match item.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => {
            (argument("start", &pair.get_item(0)?)?, argument("end", &pair.get_item(1)?)?)
        }
        _ => item.extract::<[u64; 2]>().map(|[start, end]| (start, end)).map_err(|_| wrong())?,
    };
    ByteRange::new(start, end)
        .ok_or_else(|| invalid(format!("a range must not end before it begins: ({start}, {end})")))
}

/// A list of `(start, end)`.
pub(crate) fn list<'py>(py: Python<'py>, ranges: &[ByteRange]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, ranges.iter().map(|range| (range.start(), range.end())))
}

/// The options of a plan; `None` is no limit.
pub(crate) fn plan(
    min_len: u64,
    max_gap: u64,
    max_len: Option<MaxLen>,
    alignment: u64,
    end: Option<End>,
) -> PlanOptions {
    let (max_len, end) = (max_len.map_or(u64::MAX, |len| len.0), end.map_or(u64::MAX, |end| end.0));
    PlanOptions { min_len, max_gap, max_len, alignment, end }
}
