//! [`Receiver`]: one destination while it is copied to.
//!
//! What it meets stops nothing but itself.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

use super::attributes::Shared;
use super::backups::Backups;
use super::body::FileJob;
use super::decide::Place;
use super::error::Result;
use super::events::{Action, CopyFailure, DestinationProgress, Item, Letter, Mailbox, Why, WhyStopped};
use super::keys::SourceKeys;
use super::links::FirstName;
use super::lists::Lists;
use super::making::with_descriptors;
use super::options::{CopyOptions, Resume};
use super::partial::Partial;
use super::read_back::ReadBack;
use super::report::{DestinationReport, Failure, Unfinished, not_there};
use super::run::Destination;
use super::source::CopySource;
use super::spelling::Spellings;
use crate::engine::{EngineFactory, OperationKind, Passage};
use crate::error::Error;
use crate::hash::Digest;
use crate::report::units;
use crate::source::Inodes;
use crate::tree::existing::{Plan, mtime_of};
use crate::tree::outbox::{Batch, Calls, Outbox, Replaces, System};
use crate::tree::target::{self, FileMetadata, MetadataOutcome, Target, is_out_of_descriptors};
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
    pub(super) sources: Arc<[CopySource]>,
    pub(super) keys: SourceKeys,
    pub(super) spellings: Spellings,
    /// The packs and archives that are copied from, which nothing takes the place of.
    pub(super) read_from: Inodes,
    mailbox: Arc<Mailbox>,
    /// `None` where nothing is there, and nothing is to be made.
    target: Option<Mutex<Target>>,
    /// The directory of an earlier copy.
    pub(super) earlier: Option<Mutex<Target>>,
    pub(super) outbox: Outbox,
    pub(super) batch: Batch,
    /// The names of what is replaced or deleted, if that is kept.
    pub(super) backups: Option<Backups>,
    /// Lists of checksums, if they are asked for.
    pub(super) lists: Option<Lists>,
    /// Reads again what got its name here, if that is asked for.
    pub(super) read_back: Option<Arc<dyn ReadBack>>,
    pub(super) state: Mutex<State>,
    /// Files with several names.
    pub(super) shared: Mutex<Shared>,
    is_stopped: AtomicBool,
    why_stopped: OnceLock<WhyStopped>,
    failures_in_a_row: AtomicU32,
    files: AtomicU64,
    bytes: AtomicU64,
    is_in_order: bool,
}

/// What changes.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) report: DestinationReport,
    /// Files that wait for their names.
    pub(super) pending: HashMap<Vec<u8>, Pending>,
    /// Files whose batch could not be synced: they are written anew.
    pub(super) again: Vec<FileJob>,
    /// How many names were made that were not there, by the first part of their keys, where that is
    /// the name of a source.
    new_names: HashMap<Vec<u8>, u64>,
    /// Of sources: whether their history is another one than that of the destination, once known.
    pub(super) other_histories: HashMap<usize, bool>,
    /// Directories that could not be made.
    blocked: HashSet<Vec<u8>>,
    /// Directories that something was put into, where not all are made beforehand.
    entered: HashSet<Vec<u8>>,
    /// Modes of directories, by device and inode, that keep them but while something is put there.
    pub(super) lifted: HashMap<(u64, u64), u32>,
    /// Of what has several names in a source, the first, and what stands for it here.
    pub(super) firsts: HashMap<Vec<u8>, FirstName>,
    /// What was computed of files with several names, by each that is known to lead to it.
    digests: HashMap<Vec<u8>, Arc<[Digest]>>,
    /// What the system does not do with files of which device.
    pub(super) refused: HashSet<(u64, OperationKind)>,
}

/// A file that waits for its name.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) job: FileJob,
    pub(super) why: Why,
    pub(super) digests: Arc<[Digest]>,
    pub(super) proof: Option<Arc<[u8]>>,
    pub(super) way: Way,
}

