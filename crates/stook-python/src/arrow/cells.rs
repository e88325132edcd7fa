//! Cells of arrays that others made.
//!
//! The interface has no lengths of buffers, so that a producer has to be believed; what can be
//! checked is: numbers of buffers and children, lengths, that offsets rise.

use std::ffi::{CStr, c_void};
use std::ops::Range;

use super::abi::{ArrowArray, ArrowSchema};

/// The type of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CellType {
    /// Bytes or text (`true`), with offsets of 32 bits.
    Short(bool),
    /// Bytes or text (`true`), with offsets of 64 bits.
    Long(bool),
    /// Bytes or text (`true`), as views.
    View(bool),
    /// Bytes, this many in each cell.
    Fixed(usize),
    /// Numbers of this many bytes, with a sign or not.
    Number(usize, bool),
    /// Times since 1970; a unit is this many nanoseconds.
    Time(i64),
    /// Indexes of this type into a list of cells of that one.
    Dictionary(Box<(CellType, CellType)>),
    /// Something else, as its format says.
    Other(String),
}

/// A cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellValue<'a> {
    Bytes(&'a [u8]),
    Text(&'a str),
    Number(i128),
    /// Nanoseconds since 1970.
    Time(i128),
}

/// Cells of a column. The array outlives it.
pub(super) struct Cells<'a> {
    cells: &'a CellType,
    array: &'a ArrowArray,
    dictionary: Option<Box<Cells<'a>>>,
}

impl CellType {
    /// The type of a field.
    pub(super) fn of(field: &ArrowSchema) -> Self {
        // SAFETY: a schema that was not released has a format.
        let format = unsafe { field.format.as_ref().map(|format| CStr::from_ptr(format)) };
        let format = format.map(CStr::to_string_lossy).unwrap_or_default();
        let cells = Self::of_format(&format);
        // SAFETY: as above; null for a field that is not encoded so.
        match unsafe { field.dictionary.as_ref() } {
            Some(dictionary) => Self::Dictionary(Box::new((cells, Self::of(dictionary)))),
            None => cells,
        }
    }

    fn of_format(format: &str) -> Self {
        match format {
            "z" | "u" => Self::Short(format == "u"),
            "Z" | "U" => Self::Long(format == "U"),
            "vz" | "vu" => Self::View(format == "vu"),
            "c" | "C" => Self::Number(1, format == "c"),
            "s" | "S" => Self::Number(2, format == "s"),
            "i" | "I" => Self::Number(4, format == "i"),
            "l" | "L" => Self::Number(8, format == "l"),
            _ => {
                let fixed = format.strip_prefix("w:").and_then(|len| len.parse().ok()).map(Self::Fixed);
                fixed.or_else(|| time_of(format)).unwrap_or_else(|| Self::Other(format.to_owned()))
            }
        }
    }

    /// How many buffers an array of it has, at least.
    fn buffers(&self) -> i64 {
        match self {
            Self::Short(_) | Self::Long(_) | Self::View(_) => 3,
            Self::Fixed(_) | Self::Number(..) | Self::Time(_) | Self::Dictionary(_) => 2,
            Self::Other(_) => 0,
        }
    }

    /// What cells of it are, as errors show it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Short(is_text) | Self::Long(is_text) | Self::View(is_text) => {
                if *is_text { "text" } else { "bytes" }.to_owned()
            }
            Self::Fixed(_) => "bytes".to_owned(),
            Self::Number(..) => "numbers".to_owned(),
            Self::Time(_) => "times".to_owned(),
            Self::Dictionary(both) => both.1.shown(),
            Self::Other(format) => match named(format) {
                Some((name, remedy)) => format!("{name}, which packs do not have ({remedy})"),
                None => format!("of a type that packs do not have (Arrow's format {format:?})"),
            },
        }
    }

    /// Whether cells of it can be read here.
    pub(crate) fn is_known(&self) -> bool {
        match self {
            Self::Dictionary(both) => matches!(both.0, Self::Number(..)) && both.1.is_known(),
            other => !matches!(other, Self::Other(_)),
        }
    }

    /// Whether they are bytes or text.
    pub(crate) fn is_bytes(&self) -> bool {
        match self {
            Self::Dictionary(both) => self.is_known() && both.1.is_bytes(),
            other => matches!(other, Self::Short(_) | Self::Long(_) | Self::View(_) | Self::Fixed(_)),
        }
    }

    /// Whether they are numbers.
    pub(crate) fn is_number(&self) -> bool {
        match self {
            Self::Dictionary(both) => self.is_known() && both.1.is_number(),
            other => matches!(other, Self::Number(..)),
        }
    }
}

