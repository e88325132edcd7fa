//! Reading methods of `Pack`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use stook::ops::check::check_pack;
use stook::ops::contents::{OwnedKeys, ScanRequest};
use stook::pack::{
    self, Key, KeyBatches, KeyRange, Kinds, OnDamage, RecordFilter, ScanOptions, ScanOrder, Values,
};

use super::check::with_bytes;
use super::follow::Follow;
use super::info;
use super::keys::Keys;
use super::kinds::kinds_of;
use super::pack::Pack;
use super::record::Record;
use super::scan::Scan;
use super::split::Split;
use super::table::{Tables, columns_of, conditions_of};
use crate::arguments::{iter_of, shown};
use crate::choices::{self, chosen};
use crate::errors::{OrRaise as _, invalid};
use crate::key;
use crate::memory::bytes_of;
use crate::numbers::{self, Count};
use crate::reports::getters;
use crate::wait::{Detached, Passed};

/// Groups as an argument: `None`, a name, or several.
pub(crate) fn groups_of(group: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let Some(group) = group else { return Ok(Vec::new()) };
    if let Ok(name) = group.cast::<PyString>() {
        return Ok(vec![name.to_str()?.to_owned()]);
    }
    let wrong = |_| invalid(format!("group is None, a str, or a list of str, not {}", shown(group)));
    let groups: Vec<String> = group.extract().map_err(wrong)?;
    match groups.is_empty() {
        true => Err(invalid("group is None for all groups, not an empty list")),
        false => Ok(groups),
    }
}

impl Pack {
    /// Gets one value; of a mapped pack without an intermediate copy.
    fn value_as_bytes<'py>(&self, py: Python<'py>, key: &Key) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = if self.session.settings().is_mapped() && self.session.settings().making.is_none() {
            let reader = self.session.reader_as_is().or_raise()?;
            py.detach(|| reader.get_file_with(key, Bytes::copy_from_slice)).or_raise()?
        } else {
            self.session.value(key, &Detached(py)).or_raise()?
        };
        value.map(|body| bytes_of(py, &body)).transpose()
    }
}

#[pymethods]
impl Pack {
    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.value_as_bytes(py, &key::from_python(key)?)?;
        value.ok_or_else(|| key::missing(key))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        // What can be no key is not there, as in the view of the keys.
        key::if_any(key)?.map_or(Ok(false), |key| self.session.contains(&key, &Detached(py)).or_raise())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(usize::try_from(self.reader(py)?.len())?)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Keys> {
        let reader = self.reader(py)?;
        Ok(Keys::new(py.detach(|| OwnedKeys::of_pack(reader, KeyRange::all(), Kinds::ALL)).or_raise()?))
    }

