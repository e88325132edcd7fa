//! `stook.SparseBuffer`: bytes at any positions in memory.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyTuple};
use stook::sparse::{self, OnDifference, SparseError, SparseOptions};

use super::copies::{self, Out};
use super::pin::Pin;
use super::zero_copy::{self, ReleaseOnDrop};
use super::{ranges, reports};
use crate::choices::{self, chosen};
use crate::errors::OrRaise as _;
use crate::memory::{Given, bytes_of, detach_if_long, view_of};
use crate::numbers::{self, Budget, End, Length, MaxLen, Position};
use crate::reports::getters;

/// Bytes at any positions in memory, with gaps between them.
///
/// Holds what has been fetched of a file that is elsewhere: it is written as ranges come, read
/// where all is there, and asked what is still needed. Neighbours count as one range. All methods
/// may be called from any thread.
///
/// Ranges are ``(start, end)``, ``end`` not included; single ones are given as
/// ``position, length``.
///
/// Args:
///     budget_bytes: More than this is not held: each write evicts what was touched longest ago.
///         ``None`` for no limit.
///     grain: The most bytes of a segment, which is what is touched and evicted as one: 1 to
///         65,536.
///     adopt_min: What is shorter is copied by :meth:`adopt`: 4,096 or more.
///     first_touch: Where the count of touches begins.
///     exact: Touches are numbered without gaps, in one order for all threads, and every read and
///         write notes the time. Operations take longer for it.
///     wipe: Memory that bytes were copied into is overwritten before it is given back.
///
/// Raises:
///     InvalidError: For an option with a value that it cannot have.
///
/// Example:
///     >>> import stook
///     >>> buffer = stook.SparseBuffer()
///     >>> buffer.write(100, b"head")
///     4
///     >>> buffer.write(104, b"er")
///     2
///     >>> buffer.read(100, 6)
///     b'header'
///     >>> buffer.need(90, 20)
///     [(90, 100), (106, 110)]
#[pyclass(module = "stook", frozen)]
pub(crate) struct SparseBuffer {
    pub(crate) buffer: Arc<sparse::SparseBuffer>,
    // Last, because the fields before may hold memory of Python objects.
    _release: ReleaseOnDrop,
}

impl SparseBuffer {
    pub(super) fn new(buffer: Arc<sparse::SparseBuffer>) -> Self {
        Self { buffer, _release: ReleaseOnDrop }
    }
}

/// The options of a buffer or a store.
pub(super) fn options_of(
    budget_bytes: Option<Budget>,
    grain: u32,
    adopt_min: u32,
    first_touch: u64,
) -> SparseOptions {
    let budget_bytes = budget_bytes.map_or(u64::MAX, |budget| budget.0);
    SparseOptions { budget_bytes, grain, adopt_min, first_touch, ..SparseOptions::default() }
}

/// The budget of these options; `None` for no limit.
pub(super) fn budget_of(options: &SparseOptions) -> Option<u64> {
    Some(options.budget_bytes).filter(|&budget| budget != u64::MAX)
}

fn policy(name: &str) -> PyResult<OnDifference> {
    let all =
        [("error", OnDifference::Error), ("keep", OnDifference::Keep), ("replace", OnDifference::Replace)];
    chosen("on_difference", name, &all)
}

/// Deserialises without the interpreter.
pub(super) fn restore<T: Send>(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    read: impl FnOnce(&[u8]) -> Result<T, SparseError> + Send,
) -> PyResult<T> {
    let given = Given::new(data)?;
    let bytes = given.as_slice();
    py.detach(|| read(bytes)).or_raise()
}

#[pymethods]
impl SparseBuffer {
    #[new]
    #[pyo3(signature = (*, budget_bytes=None, grain=65536, adopt_min=16384, first_touch=0, exact=false, wipe=false))]
    fn py_new(
        budget_bytes: Option<Budget>,
        #[pyo3(from_py_with = numbers::grain)] grain: u32,
        #[pyo3(from_py_with = numbers::adopt_min)] adopt_min: u32,
        #[pyo3(from_py_with = numbers::first_touch)] first_touch: u64,
        #[pyo3(from_py_with = choices::exact)] exact: bool,
        #[pyo3(from_py_with = choices::wipe)] wipe: bool,
    ) -> PyResult<Self> {
        let options =
            SparseOptions { exact, wipe, ..options_of(budget_bytes, grain, adopt_min, first_touch) };
        Ok(Self::new(Arc::new(sparse::SparseBuffer::with_options(options).or_raise()?)))
    }

