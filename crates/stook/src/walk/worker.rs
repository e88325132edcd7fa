//! What each thread of a walk does: take a task, list or read, pass on what was found.
//!
//! A worker never decides what happens to an entry; it hands everything, errors included, to its
//! [`Outlet`].

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{Dir, FileType};
use rustix::io::fcntl_dupfd_cloexec;

use super::buffers::Buffers;
use super::directory::{Directory, is_dot, kind_of, push_part};
use super::entry::{Candidate, Content, Decision, Kind, LargeFile, Status, WalkError, WalkEvent, WalkItem};
use super::file;
use super::handover::{ENTRY_COST, HandOver, Parcel};
use super::queue::{Queue, Task};
use super::xattrs;
use super::{Hooks, WalkOptions};
use crate::error::{Error, Result};
use crate::tree::{Holes, Xattrs};

/// Entries of a directory that are listed, sorted and queued at once.
const LISTED_AT_ONCE: usize = 1024;
/// Entries that one thread takes at once: few enough that a small directory occupies many threads,
/// and that what all of them are at lies close together in the tree.
const BATCH: usize = 4;
/// A parcel is sent when it holds this many bytes, even if the batch is not finished.
const PARCEL_COST: u64 = 256 << 10;

/// Where a worker puts what it found.
pub(super) trait Outlet {
    /// A task is begun. Tasks have their numbers in the order in which they are begun.
    fn begin(&mut self, task: u64);
    /// Room for an entry of that cost. `false` ends the worker.
    fn reserve(&mut self, cost: u64) -> bool;
    /// Takes more room than was reserved for an entry, without waiting.
    fn charge(&mut self, cost: u64);
    /// Takes an entry for which room was reserved.
    fn put(&mut self, event: WalkEvent, cost: u64);
    /// A task is done, or has nothing more to say that should come before what it leads to.
    fn end(&mut self);
}

/// Collects entries and sends them to the consumer's thread.
pub(super) struct Sender<'a> {
    to: &'a HandOver,
    parcel: Parcel,
    task: u64,
    /// Whether the task was not reported as ended yet.
    is_open: bool,
}

impl<'a> Sender<'a> {
    pub(super) fn new(to: &'a HandOver) -> Self {
        Self { to, parcel: Parcel::default(), task: 0, is_open: false }
    }

    fn flush(&mut self) {
        self.to.send(self.task, std::mem::take(&mut self.parcel));
    }
}

impl Outlet for Sender<'_> {
    fn begin(&mut self, task: u64) {
        self.task = task;
        self.is_open = true;
    }

    fn reserve(&mut self, cost: u64) -> bool {
        if self.to.try_reserve(self.task, cost) {
            return true;
        }
        self.flush();
        self.to.reserve(self.task, cost)
    }

    fn charge(&mut self, cost: u64) {
        self.to.charge(cost);
    }

    fn put(&mut self, event: WalkEvent, cost: u64) {
        self.parcel.events.push(event);
        self.parcel.cost += cost;
        if self.parcel.cost >= PARCEL_COST {
            self.flush();
        }
    }

    fn end(&mut self) {
        self.flush();
        if std::mem::take(&mut self.is_open) {
            self.to.end(self.task);
        }
    }
}

impl Drop for Sender<'_> {
    /// Also when a hook panicked: the consumer must not wait for a thread that is gone.
    fn drop(&mut self) {
        self.end();
        self.to.leave();
    }
}

/// The consumer has left, or the walk was stopped.
struct Stopped;

type Outcome = Result<(), Stopped>;

/// One thread of a walk.
pub(super) struct Worker<'a, O> {
    pub(super) queue: &'a Queue,
    pub(super) options: &'a WalkOptions,
    pub(super) hooks: &'a Hooks<'a>,
    pub(super) buffers: Arc<Buffers>,
    pub(super) outlet: O,
}

/// Reports a task as finished even when a hook panics in it, or the other threads would wait.
struct Finish<'a>(&'a Queue);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
        self.0.finished();
    }
}

