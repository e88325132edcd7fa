//! Files that are written beside their names and renamed when they are whole.
//!
//! Below a [`Folder`] no name leads out of it, and nothing that has the name already is ever
//! opened: a link, a pipe or a device is replaced as a file is. A [`Draft::named`] is the file that
//! somebody named himself: a pipe or a device is what he meant then.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use super::outbox::{
    Batch, Calls, Durability, LONG, LongFile, LongWriter, NewFile, OutFile, Outbox, Published, Replaces,
    System, Waiting, remove_stale,
};
use super::target::{self, Target, Unset};
use crate::error::{Error, Result};
use crate::source::zeroes;

/// Links that are followed, as the system does.
const LINKS_MAX: usize = 40;

/// Set in the mode of a directory in which everybody may make names, and only who made one may
/// remove it.
const SHARED: u32 = 0o1002;

/// How long one wait for the reader of a pipe takes, before the caller is asked again.
const WAIT: Duration = Duration::from_millis(50);

/// Names of a directory that are looked at for what killed runs left.
const NAMES_MAX: usize = 10_000;

/// Takes the next bytes, and whom to ask whether a wait for the reader of a pipe goes on.
pub type Write<'a> = dyn FnMut(&[u8], &mut dyn FnMut() -> bool) -> Result<()> + 'a;

/// Why something cannot become a file here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The name could lead out of the directory, or what is there already is in the way.
    #[error("{0}")]
    Name(String),
    /// I/O errors.
    #[error(transparent)]
    Core(#[from] Error),
}

/// A directory in which names become files and directories. Files that are finished wait for one
/// sync, and get their names after it: all have them when it is [synced](Self::sync), or dropped.
#[derive(Debug)]
pub struct Folder {
    target: Target,
    path: PathBuf,
    way: Arc<Way>,
}

/// A file that gets its name when it is whole. What is dropped before that leaves no file.
#[derive(Debug)]
pub struct Draft {
    shown: PathBuf,
    place: Place,
    /// Bytes of it, and how far they have been written; what follows is a hole.
    len: u64,
    written: u64,
}

/// Where the bytes go.
#[derive(Debug)]
enum Place {
    /// What is no regular file, and written as it is.
    Open {
        file: File,
        /// Whether it is a pipe, whose reader may keep a write waiting.
        is_pipe: bool,
        calls: Arc<dyn Calls>,
    },
    /// A file that has no name yet, or another.
    Beside(Box<Beside>),
}

#[derive(Debug)]
struct Beside {
    file: OutFile,
    parent: Arc<OwnedFd>,
    name: OsString,
    way: Arc<Way>,
    /// Whether it is made durable alone.
    is_alone: bool,
}

/// What files of a folder have in common.
#[derive(Debug)]
struct Way {
    outbox: Outbox,
    batch: Batch,
    /// What became of files that waited, and was not asked for yet.
    finished: Mutex<Vec<Finished>>,
}

/// What became of a file of a [`Folder`].
#[derive(Debug)]
pub struct Finished {
    /// Its path.
    pub path: PathBuf,
    /// Whether it has its name.
    pub result: Result<()>,
}

impl Way {
    fn new(calls: Arc<dyn Calls>, directory: &Path, durability: Durability) -> Result<Arc<Self>> {
        let outbox = Outbox::new(calls).map_err(|error| Error::io("choose names in", directory, error))?;
        let batch = Batch::with(durability);
        Ok(Arc::new(Self { outbox, batch, finished: Mutex::default() }))
    }

    fn finished(&self) -> MutexGuard<'_, Vec<Finished>> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that waits gets its name.
    fn publish(&self) {
        self.note(self.batch.publish(&self.outbox));
    }

    fn note(&self, published: Vec<Published>) {
        self.finished().extend(published.into_iter().map(|Published { key, result, .. }| {
            let path = PathBuf::from(OsString::from_vec(key));
            let result = result.map_err(|(operation, error)| Error::io(operation, &path, error));
            Finished { path, result }
        }));
    }
}

