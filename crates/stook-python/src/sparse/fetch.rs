//! Sources that are read through a Python function.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use stook::extent::ByteRange;
use stook::source::Fetch;

use super::zero_copy;
use crate::memory::{Given, detach_if_long};

thread_local! {
    /// The fetch functions that this thread is currently in.
    static CALLED: RefCell<Vec<Arc<Py<PyAny>>>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread is inside this fetch function: a read of the same file might then wait for
/// itself.
pub(super) fn is_in(fetch: &Arc<Py<PyAny>>) -> bool {
    CALLED.with_borrow(|called| called.iter().any(|one| Arc::ptr_eq(one, fetch)))
}

/// Marks this thread as being inside a fetch function until it is dropped.
struct InFetch;

impl InFetch {
    fn new(fetch: &Arc<Py<PyAny>>) -> Self {
        CALLED.with_borrow_mut(|called| called.push(fetch.clone()));
        Self
    }
}

impl Drop for InFetch {
    fn drop(&mut self) {
        // Dropped outside the borrow: if it is the last reference, finalizers may come here.
        let fetch = CALLED.with_borrow_mut(Vec::pop);
        drop(fetch);
    }
}

/// A Python function that gives the bytes of a range: `fetch(start, end)`.
#[derive(Debug)]
pub(super) struct Function(pub(super) Arc<Py<PyAny>>);

impl Function {
    fn ask(&self, py: Python<'_>, range: ByteRange) -> PyResult<Bytes> {
        let called = InFetch::new(&self.0);
        let given = self.0.bind(py).call1((range.start(), range.end()))?;
        drop(called);
        if given.is_exact_instance_of::<PyBytes>()
            && let Some(bytes) = zero_copy::shared(&given)?
        {
            return Ok(bytes);
        }
        let given = Given::new(&given)?;
        let bytes = given.as_slice();
        Ok(detach_if_long(py, bytes.len(), || Bytes::copy_from_slice(bytes)))
    }
}

impl Fetch for Function {
    fn fetch(&self, range: ByteRange) -> io::Result<Bytes> {
        let asked = Python::try_attach(|py| self.ask(py, range).map_err(io::Error::other));
        asked.unwrap_or_else(|| Err(io::Error::other("the interpreter is ending")))
    }
}
