//! The way out: the one place that gives names to files, links and directories of a user's tree.
//!
//! A file has no name, or a temporary one, until its bytes, its attributes, its times and its owner
//! are there, and as durable as was asked for. Then it gets its own, in place of exactly what it
//! may replace. Every system call goes through [`Calls`].

mod batch;
mod calls;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::durable::{has_syncfs, sync_below};
use super::target::{self, FileMetadata, Unset};
pub(crate) use batch::{Batch, Published, SYNC, Waiting};
pub use calls::{Calls, System};

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

/// A file on its way. What is dropped before it has its name leaves no file.
#[derive(Debug)]
pub(crate) struct OutFile {
    calls: Arc<dyn Calls>,
    file: File,
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

    /// Begins a file. A mode that is not known is what the process gives to new files. One that is
    /// to replace something has a temporary name: only a rename replaces.
    pub(crate) fn file(
        &self,
        parent: &Arc<OwnedFd>,
        mode: Option<u32>,
        replaces: bool,
    ) -> io::Result<OutFile> {
        let mode = if mode.is_some() { 0o600 } else { 0o666 };
        let device = rustix::fs::fstat(parent)?.st_dev as u64;
        self.directories().entry(device).or_insert_with(|| parent.clone());
        let out = |file, temporary| OutFile {
            calls: self.calls.clone(),
            file,
            device,
            parent: parent.clone(),
            temporary,
        };
        if !replaces && self.has_unnamed.load(Ordering::Relaxed) {
            match again(|| self.calls.create_unnamed(parent.as_fd(), mode)) {
                Ok(file) => return Ok(out(file, None)),
                Err(error) if is_unsupported(&error) => self.has_unnamed.store(false, Ordering::Relaxed),
                Err(error) => return Err(error),
            }
        }
        let name = self.temporary();
        let file = again(|| self.calls.create(parent.as_fd(), &name, mode))?;
        Ok(out(file, Some(name)))
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

    /// Gives a finished file its name, after what has it was given another one, if it is to be
    /// kept: what was to be done, and its error.
    pub(crate) fn publish(
        &self,
        file: OutFile,
        name: &OsStr,
        replaces: bool,
        backup: Option<&OsStr>,
    ) -> Result<(), (&'static str, io::Error)> {
        if let Some(backup) = backup.filter(|_| replaces) {
            self.keep_as(&file.parent, name, backup).map_err(|error| ("keep", error))?;
        }
        file.publish(name, replaces).map_err(|error| ("give its name to", error))
    }

    /// Gives what has a name another one beside it, in place of what has that, so that at no moment
    /// the name has nothing where the file system has hard links.
    pub(crate) fn keep_as(&self, parent: &OwnedFd, name: &OsStr, backup: &OsStr) -> io::Result<()> {
        match self.hard_link((parent, name), (parent, backup), true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) if has_no_links(&error) => self.calls.rename(parent.as_fd(), name, backup),
            kept => kept,
        }
    }

    /// Makes a pipe, or a device, with its attributes; `AlreadyExists` unless it may replace what
    /// has the name.
    pub(crate) fn special(
        &self,
        (parent, name): (&OwnedFd, &OsStr),
        (kind, device): (rustix::fs::FileType, u64),
        metadata: &FileMetadata,
        replaces: bool,
    ) -> io::Result<Unset> {
        let temporary = self.temporary();
        let mode = metadata.mode.unwrap_or(0o600) & 0o7777 & !target::SET_ID;
        again(|| self.calls.make_node(parent.as_fd(), &temporary, kind, mode, device))?;
        let set = || {
            let unset = target::set_link_metadata(&*self.calls, parent, &temporary, metadata)?;
            // The mode that it was made with was cut by the mask of the process.
            again(|| self.calls.set_mode_at(parent.as_fd(), &temporary, mode))?;
            publish(&*self.calls, parent, &temporary, name, replaces)?;
            Ok(unset)
        };
        let published = set();
        if published.is_err() {
            // What went wrong first is what is reported.
            let _ = self.remove(parent, &temporary);
        }
        published
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
        for file in files {
            match directories.get(&file.device).filter(|directory| has_syncfs(directory)) {
                // The same descriptor each time: it reports an error once.
                Some(directory) => {
                    synced
                        .entry(file.device)
                        .or_insert_with(|| self.calls.sync_file_system(directory.as_fd()));
                }
                None => {
                    let so_far = synced.entry(file.device).or_insert(Ok(()));
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
        target::set_metadata(&*self.calls, &self.file, metadata)
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

    /// The same opening for an engine, which writes past what [`Calls`] see.
    pub(crate) fn for_engine(&self, path: &std::path::Path) -> io::Result<crate::engine::File> {
        Ok(crate::engine::File::from_std(self.file.try_clone()?, path, true))
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

/// Whether a file system has no hard links.
fn has_no_links(error: &io::Error) -> bool {
    let refused = [Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS, Errno::MLINK];
    Errno::from_io_error(error).is_some_and(|errno| refused.contains(&errno))
}

/// Whether a file system, or a system, has no files without names.
fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [Errno::OPNOTSUPP, Errno::ISDIR, Errno::INVAL, Errno::NOENT, Errno::NOSYS];
    error.kind() == io::ErrorKind::Unsupported
        || Errno::from_io_error(error).is_some_and(|errno| unsupported.contains(&errno))
}
