//! What is given to be copied or verified, and what callers hear of it.

use std::path::PathBuf;

use pyo3::prelude::*;
use stook::ops::contents::{OpenOptions, Opened};
use stook::ops::copy::{Given, OpenGiven};
use stook::ops::fetching::Fetching;
use stook::pack::{Damage, DamageLog};

use crate::arguments::wrong_type;
use crate::errors::{ArchiveNotes, OrRaise as _, warn_of};
use crate::wait::GoOn;

/// Opens what is given.
pub(crate) struct Opening {
    open: OpenGiven,
    found: Found,
}

impl Opening {
    /// # Errors
    /// `InvalidError` for settings that cannot be used.
    pub(crate) fn new(mut open: OpenGiven, fetching: &Fetching) -> PyResult<Self> {
        open.contents = OpenOptions { pack: open.contents.pack, ..fetching.options().or_raise()? };
        Ok(Self { open, found: Found::default() })
    }

    /// # Errors
    /// What opening a path or an address meets.
    pub(crate) fn open<const N: usize>(&mut self, path: PathBuf, go_on: &mut GoOn<'_, N>) -> PyResult<Given> {
        let given = self.open.open(&path, &mut |_| go_on([0; N])).or_raise()?;
        match given.opened() {
            Some(Opened::Pack(contents)) => self.found.logs.push((path, contents.pack().damage_log())),
            Some(Opened::Archive(archive)) => self.found.notes.push(ArchiveNotes::of(archive)),
            None => {}
        }
        Ok(given)
    }

    /// What is found in packs and archives, also after this.
    pub(crate) fn found(self) -> Found {
        self.found
    }
}

/// What was found in packs and archives.
#[derive(Default)]
pub(crate) struct Found {
    logs: Vec<(PathBuf, DamageLog)>,
    notes: Vec<ArchiveNotes>,
}

impl Found {
    /// Warns of it; the damage.
    ///
    /// # Errors
    /// The warning, where warnings are errors.
    pub(crate) fn warn(&self, py: Python<'_>) -> PyResult<Vec<Damage>> {
        self.notes.iter().try_for_each(|notes| notes.warn(py))?;
        self.logs.iter().try_for_each(|(path, log)| warn_of(py, path, &log.all()))?;
        Ok(self.logs.iter().flat_map(|(_, log)| log.all()).collect())
    }
}

/// The argument `items`, and how far it is.
pub(crate) struct Hearing<'a, 'b> {
    go_on: &'a mut GoOn<'b, 3>,
    items: Option<Py<PyAny>>,
    /// What `items` raised.
    raised: Option<PyErr>,
}

impl<'a, 'b> Hearing<'a, 'b> {
    pub(crate) fn new(go_on: &'a mut GoOn<'b, 3>, items: Option<Py<PyAny>>) -> Self {
        Self { go_on, items, raised: None }
    }

    pub(crate) fn wants_items(&self) -> bool {
        self.items.is_some()
    }

    /// Whether to go on: files and bytes so far, and all bytes once they are counted.
    pub(crate) fn goes_on(&mut self, files: u64, bytes: u64, total_bytes: Option<u64>) -> bool {
        self.raised.is_none() && (self.go_on)([files, bytes, total_bytes.unwrap_or(0)])
    }

    /// Hands over an item, if that is asked for.
    pub(crate) fn item(&mut self, item: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>>) {
        if let (Some(callable), None) = (&self.items, &self.raised) {
            let called = Python::attach(|py| callable.call1(py, (item(py)?,)).map(drop));
            self.raised = called.err();
        }
    }

    /// What was done, unless `items` raised something.
    ///
    /// # Errors
    /// What it raised.
    pub(crate) fn or_raised<T>(self, done: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        self.raised.map_or_else(done, Err)
    }
}

/// The callable of an argument with this name, if one is given.
pub(crate) fn callable_of(name: &str, given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    match given {
        Some(given) if !given.is_callable() => Err(wrong_type(name, "a callable", given)),
        given => Ok(given.map(|given| given.clone().unbind())),
    }
}
