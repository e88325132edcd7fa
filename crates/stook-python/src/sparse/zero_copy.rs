//! Memory of Python objects that sparse buffers hold without a copy.
#![expect(unsafe_code, reason = "Python's buffer protocol is a matter of pointers")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::locks::locked;

/// Objects whose memory is no longer used, to be released with the interpreter.
static DROPPED: Mutex<Vec<Py<PyAny>>> = Mutex::new(Vec::new());
static IS_ANY_DROPPED: AtomicBool = AtomicBool::new(false);

/// Keeps a Python object alive as long as its memory is used.
struct Owner {
    object: Option<Py<PyAny>>,
    start: *const u8,
    len: usize,
}

// SAFETY: the memory is read only, and only through `as_ref`, and the object is only moved,
// never used, by threads that do not have the interpreter.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the object exports this memory, read-only, as long as it lives, and it lives as
        // long as `self`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The lock of a sparse buffer may be held: no Python code may run here, nor may this wait
        // for the interpreter.
        locked(&DROPPED).extend(self.object.take());
        IS_ANY_DROPPED.store(true, Ordering::Release);
    }
}

/// Releases dropped objects when it is dropped: the last field of classes that hold such memory.
pub(crate) struct ReleaseOnDrop;

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        // Fails during garbage collection and finalization: then they are left.
        Python::try_attach(release);
    }
}

/// The bytes of a read-only object, without a copy; `None` for writable ones.
pub(crate) fn shared(object: &Bound<'_, PyAny>) -> PyResult<Option<Bytes>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        let (start, len) = (bytes.as_bytes().as_ptr(), bytes.as_bytes().len());
        let object = Some(bytes.clone().into_any().unbind());
        return Ok(Some(Bytes::from_owner(Owner { object, start, len })));
    }
    let Ok(view) = PyMemoryView::from(object) else { return Ok(None) };
    let is_fit =
        view.getattr("readonly")?.extract::<bool>()? && view.getattr("c_contiguous")?.extract::<bool>()?;
    if !is_fit || view.getattr("nbytes")?.extract::<usize>()? == 0 {
        return Ok(None);
    }
    let view = view.call_method1("cast", ("B",))?;
    let buffer = PyBuffer::<u8>::get(&view)?;
    let (start, len) = (buffer.buf_ptr().cast::<u8>().cast_const(), buffer.len_bytes());
    // A view of our own, which no other code can release. It keeps the memory alive.
    let object = Some(view.unbind());
    Ok(Some(Bytes::from_owner(Owner { object, start, len })))
}

/// Runs work without the interpreter that may drop objects, then releases them.
pub(crate) fn detach<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let done = py.detach(work);
    release(py);
    done
}

/// Releases objects whose memory is no longer used.
pub(crate) fn release(_py: Python<'_>) {
    if IS_ANY_DROPPED.load(Ordering::Acquire) && IS_ANY_DROPPED.swap(false, Ordering::AcqRel) {
        let gone = std::mem::take(&mut *locked(&DROPPED));
        drop(gone);
    }
}
