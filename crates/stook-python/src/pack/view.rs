//! `stook._stook.View`: what `Pack.keys`, `items` and `values` show of a pack. Sets, iteration and
//! texts of views are made of it in Python, in `stook._views`.

use pyo3::prelude::*;
use stook::ops::contents::{self, OwnedKeys, ScanRequest};
use stook::pack::{self, Key, KeyRange, Kinds, ScanOptions, ScanOrder};

use super::keys::{Items, Keys};
use super::kinds::kinds_of;
use super::pack::Pack;
use super::scan::Scan;
use super::table::Tables;
use crate::errors::OrRaise as _;
use crate::key;
use crate::memory::is_bytes;
use crate::reports::getters;
use crate::wait::{Detached, Passed, on_this_thread};

/// The records of a pack with keys in a range, of some kinds, as they are when it is asked.
#[pyclass(module = "stook", frozen)]
pub(crate) struct View {
    of: Py<Pack>,
    keys: KeyRange,
    kinds: Kinds,
    /// The arguments that chose them, as they were given.
    chosen: String,
}

/// The arguments that say which records a view shows.
pub(super) struct Shown<'a, 'py> {
    pub(super) prefix: Option<&'a Bound<'py, PyAny>>,
    pub(super) start: Option<&'a Bound<'py, PyAny>>,
    pub(super) end: Option<&'a Bound<'py, PyAny>>,
    pub(super) kinds: Option<&'a Bound<'py, PyAny>>,
}

impl Shown<'_, '_> {
    /// The arguments that were given, for the text of a view.
    fn text(&self) -> PyResult<String> {
        let Self { prefix, start, end, kinds } = self;
        let named = [("prefix", prefix), ("start", start), ("end", end), ("kinds", kinds)];
        let given = named.into_iter().filter_map(|(name, value)| Some((name, (*value)?)));
        given.map(|(name, value)| Ok(format!(", {name}={}", value.repr()?))).collect()
    }
}

impl View {
    /// The view of a class of `stook._views`: of records of these kinds, if no others are asked
    /// for.
    pub(super) fn shown<'py>(
        of: &Bound<'py, Pack>,
        class: &str,
        shown: &Shown<'_, 'py>,
        default: Kinds,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keys = key::range(shown.prefix, shown.start, shown.end)?;
        let kinds = kinds_of(shown.kinds, default)?;
        // Refuses what is closed.
        of.get().session.reader_as_is().or_raise()?;
        let view = Self { of: of.clone().unbind(), keys, kinds, chosen: shown.text()? };
        of.py().import("stook._views")?.getattr(class)?.call1((view, progress))
    }

    fn scan(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Scan> {
        let (pack, filter) = (self.of.get().reader(py)?, self.kinds.into());
        let options =
            ScanOptions { order: ScanOrder::Key, keys: self.keys.clone(), ..ScanOptions::default() };
        let request = ScanRequest { pack, filter, options, split: None, cursor: None };
        Scan::begin(py, Passed::new(progress)?, Tables::new(request, None, progress))
    }

    fn shows(&self, py: Python<'_>, key: &Key) -> PyResult<bool> {
        let of = self.of.get();
        if !self.keys.contains(key) {
            return Ok(false);
        }
        if self.kinds == Kinds::ALL {
            return of.session.contains(key, &Detached(py)).or_raise();
        }
        let reader = of.reader(py)?;
        let look = || -> pack::Result<bool> {
            let entry = reader.locate(std::slice::from_ref(key))?.pop().unwrap_or(Ok(None))?;
            Ok(!reader.of_kinds(entry.into_iter().collect(), self.kinds)?.is_empty())
        };
        py.detach(look).or_raise()
    }
}

getters! { View {
    /// The pack.
    pack: Py<Pack> = |this, py| this.of.clone_ref(py);
    /// The arguments that choose records, as text, each after a comma.
    chosen: String = |this| this.chosen.clone();
}}

#[pymethods]
impl View {
    /// Goes through the keys.
    fn keys(&self, py: Python<'_>) -> PyResult<Keys> {
        let (reader, range, kinds) = (self.of.get().reader(py)?, self.keys.clone(), self.kinds);
        Ok(Keys::new(py.detach(|| OwnedKeys::of_pack(reader, range, kinds)).or_raise()?))
    }

    /// Goes through keys and values.
    #[pyo3(signature = (progress=None))]
    fn items(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Items> {
        Ok(Items::new(self.scan(py, progress)?, true))
    }

    /// Goes through values.
    #[pyo3(signature = (progress=None))]
    fn values(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Items> {
        Ok(Items::new(self.scan(py, progress)?, false))
    }

    /// How many there are: from the index, and by heads where it says no kinds.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        let (reader, range, kinds) = (self.of.get().reader(py)?, self.keys.clone(), self.kinds);
        let count =
            || on_this_thread(|go_on| contents::count(reader, range, kinds, &mut || go_on([])).or_raise());
        py.detach(count)
    }

    /// Whether a key is among them; what can be no key is not.
    fn has(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        key::if_any(key)?.map_or(Ok(false), |key| self.shows(py, &key))
    }

    /// Whether a key is among them that has this value.
    fn has_item(&self, py: Python<'_>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        match key::if_any(key)? {
            Some(key) if self.shows(py, &key)? => {
                let found = self.of.get().session.value(&key, &Detached(py)).or_raise()?;
                Ok(found.is_some_and(|found| is_bytes(value, &found)))
            }
            _ => Ok(false),
        }
    }
}
