//! A pack into a tree of files.
//!
//! Files appear under their names when they are whole and verified, with mode, times and owner set.
//! Small ones are written by several threads. Directories get their mode and time last, hard links
//! when all files are there.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use super::links::Linking;
use super::packing::Failure;
use super::paths::{Paths, kind_of, symlink_target};
use super::writing::{Body, Destination, Writing};
use crate::pack::damages::Damages;
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind};
use crate::pack::key::Key;
use crate::pack::scan::{OnDamage, Scan, ScanOptions, ScanRecord};
use crate::pack::state::open::{Pack, is_in_groups};
use crate::storage::free_at;
use crate::tree::existing::Overwrite;
use crate::tree::outbox::{Calls, System};
use crate::tree::room;
use crate::tree::target::{FileMetadata, MetadataOutcome, Target};
use crate::tree::{SelectKeys, WhyKept};

/// Small files waiting for a thread that writes them.
const QUEUE_LEN: usize = 64;

/// Bodies up to this length are handed to threads, in bytes; the others are written as they are
/// read.
const SMALL_MAX: usize = 1 << 20;

/// What unpacking did.
pub type UnpackSummary = crate::tree::UnpackSummary<Error>;

/// How a pack is to be unpacked.
pub struct UnpackTree<'a> {
    /// Where to.
    pub target: PathBuf,
    /// What becomes of files and links that are there.
    pub overwrite: Overwrite,
    /// Whether owners are restored. Set-user-id and set-group-id bits are, where a file then
    /// belongs to the owner (or group) that was recorded with them; without `with_owner` root drops
    /// all of them.
    pub with_owner: bool,
    /// Whether extended attributes are set, access control lists among them. Those that grant
    /// rights (`security.*`, `trusted.*`) are only where an owner is restored.
    pub xattrs: bool,
    /// Only these groups; all if empty.
    pub groups: Vec<String>,
    /// Threads that write small files.
    pub threads: usize,
    /// Which keys are unpacked.
    pub select: SelectKeys<'a>,
    /// Writes even where there is less room than all of it needs.
    pub force: bool,
}

impl std::fmt::Debug for UnpackTree<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnpackTree").field("target", &self.target).finish_non_exhaustive()
    }
}

/// A small file on its way to a thread that writes it.
struct Job {
    place: Destination,
    body: Vec<u8>,
}

impl Job {
    fn write(&self, writing: &Writing) {
        let written = writing.write_file(&self.place, &mut Body::Whole(Some(&self.body)), &mut |_| true);
        writing.note(&self.place.key, written);
    }
}

/// What a record is, and where it goes.
enum Placed {
    Directory(Vec<u8>, FileMetadata),
    Other(FileKind, Destination),
}

impl UnpackTree<'_> {
    /// Unpacks. `progress` receives records and bytes so far; when it says no, unpacking stops,
    /// with every file either whole or absent.
    ///
    /// Directories that were there keep mode and time, unless files are to be replaced too.
    /// Files are synced many at a time, then get their names; what takes the place of something is
    /// synced by itself. At the end all is on the medium.
    ///
    /// Damaged records, unsafe paths and files that cannot be written are
    /// [failures](UnpackSummary::failures); the rest continues.
    ///
    /// # Errors
    /// That the target cannot be made or synced, or what reading the pack meets.
    pub fn run(&self, pack: &Pack, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<UnpackSummary> {
        self.run_through(pack, Arc::new(System), progress)
    }

    /// The same, with system calls that somebody else makes.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_through(
        &self,
        pack: &Pack,
        calls: Arc<dyn Calls>,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<UnpackSummary> {
        let io = |operation| move |error| Error::from(crate::Error::io(operation, &self.target, error));
        pack.check_groups(&self.groups)?;
        self.check_room(pack)?;
        let Some(paths) = Paths::of(pack, &mut || progress(0, 0))? else {
            return Ok(UnpackSummary { interrupted: true, ..UnpackSummary::default() });
        };
        let target = Target::open_through(&self.target, calls.clone()).map_err(io("open"))?;
        let writing = Writing::new(self.overwrite, &self.target, calls)
            .map_err(io("choose names of temporary files in"))?;
        let mut unpacking = Unpacking {
            tree: self,
            pack,
            target,
            writing: &writing,
            paths,
            directories: Vec::new(),
            links: Vec::new(),
            progress,
            seen: 0,
        };
        let gone = std::thread::scope(|scope| {
            let (sender, receiver) = mpsc::sync_channel::<Job>(QUEUE_LEN);
            let receiver = Arc::new(Mutex::new(receiver));
            for _ in 0..self.threads.max(1) {
                let (receiver, writing) = (receiver.clone(), &writing);
                scope.spawn(move || {
                    loop {
                        let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        let Ok(job) = job else { return };
                        job.write(writing);
                    }
                });
            }
            drop(receiver);
            unpacking.go_through(&sender)
        });
        writing.publish_waiting();
        gone?;
        unpacking.make_links();
        unpacking.set_directory_metadata();
        // Each file was on the medium when it got its name, and now all names are.
        writing.outbox.sync_all(&unpacking.target.root()).map_err(io("sync"))?;
        Ok(writing.into_summary())
    }
}

