//! `stook.Ordinals`: the records of a selection by number, and the methods of `Pack` that take
//! them.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple, PyType};
use stook::pack::{self, OnDamage, OrdinalOptions, Stop};

use super::info;
use super::kinds::kinds_of;
use super::pack::Pack;
use super::reading::{groups_of, with_group};
use super::record::Record;
use super::split::Split;
use super::table::conditions_of;
use crate::arguments::iter_of;
use crate::choices::{self, chosen};
use crate::errors::OrRaise as _;
use crate::key;
use crate::numbers;
use crate::reports::getters;
use crate::wait::{Passed, is_stopped};

/// Numbers that are read as one batch.
const AT_ONCE: usize = 1024;

/// The records of a selection of a pack, numbered from 0: what `Pack.ordinals` makes.
///
/// It has no keys: about three bytes per record. It is of one state of the pack, in which the
/// numbers are always the same. It can be pickled; processes that are forked share it.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Ordinals {
    pub(super) ordinals: Arc<pack::Ordinals>,
}

getters! { Ordinals {
    /// Bytes of memory that it takes.
    memory_bytes: usize = |this| this.ordinals.memory_bytes();
    /// Records that are left out because whether they count is not known, as exceptions.
    damages: PyResult<Bound<'_, PyList>> = |this, py| info::damages(py, this.ordinals.damages());
}}

#[pymethods]
impl Ordinals {
    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.ordinals.len())?)
    }

    fn __repr__(&self) -> String {
        format!("<stook.Ordinals of {} records>", self.ordinals.len())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let bytes = PyBytes::new(slf.py(), &slf.get().ordinals.to_bytes());
        Ok((slf.get_type().getattr("_from_bytes")?, PyTuple::new(slf.py(), [bytes])?))
    }

    #[classmethod]
    fn _from_bytes(_: &Bound<'_, PyType>, bytes: &[u8]) -> PyResult<Self> {
        Ok(Self { ordinals: Arc::new(pack::Ordinals::from_bytes(bytes).or_raise()?) })
    }
}

