//! The way out: the one place that gives names to files, links and directories of a user's tree.
//!
//! A file has no name, or a temporary one, until its bytes, its attributes, its times and its owner
//! are there, and as durable as was asked for. Then it gets its own, in place of exactly what it
//! may replace. Every system call goes through [`Calls`].

mod appended;
mod batch;
mod calls;
mod exchanged;
mod kept;
mod long;
mod names;
mod naming;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::Stat;
use rustix::io::Errno;

use super::durable::{has_syncfs, identity, sync_below};
use super::existing::{self, Comparison, Overwrite, Plan};
use super::granularity::Granularity;
use super::target::{self, FileMetadata, Unset};
use crate::source::Inodes;
pub(crate) use appended::Appended;
pub use batch::Durability;
pub(crate) use batch::{Batch, BeforeNames, Published, SYNC, Waiting};
pub use calls::{Calls, System};
pub(crate) use exchanged::Settled;
pub(crate) use kept::{Kept, kept_room};
pub(crate) use long::{LONG, LongFile, LongWriter};
use names::Names;
pub use names::is_temporary;
pub(crate) use names::{Temporary, remove_stale};
pub(crate) use naming::{Backup, NewName, Replaces};

/// Threads that sync files where each is synced by itself.
const SYNC_THREADS: usize = 8;

/// Bytes that are compared at once.
const COMPARED_LEN: usize = 64 << 10;

/// How often a temporary file is made again that another run took for left.
const TRIES: usize = 8;

/// Gives out files that get their names when they are whole. Threads share it.
#[derive(Debug)]
pub(crate) struct Outbox {
    calls: Arc<dyn Calls>,
    names: Arc<Names>,
    /// The file systems, by device: what is mounted below the target is another.
    file_systems: Mutex<BTreeMap<u64, FileSystem>>,
}

/// A file system into which something is put.
#[derive(Debug, Clone)]
struct FileSystem {
    /// A directory of it.
    directory: Arc<OwnedFd>,
    /// Whether files without names can get one: not every file system has them, and not everywhere
    /// is it allowed. `None` until it was tried.
    has_unnamed: Option<bool>,
    /// How finely it keeps times. `None` until it was asked.
    granularity: Option<Granularity>,
}

impl FileSystem {
    /// That of a directory, of which nothing more is known.
    fn of(directory: &Arc<OwnedFd>) -> Self {
        Self { directory: directory.clone(), has_unnamed: None, granularity: None }
    }
}

/// How a file begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewFile {
    /// Its mode; one that is not known is what the process gives to new files.
    pub(crate) mode: Option<u32>,
    /// Whether only its owner may open it at first, whatever its mode.
    pub(crate) is_private: bool,
    /// What it is to replace. Then it has a temporary name: only a rename replaces.
    pub(crate) replaces: Replaces,
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
    names: Arc<Names>,
    /// What it takes the place of when it gets its name.
    replaces: Replaces,
    /// The name of its journal, where the next run may continue it.
    journal: Option<OsString>,
    /// Whether it stays for that when it is dropped.
    stays: bool,
}

impl Outbox {
    /// One with temporary names of its own.
    pub(crate) fn new(calls: Arc<dyn Calls>) -> io::Result<Self> {
        let names = Arc::new(Names::new()?);
        Ok(Self { calls, names, file_systems: Mutex::default() })
    }

    /// The system calls that its files are made by.
    pub(super) fn calls(&self) -> &dyn Calls {
        &*self.calls
    }

    /// Begins a file. Without a name no other process finds it, so it may have its mode at once.
    pub(crate) fn file(&self, parent: &Arc<OwnedFd>, new: NewFile) -> io::Result<OutFile> {
        let named_mode = if new.mode.is_some() { 0o600 } else { 0o666 };
        let mode = new.mode.filter(|_| !new.is_private).map_or(named_mode, |mode| mode & 0o777);
        let (file, temporary) = match self.has_unnamed(parent, !new.replaces.is_any())? {
            true => (again(|| self.calls.create_unnamed(parent.as_fd(), mode))?, None),
            false => self.create(parent, named_mode).map(|(file, name)| (file, Some(name)))?,
        };
        let made = rustix::fs::fstat(&file)?;
        let device = made.st_dev as u64;
        let (calls, parent, names) = (self.calls.clone(), parent.clone(), self.names.clone());
        let (replaces, journal, stays) = (new.replaces, None, false);
        Ok(OutFile { calls, file, made, device, parent, temporary, names, replaces, journal, stays })
    }

