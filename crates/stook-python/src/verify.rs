//! `stook.verify`: trees against lists of checksums, or against another tree.

use std::path::PathBuf;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::IntoPyDict as _;
use stook::ops::fetching::Fetching;
use stook::ops::verify::{ListReport, OpenGiven, Verified, VerifyGiven, open_each};
use stook::pack::Damage;
use stook::verify::{BadBlocks, Finding, Progress, SubjectReport, VerifyEvents, VerifyOptions};

use crate::choices;
use crate::copy::hash_kinds;
use crate::errors::OrRaise as _;
use crate::given::{Found, Hearing, Opening, callable_of};
use crate::key::text_of;
use crate::numbers;
use crate::pack::info::{damages, failures, keys};
use crate::pack::open::{at_ns_of, with_time_hint};
use crate::paths;
use crate::reports::report;
use crate::sparse::fetching;
use crate::wait::{GoOn, with_progress};

/// Verifies trees: whether their files have the bytes that lists of checksums, or another tree, say
/// that they should have.
///
/// Files are read past the page cache, so that the medium is verified and not the memory.
///
/// Args:
///     trees: A tree, or several in a list: directories, files, packs, archives with two slashes
///         (``"x.tar//"``), objects by their address. ``None``: the directories that the lists are
///         in.
///     lists: A list of checksums, or several, for each tree. ``None``: the lists at the top of
///         each tree (``SHA256SUMS``, ``*.sha256``, ``*.b3``, ``ascmhl/`` and others).
///     against: A tree that each of the trees should be like. Kinds and targets of links are
///         compared as well; modes, owners and times never are.
///     make_lists: ``"sha256"`` or another hash function, or several: a list of each is written
///         into each tree, of what is as it should be and of what no list has.
///     mhl: The same as the next generation of an ASC MHL with this hash function, or several:
///         ``"xxh128"``, ``"c4"``, ``"md5"``, ``"sha1"``, ``"xxh3"``, ``"xxh64"``.
///     proofs: Whether the proofs of files of more than 1 MiB are written beside a list of BLAKE3,
///         which is made then. With them the bad megabytes of a damaged file are in ``bad``.
///     accept: A path in the only tree, or several, that were changed or deleted on purpose; of a
///         directory all that is in it. The lists that are made have them as they are and, if
///         nothing is wrong, replace those that were made here earlier (``removed``).
///     cached: Whether files are read through the page cache.
///     allow_extra: Whether what nothing says should be there is left out of ``wrong``.
///     jobs: Threads that read and hash the files of one tree.
///     as_file: Whether packs are verified as the files that they are.
///     at: The state of packs at this time rather than the newest, as for `Pack`.
///     cache: Of archives and objects on servers: a directory in which what was fetched is kept for
///         the next time, or a :class:`DiskCache`.
///     whole_file: Whether an object whose server cannot send parts is read as a whole.
///     settings: Settings of the object store by their names in the environment (``AWS_REGION``),
///         which they override.
///     headers: Further headers of requests to ``http://`` and ``https://`` addresses.
///     items: Called with a `VerifyItem` for each path, on another thread. What it raises ends the
///         verification.
///     progress: Called now and then with the files and bytes so far and all bytes (0 until they
///         are counted), on another thread. ``True`` shows a bar with tqdm.
///
/// Returns:
///     A `VerifyReport`. What is wrong is in its ``trees``, and in its ``lists``.
///
/// Raises:
///     OSError: No tree or no list can be opened. One of several that cannot be is in ``failures``.
///     stook.RemoteError: A tree on a server cannot be fetched.
///     stook.InvalidError: There is nothing to verify with; a tree and a file are to be compared; a
///         list is to be made where none can be.
///
/// Warns:
///     stook.DamageWarning: A pack or an archive among the trees is damaged.
///
/// Examples:
///     >>> import pathlib, stook
///     >>> pathlib.Path("disk").mkdir()
///     >>> size = pathlib.Path("disk/take").write_bytes(b"pictures")
///     >>> made = stook.verify("disk", make_lists="sha256").made
///     >>> report = stook.verify("disk")
///     >>> report.ok, report.trees[0].matching, len(made)
///     (True, 1, 1)
#[pyfunction]
#[pyo3(signature = (trees=None, *, lists=None, against=None, make_lists=None, mhl=None, proofs=false, accept=None, cached=false, allow_extra=false, jobs=None, as_file=false, at=None, cache=None, whole_file=false, settings=None, headers=None, items=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn verify<'py>(
    py: Python<'py>,
    trees: Option<&Bound<'py, PyAny>>,
    lists: Option<&Bound<'py, PyAny>>,
    against: Option<&Bound<'py, PyAny>>,
    make_lists: Option<&Bound<'py, PyAny>>,
    mhl: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::proofs)] proofs: bool,
    accept: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::cached)] cached: bool,
    #[pyo3(from_py_with = choices::allow_extra)] allow_extra: bool,
    #[pyo3(from_py_with = numbers::jobs)] jobs: Option<usize>,
    #[pyo3(from_py_with = choices::as_file)] as_file: bool,
    at: Option<&Bound<'py, PyAny>>,
    cache: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = choices::whole_file)] whole_file: bool,
    settings: Option<&Bound<'py, PyAny>>,
    headers: Option<&Bound<'py, PyAny>>,
    items: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let several = |name: &str, paths: Option<&Bound<'py, PyAny>>| {
        paths.map_or(Ok(Vec::new()), |paths| paths::one_or_several(name, paths))
    };
    let mut open = OpenGiven { as_file, ..OpenGiven::default() };
    open.contents.pack.at_ns = at_ns_of(at)?;
    let verifying = Verifying {
        trees: several("trees", trees)?,
        against: against.map(|path| paths::argument("against", path)).transpose()?,
        given: VerifyGiven {
            lists: several("lists", lists)?,
            make: hash_kinds("make_lists", make_lists)?.unwrap_or_default(),
            mhl: hash_kinds("mhl", mhl)?,
            proofs,
            accept: several("accept", accept)?,
            options: VerifyOptions { cached, jobs, ..VerifyOptions::default() },
            ..VerifyGiven::default()
        },
        open,
        fetching: fetching(cache, whole_file, settings, headers)?,
        items: callable_of("items", items)?,
    };
    let numbers = ["files", "bytes", "total"];
    let done = with_progress(py, progress, numbers, move |go_on| verifying.run(go_on));
    let (verified, found) = done.map_err(|error| with_time_hint(at, error))?;
    let damages = found.warn(py)?;
    report_of(py, &verified, allow_extra, &damages)
}

