//! [`Mapping`]: the bytes of a file as memory, without a copy and without a call of the system for
//! each read.
//!
//! Only for files that do not change: see [`Mapping::of`]. Also here: [`prefetch`], which hints to
//! the processor which memory will be read soon.
#![expect(unsafe_code, reason = "mapping a file and prefetching have no safe interface")]

use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags};

use super::File;
use crate::error::{Error, Result};

/// Bytes that a processor fetches from memory at once.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE_BYTES: usize = 64;

/// The first bytes of a file, mapped for reading. The file itself lives as long as this value, even
/// if its name is removed.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is not written by this process, is owned by this value alone and is not bound
// to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; a shared reference gives no more than the bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a file.
    ///
    /// **The caller is responsible for the file**: it must not be written or truncated while the
    /// mapping lives. If the file is truncated or the device fails, there is no error here: reading
    /// the bytes kills the process with `SIGBUS`. Overwritten bytes change under the reader. That
    /// is why nothing is mapped unless it is requested.
    ///
    /// # Errors
    /// Returns [`Error::ShortRead`] if the file is shorter, or an I/O error.
    pub fn of(file: &File, len: u64) -> Result<Self> {
        let path = file.path();
        let found = file.len()?;
        let wanted = usize::try_from(len).ok().filter(|&wanted| wanted > 0 && found >= len);
        let Some(wanted) = wanted else {
            let (wanted, got) = (len.max(1), found);
            return Err(Error::ShortRead { path: path.to_path_buf(), offset: 0, wanted, got });
        };
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let mapped = unsafe {
            rustix::mm::mmap(ptr::null_mut(), wanted, ProtFlags::READ, MapFlags::SHARED, file.cached_fd(), 0)
        };
        let start = mapped.map_err(|error| Error::io("map", path, error.into()))?;
        let start = NonNull::new(start.cast::<u8>());
        #[cfg(target_os = "linux")]
        if let Some(start) = start {
            // SAFETY: the range is the mapping just made. With this advice what is not in the page
            // cache yet is read into it in large pages: random reads then wait for the data alone
            // and not for the tables that say where it is, too. Where it is refused, pages are
            // small, which is slower and not wrong.
            let _advised = unsafe {
                rustix::mm::madvise(start.as_ptr().cast(), wanted, rustix::mm::Advice::LinuxHugepage)
            };
        }
        let start = start
            .ok_or_else(|| Error::io("map", path, std::io::Error::other("the system gave no address")))?;
        Ok(Self { start, len: wanted })
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: these bytes are mapped for reading as long as this value lives; the caller that
        // mapped them guarantees that they do not change.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing refers to it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own cannot be refused: {unmapped:?}");
    }
}

/// Has the processor fetch this memory into its caches, without waiting for it. Does nothing where
/// that is not known how.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let (start, len) = (ptr::from_ref(value).cast::<i8>(), size_of_val(value));
        let mut at = 0;
        while at < len {
            // SAFETY: a prefetch is a hint at an address in the value; it reads nothing and cannot
            // fault.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at)) };
            at += CACHE_LINE_BYTES;
        }
        // The last line too, where the value does not begin at the border of one.
        if len > 0 {
            // SAFETY: as above.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(len - 1)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_the_file_also_when_its_name_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let content: Vec<u8> = (0..10_000_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let file = File::open(&path).unwrap();
        let mapping = Mapping::of(&file, 9_999).unwrap();
        drop(file);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"another").unwrap();
        assert_eq!(mapping.as_ref(), &content[..9_999]);
        prefetch(&mapping.as_ref()[5..9_000]);
        prefetch::<[u8]>(&[]);
        prefetch(&7_u64);
    }

    #[test]
    fn what_is_not_there_is_not_mapped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"short").unwrap();
        let file = File::open(&path).unwrap();
        assert!(matches!(Mapping::of(&file, 6), Err(Error::ShortRead { wanted: 6, got: 5, .. })));
        assert!(matches!(Mapping::of(&file, 0), Err(Error::ShortRead { .. })));
    }
}