    fn __aiter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.call_method0("__iter__")?.call_method0("__aiter__")
    }

    /// Gets a value.
    ///
    /// Args:
    ///     key: The key.
    ///     default: What is given when there is no such record.
    ///
    /// Returns:
    ///     The value, verified.
    ///
    /// Raises:
    ///     stook.DamagedError: The record is not what was written.
    ///
    /// Examples:
    ///     >>> import stook
    ///     >>> pack = stook.Pack("data.stook", "a")
    ///     >>> pack["a"] = b"1"
    ///     >>> pack.get("a"), pack.get("b"), pack.get("b", b"")
    ///     (b'1', None, b'')
    ///     >>> pack.close()
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.value_as_bytes(py, &key::from_python(key)?)?;
        Ok(value.map(Bound::into_any).or(default))
    }

    /// Gets many values at once: reads are planned together and many are under way at a time.
    ///
    /// Args:
    ///     keys: The keys, in any order; a key may occur twice.
    ///     default: What is given for keys without a record.
    ///     progress: Called now and then with the records and bytes so far; what it raises ends it.
    ///         ``True`` shows a bar with tqdm.
    ///
    /// Returns:
    ///     The values in the order of the keys.
    ///
    /// Raises:
    ///     stook.DamagedError: A record is not what was written.
    ///
    /// Examples:
    ///     >>> import stook
    ///     >>> pack = stook.Pack("data.stook", "a")
    ///     >>> pack.update({"a": b"1", "b": b"2"})
    ///     >>> pack.get_many(["b", "c", "a"])
    ///     [b'2', None, b'1']
    ///     >>> pack.close()
    #[pyo3(signature = (keys, default=None, *, progress=None))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (keys, reader) = (keys_of(keys)?, self.reader(py)?);
        let (values, passed) = (PyList::empty(py), Passed::new(progress)?);
        let append = |value: Option<&[u8]>| {
            match value {
                Some(value) => values.append(bytes_of(py, value)?)?,
                None => values.append(&default)?,
            }
            passed.add(Some(value.map_or(0, <[u8]>::len)))
        };
        if self.session.settings().is_mapped() {
            let (mut batches, mut mapped) = (KeyBatches::new(&keys, true), Values::default());
            while let Some(batch) = batches.next_batch() {
                py.check_signals()?;
                py.detach(|| mapped.look_up(&reader, batch)).or_raise()?;
                mapped.iter().try_for_each(append)?;
                batches.came(mapped.bytes());
            }
        } else {
            each_read(py, &reader, &keys, |record| append(record.as_ref().map(|record| &record.body[..])))?;
        }
        passed.add(None)?;
        Ok(values)
    }

    /// As `get_many`, to be awaited: the event loop continues meanwhile.
    ///
    /// Args:
    ///     keys: The keys, in any order; a key may occur twice.
    ///     default: What is given for keys without a record.
    ///
    /// Returns:
    ///     The values in the order of the keys.
    #[pyo3(signature = (keys, default=None))]
    fn aget_many<'py>(
        slf: &Bound<'py, Self>,
        keys: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("stook._aio")?.call_method1("run", (slf.getattr("get_many")?, keys, default))
    }

    /// As `get`, to be awaited: the event loop continues meanwhile.
    ///
    /// Args:
    ///     key: The key.
    ///     default: What is given when there is no such record.
    ///
    /// Returns:
    ///     The value, verified.
    #[pyo3(signature = (key, default=None))]
    fn aget<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("stook._aio")?.call_method1("run", (slf.getattr("get")?, key, default))
    }

    /// Gets a record with its attributes and times, its value without a copy.
    ///
    /// Args:
    ///     key: The key.
    ///
    /// Returns:
    ///     The record, or ``None``.
    ///
    /// Raises:
    ///     stook.DamagedError: The record is not what was written.
    #[pyo3(signature = (key))]
    fn record(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<Record>> {
        let key = key::from_python(key)?;
        let reader = self.reader(py)?;
        let record = py.detach(|| reader.get_file(&key)).or_raise()?;
        Ok(record.map(|record| with_group(&reader, record)))
    }

    /// Gets many records at once, as `get_many` does with values.
    ///
    /// Args:
    ///     keys: The keys, in any order.
    ///     progress: As for `get_many`.
    ///
    /// Returns:
    ///     For each key the record, or ``None``.
    ///
    /// Raises:
    ///     stook.DamagedError: A record is not what was written.
    #[pyo3(signature = (keys, *, progress=None))]
    fn records(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Option<Record>>> {
        let (keys, reader, passed) = (keys_of(keys)?, self.reader(py)?, Passed::new(progress)?);
        let mut records = Vec::with_capacity(keys.len());
        each_read(py, &reader, &keys, |record| {
            passed.add(Some(record.as_ref().map_or(0, |record| record.body.len())))?;
            records.push(record.map(|record| with_group(&reader, record)));
            Ok(())
        })?;
        passed.add(None)?;
        Ok(records)
    }

    /// Goes through live records: at the speed of the device, as they are on it, or by key.
    ///
    /// Args:
    ///     order: ``"disk"`` or ``"key"``.
    ///     prefix: Only keys that begin with this.
    ///     start: Only keys from this one on.
    ///     end: Only keys before this one.
    ///     group: Only this group, or these; the default group is ``""``.
    ///     split: Only this part of the pack; see `splits`.
    ///     cursor: Continues where `Scan.cursor` was asked for; goes with none of the others but
    ///         ``on_damage``, ``kinds`` and ``progress``.
    ///     on_damage: ``"raise"``, or ``"skip"``: what is damaged is passed over and reported in
    ///         `Scan.damages`.
    ///     kinds: ``"file"``: what has content, of hard links that of the file, and everything that
    ///         no tree was packed from; ``"directory"``, ``"symlink"``, several of these, or
    ///         ``"all"``. What counts as a directory or a link is reported by
    ///         ``attributes["kind"]``.
    ///     progress: Called now and then with the records and bytes so far, and with the last ones
    ///         at the end; what it raises is raised from the iterator. ``True`` shows a bar with
    ///         tqdm.
    ///     where: Only records with these attributes: a dict of names, as their columns are called,
    ///         and values, or lists of the values that will do. A condition that no record of the
    ///         pack can meet is an error at the end of the scan.
    ///     columns: What tables of the scan have: names, or a dict of names and types
    ///         (``"binary"``, ``"string"``, ``"uint64"``, ``"int64"``, ``"uint32"``,
    ///         ``"timestamp"``; ``None`` for the usual one). Without ``value`` no values are read,
    ///         and rows come in the order of the keys. Iteration gives whole records anyway.
    ///
    /// Returns:
    ///     An iterator over records, which is also what tools that read Arrow take: see
    ///     `Scan.to_table`.
    ///
    /// Raises:
    ///     stook.DamagedError: A record is not what was written; from the iterator.
    ///     stook.InvalidError: A split or cursor of another pack or another generation; a condition
    ///         on what is no attribute, that no record of the pack has, or of a type that none has.
    ///
    /// Examples:
    ///     >>> import stook
    ///     >>> pack = stook.Pack("data.stook", "a")
    ///     >>> pack.update({"a/1": b"x", "a/2": b"yy", "b/1": b"zzz"})
    ///     >>> [(record.key, len(record.value)) for record in pack.scan(order="key", prefix="a/")]
    ///     [('a/1', 1), ('a/2', 2)]
    ///     >>> pack.close()
    #[pyo3(signature = (*, order="disk", prefix=None, start=None, end=None, group=None, split=None, cursor=None, on_damage="raise", kinds=None, progress=None, r#where=None, columns=None))]
    #[pyo3(
        text_signature = "($self, *, order='disk', prefix=None, start=None, end=None, group=None, split=None, cursor=None, on_damage='raise', kinds='file', progress=None, where=None, columns=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn scan(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = choices::order)] order: &str,
        prefix: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        group: Option<&Bound<'_, PyAny>>,
        split: Option<&Bound<'_, Split>>,
        #[pyo3(from_py_with = choices::cursor)] cursor: Option<&str>,
        #[pyo3(from_py_with = choices::on_damage)] on_damage: &str,
        kinds: Option<&Bound<'_, PyAny>>,
        progress: Option<&Bound<'_, PyAny>>,
        r#where: Option<&Bound<'_, PyAny>>,
        columns: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Scan> {
        let policies = [("raise", OnDamage::Stop), ("skip", OnDamage::Skip)];
        let (on_damage, kinds) = (chosen("on_damage", on_damage, &policies)?, kinds_of(kinds, Kinds::FILES)?);
        let order = chosen("the order", order, &[("disk", ScanOrder::Disk), ("key", ScanOrder::Key)])?;
        let keys = key::range(prefix, start, end)?;
        let options =
            ScanOptions { groups: groups_of(group)?, on_damage, order, keys, ..ScanOptions::default() };
        let request = ScanRequest {
            pack: self.reader(py)?,
            filter: RecordFilter { kinds, attributes: conditions_of(r#where)? },
            options,
            split: split.map(|split| split.get().split.clone()),
            cursor: cursor.map(str::to_owned),
        };
        let tables = Tables::new(request, columns_of(columns)?, progress);
        Scan::begin(py, Passed::new(progress)?, tables)
    }

    /// Cuts the pack into parts of about the same length, so that several threads or processes scan
    /// one each.
    ///
    /// Args:
    ///     count: How many at most.
    ///     group: Only this group, or these.
    ///
    /// Returns:
    ///     The parts. Every live record is in exactly one.
    #[pyo3(signature = (count, *, group=None))]
    fn splits(&self, py: Python<'_>, count: Count, group: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Split>> {
        let count = count.0;
        if count == 0 {
            return Err(invalid("a pack is cut into 1 part or more, not 0"));
        }
        let groups = groups_of(group)?;
        let reader = self.reader(py)?;
        // No part is empty, so there are at most as many as records.
        let count = count.min(usize::try_from(reader.len()).unwrap_or(usize::MAX).max(1));
        let splits = py.detach(|| reader.splits(count, &groups)).or_raise()?;
        Ok(splits.into_iter().map(|split| Split { split }).collect())
    }

    /// Verifies every record, every index page, and that they agree.
    ///
    /// Args:
    ///     progress: Called now and then with the bytes gone through and all there are, on another
    ///         thread. ``True`` shows a bar with tqdm.
    ///
    /// Returns:
    ///     A `CheckReport`. Damage is not an exception here; it is what the report is for.
    #[pyo3(signature = (progress=None))]
    fn check<'py>(
        &self,
        py: Python<'py>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let reader = self.reader(py)?;
        let report = with_bytes(py, progress, move |go_on| check_pack(&reader, go_on))?;
        info::check_report(py, &report)
    }

    /// What is known of the pack without reading records.
    ///
    /// Returns:
    ///     A `PackInfo`.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        info::pack_info(py, &self.session.settings().path, self.reader(py)?.as_ref())
    }

    /// Whether nothing was written since this state was opened.
    fn is_current(&self, py: Python<'_>) -> PyResult<bool> {
        let reader = self.reader(py)?;
        py.detach(|| reader.is_current()).or_raise()
    }

    /// Shows what others wrote since.
    ///
    /// Returns:
    ///     Whether there was anything new.
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        self.session.refresh(&Detached(py)).or_raise()
    }

    /// Goes through records that are put from now on, by whomever, in the order in which they are
    /// put. A record that was replaced or deleted before it was looked at is passed over.
    ///
    /// Args:
    ///     prefix: Only keys that begin with this.
    ///     group: Only this group, or these.
    ///     timeout: Ends when nothing was put for that long; ``None`` waits until the pack is
    ///         closed.
    ///
    /// Returns:
    ///     An iterator over records.
    ///
    /// Raises:
    ///     stook.DamagedError: A record is not what was written; from the iterator, which continues
    ///         after it.
    ///     stook.InvalidError: The pack was opened with ``at`` or ``generation``: a state of the
    ///         past does not grow.
    ///
    /// Examples:
    ///     >>> import stook
    ///     >>> with stook.Pack("data.stook", "a") as pack:
    ///     ...     put = pack.follow(timeout=1)
    ///     ...     pack["one"] = b"first"
    ///     ...     pack.sync()
    ///     ...     next(put).key
    ///     'one'
    #[pyo3(signature = (*, prefix=None, group=None, timeout=None))]
    fn follow(
        slf: &Bound<'_, Self>,
        prefix: Option<&Bound<'_, PyAny>>,
        group: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = numbers::timeout)] timeout: Option<f64>,
    ) -> PyResult<Follow> {
        let seen = slf.get().reader(slf.py())?;
        if slf.get().session.settings().is_past() {
            return Err(invalid(
                "a state of the past does not grow: open the pack without at and generation",
            ));
        }
        let wrong =
            |seconds: f64| invalid(format!("timeout is a number of seconds, 0 or more, not {seconds}"));
        let wait = |seconds| Duration::try_from_secs_f64(seconds).map_err(|_| wrong(seconds));
        let timeout = timeout.map(wait).transpose()?;
        let groups = groups_of(group)?;
        let range = key::range(prefix, None, None)?;
        Ok(Follow::new(slf.clone().unbind(), seen, groups, range, timeout))
    }
}