/// What is to be verified.
struct Verifying {
    trees: Vec<PathBuf>,
    against: Option<PathBuf>,
    given: VerifyGiven,
    open: OpenGiven,
    fetching: Fetching,
    items: Option<Py<PyAny>>,
}

impl Verifying {
    fn run(self, go_on: &mut GoOn<'_, 3>) -> PyResult<(Verified, Found)> {
        let Self { trees, against, mut given, open, fetching, items } = self;
        let mut opening = Opening::new(open, &fetching)?;
        // What a callable raised ends everything.
        let is_of_system = |error: &PyErr| Python::attach(|py| error.is_instance_of::<PyOSError>(py));
        let in_words = |error: &PyErr| Python::attach(|py| error.value(py).to_string());
        (given.trees, given.unopened) = open_each(
            &trees,
            |path| opening.open(path.clone(), go_on),
            |error| !is_of_system(error),
            in_words,
        )?;
        given.against = against.map(|path| opening.open(path, go_on)).transpose()?;
        let mut events = Events(Hearing::new(go_on, items));
        let verified = given.run(&mut events);
        Ok((events.0.or_raised(|| verified.or_raise())?, opening.found()))
    }
}

/// Passes events to callables.
struct Events<'a, 'b>(Hearing<'a, 'b>);

impl VerifyEvents for Events<'_, '_> {
    fn go_on(&mut self, at: &Progress) -> bool {
        self.0.goes_on(at.files, at.bytes, at.total_bytes)
    }

