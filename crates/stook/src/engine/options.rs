//! Which backend runs: by the request of the caller, `STOOK_ENGINE`, and the support of the system.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

use super::threads::ThreadsEngine;
use super::{CallFaults, Engine, EngineFactory};
use crate::error::{Error, Result};

/// The variable that overrides [`Backend::Auto`].
const VARIABLE: &str = "STOOK_ENGINE";

/// The greatest depth: what the smallest limit on ring entries among supported kernels allows.
const DEPTH_MAX: usize = 4096;

/// Which backend is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// `io_uring` where the kernel grants it, else threads. `STOOK_ENGINE` is honoured.
    #[default]
    Auto,
    /// `io_uring`, or an error.
    Uring,
    /// The thread pool.
    Threads,
}

impl Backend {
    /// The backend that a value of `STOOK_ENGINE` selects; no value, or an empty one, selects none.
    fn from_variable(value: Option<&OsStr>) -> Result<Self> {
        match value.map(|value| (value, value.to_str())) {
            None | Some((_, Some(""))) => Ok(Self::Auto),
            Some((_, Some("uring"))) => Ok(Self::Uring),
            Some((_, Some("threads"))) => Ok(Self::Threads),
            Some((value, _)) => {
                let message = format!("{VARIABLE} must be uring or threads, not {}", value.display());
                Err(refused(io::Error::new(io::ErrorKind::InvalidInput, message)))
            }
        }
    }
}

impl EngineFactory for Backend {
    fn build(&self, depth: usize) -> Result<Box<dyn Engine>> {
        EngineOptions { backend: *self, depth }.build()
    }

    fn may_be_bypassed(&self) -> bool {
        true
    }
}

/// How to make an engine.
#[derive(Debug, Clone, Copy)]
pub struct EngineOptions {
    /// Which backend.
    pub backend: Backend,
    /// Requests in flight at most, 1 to 4096.
    pub depth: usize,
}

impl EngineOptions {
    /// The default backend at this depth.
    pub fn with_depth(depth: usize) -> Self {
        Self { backend: Backend::Auto, depth }
    }

    /// Makes the engine.
    ///
    /// # Errors
    /// Returns an error if the depth is out of bounds, `STOOK_ENGINE` does not name a backend, or
    /// the system refuses the backend that was requested by name.
    pub fn build(self) -> Result<Box<dyn Engine>> {
        self.make(None)
    }

    /// Makes the engine, with system calls that meet faults: for tests.
    ///
    /// # Errors
    /// Returns the errors of [`build`](Self::build).
    pub fn build_with_faults(self, faults: Arc<dyn CallFaults>) -> Result<Box<dyn Engine>> {
        self.make(Some(faults))
    }

    fn make(self, faults: Option<Arc<dyn CallFaults>>) -> Result<Box<dyn Engine>> {
        if !(1..=DEPTH_MAX).contains(&self.depth) {
            let message = format!("its depth must be 1 to {DEPTH_MAX}, not {}", self.depth);
            return Err(refused(io::Error::new(io::ErrorKind::InvalidInput, message)));
        }
        let backend = match self.backend {
            Backend::Auto => Backend::from_variable(env::var_os(VARIABLE).as_deref())?,
            chosen => chosen,
        };
        match backend {
            Backend::Threads => threads(self.depth, faults),
            Backend::Uring => uring(self.depth, faults),
            Backend::Auto => uring_or_threads(self.depth, faults),
        }
    }
}

/// Containers refuse `io_uring` in many ways (`EPERM`, `ENOSYS`, `ENOMEM`, `EACCES`); threads do
/// the same work, so no refusal is worth failing for.
fn uring_or_threads(depth: usize, faults: Option<Arc<dyn CallFaults>>) -> Result<Box<dyn Engine>> {
    uring(depth, faults.clone()).or_else(|_| threads(depth, faults))
}

fn threads(depth: usize, faults: Option<Arc<dyn CallFaults>>) -> Result<Box<dyn Engine>> {
    Ok(Box::new(ThreadsEngine::with_faults(depth, faults).map_err(refused)?))
}

#[cfg(target_os = "linux")]
fn uring(depth: usize, faults: Option<Arc<dyn CallFaults>>) -> Result<Box<dyn Engine>> {
    Ok(Box::new(super::uring::UringEngine::with_faults(depth, faults).map_err(refused)?))
}

#[cfg(not(target_os = "linux"))]
fn uring(_depth: usize, _faults: Option<Arc<dyn CallFaults>>) -> Result<Box<dyn Engine>> {
    Err(refused(io::Error::new(io::ErrorKind::Unsupported, "io_uring exists on Linux only")))
}

fn refused(error: io::Error) -> Error {
    Error::io("make", "an I/O engine", error)
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn the_variable_chooses_and_anything_else_is_reported() {
        let asked = |value: &str| Backend::from_variable(Some(OsStr::new(value)));
        assert_eq!(Backend::from_variable(None).unwrap(), Backend::Auto);
        assert_eq!(asked("").unwrap(), Backend::Auto);
        assert_eq!(asked("uring").unwrap(), Backend::Uring);
        assert_eq!(asked("threads").unwrap(), Backend::Threads);
        let error = asked("aio").unwrap_err();
        let cause = error.source().unwrap().to_string();
        assert_eq!(cause, "STOOK_ENGINE must be uring or threads, not aio");
    }

    #[test]
    fn depths_out_of_bounds_are_refused() {
        for depth in [0, DEPTH_MAX + 1, usize::MAX] {
            assert!(EngineOptions::with_depth(depth).build().is_err(), "{depth}");
        }
        for depth in [1, DEPTH_MAX] {
            assert!(Backend::Threads.build(depth).unwrap().depth() >= depth);
        }
    }

    /// Makes the kernel refuse `io_uring_setup` to this thread, and to those it starts, with
    /// `errno`, as sandboxes of containers do.
    #[cfg(target_os = "linux")]
    #[expect(unsafe_code, reason = "a system call filter has no safe interface")]
    fn refuse_io_uring(errno: i32) {
        const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
        let line = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let mut lines = [
            line(LOAD, 0, 0, 0),
            line(EQUAL, 0, 1, libc::SYS_io_uring_setup as u32),
            line(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
            line(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_mut_ptr() };
        // SAFETY: it only forbids this thread to gain privileges.
        let promised = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        assert_eq!(promised, 0);
        // SAFETY: the program outlives the call, which copies it.
        let filtered =
            unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
        assert_eq!(filtered, 0, "{}", io::Error::last_os_error());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn threads_serve_where_io_uring_is_refused() {
        for errno in [libc::EPERM, libc::ENOSYS, libc::ENOMEM] {
            let thread = std::thread::spawn(move || {
                refuse_io_uring(errno);
                let named = Backend::Uring.build(4).map(|engine| engine.name());
                let chosen = uring_or_threads(4, None).map(|engine| engine.name());
                (named, chosen)
            });
            let (named, chosen) = thread.join().unwrap();
            let error = named.expect_err("asked for by name, a refusal is reported");
            let kind = io::Error::from_raw_os_error(errno).kind();
            assert_eq!(error.io_kind(), Some(kind));
            assert_eq!(chosen.unwrap(), "threads");
        }
    }
}
