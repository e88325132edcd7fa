//! [`TestFile`]: the file for measuring. A file of our own in a directory, full of real data, or
//! one that exists.
//!
//! An own file is unlinked as soon as it is made, unless it is to be kept: however the process
//! ends, no file remains. Every byte of it is written before anything is measured, because reads of
//! a hole and writes into blocks that were only promised measure the file system's bookkeeping.

use std::fs;
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::content::{self, Generations};
use super::error::{Error, Result};
use super::observer::Observer;
use super::pieces::Pieces;
use super::random::Random;
use super::raw;
use crate::engine::{EngineFactory, File};
use crate::report::units::bytes_binary;
use crate::tree::target::refuse_inside_pack;

/// The name under which an own file is kept.
pub const KEPT_NAME: &str = "stook-bench.dat";
/// The stream of random numbers that contents come from; jobs have those from 0 on.
const STREAM: u64 = u64::MAX;

/// How an own file is to be made, or an existing one filled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// Of its contents.
    pub(super) seed: u64,
    /// How much of it is zeroes, in per cent.
    pub(super) compressibility: u8,
    /// Whether its contents will be verified.
    pub(super) verify: bool,
}

/// A file to measure on.
#[derive(Debug)]
pub(super) struct TestFile {
    /// Keeps the file although its name may be gone.
    handle: fs::File,
    /// Of a device that is written: while it is there, nothing mounts or holds the device.
    _claim: Option<fs::File>,
    path: PathBuf,
    len: u64,
    identity: (u64, u64),
    writable: bool,
    has_name: bool,
    /// Whether every byte was written: by this run, or before, as its caller knows.
    full: bool,
    layout: Layout,
    generations: Option<Generations>,
}

impl TestFile {
    /// Makes a file of `len` bytes in a directory and fills it. With `keep` it has [`KEPT_NAME`]
    /// once it is whole; without, it never has a name that outlives this process.
    ///
    /// # Errors
    /// Returns an error if it is not a directory, cannot be written or has too little space, if the
    /// name is taken, or on an interruption. No file remains then.
    pub(super) fn create(
        directory: &Path,
        len: u64,
        layout: Layout,
        keep: bool,
        engines: &dyn EngineFactory,
        observer: &dyn Observer,
    ) -> Result<Self> {
        check_place(directory, len)?;
        let kept = directory.join(KEPT_NAME);
        if keep && kept.symlink_metadata().is_ok() {
            return Err(crate::Error::AlreadyExists { path: kept }.into());
        }
        let (mut name, handle) = Temporary::create(directory)?;
        if !keep {
            name.remove()?;
        }
        let mut file = Self::around(handle, name.path.clone(), true, layout)?;
        file.len = len;
        file.has_name = false;
        file.fill(engines, observer)?;
        if keep {
            name.publish(&kept)?;
            (file.path, file.has_name) = (kept, true);
        }
        Ok(file)
    }

    /// Opens an existing file; for writing only if that was requested. `full` means that every byte
    /// of it was written before.
    ///
    /// # Errors
    /// Returns an error if it is not a regular file, is empty, or cannot be opened.
    pub(super) fn open(path: &Path, writable: bool, full: bool, layout: Layout) -> Result<Self> {
        // Before it is opened, because opening alone can block, rewind a tape or trip a watchdog.
        let kind = fs::metadata(path).map_err(|error| crate::Error::io("open", path, error))?.file_type();
        if !kind.is_file() {
            let problem = match () {
                () if kind.is_char_device() => "is a character device",
                () if kind.is_dir() => "is a directory",
                () => "is no regular file",
            };
            return Err(Error::target(
                path,
                format!("{problem}: expected a directory, a regular file or a block device"),
            ));
        }
        if writable {
            // Where a link leads to counts, not where it lies.
            let real = fs::canonicalize(path).map_err(|error| crate::Error::io("find", path, error))?;
            refuse_inside_pack(real.parent().unwrap_or(&real))
                .map_err(|error| crate::Error::io("write to", path, error))?;
        }
        let opened = fs::OpenOptions::new().read(true).write(writable).open(path);
        let what = if writable { "write to" } else { "open" };
        let handle = opened.map_err(|error| crate::Error::io(what, path, error))?;
        let file = Self { full, ..Self::around(handle, path.to_path_buf(), writable, layout)? };
        if file.len == 0 {
            return Err(Error::target(path, "is empty: expected a file with data, or a directory"));
        }
        Ok(file.with_seed_of_contents())
    }

