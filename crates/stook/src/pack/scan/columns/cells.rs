//! [`ColumnData`]: the cells of a column, in a few arrays.

use super::{ColumnType, TableColumn};
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::Value;
use crate::pack::key::Key;

/// The cells of a column. Null ones are empty or 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnCells {
    /// Bytes or text, one after another.
    Long {
        /// Where each begins in the bytes, and where the last ends: one more than there are cells.
        offsets: Vec<i64>,
        /// All of them.
        bytes: Vec<u8>,
    },
    /// Numbers.
    U64(Vec<u64>),
    /// Numbers, or nanoseconds since 1970.
    I64(Vec<i64>),
    /// Numbers.
    U32(Vec<u32>),
}

/// A column of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnData {
    /// Its cells.
    pub cells: ColumnCells,
    /// A bit for each cell, the lowest of a byte first, that is set where the cell is not null;
    /// empty where none is null.
    pub valid: Vec<u8>,
    /// How many cells are null.
    pub nulls: usize,
}

/// Bytes of many cells, which grow at their end.
#[derive(Debug)]
pub(super) struct LongCells {
    pub(super) offsets: Vec<i64>,
    pub(super) bytes: Vec<u8>,
}

impl Default for LongCells {
    fn default() -> Self {
        Self { offsets: vec![0], bytes: Vec::new() }
    }
}

impl LongCells {
    /// Ends the cell of all that was appended since the last one.
    pub(super) fn end(&mut self) {
        self.offsets.push(self.bytes.len() as i64);
    }

    /// Drops what was appended since the last cell.
    pub(super) fn abandon(&mut self) {
        self.bytes.truncate(self.offsets.last().map_or(0, |end| *end as usize));
    }

    /// The bytes of each.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.offsets.windows(2).map(|ends| match ends {
            [start, end] => self.bytes.get(*start as usize..*end as usize).unwrap_or_default(),
            _ => &[],
        })
    }
}

impl From<LongCells> for ColumnCells {
    fn from(LongCells { offsets, bytes }: LongCells) -> Self {
        Self::Long { offsets, bytes }
    }
}

/// A column that is being filled.
pub(super) struct ColumnFilling<'c> {
    column: &'c TableColumn,
    cells: ColumnCells,
    valid: Vec<u8>,
    rows: usize,
    nulls: usize,
}

impl<'c> ColumnFilling<'c> {
    pub(super) fn new(column: &'c TableColumn, rows: usize) -> Self {
        let cells = match column.cells {
            ColumnType::Binary | ColumnType::Text => {
                let mut offsets = Vec::with_capacity(rows + 1);
                offsets.push(0);
                ColumnCells::Long { offsets, bytes: Vec::new() }
            }
            ColumnType::U64 => ColumnCells::U64(Vec::with_capacity(rows)),
            ColumnType::I64 | ColumnType::Time => ColumnCells::I64(Vec::with_capacity(rows)),
            ColumnType::U32 => ColumnCells::U32(Vec::with_capacity(rows)),
        };
        Self { column, cells, valid: Vec::with_capacity(rows.div_ceil(8)), rows: 0, nulls: 0 }
    }

    /// Adds a cell of the record with this key.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the value is of another type than the column.
    pub(super) fn push(&mut self, key: &Key, value: Option<Value>) -> Result<()> {
        let Some(value) = value else {
            self.push_null();
            return Ok(());
        };
        if !self.push_value(&value) {
            let TableColumn { name, cells, .. } = self.column;
            let shown = shown(&value);
            return Err(Error::Invalid(format!(
                "{key} has {shown} in the column {name}, which has the type {}",
                cells.name()
            )));
        }
        self.end(true);
        Ok(())
    }

    /// Adds a cell of bytes, of which text has to be UTF-8.
    pub(super) fn push_bytes(&mut self, key: &Key, value: Option<&[u8]>) -> Result<()> {
        let Some(value) = value else {
            self.push_null();
            return Ok(());
        };
        if self.column.cells == ColumnType::Text {
            check_text(key, self.column, value)?;
        }
        self.push_raw(value);
        self.end(true);
        Ok(())
    }

    fn push_null(&mut self) {
        match &mut self.cells {
            ColumnCells::Long { .. } => self.push_raw(&[]),
            ColumnCells::U64(cells) => cells.push(0),
            ColumnCells::I64(cells) => cells.push(0),
            ColumnCells::U32(cells) => cells.push(0),
        }
        self.nulls += 1;
        self.end(false);
    }

