//! `stook.pack_tree`: trees of files into packs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::prelude::*;
use stook::import::{self, are_archives};
use stook::pack::tree::{Delete, Grouping, PackSummary, PackTree};
use stook::pack::{Error, OpenOptions, Pack, PackWriter, Recovery, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook::walk::Decision;

use super::info;
use crate::errors::{OrRaise as _, invalid, warn_of, warn_of_recovery};
use crate::key::text_of;
use crate::numbers;
use crate::paths;
use crate::wait::ProgressReporter;

/// Packs trees of files; run again, adds only what is new or changed.
///
/// Keeps paths, modes, times, links, empty directories and, as root, owners. Links are never followed.
///
/// Args:
///     sources: A directory, or several in a list: then keys begin with the name of each.
///     pack: The pack: made if it is not there.
///     group: The group to put everything into; else the default group.
///     delete: Whether records of files that are gone from the tree are deleted; with ``group``, in that group only. None is
///         if that would be more than half of the files of one of its roots, or if files were moved into the pack.
///     max_delete: With ``delete``: how many records may be deleted all the same.
///     force: With ``delete``: however many records are deleted.
///     checksum: Whether the bytes of every file are compared, whatever its times say. What is damaged in the pack is packed
///         again.
///     select: Called with the path of everything that is met, relative to its root; what it says ``False`` to is not packed.
///         Directories are entered all the same: ``lambda path: path.endswith(".jpg")`` finds pictures anywhere.
///     exclude: Called with the same paths, before ``select``; what it says ``True`` to is left out, directories with all
///         that is in them.
///     as_file: Whether a source that is an archive, or a pack, is packed as what it is, one file or several.
///     threads: Threads that walk and read.
///     progress: Called now and then with the entries and bytes so far. ``True`` shows a bar with tqdm.
///
/// Returns:
///     A `PackTreeReport`. What could not be read is in its ``failures``; the rest is packed.
///
/// Raises:
///     OSError: A source cannot be opened, or the pack cannot be written.
///     stook.InvalidError: More records would have been deleted than may be, or the sources cannot be those that the pack was
///         made from: nothing is packed then. Or ``select`` took nothing, or a source is an archive or a pack.
///
/// A pack that was made for this is removed again when ``select``, ``exclude`` or ``progress`` raises, or nothing is selected.
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
#[pyo3(signature = (sources, pack, *, group=None, delete=false, max_delete=None, force=false, checksum=false, select=None, exclude=None, as_file=false, threads=128, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn pack_tree<'py>(
    py: Python<'py>,
    sources: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = paths::pack)] pack: PathBuf,
    group: Option<&str>,
    delete: bool,
    #[pyo3(from_py_with = numbers::max_delete)] max_delete: Option<u64>,
    force: bool,
    checksum: bool,
    select: Option<&Bound<'py, PyAny>>,
    exclude: Option<&Bound<'py, PyAny>>,
    as_file: bool,
    #[pyo3(from_py_with = numbers::threads)] threads: usize,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let roots = paths::one_or_several("sources", sources)?;
    if roots.is_empty() || !(1..=1024).contains(&threads) {
        return Err(invalid("at least one source and 1 to 1024 threads are wanted"));
    }
    let delete = delete_of(delete, max_delete, force)?;
    if !as_file {
        refuse_archives(&roots)?;
    }
    let callback = progress_of(progress)?;
    let selected = Selecting::new(select, exclude)?;
    let mut reporter = ProgressReporter::new(callback);
    let packed = py.detach(|| {
        let mut tree = PackTree {
            roots,
            grouping: group.map_or(Grouping::Default, |group| Grouping::Named(group.to_owned())),
            with_owner: rustix::process::geteuid().is_root(),
            threads,
            select: Box::new(|key, _| selected.decide(key)),
            own: pack.exists().then(|| pack.clone()),
            delete,
            checksum,
        };
        if !as_file {
            tree.check_no_packs().or_raise()?;
        }
        pack_into(&mut tree, &pack, &selected, &mut reporter)
    });
    if let Some(error) = selected.into_error() {
        // What could not be taken back is told with what it came of.
        if let Err(left) = packed {
            left.set_cause(py, Some(error));
            return Err(left);
        }
        return Err(error);
    }
    if let Err(error) = reporter.finish() {
        if let Err(left) = packed {
            error.set_cause(py, Some(left));
        }
        return Err(error);
    }
    let (packed, recovery) = packed?;
    warn_of_recovery(py, &pack, &recovery.notes())?;
    let (summary, damages) = (packed.or_raise()?, recovery.damages);
    warn_of(py, &pack, &damages)?;
    if let Some(why) = &summary.refused {
        return Err(invalid(format!("{why}; max_delete or force deletes them")));
    }
    info::pack_report(py, &summary, &damages)
}

