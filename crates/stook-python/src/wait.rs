//! Work that can be interrupted: in the main thread Ctrl-C is noticed within about 20 ms.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use stook::ops::session::Wait;

use crate::locks::locked;

/// How often signals are checked for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

thread_local! {
    /// Set when the work of [`with_progress`] that this thread runs is to stop.
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Whether the work of [`with_progress`] that this thread runs is to stop: for operations that take
/// a plain function to ask.
pub(crate) fn is_stopped() -> bool {
    STOP.with_borrow(|stop| stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)))
}

/// Whether this is the thread in which Python runs signal handlers.
pub(crate) fn is_main_thread() -> bool {
    #[cfg(target_os = "linux")]
    return rustix::thread::gettid() == rustix::process::getpid();
    #[cfg(not(target_os = "linux"))]
    return true;
}

/// The callback of an argument `progress`: the callable, or a bar for `True`. `numbers` names what
/// it is called with.
///
/// # Errors
/// `InvalidError` for anything else.
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

/// Runs blocking work without the interpreter. Called from the main thread, it runs on another
/// thread, so that signals are noticed; after a signal the work runs on there, and its result is
/// dropped.
///
/// # Errors
/// What a signal handler raises, such as `KeyboardInterrupt`.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    if !is_main_thread() {
        return Ok(py.detach(work));
    }
    polled(py, || Ok(()), work)
}

/// Runs work on another thread. Every 20 ms signals are checked for, and `poll` is called.
///
/// # Errors
/// What a signal handler or `poll` raises; the work runs on, and its result is dropped.
pub(crate) fn polled<T: Send + 'static>(
    py: Python<'_>,
    mut poll: impl FnMut() -> PyResult<()>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    wait_for(py, &spawn(work)?, &mut poll)
}

/// The result of work on another thread. The lock only makes it `Sync`, for closures that run
/// without the interpreter.
type Pending<T> = Mutex<Receiver<T>>;

/// Starts work on another thread.
fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> PyResult<Pending<T>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::Builder::new().name("stook-wait".into()).spawn(move || {
        // After a signal it is not received.
        let _ = sender.send(work());
    })?;
    Ok(Mutex::new(receiver))
}

/// Waits for the result, as [`polled`] does; after an error it can be waited for again.
fn wait_for<T: Send>(
    py: Python<'_>,
    pending: &Pending<T>,
    poll: &mut dyn FnMut() -> PyResult<()>,
) -> PyResult<T> {
    loop {
        let received = py.detach(|| locked(pending).recv_timeout(POLL_INTERVAL));
        match received {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                poll()?;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "a thread of stook panicked; this is a bug in stook, please report it",
                ));
            }
        }
    }
}

/// Waits for what a session does without the interpreter.
pub(crate) struct Detached<'py>(pub(crate) Python<'py>);

impl Wait for Detached<'_> {
    fn wait<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.detach(work)
    }
}

/// Reports numbers to the callback; whether the work is to go on.
pub(crate) type GoOn<'a, const N: usize> = dyn FnMut([u64; N]) -> bool + Send + 'a;

/// Runs work that has an argument `progress`, whose callback takes these numbers. After a signal
/// the work is stopped, and what the signal handler raised is raised once the work has stopped
/// and cleaned up. A second signal is raised at once.
///
/// # Errors
/// As [`callback_of`]; what a signal handler or the callback raised; errors of the work.
pub(crate) fn with_progress<T: Send + 'static, const N: usize>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    numbers: [&str; N],
    work: impl FnOnce(&mut GoOn<'_, N>) -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    let callback = callback_of(progress, &numbers)?;
    let stop = Arc::new(AtomicBool::new(false));
    let stop_work = stop.clone();
    let work = move || reporting(callback, &stop_work, work);
    let (done, reported) = if is_main_thread() {
        let pending = spawn(work)?;
        match wait_for(py, &pending, &mut || Ok(())) {
            Ok(ended) => ended,
            Err(raised) => {
                stop.store(true, Ordering::Relaxed);
                drop(wait_for(py, &pending, &mut || Ok(()))?);
                return Err(raised);
            }
        }
    } else {
        py.detach(work)
    };
    reported?;
    done
}

