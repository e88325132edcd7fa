//! `stook.copy`: files and trees into one directory or several.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::IntoPyDict as _;
use stook::copy::{
    CopyEvents, CopyOptions, CopyReport, DestinationReport, Durability, HashKind, Item, Progress,
    WhyNotMirrored,
};
use stook::names::ListEnd;
use stook::ops::copy::{CopyGiven, OpenGiven, read_list};
use stook::ops::fetching::Fetching;
use stook::pack::Damage;
use stook::source::shown;

use crate::arguments::wrong_type;
use crate::choices::{self, chosen};
use crate::errors::{OrRaise as _, invalid};
use crate::given::{Found, Hearing, Opening, callable_of};
use crate::key::text_of;
use crate::numbers;
use crate::pack::info::{damages, failures, keys};
use crate::pack::open::{ACCESS, at_ns_of, with_time_hint};
use crate::pack::selection::selection;
use crate::pack::unpack::OVERWRITE;
use crate::paths;
use crate::reports::report;
use crate::sparse::fetching;
use crate::wait::{GoOn, with_progress};

/// Copies files and trees to one directory or several; each file is read once, and whole or absent
/// under its name, whatever happens.
///
/// Run again, it skips what is there with the same length and time. One bad file, and a
/// destination that is full or fails, stop only themselves.
///
/// Args:
///     sources: What is copied, or several in a list. What is in a directory goes into the
///         destinations, and so does what is in a pack, or in an archive with two slashes after it
///         (``"x.tar//"``, ``"s3://bucket/x.tar//photos"``); files, objects by their address, and
///         each of several sources go there by name.
///     destination: The directory to copy to: made if it is not there.
///     to: One more directory, or several.
///     overwrite: Which files that are there are replaced: ``"never"``, those that are ``"older"``,
///         those whose content is ``"different"``, or ``"always"`` all. What stays with other
///         content is in ``kept``.
///     checksum: Whether bytes are compared where length and time are the same.
///     durability: When files are on the medium: ``"batch"``, many at once, before any of them gets
///         its name; ``"file"``, each by itself; ``"none"``, when the system writes them back.
///     backup: What is replaced or deleted stays, under its name with this at the end: ``"~"``.
///     mirror: Whether what only a destination has is deleted, once everything is copied. None is
///         if that would be more than half of the files that were there.
///     max_delete: With ``mirror``: how many files may be deleted anyway.
///     link_dest: A directory with an earlier copy: files that it has unchanged become hard links.
///     include: A pattern, or several: only paths that one of them matches, as ``stook copy
///         --include`` has them.
///     exclude: A pattern, or several, of what is left out, directories with all that is in them.
///     files: Only these paths, relative to each source, with all that is in them.
///     one_file_system: Whether what is mounted in a directory is left out.
///     specials: Whether pipes, and by root devices, are made. Otherwise they are in ``special``.
///     xattrs: Whether extended attributes are set, access control lists among them.
///     with_owner: Whether owners are set; only root can.
///     hashes: ``"xxh3"``, ``"xxh128"``, ``"xxh64"``, ``"blake3"``, ``"sha256"``, ``"sha1"``,
///         ``"md5"``, ``"c4"``, or several, are computed of each file that is read; ``items`` gets
///         them.
///     lists: A list of checksums is written beside the copy, as ``sha256sum -c`` reads it, of this
///         function, or one of each of several: those of ``hashes``.
///     mhl: A list of ASC MHL is written at the end, with hashes of this function or of several:
///         ``"xxh128"``, ``"c4"``, ``"md5"``, ``"sha1"``, ``"xxh3"``, ``"xxh64"``.
///     proofs: Whether the proofs of files of more than 1 MiB are written beside a list of BLAKE3,
///         which is written, too: with them `verify` names the megabytes of a file that are bad,
///         and `repair_copy` reads only these.
///     block_bytes: Length of one read or write of a large file: a multiple of 4 KiB.
///     depth: Reads and writes of a large file in flight.
///     jobs: Small files that are copied at once.
///     access: Whether bytes go past the page cache: ``"direct"``, ``"cached"``, or ``"auto"``,
///         those of large files that are not in it.
///     bytes_per_s: Bytes a second that are read, at most: 4096 or more.
///     force: Write what fits, even where there is less room than all of it needs; with ``mirror``,
///         delete whatever is extra.
///     read_back: Whether what was written is read again from the medium, and compared, before a
///         mirror deletes anything. Files that were there already are not read: `verify` does that.
///     dry_run: Whether nothing is done: ``items`` is called with what would be.
///     as_file: Whether packs are copied as the files that they are.
///     at: The state of a pack at this time rather than the newest, as for `Pack`.
///     cache: Of archives and objects on servers: a directory in which what was fetched is kept for
///         the next time, or a :class:`DiskCache`.
///     whole_file: Whether an object whose server cannot send parts is read as a whole.
///     settings: Settings of the object store by their names in the environment (``AWS_REGION``),
///         which they override.
///     headers: Further headers of requests to ``http://`` and ``https://`` addresses.
///     items: Called with a `CopyItem` for each path and destination, on another thread; a file
///         that was copied has its name by then. What it raises ends the copy.
///     progress: Called now and then with the files and bytes so far and all bytes (0 until they
///         are counted), on another thread. ``True`` shows a bar with tqdm.
///
/// Returns:
///     A `CopyReport`. What could not be copied is in its ``failures``, and in those of each of its
///     ``destinations``.
///
/// Raises:
///     OSError: A source cannot be opened, a destination cannot be made, or has too little room.
///     stook.RemoteError: A source on a server cannot be fetched.
///     stook.InvalidError: Nothing matches what was asked for. Or what is refused before anything
///         is made: a destination in what is copied, a file onto itself, two sources of one name.
///
/// Warns:
///     stook.DamageWarning: A pack or an archive among the sources is damaged.
///
/// Examples:
///     >>> import pathlib, stook
///     >>> pathlib.Path("card").mkdir()
///     >>> size = pathlib.Path("card/take").write_bytes(b"pictures")
///     >>> report = stook.copy("card", "disk", to=["spare"])
///     >>> report.ok, report.read_files, [one.files for one in report.destinations]
///     (True, 1, [1, 1])
#[pyfunction]
#[pyo3(signature = (sources, destination, *, to=None, overwrite="never", checksum=false, durability="batch", backup=None, mirror=false, max_delete=None, link_dest=None, include=None, exclude=None, files=None, one_file_system=false, specials=false, xattrs=true, with_owner=true, hashes=None, lists=None, mhl=None, proofs=false, block_bytes=None, depth=None, jobs=None, access="auto", bytes_per_s=None, force=false, read_back=false, dry_run=false, as_file=false, at=None, cache=None, whole_file=false, settings=None, headers=None, items=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn copy<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = paths::sources)] sources: Vec<PathBuf>,
    #[pyo3(from_py_with = paths::destination)] destination: PathBuf,
    to: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::overwrite)] overwrite: &str,
    #[pyo3(from_py_with = choices::checksum)] checksum: bool,
    #[pyo3(from_py_with = choices::durability)] durability: &str,
    #[pyo3(from_py_with = choices::backup)] backup: Option<OsString>,
    #[pyo3(from_py_with = choices::mirror)] mirror: bool,
    #[pyo3(from_py_with = numbers::max_delete)] max_delete: Option<u64>,
    link_dest: Option<&Bound<'py, PyAny>>,
    include: Option<&Bound<'py, PyAny>>,
    exclude: Option<&Bound<'py, PyAny>>,
    files: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::one_file_system)] one_file_system: bool,
    #[pyo3(from_py_with = choices::specials)] specials: bool,
    #[pyo3(from_py_with = choices::xattrs)] xattrs: bool,
    #[pyo3(from_py_with = choices::with_owner)] with_owner: bool,
    hashes: Option<&Bound<'py, PyAny>>,
    lists: Option<&Bound<'py, PyAny>>,
    mhl: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::proofs)] proofs: bool,
    #[pyo3(from_py_with = numbers::block_bytes)] block_bytes: Option<u64>,
    #[pyo3(from_py_with = numbers::depth)] depth: Option<usize>,
    #[pyo3(from_py_with = numbers::jobs)] jobs: Option<usize>,
    #[pyo3(from_py_with = choices::access)] access: &str,
    #[pyo3(from_py_with = numbers::bytes_per_s)] bytes_per_s: Option<u64>,
    #[pyo3(from_py_with = choices::force)] force: bool,
    #[pyo3(from_py_with = choices::read_back)] read_back: bool,
    #[pyo3(from_py_with = choices::dry_run)] dry_run: bool,
    #[pyo3(from_py_with = choices::as_file)] as_file: bool,
    at: Option<&Bound<'py, PyAny>>,
    cache: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::whole_file)] whole_file: bool,
    settings: Option<&Bound<'py, PyAny>>,
    headers: Option<&Bound<'py, PyAny>>,
    items: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = CopyOptions {
        overwrite: chosen("overwrite", overwrite, &OVERWRITE)?,
        checksum,
        durability: chosen("durability", durability, &DURABILITY)?,
        backup,
        mirror,
        max_delete,
        dry_run,
        selection: selection(include, exclude)?,
        only: files.map(only).transpose()?.flatten(),
        link_dest: link_dest.map(|path| paths::argument("link_dest", path)).transpose()?,
        with_owner,
        xattrs,
        specials,
        block_bytes,
        depth,
        jobs,
        access: chosen("access", access, &ACCESS)?,
        bytes_per_s,
        force,
        ..listing([hashes, lists, mhl], proofs)?
    };
    let (open, items) = (opening(as_file, one_file_system, at)?, callable_of("items", items)?);
    let fetching = fetching(cache, whole_file, settings, headers)?;
    let destinations = [vec![destination], directories(to)?].concat();
    Copying { sources, destinations, options, read_back, open, fetching, items }
        .report(py, progress)
        .map_err(|error| with_time_hint(at, error))
}

