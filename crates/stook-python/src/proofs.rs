//! `stook.verify_range` and `stook.repair_copy`: what the proofs of parts of files are for.

use std::path::PathBuf;

use pyo3::prelude::*;
use stook::copy::CopyOptions;
use stook::ops::fetching::Fetching;
use stook::ops::verify::{
    self, OpenGiven, RangeGiven, RangeReport, RepairGiven, RepairProgress, RepairReport, Repaired,
};
use stook::pack::Damage;

use crate::copy::directories;
use crate::errors::OrRaise as _;
use crate::given::{Found, Opening};
use crate::key::text_of;
use crate::pack::info::{damages, failures, keys};
use crate::pack::open::{at_ns_of, with_time_hint};
use crate::reports::report;
use crate::sparse::fetching;
use crate::verify::ranges_of;
use crate::wait::{GoOn, with_progress};
use crate::{choices, numbers, paths};

/// Verifies a part of a file by the proof beside its list: the megabytes in which the part lies are
/// read, and some hundred bytes of the proof, whatever the length of the file.
///
/// The list is that of the directory of the file, or of one above it, with BLAKE3 and proofs:
/// ``stook.verify(tree, proofs=True)`` and ``stook.copy(..., proofs=True)`` write them.
///
/// Args:
///     path: The file.
///     start: From which byte on.
///     end: Up to which byte, which is not part of it; to the end of the file where it is not said.
///     cached: Whether the file is read through the page cache.
///
/// Returns:
///     A `RangeReport`: what was read, and which megabytes of it are bad.
///
/// Raises:
///     OSError: The file or the list cannot be read; the proof is damaged.
///     stook.InvalidError: No list has the file with BLAKE3, or there is no proof of it.
///     stook.OutOfBoundsError: The part reaches past the end of the file.
///
/// Examples:
///     >>> import pathlib, stook
///     >>> pathlib.Path("disk").mkdir()
///     >>> size = pathlib.Path("disk/film").write_bytes(bytes(5_000_000))
///     >>> report = stook.verify("disk", proofs=True)
///     >>> part = stook.verify_range("disk/film", 1_500_000, 1_600_000)
///     >>> part.ok, part.read_start, part.read_end
///     (True, 1048576, 2097152)
#[pyfunction]
#[pyo3(signature = (path, start=0, end=None, *, cached=false))]
pub(crate) fn verify_range<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = paths::path)] path: PathBuf,
    #[pyo3(from_py_with = numbers::start)] start: u64,
    #[pyo3(from_py_with = numbers::end)] end: Option<u64>,
    #[pyo3(from_py_with = choices::cached)] cached: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let given = RangeGiven { path, start, end, cached };
    let numbers = ["blocks"];
    let found = with_progress(py, None, numbers, move |go_on: &mut GoOn<'_, 1>| {
        given.run(&mut |_| go_on([0])).or_raise()
    })?;
    range_of(py, &found)
}

fn range_of<'py>(py: Python<'py>, one: &RangeReport) -> PyResult<Bound<'py, PyAny>> {
    report!(
        py, "stook._types", "RangeReport",
        one { path, listed_in },
        read_start: one.read.start(),
        read_end: one.read.end(),
        bad: ranges_of(Some(&one.bad)),
        read_error: one.bad.read_error.as_deref(),
        other_size: one.other_len,
        older_list: one.is_older,
        ok: one.is_proven(),
    )
}

