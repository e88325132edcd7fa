//! Copies between sparse buffers and memory of Python.
#![expect(unsafe_code, reason = "Python's buffer protocol is a matter of pointers")]

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyMemoryError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use stook::extent::ByteRange;
use stook::sparse::{SparseBuffer, SparseError, SparseFile};

use crate::errors::OrRaise as _;
use crate::memory::{RELEASE_MIN, contiguous, detach_if_long};
use crate::numbers::{Length, Position};

/// Reads up to this length go through the stack: copying so few bytes is faster than allocating a
/// `bytes` to fill, and CPython caches those of one byte.
const TINY: usize = 64;
/// Reads up to this length go into memory that is zeroed first.
const SMALL: u64 = 4 << 10;

/// The bytes of a range as `bytes`.
pub(crate) fn read<'py>(
    py: Python<'py>,
    buffer: &SparseBuffer,
    position: Position,
    length: Length,
) -> PyResult<Bound<'py, PyBytes>> {
    let len = length.0 as usize;
    if length.0 <= TINY as u64 {
        return tiny(py, len, |out| buffer.read(position.0, out)).or_raise();
    }
    if length.0 <= SMALL {
        return PyBytes::new_with(py, len, |out| buffer.read(position.0, out).or_raise());
    }
    let range = super::ranges::at(position, length)?;
    // Checked before anything is allocated.
    if let Some(gap) = buffer.reader().gaps(range).next() {
        return Err(SparseError::NotHeld { range, gap }).or_raise();
    }
    let size = ffi::Py_ssize_t::try_from(length.0).map_err(|_| PyMemoryError::new_err(()))?;
    // SAFETY: a new `bytes`, whose memory no other code sees before it is returned.
    let (bytes, start) = unsafe {
        let bytes = Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(std::ptr::null(), size))?;
        let start = ffi::PyBytes_AsString(bytes.as_ptr());
        (bytes.cast_into::<PyBytes>()?, Start(start.cast()))
    };
    // SAFETY: room for all bytes of the range is at `start`.
    detach_if_long(py, len, || unsafe { copy_pieces(buffer, range, start) }).or_raise()?;
    Ok(bytes)
}

/// A `bytes` of up to [`TINY`] bytes that `fill` writes.
#[inline]
fn tiny<'py, E>(
    py: Python<'py>,
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Bound<'py, PyBytes>, E> {
    let mut bytes = [0; TINY];
    let bytes = bytes.get_mut(..len).unwrap_or_default();
    fill(bytes)?;
    Ok(PyBytes::new(py, bytes))
}

/// The bytes of a range of a file, if they are in memory.
pub(crate) fn read_at_once<'py>(
    py: Python<'py>,
    file: &SparseFile,
    range: ByteRange,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let (start, len) = (range.start(), range.len() as usize);
    if len <= TINY {
        return Ok(tiny(py, len, |out| file.read_at_once(start, out).map(drop).ok_or(())).ok());
    }
    if len > RELEASE_MIN || !file.buffer().has(range) {
        return Ok(None);
    }
    let mut is_held = true;
    let bytes = PyBytes::new_with(py, len, |out| {
        is_held = file.read_at_once(start, out).is_some();
        Ok(())
    })?;
    Ok(is_held.then_some(bytes))
}

/// A pointer that one thread at a time writes through.
#[derive(Clone, Copy)]
struct Start(*mut u8);

// SAFETY: only the closure that it is passed to uses it.
unsafe impl Send for Start {}
// SAFETY: as above.
unsafe impl Sync for Start {}

/// Copies all bytes of a range.
///
/// # Safety
/// There must be room for all of them at `to`.
unsafe fn copy_pieces(buffer: &SparseBuffer, range: ByteRange, to: Start) -> Result<(), SparseError> {
    let mut at = to.0;
    buffer.with_pieces(range, |piece| {
        // SAFETY: the pieces have the length of the range together, and fresh memory overlaps none
        // of them.
        unsafe {
            std::ptr::copy_nonoverlapping(piece.as_ptr(), at, piece.len());
            at = at.add(piece.len());
        }
    })
}

/// Writable memory of a Python object.
pub(crate) struct Out(PyBuffer<u8>);

impl Out {
    /// Takes `bytearray`, writable `memoryview`s and arrays: anything contiguous.
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = contiguous(object, "a writable bytes-like object")?;
        match buffer.readonly() {
            false => Ok(Self(buffer)),
            true => Err(PyBufferError::new_err("the memory of this object may not be written to")),
        }
    }

    /// Its memory.
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        if self.0.len_bytes() == 0 {
            return &mut [];
        }
        // SAFETY: the view is contiguous and writable, of this many bytes, and is held as long as
        // `self`. The caller must not use them meanwhile, as with any writer into buffers.
        unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast::<u8>(), self.0.len_bytes()) }
    }
}
