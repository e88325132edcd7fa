//! `stook.check` and `stook.repair`.

use std::path::PathBuf;

use pyo3::prelude::*;
use stook::ops;

use super::info;
use crate::choices;
use crate::errors::{OrRaise as _, Raise};
use crate::paths;
use crate::wait::with_progress;

/// Runs work whose argument `progress` takes the bytes so far and in total.
pub(super) fn with_bytes<T: Send + 'static, E: Raise>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&mut dyn FnMut(u64, u64) -> bool) -> Result<T, E> + Send + 'static,
) -> PyResult<T> {
    with_progress(py, progress, ["bytes", "total"], move |go_on| {
        work(&mut |done, total| go_on([done, total])).or_raise()
    })
}

/// Checks what is left of a pack, also where it cannot be opened: by an older manifest, or by its
/// segments alone.
///
/// Where a `Pack` is open, `Pack.check` checks the state that it shows.
///
/// Args:
///     pack: The pack.
///     accept: Whether a pack that is incomplete, and has no damage, is called complete as it is:
///         for one whose sources are gone. Then nothing else may write to it meanwhile.
///     progress: Called now and then with the bytes gone through and all there are, on another
///         thread. ``True`` shows a bar with tqdm.
///
/// Returns:
///     A `CheckReport`. Damage is not an exception here; it is what the report is for.
///
/// Raises:
///     FileNotFoundError: There is nothing at ``pack``.
///     stook.NotAPackError: What is at ``pack`` is no pack.
///
/// Examples:
///     >>> import stook
///     >>> with stook.Pack("data.stook", "a") as pack:
///     ...     pack["one"] = b"first"
///     >>> stook.check("data.stook").ok
///     True
#[pyfunction]
#[pyo3(signature = (pack, *, accept=false, progress=None))]
pub(crate) fn check<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = paths::pack)] pack: PathBuf,
    #[pyo3(from_py_with = choices::accept)] accept: bool,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let report = with_bytes(py, progress, move |go_on| match accept {
        true => ops::check::accept(&pack, &mut (), go_on),
        false => ops::check::check(&pack, &mut |_| {}, go_on),
    })?;
    info::check_report(py, &report)
}

/// Writes all that is whole and counts in a pack into a new one, in the order of the keys. The pack
/// stays as it is.
///
/// What cannot be read is copied into a directory ``<new>.quarantine``, with a report of where it
/// was. Hard links of files that are lost go there, too, and are not in the new pack: each is
/// reported as damage.
///
/// Args:
///     pack: The pack.
///     new: The new pack. Nothing may be there.
///     progress: Called now and then with the bytes gone through and all there are, on another
///         thread. ``True`` shows a bar with tqdm. What it raises ends the repair, and nothing is
///         left of it.
///
/// Returns:
///     A `RepairReport`.
///
/// Raises:
///     FileNotFoundError: There is nothing at ``pack``.
///     stook.NotAPackError: What is at ``pack`` is no pack.
///     stook.ExistsError: Something is at ``new``, or has the name of its quarantine.
///
/// Examples:
///     >>> import stook
///     >>> with stook.Pack("data.stook", "a") as pack:
///     ...     pack["one"] = b"first"
///     >>> stook.repair("data.stook", "saved.stook").records
///     1
#[pyfunction]
#[pyo3(signature = (pack, new, *, progress=None))]
pub(crate) fn repair<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = paths::pack)] pack: PathBuf,
    #[pyo3(from_py_with = paths::new)] new: PathBuf,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let report = with_bytes(py, progress, move |go_on| ops::repair::repair(&pack, &new, go_on))?;
    info::repair_report(py, &report)
}
