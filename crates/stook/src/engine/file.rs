//! [`File`]: a file as engines see it, with one descriptor through the page cache and one past it.
//!
//! It knows its path for messages, the alignment that direct I/O requires, and its identity. The
//! second descriptor is opened on the first direct request; if that is refused, the refusal is
//! remembered and the page cache is used instead. Nothing here runs at a queue depth: engines do
//! that.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Access, OperationKind, SeekTarget, calls, file_system, holes, may_have_holes};
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::source::Identity;

/// What direct I/O wants offsets and lengths, and memory, to be multiples of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alignment {
    /// For addresses in memory.
    pub memory_bytes: usize,
    /// For offsets in the file and lengths; a power of two.
    pub offset_bytes: u64,
}

impl Alignment {
    /// The values that are assumed if the system does not report them.
    const ASSUMED: Self = Self { memory_bytes: super::memory::PAGE_BYTES, offset_bytes: 4096 };

    /// The values of the system, if they are plausible.
    fn checked(memory_bytes: u32, offset_bytes: u32) -> Option<Self> {
        let possible = memory_bytes.is_power_of_two() && offset_bytes.is_power_of_two();
        possible
            .then_some(Self { memory_bytes: memory_bytes as usize, offset_bytes: u64::from(offset_bytes) })
    }
}

/// An open file.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    cached: fs::File,
    writable: bool,
    direct: OnceLock<Option<fs::File>>,
    direct_refused: AtomicBool,
    facts: OnceLock<DirectFacts>,
    on_fuse: OnceLock<bool>,
}

impl AsFd for File {
    /// Of the file as it was opened, for reads through the page cache.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.cached_fd()
    }
}

/// What the system reports about direct I/O on a file.
#[derive(Debug, Clone, Copy)]
struct DirectFacts {
    alignment: Alignment,
    /// Whether accepted direct I/O really bypasses the page cache.
    bypasses_cache: bool,
}

