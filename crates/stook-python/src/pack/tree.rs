//! `stook.pack_tree`: trees of files and archives into packs.

use std::path::PathBuf;

use pyo3::prelude::*;
use stook::archive::Archive;
use stook::ops::pack::{Answer, Error, Hooks, PackReport, PackSources, Stage, THREADS_MAX, grouping_of};
use stook::pack::tree::Delete;
use stook::pack::{DamageLog, Damages};

use super::info;
use super::selection::Selecting;
use crate::choices;
use crate::errors::{ArchiveNotes, OrRaise as _, Raise as _, invalid, warn_of, warn_of_recovery};
use crate::numbers;
use crate::paths;
use crate::wait::{ProgressReporter, callback_of};

/// Packs trees of files, or what is in archives; run again, adds only what is new or changed.
///
/// Keeps paths, modes, times, links, empty directories, extended attributes (access control lists
/// among them) and, as root, owners. Links are never followed.
///
/// Args:
///     sources: A directory, or several in a list: then keys begin with the name of each. Or
///         archives (tar, tar.gz, tar.zst, tar.xz, zip), by path or address (``https://…``,
///         ``s3://…``), whose members become records as if they had been unpacked; not both
///         together.
///     pack: The pack: made if it is not there.
///     group: The group to put everything into; else the default group.
///     group_by: Instead, spreads over groups: ``"top"`` by the first directory, ``"hash:N"`` over
///         N groups. Not for archives.
///     delete: Whether records of files that are gone from the tree are deleted; with ``group`` or
///         ``group_by``, in that group only. None is if that would be more than half of the files
///         of one of its roots, or if files were moved into the pack.
///     max_delete: With ``delete``: how many records may be deleted anyway.
///     force: With ``delete``: however many records are deleted. Files also replace others
///         that were moved into the pack from elsewhere, and may be the only copies.
///     move: Whether what was packed is removed, when the pack was read back and holds the same;
///         directories when they are empty. Not for archives, nor with ``delete``.
///     checksum: Whether the bytes of every file are compared, whatever its times say. What is
///         damaged in the pack is packed again.
///     xattrs: Whether extended attributes are kept, access control lists among them. Which are
///         not, because they cannot be read or are too long, is in ``lost_xattrs``.
///     include: A pattern, or several: only what one of them matches is packed. As on the command
///         line: ``"*.jpg"`` is a name anywhere, ``"/top"`` and ``"a/**"`` are paths, ``"tmp/"`` is
///         a directory with all below it.
///     exclude: A pattern, or several, of what is left out, directories with all that is in them.
///         Or a callable, called with the path of everything that is found, relative to its root;
///         what it says ``True`` to is left out.
///     select: Called with the same paths, where they are included and not excluded; what it says
///         ``False`` to is not packed. Directories are entered anyway: ``lambda path:
///         path.endswith(".jpg")`` finds pictures anywhere.
///     attributes: Called with the path of everything that is packed; gives a dict of values that
///         go with the record, by name, as for ``Pack.put``, or ``None``. What is unchanged keeps
///         what it has.
///     as_file: Whether a source that is an archive, or a pack, is packed as what it is, one file
///         or several.
///     dry_run: Whether nothing is done: the report says what would be.
///     segment_bytes: Segments of a new pack are sealed when they are this long; 4 GiB unless
///         given.
///     threads: Threads that walk and read; 128 unless given, or measured of the device.
///     progress: Called now and then with the entries and bytes so far; with ``move``, those that
///         are verified and removed are added. ``True`` shows a bar with tqdm.
///
/// Returns:
///     A `PackTreeReport`. What could not be read is in its ``failures``; the rest is packed.
///
/// Raises:
///     OSError: A source cannot be opened, or the pack cannot be written.
///     stook.InvalidError: More records would have been deleted than may be, or the sources cannot
///         be those that the pack was made from: nothing is packed then. Or nothing was selected,
///         or a source is a pack, or there is too little room.
///     stook.DamagedError: An archive is damaged where its members are listed.
///
/// A pack that was made for this is removed again when ``select``, ``exclude``, ``attributes`` or
/// ``progress`` raises, or nothing is selected.
///
/// Examples:
///     >>> import pathlib, stook
///     >>> pathlib.Path("photos").mkdir()
///     >>> size = pathlib.Path("photos/cat.jpg").write_bytes(b"...")
///     >>> stook.pack_tree("photos", "photos.stook").files
///     1
///     >>> stook.Pack("photos.stook")["cat.jpg"]
///     b'...'
#[pyfunction]
#[pyo3(signature = (sources, pack, *, group=None, group_by=None, delete=false, max_delete=None, force=false, r#move=false, checksum=false, xattrs=true, include=None, exclude=None, select=None, attributes=None, as_file=false, dry_run=false, segment_bytes=None, threads=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn pack_tree<'py>(
    py: Python<'py>,
    sources: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = paths::pack)] pack: PathBuf,
    #[pyo3(from_py_with = choices::group)] group: Option<String>,
    #[pyo3(from_py_with = choices::group_by)] group_by: Option<String>,
    #[pyo3(from_py_with = choices::delete)] delete: bool,
    #[pyo3(from_py_with = numbers::max_delete)] max_delete: Option<u64>,
    #[pyo3(from_py_with = choices::force)] force: bool,
    #[pyo3(from_py_with = choices::r#move)] r#move: bool,
    #[pyo3(from_py_with = choices::checksum)] checksum: bool,
    #[pyo3(from_py_with = choices::xattrs)] xattrs: bool,
    include: Option<&Bound<'py, PyAny>>,
    exclude: Option<&Bound<'py, PyAny>>,
    select: Option<&Bound<'py, PyAny>>,
    attributes: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::as_file)] as_file: bool,
    #[pyo3(from_py_with = choices::dry_run)] dry_run: bool,
    #[pyo3(from_py_with = numbers::segment_bytes)] segment_bytes: Option<u64>,
    #[pyo3(from_py_with = numbers::threads)] threads: Option<usize>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let roots = paths::sources(sources)?;
    let selecting = Selecting::new(include, exclude, select)?;
    let attributes = selecting.attributes(attributes)?;
    let Selecting { patterns, exclude, select: selects, raised } = selecting;
    let all = PackSources::new(roots, pack);
    let packing = PackSources {
        patterns,
        exclude,
        select: selects,
        attributes,
        grouping: grouping_of(group, group_by.as_deref()).map_err(invalid)?,
        delete: delete_of(delete, max_delete, force)?,
        replace_moved: force,
        move_originals: r#move,
        checksum,
        xattrs,
        as_file,
        dry_run,
        threads: threads.map(|threads| numbers::threads_up_to(THREADS_MAX, threads)).transpose()?,
        segment_len: segment_bytes.unwrap_or(all.segment_len),
        ..all
    };
    let mut watching = Watching::new(callback_of(progress, &["entries", "bytes"])?);
    let packed = py.detach(|| packing.run(&mut watching));
    let pack = packing.pack.clone();
    let sources: Vec<String> = packing.sources.iter().map(|path| path.display().to_string()).collect();
    let Watching { reporter, notes, logs, archives, .. } = watching;
    raise_first(py, packed.as_ref().err(), raised.take(), reporter)?;
    warn_of_recovery(py, &pack, &notes)?;
    archives.iter().try_for_each(|notes| notes.warn(py))?;
    let report = packed.or_raise()?;
    let damages: Damages = logs.iter().flat_map(DamageLog::all).collect();
    warn_of(py, &pack, &damages)?;
    refuse_nothing(&report, include.is_some(), select.is_some(), &sources.join(" and "))?;
    if let Some(why) = &report.summary.refused {
        return Err(invalid(format!("{why}; max_delete or force deletes them")));
    }
    info::pack_report(py, &report, &damages)
}

