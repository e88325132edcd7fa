//! Keys of packs and archives, read from their indexes in batches, and keys with values.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use stook::archive::Archive;
use stook::ops::contents::{OwnedFiles, OwnedKeys};
use stook::pack::{Key, KeyRange, Row, Stop};

use super::begun::Begun;
use super::scan::Scan;
use crate::errors::OrRaise as _;
use crate::key;
use crate::memory::bytes_of;
use crate::reports::async_iterator;
use crate::wait::{Passed, is_stopped, on_this_thread};

/// The keys of a pack or an archive in order, byte strings first, then ids.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Keys {
    inner: Begun<OwnedKeys>,
}

impl Keys {
    pub(crate) fn new(keys: OwnedKeys) -> Self {
        Self { inner: Begun::new(keys) }
    }

    /// The keys of an archive.
    pub(crate) fn of_archive(archive: Arc<Archive>, range: KeyRange) -> Self {
        Self::new(OwnedKeys::of_archive(archive, range))
    }
}

#[pymethods]
impl Keys {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = self.inner.next(py, OwnedKeys::ready, OwnedKeys::next)?;
        next.map(|key| key::to_python(py, &key)).transpose()
    }

    /// The next key, if it has been read.
    fn _next_at_once<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.inner.at_once(OwnedKeys::ready).map(|key| key::to_python(py, &key)).transpose()
    }
}

async_iterator! { Keys }
async_iterator! { Items }

/// Keys and values of a pack in the order of the keys, or of an archive as they lie in it; or
/// values alone.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Items {
    of: Of,
    with_keys: bool,
}

enum Of {
    Pack(Box<Scan>),
    Archive(Box<Begun<OwnedFiles>>, Passed),
}

impl Items {
    pub(crate) fn new(scan: Scan, with_keys: bool) -> Self {
        Self { of: Of::Pack(Box::new(scan)), with_keys }
    }

    /// The files of an archive.
    pub(crate) fn of_archive(
        py: Python<'_>,
        archive: Arc<Archive>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let passed = Passed::new(progress)?;
        let files = py.detach(|| OwnedFiles::of(archive, Stop(is_stopped))).or_raise()?;
        Ok(Self { of: Of::Archive(Box::new(Begun::new(files)), passed), with_keys: true })
    }
}

#[pymethods]
impl Items {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = match &self.of {
            Of::Pack(scan) => scan.next_row(py)?.map(|Row { head, body, .. }| (head.key, body)),
            Of::Archive(files, passed) => {
                let read =
                    |files: &mut OwnedFiles| on_this_thread(|go_on| files.next(&mut || go_on([])).or_raise());
                let next = files.next(py, OwnedFiles::ready, read)?;
                passed.add(next.as_ref().map(|(_, body)| body.len()))?;
                next
            }
        };
        next.map(|(key, body)| self.shown(py, &key, &body)).transpose()
    }

    /// The next of them, if it has been read.
    fn _next_at_once<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let ready = match &self.of {
            Of::Pack(scan) => scan.row_at_once()?.map(|Row { head, body, .. }| (head.key, body)),
            Of::Archive(files, passed) => {
                let ready = files.at_once(OwnedFiles::ready);
                ready.as_ref().map_or(Ok(()), |(_, body)| passed.add(Some(body.len())))?;
                ready
            }
        };
        ready.map(|(key, body)| self.shown(py, &key, &body)).transpose()
    }
}

impl Items {
    /// A value, with its key if that is wanted.
    fn shown<'py>(&self, py: Python<'py>, key: &Key, body: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let value: Bound<'py, PyBytes> = bytes_of(py, body)?;
        if !self.with_keys {
            return Ok(value.into_any());
        }
        let pair = [key::to_python(py, key)?, value.into_any()];
        Ok(PyTuple::new(py, pair)?.into_any())
    }
}
