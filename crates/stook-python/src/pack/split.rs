//! `stook.Split`: a partition of a scan.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use stook::pack;

use crate::errors::OrRaise as _;
use crate::reports::getters;

/// A part of a pack: every record is in exactly one of the parts that `Pack.splits` gives.
///
/// It can be pickled, and its text (`str(split)`) given to another process; `Split(text)` reads it.
#[pyclass(module = "stook", frozen, eq, hash)]
#[derive(PartialEq, Hash)]
pub(crate) struct Split {
    pub(crate) split: pack::Split,
}

#[pymethods]
impl Split {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        Ok(Self { split: text.parse().or_raise()? })
    }

    fn __str__(&self) -> String {
        self.split.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<stook.Split of {} bytes>", self.split.bytes())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let text = slf.get().split.to_string();
        Ok((slf.get_type().into_any(), PyTuple::new(slf.py(), [text])?))
    }
}

getters! { Split {
    /// Bytes of segments in it, dead records included.
    bytes: u64 = |this| this.split.bytes();
}}
