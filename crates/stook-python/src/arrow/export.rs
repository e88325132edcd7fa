//! Batches and columns as structures of Arrow. The memory of the cells is handed over as it is.

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use stook::pack::{ColumnCells, ColumnData, ColumnType, TableBatch, TableColumn};

use super::abi::{ArrowArray, ArrowSchema, NULLABLE};

/// What a buffer without a byte points to: consumers may refuse null.
static NOTHING: [u64; 1] = [0];

/// The format of a type. Bytes and text have offsets of 64 bits: a batch may be long.
fn format_of(cells: ColumnType) -> &'static CStr {
    match cells {
        ColumnType::Binary => c"Z",
        ColumnType::Text => c"U",
        ColumnType::U64 => c"L",
        ColumnType::I64 => c"l",
        ColumnType::U32 => c"I",
        ColumnType::Time => c"tsn:UTC",
    }
}

/// What a schema points to.
struct SchemaMemory {
    name: CString,
    children: Vec<*mut ArrowSchema>,
}

/// What an array points to.
struct ArrayMemory {
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    /// Holds the memory of the buffers.
    _held: Option<ColumnData>,
}

/// The type of a table with these columns.
pub(super) fn schema_of(columns: &[TableColumn]) -> ArrowSchema {
    let children = columns.iter().map(|column| {
        // No name has a zero byte that is not escaped.
        let name = CString::new(column.name.replace('\0', "\\0")).unwrap_or_default();
        new_schema(format_of(column.cells), name, NULLABLE, Vec::new())
    });
    let children = children.map(|child| Box::into_raw(Box::new(child))).collect();
    new_schema(c"+s", CString::default(), 0, children)
}

fn new_schema(
    format: &'static CStr,
    name: CString,
    flags: i64,
    children: Vec<*mut ArrowSchema>,
) -> ArrowSchema {
    let mut memory = Box::new(SchemaMemory { name, children });
    ArrowSchema {
        format: format.as_ptr(),
        name: memory.name.as_ptr(),
        flags,
        n_children: memory.children.len() as i64,
        children: memory.children.as_mut_ptr(),
        release: Some(release_schema),
        private_data: Box::into_raw(memory).cast::<c_void>(),
        ..ArrowSchema::empty()
    }
}

/// A batch as a struct array.
pub(super) fn array_of(batch: TableBatch) -> ArrowArray {
    let rows = batch.rows;
    let children = batch.columns.into_iter().map(|column| column_array(rows, column));
    let children = children.map(|child| Box::into_raw(Box::new(child))).collect();
    new_array(rows, 0, ArrayMemory { buffers: vec![ptr::null()], children, _held: None })
}

fn column_array(rows: usize, column: ColumnData) -> ArrowArray {
    let valid = if column.nulls == 0 { ptr::null() } else { column.valid.as_ptr().cast() };
    let mut buffers: Vec<*const c_void> = vec![valid];
    match &column.cells {
        ColumnCells::Long { offsets, bytes } => buffers.extend([pointer(offsets), pointer(bytes)]),
        ColumnCells::U64(cells) => buffers.push(pointer(cells)),
        ColumnCells::I64(cells) => buffers.push(pointer(cells)),
        ColumnCells::U32(cells) => buffers.push(pointer(cells)),
    }
    let nulls = column.nulls;
    // The vectors are moved, their memory is not.
    new_array(rows, nulls, ArrayMemory { buffers, children: Vec::new(), _held: Some(column) })
}

fn pointer<T>(cells: &[T]) -> *const c_void {
    if cells.is_empty() { NOTHING.as_ptr().cast() } else { cells.as_ptr().cast() }
}

fn new_array(rows: usize, nulls: usize, memory: ArrayMemory) -> ArrowArray {
    let mut memory = Box::new(memory);
    ArrowArray {
        length: rows as i64,
        null_count: nulls as i64,
        n_buffers: memory.buffers.len() as i64,
        n_children: memory.children.len() as i64,
        buffers: memory.buffers.as_mut_ptr(),
        children: memory.children.as_mut_ptr(),
        release: Some(release_array),
        private_data: Box::into_raw(memory).cast::<c_void>(),
        ..ArrowArray::empty()
    }
}

/// Frees a schema and those of its children that were not moved. A second call does nothing.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the caller has a schema of ours, or a released one, that nothing else uses.
    let Some(schema) = (unsafe { schema.as_mut() }) else { return };
    schema.release = None;
    let memory = std::mem::replace(&mut schema.private_data, ptr::null_mut()).cast::<SchemaMemory>();
    if memory.is_null() {
        return;
    }
    // SAFETY: it was made of a box by `new_schema`, and was there until now.
    let memory = unsafe { Box::from_raw(memory) };
    for child in memory.children {
        // SAFETY: as above; one that was moved is marked as released.
        drop(unsafe { Box::from_raw(child) });
    }
}

/// Frees an array and those of its children that were not moved. A second call does nothing.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the caller has an array of ours, or a released one, that nothing else uses.
    let Some(array) = (unsafe { array.as_mut() }) else { return };
    array.release = None;
    let memory = std::mem::replace(&mut array.private_data, ptr::null_mut()).cast::<ArrayMemory>();
    if memory.is_null() {
        return;
    }
    // SAFETY: it was made of a box by `new_array`, and was there until now.
    let memory = unsafe { Box::from_raw(memory) };
    for child in memory.children {
        // SAFETY: as above; one that was moved is marked as released.
        drop(unsafe { Box::from_raw(child) });
    }
}