/// An archive would become one record, which is hardly what somebody wants.
fn refuse_archives(roots: &[PathBuf]) -> PyResult<()> {
    let instead = "`stook pack` on the command line packs what is in it, and as_file=True the file";
    match are_archives(roots) {
        Ok(false) => Ok(()),
        Ok(true) => Err(invalid(format!("{} is an archive: {instead}", text_of_paths(roots)))),
        Err(import::Error::Mixed) => {
            Err(invalid(format!("one of {} is an archive: {instead}", text_of_paths(roots))))
        }
        Err(error @ import::Error::NotImported { .. }) => Err(invalid(format!("{error} with as_file=True"))),
        Err(other) => Err(invalid(other.to_string())),
    }
}

fn text_of_paths(paths: &[PathBuf]) -> String {
    let all: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    all.join(", ")
}

/// How many records may be deleted. What is said of that without `delete` would be without effect.
fn delete_of(delete: bool, max_delete: Option<u64>, force: bool) -> PyResult<Delete> {
    Ok(match (delete, max_delete, force) {
        (false, None, false) => Delete::Nothing,
        (false, Some(_), _) => {
            return Err(invalid("max_delete says how much delete=True may delete, which is missing"));
        }
        (false, None, true) => {
            return Err(invalid("force says how much delete=True may delete, which is missing"));
        }
        (true, Some(_), true) => return Err(invalid("either max_delete or force, not both")),
        (true, None, true) => Delete::Any,
        (true, Some(max), false) => Delete::UpTo(max),
        (true, None, false) => Delete::UpToHalf,
    })
}

/// What `progress` says: a callable, or `True` for a bar.
pub(super) fn progress_of(progress: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    let Some(progress) = progress else { return Ok(None) };
    match progress.extract::<bool>() {
        Ok(false) => Ok(None),
        Ok(true) => Ok(Some(progress.py().import("stook._progress")?.getattr("bar")?.call0()?.unbind())),
        Err(_) if progress.is_callable() => Ok(Some(progress.clone().unbind())),
        Err(_) => Err(invalid("progress is a callable, True or False")),
    }
}

/// Callables that select what is packed; threads of the walk call them.
struct Selecting {
    select: Option<Py<PyAny>>,
    exclude: Option<Py<PyAny>>,
    error: std::sync::Mutex<Option<PyErr>>,
    /// How many paths `select` was asked about.
    asked: AtomicU64,
    /// Whether it took one of them.
    took: AtomicBool,
}