impl<O: Outlet> Worker<'_, O> {
    /// Works until nothing is left.
    pub(super) fn run(mut self) {
        while let Some((number, task)) = self.queue.next() {
            self.outlet.begin(number);
            let finish = Finish(self.queue);
            let result = self.perform(task);
            drop(finish);
            self.outlet.end();
            if result.is_err() {
                self.queue.stop();
                return;
            }
        }
    }

    fn perform(&mut self, task: Task) -> Outcome {
        match task {
            Task::Enter { parent, name, report } => self.enter(&parent, &name, report),
            Task::Root { directory } => self.start(&directory),
            Task::RootFile { directory, name, key } => match directory.handle() {
                Ok(handle) => self.entry(&Place { directory: &directory, handle: &handle, name: &name }, key),
                Err(e) => self.failed(key, Error::io("open", directory.path_of(&name), e)),
            },
            Task::List { directory, listing } => self.list(&directory, listing),
            Task::Entries { directory, names } => self.entries(&directory, &names),
        }
    }

    fn enter(&mut self, parent: &Arc<Directory>, name: &CStr, report: bool) -> Outcome {
        let entered = Directory::enter(parent, name)
            .and_then(|(directory, status)| Ok((directory, status.with_recordable_times()?)));
        let (directory, status) = match entered {
            Ok(entered) => entered,
            Err(e) => {
                let mut key = parent.key();
                push_part(&mut key, name);
                return self.failed(key, Error::io("open", parent.path_of(name), e));
            }
        };
        if report {
            let xattrs = self.xattrs_of(&directory);
            self.report(WalkItem {
                key: directory.key(),
                status,
                content: Content::None,
                xattrs,
                holes: Holes::default(),
            })?;
        }
        if self.options.same_filesystem && status.device != parent.shared().device {
            return Ok(());
        }
        self.open_listing(&directory)
    }

    fn start(&mut self, directory: &Arc<Directory>) -> Outcome {
        let status = directory.handle().and_then(|h| file::status(&*h)?.with_recordable_times());
        match status {
            Ok(status) => {
                let xattrs = self.xattrs_of(directory);
                self.report(WalkItem {
                    key: directory.key(),
                    status,
                    content: Content::None,
                    xattrs,
                    holes: Holes::default(),
                })?;
                self.open_listing(directory)
            }
            Err(e) => self.failed(directory.key(), Error::io("stat", directory.path_of(c""), e)),
        }
    }

    /// One that cannot be opened any more is reported as that when it is listed.
    fn xattrs_of(&self, directory: &Arc<Directory>) -> Xattrs {
        match self.options.xattrs {
            true => directory.handle().map_or_else(|_| Xattrs::unreadable(), xattrs::read),
            false => Xattrs::default(),
        }
    }

    fn open_listing(&mut self, directory: &Arc<Directory>) -> Outcome {
        // The listing has a descriptor of its own, so that the directory may be closed meanwhile.
        let listing = directory
            .handle()
            .and_then(|h| Ok(fcntl_dupfd_cloexec(&*h, 0)?))
            .and_then(|own: OwnedFd| Ok(Dir::new(own)?));
        match listing {
            Ok(listing) => self.list(directory, listing),
            Err(e) => self.failed(directory.key(), Error::io("list", directory.path_of(c""), e)),
        }
    }

    /// Lists a directory, part after part, as long as the backlog allows.
    fn list(&mut self, directory: &Arc<Directory>, mut listing: Dir) -> Outcome {
        let key = directory.key();
        let handle = match directory.handle() {
            Ok(handle) => handle,
            Err(e) => return self.failed(key, Error::io("open", directory.path_of(c""), e)),
        };
        // The directory itself comes before its entries, which others are about to take, and those
        // do not wait for the rest of a long list.
        self.outlet.end();
        loop {
            let mut names = Vec::new();
            let result = list_some(&mut listing, &mut names);
            let mut tasks = self.sort_out(directory, &handle, &key, names)?;
            let ended = match result {
                Ok(ended) => ended,
                Err(e) => {
                    self.failed(key.clone(), Error::io("list", directory.path_of(c""), e))?;
                    true
                }
            };
            if !ended && self.queue.is_overfull() {
                // In front of what was just found, that is, to be taken after it.
                tasks.insert(0, Task::List { directory: directory.clone(), listing });
                self.queue.push(tasks);
                return Ok(());
            }
            self.queue.push(tasks);
            if ended {
                return Ok(());
            }
            if self.queue.is_stopped() {
                return Err(Stopped);
            }
        }
    }

    /// Asks the `select` hook about each entry, and says what is to be done next.
    fn sort_out(
        &mut self,
        directory: &Arc<Directory>,
        handle: &OwnedFd,
        key: &[u8],
        mut names: Vec<(CString, FileType)>,
    ) -> Result<Vec<Task>, Stopped> {
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let (mut tasks, mut others) = (Vec::new(), Vec::new());
        for (name, said) in names {
            let entry_key = join(key, &name);
            let kind = match kind_of(handle, &name, said) {
                Ok(kind) => kind,
                Err(e) => {
                    self.failed(entry_key, Error::io("stat", directory.path_of(&name), e))?;
                    continue;
                }
            };
            match (self.hooks.select(&entry_key, kind), kind) {
                (Decision::Prune, _) => {}
                (decision, Kind::Directory) => {
                    let report = decision == Decision::Take;
                    tasks.push(Task::Enter { parent: directory.clone(), name, report });
                }
                (Decision::Skip, _) => {}
                (Decision::Take, _) => others.push(name),
            }
        }
        // The queue gives out the newest directory first: reversed, that is the first by name.
        tasks.reverse();
        let mut others = others.into_iter().peekable();
        while others.peek().is_some() {
            let names = others.by_ref().take(BATCH).collect();
            tasks.push(Task::Entries { directory: directory.clone(), names });
        }
        Ok(tasks)
    }

    fn entries(&mut self, directory: &Arc<Directory>, names: &[CString]) -> Outcome {
        let directory_key = directory.key();
        let handle = match directory.handle() {
            Ok(handle) => handle,
            Err(e) => {
                // One by one, because each of them is missing from what the consumer gets.
                for name in names {
                    let again = io::Error::new(e.kind(), e.to_string());
                    let error = Error::io("open", directory.path_of(name), again);
                    self.failed(join(&directory_key, name), error)?;
                }
                return Ok(());
            }
        };
        for name in names {
            self.entry(&Place { directory, handle: &handle, name }, join(&directory_key, name))?;
        }
        Ok(())
    }

    fn entry(&mut self, place: &Place<'_>, key: Vec<u8>) -> Outcome {
        let status = file::status_at(place.handle, place.name).and_then(Status::with_recordable_times);
        let status = match status {
            Ok(status) => status,
            Err(e) => return self.failed(key, Error::io("stat", place.path(), e)),
        };
        let wanted = if status.node.kind != Kind::File {
            Wanted::Whatever
        } else if !self.hooks.wanted(Candidate { key: &key, status: &status }) {
            Wanted::No
        } else if status.node.len > self.options.read_up_to {
            Wanted::Later
        } else {
            Wanted::Bytes
        };
        let cost = (ENTRY_COST + key.len() as u64).saturating_add(match wanted {
            Wanted::Bytes => {
                Buffers::buffer_len(status.node.len.saturating_add(1)).map_or(u64::MAX, |l| l as u64)
            }
            _ => 0,
        });
        if !self.outlet.reserve(cost) {
            return Err(Stopped);
        }
        let WalkOptions { xattrs, holes, .. } = *self.options;
        let reading = Reading { buffers: &self.buffers, xattrs, holes };
        let mut cost = cost;
        let event = match place.content(&status, wanted, reading) {
            Ok((mut content, xattrs, holes)) => {
                self.hooks.digest(&mut content);
                // How long they are was not known when room was reserved.
                let more = xattrs.memory().saturating_add(holes.memory());
                if more > 0 {
                    self.outlet.charge(more);
                    cost = cost.saturating_add(more);
                }
                Ok(WalkItem { key, status, content, xattrs, holes })
            }
            Err(error) => Err(WalkError { key, error }),
        };
        self.outlet.put(event, cost);
        Ok(())
    }

    fn report(&mut self, item: WalkItem) -> Outcome {
        let cost = ENTRY_COST + item.key.len() as u64 + item.xattrs.memory();
        self.pass_on(Ok(item), cost)
    }

    fn failed(&mut self, key: Vec<u8>, error: Error) -> Outcome {
        let cost = ENTRY_COST + key.len() as u64;
        self.pass_on(Err(WalkError { key, error }), cost)
    }

    fn pass_on(&mut self, event: WalkEvent, cost: u64) -> Outcome {
        if !self.outlet.reserve(cost) {
            return Err(Stopped);
        }
        self.outlet.put(event, cost);
        Ok(())
    }
}