    /// Writes ``data`` at ``position``: all of it, or nothing.
    ///
    /// Args:
    ///     position: Where its first byte goes.
    ///     data: Any bytes-like object.
    ///     on_difference: What to do where bytes are held already. ``"error"``: the same are fine,
    ///         others raise. ``"keep"``: what is held stays. ``"replace"``: it is replaced.
    ///
    /// Returns:
    ///     How many bytes were not held before. The others were kept, or replaced where that was
    ///     asked for.
    ///
    /// Raises:
    ///     DiffersError: A byte is held already and is another; ``offset`` is the first.
    ///     InvalidError: The last byte would be past the last position, 2**64 - 2.
    #[pyo3(signature = (position, data, on_difference="error"))]
    fn write(
        &self,
        py: Python<'_>,
        position: Position,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = choices::on_difference)] on_difference: &str,
    ) -> PyResult<u64> {
        let policy = policy(on_difference)?;
        let given = Given::new(data)?;
        let bytes = given.as_slice();
        let written = detach_if_long(py, bytes.len(), || self.buffer.write(position.0, bytes, policy));
        zero_copy::release(py);
        Ok(written.or_raise()?.added)
    }

    /// Holds ``data`` at ``position`` without a copy.
    ///
    /// The object is kept until the last part of it is erased or evicted. What is shorter than
    /// ``adopt_min``, and what may be written to (a ``bytearray``), is copied instead. The memory
    /// under a read-only view of something else must not change.
    ///
    /// Args:
    ///     position: Where its first byte goes.
    ///     data: Any bytes-like object; ``bytes``, or a read-only buffer, to be adopted.
    ///     on_difference: As for :meth:`write`.
    ///
    /// Returns:
    ///     How many bytes were not held before.
    ///
    /// Raises:
    ///     DiffersError: A byte is held already and is another; ``offset`` is the first.
    ///     InvalidError: The last byte would be past the last position, 2**64 - 2.
    #[pyo3(signature = (position, data, on_difference="error"))]
    fn adopt(
        &self,
        py: Python<'_>,
        position: Position,
        data: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = choices::on_difference)] on_difference: &str,
    ) -> PyResult<u64> {
        let policy = policy(on_difference)?;
        let Some(bytes) = zero_copy::shared(data)? else {
            return self.write(py, position, data, on_difference);
        };
        Ok(zero_copy::detach(py, || self.buffer.adopt(position.0, bytes, policy)).or_raise()?.added)
    }

    /// The ``length`` bytes at ``position``.
    ///
    /// Raises:
    ///     NotHeldError: Not all of them are held; ``gap`` is the first range that is missing.
    ///     InvalidError: They would end past the last position.
    fn read<'py>(
        &self,
        py: Python<'py>,
        position: Position,
        length: Length,
    ) -> PyResult<Bound<'py, PyBytes>> {
        copies::read(py, &self.buffer, position, length)
    }

    /// Reads as many bytes at ``position`` as ``out`` has room for.
    ///
    /// Args:
    ///     position: Where the first one is.
    ///     out: A writable bytes-like object: ``bytearray``, ``memoryview``, an array.
    ///
    /// Returns:
    ///     How many that are: the length of ``out``.
    ///
    /// Raises:
    ///     NotHeldError: Not all of them are held; ``out`` is then as it was.
    fn readinto(&self, py: Python<'_>, position: Position, out: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut out = Out::new(out)?;
        let bytes = out.as_mut();
        let len = bytes.len();
        detach_if_long(py, len, || self.buffer.read(position.0, bytes)).or_raise()?;
        Ok(len)
    }

    /// The ``length`` bytes at ``position`` as a read-only ``memoryview``.
    ///
    /// What was adopted together is shown where it is, without a copy; it stays in memory as long
    /// as the view, whatever happens to the buffer. Anything else is copied once.
    ///
    /// Raises:
    ///     NotHeldError: Not all of them are held.
    fn view<'py>(
        &self,
        py: Python<'py>,
        position: Position,
        length: Length,
    ) -> PyResult<Bound<'py, PyMemoryView>> {
        let range = ranges::at(position, length)?;
        let bytes = py.detach(|| self.buffer.read_bytes(range)).or_raise()?;
        view_of(py, bytes)
    }

    /// Whether all of the ``length`` bytes at ``position`` are held.
    fn has(&self, position: Position, length: Length) -> PyResult<bool> {
        Ok(self.buffer.has(ranges::at(position, length)?))
    }

    /// The ranges that are missing of the ``length`` bytes at ``position``, ascending.
    fn gaps<'py>(&self, py: Python<'py>, position: Position, length: Length) -> PyResult<Bound<'py, PyList>> {
        ranges::list(py, &self.buffer.gaps(ranges::at(position, length)?))
    }

    /// The ranges to read elsewhere so that all of the ``length`` bytes at ``position`` are held.
    ///
    /// Args:
    ///     position: The first byte.
    ///     length: How many bytes.
    ///     min_len: The shortest read, as far as ``max_len`` and ``end`` allow.
    ///     max_gap: Bytes that are held, or not wanted, are read again to make one read of two: at
    ///         most this many.
    ///     max_len: The longest read; ``None`` for no limit.
    ///     alignment: Reads begin and end at multiples of this power of two.
    ///     end: The length of what is read, past which nothing is planned; ``None`` where it is not
    ///         known.
    ///
    /// Raises:
    ///     InvalidError: The options contradict themselves.
    #[pyo3(signature = (position, length, *, min_len=0, max_gap=0, max_len=None, alignment=1, end=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords")]
    fn need<'py>(
        &self,
        py: Python<'py>,
        position: Position,
        length: Length,
        #[pyo3(from_py_with = numbers::min_len)] min_len: u64,
        #[pyo3(from_py_with = numbers::max_gap)] max_gap: u64,
        max_len: Option<MaxLen>,
        #[pyo3(from_py_with = numbers::alignment)] alignment: u64,
        end: Option<End>,
    ) -> PyResult<Bound<'py, PyList>> {
        let options = ranges::plan(min_len, max_gap, max_len, alignment, end);
        let reads = self.buffer.need(ranges::at(position, length)?, &options).or_raise()?;
        ranges::list(py, &reads)
    }

    /// The same as :meth:`need` for many ranges, in any order: as few reads as serve all of them.
    ///
    /// Args:
    ///     ranges: An iterable of ``(start, end)``.
    ///     min_len: As for :meth:`need`, and so are the others.
    ///     max_gap: Gaps up to this many bytes are read over.
    ///     max_len: The longest read.
    ///     alignment: Reads begin and end at multiples of this power of two.
    ///     end: The length of what is read.
    ///
    /// Raises:
    ///     InvalidError: The options contradict themselves, a range ends before it begins, or more
    ///         than 4 million reads would be needed.
    #[pyo3(signature = (ranges, *, min_len=0, max_gap=0, max_len=None, alignment=1, end=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords")]
    fn need_many<'py>(
        &self,
        py: Python<'py>,
        ranges: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = numbers::min_len)] min_len: u64,
        #[pyo3(from_py_with = numbers::max_gap)] max_gap: u64,
        max_len: Option<MaxLen>,
        #[pyo3(from_py_with = numbers::alignment)] alignment: u64,
        end: Option<End>,
    ) -> PyResult<Bound<'py, PyList>> {
        let options = ranges::plan(min_len, max_gap, max_len, alignment, end);
        let wanted = ranges::of(ranges)?;
        let reads = py.detach(|| self.buffer.need_many(&wanted, &options)).or_raise()?;
        ranges::list(py, &reads)
    }

    /// What is held, as the fewest ranges, ascending.
    fn extents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        ranges::list(py, &py.detach(|| self.buffer.extents()))
    }

    /// All that is held around ``position`` without a gap; ``None`` where it is not held.
    fn extent_at<'py>(&self, py: Python<'py>, position: Position) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.buffer.extent_at(position.0).map(|extent| reports::extent(py, &extent)).transpose()
    }

    /// The ranges of :meth:`extents`, each with its latest touch: ``(start, end, last_touch)``.
    fn extents_touched<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let extents = py.detach(|| self.buffer.extents_touched());
        PyList::new(py, extents.iter().map(|one| (one.range.start(), one.range.end(), one.last_touch)))
    }

    /// The last range of :meth:`extents` that begins at ``position`` or before, whether it reaches
    /// ``position`` or not; ``None`` where there is none.
    fn extent_before<'py>(&self, py: Python<'py>, position: Position) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.buffer.extent_before(position.0).map(|extent| reports::extent(py, &extent)).transpose()
    }

    /// The first range of :meth:`extents` that ends after ``position``; ``None`` where there is
    /// none.
    fn extent_after<'py>(&self, py: Python<'py>, position: Position) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.buffer.extent_after(position.0).map(|extent| reports::extent(py, &extent)).transpose()
    }

    /// How what is held is divided, as ``(start, end, last_touch)``: what is touched and evicted as
    /// one.
    fn segments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let segments = py.detach(|| self.buffer.segments());
        PyList::new(py, segments.iter().map(|one| (one.range.start(), one.range.end(), one.last_touch)))
    }

    /// Takes away what is held of the ``length`` bytes at ``position``.
    ///
    /// Returns:
    ///     How many bytes that were.
    fn erase(&self, py: Python<'_>, position: Position, length: Length) -> PyResult<u64> {
        let range = ranges::at(position, length)?;
        Ok(zero_copy::detach(py, || self.buffer.erase(range)))
    }

    /// Takes away the whole range of :meth:`extents` that begins at ``position``.
    ///
    /// Returns:
    ///     How many bytes that were, or ``None`` where none begins there.
    fn erase_extent(&self, py: Python<'_>, position: Position) -> Option<u64> {
        zero_copy::detach(py, || self.buffer.erase_extent(position.0))
    }

    /// Takes everything away, pinned or not. Counters, options and the count of touches stay.
    ///
    /// Returns:
    ///     How many bytes that were.
    fn clear(&self, py: Python<'_>) -> u64 {
        zero_copy::detach(py, || self.buffer.clear())
    }

    /// Takes everything away, pinned or not, and begins anew: all counters are 0, and the next
    /// touch is the first again. Options, pins and ``modified_ns`` stay; in a store touches go on.
    ///
    /// Returns:
    ///     How many bytes that were.
    fn reset(&self, py: Python<'_>) -> u64 {
        zero_copy::detach(py, || self.buffer.reset())
    }

    /// Takes away whole ranges of :meth:`extents`, first the one whose latest touch is the
    /// earliest, until at most ``budget_bytes`` are held or ``keep`` of them are left. Those of
    /// which a byte is pinned stay.
    ///
    /// :meth:`evict_to` takes away parts of them, and so keeps more of what is needed.
    ///
    /// Returns:
    ///     How many ranges that were, and how many bytes.
    #[pyo3(signature = (budget_bytes, *, keep=0))]
    fn evict_extents(
        &self,
        py: Python<'_>,
        budget_bytes: Budget,
        #[pyo3(from_py_with = numbers::keep)] keep: u64,
    ) -> (u64, u64) {
        let evicted = zero_copy::detach(py, || self.buffer.evict_extents(budget_bytes.0, keep));
        (evicted.extents, evicted.bytes)
    }

    /// Takes away what was touched longest ago until at most ``budget_bytes`` are held, or only
    /// what is pinned.
    ///
    /// Whole segments go, so up to 64 KiB more than needed.
    ///
    /// Returns:
    ///     How many bytes that were.
    fn evict_to(&self, py: Python<'_>, budget_bytes: Budget) -> u64 {
        zero_copy::detach(py, || self.buffer.evict_to(budget_bytes.0))
    }

    /// Keeps the ``length`` bytes at ``position`` from being evicted, now or when they are written.
    ///
    /// Returns:
    ///     A context manager that ends it; so does ``release()``.
    fn pin(&self, position: Position, length: Length) -> PyResult<Pin> {
        Ok(Pin::new(self.buffer.clone(), ranges::at(position, length)?))
    }

    /// Makes what is held of the ``length`` bytes at ``position`` the last to be evicted.
    fn touch(&self, position: Position, length: Length) -> PyResult<()> {
        self.buffer.touch(ranges::at(position, length)?);
        Ok(())
    }

    /// What was done to it since it was made, and when last.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        reports::counters(py, &self.buffer.counters())
    }

    /// How much was moved within memory since it was made, as ``(bytes, segments)``: for tests and
    /// tuning.
    fn work(&self) -> (u64, u64) {
        let work = self.buffer.work();
        (work.bytes_moved, work.segments_moved)
    }

    /// The serialised form: bytes, options, counters and touches, with checksums; pins are left
    /// out.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let written = py.detach(|| {
            let mut out = Vec::new();
            self.buffer.to_writer(&mut out).map(|()| out)
        });
        bytes_of(py, &written.or_raise()?)
    }

    /// Reads what :meth:`to_bytes` gave. The bytes may come from anywhere: what they say is
    /// verified.
    ///
    /// Raises:
    ///     DamagedError: They were cut or changed.
    ///     UnsupportedError: They are something else, or of another version.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = restore(py, data, |bytes| sparse::SparseBuffer::from_reader(bytes))?;
        Ok(Self::new(Arc::new(buffer)))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let bytes = slf.get().to_bytes(py)?;
        Ok((slf.getattr("from_bytes")?, PyTuple::new(py, [bytes])?))
    }

    #[setter]
    fn set_modified_ns(&self, modified_ns: Option<i64>) {
        self.buffer.set_modified_ns(modified_ns);
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| Arc::ptr_eq(&self.buffer, &other.get().buffer))
    }

    fn __hash__(&self) -> usize {
        // Two objects may share one buffer of a store.
        Arc::as_ptr(&self.buffer) as usize >> 4
    }

    fn __repr__(&self) -> String {
        let (held, extents) = (self.buffer.held_bytes(), self.buffer.reader().extents().count());
        format!("<stook.SparseBuffer of {held} bytes in {extents} ranges>")
    }
}

