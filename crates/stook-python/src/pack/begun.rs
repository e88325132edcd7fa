//! State of an iterator, scans and keys, that belongs to one process and is used by one thread at a
//! time.

use std::sync::Mutex;

use pyo3::prelude::*;

use crate::errors::{OrRaise as _, Raise, invalid};
use crate::locks::locked;

pub(crate) struct Begun<T> {
    inner: Mutex<T>,
    process: u32,
}

impl<T: Send> Begun<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner: Mutex::new(inner), process: std::process::id() }
    }

    /// The item that is `ready`, or else what `wait` returns, which runs without the interpreter.
    pub(crate) fn next<I: Send, E: Raise + Send>(
        &self,
        py: Python<'_>,
        ready: impl FnOnce(&mut T) -> Option<I>,
        wait: impl FnOnce(&mut T) -> Result<Option<I>, E> + Send,
    ) -> PyResult<Option<I>> {
        // The usual case: the batch has one, and the lock is free.
        if let Some(item) = self.at_once(ready) {
            return Ok(Some(item));
        }
        py.check_signals()?;
        self.with(py, wait)?.or_raise()
    }

    /// The item that is `ready`, if that is known without a wait.
    pub(crate) fn at_once<I>(&self, ready: impl FnOnce(&mut T) -> Option<I>) -> Option<I> {
        self.inner.try_lock().ok().and_then(|mut inner| ready(&mut inner))
    }

    /// Runs `work` on it without the interpreter. Refused in a forked child: a thread of the parent
    /// may have held the lock.
    pub(crate) fn with<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> PyResult<R> {
        if self.process != std::process::id() {
            let text = "this was begun in the process that this one was forked from; begin it again here";
            return Err(invalid(text));
        }
        Ok(py.detach(|| work(&mut locked(&self.inner))))
    }
}
