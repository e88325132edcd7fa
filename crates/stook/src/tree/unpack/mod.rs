//! Unpacking: entries of any kind into a directory, by one way for packs and archives.
//!
//! Files appear under their names when they are whole and verified, with mode, times and owner
//! set. Small ones are written by threads, long ones by the thread that reads them. Directories get
//! their mode and time last, hard links to files when all files are there.

mod entries;
mod links;
mod threads;
mod writer;

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use self::links::Linking;
use self::threads::{SmallFile, Threads};
use self::writer::{Body, Destination, Writer};
use super::Failure;
use super::existing::Overwrite;
use super::outbox::{Calls, Durability, LongWriter};
use super::paths;
use super::target::{FileMetadata, MetadataOutcome, Target};
use super::unpacked::{UnpackSummary, WhyKept};
use crate::extent::ByteRange;
use crate::source::Inodes;
pub(crate) use entries::{Entries, Entry, EntryError, EntryKind, Next, Piece};

/// Bodies up to this length are handed to threads, in bytes; the others are written as they are
/// read.
const SMALL_MAX: usize = 1 << 20;

/// How it is unpacked.
#[derive(Debug, Clone)]
pub(crate) struct UnpackOptions {
    /// Where to.
    pub(crate) target: PathBuf,
    /// What becomes of files and links that are there.
    pub(crate) overwrite: Overwrite,
    /// Files on disk that are read from, and stay.
    pub(crate) read_from: Inodes,
    /// Threads that write small files.
    pub(crate) threads: usize,
    /// When files are on the medium.
    pub(crate) durability: Durability,
}

/// Asked with entries and bytes so far, whether to go on.
pub(crate) type OnUnpacked<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// An unpacking on its way.
///
/// [`files`](Self::files), then [`links`](Self::links), then [`finish`](Self::finish). When the
/// caller stops it, each file is whole or absent.
pub(crate) struct Unpacking<'a, E> {
    options: &'a UnpackOptions,
    target: Target,
    writer: Writer<E>,
    /// What is put off until everything is in them.
    directories: Vec<(Vec<u8>, FileMetadata)>,
    long: Option<LongWriter>,
    progress: OnUnpacked<'a>,
}

impl<'a, E: EntryError> Unpacking<'a, E> {
    /// Opens the target, made if it is not there.
    pub(crate) fn begin(
        options: &'a UnpackOptions,
        calls: Arc<dyn Calls>,
        progress: OnUnpacked<'a>,
    ) -> Result<Self, E> {
        let io = |operation| move |error| E::from(crate::Error::io(operation, &options.target, error));
        let target = Target::open_through(&options.target, calls.clone()).map_err(io("open"))?;
        let writer = Writer::new(options, calls).map_err(io("choose names of temporary files in"))?;
        Ok(Self { options, target, writer, directories: Vec::new(), long: None, progress })
    }

    /// Files, links and directories. When this returns, all that could be written have their names.
    pub(crate) fn files(&mut self, entries: &mut dyn Entries<Error = E>) -> Result<(), E> {
        let Self { options, target, writer, directories, long, progress } = self;
        let writer = &*writer;
        let gone = std::thread::scope(|scope| {
            let threads = Threads::begin(scope, options.threads, writer);
            let mut filing = Filing { target, writer, directories, long, progress, threads };
            let gone = filing.go_through(entries);
            filing.threads.end();
            gone
        });
        writer.publish_waiting();
        gone
    }

