//! Keys of a pack, one after another, taken from its index some at a time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use self_cell::self_cell;
use stook::pack::{self, Key, KeyRange};

use super::scan::{Scan, check_process};
use crate::errors::OrRaise as _;
use crate::key;
use crate::memory::bytes_of;

/// Keys that are taken from the index at once.
const BATCH_LEN: usize = 1024;

type IndexKeys<'p> = pack::Keys<'p>;

self_cell!(
    struct Cell {
        owner: Arc<pack::Pack>,
        #[not_covariant]
        dependent: IndexKeys,
    }
);

/// The keys of a pack in order, byte strings first, then ids.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Keys {
    inner: Mutex<Inner>,
    process: u32,
}

struct Inner {
    cell: Cell,
    batch: VecDeque<Key>,
    /// What came behind the batch.
    error: Option<pack::Error>,
}

impl Keys {
    pub(crate) fn new(py: Python<'_>, pack: Arc<pack::Pack>, range: KeyRange) -> PyResult<Self> {
        let cell = py.detach(|| Cell::try_new(pack, |pack| pack.keys_in(range))).or_raise()?;
        Ok(Self {
            inner: Mutex::new(Inner { cell, batch: VecDeque::new(), error: None }),
            process: std::process::id(),
        })
    }
}

impl Inner {
    fn next(&mut self) -> pack::Result<Option<Key>> {
        if self.batch.is_empty() && self.error.is_none() {
            let batch = &mut self.batch;
            let taken = self.cell.with_dependent_mut(|_, keys| {
                keys.take(BATCH_LEN).try_for_each(|entry| entry.map(|entry| batch.push_back(entry.key)))
            });
            self.error = taken.err();
        }
        match self.batch.pop_front() {
            Some(key) => Ok(Some(key)),
            None => self.error.take().map_or(Ok(None), Err),
        }
    }
}

#[pymethods]
impl Keys {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // Most keys are there already, and nobody else holds the lock.
        if let Ok(mut inner) = self.inner.try_lock()
            && let Some(key) = inner.batch.pop_front()
        {
            return key::to_python(py, &key).map(Some);
        }
        check_process(self.process)?;
        py.check_signals()?;
        let next = py.detach(|| self.inner.lock().unwrap_or_else(PoisonError::into_inner).next());
        next.or_raise()?.map(|key| key::to_python(py, &key)).transpose()
    }
}

/// Keys and values of a pack in the order of the keys, or values alone.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Items {
    scan: Scan,
    with_keys: bool,
}

impl Items {
    pub(crate) fn new(scan: Scan, with_keys: bool) -> Self {
        Self { scan, with_keys }
    }
}

#[pymethods]
impl Items {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(row) = self.scan.next_row(py)? else { return Ok(None) };
        let value: Bound<'py, PyBytes> = bytes_of(py, &row.body)?;
        if !self.with_keys {
            return Ok(Some(value.into_any()));
        }
        let pair = [key::to_python(py, &row.key)?, value.into_any()];
        Ok(Some(PyTuple::new(py, pair)?.into_any()))
    }
}
