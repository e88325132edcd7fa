//! Calls of a system on which another program works too, or that is another than the one here.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use stook::tree::outbox::{Calls, System};

/// What another program does.
type Deed = Box<dyn FnOnce() + Send>;

/// Calls of the system, some of which are as on another one.
#[derive(Default)]
pub struct AlteredCalls {
    has_no_exchange: bool,
    step_ns: Option<i64>,
    kind: Option<u32>,
    is_on_server: bool,
    /// What is done just before calls that give a name, one for each of them.
    deeds: Mutex<(OsString, VecDeque<Deed>)>,
}

impl fmt::Debug for AlteredCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlteredCalls").field("step_ns", &self.step_ns).finish_non_exhaustive()
    }
}

impl AlteredCalls {
    /// Those of the system.
    pub fn new() -> Self {
        Self::default()
    }

    /// Two names cannot be exchanged.
    #[must_use]
    pub fn without_exchange(self) -> Self {
        Self { has_no_exchange: true, ..self }
    }

    /// Modification times are kept as multiples of this.
    #[must_use]
    pub fn with_times_of(self, step_ns: i64) -> Self {
        Self { step_ns: Some(step_ns), ..self }
    }

    /// The kind of file system, by the number of `statfs(2)`.
    #[must_use]
    pub fn of_kind(self, kind: u32) -> Self {
        Self { kind: Some(kind), ..self }
    }

    /// A server has the files, which copies them itself when it is asked.
    #[must_use]
    pub fn on_server(self) -> Self {
        Self { is_on_server: true, ..self }
    }

    /// Just before the next call that gives this name to something, another program does this; and
    /// the next of these before the call after that.
    #[must_use]
    pub fn before_naming(self, name: &str, deeds: impl IntoIterator<Item = Deed>) -> Self {
        Self { deeds: Mutex::new((name.into(), deeds.into_iter().collect())), ..self }
    }

    fn naming(&self, name: &OsStr) {
        let deed = {
            let mut deeds = self.deeds.lock().unwrap_or_else(PoisonError::into_inner);
            if deeds.0 == name { deeds.1.pop_front() } else { None }
        };
        if let Some(deed) = deed {
            deed();
        }
    }

    fn kept(&self, mtime_ns: i64) -> i64 {
        self.step_ns.map_or(mtime_ns, |step_ns| mtime_ns - mtime_ns.rem_euclid(step_ns))
    }
}

impl Calls for AlteredCalls {
    fn kind_of_file_system(&self, file: BorrowedFd<'_>) -> Option<u32> {
        self.kind.or_else(|| System.kind_of_file_system(file))
    }

    fn copies_on_server(&self, file: BorrowedFd<'_>) -> bool {
        self.is_on_server || System.copies_on_server(file)
    }

    fn set_mtime(&self, file: BorrowedFd<'_>, mtime_ns: i64) -> io::Result<()> {
        System.set_mtime(file, self.kept(mtime_ns))
    }

    fn set_link_mtime(&self, parent: BorrowedFd<'_>, name: &OsStr, mtime_ns: i64) -> io::Result<()> {
        System.set_link_mtime(parent, name, self.kept(mtime_ns))
    }

    fn rename(&self, parent: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.naming(to);
        System.rename(parent, from, to)
    }

    fn rename_new(&self, parent: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.naming(to);
        System.rename_new(parent, from, to)
    }

    fn exchange(&self, parent: BorrowedFd<'_>, one: &OsStr, other: &OsStr) -> io::Result<()> {
        self.naming(other);
        if self.has_no_exchange {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        System.exchange(parent, one, other)
    }

    fn link_unnamed(&self, file: &File, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        self.naming(name);
        System.link_unnamed(file, parent, name)
    }
}