    fn push_raw(&mut self, value: &[u8]) {
        if let ColumnCells::Long { offsets, bytes } = &mut self.cells {
            bytes.extend_from_slice(value);
            offsets.push(bytes.len() as i64);
        }
    }

    /// Whether the value has the type of the column.
    fn push_value(&mut self, value: &Value) -> bool {
        match (self.column.cells, value) {
            (ColumnType::Text, Value::Text(text)) => self.push_raw(text.as_bytes()),
            (ColumnType::Binary, Value::Text(text)) => self.push_raw(text.as_bytes()),
            (ColumnType::Binary, Value::Bytes(bytes)) => self.push_raw(bytes),
            (ColumnType::Text, Value::Bytes(bytes)) if std::str::from_utf8(bytes).is_ok() => {
                self.push_raw(bytes);
            }
            (_, value) => {
                let Some(number) = value.number() else { return false };
                return self.push_number(number);
            }
        }
        true
    }

    fn push_number(&mut self, number: i128) -> bool {
        match &mut self.cells {
            ColumnCells::Long { .. } => false,
            ColumnCells::U64(cells) => number.try_into().map(|number| cells.push(number)).is_ok(),
            ColumnCells::I64(cells) => number.try_into().map(|number| cells.push(number)).is_ok(),
            ColumnCells::U32(cells) => number.try_into().map(|number| cells.push(number)).is_ok(),
        }
    }

    fn end(&mut self, is_valid: bool) {
        if self.rows.is_multiple_of(8) {
            self.valid.push(0);
        }
        if let Some(last) = self.valid.last_mut() {
            *last |= u8::from(is_valid) << (self.rows % 8);
        }
        self.rows += 1;
    }

    pub(super) fn done(self) -> ColumnData {
        let valid = if self.nulls == 0 { Vec::new() } else { self.valid };
        ColumnData { cells: self.cells, valid, nulls: self.nulls }
    }
}

/// Refuses text that is none.
pub(super) fn check_text(key: &Key, column: &TableColumn, bytes: &[u8]) -> Result<()> {
    std::str::from_utf8(bytes).map(|_| ()).map_err(|_| {
        let name = &column.name;
        Error::Invalid(format!("what {key} has in the column {name} is not UTF-8: take it as binary"))
    })
}

/// A value as errors show it.
fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("the text {text:?}"),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
        number => format!("the number {}", number.number().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ColumnContent;
    use super::*;

    fn column(cells: ColumnType) -> TableColumn {
        TableColumn { name: "c".into(), content: ColumnContent::Value, cells }
    }

    #[test]
    fn cells_and_their_bits() {
        let column = column(ColumnType::Text);
        let mut filling = ColumnFilling::new(&column, 10);
        let key = Key::id(7);
        for number in 0..10 {
            let value = (number % 3 != 1).then(|| Value::Text(number.to_string()));
            filling.push(&key, value).unwrap();
        }
        let data = filling.done();
        assert_eq!((data.valid, data.nulls), (vec![0b0110_1101, 0b11], 3));
        let ColumnCells::Long { offsets, bytes } = data.cells else { panic!("bytes") };
        assert_eq!((offsets, &bytes[..]), (vec![0, 1, 1, 2, 3, 3, 4, 5, 5, 6, 7], &b"0235689"[..]));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_key() {
        let key = Key::bytes("k").unwrap();
        for (cells, value) in [
            (ColumnType::U32, Value::I64(-1)),
            (ColumnType::I64, Value::U64(u64::MAX)),
            (ColumnType::U64, Value::Text("1".into())),
            (ColumnType::Text, Value::Bytes(vec![0xff])),
            (ColumnType::Binary, Value::U8(1)),
        ] {
            let column = column(cells);
            let error = ColumnFilling::new(&column, 1).push(&key, Some(value)).unwrap_err().to_string();
            assert!(error.starts_with("k has ") && error.ends_with(cells.name()), "{error}");
        }
        let column = column(ColumnType::Text);
        let mut filling = ColumnFilling::new(&column, 1);
        assert!(filling.push_bytes(&key, Some(&[0xff])).unwrap_err().to_string().contains("not UTF-8"));
        filling.push_bytes(&key, Some("é".as_bytes())).unwrap();
        assert_eq!(filling.done().nulls, 0);
    }

    #[test]
    fn what_is_abandoned_leaves_the_cells_before_it() {
        let mut cells = LongCells::default();
        cells.bytes.extend(b"ab");
        cells.end();
        cells.bytes.extend(b"cd");
        cells.abandon();
        cells.end();
        assert_eq!(cells.iter().collect::<Vec<_>>(), [&b"ab"[..], b""]);
    }
}
