//! Packs that are filled from tables of Arrow.

use pyo3::prelude::*;
use stook::pack::format::attributes::{KIND, Name, Value};
use stook::pack::{self, Attributes, FileKind, Key, PackWriter, WantedColumn};

use super::pack::Pack;
use crate::arrow::cells::CellValue;
use crate::arrow::import::{Field, Incoming, IncomingBatch, IncomingCells};
use crate::choices;
use crate::errors::{OrRaise as _, invalid};
use crate::wait::with_progress;

/// Which columns are what.
struct Roles {
    key: usize,
    value: usize,
    attributes: Vec<(usize, Name)>,
}

#[pymethods]
impl Pack {
    /// Puts the rows of a table of Arrow as records, all of them or none.
    ///
    /// Args:
    ///     stream: An object with ``__arrow_c_stream__``: of pyarrow, polars, pandas, DuckDB, or a
    ///         scan of a pack.
    ///     key: The column of the keys: bytes, text, or numbers from 0 on, which are ids.
    ///     value: The column of the values: bytes or text.
    ///     group: The group to put records into.
    ///     progress: Called now and then with the records so far, on another thread; what it raises
    ///         before all are written ends it, and nothing is put then. ``True`` shows a bar with
    ///         tqdm.
    ///
    /// All other columns become attributes: numbers, text, bytes, and times, which become
    /// nanoseconds. A null is an attribute that the record does not have. A batch of the producer
    /// is in memory at a time.
    ///
    /// Returns:
    ///     How many rows were put.
    ///
    /// Raises:
    ///     TypeError: The object has no stream.
    ///     stook.InvalidError: No such column, one of a type that attributes do not have, a row
    ///         without a key or a value; rows are counted from 0.
    ///     OSError: The producer of the stream reports an error, or the disk fails.
    ///
    /// Examples:
    ///     >>> import pyarrow, stook
    ///     >>> table = pyarrow.table({"name": ["a"], "data": [b"1"], "label": [7]})
    ///     >>> with stook.Pack("data.stook", "a") as pack:
    ///     ...     pack.from_arrow(table, key="name", value="data")
    ///     ...     pack.record("a").attributes
    ///     1
    ///     {'label': 7}
    #[pyo3(signature = (stream, *, key="key", value="value", group="", progress=None))]
    #[expect(clippy::wrong_self_convention, reason = "the name is that of other libraries")]
    fn from_arrow(
        &self,
        py: Python<'_>,
        stream: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = choices::key)] key: &str,
        #[pyo3(from_py_with = choices::value)] value: &str,
        #[pyo3(from_py_with = choices::group)] group: &str,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let writer = self.writer()?;
        writer.enter().or_raise()?;
        let mut incoming = Incoming::of(stream)?;
        let roles = Roles::of(&incoming.fields, key, value)?;
        let group = group.to_owned();
        with_progress(py, progress, ["records"], move |go_on| {
            let put = |writer: &mut PackWriter| {
                let mut batch = writer.batch(&group)?;
                let put = put_rows(&mut batch, &mut incoming, &roles, &mut |rows| go_on([rows]));
                match put {
                    Ok(rows) => batch.commit().map(|_| Ok(rows)),
                    // What was written of it does not count.
                    Err(error) => Ok(Err(error)),
                }
            };
            writer.with(put).or_raise()?
        })
    }
}

impl Roles {
    fn of(fields: &[Field], key: &str, value: &str) -> PyResult<Self> {
        let find = |argument: &str, name: &str| {
            let mut found = fields.iter().enumerate().filter(|(_, field)| field.name == name);
            match (found.next(), found.next()) {
                (Some((number, field)), None) => Ok((number, field)),
                (Some(_), Some(_)) => {
                    Err(invalid(format!("argument '{argument}': two columns are called {name:?}")))
                }
                (None, _) => {
                    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
                    let names = names.join(", ");
                    Err(invalid(format!(
                        "argument '{argument}': no column is called {name:?}; there are: {names}"
                    )))
                }
            }
        };
        let (key, key_field) = find("key", key)?;
        let (value, value_field) = find("value", value)?;
        if key == value {
            return Err(invalid("argument 'value': another column than that of the keys is wanted"));
        }
        check_type(
            key_field,
            "bytes, text or numbers",
            key_field.cells.is_bytes() || key_field.cells.is_number(),
        )?;
        check_type(value_field, "bytes or text", value_field.cells.is_bytes())?;
        let mut attributes: Vec<(usize, Name)> = Vec::new();
        for (number, field) in fields.iter().enumerate().filter(|(number, _)| ![key, value].contains(number))
        {
            check_type(field, "numbers, text, bytes or times", field.cells.is_known())?;
            let name = attribute_of(field)?;
            if attributes.iter().any(|(_, other)| *other == name) {
                return Err(invalid(format!("two columns are of the attribute {name}")));
            }
            attributes.push((number, name));
        }
        Ok(Self { key, value, attributes })
    }
}

