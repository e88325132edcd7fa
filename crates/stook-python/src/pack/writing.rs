//! Writing methods of `Pack`.

use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyTuple};
use stook::ops::compact::Compact;
use stook::pack::PackWriter;

use super::attributes;
use super::batch::Batch;
use super::info;
use super::pack::Pack;
use super::reading::groups_of;
use crate::choices;
use crate::errors::{OrRaise as _, invalid};
use crate::key;
use crate::memory::{Given, Settled, bytes_of};
use crate::numbers;
use crate::wait::{ProgressReporter, callback_of, interruptible, with_progress};

#[pymethods]
impl Pack {
    fn __setitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(py, key, value, None, "").map(|_| ())
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.delete(py, key)? {
            true => Ok(()),
            false => Err(key::missing(key)),
        }
    }

    /// Puts a record, in place of any older one with this key.
    ///
    /// Args:
    ///     key: The key.
    ///     value: The value: `bytes` or anything with a buffer in one piece.
    ///     attributes: Small values that go with it, by name: ``int``, ``str`` or ``bytes``. The
    ///         names ``kind``, ``mode``, ``mtime_ns``, ``user_id``, ``group_id``, ``names``,
    ///         ``ctime_ns`` and ``inode`` are those of packed files, and take what those have.
    ///     group: The group to put it into.
    ///
    /// Returns:
    ///     Its sequence number. When the record is safe, ``durability`` says. After Ctrl-C a long
    ///     value may still be written: it is whole or not there.
    ///
    /// Raises:
    ///     OSError: The disk is full or fails. After a failed write the pack must be opened again.
    ///
    /// Examples:
    ///     >>> import stook
    ///     >>> pack = stook.Pack("data.stook", "a")
    ///     >>> sequence = pack.put("cat.jpg", b"...", attributes={"label": "cat", "width": 640})
    ///     >>> pack.record("cat.jpg").attributes
    ///     {'label': 'cat', 'width': 640}
    ///     >>> pack.close()
    #[pyo3(signature = (key, value, *, attributes=None, group=""))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        attributes: Option<&Bound<'_, PyMapping>>,
        #[pyo3(from_py_with = choices::group)] group: &str,
    ) -> PyResult<u64> {
        let (writer, key) = (self.writer()?, key::from_python(key)?);
        let (value, attributes) = (Given::new(value)?.settled(py), attributes::from_python(attributes)?);
        let group = group.to_owned();
        at_once_or_watched(py, value, move |value| writer.put(&group, &key, &attributes, value))?.or_raise()
    }

    /// Puts a record under the next id: above all that there are, 0 in a pack without ids.
    ///
    /// Args:
    ///     value: The value.
    ///     attributes: Small values that go with it, by name.
    ///     group: The group to put it into.
    ///
    /// Returns:
    ///     The id.
    ///
    /// Examples:
    ///     >>> import stook
    ///     >>> pack = stook.Pack("log.stook", "a")
    ///     >>> pack.append(b"first"), pack.append(b"second")
    ///     (0, 1)
    ///     >>> pack.close()
    #[pyo3(signature = (value, *, attributes=None, group=""))]
    fn append(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        attributes: Option<&Bound<'_, PyMapping>>,
        #[pyo3(from_py_with = choices::group)] group: &str,
    ) -> PyResult<u64> {
        let writer = self.writer()?;
        let (value, attributes) = (Given::new(value)?.settled(py), attributes::from_python(attributes)?);
        let (group, settings) = (group.to_owned(), self.settings.clone());
        let open = move || settings.open_reader();
        at_once_or_watched(py, value, move |value| writer.append(&group, &attributes, value, open))?
            .or_raise()
    }

    /// Deletes a record.
    ///
    /// Args:
    ///     key: The key.
    ///
    /// Returns:
    ///     Whether there was one.
    #[pyo3(signature = (key))]
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (writer, key) = (self.writer()?, key::from_python(key)?);
        py.detach(|| writer.delete(&key)).or_raise()
    }

    /// Deletes a record and gives its value.
    ///
    /// Args:
    ///     key: The key.
    ///     default: What is returned if there is none; without it that is a ``KeyError``.
    ///
    /// Returns:
    ///     The value that it had.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err("pop takes a key and at most one default"));
        }
        let (writer, wanted) = (self.writer()?, key::from_python(key)?);
        let popped = py.detach(|| {
            let get = || {
                let Some(reader) = self.reader_now() else { return Ok(None) };
                Ok(reader.get_file(&wanted)?.map(|record| record.body))
            };
            writer.pop(&wanted, || self.open_again(), get)
        });
        match popped.or_raise()? {
            Some(value) => Ok(bytes_of(py, &value)?.into_any()),
            None if default.is_empty() => Err(key::missing(key)),
            None => default.get_item(0),
        }
    }

    /// Puts many records.
    ///
    /// Args:
    ///     records: A mapping, or pairs of keys and values.
    ///     group: The group to put them into.
    ///     progress: Called now and then with the records so far; what it raises ends it. ``True``
    ///         shows a bar with tqdm.
    #[pyo3(signature = (records, *, group="", progress=None))]
    fn update(
        &self,
        py: Python<'_>,
        records: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = choices::group)] group: &str,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let mut reporter = ProgressReporter::new(callback_of(progress, &["records"])?);
        let pairs = match records.cast::<PyMapping>() {
            Ok(mapping) => mapping.items()?.into_any(),
            Err(_) => records.clone(),
        };
        for (number, pair) in (1..).zip(pairs.try_iter()?) {
            py.check_signals()?;
            let (key, value) = pair?.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
            self.put(py, &key, &value, None, group)?;
            if !reporter.go_on(&[number]) {
                break;
            }
        }
        reporter.finish()
    }

    /// Puts and deletions that count together or not at all, whatever happens.
    ///
    /// Use it in a ``with`` statement: when its body ends all of it is written, after an exception
    /// nothing. What is put is kept in memory until then.
    ///
    /// Args:
    ///     group: The group to put records into.
    ///
    /// Returns:
    ///     A `Batch` with ``put`` and ``delete``.
    ///
    /// Examples:
    ///     >>> import stook
    ///     >>> pack = stook.Pack("data.stook", "a")
    ///     >>> with pack.batch() as batch:
    ///     ...     batch.put("a", b"1")
    ///     ...     batch.put("b", b"2")
    ///     >>> pack.get_many(["a", "b"])
    ///     [b'1', b'2']
    ///     >>> pack.close()
    #[pyo3(signature = (*, group=""))]
    fn batch(&self, #[pyo3(from_py_with = choices::group)] group: &str) -> PyResult<Batch> {
        Ok(Batch::new(self.writer()?, group.to_owned()))
    }

    /// Puts everything that was written so far on the medium.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let writer = self.writer()?;
        py.detach(|| writer.with(|writer| writer.sync())).or_raise()
    }

    /// Rewrites the live records, in the order of their keys, and removes the rest.
    ///
    /// Args:
    ///     keep_seconds: Versions that died less long ago stay readable through ``at``.
    ///     max_dead: Only groups in which at least this share of bytes, 0 to 1, is dead.
    ///     extra_bytes: Room that a step may take on top of what is there; by default half of what
    ///         is free, at most 16 GiB. Segments that need more are left as they are.
    ///     group: Only this group, or these.
    ///     progress: Called now and then with the bytes written so far, on another thread. It may
    ///         read the pack, not change it. ``True`` shows a bar with tqdm.
    ///
    /// Returns:
    ///     A `CompactReport`.
    ///
    /// Raises:
    ///     OSError: With ``errno.ENOSPC``: a step would need more room than is free. Nothing was
    ///         changed.
    #[pyo3(signature = (*, keep_seconds=0.0, max_dead=None, extra_bytes=None, group=None, progress=None))]
    fn compact<'py>(
        &self,
        py: Python<'py>,
        keep_seconds: f64,
        max_dead: Option<f64>,
        #[pyo3(from_py_with = numbers::extra_bytes)] extra_bytes: Option<u64>,
        group: Option<&Bound<'_, PyAny>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keep = Duration::try_from_secs_f64(keep_seconds)
            .map_err(|_| invalid(format!("keep_seconds is 0 or more, not {keep_seconds}")))?;
        if max_dead.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err(invalid("max_dead is a share from 0 to 1"));
        }
        let compacting = Compact {
            groups: groups_of(group)?,
            keep,
            max_dead,
            extra_len: extra_bytes,
            ..Compact::default()
        };
        let writer = self.writer()?;
        let done = with_progress(py, progress, ["bytes"], move |go_on| {
            let run = |writer: &mut PackWriter| Ok(compacting.run(writer, &mut |bytes| go_on([bytes])));
            writer.with(run).or_raise()?.or_raise()
        })?;
        info::compact_report(py, &done)
    }
}

/// Signals are checked for while values longer than this are written.
const WATCHED_MIN: usize = 16 << 20;

/// Writes a value. A long one may still be written after Ctrl-C: it is whole or absent.
fn at_once_or_watched<T: Send + 'static>(
    py: Python<'_>,
    value: Settled,
    write: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> PyResult<T> {
    match value.as_ref().len() > WATCHED_MIN {
        true => interruptible(py, move || write(value.as_ref())),
        false => Ok(py.detach(|| write(value.as_ref()))),
    }
}