/// What is computed and listed: the arguments `hashes`, `lists` and `mhl`, and whether proofs are
/// written.
fn listing([hashes, lists, mhl]: [Option<&Bound<'_, PyAny>>; 3], proofs: bool) -> PyResult<CopyOptions> {
    Ok(CopyOptions {
        hashes: hash_kinds("hashes", hashes)?.unwrap_or_default(),
        lists: hash_kinds("lists", lists)?.unwrap_or_default(),
        mhl: hash_kinds("mhl", mhl)?,
        proofs,
        ..CopyOptions::default()
    })
}

/// How sources are opened.
fn opening(as_file: bool, one_file_system: bool, at: Option<&Bound<'_, PyAny>>) -> PyResult<OpenGiven> {
    let mut open = OpenGiven { as_file, one_file_system, ..OpenGiven::default() };
    open.contents.pack.at_ns = at_ns_of(at)?;
    Ok(open)
}

/// The argument `to`: further destinations.
pub(crate) fn directories(to: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<PathBuf>> {
    to.map_or(Ok(Vec::new()), |to| paths::one_or_several("to", to))
}

/// The choices of the argument `durability`.
const DURABILITY: [(&str, Durability); 3] =
    [("batch", Durability::Batch), ("file", Durability::File), ("none", Durability::None)];

/// The argument `files`: paths relative to the sources, as in every list; `None` where they are all
/// of them.
fn only(files: &Bound<'_, PyAny>) -> PyResult<Option<BTreeSet<Vec<u8>>>> {
    let paths = paths::one_or_several("files", files)?;
    let list: Vec<u8> =
        paths.into_iter().flat_map(|path| [path.into_os_string().into_vec(), vec![0]].concat()).collect();
    let listed = read_list(list.as_slice(), ListEnd::Nul, Path::new("argument 'files'"));
    listed.map_err(|error| invalid(error.to_string()))
}

/// The hash functions that an argument with this name lists, or the only one.
pub(crate) fn hash_kinds(
    argument: &str,
    hashes: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Vec<HashKind>>> {
    let Some(hashes) = hashes else { return Ok(None) };
    let names: Vec<String> = match hashes.extract::<String>() {
        Ok(one) => vec![one],
        Err(_) => {
            hashes.extract().map_err(|_| wrong_type(argument, "a name, or a list of names,", hashes))?
        }
    };
    let kinds = HashKind::ALL.map(|kind| (kind.name(), kind));
    names.iter().map(|name| chosen(argument, name, &kinds)).collect::<PyResult<_>>().map(Some)
}

/// A copy that is to be made.
struct Copying {
    sources: Vec<PathBuf>,
    destinations: Vec<PathBuf>,
    options: CopyOptions,
    read_back: bool,
    open: OpenGiven,
    fetching: Fetching,
    items: Option<Py<PyAny>>,
}

impl Copying {
    fn report<'py>(
        self,
        py: Python<'py>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = self.options.clone();
        // Without what may be a secret in an address.
        let names: Vec<String> = self.sources.iter().map(|path| shown(&path.to_string_lossy())).collect();
        let numbers = ["files", "bytes", "total"];
        let (report, found) = with_progress(py, progress, numbers, move |go_on| self.run(go_on))?;
        let damages = found.warn(py)?;
        if report.found_nothing(&options) {
            return Err(invalid(format!("nothing that was asked for is in {}", names.join(" and "))));
        }
        report_of(py, &report, options.dry_run, &damages)
    }

    fn run(self, go_on: &mut GoOn<'_, 3>) -> PyResult<(CopyReport, Found)> {
        let Self { sources, destinations, options, read_back, open, fetching, items } = self;
        let mut opening = Opening::new(open, &fetching)?;
        let sources: PyResult<Vec<_>> = sources.into_iter().map(|path| opening.open(path, go_on)).collect();
        let mut events = Events(Hearing::new(go_on, items));
        let copied = CopyGiven { sources: sources?, destinations, options, read_back }.run(&mut events);
        Ok((events.0.or_raised(|| copied.or_raise())?, opening.found()))
    }
}

/// Passes events to callables.
struct Events<'a, 'b>(Hearing<'a, 'b>);

impl CopyEvents for Events<'_, '_> {
    fn go_on(&mut self, at: &Progress) -> bool {
        self.0.goes_on(at.files, at.bytes, at.total_bytes)
    }

    fn needs_items(&self) -> bool {
        self.0.wants_items()
    }

    fn item(&mut self, item: &Item) {
        self.0.item(|py| item_of(py, item));
    }
}

fn item_of<'py>(py: Python<'py>, item: &Item) -> PyResult<Bound<'py, PyAny>> {
    let digests = item.digests.iter().map(|digest| (digest.kind.name(), digest.to_string()));
    report!(
        py, "stook._types", "CopyItem",
        item { destination },
        key: text_of(py, &item.key)?,
        size: item.len,
        action: item.action.name(),
        why: item.why.name(),
        digests: digests.into_py_dict(py)?,
    )
}