    fn found(&mut self, finding: &Finding) {
        self.0.item(|py| item_of(py, finding));
    }
}

fn item_of<'py>(py: Python<'py>, finding: &Finding) -> PyResult<Bound<'py, PyAny>> {
    let digests = finding.digests.iter().map(|digest| (digest.kind.name(), digest.to_string()));
    report!(
        py, "stook._types", "VerifyItem",
        finding {},
        tree: finding.subject,
        key: text_of(py, &finding.key)?,
        outcome: finding.outcome.name(),
        kind: finding.kind.to_string(),
        size: finding.len,
        digests: digests.into_py_dict(py)?,
    )
}

fn report_of<'py>(
    py: Python<'py>,
    done: &Verified,
    allow_extra: bool,
    met: &[Damage],
) -> PyResult<Bound<'py, PyAny>> {
    let trees: PyResult<Vec<_>> = done.report.subjects.iter().map(|one| tree_of(py, one)).collect();
    let lists: PyResult<Vec<_>> = done.lists.iter().map(|one| list_of(py, one)).collect();
    let made = done.made.iter().map(|one| {
        report!(
            py, "stook._types", "MadeList",
            one { path, files },
            tree: one.subject,
            hash: one.kind.map(stook::hash::HashKind::name),
        )
    });
    report!(
        py, "stook._types", "VerifyReport",
        done {},
        trees: trees?,
        lists: lists?,
        made: made.collect::<PyResult<Vec<_>>>()?,
        removed: done.removed.clone(),
        wrong: done.wrong(allow_extra),
        failures: failures(py, &done.failures)?,
        damages: damages(py, met)?,
    )
}

fn tree_of<'py>(py: Python<'py>, one: &SubjectReport) -> PyResult<Bound<'py, PyAny>> {
    let mismatching = one.mismatching.iter().map(|mismatch| {
        let (expected, found) = mismatch.difference.sides();
        report!(
            py, "stook._types", "Mismatch",
            mismatch { offset },
            key: text_of(py, &mismatch.key)?,
            difference: mismatch.difference.name(),
            hash: mismatch.difference.hash().map(|kind| kind.name()),
            expected: expected,
            found: found,
            like_other: mismatch.is_like_other,
            bad: ranges_of(mismatch.bad.as_ref()),
        )
    });
    let unreadable = one.unreadable.iter().map(|unreadable| {
        report!(
            py, "stook._types", "Unreadable",
            unreadable { offset },
            key: text_of(py, &unreadable.key)?,
            error: stook::error::chain(&unreadable.error),
            bad: ranges_of(unreadable.bad.as_ref()),
        )
    });
    report!(
        py, "stook._types", "VerifiedTree",
        one { path, matching, matching_bytes, directories, new, read_bytes },
        mismatching: mismatching.collect::<PyResult<Vec<_>>>()?,
        missing: keys(py, &one.missing)?,
        extra: keys(py, one.extra.iter().map(|extra| &extra.key))?,
        unreadable: unreadable.collect::<PyResult<Vec<_>>>()?,
        direct_bytes: one.passage.direct_bytes,
        cached_bytes: one.passage.cached_bytes,
        past_cache: one.is_past_cache(),
    )
}

/// Where the bad blocks of a file are: the first byte of each range, and the one after its last.
pub(crate) fn ranges_of(bad: Option<&BadBlocks>) -> Vec<(u64, u64)> {
    let ranges = bad.iter().flat_map(|bad| &bad.ranges);
    ranges.map(|range| (range.start(), range.end())).collect()
}

fn list_of<'py>(py: Python<'py>, one: &ListReport) -> PyResult<Bound<'py, PyAny>> {
    let problems: Vec<_> = one.problems.iter().map(|problem| (problem.line, &problem.what)).collect();
    report!(
        py, "stook._types", "ReadList",
        one { path, date_ns, lines, bad_lines },
        tree: one.subject,
        problems: problems,
        dos: one.is_dos,
        future: one.is_of_future,
    )
}
