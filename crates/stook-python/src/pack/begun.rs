//! What was begun in one process and is gone through by one thread at a time: scans, keys.

use std::sync::Mutex;

use pyo3::prelude::*;
use stook::pack;

use crate::errors::{OrRaise as _, invalid};
use crate::locks::locked;

pub(crate) struct Begun<T> {
    inner: Mutex<T>,
    process: u32,
}

impl<T: Send> Begun<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner: Mutex::new(inner), process: std::process::id() }
    }

    /// What is `ready`, or else what `wait` gives, without the interpreter.
    pub(crate) fn next<I: Send>(
        &self,
        py: Python<'_>,
        ready: impl FnOnce(&mut T) -> Option<I>,
        wait: impl FnOnce(&mut T) -> pack::Result<Option<I>> + Send,
    ) -> PyResult<Option<I>> {
        // Most are there already, and nobody else holds the lock.
        if let Ok(mut inner) = self.inner.try_lock()
            && let Some(item) = ready(&mut inner)
        {
            return Ok(Some(item));
        }
        py.check_signals()?;
        self.with(py, wait)?.or_raise()
    }

    /// Does something with it, without the interpreter. It does not go on in a process that was
    /// forked from the one that began it: a thread that is not here may have been at it.
    pub(crate) fn with<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> PyResult<R> {
        if self.process != std::process::id() {
            let text = "this was begun in the process that this one was forked from; begin it again here";
            return Err(invalid(text));
        }
        Ok(py.detach(|| work(&mut locked(&self.inner))))
    }
}
