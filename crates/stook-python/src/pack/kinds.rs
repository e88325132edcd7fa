//! The argument `kinds`: which kinds of records are selected.

use pyo3::prelude::*;
use pyo3::types::PyString;
use stook::pack::{FileKind, Kinds};

use crate::errors::invalid;

/// Parses `"file"`, `"directory"`, `"symlink"`, several of them, or `"all"`.
pub(crate) fn kinds_of(kinds: Option<&Bound<'_, PyAny>>, default: Kinds) -> PyResult<Kinds> {
    let Some(kinds) = kinds else { return Ok(default) };
    let names: Vec<String> = match kinds.cast::<PyString>() {
        Ok(one) => vec![one.to_str()?.to_owned()],
        Err(_) => kinds.try_iter()?.map(|one| one?.extract()).collect::<PyResult<_>>()?,
    };
    let mut all = Kinds { files: false, directories: false, symlinks: false };
    for name in &names {
        match name.as_str() {
            "file" => all.files = true,
            "directory" => all.directories = true,
            "symlink" => all.symlinks = true,
            "all" => all = Kinds::ALL,
            other => {
                return Err(invalid(format!(
                    "kinds are 'file' (further names of files are files, too), 'directory', 'symlink' or 'all', not {other:?}"
                )));
            }
        }
    }
    match names.is_empty() {
        true => Err(invalid("kinds are one or more, not none")),
        false => Ok(all),
    }
}

/// The name of a kind; a record without one is a file.
pub(crate) fn name_of(kind: Option<FileKind>) -> &'static str {
    kind.unwrap_or(FileKind::File).as_str()
}
