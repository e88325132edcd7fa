//! `stook.RecordFile`: a record of a pack that is read by range.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use stook::extent::ByteRange;
use stook::ops::session::Settings;
use stook::pack::{FileKind, RecordSource};
use stook::source::{Source as _, check_bounds, within};

use super::check::with_bytes;
use super::open::recipe;
use super::pack::Pack;
use crate::errors::{OrRaise as _, closed, is_directory};
use crate::key;
use crate::locks::{read, written};
use crate::memory::bytes_of;
use crate::numbers::{Length, Position};
use crate::reports::{context, getters, make};
use crate::sparse::copies::Out;
use crate::sparse::{ranges, reports};

/// A record of a pack, read by range: of a record of any length only the chunks are read that a
/// range touches, and what is given was verified.
///
/// What `Pack.open` reads from. It shows the state that it was opened in, also once the pack is
/// closed; it may be used by any number of threads.
///
/// Args:
///     pack: The pack.
///     key: The key of the record.
///
/// Raises:
///     KeyError: There is no such record.
///     IsADirectoryError: It is a directory.
///     stook.DamagedError: Its head is not what was written.
#[pyclass(module = "stook", frozen, weakref)]
pub(crate) struct RecordFile {
    record: RwLock<Option<Arc<RecordSource>>>,
    /// How its pack was opened, for other processes.
    settings: Settings,
    reads: AtomicU64,
    asked_bytes: AtomicU64,
}

