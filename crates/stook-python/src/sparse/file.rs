//! `stook.SparseFile`: a file or an object that is read through a cache.

use std::sync::{Arc, RwLock};

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use stook::ops::fetching::FileOptions;
use stook::source::{Source, within};
use stook::sparse::{self, SparseFileError};
use stook::stitch::VirtualFile;

use super::buffer::SparseBuffer;
use super::copies::{self, Out};
use super::options::{Place, parse, recipe};
use super::zero_copy::{self, ReleaseOnDrop};
use super::{fetch, fork, ranges, reports};
use crate::arguments::wrong_type;
use crate::choices;
use crate::errors::{OrRaise as _, closed, invalid};
use crate::locks::{read, written};
use crate::memory::{RELEASE_MIN, bytes_of};
use crate::numbers::{Length, Position, Size};
use crate::reports::{context, getters};
use crate::wait::{callback_of, interruptible, polled};

/// A file or an object somewhere else that is read through a cache, which fetches only what is
/// missing.
///
/// A read gives what is held and fetches what is missing, in few large requests, ahead of the
/// reader where its pattern allows a guess. What one thread fetches no other asks for again. All
/// bytes are of one state of the source: once it has changed, every read raises. May be used from
/// any number of threads, after a fork, and is pickled by its address and options, credentials in
/// ``settings`` included.
///
/// Ranges are ``(start, end)``, ``end`` not included. Reads past the end give fewer bytes, as those
/// of files do.
///
/// Args:
///     address: A path, or ``https://``, ``http://``, ``s3://bucket/key``, ``gs://bucket/key``,
///         ``az://container/key``.
///     cache: A directory in which what was fetched is kept for the next time, or a
///         :class:`DiskCache`.
///     memory_bytes: What is held in memory at most; ``None`` for no limit.
///     store: A :class:`SparseStore` that holds the bytes, under its budget.
///     store_name: The name of the buffer in ``store``. What it holds is given only where it is
///         proven to be of this source in this state, as in ``cache``; otherwise the name stands
///         for this file from now on, and nothing of what was there is given.
///     max_gap: Gaps between reads up to this many bytes are fetched too. 64 KiB where nothing is
///         said.
///     allowance: Bytes that may be fetched and never used; beyond that, at most as many as were
///         needed. 1 MiB.
///     max_window: The longest way ahead of one read, in bytes. 32 MiB.
///     requests: Requests under way at once, at most. 8.
///     max_request_bytes: The longest request. 8 MiB.
///     tries: How often a request is sent, at most. 6.
///     deadline: Seconds that one range may take, with all its tries. 60.
///     stall: Seconds without a byte after which a try counts as failed. 15.
///     whole_file: Whether an object whose server cannot send parts is read as a whole.
///     settings: Settings of the object store by their names in the environment (``AWS_REGION``),
///         which they override.
///     headers: Further headers of requests to ``http://`` and ``https://`` addresses.
///
/// Raises:
///     FileNotFoundError: There is no such file or object.
///     IsADirectoryError: The path is one of a directory.
///     PermissionError: The file, or the server, refuses.
///     RemoteError: The server did not give what was asked for, after all tries.
///     AddressError: The address means nothing.
///     ExistsError: ``store`` holds bytes under this name of which nothing says whose they are.
///
/// Example:
///     >>> import pathlib, stook
///     >>> _ = pathlib.Path("digits").write_bytes(b"0123456789")
///     >>> with stook.SparseFile("digits") as file:
///     ...     file.read(1, 3)
///     b'123'
#[pyclass(module = "stook", frozen)]
pub(crate) struct SparseFile {
    place: Arc<Place>,
    /// Those of a forked child.
    options: FileOptions,
    /// The arguments to pickle.
    recipe: Py<PyDict>,
    // Only locked while the interpreter is held, so that no thread holds it when the process forks.
    state: RwLock<State>,
    // Last, because the fields before may hold memory of Python objects.
    _release: ReleaseOnDrop,
}

/// `file` is `None` after closing.
struct State {
    generation: u64,
    file: Option<Arc<sparse::SparseFile>>,
}

impl Drop for State {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            // Not dropped: that may wait for a lock that is never released in this process.
            std::mem::forget(self.file.take());
        }
    }
}

/// What is held in memory of a source that was opened elsewhere, at most.
const HELD_BYTES: u64 = 64 << 20;

impl SparseFile {
    /// A file over a source; `again` is what opens it in another process.
    pub(crate) fn over(py: Python<'_>, source: Arc<dyn Source>, again: Bound<'_, PyAny>) -> PyResult<Self> {
        let recipe = PyDict::new(py);
        recipe.set_item("again", again)?;
        Self::open(py, Place::Source(source), FileOptions::holding(HELD_BYTES), recipe)
    }

