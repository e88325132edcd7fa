//! `stook.SparseStore`: many sparse buffers under one budget.
//!
//! Options and sizes have the names that they have in a buffer, and are attributes of their own: a
//! buffer counts and evicts its bytes, a store those of all its buffers.

use std::sync::Arc;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};
use stook::sparse::{self, SparseOptions};

use super::buffer::{SparseBuffer, budget_of, options_of, restore};
use super::reports;
use super::zero_copy::{self, ReleaseOnDrop};
use crate::choices;
use crate::errors::OrRaise as _;
use crate::numbers::{self, Budget, Count};
use crate::reports::getters;

/// Many named sparse buffers in memory, under one byte budget and one count of touches.
///
/// A mapping of names to :class:`SparseBuffer`. What was touched longest ago is evicted, whichever
/// of them it is in.
///
/// Args:
///     budget_bytes: What all of them together hold at most; ``None`` for no limit.
///     grain: The most bytes of a segment, which is what is touched and evicted as one: 1 to
///         65,536.
///     adopt_min: What is shorter is copied by ``adopt``: 4,096 or more.
///     first_touch: Where the count of touches begins.
///     exact: Touches are numbered without gaps, in one order for all threads, and every read and
///         write notes the time. Operations take longer for it.
///     wipe: Memory that bytes were copied into is overwritten before it is given back.
///
/// Raises:
///     InvalidError: For an option with a value that it cannot have.
///
/// Example:
///     >>> import stook
///     >>> store = stook.SparseStore(budget_bytes=1000)
///     >>> store.get_or_create("a").write(0, bytes(600))
///     600
///     >>> store.get_or_create("b").write(7, bytes(600))
///     600
///     >>> store.held_bytes
///     600
#[pyclass(module = "stook", frozen, mapping)]
pub(crate) struct SparseStore {
    pub(crate) store: Arc<sparse::SparseStore>,
    // Last, because the fields before may hold memory of Python objects.
    _release: ReleaseOnDrop,
}

fn list_of<'py>(py: Python<'py>, names: &[Arc<str>]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, names.iter().map(|name| name.as_ref()))
}

#[pymethods]
impl SparseStore {
    #[new]
    #[pyo3(signature = (*, budget_bytes=None, grain=65536, adopt_min=16384, first_touch=0, exact=false, wipe=false))]
    fn new(
        budget_bytes: Option<Budget>,
        #[pyo3(from_py_with = numbers::grain)] grain: u32,
        #[pyo3(from_py_with = numbers::adopt_min)] adopt_min: u32,
        #[pyo3(from_py_with = numbers::first_touch)] first_touch: u64,
        #[pyo3(from_py_with = choices::exact)] exact: bool,
        #[pyo3(from_py_with = choices::wipe)] wipe: bool,
    ) -> PyResult<Self> {
        let options =
            SparseOptions { exact, wipe, ..options_of(budget_bytes, grain, adopt_min, first_touch) };
        let store = Arc::new(sparse::SparseStore::new(options).or_raise()?);
        Ok(Self { store, _release: ReleaseOnDrop })
    }

    /// The buffer of this name, or ``default``.
    #[pyo3(signature = (name, default=None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = choices::name)] name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.store.get(name) {
            Some(buffer) => Ok(Some(Bound::new(py, SparseBuffer::new(buffer))?.into_any())),
            None => Ok(default),
        }
    }

    /// The buffer of this name, a new one where there was none.
    fn get_or_create(&self, #[pyo3(from_py_with = choices::name)] name: &str) -> SparseBuffer {
        SparseBuffer::new(self.store.get_or_create(name))
    }

    /// Takes a buffer out. Its users keep it; it no longer counts for the budget and
    /// is not evicted from.
    ///
    /// Returns:
    ///     The buffer, or ``None`` where there was none of this name.
    fn remove(&self, #[pyo3(from_py_with = choices::name)] name: &str) -> Option<SparseBuffer> {
        self.store.remove(name).map(SparseBuffer::new)
    }

    /// Takes all buffers out.
    fn clear(&self, py: Python<'_>) {
        zero_copy::detach(py, || self.store.clear());
    }

    /// Reads a serialised buffer and gives it this name. Its budget is that of the store.
    ///
    /// Args:
    ///     name: The name.
    ///     data: What :meth:`SparseBuffer.to_bytes` gave.
    ///
    /// Raises:
    ///     ExistsError: The name is taken.
    ///     DamagedError: The bytes were cut or changed.
    ///     UnsupportedError: They are something else, or of another version.
    fn load(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = choices::name)] name: &str,
        data: &Bound<'_, PyAny>,
    ) -> PyResult<SparseBuffer> {
        restore(py, data, |bytes| self.store.load(name, bytes)).map(SparseBuffer::new)
    }

    /// The names, ascending.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        list_of(py, &self.store.names())
    }

    /// The buffers, by their names ascending.
    fn values(&self) -> Vec<SparseBuffer> {
        self.items().into_iter().map(|(_, buffer)| buffer).collect()
    }

    /// Names and buffers, ascending.
    fn items(&self) -> Vec<(String, SparseBuffer)> {
        let names = self.store.names();
        names
            .iter()
            .filter_map(|name| Some((name.to_string(), SparseBuffer::new(self.store.get(name)?))))
            .collect()
    }

    /// Up to ``count`` names after ``name``, ascending: for stores of very many buffers.
    fn names_after<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = choices::name)] name: &str,
        count: Count,
    ) -> PyResult<Bound<'py, PyList>> {
        list_of(py, &self.store.names_after(name, count.0))
    }

    /// Takes away what was touched longest ago, in whichever buffers, until at most
    /// ``budget_bytes`` are held, or only what is pinned.
    ///
    /// Returns:
    ///     How many bytes that were.
    fn evict_to(&self, py: Python<'_>, budget_bytes: Budget) -> u64 {
        zero_copy::detach(py, || self.store.evict_to(budget_bytes.0))
    }

    /// What was done to all buffers, those included that were removed.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        reports::counters(py, &py.detach(|| self.store.counters()))
    }

    fn __getitem__(&self, name: &str) -> PyResult<SparseBuffer> {
        self.store.get(name).map(SparseBuffer::new).ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    fn __delitem__(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let removed = zero_copy::detach(py, || self.store.remove(name).map(drop));
        removed.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<&str>().is_ok_and(|name| self.store.get(name).is_some())
    }

    fn __len__(&self) -> usize {
        self.store.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys(py)?.try_iter()
    }

    fn __repr__(&self) -> String {
        format!("<stook.SparseStore of {} buffers, {} bytes>", self.store.len(), self.store.held_bytes())
    }
}

getters! { SparseStore {
    /// How many bytes all buffers hold.
    held_bytes: u64 = |this| this.store.held_bytes();
    /// What all buffers take of memory, everything included.
    memory_bytes: u64 = |this, py| py.detach(|| this.store.memory_bytes());
    /// What all of them together hold at most; ``None`` for no limit.
    budget_bytes: Option<u64> = |this| budget_of(this.store.options());
}}
