//! The interpreter below callbacks of consumers.
//!
//! PyO3 takes a thread for attached if it attached it itself. A consumer may have let go of the
//! interpreter since, below a call of ours (`Scan.to_table` calls pyarrow, which does): it has to
//! be asked for in the way that looks at the interpreter itself.

use pyo3::ffi;
use pyo3::prelude::*;

/// The interpreter, held by this thread until this is dropped.
struct Held(ffi::PyGILState_STATE);

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the state is that of the call of `PyGILState_Ensure` that this thread made last.
        unsafe { ffi::PyGILState_Release(self.0) }
    }
}

/// Runs work with the interpreter, whether this thread has it or not; `None` where there is none
/// any more.
pub(super) fn attached<R>(work: impl for<'py> FnOnce(Python<'py>) -> R) -> Option<R> {
    // SAFETY: both may be called at any time, the second while there is an interpreter.
    let _held = unsafe {
        if ffi::Py_IsInitialized() == 0 {
            return None;
        }
        Held(ffi::PyGILState_Ensure())
    };
    Python::try_attach(work)
}