fn report_of<'py>(
    py: Python<'py>,
    done: &CopyReport,
    dry_run: bool,
    found: &[Damage],
) -> PyResult<Bound<'py, PyAny>> {
    let destinations: PyResult<Vec<_>> =
        done.destinations.iter().map(|one| destination_of(py, one)).collect();
    report!(
        py, "stook._types", "CopyReport",
        done { entries, read_files, read_bytes },
        destinations: destinations?,
        special: keys(py, done.not_copied.iter().map(|left| &left.key))?,
        undone: done.undone(),
        dry_run: dry_run,
        failures: failures(py, &done.failures)?,
        damages: damages(py, found)?,
    )
}

fn destination_of<'py>(py: Python<'py>, one: &DestinationReport) -> PyResult<Bound<'py, PyAny>> {
    report!(
        py, "stook._types", "CopyDestination",
        one {
            path, files, bytes, cloned, copied_by_server, directories, symlinks, hard_links, linked,
            specials, unchanged, corrected, backups, unlisted, resumed_bytes, stopped,
        },
        read_back_files: one.read_again.map_or(0, |read| read.files),
        read_back_bytes: one.read_again.map_or(0, |read| read.bytes),
        past_cache: one.read_again.and_then(|read| read.is_past_cache),
        made: one.made.clone(),
        kept: keys(py, one.kept.iter().map(|kept| &kept.key))?,
        deleted: keys(py, &one.deleted)?,
        leftovers: keys(py, one.leftovers.iter().map(|left| &left.key))?,
        unfinished: keys(py, one.unfinished.iter().map(|left| &left.key))?,
        not_mirrored: one.not_mirrored.map(WhyNotMirrored::text),
        lists: keys(py, &one.lists)?,
        proofs: one.proofs.as_ref().map_or(0, |(_, files)| *files),
        unset_xattrs: one.unset_xattrs.entries,
        foreign_xattrs: one.unset_xattrs.foreign,
        direct_bytes: one.passage.direct_bytes,
        cached_bytes: one.passage.cached_bytes,
        failures: failures(py, &one.failures)?,
    )
}
