//! [`Receiver`]: one destination while it is copied to.
//!
//! What it meets stops nothing but itself.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::io::Errno;

use super::body::FileJob;
use super::error::Result;
use super::events::{Action, CopyFailure, DestinationProgress, Item, Letter, Mailbox, Why, WhyStopped};
use super::hash::Digest;
use super::options::CopyOptions;
use super::report::{DestinationReport, Failure};
use super::run::Destination;
use crate::engine::{EngineFactory, Passage};
use crate::error::Error;
use crate::tree::outbox::{Batch, Calls, Outbox};
use crate::tree::target::{self, FileMetadata, MetadataOutcome, Target};
use crate::tree::{Kept, Kind, Node, Overwrite, WhyKept, Xattrs};

/// Errors of a device in a row after which it is given up.
const FAILURES_MAX: u32 = 8;

/// One destination.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) index: usize,
    pub(super) path: PathBuf,
    pub(super) calls: Arc<dyn Calls>,
    pub(super) factory: Arc<dyn EngineFactory>,
    pub(super) options: Arc<CopyOptions>,
    mailbox: Arc<Mailbox>,
    /// `None` where nothing is there, and nothing is to be made.
    target: Option<Mutex<Target>>,
    /// The directory of an earlier copy.
    pub(super) earlier: Option<Mutex<Target>>,
    pub(super) outbox: Outbox,
    pub(super) batch: Batch,
    pub(super) state: Mutex<State>,
    is_stopped: AtomicBool,
    why_stopped: OnceLock<WhyStopped>,
    failures_in_a_row: AtomicU32,
    files: AtomicU64,
    bytes: AtomicU64,
    is_in_order: bool,
    /// Whether files may share blocks with their source; tried until it is refused.
    pub(super) may_clone: AtomicBool,
}

/// What changes.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) report: DestinationReport,
    /// Files that wait for their names.
    pub(super) pending: HashMap<Vec<u8>, Pending>,
    /// Files whose batch could not be synced: they are written anew.
    pub(super) again: Vec<FileJob>,
    /// Directories that could not be made.
    blocked: HashSet<Vec<u8>>,
    /// First names of files with several that are there, as they are in the source.
    pub(super) firsts: HashSet<Vec<u8>>,
}

/// A file that waits for its name.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) job: FileJob,
    pub(super) why: Why,
    pub(super) digests: Arc<[Digest]>,
    pub(super) is_clone: bool,
}

/// That something went wrong, which is in the report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noted;

/// Where something goes.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    pub(super) parent: Arc<OwnedFd>,
    pub(super) name: OsString,
}

