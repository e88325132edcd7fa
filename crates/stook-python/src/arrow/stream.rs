//! Streams of tables that are handed out.
//!
//! Consumers are not trusted to keep to the interface: a stream may be released early, twice, by
//! another thread, or never, and asked after that. What it reads is behind a lock.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use rustix::io::Errno;
use stook::ops::contents::OwnedTable;
use stook::pack::{self, ColumnCells, Damage, TableBatch, TableColumn};

use super::abi::{ArrowArray, ArrowArrayStream, ArrowSchema, STREAM};
use super::export::{array_of, schema_of};
use super::interpreter::attached;
use crate::errors::{OrRaise as _, Raise, chain};
use crate::locks::locked;
use crate::wait::{Passed, is_main_thread};

/// What streams of one scan met.
#[derive(Default)]
pub(crate) struct Met {
    /// Damage that was passed over.
    pub(crate) damages: Vec<Damage>,
    /// The error that ended the last one that failed.
    pub(crate) failure: Option<Failure>,
}

/// Why a stream ended.
pub(crate) enum Failure {
    Pack(pack::Error),
    /// A signal handler, or a callback of progress.
    Raised(PyErr),
}

impl Raise for Failure {
    fn raise(&self) -> PyErr {
        match self {
            Self::Pack(error) => error.raise(),
            Self::Raised(error) => error.raise(),
        }
    }
}

impl Failure {
    fn text(&self) -> String {
        match self {
            Self::Pack(error) => chain(error),
            Self::Raised(error) => attached(|py| {
                let value = error.value(py);
                match value.to_string() {
                    // That of Ctrl-C, for one.
                    text if text.is_empty() => {
                        value.get_type().name().map_or_else(|_| text, |name| name.to_string())
                    }
                    text => text,
                }
            })
            .unwrap_or_default(),
        }
    }

    fn code(&self) -> c_int {
        match self {
            Self::Pack(pack::Error::Invalid(_)) => Errno::INVAL.raw_os_error(),
            Self::Pack(_) => Errno::IO.raw_os_error(),
            Self::Raised(_) => Errno::INTR.raw_os_error(),
        }
    }
}

thread_local! {
    /// What a signal handler raised while a stream was read on this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Whether a signal handler has raised something: asked by scans between two looks at many records.
pub(crate) fn is_interrupted() -> bool {
    if !is_main_thread() {
        return false;
    }
    match attached(|py| py.check_signals()) {
        Some(Err(raised)) => {
            RAISED.replace(Some(raised));
            true
        }
        _ => false,
    }
}

/// A stream as its callbacks see it.
struct Shared {
    process: u32,
    columns: Arc<[TableColumn]>,
    reading: Mutex<Reading>,
    met: Arc<Mutex<Met>>,
    passed: Passed,
}

struct Reading {
    table: OwnedTable,
    /// Nothing comes after an error.
    ended: bool,
    last_error: Option<CString>,
}

/// Any thread may read a stream, and release it.
const _: fn() = || {
    fn is_for_any_thread<T: Send + Sync>() {}
    is_for_any_thread::<Shared>();
};

/// A capsule with a stream of batches. The first is read before this returns.
pub(crate) fn capsule_of<'py>(
    py: Python<'py>,
    mut table: OwnedTable,
    passed: Passed,
    met: Arc<Mutex<Met>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    RAISED.take();
    let columns = py.detach(|| table.columns());
    if let Some(raised) = RAISED.take() {
        return Err(raised);
    }
    let columns = columns.or_raise()?;
    let reading = Mutex::new(Reading { table, ended: false, last_error: None });
    let shared = Arc::new(Shared { process: std::process::id(), columns, reading, met, passed });
    let stream = ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release),
        private_data: Arc::into_raw(shared).cast_mut().cast::<c_void>(),
    };
    PyCapsule::new_with_value(py, stream, STREAM)
}

impl Shared {
    fn next(&self) -> Result<Option<TableBatch>, c_int> {
        if self.process != std::process::id() {
            // A thread of the parent may have held the lock: nothing is noted.
            return Err(Errno::INVAL.raw_os_error());
        }
        let mut reading = locked(&self.reading);
        if reading.ended {
            return Ok(None);
        }
        let read = self.read(&mut reading);
        let failure = match read {
            Ok(batch) => {
                reading.ended = batch.is_none();
                return Ok(batch);
            }
            Err(failure) => failure,
        };
        let code = failure.code();
        reading.ended = true;
        reading.last_error = CString::new(failure.text().replace('\0', "\\0")).ok();
        self.note(failure);
        Err(code)
    }

