//! Methods of `Pack` that every mapping of Python has, beside getting and putting.

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping, PyTuple};
use stook::ops::contents::{self, ScanRequest};
use stook::ops::delete;
use stook::pack::{Key, Kinds, PackWriter, ScanOptions, ScanOrder, Stop};

use super::pack::Pack;
use super::scan::Scan;
use super::table::Tables;
use super::view::{Shown, View};
use crate::arguments::shown;
use crate::choices;
use crate::errors::OrRaise as _;
use crate::key;
use crate::memory::{Given, bytes_of, is_bytes};
use crate::wait::{Detached, Passed, is_stopped, on_this_thread, with_progress};

/// The argument `default` of `Pack.pop`, which may be anything, `None` too.
pub(crate) enum Fallback {
    Missing,
    Given(Py<PyAny>),
}

impl<'py> FromPyObject<'_, 'py> for Fallback {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self::Given(value.to_owned().unbind()))
    }
}

#[pymethods]
impl Pack {
    /// The keys, in order: byte strings first, then ids.
    ///
    /// A view, as that of a dict: it shows what the pack has when it is asked, has a length, and is
    /// a set for ``in``, ``&``, ``|``, ``-``, ``^`` and comparisons. Of keys that the pack has
    /// no more than a batch is in memory, but for those that a set operation gives.
    ///
    /// Args:
    ///     prefix: Only keys that begin with this.
    ///     start: Only keys from this one on.
    ///     end: Only keys before this one.
    ///     kinds: Only keys of records of these kinds, as for `scan`. ``"all"`` takes the index
    ///         alone, others read the heads of records.
    ///
    /// Returns:
    ///     A `KeysView`.
    ///
    /// Examples:
    ///     >>> import stook
    ///     >>> with stook.Pack("data.stook", "a") as pack:
    ///     ...     pack.update({"a/1": b"x", "a/2": b"yy", "b/1": b"zzz"})
    ///     ...     len(pack.keys(prefix="a/")), pack.keys() & {"a/2", "c"}
    ///     (2, {'a/2'})
    #[pyo3(signature = (*, prefix=None, start=None, end=None, kinds=None))]
    #[pyo3(text_signature = "($self, *, prefix=None, start=None, end=None, kinds='all')")]
    fn keys<'py>(
        slf: &Bound<'py, Self>,
        prefix: Option<&Bound<'py, PyAny>>,
        start: Option<&Bound<'py, PyAny>>,
        end: Option<&Bound<'py, PyAny>>,
        kinds: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        View::shown(slf, "KeysView", &Shown { prefix, start, end, kinds }, Kinds::ALL, None)
    }

    /// Deletes a record and gives its value.
    ///
    /// Args:
    ///     key: The key.
    ///     default: What is returned if there is none; without it that is a ``KeyError``.
    ///
    /// Returns:
    ///     The value that it had.
    #[pyo3(signature = (key, default=Fallback::Missing), text_signature = "($self, key, default=...)")]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Fallback,
    ) -> PyResult<Bound<'py, PyAny>> {
        match (self.session.pop(&key::from_python(key)?, &Detached(py)).or_raise()?, default) {
            (Some(value), _) => Ok(bytes_of(py, &value)?.into_any()),
            (None, Fallback::Missing) => Err(key::missing(key)),
            (None, Fallback::Given(default)) => Ok(default.into_bound(py)),
        }
    }

    /// Deletes the first record in the order of the keys, and gives it.
    ///
    /// What was written before is synced first: of many records, `items` gives and `delete_many`
    /// deletes them far faster.
    ///
    /// Returns:
    ///     Its key and its value.
    ///
    /// Raises:
    ///     KeyError: There is none.
    ///     stook.DamagedError: It is not what was written, and stays; or damage of the pack hides
    ///         which is the first.
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let popped = self.session.pop_first(&Detached(py)).or_raise()?;
        let (key, value) = popped.ok_or_else(|| PyKeyError::new_err("this pack is empty"))?;
        PyTuple::new(py, [key::to_python(py, &key)?, bytes_of(py, &value)?.into_any()])
    }

    /// Gets a value, and puts it first if there is none. No other thread comes in between.
    ///
    /// Args:
    ///     key: The key.
    ///     default: The value that is put. Without it there has to be one: it is a ``TypeError``
    ///         otherwise, as a pack has no ``None``.
    ///     group: The group to put it into.
    ///
    /// Returns:
    ///     The value that the key has.
    ///
    /// Examples:
    ///     >>> import stook
    ///     >>> with stook.Pack("data.stook", "a") as pack:
    ///     ...     pack.setdefault("a", b"1"), pack.setdefault("a", b"2")
    ///     (b'1', b'1')
    #[pyo3(signature = (key, default=None, *, group=""))]
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = choices::group)] group: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let Some(default) = default else {
            self.writer()?;
            let found = self.session.value(&key::from_python(key)?, &Detached(py)).or_raise()?;
            let missing = || {
                PyTypeError::new_err(format!(
                    "argument 'default': there is no record {}, and a bytes-like object is wanted, not NoneType",
                    shown(key)
                ))
            };
            return bytes_of(py, &found.ok_or_else(missing)?);
        };
        let (key, default) = (key::from_python(key)?, Given::new(default)?.settled(py));
        let present = self.session.put_if_absent(group, &key, default.as_ref(), &Detached(py)).or_raise()?;
        bytes_of(py, present.as_deref().unwrap_or_else(|| default.as_ref()))
    }

    /// Deletes every record, all of them or none: one commit, whatever happens. The keys of all are
    /// in memory meanwhile. `compact` gives the room back.
    ///
    /// Args:
    ///     progress: Called now and then with the records so far and all there are, on another
    ///         thread; what it raises ends it, and nothing is deleted then. ``True`` shows a bar.
    ///
    /// Raises:
    ///     stook.DamagedError: Damage hides records, which would come back with what is missing;
    ///         nothing is deleted.
    #[pyo3(signature = (*, progress=None))]
    fn clear(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let writer = self.writer()?;
        with_progress(py, progress, ["records", "total"], move |go_on| {
            let clear = |writer: &mut PackWriter| {
                let mut go_on = |deleted, total| go_on([deleted, total]);
                Ok(delete::clear(writer, Stop(is_stopped), &mut go_on))
            };
            writer.with(clear).or_raise()?.or_raise()
        })?;
        Ok(())
    }

    fn __ior__(&self, py: Python<'_>, records: &Bound<'_, PyAny>) -> PyResult<()> {
        self.update(py, Some(records), "", None, None)
    }

    /// There is no way back from the last key to the first: as in every `collections.abc.Mapping`.
    #[classattr]
    fn __reversed__(py: Python<'_>) -> Py<PyAny> {
        py.None()
    }

    /// Whether another pack, or any mapping, has the same keys with the same values. Both are gone
    /// through up to the first difference.
    fn __eq__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let is_equal = if let Ok(other) = other.cast::<Self>() {
            slf.is(other) || slf.get().equals_pack(py, other.get())?
        } else if let Ok(other) = other.cast::<PyMapping>() {
            slf.get().equals_mapping(py, other)?
        } else {
            return Ok(py.NotImplemented().into_bound(py));
        };
        Ok(is_equal.into_pyobject(py)?.to_owned().into_any())
    }
}