/// What people call a type that packs do not have, by its format, and what to do.
fn named(format: &str) -> Option<(&'static str, &'static str)> {
    let text_or_bytes = "make it text or bytes";
    Some(match format {
        "n" => ("only null", "leave the column out"),
        "b" => ("booleans", "make it a whole number, as astype(\"int64\") does"),
        "e" | "f" | "g" => (
            "floating point numbers",
            "make it a whole number or text; pandas makes floats of whole numbers where one is missing: \
             astype(\"Int64\") before that",
        ),
        "tdD" | "tdm" => ("dates", "make it a timestamp"),
        "+s" => ("structs", "make it a column for each field"),
        decimal if decimal.starts_with("d:") => ("decimals", text_or_bytes),
        time if time.starts_with("tt") => ("times of a day", "make it a whole number"),
        duration if duration.starts_with("tD") => ("durations", "make it a whole number"),
        list if list.starts_with("+l") || list.starts_with("+L") || list.starts_with("+w:") => {
            ("lists", text_or_bytes)
        }
        map if map.starts_with("+m") => ("maps", text_or_bytes),
        _ => return None,
    })
}

/// The type of times with this format: `ts`, a unit, a colon and a time zone, which is not needed.
fn time_of(format: &str) -> Option<CellType> {
    let (unit, _) = format.strip_prefix("ts")?.split_once(':')?;
    let ns = match unit {
        "s" => 1_000_000_000,
        "m" => 1_000_000,
        "u" => 1000,
        "n" => 1,
        _ => return None,
    };
    Some(CellType::Time(ns))
}

impl<'a> Cells<'a> {
    /// The cells of an array, of which `rows` have to be there.
    ///
    /// # Errors
    /// What is wrong with the array.
    pub(super) fn new(cells: &'a CellType, array: &'a ArrowArray, rows: i64) -> Result<Self, String> {
        if array.length < rows || array.offset < 0 {
            return Err(format!("a column of {} rows where {rows} are wanted", array.length));
        }
        if array.n_buffers < cells.buffers() || (array.n_buffers > 0 && array.buffers.is_null()) {
            return Err(format!("a column with {} buffers", array.n_buffers));
        }
        let mut dictionary = None;
        if let CellType::Dictionary(both) = cells {
            // SAFETY: the array was not released; null where there is none.
            let values = unsafe { array.dictionary.as_ref() }.ok_or("a dictionary that is not there")?;
            dictionary = Some(Box::new(Self::new(&both.1, values, values.length)?));
        }
        Ok(Self { cells, array, dictionary })
    }

    /// A cell; `None` where it is null.
    ///
    /// # Errors
    /// What is wrong with the array.
    pub(super) fn get(&self, row: usize) -> Result<Option<CellValue<'a>>, String> {
        let at = row + self.array.offset as usize;
        if !self.is_valid(at)? {
            return Ok(None);
        }
        let bytes = |range: Range<usize>| self.buffer(2)?.bytes(range);
        Ok(Some(match self.cells {
            CellType::Short(is_text) => {
                let offsets = self.buffer(1)?;
                let ends = (i64::from(offsets.number::<i32>(at)?), i64::from(offsets.number::<i32>(at + 1)?));
                text_or_bytes(*is_text, bytes(range_of(ends)?)?)?
            }
            CellType::Long(is_text) => {
                let offsets = self.buffer(1)?;
                let ends = (offsets.number::<i64>(at)?, offsets.number::<i64>(at + 1)?);
                text_or_bytes(*is_text, bytes(range_of(ends)?)?)?
            }
            CellType::View(is_text) => text_or_bytes(*is_text, self.view(at)?)?,
            CellType::Fixed(len) => CellValue::Bytes(self.buffer(1)?.bytes(at * len..(at + 1) * len)?),
            CellType::Number(len, is_signed) => {
                CellValue::Number(self.buffer(1)?.integer(at, *len, *is_signed)?)
            }
            CellType::Time(unit) => {
                CellValue::Time(self.buffer(1)?.integer(at, 8, true)? * i128::from(*unit))
            }
            CellType::Dictionary(both) => return self.of_dictionary(at, &both.0),
            CellType::Other(format) => return Err(format!("a column of the type {format}")),
        }))
    }

    fn of_dictionary(&self, at: usize, index: &CellType) -> Result<Option<CellValue<'a>>, String> {
        let CellType::Number(len, is_signed) = index else {
            return Err("a dictionary without numbers".into());
        };
        let index = self.buffer(1)?.integer(at, *len, *is_signed)?;
        let values = self.dictionary.as_ref().ok_or("a dictionary that is not there")?;
        match usize::try_from(index).ok().filter(|index| (*index as i64) < values.array.length) {
            Some(index) => values.get(index),
            None => Err(format!("the index {index} into a dictionary of {}", values.array.length)),
        }
    }

    fn is_valid(&self, at: usize) -> Result<bool, String> {
        is_valid(self.array, self.buffer(0)?, at)
    }

    /// The bytes of a view: up to 12 lie in it, others in one of the buffers after the second. The
    /// last buffer has the lengths of those.
    fn view(&self, at: usize) -> Result<&'a [u8], String> {
        let views = self.buffer(1)?;
        let view = views.bytes(at * VIEW_BYTES..(at + 1) * VIEW_BYTES)?;
        let part = |start: usize| {
            let bytes = view.get(start..start + 4).and_then(|part| part.try_into().ok()).unwrap_or_default();
            i32::from_le_bytes(bytes)
        };
        let len = usize::try_from(part(0)).map_err(|_| "a view of less than nothing".to_owned())?;
        if let Some(bytes) = view.get(4..4 + len) {
            return Ok(bytes);
        }
        let (buffer, start) = (i64::from(part(8)), i64::from(part(12)));
        let count = self.array.n_buffers - 3;
        if buffer < 0 || buffer >= count || start < 0 {
            return Err(format!("a view into buffer {buffer} of {count}"));
        }
        let has: i64 = self.buffer(self.array.n_buffers as usize - 1)?.number(buffer as usize)?;
        let end = start + len as i64;
        if end > has {
            return Err(format!("a view up to byte {end} of a buffer of {has}"));
        }
        self.buffer(2 + buffer as usize)?.bytes(start as usize..end as usize)
    }

    fn buffer(&self, number: usize) -> Result<Pointer<'a>, String> {
        if number as i64 >= self.array.n_buffers {
            return Err(format!("a column without buffer {number}"));
        }
        // SAFETY: the array has this many buffers, and outlives what is made of it.
        let pointer = unsafe { *self.array.buffers.add(number) };
        Ok(Pointer(pointer, std::marker::PhantomData))
    }
}

