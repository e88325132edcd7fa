//! `stook.Archive`: a tar or zip archive, read as a pack is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use bytes::Bytes;
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::PyList;
use stook::archive::{self, Member, MemberKind};
use stook::ops::contents::{self, Body, BodyError, Contents as _, LoadOptions, LoadWatch, Opened, is_object};
use stook::ops::fetching::Fetching;
use stook::ops::import::head;
use stook::pack::{Key, KeyRange, Stop};
use stook::source::shown;
use stook::tree;

use super::file::file_over;
use super::info;
use super::keys::{Items, Keys};
use super::reading::keys_of;
use super::stat::Stat;
use crate::choices;
use crate::errors::{ArchiveNotes, OrRaise as _, Raise as _, closed, invalid, is_directory, of_archive};
use crate::key;
use crate::locks::{locked, read, written};
use crate::memory::bytes_of;
use crate::paths;
use crate::reports::{context, getters};
use crate::sparse::file::SparseFile;
use crate::sparse::{arguments, fetching, fork, ranges};
use crate::wait::{GoOn, is_stopped, on_this_thread, with_progress};

/// A tar (plain, gzip, zstd, xz) or zip archive, read where it lies.
///
/// Its keys are the paths of its members, without ``./`` before them and ``/`` after them; of
/// members with one key the last counts. The first opening of a tar makes an index beside it
/// (``x.tar.stook-index``), and so reads all of a compressed one. Each read of a compressed tar
/// (`get`, `get_many`, ``archive[key]``) decompresses all of it: `get_many` takes any number of
/// keys, and `pack_tree` makes a pack of it. Any number of threads may use it.
///
/// Args:
///     path: The archive, which may be at an address: ``https://…/x.zip``, ``s3://bucket/x.tar``.
///         Its type is detected from its content, not its name.
///     cache: Of an archive that is an object: a directory in which what was fetched is kept for
///         the next time, or a :class:`DiskCache`.
///     whole_file: Whether an object whose server cannot send parts is read as a whole.
///     settings: Settings of the object store by their names in the environment
///         (``AWS_REGION``), which they override.
///     headers: Further headers of requests to ``http://`` and ``https://`` addresses.
///     progress: Called now and then with the bytes gone through while an index is made, on another
///         thread. ``True`` shows a bar with tqdm.
///
/// Raises:
///     FileNotFoundError: There is nothing at ``path``.
///     stook.NotAPackError: What is at ``path`` is no archive.
///     stook.RemoteError: An archive that is an object cannot be fetched.
///     stook.InvalidError: It is a pack.
///     stook.DamagedError: It is damaged, or was cut off, before its first member; or where the
///         members of a zip are listed; or anywhere, if it is compressed as a whole.
///
/// Warns:
///     stook.RecoveryWarning: The index beside it was of no use, or cannot be kept.
///     stook.DamageWarning: It is damaged after its first members, and only these are read; or it
///         does not end as its format wants it, and something may have been cut off.
///
/// Examples:
///     >>> import pathlib, stook, zipfile
///     >>> with zipfile.ZipFile("photos.zip", "w") as file:
///     ...     file.writestr("2024/cat.jpg", b"...")
///     >>> with stook.Archive("photos.zip") as archive:
///     ...     list(archive), archive["2024/cat.jpg"], archive.stat("2024/cat.jpg").size
///     (['2024/cat.jpg'], b'...', 3)
#[pyclass(module = "stook", frozen, mapping)]
pub(crate) struct Archive {
    path: PathBuf,
    is_object: bool,
    state: RwLock<State>,
}

struct State {
    /// Forks before it was opened.
    generation: u64,
    fetching: Fetching,
    archive: Option<Arc<archive::Archive>>,
}

impl Archive {
    fn archive(&self) -> PyResult<Arc<archive::Archive>> {
        let state = read(&self.state);
        let archive = state.archive.clone().ok_or_else(|| closed("archive"))?;
        if !self.is_object || state.fetching.cache.is_none() || state.generation == fork::generation() {
            return Ok(archive);
        }
        drop(state);
        self.renew(archive)
    }

