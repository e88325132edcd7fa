//! Files and symbolic links on their way out of a pack.
//!
//! Each appears under its name when it is whole and verified, with owner, mode and time set.
//! Threads share this; nothing here decides where something goes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::packing::Failure;
use super::unpacking::UnpackSummary;
use crate::pack::error::{Error, Result};
use crate::pack::read::stream::RecordReader;
use crate::pack::scan::Scan;
use crate::tree::existing::{self, Comparison, Overwrite, Plan};
use crate::tree::filling::Filling;
use crate::tree::target::{self, FileMetadata, Unset};
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
}

/// What threads that write have in common.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) overwrite: Overwrite,
    /// The directory, for messages.
    target: PathBuf,
    /// What temporary names begin with. No pack can know it.
    prefix: String,
    next: AtomicU64,
    summary: Mutex<UnpackSummary>,
}

impl Writing {
    pub(super) fn new(overwrite: Overwrite, target: &Path) -> io::Result<Self> {
        let chance = getrandom::u64().map_err(io::Error::other)?;
        let prefix = format!(".stook-{chance:016x}-");
        let (target, next) = (target.to_path_buf(), AtomicU64::new(0));
        Ok(Self { overwrite, target, prefix, next, summary: Mutex::default() })
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

    pub(super) fn temporary(&self) -> OsString {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        OsString::from_vec(format!("{}{number}.part", self.prefix).into_bytes())
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
            Err(error) => self.fail(key.to_vec(), error),
        }
    }

    /// Notes which extended attributes what was written lacks.
    fn note_unset(&self, key: &[u8], unset: Unset) {
        if unset != Unset::default() {
            self.summary().unset_xattrs.note(key, unset);
        }
    }

    /// Writes a file under a temporary name and gives it its own when it is whole. `go_on` receives
    /// the bytes written so far.
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
        let temporary = self.temporary();
        let mut file = target::create(parent, &temporary, metadata.mode).map_err(io("create"))?;
        let filled = self.fill((Some(&mut file), comparison.as_mut()), body, go_on, place);
        let published = filled.and_then(|len| {
            let Some(len) = len else { return Ok(Written::Interrupted) };
            if comparison.is_some() && compared(comparison.take()).map_err(io("read"))? == Written::Same {
                return Ok(Written::Same);
            }
            let unset = target::set_metadata(&file, metadata).map_err(io("set mode and time of"))?;
            if plan.replaces() {
                // What takes the place of something must not be lost together with it.
                file.sync_all().map_err(io("sync"))?;
            }
            match target::publish(parent, &temporary, name, plan.replaces()) {
                Ok(()) => {
                    self.note_unset(key, unset);
                    Ok(Written::New(len))
                }
                // It came in between: a directory is never kept in place of a file.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.overwrite.plan(parent, name, None).map(|_| Written::Kept).map_err(io("write"))
                }
                Err(error) => Err(io("give its name to")(error)),
            }
        });
        if !matches!(published, Ok(Written::New(_))) {
            target::remove(parent, &temporary).map_err(io("remove the unfinished"))?;
        }
        published
    }

    /// Goes through all of a body, which is written to a file, compared with another, or both;
    /// `None` when the caller stopped it.
    fn fill(
        &self,
        (file, comparison): (Option<&mut File>, Option<&mut Comparison>),
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
        let temporary = self.temporary();
        rustix::fs::symlinkat(OsStr::from_bytes(link_to), parent, &temporary)?;
        let published = target::set_link_metadata(parent, &temporary, metadata).and_then(|unset| {
            target::publish(parent, &temporary, name, plan.replaces())?;
            Ok(unset)
        });
        match published {
            Ok(unset) => {
                self.note_unset(key, unset);
                Ok(Written::New(0))
            }
            Err(error) => {
                target::remove(parent, &temporary)?;
                if error.kind() == io::ErrorKind::AlreadyExists { Ok(Written::Kept) } else { Err(error) }
            }
        }
    }
}

/// What a comparison that has come to its end means.
fn compared(comparison: Option<Comparison>) -> io::Result<Written> {
    let is_same = comparison.map(Comparison::finish).transpose()?.unwrap_or(false);
    Ok(if is_same { Written::Same } else { Written::Kept })
}
