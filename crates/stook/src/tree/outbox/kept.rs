//! Files that stay when the run that writes them ends before they are whole, so that the next run
//! continues them.
//!
//! Such a file has a temporary name that follows from its final one, and beside it lies a journal.
//! What is in that only its writer knows; here are names, locks and what is removed. Who holds the
//! lock of the file that has the temporary name, and nobody else, removes or renames it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

use super::{OutFile, Outbox, Replaces, again, is_append_only};
use crate::tree::durable::identity;
use crate::tree::existing::mtime_of;
use crate::tree::target;

/// How long a file stays that no run has continued: its source may never come back, and it takes
/// room.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Hexadecimal digits of the hash of a name.
const DIGITS: usize = 16;

/// The names of a file that is kept, and of its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptNames {
    pub(super) part: OsString,
    pub(super) journal: OsString,
}

impl KeptNames {
    /// Those of the file that is to have this name.
    pub(super) fn of(name: &OsStr) -> Self {
        let hash = blake3::hash(name.as_bytes()).to_hex();
        Self::with(hash.get(..DIGITS).unwrap_or_default())
    }

    /// Those of which this is one.
    pub(super) fn beside(one: &OsStr) -> Self {
        let digits = one.as_bytes().get(b".stook-".len()..).and_then(|rest| rest.get(..DIGITS));
        Self::with(&String::from_utf8_lossy(digits.unwrap_or_default()))
    }

    /// The digits that both have.
    pub(super) fn digits(&self) -> &[u8] {
        let digits = self.part.as_bytes().get(b".stook-".len()..).and_then(|rest| rest.get(..DIGITS));
        digits.unwrap_or_default()
    }

    fn with(digits: &str) -> Self {
        Self {
            part: format!(".stook-{digits}.part").into(),
            journal: format!(".stook-{digits}.journal").into(),
        }
    }
}

/// Whether a file of which this is the journal is not to be kept any longer: it has no journal, or
/// nothing was added to that for long.
pub(super) fn is_past_use(directory: &OwnedFd, journal: &OsStr) -> bool {
    let there = match target::status(directory, journal) {
        Ok(Some(there)) if FileType::from_raw_mode(there.st_mode).is_file() => there,
        Ok(_) => return true,
        // What cannot be looked at stays.
        Err(_) => return false,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age_ns = i128::try_from(now.as_nanos()).unwrap_or(i128::MAX) - mtime_of(&there);
    age_ns > KEPT_FOR.as_nanos().cast_signed()
}

/// The room that a file takes that is kept for a path, and that this user could continue.
pub(crate) fn kept_room(path: &Path) -> u64 {
    let Some(name) = path.file_name() else { return 0 };
    let names = KeptNames::of(name);
    let kept = path.with_file_name(names.part).symlink_metadata();
    let journal = path.with_file_name(names.journal).symlink_metadata();
    let user = rustix::process::geteuid();
    let is_own = |of: &std::fs::Metadata| of.uid() == user.as_raw();
    match (kept, journal) {
        (Ok(kept), Ok(journal)) if is_own(&journal) && (is_own(&kept) || user.is_root()) => {
            kept.blocks().saturating_mul(512)
        }
        _ => 0,
    }
}

/// A file that stays if its run wants it to, and its journal.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Dropped, it is removed with its journal.
    pub(crate) file: OutFile,
    pub(crate) journal: File,
}

