//! System calls of the way out that fail, or do less than requested.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stook::engine::{Engine, OperationKind, Request};
use stook::tree::outbox::{Calls, System};

use super::HookedEngine;

/// The kind of file system of ext2 to ext4, wherever a test runs.
pub(super) const EXT4: u32 = 0xEF53;

/// That of an overlay.
const OVERLAY: u32 = 0x794C_7630;

/// What a call meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutFault {
    /// It fails with this number of an error, and does nothing.
    Fails(i32),
    /// A write through the page cache writes half of its bytes; other calls are as they are.
    Short,
}

/// Calls of the system, one of which meets a fault. Syncs only seem to be made: what they are for
/// shows in the crash simulator.
#[derive(Debug)]
pub struct FaultCalls {
    has_unnamed: bool,
    file_system: u32,
    counted: Arc<Counted>,
}

/// What engines share with the calls.
#[derive(Debug)]
struct Counted {
    /// The only calls that count, if not all do.
    only: Option<&'static str>,
    nth: usize,
    /// Whether all calls after it meet the fault, too.
    is_last: bool,
    fault: OutFault,
    calls: AtomicUsize,
    met: Mutex<Option<&'static str>>,
}

impl Counted {
    fn is_next(&self, name: &'static str) -> bool {
        if self.only.is_some_and(|only| only != name) {
            return false;
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if call == self.nth {
            *self.met.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
        }
        call == self.nth || self.is_last && call > self.nth
    }

    fn meet(&self, name: &'static str) -> io::Result<()> {
        match (self.is_next(name), self.fault) {
            (true, OutFault::Fails(errno)) => Err(io::Error::from_raw_os_error(errno)),
            _ => Ok(()),
        }
    }
}

impl FaultCalls {
    /// The names of all calls, and of the operations of an engine.
    pub const NAMES: [&'static str; 29] = [
        "create",
        "create_unnamed",
        "exchange",
        "link",
        "link_unnamed",
        "lock",
        "make_directory",
        "make_node",
        "make_symlink",
        "remove_directory",
        "remove_xattr",
        "rename",
        "rename_new",
        "reserve",
        "set_len",
        "set_link_mtime",
        "set_link_owner",
        "set_link_xattr",
        "set_mode",
        "set_mode_at",
        "set_mtime",
        "set_owner",
        "set_xattr",
        "sync",
        "sync_file_system",
        "unlink",
        "wait_written",
        "write_at",
        "write_direct",
    ];

    /// The `nth` call, from 0, meets the fault.
    pub fn nth(nth: usize, fault: OutFault) -> Self {
        Self::nth_of(None, nth, fault)
    }

    /// The `nth` call of this name, from 0, meets the fault. Threads make calls in another order in
    /// each run, but as many of each.
    pub fn nth_named(name: &'static str, nth: usize, fault: OutFault) -> Self {
        Self::nth_of(Some(name), nth, fault)
    }

    /// The `nth` call, from 0, and all after it fail: what is on disk then is what a process leaves
    /// that is killed there.
    pub fn killed_at(nth: usize) -> Self {
        Self::counting(None, nth, true, OutFault::Fails(rustix::io::Errno::IO.raw_os_error()))
    }

    fn nth_of(only: Option<&'static str>, nth: usize, fault: OutFault) -> Self {
        Self::counting(only, nth, false, fault)
    }

    fn counting(only: Option<&'static str>, nth: usize, is_last: bool, fault: OutFault) -> Self {
        let (calls, met) = (AtomicUsize::new(0), Mutex::new(None));
        let counted = Counted { only, nth, is_last, fault, calls, met };
        Self { has_unnamed: true, file_system: EXT4, counted: Arc::new(counted) }
    }

    /// None meets one.
    pub fn none() -> Self {
        Self::nth(usize::MAX, OutFault::Short)
    }

    /// As on a file system that has no files without names.
    #[must_use]
    pub fn without_unnamed(self) -> Self {
        Self { has_unnamed: false, ..self }
    }

    /// As on a file system whose `syncfs` does not say that data could not be written.
    #[must_use]
    pub fn on_overlay(self) -> Self {
        Self { file_system: OVERLAY, ..self }
    }

    /// How many calls there were, of those that count.
    pub fn calls(&self) -> usize {
        self.counted.calls.load(Ordering::Relaxed)
    }

    /// Which call met the fault.
    pub fn met(&self) -> Option<&'static str> {
        *self.counted.met.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meet(&self, name: &'static str) -> io::Result<()> {
        self.counted.meet(name)
    }
}

impl Calls for FaultCalls {
    fn engine(&self, depth: usize) -> stook::Result<Box<dyn Engine>> {
        let counted = self.counted.clone();
        let hook = move |request: &Request| {
            counted.meet(match request.operation.kind() {
                OperationKind::Allocate => "reserve",
                _ => "write_direct",
            })
        };
        Ok(Box::new(HookedEngine::new(System.engine(depth)?, Box::new(hook))))
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        match (self.counted.is_next("write_at"), self.counted.fault) {
            (true, OutFault::Fails(errno)) => Err(io::Error::from_raw_os_error(errno)),
            (true, OutFault::Short) => System.write_at(file, &bytes[..bytes.len().div_ceil(2)], offset),
            _ => System.write_at(file, bytes, offset),
        }
    }

