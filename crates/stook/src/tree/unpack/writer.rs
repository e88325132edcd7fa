//! Files and symbolic links on their way to their names. Threads share this; nothing here decides
//! where something goes.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::FileType;

use super::entries::{Entries, EntryError, Piece};
use super::{Failure, UnpackOptions, UnpackSummary, WhyKept};
use crate::source::Inodes;
use crate::tree::existing::{self, Comparison, Overwrite, Plan};
use crate::tree::filling::Filling;
use crate::tree::holes::Part;
use crate::tree::outbox::{
    Batch, Calls, LONG, LongWriter, NewFile, NewName, OutFile, Outbox, Published, Waiting,
};
use crate::tree::target::{self, FileMetadata, Unset};

/// Where something goes.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) parent: Arc<OwnedFd>,
    /// Whether this run made the directory: then nothing is there yet.
    pub(super) is_new: bool,
    pub(super) name: OsString,
    pub(super) key: Vec<u8>,
    pub(super) metadata: FileMetadata,
    /// Which file it is, if that may have several names.
    pub(super) file: Option<Vec<u8>>,
}

/// The bytes of a file.
pub(super) enum Body<'a, E> {
    /// All at once, if not taken yet.
    Whole(Option<&'a [u8]>),
    /// Those of the entry at hand; how a long one is written, if it is one, and its length.
    Coming(&'a mut dyn Entries<Error = E>, Option<(&'a mut LongWriter, u64)>),
}

impl<'a, E: EntryError> Body<'a, E> {
    fn is_long(&self) -> bool {
        matches!(self, Self::Coming(_, Some(_)))
    }

    fn take_long(&mut self) -> Option<(&'a mut LongWriter, u64)> {
        match self {
            Self::Coming(_, long) => long.take(),
            Self::Whole(_) => None,
        }
    }

    fn next(&mut self) -> Result<Option<Piece<'_>>, E> {
        match self {
            Self::Whole(bytes) => Ok(bytes.take().map(Piece::Bytes)),
            Self::Coming(entries, _) => entries.piece(),
        }
    }
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// It was written, with this many bytes.
    New(u64),
    /// There is one already with the same content.
    Same,
    /// There is another already, and it stays.
    Kept,
    /// The caller stopped in the middle, and nothing is left.
    Interrupted,
    /// It was written and noted, and waits for its name.
    Waits,
}

/// What threads that write have in common.
#[derive(Debug)]
pub(super) struct Writer<E> {
    overwrite: Overwrite,
    read_from: Inodes,
    /// The directory, for messages.
    target: PathBuf,
    pub(super) outbox: Outbox,
    /// Files that wait for their names.
    pub(super) batch: Batch,
    /// Whether files get their names at once: others are linked to them.
    is_at_once: AtomicBool,
    summary: Mutex<UnpackSummary<E>>,
    /// Of files that may have several names, where each was written, or found whole.
    firsts: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
}

impl<E: EntryError> Writer<E> {
    pub(super) fn new(options: &UnpackOptions, calls: Arc<dyn Calls>) -> io::Result<Self> {
        Ok(Self {
            overwrite: options.overwrite,
            read_from: options.read_from.clone(),
            target: options.target.clone(),
            outbox: Outbox::new(calls)?,
            batch: Batch::with(options.durability),
            is_at_once: AtomicBool::new(false),
            summary: Mutex::default(),
            firsts: Mutex::default(),
        })
    }

    /// All files that were written get their names; from now on each does at once.
    pub(super) fn publish_waiting(&self) {
        self.is_at_once.store(true, Ordering::Relaxed);
        self.note_published(self.batch.publish(&self.outbox));
    }