impl Folder {
    /// Opens a directory, made if it is not there.
    ///
    /// # Errors
    /// What the system meets.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_through(path, Durability::default(), Arc::new(System))
    }

    /// The same, with system calls that somebody else makes, and files that are durable when that
    /// is asked.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_through(path: &Path, durability: Durability, calls: Arc<dyn Calls>) -> Result<Self> {
        let target = Target::open_through(path, calls.clone());
        let target = target.map_err(|error| Error::io("open the directory", path, error))?;
        Ok(Self { target, path: path.to_path_buf(), way: Way::new(calls, path, durability)? })
    }

    /// Makes a directory below it, and all between.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn directory(&mut self, name: &[u8]) -> Result<PathBuf, Refused> {
        let parts = parts(name)?;
        self.enter(&parts)?;
        Ok(self.target.path_of(name))
    }

    /// Begins a file below it, and makes the directories between. Whatever has the name then is
    /// replaced when the file is [finished](Draft::finish), and never opened; only a directory is
    /// not.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn file(&mut self, name: &[u8]) -> Result<Draft, Refused> {
        let parts = parts(name)?;
        let shown = self.target.path_of(name);
        let Some((last, parents)) = parts.split_last() else {
            return Err(Refused::Name("the empty name can only be a directory".into()));
        };
        let parent = self.enter(parents)?;
        let refused = self.target.refuse_file_of_pack(&parent, last);
        refused.map_err(|error| Refused::Name(format!("will not write {}: {error}", shown.display())))?;
        let there = target::status(&parent, last).map_err(|error| Error::io("look for", &shown, error))?;
        if there.is_some_and(|there| is_directory(&there)) {
            return Err(Refused::Name(format!("{} is a directory", shown.display())));
        }
        // What is replaced is, when the draft is finished.
        let replaces = if there.is_some() { Replaces::All } else { Replaces::Nothing };
        Ok(Draft::beside((parent, last), shown, self.way.clone(), replaces, None)?)
    }

    fn enter(&mut self, parts: &[&OsStr]) -> Result<Arc<OwnedFd>, Refused> {
        self.target.directory(parts).map_err(|error| {
            let path = self.path.join(parts.iter().collect::<PathBuf>());
            match error.kind() {
                io::ErrorKind::NotADirectory => Refused::Name(format!(
                    "will not write below {}: it, or something above it, is a link or no directory",
                    path.display()
                )),
                _ => Error::io("make the directory", &path, error).into(),
            }
        })
    }

    /// The directory, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All files that wait get their names.
    pub fn publish(&self) {
        self.way.publish();
    }

    /// The files that have got their names since the last call, or could not get them, in the order
    /// in which they were [finished](Draft::finish).
    pub fn finished(&self) -> Vec<Finished> {
        std::mem::take(&mut *self.way.finished())
    }

    /// Everything that was finished has its name, and is on the medium, unless nothing was to be.
    ///
    /// # Errors
    /// What the system meets; of files that got no name and were not [given
    /// out](Self::finished), the error of the first.
    pub fn sync(&self) -> Result<()> {
        self.publish();
        self.finished().into_iter().try_for_each(|file| file.result)?;
        let synced = self.way.batch.sync_all(&self.way.outbox, &self.target.root());
        synced.map_err(|error| Error::io("sync", &self.path, error))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A caller that did not ask whether it succeeds has something worse to report.
        self.way.publish();
    }
}

impl Draft {
    /// The file that somebody named. A regular file is replaced when it is
    /// [finished](Self::finish), by one with its mode, and with its owner where this user may give
    /// it; where a link has the name, the file that it leads to is, or is
    /// made. A pipe, a device and an open file of this process (`/dev/stdout`, `/dev/fd/3`) are
    /// written to as they are. A pipe without a reader is waited for until `go_on` says no.
    ///
    /// # Errors
    /// What the system meets, a link that somebody else put into a directory for everybody, and
    /// [`io::ErrorKind::Interrupted`] where `go_on` ended a wait.
    pub fn named(path: &Path, go_on: &mut dyn FnMut() -> bool) -> Result<Self> {
        Self::named_through(path, Arc::new(System), go_on)
    }

