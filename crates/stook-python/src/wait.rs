//! Waiting with an eye on signals: in the main thread Ctrl-C is noticed within some 20 ms.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::locks::locked;

/// How often signals are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whether this is the thread in which Python runs signal handlers.
fn is_main_thread() -> bool {
    #[cfg(target_os = "linux")]
    return rustix::thread::gettid() == rustix::process::getpid();
    #[cfg(not(target_os = "linux"))]
    return true;
}

/// What to call for an argument `progress`: a callable, or a bar for `True`. `numbers` are the
/// names of what it is called with.
///
/// # Errors
/// `InvalidError` for anything else, before anything is done.
pub(crate) fn callback_of(
    progress: Option<&Bound<'_, PyAny>>,
    numbers: &[&str],
) -> PyResult<Option<Py<PyAny>>> {
    let Some(progress) = progress else { return Ok(None) };
    let arguments = PyTuple::new(progress.py(), numbers)?.to_list();
    arguments.insert(0, progress)?;
    let callback =
        progress.py().import("stook._progress")?.getattr("callback")?.call1(arguments.to_tuple())?;
    Ok((!callback.is_none()).then(|| callback.unbind()))
}

/// Does work that may wait long, without the interpreter. In the main thread it is done on another
/// one, so that a signal is noticed; what was begun then goes on there to its end, and its result
/// is dropped.
///
/// # Errors
/// What a signal handler raises: `KeyboardInterrupt`.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    if !is_main_thread() {
        return Ok(py.detach(work));
    }
    watched(py, |_| Ok(()), work)
}

/// Does work on another thread. Every 20 ms signals are looked for, and `look` is called.
///
/// # Errors
/// What a signal handler or `look` raises; the work goes on to its end, and its result is dropped.
pub(crate) fn watched<T: Send + 'static>(
    py: Python<'_>,
    mut look: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    result_of(py, &started(work)?, &mut look)
}

/// What work on another thread gives. Behind a lock only to be lent to a closure that another
/// thread might run; no other does.
type Awaited<T> = Mutex<Receiver<T>>;

/// Begins work on another thread.
fn started<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> PyResult<Awaited<T>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::Builder::new().name("stook-wait".into()).spawn(move || {
        // Nobody waits any more if a signal came first.
        let _ = sender.send(work());
    })?;
    Ok(Mutex::new(receiver))
}

/// Waits for the result of it, as [`watched`] does; after an error it can be waited for again.
fn result_of<T: Send>(
    py: Python<'_>,
    awaited: &Awaited<T>,
    look: &mut dyn FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<T> {
    loop {
        let received = py.detach(|| locked(awaited).recv_timeout(LOOK_EVERY));
        match received {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                look(py)?;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "a thread of stook panicked; this is a bug in stook, please report it",
                ));
            }
        }
    }
}

/// The same for work with an argument `progress`, which is called with these numbers. A signal
/// tells the work to stop where it next can; what the handler of the signal raises is raised when
/// the work has ended and has taken back what it does not leave behind. A second signal ends the
/// wait for that.
///
/// # Errors
/// As [`callback_of`]; what a signal handler or the callback raised; what the work did.
pub(crate) fn with_progress<T: Send + 'static, const N: usize>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    numbers: [&str; N],
    work: impl FnOnce(&mut dyn FnMut([u64; N]) -> bool) -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    let callback = callback_of(progress, &numbers)?;
    let stop = Arc::new(AtomicBool::new(false));
    let is_stopped = stop.clone();
    let work = move || {
        let is_wanted = || !is_stopped.load(Ordering::Relaxed);
        let mut reporter = ProgressReporter::new(callback);
        // The signal may come while the callable runs.
        let done = work(&mut |numbers| is_wanted() && reporter.go_on(&numbers) && is_wanted());
        let reported = if is_wanted() { reporter.finish() } else { Ok(()) };
        (done, reported)
    };
    let (done, reported) = if is_main_thread() {
        let awaited = started(work)?;
        match result_of(py, &awaited, &mut |_| Ok(())) {
            Ok(ended) => ended,
            Err(raised) => {
                stop.store(true, Ordering::Relaxed);
                drop(result_of(py, &awaited, &mut |_| Ok(()))?);
                return Err(raised);
            }
        }
    } else {
        py.detach(work)
    };
    reported?;
    done
}

/// Reports to a callable of Python how far work without the interpreter has come, and looks for
/// signals.
pub(crate) struct ProgressReporter {
    callback: Option<Py<PyAny>>,
    /// When it was last called, and signals were looked for: the first time at once, so that what
    /// raises ends the work before much is done.
    looked_at: Option<Instant>,
    /// What it was to be reported last, if it was not.
    owed: Option<Vec<u64>>,
    /// What the callable, or the handler of a signal, raised.
    raised: Option<PyErr>,
    /// Whether it was the callable, and not a signal.
    has_failed: bool,
}

impl ProgressReporter {
    pub(crate) fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { callback, looked_at: None, owed: None, raised: None, has_failed: false }
    }

    /// Whether to go on. Every 20 ms signals are looked for, and the callable receives these
    /// numbers.
    pub(crate) fn go_on(&mut self, numbers: &[u64]) -> bool {
        if self.raised.is_none() {
            if self.is_due() {
                self.look(numbers);
            } else {
                self.owed = Some(numbers.to_vec());
            }
        }
        self.raised.is_none()
    }

    fn is_due(&self) -> bool {
        self.looked_at.is_none_or(|looked_at| looked_at.elapsed() >= LOOK_EVERY)
    }

    /// Whether to go on, where there is nothing to tell the callable yet.
    pub(crate) fn looks_for_signals(&mut self) -> bool {
        if self.raised.is_none() && self.is_due() {
            self.raised = Python::attach(|py| py.check_signals()).err();
            self.looked_at = Some(Instant::now());
        }
        self.raised.is_none()
    }

    fn look(&mut self, numbers: &[u64]) {
        let called = Python::attach(|py| {
            py.check_signals()?;
            let Some(callback) = &self.callback else { return Ok(()) };
            let called = callback.call1(py, PyTuple::new(py, numbers)?).map(|_| ());
            // Ctrl-C comes while it runs, too, and is none of its errors.
            self.has_failed = matches!(&called, Err(error) if error.is_instance_of::<PyException>(py));
            called
        });
        self.owed = None;
        self.raised = called.err();
        self.looked_at = Some(Instant::now());
    }

    /// Reports the last numbers, if they are owed.
    pub(crate) fn report_last(&mut self) {
        if let (None, Some(numbers)) = (&self.raised, self.owed.take()) {
            self.look(&numbers);
        }
    }

    /// Whether the callable raised an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// The last numbers, and what was raised, if anything was.
    pub(crate) fn finish(mut self) -> PyResult<()> {
        self.report_last();
        self.raised.map_or(Ok(()), Err)
    }
}