    /// Takes a block device; for writing only what nothing else uses, and what `typed` identifies.
    ///
    /// # Errors
    /// Returns [`Error::Target`] for a device that must not be written, of which nothing was
    /// touched then; an error if it has no bytes, or cannot be opened.
    pub(super) fn open_device(
        path: &Path,
        typed: Option<&str>,
        writes: bool,
        full: bool,
        layout: Layout,
    ) -> Result<Self> {
        let (handle, claim) = raw::open(path, writes, typed)?;
        let file = Self { full, _claim: claim, ..Self::around(handle, path.to_path_buf(), writes, layout)? };
        if file.len == 0 {
            return Err(Error::target(path, "has no bytes: expected a device with a medium"));
        }
        Ok(file.with_seed_of_contents())
    }

    fn around(handle: fs::File, path: PathBuf, writable: bool, layout: Layout) -> Result<Self> {
        let asked = |error| crate::Error::io("get the metadata of", &path, error);
        let metadata = handle.metadata().map_err(asked)?;
        let len = len_of(&handle, &metadata).map_err(asked)?;
        Ok(Self {
            handle,
            _claim: None,
            len,
            identity: identity_of(&metadata),
            path,
            writable,
            has_name: true,
            full: false,
            layout,
            generations: None,
        })
    }

    /// What is only read has to be what was written, with whatever seed that was: the first unit
    /// says which. Where it does not, the comparison reports it.
    fn with_seed_of_contents(mut self) -> Self {
        if self.layout.verify && !self.writable {
            let mut unit = [0; content::UNIT_BYTES];
            let read = self.handle.read_exact_at(&mut unit, 0).ok();
            self.layout.seed = read.and_then(|()| content::seed_of(&unit)).unwrap_or(self.layout.seed);
        }
        self
    }

    /// Its path, or the one it was made by.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The number of the device that it lies on.
    pub(super) fn device(&self) -> u64 {
        self.identity.0
    }

    pub(super) fn seed(&self) -> u64 {
        self.layout.seed
    }

    pub(super) fn generations(&self) -> Option<&Generations> {
        self.generations.as_ref()
    }

    /// Opens it once more: each job has a descriptor of its own, so that they do not meet at its
    /// counters.
    ///
    /// # Errors
    /// Returns I/O errors.
    pub(super) fn reopen(&self) -> Result<File> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(self.writable);
        let again = options.open(format!("/proc/self/fd/{}", self.handle.as_raw_fd()));
        // Without /proc a second handle of the same opening does the same, a little slower.
        let again = again.or_else(|_| self.handle.try_clone());
        let again = again.map_err(|error| crate::Error::io("open", &self.path, error))?;
        Ok(File::from_std(again, &self.path, self.writable))
    }

    /// Checks that the name still leads to the file that was opened, and that it has the length it
    /// had.
    ///
    /// # Errors
    /// Returns an error if it was removed, replaced or truncated: the measured file is then not the
    /// one at its path.
    pub(super) fn check_still_there(&self) -> Result<()> {
        if self.has_name {
            let now =
                fs::metadata(&self.path).map_err(|error| crate::Error::io("find", &self.path, error))?;
            if identity_of(&now) != self.identity {
                return Err(Error::target(&self.path, "was replaced by another file while it was measured"));
            }
        }
        let now = self.handle.metadata().and_then(|metadata| len_of(&self.handle, &metadata));
        let now = now.map_err(|error| crate::Error::io("get the metadata of", &self.path, error))?;
        if now < self.len {
            let problem = format!("was cut to {now} bytes while it was measured; it had {}", self.len);
            return Err(Error::target(&self.path, problem));
        }
        Ok(())
    }

    /// Sees to it that writes meet blocks that were written before: fills a file that is not ours.
    ///
    /// # Errors
    /// Returns I/O errors, or an interruption.
    pub(super) fn precondition(
        &mut self,
        engines: &dyn EngineFactory,
        observer: &dyn Observer,
    ) -> Result<()> {
        if self.full { Ok(()) } else { self.fill(engines, observer) }
    }

    /// Writes every byte, past the page cache where that is possible, and makes it durable.
    fn fill(&mut self, engines: &dyn EngineFactory, observer: &dyn Observer) -> Result<()> {
        if self.layout.verify && self.generations.is_none() {
            self.generations = Some(Generations::unknown(self.len));
        }
        let mut random = Random::new(self.layout.seed, STREAM);
        let file = Arc::new(self.reopen()?);
        let (generations, layout) = (self.generations.as_ref(), self.layout);
        let pieces = Pieces { file: &file, len: self.len, engines, observer };
        pieces.write(|bytes, offset| {
            content::fill(bytes, layout.compressibility, &mut random);
            content::stamp(bytes, offset, layout.seed, |unit| {
                generations.map_or(0, |generations| generations.advance(unit))
            });
        })?;
        // Only the last, uneven bytes can have gone through the cache.
        pieces.settle()?;
        self.full = true;
        Ok(())
    }

    /// Reads everything and compares it with the written contents.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] at the first unit that differs, an I/O error, or an
    /// interruption.
    pub(super) fn read_back(&self, engines: &dyn EngineFactory, observer: &dyn Observer) -> Result<()> {
        let file = Arc::new(self.reopen()?);
        let pieces = Pieces { file: &file, len: self.len, engines, observer };
        pieces.read(|bytes, offset| self.check(bytes, offset))
    }

    /// Compares bytes that were read at `offset` with the contents written there.
    pub(super) fn check(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let generation = |unit| self.generations.as_ref().and_then(|generations| generations.get(unit));
        content::check(bytes, offset, self.layout.seed, generation).map_err(|difference| Error::Mismatch {
            path: self.path.clone(),
            offset: difference.offset,
            what: difference.what,
        })
    }
}