    /// The same, with system calls that somebody else makes.
    ///
    /// # Errors
    /// As [`named`](Self::named).
    pub fn named_through(
        path: &Path,
        calls: Arc<dyn Calls>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Self> {
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(Error::io("create", path, io::ErrorKind::IsADirectory.into()));
        }
        let there = fs::metadata(path).ok();
        let is_open_file = names_open_file(path);
        if is_open_file || there.as_ref().is_some_and(|there| !there.is_file()) {
            let is_pipe = there.is_some_and(|there| there.file_type().is_fifo());
            let opened = match is_pipe {
                true => open_pipe(path, go_on),
                // A file that the shell opened for us is appended to.
                false => fs::OpenOptions::new().append(is_open_file).write(true).open(path),
            };
            let file = opened.map_err(|error| Error::io("write to", path, error))?;
            let place = Place::Open { file, is_pipe, calls };
            return Ok(Self { shown: path.to_path_buf(), place, len: 0, written: 0 });
        }
        let led_to = end_of_links(path).map_err(|error| Error::io("follow the link", path, error))?;
        let directory = directory_of(&led_to);
        let Some(name) = led_to.file_name() else {
            return Err(Error::io("create", path, io::ErrorKind::IsADirectory.into()));
        };
        let parent = target::open(directory).map_err(|error| Error::io("open", directory, error))?;
        target::refuse_inside_pack(directory).map_err(|error| Error::io("write to", directory, error))?;
        remove_stale(&*calls, &parent, NAMES_MAX);
        let way = Way::new(calls, directory, Durability::File)?;
        let there = target::status(&parent, name).map_err(|error| Error::io("look for", path, error))?;
        let place = (Arc::new(parent), name);
        let mut draft = Self::beside(place, path.to_path_buf(), way, Replaces::All, there)?;
        if let Place::Beside(beside) = &mut draft.place {
            beside.is_alone = true;
        }
        Ok(draft)
    }

    /// A file in a directory, under a name that nothing may have when it is
    /// [finished](Self::finish): that is [`io::ErrorKind::AlreadyExists`] then. It is made durable
    /// by itself.
    ///
    /// # Errors
    /// What the system meets; that the directory belongs to a pack.
    pub fn new_in(directory: &Path, name: &OsStr) -> Result<Self> {
        let parent = target::open(directory).map_err(|error| Error::io("open", directory, error))?;
        target::refuse_inside_pack(directory).map_err(|error| Error::io("write to", directory, error))?;
        let calls = Arc::new(System);
        remove_stale(&*calls, &parent, NAMES_MAX);
        let (way, shown) = (Way::new(calls, directory, Durability::File)?, directory.join(name));
        let (parent, replaces) = (Arc::new(parent), Replaces::Nothing);
        let file = way.outbox.file(&parent, NewFile { mode: None, is_private: false, replaces });
        let file = file.map_err(|error| Error::io("create a file beside", &shown, error))?;
        let beside = Beside { file, parent, name: name.to_os_string(), way, is_alone: true };
        Ok(Self { shown, place: Place::Beside(Box::new(beside)), len: 0, written: 0 })
    }

