//! `stook.stitch`: one file of many without writing it. Each function is one call of the library.

pub(crate) mod file;

use std::path::PathBuf;

use pyo3::prelude::*;
use stook::ops::contents::file_of_layout;
use stook::ops::copy::Given;
use stook::ops::stitch::{self, PatchGiven, ShardsGiven, StitchGiven};
use stook::ops::verify::OpenGiven;
use stook::stitch::{Afs, Layout, Raw, Safetensors, Tar, Wds, Zip};
use stook::tree::CaseRule;

use self::file::{Held, Sharded, Stitched};
use crate::choices;
use crate::errors::OrRaise as _;
use crate::given::{Found, Opening};
use crate::numbers;
use crate::pack::open::{at_ns_of, with_time_hint};
use crate::paths;
use crate::sparse::fetching;
use crate::wait::{GoOn, with_progress};

/// How what is given is opened: the arguments that all functions have.
struct Common<'a, 'py> {
    target: Option<&'a Bound<'py, PyAny>>,
    at: Option<&'a Bound<'py, PyAny>>,
    cache: Option<&'a Bound<'py, PyAny>>,
    whole_file: bool,
    settings: Option<&'a Bound<'py, PyAny>>,
    headers: Option<&'a Bound<'py, PyAny>>,
    progress: Option<&'a Bound<'py, PyAny>>,
}

type Opens<'a, 'b> = &'a mut dyn FnMut(PathBuf, &mut GoOn<'b, 1>) -> PyResult<Given>;

impl Common<'_, '_> {
    /// Opens what is given and lays it out, on another thread.
    fn run<T: Send + 'static>(
        &self,
        py: Python<'_>,
        lay_out: impl for<'b> FnOnce(Opens<'_, 'b>, &mut GoOn<'b, 1>, Option<PathBuf>) -> PyResult<T>
        + Send
        + 'static,
    ) -> PyResult<T> {
        let target = self.target.map(|path| paths::argument("target", path)).transpose()?;
        let mut open = OpenGiven::default();
        open.contents.pack.at_ns = at_ns_of(self.at)?;
        let fetching = fetching(self.cache, self.whole_file, self.settings, self.headers)?;
        let done = with_progress(py, self.progress, ["members"], move |go_on| {
            let mut opening = Opening::new(open, &fetching)?;
            let laid = lay_out(&mut |path, go_on| opening.open(path, go_on), go_on, target)?;
            Ok::<(T, Found), PyErr>((laid, opening.found()))
        });
        let (laid, found) = done.map_err(|error| with_time_hint(self.at, error))?;
        found.warn(py)?;
        Ok(laid)
    }

    fn stitch<'py>(
        &self,
        py: Python<'py>,
        trees: Vec<PathBuf>,
        layout: impl Layout + Send + 'static,
    ) -> PyResult<Bound<'py, PyAny>> {
        let stitched = self.run(py, move |open, go_on, target| {
            let trees: PyResult<_> = trees.into_iter().map(|tree| open(tree, go_on)).collect();
            let given = StitchGiven { trees: trees?, layout: Box::new(layout), target };
            given.lay_out(&mut |members| go_on([members])).or_raise()
        })?;
        virtual_file(py, stitched)
    }
}