fn check_type(field: &Field, wanted: &str, is_it: bool) -> PyResult<()> {
    let Field { name, cells } = field;
    match is_it {
        true => Ok(()),
        false => Err(invalid(format!(
            "the column {name:?} has cells that are {}; {wanted} are wanted",
            cells.shown()
        ))),
    }
}

/// The attribute that a column is of, as columns of scans are called.
fn attribute_of(field: &Field) -> PyResult<Name> {
    let column = WantedColumn::named(&field.name, None).or_raise()?;
    column.attribute().cloned().ok_or_else(|| {
        let name = &field.name;
        invalid(format!(
            "the column {name:?} would be taken for what a pack says of a record itself: leave it out, or call it \
             attributes.{name}"
        ))
    })
}

/// Puts all rows; how many there are.
fn put_rows(
    batch: &mut pack::Batch<'_>,
    incoming: &mut Incoming,
    roles: &Roles,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> PyResult<u64> {
    let mut rows = 0;
    while let Some(arrived) = incoming.next()? {
        rows = put_batch(batch, &arrived, roles, rows, go_on)?;
    }
    Ok(rows)
}

fn put_batch(
    batch: &mut pack::Batch<'_>,
    arrived: &IncomingBatch<'_>,
    roles: &Roles,
    before: u64,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> PyResult<u64> {
    let cells = arrived.cells()?;
    for row in 0..arrived.rows() {
        let number = before + row as u64;
        let key = key_of(&cells, roles.key, row, number)?;
        let value = match cells.get(roles.value, row)? {
            Some(CellValue::Bytes(bytes)) => bytes,
            Some(CellValue::Text(text)) => text.as_bytes(),
            _ => return Err(refused(number, "has no value")),
        };
        let attributes = attributes_of(&cells, roles, row, number)?;
        batch.put(&key, &attributes, value).or_raise()?;
        if !go_on(number + 1) {
            return Err(pack::Error::Stopped).or_raise();
        }
    }
    Ok(before + arrived.rows() as u64)
}

fn key_of(cells: &IncomingCells<'_>, column: usize, row: usize, number: u64) -> PyResult<Key> {
    match cells.get(column, row)? {
        Some(CellValue::Bytes(bytes)) => Key::bytes(bytes).or_raise(),
        Some(CellValue::Text(text)) => Key::bytes(text).or_raise(),
        Some(CellValue::Number(id)) => id
            .try_into()
            .map(Key::id)
            .map_err(|_| refused(number, &format!("has the id {id}; ids are 0 to 2**64 - 1"))),
        _ => Err(refused(number, "has no key")),
    }
}

fn attributes_of(cells: &IncomingCells<'_>, roles: &Roles, row: usize, number: u64) -> PyResult<Attributes> {
    let mut attributes = Attributes::new();
    for (column, name) in &roles.attributes {
        let Some(cell) = cells.get(*column, row)? else { continue };
        let value = value_of(cell).ok_or_else(|| {
            refused(number, &format!("has a number in the column of {name} that does not fit into 64 bits"))
        })?;
        let typed =
            name.typed(value).map_err(|wanted| refused(number, &format!("has in {name} not {wanted}")))?;
        if *name == Name::Id(KIND) && typed == Value::U8(FileKind::HardLink.code()) {
            let what = "is a hard link, whose value is the name of a file: leave out the column kind to put its content";
            return Err(refused(number, what));
        }
        attributes.set(name.clone(), typed);
    }
    Ok(attributes)
}

fn value_of(cell: CellValue<'_>) -> Option<Value> {
    Some(match cell {
        CellValue::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
        CellValue::Text(text) => Value::Text(text.to_owned()),
        CellValue::Time(ns) => Value::I64(ns.try_into().ok()?),
        CellValue::Number(number) => match u64::try_from(number) {
            Ok(number) => Value::U64(number),
            Err(_) => Value::I64(number.try_into().ok()?),
        },
    })
}

fn refused(row: u64, what: &str) -> PyErr {
    invalid(format!("row {row} {what}; nothing was put"))
}