    /// `there` is what gives it its mode and its owner.
    fn beside(
        (parent, name): (Arc<OwnedFd>, &OsStr),
        shown: PathBuf,
        way: Arc<Way>,
        replaces: Replaces,
        there: Option<Stat>,
    ) -> Result<Self> {
        let there = there.filter(|there| FileType::from_raw_mode(there.st_mode).is_file());
        let mode = there.map(|there| there.st_mode & 0o777);
        let file = way.outbox.file(&parent, NewFile { mode, is_private: false, replaces });
        let file = file.map_err(|error| Error::io("create a file beside", &shown, error))?.replacing();
        if let Some(there) = there {
            let kept = file.keep_access(&there);
            kept.map_err(|error| Error::io("set the mode of a file beside", &shown, error))?;
        }
        let beside = Beside { file, parent, name: name.to_os_string(), way, is_alone: false };
        Ok(Self { shown, place: Place::Beside(Box::new(beside)), len: 0, written: 0 })
    }

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.shown
    }

    /// Whether something has the name that it gets when it is [finished](Self::finish).
    pub fn replaces(&self) -> bool {
        match &self.place {
            Place::Beside(beside) => !matches!(target::status(&beside.parent, &beside.name), Ok(None)),
            Place::Open { .. } => false,
        }
    }

    /// Bytes that it has so far.
    pub fn end(&self) -> u64 {
        self.len
    }

    /// Takes back all after this many bytes. What is no regular file keeps what it was given.
    ///
    /// # Errors
    /// What the system meets.
    pub fn cut(&mut self, len: u64) -> Result<()> {
        let Place::Beside(beside) = &self.place else { return Ok(()) };
        if len >= self.len {
            return Ok(());
        }
        beside.file.set_len(len).map_err(|error| Error::io_at("cut", &self.shown, len, error))?;
        (self.len, self.written) = (len, len);
        Ok(())
    }

    /// The next bytes.
    ///
    /// # Errors
    /// What the system meets.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_while(bytes, &mut || true)
    }

    /// The same; the reader of a pipe is waited for until `go_on` says no.
    ///
    /// # Errors
    /// What the system meets, [`io::ErrorKind::Interrupted`] where `go_on` ended a wait.
    pub fn write_while(&mut self, bytes: &[u8], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let written = match &mut self.place {
            Place::Beside(beside) => beside.file.write_at(bytes, self.len),
            Place::Open { file, is_pipe: true, .. } => write_to_pipe(file, bytes, go_on),
            Place::Open { file, is_pipe: false, .. } => file.write_all(bytes),
        };
        written.map_err(|error| Error::io_at("write", &self.shown, self.len, error))?;
        self.len = self.len.saturating_add(bytes.len() as u64);
        // After a hole, no bytes at all must not be taken for what ends the file.
        if !bytes.is_empty() {
            self.written = self.len;
        }
        Ok(())
    }

    /// All bytes of it, of which it is known how many they are: `fill` hands them on, in order, as
    /// [`write_while`](Self::write_while) takes them. Many go past the page cache, several blocks
    /// at once, where the file system has that, and there is room for all before the first is
    /// written.
    ///
    /// # Errors
    /// What the system meets, and the errors of `fill`.
    pub fn fill<T, E: From<Error>>(
        &mut self,
        len: u64,
        fill: impl FnOnce(&mut Write<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut writer = None;
        let Some(mut long) = self.long(len, &mut writer)? else {
            return fill(&mut |bytes, go_on| self.write_while(bytes, go_on));
        };
        let (shown, mut at) = (self.shown.as_path(), 0_u64);
        let failed = |at| move |error| Error::io_at("write", shown, at, error);
        let filled = fill(&mut |bytes, _| {
            long.write_at(bytes, at).map_err(failed(at))?;
            at = at.saturating_add(bytes.len() as u64);
            Ok(())
        })?;
        // Room that was reserved, and not filled, is cut off at the end.
        self.written = long.finish().map_err(failed(at))?;
        self.len = at;
        Ok(filled)
    }

    /// What writes it, if it has no bytes yet, and so many that they are worth it.
    fn long<'w>(&self, len: u64, writer: &'w mut Option<LongWriter>) -> Result<Option<LongFile<'w>>> {
        let Place::Beside(beside) = &self.place else { return Ok(None) };
        if len < LONG || self.len > 0 {
            return Ok(None);
        }
        let failed = |error| Error::io("write", &self.shown, error);
        let writer = writer.insert(beside.way.outbox.long_writer().map_err(failed)?);
        writer.begin(&beside.file, &self.shown, len).map_err(failed)
    }

    /// This many zeroes: a hole, where it is a file. A pipe or a device is given a piece of them,
    /// and the rest is for the next call. How many it were.
    ///
    /// # Errors
    /// As [`write_while`](Self::write_while).
    pub fn write_hole(&mut self, len: u64, go_on: &mut dyn FnMut() -> bool) -> Result<u64> {
        if matches!(self.place, Place::Open { .. }) {
            let zeroes = zeroes(len);
            self.write_while(zeroes, go_on)?;
            return Ok(zeroes.len() as u64);
        }
        self.len = self.len.saturating_add(len);
        Ok(len)
    }

    /// Who may read and write it, whatever new files are given.
    ///
    /// # Errors
    /// What the system meets.
    pub fn set_mode(&self, mode: u32) -> Result<()> {
        let set = match &self.place {
            Place::Beside(beside) => beside.file.set_mode(mode),
            Place::Open { file, calls, .. } => calls.set_mode(file.as_fd(), mode),
        };
        set.map_err(|error| Error::io("set the mode of", &self.shown, error))
    }

    /// All bytes are there: it is on the medium, and gets its name, which is on the medium then,
    /// too.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn sync_and_finish(mut self) -> Result<()> {
        if let Place::Beside(beside) = &mut self.place {
            beside.is_alone = true;
        }
        self.finish()
    }

    /// The end of a file of many things, which may not have all that was asked for: then what has
    /// its name already stays, and nothing comes of this one. Whether it got its name.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_or_keep(self, has_all: bool) -> Result<bool> {
        if !has_all && self.replaces() {
            return Ok(false);
        }
        self.finish().map(|()| true)
    }

    /// All bytes are there: it gets its name. In a folder it may wait for others, and for the sync
    /// of all of them; what became of it then, [`Folder::finished`] says.
    ///
    /// # Errors
    /// What the system meets; then nothing has changed.
    pub fn finish(self) -> Result<()> {
        let Self { shown, place, len, written } = self;
        let path = shown.as_path();
        let failed = |operation| move |error| Error::io(operation, path, error);
        let beside = match place {
            Place::Beside(beside) => beside,
            Place::Open { is_pipe: true, .. } => return Ok(()),
            // What a device could not write shows only now.
            Place::Open { file, calls, .. } => return sync_open(&*calls, &file).map_err(failed("sync")),
        };
        let Beside { mut file, parent, name, way, is_alone } = *beside;
        let calls = file.calls();
        // A hole at the end is not written, so the length has to be set.
        if written != len {
            file.set_len(len).map_err(failed("set the length of"))?;
        }
        if !is_alone {
            let key = shown.as_os_str().as_bytes().to_vec();
            let (unset, backup, is_alone) = (Unset::default(), None, false);
            let waiting = Waiting { file, name, key, len, unset, backup, is_alone };
            way.note(way.batch.put(&way.outbox, waiting));
            return Ok(());
        }
        file.sync().map_err(failed("sync"))?;
        file.publish(&name, None).map_err(|(operation, error)| failed(operation)(error))?;
        calls.sync(parent.as_fd()).map_err(failed("sync the directory of"))
    }
}