    /// A file over one that is stitched together.
    pub(crate) fn over_stitched(py: Python<'_>, file: VirtualFile) -> PyResult<Self> {
        Self::open(py, Place::Stitched(file), FileOptions::holding(HELD_BYTES), PyDict::new(py))
    }

    fn open(py: Python<'_>, place: Place, options: FileOptions, recipe: Bound<'_, PyDict>) -> PyResult<Self> {
        let (place, kept) = (Arc::new(place), options.after_fork());
        let work = {
            let place = place.clone();
            move || place.file(&options)
        };
        let file = if place.is_local() { py.detach(work) } else { interruptible(py, work)? };
        let state = State { generation: fork::generation(), file: Some(Arc::new(file?)) };
        let (recipe, state) = (recipe.unbind(), RwLock::new(state));
        Ok(Self { place, options: kept, recipe, state, _release: ReleaseOnDrop })
    }

    fn file(&self) -> PyResult<Arc<sparse::SparseFile>> {
        let state = read(&self.state);
        let file = state.file.clone().ok_or_else(|| closed("sparse file"))?;
        if state.generation == fork::generation() {
            return Ok(file);
        }
        drop(state);
        match self.place.as_ref() {
            // Threads of the parent may have held locks of what it reads from.
            Place::Source(source) if source.reads_by_request() => Python::attach(|py| {
                let again = self.recipe.bind(py).as_any().get_item("again")?.call0()?;
                let new = again.cast::<Self>()?.get().file()?;
                self.replace(file, || Ok(new))
            }),
            Place::Stitched(stitched) => {
                let new = stitched.reopened().or_raise()?;
                self.replace(file, || Ok(Arc::new(self.options.file(Arc::new(new)).or_raise()?)))
            }
            _ => {
                let source = file.source().clone();
                self.replace(file, || Ok(Arc::new(self.options.file(source).or_raise()?)))
            }
        }
    }

    /// The file of a forked child: over the same source, or one that is opened anew, without
    /// anything that threads of the parent may have held locked.
    #[cold]
    fn replace(
        &self,
        old: Arc<sparse::SparseFile>,
        new: impl FnOnce() -> PyResult<Arc<sparse::SparseFile>>,
    ) -> PyResult<Arc<sparse::SparseFile>> {
        let mut state = written(&self.state);
        if state.generation != fork::generation() {
            let new = new()?;
            // Not dropped: that may wait for a lock that is never released in this process.
            std::mem::forget(state.file.replace(new));
            std::mem::forget(old);
            state.generation = fork::generation();
        } else {
            drop(old);
        }
        state.file.clone().ok_or_else(|| closed("sparse file"))
    }

    /// Runs blocking work, and calls `poll` every 20 ms meanwhile.
    fn wait<T: Send + 'static>(
        &self,
        py: Python<'_>,
        file: Arc<sparse::SparseFile>,
        poll: Option<&mut dyn FnMut() -> PyResult<()>>,
        work: impl FnOnce(&sparse::SparseFile) -> Result<T, SparseFileError> + Send + 'static,
    ) -> PyResult<T> {
        if let Place::Fetch { fetch, name, .. } = self.place.as_ref()
            && fetch::is_in(fetch)
        {
            return Err(invalid(format!(
                "the function that gives the bytes of {name} reads from the same file, and would wait for itself; \
                 it must get them elsewhere"
            )));
        }
        let done = match poll {
            Some(poll) => polled(py, poll, move || work(&file))?,
            None if self.place.is_local() => py.detach(|| work(&file)),
            None => interruptible(py, move || work(&file))?,
        };
        zero_copy::release(py);
        done.or_raise()
    }
}

#[pymethods]
impl SparseFile {
    #[new]
    #[pyo3(signature = (address, **options))]
    fn new(address: &Bound<'_, PyAny>, options: Option<Bound<'_, PyDict>>) -> PyResult<Self> {
        let py = address.py();
        let parsed = parse(options.as_ref())?;
        let recipe = recipe(&parsed, py, options)?;
        let place = Place::of(address)?;
        match &place {
            // Absolute, so that a process with another working directory finds it when unpickling.
            Place::Path(path) => recipe.set_item("address", path.as_path())?,
            _ => recipe.set_item("address", address)?,
        }
        Self::open(py, place, parsed, recipe)
    }

