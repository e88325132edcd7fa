//! Memory of Python objects that sparse buffers hold without a copy.
#![expect(unsafe_code, reason = "Python's buffer protocol is a matter of pointers")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::locks::locked;

/// Objects whose memory nobody needs any more.
static DROPPED: Mutex<Vec<Py<PyAny>>> = Mutex::new(Vec::new());
static IS_ANY_DROPPED: AtomicBool = AtomicBool::new(false);

/// Keeps an object alive for its memory.
struct Owner {
    object: Option<Py<PyAny>>,
    start: *const u8,
    len: usize,
}

// SAFETY: the memory is read only, by nobody but through `as_ref`, and the object is only moved,
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
        // This may be under the lock of a sparse buffer: nothing of Python may run here, and nobody
        // may wait for the interpreter.
        locked(&DROPPED).extend(self.object.take());
        IS_ANY_DROPPED.store(true, Ordering::Release);
    }
}

/// Releases dropped objects when it is dropped: last field of classes that may hold such memory.
pub(crate) struct ReleaseOnDrop;

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        // Where the interpreter is ending, or collects garbage, they are left.
        Python::try_attach(release);
    }
}

/// The bytes of a read-only object, without a copy; `None` for what may be written to.
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
    // The view is ours alone, so that nobody releases it, and it keeps the memory.
    let object = Some(view.unbind());
    Ok(Some(Bytes::from_owner(Owner { object, start, len })))
}

/// Does work without the interpreter that may drop objects, then releases them.
pub(crate) fn detach<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let done = py.detach(work);
    release(py);
    done
}

/// Releases the objects whose memory nobody needs any more.
pub(crate) fn release(_py: Python<'_>) {
    if IS_ANY_DROPPED.load(Ordering::Acquire) && IS_ANY_DROPPED.swap(false, Ordering::AcqRel) {
        let gone = std::mem::take(&mut *locked(&DROPPED));
        drop(gone);
    }
}