impl UnpackTree<'_> {
    /// What is there already needs no room. Records are gone through only where not all of the pack
    /// fits.
    fn check_room(&self, pack: &Pack) -> Result<()> {
        if self.force {
            return Ok(());
        }
        let free = free_at(&self.target)?;
        let all = pack.segments().into_iter().map(|segment| {
            segment.tally.body_bytes.saturating_add(segment.tally.records.saturating_mul(room::of_file(1)))
        });
        if all.fold(0, u64::saturating_add) <= free {
            return Ok(());
        }
        let mut needed = 0_u64;
        for entry in pack.keys(&[])? {
            // What is damaged is reported when it is met.
            let Ok(entry) = entry else { continue };
            let (Some(key), Some(len)) = (entry.key.as_bytes(), entry.stored_bytes) else { continue };
            let is_wanted = is_in_groups(&self.groups, pack.group_of_entry(&entry)) && (self.select)(key);
            if is_wanted && !self.target.join(OsStr::from_bytes(key)).exists() {
                needed = needed.saturating_add(len);
            }
        }
        room::too_little(&self.target, needed, free).map_or(Ok(()), |why| Err(Error::Invalid(why)))
    }
}

/// An unpacking on its way.
struct Unpacking<'a> {
    tree: &'a UnpackTree<'a>,
    pack: &'a Pack,
    target: Target,
    writing: &'a Writing,
    paths: Paths,
    /// What is put off until everything is in them.
    directories: Vec<(Vec<u8>, FileMetadata)>,
    /// What is put off until all files are there.
    links: Vec<Destination>,
    progress: &'a mut dyn FnMut(u64, u64) -> bool,
    seen: u64,
}