    /// Notes what became of files that counted as written when they began to wait.
    fn note_published(&self, all: Vec<Published>) {
        for Published { key, len, unset, parent, name, is_same, result } in all {
            let Err((operation, error)) = result else {
                self.note_unset(&key, unset);
                continue;
            };
            {
                let mut summary = self.summary();
                summary.files = summary.files.saturating_sub(1);
                summary.bytes = summary.bytes.saturating_sub(len);
            }
            // Nothing is linked to it.
            self.firsts().retain(|_, first| *first != key);
            self.note(
                &key,
                match is_same {
                    true => Ok(Written::Same),
                    false => self.came_between((&parent, &name), &key, operation, error),
                },
            );
        }
    }

    /// What it means that a file did not get its name. What came in between stays, but a directory
    /// is never kept in place of a file.
    fn came_between(
        &self,
        (parent, name): (&OwnedFd, &OsStr),
        key: &[u8],
        operation: &'static str,
        error: io::Error,
    ) -> Result<Written, E> {
        if error.kind() != io::ErrorKind::AlreadyExists {
            return Err(self.io(operation, key, error));
        }
        let there = target::status(parent, name).map_err(|error| self.io("look for", key, error))?;
        let planned = there.map_or(Ok(None), |there| self.overwrite.plan(&there, None).map(Some));
        planned.map(|_| Written::Kept).map_err(|error| self.io("write", key, error))
    }

    /// The error of something that is done to what a key comes out as.
    pub(super) fn io(&self, operation: &'static str, key: &[u8], error: io::Error) -> E {
        crate::Error::io(operation, self.target.join(OsStr::from_bytes(key)), error).into()
    }