impl Outbox {
    /// The file that an earlier run left for this name, with its journal; `None` if there is none
    /// that can be used.
    ///
    /// # Errors
    /// `WouldBlock` while another run uses it; I/O errors. Then the file is not to be touched, nor
    /// one begun.
    pub(crate) fn find_kept(
        &self,
        parent: &Arc<OwnedFd>,
        name: &OsStr,
        replaces: Replaces,
    ) -> io::Result<Option<Kept>> {
        let names = KeptNames::of(name);
        let Some(there) = target::status(parent, &names.part)? else { return Ok(None) };
        let is_given_away = !is_own(&there) && self.is_given_away(parent, &names, &there)?;
        if !is_own(&there) && !is_given_away {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let opened = match open(parent, &names.part, OFlags::RDWR) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                open(parent, &names.part, OFlags::RDONLY).map(|file| (file, false))
            }
            opened => opened.map(|file| (file, true)),
        };
        let (file, is_writable) = opened?;
        again(|| self.calls.lock(&file))?;
        if is_given_away {
            self.take_back(&file)?;
        }
        // Who held the lock until now may have given it its final name, or removed it.
        if !self.has_name(parent, &names.part, &file)? {
            return Ok(None);
        }
        let journal = self.open_journal(parent, &names.journal)?;
        let file = self.kept_file(parent, names, file, replaces)?;
        match journal {
            Some(journal) if is_writable => Ok(Some(Kept { file, journal })),
            // It is removed.
            _ => Ok(None),
        }
    }

    /// Whether a file is one of root's that has the owner of its source already: only root gives
    /// files away, and its journal is still its own.
    fn is_given_away(&self, parent: &OwnedFd, names: &KeptNames, there: &Stat) -> io::Result<bool> {
        let has_journal = target::status(parent, &names.journal)?.is_some_and(|journal| is_own(&journal));
        Ok(has_journal && is_single_file(there) && rustix::process::geteuid().is_root())
    }

    /// Makes root the owner again, and nobody else may open it.
    fn take_back(&self, file: &File) -> io::Result<()> {
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        again(|| self.calls.set_owner(file.as_fd(), own))?;
        again(|| self.calls.set_mode(file.as_fd(), 0o600))
    }

    /// Begins a file that may stay, with an empty journal.
    ///
    /// # Errors
    /// I/O errors; that another run has begun one, or that there are no locks.
    pub(crate) fn begin_kept(
        &self,
        parent: &Arc<OwnedFd>,
        name: &OsStr,
        replaces: Replaces,
    ) -> io::Result<Kept> {
        if is_append_only(parent) {
            // It could neither get its name nor be removed.
            return Err(io::ErrorKind::Unsupported.into());
        }
        let names = KeptNames::of(name);
        let file = again(|| self.calls.create(parent.as_fd(), &names.part, 0o600))?;
        match again(|| self.calls.lock(&file)) {
            Ok(()) => {}
            // Another run took it for left, and removes it.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            Err(error) => {
                let _ = self.remove(parent, &names.part);
                return Err(error);
            }
        }
        if !self.has_name(parent, &names.part, &file)? {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let journal_name = names.journal.clone();
        let file = self.kept_file(parent, names, file, replaces)?;
        self.remove(parent, &journal_name)?;
        let journal = again(|| self.calls.create(parent.as_fd(), &journal_name, 0o600))?;
        Ok(Kept { file, journal })
    }

    fn has_name(&self, parent: &OwnedFd, name: &OsStr, file: &File) -> io::Result<bool> {
        let opened = fstat(file)?;
        let is_it = |there: Stat| (there.st_dev, there.st_ino) == (opened.st_dev, opened.st_ino);
        Ok(target::status(parent, name)?.is_some_and(is_it) && is_own(&opened))
    }

    /// Opens a journal; `None` if there is none, or it is something else.
    fn open_journal(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<Option<File>> {
        if !target::status(parent, name)?.is_some_and(|there| is_own(&there)) {
            return Ok(None);
        }
        let file = open(parent, name, OFlags::RDWR)?;
        Ok(is_own(&fstat(&file)?).then_some(file))
    }

    fn kept_file(
        &self,
        parent: &Arc<OwnedFd>,
        names: KeptNames,
        file: File,
        replaces: Replaces,
    ) -> io::Result<OutFile> {
        // So that its file system is known when files are synced.
        self.has_unnamed(parent, false)?;
        let (made, (device, _)) = (fstat(&file)?, identity(&file)?);
        let (calls, parent, own_names) = (self.calls.clone(), parent.clone(), self.names.clone());
        let (temporary, journal) = (Some(names.part), Some(names.journal));
        Ok(OutFile {
            calls,
            file,
            made,
            device,
            parent,
            temporary,
            names: own_names,
            replaces,
            journal,
            stays: false,
        })
    }
}

impl OutFile {
    /// It stays as it is, with its journal, for the next run.
    pub(crate) fn keep(mut self) {
        self.stays = self.journal.is_some();
    }

    /// The number of its inode.
    pub(crate) fn inode(&self) -> u64 {
        self.made.st_ino
    }

    /// Makes the names in its directory durable.
    pub(crate) fn sync_directory(&self) -> io::Result<()> {
        self.calls.sync(self.parent.as_fd())
    }

    /// Removes the journal: the file has its name, or is given up. What cannot be removed is only
    /// untidy, and the next run that comes here does it.
    pub(super) fn remove_journal(&mut self) {
        if let Some(journal) = self.journal.take() {
            let _ = again(|| self.calls.unlink(self.parent.as_fd(), &journal));
        }
    }
}

/// Whether something may be a file that this user left: a regular one with one name.
fn is_own(there: &Stat) -> bool {
    is_single_file(there) && there.st_uid == rustix::process::geteuid().as_raw()
}

fn is_single_file(there: &Stat) -> bool {
    FileType::from_raw_mode(there.st_mode) == FileType::RegularFile && there.st_nlink == 1
}

fn open(parent: &OwnedFd, name: &OsStr, access: OFlags) -> io::Result<File> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match openat(parent, name, flags, Mode::empty()) {
        Ok(file) => Ok(File::from(file)),
        Err(Errno::ACCESS | Errno::PERM) => Err(io::ErrorKind::PermissionDenied.into()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::outbox::{System, remove_stale};

    #[test]
    fn one_run_has_a_kept_file_at_a_time_and_its_room_is_known() {
        let place = tempfile::tempdir().unwrap();
        let parent = Arc::new(target::open(place.path()).unwrap());
        let outbox = || Outbox::new(Arc::new(System)).unwrap();
        let (one, other, name) = (outbox(), outbox(), OsStr::new("name"));
        let names = || place.path().read_dir().unwrap().count();
        let path = place.path().join(name);
        assert!(one.find_kept(&parent, name, Replaces::Nothing).unwrap().is_none());
        assert_eq!(kept_room(&path), 0);
        let kept = one.begin_kept(&parent, name, Replaces::Nothing).unwrap();
        kept.file.write_at(&[7; 100_000], 0).unwrap();
        kept.file.sync().unwrap();
        assert!(kept_room(&path) >= 100_000);
        // While it is written, no other touches it.
        let busy = other.find_kept(&parent, name, Replaces::Nothing).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::WouldBlock);
        assert!(other.begin_kept(&parent, name, Replaces::Nothing).is_err());
        remove_stale(&System, &parent, 100);
        assert_eq!(names(), 2);
        kept.file.keep();
        remove_stale(&System, &parent, 100);
        assert_eq!(names(), 2);
        let mut again = other.find_kept(&parent, name, Replaces::Nothing).unwrap().unwrap();
        again.file.publish(name, None).unwrap();
        assert_eq!((names(), path.metadata().unwrap().len()), (1, 100_000));
        // What is dropped is removed.
        drop(one.begin_kept(&parent, name, Replaces::All).unwrap());
        assert_eq!(names(), 1);
    }
}