/// Methods that give a view of values, which differ in their documentation and its class.
macro_rules! views_of_values {
    ($($(#[doc = $text:literal])+ $name:ident: $class:literal;)+) => {
        #[pymethods]
        impl Pack {$(
            $(#[doc = $text])+
            #[pyo3(signature = (*, prefix=None, start=None, end=None, kinds=None, progress=None))]
            #[pyo3(
                text_signature = "($self, *, prefix=None, start=None, end=None, kinds='file', progress=None)"
            )]
            fn $name<'py>(
                slf: &Bound<'py, Self>,
                prefix: Option<&Bound<'py, PyAny>>,
                start: Option<&Bound<'py, PyAny>>,
                end: Option<&Bound<'py, PyAny>>,
                kinds: Option<&Bound<'py, PyAny>>,
                progress: Option<&Bound<'py, PyAny>>,
            ) -> PyResult<Bound<'py, PyAny>> {
                View::shown(slf, $class, &Shown { prefix, start, end, kinds }, Kinds::FILES, progress)
            }
        )+}
    };
}

views_of_values! {
    /// Keys and values in the order of the keys: a view, as `keys` gives one.
    ///
    /// Args:
    ///     prefix: Only keys that begin with this.
    ///     start: Only keys from this one on.
    ///     end: Only keys before this one.
    ///     kinds: Only records of these kinds, as for `scan`: files.
    ///     progress: As for `scan`, in each iteration.
    ///
    /// Returns:
    ///     An `ItemsView`, which gives pairs.
    items: "ItemsView";
    /// Values in the order of the keys: a view, as that of a dict.
    ///
    /// Args:
    ///     prefix: Only those of keys that begin with this.
    ///     start: Only those of keys from this one on.
    ///     end: Only those of keys before this one.
    ///     kinds: Only those of records of these kinds, as for `scan`: files.
    ///     progress: As for `scan`, in each iteration.
    ///
    /// Returns:
    ///     A `ValuesView`.
    values: "ValuesView";
}

impl Pack {
    fn equals_pack(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        let (one, other) = (self.reader(py)?, other.reader(py)?);
        let compare = || on_this_thread(|go_on| contents::is_equal(one, other, &mut || go_on([])).or_raise());
        py.detach(compare)
    }

    fn equals_mapping<'py>(&self, py: Python<'py>, other: &Bound<'py, PyMapping>) -> PyResult<bool> {
        let reader = self.reader(py)?;
        if reader.len() != other.len()? as u64 {
            return Ok(false);
        }
        let options = ScanOptions { order: ScanOrder::Key, ..ScanOptions::default() };
        let filter = Kinds::ALL.into();
        let request = ScanRequest { pack: reader, filter, options, split: None, cursor: None };
        let scan = Scan::begin(py, Passed::new(None)?, Tables::new(request, None, None))?;
        while let Some(row) = scan.next_row(py)? {
            match value_in(other, &row.head.key)? {
                Some(value) if is_bytes(&value, &row.body) => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// What a mapping has under a key, as a pack gives it or, of a byte string, as `bytes`.
fn value_in<'py>(mapping: &Bound<'py, PyMapping>, key: &Key) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = mapping.py();
    let given = key.as_bytes().map(|bytes| PyBytes::new(py, bytes).into_any());
    for form in [Some(key::to_python(py, key)?), given].into_iter().flatten() {
        match mapping.contains(&form) {
            Ok(true) => return mapping.get_item(form).map(Some),
            Ok(false) => {}
            // One whose keys are all of another type has none of this.
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}