/// A `VirtualFile` over what was laid out.
fn virtual_file(py: Python<'_>, stitched: stitch::Stitched) -> PyResult<Bound<'_, PyAny>> {
    let native = Bound::new(py, Stitched::new(Held::one(stitched), None))?;
    py.import("stook._virtual")?.getattr("VirtualFile")?.call_method1("_over", (native,))
}

/// A tar of trees, without writing it: a file that is read as if it were there.
///
/// Headers are computed when they are read, and files are opened when their bytes are. Names that
/// are long or not ASCII, and sizes from 8 GiB on, are pax records. The names of a file after the
/// first are hard links.
///
/// Args:
///     trees: A directory, a file, a pack, an archive with two slashes (``"x.tar//"``) or an
///         object; or several in a list. What is in the only one is at the top of the archive;
///         several are in it under their names, and a file has its name.
///     deterministic: Whether times and owners are left out: the same files give the same bytes on
///         every machine, those of GNU tar.
///     target: Where it will be written: a file that is there is not in it.
///     at: The state of packs at this time rather than the newest, as for `Pack`.
///     cache: Of archives and objects on servers: a directory in which what was fetched is kept for
///         the next time, or a :class:`DiskCache`.
///     whole_file: Whether an object whose server cannot send parts is read as a whole.
///     settings: Settings of the object store by their names in the environment (``AWS_REGION``),
///         which they override.
///     headers: Further headers of requests to ``http://`` and ``https://`` addresses.
///     progress: Called now and then with the members that were listed so far, on another thread.
///         ``True`` shows a bar with tqdm.
///
/// Returns:
///     A `VirtualFile`. What could not be listed, and is not in it, is in its ``failures``, and
///     pipes, sockets and devices are in its ``left_out``.
///
/// Raises:
///     OSError: A tree cannot be opened or listed.
///     stook.RemoteError: A tree on a server cannot be fetched.
///     stook.InvalidError: Two trees have something with one path; ``target`` is one of the trees.
///
/// Warns:
///     stook.DamageWarning: A pack or an archive among the trees is damaged.
///
/// Examples:
///     >>> import pathlib, stook, tarfile
///     >>> pathlib.Path("cards").mkdir()
///     >>> size = pathlib.Path("cards/note").write_bytes(b"a note")
///     >>> with stook.stitch.tar("cards") as file, tarfile.open(fileobj=file) as tar:
///     ...     tar.getnames(), file.size
///     (['note'], 10240)
#[pyfunction]
#[pyo3(signature = (trees, *, deterministic=false, target=None, at=None, cache=None, whole_file=false, settings=None, headers=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn tar<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = paths::trees)] trees: Vec<PathBuf>,
    #[pyo3(from_py_with = choices::deterministic)] deterministic: bool,
    target: Option<&Bound<'py, PyAny>>,
    at: Option<&Bound<'py, PyAny>>,
    cache: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::whole_file)] whole_file: bool,
    settings: Option<&Bound<'py, PyAny>>,
    headers: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let common = Common { target, at, cache, whole_file, settings, headers, progress };
    common.stitch(py, trees, Tar { deterministic })
}

/// A zip of trees, without writing it: a file that is read as if it were there.
///
/// Members are stored. The CRC-32 of files are computed where the bytes pass on their way from the
/// front; who reads the directory at the end first, as `zipfile` does, has all files read once for
/// it. Each name of a file is a file of its own.
///
/// Args:
///     trees: As for `tar`.
///     deterministic: Whether times are left out: the same files give the same bytes on every
///         machine.
///     target, at, cache, whole_file, settings, headers, progress: As for `tar`.
///
/// Returns:
///     A `VirtualFile`.
///
/// Raises:
///     OSError, stook.RemoteError, stook.InvalidError: As for `tar`.
///
/// Examples:
///     >>> import pathlib, stook, zipfile
///     >>> pathlib.Path("cards").mkdir()
///     >>> size = pathlib.Path("cards/note").write_bytes(b"a note")
///     >>> with stook.stitch.zip("cards") as file, zipfile.ZipFile(file) as zip:
///     ...     zip.namelist(), zip.read("note")
///     (['note'], b'a note')
#[pyfunction]
#[pyo3(signature = (trees, *, deterministic=false, target=None, at=None, cache=None, whole_file=false, settings=None, headers=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn zip<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = paths::trees)] trees: Vec<PathBuf>,
    #[pyo3(from_py_with = choices::deterministic)] deterministic: bool,
    target: Option<&Bound<'py, PyAny>>,
    at: Option<&Bound<'py, PyAny>>,
    cache: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::whole_file)] whole_file: bool,
    settings: Option<&Bound<'py, PyAny>>,
    headers: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let common = Common { target, at, cache, whole_file, settings, headers, progress };
    common.stitch(py, trees, Zip { deterministic })
}

/// Files one after another, without writing them, as ``cat`` does.
///
/// Args:
///     trees: Files in the order in which they are named, and those of directories in the order of
///         their paths; else as for `tar`.
///     target, at, cache, whole_file, settings, headers, progress: As for `tar`.
///
/// Returns:
///     A `VirtualFile`.
///
/// Raises:
///     stook.InvalidError: A tree has a link.
///     OSError, stook.RemoteError: As for `tar`.
///
/// Examples:
///     >>> import pathlib, stook
///     >>> sizes = [pathlib.Path(name).write_text(name) for name in ("one", "two")]
///     >>> stook.stitch.raw(["one", "two"]).read()
///     b'onetwo'
#[pyfunction]
#[pyo3(signature = (trees, *, target=None, at=None, cache=None, whole_file=false, settings=None, headers=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn raw<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = paths::trees)] trees: Vec<PathBuf>,
    target: Option<&Bound<'py, PyAny>>,
    at: Option<&Bound<'py, PyAny>>,
    cache: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::whole_file)] whole_file: bool,
    settings: Option<&Bound<'py, PyAny>>,
    headers: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let common = Common { target, at, cache, whole_file, settings, headers, progress };
    common.stitch(py, trees, Raw)
}

