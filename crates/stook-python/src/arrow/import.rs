//! Streams of tables that others made.

use std::ffi::CStr;
use std::ptr;

use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::abi::{ArrowArray, ArrowArrayStream, ArrowSchema, SCHEMA, STREAM};
use super::cells::{CellType, CellValue, Cells, is_row};
use crate::arguments::shown;
use crate::errors::invalid;

/// A column of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) cells: CellType,
}

/// A stream that is being read.
pub(crate) struct Incoming {
    stream: ArrowArrayStream,
    pub(crate) fields: Vec<Field>,
}

/// A batch of it.
pub(crate) struct IncomingBatch<'a> {
    array: ArrowArray,
    fields: &'a [Field],
    rows: usize,
}

/// Columns of a batch.
pub(crate) struct IncomingCells<'a> {
    columns: Vec<(&'a Field, Cells<'a>)>,
    batch: &'a ArrowArray,
    /// Where the rows of the batch begin in its columns.
    start: usize,
}

impl Incoming {
    /// Takes over the stream of an object that has one.
    ///
    /// # Errors
    /// `TypeError` for another object; `InvalidError` for a stream that was consumed, or is of no
    /// table; what the producer reports.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(method) = object.getattr("__arrow_c_stream__") else {
            return Err(PyTypeError::new_err(format!(
                "an object with __arrow_c_stream__ is wanted, such as a table of pyarrow or a frame of polars, not {}",
                shown(object)
            )));
        };
        let capsule = method.call0()?;
        let capsule = capsule.cast::<PyCapsule>().map_err(|_| no_stream())?;
        let address = capsule.pointer_checked(Some(STREAM)).map_err(|_| no_stream())?;
        let address = address.as_ptr().cast::<ArrowArrayStream>();
        // SAFETY: a capsule of this name has a stream, which is moved as the interface says: its
        // bytes are copied, and what is there is marked as released.
        let stream = unsafe {
            let stream = ptr::read(address);
            (*address).release = None;
            stream
        };
        if stream.release.is_none() {
            return Err(invalid("this stream was consumed already"));
        }
        let mut incoming = Self { stream, fields: Vec::new() };
        incoming.fields = object.py().detach(|| incoming.read_schema())?;
        Ok(incoming)
    }

    fn read_schema(&mut self) -> PyResult<Vec<Field>> {
        let mut schema = ArrowSchema::empty();
        let Some(get_schema) = self.stream.get_schema else { return Err(no_stream()) };
        // SAFETY: the stream was not released.
        let code = unsafe { get_schema(&mut self.stream, &mut schema) };
        if code != 0 {
            return Err(self.failed(code));
        }
        fields_of(&schema)
    }

    /// The next batch; `None` after the last.
    ///
    /// # Errors
    /// `OSError` for what the producer reports; `InvalidError` for a batch that is not one.
    pub(crate) fn next(&mut self) -> PyResult<Option<IncomingBatch<'_>>> {
        let mut array = ArrowArray::empty();
        let Some(get_next) = self.stream.get_next else { return Err(no_stream()) };
        // SAFETY: the stream was not released.
        let code = unsafe { get_next(&mut self.stream, &mut array) };
        if code != 0 {
            return Err(self.failed(code));
        }
        if array.release.is_none() {
            return Ok(None);
        }
        let (Ok(rows), true) = (usize::try_from(array.length), array.offset >= 0) else {
            return Err(wrong("a batch of less than no rows"));
        };
        if array.n_children != self.fields.len() as i64 {
            let (has, wanted) = (array.n_children, self.fields.len());
            return Err(wrong(&format!("a batch of {has} columns, where the schema has {wanted}")));
        }
        Ok(Some(IncomingBatch { array, fields: &self.fields, rows }))
    }

    fn failed(&mut self, code: i32) -> PyErr {
        // SAFETY: the stream was not released, and its last call failed; the text is there until
        // the next one.
        let text = unsafe {
            let text = self.stream.get_last_error.map(|get| get(&mut self.stream));
            text.and_then(|text| text.as_ref())
                .map(|text| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        let text = text.unwrap_or_else(|| std::io::Error::from_raw_os_error(code).to_string());
        PyOSError::new_err(format!("the stream of Arrow ended with an error: {text}"))
    }
}

impl IncomingBatch<'_> {
    /// How many rows it has.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Its cells.
    ///
    /// # Errors
    /// `InvalidError` for what makes no sense.
    pub(crate) fn cells(&self) -> PyResult<IncomingCells<'_>> {
        let rows = self.array.offset + self.array.length;
        if !self.fields.is_empty() && self.array.children.is_null() {
            return Err(wrong("a batch without its columns"));
        }
        let mut columns = Vec::with_capacity(self.fields.len());
        for (number, field) in self.fields.iter().enumerate() {
            // SAFETY: the array has this many children, and outlives what is made of them.
            let child = unsafe { (*self.array.children.add(number)).as_ref() };
            let child = child.ok_or_else(|| wrong("a column that is not there"))?;
            let cells = Cells::new(&field.cells, child, rows);
            columns.push((field, cells.map_err(|what| wrong(&format!("{}: {what}", field.name)))?));
        }
        Ok(IncomingCells { columns, batch: &self.array, start: self.array.offset as usize })
    }
}

