//! Writing methods of `Pack`.

use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use stook::ops::compact::Compact;
use stook::ops::delete::Deletion;
use stook::pack::{self, PackWriter, Stop};

use super::attributes;
use super::batch::Batch;
use super::info;
use super::input::Input;
use super::pack::Pack;
use super::reading::{groups_of, keys_of};
use super::selection::key_patterns;
use crate::arguments::{iter_of, shown};
use crate::choices;
use crate::errors::{OrRaise as _, invalid};
use crate::key;
use crate::memory::{Given, Settled};
use crate::numbers;
use crate::wait::{ProgressReporter, callback_of, interruptible, is_stopped, with_progress};

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
        attributes: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = choices::group)] group: &str,
    ) -> PyResult<u64> {
        let (writer, key) = (self.writer()?, key::from_python(key)?);
        let (value, attributes) = (Given::new(value)?.settled(py), attributes::from_python(attributes)?);
        let group = group.to_owned();
        at_once_or_watched(py, value, move |value| writer.put(&group, &key, &attributes, value))?.or_raise()
    }

    /// Puts what a file has, or what a stream gives until it ends, as a record: for values that are
    /// too long for memory, as ``stook put`` does.
    ///
    /// Args:
    ///     key: The key.
    ///     file: The path of a file, whose mode and modification time become attributes, and which
    ///         must not change meanwhile; or an object with ``read``, open in binary mode.
    ///     attributes: As for `put`; they take precedence over those of the file.
    ///     group: The group to put it into.
    ///     progress: Called now and then with the bytes so far, on another thread; what it raises
    ///         ends it, and nothing is put then. ``True`` shows a bar with tqdm.
    ///
    /// Returns:
    ///     Its sequence number.
    ///
    /// Raises:
    ///     OSError: The file cannot be read, or the pack cannot be written.
    ///     IsADirectoryError: It is a directory: `pack_tree` takes trees.
    ///     stook.SourceChangedError: The file changed while it was read. Nothing was put.
    ///
    /// Examples:
    ///     >>> import io, stook
    ///     >>> with stook.Pack("data.stook", "a") as pack:
    ///     ...     sequence = pack.put_file("digits", io.BytesIO(b"0123456789"))
    ///     ...     pack["digits"]
    ///     b'0123456789'
    #[pyo3(signature = (key, file, *, attributes=None, group="", progress=None))]
    fn put_file(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        file: &Bound<'_, PyAny>,
        attributes: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = choices::group)] group: &str,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let (writer, key, group) = (self.writer()?, key::from_python(key)?, group.to_owned());
        let (given, from) = (attributes::from_python(attributes)?, Input::new(file)?);
        with_progress(py, progress, ["bytes"], move |go_on| {
            let mut bytes = 0;
            let mut passed = |more| {
                bytes += more;
                if go_on([bytes]) { Ok(()) } else { Err(pack::Error::Stopped) }
            };
            from.with_body(given, |body, attributes| {
                let put = |writer: &mut PackWriter| body.put(writer, &group, &key, attributes, &mut passed);
                writer.with(put).or_raise()
            })
            .map(|(sequence, _)| sequence)
        })
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
        attributes: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = choices::group)] group: &str,
    ) -> PyResult<u64> {
        let writer = self.writer()?;
        let (value, attributes) = (Given::new(value)?.settled(py), attributes::from_python(attributes)?);
        let (group, settings) = (group.to_owned(), self.session.settings().clone());
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

    /// Deletes many records, all of them or none: those with these keys, and those that a prefix,
    /// patterns and groups select, as ``stook rm`` does.
    ///
    /// Args:
    ///     keys: The keys of records.
    ///     prefix: Every record whose key begins with this; ``"id:"`` for every numeric one.
    ///     glob: A pattern, or several: every record whose key matches one.
    ///     group: Of all these only the records of this group, or these; alone, all of them.
    ///     dry_run: Whether nothing is deleted: the report says what would be.
    ///     progress: Called now and then with the records so far, on another thread; what it raises
    ///         ends it, and nothing is deleted then. ``True`` shows a bar with tqdm.
    ///
    /// Returns:
    ///     A `DeleteReport`.
    ///
    /// Raises:
    ///     stook.InvalidError: Nothing is asked for, or an empty prefix or the default group alone,
    ///         which would be everything (``glob="**"`` is everything), or nothing matches; nothing
    ///         is deleted then.
    ///
    /// Examples:
    ///     >>> import stook
    ///     >>> with stook.Pack("data.stook", "a") as pack:
    ///     ...     pack.update({"a/1.tmp": b"x", "a/2": b"yy", "b/1": b"zzz"})
    ///     ...     pack.delete_many(glob="*.tmp").deleted
    ///     ...     pack.delete_many(["a/2", "c"]).missing
    ///     ...     list(pack)
    ///     1
    ///     ['c']
    ///     ['b/1']
    #[pyo3(signature = (keys=None, *, prefix=None, glob=None, group=None, dry_run=false, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn delete_many<'py>(
        &self,
        py: Python<'py>,
        keys: Option<&Bound<'py, PyAny>>,
        prefix: Option<&Bound<'py, PyAny>>,
        glob: Option<&Bound<'py, PyAny>>,
        group: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = choices::dry_run)] dry_run: bool,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let deletion = Deletion {
            keys: keys.map(keys_of).transpose()?,
            prefix: prefix.map(key::sort_prefix).transpose()?,
            patterns: glob.map(|glob| key_patterns("glob", glob)).transpose()?.unwrap_or_default(),
            groups: groups_of(group)?,
            stop: Stop(is_stopped),
        };
        let (reader, writer) = (self.reader(py)?, if dry_run { None } else { Some(self.writer()?) });
        let doomed = with_progress(py, progress, ["records"], move |go_on| {
            let Some(writer) = writer else {
                return deletion.plan(&reader).or_raise();
            };
            drop(reader);
            let run = |writer: &mut PackWriter| {
                Ok(deletion.run(writer, &mut (), &mut |deleted, _| go_on([deleted])))
            };
            writer.with(run).or_raise()?.or_raise()
        })?;
        info::delete_report(py, &doomed, dry_run)
    }

    /// Puts many records.
    ///
    /// Args:
    ///     records: A mapping, or pairs of keys and values.
    ///     group: The group to put them into.
    ///     progress: Called now and then with the records so far; what it raises ends it. ``True``
    ///         shows a bar with tqdm.
    ///     named: Records by name, as ``dict.update`` takes them, with keys other than the names of
    ///         these arguments.
    #[pyo3(signature = (records=None, *, group="", progress=None, **named))]
    pub(super) fn update(
        &self,
        py: Python<'_>,
        records: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = choices::group)] group: &str,
        progress: Option<&Bound<'_, PyAny>>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let mut reporter = ProgressReporter::new(callback_of(progress, &["records"])?);
        let mut put = 0;
        for records in records.into_iter().chain(named.map(|named| named.as_any())) {
            let pairs = match records.cast::<PyMapping>().is_ok() || records.hasattr("keys")? {
                // Iterated as it is: that of a pack may be longer than memory.
                true => records.call_method0("items")?,
                false => records.clone(),
            };
            for pair in iter_of("records", &pairs)? {
                py.check_signals()?;
                let pair = pair?.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>();
                let (key, value) = pair.map_err(|error| numbers::named(py, "records", error))?;
                self.put_of(py, &key, &value, group)?;
                put += 1;
                if !reporter.go_on(&[put]) {
                    return reporter.finish();
                }
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
    ///     memory: Bytes of memory for records on their way; 256 MiB unless given.
    ///     group: Only this group, or these.
    ///     dry_run: Whether nothing is done: the report says what would be, and how long it takes.
    ///     progress: Called now and then with the bytes written so far, on another thread. It may
    ///         read the pack, not change it. ``True`` shows a bar with tqdm.
    ///
    /// Returns:
    ///     A `CompactReport`.
    ///
    /// Raises:
    ///     OSError: With ``errno.ENOSPC``: a step would need more room than is free. Nothing was
    ///         changed.
    #[pyo3(signature = (*, keep_seconds=0.0, max_dead=None, extra_bytes=None, memory=None, group=None, dry_run=false, progress=None))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn compact<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = numbers::keep_seconds)] keep_seconds: f64,
        #[pyo3(from_py_with = numbers::max_dead)] max_dead: Option<f64>,
        #[pyo3(from_py_with = numbers::extra_bytes)] extra_bytes: Option<u64>,
        #[pyo3(from_py_with = numbers::memory)] memory: Option<usize>,
        group: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = choices::dry_run)] dry_run: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keep = Duration::try_from_secs_f64(keep_seconds)
            .map_err(|_| invalid(format!("keep_seconds is 0 or more, not {keep_seconds}")))?;
        let all = Compact::default();
        let compacting = Compact {
            groups: groups_of(group)?,
            keep,
            max_dead,
            extra_len: extra_bytes,
            memory_len: memory.unwrap_or(all.memory_len),
        };
        if dry_run {
            let reader = self.reader(py)?;
            let (plan, seconds) = with_progress(py, progress, ["bytes"], move |go_on| {
                go_on([0]);
                compacting.preview(&reader, Stop(is_stopped)).or_raise()
            })?;
            return info::compact_plan(py, &plan, seconds);
        }
        let writer = self.writer()?;
        let done = with_progress(py, progress, ["bytes"], move |go_on| {
            let run = |writer: &mut PackWriter| Ok(compacting.run(writer, &mut |bytes| go_on([bytes])));
            writer.with(run).or_raise()?.or_raise()
        })?;
        info::compact_report(py, &done)
    }
}

impl Pack {
    /// Puts one of several records: what is wrong with its value names its key.
    fn put_of(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        group: &str,
    ) -> PyResult<()> {
        let put = self.put(py, key, value, None, group).map(|_| ());
        put.map_err(|error| match error.is_instance_of::<PyTypeError>(py) && key::from_python(key).is_ok() {
            true => numbers::with_prefix(py, &format!("the value of {}", shown(key)), error),
            false => error,
        })
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
