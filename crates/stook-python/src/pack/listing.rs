//! Methods of `Pack` that read metadata of records only.

use pyo3::prelude::*;
use stook::ops::heads::{ChildHead, heads_by_key, list_directory};
use stook::pack::{self, Key};

use super::pack::Pack;
use super::reading::keys_of;
use super::stat::Stat;
use crate::errors::{OrRaise as _, invalid};
use crate::key;
use crate::wait::on_this_thread;

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
        Ok(stats_by_key(py, &*self.reader(py)?, &[key::from_python(key)?])?.pop().flatten())
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
        let reader = self.reader(py)?;
        let list = || on_this_thread(|go_on| list_directory(&reader, path, &mut || go_on([])).or_raise());
        let stat = |child| match child {
            ChildHead::Directory(key) => Stat::of_directory(key),
            ChildHead::Record(head) => Stat::of(&reader, head),
        };
        Ok(py.detach(list)?.into_iter().map(stat).collect())
    }
}

fn stats_by_key(py: Python<'_>, reader: &pack::Pack, keys: &[Key]) -> PyResult<Vec<Option<Stat>>> {
    let heads = || on_this_thread(|go_on| heads_by_key(reader, keys, &mut || go_on([])).or_raise());
    let stat = |head: Option<_>| head.map(|head| Stat::of(reader, head));
    Ok(py.detach(heads)?.into_iter().map(stat).collect())
}