impl File {
    /// Opens an existing file for reading.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = fs::File::open(path).map_err(|error| Error::io("open", path, error))?;
        Ok(Self::from_std(file, path, false))
    }

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn open_writable(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = fs::OpenOptions::new().read(true).write(true).open(path);
        Ok(Self::from_std(file.map_err(|error| Error::io("write to", path, error))?, path, true))
    }

    /// Makes a new file, to be written and read.
    ///
    /// # Errors
    /// Returns [`Error::AlreadyExists`] if the name is taken, or an I/O error.
    pub fn create_new(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        match fs::OpenOptions::new().read(true).write(true).create_new(true).open(path) {
            Ok(file) => Ok(Self::from_std(file, path, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Error::AlreadyExists { path: path.to_path_buf() })
            }
            Err(error) => Err(Error::io("create", path, error)),
        }
    }

    /// Takes over a file that was opened elsewhere, with other options. It must have been opened
    /// for reading, and for writing too when it is `writable`. Its position is never used.
    pub fn from_std(file: fs::File, path: impl Into<PathBuf>, writable: bool) -> Self {
        Self {
            path: path.into(),
            cached: file,
            writable,
            direct: OnceLock::new(),
            direct_refused: AtomicBool::new(false),
            facts: OnceLock::new(),
            on_fuse: OnceLock::new(),
        }
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes now.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn len(&self) -> Result<u64> {
        Ok(self.metadata()?.len())
    }

    /// Whether it has no bytes now.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// What the system reports about the open file, even if its name now leads to another.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn metadata(&self) -> Result<fs::Metadata> {
        self.cached.metadata().map_err(|error| Error::io("get the metadata of", &self.path, error))
    }

    /// Its current state: length, times and inode.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn identity(&self) -> Result<Identity> {
        let metadata = self.metadata()?;
        // The products overflow in the year 2262, and such times may well be set.
        let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Ok(Identity {
            len: metadata.len(),
            device: metadata.dev(),
            inode: metadata.ino(),
            mtime_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            ctime_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
            ..Identity::default()
        })
    }

    /// What direct I/O on this file wants things to be multiples of.
    pub fn alignment(&self) -> Alignment {
        self.facts().alignment
    }

    /// Whether direct requests that the system accepts go past the page cache, as far as it says:
    /// a file system in memory takes them and has nothing but the cache, others serve some files
    /// from it.
    pub fn bypasses_cache(&self) -> bool {
        self.is_direct_possible() && self.is_direct_uncached()
    }

    /// The same of a request that was accepted.
    pub(super) fn is_direct_uncached(&self) -> bool {
        self.facts().bypasses_cache
    }

    fn facts(&self) -> DirectFacts {
        *self.facts.get_or_init(|| self.ask_facts())
    }

    #[cfg(target_os = "linux")]
    fn ask_facts(&self) -> DirectFacts {
        use rustix::fs::{AtFlags, StatxFlags, statx};
        let flags = StatxFlags::from_bits_retain(libc::STATX_DIOALIGN);
        let answer = statx(&self.cached, c"", AtFlags::EMPTY_PATH, flags);
        match answer.ok().filter(|answer| answer.stx_mask & libc::STATX_DIOALIGN != 0) {
            // An alignment of 0 means that the file is served from the cache.
            Some(answer) => DirectFacts {
                alignment: Alignment::checked(answer.stx_dio_mem_align, answer.stx_dio_offset_align)
                    .unwrap_or(Alignment::ASSUMED),
                bypasses_cache: answer.stx_dio_offset_align != 0,
            },
            None => DirectFacts {
                alignment: Alignment::ASSUMED,
                bypasses_cache: !file_system::is_in_memory(&self.cached),
            },
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn ask_facts(&self) -> DirectFacts {
        DirectFacts { alignment: Alignment::ASSUMED, bypasses_cache: true }
    }

    /// Whether a process serves its file system, by FUSE. The system is asked once.
    #[cfg(target_os = "linux")]
    pub(super) fn is_on_fuse(&self) -> bool {
        *self.on_fuse.get_or_init(|| file_system::is_fuse(&self.cached))
    }

    /// The range in the file that a read of `len` bytes at `offset` touches: widened to the
    /// alignment when direct. `None` when it would end past the last offset a file can have.
    pub(super) fn widened(&self, offset: u64, len: usize, access: Access) -> Option<Range<u64>> {
        let end = offset.checked_add(u64::try_from(len).ok()?)?;
        let range = match access {
            Access::Cached => offset..end,
            Access::Direct => {
                let mask = self.alignment().offset_bytes - 1;
                (offset & !mask)..(end.checked_add(mask)? & !mask)
            }
        };
        i64::try_from(range.end).is_ok().then_some(range)
    }

    /// The capacity that a buffer needs for reading `len` bytes at `offset`.
    ///
    /// Where the data will begin in that buffer is fixed too: at 0 for cached reads, and for direct
    /// ones at the distance of `offset` from the multiple of the alignment before it.
    pub fn span(&self, offset: u64, len: usize, access: Access) -> usize {
        let widened = self.widened(offset, len, access);
        widened.and_then(|range| usize::try_from(range.end - range.start).ok()).unwrap_or(len)
    }

    /// Cuts or extends it to `len` bytes; added bytes read as zeroes.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.cached.set_len(len).map_err(|error| Error::io("set the length of", &self.path, error))
    }

    /// Waits until all written data, and the length, is on the medium.
    ///
    /// # Errors
    /// Returns I/O errors. The data may then be lost although a second call succeeds.
    pub fn sync_data(&self) -> Result<()> {
        self.cached.sync_data().map_err(|error| Error::io("sync", &self.path, error))
    }

    /// Waits until the data and all metadata are on the medium.
    ///
    /// # Errors
    /// Returns I/O errors. The data may then be lost although a second call succeeds.
    pub fn sync_all(&self) -> Result<()> {
        self.cached.sync_all().map_err(|error| Error::io("sync", &self.path, error))
    }

    /// Reads through the page cache until `bytes` is full or the file ends; returns how many bytes
    /// there were.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset + done as u64;
            match self.cached.read_at(rest, at) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io_at("read", &self.path, at, error)),
            }
        }
        Ok(done)
    }

    /// Fills all of `bytes` if all of them are in the page cache: `false` when some are not, when
    /// the file ends first, or when the system does not know. Never waits for the device.
    #[cfg(target_os = "linux")]
    pub fn read_if_cached(&self, bytes: &mut [u8], offset: u64) -> bool {
        let wanted = bytes.len();
        let mut parts = [io::IoSliceMut::new(bytes)];
        let flags = rustix::io::ReadWriteFlags::NOWAIT;
        rustix::io::preadv2(&self.cached, &mut parts, offset, flags).is_ok_and(|got| got == wanted)
    }

    /// Fills all of `bytes` if all of them are in the page cache, which cannot be determined on
    /// this system.
    #[cfg(not(target_os = "linux"))]
    pub fn read_if_cached(&self, _bytes: &mut [u8], _offset: u64) -> bool {
        false
    }

    /// Fills all of `bytes` through the page cache.
    ///
    /// # Errors
    /// Returns [`Error::ShortRead`] if the file ends first, or an I/O error.
    pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        let got = self.read_at(bytes, offset)?;
        if got == bytes.len() {
            return Ok(());
        }
        let path = self.path.clone();
        Err(Error::ShortRead { path, offset, wanted: bytes.len() as u64, got: got as u64 })
    }

    /// Writes all of `bytes` through the page cache.
    ///
    /// # Errors
    /// Returns I/O errors; part of the bytes may have been written then.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.cached
            .write_all_at(bytes, offset)
            .map_err(|error| Error::io_at("write", &self.path, offset, error))
    }

    /// Returns the start of the next data from `offset` on, or the length of the file if only a
    /// hole follows. If the file system does not report holes, all of the file is data.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn next_data(&self, offset: u64) -> Result<u64> {
        self.seek(SeekTarget::Data, offset)
    }

    /// Returns the start of the next hole from `offset` on, or the length of the file if there is
    /// none, since every file ends in one.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn next_hole(&self, offset: u64) -> Result<u64> {
        self.seek(SeekTarget::Hole, offset)
    }

    /// The holes among its first `len` bytes, in order: the first `most` of them. None where the
    /// file system does not report them. Nothing keeps the file as it is meanwhile.
    ///
    /// # Errors
    /// I/O errors.
    pub fn holes(&self, len: u64, most: usize) -> Result<Vec<ByteRange>> {
        let metadata = self.metadata()?;
        if !may_have_holes(metadata.len(), metadata.blocks().saturating_mul(512)) {
            return Ok(Vec::new());
        }
        holes(self.cached_fd(), len, most).map_err(|error| OperationKind::Seek.error(&self.path, 0, error))
    }

    fn seek(&self, target: SeekTarget, offset: u64) -> Result<u64> {
        calls::seek(self.cached_fd(), target, offset)
            .map_err(|error| OperationKind::Seek.error(&self.path, offset, error))
    }

    /// Asks the system to forget the cached pages of this file that are clean; dirty ones need
    /// [`sync_data`](Self::sync_data) first.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub fn drop_cached(&self) -> Result<()> {
        let dropped = calls::drop_cached(self.cached_fd(), 0, 0);
        dropped.map_err(|error| OperationKind::DropCached.error(&self.path, 0, error))?;
        Ok(())
    }

    /// Whether the system takes direct reads and writes of this file. Most go past the page cache
    /// then: [`bypasses_cache`](Self::bypasses_cache).
    pub fn is_direct_possible(&self) -> bool {
        self.direct_fd().is_some()
    }

    /// The descriptor through the page cache.
    pub(super) fn cached_fd(&self) -> BorrowedFd<'_> {
        self.cached.as_fd()
    }

    /// The descriptor past the page cache, opened now if it was not, unless that is refused.
    pub(super) fn direct_fd(&self) -> Option<BorrowedFd<'_>> {
        if self.direct_refused.load(Ordering::Relaxed) {
            return None;
        }
        self.direct.get_or_init(|| self.open_direct()).as_ref().map(AsFd::as_fd)
    }

    /// Remembers that a direct operation was refused although opening was not.
    pub(super) fn refuse_direct(&self) {
        self.direct_refused.store(true, Ordering::Relaxed);
    }

    #[cfg(target_os = "linux")]
    fn open_direct(&self) -> Option<fs::File> {
        use std::os::fd::AsRawFd;
        if self.alignment().memory_bytes > super::memory::PAGE_BYTES {
            return None;
        }
        let mut options = fs::OpenOptions::new();
        options.read(true).write(self.writable).custom_flags(libc::O_DIRECT | libc::O_CLOEXEC);
        // By descriptor, because another file may have the name by now: a FIFO even, at which an
        // opening waits. Without /proc all goes through the page cache.
        options.open(format!("/proc/self/fd/{}", self.cached.as_raw_fd())).ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn open_direct(&self) -> Option<fs::File> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_rounded_out_when_direct() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create_new(directory.path().join("file")).unwrap();
        let align = usize::try_from(file.alignment().offset_bytes).unwrap();
        assert_eq!(file.span(3, 5, Access::Cached), 5);
        assert_eq!(file.span(3, 5, Access::Direct), align);
        assert_eq!(file.span(align as u64 - 1, 2, Access::Direct), 2 * align);
        assert_eq!(file.span(align as u64, align, Access::Direct), align);
        assert_eq!(file.widened(u64::MAX - 1, 1, Access::Direct), None);
        assert_eq!(file.widened(u64::MAX, 1, Access::Cached), None);
    }

    #[test]
    fn impossible_alignments_are_not_believed() {
        assert_eq!(Alignment::checked(0, 512), None);
        assert_eq!(Alignment::checked(512, 1000), None);
        assert_eq!(Alignment::checked(4, 512), Some(Alignment { memory_bytes: 4, offset_bytes: 512 }));
    }

    #[test]
    fn simple_reads_and_writes_tell_path_and_offset() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = File::create_new(&path).unwrap();
        assert!(matches!(File::create_new(&path), Err(Error::AlreadyExists { .. })));
        let before = file.identity().unwrap();
        file.write_all_at(b"0123456789", 5).unwrap();
        file.sync_data().unwrap();
        assert_eq!(file.len().unwrap(), 15);
        assert!(!before.same_content(&file.identity().unwrap()));
        let mut bytes = [0; 6];
        file.read_exact_at(&mut bytes, 4).unwrap();
        assert_eq!(&bytes, b"\x0001234");
        let error = file.read_exact_at(&mut bytes, 12).unwrap_err();
        assert!(matches!(error, Error::ShortRead { offset: 12, wanted: 6, got: 3, .. }), "{error}");
        let error = File::open(&path).unwrap().write_all_at(b"x", 7).unwrap_err();
        assert!(error.to_string().ends_with("file at offset 7"), "{error}");
        let missing = File::open(directory.path().join("missing")).unwrap_err();
        assert_eq!(missing.io_kind(), Some(io::ErrorKind::NotFound));
    }

    #[test]
    fn data_and_holes_are_found_in_turn_up_to_the_end() {
        const HOLE: u64 = 1 << 20;
        let directory = tempfile::tempdir().unwrap();
        let file = File::create_new(directory.path().join("file")).unwrap();
        assert_eq!((file.next_data(0).unwrap(), file.next_hole(7).unwrap()), (0, 0));
        file.write_all_at(&[1; 10], 0).unwrap();
        file.write_all_at(&[2; 10], HOLE).unwrap();
        file.set_len(2 * HOLE).unwrap();
        assert_eq!(file.next_data(3).unwrap(), 3);
        let hole = file.next_hole(3).unwrap();
        assert!(hole == 2 * HOLE || (10..=HOLE).contains(&hole), "{hole}");
        assert!((hole..=HOLE.max(hole)).contains(&file.next_data(hole).unwrap()));
        for beyond in [2 * HOLE, 3 * HOLE, u64::MAX] {
            assert_eq!(file.next_data(beyond).unwrap(), 2 * HOLE);
            assert_eq!(file.next_hole(beyond).unwrap(), 2 * HOLE);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn files_in_memory_never_bypass_the_cache() {
        let file = File::create_new(
            tempfile::tempdir_in("/dev/shm")
                .expect("this test needs a memory file system")
                .path()
                .join("file"),
        );
        assert!(!file.unwrap().bypasses_cache());
    }

    #[test]
    fn the_direct_descriptor_is_the_same_file_after_a_rename() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = File::create_new(&path).unwrap();
        fs::rename(&path, directory.path().join("moved")).unwrap();
        fs::write(&path, b"another").unwrap();
        if let Some(direct) = file.direct_fd() {
            let metadata = rustix::fs::fstat(direct).unwrap();
            assert_eq!(metadata.st_ino, file.identity().unwrap().inode);
        }
        file.refuse_direct();
        assert!(!file.is_direct_possible());
    }
}
