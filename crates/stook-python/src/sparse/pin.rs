//! `stook.Pin`: keeps a range of a sparse buffer from being evicted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use stook::extent::ByteRange;
use stook::sparse;

use super::zero_copy::{self, ReleaseOnDrop};
use crate::reports::{context, getters};

/// Keeps a range from being evicted until it is released, left as a context, or collected.
///
/// Made by :meth:`SparseBuffer.pin`.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Pin {
    buffer: Arc<sparse::SparseBuffer>,
    range: ByteRange,
    is_held: AtomicBool,
    // Last, because the fields before may hold memory of Python objects.
    _release: ReleaseOnDrop,
}

impl Pin {
    pub(crate) fn new(buffer: Arc<sparse::SparseBuffer>, range: ByteRange) -> Self {
        buffer.add_pin(range);
        Self { buffer, range, is_held: AtomicBool::new(true), _release: ReleaseOnDrop }
    }

    fn unpin(&self) {
        if self.is_held.swap(false, Ordering::AcqRel) {
            self.buffer.remove_pin(self.range);
        }
    }
}

#[pymethods]
impl Pin {
    /// Ends it. May be called again, and does nothing then.
    fn release(&self, py: Python<'_>) {
        self.unpin();
        zero_copy::release(py);
    }

    fn __repr__(&self) -> String {
        let state = if self.is_held.load(Ordering::Relaxed) { "" } else { ", released" };
        format!("<stook.Pin of {}{state}>", self.range)
    }
}

getters! { Pin {
    /// What is pinned, as ``(start, end)``.
    range: (u64, u64) = |this| (this.range.start(), this.range.end());
}}

context! { Pin, |_this| {}, |this, py, _| { this.release(py); Ok(()) } }

impl Drop for Pin {
    fn drop(&mut self) {
        self.unpin();
    }
}
