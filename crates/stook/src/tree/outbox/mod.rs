//! The way out: the one place that gives names to files, links and directories of a user's tree.
//!
//! A file has no name, or a temporary one, until its bytes, its attributes, its times and its owner
//! are there, and as durable as was asked for. Then it gets its own, in place of exactly what it
//! may replace. Every system call goes through [`Calls`].

mod batch;
mod calls;
mod long;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::Stat;
use rustix::io::Errno;

use super::durable::{has_syncfs, sync_below};
use super::target::{self, FileMetadata, Unset};
pub(crate) use batch::{Batch, Published, Waiting};
pub use calls::{Calls, System};
pub(crate) use long::{LONG, LongFile, LongWriter};

/// Gives out files that get their names when they are whole. Threads share it.
#[derive(Debug)]
pub(crate) struct Outbox {
    calls: Arc<dyn Calls>,
    /// What temporary names begin with. Nobody can know it.
    prefix: String,
    given: AtomicU64,
    /// Whether files without names are tried: not every file system has them.
    has_unnamed: AtomicBool,
    /// A directory of each file system, by device: what is mounted below the target is another.
    directories: Mutex<BTreeMap<u64, Arc<OwnedFd>>>,
}

/// How a file begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewFile {
    /// Its mode; one that is not known is what the process gives to new files.
    pub(crate) mode: Option<u32>,
    /// Whether only its owner may open it at first, whatever its mode.
    pub(crate) is_private: bool,
    /// Whether it is to replace something. Then it has a temporary name: only a rename replaces.
    pub(crate) replaces: bool,
}

/// A file on its way. What is dropped before it has its name leaves no file.
#[derive(Debug)]
pub(crate) struct OutFile {
    calls: Arc<dyn Calls>,
    file: File,
    /// What the system said of it when it was made.
    made: Stat,
    /// The device of its file system.
    device: u64,
    parent: Arc<OwnedFd>,
    /// Its temporary name, if it has one.
    temporary: Option<OsString>,
}

impl Outbox {
    /// One with temporary names of its own.
    pub(crate) fn new(calls: Arc<dyn Calls>) -> io::Result<Self> {
        let chance = getrandom::u64().map_err(io::Error::other)?;
        let (prefix, given) = (format!(".stook-{chance:016x}-"), AtomicU64::new(0));
        // That is where such a file is found when it gets its name.
        let has_unnamed = AtomicBool::new(std::path::Path::new("/proc/self/fd").exists());
        Ok(Self { calls, prefix, given, has_unnamed, directories: Mutex::default() })
    }

    fn temporary(&self) -> OsString {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        OsString::from(format!("{}{number}.part", self.prefix))
    }

    /// Begins a file. Without a name nobody else finds it, so it may have its mode at once.
    pub(crate) fn file(&self, parent: &Arc<OwnedFd>, new: NewFile) -> io::Result<OutFile> {
        let named_mode = if new.mode.is_some() { 0o600 } else { 0o666 };
        let mode = new.mode.filter(|_| !new.is_private).map_or(named_mode, |mode| mode & 0o777);
        let unnamed = match !new.replaces && self.has_unnamed.load(Ordering::Relaxed) {
            true => match again(|| self.calls.create_unnamed(parent.as_fd(), mode)) {
                Err(error) if is_unsupported(&error) => {
                    self.has_unnamed.store(false, Ordering::Relaxed);
                    None
                }
                made => Some(made?),
            },
            false => None,
        };
        let (file, temporary) = match unnamed {
            Some(file) => (file, None),
            None => {
                let name = self.temporary();
                (again(|| self.calls.create(parent.as_fd(), &name, named_mode))?, Some(name))
            }
        };
        let made = rustix::fs::fstat(&file)?;
        let device = made.st_dev as u64;
        self.directories().entry(device).or_insert_with(|| parent.clone());
        let (calls, parent) = (self.calls.clone(), parent.clone());
        Ok(OutFile { calls, file, made, device, parent, temporary })
    }

    /// What writes long files.
    pub(crate) fn long_writer(&self) -> io::Result<LongWriter> {
        LongWriter::new(&*self.calls)
    }

    /// Makes a symbolic link; `AlreadyExists` unless it may replace what has the name.
    pub(crate) fn symlink(
        &self,
        (parent, name): (&OwnedFd, &OsStr),
        link_to: &[u8],
        metadata: &FileMetadata,
        replaces: bool,
    ) -> io::Result<Unset> {
        let temporary = self.temporary();
        self.calls.make_symlink(OsStr::from_bytes(link_to), parent.as_fd(), &temporary)?;
        let published =
            target::set_link_metadata(&*self.calls, parent, &temporary, metadata).and_then(|unset| {
                publish(&*self.calls, parent, &temporary, name, replaces)?;
                Ok(unset)
            });
        if published.is_err() {
            // What went wrong first is what is reported.
            let _ = self.remove(parent, &temporary);
        }
        published
    }

