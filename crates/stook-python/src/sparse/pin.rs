//! `stook.Pin`: keeps a range of a sparse buffer from being evicted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use stook::extent::ByteRange;
use stook::sparse;

use super::adopted;

/// Keeps a range from being evicted until it is released, left as a context, or collected.
///
/// Made by :meth:`SparseBuffer.pin`.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Pin {
    buffer: Arc<sparse::SparseBuffer>,
    range: ByteRange,
    is_held: AtomicBool,
    /// Behind what may hold memory of Python.
    _let_go: adopted::LetGo,
}

impl Pin {
    pub(crate) fn new(buffer: Arc<sparse::SparseBuffer>, range: ByteRange) -> Self {
        buffer.add_pin(range);
        Self { buffer, range, is_held: AtomicBool::new(true), _let_go: adopted::LetGo }
    }

    fn let_go(&self) {
        if self.is_held.swap(false, Ordering::AcqRel) {
            self.buffer.remove_pin(self.range);
        }
    }
}

#[pymethods]
impl Pin {
    /// What is pinned, as ``(start, end)``.
    #[getter]
    fn range(&self) -> (u64, u64) {
        (self.range.start(), self.range.end())
    }

    /// Ends it. May be called again, and does nothing then.
    fn release(&self, py: Python<'_>) {
        self.let_go();
        adopted::let_go(py);
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind=None, error=None, trace=None, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        error: Option<&Bound<'_, PyAny>>,
        trace: Option<&Bound<'_, PyAny>>,
    ) {
        let _ = (kind, error, trace);
        self.release(py);
    }

    fn __repr__(&self) -> String {
        let state = if self.is_held.load(Ordering::Relaxed) { "" } else { ", released" };
        format!("<stook.Pin of {}{state}>", self.range)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.let_go();
    }
}