/// Runs work on this thread, which has let go of the interpreter, with a look at signals every
/// 20 ms: for what asks often whether to go on. It costs no thread.
///
/// # Errors
/// What a signal handler raised; errors of the work.
pub(crate) fn on_this_thread<T, const N: usize>(
    work: impl FnOnce(&mut GoOn<'_, N>) -> PyResult<T>,
) -> PyResult<T> {
    let (done, reported) = reporting(None, &Arc::default(), work);
    reported?;
    done
}

/// Runs work with a reporter, until it has ended or `stop` is set; what it gave, and what the
/// callback or a signal handler raised.
fn reporting<T, const N: usize>(
    callback: Option<Py<PyAny>>,
    stop: &Arc<AtomicBool>,
    work: impl FnOnce(&mut GoOn<'_, N>) -> PyResult<T>,
) -> (PyResult<T>, PyResult<()>) {
    let outer = STOP.replace(Some(stop.clone()));
    let has_stopped = || stop.load(Ordering::Relaxed);
    let mut reporter = ProgressReporter::new(callback);
    let done = work(&mut |numbers| {
        if !has_stopped() && !reporter.go_on(&numbers) {
            stop.store(true, Ordering::Relaxed);
        }
        // Read again: the signal may have come while the callback ran.
        !has_stopped()
    });
    STOP.set(outer);
    // After a signal the callback is not called any more.
    let reported = if has_stopped() { reporter.raised() } else { reporter.finish() };
    (done, reported)
}

/// Progress of what is gone through on threads of Python: records and bytes so far.
pub(crate) struct Passed {
    numbers: [AtomicU64; 2],
    reporter: Option<Mutex<ProgressReporter>>,
}

impl Passed {
    /// Nothing passed yet. `progress` is the argument of that name.
    ///
    /// # Errors
    /// As [`callback_of`].
    pub(crate) fn new(progress: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let callback = callback_of(progress, &["records", "bytes"])?;
        let reporter = callback.map(|callback| Mutex::new(ProgressReporter::new(Some(callback))));
        Ok(Self { numbers: Default::default(), reporter })
    }

    /// Counts a record with this many bytes; `None` is the end, at which the last numbers are
    /// reported.
    ///
    /// # Errors
    /// What the callback raised.
    pub(crate) fn add(&self, bytes: Option<usize>) -> PyResult<()> {
        self.add_many(bytes.map(|bytes| (1, bytes as u64)))
    }

    /// Whether somebody hears of it.
    pub(crate) fn is_reported(&self) -> bool {
        self.reporter.is_some()
    }

    /// Counts this many records with this many bytes; `None` is the end.
    ///
    /// # Errors
    /// What the callback raised.
    pub(crate) fn add_many(&self, passed: Option<(u64, u64)>) -> PyResult<()> {
        let Some(reporter) = &self.reporter else { return Ok(()) };
        let add = |number: &AtomicU64, more: u64| number.fetch_add(more, Ordering::Relaxed) + more;
        let [records, all] = &self.numbers;
        let (more_records, more_bytes) = passed.unwrap_or_default();
        let numbers = [add(records, more_records), add(all, more_bytes)];
        // While one thread is in the callback, others count only.
        let Ok(mut reporter) = reporter.try_lock() else { return Ok(()) };
        match passed {
            Some(_) => _ = reporter.go_on(&numbers),
            None => reporter.report_last(),
        }
        reporter.raised.take().map_or(Ok(()), Err)
    }
}

/// Calls a progress callback of Python from work that runs without the interpreter, and checks for
/// signals.
pub(crate) struct ProgressReporter {
    callback: Option<Py<PyAny>>,
    /// When it was last called and signals were checked for. The first call comes at once, so that
    /// a callback that raises ends the work early.
    last_call: Option<Instant>,
    /// The latest numbers, where they were not reported.
    unreported: Option<Vec<u64>>,
    /// What the callback, or a signal handler, raised.
    raised: Option<PyErr>,
    /// Whether the callback raised an error.
    has_failed: bool,
}

impl ProgressReporter {
    pub(crate) fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { callback, last_call: None, unreported: None, raised: None, has_failed: false }
    }

    /// Whether to go on. Every 20 ms it checks for signals and calls the callback with these
    /// numbers.
    pub(crate) fn go_on(&mut self, numbers: &[u64]) -> bool {
        if self.raised.is_none() {
            if self.is_due() {
                self.report(numbers);
            } else {
                self.unreported = Some(numbers.to_vec());
            }
        }
        self.raised.is_none()
    }

    fn is_due(&self) -> bool {
        self.last_call.is_none_or(|last_call| last_call.elapsed() >= POLL_INTERVAL)
    }

    /// Whether to go on, while there is nothing to report yet.
    pub(crate) fn check_signals(&mut self) -> bool {
        if self.raised.is_none() && self.is_due() {
            self.raised = Python::attach(|py| py.check_signals()).err();
            self.last_call = Some(Instant::now());
        }
        self.raised.is_none()
    }

    fn report(&mut self, numbers: &[u64]) {
        let called = Python::attach(|py| {
            py.check_signals()?;
            let Some(callback) = &self.callback else { return Ok(()) };
            let called = callback.call1(py, PyTuple::new(py, numbers)?).map(|_| ());
            // A `KeyboardInterrupt` that comes while it runs is not an error of it.
            self.has_failed = matches!(&called, Err(error) if error.is_instance_of::<PyException>(py));
            called
        });
        self.unreported = None;
        self.raised = called.err();
        self.last_call = Some(Instant::now());
    }

    /// Reports the latest numbers, if they were not.
    pub(crate) fn report_last(&mut self) {
        if let (None, Some(numbers)) = (&self.raised, self.unreported.take()) {
            self.report(&numbers);
        }
    }

    /// Whether the callback raised an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Reports the latest numbers, and fails with what was raised.
    pub(crate) fn finish(mut self) -> PyResult<()> {
        self.report_last();
        self.raised()
    }

    fn raised(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
    }
}