/// Whether the row of a batch at this place is not null as a whole.
///
/// # Errors
/// What is wrong with the array.
pub(super) fn is_row(batch: &ArrowArray, at: usize) -> Result<bool, String> {
    if batch.n_buffers < 1 || batch.buffers.is_null() {
        return Ok(true);
    }
    // SAFETY: the array has this buffer, and outlives what is made of it.
    is_valid(batch, Pointer(unsafe { *batch.buffers }, std::marker::PhantomData), at)
}

/// Whether a cell is not null, by the first buffer of its array.
fn is_valid(array: &ArrowArray, buffer: Pointer<'_>, at: usize) -> Result<bool, String> {
    if array.null_count == 0 || buffer.0.is_null() {
        return Ok(true);
    }
    let bits = buffer.bytes(at / 8..at / 8 + 1)?;
    Ok(bits.first().is_some_and(|bits| bits >> (at % 8) & 1 == 1))
}

/// Bytes of a view.
const VIEW_BYTES: usize = 16;

fn range_of((start, end): (i64, i64)) -> Result<Range<usize>, String> {
    match (usize::try_from(start), usize::try_from(end)) {
        (Ok(start), Ok(end)) if start <= end => Ok(start..end),
        _ => Err(format!("a cell from byte {start} to {end}")),
    }
}

fn text_or_bytes(is_text: bool, bytes: &[u8]) -> Result<CellValue<'_>, String> {
    match is_text {
        true => std::str::from_utf8(bytes).map(CellValue::Text).map_err(|_| "text that is not UTF-8".into()),
        false => Ok(CellValue::Bytes(bytes)),
    }
}

/// A buffer of an array that is not released as long as this is used.
#[derive(Clone, Copy)]
struct Pointer<'a>(*const c_void, std::marker::PhantomData<&'a ArrowArray>);

impl<'a> Pointer<'a> {
    fn bytes(self, range: Range<usize>) -> Result<&'a [u8], String> {
        if range.is_empty() {
            return Ok(&[]);
        }
        if self.0.is_null() {
            return Err("a buffer that is not there".into());
        }
        // SAFETY: the producer promises that the buffer has what its offsets and lengths say, and
        // it is there as long as the array is.
        Ok(unsafe { std::slice::from_raw_parts(self.0.cast::<u8>().add(range.start), range.len()) })
    }

    fn number<N: FromLe>(self, at: usize) -> Result<N, String> {
        let len = size_of::<N>();
        Ok(N::from_le(self.bytes(at * len..(at + 1) * len)?))
    }

    fn integer(self, at: usize, len: usize, is_signed: bool) -> Result<i128, String> {
        let bytes = self.bytes(at * len..(at + 1) * len)?;
        let number = bytes.iter().rev().fold(0_i128, |number, byte| number << 8 | i128::from(*byte));
        let bits = 8 * len as u32;
        let is_negative = is_signed && number >> (bits - 1) & 1 == 1;
        Ok(if is_negative { number - (1 << bits) } else { number })
    }
}

/// Numbers in the order of bytes of the machines that this is for.
trait FromLe: Sized {
    fn from_le(bytes: &[u8]) -> Self;
}

impl FromLe for i32 {
    fn from_le(bytes: &[u8]) -> Self {
        bytes.try_into().map(Self::from_le_bytes).unwrap_or_default()
    }
}

impl FromLe for i64 {
    fn from_le(bytes: &[u8]) -> Self {
        bytes.try_into().map(Self::from_le_bytes).unwrap_or_default()
    }
}