/// An AFS, an archive of games, of the files of trees, without writing it.
///
/// Args:
///     trees: As for `tar`. The paths of files are the names of members, of 32 bytes at most.
///     without_names: Whether names and times are left out: members have numbers only.
///     target, at, cache, whole_file, settings, headers, progress: As for `tar`.
///
/// Returns:
///     A `VirtualFile`.
///
/// Raises:
///     stook.InvalidError: A tree has a link, or what has no place in an AFS.
///     OSError, stook.RemoteError: As for `tar`.
#[pyfunction]
#[pyo3(signature = (trees, *, without_names=false, target=None, at=None, cache=None, whole_file=false, settings=None, headers=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn afs<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = paths::trees)] trees: Vec<PathBuf>,
    #[pyo3(from_py_with = choices::without_names)] without_names: bool,
    target: Option<&Bound<'py, PyAny>>,
    at: Option<&Bound<'py, PyAny>>,
    cache: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::whole_file)] whole_file: bool,
    settings: Option<&Bound<'py, PyAny>>,
    headers: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let common = Common { target, at, cache, whole_file, settings, headers, progress };
    common.stitch(py, trees, Afs { without_names })
}

/// Shards of tensors as one file, without writing it.
///
/// Args:
///     trees: As for `tar`; every file of them is a shard. Their headers are read now.
///     target, at, cache, whole_file, settings, headers, progress: As for `tar`.
///
/// Returns:
///     A `VirtualFile`.
///
/// Raises:
///     stook.InvalidError: A file is no shard, or damaged; two have one tensor.
///     OSError, stook.RemoteError: As for `tar`.
#[pyfunction]
#[pyo3(signature = (trees, *, target=None, at=None, cache=None, whole_file=false, settings=None, headers=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn safetensors<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = paths::trees)] trees: Vec<PathBuf>,
    target: Option<&Bound<'py, PyAny>>,
    at: Option<&Bound<'py, PyAny>>,
    cache: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::whole_file)] whole_file: bool,
    settings: Option<&Bound<'py, PyAny>>,
    headers: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let common = Common { target, at, cache, whole_file, settings, headers, progress };
    common.stitch(py, trees, Safetensors)
}

/// Shards of WebDataset, without writing them: tars in which the files of a sample stand together.
///
/// A sample is the files with the same path up to the first dot in their names. Samples are in the
/// order of their paths.
///
/// Args:
///     trees: As for `tar`.
///     shard_bytes: How long a shard is at most, unless it has one sample. ``None``: all samples
///         are in one.
///     prefix: What the names of shards begin with, before the number.
///     deterministic, target, at, cache, whole_file, settings, headers, progress: As for `tar`.
///
/// Returns:
///     `Shards`: a sequence of `VirtualFile`, which are called ``000000.tar`` and so on.
///
/// Raises:
///     stook.InvalidError: A tree has a link, or there is no file in them.
///     OSError, stook.RemoteError: As for `tar`.
///
/// Examples:
///     >>> import pathlib, stook
///     >>> pathlib.Path("set").mkdir()
///     >>> for name in ("a.jpg", "a.txt", "b.jpg", "b.txt"):
///     ...     size = pathlib.Path("set", name).write_bytes(bytes(5000))
///     >>> shards = stook.stitch.wds("set", shard_bytes=30_000)
///     >>> [[member.key for member in shard.members()] for shard in shards]
///     [['a.jpg', 'a.txt'], ['b.jpg', 'b.txt']]
#[pyfunction]
#[pyo3(signature = (trees, *, shard_bytes=None, prefix="", deterministic=false, target=None, at=None, cache=None, whole_file=false, settings=None, headers=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn wds<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = paths::trees)] trees: Vec<PathBuf>,
    #[pyo3(from_py_with = numbers::shard_bytes)] shard_bytes: Option<u64>,
    #[pyo3(from_py_with = choices::prefix)] prefix: &str,
    #[pyo3(from_py_with = choices::deterministic)] deterministic: bool,
    target: Option<&Bound<'py, PyAny>>,
    at: Option<&Bound<'py, PyAny>>,
    cache: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::whole_file)] whole_file: bool,
    settings: Option<&Bound<'py, PyAny>>,
    headers: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let common = Common { target, at, cache, whole_file, settings, headers, progress };
    let wds = Wds { shard_bytes, prefix: prefix.to_owned(), deterministic };
    let sharded = common.run(py, move |open, go_on, target| {
        let trees: PyResult<_> = trees.into_iter().map(|tree| open(tree, go_on)).collect();
        let given = ShardsGiven { trees: trees?, wds, target };
        given.lay_out(&mut |members| go_on([members])).or_raise()
    })?;
    let native = Bound::new(py, Sharded::new(sharded))?;
    py.import("stook._virtual")?.getattr("Shards")?.call1((native,))
}