/// A block device has its length where it ends.
fn len_of(mut handle: &fs::File, metadata: &fs::Metadata) -> io::Result<u64> {
    match metadata.file_type().is_block_device() {
        true => handle.seek(SeekFrom::End(0)),
        false => Ok(metadata.len()),
    }
}

/// The number of the device that it lies on, and its own there; of a block device its own.
fn identity_of(metadata: &fs::Metadata) -> (u64, u64) {
    match metadata.file_type().is_block_device() {
        true => (metadata.rdev(), 0),
        false => (metadata.dev(), metadata.ino()),
    }
}

/// A file that has a name only while it is being made.
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
    has_name: bool,
}

impl Temporary {
    fn create(directory: &Path) -> Result<(Self, fs::File)> {
        let chance = getrandom::u64().map_err(|error| {
            crate::Error::io("draw a temporary name in", directory, io::Error::other(error.to_string()))
        })?;
        let path = directory.join(format!(".stook-bench-{chance:016x}.tmp"));
        let created = fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = created.map_err(|error| crate::Error::io("create", &path, error))?;
        Ok((Self { path, has_name: true }, file))
    }

    fn remove(&mut self) -> Result<()> {
        fs::remove_file(&self.path).map_err(|error| crate::Error::io("remove", &self.path, error))?;
        self.has_name = false;
        Ok(())
    }

    /// Gives it its final name, unless that is taken by now.
    fn publish(mut self, name: &Path) -> Result<()> {
        // A hard link refuses a name that is taken, where a rename would replace it.
        let linked = fs::hard_link(&self.path, name);
        linked.map_err(|error| crate::Error::io("keep the test file as", name, error))?;
        self.remove()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.has_name {
            // It is dropped because of an error that matters more.
            let _removed = fs::remove_file(&self.path);
        }
    }
}

/// Fails early: running into a full disk after a minute of writing is no help. A pack is no place
/// for other files, even unlinked ones: they could take the space that its writer needs.
pub(super) fn check_place(directory: &Path, len: u64) -> Result<()> {
    let kind = fs::metadata(directory).map_err(|error| crate::Error::io("open", directory, error))?;
    if !kind.is_dir() {
        return Err(Error::target(directory, "is no directory: expected one for the test file"));
    }
    refuse_inside_pack(directory).map_err(|error| crate::Error::io("make files in", directory, error))?;
    let room = rustix::fs::statvfs(directory)
        .map_err(|error| crate::Error::io("ask for the free space of", directory, error.into()))?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    if free < len {
        return Err(Error::target(
            directory,
            format!(
                "has {} free, and the test file needs {}: free some, or ask for a smaller file size",
                bytes_binary(free),
                bytes_binary(len)
            ),
        ));
    }
    Ok(())
}
