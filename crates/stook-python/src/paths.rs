//! Paths: `str`, `bytes`, or what `os.fspath` takes. An empty one is a variable that is not set,
//! and no path.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::invalid;
use crate::numbers::named;

/// The path that an argument says, whose name is reported where it is empty.
pub(crate) fn argument(name: &str, value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let decoded = value.py().import("os")?.call_method1("fsdecode", (value,));
    let path: PathBuf = decoded.map_err(|error| named(value.py(), name, error))?.extract()?;
    match path.as_os_str().is_empty() {
        true => Err(invalid(format!("argument '{name}': the path is empty (is a variable not set?)"))),
        false => Ok(path),
    }
}

/// The paths that an argument says: one, or several in a list.
pub(crate) fn one_or_several(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<PathBuf>> {
    // Bytes and texts can be gone through, too, and are one path each.
    let is_one = value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBytes>()
        || value.hasattr("__fspath__")?;
    match is_one {
        true => Ok(vec![argument(name, value)?]),
        false => {
            let several = value.try_iter().map_err(|error| named(value.py(), name, error))?;
            several.map(|one| argument(name, &one?)).collect()
        }
    }
}

/// What converts arguments by their names: `from_py_with` is not told which one it converts.
macro_rules! arguments {
    ($($name:ident)+) => {$(
        #[doc = concat!("The argument `", stringify!($name), "`.")]
        pub(crate) fn $name(value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
            argument(stringify!($name), value)
        }
    )+};
}

arguments! {
    directory
    new
    pack
    path
}