    /// A file whose bytes a function gives: for other libraries that can read ranges.
    ///
    /// Args:
    ///     fetch: Called as ``fetch(start, end)``, from threads of this package and several times
    ///         at once; gives ``end - start`` bytes, as any bytes-like object. What it raises is
    ///         raised by the read that needed it. It may not wait for this file itself: such a read
    ///         raises :class:`InvalidError`.
    ///     size: The length of the file, in bytes.
    ///     name: What it is: an address, a path. Messages and ``cache`` show it without user,
    ///         password and query.
    ///     identity: What distinguishes this state of the file and follows its content, such as
    ///         a strong ETag. Without it, or with a weak ETag, nothing is kept in ``cache``.
    ///     origin: What beside ``name`` decides which bytes come, such as who asks. Only a salted
    ///         hash of it is kept.
    ///     **options: As for :class:`SparseFile`.
    ///
    /// Example:
    ///     >>> import stook
    ///     >>> data = bytes(1000)
    ///     >>> file = stook.SparseFile.from_fetch(lambda start, end: data[start:end], 1000)
    ///     >>> len(file.read(990, 100))
    ///     10
    #[staticmethod]
    #[pyo3(signature = (fetch, size, *, name=None, identity=None, origin=None, **options))]
    fn from_fetch(
        fetch: Bound<'_, PyAny>,
        size: Size,
        #[pyo3(from_py_with = choices::name)] name: Option<String>,
        #[pyo3(from_py_with = choices::identity)] identity: Option<String>,
        #[pyo3(from_py_with = choices::origin)] origin: Option<String>,
        options: Option<Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let py = fetch.py();
        if !fetch.is_callable() {
            return Err(wrong_type("fetch", "a function of start and end", &fetch));
        }
        let parsed = parse(options.as_ref())?;
        let recipe = recipe(&parsed, py, options)?;
        recipe.set_item("fetch", &fetch)?;
        recipe.set_item("size", size.0)?;
        recipe.set_item("name", &name)?;
        recipe.set_item("identity", &identity)?;
        recipe.set_item("origin", &origin)?;
        let name = name.unwrap_or_else(|| "what a function gives".to_owned());
        let place = Place::Fetch { fetch: Arc::new(fetch.unbind()), name, size: size.0, identity, origin };
        Self::open(py, place, parsed, recipe)
    }