    /// What writes long files.
    pub(crate) fn long_writer(&self) -> io::Result<LongWriter> {
        LongWriter::new(&*self.calls)
    }

    /// Whether the file system of a directory has files without names, if that is asked.
    fn has_unnamed(&self, parent: &Arc<OwnedFd>, asks: bool) -> io::Result<bool> {
        let (device, _) = identity(parent)?;
        let mut known = self.file_systems();
        let file_system = known.entry(device).or_insert_with(|| FileSystem::of(parent));
        Ok(match file_system.has_unnamed {
            _ if !asks => false,
            Some(has_unnamed) => has_unnamed,
            // What is made where nothing can be removed would stay, and a link is all that works.
            None if is_append_only(parent) => true,
            None => *file_system.has_unnamed.insert(self.try_unnamed(parent)?),
        })
    }

    /// Whether files without names can be made in a directory, and can get a name. A system may
    /// refuse the name alone, when the bytes have been written: so an empty file gets one first.
    fn try_unnamed(&self, parent: &OwnedFd) -> io::Result<bool> {
        // That is where such a file is found when it gets its name.
        if !std::path::Path::new("/proc/self/fd").exists() {
            return Ok(false);
        }
        let file = match again(|| self.calls.create_unnamed(parent.as_fd(), 0o600)) {
            Ok(file) => file,
            Err(error) if is_unsupported(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        let name = self.names.next();
        match self.calls.link_unnamed(&file, parent.as_fd(), &name) {
            Ok(()) => self.remove(parent, &name).map(|()| true),
            Err(error) if is_unsupported(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a file with a temporary name, and locks it: what is not locked was left by a run that
    /// was killed. Where there are no locks, it is not removed for that.
    fn create(&self, parent: &OwnedFd, mode: u32) -> io::Result<(File, OsString)> {
        for _ in 0..TRIES {
            let name = self.names.next();
            let file = again(|| self.calls.create(parent.as_fd(), &name, mode))?;
            let is_taken = match again(|| self.calls.lock(&file)) {
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
                Ok(()) => rustix::fs::fstat(&file)?.st_nlink == 0,
            };
            // Else it was taken for left before it could be locked, and is removed.
            if !is_taken {
                return Ok((file, name));
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// Makes a symbolic link; `AlreadyExists` where something has the name that stays.
    pub(crate) fn symlink(
        &self,
        new: &NewName<'_>,
        link_to: &[u8],
        metadata: &FileMetadata,
    ) -> io::Result<Unset> {
        self.make(new, |temporary| {
            self.calls.make_symlink(OsStr::from_bytes(link_to), new.parent.as_fd(), temporary)?;
            target::set_link_metadata(&*self.calls, new.parent, temporary, metadata)
        })
    }

    /// Gives a file that has a name another one; `AlreadyExists` where something has it that stays.
    pub(crate) fn hard_link(&self, (from, first): (&OwnedFd, &OsStr), new: &NewName<'_>) -> io::Result<()> {
        let parent = new.parent;
        if !new.replaces.is_any() {
            return self.calls.link(from.as_fd(), first, parent.as_fd(), new.name);
        }
        let mut linked = None;
        self.make(new, |temporary| {
            self.calls.link(from.as_fd(), first, parent.as_fd(), temporary)?;
            linked = Some(temporary.to_os_string());
            Ok(())
        })?;
        // Renaming one name of a file onto another name of the same file leaves both.
        linked.map_or(Ok(()), |temporary| self.remove(parent, &temporary))
    }

    /// Makes a pipe, or a device, with its attributes; `AlreadyExists` where something has the name
    /// that stays.
    pub(crate) fn special(
        &self,
        new: &NewName<'_>,
        (kind, device): (rustix::fs::FileType, u64),
        metadata: &FileMetadata,
    ) -> io::Result<Unset> {
        let (parent, mode) = (new.parent, metadata.mode.unwrap_or(0o600) & 0o7777 & !target::SET_ID);
        self.make(new, |temporary| {
            again(|| self.calls.make_node(parent.as_fd(), temporary, kind, mode, device))?;
            let unset = target::set_link_metadata(&*self.calls, parent, temporary, metadata)?;
            // The mode that it was made with was cut by the mask of the process.
            again(|| self.calls.set_mode_at(parent.as_fd(), temporary, mode))?;
            Ok(unset)
        })
    }

    /// Makes something that cannot be locked under a temporary name, then gives it its own. Another
    /// run may take it for left by one that was killed, and remove it: then it is made again.
    fn make<T>(&self, new: &NewName<'_>, mut make: impl FnMut(&OsStr) -> io::Result<T>) -> io::Result<T> {
        let mut tries = 1;
        loop {
            let mut temporary = Some(self.names.next());
            let made = make(temporary.as_deref().unwrap_or_default()).and_then(|made| {
                let given = new.give(&*self.calls, &self.names, &mut temporary);
                given.map(|()| made).map_err(|(_, error)| error)
            });
            let Err(error) = made else { return made };
            if error.kind() == io::ErrorKind::NotFound && tries < TRIES {
                tries += 1;
                continue;
            }
            if let Some(temporary) = temporary {
                // What went wrong first is what is reported.
                let _ = self.remove(new.parent, &temporary);
            }
            return Err(error);
        }
    }

    /// What is done at a name, for something with this modification time.
    ///
    /// # Errors
    /// When a directory is there, or a file that is read from, which nothing takes the place of, or
    /// the system does not say.
    pub(crate) fn plan(
        &self,
        (overwrite, read_from): (Overwrite, &Inodes),
        (parent, name): (&Arc<OwnedFd>, &OsStr),
        mtime_ns: Option<i64>,
    ) -> io::Result<Plan> {
        let Some(there) = target::status(parent, name)? else { return Ok(Plan::Write) };
        if read_from.contains(&(there.st_dev, there.st_ino)) {
            return Err(io::Error::other("it is what is read from"));
        }
        overwrite.plan(&there, mtime_ns.map(|ns| self.kept_time(parent, ns, &there, true)))
    }

    /// The modification time that something in a directory has when it was given this one, to be
    /// compared with that of what is there: file systems keep times more or less finely. Whether
    /// this one keeps them coarsely is found out only where that could be why the two differ, and,
    /// if nothing may be written, only by its kind.
    pub(crate) fn kept_time(&self, parent: &Arc<OwnedFd>, ns: i64, there: &Stat, may_write: bool) -> i64 {
        if !Granularity::may_explain(ns, existing::mtime_of(there)) {
            return ns;
        }
        let Ok((device, _)) = identity(parent) else { return ns };
        let known = self.file_systems().get(&device).and_then(|known| known.granularity);
        let granularity = known.unwrap_or_else(|| {
            let kind = self.calls.kind_of_file_system(parent.as_fd());
            match kind.and_then(Granularity::of_kind) {
                Some(granularity) => granularity,
                None if !may_write => Granularity::EXACT,
                // What cannot be found out makes files differ, whose bytes are compared then.
                None => self.try_time(parent).unwrap_or(Granularity::EXACT),
            }
        });
        if known.is_none() && may_write {
            let mut file_systems = self.file_systems();
            let file_system = file_systems.entry(device).or_insert_with(|| FileSystem::of(parent));
            file_system.granularity = Some(granularity);
        }
        granularity.kept(ns)
    }

    /// How finely the file system of a directory keeps times, by what becomes of one.
    fn try_time(&self, parent: &Arc<OwnedFd>) -> io::Result<Granularity> {
        let file =
            self.file(parent, NewFile { mode: None, is_private: true, replaces: Replaces::Nothing })?;
        again(|| self.calls.set_mtime(file.file.as_fd(), Granularity::PROBE_NS))?;
        let kept = existing::mtime_of(&rustix::fs::fstat(&file.file)?);
        file.discard()?;
        Ok(Granularity::of_probe(kept))
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
        let (device, _) = identity(directory)?;
        sync_below(&*self.calls, directory)?;
        let directories = self.known_directories();
        let mut others = directories.iter().filter(|(other, _)| **other != device);
        others.try_for_each(|(_, directory)| sync_below(&*self.calls, directory))
    }

    /// Makes the bytes of files durable, by one call for each file system where that is possible:
    /// the result for each.
    pub(crate) fn sync_files(&self, files: &[&OutFile]) -> Vec<io::Result<()>> {
        let directories = self.known_directories();
        let mut synced: BTreeMap<u64, Option<io::Result<()>>> = BTreeMap::new();
        for file in files {
            synced.entry(file.device).or_insert_with(|| {
                let directory = directories.get(&file.device)?;
                let has_one = has_syncfs(&*self.calls, directory);
                has_one.then(|| self.calls.sync_file_system(directory.as_fd()))
            });
        }
        let work = |file: &&OutFile| match synced.get(&file.device) {
            Some(Some(Ok(()))) => file.wait_written(),
            Some(Some(Err(error))) => Err(copy_of(error)),
            _ => file.sync(),
        };
        // A sync of a file waits for the medium, and those of several wait together.
        let is_each = synced.values().any(Option::is_none);
        let threads = if is_each { SYNC_THREADS.min(files.len()) } else { 1 };
        each_of(files, threads, &work)
    }

    /// A directory of each file system. A copy: other threads begin files while these are synced.
    fn known_directories(&self) -> BTreeMap<u64, Arc<OwnedFd>> {
        let directory = |(device, known): (&u64, &FileSystem)| (*device, known.directory.clone());
        self.file_systems().iter().map(directory).collect()
    }

    fn file_systems(&self) -> MutexGuard<'_, BTreeMap<u64, FileSystem>> {
        self.file_systems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutFile {
    /// Writes all bytes.
    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        write_all(&*self.calls, &self.file, bytes, offset)
    }

    /// Sets the length: a hole at the end is not written.
    pub(crate) fn set_len(&self, len: u64) -> io::Result<()> {
        again(|| self.calls.set_len(&self.file, len))
    }

    /// Sets owner, extended attributes, mode and time.
    pub(crate) fn set_metadata(&self, metadata: &FileMetadata) -> io::Result<Unset> {
        target::set_metadata(&*self.calls, &self.file, metadata, Some(&self.made))
    }

    /// Sets the mode.
    pub(crate) fn set_mode(&self, mode: u32) -> io::Result<()> {
        again(|| self.calls.set_mode(self.file.as_fd(), mode))
    }

    /// Gives it the mode and the owner of what it is to replace. Whose owner cannot be given is for
    /// this user, and for nobody in its group who could not read that.
    ///
    /// # Errors
    /// What the system meets, but for the owner.
    pub(crate) fn keep_access(&self, there: &Stat) -> io::Result<()> {
        let (owner, own) = ((there.st_uid, there.st_gid), (self.made.st_uid, self.made.st_gid));
        let mode = there.st_mode & 0o777;
        let is_given = owner == own || again(|| self.calls.set_owner(self.file.as_fd(), owner)).is_ok();
        let others = mode & 0o007;
        self.set_mode(if is_given { mode } else { mode & !0o070 | mode & (others << 3) })
    }

    /// It takes the place of whatever has its name when it gets it, although it may have been begun
    /// where nothing had.
    pub(crate) fn replacing(mut self) -> Self {
        self.replaces = Replaces::All;
        self
    }

    /// The system calls that it is made by.
    pub(crate) fn calls(&self) -> Arc<dyn Calls> {
        self.calls.clone()
    }

    /// Makes its bytes durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.calls.sync(self.file.as_fd())
    }

    /// Whether all its bytes were written, after a sync of its file system. That sync may have
    /// succeeded although they were not, where an earlier one met them, and their error.
    fn wait_written(&self) -> io::Result<()> {
        match again(|| self.calls.wait_written(self.file.as_fd())) {
            Err(error) if cannot_say(&error) => self.sync(),
            waited => waited,
        }
    }

    /// Gives it its name, in place of what it may replace, which gets another name if it is to be
    /// kept: what was to be done, and its error. `AlreadyExists` where something has it that stays.
    pub(crate) fn publish(
        &mut self,
        name: &OsStr,
        backup: Option<&Backup>,
    ) -> Result<(), (&'static str, io::Error)> {
        let give = |error| ("give its name to", error);
        if self.temporary.is_none() {
            let parent = self.parent.as_fd();
            if !self.replaces.is_any() {
                return self.calls.link_unnamed(&self.file, parent, name).map_err(give);
            }
            // Only a rename replaces.
            let temporary = self.names.next();
            self.calls.link_unnamed(&self.file, parent, &temporary).map_err(give)?;
            self.temporary = Some(temporary);
        }
        let new = NewName { parent: &self.parent, name, replaces: self.replaces, backup };
        new.give(&*self.calls, &self.names, &mut self.temporary)?;
        self.remove_journal();
        Ok(())
    }

    /// Whether it got no name because something else has it, which came in between and has the same
    /// bytes. What cannot be compared is another.
    pub(crate) fn is_as_what_came(&self, name: &OsStr, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::AlreadyExists && self.has_bytes_of(name).unwrap_or(false)
    }

    fn has_bytes_of(&self, name: &OsStr) -> io::Result<bool> {
        // It was opened for writing alone.
        let own = File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))?;
        let mut comparison = Comparison::open(&self.parent, name)?;
        let (mut buffer, mut at) = (vec![0; COMPARED_LEN], 0);
        while comparison.is_same() {
            let read = again(|| own.read_at(&mut buffer, at))?;
            if read == 0 {
                break;
            }
            comparison.take(buffer.get(..read).unwrap_or_default())?;
            at += read as u64;
        }
        comparison.finish()
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
        if self.stays {
            return;
        }
        if let Some(temporary) = self.temporary.take() {
            // It was given up because of something worse, which is reported; what stays is only
            // untidy.
            let _ = again(|| self.calls.unlink(self.parent.as_fd(), &temporary));
        }
        self.remove_journal();
    }
}

/// Writes all bytes to a file.
pub(crate) fn write_all(calls: &dyn Calls, file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = again(|| calls.write_at(file, bytes, offset))?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(written..).unwrap_or_default();
        offset = offset.saturating_add(written as u64);
    }
    Ok(())
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

/// Whether names can be added to a directory and none removed (`chattr +a`).
#[cfg(target_os = "linux")]
fn is_append_only(directory: &OwnedFd) -> bool {
    use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
    statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::empty())
        .is_ok_and(|status| status.stx_attributes.contains(StatxAttributes::APPEND))
}

#[cfg(not(target_os = "linux"))]
fn is_append_only(_: &OwnedFd) -> bool {
    false
}

/// Whether a file system has no hard links.
fn has_no_links(error: &io::Error) -> bool {
    let refused = [Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS, Errno::MLINK];
    Errno::from_io_error(error).is_some_and(|errno| refused.contains(&errno))
}

/// Whether a file system, or a system, has no files without names.
fn is_unsupported(error: &io::Error) -> bool {
    // Permission, and another device, are what containers and filters of system calls say.
    let refused = [Errno::PERM, Errno::XDEV, Errno::MLINK];
    let unsupported = [Errno::OPNOTSUPP, Errno::ISDIR, Errno::INVAL, Errno::NOENT, Errno::NOSYS];
    error.kind() == io::ErrorKind::Unsupported
        || Errno::from_io_error(error)
            .is_some_and(|errno| unsupported.contains(&errno) || refused.contains(&errno))
}

/// Whether a system does not say what was not written of a file.
fn cannot_say(error: &io::Error) -> bool {
    let refused = [Errno::NOSYS, Errno::PERM, Errno::INVAL, Errno::OPNOTSUPP];
    error.kind() == io::ErrorKind::Unsupported
        || Errno::from_io_error(error).is_some_and(|errno| refused.contains(&errno))
}

/// The same error once more.
fn copy_of(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

/// Does the same with each of some files, by several threads: the results, in their order.
fn each_of<F: Sync, T: Send>(files: &[F], threads: usize, work: &(dyn Fn(&F) -> T + Sync)) -> Vec<T> {
    if threads < 2 {
        return files.iter().map(work).collect();
    }
    let part = files.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let parts: Vec<_> = files
            .chunks(part)
            .map(|files| {
                (files, std::thread::Builder::new().spawn_scoped(scope, || files.iter().map(work).collect()))
            })
            .collect();
        let done = parts.into_iter().flat_map(|(files, thread)| -> Vec<T> {
            // Where there is no thread to be had, this one does it.
            let Ok(thread) = thread else { return files.iter().map(work).collect() };
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        done.collect()
    })
}