    /// The archive of a forked child, which has a cache of its own: threads of the parent may have
    /// held that of the parent locked.
    #[cold]
    fn renew(&self, old: Arc<archive::Archive>) -> PyResult<Arc<archive::Archive>> {
        let (path, fetching) = (self.path.clone(), read(&self.state).fetching.after_fork());
        let (fetching, new) = Python::attach(|py| {
            with_progress(py, None, [], move |_| {
                let fetching = fetching.with_cache().or_raise()?;
                let new = opened(&path, &fetching, &mut |_| true)?;
                Ok((fetching, new))
            })
        })?;
        let (before, after) = (old.file().identity(), new.file().identity());
        if !before.same_content(&after) {
            return Err(stook::Error::changed(new.path(), before, after).raise());
        }
        let mut state = written(&self.state);
        if state.archive.is_some() && state.generation != fork::generation() {
            // Not dropped: that may wait for a lock that is never released in this process.
            std::mem::forget(std::mem::replace(&mut state.fetching, fetching));
            std::mem::forget(state.archive.replace(Arc::from(new)));
            state.generation = fork::generation();
        }
        std::mem::forget(old);
        state.archive.clone().ok_or_else(|| closed("archive"))
    }

    /// Where it is: a path, or the address of an object as it was given, or as it may be shown.
    fn place<'py>(&self, py: Python<'py>, is_shown: bool) -> PyResult<Bound<'py, PyAny>> {
        // A `Path` makes one slash of the two in an address.
        match (self.is_object, is_shown) {
            (false, _) => self.path.as_path().into_bound_py_any(py),
            (true, true) => shown(&self.path.to_string_lossy()).into_bound_py_any(py),
            (true, false) => self.path.as_os_str().into_bound_py_any(py),
        }
    }

    /// The values of these keys; `None` for keys without a member.
    fn values(
        &self,
        py: Python<'_>,
        keys: Vec<Key>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Option<Bytes>>> {
        let archive = self.archive()?;
        self.run(py, progress, move |go_on| {
            let mut go_on = |members, bytes| go_on([members, bytes]);
            contents::values(&*archive, &keys, Stop(is_stopped), &mut go_on).or_raise()
        })
    }

    /// Runs work that reads. What takes requests, or reports progress, is waited for on another
    /// thread.
    fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        progress: Option<&Bound<'_, PyAny>>,
        work: impl FnOnce(&mut GoOn<'_, 2>) -> PyResult<T> + Send + 'static,
    ) -> PyResult<T> {
        match self.is_object || progress.is_some() {
            true => with_progress(py, progress, ["records", "bytes"], work),
            false => py.detach(|| on_this_thread(work)),
        }
    }

    /// What opens it in another process.
    fn recipe<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (OsString,))> {
        let (py, this, class) = (slf.py(), slf.get(), slf.get_type());
        let archive = this.archive()?;
        let path = if this.is_object { this.path.clone() } else { std::path::absolute(archive.path())? };
        let options = arguments(&read(&this.state).fetching, py)?;
        let open = match options.is_empty() {
            true => class.into_any(),
            false => py.import("functools")?.getattr("partial")?.call((class,), Some(&options))?,
        };
        // Not as a `Path`, which makes one slash of the two in an address.
        Ok((open, (path.into_os_string(),)))
    }
}

/// Opens an archive, and nothing else.
fn opened(
    path: &Path,
    fetching: &Fetching,
    progress: &mut dyn FnMut(u64) -> bool,
) -> PyResult<Box<archive::Archive>> {
    match contents::open(path, fetching.options().or_raise()?, progress).or_raise()? {
        Opened::Archive(archive) => Ok(archive),
        Opened::Pack(_) => Err(invalid(format!("{} is a pack: stook.Pack reads it", path.display()))),
    }
}

fn find<'a>(archive: &'a archive::Archive, key: &Key) -> Option<Member<'a>> {
    key.as_bytes().and_then(|path| archive.find(path))
}