getters! { Pack {
    /// The groups that the pack has; the default group is the empty string.
    groups: PyResult<Vec<String>> = |this, py| Ok(this.reader(py)?.groups().to_vec());
    /// The generation that is shown.
    generation: PyResult<u64> = |this| Ok(this.session.reader_as_is().or_raise()?.generation());
}}

pub(super) fn with_group(pack: &pack::Pack, record: pack::Record) -> Record {
    let group = pack.group_of_segment(record.head.segment).into();
    Record { head: record.head, body: record.body, group }
}

/// The keys of any iterable.
pub(super) fn keys_of(keys: &Bound<'_, PyAny>) -> PyResult<Vec<Key>> {
    if keys.is_instance_of::<PyString>() || keys.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err("argument 'keys': several keys are wanted, not one"));
    }
    iter_of("keys", keys)?.map(|key| key::from_python(&key?)).collect()
}

/// Reads records in batches and passes them on one at a time.
fn each_read(
    py: Python<'_>,
    pack: &Arc<pack::Pack>,
    keys: &[Key],
    mut each: impl FnMut(Option<pack::Record>) -> PyResult<()>,
) -> PyResult<()> {
    let mut batches = KeyBatches::new(keys, false);
    while let Some(batch) = batches.next_batch() {
        py.check_signals()?;
        let mut bytes = 0;
        for record in py.detach(|| pack.get_files(batch)).or_raise()? {
            let record = record.or_raise()?;
            bytes += record.as_ref().map_or(0, |record| record.body.len());
            each(record)?;
        }
        batches.came(bytes);
    }
    Ok(())
}