impl Selecting {
    /// They must be callable before anything is made.
    fn new(select: Option<&Bound<'_, PyAny>>, exclude: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        for (name, given) in [("select", select), ("exclude", exclude)] {
            if given.is_some_and(|given| !given.is_callable()) {
                return Err(invalid(format!("{name} is called with paths, and so must be a callable")));
            }
        }
        let own = |given: Option<&Bound<'_, PyAny>>| given.map(|given| given.clone().unbind());
        Ok(Self {
            select: own(select),
            exclude: own(exclude),
            error: std::sync::Mutex::default(),
            asked: AtomicU64::new(0),
            took: AtomicBool::new(false),
        })
    }

    /// As of the command line: an exclusion prunes; a selection cannot, for what it wants may be below.
    fn decide(&self, key: &[u8]) -> Decision {
        if self.select.is_none() && self.exclude.is_none() {
            return Decision::Take;
        }
        let decided = Python::attach(|py| {
            let path = text_of(py, key)?;
            let says = |callable: &Py<PyAny>| callable.call1(py, (&path,))?.is_truthy(py);
            Ok(match (&self.exclude, &self.select) {
                (Some(exclude), _) if says(exclude)? => Decision::Prune,
                (_, Some(select)) => {
                    self.asked.fetch_add(1, Ordering::Relaxed);
                    if says(select)? { Decision::Take } else { Decision::Skip }
                }
                _ => Decision::Take,
            })
        });
        if matches!(&decided, Ok(Decision::Take)) {
            self.took.store(true, Ordering::Relaxed);
        }
        decided.unwrap_or_else(|error| {
            let mut first = self.error.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            first.get_or_insert(error);
            Decision::Prune
        })
    }

    /// Whether one of them raised.
    fn has_failed(&self) -> bool {
        self.error.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_some()
    }

    /// How many paths `select` was asked about, if it took none of them: one that is misspelt, or gives nothing, looks just
    /// like it. What is excluded is so on purpose, and not asked about.
    fn took_none_of(&self) -> Option<u64> {
        let asked = self.asked.load(Ordering::Relaxed);
        (asked > 0 && !self.took.load(Ordering::Relaxed) && !self.has_failed()).then_some(asked)
    }

    fn into_error(self) -> Option<PyErr> {
        self.error.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Why packing was in vain: `select` took nothing, and nothing else was met.
fn nothing_of(
    tree: &PackTree<'_>,
    packed: &stook::pack::Result<PackSummary>,
    selected: &Selecting,
) -> Option<PyErr> {
    let summary = packed.as_ref().ok()?;
    // A file that is named itself is packed without being asked for.
    let is_all_asked = tree.roots.iter().all(|root| root.is_dir());
    if summary.interrupted || !summary.failures.is_empty() || !is_all_asked {
        return None;
    }
    let asked = selected.took_none_of()?;
    let roots: Vec<String> = tree.roots.iter().map(|root| root.display().to_string()).collect();
    Some(invalid(format!("select took none of the {asked} paths below {}", roots.join(" and "))))
}

/// Packs, and leaves the pack marked as complete if it is. Where a callable that selects or is told of progress raises, or
/// nothing is selected, a pack that was made for this is taken back, as for any other wrong argument.
fn pack_into(
    tree: &mut PackTree<'_>,
    path: &PathBuf,
    selected: &Selecting,
    reporter: &mut ProgressReporter,
) -> PyResult<(stook::pack::Result<PackSummary>, Recovery)> {
    for root in &tree.roots {
        // Before anything is made.
        root.symlink_metadata().map_err(|error| stook::Error::io("read", root, error)).or_raise()?;
    }
    tree.check().or_raise()?;
    let Opened { mut writer, before, made } = open_for_tree(tree, path)?;
    let recovery = writer.recovery().clone();
    tree.own = Some(path.clone());
    let packed = tree.run(Some(&mut writer), before.as_ref(), &mut |entries, bytes| {
        reporter.go_on(&[entries, bytes]) && !selected.has_failed()
    });
    reporter.report_last();
    let nothing = nothing_of(tree, &packed, selected);
    let is_in_vain = nothing.is_some() || selected.has_failed() || reporter.has_failed();
    if let Some(made) = made.filter(|_| is_in_vain) {
        if writer.discard().or_raise()? && made.with_directory {
            let failed = |error| stook::Error::io("remove", path, error);
            stook::tree::remove_if_empty(path).map_err(failed).or_raise()?;
        }
        return nothing.map_or(Ok((packed, recovery)), Err);
    }
    if let Ok(summary) = &packed {
        // One that was refused packed nothing: an incomplete pack is no more complete for it.
        let was_complete = summary.refused.is_none() || before.as_ref().is_some_and(Pack::is_complete);
        let is_whole = !summary.interrupted && summary.failures.is_empty();
        let complete = is_whole && was_complete && !selected.has_failed();
        if complete {
            writer.set_complete(true);
        }
        let building = before.as_ref().is_none_or(|before| !before.is_complete());
        writer.finish(building && complete).or_raise()?;
    }
    nothing.map_or(Ok((packed, recovery)), Err)
}

/// A pack that trees go into.
struct Opened {
    writer: PackWriter,
    /// What was in it.
    before: Option<Pack>,
    /// What was made for it, if nothing was there.
    made: Option<Made>,
}

/// A pack that was made for this.
struct Made {
    /// Whether its directory was, too.
    with_directory: bool,
}

fn open_for_tree(tree: &PackTree<'_>, path: &PathBuf) -> PyResult<Opened> {
    let options = LocalStorageOptions::default();
    let there = path.exists();
    let storage = match there {
        true => LocalStorage::open(path, options),
        false => LocalStorage::create(path, options),
    };
    let storage = Arc::new(storage.or_raise()?);
    if there {
        match PackWriter::open(storage.clone(), WriterOptions::bulk()) {
            Ok(mut writer) => {
                let before = Pack::open_path(path, OpenOptions::default()).or_raise()?;
                writer.set_complete(false);
                writer.publish().or_raise()?;
                return Ok(Opened { writer, before: Some(before), made: None });
            }
            // Making one tells whether it can be made there.
            Err(Error::NotAPack { .. }) => {}
            Err(error) => return Err(error).or_raise(),
        }
    }
    let mut writer = PackWriter::create(storage, WriterOptions::bulk()).or_raise()?;
    let roots = tree.roots.iter().map(|root| root.clone().into_os_string().into_encoded_bytes());
    writer.set_roots(roots.collect());
    Ok(Opened { writer, before: None, made: Some(Made { with_directory: !there }) })
}