#[pymethods]
impl Archive {
    #[new]
    #[pyo3(signature = (path, *, cache=None, whole_file=false, settings=None, headers=None, progress=None))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = paths::path)] path: PathBuf,
        cache: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = choices::whole_file)] whole_file: bool,
        settings: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let fetching = fetching(cache, whole_file, settings, headers)?;
        let (wanted, is_object, generation) = (path.clone(), is_object(&path), fork::generation());
        let (fetching, archive) = with_progress(py, progress, ["bytes"], move |go_on| {
            let mut passed = 0;
            let archive = opened(&wanted, &fetching, &mut |bytes| {
                passed = bytes;
                go_on([bytes])
            })?;
            go_on([passed.max(archive.file_bytes())]);
            Ok((fetching, archive))
        })?;
        ArchiveNotes::of(&archive).warn(py)?;
        let archive = Some(Arc::from(archive));
        Ok(Self { path, is_object, state: RwLock::new(State { generation, fetching, archive }) })
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, key, None, None)?.ok_or_else(|| key::missing(key))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.stat(key)?.is_some())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.archive()?.len())?)
    }

    fn __iter__(&self) -> PyResult<Keys> {
        Ok(Keys::of_archive(self.archive()?, KeyRange::all()))
    }

    /// Gets the bytes of a member: of a hard link those of its file, of a symbolic link its target,
    /// of a directory none.
    ///
    /// Args:
    ///     key: The key.
    ///     default: What is given when there is no such member.
    ///     progress: Called now and then with the members and bytes so far, on another thread. What
    ///         it raises ends it. ``True`` shows a bar with tqdm.
    ///
    /// Returns:
    ///     The bytes; of a zip and a compressed tar verified.
    ///
    /// Raises:
    ///     stook.DamagedError: They are not what was written.
    ///     stook.InvalidError: The member cannot be read: it is encrypted, or compressed in another
    ///         way.
    ///     stook.LimitError: It has more than 256 MiB of zeroes that are stored nowhere: `open` it.
    #[pyo3(signature = (key, default=None, *, progress=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.values(py, vec![key::from_python(key)?], progress)?.pop().flatten();
        let value = value.map(|value| bytes_of(py, &value)).transpose()?;
        Ok(value.map(Bound::into_any).or(default))
    }

    /// Gets many members at once: of a compressed tar in one pass.
    ///
    /// Args:
    ///     keys: The keys, in any order; a key may occur twice.
    ///     default: What is given for keys without a member.
    ///     progress: Called now and then with the members and bytes so far, on another thread. What
    ///         it raises ends it. ``True`` shows a bar with tqdm.
    ///
    /// Returns:
    ///     The bytes in the order of the keys.
    ///
    /// Raises:
    ///     stook.DamagedError: The bytes of a member are not what was written.
    ///     stook.InvalidError: A member cannot be read.
    ///     stook.LimitError: A member has more than 256 MiB of zeroes that are stored nowhere.
    #[pyo3(signature = (keys, default=None, *, progress=None))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let values = PyList::empty(py);
        for value in self.values(py, keys_of(keys)?, progress)? {
            match value {
                Some(value) => values.append(bytes_of(py, &value)?)?,
                None => values.append(&default)?,
            }
        }
        Ok(values)
    }

    /// Goes through files and their bytes in the order in which they lie in the archive: of a
    /// compressed tar in one pass. One value at a time is in memory.
    ///
    /// Args:
    ///     progress: Called now and then with the files and bytes so far, and with the last ones at
    ///         the end; what it raises is raised from the iterator. ``True`` shows a bar with tqdm.
    ///
    /// Returns:
    ///     An iterator over pairs of keys and values. Directories and symbolic links are left out.
    ///
    /// Raises:
    ///     stook.DamagedError: A member is not what was written; from the iterator.
    ///     stook.InvalidError: A member cannot be read; from the iterator.
    ///     stook.LimitError: A member has more than 256 MiB of zeroes that are stored nowhere; from
    ///         the iterator.
    ///
    /// Examples:
    ///     >>> import stook, zipfile
    ///     >>> with zipfile.ZipFile("two.zip", "w") as file:
    ///     ...     file.writestr("b", b"1")
    ///     ...     file.writestr("a", b"22")
    ///     >>> list(stook.Archive("two.zip").items())
    ///     [('b', b'1'), ('a', b'22')]
    #[pyo3(signature = (*, progress=None))]
    fn items(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Items> {
        Items::of_archive(py, self.archive()?, progress)
    }

    /// The bytes of many ranges of a member, in their order. Of one that is compressed, of any
    /// length, what is before them is decompressed, and not held: ranges that ascend take one pass.
    ///
    /// Args:
    ///     key: The key.
    ///     ranges: An iterable of ``(start, end)``.
    ///     progress: As for `get`.
    ///
    /// Raises:
    ///     KeyError: There is no such member.
    ///     IsADirectoryError: It is a directory.
    ///     stook.OutOfBoundsError: A range reaches past the end.
    ///     stook.DamagedError: What was read on the way is not what was written.
    ///     stook.InvalidError: The member cannot be read.
    ///
    /// Examples:
    ///     >>> import stook, zipfile
    ///     >>> with zipfile.ZipFile("digits.zip", "w", zipfile.ZIP_DEFLATED) as file:
    ///     ...     file.writestr("digits", b"0123456789" * 1000)
    ///     >>> with stook.Archive("digits.zip") as archive:
    ///     ...     archive.read_many("digits", [(9_995, 10_000), (0, 3)])
    ///     [b'56789', b'012']
    #[pyo3(signature = (key, ranges, *, progress=None))]
    fn read_many<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        ranges: &Bound<'py, PyAny>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (archive, wanted, ranges) = (self.archive()?, key::from_python(key)?, ranges::of(ranges)?);
        let read = self.run(py, progress, move |go_on| {
            let mut bytes = 0;
            let mut passed = |more| {
                bytes += more;
                go_on([1, bytes])
            };
            match Body::of_member(&archive, &wanted, false) {
                Err(BodyError::Missing(_)) => Ok(None),
                body => body.or_raise()?.read(&ranges, Stop(is_stopped), &mut passed).map(Some).or_raise(),
            }
        })?;
        let read = read.ok_or_else(|| key::missing(key))?;
        let all: PyResult<Vec<_>> = read.iter().map(|bytes| bytes_of(py, bytes)).collect();
        PyList::new(py, all?)
    }

    /// Opens a member as a file, seekable and read-only. Where its bytes lie in the archive as they
    /// are, only what is asked for is read, and what is stored nowhere of a sparse one is read as
    /// zeroes; a compressed one of up to 64 MiB is decompressed now, and held. Parts of a stored
    /// member are not verified: nothing vouches for them but that the archive is what it was.
    ///
    /// Args:
    ///     key: The key.
    ///
    /// Returns:
    ///     A `File`. It can be read after the archive was closed.
    ///
    /// Raises:
    ///     KeyError: There is no such member.
    ///     IsADirectoryError: It is a directory.
    ///     stook.DamagedError: It is not what was written.
    ///     stook.InvalidError: It cannot be read, or is compressed and longer than that:
    ///         `read_many` reads ranges of it.
    ///
    /// Examples:
    ///     >>> import stook, zipfile
    ///     >>> with zipfile.ZipFile("digits.zip", "w") as file:
    ///     ...     file.writestr("digits", b"0123456789")
    ///     >>> with stook.Archive("digits.zip") as archive, archive.open("digits") as file:
    ///     ...     file.read_at(7, 2)
    ///     b'78'
    #[pyo3(signature = (key))]
    fn open<'py>(slf: &Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, archive, wanted) = (slf.py(), slf.get().archive()?, key::from_python(key)?);
        let arguments = (Self::recipe(slf)?, key::to_python(py, &wanted)?);
        let source = slf.get().run(py, None, move |_| {
            let Some(member) = find(&archive, &wanted) else { return Ok(None) };
            if member.kind() == MemberKind::Directory {
                return Err(is_directory(shown(&format!("{}//{wanted}", archive.path().display()))));
            }
            archive.open_member(&member).map(Some).map_err(|error| of_archive(&error, Some(wanted)))
        })?;
        let source = source.ok_or_else(|| key::missing(key))?;
        let ((again, (path,)), key) = arguments;
        let open = py.import("stook._file")?.getattr("_open_member")?;
        let again = py.import("functools")?.getattr("partial")?.call1((open, again, path, key))?;
        file_over(Bound::new(py, SparseFile::over(py, source, again)?)?)
    }

    /// Goes through keys in order, from the index; no member is read.
    ///
    /// Args:
    ///     prefix: Only keys that begin with this.
    ///     start: Only keys from this one on.
    ///     end: Only keys before this one.
    ///
    /// Returns:
    ///     An iterator over keys.
    #[pyo3(signature = (*, prefix=None, start=None, end=None))]
    fn keys(
        &self,
        prefix: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Keys> {
        Ok(Keys::of_archive(self.archive()?, key::range(prefix, start, end)?))
    }

    /// What is known of a member without reading it: kind, size, and mode, owner and time among its
    /// attributes.
    ///
    /// Args:
    ///     key: The key.
    ///
    /// Returns:
    ///     A `Stat`, or ``None`` where there is no such member.
    #[pyo3(signature = (key))]
    fn stat(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Stat>> {
        let (archive, key) = (self.archive()?, key::from_python(key)?);
        find(&archive, &key).map(|member| head(&member).map(Stat::of_member).or_raise()).transpose()
    }

    /// Reads every member to its end and verifies all checksums there are, as ``stook load`` does.
    ///
    /// Args:
    ///     progress: Called now and then with the bytes so far and in all, on another thread.
    ///         ``True`` shows a bar with tqdm.
    ///
    /// Returns:
    ///     A `LoadReport`. A member that is damaged, or cannot be read, is in its ``failures``.
    ///
    /// Raises:
    ///     stook.DamagedError: A compressed tar is damaged: nothing after that place can be read.
    #[pyo3(signature = (*, progress=None))]
    fn load<'py>(
        &self,
        py: Python<'py>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let archive = self.archive()?;
        let loaded = with_progress(py, progress, ["bytes", "total"], move |go_on| {
            let failures = Mutex::new(Vec::new());
            let failed = |key: &[u8], error: &archive::Error| {
                let error = of_archive(error, Key::bytes(key).ok());
                locked(&failures).push(tree::Failure { key: key.to_vec(), error });
            };
            let options = LoadOptions { stop: Stop(is_stopped), ..LoadOptions::default() };
            let mut passed = |done, total| go_on([done, total]);
            let report = archive.load(&options, &LoadWatch::new(&mut passed, &failed)).or_raise()?;
            Ok((report, std::mem::take(&mut *locked(&failures)), archive.is_complete()))
        });
        let (report, failures, is_complete) = loaded?;
        info::load_report(py, &report, &failures, is_complete)
    }

    /// What is known of the archive without reading members.
    ///
    /// Returns:
    ///     An `ArchiveInfo`.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let archive = self.archive()?;
        info::archive_info(py, &self.place(py, true)?, &archive)
    }

    /// Closes the file. Closing twice does nothing.
    fn close(&self) {
        written(&self.state).archive = None;
    }

    fn __repr__(&self) -> String {
        let state = if read(&self.state).archive.is_none() { " (closed)" } else { "" };
        // Without what may be a secret in an address.
        format!("<stook.Archive {}{state}>", shown(&self.path.to_string_lossy()))
    }

    /// Other processes open it anew.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (OsString,))> {
        Self::recipe(slf)
    }
}

context! { Archive, |this| this.archive()?, |this, _, _| { this.close(); Ok(()) } }

getters! { Archive {
    /// Where the archive is: a path, or the address of an object.
    path: PyResult<Bound<'_, PyAny>> = |this, py| this.place(py, false);
    /// Whether it was closed.
    closed: bool = |this| read(&this.state).archive.is_none();
}}