    fn sync(&self, _: BorrowedFd<'_>) -> io::Result<()> {
        self.meet("sync")
    }

    fn sync_file_system(&self, _: BorrowedFd<'_>) -> io::Result<()> {
        self.meet("sync_file_system")
    }

    fn wait_written(&self, _: BorrowedFd<'_>) -> io::Result<()> {
        self.meet("wait_written")
    }

    fn kind_of_file_system(&self, _: BorrowedFd<'_>) -> Option<u32> {
        Some(self.file_system)
    }

    fn create(&self, parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<File> {
        self.meet("create")?;
        System.create(parent, name, mode)
    }

    fn create_unnamed(&self, parent: BorrowedFd<'_>, mode: u32) -> io::Result<File> {
        if !self.has_unnamed {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.meet("create_unnamed")?;
        System.create_unnamed(parent, mode)
    }

    fn make_directory(&self, parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<()> {
        self.meet("make_directory")?;
        System.make_directory(parent, name, mode)
    }

    fn make_symlink(&self, target: &OsStr, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        self.meet("make_symlink")?;
        System.make_symlink(target, parent, name)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.meet("set_len")?;
        System.set_len(file, len)
    }

    fn set_owner(&self, file: BorrowedFd<'_>, owner: (u32, u32)) -> io::Result<()> {
        self.meet("set_owner")?;
        System.set_owner(file, owner)
    }

    fn set_mode(&self, file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
        self.meet("set_mode")?;
        System.set_mode(file, mode)
    }

    fn set_mtime(&self, file: BorrowedFd<'_>, mtime_ns: i64) -> io::Result<()> {
        self.meet("set_mtime")?;
        System.set_mtime(file, mtime_ns)
    }

    fn set_xattr(&self, file: BorrowedFd<'_>, name: &[u8], value: &[u8]) -> io::Result<()> {
        self.meet("set_xattr")?;
        System.set_xattr(file, name, value)
    }

    fn remove_xattr(&self, file: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
        self.meet("remove_xattr")?;
        System.remove_xattr(file, name)
    }

    fn set_link_owner(&self, parent: BorrowedFd<'_>, name: &OsStr, owner: (u32, u32)) -> io::Result<()> {
        self.meet("set_link_owner")?;
        System.set_link_owner(parent, name, owner)
    }

    fn set_link_mtime(&self, parent: BorrowedFd<'_>, name: &OsStr, mtime_ns: i64) -> io::Result<()> {
        self.meet("set_link_mtime")?;
        System.set_link_mtime(parent, name, mtime_ns)
    }

    fn set_link_xattr(&self, path: &[u8], name: &[u8], value: &[u8]) -> io::Result<()> {
        self.meet("set_link_xattr")?;
        System.set_link_xattr(path, name, value)
    }

    fn rename(&self, parent: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.meet("rename")?;
        System.rename(parent, from, to)
    }

    fn rename_new(&self, parent: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.meet("rename_new")?;
        System.rename_new(parent, from, to)
    }

    fn exchange(&self, parent: BorrowedFd<'_>, one: &OsStr, other: &OsStr) -> io::Result<()> {
        self.meet("exchange")?;
        System.exchange(parent, one, other)
    }

    fn link(
        &self,
        from: BorrowedFd<'_>,
        name: &OsStr,
        parent: BorrowedFd<'_>,
        new: &OsStr,
    ) -> io::Result<()> {
        self.meet("link")?;
        System.link(from, name, parent, new)
    }

    fn link_unnamed(&self, file: &File, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        self.meet("link_unnamed")?;
        System.link_unnamed(file, parent, name)
    }

    fn lock(&self, file: &File) -> io::Result<()> {
        self.meet("lock")?;
        System.lock(file)
    }

    fn make_node(
        &self,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        kind: rustix::fs::FileType,
        mode: u32,
        device: u64,
    ) -> io::Result<()> {
        self.meet("make_node")?;
        System.make_node(parent, name, kind, mode, device)
    }

    fn set_mode_at(&self, parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<()> {
        self.meet("set_mode_at")?;
        System.set_mode_at(parent, name, mode)
    }

    fn remove_directory(&self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        self.meet("remove_directory")?;
        System.remove_directory(parent, name)
    }

    fn unlink(&self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        self.meet("unlink")?;
        System.unlink(parent, name)
    }
}
