//! What only a destination has, deleted once everything has been copied.
//!
//! Nothing is followed: each directory is opened below the one before, and a name is removed from
//! the very directory that it was found in.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::{Dir, FileType, Mode, OFlags};

use super::destination::Receiver;
use super::events::{Action, Why};
use super::listing::joined;
use super::options::CopyOptions;
use super::source::CopySource;
use crate::tree::outbox::again;
use crate::tree::target;
use crate::tree::{Kind, NodeId};

/// Deletes in one destination.
pub(super) struct Mirror<'a> {
    pub(super) receiver: &'a Receiver,
    pub(super) sources: &'a [CopySource],
    pub(super) is_contents: bool,
    pub(super) is_stopped: &'a dyn Fn() -> bool,
}

impl Mirror<'_> {
    /// Deletes what the sources do not have, in each directory that was copied.
    pub(super) fn run(&self) {
        for source in self.sources {
            let key = match self.is_contents {
                true => Vec::new(),
                false => source.name.clone().unwrap_or_default(),
            };
            // A file has nothing that could be extra.
            if !matches!(source.is_directory(), Ok(true)) {
                continue;
            }
            let skipped = if key.is_empty() { 0 } else { key.len() + 1 };
            let (mut waiting, mut extra) = (vec![(key, Some(source.id))], Vec::new());
            while let Some((key, id)) = waiting.pop() {
                if id.is_none() {
                    extra.push(key.clone());
                }
                if (self.is_stopped)() || self.receiver.is_stopped() {
                    return;
                }
                if let Err((operation, error)) = self.directory(source, &key, id, skipped, &mut waiting) {
                    self.receiver.fail_io(operation, &key, error);
                }
            }
            // Those further down come after those that they lie in.
            extra.iter().rev().for_each(|key| self.delete_emptied(key));
        }
    }

    /// Deletes what is extra in a directory, and notes which directories in it to look into.
    /// Without a node all in it is extra.
    fn directory(
        &self,
        source: &CopySource,
        key: &[u8],
        id: Option<NodeId>,
        skipped: usize,
        waiting: &mut Vec<(Vec<u8>, Option<NodeId>)>,
    ) -> Result<(), (&'static str, io::Error)> {
        let there = {
            let Some(mut target) = self.receiver.target() else { return Ok(()) };
            let parts = target::parts(key).unwrap_or_default();
            target.existing(&parts).map_err(|error| ("open", error))?
        };
        let Some(directory) = there else { return Ok(()) };
        for name in names_of(&directory).map_err(|error| ("list", error))? {
            let key = joined(key, name.as_bytes());
            let path = key.get(skipped..).unwrap_or_default().to_vec();
            if self.receiver.options.selection.excludes(&path, true) {
                continue;
            }
            // What the source does not say cannot be deleted.
            let found = match id.map(|id| source.tree.lookup(id, name.as_bytes())).transpose() {
                Ok(found) => found.flatten(),
                Err(error) => {
                    self.receiver.fail(&key, error);
                    continue;
                }
            };
            match found {
                Some(found) if is_directory(&directory, &name) => waiting.push((key, Some(found))),
                Some(_) => {}
                None if self.is_spared(&path, &name) => {}
                // The selection may leave out something in it, and that stays.
                None if self.may_spare_below() && is_directory(&directory, &name) => {
                    waiting.push((key, None))
                }
                None => self.delete(&directory, &name, &key),
            }
        }
        Ok(())
    }

    /// Whether a path stays whatever the sources have: one that the selection leaves out, and what
    /// was kept before.
    fn is_spared(&self, path: &[u8], name: &OsStr) -> bool {
        let CopyOptions { selection, only, backup, .. } = &*self.receiver.options;
        let is_backup = |suffix: &OsString| name.as_bytes().ends_with(suffix.as_bytes());
        only.is_some() || backup.as_ref().is_some_and(is_backup) || !selection.takes_below(path, || true)
    }

    /// Whether an extra directory may have something in it that stays. With a backup nothing of it
    /// is lost.
    fn may_spare_below(&self) -> bool {
        let options = &self.receiver.options;
        options.backup.is_none() && !options.selection.is_all()
    }

    /// Deletes an extra directory, if nothing stayed in it.
    fn delete_emptied(&self, key: &[u8]) {
        if self.receiver.options.dry_run {
            return;
        }
        let parts = target::parts(key).unwrap_or_default();
        let Some((name, parents)) = parts.split_last() else { return };
        let parent = self.receiver.target().map(|mut target| target.existing(parents)).transpose();
        let removed = parent.and_then(|parent| match parent.flatten() {
            Some(parent) => again(|| self.receiver.calls.remove_directory(parent.as_fd(), name)),
            None => Err(io::ErrorKind::NotFound.into()),
        });
        match removed {
            Ok(()) => self.note_deleted(key, Kind::Directory),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) => self.receiver.fail_io("delete", key, error),
        }
    }

    fn note_deleted(&self, key: &[u8], kind: Kind) {
        self.receiver.state().report.deleted.push(key.to_vec());
        self.receiver.report(key, (kind, 0), (Action::Delete, Why::Extra), Arc::default());
    }

    /// Deletes a file, or a directory with all that is in it.
    fn delete(&self, directory: &Arc<OwnedFd>, name: &OsStr, key: &[u8]) {
        let kind = match target::status(directory, name) {
            Ok(Some(there)) => Kind::of(FileType::from_raw_mode(there.st_mode)),
            Ok(None) => return,
            Err(error) => return self.receiver.fail_io("look for", key, error),
        };
        let options = &self.receiver.options;
        let deleted = match (&options.backup, kind) {
            _ if options.dry_run => Ok(()),
            (Some(suffix), _) => {
                let mut kept = name.to_os_string();
                kept.push(suffix);
                self.receiver.calls.rename(directory.as_fd(), name, &kept)
            }
            (None, Kind::Directory) => self.delete_directory(directory, name),
            (None, _) => again(|| self.receiver.calls.unlink(directory.as_fd(), name)),
        };
        match deleted {
            Ok(()) => self.note_deleted(key, kind),
            Err(error) => self.receiver.fail_io("delete", key, error),
        }
    }

    /// Deletes a directory with all that is in it: what is deepest first, with no more open than
    /// the directory that is emptied and the ones above it.
    fn delete_directory(&self, parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let opened = open_directory(parent, name)?;
        let mut above: Vec<(OwnedFd, OsString)> = Vec::new();
        let (mut here, mut here_name) = (opened, name.to_os_string());
        loop {
            let next = self.empty(&here)?;
            match next {
                Some(inner) => {
                    let opened = open_directory(&here, &inner)?;
                    above.push((
                        std::mem::replace(&mut here, opened),
                        std::mem::replace(&mut here_name, inner),
                    ));
                }
                None => match above.pop() {
                    Some((outer, outer_name)) => {
                        again(|| self.receiver.calls.remove_directory(outer.as_fd(), &here_name))?;
                        (here, here_name) = (outer, outer_name);
                    }
                    None => {
                        return again(|| self.receiver.calls.remove_directory(parent.as_fd(), &here_name));
                    }
                },
            }
        }
    }

    /// Removes what is in a directory but its directories, of which the first is returned.
    fn empty(&self, directory: &OwnedFd) -> io::Result<Option<OsString>> {
        for name in names_of(directory)? {
            if is_directory(directory, &name) {
                return Ok(Some(name));
            }
            again(|| self.receiver.calls.unlink(directory.as_fd(), &name))?;
        }
        Ok(None)
    }
}

fn open_directory(parent: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

fn is_directory(parent: &OwnedFd, name: &OsStr) -> bool {
    matches!(target::status(parent, name), Ok(Some(there)) if FileType::from_raw_mode(there.st_mode).is_dir())
}

/// All names in a directory.
fn names_of(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::with_capacity(64);
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_os_string());
        }
    }
    Ok(names)
}
