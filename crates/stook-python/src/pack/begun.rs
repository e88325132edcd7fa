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

    /// What `work` gives, which does not wait, where no other thread has it: letting go of the
    /// interpreter would take longer.
    pub(crate) fn at_once<R>(&self, work: impl FnOnce(&mut T) -> Option<R>) -> Option<R> {
        let mut inner = self.inner.try_lock().ok().filter(|_| self.process == std::process::id())?;
        work(&mut inner)
    }

    /// Runs `work` on it without the interpreter. Refused in a forked child: a thread of the parent
    /// may have held the lock.
    pub(crate) fn with<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> R + Send) -> PyResult<R> {
        self.check_process()?;
        Ok(py.detach(|| work(&mut locked(&self.inner))))
    }

    /// Refuses a forked child.
    pub(crate) fn check_process(&self) -> PyResult<()> {
        match self.process == std::process::id() {
            true => Ok(()),
            false => Err(invalid(
                "this was begun in the process that this one was forked from; begin it again here",
            )),
        }
    }
}
