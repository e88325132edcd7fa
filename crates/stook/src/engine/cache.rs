//! Questions to the page cache, and how to empty it before a cold measurement.
//!
//! Results are hints: pages come and go meanwhile. Nothing here changes what a file contains.
#![expect(unsafe_code, reason = "cachestat has no wrapper yet")]

use std::fs;
use std::io;

use super::File;
use super::available::available_memory;
use super::memory::{Memory, PAGE_BYTES};
use crate::error::{Error, Result};
use crate::extent::ByteRange;

/// How much of a range of a file is in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheResidency {
    /// The kernel reported it; both are counted in whole pages and capped at the length of the
    /// range.
    Known {
        /// Bytes that are in the cache.
        cached_bytes: u64,
        /// Bytes of these that are not on the medium yet.
        dirty_bytes: u64,
    },
    /// The kernel reports it only to those who own the file or may write to it.
    Denied,
    /// The kernel cannot report it (before 6.5), or does not for this file.
    Unknown,
}

impl CacheResidency {
    /// Asks the kernel with `cachestat`: microseconds when little is cached, 2 to 4 ms per cached
    /// GB.
    pub fn of(file: &File, range: ByteRange) -> Self {
        if range.is_empty() {
            return Self::Known { cached_bytes: 0, dirty_bytes: 0 };
        }
        ask(file, range).unwrap_or(Self::Unknown)
    }

    /// The share of a range of `len` bytes that is cached, 0 to 1, where that is known.
    pub fn cached_share(&self, len: u64) -> Option<f64> {
        match self {
            Self::Known { cached_bytes, .. } => Some(*cached_bytes as f64 / len.max(1) as f64),
            Self::Denied | Self::Unknown => None,
        }
    }
}

#[cfg(target_os = "linux")]
fn ask(file: &File, range: ByteRange) -> Option<CacheResidency> {
    use std::os::fd::AsRawFd;

    /// The number of the system call, the same on all architectures.
    const CACHESTAT: libc::c_long = 451;

    #[repr(C)]
    struct Range {
        offset: u64,
        len: u64,
    }

    #[repr(C)]
    #[derive(Default)]
    struct Answer {
        cached_pages: u64,
        dirty_pages: u64,
        writeback_pages: u64,
        evicted_pages: u64,
        recently_evicted_pages: u64,
    }

    let asked = Range { offset: range.start(), len: range.len() };
    let mut answer = Answer::default();
    let fd = file.cached_fd().as_raw_fd();
    // SAFETY: both structures have the layout of the system call and outlive it; the descriptor is
    // open.
    let result = unsafe { libc::syscall(CACHESTAT, fd, &raw const asked, &raw mut answer, 0_u32) };
    let bytes = |pages: u64| pages.saturating_mul(rustix::param::page_size() as u64).min(range.len());
    if result != 0 {
        let error = io::Error::last_os_error();
        return (error.kind() == io::ErrorKind::PermissionDenied).then_some(CacheResidency::Denied);
    }
    Some(CacheResidency::Known {
        cached_bytes: bytes(answer.cached_pages),
        dirty_bytes: bytes(answer.dirty_pages.saturating_add(answer.writeback_pages)),
    })
}

#[cfg(not(target_os = "linux"))]
fn ask(_file: &File, _range: ByteRange) -> Option<CacheResidency> {
    None
}

/// Writes out dirty pages, then drops the page cache of the whole system. Requires root.
///
/// # Errors
/// Returns `PermissionDenied` for users other than root, or an I/O error.
pub fn drop_system_caches() -> Result<()> {
    const PATH: &str = "/proc/sys/vm/drop_caches";
    #[cfg(target_os = "linux")]
    rustix::fs::sync();
    fs::write(PATH, "3").map_err(|error| {
        let error = match error.kind() {
            io::ErrorKind::PermissionDenied => io::Error::new(
                error.kind(),
                "only root may empty the page cache; run this as root for cold measurements",
            ),
            io::ErrorKind::NotFound => {
                io::Error::new(io::ErrorKind::Unsupported, "this system has no way to empty the page cache")
            }
            _ => error,
        };
        Error::io("write to", PATH, error)
    })
}

/// Touches and frees `bytes` of memory, so that a later measurement does not pay for the host of a
/// virtual machine handing the memory back. Returns how much was touched: at most three quarters of
/// the available memory, so that nothing else is evicted.
///
/// # Errors
/// Returns an error if the system refuses the mapping.
pub fn touch_memory(bytes: u64) -> Result<u64> {
    let limit = available_memory().map_or(bytes, |available| available / 4 * 3);
    let len = usize::try_from(bytes.min(limit)).unwrap_or(usize::MAX);
    let memory = Memory::mapped(len).map_err(|error| Error::io("map", "memory to touch", error))?;
    for at in (0..memory.len()).step_by(PAGE_BYTES) {
        // SAFETY: `at` lies in the memory, which is not shared. The write is volatile so that it is
        // not optimised away.
        unsafe { memory.start().add(at).write_volatile(1) };
    }
    Ok(len as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_are_resident_and_an_empty_range_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create_new(directory.path().join("file")).unwrap();
        file.write_all_at(&[7; 100_000], 0).unwrap();
        let none = CacheResidency::Known { cached_bytes: 0, dirty_bytes: 0 };
        assert_eq!(CacheResidency::of(&file, ByteRange::to(0)), none);
        match CacheResidency::of(&file, ByteRange::to(100_000)) {
            CacheResidency::Known { cached_bytes, .. } => assert_eq!(cached_bytes, 100_000),
            // Kernels before 6.5 and some sandboxes.
            residency @ (CacheResidency::Denied | CacheResidency::Unknown) => {
                assert_eq!(residency.cached_share(1), None)
            }
        }
    }

    #[test]
    fn touching_stays_within_what_is_available() {
        assert_eq!(touch_memory(1 << 20).unwrap(), 1 << 20);
    }
}
