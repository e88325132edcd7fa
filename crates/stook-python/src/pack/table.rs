//! Scans as tables of Arrow.

use std::sync::{Arc, Mutex, OnceLock};

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyMapping, PyString};
use stook::ops::contents::{OwnedTable, ScanRequest};
use stook::pack::format::attributes::{Name, Value};
use stook::pack::{ColumnType, Stop, WantedColumn};

use super::attributes;
use super::scan::Scan;
use crate::arguments::{iter_of, shown, wrong_type};
use crate::arrow::import::texts_of;
use crate::arrow::stream::{Met, capsule_of, is_interrupted};
use crate::errors::{OrRaise as _, Raise as _, invalid};
use crate::locks::locked;
use crate::numbers::named;
use crate::wait::Passed;

/// What tables of a scan are made of.
pub(crate) struct Tables {
    pub(super) request: ScanRequest,
    pub(super) columns: Option<Vec<WantedColumn>>,
    pub(super) progress: Option<Py<PyAny>>,
    pub(super) met: Arc<Mutex<Met>>,
    /// Where they are parts of one table: the columns that records may have, unless the caller
    /// chose them.
    part: OnceLock<Option<Vec<WantedColumn>>>,
}

impl Tables {
    pub(super) fn new(
        request: ScanRequest,
        columns: Option<Vec<WantedColumn>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> Self {
        let progress = progress.map(|progress| progress.clone().unbind());
        Self { request, columns, progress, met: Arc::default(), part: OnceLock::new() }
    }

    fn begin(&self, py: Python<'_>) -> PyResult<OwnedTable> {
        let mut request = self.request.clone();
        request.options.stop = Stop(is_interrupted);
        let table = py.detach(|| request.table(self.columns.clone())).or_raise()?;
        Ok(match self.part.get() {
            Some(known) => table.into_part(known.clone()),
            None => table,
        })
    }

    fn capsule<'py>(&self, py: Python<'py>, texts: Vec<String>) -> PyResult<Bound<'py, PyCapsule>> {
        let table = self.begin(py)?.with_texts(texts);
        let passed = Passed::new(self.progress.as_ref().map(|progress| progress.bind(py)))?;
        capsule_of(py, table, passed, self.met.clone())
    }
}

#[pymethods]
impl Scan {
    /// A stream of Arrow of all that is scanned, for pyarrow, polars, DuckDB, pandas and others.
    /// Each begins anew, whatever was iterated over.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.check_process()?;
        self.tables.capsule(py, texts_of(requested_schema)?)
    }

    /// All that is scanned as a table of pyarrow, which has to be installed. Others take the scan
    /// itself: ``polars.DataFrame(scan)``, ``duckdb.sql("from scan")``.
    ///
    /// Columns are ``key``, ``value``, and the attributes that the first records have, unless
    /// `Pack.scan` was given ``columns``.
    ///
    /// Returns:
    ///     A ``pyarrow.Table``.
    ///
    /// Raises:
    ///     ImportError: There is no pyarrow.
    ///     stook.DamagedError: A record is not what was written.
    ///     stook.InvalidError: A record has what no column is of, or what does not fit into one.
    fn to_table<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let arrow = py.import("pyarrow").map_err(|error| {
            let hint = "to_table makes a table of pyarrow, which cannot be imported; polars, DuckDB and pandas take the scan itself";
            PyImportError::new_err(format!("{hint} ({})", error.value(py)))
        })?;
        let met = &slf.get().tables.met;
        locked(met).failure = None;
        let reader = arrow.getattr("RecordBatchReader")?.call_method1("from_stream", (slf,));
        let table = reader.and_then(|reader| reader.call_method0("read_all"));
        table.map_err(|error| slf.get().failure().unwrap_or(error))
    }

    /// Why the last stream that failed did, for those who have it from a library that makes a text
    /// of it.
    fn _failure(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.failure().map(|error| error.into_value(py).into_any())
    }

    /// Has its tables be parts of a larger one, whose filters were found to be about something.
    /// With ``known`` columns a record that has anything else is an error, as where none are named.
    #[pyo3(signature = (known=None))]
    fn _set_part(&self, known: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let known = columns_of(known)?;
        self.tables.part.set(known).map_err(|_| invalid("it is a part already"))
    }

    /// The columns that a table of this scan has: names and types, as ``columns`` of `Pack.scan`
    /// takes them. The first records are read for it.
    ///
    /// Returns:
    ///     A dict of names and types.
    fn column_types<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.check_process()?;
        let mut table = self.tables.begin(py)?;
        let columns = py.detach(|| table.columns()).or_raise()?;
        let types = PyDict::new(py);
        for column in columns.iter() {
            types.set_item(&column.name, column.cells.name())?;
        }
        Ok(types)
    }
}

impl Scan {
    /// What ended a stream, which says more than what its consumer makes of its text.
    fn failure(&self) -> Option<PyErr> {
        locked(&self.tables.met).failure.take().map(|failure| failure.raise())
    }
}

/// The argument `columns`: a name, several, or names with types.
pub(super) fn columns_of(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<WantedColumn>>> {
    let Some(given) = given else { return Ok(None) };
    if let Ok(one) = given.cast::<PyString>() {
        return Ok(Some(vec![WantedColumn::named(one.to_str()?, None).or_raise()?]));
    }
    if let Ok(types) = given.cast::<PyMapping>() {
        let pairs = types.items()?;
        let typed = pairs.iter().map(|pair| {
            let (name, cells) = pair.extract::<(String, Option<String>)>().map_err(|_| refused(given))?;
            let cells = cells.map(|cells| ColumnType::named(&cells)).transpose().or_raise()?;
            WantedColumn::named(&name, cells).or_raise()
        });
        return typed.collect::<PyResult<_>>().map(Some);
    }
    let named = iter_of("columns", given)?.map(|name| {
        let name: String = name?.extract().map_err(|_| refused(given))?;
        WantedColumn::named(&name, None).or_raise()
    });
    named.collect::<PyResult<_>>().map(Some)
}

fn refused(given: &Bound<'_, PyAny>) -> PyErr {
    invalid(format!("columns are names, or a dict of names and types, not {}", shown(given)))
}

/// The argument `where`: attributes with the value, or the values, that they have to have.
pub(super) fn conditions_of(given: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<(Name, Vec<Value>)>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let mapping = given.cast::<PyMapping>().map_err(|_| wrong_type("where", "a dict", given))?;
    let mut conditions = Vec::new();
    for pair in mapping.items()? {
        let (name, wanted) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let condition = attributes::condition_of(&name, &wanted);
        conditions.push(condition.map_err(|error| named(given.py(), "where", error))?);
    }
    Ok(conditions)
}
