//! Methods of `Pack` that read metadata of records only.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use rustix::io::Errno;
use stook::pack::{self, Key, KeyEntry};

use super::pack::Pack;
use super::reading::keys_of;
use super::stat::{HEADS_LEN, Stat, stats_of, stats_of_children};
use crate::errors::{OrRaise as _, invalid};
use crate::key;

#[pymethods]
impl Pack {
    /// What is known of a record without reading its value.
    ///
    /// Args:
    ///     key: The key.
    ///
    /// Returns:
    ///     A `Stat`, or ``None`` where there is no such record.
    ///
    /// Examples:
    ///     >>> import stook
    ///     >>> pack = stook.Pack("data.stook", "a")
    ///     >>> pack["a"] = b"123"
    ///     >>> pack.stat("a")
    ///     <stook.Stat 'a': file of 3 bytes>
    ///     >>> pack.close()
    #[pyo3(signature = (key))]
    fn stat(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<Stat>> {
        let key = key::from_python(key)?;
        stat_of(py, &*self.reader(py)?, &key)
    }

    /// The same for many records at once.
    ///
    /// Args:
    ///     keys: The keys, in any order.
    ///
    /// Returns:
    ///     For each key a `Stat`, or ``None``.
    #[pyo3(signature = (keys))]
    fn stats(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Stat>>> {
        stats_by_key(py, &*self.reader(py)?, &keys_of(keys)?)
    }

    /// What lies directly below a directory, where keys are paths with ``/`` between their parts.
    /// Directories are there whether they have records of their own or not; numeric keys lie in the
    /// topmost directory.
    ///
    /// Args:
    ///     directory: Its key, with or without a ``/`` at its end; ``""`` is the topmost one.
    ///
    /// Returns:
    ///     A `Stat` for each, in the order of the keys.
    ///
    /// Raises:
    ///     FileNotFoundError: There is no such directory.
    ///     NotADirectoryError: It is a file or a link.
    ///
    /// Examples:
    ///     >>> import stook
    ///     >>> pack = stook.Pack("data.stook", "a")
    ///     >>> pack.update({"a/1": b"x", "a/b/2": b"yy", "c": b"zzz"})
    ///     >>> pack.listdir()
    ///     [<stook.Stat 'a': directory of 0 bytes>, <stook.Stat 'c': file of 3 bytes>]
    ///     >>> pack.listdir("a")
    ///     [<stook.Stat 'a/1': file of 1 bytes>, <stook.Stat 'a/b': directory of 0 bytes>]
    ///     >>> pack.close()
    #[pyo3(signature = (directory=None))]
    #[pyo3(text_signature = "($self, directory='')")]
    fn listdir(&self, py: Python<'_>, directory: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Stat>> {
        let directory = directory.map(key::from_python).transpose()?;
        let path = match &directory {
            None => &[],
            Some(key) => key.as_bytes().ok_or_else(|| invalid("a directory is str or bytes, not int"))?,
        };
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let reader = self.reader(py)?;
        let children = py.detach(|| reader.children(path)).or_raise()?;
        if children.is_empty() && !path.is_empty() {
            check_empty(py, &reader, path)?;
        }
        stats_of_children(py, &reader, children)
    }
}

fn stat_of(py: Python<'_>, reader: &pack::Pack, key: &Key) -> PyResult<Option<Stat>> {
    Ok(stats_by_key(py, reader, std::slice::from_ref(key))?.pop().flatten())
}

fn stats_by_key(py: Python<'_>, reader: &pack::Pack, keys: &[Key]) -> PyResult<Vec<Option<Stat>>> {
    let mut all = Vec::with_capacity(keys.len());
    for batch in keys.chunks(HEADS_LEN) {
        let entries = py.detach(|| reader.locate(batch)).or_raise()?.into_iter();
        let entries: Vec<_> = entries.map(|entry| entry.or_raise()).collect::<PyResult<_>>()?;
        let known: Vec<KeyEntry> = entries.iter().flatten().cloned().collect();
        let mut stats = stats_of(py, reader, &known)?.into_iter();
        all.extend(entries.into_iter().map(|entry| entry.and_then(|_| stats.next())));
    }
    Ok(all)
}

/// Checks that a path without children is an empty directory.
fn check_empty(py: Python<'_>, reader: &pack::Pack, path: &[u8]) -> PyResult<()> {
    let key = Key::bytes(path).or_raise()?;
    let (errno, what) = match stat_of(py, reader, &key)? {
        Some(stat) if stat.is_directory() => return Ok(()),
        Some(_) => (Errno::NOTDIR, "this is no directory of the pack"),
        None => (Errno::NOENT, "the pack has no such directory"),
    };
    // `OSError` picks the subclass by the number.
    Err(PyOSError::new_err((errno.raw_os_error(), what, key::to_python(py, &key)?.unbind())))
}
