//! Ctrl-C, SIGTERM and SIGHUP as a flag that commands poll, so that they can stop cleanly.
//!
//! Commands call [`check`] at every consistent point, and read inputs that may block forever
//! (stdin, pipes) through [`Interruptible`]. A second signal ends the program at once: a user who
//! presses twice does not want to wait for the clean-up. A signal within half a second of the first
//! is not a second one: `timeout` signals the program and its group, so that one request arrives
//! twice. The first signal ends the program at once while results are being written to stdout: a
//! reader that does not read would block it, and by then there is nothing to clean up. Work that
//! others may block (servers) is done by [`wait_for`], on a thread that is abandoned when the
//! program is asked to stop.

use std::convert::Infallible;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::exit;

/// Set in the handler itself, before a waiting read can see the end of input from a program that
/// the same Ctrl-C ended.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Whether the next signal is a second one.
static ASKED_BEFORE: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Where each signal writes a byte.
static SIGNALLED: OnceLock<UnixStream> = OnceLock::new();

/// How long signals count as the same one.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// Whether results are on their way to stdout.
static WRITING: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// How long one wait for input takes, before the flag is looked at again, in nanoseconds.
const WAIT_NS: i64 = 50_000_000;

/// The same for work on another thread.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The user wants the program to stop. Ends it with exit code 130.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Starts listening to signals; once per process.
///
/// # Errors
/// Returns an error if the system refuses the handler.
pub(crate) fn install() -> anyhow::Result<()> {
    listen().context("cannot listen to Ctrl-C")
}

fn listen() -> io::Result<()> {
    let (first, signalled) = UnixStream::pair()?;
    // Waits for the first signal, and is left alone when the program ends.
    std::thread::Builder::new()
        .name("stook-signal".into())
        .spawn(move || expect_second(first, SAME_SIGNAL, &ASKED_BEFORE))?;
    let signalled = SIGNALLED.get_or_init(|| signalled);
    [SIGINT, SIGTERM, SIGHUP].into_iter().try_for_each(|signal| listen_to(signal, signalled))
}

fn listen_to(signal: i32, signalled: &UnixStream) -> io::Result<()> {
    let code = i32::from(exit::INTERRUPTED);
    flag::register_conditional_shutdown(signal, code, ASKED_BEFORE.clone())?;
    flag::register_conditional_shutdown(signal, code, WRITING.clone())?;
    flag::register(signal, INTERRUPTED.clone())?;
    low_level::pipe::register(signal, signalled.try_clone()?)?;
    Ok(())
}

/// Takes SIGQUIT for a request to stop, too, as other servers do: for a program that others would
/// get errors of if it ended at once, with a core.
///
/// # Errors
/// Returns an error if the system refuses the handler.
pub fn stop_with_quit() -> anyhow::Result<()> {
    // Without the others none is wanted.
    let Some(signalled) = SIGNALLED.get() else { return Ok(()) };
    listen_to(SIGQUIT, signalled).context("cannot listen to SIGQUIT")
}

/// Sets `asked_before` some time after the first signal, which is a byte of `first`.
fn expect_second(mut first: impl Read, same: Duration, asked_before: &AtomicBool) {
    if first.read_exact(&mut [0]).is_ok() {
        std::thread::sleep(same);
        asked_before.store(true, Ordering::SeqCst);
    }
}

/// Calls what writes to stdout: until it returns, one signal ends the program.
pub(crate) fn while_writing<T>(write: impl FnOnce() -> T) -> T {
    WRITING.store(true, Ordering::SeqCst);
    let written = write();
    WRITING.store(false, Ordering::SeqCst);
    written
}

/// Input that may never come: reading it ends with [`Interrupted`] when the program is asked to
/// stop, also where the input ends at that moment, because what wrote it was stopped, too.
#[derive(Debug)]
pub struct Interruptible<R>(R);

impl Interruptible<File> {
    /// What comes through stdin, without the buffer of the standard library: what is in there would
    /// not be waited for.
    ///
    /// # Errors
    /// Returns an error if this process has no descriptor left.
    pub fn stdin() -> Result<Self, stook::Error> {
        let opened = io::stdin().as_fd().try_clone_to_owned();
        opened.map(|stdin| Self(File::from(stdin))).map_err(|error| stook::Error::io("open", "stdin", error))
    }

    /// Opens a file, or a pipe without waiting for its writer.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path).map(Self)
    }

    /// The file.
    pub fn get(&self) -> &File {
        &self.0
    }

    /// The file, to be read in another way.
    pub fn into_inner(self) -> File {
        self.0
    }
}

impl<R: Read + AsFd> Read for Interruptible<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            check().map_err(io::Error::other)?;
            let wait = Timespec { tv_sec: 0, tv_nsec: WAIT_NS };
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&wait)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                ready => ready?,
            };
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) => return check().map(|()| 0).map_err(io::Error::other),
                read => return read,
            }
        }
    }
}

/// Does work that may be blocked by others, on another thread. When the program is asked to stop,
/// the work continues there until the program has ended: it must leave only states that a kill
/// would leave, too.
///
/// # Errors
/// Returns [`Interrupted`], or an error if no thread can be started.
pub fn wait_for<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<T> {
    check()?;
    let (at_work, ended) = mpsc::channel::<Infallible>();
    let begun = std::thread::Builder::new().name("stook-wait".into()).spawn(move || {
        // Dropped when the work is done, whether well or by a panic.
        let _at_work = at_work;
        work()
    });
    let worker = begun.context("cannot start a thread")?;
    while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        check()?;
    }
    match worker.join() {
        Ok(done) => Ok(done),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Takes the end of stdin for a request to stop, too: a program that runs this one needs no more
/// than a pipe to it, and leaves nothing behind however it ends.
///
/// # Errors
/// Returns an error if no thread can be started.
pub fn stop_with_stdin() -> anyhow::Result<()> {
    let read = || {
        // An error ends it as well. Nobody waits for what is written.
        let _all = io::copy(&mut io::stdin(), &mut io::sink());
        INTERRUPTED.store(true, Ordering::SeqCst);
    };
    std::thread::Builder::new().name("stook-stdin".into()).spawn(read).context("cannot start a thread")?;
    Ok(())
}

/// Whether the program was asked to stop.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// An error when the program was asked to stop.
///
/// # Errors
/// Returns [`Interrupted`].
pub fn check() -> Result<(), Interrupted> {
    if interrupted() { Err(Interrupted) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_signal_is_a_second_one_only_after_a_first() {
        let asked_before = AtomicBool::new(false);
        expect_second(io::empty(), Duration::ZERO, &asked_before);
        assert!(!asked_before.load(Ordering::SeqCst));
        expect_second(&b"\0"[..], Duration::ZERO, &asked_before);
        assert!(asked_before.load(Ordering::SeqCst));
    }
}
