//! How files, links and special files get their names in a destination.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::{FileType, Stat};

use super::body::FileJob;
use super::decide::Place;
use super::destination::{Noted, Pending, Receiver, Spot, Way};
use super::events::{Action, Why};
use super::listing::Found;
use crate::hash::Digest;
use crate::tree::existing::{self, Plan};
use crate::tree::outbox::{Durability, NewFile, NewName, OutFile, Published, SYNC, Waiting};
use crate::tree::target::{self, FileMetadata, Unset};
use crate::tree::{Kind, Node, Overwrite, Xattrs};

/// What was to be done when no name was found under which something is kept.
const NAME_BACKUP: &str = "choose a name for what is replaced by";

/// A file whose bytes are written.
pub(super) struct Written {
    pub(super) place: Place,
    pub(super) file: OutFile,
    pub(super) metadata: FileMetadata,
    pub(super) digests: Arc<[Digest]>,
    pub(super) way: Way,
}

impl Receiver {
    /// Gives a whole file its attributes and its name, or has it wait for that.
    pub(super) fn finish(&self, written: Written) {
        let Written { place, file, metadata, digests, way } = written;
        let Place { job, spot, why, plan, .. } = place;
        let unset = match file.set_metadata(&metadata) {
            Ok(unset) => unset,
            Err(error) => return self.fail_written("set mode and time of", &job, error),
        };
        let backup = match self.backup_of(&job.key, &spot, plan) {
            Ok(backup) => backup,
            Err(error) => return self.fail_written(NAME_BACKUP, &job, error),
        };
        let name = spot.name;
        let (key, len, is_alone) = (job.key.to_vec(), job.node.len, job.is_alone);
        // Others may have it get its name as soon as it waits.
        self.state().pending.insert(key.clone(), Pending { job, why, digests, way });
        let waiting = Waiting { file, name, key, len, unset, backup, is_alone };
        self.note_published(self.batch.put_noted(&self.outbox, waiting, self));
    }

    /// The name under which what is replaced is kept.
    fn backup_of(&self, key: &[u8], spot: &Spot, plan: Plan) -> io::Result<Option<OsString>> {
        let backups = self.backups.as_ref().filter(|_| plan.replaces().is_any());
        backups.map(|backups| backups.name_for(key, &spot.parent, false)).transpose()
    }

    /// All files that wait get their names.
    pub(super) fn publish_waiting(&self) {
        self.note_published(self.batch.publish_noted(&self.outbox, self));
    }

    fn note_published(&self, all: Vec<Published>) {
        for Published { key, unset, parent, name, is_same, result, .. } in all {
            // Files that wait were noted before.
            let Some(pending) = self.state().pending.remove(&key) else { continue };
            match result {
                Ok(()) => self.note_done(&pending, unset),
                // It is not known whose bytes were lost, and a second sync would not say it either.
                Err((SYNC, _)) if self.is_written_again(&pending.job) => {
                    self.take_back(pending.job.node.len);
                    self.write_again(pending.job);
                }
                // What came in between has the same bytes.
                Err(_) if is_same => {
                    self.take_back(pending.job.node.len);
                    self.state().report.unchanged += 1;
                    self.report_file(&pending.job, (Action::Skip, Why::Same));
                }
                Err((operation, error)) => {
                    self.note_unnamed(&pending, &Spot { parent, name }, operation, error);
                }
            }
        }
    }

    /// Whether a file is written once more because it could not be made durable: one that waited
    /// for the sync of others, too.
    pub(super) fn is_written_again(&self, job: &FileJob) -> bool {
        self.options.durability == Durability::Batch && !job.is_alone && !self.is_stopped()
    }

    /// Notes that a file has its name.
    fn note_done(&self, pending: &Pending, unset: Unset) {
        let Pending { job, why, digests, way } = pending;
        self.add_file();
        self.record_done(job, digests);
        {
            let mut state = self.state();
            state.report.files += 1;
            state.report.bytes += job.node.len;
            state.report.cloned += u64::from(*way == Way::Cloned);
            state.report.copied_by_server += u64::from(*way == Way::CopiedByServer);
            state.report.backups += u64::from(self.options.backup.is_some() && *why != Why::New);
            state.report.unset_xattrs.note(&job.key, unset);
            if job.node.links > 1 {
                state.firsts.insert(job.key.to_vec());
            }
        }
        self.report(&job.key, (Kind::File, job.node.len), (Action::Copy, *why), digests.clone());
    }

    /// Notes why a file did not get its name. What came in between stays.
    fn note_unnamed(&self, pending: &Pending, spot: &Spot, operation: &'static str, error: io::Error) {
        let job = &pending.job;
        let is_between = error.kind() == io::ErrorKind::AlreadyExists
            && matches!(target::status(&spot.parent, &spot.name), Ok(Some(there)) if !is_directory(&there));
        if is_between {
            self.take_back(job.node.len);
            self.keep(&job.key, (Kind::File, job.node.len), Why::Content);
        } else {
            self.fail_written(operation, job, error);
        }
    }

