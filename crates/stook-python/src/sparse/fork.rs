//! Detection of forks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict};

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// The number of forks between the first process and this one. Costs no system call.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Relaxed)
}

/// Counts forks from now on; called once, when the module is initialised.
pub(crate) fn watch(py: Python<'_>) -> PyResult<()> {
    let os = py.import("os")?;
    if !os.hasattr("register_at_fork")? {
        return Ok(());
    }
    let count = PyCFunction::new_closure(py, None, None, |_, _| {
        GENERATION.fetch_add(1, Relaxed);
    })?;
    let named = PyDict::new(py);
    named.set_item("after_in_child", count)?;
    os.call_method("register_at_fork", (), Some(&named)).map(drop)
}