    pub(super) fn summary(&self) -> MutexGuard<'_, UnpackSummary<E>> {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn into_summary(self) -> UnpackSummary<E> {
        self.summary.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn firsts(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Vec<u8>>> {
        self.firsts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a file is to which hard links can be linked.
    pub(super) fn first_of(&self, file: &[u8]) -> Option<Vec<u8>> {
        self.firsts().get(file).cloned()
    }

    /// Notes that hard links to a file can be linked to this one.
    pub(super) fn note_first(&self, file: &[u8], key: &[u8]) {
        self.firsts().entry(file.to_vec()).or_insert_with(|| key.to_vec());
    }

    pub(super) fn fail(&self, key: Vec<u8>, error: E) {
        self.summary().failures.push(Failure { key, error });
    }

    /// Notes what became of a file.
    pub(super) fn note(&self, key: &[u8], written: Result<Written, E>) {
        match written {
            Ok(Written::New(bytes)) => {
                let mut summary = self.summary();
                summary.files += 1;
                summary.bytes += bytes;
            }
            Ok(Written::Same) => self.summary().unchanged += 1,
            Ok(Written::Kept) => self.summary().keep(key.to_vec(), WhyKept::OtherContent),
            Ok(Written::Interrupted) => self.summary().interrupted = true,
            Ok(Written::Waits) => {}
            Err(error) => self.fail(key.to_vec(), error),
        }
    }

    /// What writes a file of this length, if that makes it a long one. One with holes is none: no
    /// room is reserved for those.
    pub(super) fn long<'l>(
        &self,
        known: &'l mut Option<LongWriter>,
        place: &Destination,
        len: Option<u64>,
    ) -> Result<Option<(&'l mut LongWriter, u64)>, E> {
        let Some(len) = len.filter(|len| *len >= LONG && place.metadata.holes.is_empty()) else {
            return Ok(None);
        };
        let writer = match known.take() {
            Some(writer) => writer,
            None => self.outbox.long_writer().map_err(|error| self.io("write", &place.key, error))?,
        };
        Ok(Some((known.insert(writer), len)))
    }

    /// Notes which extended attributes what was written lacks.
    fn note_unset(&self, key: &[u8], unset: Unset) {
        if unset != Unset::default() {
            self.summary().unset_xattrs.note(key, unset);
        }
    }

    /// Writes a file, which gets its name when it is whole, and durable. `go_on` receives the bytes
    /// written so far.
    pub(super) fn write_file(
        &self,
        place: &Destination,
        body: &mut Body<'_, E>,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Written, E> {
        let written = self.write_or_compare(place, body, go_on)?;
        let Some(file) = &place.file else { return Ok(written) };
        // One that was written was noted when it began to wait: it may have failed since.
        if written == Written::Same
            && self.is_file_of(place).map_err(|error| self.io("look for", &place.key, error))?
        {
            self.note_first(file, &place.key);
        }
        Ok(written)
    }

    /// What is done at a place. Where nothing can be there the system is not asked: what has come
    /// there in between is not replaced anyway.
    fn plan(&self, place: &Destination) -> io::Result<Plan> {
        if place.is_new && !self.is_at_once.load(Ordering::Relaxed) {
            return Ok(Plan::Write);
        }
        self.plan_existing(place)
    }

    /// The same, whatever is there.
    pub(super) fn plan_existing(&self, place: &Destination) -> io::Result<Plan> {
        let rule = (self.overwrite, &self.read_from);
        self.outbox.plan(rule, (&place.parent, &place.name), place.metadata.mtime_ns)
    }

    fn write_or_compare(
        &self,
        place: &Destination,
        body: &mut Body<'_, E>,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Written, E> {
        let Destination { parent, name, key, metadata, .. } = place;
        let io = |operation| move |error| self.io(operation, key, error);
        let plan = self.plan(place).map_err(io("write"))?;
        let mut comparison = None;
        if plan.compares() {
            let mut opened = Comparison::open(parent, name).map_err(io("read"))?;
            if let Body::Whole(Some(bytes)) = body {
                opened.take(bytes).map_err(io("read"))?;
                if opened.finish().map_err(io("read"))? {
                    return Ok(Written::Same);
                } else if plan == Plan::Compare {
                    return Ok(Written::Kept);
                }
            } else {
                comparison = Some(opened);
            }
        }
        if plan == Plan::Compare {
            let filled = self.fill((None, comparison.as_mut()), body, go_on, place)?;
            return if filled.is_none() {
                Ok(Written::Interrupted)
            } else {
                compared(comparison).map_err(io("read"))
            };
        }
        let new = NewFile {
            mode: metadata.mode,
            // What else is set, and opening it once more, needs rights that its mode may not give.
            is_private: !metadata.xattrs.is_empty() || body.is_long(),
            replaces: plan.replaces(),
        };
        let file = self.outbox.file(parent, new).map_err(io("create"))?;
        match self.fill((Some(&file), comparison.as_mut()), body, go_on, place) {
            Ok(Some(len)) => {
                if comparison.is_some() && compared(comparison).map_err(io("read"))? == Written::Same {
                    file.discard().map_err(io("remove the unfinished"))?;
                    return Ok(Written::Same);
                }
                self.finish(file, len, place)
            }
            Ok(None) => {
                file.discard().map_err(io("remove the unfinished"))?;
                Ok(Written::Interrupted)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives a whole file its attributes and its name, or has it wait for that.
    fn finish(&self, file: OutFile, len: u64, place: &Destination) -> Result<Written, E> {
        let Destination { name, key, metadata, file: id, .. } = place;
        let unset = file.set_metadata(metadata);
        let unset = unset.map_err(|error| self.io("set mode and time of", key, error))?;
        let is_alone = self.is_at_once.load(Ordering::Relaxed);
        let (name, noted, backup) = (name.clone(), key.clone(), None);
        let waiting = Waiting { file, name, key: noted, len, unset, backup, is_alone };
        self.note(key, Ok(Written::New(len)));
        if let Some(id) = id {
            self.note_first(id, key);
        }
        self.note_published(self.batch.put(&self.outbox, waiting));
        Ok(Written::Waits)
    }

    /// Goes through all of a body, which is written to a file, compared with another, or both;
    /// `None` when the caller stopped it.
    fn fill(
        &self,
        (file, comparison): (Option<&OutFile>, Option<&mut Comparison>),
        body: &mut Body<'_, E>,
        go_on: &mut dyn FnMut(u64) -> bool,
        place: &Destination,
    ) -> Result<Option<u64>, E> {
        let io = |(operation, error)| self.io(operation, &place.key, error);
        let long = match (file, body.take_long()) {
            (Some(file), Some((writer, len))) => {
                let shown = self.target.join(OsStr::from_bytes(&place.key));
                writer.begin(file, &shown, len).map_err(|error| io(("write", error)))?
            }
            _ => None,
        };
        let mut filling = Filling::new(file, comparison).with_long(long);
        while let Some(piece) = body.next()? {
            match piece {
                Piece::Hole(len) => filling.take_hole(len).map_err(io)?,
                Piece::Bytes(bytes) => {
                    for part in place.metadata.holes.cut(filling.taken(), bytes) {
                        let taken = match part {
                            Part::Bytes(bytes) => filling.take(bytes),
                            Part::Hole(len) => filling.take_hole(len),
                        };
                        taken.map_err(io)?;
                    }
                }
            }
            if !go_on(filling.taken()) {
                return Ok(None);
            }
        }
        filling.finish().map(Some).map_err(io)
    }

    /// Whether what has a name has the bytes of a body; `None` when the caller stopped it.
    pub(super) fn has_bytes(
        &self,
        (parent, name, key): (&OwnedFd, &OsStr, &[u8]),
        body: &mut Body<'_, E>,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<bool>, E> {
        let io = |error| self.io("read", key, error);
        let mut comparison = Comparison::open(parent, name).map_err(io)?;
        let mut at = 0_u64;
        // What differs already is gone through no further.
        while comparison.is_same()
            && let Some(piece) = body.next()?
        {
            at = at.saturating_add(piece.len());
            let taken = match piece {
                Piece::Bytes(bytes) => comparison.take(bytes),
                Piece::Hole(len) => comparison.take_zeroes(len),
            };
            taken.map_err(io)?;
            if !go_on(at) {
                return Ok(None);
            }
        }
        comparison.finish().map(Some).map_err(io)
    }

    /// Whether what has a name, and the bytes of an entry, has its time, mode and owner as well:
    /// then it is the file that an earlier run wrote, and hard links become links to it.
    pub(super) fn is_file_of(&self, place: &Destination) -> io::Result<bool> {
        let Some(there) = target::status(&place.parent, &place.name)? else { return Ok(false) };
        let kept = |ns| i128::from(self.outbox.kept_time(&place.parent, ns, &there, true));
        let has_time = place.metadata.mtime_ns.is_some_and(|ns| existing::mtime_of(&there) == kept(ns));
        let is_file = FileType::from_raw_mode(there.st_mode).is_file();
        Ok(is_file && has_time && target::has_metadata(&there, &place.metadata))
    }

    /// Makes a symbolic link.
    pub(super) fn make_symlink(&self, place: &Destination, link_to: &[u8]) {
        match self.try_symlink(place, link_to) {
            Ok(Written::New(_)) => self.summary().symlinks += 1,
            Ok(written) => self.note(&place.key, Ok(written)),
            Err(error) => self.fail(place.key.clone(), self.io("make the link", &place.key, error)),
        }
    }

    fn try_symlink(&self, place: &Destination, link_to: &[u8]) -> io::Result<Written> {
        let Destination { parent, name, key, metadata, .. } = place;
        // Asked first, so that a directory in which all is there keeps its time.
        let plan = self.plan(place)?;
        if plan.compares() && existing::is_link_to(parent, name, link_to)? {
            return Ok(Written::Same);
        } else if plan == Plan::Compare {
            return Ok(Written::Kept);
        }
        let new = NewName { parent, name, replaces: plan.replaces(), backup: None };
        match self.outbox.symlink(&new, link_to, metadata) {
            Ok(unset) => {
                self.note_unset(key, unset);
                Ok(Written::New(0))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Written::Kept),
            Err(error) => Err(error),
        }
    }
}

/// What a comparison that has come to its end means.
fn compared(comparison: Option<Comparison>) -> io::Result<Written> {
    let is_same = comparison.map(Comparison::finish).transpose()?.unwrap_or(false);
    Ok(if is_same { Written::Same } else { Written::Kept })
}
