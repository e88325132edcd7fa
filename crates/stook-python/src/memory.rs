//! Memory shared between Rust and Python, and copies without the interpreter.

#![expect(unsafe_code, reason = "Python's buffer protocol is a matter of pointers")]

use std::ffi::{c_int, c_void};

use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};

use crate::pack::record::Record;

/// Copies of more bytes than this release the interpreter, which costs as much as copying some KiB.
pub(crate) const RELEASE_MIN: usize = 8 << 10;

/// Bytes that the library holds: read-only, shown to Python through the buffer protocol.
///
/// ``memoryview(buffer)``, ``bytes(buffer)`` and ``numpy.frombuffer(buffer, ...)`` work; none but
/// ``bytes`` copies.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Buffer {
    pub(crate) bytes: Bytes,
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.bytes.len()
    }

    fn __repr__(&self) -> String {
        format!("<stook.Buffer of {} bytes>", self.bytes.len())
    }
}

#[pymethods]
impl Buffer {
    // SAFETY: Python calls this with a view to fill; it holds a reference to this object as long as
    // the view is used, and the bytes neither move nor change while the object lives.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: as above.
        unsafe { fill(slf.as_any(), &slf.get().bytes, view, flags) }
    }

    #[expect(clippy::unused_self, reason = "the buffer protocol asks for it; there is nothing to free")]
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {}
}

#[pymethods]
impl Record {
    // SAFETY: Python calls this with a view to fill; it holds a reference to this object as long as
    // the view is used, and the bytes neither move nor change while the object lives.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: as above.
        unsafe { fill(slf.as_any(), &slf.get().body, view, flags) }
    }

    #[expect(clippy::unused_self, reason = "the buffer protocol asks for it; there is nothing to free")]
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {}
}

/// Fills a view of bytes that an object holds.
///
/// # Safety
/// The view is one that Python gave to be filled, and the bytes neither move nor change while the
/// object lives.
unsafe fn fill(
    owner: &Bound<'_, PyAny>,
    bytes: &[u8],
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("there is no view to fill"));
    }
    let (pointer, len) = (bytes.as_ptr().cast_mut().cast::<c_void>(), bytes.len() as ffi::Py_ssize_t);
    // SAFETY: as promised; the view is marked read-only.
    match unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), pointer, len, 1, flags) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(owner.py())),
    }
}

/// The bytes of an object with a buffer, to be held: those of `bytes` as they are, others copied.
pub(crate) fn held(object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    Ok(match Given::new(object)?.settled(object.py()) {
        Settled::Bytes(bytes) => Bytes::from_owner(bytes),
        Settled::Copied(bytes) => bytes.into(),
    })
}

/// Whether an object has a buffer with these bytes.
pub(crate) fn is_bytes(object: &Bound<'_, PyAny>, bytes: &[u8]) -> bool {
    Given::new(object).is_ok_and(|given| given.as_slice() == bytes)
}

/// A memoryview of bytes that the library holds.
pub(crate) fn view_of(py: Python<'_>, bytes: Bytes) -> PyResult<Bound<'_, PyMemoryView>> {
    let buffer = Bound::new(py, Buffer { bytes })?;
    PyMemoryView::from(buffer.as_any())
}

/// Runs work on `len` bytes, without the interpreter where they are many.
#[inline]
pub(crate) fn detach_if_long<T: Send>(py: Python<'_>, len: usize, work: impl FnOnce() -> T + Send) -> T {
    if len > RELEASE_MIN { py.detach(work) } else { work() }
}

/// The contiguous buffer of an object, as bytes whatever its item type is. `wanted` is what the
/// error asks for.
pub(crate) fn contiguous(object: &Bound<'_, PyAny>, wanted: &str) -> PyResult<PyBuffer<u8>> {
    let uncast = match PyBuffer::get(object) {
        Ok(buffer) if buffer.is_c_contiguous() => return Ok(buffer),
        Ok(_) => return Err(in_pieces()),
        Err(error) => error,
    };
    let Ok(view) = PyMemoryView::from(object) else {
        return Err(PyTypeError::new_err(format!("{wanted} is wanted, not {}", object.get_type().name()?)));
    };
    if !view.getattr("c_contiguous")?.extract::<bool>()? {
        return Err(in_pieces());
    }
    match view.getattr("nbytes")?.extract::<usize>()? {
        // A view with a dimension of 0 cannot be cast.
        0 => PyBuffer::get(&PyByteArray::new(object.py(), b"")),
        _ => PyBuffer::get(&view.call_method1("cast", ("B",)).map_err(|_| uncast)?),
    }
}

fn in_pieces() -> PyErr {
    PyBufferError::new_err("the memory of this object does not lie in one piece")
}

/// Borrowed bytes of an object with a buffer. Those of `bytes` are taken directly, which is faster.
pub(crate) enum Given<'py> {
    Bytes(Bound<'py, PyBytes>),
    Buffer(PyBuffer<u8>),
}

impl<'py> Given<'py> {
    /// Takes `bytes`, `bytearray`, `memoryview`, arrays: anything contiguous.
    pub(crate) fn new(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Bytes(bytes.clone()));
        }
        let buffer = contiguous(object, "a bytes-like object");
        Ok(Self::Buffer(buffer.map_err(|error| match object.is_instance_of::<PyString>() {
            true => PyTypeError::new_err(format!("{}: text.encode() gives one", error.value(object.py()))),
            false => error,
        })?))
    }

    /// The same bytes, immutable: `bytes` as they are, anything else copied.
    pub(crate) fn settled(self, py: Python<'_>) -> Settled {
        match self {
            Self::Bytes(bytes) => Settled::Bytes(bytes.into()),
            Self::Buffer(_) => {
                let bytes = self.as_slice();
                Settled::Copied(detach_if_long(py, bytes.len(), || bytes.to_vec()))
            }
        }
    }

    /// The bytes. The caller must not write into a mutable buffer meanwhile, as with any reader of
    /// buffers.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes.as_bytes(),
            Self::Buffer(buffer) if buffer.len_bytes() == 0 => &[],
            // SAFETY: the view is contiguous, of `len_bytes` bytes, and is held as long as `self`.
            Self::Buffer(buffer) => unsafe {
                std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes())
            },
        }
    }
}

/// Immutable bytes: a checksum and the write that follows must see the same. Readable from any
/// thread, with or without the interpreter.
pub(crate) enum Settled {
    Bytes(PyBackedBytes),
    Copied(Vec<u8>),
}

impl AsRef<[u8]> for Settled {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}

/// A new `bytes`, copied without the interpreter if it is long.
pub(crate) fn bytes_of<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    if bytes.len() <= RELEASE_MIN {
        return Ok(PyBytes::new(py, bytes));
    }
    PyBytes::new_with(py, bytes.len(), |out| {
        py.detach(|| out.copy_from_slice(bytes));
        Ok(())
    })
}
