//! How files get their names in a destination.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::{FileType, Stat};

use super::body::FileJob;
use super::decide::Place;
use super::destination::{Pending, Receiver, Spot, Way};
use super::events::{Action, Why};
use super::refuse::Inode;
use crate::hash::Digest;
use crate::tree::existing::Plan;
use crate::tree::outbox::{Backup, Durability, NewFile, NewName, OutFile, Published, SYNC, Waiting};
use crate::tree::target::{self, FileMetadata, Unset};
use crate::tree::{Kind, Overwrite};

/// What was to be done when no name was found under which something is kept.
const NAME_BACKUP: &str = "choose a name for what is replaced by";

/// A file whose bytes are written.
pub(super) struct Written {
    pub(super) place: Place,
    pub(super) file: OutFile,
    pub(super) metadata: FileMetadata,
    pub(super) digests: Arc<[Digest]>,
    /// The proof of its parts, if it has one that is wanted.
    pub(super) proof: Option<Arc<[u8]>>,
    pub(super) way: Way,
}

impl Receiver {
    /// Gives a whole file its attributes and its name, or has it wait for that.
    pub(super) fn finish(&self, written: Written) {
        let Written { place, file, metadata, digests, proof, way } = written;
        let Place { job, spot, why, plan, there, .. } = place;
        let unset = match file.set_metadata(&metadata) {
            Ok(unset) => unset,
            Err(error) => return self.fail_written("set mode and time of", &job, error),
        };
        let backup = match self.backup_of(&job.key, &spot, plan, there) {
            Ok(backup) => backup,
            Err(error) => return self.fail_written(NAME_BACKUP, &job, error),
        };
        let name = spot.name;
        let (key, len, is_alone) = (job.key.to_vec(), job.node.len, job.is_alone);
        // Others may have it get its name as soon as it waits.
        self.state().pending.insert(key.clone(), Pending { job, why, digests, proof, way });
        let waiting = Waiting { file, name, key, len, unset, backup, is_alone };
        self.note_published(self.batch.put_noted(&self.outbox, waiting, self));
    }

    /// How what is replaced is kept, if it is. `of` is what was looked at, where that was before.
    pub(super) fn backup_of(
        &self,
        key: &[u8],
        spot: &Spot,
        plan: Plan,
        of: Option<Inode>,
    ) -> io::Result<Option<Backup>> {
        let Some(backups) = self.backups.as_ref().filter(|_| plan.replaces().is_any()) else {
            return Ok(None);
        };
        let name = self.name_backup(backups, key, (&spot.parent, &spot.name), false)?;
        Ok(Some(Backup { name, of }))
    }

    /// A file that waits for its name does not get it: its source has changed since.
    pub(super) fn withdraw(&self, key: &[u8]) {
        if let Some(len) = self.batch.withdraw(key) {
            self.state().pending.remove(key);
            self.take_back(len);
        }
    }

    /// All files that wait get their names.
    pub(super) fn publish_waiting(&self) {
        self.note_published(self.batch.publish_noted(&self.outbox, self));
    }

    fn note_published(&self, all: Vec<Published>) {
        for Published { key, unset, parent, name, is_same, result, .. } in all {
            // Files that wait were noted before.
            let pending = self.state().pending.remove(&key);
            let Some(pending) = pending else {
                let why = "two files were to get this name; which of them has it is not known";
                self.fail_io("give its name to", &key, io::Error::other(why));
                continue;
            };
            match result {
                Ok(()) => self.note_done(&pending, unset),
                // It is not known whose bytes were lost, and a second sync would not say it either.
                Err((SYNC, _)) if self.is_written_again(&pending.job) => {
                    self.take_back(pending.job.node.len);
                    self.write_again(pending.job);
                }
                Err(why) => self.note_unnamed(&pending.job, &Spot { parent, name }, is_same, why),
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
        let Pending { job, why, digests, way, .. } = pending;
        self.add_file();
        self.record_done(job, digests);
        if let Some(read_back) = &self.read_back {
            read_back.note(self.index, &job.key, job.node.len, digests);
        }
        {
            let mut state = self.state();
            state.report.files += 1;
            state.report.bytes += job.node.len;
            state.report.cloned += u64::from(*way == Way::Cloned);
            state.report.copied_by_server += u64::from(*way == Way::CopiedByServer);
            state.report.backups += u64::from(self.options.backup.is_some() && *why != Why::New);
            state.report.unset_xattrs.note(&job.key, unset);
        }
        self.note_first(&job.key, &job.node, true);
        self.report_read(job, (Action::Copy, *why), digests);
    }

    /// Notes why a file did not get its name. What came in between stays, and may have the same
    /// bytes.
    fn note_unnamed(
        &self,
        job: &FileJob,
        spot: &Spot,
        is_same: bool,
        (operation, error): (&'static str, io::Error),
    ) {
        let came = match error.kind() {
            io::ErrorKind::AlreadyExists => target::status(&spot.parent, &spot.name).ok().flatten(),
            _ => None,
        };
        let spelled = came.map(|came| self.check_spelling(&job.key, (&spot.parent, &spot.name), &came));
        if let Some(Err(taken)) = spelled {
            self.fail_written(operation, job, taken);
        } else if is_same {
            self.take_back(job.node.len);
            self.state().report.unchanged += 1;
            self.report_file(job, (Action::Skip, Why::Same));
        } else if came.is_some_and(|came| !is_directory(&came)) {
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
}

fn is_directory(status: &Stat) -> bool {
    FileType::from_raw_mode(status.st_mode).is_dir()
}

/// Why something is replaced.
pub(super) fn why_of(plan: Plan, overwrite: Overwrite) -> Why {
    match (plan, overwrite) {
        (Plan::Write, _) => Why::New,
        (_, Overwrite::Always) => Why::Asked,
        (_, Overwrite::Older) => Why::Older,
        _ => Why::Content,
    }
}

/// The name that something gets.
pub(super) fn new_name<'a>(spot: &'a Spot, plan: Plan, backup: Option<&'a Backup>) -> NewName<'a> {
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