#[pymethods]
impl Pack {
    /// Numbers the records of a selection, in the order in which they are on the medium, so that
    /// they can be read by `at` and `get_many_at` in any order, without a list of their keys.
    ///
    /// Args:
    ///     prefix: Only keys that begin with this.
    ///     start: Only keys from this one on.
    ///     end: Only keys before this one.
    ///     group: Only this group, or these.
    ///     split: Only this part of the pack; see `splits`.
    ///     kinds: Only records of these kinds, as for `scan`. ``"all"`` takes the index alone,
    ///         others read the heads of records.
    ///     on_damage: ``"raise"``, or ``"skip"``: what is not known to count is left out and
    ///         reported in `Ordinals.damages`.
    ///     where: Only records with these attributes, as for `scan`.
    ///
    /// Returns:
    ///     `Ordinals`.
    ///
    /// Raises:
    ///     stook.DamagedError: Whether a record counts is not known.
    ///     stook.InvalidError: A split of another pack or another generation, an unknown group, a
    ///         condition that no record can meet.
    ///
    /// Examples:
    ///     >>> import stook
    ///     >>> pack = stook.Pack("data.stook", "a")
    ///     >>> pack.update({"a/1": b"x", "a/2": b"yy", "b/1": b"zzz"})
    ///     >>> some = pack.ordinals(prefix="a/")
    ///     >>> len(some), pack.at(1, some).key
    ///     (2, 'a/2')
    ///     >>> [bytes(record) for record in pack.get_many_at([1, 0], some)]
    ///     [b'yy', b'x']
    ///     >>> pack.close()
    #[pyo3(signature = (*, prefix=None, start=None, end=None, group=None, split=None, kinds=None, on_damage="raise", r#where=None))]
    #[pyo3(
        text_signature = "($self, *, prefix=None, start=None, end=None, group=None, split=None, kinds='file', on_damage='raise', where=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn ordinals(
        &self,
        py: Python<'_>,
        prefix: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        group: Option<&Bound<'_, PyAny>>,
        split: Option<&Bound<'_, Split>>,
        kinds: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = choices::on_damage)] on_damage: &str,
        r#where: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Ordinals> {
        let policies = [("raise", OnDamage::Stop), ("skip", OnDamage::Skip)];
        let options = OrdinalOptions {
            groups: groups_of(group)?,
            keys: key::range(prefix, start, end)?,
            only: None,
            kinds: kinds_of(kinds, pack::Kinds::FILES)?,
            attributes: conditions_of(r#where)?,
            split: split.map(|split| split.get().split.clone()),
            on_damage: chosen("on_damage", on_damage, &policies)?,
            stop: Stop(is_stopped),
        };
        let reader = self.reader(py)?;
        let ordinals = py.detach(|| reader.ordinals(&options)).or_raise()?;
        Ok(Ordinals { ordinals: Arc::new(ordinals) })
    }

    /// Gets the record with a number.
    ///
    /// Args:
    ///     number: From 0 on; one below 0 counts from the end.
    ///     ordinals: What numbers are of: all files of the pack if it is not given. They are
    ///         listed when the first is asked for, and again after something was written.
    ///
    /// Returns:
    ///     The record.
    ///
    /// Raises:
    ///     IndexError: There are not so many.
    ///     stook.DamagedError: The record is not what was written.
    ///     stook.InvalidError: The numbers are of another state of the pack.
    #[pyo3(signature = (number, ordinals=None))]
    fn at(
        &self,
        py: Python<'_>,
        number: &Bound<'_, PyAny>,
        ordinals: Option<&Bound<'_, Ordinals>>,
    ) -> PyResult<Record> {
        let (reader, ordinals) = self.numbered(py, ordinals)?;
        let number = numbers::index_in(number, ordinals.len())?;
        let mut records = py.detach(|| reader.get_at(&ordinals, &[number])).or_raise()?;
        let record = records.pop().ok_or_else(|| numbers::no_index(&number, ordinals.len()))?;
        Ok(with_group(&reader, record.or_raise()?))
    }

    /// Gets the records with many numbers: reads are under way at a time.
    ///
    /// Args:
    ///     numbers: Numbers as for `at`: a list, an array, anything that gives ints.
    ///     ordinals: As for `at`.
    ///     progress: As for `get_many`.
    ///
    /// Returns:
    ///     The records in the order of the numbers.
    ///
    /// Raises:
    ///     IndexError: There are not so many.
    ///     stook.DamagedError: A record is not what was written.
    ///     stook.InvalidError: The numbers are of another state of the pack.
    #[pyo3(signature = (numbers, ordinals=None, *, progress=None))]
    fn get_many_at(
        &self,
        py: Python<'_>,
        numbers: &Bound<'_, PyAny>,
        ordinals: Option<&Bound<'_, Ordinals>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Record>> {
        let passed = Passed::new(progress)?;
        let (reader, ordinals) = self.numbered(py, ordinals)?;
        let wanted = iter_of("numbers", numbers)?;
        let wanted: Vec<u64> =
            wanted.map(|number| numbers::index_in(&number?, ordinals.len())).collect::<PyResult<_>>()?;
        let mut records = Vec::with_capacity(wanted.len());
        for batch in wanted.chunks(AT_ONCE) {
            py.check_signals()?;
            for record in py.detach(|| reader.get_at(&ordinals, batch)).or_raise()? {
                let record = record.or_raise()?;
                passed.add(Some(record.body.len()))?;
                records.push(with_group(&reader, record));
            }
        }
        passed.add(None)?;
        Ok(records)
    }
}

impl Pack {
    /// A reader, and what numbers are of: what was given, or all files.
    fn numbered(
        &self,
        py: Python<'_>,
        given: Option<&Bound<'_, Ordinals>>,
    ) -> PyResult<(Arc<pack::Pack>, Arc<pack::Ordinals>)> {
        let reader = self.reader(py)?;
        if let Some(given) = given {
            return Ok((reader, given.get().ordinals.clone()));
        }
        let ordinals = py.detach(|| reader.file_ordinals(Stop(is_stopped))).or_raise()?;
        Ok((reader, ordinals))
    }
}