impl Unpacking<'_> {
    fn go_through(&mut self, sender: &mpsc::SyncSender<Job>) -> Result<()> {
        let options = ScanOptions {
            groups: self.tree.groups.clone(),
            on_damage: OnDamage::Skip,
            ..ScanOptions::default()
        };
        let mut scan = self.pack.scan(options);
        while let Some(record) = scan.next()? {
            self.seen += 1;
            let placed = self.place(&record);
            if let Some(Placed::Other(kind, place)) = self.note_placed(placed) {
                // A body that is not whole is a long one, and still to be read.
                match (kind, record.body()) {
                    (FileKind::File, Some(body)) if body.len() <= SMALL_MAX => {
                        let job = Job { place, body: body.to_vec() };
                        if let Err(mpsc::SendError(job)) = sender.send(job) {
                            job.write(self.writing);
                        }
                    }
                    (FileKind::File, Some(body)) => self.write(&place, &mut Body::Whole(Some(body))),
                    (FileKind::File, None) => self.write(&place, &mut Body::Scan(&mut scan)),
                    (FileKind::Symlink, Some(body)) => match symlink_target(body) {
                        Ok(target) => self.writing.make_symlink(&place, target),
                        Err(error) => self.writing.fail(place.key, error),
                    },
                    (FileKind::HardLink, _) => self.links.push(place),
                    _ => {
                        let why = "the target of a link is too long".to_owned();
                        self.writing.fail(place.key, Error::Invalid(why));
                    }
                }
            }
            if !self.go_on() {
                break;
            }
        }
        self.note_damage(&scan);
        Ok(())
    }

    fn note_damage(&self, scan: &Scan<'_>) {
        // What was met when the pack was opened may be met again when it is scanned.
        let damages: Damages =
            self.pack.damages().into_iter().chain(scan.damages().iter().cloned()).collect();
        for damage in damages.iter().filter(|damage| !self.pack.is_of_older_version(damage)) {
            let key = damage.key.as_ref().and_then(Key::as_bytes).unwrap_or_default().to_vec();
            self.writing.fail(key, Error::Damaged(damage.clone()));
        }
    }

    /// Whether the caller wants more; if not, that is noted.
    fn go_on(&mut self) -> bool {
        let mut summary = self.writing.summary();
        summary.interrupted = summary.interrupted || !(self.progress)(self.seen, summary.bytes);
        !summary.interrupted
    }

    /// Writes a file in this thread.
    fn write(&mut self, place: &Destination, body: &mut Body<'_, '_>) {
        let (seen, progress) = (self.seen, &mut self.progress);
        let bytes = self.writing.summary().bytes;
        let written = self.writing.write_file(place, body, &mut |ahead| progress(seen, bytes + ahead));
        self.writing.note(&place.key, written);
    }

    /// What a record is and where it goes; `None` for what is not wanted. Directories are dealt
    /// with here.
    fn place(&mut self, record: &ScanRecord<'_>) -> Result<Option<Placed>, Box<Failure>> {
        let Some(key) = record.key() else { return Ok(None) };
        if key.as_bytes().is_some_and(|path| !path.is_empty() && !(self.tree.select)(path)) {
            return Ok(None);
        }
        let path = Paths::path(&key).map_err(|error| Box::new(Failure::of(&key, error)))?;
        self.place_path(path, record.attributes())
            .map(Some)
            .map_err(|error| Box::new(Failure { key: path.to_vec(), error }))
    }

    fn place_path(&mut self, path: &[u8], attributes: &[u8]) -> Result<Placed> {
        let parts = Paths::parts(path)?;
        let attributes = Attributes::decode(attributes).map_err(|invalid| Error::Invalid(invalid.what))?;
        let kind = kind_of(&attributes)?;
        self.paths.check(path, kind)?;
        let metadata = self.metadata(&attributes);
        let shown = self.target.path_of(path);
        let io = |error| Error::from(crate::Error::io("make the directory for", &shown, error));
        match (parts.split_last(), kind) {
            (_, FileKind::Directory) => {
                self.target.directory(&parts).map_err(&io)?;
                Ok(Placed::Directory(path.to_vec(), metadata))
            }
            (Some((name, parents)), _) => {
                let parent = self.target.directory(parents).map_err(&io)?;
                self.target.refuse_file_of_pack(&parent, name).map_err(io)?;
                let name: OsString = name.to_os_string();
                Ok(Placed::Other(kind, Destination { parent, name, key: path.to_vec(), metadata }))
            }
            (None, _) => Err(Error::Invalid("the empty path can only be a directory".into())),
        }
    }

    fn metadata(&self, attributes: &Attributes) -> FileMetadata {
        let (mode, mtime_ns, owner) = (attributes.mode(), attributes.mtime_ns(), attributes.owner());
        FileMetadata::new(mode, mtime_ns, owner, self.tree.with_owner)
            .with_xattrs(attributes.xattrs(), self.tree.xattrs)
            .with_holes(attributes.holes())
    }

    /// Notes failures and directories.
    fn note_placed(&mut self, placed: Result<Option<Placed>, Box<Failure>>) -> Option<Placed> {
        match placed {
            Ok(Some(Placed::Directory(path, metadata))) => self.directories.push((path, metadata)),
            Err(failure) => self.writing.fail(failure.key, failure.error),
            Ok(placed) => return placed,
        }
        None
    }

    fn make_links(&mut self) {
        let mut linking = Linking {
            pack: self.pack,
            xattrs: self.tree.xattrs,
            target: &mut self.target,
            writing: self.writing,
            stands_for: HashMap::new(),
        };
        for link in std::mem::take(&mut self.links) {
            let (interrupted, bytes) = {
                let summary = self.writing.summary();
                (summary.interrupted, summary.bytes)
            };
            if interrupted || !(self.progress)(self.seen, bytes) {
                self.writing.summary().interrupted = true;
                return;
            }
            linking.make(link, &mut |ahead| (self.progress)(self.seen, bytes + ahead));
        }
    }

    /// Modes and times of directories, the deepest first, so that nothing is made in a directory
    /// afterwards.
    fn set_directory_metadata(&mut self) {
        self.directories.sort_by(|a, b| b.0.cmp(&a.0));
        for (path, metadata) in std::mem::take(&mut self.directories) {
            match self.target.set_directory_metadata(&path, &metadata, self.tree.overwrite) {
                Ok(MetadataOutcome::Set(unset)) => {
                    let mut summary = self.writing.summary();
                    summary.directories += 1;
                    summary.unset_xattrs.note(&path, unset);
                }
                Ok(MetadataOutcome::Kept) => {}
                Ok(MetadataOutcome::TooOpen) => self.writing.summary().keep(path, WhyKept::TooOpen),
                Err(error) => {
                    let shown = self.target.path_of(&path);
                    let error = crate::Error::io("set mode and time of", shown, error);
                    self.writing.fail(path, error.into());
                }
            }
        }
    }
}