    /// Hard links to files. Each gets its name at once, because others are linked to it.
    pub(crate) fn links(&mut self, entries: &mut dyn Entries<Error = E>) -> Result<(), E> {
        let Self { target, writer, long, progress, .. } = self;
        while goes_on(writer, progress, entries.seen()) {
            let entry = match entries.next()? {
                Next::End => return Ok(()),
                Next::Passed => continue,
                Next::Failed(failure) => {
                    writer.fail(failure.key, failure.error);
                    continue;
                }
                Next::Entry(entry) => entry,
            };
            let (seen, bytes, key) = (entries.seen(), writer.summary().bytes, entry.key.clone());
            let (first, len) = (entry.first.clone(), entry.len);
            let go_on = &mut |ahead: u64| progress(seen, bytes.saturating_add(ahead));
            let made = place(target, writer, entry).and_then(|(place, _)| {
                Linking { target, writer, long, entries: &mut *entries, go_on }.make(&place, first, len)
            });
            match made {
                Ok(Some(written)) => writer.note(&key, Ok(written)),
                Ok(None) => writer.summary().hard_links += 1,
                Err(error) if error.is_of_all() => return Err(error),
                Err(error) => writer.fail(key, error),
            }
        }
        Ok(())
    }

    /// Notes what cannot be unpacked.
    pub(crate) fn fail(&self, key: Vec<u8>, error: E) {
        self.writer.fail(key, error);
    }

    /// Directories get mode and time, and all is made durable, if that is asked.
    pub(crate) fn finish(mut self) -> Result<UnpackSummary<E>, E> {
        self.set_directory_metadata();
        // Each file was on the medium when it got its name, and now all names are.
        let Writer { outbox, batch, .. } = &self.writer;
        if let Err(error) = batch.sync_all(outbox, &self.target.root()) {
            // What was done is still worth telling. It is of the whole directory, and no damage.
            self.writer.fail(b".".to_vec(), crate::Error::io("sync", &self.options.target, error).into());
        }
        Ok(self.writer.into_summary())
    }

    /// Modes and times of directories, the deepest first, so that nothing is made in a directory
    /// afterwards.
    fn set_directory_metadata(&mut self) {
        self.directories.sort_by(|a, b| b.0.cmp(&a.0));
        for (path, metadata) in std::mem::take(&mut self.directories) {
            match self.target.set_directory_metadata(&path, &metadata, self.options.overwrite) {
                Ok(MetadataOutcome::Set(unset)) => {
                    let mut summary = self.writer.summary();
                    summary.directories += 1;
                    summary.unset_xattrs.note(&path, unset);
                }
                Ok(MetadataOutcome::Kept) => {}
                Ok(MetadataOutcome::TooOpen) => self.writer.summary().keep(path, WhyKept::TooOpen),
                Err(error) => {
                    let error = self.writer.io("set mode and time of", &path, error);
                    self.writer.fail(path, error);
                }
            }
        }
    }
}

/// Asks whether the caller wants more; that he does not is noted.
fn goes_on<E: EntryError>(writer: &Writer<E>, progress: OnUnpacked<'_>, seen: u64) -> bool {
    let (is_interrupted, bytes) = {
        let summary = writer.summary();
        (summary.interrupted, summary.bytes)
    };
    let goes_on = !is_interrupted && progress(seen, bytes);
    writer.summary().interrupted = !goes_on;
    goes_on
}

/// The names that a key goes through.
///
/// # Errors
/// Why nothing comes out under it.
pub(crate) fn parts<E: EntryError>(key: &[u8]) -> Result<Vec<&OsStr>, E> {
    paths::parts(key).map_err(E::refused)
}

/// Where a file or link goes, and what it is; the directories that lead there are made.
fn place<E: EntryError>(
    target: &mut Target,
    writer: &Writer<E>,
    entry: Entry,
) -> Result<(Destination, EntryKind), E> {
    let Entry { key, kind, metadata, file, .. } = entry;
    let parts = parts::<E>(&key)?;
    let io = |operation| {
        let key = &key;
        move |error: io::Error| writer.io(operation, key, error)
    };
    let Some((name, parents)) = parts.split_last() else {
        return Err(E::refused("the empty path can only be a directory".into()));
    };
    let (parent, is_new) = target.directory_and_origin(parents).map_err(io("make the directory for"))?;
    target.refuse_file_of_pack(&parent, name).map_err(io("write"))?;
    let name = name.to_os_string();
    Ok((Destination { parent, is_new, name, key, metadata, file }, kind))
}

