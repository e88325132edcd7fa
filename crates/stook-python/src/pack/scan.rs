//! `stook.Scan`: iteration over all records. Python sees their memory without another copy.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;
use self_cell::self_cell;
use stook::pack::{self, Kinds, OnDamage, Row, Rows};

use super::begun::Begun;
use super::info;
use super::record::Record;
use crate::errors::{OrRaise as _, damaged};

type DiskScan<'p> = pack::Scan<'p>;

self_cell!(
    struct Cell {
        owner: Arc<pack::Pack>,
        #[not_covariant]
        dependent: DiskScan,
    }
);

/// Live records of a pack, one after another, each as a `Record`.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Scan {
    inner: Begun<Inner>,
}

struct Inner {
    cell: Cell,
    rows: Rows,
}

impl Scan {
    /// Begins a scan of records of these kinds that skips the first `to_skip`. With
    /// `OnDamage::Stop` it refuses a pack with known damage: missing records would go unnoticed.
    pub(crate) fn begin(
        py: Python<'_>,
        pack: Arc<pack::Pack>,
        kinds: Kinds,
        on_damage: OnDamage,
        to_skip: u64,
        begin: impl for<'p> FnOnce(&'p Arc<pack::Pack>) -> pack::Result<pack::Scan<'p>> + Send,
    ) -> PyResult<Self> {
        if let (OnDamage::Stop, Some(damage)) = (on_damage, pack.damages().first()) {
            let text = format!("{damage}; scan(on_damage=\"skip\") gives what is whole");
            return Err(damaged(damage, text));
        }
        let cell = py.detach(|| Cell::try_new(pack, begin)).or_raise()?;
        Ok(Self { inner: Begun::new(Inner { cell, rows: Rows::new(kinds, to_skip) }) })
    }

    /// The next row, read without the interpreter.
    pub(crate) fn next_row(&self, py: Python<'_>) -> PyResult<Option<Row>> {
        let read = |inner: &mut Inner| inner.cell.with_dependent_mut(|_, scan| inner.rows.next(scan));
        self.inner.next(py, |inner| inner.rows.ready(), read)
    }
}

#[pymethods]
impl Scan {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        let Some(row) = self.next_row(py)? else { return Ok(None) };
        let Row { head, body, group, .. } = row.decoded().or_raise()?;
        Ok(Some(Record { head, body, group }))
    }

    /// Where it is: a text with which `Pack.scan(cursor=...)` continues after the last record,
    /// in another process too, as long as the pack has this generation.
    fn cursor(&self, py: Python<'_>) -> PyResult<String> {
        self.inner.with(py, |inner| inner.cell.with_dependent(|_, scan| inner.rows.cursor(scan)))
    }

    /// The damage that was passed over, as exceptions, with ``on_damage="skip"``.
    #[getter]
    fn damages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        info::damages(py, &self.inner.with(py, |inner| inner.rows.damages().clone())?)
    }
}