    /// A file whose bytes were counted as written.
    fn fail_written(&self, operation: &'static str, job: &FileJob, error: io::Error) {
        self.take_back(job.node.len);
        self.fail_io(operation, &job.key, error);
    }

    /// Where something goes that is no file, and whether it replaces what is there; `None` where
    /// nothing is done, which is noted.
    fn place_other(
        &self,
        found: &Found,
        action: Action,
        is_same: impl Fn(&Spot) -> io::Result<bool>,
    ) -> Option<(Spot, Plan)> {
        let (key, of) = (found.key.as_slice(), (found.node.kind, 0));
        if self.is_stopped() {
            return None;
        }
        let spot = match self.spot(key) {
            Ok(Some(spot)) => spot,
            Ok(None) => {
                self.report(key, of, (action, Why::New), Arc::default());
                return None;
            }
            Err(Noted) => return None,
        };
        let decided = self.plan(&spot, found.node.mtime_ns);
        let decided = decided.and_then(|plan| Ok((plan, plan.compares() && is_same(&spot)?)));
        let (plan, is_same) = match decided {
            Ok(decided) => decided,
            Err(error) => {
                self.fail_io("write", key, error);
                return None;
            }
        };
        if is_same {
            self.note_same(found, &spot);
        } else if plan == Plan::Compare {
            self.keep(key, of, Why::Content);
        } else if self.options.dry_run {
            self.report(key, of, (action, why_of(plan, self.options.overwrite)), Arc::default());
        } else {
            return Some((spot, plan));
        }
        None
    }

    /// Notes that something is there that is no file, after it got the attributes of its source.
    fn note_same(&self, found: &Found, spot: &Spot) {
        let (key, of) = (found.key.as_slice(), (found.node.kind, 0));
        match self.correct_link(found, spot) {
            Ok(is_corrected) => {
                {
                    let mut state = self.state();
                    state.report.unchanged += 1;
                    state.report.corrected += u64::from(is_corrected);
                }
                let what =
                    if is_corrected { (Action::Correct, Why::Metadata) } else { (Action::Skip, Why::Same) };
                self.report(key, of, what, Arc::default());
            }
            Err(error) => self.fail_io("set the time of", key, error),
        }
    }

    /// Makes a symbolic link.
    pub(super) fn symlink(&self, found: &Found, link_to: &[u8], xattrs: Xattrs) {
        let same = |spot: &Spot| existing::is_link_to(&spot.parent, &spot.name, link_to);
        let Some((spot, plan)) = self.place_other(found, Action::Copy, same) else { return };
        let metadata = self.metadata(&found.node, xattrs);
        let made = self.backup_of(&found.key, &spot, plan).and_then(|backup| {
            let new = new_name(&spot, plan, backup.as_deref());
            self.making(&spot.parent, || self.outbox.symlink(&new, link_to, &metadata))
        });
        self.note_other(found, plan, made);
    }

    /// Makes a pipe or a device.
    pub(super) fn special(&self, found: &Found, xattrs: Xattrs) {
        let file_type = match found.node.kind {
            Kind::Fifo => FileType::Fifo,
            Kind::BlockDevice => FileType::BlockDevice,
            _ => FileType::CharacterDevice,
        };
        let same = |spot: &Spot| {
            let there = target::status(&spot.parent, &spot.name)?;
            Ok(there.is_some_and(|there| {
                FileType::from_raw_mode(there.st_mode) == file_type && there.st_rdev == found.node.device
            }))
        };
        let Some((spot, plan)) = self.place_other(found, Action::Copy, same) else { return };
        let metadata = self.metadata(&found.node, xattrs);
        let what = (file_type, found.node.device);
        let made = self.backup_of(&found.key, &spot, plan).and_then(|backup| {
            let new = new_name(&spot, plan, backup.as_deref());
            self.making(&spot.parent, || self.outbox.special(&new, what, &metadata))
        });
        self.note_other(found, plan, made);
    }