/// Files, links and directories on their way from the thread that reads them.
struct Filing<'a, 'p, E> {
    target: &'a mut Target,
    writer: &'a Writer<E>,
    directories: &'a mut Vec<(Vec<u8>, FileMetadata)>,
    long: &'a mut Option<LongWriter>,
    progress: &'a mut OnUnpacked<'p>,
    threads: Threads<'a, E>,
}

impl<E: EntryError> Filing<'_, '_, E> {
    fn go_through(&mut self, entries: &mut dyn Entries<Error = E>) -> Result<(), E> {
        // Not after the next entry: what is left of this one may be long.
        while goes_on(self.writer, self.progress, entries.seen()) {
            match entries.next()? {
                Next::End => return Ok(()),
                Next::Passed => {}
                Next::Failed(failure) => self.writer.fail(failure.key, failure.error),
                Next::Entry(entry) => {
                    let key = entry.key.clone();
                    match self.entry(entry, entries) {
                        Ok(()) => {}
                        Err(error) if error.is_of_all() => return Err(error),
                        Err(error) => self.writer.fail(key, error),
                    }
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: Entry, entries: &mut dyn Entries<Error = E>) -> Result<(), E> {
        if entry.kind == EntryKind::Directory {
            let parts = parts::<E>(&entry.key)?;
            let made = self.target.directory_with(&parts, entry.metadata.mode);
            made.map_err(|error| self.writer.io("make", &entry.key, error))?;
            self.directories.push((entry.key, entry.metadata));
            return Ok(());
        }
        let len = entry.len;
        match place(self.target, self.writer, entry)? {
            (place, EntryKind::Symlink) => {
                let link_to = entries.link_target()?;
                self.writer.make_symlink(&place, &link_to);
                Ok(())
            }
            (place, _) => match len.and_then(|len| usize::try_from(len).ok()).filter(|len| *len <= SMALL_MAX)
            {
                Some(len) => self.small_file(place, len, entries),
                None => self.file(&place, len, entries),
            },
        }
    }

    /// Gathers the bytes of a file, and has a thread write them.
    fn small_file(
        &mut self,
        mut place: Destination,
        len: usize,
        entries: &mut dyn Entries<Error = E>,
    ) -> Result<(), E> {
        let (mut body, seen) = (Vec::with_capacity(len), entries.seen());
        while let Some(piece) = entries.piece()? {
            let (at, more) = (body.len(), piece.len());
            let end = usize::try_from(more).ok().and_then(|more| at.checked_add(more));
            let Some(end) = end.filter(|end| *end <= len) else {
                return Err(E::refused(format!("it has more than the {len} bytes that were announced")));
            };
            match piece {
                // Much was skipped.
                Piece::Bytes([]) if !goes_on(self.writer, self.progress, seen) => return Ok(()),
                Piece::Bytes(bytes) => body.extend_from_slice(bytes),
                Piece::Hole(hole) => {
                    if let Some(hole) = ByteRange::at(at as u64, hole) {
                        place.metadata.holes.push(hole);
                    }
                    body.resize(end, 0);
                }
            }
        }
        self.threads.write(SmallFile { place, body });
        Ok(())
    }

    /// Writes a file in this thread.
    fn file(
        &mut self,
        place: &Destination,
        len: Option<u64>,
        entries: &mut dyn Entries<Error = E>,
    ) -> Result<(), E> {
        let long = self.writer.long(self.long, place, len)?;
        let (seen, bytes) = (entries.seen(), self.writer.summary().bytes);
        let progress = &mut *self.progress;
        let go_on = &mut |ahead: u64| progress(seen, bytes.saturating_add(ahead));
        let written = self.writer.write_file(place, &mut Body::Coming(entries, long), go_on)?;
        self.writer.note(&place.key, Ok(written));
        Ok(())
    }
}
