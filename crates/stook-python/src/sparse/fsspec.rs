//! Functions for `stook.fsspec` and `stook.open`: identities of files of other file systems,
//! parsing and redaction of addresses.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use stook::ops::contents;
use stook::source::Described;

use super::options::parse;
use crate::errors::OrRaise as _;

/// What a file system says of a state of a file: ``(signs, proof, wait)``.
///
/// Args:
///     fields: What it says, by the names that it has for it.
///     is_page: Whether it is a web server, whose ETags are not reliable.
///
/// Returns:
///     All that distinguishes states, or ``None`` where nothing does; what follows the content, or
///     ``None``; and the seconds after which it is to be asked again, because no change can then
///     leave all as it is: 0 where none can now, ``None`` where one always could.
#[pyfunction]
#[pyo3(signature = (fields, is_page, /))]
pub(crate) fn described(
    fields: BTreeMap<String, String>,
    is_page: bool,
) -> (Option<String>, Option<String>, Option<f64>) {
    let reported = Described::new(fields, is_page);
    (reported.signs(), reported.proof(), reported.wait().map(|wait| wait.as_secs_f64()))
}

/// Who asks a file system of this kind that was made with these arguments and options, without
/// their secrets.
#[pyfunction]
#[pyo3(signature = (kind, arguments, options, /))]
pub(crate) fn who_asks(kind: &str, arguments: Vec<String>, options: BTreeMap<String, String>) -> String {
    let options = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    stook::source::who_asks(kind, &arguments, options)
}

/// The path that an address means: what follows ``file://``, or all of it where it has no
/// scheme; ``None`` for an object on a server.
///
/// Raises:
///     AddressError: It means nothing.
#[pyfunction]
#[pyo3(signature = (address, /))]
pub(crate) fn local_path(address: OsString) -> PyResult<Option<OsString>> {
    Ok(stook::source::local_path(address).or_raise()?.map(PathBuf::into_os_string))
}

/// A pack and a key in one path; an empty key where the pack itself is meant.
#[pyfunction]
#[pyo3(signature = (path, /))]
pub(crate) fn split_pack_path(path: OsString) -> (OsString, OsString) {
    let (pack, key) = contents::split_pack_path(&path);
    (pack.to_owned(), key.to_owned())
}

/// Whether there are files of a pack in a directory.
#[pyfunction]
#[pyo3(signature = (directory, /))]
pub(crate) fn has_pack(directory: PathBuf) -> bool {
    contents::has_pack(&directory)
}

/// A text without what may be a secret in the addresses that are in it: users, passwords, queries.
#[pyfunction]
#[pyo3(signature = (text, /))]
pub(crate) fn shown_in(text: &str) -> String {
    stook::source::shown_in(text)
}

/// Raises what :class:`SparseFile` would raise for these options, before there is anything to open.
#[pyfunction]
#[pyo3(signature = (options, /))]
pub(crate) fn check_sparse_options(options: &Bound<'_, PyDict>) -> PyResult<()> {
    parse(Some(options)).map(drop)
}