/// Raises what a callable or a signal handler raised, chained with an error of cleaning up.
fn raise_first(
    py: Python<'_>,
    failed: Option<&Error>,
    raised: Option<PyErr>,
    reporter: ProgressReporter,
) -> PyResult<()> {
    // That the run was ended is not an error of its own: what was raised says why.
    let left =
        failed.filter(|error| !matches!(error, Error::Abandoned | Error::Interrupted)).map(Error::raise);
    let reported = reporter.finish();
    match (raised, reported, left) {
        (None, Ok(()), _) => Ok(()),
        (Some(error), _, None) | (None, Err(error), None) => Err(error),
        (Some(error), _, Some(left)) => {
            left.set_cause(py, Some(error));
            Err(left)
        }
        (None, Err(error), Some(left)) => {
            error.set_cause(py, Some(left));
            Err(error)
        }
    }
}

/// Receives events while sources are packed.
struct Watching {
    reporter: ProgressReporter,
    /// Entries and bytes: of finished stages, and in total so far.
    before: [u64; 2],
    now: [u64; 2],
    notes: Vec<String>,
    logs: Vec<DamageLog>,
    archives: Vec<ArchiveNotes>,
}

impl Watching {
    fn new(callback: Option<Py<PyAny>>) -> Self {
        let reporter = ProgressReporter::new(callback);
        let (notes, logs, archives) = Default::default();
        Self { reporter, before: [0; 2], now: [0; 2], notes, logs, archives }
    }

    fn answer(&self, goes_on: bool) -> Answer {
        match goes_on {
            _ if self.reporter.has_failed() => Answer::Abandon,
            true => Answer::GoOn,
            false => Answer::Stop,
        }
    }
}

impl Hooks for Watching {
    fn progress(&mut self, stage: Stage, entries: u64, bytes: u64) -> Answer {
        let goes_on = match stage {
            // Counting and indexing are not reported.
            Stage::Counting | Stage::Indexing { .. } => self.reporter.check_signals(),
            Stage::Packing | Stage::Removing => {
                let [entries_before, bytes_before] = self.before;
                self.now = [entries_before + entries, bytes_before + bytes];
                self.reporter.go_on(&self.now)
            }
        };
        self.answer(goes_on)
    }

    fn finished(&mut self, _stage: Stage) -> Answer {
        self.before = self.now;
        self.reporter.report_last();
        self.answer(true)
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    fn watch(&mut self, log: DamageLog) {
        self.logs.push(log);
    }

    fn archive_opened(&mut self, archive: &Archive) {
        self.archives.push(ArchiveNotes::of(archive));
    }
}

/// Refuses a selection that took nothing: it is probably misspelt, or lacks a `return`.
fn refuse_nothing(report: &PackReport, include: bool, select: bool, sources: &str) -> PyResult<()> {
    let Some(nothing) = report.nothing.filter(|nothing| nothing.is_error) else { return Ok(()) };
    let who = match (include, select) {
        (true, true) => "include and select",
        (true, false) => "include",
        (false, _) => "select",
    };
    Err(invalid(format!("{who} took none of the {} paths below {sources}", nothing.asked)))
}

/// How many records may be deleted. `max_delete` is refused without `delete`.
fn delete_of(delete: bool, max_delete: Option<u64>, force: bool) -> PyResult<Delete> {
    match (delete, max_delete, force) {
        (false, Some(_), _) => {
            Err(invalid("max_delete says how much delete=True may delete, which is missing"))
        }
        (true, Some(_), true) => Err(invalid("either max_delete or force, not both")),
        _ => Ok(Delete::asked(delete, max_delete, force)),
    }
}