/// What is to happen to the bytes of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// It is no regular file.
    Whatever,
    /// The hook declined.
    No,
    /// It is left to the consumer.
    Later,
    /// Read them now.
    Bytes,
}

/// What is read of a file, and into what.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) buffers: &'a Arc<Buffers>,
    pub(super) xattrs: bool,
    pub(super) holes: bool,
}

/// An entry of an open directory.
struct Place<'a> {
    directory: &'a Arc<Directory>,
    handle: &'a OwnedFd,
    name: &'a CStr,
}

impl Place<'_> {
    fn path(&self) -> PathBuf {
        self.directory.path_of(self.name)
    }

    /// What is in it, with the extended attributes and holes that are read with that.
    fn content(
        &self,
        status: &Status,
        wanted: Wanted,
        reading: Reading<'_>,
    ) -> Result<(Content, Xattrs, Holes)> {
        let path = || self.path();
        let content = match (status.node.kind, wanted) {
            (_, Wanted::No) => Content::NotRead,
            (_, Wanted::Bytes) => {
                let (bytes, xattrs, holes) = file::read_whole(self.handle, self.name, status, reading, path)?;
                return Ok((Content::Bytes(bytes), xattrs, holes));
            }
            (_, Wanted::Later) => Content::Large(LargeFile {
                directory: self.directory.clone(),
                name: self.name.to_owned(),
                status: *status,
            }),
            (Kind::Symlink, _) => {
                let xattrs = match reading.xattrs {
                    true => xattrs::read_unopened(self.handle, self.name.to_bytes()),
                    false => Xattrs::default(),
                };
                let target = file::read_link(self.handle, self.name, status, path)?;
                return Ok((Content::Target(target), xattrs, Holes::default()));
            }
            (Kind::Directory, _) => {
                let source = io::Error::other("it became a directory while the tree was walked");
                return Err(Error::io("read", path(), source));
            }
            _ => Content::None,
        };
        Ok((content, Xattrs::default(), Holes::default()))
    }
}

/// Lists up to [`LISTED_AT_ONCE`] entries; whether that was the last of them.
fn list_some(listing: &mut Dir, names: &mut Vec<(CString, FileType)>) -> io::Result<bool> {
    while names.len() < LISTED_AT_ONCE {
        match listing.read() {
            None => return Ok(true),
            Some(entry) => {
                let entry = entry?;
                if !is_dot(entry.file_name()) {
                    names.push((entry.file_name().to_owned(), entry.file_type()));
                }
            }
        }
    }
    Ok(false)
}

/// The key of an entry of a directory.
fn join(directory: &[u8], name: &CStr) -> Vec<u8> {
    let mut key = Vec::with_capacity(directory.len() + 1 + name.count_bytes());
    key.extend_from_slice(directory);
    push_part(&mut key, name);
    key
}
