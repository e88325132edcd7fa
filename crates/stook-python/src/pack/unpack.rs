//! `stook.unpack`: packs and archives into directories, and packs into tars.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use stook::ops::contents::{self, Opened};
use stook::ops::export::Export;
use stook::ops::fetching::Fetching;
use stook::ops::unpack::{
    Durability, Error, Nothing, PathFilter, Prefix, THREADS, THREADS_MAX, Unpack, Unpacked,
};
use stook::pack::{self, Damage};
use stook::source::shown;
use stook::tree::Overwrite;

use super::info;
use super::open::{at_ns_of, with_time_hint};
use super::reading::groups_of;
use super::selection::Selecting;
use crate::choices::{self, chosen};
use crate::errors::{ArchiveNotes, OrRaise as _, invalid, warn_of};
use crate::key;
use crate::numbers;
use crate::paths;
use crate::sparse::fetching;
use crate::wait::with_progress;

/// Unpacks a pack, or a tar or zip archive, into a directory: every file is whole or absent, and
/// nothing leads out of it.
///
/// Args:
///     pack: The pack, or the archive, which may be at an address: ``https://…/x.zip``,
///         ``s3://bucket/x.tar``.
///     target: The directory: made if it is not there.
///     overwrite: Which files that are there are replaced: ``"never"``, those that are ``"older"``,
///         those whose content is ``"different"``, or ``"always"`` all. What stays with other
///         content is in ``kept``.
///     group: Only this group of a pack, or these.
///     prefix: Only paths that begin so.
///     include: A pattern, or several: only paths that one of them matches, as
///         ``stook unpack --include`` has them.
///     exclude: A pattern, or several, of what is left out, directories with all that is in them.
///         Or a callable, called with paths and those of directories above them: what it says
///         ``True`` to is left out in the same way.
///     select: Called with each path that is left; what it says ``False`` to is left out.
///     threads: Threads that write small files; 8 unless given.
///     xattrs: Whether extended attributes are set, or written to the tar, access control lists
///         among them. How many files lack some, because the file system does not take them, is in
///         ``unset_xattrs``. Those that grant rights are set only where root restores owners.
///     force: Write what fits, even where there is less room than all of it needs. Of a tar:
///         replace a file that is there even where something is missing in the new one.
///     with_owner: Whether owners are restored; only root can.
///     tar: Instead of ``target``: a pack is written as this tar, the same bytes for the same pack.
///         A file that is there is replaced only by a tar of all that was asked for; else it stays,
///         and is in ``kept``. ``overwrite``, ``threads`` and ``with_owner`` are for a target.
///     at: The state of a pack at this time rather than the newest, as for `Pack`.
///     cache: Of an archive that is an object: a directory in which what was fetched is kept for
///         the next time, or a :class:`DiskCache`.
///     whole_file: Whether an object whose server cannot send parts is read as a whole.
///     settings: Settings of the object store by their names in the environment
///         (``AWS_REGION``), which they override.
///     headers: Further headers of requests to ``http://`` and ``https://`` addresses.
///     progress: Called now and then with the records and bytes so far, on another thread. ``True``
///         shows a bar with tqdm.
///
/// Returns:
///     An `UnpackReport`. What could not be unpacked is in its ``failures``.
///
/// Raises:
///     OSError: The target cannot be made, or reading the pack fails.
///     stook.NotAPackError: What is at ``pack`` is neither a pack nor an archive.
///     stook.RemoteError: An archive that is an object cannot be fetched.
///     stook.InvalidError: Nothing matches what was asked for; a directory that was made for it
///         is removed again. Or what is asked of an archive only packs have: groups, ``tar``,
///         ``at``.
///     stook.NoSuchStateError: History does not go back so far, or ``at`` is before the first
///         record.
///
/// Warns:
///     stook.DamageWarning: Damage was found that is no failure of one path: ``damages`` lists it.
///
/// Examples:
///     >>> import stook
///     >>> with stook.Pack("data.stook", "a") as pack:
///     ...     pack.update({"a/1.jpg": b"x", "a/2.txt": b"yy"})
///     >>> stook.unpack("data.stook", "out", include=["*.jpg"]).files
///     1
#[pyfunction]
#[pyo3(signature = (pack, target=None, *, overwrite="never", group=None, prefix=None, include=None, exclude=None, select=None, threads=None, xattrs=true, force=false, with_owner=true, tar=None, at=None, cache=None, whole_file=false, settings=None, headers=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn unpack<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = paths::pack)] pack: PathBuf,
    target: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::overwrite)] overwrite: &str,
    group: Option<&Bound<'py, PyAny>>,
    prefix: Option<&Bound<'py, PyAny>>,
    include: Option<&Bound<'py, PyAny>>,
    exclude: Option<&Bound<'py, PyAny>>,
    select: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = numbers::threads)] threads: Option<usize>,
    #[pyo3(from_py_with = choices::xattrs)] xattrs: bool,
    #[pyo3(from_py_with = choices::force)] force: bool,
    #[pyo3(from_py_with = choices::with_owner)] with_owner: bool,
    tar: Option<&Bound<'py, PyAny>>,
    at: Option<&Bound<'py, PyAny>>,
    cache: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::whole_file)] whole_file: bool,
    settings: Option<&Bound<'py, PyAny>>,
    headers: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let Selecting { patterns, exclude, select, raised } = Selecting::new(include, exclude, select)?;
    let (groups, has_select) = (groups_of(group)?, select.is_some());
    let prefix = prefix.map(key::prefix).transpose()?.map_or(Prefix::Any, |prefix| Prefix::of(&prefix));
    let filter = PathFilter { groups, prefix, patterns, exclude, select };
    let overwrite = chosen("overwrite", overwrite, &OVERWRITE)?;
    let has_threads = threads.is_some();
    let threads = numbers::threads_up_to(THREADS_MAX, threads.unwrap_or(THREADS))?;
    let (target_path, durability) = (PathBuf::new(), Durability::default());
    let how =
        Unpack { target: target_path, filter, overwrite, with_owner, xattrs, threads, durability, force };
    let to = To::new(target, tar, how, has_threads)?;
    let fetching = fetching(cache, whole_file, settings, headers)?;
    let at_ns = at_ns_of(at)?;
    let done = with_progress(py, progress, ["records", "bytes"], move |go_on| {
        let written = to.write(&pack, &fetching, at_ns, &mut |entries, bytes| go_on([entries, bytes]));
        let (unpacked, damages, notes) = raised.take().map_or_else(|| written.or_raise(), Err)?;
        Ok((unpacked, damages, notes, pack))
    });
    let (unpacked, damages, notes, pack) = done.map_err(|error| with_time_hint(at, error))?;
    notes.map_or(Ok(()), |notes| notes.warn(py))?;
    warn_of(py, &pack, &damages)?;
    if unpacked.nothing == Some(Nothing::Missing) {
        let why = match has_select {
            true => "select took none of the keys of",
            false => "nothing that was asked for is in",
        };
        // Without what may be a secret in an address.
        return Err(invalid(format!("{why} {}", shown(&pack.to_string_lossy()))));
    }
    info::unpack_report(py, &unpacked, &damages)
}