/// A `File` over what is read by range.
pub(super) fn file_over<T>(base: Bound<'_, T>) -> PyResult<Bound<'_, PyAny>> {
    base.py().import("stook._file")?.getattr("File")?.call1((base.into_any(),))
}

impl RecordFile {
    fn record(&self) -> PyResult<Arc<RecordSource>> {
        read(&self.record).clone().ok_or_else(|| closed("file"))
    }

    /// The bytes of a part of it, as far as it goes.
    fn bytes(&self, py: Python<'_>, position: u64, length: u64) -> PyResult<Bytes> {
        let record = self.record()?;
        let range = within(&*record, position, length);
        let read = || range.map_or_else(|| Ok(Bytes::new()), |range| record.read(range));
        let bytes = py.detach(read).or_raise()?;
        self.count(bytes.len() as u64);
        Ok(bytes)
    }

    fn count(&self, bytes: u64) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.asked_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The ranges that an iterable gives, all of them within the record.
    fn ranges_of(record: &RecordSource, ranges: &Bound<'_, PyAny>) -> PyResult<Vec<ByteRange>> {
        let ranges = ranges::of(ranges)?;
        ranges.iter().try_for_each(|&range| check_bounds(record, range)).or_raise()?;
        Ok(ranges)
    }
}

getters! { RecordFile {
    /// The key of the record; of a hard link that of its file.
    key: PyResult<Bound<'_, PyAny>> = |this, py| key::to_python(py, &this.record()?.head().key);
    /// The length of the record, in bytes.
    size: PyResult<u64> = |this| Ok(this.record()?.len());
    /// What distinguishes this record from what may have its key later.
    identity: PyResult<Bound<'_, PyAny>> = |this, py| reports::identity(py, &this.record()?.identity());
    /// The path of the pack, and after two slashes the key.
    name: PyResult<String> = |this| Ok(this.record()?.path().to_string_lossy().into_owned());
    /// Whether it was closed.
    closed: bool = |this| read(&this.record).is_none();
}}

#[pymethods]
impl RecordFile {
    #[new]
    fn new(pack: &Bound<'_, Pack>, key: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (py, pack, wanted) = (pack.py(), pack.get(), key::from_python(key)?);
        let reader = pack.reader(py)?;
        let record = py.detach(|| reader.open_source(&wanted)).or_raise()?;
        let record = record.ok_or_else(|| key::missing(key))?;
        if record.head().attributes.file_kind() == Some(FileKind::Directory) {
            return Err(is_directory(record.path()));
        }
        Ok(Self {
            record: RwLock::new(Some(record)),
            settings: pack.session.settings().clone(),
            reads: AtomicU64::new(0),
            asked_bytes: AtomicU64::new(0),
        })
    }

    /// The ``length`` bytes at ``position``; fewer only where the record ends.
    ///
    /// Raises:
    ///     stook.DamagedError: A chunk in which some of them are is not what was written.
    ///     stook.ClosedError: The file is closed.
    fn read<'py>(
        &self,
        py: Python<'py>,
        position: Position,
        length: Length,
    ) -> PyResult<Bound<'py, PyBytes>> {
        bytes_of(py, &self.bytes(py, position.0, length.0)?)
    }

    /// Reads bytes at ``position`` into ``out``.
    ///
    /// Args:
    ///     position: Where the first one is.
    ///     out: A writable bytes-like object: ``bytearray``, ``memoryview``, an array.
    ///
    /// Returns:
    ///     How many: fewer than ``out`` has room for only where the record ends.
    fn readinto(&self, py: Python<'_>, position: Position, out: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.record()?;
        let mut out = Out::new(out)?;
        let to = out.as_mut();
        let bytes = self.bytes(py, position.0, to.len() as u64)?;
        let to = to.get_mut(..bytes.len()).unwrap_or_default();
        py.detach(|| to.copy_from_slice(&bytes));
        Ok(bytes.len())
    }

    /// The bytes of many ranges, in their order, read together.
    ///
    /// Args:
    ///     ranges: An iterable of ``(start, end)``.
    ///
    /// Raises:
    ///     stook.OutOfBoundsError: A range reaches past the end.
    fn read_many<'py>(&self, py: Python<'py>, ranges: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let record = self.record()?;
        let ranges = Self::ranges_of(&record, ranges)?;
        let values = PyList::empty(py);
        for bytes in py.detach(|| record.read_many(&ranges)).or_raise()? {
            let bytes = bytes.or_raise()?;
            self.count(bytes.len() as u64);
            values.append(bytes_of(py, &bytes)?)?;
        }
        Ok(values)
    }

    /// Reads these ranges and verifies them, so that they are in the page cache where half of the
    /// free memory holds the pack.
    ///
    /// Args:
    ///     ranges: An iterable of ``(start, end)``.
    ///     progress: Called now and then with the bytes that were read and all that are wanted.
    ///         ``True`` shows a bar with tqdm.
    ///
    /// Raises:
    ///     stook.OutOfBoundsError: A range reaches past the end.
    #[pyo3(signature = (ranges, *, progress=None))]
    fn prefetch(
        &self,
        py: Python<'_>,
        ranges: &Bound<'_, PyAny>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let record = self.record()?;
        let ranges = Self::ranges_of(&record, ranges)?;
        with_bytes(py, progress, move |go_on| record.prefetch(&ranges, go_on))
    }

    /// What was asked for. There are no requests, and nothing is ever missed.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.record()?;
        let fields = PyDict::new(py);
        let reads = self.reads.load(Ordering::Relaxed);
        fields.set_item("reads", reads)?;
        fields.set_item("hits", reads)?;
        fields.set_item("asked_bytes", self.asked_bytes.load(Ordering::Relaxed))?;
        make(&fields, "stook._sparse", "SparseStatistics")
    }

    /// Closes it. May be called again.
    fn close(&self) {
        let gone = written(&self.record).take();
        drop(gone);
    }

    /// It can be given to other processes; the pack is opened anew there, and shows the newest
    /// state unless it was opened with ``at`` or ``generation``.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, file) = (slf.py(), slf.get());
        let key = key::to_python(py, &file.record()?.head().key)?;
        let arguments = PyTuple::new(py, [recipe(py, &file.settings)?, key])?;
        Ok((py.import("stook._file")?.getattr("_open_again")?, arguments))
    }

    fn __repr__(&self) -> String {
        match self.record() {
            Ok(record) => {
                format!("<stook.RecordFile {} of {} bytes>", record.path().display(), record.len())
            }
            Err(_) => "<stook.RecordFile, closed>".to_owned(),
        }
    }
}

context! { RecordFile, |this| this.record()?, |this, _, _| { this.close(); Ok(()) } }

#[pymethods]
impl Pack {
    /// Opens a record as a file, seekable and read-only, for records of any length: what is read of
    /// it is verified, and no more is read than the chunks that it is in. It shows the record as it
    /// is now, also once the pack is closed.
    ///
    /// Args:
    ///     key: The key.
    ///
    /// Returns:
    ///     A `File`.
    ///
    /// Raises:
    ///     KeyError: There is no such record.
    ///     IsADirectoryError: It is a directory.
    ///     stook.DamagedError: Its head is not what was written; from reads, what they touch.
    ///
    /// Examples:
    ///     >>> import stook
    ///     >>> with stook.Pack("data.stook", "a") as pack:
    ///     ...     pack["digits"] = b"0123456789"
    ///     ...     with pack.open("digits") as file:
    ///     ...         file.seek(-3, 2)
    ///     ...         file.read()
    ///     7
    ///     b'789'
    #[pyo3(name = "open", signature = (key))]
    fn open_file<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        file_over(Bound::new(slf.py(), RecordFile::new(slf, key)?)?)
    }
}