fn parts(name: &[u8]) -> Result<Vec<&OsStr>, Refused> {
    target::parts(name)
        .map_err(|why| Refused::Name(format!("it would not be a file below the directory: {why}")))
}

fn is_directory(status: &Stat) -> bool {
    FileType::from_raw_mode(status.st_mode).is_dir()
}

/// Syncs what is no file of our own. A terminal, and other devices that hold nothing back, refuse
/// it.
fn sync_open(calls: &dyn Calls, file: &File) -> io::Result<()> {
    match calls.sync(file.as_fd()) {
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::NOTSUP)) => Ok(()),
        synced => synced,
    }
}

/// Opens a pipe for writing: without a reader it cannot be yet, and the system would wait without
/// asking anybody.
fn open_pipe(path: &Path, go_on: &mut dyn FnMut() -> bool) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    loop {
        match fs::OpenOptions::new().write(true).custom_flags(flags).open(path) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => {}
            opened => return opened,
        }
        if !go_on() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        std::thread::sleep(WAIT);
    }
}

/// Writes all of it to a pipe that was opened so that writing does not wait.
fn write_to_pipe(mut pipe: &File, mut bytes: &[u8], go_on: &mut dyn FnMut() -> bool) -> io::Result<()> {
    let wait = Timespec { tv_sec: 0, tv_nsec: WAIT.subsec_nanos().into() };
    while !bytes.is_empty() {
        match pipe.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(pipe, PollFlags::OUT)], Some(&wait)) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
                if !go_on() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a path leads to what is open here, as `/dev/stdout` leads to stdout: what is written to
/// one mixes with what is written to the other. A regular file that has a name of its own does not,
/// because it is replaced.
pub fn is_open_file(path: &Path, open: impl AsFd) -> bool {
    let open = open.as_fd().try_clone_to_owned().map(File::from).and_then(|open| open.metadata());
    let (Ok(there), Ok(open)) = (fs::metadata(path), open) else { return false };
    let is_same = (there.dev(), there.ino()) == (open.dev(), open.ino());
    is_same && (there.file_type().is_fifo() || names_open_file(path))
}

/// Whether a path leads to a file that this process has open, as `/dev/stdout` and `/dev/fd/3` do.
/// What it leads to is meant as it is, even where it is a regular file.
fn names_open_file(path: &Path) -> bool {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let Ok(parent) = directory_of(&path).canonicalize() else { return false };
        if parent.starts_with("/proc") && parent.ends_with("fd") {
            return true;
        }
        match fs::read_link(&path) {
            Ok(link) => path = parent.join(link),
            // Not a link, or not there.
            Err(_) => return false,
        }
    }
    false
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The path that links lead to in the end, whether anything is there or not.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let link = match fs::symlink_metadata(&path) {
            Ok(there) if there.is_symlink() => there,
            // Opening the directory reports what is wrong with it.
            _ => return Ok(path),
        };
        let directory = directory_of(&path);
        let of = fs::metadata(directory)?;
        let is_own = link.uid() == rustix::process::geteuid().as_raw() || link.uid() == of.uid();
        if of.mode() & SHARED == SHARED && !is_own {
            let why = "somebody else put it into a directory for everybody";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        path = directory.join(fs::read_link(&path)?);
    }
    Err(io::Error::other("too many links lead on to each other"))
}
