//! `stook.Batch`: atomic groups of puts and deletions.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use stook::ops::shared::{Change, Writer};

use super::attributes;
use crate::errors::{OrRaise as _, closed};
use crate::key;
use crate::locks::locked;
use crate::memory::{Given, Settled};
use crate::reports::{async_context, context};
use crate::wait::ProgressReporter;

/// Puts and deletions that count together or not at all; made by `Pack.batch`.
///
/// ``batch[key] = value`` puts, and ``del batch[key]`` deletes, if there is such a record then.
#[pyclass(module = "stook", frozen, mapping)]
pub(crate) struct Batch {
    writer: Arc<Writer>,
    group: String,
    /// `None` after it was committed or abandoned.
    changes: Mutex<Option<Vec<Change<Settled>>>>,
}

impl Batch {
    pub(super) fn new(writer: Arc<Writer>, group: String) -> Self {
        Self { writer, group, changes: Mutex::new(Some(Vec::new())) }
    }

    fn add(&self, change: Change<Settled>) -> PyResult<()> {
        let mut changes = locked(&self.changes);
        changes.as_mut().ok_or_else(|| closed("batch"))?.push(change);
        Ok(())
    }

    fn check_open(&self) -> PyResult<()> {
        locked(&self.changes).as_ref().map(|_| ()).ok_or_else(|| closed("batch"))
    }
}

#[pymethods]
impl Batch {
    /// Puts a record when the batch is committed.
    ///
    /// Args:
    ///     key: The key.
    ///     value: The value.
    ///     attributes: Small values that go with it, by name.
    #[pyo3(signature = (key, value, *, attributes=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        attributes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let key = key::from_python(key)?;
        let body = Given::new(value)?.settled(py);
        self.add(Change::Put { key, attributes: attributes::from_python(attributes)?, body })
    }

    /// Deletes a record, if there is one, when the batch is committed.
    ///
    /// Args:
    ///     key: The key.
    #[pyo3(signature = (key))]
    fn delete(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.add(Change::Delete(key::from_python(key)?))
    }

    fn __setitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(py, key, value, None)
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.delete(key)
    }

    fn __len__(&self) -> usize {
        let changes = locked(&self.changes);
        changes.as_ref().map_or(0, Vec::len)
    }

    fn __repr__(&self) -> String {
        let is_open = self.check_open().is_ok();
        format!("<stook.Batch of {} changes{}>", self.__len__(), if is_open { "" } else { ", closed" })
    }

    /// Writes all of it. The end of a ``with`` statement does so by itself.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let changes = locked(&self.changes).take().ok_or_else(|| closed("batch"))?;
        let (written, reported) = py.detach(|| {
            let mut signals = ProgressReporter::new(None);
            let written = self.writer.commit(&self.group, &changes, &mut || signals.go_on(&[]));
            (written, signals.finish())
        });
        reported?;
        written.or_raise()
    }
}

context! { Batch, |this| this.check_open()?, |this, py, failed| {
    // It may have been committed in the block.
    match this.check_open() {
        Ok(()) if !failed => this.commit(py),
        _ => {
            locked(&this.changes).take();
            Ok(())
        }
    }
}}

async_context! { Batch }
