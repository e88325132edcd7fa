//! `stook.Scan`: iteration over all records. Python sees their memory without another copy.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyList;
use stook::ops::contents::OwnedRows;
use stook::pack::{self, Damages, Row};

use super::begun::Begun;
use super::info;
use super::record::Record;
use super::table::Tables;
use crate::errors::{OrRaise as _, damaged};
use crate::locks::locked;
use crate::reports::async_iterator;
use crate::wait::Passed;

/// Live records of a pack, one after another, each as a `Record`.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Scan {
    inner: Begun<OwnedRows>,
    passed: Passed,
    pub(super) tables: Tables,
}

impl Scan {
    pub(crate) fn begin(py: Python<'_>, passed: Passed, tables: Tables) -> PyResult<Self> {
        match py.detach(|| tables.request.rows()) {
            Err(pack::Error::Damaged(damage)) => {
                let text = format!("{damage}; scan(on_damage=\"skip\") gives what is whole");
                Err(damaged(&damage, text))
            }
            begun => Ok(Self { inner: Begun::new(begun.or_raise()?), passed, tables }),
        }
    }

    /// Refuses a process that was forked from the one that began it.
    pub(super) fn check_process(&self) -> PyResult<()> {
        self.inner.check_process()
    }

    /// The next row, read without the interpreter.
    pub(crate) fn next_row(&self, py: Python<'_>) -> PyResult<Option<Row>> {
        let row = self.inner.next(py, OwnedRows::ready, OwnedRows::next)?;
        self.passed.add(row.as_ref().map(|row| row.body.len()))?;
        Ok(row)
    }

    /// The next row, if it has been read.
    pub(crate) fn row_at_once(&self) -> PyResult<Option<Row>> {
        let row = self.inner.at_once(OwnedRows::ready);
        row.as_ref().map_or(Ok(()), |row| self.passed.add(Some(row.body.len())))?;
        Ok(row)
    }
}

/// A row as Python sees it.
fn record_of(row: Row) -> PyResult<Record> {
    let Row { head, body, group, .. } = row.decoded().or_raise()?;
    Ok(Record { head, body, group })
}

async_iterator! { Scan }

#[pymethods]
impl Scan {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        self.next_row(py)?.map(record_of).transpose()
    }

    fn __repr__(&self) -> String {
        // The root of a storage has a slash at its end.
        let path: PathBuf = self.tables.request.pack.storage().path("").components().collect();
        format!("<stook.Scan of {}>", path.display())
    }

    /// The next record, if it has been read.
    fn _next_at_once(&self) -> PyResult<Option<Record>> {
        self.row_at_once()?.map(record_of).transpose()
    }

    /// Where it is: a text with which `Pack.scan(cursor=...)` continues after the last record,
    /// in another process too, as long as the pack has this generation.
    fn cursor(&self, py: Python<'_>) -> PyResult<String> {
        self.inner.with(py, |rows| rows.cursor())
    }

    /// The damage that was passed over, as exceptions, with ``on_damage="skip"``: while it was
    /// iterated over, and while tables were read of it.
    #[getter]
    fn damages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let passed_over = self.inner.with(py, |rows| rows.damages().clone())?;
        let of_tables = locked(&self.tables.met).damages.clone();
        let all: Damages = passed_over.into_iter().chain(of_tables).collect();
        info::damages(py, &all)
    }
}
