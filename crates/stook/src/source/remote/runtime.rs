//! The one thread on which all requests of the process run.
//!
//! Callers may themselves be inside an asynchronous runtime: they only hand a task over and wait
//! for a channel. A forked child does not have the thread, and gets one of its own with its first
//! request.

use std::future::Future;
use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::process::PerProcess;

static RUNTIME: PerProcess<Runtime> = PerProcess::new();

#[derive(Debug)]
struct Runtime {
    handle: Handle,
    /// The thread ends when this is dropped: two threads may make a runtime at once, and one of
    /// them is not used.
    _running: oneshot::Sender<()>,
}

impl Runtime {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel::<()>();
        thread::Builder::new().name("stook-remote".into()).spawn(move || {
            // It is an error that ends it: that of the sender being gone.
            let _ = runtime.block_on(ended);
        })?;
        Ok(Self { handle, _running: running })
    }
}

/// Runs a task on the thread, until it ends or the returned value is dropped.
///
/// # Errors
/// Returns an error if no thread can be started.
pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> io::Result<Task> {
    let runtime = RUNTIME.get_or_try_init(Runtime::start)?;
    let handle = runtime.handle.spawn(task).abort_handle();
    Ok(Task { process: std::process::id(), handle })
}

/// A task that is called off when this is dropped.
#[derive(Debug)]
pub(super) struct Task {
    process: u32,
    handle: AbortHandle,
}

impl Drop for Task {
    fn drop(&mut self) {
        // In a forked child the thread does not exist, and its locks stay locked.
        if self.process == std::process::id() {
            self.handle.abort();
        }
    }
}