/// How the bytes of a file came into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Written,
    /// It shares the blocks of its source.
    Cloned,
    CopiedByServer,
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
        (sources, is_contents): (&Arc<[CopySource]>, bool),
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
        let made = if options.dry_run { Vec::new() } else { not_there(path) };
        let target = match options.dry_run {
            true if !path.exists() => None,
            true => Some(Target::at(path).map_err(io("open"))?),
            false => Some(Target::open_through(path, calls.clone()).map_err(io("open"))?),
        };
        let outbox = Outbox::new(calls.clone()).map_err(io("choose names of temporary files in"))?;
        let is_in_order = target.as_ref().is_some_and(|target| is_fat(&**calls, &target.root()));
        let report = DestinationReport { path: path.clone(), made, ..DestinationReport::default() };
        let mut read_from = Inodes::new();
        sources.iter().for_each(|source| source.note_files(&mut read_from));
        Ok(Self {
            index,
            path: path.clone(),
            calls: calls.clone(),
            factory: factory.clone(),
            options: options.clone(),
            sources: sources.clone(),
            keys: SourceKeys::new(sources.clone(), is_contents),
            spellings: Spellings::default(),
            read_from,
            mailbox: mailbox.clone(),
            target: target.map(Mutex::new),
            earlier,
            outbox,
            batch: Batch::with(options.durability),
            backups: options.backup.as_deref().map(Backups::new),
            lists: None,
            read_back: None,
            state: Mutex::new(State { report, ..State::default() }),
            shared: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            why_stopped: OnceLock::new(),
            failures_in_a_row: AtomicU32::new(0),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            is_in_order,
        })
    }

    /// Removes the directories that were made to have it, as far as nothing is in them.
    pub(super) fn unmake(&self) {
        // What refuses the copy is reported; what stays is only untidy.
        self.state().report.made.iter().rev().for_each(|made| _ = target::remove_if_empty(made));
    }

    /// The same, with what reads again what gets its name.
    pub(super) fn reading_back(self, read_back: Option<Arc<dyn ReadBack>>) -> Self {
        Self { read_back, ..self }
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

    /// Notes that something is there as it is in its source, or would be, so that its other names
    /// can lead to it.
    pub(super) fn note_first(&self, key: &[u8], node: &Node, is_new: bool) {
        if node.links > 1 {
            self.state().firsts.insert(key.to_vec(), FirstName { key: key.to_vec(), is_new });
        }
    }

    /// Notes what was computed of a file, for its other names.
    pub(super) fn note_digests(&self, job: &FileJob, digests: &Arc<[Digest]>) {
        if job.node.links > 1 && !digests.is_empty() {
            self.state().digests.insert(job.key.to_vec(), digests.clone());
        }
    }

    /// Two names are of one file.
    pub(super) fn share_digests(&self, first: &[u8], other: &[u8]) {
        let mut state = self.state();
        if let Some(digests) = state.digests.get(first).cloned() {
            state.digests.insert(other.to_vec(), digests);
        }
    }

    /// What was computed of a file by another name, where this one is that file now.
    fn digests_of_other_name(&self, key: &[u8], action: Action) -> Arc<[Digest]> {
        let is_it = matches!(action, Action::HardLink | Action::Skip | Action::Correct);
        let known = is_it.then(|| self.state().digests.get(key).cloned()).flatten();
        known.unwrap_or_default()
    }

    /// What was copied under another name because something else has the first one: from now on
    /// that stands for it.
    pub(super) fn note_instead(&self, first: &[u8], key: &[u8]) {
        let mut state = self.state();
        if let Some(there) = state.firsts.get(key).cloned() {
            state.firsts.insert(first.to_vec(), there);
        }
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

    /// Whether a server has the files of a directory, and copies them itself when it is asked.
    pub(super) fn copies_on_server(&self, directory: &OwnedFd) -> bool {
        self.calls.copies_on_server(directory.as_fd())
    }

    /// How many names were made, of those that were not there before, where a source goes.
    pub(super) fn new_names(&self, key: &[u8]) -> u64 {
        self.state().new_names.get(first_part(key)).copied().unwrap_or(0)
    }

    /// Reports what became of a path.
    pub(super) fn report(
        &self,
        key: &[u8],
        (kind, len): (Kind, u64),
        (action, why): (Action, Why),
        digests: Arc<[Digest]>,
    ) {
        if self.options.dry_run {
            let keeps = self.options.backup.is_some();
            self.state().report.count_planned((kind, len), (action, why), keeps);
        }
        self.note_unlisted(key, kind, action);
        let is_made = matches!(action, Action::Copy | Action::HardLink | Action::LinkEarlier);
        if self.options.mirror
            && is_made
            && why == Why::New
            && kind != Kind::Directory
            && !self.options.dry_run
        {
            let part = if self.keys.is_contents() { &[] } else { first_part(key) };
            *self.state().new_names.entry(part.to_vec()).or_default() += 1;
        }
        let digests = if digests.is_empty() { self.digests_of_other_name(key, action) } else { digests };
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
            Error::Io { source, .. } => self.why_fatal(source).filter(|_| self.is_on_its_device(key)),
            _ => None,
        };
        if let Some(why) = why
            && !self.is_stopped.swap(true, Ordering::Relaxed)
        {
            let _ = self.why_stopped.set(why);
            self.state().report.stopped = Some(crate::error::chain(&error));
        }
        self.fail_reading(key, error);
    }

    /// Notes that something could not be read that was to be compared: that does not count against
    /// the destination.
    pub(super) fn fail_reading(&self, key: &[u8], error: Error) {
        let text = crate::error::chain(&error);
        self.state().report.failures.push(Failure { key: key.to_vec(), error });
        let failure = CopyFailure { destination: Some(self.index), key: key.to_vec(), error: text };
        self.mailbox.put(Letter::Failure(failure));
    }

    /// The same of a call of the system.
    pub(super) fn fail_io(&self, operation: &'static str, key: &[u8], error: io::Error) {
        self.fail(key, self.io(operation, key, error));
    }

    /// Whether a key is on the device of the destination itself, and not in something else that is
    /// mounted there, or above it: what fails there stops nothing else. What is not there has the
    /// device of the next directory above that is.
    fn is_on_its_device(&self, key: &[u8]) -> bool {
        let path = self.path_of(key);
        let own = self.path.metadata().map(|there| there.dev());
        let below = path.ancestors().take_while(|above| *above != self.path);
        let near = below.filter_map(|above| above.symlink_metadata().ok()).map(|there| there.dev()).next();
        match (near, own) {
            (Some(near), Ok(own)) => near == own,
            _ => true,
        }
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
            self.fail_io("get to the directory of", key, error);
            Noted
        };
        let parts =
            target::parts(key).map_err(|why| noted(io::Error::new(io::ErrorKind::InvalidInput, why)))?;
        let Some((name, parents)) = parts.split_last().filter(|_| !self.is_blocked(key)) else {
            return Err(Noted);
        };
        let find = || {
            let Some(mut target) = self.target() else { return Ok(None) };
            let parent = match self.options.dry_run {
                true => target.existing(parents),
                false => target.directory(parents).map(Some),
            };
            parent.and_then(|parent| {
                parent.iter().try_for_each(|parent| {
                    let refused = target.refuse_file_of_pack(parent, name);
                    refused.or_else(|error| match self.is_copy_of(parents, parent)? {
                        true => Ok(()),
                        false => Err(error),
                    })
                })?;
                Ok(parent)
            })
        };
        let found = with_descriptors(find, is_out_of_descriptors, || self.release_descriptors());
        let parent = found.map_err(noted)?;
        if parent.is_some() {
            self.check_implied(key, parents)?;
        }
        Ok(parent.map(|parent| Spot { parent, name: (*name).to_os_string() }))
    }

    /// Whether a directory of the destination that looks like a pack is a copy of the same pack as
    /// the directory in its place in a source, or no pack at all: its files are then copied as they
    /// are. One of another pack would make it unreadable.
    fn is_copy_of(&self, parents: &[&OsStr], directory: &OwnedFd) -> io::Result<bool> {
        let Some(own) = target::pack_nonce(directory)? else { return Ok(true) };
        let below = |from: &Path, parts: &[&OsStr]| -> PathBuf {
            std::iter::once(from.as_os_str()).chain(parts.iter().copied()).collect()
        };
        let places = self.sources.iter().filter_map(|source| source.path.as_deref()).flat_map(|from| {
            // As the contents of its source, or by the name of it.
            [below(from, parents), below(from, parents.get(1..).unwrap_or_default())]
        });
        let nonces = places.filter_map(|place| target::pack_nonce(&target::open(&place).ok()?).ok()?);
        Ok(nonces.into_iter().any(|nonce| nonce == own))
    }

    /// Whether it, or a directory above, could not be made, which was reported.
    fn is_blocked(&self, key: &[u8]) -> bool {
        let state = self.state();
        if state.blocked.is_empty() {
            return false;
        }
        let slashes = key.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let above = slashes.filter_map(|end| key.get(..end));
        above.chain([key]).any(|one| state.blocked.contains(one))
    }

    /// Makes a directory, which others may use no more than that of the source.
    pub(super) fn make_directory(&self, key: &[u8], mode: Option<u32>) {
        if self.is_stopped() || self.is_blocked(key) {
            return;
        }
        let make = || -> io::Result<bool> {
            let refused = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
            let parts = target::parts(key).map_err(refused)?;
            let is_new = {
                let Some(mut target) = self.target() else { return Ok(true) };
                let known = target.made_len();
                match self.options.dry_run {
                    true => target.existing(&parts)?.is_none(),
                    false => {
                        target.directory_with(&parts, mode)?;
                        if key.is_empty() { target.is_new() } else { target.made_len() > known }
                    }
                }
            };
            if !is_new {
                self.check_directory(key, &parts)?;
            }
            Ok(is_new)
        };
        let made = match make() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && self.lifts_above(key) => make(),
            made => made,
        };
        match made {
            Ok(true) => self.report(key, (Kind::Directory, 0), (Action::Copy, Why::New), Arc::default()),
            Ok(false) => {}
            // Of a link it is said that it is one.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTDIR) => {
                let what = "what is there is no directory, as the source has one: remove it, or rename it";
                self.block(key, io::Error::new(error.kind(), what));
            }
            Err(error) => self.block(key, error),
        }
    }

    /// A directory cannot be made, and nothing goes into it.
    fn block(&self, key: &[u8], error: io::Error) {
        self.state().blocked.insert(key.to_vec());
        self.fail_io("make", key, error);
    }

    /// Returns an error if a directory that is there is that of another name that is copied as
    /// well.
    fn check_directory(&self, key: &[u8], parts: &[&OsStr]) -> io::Result<()> {
        let Some((name, parents)) = parts.split_last() else { return Ok(()) };
        let parent = self.target().map(|mut target| target.existing(parents)).transpose()?.flatten();
        let Some(parent) = parent else { return Ok(()) };
        match target::status(&parent, name)? {
            Some(there) => self.check_spelling(key, (&parent, name), &there),
            None => Ok(()),
        }
    }

    /// The same of directories that were not selected themselves, and are made only for what is in
    /// them: those that lead to a key.
    fn check_implied(&self, key: &[u8], parents: &[&OsStr]) -> Result<(), Noted> {
        if self.options.selection.is_all() && self.options.only.is_none() {
            return Ok(());
        }
        let mut end = 0;
        for (at, name) in parents.iter().enumerate() {
            end += name.len() + usize::from(at > 0);
            let here = key.get(..end).unwrap_or_default();
            if self.state().entered.contains(here) {
                continue;
            }
            if let Err(error) = self.check_directory(here, parents.get(..=at).unwrap_or_default()) {
                self.block(here, error);
                return Err(Noted);
            }
            self.state().entered.insert(here.to_vec());
        }
        Ok(())
    }

    /// Lets something be made beside a key, if only the mode of the directory forbids it.
    fn lifts_above(&self, key: &[u8]) -> bool {
        let parts = target::parts(key).unwrap_or_default();
        let Some((_, parents)) = parts.split_last() else { return false };
        let parent = self.target().and_then(|mut target| target.existing(parents).ok().flatten());
        parent.is_some_and(|parent| self.lifts(&parent).unwrap_or(false))
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
        match set {
            Err(error) if !self.is_of_others(b"", &error) => {
                self.fail_io("set mode and time of", b"", error);
            }
            _ => {}
        }
    }

    /// Whether something cannot be set of the destination itself because it belongs to another
    /// user, in whose directory this one may put things: that nothing was in it makes it no one
    /// else's.
    fn is_of_others(&self, key: &[u8], error: &io::Error) -> bool {
        let is_new = || self.target().is_some_and(|target| target.is_new());
        key.is_empty() && error.kind() == io::ErrorKind::PermissionDenied && !is_new()
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
            if self.options.keep_directories && !self.has_made(&mut target, key) {
                return;
            }
            let is_own = match target.made(&target.root()) {
                Ok(is_own) => is_own || self.options.mirror || self.options.overwrite == Overwrite::Always,
                Err(_) => false,
            };
            if key.is_empty() && !is_own {
                metadata = FileMetadata::new(None, node.mtime_ns, None, false);
            }
            self.set_directory(&mut target, key, &metadata, is_own)
        };
        match set {
            Ok((MetadataOutcome::Set(unset), was)) => {
                let mut state = self.state();
                state.report.directories += u64::from(was != Some(Was::Same));
                state.report.unset_xattrs.note(key, unset);
            }
            Ok(_) => {}
            Err(error) if is_implied && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if self.is_of_others(key, &error) => {}
            Err(error) => self.fail_io("set mode and time of", key, error),
        }
    }

    /// Whether a directory is of the making of this run.
    fn has_made(&self, target: &mut Target, key: &[u8]) -> bool {
        let directory = target.existing(&target::parts(key).unwrap_or_default()).ok().flatten();
        directory.is_some_and(|directory| target.made(&directory).unwrap_or(false))
    }

    /// Sets the attributes of a directory. What it has besides is taken away, unless it is the
    /// destination itself, and others put things there.
    fn set_directory(
        &self,
        target: &mut Target,
        key: &[u8],
        metadata: &FileMetadata,
        is_own: bool,
    ) -> io::Result<(MetadataOutcome, Option<Was>)> {
        let parts = target::parts(key).unwrap_or_default();
        let (mut metadata, mut was) = (metadata.clone(), None);
        if let Some(directory) = target.existing(&parts)? {
            if is_own || !key.is_empty() {
                self.remove_extra_xattrs(directory.as_fd(), &metadata)?;
            }
            // That it is not the time of the source was reported when it was set.
            let there = rustix::fs::fstat(&directory)?;
            let there_ns = mtime_of(&there);
            was = (!target.made(&directory)?).then(|| Was::of(&there, &metadata));
            metadata.mtime_ns =
                metadata.mtime_ns.filter(|ns| !target::is_nearest_time(*ns) || i128::from(*ns) != there_ns);
        }
        Ok((target.set_directory_metadata(key, &metadata, Overwrite::Always)?, was))
    }

    /// Returns an error if nothing may take the place of what is there, whatever is asked for: it
    /// is what is copied from, or belongs to another key.
    pub(super) fn check_there(&self, key: &[u8], place: (&OwnedFd, &OsStr), there: &Stat) -> io::Result<()> {
        if self.read_from.contains(&(there.st_dev, there.st_ino)) {
            return Err(io::Error::other("it is what is copied from"));
        }
        self.check_spelling(key, place, there)
    }

    /// What is done where something goes, for one with this modification time.
    pub(super) fn plan(&self, key: &[u8], spot: &Spot, mtime_ns: Option<i64>) -> io::Result<Plan> {
        let Some(there) = target::status(&spot.parent, &spot.name)? else { return Ok(Plan::Write) };
        self.check_there(key, (&spot.parent, &spot.name), &there)?;
        self.options.overwrite.plan(&there, self.kept_time(&spot.parent, &there, mtime_ns))
    }

    /// The modification time that something has in a directory when it was given this one.
    pub(super) fn kept_time(
        &self,
        parent: &Arc<OwnedFd>,
        there: &Stat,
        mtime_ns: Option<i64>,
    ) -> Option<i64> {
        mtime_ns.map(|ns| self.outbox.kept_time(parent, ns, there, !self.options.dry_run))
    }

    /// Whether what is in a directory has this modification time, as finely as it is kept there.
    pub(super) fn has_time(&self, parent: &Arc<OwnedFd>, there: &Stat, mtime_ns: Option<i64>) -> bool {
        let kept = self.kept_time(parent, there, mtime_ns);
        kept.is_some_and(|ns| mtime_of(there) == i128::from(ns))
    }

    /// What a file or directory gets.
    pub(super) fn metadata(&self, node: &Node, xattrs: Xattrs) -> FileMetadata {
        FileMetadata::new(node.mode, node.mtime_ns, node.owner, self.options.sets_owner())
            .with_xattrs(xattrs, self.options.xattrs)
    }

    /// A file is left as it is, to be continued by the next run, if there is anything of it, and
    /// something else has not come to have its name meanwhile.
    pub(super) fn leave(&self, place: &Place, partial: Partial) {
        let Partial { file, journal } = partial;
        let bytes = journal.bytes();
        let Place { job, spot, plan, .. } = place;
        let is_new = *plan == Plan::Write;
        let came = is_new && matches!(target::status(&spot.parent, &spot.name), Ok(Some(_)));
        if bytes > 0 && !came {
            file.keep();
            self.state().report.unfinished.push(Unfinished { key: job.key.to_vec(), bytes });
        }
    }

    /// Removes what an earlier run left of a file that is there, or was copied in another way.
    pub(super) fn forget_partial(&self, job: &FileJob, spot: &Spot) {
        let is_long = |resume: &Resume| job.node.len >= resume.from_bytes;
        if !self.options.dry_run && self.options.resume.as_ref().is_some_and(is_long) {
            // One that another run uses stays, and one that cannot be removed is only untidy.
            drop(self.outbox.find_kept(&spot.parent, &spot.name, Replaces::Nothing));
        }
    }

    /// A file is written once more, into a fresh one, and synced by itself: what was written of it
    /// could not be synced.
    pub(super) fn write_again(&self, job: FileJob) {
        let job = FileJob { only: Some(self.index), is_alone: true, ..job };
        self.state().again.push(job);
    }

    /// Makes all that was published durable, if that is asked.
    pub(super) fn sync_all(&self) {
        let Some(root) = self.target().map(|target| target.root()) else { return };
        if let Err(error) = self.batch.sync_all(&self.outbox, &root) {
            self.fail_io("sync", b"", error);
        }
    }

    /// Notes how many files are missing, where it was given up.
    pub(super) fn note_missing(&self, total_files: u64) {
        let files = self.files.load(Ordering::Relaxed);
        let mut state = self.state();
        // Of a file with several names each that is there was counted.
        let is_there = files.saturating_sub(state.report.hard_links);
        let missing = total_files.saturating_sub(is_there);
        if let Some(why) = &mut state.report.stopped {
            let (missing, total) = (units::count(missing), units::count_of(total_files, "file", "files"));
            why.push_str(&format!("; {missing} of {total} are missing there"));
        }
    }

    /// Its report, at the end.
    pub(super) fn take_report(&self) -> DestinationReport {
        std::mem::take(&mut self.state().report)
    }
}

/// The part of a key that is the name of its source, where there are several.
fn first_part(key: &[u8]) -> &[u8] {
    key.split(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Whether a file is on FAT or exFAT.
pub(super) fn is_fat_at(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).is_ok_and(|file| is_fat(&System, &file))
}

/// Whether a directory is on FAT or exFAT.
fn is_fat(calls: &dyn Calls, directory: &OwnedFd) -> bool {
    const FAT: [u32; 2] = [0x4D44, 0x2011_BAB0];
    calls.kind_of_file_system(directory.as_fd()).is_some_and(|kind| FAT.contains(&kind))
}

/// What a directory was that was there before: its time does not count, for what is put into it
/// changes that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Was {
    Same,
    /// It had another mode or owner.
    Other,
}

impl Was {
    fn of(there: &Stat, wanted: &FileMetadata) -> Self {
        let has_mode = wanted.mode.is_none_or(|mode| there.st_mode & 0o7777 == mode & 0o7777);
        let has_owner = wanted.owner.is_none_or(|owner| owner == (there.st_uid, there.st_gid));
        if has_mode && has_owner { Self::Same } else { Self::Other }
    }
}
