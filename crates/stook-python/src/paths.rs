//! Paths: `str`, `bytes`, or what `os.fspath` takes. An empty path is refused: it usually comes
//! from a variable that is not set.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::arguments::{arguments, iter_of};
use crate::errors::invalid;
use crate::numbers::named;

/// The path of an argument; errors name the argument.
pub(crate) fn argument(name: &str, value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    of(value).map_err(|error| named(value.py(), name, error))
}

/// A path.
pub(crate) fn of(value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let path: PathBuf = value.py().import("os")?.call_method1("fsdecode", (value,))?.extract()?;
    match path.as_os_str().is_empty() {
        true => Err(invalid("the path is empty (is a variable not set?)")),
        false => Ok(path),
    }
}

/// The paths of an argument: a single path or an iterable of paths.
pub(crate) fn one_or_several(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<PathBuf>> {
    // `str` and `bytes` are iterable, but each is one path.
    let is_one = value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBytes>()
        || value.hasattr("__fspath__")?;
    match is_one {
        true => Ok(vec![argument(name, value)?]),
        false => iter_of(name, value)?.map(|one| argument(name, &one?)).collect(),
    }
}

/// The paths of an argument: one or more.
fn some(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<PathBuf>> {
    let paths = one_or_several(name, value)?;
    match paths.is_empty() {
        true => Err(invalid(format!("argument '{name}': at least one is wanted"))),
        false => Ok(paths),
    }
}

/// The path of an argument with this name, as ``str``. Errors name the argument.
#[pyfunction]
#[pyo3(signature = (name, path, /))]
pub(crate) fn path_argument(name: &str, path: &Bound<'_, PyAny>) -> PyResult<OsString> {
    argument(name, path).map(PathBuf::into_os_string)
}

arguments! {
    argument -> PathBuf: archive destination directory good layout new pack path
}

arguments! {
    some -> Vec<PathBuf>: folders sources trees
}