impl<'a> IncomingCells<'a> {
    /// The cell of a row in the column with this number.
    ///
    /// # Errors
    /// `InvalidError` for what makes no sense.
    pub(crate) fn get(&self, column: usize, row: usize) -> PyResult<Option<CellValue<'a>>> {
        let Some((field, cells)) = self.columns.get(column) else { return Ok(None) };
        // A row of structs may be null, whatever its cells have.
        if !is_row(self.batch, self.start + row).map_err(|what| wrong(&what))? {
            return Ok(None);
        }
        cells.get(self.start + row).map_err(|what| wrong(&format!("{}: {what}", field.name)))
    }
}

/// The columns of a requested schema that are to be text.
///
/// # Errors
/// `TypeError` for what is no capsule of a schema.
pub(crate) fn texts_of(requested: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let Some(requested) = requested else { return Ok(Vec::new()) };
    let refused = || PyTypeError::new_err("requested_schema is a capsule of an Arrow schema");
    let capsule = requested.cast::<PyCapsule>().map_err(|_| refused())?;
    let address = capsule.pointer_checked(Some(SCHEMA)).map_err(|_| refused())?;
    // SAFETY: a capsule of this name has a schema, and is there until this returns.
    let schema = unsafe { address.cast::<ArrowSchema>().as_ref() };
    if schema.release.is_none() {
        return Err(invalid("the requested schema was consumed already"));
    }
    let fields = fields_of(schema)?.into_iter();
    let is_text = |field: &Field| {
        matches!(field.cells, CellType::Short(true) | CellType::Long(true) | CellType::View(true))
    };
    Ok(fields.filter(is_text).map(|field| field.name).collect())
}

fn fields_of(schema: &ArrowSchema) -> PyResult<Vec<Field>> {
    // SAFETY: a schema that was not released has a format.
    let is_table = unsafe { schema.format.as_ref().is_some_and(|format| CStr::from_ptr(format) == c"+s") };
    if !is_table || (schema.n_children > 0 && schema.children.is_null()) {
        return Err(invalid("a stream of tables is wanted: its schema is no struct of columns"));
    }
    let mut fields = Vec::new();
    for number in 0..usize::try_from(schema.n_children).unwrap_or(0) {
        // SAFETY: the schema has this many children, and they have names or null.
        let field = unsafe {
            let child = (*schema.children.add(number))
                .as_ref()
                .ok_or_else(|| wrong("a schema without its columns"))?;
            let name = child.name.as_ref().map(|name| CStr::from_ptr(name).to_string_lossy().into_owned());
            Field { name: name.unwrap_or_default(), cells: CellType::of(child) }
        };
        fields.push(field);
    }
    Ok(fields)
}

fn no_stream() -> PyErr {
    PyTypeError::new_err("__arrow_c_stream__ did not give a capsule of an Arrow stream")
}

/// The exception for what a producer made that no table is.
fn wrong(what: &str) -> PyErr {
    invalid(format!("the stream of Arrow has {what}"))
}