    /// The ``length`` bytes at ``position``; fewer only where the file ends.
    ///
    /// Raises:
    ///     SourceChangedError: The source is no longer what it was when it was opened.
    ///     RemoteError: The server did not give what was asked for, after all tries.
    ///     ClosedError: The file is closed.
    fn read<'py>(
        &self,
        py: Python<'py>,
        position: Position,
        length: Length,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let file = self.file()?;
        let Some(range) = within(&*file, position.0, length.0) else { return Ok(PyBytes::new(py, b"")) };
        if let Some(bytes) = copies::read_at_once(py, &file, range)? {
            return Ok(bytes);
        }
        let bytes = self.wait(py, file, None, move |file| file.read(range))?;
        bytes_of(py, &bytes)
    }

    /// Reads bytes at ``position`` into ``out``.
    ///
    /// Args:
    ///     position: Where the first one is.
    ///     out: A writable bytes-like object: ``bytearray``, ``memoryview``, an array.
    ///
    /// Returns:
    ///     How many: fewer than ``out`` has room for only where the file ends.
    fn readinto(&self, py: Python<'_>, position: Position, out: &Bound<'_, PyAny>) -> PyResult<usize> {
        let file = self.file()?;
        let mut out = Out::new(out)?;
        let to = out.as_mut();
        let Some(range) = within(&*file, position.0, to.len() as u64) else { return Ok(0) };
        let to = to.get_mut(..range.len() as usize).unwrap_or_default();
        if range.len() <= RELEASE_MIN as u64 && file.read_at_once(position.0, to).is_some() {
            return Ok(to.len());
        }
        // Read elsewhere first: after an interrupt the caller may reuse `out` at once.
        let bytes = self.wait(py, file, None, move |file| file.read(range))?;
        let to_copy = bytes.as_ref();
        py.detach(|| to.copy_from_slice(to_copy));
        Ok(to.len())
    }

    /// The bytes of many ranges, in their order, fetched together: for callers that know what they
    /// will need.
    ///
    /// Args:
    ///     ranges: An iterable of ``(start, end)``.
    ///
    /// Raises:
    ///     OutOfBoundsError: A range reaches past the end.
    fn read_many<'py>(&self, py: Python<'py>, ranges: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let (file, ranges) = (self.file()?, ranges::of(ranges)?);
        let all: Vec<Bytes> = self.wait(py, file, None, move |file| file.read_many(&ranges))?;
        let all: PyResult<Vec<_>> = all.iter().map(|bytes| bytes_of(py, bytes)).collect();
        PyList::new(py, all?)
    }

    /// Fetches what is missing of these ranges, all of it together, and nothing ahead.
    ///
    /// Args:
    ///     ranges: An iterable of ``(start, end)``.
    ///     progress: Called now and then with the bytes that came and all that were missing. What
    ///         it raises is raised, and what was begun continues. ``True`` shows a bar with tqdm.
    ///
    /// Raises:
    ///     OutOfBoundsError: A range reaches past the end.
    #[pyo3(signature = (ranges, *, progress=None))]
    fn prefetch(
        &self,
        py: Python<'_>,
        ranges: &Bound<'_, PyAny>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let callback = callback_of(progress, &["bytes", "total"])?;
        let (file, ranges) = (self.file()?, ranges::of(ranges)?);
        let Some(callback) = callback else {
            return self.wait(py, file, None, move |file| file.prefetch(&ranges));
        };
        let (watched, wanted) = (file.clone(), ranges.clone());
        let missing = || watched.missing(&wanted).or_raise();
        let (total, mut most) = (missing()?, 0);
        let mut poll = || {
            // Bytes that were evicted meanwhile count as fetched.
            most = total.saturating_sub(missing()?).max(most);
            callback.call1(py, (most, total)).map(drop)
        };
        self.wait(py, file, Some(&mut poll), move |file| file.prefetch(&ranges))?;
        callback.call1(py, (total, total)).map(drop)
    }

    /// The same as :meth:`read`, awaitable: it waits in a thread.
    fn aread<'py>(slf: &Bound<'py, Self>, position: Position, length: Length) -> PyResult<Bound<'py, PyAny>> {
        slf.get().file()?;
        slf.py().import("stook._aio")?.call_method1("read", (slf, position.0, length.0))
    }

    /// The same as :meth:`read_many`, awaitable: it waits in a thread.
    fn aread_many<'py>(slf: &Bound<'py, Self>, ranges: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().file()?;
        slf.py().import("stook._aio")?.call_method1("run", (slf.getattr("read_many")?, ranges))
    }

    /// The bytes where they are in memory, ``None`` where they must be waited for.
    fn _read_at_once<'py>(
        &self,
        py: Python<'py>,
        position: Position,
        length: Length,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let file = self.file()?;
        match within(&*file, position.0, length.0) {
            Some(range) => copies::read_at_once(py, &file, range),
            None => Ok(Some(PyBytes::new(py, b""))),
        }
    }

    /// Whether all of the ``length`` bytes at ``position`` are held in memory.
    fn has(&self, position: Position, length: Length) -> PyResult<bool> {
        Ok(self.file()?.buffer().has(ranges::at(position, length)?))
    }

    /// What was asked for and what that cost, since it was opened.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        reports::statistics(py, &self.file()?.statistics())
    }

    /// Closes it; what is held in memory is let go. May be called again.
    ///
    /// In a ``store``, what is proven to be of this state of the source (by a strong ETag, or a
    /// time that is old enough) stays there for the next file, within the budget; all else goes
    /// with the last file that is open over it.
    fn close(&self, py: Python<'_>) {
        let mut state = written(&self.state);
        let gone = State { generation: state.generation, file: state.file.take() };
        drop(state);
        zero_copy::detach(py, || drop(gone));
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, ())> {
        slf.get().file()?;
        let py = slf.py();
        let recipe = slf.get().recipe.bind(py).copy()?;
        if let Some(again) = recipe.get_item("again")? {
            return Ok((again, ()));
        }
        if matches!(slf.get().place.as_ref(), Place::Stitched(_)) {
            return Err(invalid("a stitched file is given to other processes by its layout: save it as one"));
        }
        if recipe.contains("store")? {
            return Err(invalid("a file in a store cannot be pickled; open it again in the other process"));
        }
        let made_by = match recipe.contains("fetch")? {
            true => slf.getattr("from_fetch")?,
            false => slf.get_type().into_any(),
        };
        Ok((py.import("functools")?.getattr("partial")?.call((made_by,), Some(&recipe))?, ()))
    }

    fn __repr__(&self) -> String {
        match self.file() {
            Ok(file) => {
                format!("<stook.SparseFile {} of {} bytes>", file.source().path().display(), file.len())
            }
            Err(_) => "<stook.SparseFile, closed>".to_owned(),
        }
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.recipe)?;
        match self.place.as_ref() {
            Place::Fetch { fetch, .. } => visit.call(fetch.as_ref()),
            _ => Ok(()),
        }
    }
}

context! { SparseFile, |this| this.file()?, |this, py, _| { this.close(py); Ok(()) } }

getters! { SparseFile {
    /// Whether it was closed.
    closed: bool = |this| read(&this.state).file.is_none();
    /// The length of the file, in bytes.
    size: PyResult<u64> = |this| Ok(this.file()?.len());
    /// What the source was when it was opened.
    identity: PyResult<Bound<'_, PyAny>> = |this, py| reports::identity(py, &this.file()?.identity());
    /// What it is called in messages: its path, or its address without secrets.
    name: PyResult<String> = |this| Ok(this.file()?.source().path().to_string_lossy().into_owned());
    /// What is held in memory. What is written there is taken for bytes of the file.
    buffer: PyResult<SparseBuffer> = |this| Ok(SparseBuffer::new(this.file()?.buffer().clone()));
}}
