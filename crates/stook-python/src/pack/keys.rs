//! Keys of a pack, one after another, taken from its index some at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use self_cell::self_cell;
use stook::pack::{self, Key, KeyRange, Kinds};

use super::begun::Begun;
use super::scan::{Row, Scan};
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
    inner: Begun<Inner>,
}

struct Inner {
    cell: Cell,
    batch: VecDeque<Key>,
    kinds: Kinds,
    /// Whether the index has no more.
    ended: bool,
    /// What came behind the batch.
    error: Option<pack::Error>,
}

impl Keys {
    pub(crate) fn new(
        py: Python<'_>,
        pack: Arc<pack::Pack>,
        range: KeyRange,
        kinds: Kinds,
    ) -> PyResult<Self> {
        let cell = py.detach(|| Cell::try_new(pack, |pack| pack.keys_in(range))).or_raise()?;
        let inner = Inner { cell, batch: VecDeque::new(), kinds, ended: false, error: None };
        Ok(Self { inner: Begun::new(inner) })
    }
}

impl Inner {
    fn next(&mut self) -> pack::Result<Option<Key>> {
        // A batch may have none of the kinds that are wanted.
        while self.batch.is_empty() && self.error.is_none() && !self.ended {
            self.fill();
        }
        match self.batch.pop_front() {
            Some(key) => Ok(Some(key)),
            None => self.error.take().map_or(Ok(None), Err),
        }
    }

    fn fill(&mut self) {
        let (mut entries, kinds) = (Vec::with_capacity(BATCH_LEN), self.kinds);
        let (batch, ended) = (&mut self.batch, &mut self.ended);
        self.error = self.cell.with_dependent_mut(|pack, keys| {
            let taken = keys.take(BATCH_LEN).try_for_each(|entry| entry.map(|entry| entries.push(entry)));
            *ended = entries.is_empty() && taken.is_ok();
            match pack.of_kinds(entries, kinds) {
                Ok(entries) => batch.extend(entries.into_iter().map(|entry| entry.key)),
                Err(error) => return Some(error),
            }
            taken.err()
        });
    }
}

#[pymethods]
impl Keys {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = self.inner.next(py, |inner| inner.batch.pop_front(), Inner::next)?;
        next.map(|key| key::to_python(py, &key)).transpose()
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
        let Some(Row { record, .. }) = self.scan.next_row(py)? else { return Ok(None) };
        let value: Bound<'py, PyBytes> = bytes_of(py, &record.body)?;
        if !self.with_keys {
            return Ok(Some(value.into_any()));
        }
        let pair = [key::to_python(py, &record.head.key)?, value.into_any()];
        Ok(Some(PyTuple::new(py, pair)?.into_any()))
    }
}