    /// Gives a file that has a name another one; `AlreadyExists` unless it may replace what has it.
    pub(crate) fn hard_link(
        &self,
        (from, first): (&OwnedFd, &OsStr),
        (parent, name): (&OwnedFd, &OsStr),
        replaces: bool,
    ) -> io::Result<()> {
        let temporary = self.temporary();
        self.calls.link(from.as_fd(), first, parent.as_fd(), &temporary)?;
        let published = publish(&*self.calls, parent, &temporary, name, replaces);
        // Renaming one name of a file onto another name of the same file leaves both.
        let removed = self.remove(parent, &temporary);
        published.and(removed)
    }

    /// Removes a temporary name, if it is there.
    fn remove(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
        match again(|| self.calls.unlink(parent.as_fd(), name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Makes all that was published below a directory durable, also where other file systems are
    /// mounted there.
    pub(crate) fn sync_all(&self, directory: &OwnedFd) -> io::Result<()> {
        let device = rustix::fs::fstat(directory)?.st_dev as u64;
        sync_below(&*self.calls, directory)?;
        let directories = self.known_directories();
        let mut others = directories.iter().filter(|(other, _)| **other != device);
        others.try_for_each(|(_, directory)| sync_below(&*self.calls, directory))
    }

    /// Makes the bytes of files durable, by one call for each file system where that is possible:
    /// the result for each, by device.
    fn sync_files<'a>(&self, files: impl Iterator<Item = &'a OutFile>) -> BTreeMap<u64, io::Result<()>> {
        let directories = self.known_directories();
        let mut synced: BTreeMap<u64, io::Result<()>> = BTreeMap::new();
        let mut in_bulk: BTreeMap<u64, bool> = BTreeMap::new();
        for file in files {
            let device = file.device;
            let directory = directories.get(&device);
            let is_in_bulk = *in_bulk.entry(device).or_insert_with(|| directory.is_some_and(has_syncfs));
            match directory.filter(|_| is_in_bulk) {
                // The same descriptor each time: it reports an error once.
                Some(directory) => {
                    synced.entry(device).or_insert_with(|| self.calls.sync_file_system(directory.as_fd()));
                }
                None => {
                    let so_far = synced.entry(device).or_insert(Ok(()));
                    if so_far.is_ok() {
                        *so_far = file.sync();
                    }
                }
            }
        }
        synced
    }

    /// A copy: other threads begin files while these are synced.
    fn known_directories(&self) -> BTreeMap<u64, Arc<OwnedFd>> {
        self.directories().clone()
    }

    fn directories(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<OwnedFd>>> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutFile {
    /// Writes all bytes.
    pub(crate) fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = again(|| self.calls.write_at(&self.file, bytes, offset))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = bytes.get(written..).unwrap_or_default();
            offset = offset.saturating_add(written as u64);
        }
        Ok(())
    }

    /// Sets the length: a hole at the end is not written.
    pub(crate) fn set_len(&self, len: u64) -> io::Result<()> {
        again(|| self.calls.set_len(&self.file, len))
    }

    /// Sets owner, extended attributes, mode and time.
    pub(crate) fn set_metadata(&self, metadata: &FileMetadata) -> io::Result<Unset> {
        target::set_metadata(&*self.calls, &self.file, metadata, Some(&self.made))
    }

    /// Makes its bytes durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.calls.sync(self.file.as_fd())
    }

    /// Gives it its name; `AlreadyExists` unless it may replace what has it.
    pub(crate) fn publish(mut self, name: &OsStr, replaces: bool) -> io::Result<()> {
        match &self.temporary {
            Some(temporary) => publish(&*self.calls, &self.parent, temporary, name, replaces)?,
            None => self.calls.link_unnamed(&self.file, self.parent.as_fd(), name)?,
        }
        self.temporary = None;
        Ok(())
    }

    /// Gives it up.
    pub(crate) fn discard(mut self) -> io::Result<()> {
        let Some(temporary) = self.temporary.take() else { return Ok(()) };
        again(|| self.calls.unlink(self.parent.as_fd(), &temporary))
    }

    #[cfg(test)]
    pub(crate) fn as_file(&self) -> &File {
        &self.file
    }
}

impl Drop for OutFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // It was given up because of something worse, which is reported; what stays is only
            // untidy.
            let _ = again(|| self.calls.unlink(self.parent.as_fd(), temporary));
        }
    }
}

/// Gives a finished file its name; `AlreadyExists` unless it may replace.
pub(crate) fn publish(
    calls: &dyn Calls,
    parent: &OwnedFd,
    from: &OsStr,
    to: &OsStr,
    replaces: bool,
) -> io::Result<()> {
    let parent = parent.as_fd();
    if replaces {
        return calls.rename(parent, from, to);
    }
    match calls.rename_new(parent, from, to) {
        // Not every file system knows how: a link also refuses what is there.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::NOSYS)) => {
            calls.link(parent, from, parent, to)?;
            again(|| calls.unlink(parent, from))
        }
        other => other,
    }
}

/// Makes a call again that a signal interrupted. Not for syncs, and not for what gives a name:
/// after those it is not known what was done.
pub(crate) fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Whether a file system, or a system, has no files without names.
fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [Errno::OPNOTSUPP, Errno::ISDIR, Errno::INVAL, Errno::NOENT, Errno::NOSYS];
    error.kind() == io::ErrorKind::Unsupported
        || Errno::from_io_error(error).is_some_and(|errno| unsupported.contains(&errno))
}