    fn note_other(&self, found: &Found, plan: Plan, made: io::Result<Unset>) {
        let (key, of) = (found.key.as_slice(), (found.node.kind, 0));
        match made {
            Ok(unset) => {
                let mut state = self.state();
                match found.node.kind {
                    Kind::Symlink => state.report.symlinks += 1,
                    _ => state.report.specials += 1,
                }
                state.report.backups += u64::from(self.options.backup.is_some() && plan.replaces().is_any());
                state.report.unset_xattrs.note(key, unset);
                drop(state);
                let why = why_of(plan, self.options.overwrite);
                self.report(key, of, (Action::Copy, why), Arc::default());
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.keep(key, of, Why::Content),
            Err(error) => self.fail_io("make", key, error),
        }
    }

    /// Whether what has a name looks like a file.
    fn is_alike(&self, spot: &Spot, node: &Node) -> io::Result<bool> {
        let there = target::status(&spot.parent, &spot.name)?;
        Ok(there.is_some_and(|there| {
            FileType::from_raw_mode(there.st_mode).is_file()
                && u64::try_from(there.st_size).is_ok_and(|len| len == node.len)
                && self.has_time(&spot.parent, &there, node.mtime_ns)
        }))
    }

    /// Makes a hard link to a file that is there; whether the file has to be copied, because its
    /// first name is not.
    pub(super) fn hard_link(&self, found: &Found, first: &[u8]) -> bool {
        if self.is_stopped() {
            return false;
        }
        let from = match self.spot(first) {
            Ok(from) => from,
            Err(Noted) => return false,
        };
        if !self.state().firsts.contains(first) && !self.options.dry_run {
            let is_there = |from: &Spot| matches!(target::status(&from.parent, &from.name), Ok(Some(_)));
            if from.as_ref().is_some_and(is_there) {
                // Another file has the first name, and stays.
                return true;
            }
            // Copied by itself it would stay another file when the first is there.
            let what = "its first name could not be copied, and it is another name of that file";
            self.fail_io("link", &found.key, io::Error::other(what));
            return false;
        }
        let stays = matches!(self.options.overwrite, Overwrite::Never | Overwrite::Older);
        let same = |spot: &Spot| match &from {
            Some(from) => Ok(is_same_file(from, spot)? || stays && self.is_alike(spot, &found.node)?),
            None => Ok(false),
        };
        // What is another file with the same bytes is replaced where it may be.
        let placed = self.place_other(found, Action::HardLink, same);
        let Some((spot, plan)) = placed else { return false };
        let Some(from) = &from else { return false };
        self.list_link(found, first);
        let linked = self.backup_of(&found.key, &spot, plan).and_then(|backup| {
            let new = new_name(&spot, plan, backup.as_deref());
            self.making(&spot.parent, || self.outbox.hard_link((&from.parent, &from.name), &new))
        });
        match linked {
            Ok(()) => {
                self.add_file();
                self.state().report.hard_links += 1;
                let what = (Action::HardLink, why_of(plan, self.options.overwrite));
                self.report(&found.key, (Kind::File, found.node.len), what, Arc::default());
                false
            }
            // File systems without hard links, and files with as many names as they can have.
            Err(error) if cannot_link(&error) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.keep(&found.key, (Kind::File, found.node.len), Why::Content);
                false
            }
            Err(error) => {
                self.fail_io("link", &found.key, error);
                false
            }
        }
    }
}

fn is_directory(status: &Stat) -> bool {
    FileType::from_raw_mode(status.st_mode).is_dir()
}

fn why_of(plan: Plan, overwrite: Overwrite) -> Why {
    match (plan, overwrite) {
        (Plan::Write, _) => Why::New,
        (_, Overwrite::Always) => Why::Asked,
        (_, Overwrite::Older) => Why::Older,
        _ => Why::Content,
    }
}

/// Whether two names are of one file.
fn is_same_file(one: &Spot, other: &Spot) -> io::Result<bool> {
    let of = |spot: &Spot| -> io::Result<Option<(u64, u64)>> {
        let status = target::status(&spot.parent, &spot.name)?;
        Ok(status.map(|status| (status.st_dev, status.st_ino)))
    };
    let one = of(one)?;
    Ok(one.is_some() && one == of(other)?)
}

fn cannot_link(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let refused = [Errno::PERM, Errno::OPNOTSUPP, Errno::MLINK, Errno::XDEV, Errno::NOSYS];
    Errno::from_io_error(error).is_some_and(|errno| refused.contains(&errno))
}

/// The first names of files that have several, by source and node.
#[derive(Debug, Default)]
pub(super) struct FirstNames(HashMap<(usize, crate::tree::NodeId), Arc<[u8]>>);

impl FirstNames {
    /// The first name of a file, if this is a further one.
    pub(super) fn first_of(&mut self, found: &Found) -> Option<Arc<[u8]>> {
        if found.node.links < 2 {
            return None;
        }
        let known = (found.source, found.id);
        match self.0.get(&known) {
            Some(first) => Some(first.clone()),
            None => {
                self.0.insert(known, found.key.as_slice().into());
                None
            }
        }
    }
}

/// The name that something gets.
fn new_name<'a>(spot: &'a Spot, plan: Plan, backup: Option<&'a OsStr>) -> NewName<'a> {
    NewName { parent: &spot.parent, name: &spot.name, replaces: plan.replaces(), backup }
}

/// How a file begins. What else is set, and opening it once more, needs rights that its mode may
/// not give.
pub(super) fn new_file(metadata: &FileMetadata, plan: Plan) -> NewFile {
    NewFile { mode: metadata.mode, is_private: true, replaces: plan.replaces() }
}

/// A key as a path, for messages.
pub(super) fn shown(key: &[u8]) -> &OsStr {
    OsStr::from_bytes(key)
}
