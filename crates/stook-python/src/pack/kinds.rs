//! The argument `kinds`: which kinds of records are selected.

use pyo3::prelude::*;
use pyo3::types::PyString;
use stook::pack::{FileKind, Kinds};

use crate::arguments::iter_of;
use crate::errors::OrRaise as _;

/// Parses `"file"`, `"directory"`, `"symlink"`, several of them, or `"all"`.
pub(crate) fn kinds_of(kinds: Option<&Bound<'_, PyAny>>, default: Kinds) -> PyResult<Kinds> {
    let Some(kinds) = kinds else { return Ok(default) };
    let names: Vec<String> = match kinds.cast::<PyString>() {
        Ok(one) => vec![one.to_str()?.to_owned()],
        Err(_) => iter_of("kinds", kinds)?.map(|one| one?.extract()).collect::<PyResult<_>>()?,
    };
    Kinds::named(names.iter().map(String::as_str)).or_raise()
}

/// The name of a kind; a record without one is a file.
pub(crate) fn name_of(kind: Option<FileKind>) -> &'static str {
    kind.unwrap_or(FileKind::File).as_str()
}