impl Receiver {
    pub(super) fn new(
        index: usize,
        destination: &Destination,
        options: &Arc<CopyOptions>,
        mailbox: &Arc<Mailbox>,
    ) -> Result<Self> {
        let Destination { path, calls, factory } = destination;
        let io = |operation| move |error| Error::io(operation, path, error);
        // Before anything is made.
        let earlier = match &options.link_dest {
            Some(earlier) => {
                let failed = |error| Error::io("open", earlier, error);
                Some(Mutex::new(Target::at(earlier).map_err(failed)?))
            }
            None => None,
        };
        let target = match options.dry_run {
            true if !path.exists() => None,
            true => Some(Target::at(path).map_err(io("open"))?),
            false => Some(Target::open_through(path, calls.clone()).map_err(io("open"))?),
        };
        let outbox = Outbox::new(calls.clone()).map_err(io("choose names of temporary files in"))?;
        let is_in_order = target.as_ref().is_some_and(|target| is_fat(&target.root()));
        let report = DestinationReport { path: path.clone(), ..DestinationReport::default() };
        Ok(Self {
            index,
            path: path.clone(),
            calls: calls.clone(),
            factory: factory.clone(),
            options: options.clone(),
            mailbox: mailbox.clone(),
            target: target.map(Mutex::new),
            earlier,
            outbox,
            batch: Batch::new(),
            state: Mutex::new(State { report, ..State::default() }),
            is_stopped: AtomicBool::new(false),
            why_stopped: OnceLock::new(),
            failures_in_a_row: AtomicU32::new(0),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            is_in_order,
            may_clone: AtomicBool::new(true),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The directory; `None` where it is not there, and not made.
    pub(super) fn target(&self) -> Option<MutexGuard<'_, Target>> {
        self.target.as_ref().map(|target| target.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether it was given up.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub(super) fn progress(&self) -> DestinationProgress {
        DestinationProgress {
            files: self.files.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            is_stopped: self.is_stopped(),
            why_stopped: self.why_stopped.get().copied(),
        }
    }

    /// This many bytes more were written.
    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of a file that did not get its name.
    pub(super) fn take_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes.min(self.bytes.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    pub(super) fn add_file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.failures_in_a_row.store(0, Ordering::Relaxed);
    }

    /// Which way the bytes of a large file took.
    pub(super) fn add_passage(&self, passage: Passage) {
        let mut state = self.state();
        let all = &mut state.report.passage;
        all.direct_bytes += passage.direct_bytes;
        all.cached_bytes += passage.cached_bytes;
        all.copied_bytes += passage.copied_bytes;
    }

    /// Where a key is, for messages.
    pub(super) fn path_of(&self, key: &[u8]) -> PathBuf {
        self.path.join(OsStr::from_bytes(key))
    }

    /// Whether files are best written from their beginning to their end: FAT and exFAT fill what
    /// was left out with zeros.
    pub(super) fn is_in_order(&self) -> bool {
        self.is_in_order
    }

    /// Reports what became of a path.
    pub(super) fn report(
        &self,
        key: &[u8],
        (kind, len): (Kind, u64),
        (action, why): (Action, Why),
        digests: Arc<[Digest]>,
    ) {
        let key = key.to_vec();
        let item = Item { destination: self.index, key, kind, len, action, why, digests };
        self.mailbox.put(Letter::Item(item));
    }

    /// The error of something that is done to what has a key.
    pub(super) fn io(&self, operation: &'static str, key: &[u8], error: io::Error) -> Error {
        Error::io(operation, self.path.join(OsStr::from_bytes(key)), error)
    }

    /// Notes that a path could not be written, and gives the destination up if nothing more can be.
    pub(super) fn fail(&self, key: &[u8], error: Error) {
        let why = match &error {
            Error::Io { source, .. } => self.why_fatal(source),
            _ => None,
        };
        let text = crate::error::chain(&error);
        {
            let mut state = self.state();
            if let Some(why) = why
                && !self.is_stopped.swap(true, Ordering::Relaxed)
            {
                let _ = self.why_stopped.set(why);
                state.report.stopped = Some(text.clone());
            }
            state.report.failures.push(Failure { key: key.to_vec(), error });
        }
        let failure = CopyFailure { destination: Some(self.index), key: key.to_vec(), error: text };
        self.mailbox.put(Letter::Failure(failure));
    }

    /// The same of a call of the system.
    pub(super) fn fail_io(&self, operation: &'static str, key: &[u8], error: io::Error) {
        self.fail(key, self.io(operation, key, error));
    }

    /// Why nothing more can be written after this error: the device is full, gone or
    /// write-protected, or has failed many times without a success in between.
    fn why_fatal(&self, error: &io::Error) -> Option<WhyStopped> {
        match Errno::from_io_error(error)? {
            Errno::NOSPC | Errno::DQUOT => Some(WhyStopped::Full),
            Errno::ROFS => Some(WhyStopped::ReadOnly),
            Errno::NODEV | Errno::NXIO | Errno::SHUTDOWN | Errno::NOTCONN | Errno::STALE => {
                Some(WhyStopped::Gone)
            }
            Errno::IO => {
                let failures = self.failures_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
                (failures >= FAILURES_MAX).then_some(WhyStopped::Failing)
            }
            _ => None,
        }
    }

    /// What stays although it is another.
    pub(super) fn keep(&self, key: &[u8], of: (Kind, u64), why: Why) {
        self.state().report.kept.push(Kept { key: key.to_vec(), why: WhyKept::OtherContent });
        self.report(key, of, (Action::Keep, why), Arc::default());
    }

    /// Where a key goes; `None` where the directory for it is not there, and is not made.
    ///
    /// # Errors
    /// That it cannot go there, which was noted.
    pub(super) fn spot(&self, key: &[u8]) -> Result<Option<Spot>, Noted> {
        let noted = |error| {
            self.fail_io("make the directory for", key, error);
            Noted
        };
        let parts =
            target::parts(key).map_err(|why| noted(io::Error::new(io::ErrorKind::InvalidInput, why)))?;
        let Some((name, parents)) = parts.split_last().filter(|_| !self.is_blocked(key)) else {
            return Err(Noted);
        };
        let found = {
            let Some(mut target) = self.target() else { return Ok(None) };
            let parent = match self.options.dry_run {
                true => target.existing(parents),
                false => target.directory(parents).map(Some),
            };
            parent.and_then(|parent| {
                parent.iter().try_for_each(|parent| target.refuse_file_of_pack(parent, name))?;
                Ok(parent)
            })
        };
        let parent = found.map_err(noted)?;
        Ok(parent.map(|parent| Spot { parent, name: (*name).to_os_string() }))
    }

    /// Whether a directory above could not be made, which was reported.
    fn is_blocked(&self, key: &[u8]) -> bool {
        let state = self.state();
        if state.blocked.is_empty() {
            return false;
        }
        let slashes = key.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        slashes.filter_map(|end| key.get(..end)).any(|above| state.blocked.contains(above))
    }

    /// Makes a directory.
    pub(super) fn make_directory(&self, key: &[u8]) {
        if self.is_stopped() || self.is_blocked(key) {
            return;
        }
        let make = || -> io::Result<bool> {
            let refused = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
            let parts = target::parts(key).map_err(refused)?;
            match (self.target(), self.options.dry_run) {
                (Some(mut target), false) => target.directory(&parts).map(|_| true),
                (Some(mut target), true) => target.existing(&parts).map(|there| there.is_some()),
                (None, _) => Ok(false),
            }
        };
        let made = make();
        if let Ok(false) = made {
            self.report(key, (Kind::Directory, 0), (Action::Copy, Why::New), Arc::default());
        }
        if let Err(error) = made {
            self.state().blocked.insert(key.to_vec());
            self.fail_io("make", key, error);
        }
    }

    /// Gives the destination itself mode and owner of its source, if it is of the copy's making: a
    /// run after an interruption does not know any more that it is.
    pub(super) fn begin_root(&self, node: &Node) {
        let set = {
            let Some(mut target) = self.target().filter(|_| !self.options.dry_run) else { return };
            // The copy itself must be able to continue.
            let (mode, with_owner) = (node.mode.map(|mode| mode | 0o700), self.options.sets_owner());
            let metadata = FileMetadata::new(mode, None, node.owner, with_owner);
            match target.made(&target.root()) {
                Ok(true) => target.set_directory_metadata(b"", &metadata, Overwrite::Always).map(drop),
                made => made.map(drop),
            }
        };
        if let Err(error) = set {
            self.fail_io("set mode and time of", b"", error);
        }
    }

    /// Gives a directory what its source has. The destination itself keeps mode and owner if others
    /// put things there before, unless it is to be a mirror: it may be the top of a disk.
    pub(super) fn finish_directory(&self, key: &[u8], node: &Node, xattrs: Xattrs, is_implied: bool) {
        if self.is_stopped() || self.is_blocked(key) {
            return;
        }
        let mut metadata = self.metadata(node, xattrs);
        let set = {
            let Some(mut target) = self.target() else { return };
            let is_own = match target.made(&target.root()) {
                Ok(is_own) => is_own || self.options.mirror || self.options.overwrite == Overwrite::Always,
                Err(_) => false,
            };
            if key.is_empty() && !is_own {
                metadata = FileMetadata::new(None, node.mtime_ns, None, false);
            }
            target.set_directory_metadata(key, &metadata, Overwrite::Always)
        };
        match set {
            Ok(MetadataOutcome::Set(unset)) => {
                let mut state = self.state();
                state.report.directories += 1;
                state.report.unset_xattrs.note(key, unset);
            }
            Ok(_) => {}
            Err(error) if is_implied && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.fail_io("set mode and time of", key, error),
        }
    }

    /// What a file or directory gets.
    pub(super) fn metadata(&self, node: &Node, xattrs: Xattrs) -> FileMetadata {
        FileMetadata::new(node.mode, node.mtime_ns, node.owner, self.options.sets_owner())
            .with_xattrs(xattrs, self.options.xattrs)
    }

    /// Makes all that was published durable.
    pub(super) fn sync_all(&self) {
        let Some(root) = self.target().map(|target| target.root()) else { return };
        if let Err(error) = self.outbox.sync_all(&root) {
            self.fail_io("sync", b"", error);
        }
    }

    /// Its report, at the end.
    pub(super) fn take_report(&self) -> DestinationReport {
        std::mem::take(&mut self.state().report)
    }
}

/// Whether a directory is on FAT or exFAT.
fn is_fat(directory: &OwnedFd) -> bool {
    #[cfg(target_os = "linux")]
    {
        const FAT: [u64; 2] = [0x4d44, 0x2011_bab0];
        rustix::fs::fstatfs(directory).is_ok_and(|found| FAT.contains(&(found.f_type as u64)))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = directory;
        false
    }
}