/// The choices of the argument `overwrite`.
pub(crate) const OVERWRITE: [(&str, Overwrite); 4] = [
    ("never", Overwrite::Never),
    ("older", Overwrite::Older),
    ("different", Overwrite::Different),
    ("always", Overwrite::Always),
];

/// The destination.
enum To {
    Directory(Unpack<'static>),
    Tar(Export<'static>, PathBuf),
}

impl To {
    /// `how` has all but the target. Some of it is for a target only.
    fn new(
        target: Option<&Bound<'_, PyAny>>,
        tar: Option<&Bound<'_, PyAny>>,
        how: Unpack<'static>,
        has_threads: bool,
    ) -> PyResult<Self> {
        match (target, tar) {
            (Some(target), None) => {
                Ok(Self::Directory(Unpack { target: paths::argument("target", target)?, ..how }))
            }
            (None, Some(tar)) => {
                let Unpack { filter, overwrite, with_owner, xattrs, force, .. } = how;
                let overwrites = overwrite != Overwrite::Never;
                let given =
                    [("overwrite", overwrites), ("threads", has_threads), ("with_owner", !with_owner)];
                if let Some((name, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
                    return Err(invalid(format!("argument '{name}': it is for a target, not for a tar")));
                }
                Ok(Self::Tar(Export { filter, xattrs, force }, paths::argument("tar", tar)?))
            }
            _ => Err(invalid("either a target or a tar is wanted")),
        }
    }

    /// Writes it; also returns the damage of the pack that was found meanwhile.
    fn write(
        &self,
        path: &Path,
        fetching: &Fetching,
        at_ns: Option<i64>,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(Unpacked, Vec<Damage>, Option<ArchiveNotes>), Error> {
        let pack = pack::OpenOptions { at_ns, ..pack::OpenOptions::default() };
        let options = contents::OpenOptions { pack, ..fetching.options()? };
        let opened = contents::open(path, options, &mut |_| progress(0, 0))?;
        let unpacked = match (self, &opened) {
            (Self::Directory(unpack), _) => {
                unpack.run((&opened).into(), &mut |at| progress(at.entries, at.bytes))?
            }
            (Self::Tar(export, path), Opened::Pack(contents)) => {
                export.run_to_file(contents.pack(), path, progress)?
            }
            (Self::Tar(..), Opened::Archive(archive)) => return Err(Error::only_packs("tar", archive)),
        };
        // Taken only now: more is found while reading.
        let damages = opened.pack().map(pack::Pack::damages).unwrap_or_default();
        let notes =
            if let Opened::Archive(archive) = &opened { Some(ArchiveNotes::of(archive)) } else { None };
        Ok((unpacked, damages, notes))
    }
}