getters! { SparseBuffer {
    /// How many bytes are held.
    held_bytes: u64 = |this| this.buffer.held_bytes();
    /// What it takes of memory, everything included.
    memory_bytes: u64 = |this| this.buffer.memory_bytes();
    /// The position after the last byte held, 0 for none.
    end: u64 = |this| this.buffer.end();
    /// The modification time of what the bytes come from, nanoseconds since 1970: whatever was set.
    /// Kept in the serialised form, to be compared later.
    modified_ns: Option<i64> = |this| this.buffer.modified_ns();
    /// More than this is not held; ``None`` for no limit.
    budget_bytes: Option<u64> = |this| budget_of(this.buffer.options());
    /// The most bytes of a segment.
    grain: u32 = |this| this.buffer.options().grain;
    /// What is shorter is copied when it is adopted.
    adopt_min: u32 = |this| this.buffer.options().adopt_min;
    /// Where the count of touches began.
    first_touch: u64 = |this| this.buffer.options().first_touch;
    /// Whether touches are numbered without gaps, and every read and write notes the time.
    exact: bool = |this| this.buffer.options().exact;
    /// Whether memory is overwritten before it is given back.
    wipe: bool = |this| this.buffer.options().wipe;
    /// A number greater than those of all touches so far; with ``exact`` that of the next.
    next_touch: u64 = |this| this.buffer.next_touch();
    /// How many ranges :meth:`extents` gives.
    extent_count: u64 = |this, py| py.detach(|| this.buffer.extent_count());
}}