    fn read(&self, reading: &mut Reading) -> Result<Option<TableBatch>, Failure> {
        RAISED.take();
        let interrupted = is_interrupted();
        let batch = if interrupted { Ok(None) } else { reading.table.next() };
        if let Some(raised) = RAISED.take() {
            return Err(Failure::Raised(raised));
        }
        let batch = batch.map_err(Failure::Pack)?;
        locked(&self.met).damages = reading.table.damages().to_vec();
        let passed = batch.as_ref().map(|batch| (batch.rows as u64, value_bytes(batch)));
        let reported = match self.passed.is_reported() {
            true => attached(|_| self.passed.add_many(passed)),
            false => None,
        };
        reported.transpose().map_err(Failure::Raised)?;
        Ok(batch)
    }

    /// Notes why it ended, in place of why another did.
    fn note(&self, failure: Failure) {
        let before = locked(&self.met).failure.replace(failure);
        if let Some(Failure::Raised(error)) = before {
            attached(|_| drop(error));
        }
    }

    /// Whether it holds objects of Python.
    fn holds_objects(&self) -> bool {
        self.passed.is_reported() || matches!(locked(&self.met).failure, Some(Failure::Raised(_)))
    }

    /// The code of an error that is none of reading.
    fn note_panic(&self) -> c_int {
        let text = c"a thread of stook panicked; this is a bug in stook, please report it";
        let mut reading = locked(&self.reading);
        reading.ended = true;
        reading.last_error = Some(text.into());
        Errno::IO.raw_os_error()
    }
}

/// Bytes of the longest column: that of values, if there is one.
fn value_bytes(batch: &TableBatch) -> u64 {
    let lens = batch.columns.iter().map(|column| match &column.cells {
        ColumnCells::Long { bytes, .. } => bytes.len() as u64,
        _ => 0,
    });
    lens.max().unwrap_or(0)
}

/// The stream of ours at an address; `None` for one that was released.
///
/// # Safety
/// `stream` is null, or a stream that was made here, released or not.
unsafe fn shared_of<'a>(stream: *mut ArrowArrayStream) -> Option<&'a Shared> {
    // SAFETY: as the caller promises; `release` sets `private_data` to null.
    unsafe { stream.as_ref().and_then(|stream| stream.private_data.cast::<Shared>().as_ref()) }
}

unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: it is called with the stream that it is a part of.
    let Some(shared) = (unsafe { shared_of(stream) }) else { return Errno::INVAL.raw_os_error() };
    if out.is_null() {
        return Errno::INVAL.raw_os_error();
    }
    match catch_unwind(AssertUnwindSafe(|| schema_of(&shared.columns))) {
        Ok(schema) => {
            // SAFETY: the caller gives the memory for it. What is there is not a schema yet.
            unsafe { ptr::write(out, schema) };
            0
        }
        Err(_) => shared.note_panic(),
    }
}

unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: it is called with the stream that it is a part of.
    let Some(shared) = (unsafe { shared_of(stream) }) else { return Errno::INVAL.raw_os_error() };
    if out.is_null() {
        return Errno::INVAL.raw_os_error();
    }
    let next = || shared.next().map(|batch| batch.map_or(ArrowArray::empty(), array_of));
    match catch_unwind(AssertUnwindSafe(next)) {
        Ok(Ok(array)) => {
            // SAFETY: the caller gives the memory for it. What is there is not an array yet.
            unsafe { ptr::write(out, array) };
            0
        }
        Ok(Err(code)) => code,
        Err(_) => shared.note_panic(),
    }
}

unsafe extern "C" fn get_last_error(stream: *mut ArrowArrayStream) -> *const c_char {
    // SAFETY: it is called with the stream that it is a part of.
    let Some(shared) = (unsafe { shared_of(stream) }) else { return ptr::null() };
    if shared.process != std::process::id() {
        return c"this was begun in the process that this one was forked from; begin it again here".as_ptr();
    }
    // The text is set once and then stays as long as the stream does.
    locked(&shared.reading).last_error.as_ref().map_or(ptr::null(), |text| text.as_ptr())
}

unsafe extern "C" fn release(stream: *mut ArrowArrayStream) {
    // SAFETY: it is called with the stream that it is a part of, which nothing else uses.
    let Some(stream) = (unsafe { stream.as_mut() }) else { return };
    stream.release = None;
    let shared = std::mem::replace(&mut stream.private_data, ptr::null_mut()).cast::<Shared>();
    if !shared.is_null() {
        // SAFETY: it was made of this `Arc`, and was there until now.
        let shared = unsafe { Arc::from_raw(shared.cast_const()) };
        if shared.process != std::process::id() {
            // A thread of the parent may have held one of its locks.
            std::mem::forget(shared);
        } else if shared.holds_objects() {
            attached(|_| drop(shared));
        }
    }
}
