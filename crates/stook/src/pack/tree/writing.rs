//! Files and symbolic links on their way out of a pack.
//!
//! Each appears under its name when it is whole and verified, with owner, mode and time set.
//! Threads share this; nothing here decides where something goes.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::packing::Failure;
use super::unpacking::UnpackSummary;
use crate::pack::error::{Error, Result};
use crate::pack::read::stream::RecordReader;
use crate::pack::scan::Scan;
use crate::tree::existing::{self, Comparison, Overwrite, Plan};
use crate::tree::filling::Filling;
use crate::tree::outbox::{Batch, Calls, OutFile, Outbox, Published, Waiting};
use crate::tree::target::{FileMetadata, Unset};
use crate::tree::{Part, WhyKept};

/// Where something goes.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) parent: Arc<OwnedFd>,
    pub(super) name: OsString,
    pub(super) key: Vec<u8>,
    pub(super) metadata: FileMetadata,
}

/// The bytes of a file, verified as they come.
pub(super) enum Body<'a, 'p> {
    /// All at once, if not taken yet.
    Whole(Option<&'a [u8]>),
    /// The long body of the record that a scan stands at.
    Scan(&'a mut Scan<'p>),
    /// One record.
    Record(&'a mut RecordReader<'p>),
}

impl Body<'_, '_> {
    fn next(&mut self) -> Result<Option<&[u8]>> {
        match self {
            Self::Whole(bytes) => Ok(bytes.take()),
            Self::Scan(scan) => scan.next_chunk(),
            Self::Record(record) => record.next_chunk(),
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
pub(super) struct Writing {
    pub(super) overwrite: Overwrite,
    /// The directory, for messages.
    target: PathBuf,
    pub(super) outbox: Outbox,
    /// Files that wait for their names.
    batch: Batch,
    /// Whether files get their names at once: others are linked to them.
    is_at_once: AtomicBool,
    summary: Mutex<UnpackSummary>,
}

impl Writing {
    pub(super) fn new(overwrite: Overwrite, target: &Path, calls: Arc<dyn Calls>) -> io::Result<Self> {
        let (target, batch, is_at_once) = (target.to_path_buf(), Batch::new(), AtomicBool::new(false));
        let outbox = Outbox::new(calls)?;
        Ok(Self { overwrite, target, outbox, batch, is_at_once, summary: Mutex::default() })
    }

    /// All files that were written get their names; from now on each does at once.
    pub(super) fn publish_waiting(&self) {
        self.is_at_once.store(true, Ordering::Relaxed);
        self.note_published(self.batch.publish(&self.outbox));
    }

    /// Notes what became of files that counted as written when they began to wait.
    fn note_published(&self, all: Vec<Published>) {
        for Published { key, len, unset, parent, name, result } in all {
            let Err((operation, error)) = result else {
                self.note_unset(&key, unset);
                continue;
            };
            {
                let mut summary = self.summary();
                summary.files = summary.files.saturating_sub(1);
                summary.bytes = summary.bytes.saturating_sub(len);
            }
            self.note(&key, self.came_between((&parent, &name), &key, operation, error));
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
    ) -> Result<Written> {
        if error.kind() != io::ErrorKind::AlreadyExists {
            return Err(self.io(operation, key, error));
        }
        let planned = self.overwrite.plan(parent, name, None);
        planned.map(|_| Written::Kept).map_err(|error| self.io("write", key, error))
    }

    /// The error of something that is done to what a key comes out as.
    pub(super) fn io(&self, operation: &'static str, key: &[u8], error: io::Error) -> Error {
        crate::Error::io(operation, self.target.join(OsStr::from_bytes(key)), error).into()
    }

    pub(super) fn summary(&self) -> MutexGuard<'_, UnpackSummary> {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn into_summary(self) -> UnpackSummary {
        self.summary.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn fail(&self, key: Vec<u8>, error: Error) {
        self.summary().failures.push(Failure { key, error });
    }

    /// Notes what became of a file.
    pub(super) fn note(&self, key: &[u8], written: Result<Written>) {
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
        body: &mut Body<'_, '_>,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Written> {
        let Destination { parent, name, key, metadata } = place;
        let io = |operation| move |error| self.io(operation, key, error);
        let plan = self.overwrite.plan(parent, name, metadata.mtime_ns).map_err(io("write"))?;
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
        let file = self.outbox.file(parent, metadata.mode, plan.replaces()).map_err(io("create"))?;
        match self.fill((Some(&file), comparison.as_mut()), body, go_on, place) {
            Ok(Some(len)) => {
                if comparison.is_some() && compared(comparison).map_err(io("read"))? == Written::Same {
                    file.discard().map_err(io("remove the unfinished"))?;
                    return Ok(Written::Same);
                }
                self.finish(file, len, plan, place)
            }
            Ok(None) => {
                file.discard().map_err(io("remove the unfinished"))?;
                Ok(Written::Interrupted)
            }
            Err(error) => Err(error),
        }
    }

    /// Gives a whole file its attributes and its name, or has it wait for that.
    fn finish(&self, file: OutFile, len: u64, plan: Plan, place: &Destination) -> Result<Written> {
        let Destination { parent, name, key, metadata } = place;
        let io = |operation| move |error| self.io(operation, key, error);
        let unset = file.set_metadata(metadata).map_err(io("set mode and time of"))?;
        if !plan.replaces() && !self.is_at_once.load(Ordering::Relaxed) {
            let (name, key) = (name.clone(), key.clone());
            let waiting = Waiting { file, name, key: key.clone(), len, unset, replaces: false, backup: None };
            self.note(&key, Ok(Written::New(len)));
            self.note_published(self.batch.put(&self.outbox, waiting));
            return Ok(Written::Waits);
        }
        // What takes the place of something must not be lost together with it.
        file.sync().map_err(io("sync"))?;
        match file.publish(name, plan.replaces()) {
            Ok(()) => {
                self.note_unset(key, unset);
                Ok(Written::New(len))
            }
            Err(error) => self.came_between((parent, name), key, "give its name to", error),
        }
    }

    /// Goes through all of a body, which is written to a file, compared with another, or both;
    /// `None` when the caller stopped it.
    fn fill(
        &self,
        (file, comparison): (Option<&OutFile>, Option<&mut Comparison>),
        body: &mut Body<'_, '_>,
        go_on: &mut dyn FnMut(u64) -> bool,
        place: &Destination,
    ) -> Result<Option<u64>> {
        let io = |(operation, error)| self.io(operation, &place.key, error);
        let mut filling = Filling::new(file, comparison);
        while let Some(bytes) = body.next()? {
            for part in place.metadata.holes.cut(filling.taken(), bytes) {
                let taken = match part {
                    Part::Bytes(bytes) => filling.take(bytes),
                    Part::Hole(len) => filling.take_hole(len),
                };
                taken.map_err(io)?;
            }
            if !go_on(filling.taken()) {
                return Ok(None);
            }
        }
        filling.finish().map(Some).map_err(io)
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
        let Destination { parent, name, key, metadata } = place;
        // Asked first, so that a directory in which all is there keeps its time.
        let plan = self.overwrite.plan(parent, name, metadata.mtime_ns)?;
        if plan.compares() && existing::is_link_to(parent, name, link_to)? {
            return Ok(Written::Same);
        } else if plan == Plan::Compare {
            return Ok(Written::Kept);
        }
        match self.outbox.symlink((parent, name), link_to, metadata, plan.replaces()) {
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