/// Repairs copies from a good one: what their own lists say and they do not have is copied.
///
/// Of a file with a proof only the megabytes that are bad are read of the good copy, proven, and
/// written where they belong. A file without one, and one that is gone, is replaced as a whole, if
/// the good copy has the bytes that the list says. Files that no list has are not looked at.
///
/// Args:
///     good: The good copy: a directory, a pack, an archive with two slashes (``"x.tar//"``), a
///         file, an object by its address.
///     destination: The directory to repair, which has lists of its own.
///     to: A further directory, or several in a list.
///     force: Write the megabytes that the good copy has of a file, even if it lacks others.
///     dry_run: Whether nothing is written: the report says what would be.
///     as_file: Whether a pack is taken for the files that it is.
///     at: The state of a pack at this time rather than the newest, as for `Pack`.
///     cache: Of an archive or object on a server: a directory in which what was fetched is kept
///         for the next time, or a :class:`DiskCache`.
///     whole_file: Whether an object whose server cannot send parts is read as a whole.
///     settings: Settings of the object store by their names in the environment (``AWS_REGION``),
///         which they override.
///     headers: Further headers of requests to ``http://`` and ``https://`` addresses.
///     progress: Called now and then with the bytes so far and all bytes (0 until they are known)
///         of what is being done, on another thread. ``True`` shows a bar with tqdm.
///
/// Returns:
///     A `RepairedCopies`. What could not be repaired is in ``failures`` of each of its
///     ``destinations``.
///
/// Raises:
///     OSError: The good copy, a destination or a list cannot be opened.
///     stook.RemoteError: The good copy is on a server and cannot be fetched.
///     stook.InvalidError: A destination has no list of checksums.
///
/// Warns:
///     stook.DamageWarning: The good copy is a pack or an archive, and damaged.
///
/// Examples:
///     >>> import pathlib, stook
///     >>> pathlib.Path("card").mkdir()
///     >>> size = pathlib.Path("card/film").write_bytes(bytes(5_000_000))
///     >>> report = stook.copy("card", "disk", proofs=True)
///     >>> size = pathlib.Path("disk/film").write_bytes(bytes(4_999_999) + b"?")
///     >>> (disk,) = stook.repair_copy("card", "disk").destinations
///     >>> disk.mended, disk.read_bytes, stook.verify("disk").ok
///     ({'film': 1}, 805696, True)
#[pyfunction]
#[pyo3(signature = (good, destination, *, to=None, force=false, dry_run=false, as_file=false, at=None, cache=None, whole_file=false, settings=None, headers=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn repair_copy<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = paths::good)] good: PathBuf,
    #[pyo3(from_py_with = paths::destination)] destination: PathBuf,
    to: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::force)] force: bool,
    #[pyo3(from_py_with = choices::dry_run)] dry_run: bool,
    #[pyo3(from_py_with = choices::as_file)] as_file: bool,
    at: Option<&Bound<'py, PyAny>>,
    cache: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::whole_file)] whole_file: bool,
    settings: Option<&Bound<'py, PyAny>>,
    headers: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut open = OpenGiven { as_file, ..OpenGiven::default() };
    open.contents.pack.at_ns = at_ns_of(at)?;
    let destinations = [vec![destination], directories(to)?].concat();
    let fetching = fetching(cache, whole_file, settings, headers)?;
    let given =
        RepairGiven { destinations, dry_run, copying: CopyOptions { force, ..CopyOptions::default() } };
    let run = move |go_on: &mut GoOn<'_, 3>| run(&given, good, (open, &fetching), go_on);
    let done = with_progress(py, progress, ["files", "bytes", "total"], run);
    let (report, found) = done.map_err(|error| with_time_hint(at, error))?;
    let met = found.warn(py)?;
    repaired_of(py, &report, &met)
}

/// What ends a repair.
enum Ended {
    Library(verify::Error),
    Raised(PyErr),
}

impl From<verify::Error> for Ended {
    fn from(error: verify::Error) -> Self {
        Self::Library(error)
    }
}

fn run(
    given: &RepairGiven,
    good: PathBuf,
    (open, fetching): (OpenGiven, &Fetching),
    go_on: &mut GoOn<'_, 3>,
) -> PyResult<(RepairReport, Found)> {
    let mut opening = Opening::new(open, fetching)?;
    let mut open_good = || opening.open(good.clone(), &mut |_: [u64; 0]| true).map_err(Ended::Raised);
    let mut ask = |at: &RepairProgress| go_on([0, at.bytes, at.total_bytes.unwrap_or(0)]);
    let report = match given.run(&mut open_good, &mut ask) {
        Ok(report) => report,
        Err(Ended::Library(error)) => return Err(error).or_raise(),
        Err(Ended::Raised(error)) => return Err(error),
    };
    Ok((report, opening.found()))
}

fn repaired_of<'py>(py: Python<'py>, done: &RepairReport, met: &[Damage]) -> PyResult<Bound<'py, PyAny>> {
    let destinations: PyResult<Vec<_>> =
        done.destinations.iter().map(|one| destination_of(py, one)).collect();
    report!(
        py, "stook._types", "RepairedCopies",
        done {},
        destinations: destinations?,
        damages: damages(py, met)?,
    )
}

fn destination_of<'py>(py: Python<'py>, one: &Repaired) -> PyResult<Bound<'py, PyAny>> {
    let dict = |counts: &[(Vec<u8>, u64)]| -> PyResult<_> {
        let dict = pyo3::types::PyDict::new(py);
        for (key, count) in counts {
            dict.set_item(text_of(py, key)?, count)?;
        }
        Ok(dict)
    };
    report!(
        py, "stook._types", "RepairedCopy",
        one { path, matching, read_bytes },
        mended: dict(&one.mended)?,
        cut: dict(&one.cut)?,
        replaced: keys(py, &one.replaced)?,
        failures: failures(py, &one.failures)?,
    )
}