/// A tar, a zip or an AFS with members replaced, added and deleted, without writing it.
///
/// Bytes outside what changes are those of the archive, exactly. A file replaces the member with
/// its path below a folder; ``NAME.del`` deletes the member ``NAME``, and what is below it; other
/// files are added. In an AFS ``00012_any-name`` is member 12.
///
/// Args:
///     archive: The tar, zip or AFS; it stays as it is. It may be an object, or a member of an
///         archive (``"x.tar//game.zip"``).
///     folders: A folder with what changes, or several, of which a later one counts more:
///         directories, packs, archives with two slashes.
///     ignore_case: Whether names that differ only in case are one.
///     target: Where it will be written, which is no change then.
///     at, cache, whole_file, settings, headers, progress: As for `tar`.
///
/// Returns:
///     A `VirtualFile`.
///
/// Raises:
///     stook.InvalidError: A change cannot be made: nothing has the name that is to be deleted, a
///         link, a file where the archive has a directory. Or the archive is compressed as a whole.
///     stook.DamagedError: The archive is damaged.
///     OSError, stook.RemoteError: As for `tar`.
///
/// Examples:
///     >>> import pathlib, stook, zipfile
///     >>> with zipfile.ZipFile("game.zip", "w") as file:
///     ...     file.writestr("a", b"old")
///     ...     file.writestr("b", b"stays")
///     >>> pathlib.Path("changes").mkdir()
///     >>> size = pathlib.Path("changes/a").write_bytes(b"new")
///     >>> with stook.stitch.patch("game.zip", "changes") as file, zipfile.ZipFile(file) as zip:
///     ...     zip.read("a"), zip.read("b")
///     (b'new', b'stays')
#[pyfunction]
#[pyo3(signature = (archive, folders, *, ignore_case=false, target=None, at=None, cache=None, whole_file=false, settings=None, headers=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn patch<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = paths::archive)] archive: PathBuf,
    #[pyo3(from_py_with = paths::folders)] folders: Vec<PathBuf>,
    #[pyo3(from_py_with = choices::ignore_case)] ignore_case: bool,
    target: Option<&Bound<'py, PyAny>>,
    at: Option<&Bound<'py, PyAny>>,
    cache: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::whole_file)] whole_file: bool,
    settings: Option<&Bound<'py, PyAny>>,
    headers: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let common = Common { target, at, cache, whole_file, settings, headers, progress };
    let case = if ignore_case { CaseRule::Ignored } else { CaseRule::Exact };
    let stitched = common.run(py, move |open, go_on, target| {
        let archive = open(archive, go_on)?;
        let folders: PyResult<_> = folders.into_iter().map(|folder| open(folder, go_on)).collect();
        let given = PatchGiven { archive, folders: folders?, case, target };
        given.lay_out(&mut |members| go_on([members])).or_raise()
    })?;
    virtual_file(py, stitched)
}

/// Opens a file that a layout describes, as `VirtualFile` does.
#[pyfunction]
#[pyo3(signature = (layout, name=None))]
pub(crate) fn open_layout<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = paths::layout)] layout: PathBuf,
    name: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, Stitched>> {
    let name = name.map(|name| paths::argument("name", name)).transpose()?;
    let opened = with_progress(py, None, [], move |_| {
        let name = name.map(|name| name.into_os_string().into_encoded_bytes());
        let (layout, name) = match file_of_layout(&layout).filter(|_| name.is_none()) {
            Some((layout, name)) => (layout, Some(name)),
            None => (layout, name),
        };
        let stitched = stitch::open_layout(&layout, name.as_deref()).or_raise()?;
        Ok((stitched, std::path::absolute(layout)?, name))
    });
    let (stitched, layout, name) = opened?;
    Bound::new(py, Stitched::new(Held::one(stitched), Some((layout, name))))
}
