//! `stook.DiskCache`: a directory in which what was fetched is kept.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use stook::sparse::{self, DiskCacheOptions};

use super::reports;
use crate::errors::OrRaise as _;
use crate::numbers;
use crate::paths;
use crate::reports::getters;

/// A directory in which what was fetched of remote files is kept for the next time, within a
/// budget.
///
/// Shared by any number of processes. What was used longest ago is evicted. Bytes are verified
/// whenever they are read; what is damaged is fetched again. A disk that is full or read-only fails
/// no read: :meth:`statistics` shows it.
///
/// Args:
///     directory: Where. It is made, for the user of this process alone, where there is none;
///         no other user may be able to write in it.
///     budget_bytes: What all that is kept may take of the disk.
///
/// Raises:
///     OSError: It cannot be made or opened, or others may write in it.
#[pyclass(module = "stook", frozen)]
pub(crate) struct DiskCache {
    pub(crate) cache: Arc<sparse::DiskCache>,
}

/// The default budget: 10 GiB.
pub(crate) const BUDGET_BYTES: u64 = 10 << 30;

#[pymethods]
impl DiskCache {
    #[new]
    #[pyo3(signature = (directory, budget_bytes=10_737_418_240))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = paths::directory)] directory: PathBuf,
        #[pyo3(from_py_with = numbers::budget_bytes)] budget_bytes: u64,
    ) -> PyResult<Self> {
        let options = DiskCacheOptions { budget_bytes };
        let cache = py.detach(|| sparse::DiskCache::open(directory, options)).or_raise()?;
        Ok(Self { cache })
    }

    /// What was done with it in this process.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        reports::disk(py, &self.cache.statistics())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (PathBuf, u64)) {
        let cache = slf.get();
        let (directory, options) = (cache.cache.directory().to_path_buf(), cache.cache.options());
        (slf.get_type().into_any(), (directory, options.budget_bytes))
    }

    fn __repr__(&self) -> String {
        let budget_bytes = self.cache.options().budget_bytes;
        format!("stook.DiskCache({:?}, budget_bytes={budget_bytes})", self.cache.directory())
    }
}

getters! { DiskCache {
    /// Where it is.
    directory: PathBuf = |this| this.cache.directory().to_path_buf();
    /// What all that is kept may take of the disk, in bytes.
    budget_bytes: u64 = |this| this.cache.options().budget_bytes;
}}
